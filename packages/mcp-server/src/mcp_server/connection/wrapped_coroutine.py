"""A coroutine with other code before and after its steps, in the task that awaits it."""

from __future__ import annotations

from collections.abc import Generator
from types import CoroutineType
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import FrameType, TracebackType

__all__ = ["WrappedCoroutine"]

T = TypeVar("T")


class WrappedCoroutine(Generator[object, object, T]):
    """A coroutine whose steps a subclass wraps: in `__next__`, which runs the first step, `send` and `throw`.

    Args:
        coroutine: The coroutine.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[object, object, T]) -> None:
        self._coroutine: Final = coroutine

    def __await__(self) -> Generator[object, object, T]:
        return self

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> object:
        """Raise an exception in the coroutine, for example its cancellation, and run the next step."""
        try:
            # An exception with a value and a traceback is the older form, which warns.
            if value is None and traceback is None and isinstance(kind, BaseException):
                return self._coroutine.throw(kind)
            return self._coroutine.throw(kind, value, traceback)  # type: ignore[arg-type]  # as received
        finally:
            # The traceback of the exception refers to this frame: a reference back would be a cycle.
            del kind, value, traceback

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()

    # Debuggers, and `trio.lowlevel.Task.iter_await_frames`, follow these attributes from a task to its innermost frame.

    @property
    def cr_frame(self) -> FrameType | None:
        """The frame of the coroutine."""
        return self._coroutine.cr_frame if isinstance(self._coroutine, CoroutineType) else None

    @property
    def cr_await(self) -> object:
        """What the coroutine awaits."""
        return self._coroutine.cr_await if isinstance(self._coroutine, CoroutineType) else None
