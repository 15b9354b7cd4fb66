"""Deadlines of the HTTP host: checked when they are due, and not in between."""

from __future__ import annotations

import math

import attrs
import pytest
import trio
import trio.testing

from mcp_server.host.timeouts import HostTimeouts, TimeoutScheduler

FIELDS = [field.name for field in attrs.fields(HostTimeouts)]


class ScheduledItem:
    """An item with deadlines at given times."""

    def __init__(self, scheduler: TimeoutScheduler, *times: float) -> None:
        self.scheduler = scheduler
        self.times = [trio.current_time() + each for each in times]
        self.looked: list[float] = []
        self.look_at = math.inf
        self.next()

    def next(self) -> None:
        self.look_at = self.times.pop(0) if self.times else math.inf
        self.scheduler.at_latest(self.look_at)

    def look(self, now: float) -> None:
        self.looked.append(now)
        self.next()


Scheduled = tuple[TimeoutScheduler, list[ScheduledItem]]


@pytest.fixture
def scheduler(nursery: trio.Nursery) -> Scheduled:
    items: list[ScheduledItem] = []
    scheduler = TimeoutScheduler(items)
    nursery.start_soon(scheduler.run)
    return scheduler, items


async def test_items_checked_at_their_deadlines(scheduler: Scheduled, autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    items = scheduler[1]
    items += [ScheduledItem(scheduler[0], 5, 20), ScheduledItem(scheduler[0], 1, 5), ScheduledItem(scheduler[0])]
    await trio.sleep(100)
    assert [[round(at - start, 3) for at in item.looked] for item in items] == [[5, 20], [1, 5], []]


async def test_checks_are_a_tenth_of_a_second_apart(
    scheduler: Scheduled, autojump_clock: trio.testing.MockClock
) -> None:
    start = trio.current_time()
    scheduler[1].append(ScheduledItem(scheduler[0], 1, 1.01, 1.02, 1.5))
    await trio.sleep(100)
    assert [round(at - start, 3) for at in scheduler[1][0].looked] == [1, 1.1, 1.2, 1.5]


async def test_earlier_deadline_shortens_sleep(scheduler: Scheduled, autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    scheduler[1].append(ScheduledItem(scheduler[0], 50))
    await trio.sleep(3)
    scheduler[1].append(ScheduledItem(scheduler[0], 2))
    await trio.sleep(100)
    assert [round(at - start, 3) for item in scheduler[1] for at in item.looked] == [50, 5]


async def test_scheduler_without_deadlines_sleeps_forever(nursery: trio.Nursery) -> None:
    items: list[ScheduledItem] = []
    scheduler = TimeoutScheduler(items)
    nursery.start_soon(scheduler.run)
    await trio.testing.wait_all_tasks_blocked()
    # Only the scheduler could have a deadline, and it has no item.
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf


async def test_item_removed_during_check_is_harmless(
    scheduler: Scheduled, autojump_clock: trio.testing.MockClock
) -> None:
    items = scheduler[1]

    class SelfRemovingItem(ScheduledItem):
        def look(self, now: float) -> None:
            super().look(now)
            items.remove(self)

    items += [SelfRemovingItem(scheduler[0], 1, 2), ScheduledItem(scheduler[0], 1, 2)]
    first, second = items
    await trio.sleep(10)
    assert (len(first.looked), len(second.looked)) == (1, 2)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_timeout_not_positive_raises(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"HostTimeouts\.{name} must be more than 0"):
        HostTimeouts(**{name: value})


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", ["1", None, True])
def test_timeout_not_number_raises(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"HostTimeouts\.{name} must be a number"):
        HostTimeouts(**{name: value})  # type: ignore[arg-type]  # the tested case


@pytest.mark.parametrize("name", FIELDS)
def test_timeout_may_be_infinite(name: str) -> None:
    assert getattr(HostTimeouts(**{name: math.inf}), name) == math.inf
