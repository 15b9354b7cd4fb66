"""A line on a terminal with the progress of a program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Progress"]

_PAUSE: Final = 0.2
_WIDTH: Final = 118


class Progress:
    """A line on standard error that is rewritten, if standard error is a terminal."""

    def __init__(self) -> None:
        self._shows: Final = sys.stderr.isatty()
        self._due = 0.0

    def show(self, text: str) -> None:
        """Show a line instead of the last one."""
        now = trio.current_time()
        if self._shows and now > self._due:
            self._due = now + _PAUSE
            print(f"\r\x1b[K{text[:_WIDTH]}", end="", file=sys.stderr, flush=True)

    def after(self, beginning: str) -> Callable[[str], None]:
        """Return a function that shows a line with this prefix."""

        def show(text: str) -> None:
            self.show(beginning + text)

        return show

    def clear(self) -> None:
        """Clear the line."""
        if self._shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
