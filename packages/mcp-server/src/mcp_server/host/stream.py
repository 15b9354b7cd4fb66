"""Byte streams of connections of the embedded HTTP host: a plain socket, or any trio stream.

Another task can interrupt both without a cancel scope in the waiting task. The timeout scheduler calls `interrupt` when
a deadline has passed.
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
"""Largest number of bytes in one read or write."""

# l_onoff and l_linger: closing discards unsent bytes and resets the connection.
_RESET: Final = struct.pack("hh" if hasattr(socket, "SO_EXCLUSIVEADDRUSE") else "ii", 1, 0)


class Pipe(Protocol):
    """A bidirectional byte stream that other tasks can interrupt.

    Operations raise `trio.BrokenResourceError` if the connection breaks, and `trio.ClosedResourceError` if they are
    interrupted.
    """

    prompt: bool
    """Whether most writes complete without waiting."""

    async def receive_some(self, most: int = _PIECE) -> bytes:
        """Wait for bytes and return at most `most`; empty at the end of input."""

    def send_now(self, data: bytes) -> int:
        """Write what can be written without waiting, and return the number of bytes written."""

    async def send_some(self, data: memoryview) -> int:
        """Wait until bytes can be written, and return the number of bytes written."""

    def interrupt(self) -> None:
        """Interrupt the tasks that wait now. Later operations are not affected."""

    def finish(self) -> None:
        """Close the outbound direction, if the transport supports it."""

    def abort(self) -> None:
        """Drop the connection and all bytes that were not sent."""

    async def aclose(self) -> None:
        """Close the stream. Bytes that were written still arrive."""


class SocketPipe:
    """A connected socket, without intermediate layers.

    A write that can be done without waiting costs one system call and no scheduling. Reads always wait, so they let
    other tasks run.

    Args:
        sock: A connected, non-blocking socket. The stream closes it.
    """

    __slots__ = ("_sock", "prompt")

    def __init__(self, sock: socket.socket) -> None:
        self.prompt: bool = True
        self._sock: Final = sock

    async def receive_some(self, most: int = _PIECE) -> bytes:
        """Wait for bytes and return at most `most`; empty at the end of input."""
        while True:
            if self._sock.fileno() == -1:
                raise trio.ClosedResourceError("the connection was dropped")
            await trio.lowlevel.wait_readable(self._sock)
            try:
                return self._sock.recv(most)
            except BlockingIOError:  # spurious readiness
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    def send_now(self, data: bytes | memoryview) -> int:
        """Write what can be written without waiting, and return the number of bytes written."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def send_some(self, data: memoryview) -> int:
        """Wait until bytes can be written, and return the number of bytes written."""
        if self._sock.fileno() == -1:
            raise trio.ClosedResourceError("the connection was dropped")
        await trio.lowlevel.wait_writable(self._sock)
        return self.send_now(data)

    def interrupt(self) -> None:
        """Interrupt the tasks that wait now."""
        trio.lowlevel.notify_closing(self._sock)

    def finish(self) -> None:
        """Shut down the outbound direction."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return  # already disconnected

    def abort(self) -> None:
        """Reset the connection."""
        if self._sock.fileno() != -1:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._close()

    async def aclose(self) -> None:
        """Close the socket. Bytes that were written still arrive."""
        if self._sock.fileno() != -1:
            self._close()

    def _close(self) -> None:
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()


class StreamPipe:
    """Any trio stream: TLS, or a pair in memory.

    Args:
        stream: The stream. It is closed by `aclose`.
        close_seconds: Time that closing may take, in seconds.
        rejection: Returns the response to a client that sends plain HTTP if TLS is expected.
    """

    __slots__ = ("_aborted", "_close_seconds", "_refusal", "_stream", "_waits", "prompt")

    def __init__(
        self, stream: trio.abc.Stream, close_seconds: float, *, rejection: Callable[[], bytes] | None = None
    ) -> None:
        self.prompt: bool = False
        self._refusal: Final = rejection
        self._stream: Final = stream
        self._close_seconds: Final = close_seconds
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
        """Wait for bytes and return at most `most`; empty at the end of input."""
        if not self._aborted:
            with self._interruptible():
                try:
                    return bytes(await self._stream.receive_some(most))
                except trio.BrokenResourceError as error:
                    await self._refuse_plain(error.__cause__)
                    raise
        raise trio.ClosedResourceError("interrupted")

    async def _refuse_plain(self, cause: BaseException | None) -> None:
        """Respond to a client that sends plain HTTP. Otherwise the connection would close without an explanation."""
        is_plain = isinstance(cause, ssl.SSLError) and cause.reason == "HTTP_REQUEST"
        if is_plain and self._refusal is not None and isinstance(self._stream, trio.SSLStream):
            await self._stream.transport_stream.send_all(self._refusal())

    def send_now(self, data: bytes) -> int:  # noqa: ARG002  # trio streams cannot report partial writes
        """Write nothing: a trio stream cannot write without waiting."""
        return 0

    async def send_some(self, data: memoryview) -> int:
        """Wait until bytes can be written, and return the number of bytes written."""
        piece = data[:_PIECE]
        if not self._aborted:
            with self._interruptible():
                await self._stream.send_all(piece)
                return len(piece)
        raise trio.ClosedResourceError("interrupted")

    def interrupt(self) -> None:
        """Interrupt the tasks that wait now."""
        for scope in self._waits:
            scope.cancel()

    def finish(self) -> None:
        """Do nothing: TLS cannot close one direction."""

    def abort(self) -> None:
        """Drop the connection: interrupt all operations, and close forcefully in `aclose`."""
        self._aborted = True
        self.interrupt()

    async def aclose(self) -> None:
        """Close the stream, within the time limit for closing."""
        if self._aborted:
            # Shielded: it does not wait for the client, and a caller with a short timeout must be able to complete it.
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)
            return
        with trio.move_on_after(self._close_seconds):
            await self._stream.aclose()
