"""Asking the client by hand: a function returns its questions."""

from __future__ import annotations

from typing import Annotated

import pytest
import trio
from raw_client import RawClient, as_object, connected

from mcp_client import Client, Handlers
from mcp_client.testing import open_in_memory
from mcp_core.errors import RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import LEGACY, R2026_07_28, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsRequestParams,
    ListRootsResult,
    RequestedSchema,
    Root,
    SamplingMessage,
    StringSchema,
    TextContent,
)
from mcp_server import Context, Depends, InputPolicy, InputRequired, Question, Server, serve_stream

BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)

NAME = ElicitRequestFormParams(
    message="Who?", requested_schema=RequestedSchema(properties={"name": StringSchema()}, required=("name",))
)
MODEL = CreateMessageRequestParams(
    messages=(SamplingMessage(role="user", content=TextContent(text="Greet them")),), max_tokens=10
)
ROOTS = ListRootsRequestParams()


async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")


HANDLERS = Handlers(elicit=elicit, sample=sample, roots=(Root(uri="file:///"),))


async def said(server: Server, revision: Revision, **arguments: str) -> str:
    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=HANDLERS
    ) as client:
        return await text_of(client, "ask", **arguments)


async def text_of(client: Client, tool: str, **arguments: str) -> str:
    result = await client.call_tool(tool, arguments)
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def provide() -> str:
    return "provided"


@BOTH
async def test_a_function_is_called_again_with_the_answers_once(revision: Revision) -> None:
    server = Server("by hand", version="1")
    calls: list[tuple[list[str], object]] = []

    @server.tool
    async def ask(greeting: str, context: Context, word: Annotated[str, Depends(provide)]) -> str | InputRequired:
        calls.append((sorted(context.answers), context.round_state))
        if "name" not in context.answers:
            return InputRequired({"name": NAME, "roots": ROOTS}, state={"step": 1})
        if "model" not in context.answers:
            return InputRequired({"model": MODEL}, state=[2, None])
        who, roots, model = (context.answers[key] for key in ("name", "roots", "model"))
        assert isinstance(who, ElicitResult)
        assert isinstance(roots, ListRootsResult)
        assert isinstance(model, CreateMessageResult)
        return f"{greeting} {who.content} {len(roots.roots)} {model.model} {word}"

    assert await said(server, revision, greeting="Hi") == "Hi {'name': 'Ada'} 1 m provided"
    assert calls == [([], None), (["name", "roots"], {"step": 1}), (["model", "name", "roots"], [2, None])]
    (tool,) = server.offered()["tools"]
    assert "InputRequired" not in repr(tool)


@BOTH
async def test_prompts_and_resources_and_plain_functions_ask_as_well(revision: Revision) -> None:
    server = Server("by hand", version="1")

    @server.prompt
    def greet(context: Context) -> str | InputRequired:
        answer = context.answers.get("name")
        return InputRequired({"name": NAME}) if answer is None else f"prompt for {answer!r}"

    @server.resource("memo://{who}")
    def memo(who: str, context: Context) -> str | InputRequired:
        answer = context.answers.get("name")
        return InputRequired({"name": NAME}) if answer is None else f"memo of {who} for {answer!r}"

    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=HANDLERS
    ) as client:
        assert "prompt for ElicitResult" in repr(await client.get_prompt("greet"))
        assert "memo of me for ElicitResult" in repr(await client.read_resource("memo://me"))


@BOTH
async def test_it_goes_together_with_waiting(revision: Revision) -> None:
    server = Server("by hand", version="1")

    @server.tool
    async def ask(context: Context) -> str | InputRequired:
        if "name" not in context.answers:
            return InputRequired({"name": NAME})
        return f"{len(await context.list_roots())} {sorted(context.answers)}"

    assert await said(server, revision) == "1 ['name']"


@BOTH
async def test_who_asks_for_ever_is_stopped(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    server = Server("by hand", version="1", input_policy=InputPolicy(rounds=3))

    @server.tool
    async def ask() -> InputRequired:
        return InputRequired({"roots": ROOTS})

    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=HANDLERS
    ) as client:
        with pytest.raises(RequestFailed, match=r"InputRequired too often|round trips of one request"):
            await client.call_tool("ask")
        assert [tool.name for tool in await client.list_tools()] == ["ask"]


@BOTH
@pytest.mark.parametrize(
    ("required", "culprit"),
    [
        (InputRequired({"name": "Who?"}), "is not an input request"),  # type: ignore[dict-item]  # what is refused
        (InputRequired({"name": NAME}, state={1, 2}), "the state of an InputRequired is not JSON"),  # type: ignore[arg-type]  # what is refused
    ],
)
async def test_what_cannot_be_asked_fails_the_call_alone(
    revision: Revision, required: InputRequired, culprit: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("by hand", version="1")

    @server.tool
    async def ask() -> InputRequired:
        return required

    assert "The tool ask failed" in await said(server, revision)
    assert culprit in caplog.text


async def one_round(client: RawClient, params: JsonObject) -> JsonObject:
    """The result of one request, whatever it asks."""
    return as_object((await client.response(await client.start("tools/call", params)))["result"])


async def test_a_question_without_an_answer_is_left_to_the_function() -> None:
    server = Server("by hand", version="1")
    seen: list[list[str]] = []

    @server.tool
    async def ask(context: Context) -> str | InputRequired:
        seen.append(sorted(context.answers))
        questions: dict[str, Question] = {"name": NAME, "roots": ROOTS}
        missing = {key: question for key, question in questions.items() if key not in context.answers}
        return InputRequired(missing) if missing else "done"

    async with connected(server, R2026_07_28, capabilities={"elicitation": {}, "roots": {}}) as client:
        first = await one_round(client, {"name": "ask"})
        answer: JsonObject = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        params: JsonObject = {"name": "ask", "inputResponses": answer, "requestState": first["requestState"]}
        second = await one_round(client, params)
        assert list(as_object(second["inputRequests"])) == ["roots"]
        params = {"name": "ask", "inputResponses": {"roots": {"roots": []}}, "requestState": second["requestState"]}
        third = await one_round(client, params)
        assert third["content"] == [{"type": "text", "text": "done"}]
    assert seen == [[], ["name"], ["name", "roots"]]
