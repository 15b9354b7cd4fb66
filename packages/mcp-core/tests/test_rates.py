from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.limits.rates import Rate, Rates

STEPS = st.lists(
    st.tuples(st.floats(0, 100, allow_nan=False), st.floats(0.1, 12, allow_nan=False), st.sampled_from("ab")),
    max_size=60,
)


@pytest.mark.property
@given(STEPS)
def test_rate_never_exceeds_bucket_and_refill(steps: list[tuple[float, float, str]]) -> None:
    rates = Rates(Rate(10, 60))
    now = 0.0
    taken: dict[str, float] = {"a": 0.0, "b": 0.0}
    for pause, amount, key in steps:
        now += pause
        wait = rates.take(key, now, amount)
        if wait == 0:
            taken[key] += amount
        else:
            assert wait == math.inf or wait > 0
            assert (wait == math.inf) == (amount > 10)
    for total in taken.values():
        assert total <= 10 + now * 10 / 60 + 1e-6


@pytest.mark.property
@given(STEPS)
def test_take_after_returned_wait_succeeds(steps: list[tuple[float, float, str]]) -> None:
    rates = Rates(Rate(10, 60))
    now = 0.0
    for pause, amount, key in steps:
        now += pause
        wait = rates.take(key, now, amount)
        if 0 < wait < math.inf:
            now += wait + 1e-6
            assert rates.take(key, now, amount) == 0


def test_clock_set_back_refills_nothing() -> None:
    rates = Rates(Rate(1, 1))
    assert rates.take("a", 10) == 0
    assert rates.take("a", 5) == 1
    assert rates.take("a", 10.5) == 0.5


def test_give_back_up_to_full_bucket() -> None:
    rates = Rates(Rate(2))
    rates.take("a", 0, 2)
    rates.give_back("a", 1)
    assert rates.take("a", 0) == 0
    rates.give_back("a", 100)
    assert rates.take("a", 0, 2) == 0
    assert rates.take("a", 0) == 30
    rates.give_back("unknown", 1)
    assert len(rates) == 1


def test_keys_bounded_least_recently_used_forgotten() -> None:
    rates = Rates(Rate(1))
    for key in range(10_000):
        rates.take(key, 0)
    rates.take(0, 0)
    rates.take("new", 0)
    assert len(rates) == 10_000
    assert rates.take(0, 0) > 0
    assert rates.take(1, 0) == 0


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf])
def test_rate_not_positive_and_finite_raises(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"Rate\.amount must be a finite number above 0"):
        Rate(wrong)
    with pytest.raises(ValueError, match=r"Rate\.seconds must be a finite number above 0"):
        Rate(1, wrong)
    assert str(Rate(60)) == "60 in 60 s"


def test_negative_amount_does_not_refill() -> None:
    rates = Rates(Rate(10))
    assert rates.take("a", 0, 10) == 0
    assert rates.take("a", 0, -1_000) == 0
    assert rates.take("a", 0, 1) == 6
