"""The bytes of one connection of the embedded HTTP host: a plain socket, or any stream of trio's.

Both can be interrupted from another task without a cancel scope of whoever waits for them: `interrupt` is what the
housekeeper does when a deadline has passed.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Pipe", "SocketPipe", "StreamPipe"]

_PIECE: Final = 64 * 1024
"""Bytes that are read or written at once."""

# l_onoff and l_linger: closing drops what was not sent, and tells the peer so.
_RESET: Final = struct.pack("hh" if hasattr(socket, "SO_EXCLUSIVEADDRUSE") else "ii", 1, 0)


class Pipe(Protocol):
    """Bytes in both directions. What breaks is `trio.BrokenResourceError`, what is interrupted `ClosedResourceError`."""

    prompt: bool
    """Most of what is sent can be sent without waiting."""

    async def receive_some(self, most: int = _PIECE) -> bytes:
        """Waits for bytes, `most` at most; empty at the end."""

    def send_now(self, data: bytes) -> int:
        """Writes what can be written without waiting, and says how much."""

    async def send_some(self, data: memoryview) -> int:
        """Waits until some of it can be written, and says how much was."""

    def interrupt(self) -> None:
        """Ends the waiting of whoever waits now, and of nobody else."""

    def finish(self) -> None:
        """Tells the peer that no more follows, where the transport can say that."""

    def abort(self) -> None:
        """Drops the connection and all that was not sent yet."""

    async def aclose(self) -> None:
        """Frees it; what was sent still arrives."""


class SocketPipe:
    """A connected socket, without the layers between.

    A write that needs no waiting costs one system call and no trip through the scheduler; the reads, which always wait,
    give the other tasks their turn.

    Args:
        sock: Connected, non-blocking. It is closed here.
    """

    __slots__ = ("_sock", "prompt")

    def __init__(self, sock: socket.socket) -> None:
        self.prompt = True
        self._sock: Final = sock

    async def receive_some(self, most: int = _PIECE) -> bytes:
        """See `Pipe`."""
        while True:
            self._check_open()
            await trio.lowlevel.wait_readable(self._sock)
            try:
                return self._sock.recv(most)
            except BlockingIOError:  # the system was wrong, as it may be
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    def send_now(self, data: bytes | memoryview) -> int:
        """See `Pipe`."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def send_some(self, data: memoryview) -> int:
        """See `Pipe`."""
        self._check_open()
        await trio.lowlevel.wait_writable(self._sock)
        return self.send_now(data)

    def interrupt(self) -> None:
        """See `Pipe`."""
        trio.lowlevel.notify_closing(self._sock)

    def finish(self) -> None:
        """See `Pipe`."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it is gone

    def abort(self) -> None:
        """See `Pipe`."""
        if self._sock.fileno() != -1:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._close()

    async def aclose(self) -> None:
        """See `Pipe`."""
        if self._sock.fileno() != -1:
            self._close()

    def _check_open(self) -> None:
        if self._sock.fileno() == -1:
            raise trio.ClosedResourceError("the connection was dropped")

    def _close(self) -> None:
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()


class StreamPipe:
    """Any stream of trio's: TLS, or a pair in memory.

    Args:
        stream: The stream. It is closed here.
        patience: Seconds that closing may take.
        refusal: Makes the answer to a client that speaks plain HTTP where TLS is expected.
    """

    __slots__ = ("_aborted", "_patience", "_refusal", "_stream", "_waits", "prompt")

    def __init__(self, stream: trio.abc.Stream, patience: float, *, refusal: Callable[[], bytes] | None = None) -> None:
        self.prompt = False
        self._refusal: Final = refusal
        self._stream: Final = stream
        self._patience: Final = patience
        self._waits: Final[set[trio.CancelScope]] = set()
        self._aborted = False

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        with trio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                yield
            finally:
                self._waits.discard(scope)

    async def receive_some(self, most: int = _PIECE) -> bytes:
        """See `Pipe`."""
        if not self._aborted:
            with self._interruptible():
                try:
                    return bytes(await self._stream.receive_some(most))
                except trio.BrokenResourceError as error:
                    await self._refuse_plain(error.__cause__)
                    raise
        raise trio.ClosedResourceError("interrupted")

    async def _refuse_plain(self, cause: BaseException | None) -> None:
        """Answer a client that speaks plain HTTP: else it would see a connection that ends without a word."""
        is_plain = isinstance(cause, ssl.SSLError) and cause.reason == "HTTP_REQUEST"
        if is_plain and self._refusal is not None and isinstance(self._stream, trio.SSLStream):
            await self._stream.transport_stream.send_all(self._refusal())

    def send_now(self, data: bytes) -> int:  # noqa: ARG002  # a stream cannot say how much
        """See `Pipe`."""
        return 0

    async def send_some(self, data: memoryview) -> int:
        """See `Pipe`."""
        piece = data[:_PIECE]
        if not self._aborted:
            with self._interruptible():
                await self._stream.send_all(piece)
                return len(piece)
        raise trio.ClosedResourceError("interrupted")

    def interrupt(self) -> None:
        """See `Pipe`."""
        for scope in self._waits:
            scope.cancel()

    def finish(self) -> None:
        """See `Pipe`. TLS cannot end one direction."""

    def abort(self) -> None:
        """See `Pipe`."""
        self._aborted = True
        self.interrupt()

    async def aclose(self) -> None:
        """See `Pipe`."""
        if self._aborted:
            await trio.aclose_forcefully(self._stream)
            return
        with trio.move_on_after(self._patience):
            await self._stream.aclose()
