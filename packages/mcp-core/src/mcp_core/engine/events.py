"""Events: the actions of the peer, as values for the application.

Each event has `notes`: the deviations from the specification that the receiver tolerated, one sentence each, for logs
and tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from mcp_core.field_methods import FieldRepr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.errors import McpError
    from mcp_core.jsonrpc.messages import JsonObject, Message, RequestId
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import (
        ClientCapabilities,
        Implementation,
        LoggingLevel,
        ProgressNotificationParams,
        ServerCapabilities,
    )

__all__ = [
    "AbandonedRequests",
    "CancelReceived",
    "ClientPeer",
    "ConnectionOpened",
    "ErrorReceived",
    "Event",
    "LogLevelSet",
    "MessageIgnored",
    "Negotiating",
    "NegotiationEnded",
    "NotificationReceived",
    "Outgoing",
    "Peer",
    "ProgressReceived",
    "ReceiveResult",
    "RequestHandled",
    "RequestReceived",
    "ResultReceived",
    "ServerPeer",
]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientPeer(FieldRepr):
    """A client, as described by the handshake or by the metadata of the request."""

    revision: Revision
    """The negotiated revision."""
    capabilities: ClientCapabilities
    """The capabilities that the client declared."""
    implementation: Implementation | None = None
    """The name and version that the client states: untrusted text."""
    log_level: LoggingLevel | None = None
    """The minimum level of log messages that the client requested; `None` if it requested no level."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerPeer(FieldRepr):
    """A server, as described by the handshake or by `server/discover`."""

    revision: Revision
    """The negotiated revision."""
    capabilities: ServerCapabilities
    """The capabilities that the server declared."""
    implementation: Implementation | None = None
    """The name and version that the server states: untrusted text."""
    instructions: str | None = None
    """Instructions for a model on how to use the server: untrusted text."""


Peer: TypeAlias = ClientPeer | ServerPeer
"""The peer of a connection, as described by its handshake or request."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Event(FieldRepr):
    """The effect of an inbound message: the base class of all events that `receive` returns."""

    notes: tuple[str, ...] = ()
    """Deviations from the specification that were tolerated."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestReceived(Event):
    """A request from the peer. Respond once with `respond` or `fail`, unless the peer cancels the request."""

    id: RequestId
    """The id of the request, to use in the response."""
    method: str
    """The name of the method."""
    definition: RequestMethod[object, object]
    """The definition of the method."""
    params: object
    """The parameters, an instance of `definition.params`."""
    raw: JsonObject
    """The parameters as received, with all unknown members."""
    peer: Peer
    """The sender of the request, with its revision and capabilities."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NotificationReceived(Event):
    """A notification from the peer."""

    method: str
    """The name of the method in the specification; an alias is already replaced."""
    definition: NotificationMethod[object]
    """The definition of the notification."""
    params: object
    """The parameters, an instance of `definition.params`."""
    raw: JsonObject
    """The parameters as received, with all unknown members."""
    subscription: RequestId | None = None
    """The id of the `subscriptions/listen` request that the notification belongs to; `None` if it names none."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CancelReceived(Event):
    """The cancellation of an inbound request. Nothing may be sent for the request after this event."""

    id: RequestId
    """The id of the request."""
    reason: str | None
    """The reason that the peer states, for the log."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProgressReceived(Event):
    """Progress of an outbound request, as reported by the peer."""

    id: RequestId
    """The id of the request."""
    params: ProgressNotificationParams
    """The parameters of the notification: progress, total and message."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResultReceived(Event):
    """The result of an outbound request."""

    id: RequestId
    """The id of the request, as sent."""
    method: str
    """The name of the method."""
    result: object
    """The result: an instance of the method's result class, an `InputRequiredResult`, or a task."""
    raw: JsonObject
    """The result as received, with all unknown members."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ErrorReceived(Event):
    """The failure of an outbound request: an error response, or an invalid result."""

    id: RequestId
    """The id of the request, as sent."""
    method: str
    """The name of the method."""
    error: McpError
    """`RequestFailed` for an error response, `RemoteProtocolError` for an invalid result."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConnectionOpened(Event):
    """The agreement on an era and a revision, by the handshake or by `server/discover` (client)."""

    peer: Peer
    """The peer, with the negotiated revision."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Negotiating(Event):
    """A negotiation that continues; `ReceiveResult.reply` holds the next request (client)."""

    method: str
    """The method of the next request: `server/discover` or `initialize`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NegotiationEnded(Event):
    """The failure of the negotiation; the caller should close the connection (client)."""

    error: McpError
    """The cause of the failure."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestHandled(Event):
    """A request that the engine handled: `initialize`, `ping`, `server/discover`."""

    id: RequestId
    """The id of the request."""
    method: str
    """The name of the method."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LogLevelSet(Event):
    """A new minimum level of log messages for the session; the response is in `ReceiveResult.reply`."""

    level: LoggingLevel
    """The minimum level."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MessageIgnored(Event):
    """A message without effect: it was harmless, or `ReceiveResult.reply` holds the error response."""

    reason: str
    """The reason for ignoring the message."""
    message: Message
    """The message."""


@attrs.frozen(eq=False, repr=False)
class Outgoing(FieldRepr):
    """A message to send."""

    message: Message
    """The message."""
    for_request: RequestId | None = None
    """The id of the inbound request whose stream carries the message; `None` for no request. Pipes ignore it."""


@attrs.frozen(eq=False, repr=False)
class ReceiveResult(FieldRepr):
    """The result of receiving one message: an event for the application, and a reply to send."""

    event: Event
    """The event for the application."""
    reply: Outgoing | None = None
    """The message to send: a ping response, an error response, the next message of the handshake; `None` if none."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AbandonedRequests(FieldRepr):
    """The requests that were pending when the connection closed or the session ended."""

    outbound: Mapping[RequestId, str]
    """Pending outbound requests: method by id. Each of them has failed."""
    inbound: tuple[RequestId, ...]
    """Ids of the pending inbound requests. Nothing can be sent for them."""
