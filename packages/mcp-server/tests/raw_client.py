"""A client that knows nothing of the engine: JSON lines, written and read by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol

import trio
import trio.testing
from wire_oracle import check_result, check_told

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2026_07_28, Era, Revision
from mcp_core.types.meta import SUBSCRIPTION_ID
from mcp_server import Server, serve_stream

_PATIENCE: Final = 20

Answer = Callable[[JsonObject], JsonObject]
"""What the client answers to the params of a question."""

ALL_CAPABILITIES: Final[JsonObject] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}},
    "elicitation": {"form": {}, "url": {}},
}


class Bytes(Protocol):
    """The client's end of a stream."""

    async def send_all(self, data: bytes) -> None: ...

    async def receive_some(self) -> bytes | bytearray: ...


class RawClient:
    """One client in one revision."""

    def __init__(
        self,
        stream: Bytes,
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
        self.asked: list[JsonObject] = []
        self.rounds = 0
        self._arrived = trio.Event()
        self._responses: dict[JsonValue, JsonObject] = {}
        self._methods: dict[JsonValue, str] = {}
        self._last_id = 0

    @property
    def modern(self) -> bool:
        return self.revision.era is Era.MODERN

    # --- out

    async def send(self, message: JsonValue) -> None:
        await self.stream.send_all(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: JsonObject | None = None, *, id: JsonValue = None) -> JsonObject:
        """A request as this client would send it."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        self._methods[id] = method
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if self.modern:
            given = dict(params or {})
            meta = given.get("_meta")
            given["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": self.revision.name,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
                **({"io.modelcontextprotocol/logLevel": self.log_level} if self.log_level else {}),
                **(meta if isinstance(meta, dict) else {}),
            }
            params = given
        if params is not None:
            message["params"] = params
        return message

    async def start(self, method: str, params: JsonObject | None = None, *, id: JsonValue = None) -> JsonValue:
        """Sends a request and does not wait. Returns its id."""
        message = self.request(method, params, id=id)
        await self.send(message)
        return message["id"]

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.send(message)

    async def open(self) -> JsonObject:
        """The handshake, or `server/discover`. Returns the result."""
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

    # --- in

    async def wait_for(self, ready: Callable[[], bool]) -> None:
        """Returns when something that arrived made `ready` true."""
        while not ready():
            self._arrived = trio.Event()
            await self._arrived.wait()

    async def response(self, id: JsonValue) -> JsonObject:
        """The whole response to a request."""
        await self.wait_for(lambda: id in self._responses)
        return self._responses.pop(id)

    async def told(self, method: str, count: int = 1) -> list[JsonObject]:
        """The params of all notifications of a kind, once there are so many."""
        await self.wait_for(lambda: len(self.of(method)) >= count)
        return self.of(method)

    def of(self, method: str) -> list[JsonObject]:
        """The params of the notifications of a kind that came so far."""
        return [as_object(note.get("params", {})) for note in self.notifications if note["method"] == method]

    async def ask(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Sends a request and returns the whole response; in modern revisions plays as many rounds as it takes."""
        message = await self.response(await self.start(method, params))
        result = message.get("result")
        while isinstance(result, dict) and result.get("resultType") == "input_required":
            self.rounds += 1
            questions = as_object(result.get("inputRequests", {}))
            again = dict(params or {})
            again["inputResponses"] = {key: self._answer(as_object(question)) for key, question in questions.items()}
            again["requestState"] = result["requestState"]
            message = await self.response(await self.start(method, again))
            result = message.get("result")
        return message

    async def call(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """The same, and returns the result; an error fails the test."""
        message = await self.ask(method, params)
        assert "result" in message, message
        return as_object(message["result"])

    async def fail(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """The same, and returns the error; a result fails the test."""
        message = await self.ask(method, params)
        assert "error" in message, message
        return as_object(message["error"])

    async def tool(self, name: str, /, **arguments: JsonValue) -> JsonObject:
        """The result of a tool."""
        return await self.call("tools/call", {"name": name, "arguments": arguments})

    async def crash(self, name: str, /, **arguments: JsonValue) -> None:
        """Calls a tool, which has to fail without saying why."""
        result = await self.tool(name, **arguments)
        assert result["isError"] is True, result
        assert text_of(result) == f"The tool {name} failed. The log of the server contains the reason."

    async def text(self, name: str, /, **arguments: JsonValue) -> str:
        """The text of the only content block of a tool's result."""
        return text_of(await self.tool(name, **arguments))

    def _answer(self, question: JsonObject) -> JsonObject:
        self.asked.append(question)
        method = question["method"]
        assert isinstance(method, str)
        return self.answers[method](as_object(question.get("params", {})))

    async def read(self) -> None:
        """Reads until the server closes its end."""
        rest = b""
        while data := await self.stream.receive_some():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await self._take(json.loads(line))
            self._arrived.set()
        assert rest == b""

    async def _take(self, value: JsonValue) -> None:
        self.lines.append(value)
        for message in value if isinstance(value, list) else [value]:
            assert isinstance(message, dict)
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                await self._take_response(message)
            elif "id" in message:
                check_told(self.revision, message)
                if message["method"] in self.answers:
                    await self.send({"jsonrpc": "2.0", "id": message["id"], "result": self._answer(message)})
                else:
                    self.asked.append(message)
            else:
                check_told(R2026_07_28 if _is_of_subscription(message) else self.revision, message)
                self.notifications.append(message)

    async def _take_response(self, message: JsonObject) -> None:
        id = message.get("id")
        assert id not in self._responses, f"two answers to {id!r}"
        self._responses[id] = message
        if "result" in message:
            check_result(self.revision, self._methods[id], as_object(message["result"]))


def as_object(value: JsonValue) -> JsonObject:
    """JSON that has to be an object."""
    assert isinstance(value, dict), value
    return value


def as_list(value: JsonValue) -> list[JsonValue]:
    """JSON that has to be an array."""
    assert isinstance(value, list), value
    return value


def text_of(result: JsonObject) -> str:
    """The text of the only content block of a tool's result."""
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
    """A client whose server runs in the same process, and has ended when the block does."""
    ours, theirs = trio.testing.memory_stream_pair()
    client = RawClient(ours, revision, capabilities, answers)
    # A test that waits for what never comes fails, instead of standing still.
    with trio.fail_after(_PATIENCE):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await serve_stream(server, theirs)
                await theirs.aclose()

            nursery.start_soon(serve)
            nursery.start_soon(client.read)
            if opened:
                await client.open()
            yield client
            await ours.send_stream.aclose()


def _is_of_subscription(message: JsonObject) -> bool:
    """Whether a notification belongs to `subscriptions/listen`, which is modern whatever the session speaks."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and SUBSCRIPTION_ID in meta
