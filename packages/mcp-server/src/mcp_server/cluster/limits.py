"""Limits in memory: ids that may be used once, and rates."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryRates", "MemoryReplays"]

_IDS: Final = 100_000
"""The largest number of ids that are remembered. They take about 20 MB."""

_KEYS: Final = 100_000
"""The largest number of rates. Above it, the least recently used one starts again."""

_SLACK: Final = 1e-6
"""Tolerance for rounding errors of floating point arithmetic."""


class MemoryReplays:
    """A `ReplayStore` in memory.

    Args:
        clock: A clock that cannot be set, in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._used: Final[set[bytes]] = set()
        self._by_end: Final[list[tuple[float, bytes]]] = []

    async def take(self, id: bytes, seconds: float) -> bool:
        """Use an id, and return whether it was not used before."""
        now = self._clock()
        while self._by_end and self._by_end[0][0] <= now:
            self._used.discard(heapq.heappop(self._by_end)[1])
        if id in self._used or len(self._used) >= _IDS:
            return False
        self._used.add(id)
        heapq.heappush(self._by_end, (now + seconds, id))
        return True


@attrs.define
class _Rate:
    saved: float
    at: float


class MemoryRates:
    """A `RateStore` in memory.

    Args:
        clock: A clock that cannot be set, in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._rates: Final[dict[str, _Rate]] = {}

    async def take(self, key: str, *, count: int, per_second: float, burst: int) -> int:
        """Take events out of a limit, and return how many were taken."""
        now = self._clock()
        rate = self._rates.pop(key, None) or _Rate(burst, now)
        saved = min(float(burst), rate.saved + (now - rate.at) * per_second)
        taken = min(count, int(saved + _SLACK))
        # The last key in the dictionary is the most recently used one.
        self._rates[key] = _Rate(saved - taken, now)
        if len(self._rates) > _KEYS:
            del self._rates[next(iter(self._rates))]
        return taken
