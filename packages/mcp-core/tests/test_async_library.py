"""Functions of the application that use another async library than the one that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from mcp_core.trio.async_library import allow_asyncio, call_in, enter_in

_SECONDS = 20
"""Time after which a test that waits forever fails."""


async def use_sleep() -> None:
    await asyncio.sleep(1)


async def use_timeout() -> None:
    async with asyncio.timeout(1):
        await trio.lowlevel.checkpoint()


async def use_future() -> None:
    loop = asyncio.new_event_loop()
    try:
        await loop.create_future()
    finally:
        loop.close()


async def use_sleep_in_a_library() -> None:
    try:
        await use_sleep()
    except RuntimeError as error:
        raise OSError("the database is unreachable") from error


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise RuntimeError("broken")


async def use_nursery() -> None:
    async with trio.open_nursery():
        pass


async def use_checkpoint() -> None:
    await trio.lowlevel.checkpoint()


async def use_deadline() -> None:
    with trio.move_on_after(1):
        await asyncio.sleep(0)


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


@pytest.mark.parametrize("function", [use_sleep, use_timeout, use_future, use_sleep_in_a_library])
async def test_asyncio_used_on_trio_note_names_page(function: Callable[[], Awaitable[None]]) -> None:
    with pytest.raises((RuntimeError, TypeError, OSError)) as caught:
        # A call within a call adds no second note.
        await call_in(None, lambda: call_in(None, function))
    (note,) = notes(caught.value)
    assert "ran on trio" in note
    assert "howto/asyncio" in note


async def test_error_of_function_on_trio_raised_unchanged() -> None:
    with pytest.raises(RuntimeError, match="broken") as caught:
        await call_in(None, fail)
    assert notes(caught.value) == []


async def test_context_manager_that_uses_asyncio_on_trio_note_names_page() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[int]:
        await asyncio.sleep(1)
        yield 1

    with pytest.raises(RuntimeError, match="no running event loop") as caught:
        async with enter_in(None, lifespan):
            pass
    (note,) = notes(caught.value)
    assert "howto/asyncio" in note


@pytest.mark.parametrize("function", [use_nursery, use_checkpoint, use_deadline])
def test_trio_used_on_asyncio_note_names_page(function: Callable[[], Awaitable[None]]) -> None:
    @allow_asyncio
    async def library_function() -> None:
        await call_in(None, function)

    with pytest.raises((RuntimeError, AttributeError)) as caught:
        asyncio.run(asyncio.wait_for(library_function(), _SECONDS))
    (note,) = notes(caught.value)
    assert "ran on asyncio" in note
    assert "howto/asyncio" in note
