"""trio as a guest of an asyncio event loop, and calls between the two in both directions.

*Guest mode.* `trio.lowlevel.start_guest_run` divides trio's loop into ticks, which the host's loop calls. Both run in one
thread, so they share all data, and a call from one to the other is a callback. If trio has nothing to run, its own guest
mode waits for I/O in a thread. Each tick after a pause then costs two thread switches, which is more than the rest of a
short request.

*Without a thread.* On Linux and macOS, trio waits with one file descriptor (epoll, kqueue), which the asyncio loop can
wait for like any other. So this module does what the thread does:

1. An always-runnable task keeps trio from starting its thread: trio then schedules its next tick at once, through
   `run_sync_soon_not_threadsafe`. This module stores the tick instead.
2. The tick is called when a task becomes runnable (the instrument `task_scheduled`), when trio's file descriptor is
   readable, and when the next deadline passes.
3. A tick handles the events that the one before has received. If the file descriptor is readable, this module receives
   them first: otherwise a tick would only do that. After a tick that has received events, the next one is called at once.

Steps 2 and 3 use attributes of trio's guest state, which trio does not document. If they do not exist (Windows, a
future release), that task does not start, and trio waits in its thread as documented.

*First steps.* Most functions of an application do not wait. Their asyncio task runs its first step within the step of the
trio task that calls it, which saves three iterations of the loop and a tick.

*Workers.* A new task and a new cancel scope cost a fifth of a short request. Therefore a trio task that has finished a call
from asyncio waits for the next one, which gives it its own context variables. A task whose call raised or was cancelled
ends.

*Several loops.* A thread may have several loops that run in turns, as those of pytest-asyncio do. trio has one current run for
each thread, so each entry into a guest makes its run the current one.

*Ownership.* One asyncio task owns the run. `asyncio.run` cancels all tasks at its end; the owner then cancels the trio
tasks and waits for them. `aclose` does the same earlier. A loop that is closed without that leaves the run behind. The next
loop of the thread ends it, by calling the remaining ticks.

Source: https://trio.readthedocs.io/en/stable/reference-lowlevel.html#using-guest-mode-to-run-trio-on-top-of-other-event-loops
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import queue
import sys
import threading
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, Protocol, TypeVar, cast

import outcome
import sniffio
import trio

from mcp_core.trio.host_loop import running_host
from mcp_core.trio.nursery import is_cancellation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

__all__ = ["TrioGuest", "current_guest"]

P = ParamSpec("P")
T = TypeVar("T")

_TICKS: Final = 16
"""Ticks of trio before other callbacks of the asyncio loop run. A short request needs three."""

_IDLE: Final = 64
"""Trio tasks that wait for the next call from asyncio. More calls at the same time start tasks that end with them."""

_NO_VARIABLES: Final = contextvars.Context()
"""The context of a trio task that waits for a call: it must not keep the variables of the last one."""

_ITERATIONS_OF_CANCELLATION: Final = 100
"""Iterations of the asyncio loop in which a cancellation arrives. It needs two for each task that awaits another one."""

_LAST_TICKS: Final = 1000
"""Ticks for a run that must end at once, because its loop does. A task needs one for each step of its cleanup."""

_LAST_SECONDS: Final = 1.0
"""Time for trio's thread to return from its wait when the run must end at once."""


class _IoManager(Protocol):
    """The part of a trio run that waits for I/O, as trio stores it."""

    def get_events(self, timeout: float, /) -> object:
        """Wait up to `timeout` seconds for events, and return them."""


class _Runner(Protocol):
    """A trio run, as trio stores it."""

    io_manager: _IoManager


class _GuestState(Protocol):
    """A guest run, as trio stores it. Each tick is the same method of it."""

    runner: _Runner
    unrolled_run_next_send: outcome.Value[object] | outcome.Error
    """The events that the next tick handles."""


class _CurrentRun(Protocol):
    """The current run and the current task of a thread, as trio stores them. Without one, its attribute does not exist."""

    runner: object
    task: trio.lowlevel.Task


_current_run: Final = cast(
    "_CurrentRun", getattr(sys.modules["trio._core._run"], "GLOBAL_RUN_CONTEXT", None) or SimpleNamespace()
)
"""trio does not document it. If it does not exist, a thread can have only one loop with a guest, and each asyncio task starts
in a later iteration of the loop."""


class _LateCancellation(asyncio.CancelledError):
    """The end of a call whose caller was cancelled without it. It passes through trio tasks, too."""


class _Thread(threading.local):
    """The trio runs of each thread that have not ended, by loop."""

    def __init__(self) -> None:
        self.guests: Final[dict[asyncio.AbstractEventLoop, TrioGuest]] = {}


_thread: Final = _Thread()


def current_guest() -> TrioGuest:
    """Return the trio guest of the running asyncio loop. Start it at the first call.

    Raises:
        RuntimeError: No asyncio loop is running in this thread, or trio is running in it already.
    """
    loop = asyncio.get_running_loop()
    guest = _thread.guests.get(loop)
    if guest is None:
        for other in tuple(_thread.guests.values()):
            if other.is_left_behind:
                other.end_after_loop()
        guest = _thread.guests[loop] = TrioGuest(loop)
    return guest


class _AsyncioCall(Generic[T]):
    """A call of a trio coroutine function from an asyncio task.

    Args:
        function: The function.
        loop: The loop of the asyncio task.
        context: The context variables of the function.
    """

    __slots__ = ("_function", "_loop", "context", "failure", "has_ended", "values", "waiter")

    def __init__(
        self, function: Callable[[], Awaitable[T]], loop: asyncio.AbstractEventLoop, context: contextvars.Context
    ) -> None:
        self._function: Final = function
        self._loop: Final = loop
        self.context = context
        self.values: list[T] = []
        self.failure: BaseException | None = None
        self.has_ended = False
        self.waiter: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Call the function. If it raises, the caller of this method ends the call."""
        self.values.append(await self._function())
        self.end()

    def end(self) -> None:
        """Wake the asyncio task."""
        self.has_ended = True
        if self.waiter is not None and not (self.waiter.done() or self._loop.is_closed()):
            self.waiter.set_result(None)


class _AnyCall(Protocol):
    """A `_AsyncioCall` with any result."""

    context: contextvars.Context
    failure: BaseException | None

    async def run(self) -> None: ...
    def end(self) -> None: ...


class _Worker:
    """A trio task for calls from asyncio.

    Args:
        call: The first call.
    """

    __slots__ = ("call", "scope", "task")

    task: trio.lowlevel.Task
    """The task, once it has started."""

    def __init__(self, call: _AnyCall) -> None:
        self.call: _AnyCall | None = call
        self.scope: Final = trio.CancelScope()


class TrioGuest(trio.abc.Instrument):
    """A trio run in the thread of an asyncio loop. Create it in that thread.

    Args:
        loop: The running loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._tick: Callable[[], object] | None = None
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_runnable = False
        self._is_ticking = False
        self._runnable_task: trio.lowlevel.Task | None = None
        self._nursery: trio.Nursery | None = None
        self._scope: Final = trio.CancelScope()
        self._descriptor: int | None = None
        self._state: _GuestState | None = None
        self._run_of_trio: object = None
        self._end: Final[asyncio.Future[None]] = loop.create_future()
        self._idle: Final[list[_Worker]] = []
        self._from_thread: Final[queue.SimpleQueue[Callable[[], object]]] = queue.SimpleQueue()
        _leave_other_run()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._call_from_thread,
            run_sync_soon_not_threadsafe=self._store,
            done_callback=self._finish,
            host_uses_signal_set_wakeup_fd=True,
            instruments=[self],
        )
        self._run_of_trio = getattr(_current_run, "runner", None)
        self._descriptor = self._watched()
        while not self._has_started():
            # The first ticks start `_main`. They do not wait.
            self._run_ticks()
        self._owner: Final[asyncio.Task[None]] = loop.create_task(self._own(), name="trio guest")
        self._owner.add_done_callback(self._end_now)

    def _has_started(self) -> bool:
        return self._nursery is not None

    @property
    def ended(self) -> bool:
        """Whether the trio run has ended."""
        return self._end.done()

    @property
    def is_left_behind(self) -> bool:
        """Whether the loop was closed before the run ended."""
        return self._loop.is_closed()

    # --- calls from one loop to the other --------------------------------------------------------------------------

    async def run(self, function: Callable[[], Awaitable[T]], context: contextvars.Context | None = None) -> T:
        """Call a trio coroutine function from an asyncio task.

        It runs in a trio task. If the asyncio task is cancelled, the trio task is cancelled, and this method waits until it
        has ended.

        Args:
            function: The function.
            context: The context variables of the function; `None` for a copy of those of the caller.

        Returns:
            The return value of the function.

        Raises:
            BaseException: The exception of the function.
            asyncio.CancelledError: The asyncio task was cancelled, or the trio run ended during the call.
            RuntimeError: The trio run has ended before the call.
        """
        nursery = self._nursery
        if nursery is None:
            raise RuntimeError("the trio run of this event loop has ended; it ends with the loop")
        self._resume()
        call = _AsyncioCall(function, self._loop, contextvars.copy_context() if context is None else context)
        scope = self._start(call, nursery)
        cancellation: asyncio.CancelledError | None = None
        while not call.has_ended:
            call.waiter = self._loop.create_future()
            try:
                await call.waiter
            except asyncio.CancelledError as error:
                # The trio task still needs its time, even if the asyncio task is cancelled again.
                cancellation = error
                if not call.has_ended:  # else the scope may belong to another call
                    self._resume()
                    scope.cancel()
        try:
            if call.failure is not None:
                raise call.failure
            if cancellation is not None:
                raise cancellation
            if not call.values:
                raise asyncio.CancelledError("the trio run has ended")
            return call.values[0]
        finally:
            # The tracebacks refer to this frame.
            call.failure = cancellation = None

    def _start(self, call: _AsyncioCall[T], nursery: trio.Nursery) -> trio.CancelScope:
        """Start a call in a trio task. Return the cancel scope of the call."""
        if self._idle:
            worker = self._idle.pop()
            worker.call = call
            worker.task.context = call.context
            trio.lowlevel.reschedule(worker.task)
        else:
            worker = _Worker(call)
            call.context.run(nursery.start_soon, self._work, worker)
        return worker.scope

    async def _work(self, worker: _Worker) -> None:
        """Run calls, one after the other. The first one that raises or is cancelled is the last one."""
        worker.task = trio.lowlevel.current_task()
        try:
            with worker.scope:
                while worker.call is not None:
                    await worker.call.run()
                    if len(self._idle) < _IDLE and not worker.scope.cancel_called:
                        await self._next_call(worker)
                    else:
                        worker.call = None
        except BaseException as error:
            if is_cancellation(error) or worker.call is None:
                raise  # of the whole run
            worker.call.failure = error  # raised in the asyncio task
        finally:
            if worker.call is not None:
                worker.call.end()

    async def _next_call(self, worker: _Worker) -> None:
        """Wait until another call uses the worker."""
        worker.call = None
        worker.task.context = _NO_VARIABLES
        self._idle.append(worker)

        def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._idle.remove(worker)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    async def run_asyncio(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call an asyncio coroutine function from a trio task.

        It runs in an asyncio task with the context variables of the caller. If the trio task is cancelled, the asyncio
        task is cancelled, and this method waits until it has ended. From Python 3.12, a function that does not wait ends
        in the same step of the trio task: no loop has to wake a task, and this is not a schedule point of trio.

        Returns:
            The return value of the function.

        Raises:
            BaseException: The exception of the function.
            RuntimeError: The function raised `asyncio.CancelledError`, but nothing cancelled the trio task.
        """
        if self._loop.is_closed():
            raise RuntimeError("the asyncio loop is closed")
        await trio.lowlevel.checkpoint_if_cancelled()
        cancellation: list[trio.lowlevel.RaiseCancelT] = []
        task = self._create_task(_awaited(function))
        if not task.done():
            me = trio.lowlevel.current_task()
            task.add_done_callback(lambda _: self._call(trio.lowlevel.reschedule, me))

            def cancel(raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
                if self._loop.is_closed():
                    return trio.lowlevel.Abort.SUCCEEDED  # the asyncio task does not continue
                cancellation.append(raise_cancel)
                task.cancel()
                return trio.lowlevel.Abort.FAILED

            await trio.lowlevel.wait_task_rescheduled(cancel)
        if task.cancelled():
            if cancellation:
                cancellation.pop()()
            # The end of the loop cancels the asyncio tasks and the trio run at the same time.
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                task.result()
            except _LateCancellation:
                raise
            except asyncio.CancelledError:
                raise RuntimeError(
                    "the function raised asyncio.CancelledError, but its request was not cancelled"
                ) from None
        return task.result()

    @asynccontextmanager
    async def enter_asyncio(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
        """Enter and leave an asyncio context manager from a trio task. One asyncio task does both.

        Args:
            make: Returns the context manager. It is called in that task.

        Raises:
            BaseException: The exceptions of the context manager.
        """
        entered: asyncio.Future[T] = self._loop.create_future()
        left: asyncio.Future[None] = self._loop.create_future()

        async def own() -> None:
            async with make() as value:
                entered.set_result(value)
                await left

        task = self._create_task(own(), name="context manager for trio")

        async def until(*futures: asyncio.Future[T] | asyncio.Future[None]) -> None:
            try:
                await asyncio.wait({task, *futures}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task})
                raise

        await self.run_asyncio(partial(until, entered))
        if not entered.done():
            task.result()
            raise RuntimeError("the context manager was not entered")
        try:
            yield entered.result()
        except BaseException as error:
            if is_cancellation(error):
                if self._loop.is_closed():
                    raise
                task.cancel()
                with trio.CancelScope(shield=True):
                    await self.run_asyncio(until)
                raise
            # Raised in the context manager, which decides.
            if not left.done():
                left.set_exception(error)
        else:
            if not left.done():
                left.set_result(None)
        await self.run_asyncio(until)
        # The end of the loop cancels all asyncio tasks, and the trio run.
        await trio.lowlevel.checkpoint_if_cancelled()
        task.result()

    def _create_task(self, coroutine: Coroutine[object, object, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Create an asyncio task within a step of a trio task, with the context variables of the trio task.

        From Python 3.12 the first step of the asyncio task runs at once. A task factory of the application decides that
        itself, for example `asyncio.eager_task_factory`. During this step, trio and sniffio must not report a trio task.
        """
        context = contextvars.copy_context()
        task_of_trio: trio.lowlevel.Task | None = getattr(_current_run, "task", None)
        library = sniffio.thread_local.name
        if task_of_trio is None:
            return self._loop.create_task(coroutine, name=name, context=context)
        del _current_run.task
        sniffio.thread_local.name = None
        try:
            if sys.version_info >= (3, 12) and self._loop.get_task_factory() is None:
                return asyncio.Task(coroutine, loop=self._loop, name=name, context=context, eager_start=True)
            return self._loop.create_task(coroutine, name=name, context=context)
        finally:
            _current_run.task, sniffio.thread_local.name = task_of_trio, library

    async def wait_for_cancellation(self) -> None:
        """Wait for the cancellation of a scope, if an asyncio task called the current trio task, by `run`.

        For code that has cancelled a scope around that asyncio task: the current trio task is not in that scope. The
        cancellation passes through each asyncio task and each trio task between them. If the current task ended earlier,
        the first function on the way out, for example a middleware, would end as if nothing had cancelled it.

        Raises:
            trio.Cancelled: The cancellation arrived.
            asyncio.CancelledError: It did not arrive, because an asyncio task does not pass it on, for example one that
                calls `asyncio.wait`.
        """
        if trio.lowlevel.current_task().parent_nursery is not self._nursery:
            return
        for _ in range(_ITERATIONS_OF_CANCELLATION):
            await self.run_asyncio(partial(asyncio.sleep, 0))
        raise _LateCancellation

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Start a trio task that is cancelled when the trio run ends. The function must not raise."""
        if self._nursery is not None:
            self._nursery.start_soon(function)

    async def aclose(self) -> None:
        """Cancel all trio tasks and wait until the trio run has ended. Call it from asyncio."""
        self._owner.cancel()
        await asyncio.wait([self._end])

    # --- the trio run ----------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        running_host.set(self)
        if self._descriptor is not None:
            # Before the first wait. Its first step sets `_runnable_task`; until then it counts as any other task.
            trio.lowlevel.spawn_system_task(self._keep_runnable)
        with self._scope:
            await self._host()

    async def _host(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await trio.sleep_forever()
            finally:
                # From now on the always-runnable task counts as any other task: trio waits until it has ended, too.
                self._nursery = self._runnable_task = None

    async def _own(self) -> None:
        """Wait until the trio run ends. If this asyncio task is cancelled, end the run."""
        try:
            await asyncio.shield(self._end)
        except asyncio.CancelledError:
            while not self._end.done():
                self._resume()
                self._scope.cancel()
                try:
                    await asyncio.shield(self._end)
                except asyncio.CancelledError:
                    continue
            raise

    def _end_now(self, owner: asyncio.Task[None]) -> None:  # noqa: ARG002  # a callback
        """End the run if its owner was cancelled before its first step: the loop can be closed after this callback."""
        if not self._end.done():
            self._run_last_ticks()

    def end_after_loop(self) -> None:
        """End a run whose loop was closed before it: cancel all tasks, and run ticks until they have ended.

        Raises:
            RuntimeError: A task does not end without its loop.
        """
        self._run_last_ticks()
        if not self._end.done():
            raise RuntimeError(
                "an earlier asyncio loop in this thread was closed while its tasks ran, and one of them cannot end without"
                " it: cancel all tasks before a loop is closed, as asyncio.run does"
            )

    def _run_last_ticks(self) -> None:
        """Cancel all tasks, and run ticks until the run has ended, without the loop."""
        self._resume()
        self._is_ticking = True
        self._scope.cancel()
        for _ in range(_LAST_TICKS):
            if self._end.done():
                return
            tick, self._tick = self._tick, None
            if tick is None:
                try:
                    tick = self._from_thread.get(timeout=_LAST_SECONDS)
                except queue.Empty:
                    return
            tick()

    def _finish(self, result: outcome.Outcome[None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._descriptor is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
        self._descriptor = self._tick = self._nursery = self._run_of_trio = None
        # The thread must not keep the loop.
        _thread.guests.pop(self._loop, None)
        try:
            result.unwrap()
        except BaseException as error:  # noqa: BLE001  # raised by the owner
            self._set_end(partial(self._end.set_exception, error))
        else:
            self._set_end(partial(self._end.set_result, None))

    def _set_end(self, set_outcome: Callable[[], None]) -> None:
        # A closed loop does not call the callbacks of the future, but the outcome is set.
        with suppress(RuntimeError) if self._loop.is_closed() else nullcontext():
            set_outcome()

    async def _keep_runnable(self) -> None:
        """Run a step in each tick, so that trio does not wait for I/O in a thread."""
        self._runnable_task = trio.lowlevel.current_task()
        while True:
            await trio.lowlevel.checkpoint()

    # --- several loops of one thread -------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Make this run the current one of the thread. Another loop of the thread may have run meanwhile."""
        if self._run_of_trio is not None:
            _current_run.runner = self._run_of_trio

    def _call(self, function: Callable[P, object], *arguments: P.args, **options: P.kwargs) -> None:
        """Call a function of trio from a callback of the loop."""
        self._resume()
        function(*arguments, **options)

    # --- ticks -----------------------------------------------------------------------------------------------------

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Call the next tick soon, because a task can run. Called by trio."""
        if task is not self._runnable_task:
            self._is_runnable = True
            self._wake()

    def _store(self, tick: Callable[[], object]) -> None:
        """Store the next tick, which trio wants to be called at once."""
        self._tick = tick
        if self._descriptor is None or self._is_runnable:
            self._wake()

    def _call_from_thread(self, function: Callable[[], object]) -> None:
        """Call a function in the thread of the loop, soon. Called by trio in its thread, after a wait for I/O."""
        self._from_thread.put(function)
        with suppress(RuntimeError):  # the loop is closed: `_run_last_ticks` calls the function
            self._loop.call_soon_threadsafe(self._run_from_thread)

    def _run_from_thread(self) -> None:
        try:
            function = self._from_thread.get_nowait()
        except queue.Empty:
            return  # called by `_run_last_ticks`
        self._call(function)

    def _wake(self) -> None:
        if self._soon is None and self._tick is not None and not self._is_ticking:
            self._soon = self._loop.call_soon(self._run_ticks)

    def _run_ticks(self) -> None:
        """Call ticks until trio has nothing to do, but not for so long that other callbacks would be delayed."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self._resume()
        self._is_ticking = True
        try:
            for _ in range(_TICKS):
                tick, self._tick = self._tick, None
                if tick is None:
                    return  # trio has ended, or waits in its thread
                self._is_runnable = False
                tick()
                if self._descriptor is None:
                    break
                if not (self._is_runnable or self._has_events()):
                    break
        finally:
            self._is_ticking = False
        if self._tick is None:
            return
        if self._descriptor is None or self._is_runnable or self._has_events():
            self._soon = self._loop.call_soon(self._run_ticks)
            return
        seconds = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if seconds < math.inf:
            self._set_timer(self._loop.time() + max(0.0, seconds))

    def _set_timer(self, time: float) -> None:
        """Call ticks at this time of the loop. A timer that is earlier stays: most deadlines are cancelled before they pass."""
        if self._timer is not None:
            if self._timer.when() <= time:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(time, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._run_ticks()

    def _on_readable(self) -> None:
        """Receive the events of trio, and call the tick that handles them. The last tick received none."""
        if self._state is not None and self._tick is not None and not self._has_events():
            self._state.unrolled_run_next_send = outcome.capture(self._state.runner.io_manager.get_events, 0)
        self._run_ticks()

    def _has_events(self) -> bool:
        """Return whether trio has received events that it handles in the next tick, or an error."""
        return self._state is not None and bool(getattr(self._state.unrolled_run_next_send, "value", True))

    def _watched(self) -> int | None:
        """Let the asyncio loop wait for trio's file descriptor, and return it; `None` if one of them does not support it."""
        self._state = None if self._tick is None else _state_of(self._tick)
        descriptor = None if self._state is None else _descriptor_of(self._state.runner.io_manager)
        if descriptor is None:
            return None
        try:
            self._loop.add_reader(descriptor, self._on_readable)
        except (NotImplementedError, OSError):
            return None  # the loop cannot wait for it: trio waits in its thread
        return descriptor


def _leave_other_run() -> None:
    """Let the thread start another run, if its present one is the guest of a loop that does not run now."""
    is_guest = getattr(getattr(_current_run, "runner", None), "is_guest", False)
    # Within a step of one of its tasks, its loop does run.
    if is_guest and not trio.lowlevel.in_trio_task():
        del _current_run.runner


async def _awaited(function: Callable[[], Awaitable[T]]) -> T:
    return await function()


def _state_of(tick: Callable[[], object]) -> _GuestState | None:
    """Return the state of a guest run; `None` if trio waits without a file descriptor, or another release of trio hides it."""
    state = getattr(tick, "__self__", None)
    manager = getattr(getattr(state, "runner", None), "io_manager", None)
    is_known = hasattr(getattr(state, "unrolled_run_next_send", None), "value") and hasattr(manager, "get_events")
    return cast("_GuestState", state) if is_known and _descriptor_of(manager) is not None else None


def _descriptor_of(manager: object) -> int | None:
    """Return the file descriptor with which trio waits."""
    for name in ("_epoll", "_kqueue"):
        fileno = getattr(getattr(manager, name, None), "fileno", None)
        if callable(fileno):
            found = fileno()
            return found if isinstance(found, int) else None
    return None
