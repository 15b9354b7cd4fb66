"""Invalid results and client requests of servers, and invalid results of the application's handlers.

The invalid results are derived from valid ones: each member in turn is removed, or replaced by each kind of JSON, and the
schema of the types decides which of these are invalid. An invalid result raises a typed error that names the member or
the method, and the next call succeeds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Final, TypeAlias

import jsonschema_rs
import pytest
import trio
import trio.testing

from mcp_client import Client, ClientOptions, Handlers
from mcp_client.testing import ScriptedPeer, open_in_memory, scripted
from mcp_core import types as t
from mcp_core.errors import LocalProtocolError, McpError, RemoteProtocolError
from mcp_core.json_schema import schema_of, schemas
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import methods
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision

BOTH: Final = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)

CAPABILITIES: Final[dict[str, JsonValue]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}

TOOL: Final[JsonObject] = {
    "name": "dice",
    "title": "Dice",
    "description": "Rolls.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "title": "x"},
    "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["1x1"]}],
    "_meta": {"a": 1},
}
RESOURCE: Final[JsonObject] = {
    "uri": "a://b",
    "name": "b",
    "title": "B",
    "description": "b",
    "mimeType": "text/plain",
    "size": 3,
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"},
}
BLOCKS: Final[list[JsonValue]] = [
    {"type": "text", "text": "hello", "annotations": {"priority": 1}},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "a://b", "text": "x", "mimeType": "text/plain"}},
    {"type": "resource_link", "uri": "a://b", "name": "b"},
]

VALID_RESULTS: Final[dict[str, JsonObject]] = {
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": BLOCKS, "isError": False, "structuredContent": {"a": 1}},
    "resources/list": {"resources": [RESOURCE]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{b}", "name": "b", "title": "B"}]},
    "resources/read": {
        "contents": [{"uri": "a://b", "text": "x", "mimeType": "x/y"}, {"uri": "a://c", "blob": "AAAA"}]
    },
    "prompts/list": {
        "prompts": [{"name": "p", "title": "P", "arguments": [{"name": "a", "description": "x", "required": True}]}]
    },
    "prompts/get": {"description": "x", "messages": [{"role": "user", "content": BLOCKS[0]}]},
    "completion/complete": {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
}
"""A valid result of each method."""

CALLS: Final[dict[str, Callable[[Client], Awaitable[object]]]] = {
    "tools/list": lambda client: client.list_tools(),
    "tools/call": lambda client: client.call_tool("dice"),
    "resources/list": lambda client: client.list_resources(),
    "resources/templates/list": lambda client: client.list_resource_templates(),
    "resources/read": lambda client: client.read_resource("a://b"),
    "prompts/list": lambda client: client.list_prompts(),
    "prompts/get": lambda client: client.get_prompt("p"),
    "completion/complete": lambda client: client.complete(t.PromptReference(name="p"), "a", "x"),
}

Path: TypeAlias = tuple[str | int, ...]

KINDS: Final[tuple[JsonValue, ...]] = (5, -1.5, "x", True, None, [], {}, [5], {"a": []})


def valid_result(method: str, revision: Revision) -> JsonObject:
    """Return a valid result in a revision."""
    result = dict(VALID_RESULTS[method])
    if revision.result_type:
        result["resultType"] = "complete"
        if revision in methods(revision)[method].cacheable:
            result |= {"ttlMs": 0, "cacheScope": "private"}
    return result


def paths(value: JsonValue, below: Path = ()) -> Iterator[Path]:
    """Yield the path of each member and element of a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*below, key)
        yield from paths(inner, (*below, key))


def with_change(value: JsonValue, path: Path, *new: JsonValue) -> JsonValue:
    """Return the value with a replacement at a path; without a replacement, with nothing there."""
    key, *rest = path
    if isinstance(value, dict):
        assert isinstance(key, str)
        copy = dict(value)
        if rest:
            copy[key] = with_change(value[key], tuple(rest), *new)
        elif new:
            copy[key] = new[0]
        else:
            del copy[key]
        return copy
    assert isinstance(value, list)
    assert isinstance(key, int)
    inner = [with_change(value[key], tuple(rest), *new)] if rest else list(new)
    return [*value[:key], *inner, *value[key + 1 :]]


@cache
def validator(method: str, revision: Revision) -> jsonschema_rs.Validator:
    """Return the validator of a method's results."""
    result = methods(revision)[method].result
    assert isinstance(result, type)
    assert issubclass(result, t.WireObject)
    return jsonschema_rs.validator_for({**schemas(revision), **schema_of(result, revision)})


def invalid_results(method: str, revision: Revision) -> list[tuple[Path, JsonValue]]:
    """Return results with one invalid member each, and its path."""
    whole = valid_result(method, revision)
    assert validator(method, revision).is_valid(whole)
    candidates: list[tuple[Path, JsonValue]] = []
    for path in paths(whole):
        without = with_change(whole, path)
        candidates.append((path, without))
        # Where a member is optional, many servers write null, which counts as missing.
        optional = validator(method, revision).is_valid(without)
        kinds = [kind for kind in KINDS if kind is not None or not optional]
        candidates.extend((path, with_change(whole, path, kind)) for kind in kinds)
    return [(path, result) for path, result in candidates if not validator(method, revision).is_valid(result)]


class Server:
    """A server that responds with the value in `next`, once, and with valid results otherwise."""

    def __init__(self, revision: Revision) -> None:
        self.revision: Final = revision
        self.next: JsonValue = None
        self.answers: list[JsonObject] = []
        self.answered: Final = trio.Event()
        self.peer: ScriptedPeer | None = None

    async def follow(self, peer: ScriptedPeer) -> None:
        self.peer = peer
        if self.revision.result_type:
            await peer.discover(**CAPABILITIES)
        else:
            await peer.initialize(self.revision.name, **CAPABILITIES)
        while True:
            line = await peer.receive_line()
            if line is None:
                return
            request: JsonObject = json.loads(line)
            if "id" not in request:
                continue
            if "method" not in request:
                self.answers.append(request)
                self.answered.set()
                continue
            result = self.next if self.next is not None else valid_result(str(request["method"]), self.revision)
            self.next = None
            await peer.answer(request, result)


@asynccontextmanager
async def connected(revision: Revision, handlers: Handlers | None = None) -> AsyncIterator[tuple[Client, Server]]:
    server = Server(revision)
    options = Handlers() if handlers is None else handlers
    async with open_in_memory(
        scripted(server.follow), revisions=[revision], handlers=options, options=ClientOptions(cache=False)
    ) as client:
        yield client, server


async def failure_of(call: Awaitable[object]) -> McpError | None:
    """Return the typed error that a call ends with, or None; any other error fails the test."""
    try:
        await call
    except McpError as error:
        return error
    return None


async def assert_usable(client: Client) -> None:
    """Check that the connection can still be used."""
    assert (await client.get_prompt("p")).description == "x"


@BOTH
@pytest.mark.parametrize("method", VALID_RESULTS)
async def test_result_invalid_member_raises_or_is_tolerated(
    method: str, revision: Revision, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")
    errors = 0
    invalid = invalid_results(method, revision)
    async with connected(revision) as (client, server):
        await CALLS[method](client)
        for path, result in invalid:
            server.next = result
            caplog.clear()
            error = await failure_of(CALLS[method](client))
            if error is None:
                # A tolerated deviation: the valid entries of a list stay usable.
                assert "deviation tolerated" in caplog.text, (path, result)
            else:
                errors += 1
                assert isinstance(error, RemoteProtocolError), (path, result, error)
                text = str(error)
                assert any(key in text for key in path if isinstance(key, str)), (path, text)
                assert method in text, text
            await assert_usable(client)
    assert len(invalid) > 20
    assert errors > 5


@BOTH
@pytest.mark.parametrize("result", [5, "x", [], True, 1.5], ids=repr)
async def test_result_not_object_raises(
    result: JsonValue, revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with connected(revision) as (client, server):
        for method, call in CALLS.items():
            server.next = result
            with pytest.raises(RemoteProtocolError) as caught:
                await call(client)
            assert method in str(caught.value)
            await assert_usable(client)


# --- the application -------------------------------------------------------------------------------------------------

FORM: Final[JsonObject] = {
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
MESSAGES: Final[JsonObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 5,
}

CLIENT_REQUESTS: Final[dict[str, JsonObject]] = {
    "elicitation/create": FORM,
    "sampling/createMessage": MESSAGES,
    "roots/list": {},
}

_TEXT: Final = t.TextContent(text="hi")

INVALID_HANDLER_RESULTS: Final[dict[str, tuple[object, ...]]] = {
    "elicitation/create": (
        *(None, 5, "accept", [], object(), _TEXT),
        t.ElicitResult(action="accept"),
        t.ElicitResult(action="accept", content={"n": "x"}),
        t.ElicitResult(action="accept", content={"m": 1}),
        t.ElicitResult(action="maybe"),  # type: ignore[arg-type]  # an invalid value
        {"action": "accept"},
        {"content": 5},
        {},
        ValueError("secret"),
    ),
    "sampling/createMessage": (
        *(None, 5, "hi", [], object(), _TEXT),
        t.CreateMessageResult(role="system", content=_TEXT, model="m"),  # type: ignore[arg-type]  # likewise
        t.CreateMessageResult(role="assistant", content=5, model="m"),  # type: ignore[arg-type]  # likewise
        t.CreateMessageResult(role="assistant", content=_TEXT, model=5),  # type: ignore[arg-type]  # likewise
        t.CreateMessageResult(role="assistant", content=t.TextContent(text="\ud800"), model="m"),
        {"role": "assistant"},
        {},
        ValueError("secret"),
    ),
    "roots/list": (
        *(None, 5, [5], ["file:///x"], object()),
        [t.Root(uri="https://example.com")],
        [t.Root(uri=5)],  # type: ignore[arg-type]  # likewise
        [t.Root(uri="file:///a/../b")],
        [t.Root(uri="file:///a", name=5)],  # type: ignore[arg-type]  # likewise
        ValueError("secret"),
    ),
}


def handlers_returning(method: str, result: object) -> Handlers:
    """Return handlers that all return the same invalid result."""

    async def return_result(*_: object) -> object:
        if isinstance(result, Exception):
            raise result
        return result

    return Handlers(elicit=return_result, sample=return_result, roots=return_result)  # type: ignore[arg-type]  # likewise


@pytest.mark.parametrize("method", INVALID_HANDLER_RESULTS)
async def test_handler_invalid_result_returns_error(
    method: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for result in INVALID_HANDLER_RESULTS[method]:
        async with connected(R2025_11_25, handlers_returning(method, result)) as (client, server):
            caplog.clear()
            assert server.peer is not None
            await server.peer.send({"jsonrpc": "2.0", "id": "q", "method": method, "params": CLIENT_REQUESTS[method]})
            await server.answered.wait()
            (reply,) = server.answers
            assert reply["error"] == {"code": -32603, "message": "Internal error"}, (result, reply)
            assert method in caplog.text, (result, caplog.text)
            await assert_usable(client)


def invalid_client_requests() -> Iterator[tuple[str, JsonValue]]:
    """Yield client requests with invalid params."""
    kinds: tuple[JsonValue, ...] = (5, "x", [5], {"a": []})
    for method, params in CLIENT_REQUESTS.items():
        for path in paths(params):
            yield from ((method, with_change(params, path, kind)) for kind in kinds)
        yield from ((method, kind) for kind in kinds[:3])


@BOTH
async def test_client_request_invalid_connection_stays_usable(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async def elicit(_: t.ElicitRequestFormParams) -> t.ElicitResult:
        return t.ElicitResult(action="decline")

    async def sample(_: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        return t.CreateMessageResult(role="assistant", content=_TEXT, model="m")

    client_requests = list(invalid_client_requests())
    async with connected(revision, Handlers(elicit=elicit, sample=sample, roots=())) as (client, server):
        assert server.peer is not None
        for number, (method, params) in enumerate(client_requests):
            if revision.server_requests:
                await server.peer.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                await assert_usable(client)
                continue
            input_request: JsonObject = {"method": method, "params": params}
            server.next = {"resultType": "input_required", "inputRequests": {"q": input_request}, "requestState": "s"}
            error = await failure_of(client.call_tool("dice"))
            assert error is None or "tools/call" in str(error)
            await assert_usable(client)
        await trio.testing.wait_all_tasks_blocked()
        # Each request has exactly one response.
        expected = set(range(len(client_requests))) if revision.server_requests else set()
        assert {answer["id"] for answer in server.answers} == expected
        assert len(server.answers) == len(expected)
    assert len(client_requests) > 30


INVALID_HANDLERS: Final[dict[str, Callable[[], object]]] = {
    "a root elsewhere": lambda: Handlers(roots=[t.Root(uri="https://example.com")]),
    "a root that is a string": lambda: Handlers(roots=["file:///x"]),  # type: ignore[list-item]  # likewise
    "an extension without a name": lambda: Handlers(extensions={"x": {}}),
    "a method of the specification": lambda: Handlers(methods=dict.fromkeys(methods(R2025_11_25).values(), _nothing)),
}


async def _nothing(_: object) -> JsonObject:
    return {}


@pytest.mark.parametrize("case", INVALID_HANDLERS)
def test_handlers_invalid_rejected(case: str) -> None:
    with pytest.raises(LocalProtocolError):
        INVALID_HANDLERS[case]()


ARGUMENTS: Final[dict[str, Callable[[Client], Awaitable[object]]]] = {
    "a tool that is a number": lambda client: client.call_tool(5),  # type: ignore[call-overload]  # likewise
    "arguments in a list": lambda client: client.call_tool("dice", [1]),  # type: ignore[call-overload]  # likewise
    "arguments without names": lambda client: client.call_tool("dice", {5: 1}),  # type: ignore[dict-item]  # likewise
    "arguments of objects": lambda client: client.call_tool("dice", {"a": object()}),  # type: ignore[dict-item]  # likewise
    "arguments with a NaN": lambda client: client.call_tool("dice", {"a": float("nan")}),
    "arguments with a lone surrogate": lambda client: client.call_tool("dice", {"a": "\ud800"}),
    "a URI that is a number": lambda client: client.read_resource(5),  # type: ignore[arg-type]  # likewise
    "a prompt name of None": lambda client: client.get_prompt(None),  # type: ignore[arg-type]  # likewise
    "arguments of a prompt that are numbers": lambda client: client.get_prompt("p", {"a": 5}),  # type: ignore[dict-item]  # likewise
    "a completion of nothing": lambda client: client.complete(5, "a", "x"),  # type: ignore[arg-type]  # likewise
    "a completion by a number": lambda client: client.complete(t.PromptReference(name="p"), "a", 5),  # type: ignore[arg-type]  # likewise
    "no log level": lambda client: client.set_log_level("loud"),  # type: ignore[arg-type]  # likewise
}


@BOTH
@pytest.mark.parametrize("case", ARGUMENTS)
async def test_request_invalid_arguments_rejected(
    case: str, revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with connected(revision) as (client, _):
        with pytest.raises(LocalProtocolError):
            await ARGUMENTS[case](client)
        await assert_usable(client)
