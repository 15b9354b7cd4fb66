"""Wrong results of servers, wrong questions, and wrong answers of the application, on the client's side.

The wrong results are made of right ones: each member in turn is left out, or becomes each kind of JSON, and the schema
that follows from our types says which of these are wrong. A wrong one gives a typed error that names the member or the
method, and the next call is answered.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Final, TypeAlias

import attrs
import jsonschema_rs
import pytest
import trio

from mcp_client import Client, Handlers
from mcp_client.testing import ScriptedPeer, open_in_memory, scripted
from mcp_core import types as t
from mcp_core.errors import LocalProtocolError, McpError, RemoteProtocolError
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import methods
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_core.schema import schema_of, schemas

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

RIGHT: Final[dict[str, JsonObject]] = {
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": BLOCKS, "isError": False, "structuredContent": {"a": 1}},
    "resources/list": {"resources": [RESOURCE]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{b}", "name": "b", "title": "B"}]},
    "resources/read": {"contents": [{"uri": "a://b", "text": "x", "mimeType": "x/y"}, {"uri": "a://c", "blob": "AAAA"}]},
    "prompts/list": {
        "prompts": [{"name": "p", "title": "P", "arguments": [{"name": "a", "description": "x", "required": True}]}]
    },
    "prompts/get": {"description": "x", "messages": [{"role": "user", "content": BLOCKS[0]}]},
    "completion/complete": {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
}
"""A right result of each method."""

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


def right(method: str, revision: Revision) -> JsonObject:
    """A right result in a revision."""
    result = dict(RIGHT[method])
    if revision.result_type:
        result["resultType"] = "complete"
        if revision in methods(revision)[method].cacheable:
            result |= {"ttlMs": 0, "cacheScope": "private"}
    return result


def paths(value: JsonValue, below: Path = ()) -> Iterator[Path]:
    """Where there is something in a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*below, key)
        yield from paths(inner, (*below, key))


def changed(value: JsonValue, path: Path, *new: JsonValue) -> JsonValue:
    """The same, with something else at a place; with nothing there if nothing is given."""
    key, *rest = path
    if isinstance(value, dict):
        assert isinstance(key, str)
        copy = dict(value)
        if rest:
            copy[key] = changed(value[key], tuple(rest), *new)
        elif new:
            copy[key] = new[0]
        else:
            del copy[key]
        return copy
    assert isinstance(value, list)
    assert isinstance(key, int)
    inner = [changed(value[key], tuple(rest), *new)] if rest else list(new)
    return [*value[:key], *inner, *value[key + 1 :]]


@cache
def validator(method: str, revision: Revision) -> jsonschema_rs.Validator:
    """What says whether a result is right."""
    result = methods(revision)[method].result
    assert isinstance(result, type)
    assert issubclass(result, t.WireObject)
    return jsonschema_rs.validator_for({**schemas(revision), **schema_of(result, revision)})


def wrong_results(method: str, revision: Revision) -> list[tuple[Path, JsonValue]]:
    """Results with one wrong member, and which."""
    whole = right(method, revision)
    assert validator(method, revision).is_valid(whole)
    candidates: list[tuple[Path, JsonValue]] = []
    for path in paths(whole):
        candidates.append((path, changed(whole, path)))
        candidates.extend((path, changed(whole, path, kind)) for kind in KINDS)
    return [(path, result) for path, result in candidates if not validator(method, revision).is_valid(result)]


class Server:
    """A server that answers what it is told to."""

    def __init__(self, revision: Revision) -> None:
        self.revision: Final = revision
        self.next: JsonValue = None

    async def follow(self, peer: ScriptedPeer) -> None:
        if self.revision.result_type:
            await peer.discover(**CAPABILITIES)
        else:
            await peer.initialize(self.revision.name, **CAPABILITIES)
        while True:
            line = await peer.receive_line()
            if line is None:
                return
            request = attrs.asdict(_Line.of(line))["message"]
            if "id" not in request:
                continue
            result = self.next if self.next is not None else right(str(request["method"]), self.revision)
            self.next = None
            await peer.answer(request, result)


@attrs.frozen
class _Line:
    message: JsonObject

    @classmethod
    def of(cls, line: bytes) -> _Line:
        import json

        return cls(json.loads(line))


@asynccontextmanager
async def joined(revision: Revision, handlers: Handlers | None = None) -> AsyncIterator[tuple[Client, Server]]:
    server = Server(revision)
    options = Handlers() if handlers is None else handlers
    async with open_in_memory(scripted(server.follow), revisions=[revision], handlers=options, cache=False) as client:
        yield client, server


async def alive(client: Client) -> None:
    """What has to be possible whatever came before."""
    assert (await client.get_prompt("p")).description == "x"


@BOTH
@pytest.mark.parametrize("method", RIGHT)
async def test_a_result_with_a_wrong_member_is_an_error_that_names_it_or_is_survived_with_a_note(
    method: str, revision: Revision, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")
    refused = 0
    wrong = wrong_results(method, revision)
    async with joined(revision) as (client, server):
        await CALLS[method](client)
        for path, result in wrong:
            server.next = result
            caplog.clear()
            try:
                await CALLS[method](client)
            except McpError as error:
                refused += 1
                names = [str(key) for key in path if isinstance(key, str)]
                text = str(error)
                assert isinstance(error, RemoteProtocolError), (path, result, error)
                assert any(name in text for name in names), (path, text)
                assert method in text, text
            else:
                # A mistake that can be made up for: of a list the rest can be used, without the one that is wrong.
                assert "survived" in caplog.text, (path, result)
            await alive(client)
    assert len(wrong) > 20
    assert refused > 5


@BOTH
@pytest.mark.parametrize("result", [5, "x", [], True, 1.5], ids=repr)
async def test_a_result_that_is_no_object_is_an_error(
    result: JsonValue, revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with joined(revision) as (client, server):
        for method, call in CALLS.items():
            server.next = result
            with pytest.raises(RemoteProtocolError) as caught:
                await call(client)
            assert method in str(caught.value)
            await alive(client)
