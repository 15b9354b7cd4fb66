"""A call of a function at the first wait of a coroutine.

Most handlers never wait: they have a result after their first step. What is necessary only while a handler waits, such as
another task that reads, is done when it waits, and not before each call.
"""

from __future__ import annotations

from types import coroutine
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

__all__ = ["at_first_wait"]

T = TypeVar("T")


@coroutine
def at_first_wait(
    awaited: Coroutine[object, object, T], function: Callable[[], object]
) -> Generator[object, object, T]:
    """Run a coroutine in this task, and return its result.

    Args:
        awaited: The coroutine.
        function: Called when the coroutine waits for the first time. It must not raise.
    """
    try:
        trap = awaited.send(None)
        function()
        while True:
            try:
                value = yield trap
            except BaseException as thrown:  # noqa: BLE001  all exceptions are those of the coroutine
                trap = awaited.throw(thrown)
            else:
                try:
                    trap = awaited.send(value)
                finally:
                    # trio sends the outcome with an exception, whose traceback refers to this frame: a cycle.
                    del value
    except StopIteration as end:
        result: T = end.value
        return result
