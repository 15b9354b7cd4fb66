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

from mcp_core.codec import encode
from mcp_core.engine.subscriptions import covers
from mcp_core.http.event_log import parse_event_id
from mcp_core.revisions import Era
from mcp_server.connection.turns import PART, take_turn
from mcp_server.stores.sessions import is_standalone
from mcp_server.transports.http.event_stream import DisconnectWatcher, EventStream
from mcp_server.transports.http.replay import written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.server import Rejection
    from mcp_core.jsonrpc.messages import Message
    from mcp_server.stores.sessions import PendingNotification
    from mcp_server.transports.http.replay import Log
    from mcp_server.transports.http.request import HttpContext

__all__ = ["StandaloneStream"]


class StandaloneStream:
    """The standalone stream of one session, and its pending notifications.

    Args:
        log: The log of the session; `None` if the revision does not support resumption.
        policy: The settings of the endpoint.
        settle: Removes the records of notifications that were sent on a stream without stored events.
    """

    __slots__ = ("_log", "_pending", "_policy", "_settle", "_stream", "_watcher")

    def __init__(
        self,
        log: Log[EventStream] | None,
        policy: EndpointPolicy,
        settle: Callable[[Sequence[PendingNotification]], Awaitable[None]],
    ) -> None:
        self._log: Final = log
        self._policy: Final = policy
        self._settle: Final = settle
        self._pending: dict[tuple[str, str], tuple[Message, PendingNotification | None]] = {}
        self._stream: EventStream | None = None
        self._watcher: DisconnectWatcher | None = None

    @property
    def stream(self) -> EventStream | None:
        """The stream; `None` while no client is connected to it."""
        return self._stream if self._stream is not None and self._stream.connected else None

    # --- GET -------------------------------------------------------------------------------------------------------

    async def serve(self, context: HttpContext, replay: bytes = b"") -> None:
        """Serve a standalone stream, which replaces the previous one.

        Args:
            context: The GET request.
            replay: Events to write first.
        """
        stream = EventStream(context.exchange, context.response, Era.LEGACY, standalone=True, log=self._log)
        before, self._stream = self._stream, stream
        if before is not None:
            await before.end()
        await stream.commit(replay)
        await self._attend(stream, context)

    async def resume(self, last_event_id: str, context: HttpContext) -> Rejection | None:
        """Resume a stream: send the events after the given one, and continue the stream.

        Args:
            last_event_id: The id of the last event that the client received.
            context: The GET request.

        Returns:
            The rejection of the request, or `None`.

        Raises:
            StoreError: The events to send again cannot be read.
        """
        exchange, response, log = context.exchange, context.response, self._log
        stream, after = parse_event_id(last_event_id) or (0, 0)
        live = None if log is None else log.live.get(stream)
        if live is not None and await live.resume(exchange, response, after):
            await self._attend(live, context)
            return None
        if log is None or live is not None or not await log.knows(stream):
            return exchange.reject(400, "Last-Event-ID does not name an event of this session")
        events = await log.events(stream, after)
        data = b"".join([written(stream, event.number, event.data) for event in events])
        if is_standalone(stream):
            # Another process opened the stream, or another stream replaced it.
            await self.serve(context, data)
            return None
        if not data:
            # The status that this transport uses if no stream is available. After a stream without events, the client
            # would request it repeatedly.
            over = "the stream of Last-Event-ID is complete, and all events were sent"
            return exchange.reject(405, over, headers=(("allow", "POST, DELETE"),))
        await response.begin(exchange.stream_head(), data)
        await response.end()
        if not response.lost:
            await log.delivered(stream)
        return None

    async def _attend(self, stream: EventStream, context: HttpContext) -> None:
        """Watch the response to a GET until it is complete."""
        response = context.response
        standing = stream is self._stream
        flush = self._flush if standing else None
        # A stream that responds to a running call may continue until the call is complete.
        until = context.identity.until if standing else math.inf
        watcher = DisconnectWatcher(stream, response, context.receive, self._policy, flush=flush, until=until)
        if standing:
            self._watcher = watcher
        with trio.CancelScope() as scope:
            response.attended(scope)
            await watcher.run()
        if self._watcher is watcher:
            self._watcher = None

    # --- notifications ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> Collection[tuple[str, str]]:
        """The keys of the notifications that wait for a stream."""
        return self._pending.keys()

    def notify(self, key: tuple[str, str], message: Message, pending: PendingNotification | None = None) -> None:
        """Queue a notification for the stream. A later notification with the same key replaces it. Does not block.

        Args:
            key: The key of the notification.
            message: The notification.
            pending: Its record in the store, if there is one.
        """
        self._pending[key] = (message, pending)
        if self._watcher is not None:
            self._watcher.wake()

    def unsubscribed(self, watched: Collection[str]) -> None:
        """Drop the notifications of resources without a subscription.

        Args:
            watched: The subscribed resources.
        """
        self._pending = {
            key: (message, pending)
            for key, (message, pending) in self._pending.items()
            if pending is None or not pending.is_update or covers(watched, pending.uri)
        }

    async def _flush(self) -> None:
        while self._pending and (stream := self.stream) is not None:
            await take_turn(min(len(self._pending), PART))
            if stream is not self.stream:
                continue
            notifications = [self._pending.pop(key) for key in tuple(islice(self._pending, PART))]
            if not await stream.notify([(encode(each, null_id=False), pending) for each, pending in notifications]):
                await self._settle([pending for _, pending in notifications if pending is not None])

    async def end(self, retry: float | None = None) -> None:
        """End the stream.

        Args:
            retry: Time after which the client is to reconnect, in seconds; `None`: not specified.
        """
        if self._stream is not None:
            await self._stream.end(retry)
