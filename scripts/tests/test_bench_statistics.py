from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.fits import GrowthKind, fit
from bench.ratios import FEWEST, change, interval

COSTS = st.floats(0.1, 1e4)
PAIRS = st.lists(st.tuples(COSTS, COSTS), min_size=1, max_size=12)
SIZES = (10, 100, 1_000, 10_000, 100_000)


# --- ratios ------------------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(PAIRS)
def test_interval_contains_ratio_within_extremes(pairs: list[tuple[float, float]]) -> None:
    over, under = zip(*pairs, strict=True)
    found = interval(over, under, resamples=200)
    assert found.low <= found.ratio <= found.high
    assert found.low >= min(over) / max(under) * (1 - 1e-9)
    assert found.high <= max(over) / min(under) * (1 + 1e-9)


@pytest.mark.property
@given(PAIRS, st.floats(0.01, 100))
def test_interval_scales_with_unit(pairs: list[tuple[float, float]], factor: float) -> None:
    over, under = zip(*pairs, strict=True)
    found = interval(over, under, resamples=200)
    scaled = interval([each * factor for each in over], under, resamples=200)
    for name in ("low", "ratio", "high"):
        assert getattr(scaled, name) == pytest.approx(getattr(found, name) * factor)


@pytest.mark.property
@given(PAIRS)
def test_interval_of_inverse_ratio_is_inverse(pairs: list[tuple[float, float]]) -> None:
    over, under = zip(*pairs, strict=True)
    found, inverse = interval(over, under, resamples=200), interval(under, over, resamples=200)
    assert (inverse.low, inverse.high) == pytest.approx((1 / found.high, 1 / found.low))


@pytest.mark.property
@given(st.lists(COSTS, min_size=1, max_size=12), st.floats(0.5, 2))
def test_interval_ignores_what_slows_both_sides(costs: list[float], ratio: float) -> None:
    found = interval([each * ratio for each in costs], costs, resamples=200)
    assert (found.low, found.high) == pytest.approx((ratio, ratio))


@pytest.mark.property
@given(PAIRS)
def test_interval_wider_with_more_confidence(pairs: list[tuple[float, float]]) -> None:
    over, under = zip(*pairs, strict=True)
    wide, narrow = interval(over, under, confidence=0.99), interval(over, under, confidence=0.5)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@pytest.mark.parametrize(("over", "under"), [([], []), ([1.0], [1.0, 2.0])])
def test_interval_without_pairs_raises(over: list[float], under: list[float]) -> None:
    with pytest.raises(ValueError, match="no pairs"):
        interval(over, under)


@pytest.mark.parametrize(("factor", "expected"), [(1.1, "more"), (0.9, "less"), (1.0, "none")])
def test_change_beyond_noise_is_significant(factor: float, expected: str) -> None:
    base = [100.0, 101.0, 99.0, 100.5, 98.5, 102.0, 99.5, 100.2]
    noise = [0.99, 1.01, 1.0, 0.995, 1.005, 1.0, 0.99, 1.01]
    assert change([cost * factor * each for cost, each in zip(base, noise, strict=True)], base) == expected


def test_change_of_few_repetitions_unknown() -> None:
    assert change([2.0] * (FEWEST - 1), [1.0] * (FEWEST - 1)) == "unknown"
    assert change([2.0] * FEWEST, [1.0] * FEWEST) == "more"


# --- growth ------------------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.lists(st.floats(0.95, 1.05), min_size=5, max_size=5))
@pytest.mark.parametrize("kind", ["flat", "logarithmic", "linear"])
def test_fit_finds_model_of_noisy_costs(kind: GrowthKind, base: float, slope: float, noise: list[float]) -> None:
    terms = {"flat": [0.0] * 5, "logarithmic": [math.log10(size) for size in SIZES], "linear": SIZES}
    costs = [(base + slope * term) * each for term, each in zip(terms[kind], noise, strict=True)]
    # A growth that is small beside the base looks like a flat cost.
    assume(kind == "flat" or slope > base / (1 if kind == "logarithmic" else 1_000))
    assert fit(SIZES, costs).kind == kind


@pytest.mark.property
@given(st.floats(1, 1e4), st.floats(0.1, 10))
def test_fit_of_exact_line_has_its_slope(base: float, slope: float) -> None:
    found = fit(SIZES, [base + slope * size for size in SIZES])
    assert found.kind == "linear"
    assert (found.slope, found.base) == pytest.approx((slope, base), rel=1e-3)


def test_fit_of_quadratic_cost_is_other() -> None:
    assert fit(SIZES, [1.0 + size**2 / 1e6 for size in SIZES]).kind == "other"


def test_fit_of_falling_cost_is_other() -> None:
    assert fit(SIZES, [100.0, 80.0, 60.0, 40.0, 20.0]).kind == "other"


@pytest.mark.parametrize(("sizes", "costs"), [((1, 2), (1.0, 2.0)), (SIZES, (1.0, 2.0, 3.0))])
def test_fit_of_too_few_sizes_raises(sizes: tuple[int, ...], costs: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="no model"):
        fit(sizes, costs)
