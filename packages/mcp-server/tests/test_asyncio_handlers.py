"""Functions of an author that are written for asyncio: handlers, providers, lifespan, middleware, access, authentication."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import attrs
import pytest
import trio
import trio.lowlevel
import trio.testing
import uvloop

from mcp_client import (
    Client,
    ElicitationAccepted,
    Handlers,
    RequestFailed,
    ToolFailed,
    open_http,
    open_stdio,
    open_stream,
)
from mcp_client.testing import open_in_memory
from mcp_core.errors import WrongAsyncLibrary
from mcp_core.methods import PROMPTS_GET
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.trio.guest import current_guest
from mcp_core.types import GetPromptRequestParams, GetPromptResult
from mcp_server import Context, Depends, Server, serve_http, serve_stream
from mcp_server.auth import AccessToken, ResourceServer
from mcp_server.errors import RegistrationError
from mcp_server.guards import ConcurrencyLimit, Rate, RateLimit, SizeLimit, TimeLimit
from mcp_server.handlers.access import AccessRequest

_SECONDS = 20
"""Time after which a test that waits forever fails."""

_ELICITATION = [REVISIONS["2025-06-18"], REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]]

_WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="default")


@attrs.frozen
class Name:
    name: str


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Coroutine[object, object, None]]], None]:
    """Run a trio function in an asyncio loop."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    async def guest(function: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.timeout(_SECONDS):
            await current_guest().run(function)

    def run_in_loop(function: Callable[[], Coroutine[object, object, None]]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(guest(function))

    return run_in_loop


Run = Callable[[Callable[[], Coroutine[object, object, None]]], None]


@asynccontextmanager
async def connected(server: Server, revision: Revision, handlers: Handlers | None = None) -> AsyncIterator[Client]:
    """Serve in memory and connect to the server."""
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, far)
        async with open_stream(near, revisions=[revision], handlers=handlers or Handlers()) as client:
            yield client
        nursery.cancel_scope.cancel()


async def on_asyncio() -> str:
    """Return the name of the context variable, after a step that only asyncio can run."""
    async with asyncio.timeout(_SECONDS):
        await asyncio.sleep(0.001)
    assert asyncio.current_task() is not None
    return _WHO.get()


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
def test_handlers_on_asyncio_host_run_on_asyncio(run: Run, revision: Revision) -> None:
    server = Server("shop", version="1.0")

    @server.tool
    async def tool() -> str:
        return "tool of " + await on_asyncio()

    @server.resource("shop://item")
    async def item() -> str:
        return "item of " + await on_asyncio()

    @server.prompt
    async def prompt(word: str) -> str:
        return f"{word} of " + await on_asyncio()

    @server.completion(argument="word", prompt="prompt")
    async def words(entered: str) -> list[str]:
        return [entered + await on_asyncio()]

    @server.tool
    def plain() -> str:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return "in a thread"

    @server.tool(async_library="trio")
    async def other() -> str:
        await trio.lowlevel.checkpoint()
        return "on trio"

    async def main() -> None:
        async with connected(server, revision) as client:
            assert (await client.call_tool("tool")).text == "tool of default"
            assert cast("object", (await client.read_resource("shop://item")).contents[0].text) == "item of default"  # type: ignore[union-attr]  # text
            got = await client.get_prompt("prompt", {"word": "tea"})
            assert "tea of default" in repr(got)
            assert (await client.call_tool("plain")).text == "in a thread"
            assert (await client.call_tool("other")).text == "on trio"

    run(main)


@pytest.mark.parametrize("revision", _ELICITATION, ids=lambda revision: revision.name)
def test_context_methods_awaited_from_asyncio_reach_client(run: Run, revision: Revision) -> None:
    server = Server("shop", version="1.0")
    paid: list[str] = []

    async def pay() -> str:
        paid.append(await on_asyncio())
        return "paid"

    @server.tool
    async def buy(context: Context) -> str:
        await context.progress(1, 2, "asking")
        await context.info("asking")
        receipt = await context.once("pay", pay)
        # A task of the handler can send client requests, too.
        async with asyncio.TaskGroup() as group:
            first = group.create_task(context.elicit(Name, "Who are you?"))
            second = group.create_task(context.elicit(Name, "And who else?"))
        names = [answer.result().value.name for answer in (first, second)]  # type: ignore[union-attr]  # accepted
        return f"{receipt} by {names[0]} and {names[1]}"

    async def answer(*_: object) -> ElicitationAccepted[Name]:
        return ElicitationAccepted(Name("Ada"))

    reports: list[float] = []

    async def main() -> None:
        async with connected(server, revision, Handlers(elicit=answer)) as client:
            result = await client.call_tool("buy", on_progress=lambda at, total, message: reports.append(at))
            assert result.text == "paid by Ada and Ada"

    run(main)
    assert paid == ["default"]
    assert 1 in reports


@pytest.mark.parametrize("in_background", [False, True])
def test_client_request_in_nested_asyncio_tasks_ends_them(
    run: Run, caplog: pytest.LogCaptureFixture, in_background: bool
) -> None:
    # The handler ends by its cancellation. It arrives through all tasks, later than the client request could end.
    continued: list[int] = []

    class AsyncioMiddleware(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            return await proceed(message)

    server = Server("shop", version="1.0", middleware=[AsyncioMiddleware()])

    @server.tool(task="optional", start_as_task=False)
    async def buy(context: Context, depth: int) -> str:
        async def ask() -> str:
            answer = await context.elicit(Name, "Who are you?")
            await context.begin_task()
            assert isinstance(answer, ElicitationAccepted)
            return answer.value.name

        async def nested(depth: int) -> str:
            if not depth:
                return await ask()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(nested(depth - 1))
            continued.append(depth)
            return task.result()

        task = asyncio.create_task(nested(depth))
        if in_background:
            # It does not pass a cancellation on.
            await asyncio.wait({task})
        return f"sold to {await task}"

    async def answer(*_: object) -> ElicitationAccepted[Name]:
        return ElicitationAccepted(Name("Ada"))

    async def main() -> None:
        async with server.running(), connected(server, REVISIONS["2026-07-28"], Handlers(elicit=answer)) as client:
            for depth in range(12):
                continued.clear()
                assert (await client.call_tool("buy", {"depth": depth})).text == "sold to Ada"
                if not in_background:
                    # It ran three times, and returned once.
                    assert continued == list(range(1, depth + 1))

    run(main)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_begin_task_awaited_from_asyncio_continues_as_task(run: Run) -> None:
    server = Server("shop", version="1.0")
    starts: list[str] = []

    @server.tool(task="optional", start_as_task=False)
    async def buy(context: Context) -> str:
        starts.append(await on_asyncio())
        answer = await context.elicit(Name, "Who are you?")
        await context.begin_task()
        assert isinstance(answer, ElicitationAccepted)
        return f"sold to {answer.value.name}"

    async def answer(*_: object) -> ElicitationAccepted[Name]:
        return ElicitationAccepted(Name("Ada"))

    async def main() -> None:
        async with server.running(), connected(server, REVISIONS["2026-07-28"], Handlers(elicit=answer)) as client:
            assert (await client.call_tool("buy")).text == "sold to Ada"

    run(main)
    # For the client request, with its response, and as a task.
    assert len(starts) == 3


def test_provider_and_handler_on_asyncio_run_in_one_task(run: Run) -> None:
    server = Server("shop", version="1.0")
    tasks: list[object] = []

    async def connection() -> AsyncIterator[str]:
        # A timeout can only be left by the task that entered it.
        async with asyncio.timeout(_SECONDS):
            tasks.append(asyncio.current_task())
            yield "connection"
            await asyncio.sleep(0)
            tasks.append(asyncio.current_task())

    @server.tool
    async def query(of: Annotated[str, Depends(connection)]) -> str:
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())
        return of

    @server.tool
    def blocking(of: Annotated[str, Depends(connection)]) -> str:
        return of + " in a thread"

    async def main() -> None:
        async with connected(server, REVISIONS["2026-07-28"]) as client:
            assert (await client.call_tool("query")).text == "connection"
            assert len(set(map(id, tasks))) == 1
            assert len(tasks) == 3
            assert (await client.call_tool("blocking")).text == "connection in a thread"

    run(main)


def test_lifespan_on_asyncio_enters_and_leaves_in_one_task(run: Run) -> None:
    tasks: list[object] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[Name]:
        async with asyncio.timeout(_SECONDS):
            tasks.append(asyncio.current_task())
            yield Name(server.info.name)
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())

    server = Server("shop", version="1.0", lifespan=lifespan)

    @server.tool
    async def name(context: Context) -> str:
        return context.state(Name).name

    async def main() -> None:
        async with server.running(), connected(server, REVISIONS["2026-07-28"]) as client:
            assert (await client.call_tool("name")).text == "shop"
            assert len(tasks) == 1
        assert len(tasks) == 2
        assert tasks[0] is tasks[1]

    run(main)


@pytest.mark.parametrize("when", ["enter", "leave"])
def test_lifespan_on_asyncio_that_fails_raises_its_error(run: Run, when: str) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        if when == "enter":
            raise ValueError("no database")
        yield
        raise ValueError("no database")

    async def main() -> None:
        with pytest.raises(ValueError, match="no database"):
            async with Server("shop", version="1.0", lifespan=lifespan).running():
                assert when == "leave"

    run(main)


def test_lifespan_on_asyncio_cancelled_cancels_its_task(run: Run) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("cancelled")
            raise

    server = Server("shop", version="1.0", lifespan=lifespan)

    @server.resource("shop://item")
    async def item() -> str:
        return ""

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with connected(server, REVISIONS["2026-07-28"]) as client:
                await client.list_resources()
                scope.cancel()
        assert seen == ["cancelled"]

    run(main)


def test_running_entered_from_asyncio_runs_lifespan() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        seen.append(await on_asyncio())
        yield
        seen.append("left")

    async def main() -> None:
        async with Server("shop", version="1.0", lifespan=lifespan).running():
            assert seen == ["default"]
        assert seen == ["default", "left"]

    asyncio.run(main())


def test_middleware_on_asyncio_passes_requests_on(run: Run) -> None:
    seen: list[str] = []

    class NameMiddleware(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            await asyncio.sleep(0)
            _WHO.set(f"{_WHO.get()}/{message.method}")
            result = await proceed(message)
            seen.append(message.method)
            await asyncio.sleep(0)
            return result

    class TrioMiddleware(Middleware):
        async_library = "trio"

        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            await trio.lowlevel.checkpoint()
            return await proceed(message)

    server = Server("shop", version="1.0", middleware=[NameMiddleware(), TrioMiddleware(), NameMiddleware()])

    @server.tool
    async def who() -> str:
        return await on_asyncio()

    async def main() -> None:
        async with connected(server, REVISIONS["2026-07-28"]) as client:
            assert (await client.call_tool("who")).text == "default/tools/call/tools/call"

    run(main)
    assert seen.count("tools/call") == 2


@pytest.mark.parametrize("guard", [TimeLimit(_SECONDS), ConcurrencyLimit(1), RateLimit(Rate(100)), SizeLimit()])
def test_guard_on_asyncio_passes_requests_on(run: Run, guard: Middleware) -> None:
    server = Server("shop", version="1.0", middleware=[guard])

    @server.tool
    async def tool() -> str:
        return await on_asyncio()

    async def main() -> None:
        async with connected(server, REVISIONS["2025-11-25"]) as client:
            assert (await client.call_tool("tool")).text == "default"

    run(main)


def test_time_limit_on_asyncio_cancels_function(run: Run) -> None:
    server = Server("shop", version="1.0", middleware=[TimeLimit(0.01)])
    ended: list[bool] = []

    @server.tool
    async def tool() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def main() -> None:
        async with connected(server, REVISIONS["2025-11-25"]) as client:
            with pytest.raises(ToolFailed, match=r"TimeLimit\.seconds"):
                await client.call_tool("tool")

    run(main)
    assert ended == [True]


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
def test_change_in_thread_of_asyncio_notifies_client(run: Run, revision: Revision) -> None:
    server = Server("shop", version="1.0")
    server.add_resource(lambda: "3 euros", "shop://tea", name="tea")

    @server.tool
    async def change() -> None:
        # As in a view of a web framework that runs in a thread of asyncio.
        await asyncio.to_thread(server.resource_updated, "shop://tea")

    async def main() -> None:
        async with connected(server, revision) as client, client.listen(uris=["shop://tea"]) as changes:
            await client.call_tool("change")
            assert (await anext(changes)).uri == "shop://tea"

    run(main)


def test_access_on_asyncio_decides(run: Run) -> None:
    async def access(request: AccessRequest) -> bool:
        await asyncio.sleep(0)
        return request.name != "secret"

    server = Server("shop", version="1.0", access=access)

    @server.tool
    async def secret() -> str:
        return ""

    @server.tool
    async def public() -> str:
        return ""

    async def main() -> None:
        async with connected(server, REVISIONS["2026-07-28"]) as client:
            assert [tool.name for tool in await client.list_tools()] == ["public"]

    run(main)


def test_handler_on_asyncio_cancelled_by_client_is_cancelled(run: Run) -> None:
    server = Server("shop", version="1.0")
    ended: list[str] = []
    started = trio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("cancelled")
            raise
        return ""

    @server.tool
    async def ping() -> str:
        return "pong"

    async def main() -> None:
        async with connected(server, REVISIONS["2025-11-25"]) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "wait")
                await started.wait()
                nursery.cancel_scope.cancel()
            while not ended:
                await client.call_tool("ping")
        assert ended == ["cancelled"]

    run(main)


def test_handler_on_asyncio_that_fails_sends_error(run: Run) -> None:
    server = Server("shop", version="1.0")

    @server.tool
    async def slow() -> str:
        async with asyncio.timeout(0):
            await asyncio.sleep(math.inf)
        return ""

    @server.tool
    async def refused() -> str:
        await asyncio.sleep(0)
        raise RequestFailed("not now", code=-32042)

    async def main() -> None:
        async with connected(server, REVISIONS["2026-07-28"]) as client:
            with pytest.raises(ToolFailed):
                await client.call_tool("slow")
            with pytest.raises(RequestFailed, match="not now"):
                await client.call_tool("refused")

    run(main)


class _Tokens:
    """A token verifier for asyncio."""

    async def verify(self, token: str) -> AccessToken:
        await asyncio.sleep(0)
        return AccessToken(
            issuer="https://as.example",
            subject=token,
            client_id=None,
            audience=("http://127.0.0.1/mcp",),
            scopes=frozenset(),
            expires_at=None,
        )


def test_token_verifier_on_asyncio_names_principal(run: Run) -> None:
    auth = ResourceServer("http://127.0.0.1/mcp", authorization_servers=["https://as.example"], tokens=_Tokens())
    server = Server("shop", version="1.0")

    @server.tool
    async def who(context: Context) -> str:
        return "" if context.principal is None else context.principal.subject

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_http, server, "127.0.0.1:0", auth=auth))
            async with open_http(urls[0], headers={"Authorization": "Bearer ada"}) as client:
                assert (await client.call_tool("who")).text == "ada"
            nursery.cancel_scope.cancel()

    run(main)


def test_method_handler_on_asyncio_returns_result(run: Run) -> None:
    server = Server("shop", version="1.0")

    @server.method(PROMPTS_GET)
    async def get(params: GetPromptRequestParams, context: Context) -> GetPromptResult:
        await context.info("searching")
        return GetPromptResult(description=params.name + await on_asyncio(), messages=())

    async def main() -> None:
        async with connected(server, REVISIONS["2026-07-28"]) as client:
            assert (await client.get_prompt("tea of ")).description == "tea of default"

    run(main)


def test_authenticate_on_asyncio_names_principal(run: Run) -> None:
    async def authenticate(_: object) -> str:
        await asyncio.sleep(0)
        return "ada"

    server = Server("shop", version="1.0")

    @server.tool
    async def who(context: Context) -> str:
        return "" if context.principal is None else context.principal.subject

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_http, server, "127.0.0.1:0", authenticate=authenticate))
            async with open_http(urls[0]) as client:
                assert (await client.call_tool("who")).text == "ada"
            nursery.cancel_scope.cancel()

    run(main)


async def test_server_for_asyncio_on_trio_raises_error() -> None:
    server = Server("shop", version="1.0", async_library="asyncio")
    with pytest.raises(WrongAsyncLibrary, match=r"asyncio\.run"):
        async with server.running():
            pass


async def test_tool_on_trio_that_uses_asyncio_log_names_page(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("shop", version="1.0")

    @server.tool
    async def price() -> str:
        await asyncio.sleep(1)
        return ""

    async with open_in_memory(partial(serve_stream, server)) as client:
        with pytest.raises(ToolFailed):
            await client.call_tool("price")
    assert "no running event loop" in caplog.text
    assert "howto/asyncio" in caplog.text


def test_server_with_unknown_async_library_raises_error() -> None:
    with pytest.raises(RegistrationError, match="'asyncio' or 'trio', not 'curio'"):
        Server("shop", version="1.0", async_library="curio")  # type: ignore[arg-type]  # invalid
    with pytest.raises(RegistrationError, match="'asyncio' or 'trio', not 'curio'"):

        @Server("shop", version="1.0").tool(async_library="curio")  # type: ignore[call-overload, untyped-decorator]  # invalid
        async def tool() -> None: ...


_STDIO = """
import asyncio

from mcp_server import Context, Server, serve_stdio

server = Server("shop", version="1.0")


@server.tool
async def steps(context: Context) -> str:
    for step in range(3):
        await context.progress(step + 1, 3)
        await asyncio.sleep(0)
    return "done"


asyncio.run(serve_stdio(server))
print("ended")
"""


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
async def test_stdio_server_in_asyncio_run_serves_and_ends(tmp_path: Path, revision: Revision) -> None:
    script = tmp_path / "shop.py"
    script.write_text(_STDIO)
    reports: list[float] = []
    lines: list[str] = []
    with trio.fail_after(_SECONDS):
        async with open_stdio([sys.executable, script], revisions=[revision], on_stderr=lines.append) as client:
            result = await client.call_tool("steps", on_progress=lambda at, total, message: reports.append(at))
            assert result.text == "done"
    assert reports == [1, 2, 3]
    # The log warns of the print, too.
    assert lines[-1:] == ["ended"]
