"""The transport examples: the transport contract, and access control."""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Handlers, open_stream
from mcp_client.testing.transport_contract import TRANSPORT_CHECKS, Connect, ServeClient, TransportCheck
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.types import Root, TextContent
from mcp_server import Context, Server, serve_stream
from mcp_server.runners.stdio import ByteStream

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "transports"))

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Ping, Pong, Request, TextMessage

import unix_socket  # the examples are not a package
import websocket
from unix_socket import NotPrivate, open_unix, serve_unix
from websocket import HandshakeFailed, WebSocketStream, open_websocket, serve_websockets


def _name(check: TransportCheck) -> str:
    return getattr(check, "__name__", "?")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return folder / "mcp"


@pytest.mark.parametrize("check", TRANSPORT_CHECKS, ids=_name)
async def test_unix_socket_fulfills_transport_contract(check: TransportCheck, private: Path) -> None:
    @asynccontextmanager
    async def open_transport(serve: ServeClient) -> AsyncIterator[Connect]:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_unix, serve, private)
            yield partial(open_unix, private)
            nursery.cancel_scope.cancel()

    await check(open_transport)
    assert list(private.parent.iterdir()) == []


@pytest.mark.parametrize("check", TRANSPORT_CHECKS, ids=_name)
async def test_websocket_fulfills_transport_contract(check: TransportCheck) -> None:
    @asynccontextmanager
    async def open_transport(serve: ServeClient) -> AsyncIterator[Connect]:
        async with trio.open_nursery() as nursery:
            yield partial(open_websocket, await nursery.start(partial(serve_websockets, serve, 0)))
            nursery.cancel_scope.cancel()

    await check(open_transport)


# --- with a real server -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def _serve_unix(server: Server, path: Path) -> AsyncIterator[Connect]:
    async with unix_socket.serving(server, path):
        yield partial(open_unix, path)


@asynccontextmanager
async def _serve_websocket(server: Server, path: Path) -> AsyncIterator[Connect]:
    async with websocket.serving(server) as url:
        yield partial(open_websocket, url)


@pytest.mark.spec("jsonrpc.custom-transport", "jsonrpc.custom-transport-preserve")
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@pytest.mark.parametrize("transport", [_serve_unix, _serve_websocket])
async def test_server_run_serves_many_clients_of_any_revision(
    transport: Callable[[Server, Path], AbstractAsyncContextManager[Connect]], revision: Revision, private: Path
) -> None:
    events: list[str] = []
    running, ended = trio.Event(), trio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[list[str]]:
        events.append("started")
        yield events
        events.append("ended")

    server = Server("test", version="1", lifespan=lifespan)

    @server.tool
    async def list_client_roots(context: Context) -> str:
        """List the roots of the client during a call."""
        return (await context.list_roots())[0].uri

    @server.tool
    async def wait() -> str:
        """Wait until cancelled."""
        running.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with transport(server, private) as connect:
        for name in ("one", "two"):
            folder = private.with_name(name)
            folder.mkdir()
            uri = folder.as_uri()
            handlers = Handlers(roots=[Root(uri=uri)])
            async with open_stream(await connect(), revisions=[revision], handlers=handlers) as client:
                assert client.revision is revision
                (content,) = (await client.call_tool("list_client_roots")).content
                assert isinstance(content, TextContent)
                assert content.text == uri
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "wait")
                    await running.wait()
                    nursery.cancel_scope.cancel()
                await ended.wait()
                assert len(await client.list_tools()) == 2
            running, ended = trio.Event(), trio.Event()
        assert events == ["started"]
    assert events == ["started", "ended"]


# --- the Unix socket ----------------------------------------------------------------------------------------------------


async def _serve_forever(stream: object) -> None:
    await trio.sleep_forever()


@pytest.mark.spec("security.local-server-access", "security.local-server-hardening")
class RecordingStream:
    """A server stream that records how many calls had started when a write failed."""

    def __init__(self, stream: ByteStream, begun: list[str]) -> None:
        self._stream = stream
        self._begun = begun
        self.at_failure: list[int] = []

    async def receive_some(self) -> bytes | bytearray:
        return await self._stream.receive_some()

    async def send_all(self, data: bytes | memoryview) -> None:
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            self.at_failure.append(len(self._begun))
            raise


@pytest.mark.parametrize("transport_name", ["unix", "websocket"])
async def test_transport_write_failure_starts_no_further_calls(transport_name: str, private: Path) -> None:
    begun: list[str] = []
    recorded: list[RecordingStream] = []
    served = trio.Event()
    server = Server("test", version="1")

    @server.tool
    async def echo(text: str) -> str:
        begun.append(text)
        await trio.lowlevel.checkpoint()
        return text

    async def serve(stream: ByteStream) -> None:
        recorded.append(RecordingStream(stream, begun))
        await serve_stream(server, recorded[0])
        served.set()

    with trio.fail_after(60):
        async with server.running(), trio.open_nursery() as nursery:
            if transport_name == "unix":
                await nursery.start(serve_unix, serve, private)
                stream: ByteStream = await open_unix(private)
            else:
                stream = await open_websocket(await nursery.start(partial(serve_websockets, serve, 0)))
            await stream.send_all(b"".join(_calls(1)))
            assert await stream.receive_some()
            sending = trio.CancelScope()

            async def send() -> None:
                with sending:
                    await stream.send_all(b"".join(_calls(4_000)))

            nursery.start_soon(send)
            # The server waits until its responses are read, and reads no further requests.
            await trio.testing.wait_all_tasks_blocked(0.1)
            sending.cancel()
            transport = stream._stream if isinstance(stream, WebSocketStream) else stream
            assert isinstance(transport, trio.SocketStream)
            transport.socket.close()
            await served.wait()
            nursery.cancel_scope.cancel()
    assert recorded[0].at_failure == [len(begun)]
    assert len(begun) < 4_000


def _calls(count: int) -> Iterator[bytes]:
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    for number in range(count):
        params: JsonObject = {"name": "echo", "arguments": {"text": f"text {number:05000}"}, "_meta": meta}
        request: JsonObject = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        yield json.dumps(request).encode() + b"\n"


async def test_unix_socket_accessible_to_owner_only(private: Path) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_unix, _serve_forever, private)
        assert private.stat().st_mode & 0o777 == 0o600
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o711, 0o777])
async def test_unix_socket_folder_with_access_for_others_rejected(mode: int, private: Path) -> None:
    private.parent.chmod(mode)
    with pytest.raises(NotPrivate, match="0700"):
        await serve_unix(_serve_forever, private)
    with pytest.raises(NotPrivate, match="0700"):
        await open_unix(private)
    assert list(private.parent.iterdir()) == []


async def test_unix_socket_folder_link_rejected(private: Path) -> None:
    link = private.parent.parent / "link"
    link.symlink_to(private.parent)
    with pytest.raises(NotPrivate, match="is not a folder"):
        await serve_unix(_serve_forever, link / "mcp")


async def test_unix_socket_folder_of_other_user_rejected(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(NotPrivate, match="not to user 4321"):
        await open_unix(private)


async def test_unix_socket_connection_of_other_user_closed(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_socket, "check_folder", lambda folder: None)
    served: list[object] = []

    async def serve(stream: trio.SocketStream) -> None:
        served.append(stream)

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_unix, serve, private)
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
        with pytest.raises(NotPrivate, match="not user 4321"):
            await open_unix(private)
        stream = await trio.open_unix_socket(str(private))
        assert await stream.receive_some() == b""
        await stream.aclose()
        assert not served
        nursery.cancel_scope.cancel()


async def test_unix_socket_of_crashed_server_replaced(private: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(private))
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_unix, _serve_forever, private)
        await (await open_unix(private)).aclose()
        nursery.cancel_scope.cancel()


async def test_unix_socket_of_running_server_not_replaced(private: Path) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_unix, _serve_forever, private)
        with pytest.raises(FileExistsError, match="already"):
            await serve_unix(_serve_forever, private)
        await (await open_unix(private)).aclose()
        nursery.cancel_scope.cancel()


async def test_file_at_socket_path_not_replaced(private: Path) -> None:
    private.write_text("user data")
    with pytest.raises(FileExistsError, match="not a socket"):
        await serve_unix(_serve_forever, private)
    assert private.read_text() == "user data"


async def test_unix_socket_replaced_by_other_file_not_removed(private: Path) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_unix, _serve_forever, private)
        private.rename(private.with_name("old"))
        private.write_text("another")
        nursery.cancel_scope.cancel()
    assert private.read_text() == "another"


# --- the opening handshake of the WebSocket -----------------------------------------------------------------------------

_VALID_HEADERS = {
    "Host": "127.0.0.1",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "chat, mcp",
}


def _head(line: str = "GET /mcp HTTP/1.1", **changes: str | None) -> bytes:
    fields = _VALID_HEADERS | {name.replace("_", "-"): value for name, value in changes.items()}
    return "".join([f"{line}\r\n", *(f"{k}: {v}\r\n" for k, v in fields.items() if v is not None), "\r\n"]).encode()


async def _echo(stream: WebSocketStream) -> None:
    while data := await stream.receive_some():
        await stream.send_all(data)


@asynccontextmanager
async def _connect(
    serve: Callable[[WebSocketStream], Awaitable[None]] = _echo, *, origins: tuple[str, ...] = ()
) -> AsyncIterator[trio.SocketStream]:
    """Open a TCP connection to a WebSocket server."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_websockets, serve, 0, allowed_origins=origins))
        stream = await trio.open_tcp_stream("127.0.0.1", int(url.split(":")[2].removesuffix("/mcp")))
        async with stream:
            yield stream
        nursery.cancel_scope.cancel()


async def _read_head(stream: trio.SocketStream) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and (data := await stream.receive_some()):
        received += data
    return received


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (_head(), 101),
        (_head("GET /mcp?x=1 HTTP/1.1", Host="localhost:1234"), 101),
        (_head(Origin="http://127.0.0.1"), 101),
        (_head(Origin="https://app.example"), 101),
        (_head(Host="evil.example"), 403),
        (_head(Host="127.0.0.1.evil.example"), 403),
        (_head(Origin="https://evil.example"), 403),
        (_head(Origin="null"), 403),
        (_head(Origin="http://127.0.0.1:8080"), 403),
        (_head(Sec_Fetch_Site="cross-site"), 403),
        (_head("GET / HTTP/1.1"), 404),
        (_head(Sec_WebSocket_Protocol=None), 400),
        (_head(Sec_WebSocket_Protocol="chat"), 400),
        (_head(Sec_WebSocket_Key=None), 400),
        (_head(Sec_WebSocket_Version="8"), 426),
        (_head(Upgrade="h2c"), 400),
        (_head(Host=None), 400),
        (_head(Host="xn--a" + chr(0x7F)), 400),
        (_head("POST /mcp HTTP/1.1", Content_Length="0"), 400),
        (b"nonsense\r\n\r\n", 400),
    ],
)
async def test_websocket_handshake_checked(head: bytes, status: int) -> None:
    async with _connect(origins=("https://app.example",)) as stream:
        await stream.send_all(head)
        assert (await _read_head(stream)).split(b" ")[1] == b"%d" % status


async def test_websocket_request_head_over_limit_rejected() -> None:
    async with _connect() as stream:
        received = b""
        with suppress(trio.BrokenResourceError):
            await stream.send_all(_head()[:-2] + b"x: " + b"x" * 10_000_000)
            received = await _read_head(stream)
        assert not received or received.split(b" ")[1] == b"400"


async def test_websocket_rejection_states_reason(autojump_clock: trio.testing.MockClock) -> None:
    async with _connect() as stream:
        await stream.send_all(_head(Origin="https://evil.example"))
        received = b""
        while data := await stream.receive_some():
            received += data
        assert b"Origin 'https://evil.example' is neither this server's own origin nor listed" in received


async def test_websocket_handshake_timeout_closes_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with _connect() as stream:
        await stream.send_all(_head()[:-2])
        assert await stream.receive_some() == b""
        assert trio.current_time() > 0


async def test_websocket_clients_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CLIENTS", 1)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_websockets, _echo, 0))
        first = await open_websocket(url)
        with pytest.raises((HandshakeFailed, trio.BrokenResourceError)):
            await open_websocket(url)
        await first.send_all(b"{}\n")
        assert await first.receive_some() == b"{}\n"
        await first.aclose()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nHost", "403: Host"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "handshake with 200"),
        (b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "accept token"),
        (b"220 mail.example ESMTP\r\n\r\n", "not a WebSocket"),
        (b"", "disconnected"),
    ],
)
async def test_websocket_client_invalid_response_raises(answer: bytes, reason: str) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await _read_head(stream)
            if answer:
                await stream.send_all(answer)

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        with pytest.raises(HandshakeFailed, match=reason):
            await open_websocket(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}/mcp")
        nursery.cancel_scope.cancel()


async def test_websocket_client_without_subprotocol_raises() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            protocol = WSConnection(ConnectionType.SERVER)
            protocol.receive_data(await _read_head(stream))
            await stream.send_all(protocol.send(AcceptConnection()))

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        with pytest.raises(HandshakeFailed, match="subprotocol mcp"):
            await open_websocket(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}/mcp")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("url", ["http://127.0.0.1/mcp", "ws://", "ws://mcp.example/mcp", "ws://192.0.2.1/mcp"])
async def test_websocket_client_insecure_url_raises(url: str) -> None:
    with pytest.raises(ValueError, match="ws"):
        await open_websocket(url)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.0.2.1", "::"])
async def test_websocket_server_on_public_address_raises(host: str) -> None:
    with pytest.raises(ValueError, match="authentication"):
        await serve_websockets(_echo, 0, host=host)


async def test_websocket_server_wildcard_lists_raise() -> None:
    with pytest.raises(ValueError, match="wildcard"):
        await serve_websockets(_echo, 0, allowed_hosts=["*"])
    with pytest.raises(ValueError, match="every web page"):
        await serve_websockets(_echo, 0, allowed_origins=["*"])


# --- messages of the WebSocket ------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open_websocket(
    serve: Callable[[WebSocketStream], Awaitable[None]] = _echo,
) -> AsyncIterator[tuple[trio.SocketStream, WSConnection]]:
    """Open a WebSocket, without the stream of the example."""
    async with _connect(serve) as stream:
        protocol = WSConnection(ConnectionType.CLIENT)
        request = Request(host="localhost", target="/mcp", subprotocols=["mcp"])
        await stream.send_all(protocol.send(request))
        protocol.receive_data(await _read_head(stream))
        assert isinstance(next(protocol.events()), AcceptConnection)
        yield stream, protocol


async def _events(stream: trio.SocketStream, protocol: WSConnection) -> AsyncGenerator[Event, None]:
    while True:
        for event in protocol.events():
            yield event
        data = await stream.receive_some()
        if not data:
            return
        protocol.receive_data(bytes(data))


async def _first(stream: trio.SocketStream, protocol: WSConnection) -> Event:
    events = _events(stream, protocol)
    try:
        return await anext(events)
    finally:
        await events.aclose()


_LONG = websocket.MESSAGE_BYTES + 1


@pytest.mark.parametrize(
    ("make_data", "code"),
    [
        (lambda protocol: protocol.send(TextMessage(data="x" * _LONG)), 1009),
        (lambda protocol: protocol.send(TextMessage(data="x" * _LONG, message_finished=False)), 1009),
        (lambda protocol: protocol.send(TextMessage(data="x" * 2 * _LONG)), 1009),
        (lambda protocol: protocol.send(BytesMessage(data=b"{}")), 1003),
        (lambda protocol: b"\x81\x02{}", 1002),
        (lambda protocol: b"\xc1\x82aaaa\x1a\x1c", 1002),
        (lambda protocol: b"\x81\x82\0\0\0\0\xff\xff", 1007),
        (lambda protocol: protocol.send(CloseConnection(code=1000)), 1000),
        (lambda protocol: protocol.send(CloseConnection(code=1001)), 1001),
    ],
)
async def test_websocket_protocol_error_closes_with_code(make_data: Callable[[WSConnection], bytes], code: int) -> None:
    async with _open_websocket() as (stream, protocol):
        await stream.send_all(make_data(protocol))
        event = await _first(stream, protocol)
        assert isinstance(event, CloseConnection)
        assert event.code == code
        await stream.send_eof()
        assert await stream.receive_some() == b""


async def test_websocket_lines_sent_as_messages() -> None:
    async with _open_websocket() as (stream, protocol):
        await stream.send_all(protocol.send(TextMessage(data='{"a":\r\n', message_finished=False)))
        await stream.send_all(protocol.send(Ping(payload=b"still there?")))
        await stream.send_all(protocol.send(TextMessage(data="1}\n")) + protocol.send(TextMessage(data="{}")))
        received: list[object] = []
        async with aclosing(_events(stream, protocol)) as events:
            async for event in events:
                received.append(event.data if isinstance(event, TextMessage) else type(event))
                if len(received) == 3:
                    break
        assert received == [Pong, '{"a":  1} ', "{}"]


def _open_pair() -> tuple[WSConnection, WSConnection]:
    """Return both sides of an open WebSocket."""
    client_protocol, server_protocol = WSConnection(ConnectionType.CLIENT), WSConnection(ConnectionType.SERVER)
    server_protocol.receive_data(client_protocol.send(Request(host="localhost", target="/mcp", subprotocols=["mcp"])))
    assert isinstance(next(server_protocol.events()), Request)
    client_protocol.receive_data(server_protocol.send(AcceptConnection(subprotocol="mcp")))
    assert isinstance(next(client_protocol.events()), AcceptConnection)
    return client_protocol, server_protocol


async def test_websocket_ping_answered_while_write_blocks() -> None:
    client_protocol, server_protocol = _open_pair()
    left, right = trio.testing.lockstep_stream_pair()
    stream = WebSocketStream(left, client_protocol)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, b"{}\n")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(right.send_all, server_protocol.send(Ping()) + server_protocol.send(TextMessage(data="[]")))
        with trio.fail_after(10):
            assert await stream.receive_some() == b"[]\n"
        # The pong is sent after the message.
        server_protocol.receive_data(bytes(await right.receive_some()))
        server_protocol.receive_data(bytes(await right.receive_some()))
        assert [type(event) for event in server_protocol.events()] == [TextMessage, Pong]


async def test_websocket_send_after_partial_message_raises(autojump_clock: trio.testing.MockClock) -> None:
    client_protocol, _ = _open_pair()
    left, right = trio.testing.lockstep_stream_pair()
    stream = WebSocketStream(left, client_protocol)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, b"x" * 1_000 + b"\n")
        assert await right.receive_some(10)
        nursery.cancel_scope.cancel()
    with trio.fail_after(10), pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"{}\n")
    await stream.aclose()


@pytest.mark.parametrize("answers", [True, False])
async def test_websocket_close_waits_for_peer_with_timeout(
    answers: bool, autojump_clock: trio.testing.MockClock
) -> None:
    client_protocol, server_protocol = _open_pair()
    left, right = trio.testing.memory_stream_pair()
    stream = WebSocketStream(left, client_protocol)
    answered = False

    async def receive() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()

    async def answer() -> None:
        nonlocal answered
        server_protocol.receive_data(bytes(await right.receive_some()))
        (event,) = server_protocol.events()
        assert isinstance(event, CloseConnection)
        await trio.sleep(0.5)
        answered = True
        await right.send_all(server_protocol.send(event.response()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        if answers:
            nursery.start_soon(answer)
        await stream.aclose()
        assert answered is answers


@pytest.mark.property
@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))),
    st.integers(1, 20),
    st.data(),
)
def test_websocket_lines_independent_of_portions(lines: list[str], size: int, data: st.DataObject) -> None:
    received = "".join(f"{line}\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(received)), max_size=5)))

    async def main() -> None:
        client_protocol, server_protocol = _open_pair()
        left, right = trio.testing.memory_stream_pair()
        sender, receiver = (
            WebSocketStream(left, client_protocol),
            WebSocketStream(_SmallReads(right, size), server_protocol),
        )
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for start, end in itertools.pairwise([0, *cuts, len(received)]):
                    await sender.send_all(received[start:end])
                await sender.aclose()

            nursery.start_soon(send)
            found = b""
            while chunk := await receiver.receive_some():
                found += chunk
            await receiver.aclose()
        assert found == received

    trio.run(main)


class _SmallReads(trio.abc.Stream):
    """A stream that receives small portions."""

    def __init__(self, stream: trio.abc.Stream, size: int) -> None:
        self._stream = stream
        self._size = size

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(self._size)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_websocket_broken_connection_raises() -> None:
    broken = trio.Event()

    async def serve(stream: WebSocketStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"{}\n")
        broken.set()

    async with _open_websocket(serve) as (stream, _):
        await stream.aclose()
        await broken.wait()


async def test_websocket_pings_of_stalled_client_use_no_memory() -> None:
    async with _open_websocket() as (stream, protocol):
        pings = protocol.send(Ping(payload=b"x" * 125)) * 500
        sent_bytes = 0

        async def flood() -> None:
            nonlocal sent_bytes
            while sent_bytes < 64 * 1024 * 1024:
                await stream.send_all(pings)
                sent_bytes += len(pings)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            before = -1
            while before != sent_bytes:
                before = sent_bytes
                await trio.testing.wait_all_tasks_blocked()
            assert nursery.child_tasks
            nursery.cancel_scope.cancel()
