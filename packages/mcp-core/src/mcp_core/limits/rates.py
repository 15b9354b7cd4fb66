"""Rate limits for many keys, as token buckets. The caller supplies the time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Rate", "Rates"]

_KEYS: Final = 10_000
"""The number of stored keys. Above it, the least recently used key is evicted, and starts again with a full bucket."""


def _positive(_: Rate, attribute: attrs.Attribute[float], value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"Rate.{attribute.name} must be a finite number above 0, not {value!r}")


@attrs.frozen(eq=False, repr=False)
class Rate(FieldValue):
    """A rate: `Rate(60)` is 60 a minute, all of which may happen at once.

    Raises:
        ValueError: A number is not above 0, or is not finite.
    """

    amount: float = attrs.field(validator=_positive)
    """The number of events."""
    seconds: float = attrs.field(default=60.0, validator=_positive)
    """The period, in seconds."""

    def __str__(self) -> str:
        return f"{self.amount:g} in {self.seconds:g} s"

    def refilled(self, left: float, seconds: float) -> float:
        """Return the tokens of a bucket after some time.

        Args:
            left: The tokens before.
            seconds: The time since then. A negative time, of a clock that was set back, counts as 0.
        """
        return min(self.amount, left + max(0.0, seconds) * self.amount / self.seconds)

    def wait(self, left: float, amount: float = 1.0) -> float:
        """Return the time until a bucket with `left` tokens has `amount`, in seconds; 0 if it has."""
        return max(0.0, amount - left) * self.seconds / self.amount


@attrs.define
class _Bucket:
    left: float
    seen_at: float


class Rates:
    """Token buckets, one for each key.

    Args:
        rate: The rate for each key.
    """

    __slots__ = ("_buckets", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate: Final = rate
        """The rate for each key."""
        self._buckets: dict[Hashable, _Bucket] = {}

    def __len__(self) -> int:
        """Return the number of stored keys."""
        return len(self._buckets)

    def take(self, key: Hashable, now: float, amount: float = 1.0) -> float:
        """Take tokens from the bucket of a key, if it holds enough.

        Args:
            key: The key to charge.
            now: The time in seconds, from a monotonic clock.
            amount: The number of tokens, for example tokens of a model. A negative amount counts as 0: a peer that
                states the amount must not fill its own bucket.

        Returns:
            0 if the tokens were taken. Otherwise no token was taken, and the result is the time until there are enough,
            in seconds; `inf` if `amount` is more than a full bucket holds.
        """
        amount = max(0.0, amount)
        bucket = self._buckets.pop(key, None)
        rate = self.rate
        if bucket is None:
            bucket = _Bucket(rate.amount, now)
        else:
            bucket.left = rate.refilled(bucket.left, now - bucket.seen_at)
            bucket.seen_at = max(now, bucket.seen_at)
        # The last key in the dictionary is the most recently used one.
        self._buckets[key] = bucket
        if len(self._buckets) > _KEYS:
            del self._buckets[next(iter(self._buckets))]
        if amount > rate.amount:
            return math.inf
        if amount <= bucket.left:
            bucket.left -= amount
            return 0.0
        return rate.wait(bucket.left, amount)

    def give_back(self, key: Hashable, amount: float) -> None:
        """Put tokens back into the bucket of a key, because the charged event did not happen or was smaller.

        Args:
            key: The key that was charged.
            amount: The number of tokens to put back.
        """
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.left = min(self.rate.amount, bucket.left + amount)
