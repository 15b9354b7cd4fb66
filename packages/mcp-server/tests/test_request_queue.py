"""The request queue of one client over HTTP: which requests run, wait, or are rejected."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded
from mcp_core.limits import Limits
from mcp_server.connection.request_queue import RequestQueue, excess


class Clients:
    """Requests of one client, each of which runs until it is finished by the test."""

    def __init__(self, nursery: trio.Nursery, limits: Limits) -> None:
        self.queue = RequestQueue(limits)
        self.running: list[int] = []
        self.scopes: dict[int, trio.CancelScope] = {}
        self._nursery = nursery

    async def send(self, number: int, size: int = 1) -> LimitExceeded | None:
        rejection = self.queue.claim(size)
        if rejection is None:
            self._nursery.start_soon(self._hold, number, size)
            # The start order of trio's tasks is random.
            await trio.testing.wait_all_tasks_blocked()
        return rejection

    async def _hold(self, number: int, size: int) -> None:
        with trio.CancelScope() as self.scopes[number]:
            await self.queue.enter(size)
            self.running.append(number)
            try:
                await trio.sleep_forever()
            finally:
                self.running.remove(number)
                self.queue.leave()

    async def finish(self, number: int) -> None:
        self.scopes.pop(number).cancel()
        await trio.testing.wait_all_tasks_blocked()


async def test_requests_queue_in_order_and_over_capacity_rejected() -> None:
    async with trio.open_nursery() as nursery:
        clients = Clients(nursery, Limits(running_requests=2, waiting_requests=2))
        for number in range(4):
            assert await clients.send(number) is None
        rejection = await clients.send(4)
        assert rejection is not None
        assert (rejection.observed, rejection.allowed, rejection.setting) == (3, 2, "Limits.waiting_requests")
        assert clients.running == [0, 1]
        await clients.finish(2)
        assert clients.running == [0, 1]
        assert await clients.send(5) is None
        await clients.finish(1)
        assert clients.running == [0, 3]
        await clients.finish(0)
        assert clients.running == [3, 5]
        await clients.finish(3)
        await clients.finish(5)
        assert clients.queue.unused


async def test_queue_is_bounded_by_bytes() -> None:
    async with trio.open_nursery() as nursery:
        clients = Clients(nursery, Limits(running_requests=1, waiting_bytes=100))
        # A request that does not wait may have any size.
        assert await clients.send(0, size=1_000) is None
        await trio.testing.wait_all_tasks_blocked()
        assert await clients.send(1, size=100) is None
        rejection = await clients.send(2, size=1)
        assert rejection is not None
        assert (rejection.observed, rejection.setting) == (101, "Limits.waiting_bytes")
        assert "bytes" in rejection.limit
        await clients.finish(1)
        assert await clients.send(3, size=100) is None
        nursery.cancel_scope.cancel()


async def test_queue_of_size_zero_rejects_requests_over_running_limit() -> None:
    async with trio.open_nursery() as nursery:
        clients = Clients(nursery, Limits(running_requests=1, waiting_requests=0))
        # A claim counts before the request runs.
        assert clients.queue.claim(1) is None
        assert await clients.send(1) is not None
        clients.queue.give_up(1)
        assert await clients.send(2) is None
        assert await clients.send(3) is not None
        nursery.cancel_scope.cancel()


async def test_slot_released_while_waiting_for_client() -> None:
    async with trio.open_nursery() as nursery:
        clients = Clients(nursery, Limits(running_requests=1))
        for number in range(3):
            await clients.send(number)
        clients.queue.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert clients.running == [0, 1]
        # One request too many is running now, so the next one that ends starts no other.
        clients.queue.resume()
        await clients.finish(0)
        assert clients.running == [1]
        await clients.finish(1)
        assert clients.running == [2]
        nursery.cancel_scope.cancel()


@given(st.lists(st.sampled_from(["send", "finish"]), max_size=40), st.integers(1, 3), st.integers(0, 3))
def test_generated_steps_stay_within_limits(steps: list[str], running: int, waiting: int) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            clients = Clients(nursery, Limits(running_requests=running, waiting_requests=waiting))
            admitted = 0
            for number, step in enumerate(steps):
                if step == "send":
                    rejection = await clients.send(number)
                    assert (rejection is not None) == (admitted == running + waiting)
                    admitted += rejection is None
                elif clients.running:
                    await clients.finish(clients.running[0])
                    admitted -= 1
                assert len(clients.running) == min(admitted, running)
            nursery.cancel_scope.cancel()
        assert clients.queue.unused

    trio.run(main)


@pytest.mark.parametrize(("waiting", "size", "setting"), [(3, 0, "requests"), (0, 11, "bytes"), (3, 11, "requests")])
def test_rejection_names_limit_and_setting(waiting: int, size: int, setting: str) -> None:
    limits = Limits(waiting_requests=2, waiting_bytes=10)
    rejection = excess(limits, waiting, size)
    assert rejection is not None
    assert rejection.setting == f"Limits.waiting_{setting}"
    assert excess(limits, 2, 10) is None
