"""An HTTP/1.1 server that hands over each request as received, and sends any response, valid or not.

The server sends no response of its own. A scenario can cut off a response at any byte. Requests are identified by their
number.
"""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import h11
import trio

from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

__all__ = ["Headers", "ServerExchange", "open_http_server"]

_PORTION: Final = 64 * 1024
_MOST: Final = 64 * 1024 * 1024
"""The limit of a body, in bytes."""

Headers = tuple[tuple[str, str], ...]


class ServerExchange:
    """A received request, and its response. If the handler returns without a response, the connection is closed."""

    def __init__(self, connection: _Connection, head: h11.Request, body: bytes, number: int) -> None:
        self._connection: Final = connection
        self.method: Final = head.method.decode("latin-1")
        """The HTTP method."""
        self.target: Final = head.target.decode("latin-1")
        """The path and the query, as received."""
        self.headers: Final[Headers] = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in head.headers
        )
        """The headers, names in lower case."""
        self.body: Final = body
        """The body."""
        self.number: Final = number
        """The number of requests before it."""
        self.status: int = 0
        """The status of the response; 0 before that."""
        self.gone: Final = trio.Event()
        """Set when the client closes the connection."""
        self.over: Final = trio.Event()
        """Set when the response has ended."""

    @property
    def ended(self) -> bool:
        """Whether the response has ended."""
        return self.over.is_set()

    def header(self, name: str) -> str | None:
        """Return the first header with this name; `None` if absent."""
        return next((value for given, value in self.headers if given == name.lower()), None)

    def all(self, name: str) -> list[str]:
        """Return all headers with this name."""
        return [value for given, value in self.headers if given == name.lower()]

    @property
    def path(self) -> str:
        """The path without the query."""
        return self.target.partition("?")[0]

    async def respond(self, status: int, headers: Sequence[tuple[str, str]] = (), body: bytes = b"") -> None:
        """Send a whole response."""
        lines = list(headers)
        if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in lines):
            lines.append(("Content-Length", str(len(body))))
        await self.start(status, lines)
        await self.send(body)
        await self.finish()

    async def start(self, status: int, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send the head of the response."""
        self.status = status
        lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._connection.send(h11.Response(status_code=status, headers=lines))

    async def send(self, data: bytes) -> bool:
        """Send a part of the body. Return whether it was sent; it is not sent if the client has disconnected."""
        return not data or await self._connection.send(h11.Data(data=data))

    async def finish(self) -> None:
        """End the body."""
        if not self.ended:
            self.over.set()
            await self._connection.send(h11.EndOfMessage())

    async def raw(self, data: bytes) -> None:
        """Write bytes in place of a response, and close the connection."""
        self.over.set()
        await self._connection.raw(data)

    async def cut(self) -> None:
        """Close the connection in the middle of the response."""
        self.over.set()
        await self._connection.close()


class _Connection:
    """A connection of a client."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream: Final = stream
        self._h11: Final = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST)
        self._writing: Final = trio.Lock()
        self.closed: bool = False

    async def send(self, event: h11.Event) -> bool:
        async with self._writing:
            if self.closed or self._h11.our_state is h11.ERROR:
                return False
            data = self._h11.send(event)
            return await self._write(data or b"")

    async def raw(self, data: bytes) -> None:
        async with self._writing:
            await self._write(data)
        await self.close()

    async def _write(self, data: bytes) -> bool:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.closed = True
            return False
        return True

    async def close(self) -> None:
        self.closed = True
        await trio.aclose_forcefully(self._stream)

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_PORTION))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def request(self) -> tuple[h11.Request, bytes] | None:
        """Return the next request with its body; `None` at the end of the connection."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                if self._h11.they_are_waiting_for_100_continue:
                    await self.send(h11.InformationalResponse(status_code=100, headers=[]))
                self._h11.receive_data(await self._receive())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return head, bytes(body)
            else:
                return None

    async def watch(self, gone: trio.Event) -> None:
        """Wait until the client disconnects. Bytes that arrive meanwhile are buffered."""
        while data := await self._receive():
            self._h11.receive_data(data)
        self._h11.receive_data(b"")
        self.closed = True
        gone.set()

    def again(self) -> bool:
        """Return whether a further request may arrive on this connection."""
        if self.closed or self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True


async def _serve(
    stream: trio.abc.Stream, handle: Callable[[ServerExchange], Awaitable[None]], numbers: list[int]
) -> None:
    connection = _Connection(stream)
    try:
        while (request := await connection.request()) is not None:
            numbers[0] += 1
            incoming = ServerExchange(connection, *request, numbers[0])
            async with open_nursery() as nursery:
                nursery.start_soon(connection.watch, incoming.gone)
                await handle(incoming)
                nursery.cancel_scope.cancel()
            if not incoming.ended or not connection.again():
                break
    except h11.RemoteProtocolError:
        # On invalid HTTP the connection is closed. The missing request in the transcript shows the fault.
        pass
    finally:
        await connection.close()


async def _listen(port: int) -> list[trio.SocketListener]:
    """Listen on one port of both loopback addresses, or of one if the machine has only one. 0 takes a free port."""
    first = (await trio.open_tcp_listeners(port, host="127.0.0.1"))[0]
    port = first.socket.getsockname()[1]
    if not socket.has_ipv6:
        return [first]
    try:
        return [first, *await trio.open_tcp_listeners(port, host="::1")]
    except OSError:
        return [first]
    except BaseException:
        # The caller is cancelled.
        first.socket.close()
        raise


@asynccontextmanager
async def open_http_server(
    handle: Callable[[ServerExchange], Awaitable[None]], *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Listen on the loopback addresses while the block runs. Yields the port.

    Args:
        handle: Responds to one request. Requests on one connection are handled one after another.
        port: The port; 0 takes a free one.
        tls: The certificate; `None`: the connections have no TLS.

    Raises:
        OSError: The port is not free.
    """
    numbers = [0]

    async def serve(stream: trio.SocketStream) -> None:
        if tls is None:
            await _serve(stream, handle, numbers)
        else:
            await _serve(trio.SSLStream(stream, tls, server_side=True, https_compatible=True), handle, numbers)

    listeners = await _listen(port)
    port = listeners[0].socket.getsockname()[1]
    async with open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        try:
            yield port
        finally:
            nursery.cancel_scope.cancel()
