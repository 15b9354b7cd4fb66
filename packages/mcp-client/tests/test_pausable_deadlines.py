"""The deadlines of a connection, which pause during a login or an elicitation."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.connection.pausable_deadlines import PausableDeadlines


def make_deadlines() -> tuple[PausableDeadlines, list[bool]]:
    changes: list[bool] = []
    deadlines = PausableDeadlines(lambda: changes.append(deadlines.is_paused))
    return deadlines, changes


async def test_deadline_passes(autojump_clock: trio.testing.MockClock) -> None:
    with make_deadlines()[0].move_on_after(5) as scope:
        await trio.sleep(math.inf)
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(5)


async def test_deadline_paused_while_waiting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    deadlines, changes = make_deadlines()
    with deadlines.move_on_after(5):
        await trio.sleep(2)
        with deadlines.pause():
            await trio.sleep(100)
            with deadlines.pause():
                await trio.sleep(100)
            paused = deadlines.is_paused
            await trio.sleep(100)
        assert (paused, deadlines.is_paused) == (True, False)
        await trio.sleep(math.inf)
    assert trio.current_time() == pytest.approx(305)
    assert changes == [True, False]


async def test_deadline_started_while_waiting_begins_afterward(
    autojump_clock: trio.testing.MockClock,
) -> None:
    deadlines, _ = make_deadlines()
    with deadlines.pause():
        manager = deadlines.move_on_after(5)
        scope = manager.__enter__()
        await trio.sleep(100)
    assert scope.deadline == pytest.approx(105)
    manager.__exit__(None, None, None)


async def test_deadline_left_in_time_stays_unchanged(autojump_clock: trio.testing.MockClock) -> None:
    deadlines, _ = make_deadlines()
    with deadlines.move_on_after(5) as scope:
        pass
    with deadlines.pause():
        await trio.sleep(100)
    assert not scope.cancel_called
    assert scope.deadline == pytest.approx(5)


async def test_infinite_deadline_stays_infinite(autojump_clock: trio.testing.MockClock) -> None:
    deadlines, _ = make_deadlines()
    with deadlines.move_on_after(math.inf) as scope:
        with deadlines.pause():
            await trio.sleep(1)
        assert scope.deadline == math.inf


@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 100)), max_size=10))
@pytest.mark.property
def test_deadline_counts_only_time_without_waiting(periods: list[tuple[bool, float]]) -> None:
    async def main() -> None:
        deadlines, _ = make_deadlines()
        counted = 0.0
        with deadlines.move_on_after(100) as scope:
            for waiting, seconds in periods:
                if waiting:
                    with deadlines.pause():
                        await trio.sleep(seconds)
                elif counted + seconds < 99:  # further from the deadline than rounding reaches
                    counted += seconds
                    await trio.sleep(seconds)
            remaining = scope.deadline - trio.current_time()
        assert remaining == pytest.approx(100 - counted)
        assert not scope.cancelled_caught

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
