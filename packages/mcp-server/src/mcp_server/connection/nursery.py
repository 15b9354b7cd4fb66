"""A nursery that is nobody's business: its exception groups do not leak."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["open_private_nursery"]


@asynccontextmanager
async def open_private_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery for tasks that never raise.

    What the block raises comes out as it is, not in an exception group: that the block runs in a nursery is a detail
    of ours. The tasks are cancelled when the block ends.
    """
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # One level only: a group that the block raised itself is its own affair. When the block is cancelled from
        # outside, our tasks add their own Cancelled to what it raises; that says nothing either.
        told = [error for error in group.exceptions if not _is_cancellation(error)] or [group.exceptions[0]]
        if len(told) > 1:
            raise
        alone = told[0]
    else:
        return
    # Raised out here, so that the group does not become a part of its story.
    raise alone


def _is_cancellation(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
