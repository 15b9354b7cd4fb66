from __future__ import annotations

import pytest
import trio

from mcp_core.trio.nursery import open_private_nursery


async def fail() -> None:
    raise ValueError


async def test_single_exception_raised_unwrapped() -> None:
    cause = KeyError()
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012  the way of raising matters
        async with open_private_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ZeroDivisionError from cause
    assert caught.value.__cause__ is cause
    assert not isinstance(caught.value.__context__, BaseExceptionGroup)


async def test_two_exceptions_raised_as_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012  the way of raising matters
        async with open_private_nursery() as nursery:
            nursery.start_soon(fail)
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError
    assert {type(error) for error in caught.value.exceptions} == {ValueError, ZeroDivisionError}


async def test_outer_cancellation_keeps_exception() -> None:
    async def nest() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            inner.start_soon(trio.sleep_forever)

    with trio.CancelScope() as scope, pytest.raises(ZeroDivisionError):  # noqa: PT012  the way of raising matters
        async with open_private_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(nest)
            await trio.lowlevel.checkpoint()
            scope.cancel()
            raise ZeroDivisionError
    with trio.CancelScope() as scope:
        async with open_private_nursery() as nursery:
            nursery.start_soon(nest)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
