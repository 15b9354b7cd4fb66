"""A raw HTTP/1.1 connection of a hostile client, which sends given bytes and reads as little as it likes."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Broken", "RawConnection", "Response", "open_raw"]

_CHUNK: Final = 256 * 1024


class Broken(Exception):
    """The server ended the connection, or did not accept it."""


@attrs.frozen(kw_only=True)
class Response:
    """The head of a response, and its body if it was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@attrs.define
class RawConnection:
    """A connection."""

    stream: trio.abc.Stream
    received: bytearray = attrs.field(factory=bytearray)

    async def send(self, data: bytes) -> None:
        """Send bytes. Raise `Broken` if the server has gone."""
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            raise Broken("the connection broke") from error

    async def receive(self) -> None:
        """Read the available bytes. Raise `Broken` at the end."""
        try:
            data = await self.stream.receive_some(_CHUNK)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            raise Broken("the connection broke") from error
        if not data:
            raise Broken("the server closed the connection")
        self.received += data

    async def response_head(self) -> Response:
        """Read the head of a response. What follows stays in `received`."""
        while (at := self.received.find(b"\r\n\r\n")) < 0:
            await self.receive()
        start, *lines = bytes(self.received[:at]).decode("latin-1").split("\r\n")
        del self.received[: at + 4]
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        return Response(status=int(start.split(" ")[1]), headers=headers, body=b"")

    async def response(self) -> Response:
        """Read a whole response."""
        response = await self.response_head()
        if "chunked" in response.headers.get("transfer-encoding", ""):
            while not self.received.endswith(b"0\r\n\r\n"):
                await self.receive()
            size = len(self.received)
        else:
            size = int(response.headers.get("content-length", "0"))
            while len(self.received) < size:
                await self.receive()
        body = bytes(self.received[:size])
        del self.received[:size]
        return attrs.evolve(response, body=body)

    async def drain(self) -> None:
        """Read and drop everything until the server ends the connection."""
        try:
            while True:
                await self.receive()
                self.received.clear()
        except Broken:
            return

    async def aclose(self) -> None:
        """Close the connection without waiting."""
        await trio.aclose_forcefully(self.stream)


async def open_raw(port: int, *, tls: ssl.SSLContext | None = None, receive_buffer: int | None = None) -> RawConnection:
    """Connect to a local port.

    Args:
        port: The port.
        tls: Makes the connection TLS.
        receive_buffer: Bytes of the receive buffer of the socket, for a client that does not read.

    Raises:
        Broken: The server did not accept the connection.
    """
    raw = trio.socket.socket()
    try:
        if receive_buffer is not None:
            raw.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer)
        await raw.connect(("127.0.0.1", port))
        stream: trio.abc.Stream = trio.SocketStream(raw)
        if tls is not None:
            secure = trio.SSLStream(trio.SocketStream(raw), tls, https_compatible=True)
            await secure.do_handshake()
            stream = secure
    except (OSError, trio.BrokenResourceError, ssl.SSLError) as error:
        raw.close()
        raise Broken(f"cannot connect: {error}") from error
    except BaseException:
        raw.close()
        raise
    return RawConnection(stream)
