"""MCP over WebSocket (RFC 6455), with wsproto for the protocol and trio for the rest.

    python websocket.py     serves a small server, talks to it, and prints what it said

How it is established: `GET /mcp` with the subprotocol `mcp`, which has to be asked for and confirmed. What is exchanged:
text, one message of MCP in each message of the WebSocket; neither binary messages nor compression. A connection is one
client, which ends with the closing handshake. A request is cancelled by `notifications/cancelled`.

A web page of anybody may open a WebSocket to a server on its visitor's machine, and the browser asks nobody. So the
request for it passes the same checks of Host, Origin and Sec-Fetch-Site as those of HTTP, before anything is accepted.
There is no authentication and no TLS here: it listens for this machine only. For others put a proxy in front that has
both, and name the hosts that it is known by.
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
from mcp_core.http.origin import LOOPBACK_HOSTS, check_allowed, is_loopback, refusal
from mcp_server import Server, serve_stream

PATH = "/mcp"
SUBPROTOCOL = "mcp"

MESSAGE_BYTES = 4 * 1024 * 1024
"""A longer message ends the connection with 1009."""

CLIENTS = 100
"""How many may be connected at once; more are hung up on."""

OPENING_SECONDS = 10
"""How long an opening handshake may take."""

CLOSING_SECONDS = 1
"""How long the other end has to say that it closes too."""


class Refused(Exception):
    """No WebSocket came about. The message says why."""


class WebSocketStream:
    """Lines, as `open_stream` and `serve_stream` want them, over the messages of a WebSocket that is open."""

    def __init__(self, stream: trio.abc.Stream, protocol: WSConnection, limit: int = MESSAGE_BYTES) -> None:
        self._stream = stream
        self._protocol = protocol
        self._limit = limit
        self._lines = bytearray()
        """Lines that have come and were not given yet."""
        self._message = bytearray()
        """The message that is coming."""
        self._line = bytearray()
        """The line that is being sent."""
        self._writing = trio.Lock()
        self._pong: Pong | None = None
        self._reading = trio.CancelScope()
        self._ended: bool | None = None
        """Whether the other end has closed in order; `None` while it has not."""
        self._failed = False
        """This end has ended it, because the other broke the rules."""
        self._torn = False
        """A write was cancelled halfway: what follows would be taken for the rest of it."""
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this WebSocket was closed")

    # --- receiving -----------------------------------------------------------------------------------------------

    async def receive_some(self) -> bytes:
        """The next line or lines; empty when the other end has closed.

        Raises:
            trio.BrokenResourceError: The connection broke, or the other end broke the rules.
            trio.ClosedResourceError: This end was closed.
        """
        self._check_open()
        # One scope for each call, so that aclose can wake whoever is in here.
        with trio.CancelScope() as self._reading:
            await self._read_on()
        self._check_open()
        if not self._lines and not self._ended:
            raise trio.BrokenResourceError("the WebSocket broke")
        lines, self._lines = bytes(self._lines), bytearray()
        return lines

    async def _read_on(self) -> None:
        """Reads until there are lines, or the end. Whatever has come stays in this object when it is cancelled."""
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
                    # Without a closing handshake: nobody knows whether that was all.
                    self._ended = False

    async def _handle(self, event: Event) -> bool:
        """Whether that was the last one."""
        match event:
            case TextMessage():
                self._message += event.data.encode()
                if len(self._message) > self._limit:
                    await self._fail(CloseReason.MESSAGE_TOO_BIG, f"messages may have {self._limit} bytes")
                elif event.message_finished:
                    # A line end within JSON is a blank like any other.
                    self._lines += self._message.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
                    self._message.clear()
            case BytesMessage():
                await self._fail(CloseReason.UNSUPPORTED_DATA, "messages are text")
            case Ping():
                # Only the last one needs an answer, which never waits behind a message: else two ends that both send
                # would wait for each other.
                self._pong = event.response()
                if not self._writing.locked() and not self._closed:
                    await self._write()
            case CloseConnection():
                if self._protocol.state is ConnectionState.OPEN:
                    await self._fail(CloseReason(event.code), event.reason or "")
                else:
                    self._ended = event.code != CloseReason.ABNORMAL_CLOSURE
                    await self._say_goodbye(event.response())
        return self._ended is not None

    async def _fail(self, code: CloseReason, why: str) -> None:
        self._ended = False
        self._failed = await self._say_goodbye(CloseConnection(code=code, reason=why))

    # --- sending -------------------------------------------------------------------------------------------------

    async def send_all(self, data: bytes | memoryview) -> None:
        """Sends each whole line in a message of its own; the beginning of another waits for its end.

        Raises:
            trio.BrokenResourceError: The other end is gone.
            trio.ClosedResourceError: This end was closed.
        """
        self._line += data
        *lines, self._line = self._line.split(b"\n")
        await self._write(*(TextMessage(data=line.decode()) for line in lines))

    async def _write(self, *events: Event) -> None:
        async with self._writing:
            self._check_open()
            if self._torn or self._ended is not None:
                raise trio.BrokenResourceError("this WebSocket has ended")
            try:
                data = b"".join(map(self._protocol.send, events))
                self._torn = True
                while data or self._pong:
                    if self._pong:
                        data, self._pong = data + self._protocol.send(self._pong), None
                    await self._stream.send_all(data)
                    data = b""
                self._torn = False
            except LocalProtocolError as error:
                raise trio.BrokenResourceError("the other end has closed") from error

    # --- closing -------------------------------------------------------------------------------------------------

    async def _say_goodbye(self, event: CloseConnection) -> bool:
        """Says that this end closes. False if it could not: a message is under way, or the other end is gone."""
        if self._torn or self._writing.locked():
            return False
        said = False
        with trio.move_on_after(CLOSING_SECONDS), suppress(LocalProtocolError, trio.BrokenResourceError):
            await self._stream.send_all(self._protocol.send(event))
            said = True
        return said

    async def aclose(self) -> None:
        """Closes it, with a closing handshake where that is possible; in a cancelled scope, at once."""
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        self._closed = True
        self._reading.cancel()
        try:
            if self._ended is None and await self._say_goodbye(CloseConnection(code=CloseReason.NORMAL_CLOSURE)):
                # What still comes is thrown away, but taken: to close before it would destroy what was said last.
                with trio.move_on_after(CLOSING_SECONDS):
                    while self._ended is None:
                        await self._read_on()
                        self._lines.clear()
            if self._failed:
                # Likewise, so that it hears why.
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
    """Calls `serve_client` with the stream of each client, until it is cancelled; says at which URL it is there.

    Raises:
        ValueError: `host` can be reached from other machines, or an entry of the two lists is none.
    """
    if not is_loopback(host):
        raise ValueError(f"{host!r} can be reached by anybody, and there is no authentication: listen on 127.0.0.1")
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
            except (Refused, trio.BrokenResourceError, trio.TooSlowError):
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
        raise await _refused(stream, protocol, status, str(error)) from error
    except UnicodeError as error:
        raise await _refused(stream, protocol, 400, "Host is no host") from error
    if not isinstance(request, Request):
        raise Refused("that was no request")
    status, why = _judge(request, hosts, origins)
    if why:
        raise await _refused(stream, protocol, status, why)
    await stream.send_all(protocol.send(AcceptConnection(subprotocol=SUBPROTOCOL)))
    return protocol


def _judge(request: Request, hosts: tuple[str, ...], origins: tuple[str, ...]) -> tuple[int, str]:
    """The status and the reason of a refusal; no reason when it may come in."""
    headers = Headers.from_raw([(b"host", request.host.encode()), *request.extra_headers])
    foreign = refusal(HttpRequest(method="GET", target=request.target, headers=headers), hosts, origins)
    if foreign:
        return 403, foreign
    if request.target.partition("?")[0] != PATH:
        return 404, f"the WebSocket is at {PATH}"
    if SUBPROTOCOL not in request.subprotocols:
        return 400, f"ask for the subprotocol {SUBPROTOCOL}"
    return 101, ""


async def _refused(stream: trio.abc.Stream, protocol: WSConnection, status: int, why: str) -> Refused:
    body = why.encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    data = protocol.send(RejectConnection(status_code=status, headers=headers, has_body=True))
    await stream.send_all(data + protocol.send(RejectData(data=body)))
    return Refused(why)


async def _next_event(stream: trio.abc.Stream, protocol: WSConnection) -> Event:
    """The next event of an opening handshake. Its head is bounded by wsproto: 16 KiB."""
    while True:
        for event in protocol.events():
            return event
        data = await stream.receive_some()
        if not data:
            raise Refused("the other end has gone before there was a WebSocket")
        protocol.receive_data(bytes(data))


# --- the opening handshake, at the client --------------------------------------------------------------------------


async def open_websocket(url: str) -> WebSocketStream:
    """Connects to `ws://...` on this machine, or `wss://...` anywhere.

    Raises:
        ValueError: It is another URL, or one whose messages anybody on the way could read.
        OSError: There is no server.
        Refused: It does not want us, or does not speak MCP.
        trio.TooSlowError: It took too long to say so.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname, parts.scheme == "wss"
    if host is None or parts.scheme not in {"ws", "wss"}:
        raise ValueError(f"{url!r} is no URL of a WebSocket, as wss://mcp.example/mcp")
    if not secure and not is_loopback(host):
        raise ValueError(f"{url!r}: ws:// is not encrypted, so it may lead to this machine only; use wss://")
    open_tcp = trio.open_ssl_over_tcp_stream if secure else trio.open_tcp_stream
    with trio.fail_after(OPENING_SECONDS):
        stream: trio.abc.Stream = await open_tcp(host, parts.port or (443 if secure else 80))
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            return WebSocketStream(stream, await _ask(stream, parts.netloc.rpartition("@")[2], target))
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise


async def _ask(stream: trio.abc.Stream, host: str, target: str) -> WSConnection:
    protocol = WSConnection(ConnectionType.CLIENT)
    await stream.send_all(protocol.send(Request(host=host, target=target, subprotocols=[SUBPROTOCOL])))
    try:
        answer = await _next_event(stream, protocol)
        if isinstance(answer, RejectConnection):
            body = await _next_event(stream, protocol)
            why = bytes(body.data).decode("utf-8", "replace") if isinstance(body, RejectData) else ""
            raise Refused(f"the server refused with {answer.status_code}: {why[:200]}")
    except RemoteProtocolError as error:
        raise Refused(f"that is no WebSocket: {error}") from error
    if not isinstance(answer, AcceptConnection) or answer.subprotocol != SUBPROTOCOL:
        raise Refused(f"the server does not confirm the subprotocol {SUBPROTOCOL}")
    return protocol


@asynccontextmanager
async def serving(server: Server, port: int = 0) -> AsyncIterator[str]:
    """Serves `server` while the block runs, which is given its URL: one life, many clients."""
    async with server.running(), trio.open_nursery() as nursery:
        yield await nursery.start(partial(serve_websockets, partial(serve_stream, server), port))
        nursery.cancel_scope.cancel()


async def main() -> None:
    server = Server("counter", version="1.0")

    @server.tool
    async def count_words(text: str) -> int:
        """Counts the words of a text."""
        return len(text.split())

    async with serving(server) as url, open_stream(await open_websocket(url)) as client:
        result = await client.call_tool("count_words", {"text": "one message a line"})
        print(client.revision, result.structured_content)


if __name__ == "__main__":
    trio.run(main)
