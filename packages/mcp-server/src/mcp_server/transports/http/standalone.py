"""The streams that the GETs of one legacy session ask for: the standalone one, and the rest of those that broke.

What belongs to no request goes by the standalone stream: notices of changes, which wait for it as long as there is none.
A session has one at a time; the next replaces it, since it is most often the same client, whose connection broke.

Spec: basic/transports#listening-for-messages-from-the-server, #resumability-and-redelivery (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.engine.subscriptions import covers
from mcp_core.http.event_log import parse_event_id
from mcp_core.jsonrpc.codec import encode
from mcp_core.revisions import Era
from mcp_server.transports.http.disconnect import Attendance
from mcp_server.transports.http.event_stream import EventStream
from mcp_server.transports.http.replay import is_standing, written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.responses import Refusal
    from mcp_core.jsonrpc.messages import Message
    from mcp_server.stores.sessions import PendingNotification
    from mcp_server.transports.http.replay import Log
    from mcp_server.transports.http.response import Exchanged

__all__ = ["Standing"]

_AT_ONCE: Final = 64
"""Notifications that are encoded without letting others run, which takes about two milliseconds."""


class Standing:
    """The standalone stream of one session, and what waits for it.

    Args:
        log: Where the session's streams keep their events; `None` where the revision has no resumption.
        policy: The settings of the endpoint.
        settle: Has pending changes removed, of which the client was notified by a stream that keeps no events.
    """

    __slots__ = ("_attendance", "_log", "_notices", "_policy", "_settle", "_stream")

    def __init__(
        self,
        log: Log | None,
        policy: EndpointPolicy,
        settle: Callable[[Sequence[PendingNotification]], Awaitable[None]],
    ) -> None:
        self._log: Final = log
        self._policy: Final = policy
        self._settle: Final = settle
        self._notices: dict[tuple[str, str], tuple[Message, PendingNotification | None]] = {}
        self._stream: EventStream | None = None
        self._attendance: Attendance | None = None

    @property
    def stream(self) -> EventStream | None:
        """The stream; `None` while no client is connected to it."""
        return self._stream if self._stream is not None and self._stream.connected else None

    # --- GET -------------------------------------------------------------------------------------------------------

    async def serve(self, exchanged: Exchanged, replay: bytes = b"") -> None:
        """Serves a standalone stream, which replaces the one before.

        Args:
            exchanged: The request for it.
            replay: What is written before all else.
        """
        stream = EventStream(exchanged.exchange, exchanged.response, Era.LEGACY, standing=True, log=self._log)
        before, self._stream = self._stream, stream
        if before is not None:
            await before.end()
        await stream.commit(replay)
        await self._attend(stream, exchanged)

    async def resume(self, last_event_id: str, exchanged: Exchanged) -> Refusal | None:
        """Serves what followed an event of a stream that broke, and what is still to come on it.

        Args:
            last_event_id: The id of the event.
            exchanged: The request for it.

        Raises:
            StoreError: What is to be sent again cannot be read.
        """
        exchange, response, log = exchanged.exchange, exchanged.response, self._log
        stream, after = parse_event_id(last_event_id) or (0, 0)
        live = None if log is None else log.live.get(stream)
        if live is not None and await live.resume(exchange, response, after):
            await self._attend(live, exchanged)
            return None
        if log is None or live is not None or not log.knows(stream):
            return exchange.refuse(400, "Last-Event-ID names no event of this session")
        events = await log.events(stream, after)
        data = b"".join([written(stream, event.number, event.data) for event in events])
        if is_standing(stream):
            # An earlier process had it, or another one took its place.
            await self.serve(exchanged, data)
            return None
        if not data:
            # What this transport answers where no stream is to be had. A stream without events would be asked for again
            # and again.
            over = "the stream of Last-Event-ID is over, and all of it was sent"
            return exchange.refuse(405, over, headers=(("allow", "POST, DELETE"),))
        await response.begin(exchange.stream_head(), data)
        await response.end()
        if not response.lost:
            await log.delivered(stream)
        return None

    async def _attend(self, stream: EventStream, exchanged: Exchanged) -> None:
        """Looks after the response to a GET until it is over."""
        response = exchanged.response
        standing = stream is self._stream
        flush = self._flush if standing else None
        # What answers a call that is under way may come to its end.
        until = exchanged.identity.until if standing else math.inf
        attendance = Attendance(stream, response, exchanged.receive, self._policy, flush=flush, until=until)
        if standing:
            self._attendance = attendance
        with trio.CancelScope() as scope:
            response.attended(scope)
            await attendance.run()
        if self._attendance is attendance:
            self._attendance = None

    # --- notices ---------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> Collection[tuple[str, str]]:
        """The notifications that wait for a stream, by their keys."""
        return self._notices.keys()

    def tell(self, key: tuple[str, str], notice: Message, pending: PendingNotification | None = None) -> None:
        """A notice is to be sent, once there is a stream. Another one with the same key takes its place. Never waits.

        Args:
            key: Tells notices apart.
            notice: The notice.
            pending: What the store has recorded of it.
        """
        self._notices[key] = (notice, pending)
        if self._attendance is not None:
            self._attendance.wake()

    def unsubscribed(self, watched: Collection[str]) -> None:
        """Drop the notices of resources that are not watched any more.

        Args:
            watched: The resources that still are.
        """
        self._notices = {
            key: (notice, pending)
            for key, (notice, pending) in self._notices.items()
            if pending is None or not pending.is_update or covers(watched, pending.uri)
        }

    async def _flush(self) -> None:
        while self._notices and (stream := self.stream) is not None:
            # No more than can be encoded without keeping others from running for long.
            notices = [self._notices.pop(key) for key in tuple(islice(self._notices, _AT_ONCE))]
            if not await stream.notify([(encode(each, null_id=False), pending) for each, pending in notices]):
                await self._settle([pending for _, pending in notices if pending is not None])
            await trio.lowlevel.checkpoint()

    async def end(self, retry: float | None = None) -> None:
        """Ends the stream.

        Args:
            retry: Seconds after which the client is told to come again; `None`: nothing is said.
        """
        if self._stream is not None:
            await self._stream.end(retry)
