"""Deadlines that stand still while somebody waits for a person to log in, who may take minutes."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Patience"]


class Patience:
    """The time of one connection. It stands still for all that goes on there, as it does while a handler asks the user.

    Args:
        on_change: Is told when it begins to stand still, and when it goes on.
    """

    def __init__(self, on_change: Callable[[bool], None]) -> None:
        self._on_change: Final = on_change
        self._waiting = 0
        self._left: Final[dict[trio.CancelScope, float]] = {}

    @property
    def stands_still(self) -> bool:
        """Whether somebody waits for a person."""
        return self._waiting > 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In the block the time stands still."""
        self._waiting += 1
        if self._waiting == 1:
            now = trio.current_time()
            for scope in self._left:
                self._left[scope] = scope.deadline - now
                scope.deadline = math.inf
            self._on_change(True)  # noqa: FBT003  what it is told is whether it stands still
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                now = trio.current_time()
                for scope, left in self._left.items():
                    scope.deadline = now + left
                self._on_change(False)  # noqa: FBT003  likewise

    @contextmanager
    def move_on_after(self, seconds: float) -> Iterator[trio.CancelScope]:
        """As `trio.move_on_after`, in this time."""
        with trio.CancelScope() as scope:
            if not self.stands_still:
                scope.deadline = trio.current_time() + seconds
            self._left[scope] = seconds
            try:
                yield scope
            finally:
                del self._left[scope]
