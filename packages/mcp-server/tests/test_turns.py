"""The turns of long work: how much of it runs in one iteration of the event loop."""

from __future__ import annotations

import trio
import trio.testing

from mcp_server.connection.turns import PART, take_turn


async def iterations(done: trio.Event) -> int:
    """Return the number of iterations of the event loop until an event."""
    count = 0
    while not done.is_set():
        count += 1
        await trio.lowlevel.checkpoint()
    return count


async def work(parts: int, units: int, order: list[int], number: int = 0) -> None:
    for _ in range(parts):
        await take_turn(units)
        order.append(number)


async def iterations_of_work(tasks: int, parts: int, units: int) -> tuple[int, list[int]]:
    done, order = trio.Event(), list[int]()

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(tasks):
                nursery.start_soon(work, parts, units, order, number)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        count = await iterations(done)
    return count, order


async def test_parts_of_all_tasks_together_bounded_in_one_iteration() -> None:
    count, order = await iterations_of_work(tasks=20, parts=3, units=PART)
    assert len(order) == 60
    assert count >= 60


async def test_tasks_take_turns_alternately() -> None:
    _, order = await iterations_of_work(tasks=4, parts=10, units=PART)
    for end in range(len(order)):
        counts = [order[:end].count(number) for number in range(4)]
        assert max(counts) - min(counts) <= 2


async def test_small_parts_share_one_iteration() -> None:
    count, order = await iterations_of_work(tasks=PART, parts=2, units=1)
    assert len(order) == 2 * PART
    assert count < 20


async def test_cancelled_task_leaves_its_turn_to_others() -> None:
    order: list[int] = []
    async with trio.open_nursery() as nursery:
        await take_turn()
        with trio.move_on_after(0):
            await take_turn()
            raise AssertionError("a second turn in one iteration")
        nursery.start_soon(work, 1, PART, order)
    assert order == [0]


async def test_first_turn_is_no_checkpoint() -> None:
    with trio.testing.assert_no_checkpoints():
        await take_turn(1)
