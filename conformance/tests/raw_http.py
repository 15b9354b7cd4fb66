"""A client that knows nothing of this project: HTTP/1.1 by h11, and JSON by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import h11
import trio

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = "dict[str, Json]"
Pairs: TypeAlias = Sequence[tuple[str, str]]

MODERN: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_CAPABILITIES: Final[Object] = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}


def obj(value: Json) -> Object:
    """`value`, which is an object."""
    assert isinstance(value, dict), value
    return value


def arr(value: Json) -> list[Json]:
    """`value`, which is an array."""
    assert isinstance(value, list), value
    return value


class Event:
    """One event of a stream."""

    def __init__(self, lines: Sequence[str]) -> None:
        fields = [line.partition(":") for line in lines if not line.startswith(":")]
        self.fields: Final = {name: value.removeprefix(" ") for name, _, value in fields}
        self.data: Final = self.fields.get("data", "")

    @property
    def message(self) -> Object:
        """The message in it."""
        return obj(json.loads(self.data))


class Answer:
    """One response, which may still be coming."""

    def __init__(self, wire: Wire, head: h11.Response) -> None:
        self.status: Final = head.status_code
        self.headers: Final = {name.decode().lower(): value.decode() for name, value in head.headers}
        self._wire: Final = wire
        self._text = b""
        self._ended = False

    async def body(self) -> bytes:
        """All of it."""
        while not self._ended:
            await self._more()
        return self._text

    async def json(self) -> Object:
        """The JSON in it."""
        return obj(json.loads(await self.body()))

    async def event(self) -> Event | None:
        """The next event of a stream; `None` at its end."""
        while True:
            block, end, rest = self._text.partition(b"\n\n")
            if end:
                self._text = rest
                event = Event([line.removesuffix("\r") for line in block.decode().split("\n")])
                if event.fields:
                    return event
            elif self._ended:
                return None
            else:
                await self._more()

    async def message(self) -> Object | None:
        """The next message in it, be it a stream or not; `None` at its end."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            text, self._text = await self.body(), b""
            return obj(json.loads(text)) if text else None
        while (event := await self.event()) is not None:
            if event.data:
                return event.message
        return None

    async def messages(self) -> list[Object]:
        """All messages in it."""
        found = []
        while (message := await self.message()) is not None:
            found.append(message)
        return found

    async def response(self, id: Json) -> Object:
        """The response with an id; what comes before it is dropped."""
        while (message := await self.message()) is not None:
            assert "method" not in message or "id" not in message, message
            if message.get("id") == id and "method" not in message:
                return message
        raise AssertionError(f"there is no response with the id {id!r}")

    async def _more(self) -> None:
        data = await self._wire.data()
        self._ended = data is None
        self._text += data or b""


class Wire:
    """One connection, for one request."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream: Final = stream
        self._h11: Final = h11.Connection(h11.CLIENT)

    async def ask(self, method: str, target: str, headers: Pairs, body: bytes) -> Answer:
        given = {name.lower() for name, _ in headers}
        more = [("content-length", str(len(body)))] if body or method == "POST" else []
        if "host" not in given:
            more.append(("host", "localhost"))
        stripped = [(name, value.strip()) for name, value in [*headers, *more]]
        # h11 keeps track of the connection, but does not write everything that a client may.
        self._h11.send(h11.Request(method=method, target=target, headers=stripped))
        if body:
            self._h11.send(h11.Data(data=body))
        self._h11.send(h11.EndOfMessage())
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in [*headers, *more]), "", ""]
        await self._stream.send_all("\r\n".join(lines).encode("latin-1") + body)
        head = await self._event()
        assert isinstance(head, h11.Response), head
        return Answer(self, head)

    async def data(self) -> bytes | None:
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._h11.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # what is left of the union
            self._h11.receive_data(await self._stream.receive_some())


@asynccontextmanager
async def asked(port: int, method: str, target: str, headers: Pairs = (), body: bytes = b"") -> AsyncIterator[Answer]:
    """Sends a request; the connection is closed at the end of the block."""
    with trio.fail_after(20):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            yield await Wire(stream).ask(method, target, headers, body)


class Modern:
    """A client of 2026-07-28."""

    def __init__(self, port: int) -> None:
        self.port: Final = port
        self._last_id = 0

    def request(self, method: str, params: Object, meta: Mapping[str, Json] | None) -> Object:
        self._last_id += 1
        given: Object = {
            "protocolVersion": MODERN,
            "clientInfo": {"name": "raw", "version": "1"},
            "clientCapabilities": _CAPABILITIES,
            **(meta or {}),
        }
        named: Object = {
            name if name == "progressToken" else _META + name: value
            for name, value in given.items()
            if value is not None
        }
        whole = params if "_meta" in params else {**params, "_meta": named}
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": whole}

    @asynccontextmanager
    async def asked(
        self,
        method: str,
        params: Object | None = None,
        *,
        meta: Mapping[str, Json] | None = None,
        headers: Mapping[str, str | None] | None = None,
        capitals: Mapping[str, str] | None = None,
    ) -> AsyncIterator[tuple[Answer, Json]]:
        """Sends a request, and gives its answer and id.

        Args:
            method: The method.
            params: The parameters. With a `_meta`, they are sent as they are.
            meta: Members of `_meta` that differ, without their prefix; `None`: left out.
            headers: Headers that differ, by their names in lower case; `None`: left out.
            capitals: Other spellings of names of headers.
        """
        message = self.request(method, params or {}, meta)
        given: dict[str, str | None] = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
        }
        if method in _NAMES:
            given["mcp-name"] = str((params or {}).get(_NAMES[method]))
        given.update(headers or {})
        pairs = [((capitals or {}).get(name, name), value) for name, value in given.items() if value is not None]
        async with asked(self.port, "POST", "/mcp", pairs, json.dumps(message).encode()) as answer:
            yield answer, message["id"]

    async def send(
        self,
        method: str,
        params: Object | None = None,
        *,
        meta: Mapping[str, Json] | None = None,
        headers: Mapping[str, str | None] | None = None,
        capitals: Mapping[str, str] | None = None,
    ) -> tuple[int, Object]:
        """The status, and the message that answers."""
        async with self.asked(method, params, meta=meta, headers=headers, capitals=capitals) as (answer, id):
            return answer.status, await answer.response(id)

    async def call(
        self, method: str, params: Object | None = None, *, meta: Mapping[str, Json] | None = None
    ) -> Object:
        """The result."""
        status, message = await self.send(method, params, meta=meta)
        assert status == 200, message
        assert "result" in message, message
        return obj(message["result"])

    async def fail(
        self,
        method: str,
        params: Object | None = None,
        *,
        meta: Mapping[str, Json] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> tuple[int, int, Json]:
        """Status, code and data of the error."""
        status, message = await self.send(method, params, meta=meta, headers=headers)
        assert "error" in message, message
        error = obj(message["error"])
        assert isinstance(error["code"], int)
        return status, error["code"], error.get("data")

    async def tool(self, name: str, arguments: Object | None = None, **more: Json) -> Object:
        """The result of a tool."""
        return await self.call("tools/call", {"name": name, "arguments": arguments or {}, **more})


class Legacy:
    """A client with a session."""

    def __init__(self, port: int, revision: str) -> None:
        self.port: Final = port
        self.revision: Final = revision
        self.session: str | None = None
        self._last_id = 0

    def headers(self, more: Pairs = ()) -> Pairs:
        found = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
        if self.session is not None:
            found += [("mcp-session-id", self.session), ("mcp-protocol-version", self.revision)]
        return [*found, *more]

    @asynccontextmanager
    async def posted(self, message: Json, more: Pairs = ()) -> AsyncIterator[Answer]:
        async with asked(self.port, "POST", "/mcp", self.headers(more), json.dumps(message).encode()) as answer:
            yield answer

    @asynccontextmanager
    async def got(self, last_event_id: str | None = None) -> AsyncIterator[Answer]:
        more = [("last-event-id", last_event_id)] if last_event_id is not None else []
        pairs = [(name, value) for name, value in self.headers(more) if name not in ("content-type", "accept")]
        async with asked(self.port, "GET", "/mcp", [*pairs, ("accept", "text/event-stream")]) as answer:
            yield answer

    async def tell(self, message: Json, more: Pairs = ()) -> int:
        """The status of what gets no answer."""
        async with self.posted(message, more) as answer:
            await answer.body()
            return answer.status

    def request(self, method: str, params: Object | None = None) -> Object:
        self._last_id += 1
        message: Object = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        return message if params is None else {**message, "params": params}

    async def open(self, more: Pairs = ()) -> Object:
        params: Object = {
            "protocolVersion": self.revision,
            "capabilities": {"sampling": {}, "elicitation": {}},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        message = self.request("initialize", params)
        async with self.posted(message, more) as answer:
            assert answer.status == 200
            result = obj((await answer.response(message["id"]))["result"])
            self.session = answer.headers["mcp-session-id"]
        assert await self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"}, more) == 202
        return result

    async def call(
        self, method: str, params: Object | None = None, answers: Mapping[str, Object] | None = None
    ) -> tuple[Object, list[Object]]:
        """The result, and the notifications that came before it.

        Args:
            method: The method.
            params: The parameters.
            answers: What is answered to requests of the server, by their methods.
        """
        message = self.request(method, params)
        told: list[Object] = []
        async with self.posted(message) as answer:
            assert answer.status == 200, await answer.body()
            while (received := await answer.message()) is not None:
                if received.get("id") == message["id"] and "method" not in received:
                    assert "result" in received, received
                    return obj(received["result"]), told
                told.append(received)
                if "id" in received:
                    reply = (answers or {})[str(received["method"])]
                    assert await self.tell({"jsonrpc": "2.0", "id": received["id"], "result": reply}) == 202
        raise AssertionError(f"{method} was not answered")

    async def tool(
        self, name: str, arguments: Object | None = None, answers: Mapping[str, Object] | None = None
    ) -> tuple[Object, list[Object]]:
        """The result of a tool, and the notifications that came before it."""
        params: Object = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return await self.call("tools/call", params, answers)
