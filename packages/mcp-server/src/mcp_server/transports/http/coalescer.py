"""What several tasks put down is handed on by one of them at a time, all that has come at once, in its order."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

__all__ = ["Joiner"]

T = TypeVar("T")


class Joiner(Generic[T]):
    """Hands on what several tasks put down.

    Whoever puts something down returns when it was handed on, so a slow receiver slows those who send to it, and nobody
    else. A task that is cancelled while another one is at it leaves its item behind, which goes with the next.

    Args:
        hand_on: Takes items in their order. It is not to be stopped halfway, and has to be bounded by itself.
        shielded: Whether to shield it from cancellation, which it does not do itself.
    """

    __slots__ = ("_hand_on", "_items", "_lock", "_put", "_shielded", "_taken")

    def __init__(self, hand_on: Callable[[list[T]], Awaitable[None]], *, shielded: bool) -> None:
        self._hand_on: Final = hand_on
        self._shielded: Final = shielded
        self._items: list[T] = []
        self._put = 0
        self._taken = 0
        self._lock: Final = trio.Lock()

    async def put(self, *items: T) -> None:
        """Puts items down, and returns when they were handed on."""
        self._items.extend(items)
        self._put += 1
        mine = self._put
        await self._acquire()
        try:
            if self._taken < mine:
                await self._take()
        finally:
            self._lock.release()

    def leave(self, item: T) -> None:
        """Puts an item down for whoever hands on next. Never waits."""
        self._items.append(item)
        self._put += 1

    @property
    def waiting(self) -> bool:
        """Whether something was left that nobody hands on."""
        return bool(self._items)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Nothing is handed on within the block, but what was put down before. It is shielded from cancellation."""
        await self._acquire()
        try:
            await self._take()
            with trio.CancelScope(shield=True):
                yield
        finally:
            self._lock.release()

    async def _take(self) -> None:
        items, self._items = self._items, []
        self._taken = self._put
        if items and not self._shielded:
            await self._hand_on(items)
        elif items:
            with trio.CancelScope(shield=True):
                await self._hand_on(items)

    async def _acquire(self) -> None:
        # The lock's own way is a checkpoint each time.
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()
