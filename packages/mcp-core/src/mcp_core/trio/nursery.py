"""A private nursery: it does not wrap the exceptions of its block in exception groups."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["is_cancellation", "open_private_nursery"]


@asynccontextmanager
async def open_private_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery for tasks that never raise.

    An exception of the block propagates unchanged, not in an exception group, because the nursery is an implementation
    detail. The tasks are cancelled when the block ends.
    """
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # Unwraps one level only: a group that the block itself raised is kept. If the block is cancelled from outside,
        # the tasks add their own `Cancelled` exceptions, which carry no information.
        raised = [error for error in group.exceptions if not is_cancellation(error)] or [group.exceptions[0]]
        if len(raised) > 1:
            raise
        alone = raised[0]
    else:
        return
    # Raised outside of the `except` block, so that the group does not become the context of the exception.
    raise alone


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of a trio task, or a group that contains nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
