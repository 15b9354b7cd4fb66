"""The detection of an implementation that has stopped to exchange messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["is_inactive"]

_LOOKS: Final = 5
"""How often the entries are counted within the time: inactivity is found up to a fifth of it late."""


async def is_inactive(end: Callable[[], Awaitable[object]], entries: Callable[[], int], seconds: float) -> bool:
    """Wait for an end or for inactivity, and return whether it is inactivity.

    Args:
        end: Waits for the end.
        entries: Returns the number of entries of the transcript. While it is 0, nothing counts as inactivity: the process
            may still start.
        seconds: The time without a new entry that is inactivity, in seconds.
    """
    looks, known = 0, entries()
    while looks < _LOOKS:
        with trio.move_on_after(seconds / _LOOKS):
            await end()
            return False
        looks = looks + 1 if known == entries() > 0 else 0
        known = entries()
    return True
