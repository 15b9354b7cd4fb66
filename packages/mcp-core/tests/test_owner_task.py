from __future__ import annotations

import contextvars
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.trio.owner_task import OwnerTask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Block:
    """A block with a nursery, which trio requires to be left in order by its task."""

    def __init__(self) -> None:
        self.entered = 0
        self.left = 0
        self.fail_after: trio.Event | None = None

    def open(self) -> OwnerTask[str]:
        return OwnerTask(self._run, "block")

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[str]:
        async with trio.open_nursery() as nursery:
            self.entered += 1
            if self.fail_after is not None:
                nursery.start_soon(self._fail, self.fail_after)
            nursery.start_soon(trio.sleep_forever)
            try:
                yield "value"
            finally:
                self.left += 1
                nursery.cancel_scope.cancel()

    async def _fail(self, after: trio.Event) -> None:
        await after.wait()
        raise ZeroDivisionError


@given(order=st.permutations(range(4)), count=st.integers(1, 4))
def test_blocks_left_in_any_order_end(order: list[int], count: int) -> None:
    async def main() -> None:
        blocks = [Block() for _ in range(count)]
        stacks = [AsyncExitStack() for _ in range(count)]
        for block, stack in zip(blocks, stacks, strict=True):
            assert await stack.enter_async_context(block.open()) == "value"
        for number in order:
            if number < count:
                await stacks[number].aclose()
                assert blocks[number].left == 1
        assert [block.left for block in blocks] == [1] * count

    trio.run(main)


async def test_block_entered_and_left_by_tasks_that_end() -> None:
    block = Block()
    owner = block.open()
    for step in (owner.__aenter__, lambda: owner.__aexit__(None, None, None)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(step)
    assert (block.entered, block.left) == (1, 1)


async def test_block_left_twice_ends_once() -> None:
    block = Block()
    async with block.open() as value:
        assert value == "value"
    owner = block.open()
    await owner.__aenter__()
    await owner.__aexit__(None, None, None)
    await owner.__aexit__(None, None, None)
    assert block.left == 2


async def test_exception_of_caller_propagates_unchanged() -> None:
    block = Block()
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with block.open():
            raise error
    assert caught.value is error
    assert block.left == 1


async def test_exception_on_entering_is_raised() -> None:
    @asynccontextmanager
    async def failing() -> AsyncIterator[float]:
        yield 1 / int("0")

    with pytest.raises(ZeroDivisionError):
        async with OwnerTask(failing, "block"):
            pytest.fail("it cannot be entered")


async def test_exception_of_task_in_block_is_raised_on_leaving() -> None:
    block = Block()
    block.fail_after = trio.Event()
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012  the way of raising matters
        async with block.open():
            block.fail_after.set()
            await trio.testing.wait_all_tasks_blocked()
            assert block.left == 1
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)


async def test_both_exceptions_are_reported() -> None:
    block = Block()
    block.fail_after = trio.Event()
    with pytest.raises(KeyError) as caught:  # noqa: PT012  the way of raising matters
        async with block.open():
            block.fail_after.set()
            await trio.testing.wait_all_tasks_blocked()
            raise KeyError
    assert "block failed too: ExceptionGroup" in caught.value.__notes__[0]


async def test_cancelled_entering_ends_block() -> None:
    ended = trio.Event()

    @asynccontextmanager
    async def endless() -> AsyncIterator[None]:
        try:
            await trio.Event().wait()
            yield
        finally:
            ended.set()

    with trio.move_on_after(0) as scope:
        async with OwnerTask(endless, "block"):
            pytest.fail("it cannot be entered")
    assert scope.cancelled_caught
    assert ended.is_set()


async def test_cancelled_block_is_left() -> None:
    block = Block()
    with trio.CancelScope() as scope:
        async with block.open():
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert block.left == 1


def test_block_ends_with_run() -> None:
    block = Block()

    async def main() -> None:
        await block.open().__aenter__()

    trio.run(main)
    assert block.left == 1


def test_abandoned_generator_leaves_block() -> None:
    block = Block()

    async def values() -> AsyncIterator[str]:
        async with block.open() as value:
            yield value
            yield value

    async def main() -> None:
        generator = values()
        assert await anext(generator) == "value"
        del generator
        await trio.testing.wait_all_tasks_blocked()
        assert block.left == 1

    with pytest.warns(ResourceWarning, match="garbage collected before it had been exhausted"):
        trio.run(main)


def test_keyboard_interrupt_in_block_reaches_main_task() -> None:
    block = Block()

    @asynccontextmanager
    async def interrupted() -> AsyncIterator[None]:
        yield
        raise KeyboardInterrupt

    async def main() -> None:
        async with block.open():
            await OwnerTask(interrupted, "block").__aenter__()
            owner = OwnerTask(interrupted, "block")
            await owner.__aenter__()
            await owner.__aexit__(None, None, None)
            await trio.sleep_forever()

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert block.left == 1


async def test_block_inherits_context_variables() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    @asynccontextmanager
    async def reading() -> AsyncIterator[None]:
        seen.append(variable.get())
        yield

    variable.set("set")
    async with OwnerTask(reading, "block"):
        pass
    assert seen == ["set"]
