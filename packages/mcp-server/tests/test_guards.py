"""Guards: limits of rate, concurrency, time and size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from mcp_client import Client, Handlers, TaskHandle, ToolResult
from mcp_client.testing import open_in_memory
from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.middleware import Middleware
from mcp_core.revisions import LEGACY, R2026_07_28, Revision
from mcp_core.types import PromptReference, TextContent
from mcp_server import Context, Server, serve_stream
from mcp_server.guards import ConcurrencyLimit, Rate, RateLimit, SizeLimit, TimeLimit

BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)


@asynccontextmanager
async def guarded(*guards: Middleware, revision: Revision = R2026_07_28) -> AsyncIterator[Client]:
    server = Server("guarded", version="1", middleware=guards)
    events = {"started": trio.Event(), "go": trio.Event()}

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def other() -> str:
        return "other"

    @server.tool
    async def wait() -> str:
        events["started"].set()
        await events["go"].wait()
        return "waited"

    @server.tool
    async def until_started() -> str:
        await events["started"].wait()
        return "started"

    @server.tool
    async def ask(context: Context) -> str:
        return str(len(await context.list_roots()))

    @server.resource("memo://slow")
    async def slow() -> str:
        await trio.sleep_forever()
        raise AssertionError

    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=Handlers(roots=())
    ) as client:
        yield client
        events["go"].set()


def text_of(result: ToolResult[object]) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.spec("tools.rate-limit")
@BOTH
async def test_rate_limit_exceeded_raises_until_time_has_passed(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with guarded(RateLimit(Rate(2, 10)), revision=revision) as client:
        await client.list_tools()
        await client.list_tools()
        with pytest.raises(
            RequestFailed, match=r"too many requests: 2 in 10 s are allowed; the setting is RateLimit\.requests"
        ) as caught:
            await client.list_tools()
        assert caught.value.code == ErrorCode.INTERNAL_ERROR
        assert caught.value.data == {"retryAfter": 5}
        await trio.sleep(5)
        await client.list_tools()


@pytest.mark.spec("completion.server-rate-limit", "completion.rate-limit", "completion.security-rate-limit")
@pytest.mark.spec("tasks.rate-limit", "tasks.poll-rate-limit")
@BOTH
async def test_rate_limit_counts_completions_and_task_polls(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    server = Server("guarded", version="1", middleware=[RateLimit(Rate(5, 1_000))])

    @server.prompt
    async def greet(name: str) -> str:
        return name

    @server.completion(prompt="greet", argument="name")
    async def names(value: str) -> list[str]:
        return ["Ada"]

    @server.tool(task="required")
    async def work() -> str:
        await trio.sleep_forever()
        raise AssertionError

    async def requests_before_rejection(ask: Callable[[Client], Awaitable[object]]) -> int:
        answered = 0

        async def send_requests(client: Client) -> None:
            nonlocal answered
            while answered < 10:
                await ask(client)
                answered += 1

        async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
            with pytest.raises(RequestFailed, match="too many requests: 5 in 1000 s"):
                await send_requests(client)
        return answered

    handles: list[TaskHandle] = []

    async def poll(client: Client) -> None:
        if not handles:
            handles.append(await client.start_task("work"))
        await handles[0].refresh()

    assert (
        await requests_before_rejection(lambda client: client.complete(PromptReference(name="greet"), "name", "A")) == 5
    )
    await trio.sleep(1_000)
    assert await requests_before_rejection(poll) >= 3


@pytest.mark.spec("tools.rate-limit")
async def test_rate_limit_per_tool(autojump_clock: trio.testing.MockClock) -> None:
    async with guarded(RateLimit(tools={"echo": Rate(1), "*": Rate(2)})) as client:
        await client.call_tool("echo", {"text": "a"})
        with pytest.raises(RequestFailed, match=r"too many calls of echo: 1 in 60 s .* RateLimit\.tools"):
            await client.call_tool("echo", {"text": "a"})
        for _ in range(2):
            await client.call_tool("other")
        with pytest.raises(RequestFailed, match="too many calls of other"):
            await client.call_tool("other")
        await client.list_tools()


@BOTH
async def test_concurrency_limit_exceeded_raises(revision: Revision) -> None:
    async with (
        guarded(ConcurrencyLimit(tools={"wait": 1}), revision=revision) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.call_tool, "wait")
        await client.call_tool("until_started")
        with pytest.raises(
            RequestFailed, match=r"too many calls of wait at the same time: 1 are allowed; .* ConcurrencyLimit\.tools"
        ):
            await client.call_tool("wait")
        assert text_of(await client.call_tool("other")) == "other"
        nursery.cancel_scope.cancel()


async def test_concurrency_limit_freed_when_call_ends(autojump_clock: trio.testing.MockClock) -> None:
    limit = ConcurrencyLimit(1)
    async with guarded(limit) as client:
        for _ in range(3):
            with trio.move_on_after(1):
                await client.call_tool("wait")
            await trio.testing.wait_all_tasks_blocked()
            await client.call_tool("ask")
            assert text_of(await client.call_tool("other")) == "other"
    assert limit._running == {}


@BOTH
async def test_time_limit_exceeded_returns_tool_error(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with guarded(TimeLimit(5, tools={"wait": 2}), revision=revision) as client:
        began = trio.current_time()
        result = await client.call_tool("wait", raise_on_error=False)
        assert result.is_error
        assert "took longer than 2 seconds; the setting is TimeLimit.tools" in text_of(result)
        assert trio.current_time() - began == pytest.approx(2)
        with pytest.raises(RequestFailed, match=r"took longer than 5 seconds; the setting is TimeLimit\.seconds"):
            await client.read_resource("memo://slow")
        assert text_of(await client.call_tool("ask")) == "0"


async def test_time_limit_does_not_apply_to_subscription(autojump_clock: trio.testing.MockClock) -> None:
    async with guarded(TimeLimit(1)) as client, client.listen(tools=True) as changes:
        await trio.sleep(10)
        assert changes.granted.tools_list_changed


@BOTH
async def test_size_limit_of_arguments_and_results(revision: Revision) -> None:
    async with guarded(SizeLimit(argument_bytes=40, output_bytes=120), revision=revision) as client:
        assert text_of(await client.call_tool("echo", {"text": "a" * 20})) == "a" * 20
        with pytest.raises(
            RequestFailed, match=r"the arguments of echo have 41 bytes; 40 are allowed; .* SizeLimit\.argument_bytes"
        ) as caught:
            await client.call_tool("echo", {"text": "a" * 30})
        assert caught.value.code == ErrorCode.INVALID_PARAMS
    async with guarded(SizeLimit(output_bytes=120), revision=revision) as client:
        result = await client.call_tool("echo", {"text": "b" * 100}, raise_on_error=False)
        assert result.is_error
        assert "120 are allowed. Ask for less. The setting is SizeLimit.output_bytes." in text_of(result)
        assert "bbb" not in text_of(result)
        await client.list_tools()


@pytest.mark.parametrize("wrong", [0, -1, float("nan")])
def test_time_limit_not_positive_raises(wrong: float) -> None:
    with pytest.raises(ValueError, match="a time limit must be a number of seconds greater than 0"):
        TimeLimit(wrong)


@BOTH
async def test_size_limit_counts_numbers_beyond_64_bits(revision: Revision) -> None:
    server = Server("guarded", version="1", middleware=[SizeLimit(argument_bytes=400, output_bytes=400)])

    @server.tool
    async def next_one(number: int) -> int:
        return number + 1

    async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
        assert str(2**70 + 1) in text_of(await client.call_tool("next_one", {"number": 2**70}))


@BOTH
async def test_size_limit_does_not_apply_to_created_task(revision: Revision) -> None:
    server = Server("guarded", version="1", middleware=[SizeLimit(output_bytes=10)])

    @server.tool(task="optional")
    async def work() -> str:
        return "done"

    async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
        task = await client.start_task("work")
        assert text_of(await task.wait()) == "done"
