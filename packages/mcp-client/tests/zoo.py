"""Servers that answer over raw HTTP exactly what a test wants, right or wrong."""

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
from mcp_client.nursery import open_private_nursery
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
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
    """The result of `initialize`."""
    return {
        "protocolVersion": version,
        "capabilities": capabilities or {"tools": {"listChanged": True}},
        "serverInfo": {"name": "zoo", "version": "1"},
    }


def question(id: int, method: str = "elicitation/create", params: JsonObject = ELICIT) -> JsonObject:
    """A request of the server."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def decline(_: ElicitRequestFormParams) -> ElicitResult:
    """Answers every question of a server."""
    return ElicitResult(action="decline")


@attrs.define
class Step:
    """One of many calls at once, and how the server treats it."""

    begin: float
    cancel_after: float
    treatment: str
    delay: float


def steps_of(*treatments: str) -> st.SearchStrategy[list[Step]]:
    """Some calls. Deadlines and cancellations fall upon the moments of answers, too."""
    step = st.builds(
        Step,
        begin=st.sampled_from([0.0, 0.0, 1.0, 2.0]),
        cancel_after=st.sampled_from([0.0, 1.0, 2.0, 5.0, 1_000.0, 1_000.0]),
        treatment=st.sampled_from(treatments),
        delay=st.sampled_from([0.0, 0.0, 1.0, 2.0, 5.0, 10.0]),
    )
    return st.lists(step, max_size=8)


@attrs.frozen
class Asked:
    """One request of the client."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> JsonObject:
        """The JSON-RPC message in it."""
        value: JsonValue = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def rpc(self) -> str:
        """The method of the message, `response` for an answer, or the HTTP method where there is no message."""
        return str(self.message.get("method", "response")) if self.body else self.method

    @property
    def params(self) -> JsonObject:
        """The params of the message."""
        params = self.message["params"]
        assert isinstance(params, dict)
        return params


class Reply:
    """How a server answers one request."""

    def __init__(self, stream: trio.abc.Stream, asked: Asked) -> None:
        self._stream: Final = stream
        self._asked: Final = asked
        # Several answers may go out on one stream.
        self._writing: Final = trio.Lock()
        self.closed = False

    async def raw(self, data: bytes) -> None:
        """Any bytes."""
        async with self._writing:
            await self._stream.send_all(data)

    async def body(
        self, status: int, body: bytes = b"", kind: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole response."""
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
        if kind is not None:
            lines.append(f"Content-Type: {kind}")
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if status == 204:
            del lines[1]
        await self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    async def json(self, value: JsonValue, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """A whole response with JSON."""
        await self.body(status, json.dumps(value).encode(), "application/json", headers)

    async def result(self, result: JsonValue, headers: Mapping[str, str] | None = None) -> None:
        """The result of the request, as JSON."""
        await self.json({"jsonrpc": "2.0", "id": self._asked.message["id"], "result": result}, headers=headers)

    async def error(self, code: int, message: str = "no", status: int = 200, data: JsonValue = None) -> None:
        """An error for the request, as JSON."""
        error: JsonObject = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        await self.json({"jsonrpc": "2.0", "id": self._asked.message["id"], "error": error}, status)

    async def accept(self) -> None:
        """Status 202."""
        await self.body(202)

    async def stream(self, headers: Mapping[str, str] | None = None) -> None:
        """The head of a stream."""
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{more}\r\n"
        await self.raw(head.encode())

    async def chunk(self, data: bytes) -> None:
        """A piece of a stream."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(
        self, value: JsonValue = None, *, id: str | None = None, retry: int | None = None, name: str | None = None
    ) -> None:
        """One event; without data when there is no value."""
        lines = [] if name is None else [f"event: {name}"]
        lines += [] if id is None else [f"id: {id}"]
        lines += [] if retry is None else [f"retry: {retry}"]
        lines.append("data: " + ("" if value is None else value if isinstance(value, str) else json.dumps(value)))
        await self.chunk(("\n".join(lines) + "\n\n").encode())

    async def event_result(self, result: JsonValue, *, id: str | None = None) -> None:
        """The result of the request, as an event."""
        await self.event({"jsonrpc": "2.0", "id": self._asked.message["id"], "result": result}, id=id)

    async def event_result_of(self, asked: Asked, result: JsonObject = OK) -> None:
        """The result of another request, as an event."""
        await self.event({"jsonrpc": "2.0", "id": asked.message["id"], "result": result})

    async def end(self) -> None:
        """The proper end of a stream."""
        await self.raw(b"0\r\n\r\n")

    async def cut(self) -> None:
        """The end of the connection."""
        self.closed = True
        await self._stream.aclose()

    async def hang(self) -> None:
        """Says nothing more, until the client goes away."""
        while await self._stream.receive_some():
            pass
        self.closed = True


def progress(asked: Asked, value: float = 1) -> JsonObject:
    """A notification of progress for a request."""
    meta = asked.params["_meta"]
    assert isinstance(meta, dict)
    params: JsonObject = {"progressToken": meta["progressToken"], "progress": value}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


async def until(condition: Callable[[], object]) -> None:
    """Waits, by seconds of trio's clock, until a condition holds."""
    while not condition():  # noqa: ASYNC110  nothing tells a test server what its client will have said
        await trio.sleep(1)


Answer: TypeAlias = Callable[[Asked, Reply], Awaitable[None]]


async def silence(asked: Asked, reply: Reply) -> None:
    """No answer at all."""
    await reply.hang()


async def standing(asked: Asked, reply: Reply) -> None:
    """A stream that stays open and silent."""
    await reply.stream()
    await reply.hang()


def page(status: int, body: bytes = b"", kind: str | None = "text/plain") -> Answer:
    """What is no answer of the protocol."""

    async def answer(asked: Asked, reply: Reply) -> None:
        await reply.body(status, body, kind)

    return answer


class Server:
    """A server; `asked` has all requests that came, in their order."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self.asked: Final[list[Asked]] = []
        self.connections = 0
        """How many connections were made."""
        self.open = 0
        """How many are open."""

    def rpcs(self) -> list[str]:
        """What was asked for."""
        return [asked.rpc for asked in self.asked]

    def of(self, rpc: str) -> list[Asked]:
        """The requests for one thing."""
        return [asked for asked in self.asked if asked.rpc == rpc]


@asynccontextmanager
async def serving(answer: Answer, path: str = "/mcp", *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server on a port of this machine."""
    # Ports come again, with other servers on them.
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
            # The client has gone, or the script has ended the connection.
            return
        finally:
            server.open -= 1

    async with open_private_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield server


async def _converse(server: Server, stream: trio.abc.Stream, answer: Answer) -> None:
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
            assert len(headers) == len(pairs), "a header is there twice"
            length = int(headers.get("content-length", "0"))
            while len(buffer) < length:
                data = await stream.receive_some()
                if not data:
                    return
                buffer += data
            asked = Asked(method, target, headers, buffer[:length])
            buffer = buffer[length:]
            server.asked.append(asked)
            reply = Reply(stream, asked)
            await answer(asked, reply)
            if reply.closed:
                return


def modern(calls: Answer | None = None, discovered: JsonObject = DISCOVERED) -> Answer:
    """A modern server; `calls` answers all that is not discovery."""

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method != "POST":
            await reply.body(405, headers={"Allow": "POST"})
        elif asked.rpc == "server/discover":
            await reply.result(discovered)
        elif calls is not None:
            await calls(asked, reply)
        elif asked.rpc == "tools/call":
            await reply.result(OK)
        else:
            await reply.error(-32601, "Method not found", 404)

    return answer


def legacy(
    calls: Answer | None = None,
    *,
    version: str = "2025-11-25",
    session: str | None = "s1",
    get: Answer | None = None,
    capabilities: JsonObject | None = None,
) -> Answer:
    """A legacy server; `calls` answers all that is not the handshake, `get` the GET requests."""

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method == "GET":
            await (get(asked, reply) if get is not None else reply.body(405))
        elif asked.method == "DELETE":
            await reply.body(200)
        elif asked.rpc == "server/discover":
            await reply.error(-32600, "Bad Request: Missing session ID", 400)
        elif asked.rpc == "initialize":
            headers = None if session is None else {"Mcp-Session-Id": session}
            await reply.result(initialized(version, capabilities), headers=headers)
        elif "id" not in asked.message or asked.rpc == "response":
            await reply.accept()
        elif calls is not None:
            await calls(asked, reply)
        elif asked.rpc == "tools/call":
            await reply.result(OK)
        else:
            await reply.result({})

    return answer


class Forgetful:
    """A legacy server that forgets its session when it is told to, and counts what it processes."""

    def __init__(
        self,
        calls: Answer | None = None,
        get: Answer | None = None,
        *,
        status: int = 404,
        capabilities: JsonObject = CAPABILITIES,
    ) -> None:
        self.number = 1
        """Which session it knows."""
        self.alive = True
        """Whether it knows it; it makes the next one if not."""
        self.processed: list[str] = []
        """The tools that were called."""
        self.refuse = 0
        """The status by which it refuses a new session; 0: it does not."""
        self._calls: Final = calls
        self._get: Final = get
        self._status: Final = status
        self._capabilities: Final = capabilities

    async def answer(self, asked: Asked, reply: Reply) -> None:
        """Answers one request."""
        given = asked.headers.get("mcp-session-id")
        if asked.rpc == "initialize":
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
        elif asked.rpc == "tools/call":
            self.processed.append(str(asked.params["name"]))
        inner = legacy(self._calls, session=f"s{self.number}", get=self._get, capabilities=self._capabilities)
        await inner(asked, reply)


class OldServer:
    """A server of HTTP+SSE, the transport of 2024-11-05, on one path for the stream and another for messages."""

    def __init__(self, calls: Answer | None = None, *, endpoint: str = "/messages?session=1", post: int = 405) -> None:
        self.calls: Final = calls
        self.endpoint: Final = endpoint
        self.post: Final = post
        self.version = "2024-11-05"
        self.streams: list[Reply] = []
        """The streams, in the order in which they were opened."""

    async def answer(self, asked: Asked, reply: Reply) -> None:
        """Answers one request."""
        if asked.method == "GET":
            await reply.stream()
            await reply.event(self.endpoint, name="endpoint")
            self.streams.append(reply)
            await reply.hang()
        elif not asked.target.startswith("/messages"):
            await reply.body(self.post, b"no", "text/plain")
        else:
            # What follows may take long, and the next message must not have to wait for it.
            await reply.body(202, b"Accepted", "text/plain", {"Connection": "close"})
            await self.say(asked)
            reply.closed = True

    async def say(self, asked: Asked) -> None:
        """Says on the stream what answers a message."""
        stream = self.streams[-1]
        if asked.rpc == "initialize":
            await stream.event(_answer(asked, initialized(self.version)), name="message")
        elif "id" in asked.message and asked.rpc != "response":
            if self.calls is not None:
                await self.calls(asked, stream)
            else:
                await stream.event(_answer(asked, OK if asked.rpc == "tools/call" else {}), name="message")


def _answer(asked: Asked, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": asked.message["id"], "result": result}
