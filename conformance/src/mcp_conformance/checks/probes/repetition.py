"""Repetition of observations that may be a coincidence: messages cross, and other clients are active too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["each_time"]

_TIMES: Final = 3
"""Number of repetitions: a server that breaks the rule breaks it each time."""


async def each_time(trial: Callable[[], Awaitable[str | None]]) -> str | None:
    """Repeat a trial while it fails, a few times.

    Args:
        trial: Returns what is wrong; `None` when nothing is.

    Returns:
        What was wrong the last time; `None` when one trial found nothing.
    """
    found: str | None = None
    for _ in range(_TIMES):
        found = await trial()
        if found is None:
            return None
    return found
