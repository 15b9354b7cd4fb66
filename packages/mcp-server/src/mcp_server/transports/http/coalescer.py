"""Coalescing of writes: several tasks queue items, and one task at a time writes all queued items in order."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

__all__ = ["WriteCoalescer"]

T = TypeVar("T")


class WriteCoalescer(Generic[T]):
    """A writer that combines the items of several tasks.

    A task that queues an item waits until it is written. A slow receiver therefore delays only the tasks that send to
    it. If a task is cancelled while another task writes, its item stays in the queue and is part of the next write.

    Args:
        hand_on: Writes items in order. It must not be interrupted, and must end within a bounded time.
        shielded: Whether to shield `hand_on` from cancellation, because it does not shield itself.
    """

    __slots__ = ("_hand_on", "_items", "_put", "_queue", "_shielded", "_taken", "_writing")

    def __init__(self, hand_on: Callable[[list[T]], Awaitable[None]], *, shielded: bool) -> None:
        self._hand_on: Final = hand_on
        self._shielded: Final = shielded
        self._items: list[T] = []
        self._put = 0
        self._taken = 0
        # As `trio.Lock`, which also tracks its owner: that costs more than most writes.
        self._writing = False
        self._queue: trio.lowlevel.ParkingLot | None = None

    async def put(self, *items: T) -> None:
        """Queue items and wait until they are written."""
        self._items.extend(items)
        self._put += 1
        mine = self._put
        if self._writing:
            await self._wait()
        self._writing = True
        try:
            if self._taken < mine:
                await self._take()
        finally:
            self._release()

    def leave(self, item: T) -> None:
        """Queue an item for the next write. Does not block."""
        self._items.append(item)
        self._put += 1

    @property
    def waiting(self) -> bool:
        """Whether the queue contains items that no task writes."""
        return bool(self._items)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Write the queued items, then prevent other writes in the block, which is shielded from cancellation."""
        if self._writing:
            await self._wait()
        self._writing = True
        try:
            await self._take()
            with trio.CancelScope(shield=True):
                yield
        finally:
            self._release()

    async def _take(self) -> None:
        items, self._items = self._items, []
        self._taken = self._put
        if items and not self._shielded:
            await self._hand_on(items)
        elif items:
            with trio.CancelScope(shield=True):
                await self._hand_on(items)

    async def _wait(self) -> None:
        """Wait until the writing task hands over to this one."""
        if self._queue is None:
            self._queue = trio.lowlevel.ParkingLot()
        await self._queue.park()

    def _release(self) -> None:
        # `_writing` stays set for the task that is woken, so that no other task gets ahead of it.
        if self._queue is None or not self._queue.unpark():
            self._writing = False
