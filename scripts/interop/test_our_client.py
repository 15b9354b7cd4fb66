"""Tests of this project's client with a server of the official SDK, over each transport, in each common revision."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
import trio

from mcp_client import ChangeKind, Client, Connector, Handlers, ToolResult, open_http, open_stdio
from mcp_core.errors import RequestFailed
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    PromptReference,
    Root,
    TextContent,
    TextResourceContents,
)

SERVER = [sys.executable, str(Path(__file__).parent / "official_server.py")]


async def paint_it_red(params: ElicitRequestFormParams) -> ElicitResult:
    """Answer red."""
    return ElicitResult(action="accept", content={"color": "red"})


async def say_hello(params: CreateMessageRequestParams) -> CreateMessageResult:
    """Answer with a greeting."""
    return CreateMessageResult(role="assistant", model="none", content=TextContent(text="hello"))


HANDLERS = Handlers(elicit=paint_it_red, sample=say_hello, roots=[Root(uri="file:///tmp", name="tmp")])


def text(result: ToolResult[object]) -> str:
    """Return the text of a result."""
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


class Open(Protocol):
    """A function that opens a client of the server."""

    def __call__(self, *, revisions: Sequence[Revision] = ..., handlers: Handlers = ...) -> Connector: ...


# The official SDK's HTTP+SSE endpoint accepts every handshake, and does not support 2026-07-28.
WAYS = ["stdio", "http", "sse"]
EVERYWHERE = [(way, name) for way in WAYS for name in REVISIONS if way != "sse" or name != "2026-07-28"]
# With JSON responses it sends no progress and no client requests; other features work.
PLAIN = [*WAYS, "http-json"]


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    """The transport: `stdio` by default."""
    return str(getattr(request, "param", "stdio"))


@pytest.fixture
def opening(way: str) -> Iterator[Open]:
    """Opens clients of a server, which runs for the duration of the test over HTTP, or of the client over stdio."""
    if way == "stdio":
        yield partial(open_stdio, SERVER)
        return
    process = subprocess.Popen([*SERVER, way], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/{'sse' if way == 'sse' else 'mcp'}"
        yield partial(open_http, url)
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@pytest.mark.parametrize(("way", "name"), EVERYWHERE, indirect=["way"])
async def test_features_of_revision_work(opening: Open, name: str) -> None:
    revision = REVISIONS[name]
    with trio.fail_after(60):
        async with opening(revisions=[revision], handlers=HANDLERS) as client:
            assert client.revision is revision
            await _tools(client)
            await _resources(client)
            await _client_requests(client)


async def _tools(client: Client) -> None:
    tools = {tool.name for tool in await client.list_tools()}
    assert {"echo", "forecast", "steps"} <= tools
    assert text(await client.call_tool("echo", {"text": "grüß dich \u2028"})) == "grüß dich \u2028"
    forecast = await client.call_tool("forecast", {"city": "Ghent"})
    assert "21.5" in text(forecast)
    assert (await client.call_tool("fail", raise_on_error=False)).is_error
    seen: list[float] = []

    def show(progress: float, *_: object) -> None:
        seen.append(progress)

    assert text(await client.call_tool("steps", {"count": 3}, on_progress=show)) == "3 steps"
    assert seen[-1] == 3


async def _resources(client: Client) -> None:
    assert [resource.uri for resource in await client.list_resources()] == ["note://one"]
    assert [each.uri_template for each in await client.list_resource_templates()] == ["note://by-name/{name}"]
    read = (await client.read_resource("note://by-name/two")).contents[0]
    assert isinstance(read, TextResourceContents)
    assert read.text == "the note two"
    with pytest.raises(RequestFailed):
        await client.read_resource("note://nowhere/at/all")
    prompt = await client.get_prompt("greet", {"name": "Ada"})
    assert prompt.messages[0].content == TextContent(text="Hello Ada")
    completion = await client.complete(PromptReference(name="greet"), "name", "a")
    assert completion.values == ("alice", "bob")


async def _client_requests(client: Client) -> None:
    assert text(await client.call_tool("think")) == "the model said hello"
    assert text(await client.call_tool("where")).startswith("file:///tmp")
    if client.revision.name in ("2024-11-05", "2025-03-26"):
        # These revisions have no elicitation; the server names the missing capability.
        with pytest.raises(RequestFailed):
            await client.call_tool("paint")
    else:
        assert text(await client.call_tool("paint")) == "painted red"


@pytest.mark.parametrize("way", ["stdio", "http", "http-json"], indirect=True)
async def test_changes_are_notified(opening: Open) -> None:
    # Its legacy sessions declare this capability only on request.
    with trio.fail_after(60):
        async with opening(revisions=[REVISIONS["2026-07-28"]]) as client:
            async with client.listen(tools=True, uris=["note://one"]) as changes:
                await client.call_tool("touch")
                kinds = {(await anext(changes)).kind, (await anext(changes)).kind}
            assert kinds == {ChangeKind.TOOLS, ChangeKind.RESOURCE}


@pytest.mark.parametrize("way", ["stdio", "http", "http-json"], indirect=True)
async def test_latest_revision_is_negotiated(opening: Open) -> None:
    with trio.fail_after(60):
        async with opening() as client:
            assert client.revision.name == "2026-07-28"


@pytest.mark.parametrize("way", PLAIN, indirect=True)
async def test_concurrent_calls_get_matching_results(opening: Open) -> None:
    answers: dict[int, str] = {}
    with trio.fail_after(60):
        async with opening() as client, trio.open_nursery() as nursery:

            async def call(number: int) -> None:
                answers[number] = text(await client.call_tool("echo", {"text": str(number)}))

            for number in range(100):
                nursery.start_soon(call, number)
    assert answers == {number: str(number) for number in range(100)}


@pytest.mark.parametrize("way", WAYS, indirect=True)
async def test_connection_survives_cancelled_call(opening: Open) -> None:
    with trio.fail_after(60):
        async with opening() as client:
            with trio.CancelScope() as scope:

                def stop(*_: object) -> None:
                    scope.cancel()

                await client.call_tool("steps", {"count": 100_000}, on_progress=stop)
            assert scope.cancelled_caught
            assert text(await client.call_tool("echo", {"text": "still here"})) == "still here"
