"""Servers that send scripted responses over raw HTTP, valid or invalid."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import attrs
import trio
from hypothesis import strategies as st

from mcp_client.connectors import http as http_connector
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.types import ElicitRequestFormParams, ElicitResult

OK: Final[JsonObject] = {"content": [{"type": "text", "text": "ok"}], "resultType": "complete"}

DISCOVERED: Final[JsonObject] = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}},
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "zoo", "version": "1"}},
}

CAPABILITIES: Final[JsonObject] = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}

CHANGED: Final[JsonObject] = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

ELICIT: Final[JsonObject] = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}

LIST_FIELDS: Final[JsonObject] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def initialized(version: str = "2025-11-25", capabilities: JsonObject | None = None) -> JsonObject:
    """Return the result of `initialize`."""
    return {
        "protocolVersion": version,
        "capabilities": capabilities or {"tools": {"listChanged": True}},
        "serverInfo": {"name": "zoo", "version": "1"},
    }


def client_request(id: int, method: str = "elicitation/create", params: JsonObject = ELICIT) -> JsonObject:
    """Return a client request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def decline(_: ElicitRequestFormParams) -> ElicitResult:
    """Decline every elicitation."""
    return ElicitResult(action="decline")


@attrs.define
class Step:
    """One of several concurrent calls, and the server's treatment of it."""

    begin: float
    cancel_after: float
    treatment: str
    delay: float


def steps_of(*treatments: str) -> st.SearchStrategy[list[Step]]:
    """Return a strategy for calls, in which deadlines and cancellations can coincide with responses."""
    step = st.builds(
        Step,
        begin=st.sampled_from([0.0, 0.0, 1.0, 2.0]),
        cancel_after=st.sampled_from([0.0, 1.0, 2.0, 5.0, 1_000.0, 1_000.0]),
        treatment=st.sampled_from(treatments),
        delay=st.sampled_from([0.0, 0.0, 1.0, 2.0, 5.0, 10.0]),
    )
    return st.lists(step, max_size=8)


@attrs.frozen
class ReceivedRequest:
    """An HTTP request of the client."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> JsonObject:
        """The JSON-RPC message of the body."""
        value: JsonValue = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def rpc(self) -> str:
        """The method of the message, `response` for a response, or the HTTP method where there is no message."""
        return str(self.message.get("method", "response")) if self.body else self.method

    @property
    def params(self) -> JsonObject:
        """The params of the message."""
        params = self.message["params"]
        assert isinstance(params, dict)
        return params


class Reply:
    """The HTTP response of a server to one request."""

    def __init__(self, stream: trio.abc.Stream, request: ReceivedRequest) -> None:
        self._stream: Final = stream
        self._request: Final = request
        # Several tasks may write to one stream.
        self._writing: Final = trio.Lock()
        self.closed = False

    async def raw(self, data: bytes) -> None:
        """Send bytes."""
        async with self._writing:
            await self._stream.send_all(data)

    async def body(
        self, status: int, body: bytes = b"", kind: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole HTTP response."""
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
        if kind is not None:
            lines.append(f"Content-Type: {kind}")
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if status == 204:
            del lines[1]
        await self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    async def json(self, value: JsonValue, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole HTTP response with JSON."""
        await self.body(status, json.dumps(value).encode(), "application/json", headers)

    async def result(self, result: JsonValue, headers: Mapping[str, str] | None = None) -> None:
        """Send the result of the request, as JSON."""
        await self.json({"jsonrpc": "2.0", "id": self._request.message["id"], "result": result}, headers=headers)

    async def error(self, code: int, message: str = "no", status: int = 200, data: JsonValue = None) -> None:
        """Send an error for the request, as JSON."""
        error: JsonObject = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        await self.json({"jsonrpc": "2.0", "id": self._request.message["id"], "error": error}, status)

    async def accept(self) -> None:
        """Send status 202."""
        await self.body(202)

    async def stream(self, headers: Mapping[str, str] | None = None) -> None:
        """Send the head of an event stream."""
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{more}\r\n"
        await self.raw(head.encode())

    async def chunk(self, data: bytes) -> None:
        """Send a chunk of a stream."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(
        self, value: JsonValue = None, *, id: str | None = None, retry: int | None = None, name: str | None = None
    ) -> None:
        """Send one event, with empty data when there is no value."""
        lines = [] if name is None else [f"event: {name}"]
        lines += [] if id is None else [f"id: {id}"]
        lines += [] if retry is None else [f"retry: {retry}"]
        lines.append("data: " + ("" if value is None else value if isinstance(value, str) else json.dumps(value)))
        await self.chunk(("\n".join(lines) + "\n\n").encode())

    async def event_result(self, result: JsonValue, *, id: str | None = None) -> None:
        """Send the result of the request, as an event."""
        await self.event({"jsonrpc": "2.0", "id": self._request.message["id"], "result": result}, id=id)

    async def event_result_of(self, request: ReceivedRequest, result: JsonObject = OK) -> None:
        """Send the result of another request, as an event."""
        await self.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})

    async def end(self) -> None:
        """End the stream."""
        await self.raw(b"0\r\n\r\n")

    async def cut(self) -> None:
        """Close the connection."""
        self.closed = True
        await self._stream.aclose()

    async def hang(self) -> None:
        """Send nothing more, until the client closes the connection."""
        while await self._stream.receive_some():
            pass
        self.closed = True


def progress(request: ReceivedRequest, value: float = 1) -> JsonObject:
    """Return a progress notification for a request."""
    meta = request.params["_meta"]
    assert isinstance(meta, dict)
    params: JsonObject = {"progressToken": meta["progressToken"], "progress": value}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait, by seconds of trio's clock, until a condition holds."""
    while not condition():  # noqa: ASYNC110  no event exists for what the client sends
        await trio.sleep(1)


Responder: TypeAlias = Callable[[ReceivedRequest, Reply], Awaitable[None]]


async def silence(request: ReceivedRequest, reply: Reply) -> None:
    """Send no response."""
    await reply.hang()


async def silent_stream(request: ReceivedRequest, reply: Reply) -> None:
    """Send the head of an event stream, and leave it open and silent."""
    await reply.stream()
    await reply.hang()


def page(status: int, body: bytes = b"", kind: str | None = "text/plain") -> Responder:
    """Return a responder that sends a response outside of the protocol."""

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(status, body, kind)

    return answer


class Server:
    """A server; `requests` has all received requests, in order."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self.requests: Final[list[ReceivedRequest]] = []
        self.connections = 0
        """The number of connections made."""
        self.open = 0
        """The number of open connections."""

    def rpcs(self) -> list[str]:
        """Return the RPC names of all requests."""
        return [request.rpc for request in self.requests]

    def of(self, rpc: str) -> list[ReceivedRequest]:
        """Return the requests with an RPC name."""
        return [request for request in self.requests if request.rpc == rpc]


@asynccontextmanager
async def serving(answer: Responder, path: str = "/mcp", *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve on a port of this machine."""
    # Ports are reused by later servers.
    http_connector._eras.clear()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    server = Server(f"http://127.0.0.1:{port}{path}" if tls is None else f"https://localhost:{port}{path}")

    async def handle(stream: trio.SocketStream) -> None:
        server.connections += 1
        server.open += 1
        try:
            secured = None if tls is None else trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
            await _converse(server, secured or stream, answer)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The client has closed the connection, or the script has.
            return
        finally:
            server.open -= 1

    async with open_private_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield server


async def _converse(server: Server, stream: trio.abc.Stream, answer: Responder) -> None:
    buffer = b""
    async with stream:
        while True:
            while b"\r\n\r\n" not in buffer:
                data = await stream.receive_some()
                if not data:
                    return
                buffer += data
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            pairs = [line.split(":", 1) for line in lines]
            headers = {name.lower(): value.strip() for name, value in pairs}
            assert len(headers) == len(pairs), "duplicate header"
            length = int(headers.get("content-length", "0"))
            while len(buffer) < length:
                data = await stream.receive_some()
                if not data:
                    return
                buffer += data
            request = ReceivedRequest(method, target, headers, buffer[:length])
            buffer = buffer[length:]
            server.requests.append(request)
            reply = Reply(stream, request)
            await answer(request, reply)
            if reply.closed:
                return


def modern(calls: Responder | None = None, discovered: JsonObject = DISCOVERED) -> Responder:
    """Return a modern server; `calls` answers everything except discovery."""

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method != "POST":
            await reply.body(405, headers={"Allow": "POST"})
        elif request.rpc == "server/discover":
            await reply.result(discovered)
        elif calls is not None:
            await calls(request, reply)
        elif request.rpc == "tools/call":
            await reply.result(OK)
        else:
            await reply.error(-32601, "Method not found", 404)

    return answer


def legacy(
    calls: Responder | None = None,
    *,
    version: str = "2025-11-25",
    session: str | None = "s1",
    get: Responder | None = None,
    capabilities: JsonObject | None = None,
) -> Responder:
    """Return a legacy server; `calls` answers everything except the handshake, `get` the GET requests."""

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "GET":
            await (get(request, reply) if get is not None else reply.body(405))
        elif request.method == "DELETE":
            await reply.body(200)
        elif request.rpc == "server/discover":
            await reply.error(-32600, "Bad Request: Missing session ID", 400)
        elif request.rpc == "initialize":
            headers = None if session is None else {"Mcp-Session-Id": session}
            await reply.result(initialized(version, capabilities), headers=headers)
        elif "id" not in request.message or request.rpc == "response":
            await reply.accept()
        elif calls is not None:
            await calls(request, reply)
        elif request.rpc == "tools/call":
            await reply.result(OK)
        else:
            await reply.result({})

    return answer


class SessionLosingServer:
    """A legacy server that loses its session when `alive` is cleared, and records the tool calls."""

    def __init__(
        self,
        calls: Responder | None = None,
        get: Responder | None = None,
        *,
        status: int = 404,
        capabilities: JsonObject = CAPABILITIES,
    ) -> None:
        self.number = 1
        """The number of the current session."""
        self.alive = True
        """Whether the session exists; if not, `initialize` opens the next one."""
        self.processed: list[str] = []
        """The names of the called tools."""
        self.refuse = 0
        """The status that rejects a new session; 0 accepts it."""
        self._calls: Final = calls
        self._get: Final = get
        self._status: Final = status
        self._capabilities: Final = capabilities

    async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
        """Answer one request."""
        given = request.headers.get("mcp-session-id")
        if request.rpc == "initialize":
            if self.refuse:
                await trio.sleep(1)
                await reply.body(self.refuse, b"not now", "text/plain")
                return
            if not self.alive:
                self.alive = True
                self.number += 1
        elif given is not None and (given != f"s{self.number}" or not self.alive):
            error: JsonObject = {"code": -32600, "message": "Session not found"}
            await reply.json({"jsonrpc": "2.0", "id": None, "error": error}, self._status)
            return
        elif request.rpc == "tools/call":
            self.processed.append(str(request.params["name"]))
        inner = legacy(self._calls, session=f"s{self.number}", get=self._get, capabilities=self._capabilities)
        await inner(request, reply)


class HttpSseServer:
    """A server of HTTP+SSE, the transport of 2024-11-05, with one path for the stream and another for messages."""

    def __init__(
        self, calls: Responder | None = None, *, endpoint: str = "/messages?session=1", post: int = 405
    ) -> None:
        self.calls: Final = calls
        self.endpoint: Final = endpoint
        self.post: Final = post
        self.version = "2024-11-05"
        self.streams: list[Reply] = []
        """The streams, in opening order."""

    async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
        """Answer one request."""
        if request.method == "GET":
            await reply.stream()
            await reply.event(self.endpoint, name="endpoint")
            self.streams.append(reply)
            await reply.hang()
        elif not request.target.startswith("/messages"):
            await reply.body(self.post, b"no", "text/plain")
        else:
            # The response on the stream may take long, and must not delay the next message.
            await reply.body(202, b"Accepted", "text/plain", {"Connection": "close"})
            await self.respond_on_stream(request)
            reply.closed = True

    async def respond_on_stream(self, request: ReceivedRequest) -> None:
        """Send the response to a message on the stream."""
        stream = self.streams[-1]
        if request.rpc == "initialize":
            await stream.event(_answer(request, initialized(self.version)), name="message")
        elif "id" in request.message and request.rpc != "response":
            if self.calls is not None:
                await self.calls(request, stream)
            else:
                await stream.event(_answer(request, OK if request.rpc == "tools/call" else {}), name="message")


def _answer(request: ReceivedRequest, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
