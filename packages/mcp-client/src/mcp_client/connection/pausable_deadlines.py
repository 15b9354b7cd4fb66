"""Deadlines that pause while a user logs in, which may take minutes."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["PausableDeadlines"]


class PausableDeadlines:
    """Deadlines of one connection that pause while the user logs in.

    Args:
        on_change: Called when the deadlines pause, and when they resume.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change: Final = on_change
        self._waiting = 0
        self._left: Final[dict[trio.CancelScope, float]] = {}

    @property
    def is_paused(self) -> bool:
        """Whether the deadlines are paused."""
        return self._waiting > 0

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the deadlines in the `with` block. Blocks can overlap."""
        self._waiting += 1
        if self._waiting == 1:
            now = trio.current_time()
            for scope in self._left:
                self._left[scope] = scope.deadline - now
                scope.deadline = math.inf
            self._on_change()
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                now = trio.current_time()
                for scope, left in self._left.items():
                    scope.deadline = now + left
                self._on_change()

    @contextmanager
    def move_on_after(self, seconds: float) -> Iterator[trio.CancelScope]:
        """Open a cancel scope with a pausable deadline, like `trio.move_on_after`. `seconds` excludes the pauses."""
        with trio.CancelScope() as scope:
            if not self.is_paused:
                scope.deadline = trio.current_time() + seconds
            self._left[scope] = seconds
            try:
                yield scope
            finally:
                del self._left[scope]
