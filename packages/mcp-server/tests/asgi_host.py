"""An ASGI host in memory, and a client that sends HTTP requests as scopes and events: no sockets, no clock."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
import trio.testing

from mcp_core.errors import LimitExceeded
from mcp_core.framing.sse import Event, SseParser
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28, Era, Revision
from mcp_server.asgi import Application, BackgroundTask, Message, Scope

BOTH = "application/json, text/event-stream"


def as_object(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict), value
    return value


class Reply:
    """The response to one request, while it arrives."""

    def __init__(self, body: Sequence[bytes], *, whole: bool = True, blocked: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.complete = False
        self.left = trio.Event()
        self.returned = trio.Event()
        self.companions = 0
        self.reading = trio.Event()
        if not blocked:
            self.reading.set()
        self.capacity: int | None = None
        """The number of bytes that are written without waiting; `None` for any number."""
        self.prompt_writes = 0
        self.error: BaseException | None = None
        self._body = list(body)
        self._whole = whole
        self._changed = trio.Event()
        self._parser = SseParser(Limits())
        self._fed = 0
        self._events: list[Event] = []
        self._busy = False
        self._unwritten = b""

    # --- the application's side

    async def receive(self) -> Message:
        if self._body:
            part = self._body.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._body) or not self._whole}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        assert not self._busy, "two tasks send at the same time"
        assert not self.complete, "data after the end of the response"
        self._busy = True
        try:
            await trio.lowlevel.checkpoint()
            if self.left.is_set():
                raise OSError("the client has disconnected")
            if message["type"] == "http.response.start":
                assert not self.status
                assert isinstance(message["status"], int)
                self.status = message["status"]
                headers = message["headers"]
                assert isinstance(headers, list | tuple)
                for name, value in headers:
                    assert name == name.lower()
                    self.headers[name.decode()] = value.decode()
            else:
                assert self.status
                await self.reading.wait()
                chunk = message.get("body", b"")
                assert isinstance(chunk, bytes)
                chunk, self._unwritten = self._unwritten + chunk, b""
                self.chunks.append(chunk)
                self.complete = not message.get("more_body", False)
                self._signal_change()
        finally:
            self._busy = False

    def write_now(self, data: bytes) -> bool:
        assert not self._busy, "another task sends"
        assert self.status
        assert not self.complete
        assert not self._unwritten, "the unwritten bytes were not sent"
        taken = data if self.capacity is None else data[: self.capacity]
        self._unwritten = data[len(taken) :]
        self.prompt_writes += 1
        if taken:
            self.chunks.append(taken)
            self._signal_change()
        return not self._unwritten

    def _signal_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def finished(self) -> None:
        self.returned.set()
        self._signal_change()

    # --- the client's side

    def leave(self) -> None:
        """Close the connection as the client."""
        self.left.set()

    @property
    def media(self) -> str:
        return self.headers["content-type"]

    async def _wait(self) -> None:
        assert not self.returned.is_set(), f"the response has ended: {self.status} {self.chunks}"
        # With the system clock the wait is short. The mock clock moves only when all tasks wait.
        real = not isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
        with trio.fail_after(20 if real else 100_000):
            await self._changed.wait()

    async def body(self) -> bytes:
        """Return the whole body."""
        while not self.complete:
            await self._wait()
        return b"".join(self.chunks)

    async def json(self) -> JsonObject:
        assert self.media == "application/json" if self.status else await self.body() is not None
        body = await self.body()
        assert self.headers["content-length"] == str(len(body))
        return as_object(json.loads(body))

    async def event(self) -> Event:
        """Return the next event; comments are skipped."""
        while not self._events:
            if self._fed < len(self.chunks):
                for event in self._parser.receive_data(self.chunks[self._fed]):
                    assert not isinstance(event, LimitExceeded)
                    self._events.append(event)
                self._fed += 1
            else:
                assert not self.complete, "the stream has ended"
                await self._wait()
        assert self.media == "text/event-stream"
        return self._events.pop(0)

    async def message(self) -> JsonObject:
        """Return the next event that has a message."""
        while not (event := await self.event()).data:
            pass
        assert b"\n" not in event.data
        return as_object(json.loads(event.data))

    async def rest(self) -> list[Event]:
        """Return all remaining events until the end of the stream."""
        await self.body()
        events = []
        while self._events or self._fed < len(self.chunks):
            if self._events:
                events.append(self._events.pop(0))
            else:
                self._events += [
                    each for each in self._parser.receive_data(self.chunks[self._fed]) if isinstance(each, Event)
                ]
                self._fed += 1
        return events

    async def answer(self) -> JsonObject:
        """Return the response, from a JSON body or an event stream."""
        while not self.chunks and not self.complete:
            await self._wait()
        if self.media == "application/json":
            return await self.json()
        while "method" in (message := await self.message()):
            pass
        return message


class Client:
    """A client of an endpoint.

    Args:
        app: The endpoint.
        nursery: The nursery of its requests.
        revision: Its protocol revision.
        hooked: Whether the host starts companions.
        prompt: Whether the host writes without waiting.
    """

    def __init__(
        self,
        app: Application,
        nursery: trio.Nursery,
        revision: Revision = R2026_07_28,
        *,
        hooked: bool = True,
        prompt: bool = False,
    ) -> None:
        self.app = app
        self.nursery = nursery
        self.revision = revision
        self.hooked = hooked
        self.prompt = prompt
        self.capabilities: JsonObject = {"roots": {}, "sampling": {}, "elicitation": {}}
        self.session: str | None = None
        self.headers: dict[str, str | None] = {}
        self.path = "/mcp"
        self.query = ""
        self.replies: list[Reply] = []
        self._last_id = 0

    # --- messages

    def request(
        self, method: str, params: Mapping[str, JsonValue] | None = None, *, id: JsonValue = None
    ) -> JsonObject:
        if id is None:
            self._last_id += 1
            id = self._last_id
        given: JsonObject = dict(params or {})
        if self.revision.era is Era.MODERN:
            meta = given.get("_meta")
            given["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": self.revision.name,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                **(meta if isinstance(meta, dict) else {}),
            }
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": given}

    def call(
        self, tool: str, /, *, id: JsonValue = None, token: JsonValue = None, **arguments: JsonValue
    ) -> JsonObject:
        params: JsonObject = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.request("tools/call", params, id=id)

    # --- requests

    def start(
        self,
        method: str = "POST",
        body: JsonValue | bytes = b"",
        *,
        blocked: bool = False,
        whole: bool = True,
        parts: Sequence[bytes] | None = None,
        more: Mapping[str, str | None] | None = None,
        **headers: str | None,
    ) -> Reply:
        """Send a request without waiting for the response."""
        headers.update(more or {})
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = Reply([data] if parts is None else parts, whole=whole, blocked=blocked)
        self.replies.append(reply)
        self.nursery.start_soon(self._run, reply, self._scope(method, body, headers))
        return reply

    def post(self, message: JsonValue, *, more: Mapping[str, str] | None = None, **headers: str | None) -> Reply:
        return self.start("POST", message, more={**(more or {}), **headers})

    def get(self, last_event_id: str | None = None, **headers: str | None) -> Reply:
        return self.start("GET", more={"accept": "text/event-stream", "last_event_id": last_event_id, **headers})

    async def ask(self, method: str, params: Mapping[str, JsonValue] | None = None) -> JsonObject:
        """Send a request and return its response."""
        return await self.post(self.request(method, params)).answer()

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification, which must be accepted."""
        reply = self.post({"jsonrpc": "2.0", "method": method, "params": params or {}})
        assert await reply.body() == b""
        assert reply.status == 202

    async def open(self) -> JsonObject:
        """Open a session and return the result of `initialize`."""
        params: JsonObject = {
            "protocolVersion": self.revision.name,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "raw", "version": "0"},
        }
        reply = self.post(self.request("initialize", params))
        answer = await reply.answer()
        assert reply.status == 200, answer
        self.session = reply.headers["mcp-session-id"]
        await self.notify("notifications/initialized")
        return as_object(answer["result"])

    def _scope(self, method: str, body: JsonValue | bytes, headers: Mapping[str, str | None]) -> Scope:
        given: dict[str, str | None] = {"host": "127.0.0.1:8000", "accept": BOTH}
        if method == "POST":
            given["content-type"] = "application/json"
        if isinstance(body, dict) and self.revision.era is Era.MODERN:
            given["mcp-protocol-version"] = self.revision.name
            given["mcp-method"] = str(body.get("method"))
            params = body.get("params")
            name = (params.get("name") or params.get("uri")) if isinstance(params, dict) else None
            given["mcp-name"] = name if isinstance(name, str) else None
        elif self.session is not None:
            given["mcp-session-id"] = self.session
            given["mcp-protocol-version"] = self.revision.name if self.revision.version_header else None
        given |= self.headers
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value is not None],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8000),
        }

    async def _run(self, reply: Reply, scope: Scope) -> None:
        async with trio.open_nursery() as nursery:

            def start_later(companion: BackgroundTask) -> None:
                async def later() -> None:
                    await trio.sleep(0.1)
                    reply.companions += 1
                    await companion()

                nursery.start_soon(later)

            extensions: dict[str, object] = {}
            if self.hooked:
                extensions["mcp_server.companion"] = start_later
            if self.prompt:
                extensions["mcp_server.write_now"] = reply.write_now
            if extensions:
                scope["extensions"] = extensions
            try:
                await self.app(scope, reply.receive, reply.send)
            finally:
                reply.finished()
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def hosted(
    app: Application, revision: Revision = R2026_07_28, *, hooked: bool = True, prompt: bool = False
) -> AsyncIterator[Client]:
    """Open a client of an endpoint. At the end its requests are cancelled and must end."""
    async with trio.open_nursery() as nursery:
        yield Client(app, nursery, revision, hooked=hooked, prompt=prompt)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def session(app: Application, revision: Revision = R2025_11_25, *, hooked: bool = True) -> AsyncIterator[Client]:
    """Open a legacy client with its session."""
    async with hosted(app, revision, hooked=hooked) as client:
        await client.open()
        yield client
