"""What a server remembers of its legacy HTTP sessions, and who remembers it.

A session is a record and streams; a stream is a row of events, each with a number. The endpoint puts events down
before it sends them, so that a client whose connection broke can have them again, and, where the store outlives the
process, from a server that was started anew.

    save, load, delete, purge       the record
    subscribe, unsubscribe          the resources that the client watches
    begin, append, delivered        a stream while it runs
    subscriptions, streams, events  what a resumption needs
    record_notification, pending_notifications, remove_notifications
                                    the changes of which a client has to be notified yet

A change concerns many sessions, and most of them have no stream open at that moment; some are only known to the store,
since this process was started after they were used last. So a change is recorded for each session that it concerns, in
one step, whichever process has the session. The event that notifies the client removes it, in the same step in which it
is put down: the client is notified once, whenever a process is killed and whichever process the client comes back to.

Every store keeps the rules that `SessionStore` states; `mcp_server.stores.contract` checks them.

Spec: basic/transports#session-management, basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from mcp_core.errors import McpError
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject, RequestId

__all__ = ["PendingNotification", "SessionRecord", "SessionStore", "StoreError", "StoredEvent", "StoredStream"]


class StoreError(McpError):
    """A store cannot be opened, read or written; the message says which, why, and what to do."""


@attrs.frozen(kw_only=True)
class SessionRecord:
    """What is known of a session, beside its streams."""

    id: str
    """The session id."""
    principal: str | None
    """Whom it belongs to; `None` where nobody is told apart."""
    revision: str
    """The revision that was agreed."""
    client: JsonObject
    """The parameters of `initialize`, as they came."""
    log_level: str | None = None
    """The level that `logging/setLevel` set; `None` when it was not called."""
    used_at: float
    """When it was used last, in seconds since the epoch."""


@attrs.frozen
class PendingNotification:
    """A change of which the client of a session was not notified yet. It says what is different, not how often."""

    method: str
    """The method of the notification: `notifications/resources/updated`, or the `list_changed` of one of the lists."""
    uri: str = ""
    """The resource, for `notifications/resources/updated`; empty for lists."""

    @property
    def is_update(self) -> bool:
        """Whether it is a change of a resource, which concerns those who watch it; of a list, all sessions."""
        return self.method == NOTIFICATIONS_RESOURCES_UPDATED.name


@attrs.frozen
class StoredEvent:
    """One event of a stream."""

    stream: int
    """The stream."""
    number: int
    """Its place in the stream: 1, 2, 3, and so on."""
    data: bytes
    """One JSON message; empty for the event that only has an id."""
    answers: RequestId | None = None
    """The request that it answers."""
    notification: PendingNotification | None = None
    """The change that it notifies of, which is not pending any more once the event is put down. It is not kept."""


@attrs.frozen
class StoredStream:
    """One stream, without its events."""

    stream: int
    """The stream."""
    last: int
    """The number of its last event; 0 when there was none."""
    owed: tuple[RequestId, ...] = ()
    """The requests that were begun on it and are not answered, in their order; none when it is over."""


class SessionStore(Protocol):
    """Keeps sessions. All of it may be called from several tasks at once.

    When a method returns, what it did is done: another call, and, in a store that outlives the process, a process
    that is started after this one was killed, finds it. When it is cancelled, it was done entirely or not at all.

    A store is bounded, by `Limits` or its own means. When there are too many sessions, those that were not used for
    the longest time go. When a session has too many events, these go: those of streams that are over, then those that
    answer nothing, in both cases the oldest first. An answer that was not delivered stays, and so does the newest
    event; when such answers alone reach the bounds, the session can begin no further stream.

    Raises:
        StoreError: The store cannot do it.
        trio.ClosedResourceError: It was closed.
    """

    async def save(self, record: SessionRecord) -> None:
        """Keep a session, or what has changed about it. Its subscriptions and its streams stay as they are."""

    async def load(self, id: str) -> SessionRecord | None:
        """The record of a session; `None` when there is none."""

    async def delete(self, id: str) -> None:
        """Forget a session with its subscriptions and streams. Does nothing when there is none."""

    async def subscribe(self, session: str, uri: str) -> None:
        """Add one resource to those that a session watches.

        What is written does not depend on how many the session watches already. Does nothing when there is no such
        session, or when it watches the resource.

        Args:
            session: The session.
            uri: The resource, as the client wrote it.
        """

    async def unsubscribe(self, session: str, uri: str) -> None:
        """Remove one resource from those that a session watches. Does nothing when it is not among them.

        Pending notifications of resources that the session does not watch any more are removed with it.
        """

    async def subscriptions(self, session: str) -> frozenset[str]:
        """Return the resources that a session watches."""

    async def begin(self, session: str, stream: int, owed: Sequence[RequestId]) -> None:
        """A stream begins.

        Does nothing when there is no such session: it may have been ended meanwhile. The same holds for `append` and
        `delivered`.

        Args:
            session: The session.
            stream: A number that the session has not used yet.
            owed: The requests that will be answered on it. With none it is the standalone stream, of which a session has
                one: the one before is over.

        Raises:
            LimitExceeded: As many answers as the bounds allow wait to be fetched. Nothing was begun.
            LocalProtocolError: There is such a stream.
        """

    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """Puts events down. Of a process that is killed meanwhile all or none are found.

        An event whose number is not greater than that of the last one of its stream is there already: nothing happens,
        so that a call whose outcome is unknown can be made again.

        Args:
            session: The session.
            events: In the order of their numbers for each stream. What they answer is no longer owed, and what they
                notify of is no longer pending.

        Raises:
            LimitExceeded: There is no memory for them. None was put down.
            LocalProtocolError: A stream was not begun or is over, a number is left out, or an answer is not owed.
        """

    async def delivered(self, session: str, stream: int) -> None:
        """A stream is over: all of it was written to a client, or nobody wants the rest.

        Its events are kept as long as there is room, for a connection that broke before the last bytes came through.
        Nothing happens when there is no such stream.
        """

    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """The streams of a session, in the order of their numbers.

        One that is over may be missing, when no event of it is left; but not the one with the greatest number: a new one
        has to be another.
        """

    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """The events of a stream whose number is greater than `after`, in their order.

        When events are missing because there were too many, the first number is greater than `after + 1`.
        """

    def record_notification(self, notification: PendingNotification) -> None:
        """Record a change for each session that it concerns, as pending.

        Never waits and never fails: what goes wrong is logged. Calls that begin later find it recorded. It may be called
        at any time, also after the store was closed, when it does nothing.

        A change of a list concerns all sessions; one of a resource those that watch it, or a resource above it: see
        `mcp_core.engine.subscriptions.covering`. What is pending for a session already is not recorded twice. A session has
        no more than `Limits.watched_resources` pending notifications of resources below those that it watches: beyond
        that, and where a URI has more than `Limits.uri_chars`, the resource that it watches is recorded in their place.

        A store whose sessions end with the process need not record anything: the process itself remembers then.

        Args:
            notification: The change.
        """

    async def pending_notifications(self, session: str) -> tuple[PendingNotification, ...]:
        """Return what a session has to be notified of yet, in the order in which it was recorded first."""

    async def remove_notifications(self, session: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove pending notifications, of which the client was notified by other means than an event of a stream."""

    async def purge(self, used_before: float, now: float) -> int:
        """Forget the sessions that were not used for too long.

        A session that was used after `now` counts as used at `now` from here on: the clock was put back, and the session
        would be kept for as long as it takes to come there again.

        Args:
            used_before: Those that were not used since are forgotten; seconds since the epoch.
            now: The time of day; seconds since the epoch.

        Returns:
            How many sessions were forgotten.
        """

    async def aclose(self) -> None:
        """Closes the store. What was kept stays where it is kept. Closing twice is no error."""
