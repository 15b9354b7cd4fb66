"""A writer for a byte stream that joins queued messages into one write.

A lock around each write would cost one system call and one task switch per message. Instead, senders queue their
messages, and one task writes all queued messages at once. The queue is bounded: if it exceeds the limit, `put` waits
for capacity. Therefore a slow reader slows only the tasks that write to it. Messages that must not wait (`put_nowait`:
error responses, responses to pings) are counted, so that the peer that causes them can be slowed: see `overdue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["CoalescingWriter"]


class CoalescingWriter:
    """A writer that joins messages into as few writes as possible.

    Args:
        send_all: Writes all of the bytes.
        limit: Maximum number of queued bytes.
        write_now: Writes as many bytes as fit without blocking and returns their number, or raises `BlockingIOError`;
            `None` if the stream does not support this.
        on_broken: Called once, when the first write fails. Nothing is written after it.
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
        self._capacity = trio.Event()
        self._over = trio.Event()

    async def run(self) -> None:
        """Write until cancelled, until `close` was called and all is written, or until the stream breaks."""
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
            # No further write will free capacity, so wake the tasks that wait for it.
            self._closed = True
            self._capacity.set()
            self._over.set()

    def _break(self, failure: Exception) -> None:
        self._failure = failure
        self._closed = True
        self._waiting.clear()
        self._size = self._unbidden = 0
        self._capacity.set()
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
        self._capacity.set()

    def put_nowait(self, data: bytes) -> None:
        """Queue whole messages to be written soon. Messages are dropped after the writer has ended."""
        self._unbidden += self._put(data, more=False)

    async def put(self, data: bytes, *, more: bool = False) -> None:
        """Queue whole messages, and wait while the queue exceeds the limit.

        Args:
            data: Whole messages with their line ends.
            more: Whether other tasks are about to queue messages too, so that one write can join them.
        """
        self._put(data, more=more)
        while self._size > self._limit and not self._closed:
            await self._wait_for_capacity()

    def offer(self, data: bytes, *, more: bool = False) -> bool:
        """Queue whole messages and return true, unless `put` would block; then return false."""
        if self._closed or self._size > self._limit:
            return False
        self._put(data, more=more)
        return True

    def _put(self, data: bytes, *, more: bool) -> int:
        """Write what fits without blocking, queue the rest, and return the number of queued bytes."""
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
        """The number of bytes that wait to be written."""
        return self._size

    @property
    def overdue(self) -> bool:
        """Whether messages of `put_nowait` exceed the limit: the peer causes messages and does not read them."""
        return self._unbidden > self._limit and not self._closed

    async def wait_while_overdue(self) -> None:
        """Wait while the peer causes messages and does not read them."""
        while self.overdue:
            await self._wait_for_capacity()

    async def _wait_for_capacity(self) -> None:
        if self._capacity.is_set():
            self._capacity = trio.Event()
        await self._capacity.wait()

    def close(self) -> None:
        """Finish: `run` ends when all queued messages are written."""
        self._closed = True
        self._capacity.set()
        self._wake.set()

    @property
    def broken(self) -> bool:
        """Whether a write has failed."""
        return self._failure is not None

    @property
    def failure(self) -> Exception | None:
        """The exception of the first write that failed; `None` if no write failed."""
        return self._failure

    async def wait_over(self) -> None:
        """Wait until `run` has ended."""
        await self._over.wait()
