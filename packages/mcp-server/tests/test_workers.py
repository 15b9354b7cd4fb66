from __future__ import annotations

from contextvars import ContextVar

import attrs
import trio
import trio.testing

from mcp_core.limits import SERVER_LIMITS
from mcp_server.connection.workers import Workers


def several(workers: Workers[int]) -> bool:
    """Asked anew each time: a type checker takes a property for a constant."""
    return workers.several


def crowded(workers: Workers[int]) -> bool:
    return workers.crowded


async def test_idle_workers_end_with_the_connection_and_hold_up_nothing(autojump_clock: trio.testing.MockClock) -> None:
    done: list[int] = []

    async def run(call: int) -> None:
        await trio.lowlevel.checkpoint()
        done.append(call)

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            workers = Workers(nursery, SERVER_LIMITS, run)
            for call in range(5):
                workers.submit(call, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(done) == [0, 1, 2, 3, 4]
            workers.stop()


async def test_a_worker_that_is_busy_when_the_connection_ends_ends_after_its_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    done: list[int] = []

    async def run(call: int) -> None:
        await trio.sleep(0.5)
        done.append(call)

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            workers = Workers(nursery, SERVER_LIMITS, run)
            workers.submit(1, 1)
            await trio.testing.wait_all_tasks_blocked()
            workers.stop()
    assert done == [1]


async def test_calls_begin_in_their_order_and_no_more_than_allowed_run_at_once() -> None:
    gate = trio.Event()
    begun: list[int] = []

    async def run(call: int) -> None:
        begun.append(call)
        await gate.wait()

    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, attrs.evolve(SERVER_LIMITS, running_requests=3), run)
        for call in range(5):
            workers.submit(call, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [0, 1, 2]
        assert several(workers)
        workers.release()
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [0, 1, 2, 3]
        workers.resume()
        assert not workers.drop(3)
        assert workers.drop(4)
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [0, 1, 2, 3]
        assert not several(workers)
        workers.stop()


async def test_the_room_is_bounded_by_calls_and_by_bytes() -> None:
    gate = trio.Event()

    async def run(call: int) -> None:
        await gate.wait()

    limits = attrs.evolve(SERVER_LIMITS, running_requests=1, waiting_requests=1, waiting_bytes=10)
    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, limits, run)
        workers.submit(0, 100)
        await trio.testing.wait_all_tasks_blocked()
        assert not crowded(workers)
        workers.submit(1, 11)
        assert crowded(workers)
        assert workers.drop(1)
        workers.submit(2, 1)
        assert not crowded(workers)
        workers.submit(3, 1)
        assert crowded(workers)
        nursery.start_soon(workers.wait_for_room)
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
        await workers.wait_for_room()
        assert not crowded(workers)
        workers.stop()


async def test_no_call_sees_what_another_left_in_its_context() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen: list[str] = []

    async with trio.open_nursery() as nursery:

        async def run(call: str) -> None:
            seen.append(user.get())
            user.set(call)
            # Another call takes its place, begun from here.
            workers.release()
            await trio.testing.wait_all_tasks_blocked(0.01)
            workers.resume()

        workers: Workers[str] = Workers(nursery, attrs.evolve(SERVER_LIMITS, running_requests=1), run)
        for call in ("ada", "bob", "eve"):
            workers.submit(call, 1)
        await trio.testing.wait_all_tasks_blocked(0.02)
        workers.submit("zoe", 1)
        await trio.testing.wait_all_tasks_blocked(0.02)
        workers.stop()
    assert seen == ["nobody"] * 4


async def test_one_worker_serves_all_that_need_not_wait_and_few_are_kept() -> None:
    tasks: set[trio.lowlevel.Task] = set()
    gate = trio.Event()

    async def run(call: int) -> None:
        tasks.add(trio.lowlevel.current_task())
        if call < 0:
            await gate.wait()

    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, SERVER_LIMITS, run)
        for call in range(50):
            workers.submit(call, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(tasks) == 1
        for call in range(50):
            workers.submit(-1 - call, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(tasks) == 50
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) <= 16
        nursery.cancel_scope.cancel()
