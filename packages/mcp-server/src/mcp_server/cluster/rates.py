"""A rate limit that holds for all workers together.

A worker takes several events out of the shared limit at once, and spends them without asking again. So a limit of 600 a
minute needs one command for 12 requests. What a worker took and does not spend within a tenth of the period is lost:
the limit is then lower than stated, never higher.

While the store cannot be reached, each worker applies the limit for itself.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.limits.rates import Rate, Rates
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from mcp_server.cluster.protocol import RateStore

__all__ = ["SharedRates"]

_log: Final = logging.getLogger("mcp_server")

_KEYS: Final = 10_000
"""Largest number of keys for which events are held. Above it, those of the least recently used key are lost."""

_SHARE: Final = 50
"""A worker takes one part in this many of a full limit at once, and at least one event."""

_KEPT: Final = 10
"""Events are held for one part in this many of the period."""


@attrs.define
class _Held:
    """Events that were taken and are not spent yet."""

    count: int
    until: float


class SharedRates:
    """The rate of many keys, at all workers together.

    Args:
        rate: The rate for each key.
        name: The name of the limit, which distinguishes its keys from those of other limits.
    """

    def __init__(self, rate: Rate, name: str) -> None:
        self.rate: Final = rate
        """The rate for each key."""
        self._name: Final = name
        self._local: Final = Rates(rate)
        self._held: Final[dict[str, _Held]] = {}
        self._failed = False

    async def take(self, key: str, now: float, store: RateStore | None) -> float:
        """Take one event.

        Args:
            key: The key to charge.
            now: The time, in seconds, from a monotonic clock.
            store: The limits of all workers; `None` if there are no other workers.

        Returns:
            0 if the event was taken. Otherwise the time after which to try again, in seconds.
        """
        if store is None:
            return self._local.take(key, now)
        held = self._held.pop(key, None)
        if held is None or now >= held.until or not held.count:
            try:
                count = await self._refill(key, store)
            except StoreError as error:
                if not self._failed:
                    _log.warning("rate limit applies to this worker alone: limit=%s error=%s", self._name, error)
                self._failed = True
                return self._local.take(key, now)
            self._failed = False
            # Meanwhile another request of the same client may have taken events, too.
            known = self._held.pop(key, None)
            count += 0 if known is None else known.count
            if not count:
                return self.rate.seconds / self.rate.amount
            held = _Held(count, now + self.rate.seconds / _KEPT)
        held.count -= 1
        # The last key in the dictionary is the most recently used one.
        self._held[key] = held
        if len(self._held) > _KEYS:
            del self._held[next(iter(self._held))]
        return 0.0

    async def _refill(self, key: str, store: RateStore) -> int:
        rate = self.rate
        burst = max(1, int(rate.amount))
        return await store.take(
            f"{self._name} {key}",
            count=max(1, burst // _SHARE),
            per_second=rate.amount / rate.seconds,
            burst=burst,
        )
