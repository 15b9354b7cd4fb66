"""`InputRequired` as a return value of handlers."""

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
from mcp_server import Context, Depends, InputPolicy, InputRequired, Server, SyncContext, serve_stream
from mcp_server.handlers import ClientRequestParams

BOTH_REVISIONS = pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)

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


async def run_ask(server: Server, revision: Revision, **arguments: str) -> str:
    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=HANDLERS
    ) as client:
        return await text_of(client, "ask", **arguments)


async def text_of(client: Client, tool: str, **arguments: str) -> str:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def provide() -> str:
    return "provided"


@BOTH_REVISIONS
async def test_input_required_function_is_called_again_with_responses(revision: Revision) -> None:
    server = Server("by hand", version="1")
    calls: list[tuple[list[str], object]] = []

    @server.tool
    async def ask(greeting: str, context: Context, word: Annotated[str, Depends(provide)]) -> str | InputRequired:
        calls.append((sorted(context.answers), context.retry_state))
        if "name" not in context.answers:
            return InputRequired({"name": NAME, "roots": ROOTS}, state={"step": 1})
        if "model" not in context.answers:
            return InputRequired({"model": MODEL}, state=[2, None])
        elicited, roots, model = (context.answers[key] for key in ("name", "roots", "model"))
        assert isinstance(elicited, ElicitResult)
        assert isinstance(roots, ListRootsResult)
        assert isinstance(model, CreateMessageResult)
        return f"{greeting} {elicited.content} {len(roots.roots)} {model.model} {word}"

    assert await run_ask(server, revision, greeting="Hi") == "Hi {'name': 'Ada'} 1 m provided"
    assert calls == [([], None), (["name", "roots"], {"step": 1}), (["model", "name", "roots"], [2, None])]
    (tool,) = server.offered()["tools"]
    assert "InputRequired" not in repr(tool)


@BOTH_REVISIONS
async def test_input_required_from_prompt_and_resource(revision: Revision) -> None:
    server = Server("by hand", version="1")

    @server.prompt
    def greet(context: SyncContext) -> str | InputRequired:
        answer = context.answers.get("name")
        return InputRequired({"name": NAME}) if answer is None else f"prompt for {answer!r}"

    @server.resource("memo://{owner}")
    def memo(owner: str, context: SyncContext) -> str | InputRequired:
        answer = context.answers.get("name")
        return InputRequired({"name": NAME}) if answer is None else f"memo of {owner} for {answer!r}"

    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=HANDLERS
    ) as client:
        assert "prompt for ElicitResult" in repr(await client.get_prompt("greet"))
        assert "memo of me for ElicitResult" in repr(await client.read_resource("memo://me"))


@BOTH_REVISIONS
async def test_input_required_with_context_client_request(revision: Revision) -> None:
    server = Server("by hand", version="1")

    @server.tool
    async def ask(context: Context) -> str | InputRequired:
        if "name" not in context.answers:
            return InputRequired({"name": NAME})
        return f"{len(await context.list_roots())} {sorted(context.answers)}"

    assert await run_ask(server, revision) == "1 ['name']"


@BOTH_REVISIONS
async def test_input_required_without_end_fails(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    server = Server("by hand", version="1", input_policy=InputPolicy(round_trips=3))

    @server.tool
    async def ask() -> InputRequired:
        return InputRequired({"roots": ROOTS})

    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=HANDLERS
    ) as client:
        with pytest.raises(RequestFailed, match=r"InputRequired too often|round trips of one request"):
            await client.call_tool("ask")
        assert [tool.name for tool in await client.list_tools()] == ["ask"]


@BOTH_REVISIONS
@pytest.mark.parametrize(
    ("required", "message"),
    [
        (InputRequired({"name": "Who?"}), "is not an input request"),  # type: ignore[dict-item]  # the tested mistake
        (InputRequired({"name": NAME}, state={1, 2}), "the state of an InputRequired is not JSON"),  # type: ignore[arg-type]  # the tested mistake
    ],
)
async def test_input_required_invalid_fails_call(
    revision: Revision, required: InputRequired, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("by hand", version="1")

    @server.tool
    async def ask() -> InputRequired:
        return required

    assert "The tool ask failed" in await run_ask(server, revision)
    assert message in caplog.text


async def send_once(client: RawClient, params: JsonObject) -> JsonObject:
    """Send a request and return its result, also an `InputRequiredResult`."""
    return as_object((await client.response(await client.start("tools/call", params)))["result"])


@BOTH_REVISIONS
async def test_input_required_with_undeclared_capability_sends_nothing(revision: Revision) -> None:
    server = Server("by hand", version="1")
    sampled: list[CreateMessageRequestParams] = []

    async def note(params: CreateMessageRequestParams) -> CreateMessageResult:
        sampled.append(params)
        return await sample(params)

    @server.tool
    async def ask() -> str | InputRequired:
        return InputRequired({"model": MODEL, "roots": ROOTS, "name": NAME})

    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=Handlers(sample=note, roots=(Root(uri="file:///"),)),
    ) as client:
        # Concurrent tasks run in random order.
        for _ in range(8):
            with pytest.raises(RequestFailed, match="client capability that was not declared: elicitation"):
                await client.call_tool("ask")
    assert sampled == []


async def test_unanswered_input_request_is_requested_again() -> None:
    server = Server("by hand", version="1")
    answered: list[list[str]] = []

    @server.tool
    async def ask(context: Context) -> str | InputRequired:
        answered.append(sorted(context.answers))
        input_requests: dict[str, ClientRequestParams] = {"name": NAME, "roots": ROOTS}
        missing = {key: input_request for key, input_request in input_requests.items() if key not in context.answers}
        return InputRequired(missing) if missing else "done"

    async with connected(server, R2026_07_28, capabilities={"elicitation": {}, "roots": {}}) as client:
        first = await send_once(client, {"name": "ask"})
        answer: JsonObject = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        params: JsonObject = {"name": "ask", "inputResponses": answer, "requestState": first["requestState"]}
        second = await send_once(client, params)
        assert list(as_object(second["inputRequests"])) == ["roots"]
        params = {"name": "ask", "inputResponses": {"roots": {"roots": []}}, "requestState": second["requestState"]}
        third = await send_once(client, params)
        assert third["content"] == [{"type": "text", "text": "done"}]
    assert answered == [[], ["name"], ["name", "roots"]]
