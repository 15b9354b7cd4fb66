"""Middleware of a client: over memory, stdio and HTTP, in each era."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from fake_http_server import OK, modern, serving
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ChangeKind, Handlers, ToolFailed, ToolResult, open_http, open_stdio
from mcp_client.testing import ScriptedPeer, Transcript, open_in_memory, scripted
from mcp_core.errors import LocalProtocolError, RequestFailed
from mcp_core.methods import NOTIFICATIONS_ROOTS_LIST_CHANGED
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestFormParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
    Root,
    RootsListChangedNotificationParams,
    TextContent,
)
from mcp_server import Context, ElicitationAccepted, Server, serve_stream

WITH_ELICITATION = [revision for revision in REVISIONS.values() if str(revision) >= "2025-06-18"]


class Recorder(Middleware):
    """Middleware that records messages and results."""

    def __init__(self) -> None:
        self.methods: list[tuple[str, str]] = []
        self.messages: list[MiddlewareMessage] = []
        self.results: list[object] = []

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        self._record(message)
        result = await proceed(message)
        self.results.append(result)
        return result

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        self._record(message)
        return message

    def _record(self, message: MiddlewareMessage) -> None:
        self.methods.append(("<" if message.incoming else ">", message.method))
        self.messages.append(message)


@attrs.frozen
class Name:
    name: str


def make_server() -> Server:
    server = Server("test", version="1")

    @server.tool()
    async def greet(*, context: Context) -> str:
        await context.progress(1)
        await context.info("about to elicit")
        answer = await context.elicit(Name, "Your name?")
        return f"Hello {answer.value.name}" if isinstance(answer, ElicitationAccepted) else "Hello"

    @server.tool()
    async def add(a: int, b: int) -> str:
        return str(a + b)

    @server.resource("a:b", name="b")
    async def read() -> str:
        return "text"

    return server


async def elicit(params: ElicitRequestFormParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


def text(result: ToolResult[object]) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("revision", WITH_ELICITATION, ids=str)
async def test_middleware_receives_all_but_connection_messages(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    recorder, server = Recorder(), make_server()
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit, roots=[], log=lambda _: None),
        log_level="info",
        middleware=[recorder],
    ) as client:
        if revision.server_requests:
            await client.ping()
        await client.list_tools()
        assert text(await client.call_tool("greet", on_progress=lambda *_: None)) == "Hello Ada"
        async with client.listen(tools=True, uris=["a:b"]) as changes:
            server.remove_tool("greet")
            server.resource_updated("a:b")
            kinds = set()
            async for change in changes:
                kinds.add(change.kind)
                if len(kinds) == 2:
                    break
        await client.roots_changed()
    expected = {
        (">", "tools/list"),
        (">", "tools/call"),
        ("<", "elicitation/create"),
        ("<", "notifications/progress"),
        ("<", "notifications/message"),
        ("<", "notifications/tools/list_changed"),
        ("<", "notifications/resources/updated"),
    }
    if revision.server_requests:
        expected |= {
            (">", "logging/setLevel"),
            (">", "resources/subscribe"),
            (">", "resources/unsubscribe"),
            (">", "notifications/roots/list_changed"),
        }
    else:
        expected |= {(">", "subscriptions/listen")}
    assert set(recorder.methods) == expected
    assert kinds == {ChangeKind.TOOLS, ChangeKind.RESOURCE}
    # The retry of a multi round-trip request is a second request.
    assert recorder.methods.count((">", "tools/call")) == (1 if revision.server_requests else 2)
    for message in recorder.messages:
        assert message.revision is revision
        assert (message.id is not None) is (message.method == "elicitation/create" and revision.server_requests)
        if not message.incoming:
            assert message.raw == {}


@pytest.mark.parametrize("revision", WITH_ELICITATION, ids=str)
async def test_middleware_client_request_has_params_and_raw(revision: Revision) -> None:
    recorder, server = Recorder(), make_server()
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit),
        middleware=[recorder],
    ) as client:
        await client.call_tool("greet")
    (elicitation,) = [message for message in recorder.messages if message.method == "elicitation/create"]
    assert isinstance(elicitation.params, ElicitRequestFormParams)
    assert elicitation.raw["message"] == elicitation.params.message == "Your name?"
    assert any(isinstance(result, ElicitResult) for result in recorder.results)


class Rewriter(Middleware):
    """Middleware that changes messages in each direction."""

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        params = message.params
        if isinstance(params, CallToolRequestParams) and params.name == "add":
            message = attrs.evolve(message, params=attrs.evolve(params, arguments={"a": 20, "b": 22}))
        if isinstance(params, ElicitRequestFormParams):
            return {"action": "accept", "content": {"name": "Grace"}}
        return await proceed(message)

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        params = message.params
        if isinstance(params, LoggingMessageNotificationParams):
            return attrs.evolve(message, params=attrs.evolve(params, data="redacted"))
        if isinstance(params, ProgressNotificationParams):
            return attrs.evolve(message, params=attrs.evolve(params, progress=99.0))
        return None


@pytest.mark.parametrize("revision", WITH_ELICITATION, ids=str)
async def test_middleware_changes_and_drops_messages(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    server, logged, shown, methods = make_server(), list[object](), list[float](), list[object]()
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit, log=lambda params: logged.append(params.data)),
        log_level="info",
        middleware=[Rewriter()],
    ) as client:
        client._channel.listeners.subscribe(lambda event: methods.append(event.method))
        assert text(await client.call_tool("add", {"a": 1, "b": 1})) == "42"
        assert (
            text(await client.call_tool("greet", on_progress=lambda progress, _total, _message: shown.append(progress)))
            == "Hello Grace"
        )
        if revision.server_requests:
            server.remove_tool("add")
            await trio.testing.wait_all_tasks_blocked()
    assert set(shown) == {99.0}
    assert set(logged) == {"redacted"}
    assert "notifications/tools/list_changed" not in methods


class ResultMiddleware(Middleware):
    """Middleware that returns results of calls itself."""

    def __init__(self, result: object) -> None:
        self.result = result

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if message.method == "tools/call":
            return self.result
        return await proceed(message)


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.parametrize("result", [CallToolResult(content=(TextContent(text="ok"),)), OK], ids=["instance", "wire"])
async def test_middleware_returns_result_instead_of_server(revision: Revision, result: object) -> None:
    transcript = Transcript()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[revision],
        transcript=transcript,
        middleware=[ResultMiddleware(result)],
    ) as client:
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "ok"
    assert "tools/call" not in transcript.text()


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "a middleware returned NoneType, which is not a result of tools/call"),
        (TextContent(text="x"), "a middleware returned TextContent, which is not a result of tools/call"),
        ({"resultType": "strange"}, "a middleware returned dict, which is not a result of tools/call"),
        ({"content": 3}, "a middleware returned an invalid CallToolResult"),
    ],
)
async def test_middleware_invalid_result_raises(result: object, reason: str) -> None:
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream), middleware=[ResultMiddleware(result)]
    ) as client:
        with pytest.raises(LocalProtocolError, match=reason):
            await client.call_tool("add")
        assert await client.list_tools()


class RejectingMiddleware(Middleware):
    def __init__(self, method: str) -> None:
        self.method = method

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if message.method == self.method:
            raise RequestFailed("not here", code=-1)
        return await proceed(message)


@pytest.mark.parametrize("revision", WITH_ELICITATION, ids=str)
async def test_middleware_error_sent_to_caller_or_server(revision: Revision) -> None:
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit),
        middleware=[RejectingMiddleware("tools/list"), RejectingMiddleware("elicitation/create")],
    ) as client:
        with pytest.raises(RequestFailed, match="not here"):
            await client.list_tools()
        # With a session the error goes to the server, whose tool does not catch it.
        with pytest.raises(RequestFailed, match="not here"):
            await client.call_tool("greet")


@pytest.mark.parametrize("wrong", [{"action": 3}, CallToolResult(content=())], ids=["wire", "class"])
async def test_middleware_invalid_input_response_not_sent(wrong: object) -> None:
    class WrongResult(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            return wrong if message.incoming else await proceed(message)

    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[R2026_07_28],
        handlers=Handlers(elicit=elicit),
        middleware=[WrongResult()],
    ) as client:
        with pytest.raises((LocalProtocolError, TypeError), match="ElicitResult"):
            await client.call_tool("greet")


async def test_middleware_retries_request() -> None:
    class RetryingMiddleware(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            try:
                return await proceed(message)
            except RequestFailed:
                return await proceed(message)

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        await peer.refuse(await peer.receive("tools/call"), -32603)
        await peer.answer(await peer.receive("tools/call"), OK)

    async with open_in_memory(scripted(script), middleware=[RetryingMiddleware()]) as client:
        assert text(await client.call_tool("any")) == "ok"


async def test_middleware_receives_each_page_request() -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(prompts={})
        await peer.answer(await peer.receive("prompts/list"), {"prompts": [], "nextCursor": "more"})
        await peer.answer(await peer.receive("prompts/list"), {"prompts": []})

    recorder = Recorder()
    async with open_in_memory(scripted(script), middleware=[recorder]) as client:
        await client.list_prompts()
    assert recorder.methods == [(">", "prompts/list")] * 2


async def test_middleware_first_is_outermost() -> None:
    order: list[str] = []

    class NamingMiddleware(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            order.append(self.name)
            try:
                return await proceed(message)
            finally:
                order.append(f"/{self.name}")

    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream), middleware=[NamingMiddleware("a"), NamingMiddleware("b")]
    ) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert order == ["a", "b", "/b", "/a"]


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.parametrize("wrong", ["raises", "other params"])
async def test_middleware_notification_failure_drops_and_logs(
    revision: Revision, wrong: str, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    class FailingMiddleware(Middleware):
        def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
            if wrong == "raises":
                raise ValueError("broken")
            return attrs.evolve(message, params="nonsense")

    logged: list[object] = []
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit, log=logged.append),
        log_level="info",
        middleware=[FailingMiddleware()],
    ) as client:
        with caplog.at_level(logging.ERROR, "mcp_client"):
            assert (
                text(await client.call_tool("greet", on_progress=lambda *progress: logged.append(progress)))
                == "Hello Ada"
            )
    assert logged == []
    assert "middleware failed, notification dropped: method=notifications/progress" in caplog.text


@pytest.mark.parametrize("dropped", [True, False])
async def test_middleware_drops_outbound_notification(dropped: bool) -> None:
    class DroppingMiddleware(Middleware):
        def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
            assert not message.incoming
            return None if dropped else message

    transcript = Transcript()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[R2025_11_25],
        handlers=Handlers(roots=[Root(uri="file:///")]),
        transcript=transcript,
        middleware=[DroppingMiddleware()],
    ) as client:
        await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())
    assert ("roots/list_changed" in transcript.text()) is not dropped


# --- middleware that changes nothing ---------------------------------------------------------------------------------

STEPS = st.lists(st.sampled_from(["list", "call", "fail", "read", "greet", "nothing"]), max_size=6)


@pytest.mark.property
@given(STEPS, st.sampled_from([*LEGACY, R2026_07_28]), st.integers(1, 3))
def test_middleware_passing_everything_changes_nothing(steps: list[str], revision: Revision, count: int) -> None:
    def run(middleware: list[Middleware]) -> tuple[list[tuple[str, bytes]], list[str]]:
        transcript, outcomes = Transcript(), list[str]()

        async def conversation() -> None:
            # Seals of request states are random, so multi round-trip requests are left out here.
            handlers = Handlers(elicit=elicit) if revision.server_requests else Handlers()
            async with open_in_memory(
                lambda stream: serve_stream(make_server(), stream),
                revisions=[revision],
                handlers=handlers,
                transcript=transcript,
                middleware=middleware,
            ) as client:
                actions: dict[str, Callable[[], Awaitable[object]]] = {
                    "list": client.list_tools,
                    "call": lambda: client.call_tool("add", {"a": 1, "b": 2}),
                    "fail": lambda: client.call_tool("add", {}),
                    "read": lambda: client.read_resource("a:b"),
                    "greet": lambda: client.call_tool(
                        "greet", on_progress=lambda *progress: outcomes.append(repr(progress))
                    ),
                    "nothing": lambda: client.get_prompt("none"),
                }
                for step in steps:
                    try:
                        outcomes.append(repr(await actions[step]()))
                    except (RequestFailed, LocalProtocolError, ToolFailed) as error:
                        outcomes.append(repr(error))

        trio.run(conversation, clock=trio.testing.MockClock(autojump_threshold=0))
        return transcript.lines, outcomes

    assert run([Middleware() for _ in range(count)]) == run([])


# --- over a process and over HTTP ------------------------------------------------------------------------------------

PROGRAM = """
import trio
from mcp_server import Server, serve_stdio
server = Server("test", version="1")
@server.tool
async def add(a: int, b: int) -> str:
    return str(a + b)
trio.run(serve_stdio, server)
"""


async def test_middleware_over_stdio(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(PROGRAM)
    recorder = Recorder()
    async with open_stdio([sys.executable, program], middleware=[recorder]) as client:
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
    assert recorder.methods == [(">", "tools/call")]


async def test_middleware_over_http() -> None:
    recorder = Recorder()
    async with serving(modern()) as server, open_http(server.url, middleware=[recorder]) as client:
        assert text(await client.call_tool("add")) == "ok"
    assert recorder.methods == [(">", "tools/call")]
