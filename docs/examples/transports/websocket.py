"""MCP over WebSocket (RFC 6455), with wsproto for the protocol and trio for the rest.

    python websocket.py     serves a small server, calls it, and prints the result

Connection: `GET /mcp` with the subprotocol `mcp`, which must be requested and confirmed. Messages: text, one message of
MCP in each WebSocket message; neither binary messages nor compression. A connection is one client; it ends with the
closing handshake. Cancellation: `notifications/cancelled`.

Any web page can open a WebSocket to a server on its visitor's machine, and the browser does not ask the visitor. So the
request passes the same checks of Host, Origin and Sec-Fetch-Site as those over HTTP, before it is accepted. There is no
authentication and no TLS here: the server listens on loopback only. For other machines, put a proxy with both in front,
and list its host names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from urllib.parse import urlsplit

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from mcp_client import open_stream
from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.http.origin import LOOPBACK_HOSTS, check_allowed, is_loopback, rejection
from mcp_server import Server, serve_stream

PATH = "/mcp"
SUBPROTOCOL = "mcp"

MESSAGE_BYTES = 4 * 1024 * 1024
"""A longer message ends the connection with 1009."""

CLIENTS = 100
"""The maximum number of connected clients; others are disconnected."""

OPENING_SECONDS = 10
"""The timeout of an opening handshake."""

CLOSING_SECONDS = 1
"""The timeout of a closing handshake."""


class HandshakeFailed(Exception):
    """The opening handshake failed. The message states the reason."""


class WebSocketStream:
    """A stream of lines for `open_stream` and `serve_stream`, over the messages of an open WebSocket."""

    def __init__(self, stream: trio.abc.Stream, protocol: WSConnection, limit: int = MESSAGE_BYTES) -> None:
        self._stream = stream
        self._protocol = protocol
        self._limit = limit
        self._lines = bytearray()
        """Received lines that were not returned yet."""
        self._message = bytearray()
        """The message that is being received."""
        self._line = bytearray()
        """The line that is being sent."""
        self._writing = trio.Lock()
        self._pong: Pong | None = None
        self._reading = trio.CancelScope()
        self._ended: bool | None = None
        """Whether the peer has closed with a handshake; `None` while the connection is open."""
        self._failed = False
        """Whether this end has closed the connection because the peer violated the protocol."""
        self._write_interrupted = False
        """Whether a write was cancelled halfway: the peer would read further data as the rest of it."""
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this WebSocket was closed")

    # --- receiving -----------------------------------------------------------------------------------------------

    async def receive_some(self) -> bytes:
        """Return the next line or lines; empty when the peer has closed.

        Raises:
            trio.BrokenResourceError: The connection broke, or the peer violated the protocol.
            trio.ClosedResourceError: This end was closed.
        """
        self._check_open()
        # One scope for each call, so that aclose can wake the task that waits here.
        with trio.CancelScope() as self._reading:
            await self._read_on()
        self._check_open()
        if not self._lines and not self._ended:
            raise trio.BrokenResourceError("the WebSocket broke")
        lines, self._lines = bytes(self._lines), bytearray()
        return lines

    async def _read_on(self) -> None:
        """Read until there are lines, or the end. Received data is kept when the call is cancelled."""
        await trio.lowlevel.checkpoint()
        while not self._lines and self._ended is None:
            for event in self._protocol.events():
                if await self._handle(event):
                    return
            if not self._lines:
                try:
                    data = await self._stream.receive_some()
                except trio.BrokenResourceError:
                    data = b""
                if data:
                    self._protocol.receive_data(bytes(data))
                else:
                    # Without a closing handshake, messages may be lost.
                    self._ended = False

    async def _handle(self, event: Event) -> bool:
        """Handle an event, and return whether it was the last one."""
        match event:
            case TextMessage():
                self._message += event.data.encode()
                if len(self._message) > self._limit:
                    await self._fail(CloseReason.MESSAGE_TOO_BIG, f"the limit of a message is {self._limit} bytes")
                elif event.message_finished:
                    # A line end within JSON is white space.
                    self._lines += self._message.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
                    self._message.clear()
            case BytesMessage():
                await self._fail(CloseReason.UNSUPPORTED_DATA, "messages are text")
            case Ping():
                # Only the last ping needs a pong, which never waits behind a message: otherwise two ends that both send
                # would wait for each other.
                self._pong = event.response()
                if not self._writing.locked() and not self._closed:
                    await self._write()
            case CloseConnection():
                if self._protocol.state is ConnectionState.OPEN:
                    await self._fail(CloseReason(event.code), event.reason or "")
                else:
                    self._ended = event.code != CloseReason.ABNORMAL_CLOSURE
                    await self._send_close(event.response())
        return self._ended is not None

    async def _fail(self, code: CloseReason, reason: str) -> None:
        self._ended = False
        self._failed = await self._send_close(CloseConnection(code=code, reason=reason))

    # --- sending -------------------------------------------------------------------------------------------------

    async def send_all(self, data: bytes | memoryview) -> None:
        """Send each complete line in its own message; keep an incomplete line.

        Raises:
            trio.BrokenResourceError: The peer has disconnected.
            trio.ClosedResourceError: This end was closed.
        """
        self._line += data
        *lines, self._line = self._line.split(b"\n")
        await self._write(*(TextMessage(data=line.decode()) for line in lines))

    async def _write(self, *events: Event) -> None:
        async with self._writing:
            self._check_open()
            if self._write_interrupted or self._ended is not None:
                raise trio.BrokenResourceError("this WebSocket has ended")
            try:
                data = b"".join(map(self._protocol.send, events))
                self._write_interrupted = True
                while data or self._pong:
                    if self._pong:
                        data, self._pong = data + self._protocol.send(self._pong), None
                    await self._stream.send_all(data)
                    data = b""
                self._write_interrupted = False
            except LocalProtocolError as error:
                raise trio.BrokenResourceError("the peer has closed the WebSocket") from error

    # --- closing -------------------------------------------------------------------------------------------------

    async def _send_close(self, event: CloseConnection) -> bool:
        """Send a close frame. Return false if that failed: a message is being written, or the peer has disconnected."""
        if self._write_interrupted or self._writing.locked():
            return False
        sent = False
        with trio.move_on_after(CLOSING_SECONDS), suppress(LocalProtocolError, trio.BrokenResourceError):
            await self._stream.send_all(self._protocol.send(event))
            sent = True
        return sent

    async def aclose(self) -> None:
        """Close the WebSocket, with a closing handshake if possible; in a cancelled scope, immediately."""
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        self._closed = True
        self._reading.cancel()
        try:
            if self._ended is None and await self._send_close(CloseConnection(code=CloseReason.NORMAL_CLOSURE)):
                # Read and discard the remaining messages: closing before would destroy the last messages sent.
                with trio.move_on_after(CLOSING_SECONDS):
                    while self._ended is None:
                        await self._read_on()
                        self._lines.clear()
            if self._failed:
                # Likewise, so that the peer receives the reason.
                with trio.move_on_after(CLOSING_SECONDS), suppress(trio.BrokenResourceError):
                    while await self._stream.receive_some():
                        pass
        finally:
            await self._stream.aclose()


# --- the opening handshake, at the server --------------------------------------------------------------------------


async def serve_websockets(
    serve_client: Callable[[WebSocketStream], Awaitable[None]],
    port: int,
    *,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = LOOPBACK_HOSTS,
    allowed_origins: Sequence[str] = (),
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `serve_client` with the stream of each client, until cancelled. Reports its URL when it listens.

    Raises:
        ValueError: Other machines can reach `host`, or an entry of the two lists is invalid.
    """
    if not is_loopback(host):
        raise ValueError(f"other machines can reach {host!r}, and there is no authentication: listen on 127.0.0.1")
    hosts, origins = tuple(allowed_hosts), tuple(allowed_origins)
    check_allowed(hosts, origins)
    connected = 0

    async def serve_one(stream: trio.SocketStream) -> None:
        nonlocal connected
        async with stream:
            if connected >= CLIENTS:
                return
            connected += 1
            try:
                with trio.fail_after(OPENING_SECONDS):
                    protocol = await _accept(stream, hosts, origins)
                client = WebSocketStream(stream, protocol)
                try:
                    await serve_client(client)
                finally:
                    await client.aclose()
            except (HandshakeFailed, trio.BrokenResourceError, trio.TooSlowError):
                pass
            finally:
                connected -= 1

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve_one, port, host=host))
        name, port, *_ = listener.socket.getsockname()
        task_status.started(f"ws://{f'[{name}]' if ':' in name else name}:{port}{PATH}")


async def _accept(stream: trio.abc.Stream, hosts: tuple[str, ...], origins: tuple[str, ...]) -> WSConnection:
    protocol = WSConnection(ConnectionType.SERVER)
    try:
        request = await _next_event(stream, protocol)
    except RemoteProtocolError as error:
        status = error.event_hint.status_code if isinstance(error.event_hint, RejectConnection) else 400
        raise await _reject(stream, protocol, status, str(error)) from error
    except UnicodeError as error:
        raise await _reject(stream, protocol, 400, "Host is not a valid host") from error
    if not isinstance(request, Request):
        raise HandshakeFailed("the message is not a handshake request")
    status, reason = _check_request(request, hosts, origins)
    if reason:
        raise await _reject(stream, protocol, status, reason)
    await stream.send_all(protocol.send(AcceptConnection(subprotocol=SUBPROTOCOL)))
    return protocol


def _check_request(request: Request, hosts: tuple[str, ...], origins: tuple[str, ...]) -> tuple[int, str]:
    """Return the status and the reason of a rejection; an empty reason if the request is accepted."""
    headers = Headers.from_raw([(b"host", request.host.encode()), *request.extra_headers])
    foreign = rejection(HttpRequest(method="GET", target=request.target, headers=headers), hosts, origins)
    if foreign:
        return 403, foreign
    if request.target.partition("?")[0] != PATH:
        return 404, f"the WebSocket is at {PATH}"
    if SUBPROTOCOL not in request.subprotocols:
        return 400, f"request the subprotocol {SUBPROTOCOL}"
    return 101, ""


async def _reject(stream: trio.abc.Stream, protocol: WSConnection, status: int, reason: str) -> HandshakeFailed:
    body = reason.encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    data = protocol.send(RejectConnection(status_code=status, headers=headers, has_body=True))
    await stream.send_all(data + protocol.send(RejectData(data=body)))
    return HandshakeFailed(reason)


async def _next_event(stream: trio.abc.Stream, protocol: WSConnection) -> Event:
    """Return the next event of an opening handshake. wsproto limits its head to 16 KiB."""
    while True:
        for event in protocol.events():
            return event
        data = await stream.receive_some()
        if not data:
            raise HandshakeFailed("the peer disconnected during the opening handshake")
        protocol.receive_data(bytes(data))


# --- the opening handshake, at the client --------------------------------------------------------------------------


async def open_websocket(url: str) -> WebSocketStream:
    """Connect to `ws://...` on this machine, or `wss://...` anywhere.

    Raises:
        ValueError: The URL has another scheme, or is not encrypted and refers to another machine.
        OSError: The connection failed.
        HandshakeFailed: The server rejected the connection, or does not support MCP.
        trio.TooSlowError: The handshake timed out.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname, parts.scheme == "wss"
    if host is None or parts.scheme not in {"ws", "wss"}:
        raise ValueError(f"{url!r} is not the URL of a WebSocket, such as wss://mcp.example/mcp")
    if not secure and not is_loopback(host):
        raise ValueError(f"{url!r}: ws:// is not encrypted, so it is allowed for this machine only; use wss://")
    open_tcp = trio.open_ssl_over_tcp_stream if secure else trio.open_tcp_stream
    with trio.fail_after(OPENING_SECONDS):
        stream: trio.abc.Stream = await open_tcp(host, parts.port or (443 if secure else 80))
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            return WebSocketStream(stream, await _request(stream, parts.netloc.rpartition("@")[2], target))
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise


async def _request(stream: trio.abc.Stream, host: str, target: str) -> WSConnection:
    protocol = WSConnection(ConnectionType.CLIENT)
    await stream.send_all(protocol.send(Request(host=host, target=target, subprotocols=[SUBPROTOCOL])))
    try:
        response = await _next_event(stream, protocol)
        if isinstance(response, RejectConnection):
            body = await _next_event(stream, protocol)
            reason = bytes(body.data).decode("utf-8", "replace") if isinstance(body, RejectData) else ""
            raise HandshakeFailed(f"the server rejected the handshake with {response.status_code}: {reason[:200]}")
    except RemoteProtocolError as error:
        raise HandshakeFailed(f"the response is not a WebSocket handshake: {error}") from error
    if not isinstance(response, AcceptConnection) or response.subprotocol != SUBPROTOCOL:
        raise HandshakeFailed(f"the server does not confirm the subprotocol {SUBPROTOCOL}")
    return protocol


@asynccontextmanager
async def serving(server: Server, port: int = 0) -> AsyncIterator[str]:
    """Serve `server` for the duration of the block, and yield its URL: one lifespan, many clients."""
    async with server.running(), trio.open_nursery() as nursery:
        yield await nursery.start(partial(serve_websockets, partial(serve_stream, server), port))
        nursery.cancel_scope.cancel()


async def main() -> None:
    server = Server("counter", version="1.0")

    @server.tool
    async def count_words(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    async with serving(server) as url, open_stream(await open_websocket(url)) as client:
        result = await client.call_tool("count_words", {"text": "one message per line"})
        print(client.revision, result.structured_content)


if __name__ == "__main__":
    trio.run(main)
