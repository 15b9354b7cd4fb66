"""Wrong results of servers, wrong questions, and wrong answers of the application, on the client's side.

The wrong results are made of right ones: each member in turn is left out, or becomes each kind of JSON, and the schema
that follows from our types says which of these are wrong. A wrong one gives a typed error that names the member or the
method, and the next call is answered.
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

from mcp_client import Client, Handlers
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

RIGHT: Final[dict[str, JsonObject]] = {
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
        without = changed(whole, path)
        candidates.append((path, without))
        # Where a member may be missing, many servers write null, which is taken for that.
        optional = validator(method, revision).is_valid(without)
        kinds = [kind for kind in KINDS if kind is not None or not optional]
        candidates.extend((path, changed(whole, path, kind)) for kind in kinds)
    return [(path, result) for path, result in candidates if not validator(method, revision).is_valid(result)]


class Server:
    """A server that answers what it is told to."""

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
            result = self.next if self.next is not None else right(str(request["method"]), self.revision)
            self.next = None
            await peer.answer(request, result)


@asynccontextmanager
async def joined(revision: Revision, handlers: Handlers | None = None) -> AsyncIterator[tuple[Client, Server]]:
    server = Server(revision)
    options = Handlers() if handlers is None else handlers
    async with open_in_memory(scripted(server.follow), revisions=[revision], handlers=options, cache=False) as client:
        yield client, server


async def failure_of(call: Awaitable[object]) -> McpError | None:
    """The error that a call ends with, if it does; any that is not typed fails the test."""
    try:
        await call
    except McpError as error:
        return error
    return None


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
            error = await failure_of(CALLS[method](client))
            if error is None:
                # A mistake that can be made up for: of a list the rest can be used, without the one that is wrong.
                assert "deviation tolerated" in caplog.text, (path, result)
            else:
                refused += 1
                assert isinstance(error, RemoteProtocolError), (path, result, error)
                text = str(error)
                assert any(key in text for key in path if isinstance(key, str)), (path, text)
                assert method in text, text
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


# --- the application -------------------------------------------------------------------------------------------------

FORM: Final[JsonObject] = {
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
MESSAGES: Final[JsonObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 5,
}

QUESTIONS: Final[dict[str, JsonObject]] = {
    "elicitation/create": FORM,
    "sampling/createMessage": MESSAGES,
    "roots/list": {},
}

_TEXT: Final = t.TextContent(text="hi")

WRONG_ANSWERS: Final[dict[str, tuple[object, ...]]] = {
    "elicitation/create": (
        *(None, 5, "accept", [], object(), _TEXT),
        t.ElicitResult(action="accept"),
        t.ElicitResult(action="accept", content={"n": "x"}),
        t.ElicitResult(action="accept", content={"m": 1}),
        t.ElicitResult(action="maybe"),  # type: ignore[arg-type]  # wrong on purpose
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


def application(method: str, answer: object) -> Handlers:
    """One that answers everything wrong."""

    async def give(*_: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Handlers(elicit=give, sample=give, roots=give)  # type: ignore[arg-type]  # likewise


@pytest.mark.parametrize("method", WRONG_ANSWERS)
async def test_a_wrong_answer_of_the_application_is_an_error_of_that_question_alone(
    method: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for answer in WRONG_ANSWERS[method]:
        async with joined(R2025_11_25, application(method, answer)) as (client, server):
            caplog.clear()
            assert server.peer is not None
            await server.peer.send({"jsonrpc": "2.0", "id": "q", "method": method, "params": QUESTIONS[method]})
            await server.answered.wait()
            (told,) = server.answers
            assert told["error"] == {"code": -32603, "message": "Internal error"}, (answer, told)
            assert method in caplog.text, (answer, caplog.text)
            await alive(client)


def wrong_questions() -> Iterator[tuple[str, JsonValue]]:
    """Parameters that no question has."""
    kinds: tuple[JsonValue, ...] = (5, "x", [5], {"a": []})
    for method, params in QUESTIONS.items():
        for path in paths(params):
            yield from ((method, changed(params, path, kind)) for kind in kinds)
        yield from ((method, kind) for kind in kinds[:3])


@BOTH
async def test_a_wrong_question_of_a_server_does_no_harm(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async def elicit(_: t.ElicitRequestFormParams) -> t.ElicitResult:
        return t.ElicitResult(action="decline")

    async def sample(_: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        return t.CreateMessageResult(role="assistant", content=_TEXT, model="m")

    asked = list(wrong_questions())
    async with joined(revision, Handlers(elicit=elicit, sample=sample, roots=())) as (client, server):
        assert server.peer is not None
        for number, (method, params) in enumerate(asked):
            if revision.server_requests:
                await server.peer.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                await alive(client)
                continue
            question: JsonObject = {"method": method, "params": params}
            server.next = {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"}
            error = await failure_of(client.call_tool("dice"))
            assert error is None or "tools/call" in str(error)
            await alive(client)
        await trio.testing.wait_all_tasks_blocked()
        # Each was answered, and once.
        expected = set(range(len(asked))) if revision.server_requests else set()
        assert {answer["id"] for answer in server.answers} == expected
        assert len(server.answers) == len(expected)
    assert len(asked) > 30


WRONG_HANDLERS: Final[dict[str, Callable[[], object]]] = {
    "a root elsewhere": lambda: Handlers(roots=[t.Root(uri="https://example.com")]),
    "a root that is a text": lambda: Handlers(roots=["file:///x"]),  # type: ignore[list-item]  # likewise
    "an extension without a name": lambda: Handlers(extensions={"x": {}}),
    "a method of the specification": lambda: Handlers(methods=dict.fromkeys(methods(R2025_11_25).values(), _nothing)),
}


async def _nothing(_: object) -> JsonObject:
    return {}


@pytest.mark.parametrize("what", WRONG_HANDLERS)
def test_wrong_handlers_are_refused_where_they_are_given(what: str) -> None:
    with pytest.raises(LocalProtocolError):
        WRONG_HANDLERS[what]()


ARGUMENTS: Final[dict[str, Callable[[Client], Awaitable[object]]]] = {
    "a tool that is a number": lambda client: client.call_tool(5),  # type: ignore[arg-type]  # likewise
    "arguments in a list": lambda client: client.call_tool("dice", [1]),  # type: ignore[arg-type]  # likewise
    "arguments without names": lambda client: client.call_tool("dice", {5: 1}),  # type: ignore[dict-item]  # likewise
    "arguments of objects": lambda client: client.call_tool("dice", {"a": object()}),  # type: ignore[dict-item]  # likewise
    "arguments with a NaN": lambda client: client.call_tool("dice", {"a": float("nan")}),
    "arguments with half of a pair": lambda client: client.call_tool("dice", {"a": "\ud800"}),
    "a URI that is a number": lambda client: client.read_resource(5),  # type: ignore[arg-type]  # likewise
    "a prompt that is None": lambda client: client.get_prompt(None),  # type: ignore[arg-type]  # likewise
    "arguments of a prompt that are numbers": lambda client: client.get_prompt("p", {"a": 5}),  # type: ignore[dict-item]  # likewise
    "a completion of nothing": lambda client: client.complete(5, "a", "x"),  # type: ignore[arg-type]  # likewise
    "a completion by a number": lambda client: client.complete(t.PromptReference(name="p"), "a", 5),  # type: ignore[arg-type]  # likewise
    "no log level": lambda client: client.set_log_level("loud"),  # type: ignore[arg-type]  # likewise
}


@BOTH
@pytest.mark.parametrize("what", ARGUMENTS)
async def test_what_cannot_be_asked_is_refused_before_it_is_sent(
    what: str, revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with joined(revision) as (client, _):
        with pytest.raises(LocalProtocolError):
            await ARGUMENTS[what](client)
        await alive(client)
