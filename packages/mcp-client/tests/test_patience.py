"""The time of a connection, which stands still while somebody waits for a person."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.connection.pausable_deadlines import PausableDeadlines


def patience() -> tuple[PausableDeadlines, list[bool]]:
    changes: list[bool] = []
    return PausableDeadlines(changes.append), changes


async def test_a_deadline_passes_as_it_does_elsewhere(autojump_clock: trio.testing.MockClock) -> None:
    with patience()[0].move_on_after(5) as scope:
        await trio.sleep(math.inf)
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(5)


async def test_a_deadline_stands_still_while_somebody_waits_and_goes_on_after(
    autojump_clock: trio.testing.MockClock,
) -> None:
    time, changes = patience()
    with time.move_on_after(5):
        await trio.sleep(2)
        with time.pause():
            await trio.sleep(100)
            with time.pause():
                await trio.sleep(100)
            during = time.is_paused
            await trio.sleep(100)
        assert (during, time.is_paused) == (True, False)
        await trio.sleep(math.inf)
    assert trio.current_time() == pytest.approx(305)
    assert changes == [True, False]


async def test_a_deadline_that_begins_while_somebody_waits_has_its_whole_time_after(
    autojump_clock: trio.testing.MockClock,
) -> None:
    time, _ = patience()
    with time.pause():
        inner = time.move_on_after(5)
        scope = inner.__enter__()
        await trio.sleep(100)
    assert scope.deadline == pytest.approx(105)
    inner.__exit__(None, None, None)


async def test_a_deadline_that_was_not_reached_can_pass_no_more(autojump_clock: trio.testing.MockClock) -> None:
    time, _ = patience()
    with time.move_on_after(5) as scope:
        pass
    with time.pause():
        await trio.sleep(100)
    assert not scope.cancel_called
    assert scope.deadline == pytest.approx(5)


async def test_without_a_deadline_there_is_none_after(autojump_clock: trio.testing.MockClock) -> None:
    time, _ = patience()
    with time.move_on_after(math.inf) as scope:
        with time.pause():
            await trio.sleep(1)
        assert scope.deadline == math.inf


@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 100)), max_size=10))
@pytest.mark.property
def test_what_counts_is_the_time_in_which_nobody_waited(parts: list[tuple[bool, float]]) -> None:
    async def main() -> None:
        time, _ = patience()
        counted = 0.0
        with time.move_on_after(100) as scope:
            for waited, seconds in parts:
                if waited:
                    with time.pause():
                        await trio.sleep(seconds)
                elif counted + seconds < 100:
                    counted += seconds
                    await trio.sleep(seconds)
            left = scope.deadline - trio.current_time()
        assert left == pytest.approx(100 - counted)
        assert not scope.cancelled_caught

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
