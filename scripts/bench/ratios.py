"""Confidence intervals of ratios, and what they say about a change between two revisions.

The interval is a percentile bootstrap of the ratio of two medians. Values with the same index were measured together, so a
resample takes both or neither: what slows the machine for a while affects both sides.
"""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING, Final, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CONFIDENCE", "FEWEST", "Interval", "change", "interval"]

CONFIDENCE: Final = 0.99
"""Of 30 lines without a change, 95 % would report one or two."""

FEWEST: Final = 6
"""Fewer repetitions do not distinguish a change from noise: the interval would only be that of the extremes."""

RESAMPLES: Final = 2_000


@attrs.frozen(kw_only=True)
class Interval:
    """A ratio with its confidence interval."""

    low: float
    ratio: float
    high: float


def interval(
    over: Sequence[float], under: Sequence[float], *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> Interval:
    """Return the ratio of the medians, and its confidence interval. The result is the same in each run.

    Args:
        over: Positive values, at least one.
        under: As many positive values, measured together with those of `over`.
        confidence: The confidence, between 0 and 1.
        resamples: The number of resamples.

    Raises:
        ValueError: The numbers of values differ, or there is no value.
    """
    if len(over) != len(under) or not over:
        raise ValueError(f"{len(over)} and {len(under)} values are no pairs")
    chance = random.Random(0)
    pairs = list(zip(over, under, strict=True))
    ratios: list[float] = []
    for _ in range(resamples):
        above, below = zip(*chance.choices(pairs, k=len(pairs)), strict=True)
        ratios.append(statistics.median(above) / statistics.median(below))
    ratios.sort()
    ratio = statistics.median(over) / statistics.median(under)
    # The same rank from both ends, so that the interval of the inverse ratio is the inverse.
    outside = int((1 - confidence) / 2 * resamples)
    # A resample may have another median than the values themselves, whose ratio belongs to the interval in any case.
    return Interval(low=min(ratio, ratios[outside]), ratio=ratio, high=max(ratio, ratios[-1 - outside]))


def change(tree: Sequence[float], base: Sequence[float]) -> Literal["less", "more", "none", "unknown"]:
    """Return whether the cost has changed significantly from `base` to `tree`, or `unknown` if there are too few values."""
    if len(tree) < FEWEST:
        return "unknown"
    found = interval(tree, base)
    if found.high < 1:
        return "less"
    return "more" if found.low > 1 else "none"
