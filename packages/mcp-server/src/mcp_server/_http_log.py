"""Where the streams of one legacy session keep their events, so that a client whose connection broke can have them again.

The numbers of streams tell what they are: odd ones answer a POST, even ones are standalone. So a client that resumes a
stream is told the truth about it even by a process that did not begin it.

A store that fails must not fail the requests: they go on, and cannot be resumed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError
from mcp_core.framing.sse import encode_event
from mcp_core.http.event_log import event_id
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse
from mcp_server._stores import StoredEvent, StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_server._http_stream import EventStream
    from mcp_server._stores import SessionStore

__all__ = ["Item", "Log", "is_standing", "written"]

_log: Final = logging.getLogger("mcp_server")

_RESTARTED: Final = ErrorObject(
    int(ErrorCode.INTERNAL_ERROR), "the server was restarted while it worked on this request, which it did not finish"
)

Item = tuple[bytes, "RequestId | None"]
"""One JSON message, and the request that it answers."""


def is_standing(stream: int) -> bool:
    """Whether a stream is a standalone one, which answers no POST."""
    return stream % 2 == 0


def written(stream: int, number: int, data: bytes) -> bytes:
    """An event, as it goes over the wire."""
    # Some readers ask for the name, although it is what an event without one has.
    return encode_event(data, event="message", id=event_id(stream, number))


class Log:
    """The streams of one session.

    Args:
        store: Keeps the events.
        session: The session id.
        priming: Whether streams begin with an event that has only an id, and may be let go before they are over.
    """

    __slots__ = ("_last", "_session", "_store", "live", "priming")

    live: dict[int, EventStream]
    """The streams that are not over, by their numbers."""

    def __init__(self, store: SessionStore, session: str, *, priming: bool) -> None:
        self._store: Final = store
        self._session: Final = session
        self.priming: Final = priming
        self.live = {}
        self._last = 0

    def number(self, *, standing: bool) -> int:
        """A number for a new stream."""
        self._last += 1
        return 2 * self._last if standing else 2 * self._last - 1

    def knows(self, stream: int) -> bool:
        """Whether there may have been a stream of this number."""
        return 0 < stream <= 2 * self._last

    async def recover(self) -> None:
        """Takes up what an earlier process left: its numbers are not used again, and what it owed is answered by an error.

        Raises:
            StoreError: The store cannot say.
        """
        streams = await self._store.streams(self._session)
        for each in streams:
            self._last = max(self._last, (each.stream + 1) // 2)
            if each.owed:
                _log.warning(
                    "%d requests of a session were not answered before the server was started anew", len(each.owed)
                )
                answers = [(encode(ErrorResponse(id, _RESTARTED), null_id=False), id) for id in each.owed]
                await self.append(each.stream, each.last, answers)

    async def begin(self, stream: int, owed: Collection[RequestId]) -> bool:
        """A stream begins. False when it cannot be resumed: the store has no room, or fails."""
        try:
            await self._store.begin(self._session, stream, tuple(owed))
        except LimitExceeded as excess:
            _log.warning("a stream of a session cannot be resumed: %s", excess)
            return False
        except StoreError:
            _log.exception("a stream of a session cannot be resumed: its store fails")
            return False
        return True

    async def append(self, stream: int, last: int, items: Sequence[Item]) -> bool:
        """Puts events down. False when that failed: then the stream cannot be resumed from here on.

        Args:
            stream: The stream.
            last: The number of its last event.
            items: What follows.
        """
        events = [StoredEvent(stream, number, data, answers) for number, (data, answers) in enumerate(items, last + 1)]
        try:
            await self._store.append(self._session, events)
        except (StoreError, LocalProtocolError):
            _log.exception("events of a session are not kept: its store fails")
            return False
        return True

    async def delivered(self, stream: int) -> None:
        """A stream is over, and its client had all of it."""
        try:
            await self._store.delivered(self._session, stream)
        except StoreError:
            _log.exception("the end of a stream is not kept: its store fails")

    async def events(self, stream: int, after: int) -> Sequence[StoredEvent]:
        """What followed an event. Raises `StoreError`."""
        return await self._store.events(self._session, stream, after)
