"""Stored data of legacy HTTP sessions, and the protocol of the stores that contain it.

A session consists of a record and streams. A stream is a sequence of numbered events. The endpoint stores events before
it sends them, so that a client whose connection broke can receive them again. If the store outlives the process, the
client can also receive them from a restarted server.

    save, load, touch, delete, purge
                                    the record
    subscribe, unsubscribe          the resources that the client subscribed to
    begin, append, delivered        a stream while it runs
    subscriptions, streams, events  the data that a resumption needs
    record_notification, pending_notifications, remove_notifications
                                    the changes of which the client has not been notified yet

Several workers can use one store (`mcp_server.cluster`). A stream belongs to the worker that runs its requests, and only
this worker appends to it, until it has ended. The store allocates the numbers of streams, because two workers may begin
streams of one session at the same time.

A change concerns many sessions. Most of them have no open stream at that moment, and some exist only in the store,
because this process was started after their last use. For that reason a change is recorded for each session that it
concerns, in one step, whichever process serves the session. The event that notifies the client removes the change in
the same step that stores the event. The client is therefore notified once, even if a process is killed and the client
reconnects to another process.

Every store must follow the rules that `SessionStore` states. `mcp_server.stores.contract` checks them.

Spec: basic/transports#session-management, basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from mcp_core.errors import McpError
from mcp_core.field_methods import FieldValue
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject, RequestId

__all__ = [
    "PendingNotification",
    "SessionRecord",
    "SessionStore",
    "StoreError",
    "StoredEvent",
    "StoredStream",
    "is_standalone",
    "next_stream",
]


class StoreError(McpError):
    """A store cannot be opened, read or written. The message states which store, the cause and the remedy."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionRecord(FieldValue):
    """The data of a session, without its streams."""

    id: str
    """The session id."""
    principal: str | None
    """The principal that the session belongs to; `None` if clients are not authenticated."""
    revision: str
    """The negotiated revision."""
    client: JsonObject
    """The parameters of `initialize`, as received."""
    log_level: str | None = None
    """The level that `logging/setLevel` set; `None` if the client did not set one."""
    used_at: float
    """The time of last use, in seconds since the epoch."""


@attrs.frozen(eq=False, repr=False)
class PendingNotification(FieldValue):
    """A change of which the client of a session has not been notified yet. It states what changed, not how often."""

    method: str
    """The method of the notification: `notifications/resources/updated`, or one of the `list_changed` methods."""
    uri: str = ""
    """The URI of the resource for `notifications/resources/updated`; empty for lists."""

    @property
    def is_update(self) -> bool:
        """Whether a resource changed, which concerns its subscribers. A change of a list concerns all sessions."""
        return self.method == NOTIFICATIONS_RESOURCES_UPDATED.name


@attrs.frozen(eq=False, repr=False)
class StoredEvent(FieldValue):
    """One event of a stream."""

    stream: int
    """The number of the stream."""
    number: int
    """The position in the stream: 1, 2, 3, and so on."""
    data: bytes
    """One JSON message; empty for an event that only has an id."""
    answers: RequestId | None = None
    """The id of the request that the event responds to."""
    notification: PendingNotification | None = None
    """The change that the event notifies of. Storing the event removes the pending change. This field is not stored."""


@attrs.frozen(eq=False, repr=False)
class StoredStream(FieldValue):
    """One stream, without its events."""

    stream: int
    """The number of the stream."""
    last: int
    """The number of the last event; 0 if there was no event."""
    pending: tuple[RequestId, ...] = ()
    """The ids of the requests on this stream without a response, in their order; empty after the stream has ended."""
    worker: str = ""
    """The id of the worker that began the stream; empty if an earlier version stored the stream."""

    @property
    def is_standalone(self) -> bool:
        """Whether the stream responds to no request."""
        return is_standalone(self.stream)


def is_standalone(stream: int) -> bool:
    """Return whether the stream with this number is standalone, so that it responds to no request."""
    return stream % 2 == 0


def next_stream(newest: int, *, standalone: bool) -> int:
    """Return the number of a new stream, for authors of stores.

    Args:
        newest: The greatest number that the session has used; 0 or less if it has used none.
        standalone: Whether the stream responds to no request.
    """
    return 2 * ((max(newest, 0) + 1) // 2) + (2 if standalone else 1)


class SessionStore(Protocol):
    """A store of sessions. Several tasks may call its methods concurrently.

    When a method returns, its effect is visible to every later call. In a store that outlives the process, the effect
    is also visible to a process that is started after this process was killed. A cancelled call has its entire effect
    or none.

    A store is bounded by `Limits` or by its own means. If there are too many sessions, the store removes the least
    recently used ones. If a session has too many events, the store removes events of ended streams first, then events
    that are not responses, in both cases the oldest first. It keeps undelivered responses and the newest event. If
    undelivered responses alone reach the bounds, the session cannot begin another stream.

    Raises:
        StoreError: The store failed.
        trio.ClosedResourceError: The store was closed.
    """

    async def save(self, record: SessionRecord) -> tuple[str, ...]:
        """Store a new session, or replace its record. Subscriptions and streams of the session are not changed.

        Returns:
            The ids of the sessions that were removed because there were too many.
        """

    async def load(self, id: str) -> SessionRecord | None:
        """Return the record of a session, or `None` if the session does not exist."""

    async def touch(self, id: str, used_at: float) -> bool:
        """Renew the time of last use of a session.

        Args:
            id: The session id.
            used_at: The time, in seconds since the epoch.

        Returns:
            Whether the session exists. A session that does not exist is not restored.
        """

    async def delete(self, id: str) -> None:
        """Delete a session with its subscriptions and streams. Do nothing if the session does not exist."""

    async def subscribe(self, session: str, uri: str) -> None:
        """Add a resource to the subscriptions of a session.

        The amount of data written does not depend on how many subscriptions the session has. Do nothing if the session
        does not exist, or is subscribed to the resource.

        Args:
            session: The session id.
            uri: The URI of the resource, as the client wrote it.
        """

    async def unsubscribe(self, session: str, uri: str) -> None:
        """Remove a resource from the subscriptions of a session. Do nothing if the session is not subscribed to it.

        Pending notifications that no remaining subscription covers are removed too.
        """

    async def subscriptions(self, session: str) -> frozenset[str]:
        """Return the URIs that a session is subscribed to."""

    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        """Begin a stream.

        Do nothing if the session does not exist, because it may have been deleted in the meantime. The same holds for
        `append` and `delivered`.

        Args:
            session: The session id.
            pending: The ids of the requests whose responses are sent on the stream. Without any, the stream is the
                standalone stream. A session has one standalone stream, so the previous one ends.
            worker: The id of the worker that runs the requests (`Cluster.worker`).

        Returns:
            The number of the stream: greater than all numbers that the session has used, even for a standalone stream,
            and odd for any other (`next_stream`). 0 if the session does not exist.

        Raises:
            LimitExceeded: The undelivered responses have reached the bounds. The stream was not begun.
        """

    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """Store events. After a process is killed during the call, all of the events are stored or none.

        An event whose number is not greater than that of the last event of its stream is already stored and is ignored.
        A call whose outcome is unknown can therefore be repeated.

        Args:
            session: The session id.
            events: The events, in the order of their numbers within each stream. The requests that they respond to and
                the changes that they notify of are then no longer pending.

        Raises:
            LimitExceeded: There is not enough memory for the events. None was stored.
            LocalProtocolError: A stream was not begun or has ended, a number is missing, or the request that an event
                responds to is not pending.
        """

    async def delivered(self, session: str, stream: int) -> None:
        """End a stream: all of it was written to a client, or the rest is not needed.

        The store keeps the events while there is space for them, for a client whose connection broke before it received
        the last bytes. Do nothing if the stream does not exist.
        """

    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """Return the streams of a session, in the order of their numbers.

        An ended stream without remaining events may be missing, except the stream with the greatest number: a number
        above it was never used.
        """

    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """Return the events of a stream whose number is greater than `after`, in their order.

        If the store removed events because of its bounds, the first number may be greater than `after + 1`.
        """

    def record_notification(self, notification: PendingNotification) -> None:
        """Record a change as pending for each session that it concerns.

        Does not block and does not raise: errors are logged. Calls that start later find the change recorded. The
        method may be called at any time. It does nothing after the store was closed.

        A change of a list concerns all sessions. A change of a resource concerns the sessions that are subscribed to
        the resource or to a resource above it: see `mcp_core.engine.subscriptions.covering`. A change that is pending
        for a session is not recorded again. A session has no more than `Limits.watched_resources` pending notifications
        of resources below those that it is subscribed to. Beyond that, or for a URI of more than `Limits.uri_chars`
        characters, the store records the resource of the subscription instead.

        A store whose sessions end with the process can ignore changes, because the process remembers them.

        Args:
            notification: The change.
        """

    async def pending_notifications(self, session: str) -> tuple[PendingNotification, ...]:
        """Return the pending notifications of a session, in the order in which they were first recorded."""

    async def remove_notifications(self, session: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove pending notifications of which the client was notified by other means than an event of a stream."""

    async def purge(self, used_before: float, now: float) -> int:
        """Delete the sessions that have not been used for too long.

        A session that was used after `now` counts as used at `now` from then on: the system clock was set back.
        Otherwise the session would be stored until the clock reaches that time again.

        Args:
            used_before: Sessions last used before this time are deleted. In seconds since the epoch.
            now: The time of day, in seconds since the epoch.

        Returns:
            The number of deleted sessions.
        """

    async def aclose(self) -> None:
        """Close the store. Durable data stays where it is stored. Closing a closed store is not an error."""
