"""How often something may happen, for each of many keys: token buckets. The time comes in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Rate", "Rates"]

_KEYS: Final = 10_000
"""Keys that are remembered. With more, the one that was used least recently is forgotten: it may begin anew."""


def _positive(_: Rate, attribute: attrs.Attribute[float], value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"Rate.{attribute.name} must be a finite number above 0, not {value!r}")


@attrs.frozen
class Rate:
    """So many in so long: `Rate(60)` is sixty a minute, all of which may come at once.

    Raises:
        ValueError: A number is not above 0, or not finite.
    """

    amount: float = attrs.field(validator=_positive)
    """How many."""
    seconds: float = attrs.field(default=60.0, validator=_positive)
    """In how many seconds."""

    def __str__(self) -> str:
        return f"{self.amount:g} in {self.seconds:g} s"


@attrs.define
class _Bucket:
    left: float
    seen_at: float


class Rates:
    """Counts what happens, by key.

    Args:
        rate: How often it may, for each key.
    """

    __slots__ = ("_buckets", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate: Final = rate
        """How often it may."""
        self._buckets: dict[Hashable, _Bucket] = {}

    def __len__(self) -> int:
        """How many keys are remembered."""
        return len(self._buckets)

    def take(self, key: Hashable, now: float, amount: float = 1.0) -> float:
        """Asks whether it may happen now, and counts it if so.

        Args:
            key: Whom it is counted for.
            now: The time in seconds, by a clock that never goes back.
            amount: How much is taken at once, such as tokens of a model. Less than nothing counts as nothing: a peer
                that names the amount must not fill its own bucket.

        Returns:
            0 when it may; otherwise the seconds after which it may, and nothing was counted. `inf`: it never may, since it
            is more than a full bucket holds.
        """
        amount = max(0.0, amount)
        bucket = self._buckets.pop(key, None)
        rate = self.rate
        if bucket is None:
            bucket = _Bucket(rate.amount, now)
        else:
            passed = max(0.0, now - bucket.seen_at)
            bucket.left = min(rate.amount, bucket.left + passed * rate.amount / rate.seconds)
            bucket.seen_at = max(now, bucket.seen_at)
        # Last in the dictionary: used most recently.
        self._buckets[key] = bucket
        if len(self._buckets) > _KEYS:
            del self._buckets[next(iter(self._buckets))]
        if amount > rate.amount:
            return math.inf
        if amount <= bucket.left:
            bucket.left -= amount
            return 0.0
        return (amount - bucket.left) * rate.seconds / rate.amount

    def give_back(self, key: Hashable, amount: float) -> None:
        """What was counted did not happen, or not all of it.

        Args:
            key: Whom it was counted for.
            amount: How much of it did not.
        """
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.left = min(self.rate.amount, bucket.left + amount)
