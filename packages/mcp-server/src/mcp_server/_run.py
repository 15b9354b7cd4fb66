"""Calls the functions that a server's author registers: coroutines in their task, others in a worker thread."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import McpError
from mcp_server._errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Runner", "is_async", "lone_error", "new_limiter"]

_THREADS: Final = 40
"""How many worker threads one server uses at once; trio's own default, which a blocking function rarely needs more of."""


def new_limiter() -> trio.CapacityLimiter:
    """The bound on worker threads of one server."""
    return trio.CapacityLimiter(_THREADS)


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling `function` gives something to be awaited."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class Runner:
    """A registered function, ready to be called from a task.

    Args:
        function: A coroutine function, or a plain one.
        thread: Whether to call a plain one in a worker thread; `None`: yes.
        limiter: Bounds the threads.

    Raises:
        RegistrationError: A coroutine function shall run in a thread, or it is a generator.
    """

    def __init__(self, function: Callable[..., object], thread: bool | None, limiter: trio.CapacityLimiter) -> None:
        name = getattr(function, "__qualname__", repr(function))
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise RegistrationError(f"{name} is a generator; return a list instead")
        if is_async(function):
            if thread:
                raise RegistrationError(f"{name} is a coroutine function, which cannot run in a thread; leave out thread=True")
            self.run: Callable[..., Awaitable[object]] = function  # type: ignore[assignment]  # is_async has looked
        elif thread is False:
            self.run = self._inline
        else:
            self.run = self._in_thread
        self._function: Final = function
        self._limiter: Final = limiter

    async def _inline(self, *args: object, **kwargs: object) -> object:
        return self._function(*args, **kwargs)

    async def _in_thread(self, *args: object, **kwargs: object) -> object:
        # Not abandoned on cancellation: the thread would go on unbounded, and `trio.from_thread.check_cancelled` tells
        # the function that nobody waits any more.
        return await trio.to_thread.run_sync(
            functools.partial(self._function, *args, **kwargs), abandon_on_cancel=False, limiter=self._limiter
        )


def lone_error(group: BaseExceptionGroup[BaseException]) -> McpError | None:
    """The error in a group that holds nothing else, and that was meant for the client."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found if isinstance(found, McpError) else None

