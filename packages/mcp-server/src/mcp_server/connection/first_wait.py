"""A call of a function at the first wait of a coroutine.

Most handlers never wait: they have a result after their first step. What is necessary only while a handler waits, such as
another task that reads, is done when it waits, and not before each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from mcp_server.connection.wrapped_coroutine import WrappedCoroutine

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["FirstWait"]

T = TypeVar("T")


class FirstWait(WrappedCoroutine[T]):
    """A coroutine that calls a function when it waits for the first time.

    Args:
        coroutine: The coroutine.
        function: The function. It must not raise.
    """

    __slots__ = ("_function",)

    def __init__(self, coroutine: Coroutine[object, object, T], function: Callable[[], object]) -> None:
        super().__init__(coroutine)
        self._function: Callable[[], object] | None = function

    def __next__(self) -> object:
        trap = self._coroutine.send(None)
        if self._function is not None:
            self._function()
            self._function = None
        return trap

    def send(self, value: object, /) -> object:
        """Run the next step."""
        try:
            return self._coroutine.send(value)
        finally:
            # trio sends the outcome with an exception, whose traceback refers to this frame: a cycle.
            del value
