"""The time that registered functions block the event loop.

Between two awaits of a function no other task runs, so that all other requests wait. The function is timed where it is
awaited: this covers its own steps only, names it exactly, and is the same on trio and on asyncio. A step is measured when
it ends; a function that never ends its step is found by `mcp-server run --log-level debug`.
"""

from __future__ import annotations

import logging
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from mcp_server.connection.wrapped_coroutine import WrappedCoroutine
from mcp_server.schema.signature import label

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import TracebackType

    from mcp_core.schema.annotations import Function

__all__ = ["StepTimer"]

T = TypeVar("T")

_log: Final = logging.getLogger("mcp_server")

_LIMIT: Final = 0.1
"""Maximum time of a step without a warning, in seconds. asyncio has the same limit in its debug mode."""

_FIRST_CALLS: Final = 64
"""Number of the first calls of a function, which are all timed."""

_SAMPLE: Final = 8
"""Of the later calls, one of so many is timed: timing costs up to 0.8 microseconds, which is 1 to 2 % of a short call over
stdio with many in flight. A function that blocks does so again."""


class StepTimer:
    """The timer of one registered function. It warns of the first step that blocks the event loop, and then stops.

    Args:
        function: The function.
        remedy: What its author can do so that it runs in a thread.
    """

    __slots__ = ("_calls", "_function", "_has_warned", "_remedy")

    def __init__(self, function: Function, remedy: str) -> None:
        self._function: Final = function
        self._remedy: Final = remedy
        self._has_warned = False
        self._calls = 0

    def timed(self, call: Awaitable[T]) -> Awaitable[T]:
        """Return an awaitable of the same result, whose steps are timed if the log has warnings.

        Args:
            call: A coroutine. Another awaitable is returned unchanged, and so are most calls after the first ones.
        """
        self._calls += 1
        if self._calls > _FIRST_CALLS and self._calls % _SAMPLE:
            return call
        if self._has_warned or not isinstance(call, CoroutineType) or not _log.isEnabledFor(logging.WARNING):
            return call
        return _TimedSteps(call, self)

    def warn(self, seconds: float) -> None:
        """Log a step that was too long, once."""
        if self._has_warned:
            return
        self._has_warned = True
        thread = "trio.to_thread.run_sync" if trio.lowlevel.in_trio_task() else "asyncio.to_thread"
        _log.warning(
            "event loop blocked for %d ms by %s; all other requests waited: %s, or pass the part that blocks to `await"
            " %s(...)`",
            seconds * 1000,
            label(self._function),
            self._remedy,
            thread,
        )


class _TimedSteps(WrappedCoroutine[T]):
    """A coroutine whose steps are timed.

    Args:
        coroutine: The coroutine.
        timer: The timer of its function.
    """

    __slots__ = ("_timer",)

    def __init__(self, coroutine: CoroutineType[object, object, T], timer: StepTimer) -> None:
        super().__init__(coroutine)
        self._timer: Final = timer

    # The first step is often the only one. To call other methods here would double its cost.
    def __next__(self) -> object:
        began = perf_counter()
        try:
            return self._coroutine.send(None)
        finally:
            if perf_counter() - began > _LIMIT:
                self._timer.warn(perf_counter() - began)

    def send(self, value: object, /) -> object:
        """Run the next step."""
        began = perf_counter()
        try:
            return self._coroutine.send(value)
        finally:
            # trio sends the outcome with an exception, whose traceback refers to this frame: a cycle.
            del value
            if perf_counter() - began > _LIMIT:
                self._timer.warn(perf_counter() - began)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> object:
        """Raise an exception in the coroutine, and run the next step."""
        began = perf_counter()
        try:
            return super().throw(kind, value, traceback)
        finally:
            # The traceback of the exception refers to this frame: a reference back would be a cycle.
            del kind, value, traceback
            if perf_counter() - began > _LIMIT:
                self._timer.warn(perf_counter() - began)
