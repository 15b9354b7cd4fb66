"""The streams for GET requests of one legacy session: the standalone stream, and resumed streams.

Messages that belong to no request are sent on the standalone stream. Change notifications wait until a client opens
one. A session has one standalone stream at a time. A new stream replaces the previous one, because in most cases the
same client reconnects.

If there are several workers, the new stream may be at another one. The pending notifications are then in the store, and
not in the memory of each worker: a worker reads them when it opens the stream, and again when it may have missed some.
From then on, it queues the changes of which it is informed. A message about a change can arrive after the record of the
change was read. Therefore, for a short time after each reading, a message only causes another one.

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
from mcp_server.cluster.messages import ServerMessageSent, StandaloneStreamOpened
from mcp_server.connection.turns import PART, take_turn
from mcp_server.stores.sessions import StoreError, is_standalone
from mcp_server.transports.http.event_stream import DisconnectWatcher, EventStream
from mcp_server.transports.http.followed import FollowedStream
from mcp_server.transports.http.replay import written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.server import Rejection
    from mcp_core.jsonrpc.messages import JsonObject, Message
    from mcp_server.cluster.protocol import Cluster
    from mcp_server.stores.failures import StoreFailures
    from mcp_server.stores.sessions import PendingNotification, StoredStream
    from mcp_server.transports.http.replay import Log
    from mcp_server.transports.http.request import HttpContext

__all__ = ["StandaloneStream"]

_SETTLING: Final = 10.0
"""Time after the pending notifications were read in which messages about changes can be older than the reading, in
seconds. If a message takes longer, the client is notified of its change twice."""


class StandaloneStream:
    """The standalone stream of one session, and its pending notifications.

    Args:
        session: The session id.
        log: The log of the session; `None` if the revision does not support resumption.
        policy: The settings of the endpoint.
        cluster: Connects this worker to the others.
        failures: Logs failures of the store.
        settle: Removes the records of notifications that were sent on a stream without stored events.
        take_up: Reads the pending notifications from the store and queues them.
    """

    __slots__ = (
        "_cluster",
        "_failures",
        "_fresh_until",
        "_is_stale",
        "_log",
        "_pending",
        "_policy",
        "_session",
        "_settle",
        "_stream",
        "_take_up",
        "_watcher",
        "followed",
        "worker",
    )

    followed: dict[int, FollowedStream] | None
    """The resumed streams whose requests run at other workers, by number; `None` until there is one."""
    worker: str
    """The other worker that serves the standalone stream, as far as is known; empty: none is known."""

    def __init__(
        self,
        session: str,
        log: Log[EventStream] | None,
        policy: EndpointPolicy,
        *,
        cluster: Cluster,
        failures: StoreFailures,
        settle: Callable[[Sequence[PendingNotification]], Awaitable[None]],
        take_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._session: Final = session
        self._log: Final = log
        self._policy: Final = policy
        self._cluster: Final = cluster
        self._failures: Final = failures
        self._settle: Final = settle
        self._take_up: Final = take_up
        self._is_stale = False
        self._fresh_until = -math.inf
        self.followed = None
        self.worker = ""
        self._pending: dict[tuple[str, str], tuple[Message, PendingNotification | None]] = {}
        self._stream: EventStream | None = None
        self._watcher: DisconnectWatcher | None = None

    @property
    def stream(self) -> EventStream | None:
        """The stream; `None` while no client is connected to it."""
        return self._stream if self._stream is not None and self._stream.connected else None

    # --- GET -------------------------------------------------------------------------------------------------------

    async def serve(self, context: HttpContext, replay: Callable[[], Awaitable[bytes]] | None = None) -> None:
        """Serve a standalone stream, which replaces the previous one.

        Args:
            context: The GET request.
            replay: Returns events to write first.

        Raises:
            StoreError: `replay` failed. Nothing was sent.
        """
        stream = EventStream(context.exchange, context.response, Era.LEGACY, standalone=True, log=self._log)
        before, self._stream = self._stream, stream
        if before is not None:
            await before.end()
        # What is pending is in the store. From now on, new changes are queued.
        self.refresh()
        try:
            await stream.commit(replay)
        except StoreError:
            self._stream = None
            raise
        self.worker = ""
        self._cluster.broadcast(StandaloneStreamOpened(self._session, stream.number))
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
            live.follower = ""
            if live is self._stream:
                self.refresh()
            await self._attend(live, context)
            return None
        found = None if log is None or live is not None else await log.find(stream)
        if log is None or found is None or (found.pending and after > found.last):
            return exchange.reject(400, "Last-Event-ID does not name an event of this session")

        async def replay() -> bytes:
            events = await log.events(stream, after)
            return b"".join([written(stream, event.number, event.data) for event in events])

        if is_standalone(stream):
            # Another worker opened the stream, or another stream replaced it.
            await self.serve(context, replay)
            return None
        if found.pending:
            if log.is_running(found):
                await self._follow(found, after, context)
                return None
            await log.interrupt(found)
        data = await replay()
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

    async def _follow(self, stream: StoredStream, after: int, context: HttpContext) -> None:
        """Serve a stream whose requests run at another worker. Raises `StoreError`."""
        if self._log is None:
            return
        followed = FollowedStream(
            stream,
            after,
            session=self._session,
            log=self._log,
            cluster=self._cluster,
            policy=self._policy,
            failures=self._failures,
            context=context,
        )
        if self.followed is None:
            self.followed = {}
        before = self.followed.get(stream.stream)
        self.followed[stream.stream] = followed
        if before is not None:
            await before.end()
        try:
            await followed.serve()
        finally:
            if self.followed.get(stream.stream) is followed:
                del self.followed[stream.stream]

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

    @property
    def keeps(self) -> bool:
        """Whether a change must be queued. Otherwise the store has it, and it is read when it is needed."""
        if not self._cluster.is_shared:
            return True
        if self.stream is None:
            return False
        if self._is_stale or trio.current_time() < self._fresh_until:
            self.refresh()
            return False
        return True

    def refresh(self) -> None:
        """Read the pending notifications from the store before the next write. Does not block."""
        if not self._cluster.is_shared:
            return
        self._is_stale = True
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

    async def _read(self) -> bool:
        """Queue the notifications that are pending in the store. Return whether they could be read."""
        self._is_stale = False
        self._fresh_until = trio.current_time() + _SETTLING
        # Those that wait here are pending in the store, too, unless another worker has sent them.
        self._pending = {key: each for key, each in self._pending.items() if each[1] is None}
        try:
            await self._take_up()
        except StoreError as error:
            self._failures.failed("changes are notified later", error)
            self._is_stale = True
            return False
        return True

    async def _flush(self) -> None:
        while (stream := self.stream) is not None and (self._pending or self._is_stale):
            if self._is_stale:
                if await self._read():
                    continue
                return
            await take_turn(min(len(self._pending), PART))
            if stream is not self.stream:
                continue
            notifications = [self._pending.pop(key) for key in tuple(islice(self._pending, PART))]
            if not await stream.notify([(encode(each, null_id=False), pending) for each, pending in notifications]):
                await self._settle([pending for _, pending in notifications if pending is not None])

    # --- other workers ---------------------------------------------------------------------------------------------

    async def replaced(self, number: int) -> None:
        """End the stream because another worker serves a later one.

        Args:
            number: The number of the other stream; 0 if its events are not stored.
        """
        if self._stream is not None:
            await self._stream.end_before(number)

    async def send_elsewhere(self, message: JsonObject) -> bool:
        """Send a message on the standalone stream of another worker.

        Returns:
            Whether there is a worker that began the stream and has not ended.
        """
        worker = self.worker
        if not self._cluster.is_alive(worker) and self._log is not None:
            try:
                worker = await self._log.standalone_worker()
            except StoreError as error:
                self._failures.failed("a message is not sent", error)
        if worker == self._cluster.worker or not self._cluster.is_alive(worker):
            return False
        self.worker = worker
        self._cluster.send(worker, ServerMessageSent(self._session, message))
        return True

    async def locate(self) -> None:
        """Read from the store which other worker serves the stream. Raises `StoreError`."""
        if self._cluster.is_shared and self._log is not None and self._stream is None:
            worker = await self._log.standalone_worker()
            self.worker = "" if worker == self._cluster.worker else worker

    def leave_elsewhere(self, message: JsonObject) -> None:
        """Send a message on the stream that another worker is known to serve. Does not block."""
        self._cluster.send(self.worker, ServerMessageSent(self._session, message))

    @property
    def is_elsewhere(self) -> bool:
        """Whether another worker serves the standalone stream, as far as is known."""
        return bool(self.worker) and self._cluster.is_alive(self.worker)

    async def end(self, retry: float | None = None) -> None:
        """End the stream.

        Args:
            retry: Time after which the client is to reconnect, in seconds; `None`: not specified.
        """
        if self._stream is not None:
            await self._stream.end(retry)
