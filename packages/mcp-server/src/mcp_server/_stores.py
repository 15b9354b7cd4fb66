"""What a server remembers of its legacy HTTP sessions, and who remembers it.

A session is a record and streams; a stream is a row of events, each with a number. The endpoint puts events down
before it sends them, so that a client whose connection broke can have them again, and, where the store outlives the
process, from a server that was started anew.

    save, load, delete, purge       the record
    begin, append, delivered        a stream while it runs
    streams, events                 what a resumption needs

Every store keeps the rules that `SessionStore` states; `mcp_server.store_contract` checks them.

Spec: basic/transports#session-management, basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject, RequestId

__all__ = ["SessionRecord", "SessionStore", "StoreError", "StoredEvent", "StoredStream"]


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
    subscriptions: tuple[str, ...] = ()
    """The resources that the client subscribed to."""
    used_at: float
    """When it was used last, in seconds since the epoch."""


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
        """Keeps a session, or what has changed about it. Its streams stay as they are."""

    async def load(self, id: str) -> SessionRecord | None:
        """The record of a session; `None` when there is none."""

    async def delete(self, id: str) -> None:
        """Forgets a session and its streams. Does nothing when there is none."""

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
            events: In the order of their numbers for each stream. What they answer is no longer owed.

        Raises:
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

    async def purge(self, used_before: float) -> int:
        """Forgets the sessions that were not used since.

        Args:
            used_before: Seconds since the epoch.

        Returns:
            How many there were.
        """

    async def aclose(self) -> None:
        """Closes the store. What was kept stays where it is kept. Closing twice is no error."""
