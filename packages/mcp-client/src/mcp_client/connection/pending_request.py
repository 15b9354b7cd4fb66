"""Pending outbound requests: in the task of the caller, with progress and deadlines.

Each request ends exactly once: with an outcome, with the connection, by a deadline, or by cancellation of its caller.

Over HTTP the task of the caller sends the request and reads the response (`PendingRequest.perform`), in a cancel scope that
enforces the deadlines. Over a stream the task only waits (`PendingRequest.wait`). There, a scope for each request would cost as
much as encoding and decoding its messages. Instead, one task of the connection (`DeadlineWatcher`) monitors the deadlines of all
requests. A scope is opened only while a request is blocked in writing, or while an asynchronous progress handler runs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from mcp_client.connection.progress import ProgressQueue
from mcp_core.errors import McpError, RemoteProtocolError, RequestTimeout
from mcp_core.jsonrpc.messages import Request
from mcp_core.trio.async_library import call_in, caller_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_client.deadlines import Deadlines
    from mcp_client.handlers import ProgressHandler
    from mcp_core.engine.events import ErrorReceived, ResultReceived
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.types import ProgressNotificationParams

__all__ = ["DeadlineWatcher", "PendingRequest", "Perform", "ProgressHandlerFailed"]

Perform: TypeAlias = Callable[[Request, "PendingRequest"], Awaitable[None]]
"""A function that sends a request and delivers the received messages until the request has ended. Raises
`TransportError` when the response is lost, and `RemoteProtocolError` when the server sent no response."""


class ProgressHandlerFailed(Exception):
    """An exception of a progress handler that propagates to the caller.

    The wrapped error may be an `McpError` of another connection. The wrapper keeps it apart from errors of this one.
    """

    def __init__(self, error: McpError) -> None:
        super().__init__(str(error))
        self.error: Final = error


class PendingRequest:
    """A pending outbound request.

    Args:
        deadlines: The deadlines of the request.
        on_progress: Called with each progress notification.
        held: Whether the server currently waits for the client, see `hold`.
        headers: HTTP headers of this request only.
    """

    __slots__ = (
        "_deadlines",
        "_latest",
        "_on_progress",
        "_performer",
        "_progress",
        "_scope",
        "_showing",
        "_task",
        "deadline",
        "ended",
        "headers",
        "outcome",
    )

    def __init__(
        self,
        deadlines: Deadlines,
        on_progress: ProgressHandler | None,
        *,
        held: bool,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        now = trio.current_time()
        self.outcome: ResultReceived | ErrorReceived | None = None
        """The response as an event; `None` while there is no response."""
        self.ended: bool = False
        """Whether there is an outcome, or the connection has ended."""
        self.headers: Final = headers
        """HTTP headers of this request only."""
        self._deadlines: Final = deadlines
        self._on_progress: Final = on_progress
        self._latest: Final = now + deadlines.total
        self.deadline: float = self._latest if held else min(self._latest, now + deadlines.idle)
        """The time at which the request times out, on trio's clock."""
        self._progress: ProgressQueue | None = None
        self._scope: trio.CancelScope | None = None
        self._showing = False
        self._performer: trio.lowlevel.Task | None = None
        self._task: trio.lowlevel.Task | None = None

    # --- over HTTP -------------------------------------------------------------------------------------------------

    async def perform(self, work: Perform, request: Request) -> None:
        """Run the request in this task, until it has an outcome or a deadline passes.

        Args:
            work: Sends the request and reads the response. It delivers received messages, calls `show` between them,
                and returns when the request has ended.
            request: The request.

        Raises:
            RequestTimeout: A deadline passed.
            RemoteProtocolError: The exchange ended without a response to the request.
            McpError: `work` raised this error, and there was no outcome before.
        """
        self._performer = trio.lowlevel.current_task()
        try:
            with trio.CancelScope(deadline=self.deadline) as self._scope:
                await work(request, self)
                if not self.ended:
                    raise RemoteProtocolError("the server sent no valid response to this request")
        except McpError:
            # With a response, errors at the end of the stream do not matter.
            if self.outcome is None:
                raise
        finally:
            self._scope = self._performer = None
        if not self.ended:
            raise self._late()
        if self._progress:
            await self.show()

    async def show(self) -> None:
        """Call the progress handler with the queued notifications, in this task."""
        while self._progress:
            await self._show(self._progress.take())

    # --- over a stream ---------------------------------------------------------------------------------------------

    async def send(self, send: Callable[[], Awaitable[None]]) -> None:
        """Send the request with `send`, which may block, until it has an outcome or a deadline passes."""
        with trio.CancelScope(deadline=self.deadline) as self._scope:
            await send()
        self._scope = None

    async def wait(self) -> None:
        """Wait until there is an outcome, or the connection ends.

        Raises:
            RequestTimeout: A deadline passed.
        """
        while True:
            # Progress that arrived before the response is shown first.
            if self._progress:
                await self._show(self._progress.take())
            elif self.ended:
                return
            elif self.deadline <= trio.current_time():
                raise self._late()
            else:
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._leave)

    def _leave(self, _: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    # --- both ------------------------------------------------------------------------------------------------------

    def _late(self) -> RequestTimeout:
        total = self.deadline >= self._latest
        which, seconds = ("total", self._deadlines.total) if total else ("idle", self._deadlines.idle)
        return RequestTimeout("the server did not respond", deadline=which, seconds=seconds)

    async def _show(self, progress: ProgressNotificationParams) -> None:
        if self._on_progress is None:
            return
        try:
            shown = self._on_progress(progress.progress, progress.total, progress.message)
            if inspect.isawaitable(shown):
                await self._wait_for(call_in(caller_library(), lambda: shown))
        except McpError as error:
            raise ProgressHandlerFailed(error) from None

    async def _wait_for(self, shown: Awaitable[None]) -> None:
        # After the response, only the total deadline applies: the idle deadline limits the silence of the server.
        self._showing = True
        try:
            if self._scope is not None:
                if self.ended:
                    self._scope.deadline = self._latest
                await self._uncut(shown)
                return
            with trio.CancelScope(deadline=self._latest if self.ended else self.deadline) as self._scope:
                await self._uncut(shown)
            self._scope = None
        finally:
            self._showing = False

    async def _uncut(self, shown: Awaitable[None]) -> None:
        try:
            await shown
        except trio.Cancelled:
            # Cancelled by a deadline or the caller. A handler that hangs would hang with the other notifications too.
            if self._progress is not None:
                self._progress.clear()
            raise

    def settle(self, outcome: ResultReceived | ErrorReceived) -> None:
        """Record the response of the server and wake the waiting task."""
        self.outcome = outcome
        self.end()

    def end(self) -> None:
        """End the request, with its outcome or because the connection has ended."""
        self.ended = True
        if self._scope is not None:
            if self._showing:
                self._scope.deadline = self._latest
            elif self._performer is not trio.lowlevel.current_task():
                # Another task recorded the outcome: writing and reading of this request are obsolete.
                self._scope.cancel()
        if self._task is not None:
            self.wake()

    def progressed(self, progress: ProgressNotificationParams) -> None:
        """Queue a progress notification of the server."""
        if self._on_progress is None:
            return
        if self._progress is None:
            self._progress = ProgressQueue()
        self._progress.put(progress)
        self.wake()

    def alive(self) -> None:
        """Restart the idle deadline: the server reported progress, or no longer waits for the client."""
        self._extend(min(self._latest, trio.current_time() + self._deadlines.idle))

    def hold(self) -> None:
        """Suspend the idle deadline: the server waits for the client. Only the total deadline applies."""
        self._extend(self._latest)

    def _extend(self, deadline: float) -> None:
        if not self.ended:
            self.deadline = deadline
            if self._scope is not None:
                self._scope.deadline = deadline

    def wake(self) -> None:
        """Wake the waiting task so that it checks its state."""
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)


class DeadlineWatcher:
    """The monitor of the deadlines of all pending requests of a connection.

    Args:
        calls: The pending requests by id, a live mapping.
        nursery: The nursery of the monitoring task, which starts with the first deadline.
    """

    def __init__(self, calls: Mapping[RequestId, PendingRequest], nursery: trio.Nursery) -> None:
        self._calls: Final = calls
        self._nursery: Final = nursery
        self._running = False
        self._next = math.inf
        self._earlier = trio.Event()

    def expect(self, deadline: float) -> None:
        """Schedule a deadline. Only a deadline earlier than the next one wakes the monitoring task."""
        if deadline < self._next:
            self._next = deadline
            self._earlier.set()
            if not self._running:
                self._running = True
                self._nursery.start_soon(self._run)

    async def _run(self) -> None:
        while True:
            self._earlier = trio.Event()
            with trio.CancelScope(deadline=self._next):
                await self._earlier.wait()
            now = trio.current_time()
            self._next = math.inf
            for call in tuple(self._calls.values()):
                if call.deadline <= now:
                    call.wake()
                else:
                    self._next = min(self._next, call.deadline)
