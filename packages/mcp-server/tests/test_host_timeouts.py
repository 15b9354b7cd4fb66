"""The deadlines of the HTTP host: looked at when one is due, and not in between."""

from __future__ import annotations

import math

import attrs
import pytest
import trio
import trio.testing

from mcp_server.host.timeouts import HostTimeouts, TimeoutScheduler

FIELDS = [field.name for field in attrs.fields(HostTimeouts)]


class Thing:
    """Wants to be looked at at certain times."""

    def __init__(self, keeper: TimeoutScheduler, *times: float) -> None:
        self.keeper = keeper
        self.times = [trio.current_time() + each for each in times]
        self.looked: list[float] = []
        self.look_at = math.inf
        self.next()

    def next(self) -> None:
        self.look_at = self.times.pop(0) if self.times else math.inf
        self.keeper.at_latest(self.look_at)

    def look(self, now: float) -> None:
        self.looked.append(now)
        self.next()


Kept = tuple[TimeoutScheduler, list[Thing]]


@pytest.fixture
def keeper(nursery: trio.Nursery) -> Kept:
    things: list[Thing] = []
    keeper = TimeoutScheduler(things)
    nursery.start_soon(keeper.run)
    return keeper, things


async def test_each_is_looked_at_when_it_is_due(keeper: Kept, autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    things = keeper[1]
    things += [Thing(keeper[0], 5, 20), Thing(keeper[0], 1, 5), Thing(keeper[0])]
    await trio.sleep(100)
    assert [[round(at - start, 3) for at in thing.looked] for thing in things] == [[5, 20], [1, 5], []]


async def test_looks_are_a_tenth_of_a_second_apart(keeper: Kept, autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    keeper[1].append(Thing(keeper[0], 1, 1.01, 1.02, 1.5))
    await trio.sleep(100)
    assert [round(at - start, 3) for at in keeper[1][0].looked] == [1, 1.1, 1.2, 1.5]


async def test_an_earlier_wish_shortens_the_sleep(keeper: Kept, autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    keeper[1].append(Thing(keeper[0], 50))
    await trio.sleep(3)
    keeper[1].append(Thing(keeper[0], 2))
    await trio.sleep(100)
    assert [round(at - start, 3) for thing in keeper[1] for at in thing.looked] == [50, 5]


async def test_nothing_runs_while_nothing_is_due(nursery: trio.Nursery) -> None:
    things: list[Thing] = []
    keeper = TimeoutScheduler(things)
    nursery.start_soon(keeper.run)
    await trio.testing.wait_all_tasks_blocked()
    # Nothing but the housekeeper has a deadline, and it has none either.
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf


async def test_who_goes_while_others_are_looked_at_does_no_harm(
    keeper: Kept, autojump_clock: trio.testing.MockClock
) -> None:
    things = keeper[1]

    class Leaving(Thing):
        def look(self, now: float) -> None:
            super().look(now)
            things.remove(self)

    things += [Leaving(keeper[0], 1, 2), Thing(keeper[0], 1, 2)]
    first, second = things
    await trio.sleep(10)
    assert (len(first.looked), len(second.looked)) == (1, 2)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_time_is_positive(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"HostTimeouts\.{name} must be more than 0"):
        HostTimeouts(**{name: value})


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", ["1", None, True])
def test_a_time_is_a_number(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"HostTimeouts\.{name} must be a number"):
        HostTimeouts(**{name: value})  # type: ignore[arg-type]  # the point


@pytest.mark.parametrize("name", FIELDS)
def test_a_time_may_be_for_ever(name: str) -> None:
    assert getattr(HostTimeouts(**{name: math.inf}), name) == math.inf
