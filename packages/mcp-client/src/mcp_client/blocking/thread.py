"""The background thread of the blocking client: it runs trio, with the connections of all blocking clients.

A caller in another thread waits for the result of a coroutine function. While it waits, plain functions that belong to its
call, such as `on_progress`, run in its own thread. If the caller is interrupted, for example by Ctrl+C, the call is
cancelled. The thread starts with the first call. It ends when the interpreter exits, and then closes all connections.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, Protocol, TypeVar, cast

import trio

from mcp_core.errors import ConnectionEnded
from mcp_core.trio.async_library import call_in
from mcp_core.trio.nursery import is_cancellation

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from mcp_client.handlers import ProgressHandler

__all__ = ["TrioThread", "current_thread"]

_log: Final = logging.getLogger("mcp_client")

_POLL: Final = 0.1 if sys.platform == "win32" else None
"""How long one wait for a queue takes, in seconds. On Windows, Ctrl+C does not interrupt a wait."""

_EXIT: Final = 30.0
"""Maximum time in which the interpreter waits at its exit for connections to close, in seconds. Each connection limits the
time that it takes to close, so this is a safeguard."""

P = ParamSpec("P")
T = TypeVar("T")


class TrioThread:
    """A thread that runs trio. It starts at once."""

    def __init__(self) -> None:
        self._is_ready: Final = threading.Event()
        self._error: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        # `None` before tasks can start, and when they cannot start any more.
        self._nursery: trio.Nursery | None = None
        self._calls: Final[set[_Pending]] = set()
        self._is_over = False
        self._is_stopping = False
        self._is_forked = False
        # A daemon, because the interpreter waits for other threads before it calls `_stop`.
        self._thread: Final = threading.Thread(target=self._run, name="mcp_client.blocking", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    @property
    def is_over(self) -> bool:
        """Whether the thread has ended, or is about to; or does not exist in this process, which was forked."""
        return self._is_forked or (self._is_ready.is_set() and self._nursery is None)

    @property
    def has_failed(self) -> bool:
        """Whether the thread has ended, or is about to, for another reason than the exit of the interpreter."""
        return self.is_over and not self._is_stopping

    def check_process(self) -> None:
        """Check that this process is not a fork of the one in which the thread runs.

        Raises:
            ConnectionEnded: It is a fork.
        """
        if self._is_forked:
            raise ConnectionEnded("the client belongs to the parent process; open a client in the forked process")

    def call(self, function: Callable[P, Awaitable[T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a coroutine function in a trio task with the context variables of the caller, and return its result.

        Args:
            function: The coroutine function.
            arguments: Its arguments.
            options: Its keyword arguments. `on_progress` is called in the thread of the caller.

        Raises:
            ConnectionEnded: The thread does not exist in this process, which was forked; or it has ended, because the
                interpreter exits or because trio failed.
            RuntimeError: The caller runs in this thread, for example as a handler of log messages.
            BaseException: The exception of the function, or the one that interrupted the caller.
        """
        self.check_process()
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a blocking client was called in the thread of the blocking clients, which would wait for itself: a coroutine"
                " function, a notification handler or middleware must not call it; a plain handler of a request can"
            )
        self._is_ready.wait()
        call: _BlockingCall[T] = _BlockingCall(self)
        # Added before the check: `_run` ends all calls that it finds here after it has set `_is_over`.
        self._calls.add(call)
        try:
            if self._is_over:
                raise self.ended()
            return call.run(partial(self._start, call, copy_context()), function, *arguments, **options)
        finally:
            self._calls.discard(call)

    def enter(self, block: AbstractAsyncContextManager[T]) -> T:
        """Enter an asynchronous context manager, and return its value. Leave it if the caller is interrupted meanwhile.

        Raises:
            BaseException: The exceptions of `call`.
        """
        entered: list[T] = []

        async def enter() -> None:
            entered.append(await block.__aenter__())

        try:
            self.call(enter)
            return entered[0]
        except BaseException as error:
            if entered:
                # The block was entered before the interruption reached it.
                self.call(block.__aexit__, type(error), error, error.__traceback__)
            raise

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function in the trio thread. If the thread has ended, `_run` ends the call of the caller."""
        # After a failure of trio, OSError: the socket that wakes it is closed.
        with suppress(trio.RunFinishedError, OSError):
            if self._token is not None:
                self._token.run_sync_soon(function)

    def _start(self, call: _BlockingCall[T], context: Context, function: Callable[[], Awaitable[T]]) -> None:
        """Start the task of a call, in its context."""
        if call.has_ended:
            return  # its caller was interrupted before
        if self._nursery is None:
            # `_run` ends the call, when the reason is known. Threads that run at the exit of the interpreter have little time.
            if self._is_stopping:
                call.fail(self.ended())
        else:
            call.has_task = True
            context.run(self._nursery.start_soon, call.run_task, function)

    def ended(self) -> ConnectionEnded:
        """Return the error of a call, because the thread has ended or is about to end."""
        if self._is_stopping:
            return ConnectionEnded("the interpreter exits, which closes all blocking clients")
        error = ConnectionEnded("the thread of the blocking clients failed; open a new client")
        error.__cause__ = self._error
        return error

    def mark_forked(self) -> None:
        """Note that this process is a fork, in which the thread does not run."""
        self._is_forked = True

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001  raised to the callers
            self._error = error
            _log.critical("the thread of the blocking clients failed", exc_info=error)
        finally:
            self._is_over = True
            self._is_ready.set()
            for call in tuple(self._calls):
                call.fail(self.ended())

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            self._is_ready.set()
            try:
                await trio.sleep_forever()
            finally:
                # Callbacks may still run after the last task of the nursery, which is then closed to new tasks.
                self._nursery = None

    def _stop(self) -> None:
        """Close all connections and end the thread."""
        if self._is_forked:
            return
        self._is_stopping = True
        self._is_ready.wait()
        self.soon(self._cancel)
        self._thread.join(_EXIT)

    def _cancel(self) -> None:
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()


class _Pending(Protocol):
    """A call that waits for its end."""

    def fail(self, error: ConnectionEnded) -> None:
        """End the call with an error, unless it has ended."""


class _BlockingCall(Generic[T]):
    """One call of a coroutine function in the trio thread.

    Args:
        thread: The thread.
    """

    def __init__(self, thread: TrioThread) -> None:
        self._thread: Final = thread
        self._scope: Final = trio.CancelScope()
        # The functions to call in the thread of the caller. At the end of the call, `None`.
        self._steps: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._values: Final[list[T]] = []
        self._error: BaseException | None = None
        self.has_task = False
        """Whether the task was started, in the trio thread."""
        self.has_ended = False
        """Whether the call has ended."""

    # --- in the thread of the caller -------------------------------------------------------------------------------

    def run(
        self,
        start: Callable[[Callable[[], Awaitable[T]]], None],
        function: Callable[P, Awaitable[T]],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Start the call, and return its result.

        Args:
            start: Starts the task, when it is called in the trio thread.
            function: The coroutine function.
            arguments: Its arguments.
            options: Its keyword arguments.
        """
        on_progress = options.get("on_progress")
        if on_progress is not None:
            options["on_progress"] = self._in_caller(cast("ProgressHandler", on_progress))
        try:
            self._thread.soon(partial(start, partial(function, *arguments, **options)))
            while (step := self._next()) is not None:
                step()
        except BaseException:
            # An interruption may come before, during or after each statement above. The trio thread knows which.
            self._thread.soon(self._abandon)
            while not self.has_ended:
                self._next()
            raise
        try:
            if self._error is not None:
                raise self._error
            return self._values[0]
        finally:
            # The exception refers to this frame: a reference cycle otherwise.
            self._error = None

    def _next(self) -> Callable[[], None] | None:
        while True:
            with suppress(Empty):
                return self._steps.get(timeout=_POLL)

    # --- in the trio thread ----------------------------------------------------------------------------------------

    async def run_task(self, function: Callable[[], Awaitable[T]]) -> None:
        """Run the function in the task of the call."""
        try:
            with self._scope:
                self._values.append(await call_in("trio", function))
        except BaseException as error:
            if is_cancellation(error):
                self._error = self._thread.ended()
                raise
            self._error = error  # raised to the caller
        finally:
            self._end()

    def fail(self, error: ConnectionEnded) -> None:
        """End the call with an error, unless it has ended. Its task does not start, or does not exist any more."""
        if not self.has_ended:
            self._error = error
            self._end()

    def _abandon(self) -> None:
        """End the call, whose caller was interrupted. Functions for the trio thread are called in order."""
        self._scope.cancel()
        if not self.has_task:
            self._end()

    def _end(self) -> None:
        self.has_ended = True
        self._steps.put(None)

    def _in_caller(self, function: ProgressHandler) -> ProgressHandler:
        """Return a coroutine function that calls a function in the thread of the caller, and waits for its end.

        The coroutine of a coroutine function runs in the task of the call.
        """

        async def run(progress: float, total: float | None, message: str | None) -> None:
            done = trio.Event()
            shown: list[Awaitable[None] | None] = []
            failed: list[Exception] = []

            def step() -> None:
                try:
                    shown.append(function(progress, total, message))
                except Exception as error:  # noqa: BLE001  raised in the task of the call
                    failed.append(error)
                # After any other exception, the call is cancelled.
                self._thread.soon(done.set)

            self._steps.put(step)
            await done.wait()
            if failed:
                raise failed[0]
            if isinstance(shown[0], Awaitable):
                await shown[0]

        return run


_lock = threading.RLock()
_threads: Final[list[TrioThread]] = []
"""The thread of this process, if it has started."""


def current_thread() -> TrioThread:
    """Return the thread of this process, which starts with the first call."""
    with _lock:
        if _threads and _threads[0].has_failed:
            _threads.clear()
        if not _threads:
            _threads.append(TrioThread())
        return _threads[0]


def _forget() -> None:
    """Forget the thread of the parent process, in a fork. Another thread may have held the lock."""
    global _lock  # noqa: PLW0603  a new lock for the new process
    _lock = threading.RLock()
    for thread in _threads:
        thread.mark_forked()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
