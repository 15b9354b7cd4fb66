"""Plain functions of the application: those that may block, such as a handler that shows a form, run in worker threads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import trio

from mcp_core.errors import LocalProtocolError
from mcp_core.trio.async_library import allow_asyncio, is_coroutine_function

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["WorkerThreads", "check_plain"]

_THREADS: Final = 8
"""How many plain functions run at once. A cancelled one keeps its thread until it returns."""

P = ParamSpec("P")
T = TypeVar("T")


def check_plain(function: object, name: str) -> None:
    """Check that a function that is called between messages is a plain one: nothing would await its coroutine.

    Args:
        function: The function, or `None`.
        name: Its name in the error, for example `Handlers.log`.

    Raises:
        LocalProtocolError: It is a coroutine function, or not a function.
    """
    if function is not None and (not callable(function) or is_coroutine_function(function)):
        raise LocalProtocolError(f"{name} must be a plain function; write `def`")


class WorkerThreads:
    """The worker threads of one connection, so that its server cannot take the threads that the application needs."""

    def __init__(self) -> None:
        self._limiter: Final = trio.CapacityLimiter(_THREADS)

    async def call(
        self, function: Callable[P, Awaitable[T] | T], *arguments: P.args, **options: P.kwargs
    ) -> Awaitable[T] | T:
        """Return the result of a plain function, or the awaitable of a coroutine function.

        The plain function runs in a thread. After a cancellation it is not waited for.
        """
        call = partial(function, *arguments, **options)
        return call() if is_coroutine_function(function) else await self._in_thread(call)

    @allow_asyncio
    async def _in_thread(self, call: Callable[[], T]) -> T:
        # In a tuple, because trio rejects the coroutine of a plain function that calls a coroutine function.
        (result,) = await trio.to_thread.run_sync(lambda: (call(),), abandon_on_cancel=True, limiter=self._limiter)
        return result
