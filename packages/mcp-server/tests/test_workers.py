from __future__ import annotations

from contextvars import ContextVar

import attrs
import trio
import trio.testing

from mcp_core.limits import SERVER_LIMITS
from mcp_server.connection.workers import Workers


def is_concurrent(workers: Workers[int]) -> bool:
    """Return the property. A function, because a type checker treats a property as constant."""
    return workers.several


def is_at_capacity(workers: Workers[int]) -> bool:
    return workers.at_capacity


async def test_idle_workers_end_when_stopped(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_busy_worker_ends_after_its_call(
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


async def test_calls_start_in_order_and_within_limit() -> None:
    release = trio.Event()
    started: list[int] = []

    async def run(call: int) -> None:
        started.append(call)
        await release.wait()

    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, attrs.evolve(SERVER_LIMITS, running_requests=3), run)
        for call in range(5):
            workers.submit(call, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert started == [0, 1, 2]
        assert is_concurrent(workers)
        workers.release()
        await trio.testing.wait_all_tasks_blocked()
        assert started == [0, 1, 2, 3]
        workers.resume()
        assert not workers.drop(3)
        assert workers.drop(4)
        release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert started == [0, 1, 2, 3]
        assert not is_concurrent(workers)
        workers.stop()


async def test_queue_is_bounded_by_calls_and_bytes() -> None:
    release = trio.Event()

    async def run(call: int) -> None:
        await release.wait()

    limits = attrs.evolve(SERVER_LIMITS, running_requests=1, waiting_requests=1, waiting_bytes=10)
    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, limits, run)
        workers.submit(0, 100)
        await trio.testing.wait_all_tasks_blocked()
        assert not is_at_capacity(workers)
        workers.submit(1, 11)
        assert is_at_capacity(workers)
        assert workers.drop(1)
        workers.submit(2, 1)
        assert not is_at_capacity(workers)
        workers.submit(3, 1)
        assert is_at_capacity(workers)
        nursery.start_soon(workers.wait_for_capacity)
        await trio.testing.wait_all_tasks_blocked()
        release.set()
        await workers.wait_for_capacity()
        assert not is_at_capacity(workers)
        workers.stop()


async def test_call_context_is_not_shared() -> None:
    user: ContextVar[str] = ContextVar("user", default="anonymous")
    users: list[str] = []

    async with trio.open_nursery() as nursery:

        async def run(call: str) -> None:
            users.append(user.get())
            user.set(call)
            # Another call starts from this context.
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
    assert users == ["anonymous"] * 4


async def test_idle_worker_is_reused_and_few_are_kept() -> None:
    tasks: set[trio.lowlevel.Task] = set()
    release = trio.Event()

    async def run(call: int) -> None:
        tasks.add(trio.lowlevel.current_task())
        if call < 0:
            await release.wait()

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
        release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) <= 16
        nursery.cancel_scope.cancel()
