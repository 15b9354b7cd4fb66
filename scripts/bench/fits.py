"""The model of a cost that grows with a size: flat, logarithmic or linear.

Each model is fitted by least squares of the relative errors, because the sizes, and often the costs, span several powers of
ten. The simplest model that is near all medians is the result.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Fit", "GrowthKind", "fit"]

GrowthKind: TypeAlias = Literal["flat", "logarithmic", "linear", "other"]

TOLERANCE: Final = 0.25
"""The greatest relative error of a model that is accepted. Medians of CPU time on a busy machine are off by 10 to 20 percent."""

MODELS: Final[tuple[tuple[GrowthKind, Callable[[float], float]], ...]] = (
    ("flat", lambda size: 0.0),  # noqa: ARG005  # the size makes no difference
    ("logarithmic", math.log10),
    ("linear", lambda size: size),
)
"""The models, from the simplest, each with the function of the size that the slope multiplies."""


@attrs.frozen(kw_only=True)
class Fit:
    """The model of a cost."""

    kind: GrowthKind
    """`other` if no model is near the costs; the rest then belongs to the linear model."""
    base: float
    """The cost at the origin of the model."""
    slope: float
    """The cost of a tenfold size (logarithmic), or of one more (linear)."""
    error: float
    """The greatest relative error at one of the sizes."""


def fit(sizes: Sequence[int], costs: Sequence[float]) -> Fit:
    """Return the simplest model that is near all costs.

    Args:
        sizes: Different positive sizes, at least three.
        costs: The positive cost of each size.

    Raises:
        ValueError: There are fewer than three sizes, or not as many costs as sizes.
    """
    if len(sizes) < 3 or len(sizes) != len(costs):
        raise ValueError(f"no model of {len(sizes)} sizes and {len(costs)} costs")
    found: list[Fit] = []
    for kind, term in MODELS:
        base, slope = _least_squares([term(size) for size in sizes], costs)
        fitted = [base + slope * term(size) for size in sizes]
        error = max(abs(value / cost - 1) for value, cost in zip(fitted, costs, strict=True))
        found.append(Fit(kind=kind, base=base, slope=slope, error=error))
        # A cost that falls with the size is no growth.
        if error <= TOLERANCE and slope >= 0:
            return found[-1]
    return attrs.evolve(found[-1], kind="other")


def _least_squares(terms: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Return the base and the slope with the least sum of squared relative errors."""
    weights = [1 / cost**2 for cost in costs]
    total = sum(weights)
    mean_term = sum(weight * term for weight, term in zip(weights, terms, strict=True)) / total
    mean_cost = sum(weight * cost for weight, cost in zip(weights, costs, strict=True)) / total
    spread = sum(weight * (term - mean_term) ** 2 for weight, term in zip(weights, terms, strict=True))
    if not spread:
        return mean_cost, 0.0
    shared = sum(
        weight * (term - mean_term) * (cost - mean_cost)
        for weight, term, cost in zip(weights, terms, costs, strict=True)
    )
    slope = shared / spread
    return mean_cost - slope * mean_term, slope
