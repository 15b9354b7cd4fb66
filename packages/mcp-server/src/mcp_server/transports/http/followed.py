"""A stream that a client has resumed at this worker, while another worker runs its requests.

The worker that runs the requests stores each event, and then sends `StreamAppended`. This worker reads the store after
the last event that it wrote. The message contains no event, so that a lost or repeated message changes nothing. In
addition, the store is read as often as a silent stream is kept alive.

If the other worker ends, its pending requests get an error as their response. The stream then ends, as it would after
their responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_core.revisions import Era
from mcp_server.cluster.messages import StreamFollowed
from mcp_server.stores.sessions import StoreError
from mcp_server.transports.http.event_stream import DisconnectWatcher, EventStream
from mcp_server.transports.http.replay import written

if TYPE_CHECKING:
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_server.cluster.protocol import Cluster
    from mcp_server.stores.failures import StoreFailures
    from mcp_server.stores.sessions import StoredStream
    from mcp_server.transports.http.replay import Log
    from mcp_server.transports.http.request import HttpContext

__all__ = ["FollowedStream"]


class FollowedStream:
    """A resumed stream whose requests run at another worker.

    Args:
        stream: The stream.
        after: The number of the last event that the client received.
        session: The session id.
        log: The log of the session.
        cluster: Connects this worker to the others.
        policy: The settings of the endpoint.
        failures: Logs failures of the store.
        context: The GET request that resumes the stream.
    """

    def __init__(
        self,
        stream: StoredStream,
        after: int,
        *,
        session: str,
        log: Log[EventStream],
        cluster: Cluster,
        policy: EndpointPolicy,
        failures: StoreFailures,
        context: HttpContext,
    ) -> None:
        self.worker: Final = stream.worker
        """The worker that runs the requests."""
        self._number: Final = stream.stream
        self._last = after
        self._session: Final = session
        self._log: Final = log
        self._cluster: Final = cluster
        self._policy: Final = policy
        self._failures: Final = failures
        self._context: Final = context
        # Its events are in the log already.
        self._stream: Final = EventStream(context.exchange, context.response, Era.LEGACY, standalone=True)
        self._watcher: Final = DisconnectWatcher(
            self._stream, context.response, context.receive, policy, flush=self._copy
        )
        self._has_news = False
        self._has_ended = False
        self._check_at = 0.0

    async def serve(self) -> None:
        """Send the events of the stream until it ends or the client disconnects. Raises `StoreError`."""
        response = self._context.response
        self._announce(is_connected=True)
        try:
            await self._stream.commit(self._events)
            self._check_at = trio.current_time() + self._policy.keep_alive
            with trio.CancelScope() as scope:
                response.attended(scope)
                await self._watcher.run()
        finally:
            self._announce(is_connected=False)

    def _announce(self, *, is_connected: bool) -> None:
        message = StreamFollowed(self._session, self._number, is_connected=is_connected)
        self._cluster.send(self.worker, message)

    def appended(self, *, is_over: bool) -> None:
        """Learn that the store has new events, or that no event follows. Does not block."""
        self._has_news = True
        self._has_ended = self._has_ended or is_over
        self._watcher.wake()

    async def end(self) -> None:
        """End the response because the session has ended, or the client has resumed the stream again."""
        self._context.response.abort()
        await self._stream.end()

    async def _events(self) -> bytes:
        """Return the encoded events after the last one that was written."""
        events = await self._log.events(self._number, self._last)
        if events:
            self._last = events[-1].number
        return b"".join([written(self._number, event.number, event.data) for event in events])

    async def _copy(self) -> None:
        """Write the new events. End the response after the last one."""
        now = trio.current_time()
        is_due = now >= self._check_at
        response = self._context.response
        if response.ended or not (self._has_news or is_due):
            return
        self._has_news = False
        try:
            is_complete = (self._has_ended or is_due) and await self._is_complete()
            if is_due:
                self._check_at = now + self._policy.keep_alive
            data = await self._events()
        except StoreError as error:
            self._failures.failed("a resumed stream ends", error)
            await self._stream.end()
            return
        if data:
            await response.write(data)
        if is_complete:
            await self._stream.end()
            if not response.lost:
                await self._log.delivered(self._number)

    async def _is_complete(self) -> bool:
        """Return whether each request of the stream has a response, after responding to those that cannot get one."""
        found = await self._log.find(self._number)
        if found is None or not found.pending:
            return True
        if self._has_ended or not self._log.is_running(found):
            await self._log.interrupt(found)
            return True
        return False
