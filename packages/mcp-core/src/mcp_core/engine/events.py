"""What the peer did, as values for the application.

Each event has `notes`: deviations from the specification that were survived, one sentence each. A tolerant receiver
reads past them, and a log or a test shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.engine.server import ServerConnection
    from mcp_core.errors import McpError
    from mcp_core.jsonrpc.messages import JsonObject, Message, RequestId
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.revisions import Revision
    from mcp_core.types import (
        ClientCapabilities,
        Implementation,
        LoggingLevel,
        ProgressNotificationParams,
        ServerCapabilities,
    )

__all__ = [
    "Abandoned",
    "AnswerReceived",
    "CancelReceived",
    "ClientPeer",
    "Event",
    "FailureReceived",
    "Ignored",
    "LogLevelSet",
    "Negotiating",
    "NegotiationEnded",
    "NotificationReceived",
    "Opened",
    "Outgoing",
    "Peer",
    "ProgressReceived",
    "Reaction",
    "RequestReceived",
    "Served",
    "ServerPeer",
    "SessionReplaced",
]


@attrs.frozen(kw_only=True, eq=False)
class ClientPeer:
    """A client, as the server knows it: from the handshake, or from the request itself."""

    revision: Revision
    """The revision that is spoken with it."""
    capabilities: ClientCapabilities
    """What it declared to offer."""
    implementation: Implementation | None = None
    """Who it says it is. Not to be relied on."""
    log_level: LoggingLevel | None = None
    """The least level of log message that it wants; `None` when it did not say."""


@attrs.frozen(kw_only=True, eq=False)
class ServerPeer:
    """A server, as the client knows it: from the handshake, or from `server/discover`."""

    revision: Revision
    """The revision that is spoken with it."""
    capabilities: ServerCapabilities
    """What it declared to offer."""
    implementation: Implementation | None = None
    """Who it says it is. Not to be relied on."""
    instructions: str | None = None
    """How to use it, for a model. Written by the server: untrusted text."""


Peer: TypeAlias = ClientPeer | ServerPeer
"""Whoever is at the other end."""


@attrs.frozen(kw_only=True, eq=False)
class RequestReceived:
    """The peer asks for something. Exactly one `respond` or `fail` is owed, unless it is cancelled."""

    id: RequestId
    """Its id; answer with it."""
    method: str
    """Its method."""
    row: Method[object, object]
    """What is known of the method."""
    params: object
    """The parameters, an instance of `row.params`."""
    raw: JsonObject
    """The parameters as they came, without loss."""
    peer: Peer
    """Who asks, in what revision, with what capabilities."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class NotificationReceived:
    """The peer tells something."""

    method: str
    """Its method, under the name that the specification gives it."""
    row: NotificationRow[object]
    """What is known of the notification."""
    params: object
    """The parameters, an instance of `row.params`."""
    raw: JsonObject
    """The parameters as they came, without loss."""
    subscription: RequestId | None = None
    """The `subscriptions/listen` request that it answers to; `None` when it names none."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class CancelReceived:
    """The peer no longer wants the answer to its request. None is sent from here on."""

    id: RequestId
    """The id of the request."""
    reason: str | None
    """What it says why, for the log."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class ProgressReceived:
    """The peer got on with a request of ours."""

    id: RequestId
    """The id of the request."""
    params: ProgressNotificationParams
    """How far it got."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class AnswerReceived:
    """A request of ours succeeded."""

    id: RequestId
    """The id of the request, as we sent it."""
    method: str
    """Its method."""
    result: object
    """What came out: an instance of the method's result class, or `InputRequiredResult`, or a task."""
    raw: JsonObject
    """The result as it came, without loss."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class FailureReceived:
    """A request of ours failed: the peer says so, or its answer cannot be understood."""

    id: RequestId
    """The id of the request, as we sent it."""
    method: str
    """Its method."""
    error: McpError
    """`RequestFailed` for an error of the peer, `RemoteProtocolError` for an answer that breaks the rules."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class Opened:
    """The two sides have agreed on an era and a revision: by the handshake, or by `server/discover` (client)."""

    peer: Peer
    """Who is at the other end."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class Negotiating:
    """Era and revision are not agreed yet; what to send next is in `Reaction.reply` (client)."""

    method: str
    """What is sent next: `server/discover` or `initialize`."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class NegotiationEnded:
    """There is no way to talk to this server; the connection should be closed (client)."""

    error: McpError
    """Why."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class Served:
    """A request that the engine answered by itself: `initialize`, `ping`, `server/discover`."""

    id: RequestId
    """Its id."""
    method: str
    """Its method."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class SessionReplaced:
    """A second `initialize` ended the legacy session of this connection and began another one; it has been answered.

    Bridges that reuse one pipe for several clients send it. Cancel the handlers of the requests in `abandoned.owed`, fail
    what waits for the requests in `abandoned.asked`, and let handlers that still run use `ended` from here on.
    """

    id: RequestId
    """The id of the second `initialize`."""
    abandoned: Abandoned
    """What was open in the session that ended."""
    ended: ServerConnection
    """A closed connection that holds the requests of the session that ended.

    Ids of requests may be used again in the new session. So a handler of the old one has its own connection, whose
    commands send nothing.
    """
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class LogLevelSet:
    """The client chose the least level of log messages for the session; it has been answered."""

    level: LoggingLevel
    """The level."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


@attrs.frozen(kw_only=True, eq=False)
class Ignored:
    """A message that had no effect here. It did no harm, or was refused in `Reaction.reply`."""

    reason: str
    """Why."""
    message: Message
    """The message."""
    notes: tuple[str, ...] = ()
    """Survived deviations."""


Event: TypeAlias = (
    RequestReceived
    | NotificationReceived
    | CancelReceived
    | ProgressReceived
    | AnswerReceived
    | FailureReceived
    | Negotiating
    | NegotiationEnded
    | Opened
    | Served
    | SessionReplaced
    | LogLevelSet
    | Ignored
)
"""Anything that `receive` can tell."""


@attrs.frozen(eq=False)
class Outgoing:
    """A message to be sent."""

    message: Message
    """The message."""
    for_request: RequestId | None = None
    """The received request whose stream it belongs to; `None` for no request's. One pipe for all may ignore it."""


@attrs.frozen(eq=False)
class Reaction:
    """What one received message led to."""

    event: Event
    """For the application."""
    reply: Outgoing | None = None
    """Must be sent: the answer to a ping, a refusal, the end of a handshake, ..."""


@attrs.frozen(kw_only=True, eq=False)
class Abandoned:
    """What still waited when the connection ended."""

    asked: Mapping[RequestId, str]
    """Requests of ours without an answer: id and method. Each failed now."""
    owed: tuple[RequestId, ...]
    """Requests of the peer that were not answered. Nothing can be sent for them any more."""
