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
        # One level only: a group that the block raised itself is its own affair.
        if len(group.exceptions) == 1:
            raise group.exceptions[0]  # noqa: B904 -- the group says nothing that the exception does not
        raise
