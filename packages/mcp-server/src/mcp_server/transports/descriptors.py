"""Bytes over two file descriptors, without threads where the system can say when they are ready.

Pipes, terminals and sockets are non-blocking and waited for; regular files (`server < requests.txt`), `/dev/null` and
the pipes of Windows cannot be waited for, so a thread reads and writes those.
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

_CHUNK: Final = 256 * 1024
"""Bytes of one read: four times what a pipe of Linux holds, so that one read takes all there is."""


class DescriptorStream:
    """A byte stream of one descriptor to read from and one to write to. It owns both.

    Args:
        source: Is read from.
        sink: Is written to.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source: Final = source
        self._sink: Final = sink
        self._source_waits: Final = _make_ready(source)
        self._sink_waits: Final = _make_ready(sink)
        self._closed = False

    async def receive_some(self) -> bytes:
        """The next bytes; empty at the end of input. Raises `trio.BrokenResourceError` when they cannot be read."""
        while True:
            try:
                if not self._source_waits:
                    return await trio.to_thread.run_sync(os.read, self._source, _CHUNK, abandon_on_cancel=True)
                # Waiting first costs no more than trying first: a request rarely lies ready when the last was served.
                await trio.lowlevel.wait_readable(self._source)
                return os.read(self._source, _CHUNK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError("the input broke") from error

    async def send_all(self, data: bytes | memoryview) -> None:
        """Writes all of `data`. Raises `trio.BrokenResourceError` when the reader is gone."""
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
            raise trio.BrokenResourceError("the output broke") from error
        await trio.lowlevel.checkpoint()

    def write_now(self, data: bytes) -> int:
        """Writes what the reader takes at once. Raises `BlockingIOError` when that is nothing."""
        if not self._sink_waits:
            raise BlockingIOError
        return os.write(self._sink, data)

    def close(self) -> None:
        """Closes both descriptors, as they were found."""
        if self._closed:
            return
        self._closed = True
        for descriptor, waits in ((self._source, self._source_waits), (self._sink, self._sink_waits)):
            if waits:
                # The state belongs to the open file, which a terminal shares with the shell that started us.
                os.set_blocking(descriptor, True)
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _make_ready(descriptor: int) -> bool:
    """Makes a descriptor non-blocking if it can be waited for. False if a thread is needed."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)):
        return False
    os.set_blocking(descriptor, False)
    return True
