"""The client in asyncio tasks: each transport, handlers for asyncio, cancellation, and blocks left in any order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.lowlevel
import uvloop
from asyncio_server import served

import mcp_client
import mcp_client.asyncio
from mcp_client.asyncio import Change, ElicitationAccepted, Handlers, ToolFailed, open_http, open_stdio
from mcp_client.group import open_group
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.trio.writer import CoalescingWriter
from mcp_core.types import CreateMessageRequestParams, CreateMessageResult, TextContent
from mcp_server import Context, Server

_SECONDS = 20
"""Time after which a test that waits forever fails."""

_ELICITATION = [REVISIONS["2025-06-18"], REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]]

_BOTH_ERAS = pytest.mark.parametrize(
    "revision", [REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]], ids=lambda each: each.name
)

Run = Callable[[Callable[[], Coroutine[object, object, None]]], None]


@attrs.frozen
class Name:
    name: str


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run an asyncio function in a loop."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_in_loop(function: Callable[[], Coroutine[object, object, None]]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(function(), _SECONDS))

    return run_in_loop


class ShopServer:
    """A server, and the events of its tools."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.started = asyncio.Event()
        self.server = server = Server("shop", version="1.0")

        @server.tool
        async def echo(text: str) -> str:
            return text

        @server.tool
        async def steps(context: Context) -> str:
            for step in range(3):
                await context.progress(step + 1, 3)
                await asyncio.sleep(0.002)
            return "done"

        @server.tool
        async def greet(context: Context) -> str:
            answer = await context.elicit(Name, "Who are you?")
            model = await context.sample("Hello?", max_tokens=10)
            assert isinstance(answer, ElicitationAccepted)
            assert isinstance(model.content, TextContent)
            return f"{model.content.text} {answer.value.name}"

        @server.tool
        async def wait() -> str:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.append("wait")
            return ""

        @server.tool
        async def fail() -> str:
            raise ValueError

        @server.tool
        async def change() -> str:
            server.resource_updated("shop://item")
            return ""

        @server.tool(task="optional")
        async def slow() -> str:
            await asyncio.sleep(0.01)
            return "slow"

        @server.resource("shop://item")
        async def item() -> str:
            return "tea"


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
def test_client_in_asyncio_calls_tools_over_http(run: Run, revision: Revision) -> None:
    reports: list[float] = []

    async def show(at: float, total: float | None, message: str | None) -> None:
        await asyncio.sleep(0)
        reports.append(at)

    async def main() -> None:
        async with served(ShopServer().server) as url, open_http(url, revisions=[revision]) as client:
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            assert (await client.call_tool("steps", on_progress=show)).text == "done"
            assert "tea" in repr(await client.read_resource("shop://item"))
            with pytest.raises(ToolFailed):
                await client.call_tool("fail")
            texts = await asyncio.gather(*[client.call_tool("echo", {"text": str(number)}) for number in range(32)])
            assert [each.text for each in texts] == [str(number) for number in range(32)]

    run(main)
    assert reports == [1, 2, 3]


@pytest.mark.parametrize("revision", _ELICITATION, ids=lambda revision: revision.name)
def test_client_in_asyncio_calls_handlers_and_middleware_on_asyncio(run: Run, revision: Revision) -> None:
    methods: list[str] = []

    class Recorder(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            async with asyncio.timeout(_SECONDS):
                result = await proceed(message)
            methods.append(message.method)
            return result

    async def elicit(_: object) -> ElicitationAccepted[object]:
        async with asyncio.timeout(_SECONDS):
            await asyncio.sleep(0)
        return ElicitationAccepted(Name("Ada"))

    async def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
        async with asyncio.timeout(_SECONDS):
            await asyncio.sleep(0)
        return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")

    handlers = Handlers(elicit=elicit, sample=sample)

    async def main() -> None:
        async with (
            served(ShopServer().server) as url,
            open_http(url, revisions=[revision], handlers=handlers, middleware=[Recorder()]) as client,
        ):
            assert (await client.call_tool("greet")).text == "Hello Ada"

    run(main)
    assert "tools/call" in methods
    assert "elicitation/create" in methods


@_BOTH_ERAS
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_call_in_asyncio_cancelled_ends_handler(run: Run, revision: Revision, how: str) -> None:
    async def main() -> None:
        shop = ShopServer()
        async with served(shop.server) as url, open_http(url, revisions=[revision]) as client:
            if how == "timeout":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await client.call_tool("wait")
            else:
                call = asyncio.create_task(client.call_tool("wait"))
                await shop.started.wait()
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
            while not shop.ended:
                await client.call_tool("echo", {"text": ""})

    run(main)


@_BOTH_ERAS
def test_listen_in_asyncio_iterates_over_changes(run: Run, revision: Revision) -> None:
    async def main() -> None:
        async with served(ShopServer().server) as url, open_http(url, revisions=[revision]) as client:
            found: list[Change] = []
            async with client.listen(uris=["shop://item"]) as changes:
                waiting = asyncio.ensure_future(anext(changes))
                await client.call_tool("change")
                found.append(await waiting)
                await client.call_tool("change")
                async for change in changes:
                    found.append(change)
                    break
            assert [change.uri for change in found] == ["shop://item", "shop://item"]

    run(main)


@_BOTH_ERAS
def test_task_in_asyncio_returns_result(run: Run, revision: Revision) -> None:
    async def main() -> None:
        async with served(ShopServer().server) as url, open_http(url, revisions=[revision]) as client:
            task = await client.start_task("slow")
            assert (await task.wait()).text == "slow"

    run(main)


def test_connections_in_asyncio_left_by_other_task_in_any_order(run: Run) -> None:
    async def main() -> None:
        async with served(ShopServer().server) as url:
            first, second = open_http(url), open_http(url)
            one = await first.__aenter__()
            two = await asyncio.create_task(second.__aenter__())
            await asyncio.create_task(first.__aexit__(None, None, None))
            assert (await two.call_tool("echo", {"text": "hi"})).text == "hi"
            with pytest.raises(mcp_client.ConnectionEnded):
                await one.call_tool("echo", {"text": "hi"})
            await second.__aexit__(None, None, None)

    run(main)


def test_group_in_asyncio_calls_tools_of_each_server(run: Run) -> None:
    async def main() -> None:
        async with (
            served(ShopServer().server) as left,
            served(ShopServer().server) as right,
            open_group({"left": partial(open_http, left), "right": partial(open_http, right)}) as group,
        ):
            names = [item.name for item in (await group.list_tools()).items]
            assert "left__echo" in names
            assert (await group.call_tool("right__echo", {"text": "hi"})).text == "hi"

    run(main)


_STDIO = """
import sys

import attrs
import trio

from mcp_server import Context, Server, serve_stdio

server = Server("shop", version="1.0")


@attrs.frozen
class Name:
    name: str


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def greet(context: Context) -> str:
    answer = await context.elicit(Name, "Who are you?")
    return f"Hello {answer.value.name}"


@server.tool
async def wait() -> str:
    say("waiting")
    try:
        await trio.sleep_forever()
    finally:
        say("wait ended")


@server.tool
async def change() -> str:
    server.resource_updated("shop://item")
    return ""


@server.tool(task="optional")
async def slow() -> str:
    await trio.sleep(0.01)
    return "slow"


@server.resource("shop://item")
async def item() -> str:
    return "tea"


trio.run(serve_stdio, server)
say("server ended")
"""


@_BOTH_ERAS
def test_client_in_asyncio_uses_all_features_over_stdio(run: Run, tmp_path: Path, revision: Revision) -> None:
    (tmp_path / "shop.py").write_text(_STDIO)
    lines: list[str] = []
    started = asyncio.Event()

    def show(line: str) -> None:
        lines.append(line)
        started.set()

    async def elicit(_: object) -> ElicitationAccepted[object]:
        async with asyncio.timeout(_SECONDS):
            await asyncio.sleep(0)
        return ElicitationAccepted(Name("Ada"))

    async def main() -> None:
        handlers = Handlers(elicit=elicit)
        command = [sys.executable, str(tmp_path / "shop.py")]
        async with open_stdio(command, handlers=handlers, revisions=[revision], on_stderr=show) as client:
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            assert (await client.call_tool("greet")).text == "Hello Ada"
            call = asyncio.create_task(client.call_tool("wait"))
            await started.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            async with client.listen(uris=["shop://item"]) as changes:
                await client.call_tool("change")
                assert (await anext(changes)).uri == "shop://item"
            task = await client.start_task("slow")
            assert (await task.wait()).text == "slow"

    run(main)
    assert lines == ["waiting", "wait ended", "server ended"]


def test_client_in_asyncio_calls_tools_over_http_sse(run: Run) -> None:
    reports: list[float] = []

    async def main() -> None:
        async with (
            served(ShopServer().server, legacy_sse=True) as url,
            open_http(url.replace("/mcp", "/sse"), revisions=[REVISIONS["2024-11-05"]]) as client,
        ):
            assert client.revision.http_sse
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            await client.call_tool("steps", on_progress=lambda at, total, message: reports.append(at))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.call_tool("wait")
            async with client.listen(uris=["shop://item"]) as changes:
                await client.call_tool("change")
                assert (await anext(changes)).uri == "shop://item"

    run(main)
    assert reports == [1, 2, 3]


@_BOTH_ERAS
def test_listen_in_asyncio_cancelled_while_waiting_loses_no_change(run: Run, revision: Revision) -> None:
    async def main() -> None:
        async with served(ShopServer().server) as url, open_http(url, revisions=[revision]) as client:
            # An iterator that is not exhausted is left with its block.
            async with client.listen(uris=["shop://item"]):
                pass
            async with client.listen(uris=["shop://item"]) as changes:
                waiting = asyncio.ensure_future(anext(changes))
                await client.call_tool("echo", {"text": ""})
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await client.call_tool("change")
                assert (await anext(changes)).uri == "shop://item"
                await client.aclose()
                with pytest.raises((mcp_client.ConnectionEnded, StopAsyncIteration)):
                    await anext(changes)

    run(main)


def test_group_in_asyncio_reports_failed_server_and_reconnects(run: Run) -> None:
    async def main() -> None:
        async with served(ShopServer().server) as url:
            servers = {"shop": partial(open_http, url), "none": partial(open_stdio, ["no-such-program"])}
            async with open_group(servers) as group:
                assert set(group.failed) == {"none"}
                assert {item.server for item in (await group.list_tools()).items} == {"shop"}
                await group["shop"].aclose()
                assert set(group.failed) == {"none", "shop"}
                group["shop"].reconnect()
                client = await group["shop"].connected()
                assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"

    run(main)


def test_calls_at_once_over_stdio_are_written_together(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A first one that is written alone gets its response alone, and the calls would no longer be sent at once.
    (tmp_path / "shop.py").write_text(_STDIO)
    joined: list[bool] = []
    offer = CoalescingWriter.offer

    def record(writer: CoalescingWriter, data: bytes, *, more: bool = False) -> bool:
        joined.append(more)
        return offer(writer, data, more=more)

    async def main() -> None:
        async with open_stdio([sys.executable, str(tmp_path / "shop.py")]) as client:
            await asyncio.gather(*[client.call_tool("echo", {"text": "hi"}) for _ in range(4)])
            monkeypatch.setattr(CoalescingWriter, "offer", record)
            await asyncio.gather(*[client.call_tool("echo", {"text": "hi"}) for _ in range(4)])
            assert joined == [True] * 4
            joined.clear()
            await client.call_tool("echo", {"text": "hi"})
            await client.call_tool("echo", {"text": "hi"})
            # A call alone does not wait for others, after the first one.
            assert joined == [True, False]

    run(main)


def test_client_in_asyncio_with_handlers_for_trio_in_trio_task() -> None:
    # A trio function in the same process keeps its own library, although asyncio hosts trio.
    seen: list[str] = []

    async def elicit(_: object) -> ElicitationAccepted[object]:
        await trio.lowlevel.checkpoint()
        seen.append("trio")
        return ElicitationAccepted(Name("Ada"))

    async def sample(_: object) -> CreateMessageResult:
        await trio.lowlevel.checkpoint()
        return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")

    async def main() -> None:
        relay = Server("relay", version="1.0", async_library="trio")
        async with served(ShopServer().server) as url:

            @relay.tool
            async def greet() -> str:
                async with open_http(url, handlers=Handlers(elicit=elicit, sample=sample)) as client:
                    return (await client.call_tool("greet")).text

            async with served(relay) as relay_url, open_http(relay_url) as client:
                assert (await client.call_tool("greet")).text == "Hello Ada"

    asyncio.run(asyncio.wait_for(main(), _SECONDS))
    assert seen == ["trio"]
