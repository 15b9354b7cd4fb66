"""The client and the server of this project, connected in memory: each feature in each revision."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trio.testing

from mcp_client import Change, ChangeKind, Client, ClientOptions, Handlers, open_stream
from mcp_client.testing import Faults, memory, open_in_memory
from mcp_core.errors import ConnectionEnded, RequestFailed, ResourceNotFound
from mcp_core.middleware import Middleware
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.types import (
    ElicitRequestFormParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    PromptReference,
    TextContent,
    TextResourceContents,
)
from mcp_server import Context, ElicitationAccepted, Server, serve_stream

ALL = pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)


@attrs.frozen
class Name:
    name: str


def make_server() -> Server:
    server = Server("test", version="1")

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def slow(*, context: Context) -> str:
        for done in (1, 2, 3):
            await context.progress(done, total=3)
        await context.info("nearly")
        return "done"

    @server.tool()
    async def greet(*, context: Context) -> str:
        answer = await context.elicit(Name, "Your name?")
        return f"Hello {answer.value.name}" if isinstance(answer, ElicitationAccepted) else "Hello"

    @server.tool()
    async def hang() -> str:
        await trio.sleep_forever()

    @server.resource("city://{name}")
    async def city(name: str) -> str:
        return f"All about {name}"

    @server.prompt()
    async def poem(of: str) -> str:
        return f"A poem of {of}"

    return server


@pytest.fixture(autouse=True, params=[(), (Middleware(),)], ids=["plain", "middleware"])
def _with_and_without_middleware(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # Middleware that changes nothing must have no effect.
    monkeypatch.setattr(memory, "open_stream", partial(open_stream, middleware=request.param))


@asynccontextmanager
async def connected(
    server: Server, revision: Revision, handlers: Handlers | None = None, to_client: Faults | None = None
) -> AsyncIterator[Client]:
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=handlers or Handlers(),
        to_client=to_client or Faults(),
        options=ClientOptions(validate_output="raise"),
        log_level="debug",
    ) as client:
        yield client


def text(content: object) -> str:
    assert isinstance(content, TextContent)
    return content.text


@ALL
async def test_tools_resources_and_prompts_every_revision(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with connected(make_server(), revision, to_client=Faults(split=11)) as client:
        assert client.revision is revision
        assert {tool.name for tool in await client.list_tools()} == {"add", "slow", "greet", "hang"}
        assert "3" in text((await client.call_tool("add", {"a": 1, "b": 2})).content[0])
        assert (await client.list_resource_templates())[0].uri_template == "city://{name}"
        (contents,) = (await client.read_resource("city://Ghent")).contents
        assert isinstance(contents, TextResourceContents)
        assert contents.text == "All about Ghent"
        with pytest.raises(ResourceNotFound):
            await client.read_resource("no://such")
        assert [prompt.name for prompt in await client.list_prompts()] == ["poem"]
        assert text((await client.get_prompt("poem", {"of": "rain"})).messages[0].content) == "A poem of rain"


@pytest.mark.spec("logging.client-tolerates-notifications", "progress.server-may-send")
@ALL
async def test_progress_and_log_messages_every_revision(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    shown: list[float] = []
    logged: list[object] = []

    def log(params: LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async with connected(make_server(), revision, Handlers(log=log)) as client:
        result = await client.call_tool("slow", on_progress=lambda progress, _total, _message: shown.append(progress))
    assert text(result.content[0]) == "done"
    assert shown[-1] == 3
    assert logged == ["nearly"]


@ALL
async def test_elicitation_every_revision_that_supports_it(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async def elicit(params: ElicitRequestFormParams) -> ElicitResult:
        await trio.sleep(1000)
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with connected(make_server(), revision, Handlers(elicit=elicit)) as client:
        if str(revision) in {"2024-11-05", "2025-03-26"}:
            with pytest.raises(RequestFailed, match="elicitation"):
                await client.call_tool("greet")
        else:
            assert text((await client.call_tool("greet")).content[0]) == "Hello Ada"


@ALL
async def test_changes_delivered(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    server = make_server()
    async with connected(server, revision) as client:
        async with client.listen(tools=True, uris=["city://Ghent"]) as changes:
            server.remove_tool("add")
            assert await anext(changes) == Change(ChangeKind.TOOLS)
            server.resource_updated("city://Ghent")
            assert await anext(changes) == Change(ChangeKind.RESOURCE, "city://Ghent")
        assert len(await client.list_tools()) == 3


@ALL
async def test_cancelled_call_server_stays_usable(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(make_server(), revision) as client:
        with trio.move_on_after(5) as scope:
            await client.call_tool("hang")
        assert scope.cancelled_caught
        assert "3" in text((await client.call_tool("add", {"a": 1, "b": 2})).content[0])


@ALL
async def test_connection_cut_every_call_ends(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    results, errors = [], []

    async def call(client: Client) -> None:
        try:
            results.append(await client.call_tool("slow"))
        except ConnectionEnded as error:
            errors.append(error)

    async with connected(make_server(), revision, to_client=Faults(cut_after=6000, split=100)) as client:  # noqa: SIM117  the outer one must end last
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(call, client)
    assert len(results) + len(errors) == 100
    assert errors


async def test_completion_returned(autojump_clock: trio.testing.MockClock) -> None:
    server = make_server()

    @server.completion(prompt="poem", argument="of")
    async def complete(value: str) -> list[str]:
        return [name for name in ("rain", "rails", "snow") if name.startswith(value)]

    async with connected(server, REVISIONS["2025-06-18"]) as client:
        assert (await client.complete(PromptReference(name="poem"), "of", "ra")).values == ("rain", "rails")
