"""A client that uses nothing of this project: HTTP/1.1 by h11, and JSON by hand."""

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
    """Return `value` as an object."""
    assert isinstance(value, dict), value
    return value


def arr(value: Json) -> list[Json]:
    """Return `value` as an array."""
    assert isinstance(value, list), value
    return value


class Event:
    """A server-sent event."""

    def __init__(self, lines: Sequence[str]) -> None:
        fields = [line.partition(":") for line in lines if not line.startswith(":")]
        self.fields: Final = {name: value.removeprefix(" ") for name, _, value in fields}
        self.data: Final = self.fields.get("data", "")

    @property
    def message(self) -> Object:
        """The message in the data of the event."""
        return obj(json.loads(self.data))


class RawResponse:
    """A response whose body may still be arriving."""

    def __init__(self, wire: Wire, head: h11.Response) -> None:
        self.status: Final = head.status_code
        self.headers: Final = {name.decode().lower(): value.decode() for name, value in head.headers}
        self._wire: Final = wire
        self._text = b""
        self._ended = False

    async def body(self) -> bytes:
        """Return the whole body."""
        while not self._ended:
            await self._more()
        return self._text

    async def json(self) -> Object:
        """Return the JSON object in the body."""
        return obj(json.loads(await self.body()))

    async def event(self) -> Event | None:
        """Return the next event of the stream, or `None` at its end."""
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
        """Return the next message of the stream or of the body, or `None` at the end."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            text, self._text = await self.body(), b""
            return obj(json.loads(text)) if text else None
        while (event := await self.event()) is not None:
            if event.data:
                return event.message
        return None

    async def messages(self) -> list[Object]:
        """Return all messages."""
        found = []
        while (message := await self.message()) is not None:
            found.append(message)
        return found

    async def response(self, id: Json) -> Object:
        """Return the response with this id; earlier messages are dropped."""
        while (message := await self.message()) is not None:
            assert "method" not in message or "id" not in message, message
            if message.get("id") == id and "method" not in message:
                return message
        raise AssertionError(f"no response with id {id!r}")

    async def _more(self) -> None:
        data = await self._wire.data()
        self._ended = data is None
        self._text += data or b""


class Wire:
    """A connection for one request."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream: Final = stream
        self._h11: Final = h11.Connection(h11.CLIENT)

    async def send_request(self, method: str, target: str, headers: Pairs, body: bytes) -> RawResponse:
        given = {name.lower() for name, _ in headers}
        more = [("content-length", str(len(body)))] if body or method == "POST" else []
        if "host" not in given:
            more.append(("host", "localhost"))
        stripped = [(name, value.strip()) for name, value in [*headers, *more]]
        # h11 tracks the state of the connection, but does not write everything that a client may send.
        self._h11.send(h11.Request(method=method, target=target, headers=stripped))
        if body:
            self._h11.send(h11.Data(data=body))
        self._h11.send(h11.EndOfMessage())
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in [*headers, *more]), "", ""]
        await self._stream.send_all("\r\n".join(lines).encode("latin-1") + body)
        head = await self._event()
        assert isinstance(head, h11.Response), head
        return RawResponse(self, head)

    async def data(self) -> bytes | None:
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._h11.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # mypy does not exclude NEED_DATA by identity
            self._h11.receive_data(await self._stream.receive_some())


@asynccontextmanager
async def open_response(
    port: int, method: str, target: str, headers: Pairs = (), body: bytes = b""
) -> AsyncIterator[RawResponse]:
    """Send a request and yield the response; the connection is closed at the end of the block."""
    with trio.fail_after(20):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            yield await Wire(stream).send_request(method, target, headers, body)


class ModernClient:
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
        prefixed: Object = {
            name if name == "progressToken" else _META + name: value
            for name, value in given.items()
            if value is not None
        }
        merged = params if "_meta" in params else {**params, "_meta": prefixed}
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": merged}

    @asynccontextmanager
    async def open_response(
        self,
        method: str,
        params: Object | None = None,
        *,
        meta: Mapping[str, Json] | None = None,
        headers: Mapping[str, str | None] | None = None,
        header_spellings: Mapping[str, str] | None = None,
    ) -> AsyncIterator[tuple[RawResponse, Json]]:
        """Send a request and yield its response and id.

        Args:
            method: The method.
            params: The params. Params with a `_meta` are sent unchanged.
            meta: Members of `_meta` that differ from the default, without their prefix; `None` leaves a member out.
            headers: Headers that differ from the default, by lower-case name; `None` leaves a header out.
            capitals: Other spellings of header names.
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
        pairs = [
            ((header_spellings or {}).get(name, name), value) for name, value in given.items() if value is not None
        ]
        async with open_response(self.port, "POST", "/mcp", pairs, json.dumps(message).encode()) as response:
            yield response, message["id"]

    async def send(
        self,
        method: str,
        params: Object | None = None,
        *,
        meta: Mapping[str, Json] | None = None,
        headers: Mapping[str, str | None] | None = None,
        header_spellings: Mapping[str, str] | None = None,
    ) -> tuple[int, Object]:
        """Send a request and return the status and the JSON-RPC response."""
        async with self.open_response(
            method, params, meta=meta, headers=headers, header_spellings=header_spellings
        ) as (response, id):
            return response.status, await response.response(id)

    async def call(
        self, method: str, params: Object | None = None, *, meta: Mapping[str, Json] | None = None
    ) -> Object:
        """Return the result of a request."""
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
        """Return the HTTP status, the code and the data of the error."""
        status, message = await self.send(method, params, meta=meta, headers=headers)
        assert "error" in message, message
        error = obj(message["error"])
        assert isinstance(error["code"], int)
        return status, error["code"], error.get("data")

    async def tool(self, name: str, arguments: Object | None = None, **more: Json) -> Object:
        """Return the result of a tool call."""
        return await self.call("tools/call", {"name": name, "arguments": arguments or {}, **more})


class LegacyClient:
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
    async def open_post(self, message: Json, more: Pairs = ()) -> AsyncIterator[RawResponse]:
        async with open_response(
            self.port, "POST", "/mcp", self.headers(more), json.dumps(message).encode()
        ) as response:
            yield response

    @asynccontextmanager
    async def open_get(self, last_event_id: str | None = None) -> AsyncIterator[RawResponse]:
        more = [("last-event-id", last_event_id)] if last_event_id is not None else []
        pairs = [(name, value) for name, value in self.headers(more) if name not in ("content-type", "accept")]
        async with open_response(self.port, "GET", "/mcp", [*pairs, ("accept", "text/event-stream")]) as response:
            yield response

    async def post(self, message: Json, more: Pairs = ()) -> int:
        """Post a message and return the HTTP status."""
        async with self.open_post(message, more) as response:
            await response.body()
            return response.status

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
        async with self.open_post(message, more) as response:
            assert response.status == 200
            result = obj((await response.response(message["id"]))["result"])
            self.session = response.headers["mcp-session-id"]
        assert await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, more) == 202
        return result

    async def call(
        self, method: str, params: Object | None = None, answers: Mapping[str, Object] | None = None
    ) -> tuple[Object, list[Object]]:
        """Return the result of a request, and the messages received before it.

        Args:
            method: The method.
            params: The params.
            answers: Results for client requests, by method.
        """
        message = self.request(method, params)
        received_before: list[Object] = []
        async with self.open_post(message) as response:
            assert response.status == 200, await response.body()
            while (received := await response.message()) is not None:
                if received.get("id") == message["id"] and "method" not in received:
                    assert "result" in received, received
                    return obj(received["result"]), received_before
                received_before.append(received)
                if "id" in received:
                    reply = (answers or {})[str(received["method"])]
                    assert await self.post({"jsonrpc": "2.0", "id": received["id"], "result": reply}) == 202
        raise AssertionError(f"{method} has no response")

    async def tool(
        self, name: str, arguments: Object | None = None, answers: Mapping[str, Object] | None = None
    ) -> tuple[Object, list[Object]]:
        """Return the result of a tool call, and the messages received before it."""
        params: Object = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return await self.call("tools/call", params, answers)
