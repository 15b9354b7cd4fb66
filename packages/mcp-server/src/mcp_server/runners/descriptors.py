"""A byte stream of two file descriptors, without threads if the system can wait for them.

Pipes, terminals and sockets are set to non-blocking mode. Regular files (`server < requests.txt`), `/dev/null` and the
pipes of Windows do not support waiting, so a thread reads and writes them.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Final, Self

import trio

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["DescriptorStream"]

_CHUNK: Final = 64 * 1024
"""Largest read, in bytes: the capacity of a Linux pipe. For a larger one, the allocator would map memory and unmap it with each
read, which costs three system calls.
"""


class DescriptorStream:
    """A byte stream that reads from one file descriptor and writes to another. It owns both.

    Args:
        source: The descriptor to read from.
        sink: The descriptor to write to.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source: Final = source
        self._sink: Final = sink
        self._source_waits: Final = _make_ready(source)
        self._sink_waits: Final = _make_ready(sink)
        self._closed = False

    async def receive_some(self) -> bytes:
        """Wait for bytes and return them; empty at the end of input.

        Raises:
            trio.BrokenResourceError: The source cannot be read.
        """
        while True:
            try:
                if not self._source_waits:
                    return await trio.to_thread.run_sync(os.read, self._source, _CHUNK, abandon_on_cancel=True)
                # Waiting first costs nothing: when a request completes, the next one has rarely arrived.
                await trio.lowlevel.wait_readable(self._source)
                return os.read(self._source, _CHUNK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError("cannot read from the input stream") from error

    async def send_all(self, data: bytes | memoryview) -> None:
        """Write all of `data`.

        Raises:
            trio.BrokenResourceError: The reader has closed the stream, or it cannot be written.
        """
        rest = memoryview(data)
        try:
            while rest:
                if not self._sink_waits:
                    written = await trio.to_thread.run_sync(os.write, self._sink, rest)
                else:
                    try:
                        written = os.write(self._sink, rest)
                    except BlockingIOError:
                        await trio.lowlevel.wait_writable(self._sink)
                        continue
                rest = rest[written:]
        except OSError as error:
            raise trio.BrokenResourceError("cannot write to the output stream") from error
        await trio.lowlevel.checkpoint()

    def write_now(self, data: bytes) -> int:
        """Write without waiting, and return the number of bytes written.

        Raises:
            BlockingIOError: Nothing can be written without waiting.
            OSError: The reader has closed the stream, or it cannot be written.
        """
        if not self._sink_waits:
            raise BlockingIOError
        return os.write(self._sink, data)

    def close(self) -> None:
        """Restore the blocking mode of both descriptors and close them."""
        if self._closed:
            return
        self._closed = True
        for descriptor, waits in ((self._source, self._source_waits), (self._sink, self._sink_waits)):
            if waits:
                # The mode belongs to the open file, which a terminal shares with the shell that started this process.
                os.set_blocking(descriptor, True)
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _make_ready(descriptor: int) -> bool:
    """Make a descriptor non-blocking if the system can wait for it. Return `False` if a thread is required."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)):
        return False
    os.set_blocking(descriptor, False)
    return True
