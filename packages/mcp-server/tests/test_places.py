"""The places of one client over HTTP: who runs, who waits, who is refused."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded
from mcp_core.limits import Limits
from mcp_server.connection.request_queue import Places, excess


class Crowd:
    """Requests of one client, each of which holds its place until it is told to end."""

    def __init__(self, nursery: trio.Nursery, limits: Limits) -> None:
        self.places = Places(limits)
        self.running: list[int] = []
        self.scopes: dict[int, trio.CancelScope] = {}
        self._nursery = nursery

    async def come(self, number: int, size: int = 1) -> LimitExceeded | None:
        refused = self.places.claim(size)
        if refused is None:
            self._nursery.start_soon(self._stay, number, size)
            # Tasks begin in no certain order.
            await trio.testing.wait_all_tasks_blocked()
        return refused

    async def _stay(self, number: int, size: int) -> None:
        with trio.CancelScope() as self.scopes[number]:
            await self.places.enter(size)
            self.running.append(number)
            try:
                await trio.sleep_forever()
            finally:
                self.running.remove(number)
                self.places.leave()

    async def go(self, number: int) -> None:
        self.scopes.pop(number).cancel()
        await trio.testing.wait_all_tasks_blocked()


async def test_requests_wait_in_their_order_and_what_is_beyond_the_room_is_refused() -> None:
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery, Limits(running_requests=2, waiting_requests=2))
        for number in range(4):
            assert await crowd.come(number) is None
        refused = await crowd.come(4)
        assert refused is not None
        assert (refused.observed, refused.allowed, refused.setting) == (3, 2, "Limits.waiting_requests")
        assert crowd.running == [0, 1]
        await crowd.go(2)
        assert crowd.running == [0, 1]
        assert await crowd.come(5) is None
        await crowd.go(1)
        assert crowd.running == [0, 3]
        await crowd.go(0)
        assert crowd.running == [3, 5]
        await crowd.go(3)
        await crowd.go(5)
        assert crowd.places.unused


async def test_large_requests_wait_only_up_to_the_bytes_that_may_wait() -> None:
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery, Limits(running_requests=1, waiting_bytes=100))
        # What need not wait may have any size.
        assert await crowd.come(0, size=1_000) is None
        await trio.testing.wait_all_tasks_blocked()
        assert await crowd.come(1, size=100) is None
        refused = await crowd.come(2, size=1)
        assert refused is not None
        assert (refused.observed, refused.setting) == (101, "Limits.waiting_bytes")
        assert "bytes" in refused.limit
        await crowd.go(1)
        assert await crowd.come(3, size=100) is None
        nursery.cancel_scope.cancel()


async def test_where_nothing_may_wait_what_cannot_run_at_once_is_refused() -> None:
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery, Limits(running_requests=1, waiting_requests=0))
        # Before it has begun it has its place nevertheless.
        assert crowd.places.claim(1) is None
        assert await crowd.come(1) is not None
        crowd.places.give_up(1)
        assert await crowd.come(2) is None
        assert await crowd.come(3) is not None
        nursery.cancel_scope.cancel()


async def test_a_place_is_lent_while_its_request_waits_for_the_client() -> None:
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery, Limits(running_requests=1))
        for number in range(3):
            await crowd.come(number)
        crowd.places.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert crowd.running == [0, 1]
        # Now there is one too many, and the next one that ends hands nothing on.
        crowd.places.resume()
        await crowd.go(0)
        assert crowd.running == [1]
        await crowd.go(1)
        assert crowd.running == [2]
        nursery.cancel_scope.cancel()


@given(st.lists(st.sampled_from(["come", "go"]), max_size=40), st.integers(1, 3), st.integers(0, 3))
def test_whoever_comes_and_goes_no_more_run_or_wait_than_allowed(steps: list[str], running: int, waiting: int) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            crowd = Crowd(nursery, Limits(running_requests=running, waiting_requests=waiting))
            here = 0
            for number, step in enumerate(steps):
                if step == "come":
                    refused = await crowd.come(number)
                    assert (refused is not None) == (here == running + waiting)
                    here += refused is None
                elif crowd.running:
                    await crowd.go(crowd.running[0])
                    here -= 1
                assert len(crowd.running) == min(here, running)
            nursery.cancel_scope.cancel()
        assert crowd.places.unused

    trio.run(main)


@pytest.mark.parametrize(("waiting", "size", "setting"), [(3, 0, "requests"), (0, 11, "bytes"), (3, 11, "requests")])
def test_a_refusal_names_the_bound_and_the_setting(waiting: int, size: int, setting: str) -> None:
    limits = Limits(waiting_requests=2, waiting_bytes=10)
    refused = excess(limits, waiting, size)
    assert refused is not None
    assert refused.setting == f"Limits.waiting_{setting}"
    assert excess(limits, 2, 10) is None
