from __future__ import annotations

from contextvars import ContextVar

import attrs
import pytest
import trio
import trio.testing

from mcp_core.limits import SERVER_LIMITS
from mcp_server.connection.first_wait import FirstWait
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


@attrs.define
class Source:
    """Requests that arrive one at a time, and the tasks that read and run them."""

    arrived: list[str] = attrs.field(factory=list)
    news: trio.Event = attrs.field(factory=trio.Event)
    readers: list[trio.lowlevel.Task] = attrs.field(factory=list)
    runners: list[trio.lowlevel.Task] = attrs.field(factory=list)
    release: trio.Event = attrs.field(factory=trio.Event)
    done: list[str] = attrs.field(factory=list)

    async def send(self, call: str) -> None:
        """Let a request arrive, and wait until nothing more happens."""
        self.arrived.append(call)
        self.news.set()
        await trio.testing.wait_all_tasks_blocked()

    async def read(self, workers: Workers[str]) -> None:
        """Read until the end, or until another task reads."""
        while True:
            await self.news.wait()
            self.news = trio.Event()
            self.readers.append(trio.lowlevel.current_task())
            call = self.arrived.pop()
            if call == "end" or not await workers.run_as_reader(call):
                return

    async def run(self, call: str) -> None:
        """Run a request."""
        self.runners.append(trio.lowlevel.current_task())
        if call == "wait":
            await self.release.wait()
        elif call == "fail":
            await trio.lowlevel.checkpoint()
            with trio.CancelScope() as scope:
                scope.cancel()
                await trio.sleep_forever()
        self.done.append(call)


async def test_reader_runs_calls_that_do_not_wait() -> None:
    source = Source()
    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, SERVER_LIMITS, source.run)
        workers.start_reader(lambda: source.read(workers))
        for _ in range(3):
            await source.send("echo")
        await source.send("end")
        workers.stop()
    assert source.done == ["echo"] * 3
    assert set(source.runners) == set(source.readers)
    assert len(set(source.readers)) == 1


async def test_waiting_handler_of_reader_hands_reading_over() -> None:
    source = Source()
    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, SERVER_LIMITS, source.run)
        workers.start_reader(lambda: source.read(workers))
        await source.send("wait")
        await source.send("wait")
        await source.send("fail")
        await source.send("echo")
        assert source.done == ["fail", "echo"]
        source.release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert source.done == ["fail", "echo", "wait", "wait"]
        await source.send("echo")
        # The workers whose handlers waited are idle, and take the next calls.
        assert len(nursery.child_tasks) <= 4
        await source.send("end")
        workers.stop()
    assert len(source.done) == 5
    assert len(set(source.readers)) == 4


async def test_request_after_reader_at_limit_is_queued_and_runs() -> None:
    source = Source()
    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, attrs.evolve(SERVER_LIMITS, running_requests=1), source.run)
        workers.start_reader(lambda: source.read(workers))
        await source.send("wait")
        workers.submit("queued", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert source.done == []
        source.release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert source.done == ["wait", "queued"]
        await source.send("end")
        workers.stop()


async def test_reader_with_changed_context_is_replaced() -> None:
    user: ContextVar[str] = ContextVar("user", default="anonymous")
    source = Source()
    users: list[str] = []

    async def run(call: str) -> None:
        users.append(user.get())
        user.set(call)
        await source.run(call)

    async with trio.open_nursery() as nursery:
        workers = Workers(nursery, SERVER_LIMITS, run)
        workers.start_reader(lambda: source.read(workers))
        for call in ("ada", "fail", "eve"):
            await source.send(call)
        source.release.set()
        await source.send("end")
        workers.stop()
    assert users == ["anonymous"] * 3


async def test_first_wait_passes_values_and_exceptions() -> None:
    waits: list[str] = []

    async def handler() -> str:
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.lowlevel.checkpoint()
        waits.append(f"cancelled {scope.cancelled_caught}")
        waits.append(await trio.to_thread.run_sync(lambda: "thread"))
        raise LookupError("missing")

    async def immediate() -> str:
        return "now"

    assert await FirstWait(immediate(), lambda: waits.append("never")) == "now"
    with pytest.raises(LookupError, match="missing"):
        await FirstWait(handler(), lambda: waits.append("first wait"))
    assert waits == ["first wait", "cancelled True", "thread"]
