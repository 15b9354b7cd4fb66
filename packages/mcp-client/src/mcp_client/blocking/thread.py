"""The background thread of the blocking client: it runs trio, with the connections of all blocking clients.

A caller in another thread waits for the result of a coroutine function. While it waits, plain functions that belong to its
call, such as `on_progress`, run in its own thread. If the caller is interrupted, for example by Ctrl+C, the call is
cancelled. The thread starts with the first call. It ends when the interpreter exits, and then closes all connections.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar, cast

import trio

from mcp_core.errors import ConnectionEnded
from mcp_core.trio.async_library import call_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_client.handlers import ProgressHandler

__all__ = ["TrioThread", "current_thread"]

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
        self._nursery: trio.Nursery | None = None
        self._is_forked = False
        # A daemon, because the interpreter waits for other threads before it calls `_stop`.
        self._thread: Final = threading.Thread(target=self._run, name="mcp_client.blocking", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one in which the thread runs."""
        return self._is_forked

    def call(self, function: Callable[P, Awaitable[T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a coroutine function in a trio task with the context variables of the caller, and return its result.

        Args:
            function: The coroutine function.
            arguments: Its arguments.
            options: Its keyword arguments. `on_progress` is called in the thread of the caller.

        Raises:
            ConnectionEnded: The thread does not exist in this process, which was forked; or the interpreter exits.
            RuntimeError: The caller runs in this thread, for example as a handler of log messages.
            BaseException: The exception of the function, or the one that interrupted the caller.
        """
        if self._is_forked:
            raise ConnectionEnded("the client belongs to the parent process; open a client in the forked process")
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a blocking client was called in the thread of the blocking clients, which would wait for itself: a coroutine"
                " function, a notification handler or middleware must not call it; a plain handler of a request can"
            )
        self._is_ready.wait()
        if self._token is None:
            raise RuntimeError("the thread of the blocking clients did not start") from self._error
        call: _BlockingCall[T] = _BlockingCall(self._token)
        return call.run(partial(self._start, call, copy_context()), function, *arguments, **options)

    def _start(self, call: _BlockingCall[T], context: Context, function: Callable[[], Awaitable[T]]) -> None:
        """Start the task of a call, in its context."""
        if self._nursery is None:
            call.fail(_exits())
        else:
            context.run(self._nursery.start_soon, call.run_task, function)

    def mark_forked(self) -> None:
        """Note that this process is a fork, in which the thread does not run."""
        self._is_forked = True

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001  raised to the callers
            self._error = error
        finally:
            self._is_ready.set()

    async def _main(self) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                self._token = trio.lowlevel.current_trio_token()
                self._is_ready.set()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def _stop(self) -> None:
        """Close all connections and end the thread."""
        if self._is_forked:
            return
        self._is_ready.wait()
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._cancel)
        self._thread.join(_EXIT)

    def _cancel(self) -> None:
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()


class _BlockingCall(Generic[T]):
    """One call of a coroutine function in the trio thread.

    Args:
        token: Represents the trio run.
    """

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token: Final = token
        self._scope: Final = trio.CancelScope()
        # The functions to call in the thread of the caller. At the end of the call, `None`.
        self._steps: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._values: Final[list[T]] = []
        self._error: BaseException | None = None
        self._has_ended = False

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
            try:
                self._token.run_sync_soon(start, partial(function, *arguments, **options))
            except trio.RunFinishedError:
                raise _exits() from None
            while (step := self._next()) is not None:
                step()
        except BaseException:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)
                while not self._has_ended:
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
        except trio.Cancelled:
            self._error = _exits()
            raise
        except BaseException as error:  # noqa: BLE001  raised to the caller
            self._error = error
        finally:
            self._end()

    def fail(self, error: ConnectionEnded) -> None:
        """End the call, whose task does not start, with an error."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self._has_ended = True
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
                finally:
                    with suppress(trio.RunFinishedError):
                        self._token.run_sync_soon(done.set)

            self._steps.put(step)
            await done.wait()
            if failed:
                raise failed[0]
            if isinstance(shown[0], Awaitable):
                await shown[0]

        return run


def _exits() -> ConnectionEnded:
    return ConnectionEnded("the interpreter exits, which closes all blocking clients")


_lock = threading.Lock()
_threads: Final[list[TrioThread]] = []
"""The thread of this process, if it has started."""


def current_thread() -> TrioThread:
    """Return the thread of this process, which starts with the first call."""
    with _lock:
        if not _threads:
            _threads.append(TrioThread())
        return _threads[0]


def _forget() -> None:
    """Forget the thread of the parent process, in a fork. Another thread may have held the lock."""
    global _lock  # noqa: PLW0603  a new lock for the new process
    _lock = threading.Lock()
    for thread in _threads:
        thread.mark_forked()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
