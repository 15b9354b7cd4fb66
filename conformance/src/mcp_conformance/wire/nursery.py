"""A nursery that raises a single exception and no exception group."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["open_nursery"]


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery. Of several exceptions, raise the first that is not a cancellation."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    leaves = list(_leaves(group))
    return next((leaf for leaf in leaves if not isinstance(leaf, trio.Cancelled)), leaves[0])


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found
