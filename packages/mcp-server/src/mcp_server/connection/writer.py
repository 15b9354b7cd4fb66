"""One writer for a byte stream: what is waiting is joined and written at once.

A lock around each write would cost one system call and one task switch a message. Here whoever has something to say
puts it down; a single task takes all that has come and writes it. What may wait is bounded: beyond the bound `put` does
not return until there is room, so a slow reader slows those who write to it, and nobody else. What cannot wait itself
(`put_nowait`: refusals, answers to pings) is counted, so that whoever causes it can be slowed: see `overdue`.

Client and server each have this module, word for word: neither may import the other, and the core has no trio.
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
        on_broken: Is called once, at the first write that fails. Nothing is written after it.
    """

    def __init__(
        self,
        send_all: Callable[[bytes | memoryview], Awaitable[None]],
        limit: int,
        write_now: Callable[[bytes], int] | None = None,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        self._send_all: Final = send_all
        self._limit: Final = limit
        self._write_now: Final = write_now
        self._on_broken: Final = on_broken
        self._waiting: list[bytes | memoryview] = []
        self._size = 0
        self._unbidden = 0
        self._busy = False
        self._closed = False
        self._failure: Exception | None = None
        self._wake = trio.Event()
        self._room = trio.Event()
        self._over = trio.Event()

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
        except (trio.BrokenResourceError, trio.ClosedResourceError) as failure:
            self._break(failure)
        finally:
            # Nobody writes any more, so whoever waits for room must not.
            self._closed = True
            self._room.set()
            self._over.set()

    def _break(self, failure: Exception) -> None:
        self._failure = failure
        self._closed = True
        self._waiting.clear()
        self._size = self._unbidden = 0
        self._room.set()
        self._wake.set()
        if self._on_broken is not None:
            self._on_broken()

    async def _write(self) -> None:
        data = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting.clear()
        self._size = self._unbidden = 0
        self._busy = True
        try:
            await self._send_all(data)
        finally:
            self._busy = False
        self._room.set()

    def put_nowait(self, data: bytes) -> None:
        """Puts whole messages down to be written soon. They are dropped when nothing is written any more."""
        self._unbidden += self._put(data, more=False)

    async def put(self, data: bytes, *, more: bool = False) -> None:
        """The same, and waits while more than the limit is waiting.

        Args:
            data: Whole messages with their ends.
            more: Others are about to put something down too, so that it is worth waiting for them.
        """
        self._put(data, more=more)
        while self._size > self._limit and not self._closed:
            await self._wait_for_room()

    def offer(self, data: bytes, *, more: bool = False) -> bool:
        """The same as `put`, if that needs no waiting. False if it does."""
        if self._closed or self._size > self._limit:
            return False
        self._put(data, more=more)
        return True

    def _put(self, data: bytes, *, more: bool) -> int:
        """Writes at once what can be; gives the number of bytes that have to wait."""
        if self._closed:
            return 0
        written = 0
        if not more and self._write_now is not None and not self._busy and not self._waiting:
            try:
                written = self._write_now(data)
            except BlockingIOError:
                written = 0
            except OSError as failure:
                self._break(failure)
                return 0
        if written == len(data):
            return 0
        # A view: to copy the rest of a long message would cost as much as to write it.
        rest = memoryview(data)[written:] if written else data
        self._waiting.append(rest)
        self._size += len(rest)
        self._wake.set()
        return len(rest)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait to be written."""
        return self._size

    @property
    def overdue(self) -> bool:
        """More than the limit waits of what was put down by `put_nowait`: somebody asks and does not read."""
        return self._unbidden > self._limit and not self._closed

    async def wait_while_overdue(self) -> None:
        """Waits until the other end has read on."""
        while self.overdue:
            await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        if self._room.is_set():
            self._room = trio.Event()
        await self._room.wait()

    def close(self) -> None:
        """Nothing more will come; `run` ends when all is written."""
        self._closed = True
        self._room.set()
        self._wake.set()

    @property
    def broken(self) -> bool:
        """Whether a write has failed."""
        return self._failure is not None

    @property
    def failure(self) -> Exception | None:
        """Why the first write that failed did; `None` as long as none has."""
        return self._failure

    async def wait_over(self) -> None:
        """Waits until `run` has ended."""
        await self._over.wait()
