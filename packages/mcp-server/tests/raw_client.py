"""An MCP client without the engine: it writes and parses JSON lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol

import trio
import trio.testing
from wire_oracle import check_notification, check_result

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2026_07_28, Era, Revision
from mcp_core.types.meta import SUBSCRIPTION_ID
from mcp_server import Server, serve_stream

_TIMEOUT_SECONDS: Final = 20

Answer = Callable[[JsonObject], JsonObject]
"""A function that returns the result of a client request from its params."""

ALL_CAPABILITIES: Final[JsonObject] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}},
    "elicitation": {"form": {}, "url": {}},
}


class ByteStream(Protocol):
    """The client's end of a byte stream."""

    async def send_all(self, data: bytes) -> None: ...

    async def receive_some(self) -> bytes | bytearray: ...


class RawClient:
    """A client of one revision."""

    def __init__(
        self,
        stream: ByteStream,
        revision: Revision,
        capabilities: JsonObject = ALL_CAPABILITIES,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        self.stream = stream
        self.revision = revision
        self.capabilities = capabilities
        self.answers: dict[str, Answer] = dict(answers or {})
        self.log_level: str | None = None
        self.lines: list[JsonValue] = []
        self.notifications: list[JsonObject] = []
        self.client_requests: list[JsonObject] = []
        self.round_trips = 0
        self._received = trio.Event()
        self._responses: dict[JsonValue, JsonObject] = {}
        self._methods: dict[JsonValue, str] = {}
        self._last_id = 0

    @property
    def modern(self) -> bool:
        return self.revision.era is Era.MODERN

    # --- sending

    async def send(self, message: JsonValue) -> None:
        await self.stream.send_all(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: JsonObject | None = None, *, id: JsonValue = None) -> JsonObject:
        """Return a request, with the request metadata of a modern revision."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        self._methods[id] = method
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if self.modern:
            sent = dict(params or {})
            meta = sent.get("_meta")
            sent["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": self.revision.name,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
                **({"io.modelcontextprotocol/logLevel": self.log_level} if self.log_level else {}),
                **(meta if isinstance(meta, dict) else {}),
            }
            params = sent
        if params is not None:
            message["params"] = params
        return message

    async def start(self, method: str, params: JsonObject | None = None, *, id: JsonValue = None) -> JsonValue:
        """Send a request without waiting for the response. Return its id."""
        message = self.request(method, params, id=id)
        await self.send(message)
        return message["id"]

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.send(message)

    async def open(self) -> JsonObject:
        """Initialize the session, or call `server/discover`. Return the result."""
        if self.modern:
            return await self.call("server/discover")
        params: JsonObject = {
            "protocolVersion": self.revision.name,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "raw", "version": "0"},
        }
        result = await self.call("initialize", params)
        assert result["protocolVersion"] == self.revision.name
        await self.notify("notifications/initialized")
        return result

    # --- receiving

    async def wait_for(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready` returns true; it is called after each read."""
        while not ready():
            self._received = trio.Event()
            await self._received.wait()

    async def response(self, id: JsonValue) -> JsonObject:
        """Wait for the response to a request and return the message."""
        await self.wait_for(lambda: id in self._responses)
        return self._responses.pop(id)

    async def wait_for_notifications(self, method: str, count: int = 1) -> list[JsonObject]:
        """Wait for `count` notifications of a method and return the params of all of them."""
        await self.wait_for(lambda: len(self.notifications_of(method)) >= count)
        return self.notifications_of(method)

    def notifications_of(self, method: str) -> list[JsonObject]:
        """Return the params of the notifications of a method received so far."""
        return [
            as_object(notification.get("params", {}))
            for notification in self.notifications
            if notification["method"] == method
        ]

    async def ask(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Send a request and return the response; in modern revisions, retry while input is required."""
        message = await self.response(await self.start(method, params))
        result = message.get("result")
        while isinstance(result, dict) and result.get("resultType") == "input_required":
            self.round_trips += 1
            input_requests = as_object(result.get("inputRequests", {}))
            retry = dict(params or {})
            retry["inputResponses"] = {
                key: self._answer(as_object(client_request)) for key, client_request in input_requests.items()
            }
            retry["requestState"] = result["requestState"]
            message = await self.response(await self.start(method, retry))
            result = message.get("result")
        return message

    async def call(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Send a request and return the result; an error fails the test."""
        message = await self.ask(method, params)
        assert "result" in message, message
        return as_object(message["result"])

    async def fail(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Send a request and return the error; a result fails the test."""
        message = await self.ask(method, params)
        assert "error" in message, message
        return as_object(message["error"])

    async def tool(self, name: str, /, **arguments: JsonValue) -> JsonObject:
        """Call a tool and return its result."""
        return await self.call("tools/call", {"name": name, "arguments": arguments})

    async def crash(self, name: str, /, **arguments: JsonValue) -> None:
        """Call a tool that must fail without details in its result."""
        result = await self.tool(name, **arguments)
        assert result["isError"] is True, result
        assert text_of(result) == f"The tool {name} failed. The log of the server contains the reason."

    async def text(self, name: str, /, **arguments: JsonValue) -> str:
        """Call a tool and return the text of its only content block."""
        return text_of(await self.tool(name, **arguments))

    def _answer(self, client_request: JsonObject) -> JsonObject:
        self.client_requests.append(client_request)
        method = client_request["method"]
        assert isinstance(method, str)
        return self.answers[method](as_object(client_request.get("params", {})))

    async def read(self) -> None:
        """Read until the server closes its end."""
        rest = b""
        while data := await self.stream.receive_some():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await self._dispatch(json.loads(line))
            self._received.set()
        assert rest == b""

    async def _dispatch(self, value: JsonValue) -> None:
        self.lines.append(value)
        for message in value if isinstance(value, list) else [value]:
            assert isinstance(message, dict)
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                await self._dispatch_response(message)
            elif "id" in message:
                check_notification(self.revision, message)
                if message["method"] in self.answers:
                    await self.send({"jsonrpc": "2.0", "id": message["id"], "result": self._answer(message)})
                else:
                    self.client_requests.append(message)
            else:
                check_notification(R2026_07_28 if _is_of_subscription(message) else self.revision, message)
                self.notifications.append(message)

    async def _dispatch_response(self, message: JsonObject) -> None:
        id = message.get("id")
        assert id not in self._responses, f"two responses to {id!r}"
        self._responses[id] = message
        if "result" in message:
            check_result(self.revision, self._methods[id], as_object(message["result"]))


def as_object(value: JsonValue) -> JsonObject:
    """Return a JSON value that must be an object."""
    assert isinstance(value, dict), value
    return value


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return a JSON value that must be an array."""
    assert isinstance(value, list), value
    return value


def text_of(result: JsonObject) -> str:
    """Return the text of the only content block of a tool result."""
    (block,) = as_list(result["content"])
    text = as_object(block)["text"]
    assert isinstance(text, str)
    return text


@asynccontextmanager
async def connected(
    server: Server,
    revision: Revision,
    *,
    capabilities: JsonObject = ALL_CAPABILITIES,
    answers: Mapping[str, Answer] | None = None,
    opened: bool = True,
) -> AsyncIterator[RawClient]:
    """Connect a client to a server in the same process. The server has ended after the block."""
    client_end, server_end = trio.testing.memory_stream_pair()
    client = RawClient(client_end, revision, capabilities, answers)
    # A test that waits for a message that never arrives fails instead of hanging.
    with trio.fail_after(_TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await serve_stream(server, server_end)
                await server_end.aclose()

            nursery.start_soon(serve)
            nursery.start_soon(client.read)
            if opened:
                await client.open()
            yield client
            await client_end.send_stream.aclose()


def _is_of_subscription(message: JsonObject) -> bool:
    """Return whether a notification belongs to `subscriptions/listen`, which is modern in every session."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and SUBSCRIPTION_ID in meta
