"""What is seen once may have come by chance: messages cross on their way, and other clients are at work as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["each_time"]

_TIMES: Final = 3
"""How often something is seen that does not come by chance: a server that does it, does it each time."""


async def each_time(trial: Callable[[], Awaitable[str | None]]) -> str | None:
    """Tries something again as long as it looks wrong, a few times.

    Args:
        trial: Says what is wrong; `None` for nothing.

    Returns:
        What was wrong the last time; `None` where it once was not.
    """
    found: str | None = None
    for _ in range(_TIMES):
        found = await trial()
        if found is None:
            return None
    return found
