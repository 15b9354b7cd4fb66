"""The streams for GET requests of one legacy session: the standalone stream, and resumed streams.

Messages that belong to no request are sent on the standalone stream. Change notifications wait until a client opens
one. A session has one standalone stream at a time. A new stream replaces the previous one, because in most cases the
same client reconnects.

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
"""Notifications that are encoded without letting other tasks run, which takes about 2 ms."""


class Standing:
    """The standalone stream of one session, and its pending notifications.

    Args:
        log: The log of the session; `None` if the revision does not support resumption.
        policy: The settings of the endpoint.
        settle: Removes the records of notifications that were sent on a stream without stored events.
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
        """Serve a standalone stream, which replaces the previous one.

        Args:
            exchanged: The GET request.
            replay: Events to write first.
        """
        stream = EventStream(exchanged.exchange, exchanged.response, Era.LEGACY, standing=True, log=self._log)
        before, self._stream = self._stream, stream
        if before is not None:
            await before.end()
        await stream.commit(replay)
        await self._attend(stream, exchanged)

    async def resume(self, last_event_id: str, exchanged: Exchanged) -> Refusal | None:
        """Resume a stream: send the events after the given one, and continue the stream.

        Args:
            last_event_id: The id of the last event that the client received.
            exchanged: The GET request.

        Returns:
            The rejection of the request, or `None`.

        Raises:
            StoreError: The events to send again cannot be read.
        """
        exchange, response, log = exchanged.exchange, exchanged.response, self._log
        stream, after = parse_event_id(last_event_id) or (0, 0)
        live = None if log is None else log.live.get(stream)
        if live is not None and await live.resume(exchange, response, after):
            await self._attend(live, exchanged)
            return None
        if log is None or live is not None or not log.knows(stream):
            return exchange.refuse(400, "Last-Event-ID does not name an event of this session")
        events = await log.events(stream, after)
        data = b"".join([written(stream, event.number, event.data) for event in events])
        if is_standing(stream):
            # Another process opened the stream, or another stream replaced it.
            await self.serve(exchanged, data)
            return None
        if not data:
            # The status that this transport uses if no stream is available. After a stream without events, the client
            # would request it repeatedly.
            over = "the stream of Last-Event-ID is complete, and all events were sent"
            return exchange.refuse(405, over, headers=(("allow", "POST, DELETE"),))
        await response.begin(exchange.stream_head(), data)
        await response.end()
        if not response.lost:
            await log.delivered(stream)
        return None

    async def _attend(self, stream: EventStream, exchanged: Exchanged) -> None:
        """Watch the response to a GET until it is complete."""
        response = exchanged.response
        standing = stream is self._stream
        flush = self._flush if standing else None
        # A stream that responds to a running call may continue until the call is complete.
        until = exchanged.identity.until if standing else math.inf
        attendance = Attendance(stream, response, exchanged.receive, self._policy, flush=flush, until=until)
        if standing:
            self._attendance = attendance
        with trio.CancelScope() as scope:
            response.attended(scope)
            await attendance.run()
        if self._attendance is attendance:
            self._attendance = None

    # --- notifications ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> Collection[tuple[str, str]]:
        """The keys of the notifications that wait for a stream."""
        return self._notices.keys()

    def tell(self, key: tuple[str, str], notice: Message, pending: PendingNotification | None = None) -> None:
        """Queue a notification for the stream. A later notification with the same key replaces it. Does not block.

        Args:
            key: The key of the notification.
            notice: The notification.
            pending: Its record in the store, if there is one.
        """
        self._notices[key] = (notice, pending)
        if self._attendance is not None:
            self._attendance.wake()

    def unsubscribed(self, watched: Collection[str]) -> None:
        """Drop the notifications of resources without a subscription.

        Args:
            watched: The subscribed resources.
        """
        self._notices = {
            key: (notice, pending)
            for key, (notice, pending) in self._notices.items()
            if pending is None or not pending.is_update or covers(watched, pending.uri)
        }

    async def _flush(self) -> None:
        while self._notices and (stream := self.stream) is not None:
            # Limited, so that encoding does not delay other tasks.
            notices = [self._notices.pop(key) for key in tuple(islice(self._notices, _AT_ONCE))]
            if not await stream.notify([(encode(each, null_id=False), pending) for each, pending in notices]):
                await self._settle([pending for _, pending in notices if pending is not None])
            await trio.lowlevel.checkpoint()

    async def end(self, retry: float | None = None) -> None:
        """End the stream.

        Args:
            retry: Time after which the client is to reconnect, in seconds; `None`: not specified.
        """
        if self._stream is not None:
            await self._stream.end(retry)
