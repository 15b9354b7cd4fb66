"""A request of ours that waits for its answer: in the task of its caller, with its progress and its deadlines.

Each ends exactly once: with an outcome, because the connection is over, by a deadline, or because its caller is
cancelled.

Over HTTP the task of the caller does the whole exchange (`Call.perform`), in a cancel scope that keeps its deadlines.
Over one pipe for all it only waits (`Call.wait`), and a scope for each call would cost as much as encoding and decoding
its messages. There one task of the connection (`Watch`) looks after the deadlines of all calls, and a scope is opened
only where a call does something else than wait for its answer: while it cannot be written, or an asynchronous progress
handler runs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from mcp_client.connection.progress import ProgressQueue
from mcp_core.errors import McpError, RemoteProtocolError, RequestTimeout
from mcp_core.types import ProgressNotificationParams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_client.deadlines import Deadlines
    from mcp_core.engine.events import AnswerReceived, FailureReceived
    from mcp_core.jsonrpc.messages import RequestId

__all__ = ["Call", "ProgressFailed", "ProgressHandler", "Watch"]

ProgressHandler: TypeAlias = Callable[[ProgressNotificationParams], Awaitable[None] | None]
"""Shows progress; a plain or an asynchronous function.

It is called in the task of the caller, once for each notification and in their order. All that arrived before the
response is shown before the call returns. While an asynchronous function runs, up to 1,000 notifications wait for it;
with more, the oldest are left out. The deadlines of the request hold for the function too: one that still runs at the
`total` deadline is cancelled, and the rest is left out; the call returns its result, if that has arrived.
"""


class ProgressFailed(Exception):
    """What a progress handler raised, on its way to the caller.

    It may be an error of this package, of another connection for instance, and must not be taken for one of this.
    """

    def __init__(self, error: McpError) -> None:
        super().__init__(str(error))
        self.error: Final = error


class Call:
    """A request that waits for its answer.

    Args:
        deadlines: How long it may wait.
        on_progress: Shows its progress.
        held: The server waits for us at the moment, see `hold`.
        headers: HTTP headers for this request alone.
    """

    __slots__ = (
        "_deadlines",
        "_latest",
        "_on_progress",
        "_over",
        "_performer",
        "_progress",
        "_scope",
        "_showing",
        "_task",
        "deadline",
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
        self.outcome: AnswerReceived | FailureReceived | None = None
        """How it ended, if the server said so."""
        self.headers: Final = headers
        """HTTP headers for this request alone."""
        self._deadlines: Final = deadlines
        self._on_progress: Final = on_progress
        self._latest: Final = now + deadlines.total
        self.deadline = self._latest if held else min(self._latest, now + deadlines.idle)
        """When it is given up, on trio's clock."""
        self._over = False
        self._progress: ProgressQueue | None = None
        self._scope: trio.CancelScope | None = None
        self._showing = False
        self._performer: trio.lowlevel.Task | None = None
        self._task: trio.lowlevel.Task | None = None

    @property
    def ended(self) -> bool:
        """There is an outcome, or none can come any more."""
        return self.outcome is not None or self._over

    # --- over HTTP -------------------------------------------------------------------------------------------------

    async def perform(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does the whole exchange in this task. A deadline ends it, and so does an outcome that comes another way.

        Args:
            work: The exchange. It hands over what comes, calls `show` between, and returns when the call has ended.

        Raises:
            RequestTimeout: A deadline passed.
            RemoteProtocolError: The exchange ended, and nothing in it was taken for the answer.
            McpError: What `work` raises, unless there was an outcome before.
        """
        self._performer = trio.lowlevel.current_task()
        try:
            with trio.CancelScope(deadline=self.deadline) as self._scope:
                await work()
                if not self.ended:
                    raise RemoteProtocolError("what the server sent for this request was not taken for its answer")
        except McpError:
            # How the stream of an answer ends is of no interest to whoever has the answer.
            if self.outcome is None:
                raise
        finally:
            self._scope = self._performer = None
        if not self.ended:
            raise self._late()
        await self.show()

    async def show(self) -> None:
        """Show the progress that came, in this task."""
        while self._progress:
            await self._show(self._progress.take())

    # --- over a pipe -----------------------------------------------------------------------------------------------

    async def send(self, send: Callable[[], Awaitable[None]]) -> None:
        """Sends the request where that may have to wait. A deadline ends it, and so does an outcome."""
        with trio.CancelScope(deadline=self.deadline) as self._scope:
            await send()
        self._scope = None

    async def wait(self) -> None:
        """Waits until there is an outcome, or none can come any more.

        Raises:
            RequestTimeout: A deadline passed.
        """
        while True:
            # What was reported before the answer is shown before it.
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
        return RequestTimeout("the server did not answer", deadline=which, seconds=seconds)

    async def _show(self, progress: ProgressNotificationParams) -> None:
        if self._on_progress is None:
            return
        try:
            shown = self._on_progress(progress)
            if inspect.isawaitable(shown):
                await self._wait_for(shown)
        except McpError as error:
            raise ProgressFailed(error) from None

    async def _wait_for(self, shown: Awaitable[None]) -> None:
        # Behind the answer the idle deadline, which is about the silence of the server, means nothing any more.
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
            # By a deadline or the caller. A handler that hangs would hang with what is left, too.
            if self._progress is not None:
                self._progress.clear()
            raise

    def settle(self, outcome: AnswerReceived | FailureReceived) -> None:
        """The server answered."""
        self.outcome = outcome
        self._finish()

    def end(self) -> None:
        """The connection is over."""
        self._over = True
        self._finish()

    def _finish(self) -> None:
        if self._scope is not None:
            if self._showing:
                self._scope.deadline = self._latest
            elif self._performer is not trio.lowlevel.current_task():
                # What still waits to be written was put down by others, and what would be read is of no use.
                self._scope.cancel()
        self.wake()

    def progressed(self, progress: ProgressNotificationParams) -> None:
        """The server reported progress."""
        if self._on_progress is None:
            return
        if self._progress is None:
            self._progress = ProgressQueue()
        self._progress.put(progress)
        self.wake()

    def alive(self) -> None:
        """The server shows that it is at work: the idle deadline starts anew."""
        self._extend(min(self._latest, trio.current_time() + self._deadlines.idle))

    def hold(self) -> None:
        """The server waits for an answer of ours, so its silence means nothing: only the total deadline counts."""
        self._extend(self._latest)

    def _extend(self, deadline: float) -> None:
        if not self.ended:
            self.deadline = deadline
            if self._scope is not None:
                self._scope.deadline = deadline

    def wake(self) -> None:
        """Something has changed; the task that waits looks what."""
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)


class Watch:
    """Wakes the calls whose deadline has passed.

    Args:
        calls: The calls that wait, as they come and go.
        nursery: Where it runs, from the first call on that it has to look after.
    """

    def __init__(self, calls: Mapping[RequestId, Call], nursery: trio.Nursery) -> None:
        self._calls: Final = calls
        self._nursery: Final = nursery
        self._running = False
        self._next = math.inf
        self._earlier = trio.Event()

    def expect(self, deadline: float) -> None:
        """There is a call with this deadline. Later ones than the next cost nothing: they are seen when that passes."""
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
