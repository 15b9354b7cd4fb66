"""One writer for a byte stream: what is waiting is joined and written at once.

A lock around each write would cost one system call and one task switch a message. Here whoever has something to say
puts it down; a single task takes all that has come and writes it. What may wait is bounded: beyond the bound `put` does
not return until there is room, so a slow reader slows those who write to it, and nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["JoiningWriter"]


class JoiningWriter:
    """Joins messages into as few writes as possible.

    Args:
        send_all: Writes bytes, all of them.
        limit: How many bytes may wait.
        write_now: Writes as many bytes as the other end takes at once and returns their number, or raises
            `BlockingIOError`; `None` where there is no such thing.
    """

    def __init__(
        self,
        send_all: Callable[[bytes | memoryview], Awaitable[None]],
        limit: int,
        write_now: Callable[[bytes], int] | None = None,
    ) -> None:
        self._send_all: Final = send_all
        self._limit: Final = limit
        self._write_now: Final = write_now
        self._waiting: list[bytes | memoryview] = []
        self._size = 0
        self._busy = False
        self._closed = False
        self._broken: BaseException | None = None
        self._wake = trio.Event()
        self._room = trio.Event()

    async def run(self) -> None:
        """Writes until cancelled, until `close` was called and all is written, or until the stream breaks."""
        try:
            while True:
                while self._waiting:
                    await self._write()
                if self._closed:
                    return
                self._wake = trio.Event()
                await self._wake.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            self._broken = broken
            self._room.set()

    async def _write(self) -> None:
        data = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._busy = True
        try:
            await self._send_all(data)
        finally:
            self._busy = False
        self._room.set()

    def put_nowait(self, data: bytes, *, more: bool = False) -> None:
        """Puts `data` down to be written soon.

        Args:
            data: Whole messages with their ends.
            more: Others are about to put something down too, so that it is worth waiting for them.
        """
        if self._broken is not None or self._closed:
            return
        rest: bytes | memoryview = data
        if not more and self._write_now is not None and not self._busy and not self._waiting:
            try:
                written = self._write_now(data)
            except BlockingIOError:
                written = 0
            except OSError as broken:
                self._broken = broken
                self._wake.set()
                return
            if written == len(data):
                return
            # A view: to copy the rest of a long message would cost as much as to write it.
            rest = memoryview(data)[written:]
        self._waiting.append(rest)
        self._size += len(rest)
        self._wake.set()

    async def put(self, data: bytes, *, more: bool = False) -> None:
        """The same, and waits while more than the limit is waiting."""
        self.put_nowait(data, more=more)
        while self._size > self._limit and self._broken is None:
            self._room = trio.Event()
            await self._room.wait()

    def close(self) -> None:
        """Nothing more will come; `run` ends when all is written."""
        self._closed = True
        self._wake.set()

    @property
    def broken(self) -> bool:
        """The other end is gone; what is put down is dropped."""
        return self._broken is not None
