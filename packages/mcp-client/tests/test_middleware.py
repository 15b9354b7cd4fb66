"""What stands around the messages of a client: over memory, stdio and HTTP, in each era."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from zoo import OK, modern, serving

from mcp_client import ChangeKind, Handlers, open_http, open_stdio
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
    evolve,
)
from mcp_server import Context, ElicitationAccepted, Server, serve_stream

ASKING = [revision for revision in REVISIONS.values() if str(revision) >= "2025-06-18"]


class Recorder(Middleware):
    """Writes down all that passes, and what came back."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.messages: list[MiddlewareMessage] = []
        self.results: list[object] = []

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        self._note(message)
        result = await proceed(message)
        self.results.append(result)
        return result

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        self._note(message)
        return message

    def _note(self, message: MiddlewareMessage) -> None:
        self.seen.append(("<" if message.incoming else ">", message.method))
        self.messages.append(message)


@attrs.frozen
class Name:
    name: str


def make_server() -> Server:
    server = Server("test", version="1")

    @server.tool()
    async def greet(*, context: Context) -> str:
        await context.progress(1)
        await context.info("about to ask")
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


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("revision", ASKING, ids=str)
async def test_it_sees_all_that_is_said_but_what_belongs_to_the_connection(
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
        assert text(await client.call_tool("greet", on_progress=lambda _: None)) == "Hello Ada"
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
    assert set(recorder.seen) == expected
    assert kinds == {ChangeKind.TOOLS, ChangeKind.RESOURCE}
    # A question in a result is answered by asking again.
    assert recorder.seen.count((">", "tools/call")) == (1 if revision.server_requests else 2)
    for message in recorder.messages:
        assert message.revision is revision
        assert (message.id is not None) is (message.method == "elicitation/create" and revision.server_requests)
        if not message.incoming:
            assert message.raw == {}


@pytest.mark.parametrize("revision", ASKING, ids=str)
async def test_a_question_has_its_parameters_and_those_as_they_came(revision: Revision) -> None:
    recorder, server = Recorder(), make_server()
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit),
        middleware=[recorder],
    ) as client:
        await client.call_tool("greet")
    (asked,) = [message for message in recorder.messages if message.method == "elicitation/create"]
    assert isinstance(asked.params, ElicitRequestFormParams)
    assert asked.raw["message"] == asked.params.message == "Your name?"
    assert any(isinstance(result, ElicitResult) for result in recorder.results)


class Rewriter(Middleware):
    """Changes what passes, in each direction."""

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        params = message.params
        if isinstance(params, CallToolRequestParams) and params.name == "add":
            message = attrs.evolve(message, params=evolve(params, arguments={"a": 20, "b": 22}))
        if isinstance(params, ElicitRequestFormParams):
            return {"action": "accept", "content": {"name": "Grace"}}
        return await proceed(message)

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        params = message.params
        if isinstance(params, LoggingMessageNotificationParams):
            return attrs.evolve(message, params=evolve(params, data="redacted"))
        if isinstance(params, ProgressNotificationParams):
            return attrs.evolve(message, params=evolve(params, progress=99.0))
        return None


@pytest.mark.parametrize("revision", ASKING, ids=str)
async def test_it_may_change_and_drop_what_passes(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    server, logged, shown, heard = make_server(), list[object](), list[float](), list[object]()
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit, log=lambda params: logged.append(params.data)),
        log_level="info",
        middleware=[Rewriter()],
    ) as client:
        client._channel.listeners.subscribe(lambda event: heard.append(event.method))
        assert text(await client.call_tool("add", {"a": 1, "b": 1})) == "42"
        assert text(await client.call_tool("greet", on_progress=lambda p: shown.append(p.progress))) == "Hello Grace"
        if revision.server_requests:
            server.remove_tool("add")
            await trio.testing.wait_all_tasks_blocked()
    assert set(shown) == {99.0}
    assert set(logged) == {"redacted"}
    assert "notifications/tools/list_changed" not in heard


class Answerer(Middleware):
    """Answers calls itself."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if message.method == "tools/call":
            return self.answer
        return await proceed(message)


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.parametrize("answer", [CallToolResult(content=(TextContent(text="ok"),)), OK], ids=["instance", "wire"])
async def test_it_may_answer_in_place_of_the_server(revision: Revision, answer: object) -> None:
    transcript = Transcript()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[revision],
        transcript=transcript,
        middleware=[Answerer(answer)],
    ) as client:
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "ok"
    assert "tools/call" not in transcript.text()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "a middleware returned NoneType, which is not a result of tools/call"),
        (TextContent(text="x"), "a middleware returned TextContent, which is not a result of tools/call"),
        ({"resultType": "strange"}, "a middleware returned dict, which is not a result of tools/call"),
        ({"content": 3}, "a middleware returned an invalid CallToolResult"),
    ],
)
async def test_what_is_no_result_is_the_fault_of_the_middleware(answer: object, why: str) -> None:
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream), middleware=[Answerer(answer)]
    ) as client:
        with pytest.raises(LocalProtocolError, match=why):
            await client.call_tool("add")
        assert await client.list_tools()


class Refuser(Middleware):
    def __init__(self, method: str) -> None:
        self.method = method

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if message.method == self.method:
            raise RequestFailed("not here", code=-1)
        return await proceed(message)


@pytest.mark.parametrize("revision", ASKING, ids=str)
async def test_what_it_refuses_the_caller_or_the_server_gets_as_an_error(revision: Revision) -> None:
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit),
        middleware=[Refuser("tools/list"), Refuser("elicitation/create")],
    ) as client:
        with pytest.raises(RequestFailed, match="not here"):
            await client.list_tools()
        # On a session the error goes to the server, whose tool does not catch it.
        with pytest.raises(RequestFailed, match="not here"):
            await client.call_tool("greet")


@pytest.mark.parametrize("wrong", [{"action": 3}, CallToolResult(content=())], ids=["wire", "class"])
async def test_a_wrong_answer_to_a_question_in_a_result_is_not_sent(wrong: object) -> None:
    class Wrong(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            return wrong if message.incoming else await proceed(message)

    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[R2026_07_28],
        handlers=Handlers(elicit=elicit),
        middleware=[Wrong()],
    ) as client:
        with pytest.raises((LocalProtocolError, TypeError), match="ElicitResult"):
            await client.call_tool("greet")


async def test_it_may_ask_again() -> None:
    class Again(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            try:
                return await proceed(message)
            except RequestFailed:
                return await proceed(message)

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        await peer.refuse(await peer.receive("tools/call"), -32603)
        await peer.answer(await peer.receive("tools/call"), OK)

    async with open_in_memory(scripted(script), middleware=[Again()]) as client:
        assert text(await client.call_tool("any")) == "ok"


async def test_each_page_of_a_list_is_a_request() -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(prompts={})
        await peer.answer(await peer.receive("prompts/list"), {"prompts": [], "nextCursor": "more"})
        await peer.answer(await peer.receive("prompts/list"), {"prompts": []})

    recorder = Recorder()
    async with open_in_memory(scripted(script), middleware=[recorder]) as client:
        await client.list_prompts()
    assert recorder.seen == [(">", "prompts/list")] * 2


async def test_the_first_is_the_outermost() -> None:
    order: list[str] = []

    class Named(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            order.append(self.name)
            try:
                return await proceed(message)
            finally:
                order.append(f"/{self.name}")

    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream), middleware=[Named("a"), Named("b")]
    ) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert order == ["a", "b", "/b", "/a"]


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.parametrize("wrong", ["raises", "other params"])
async def test_one_that_fails_with_a_notification_drops_it_and_is_logged(
    revision: Revision, wrong: str, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    class Broken(Middleware):
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
        middleware=[Broken()],
    ) as client:
        with caplog.at_level(logging.ERROR, "mcp_client"):
            assert text(await client.call_tool("greet", on_progress=logged.append)) == "Hello Ada"
    assert logged == []
    assert "middleware failed, notification dropped: method=notifications/progress" in caplog.text


@pytest.mark.parametrize("dropped", [True, False])
async def test_a_notification_of_ours_may_be_dropped(dropped: bool) -> None:
    class Quiet(Middleware):
        def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
            assert not message.incoming
            return None if dropped else message

    transcript = Transcript()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(), stream),
        revisions=[R2025_11_25],
        handlers=Handlers(roots=[Root(uri="file:///")]),
        transcript=transcript,
        middleware=[Quiet()],
    ) as client:
        await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())
    assert ("roots/list_changed" in transcript.text()) is not dropped


# --- one that lets everything pass changes nothing -------------------------------------------------------------------

STEPS = st.lists(st.sampled_from(["list", "call", "fail", "read", "greet", "nothing"]), max_size=6)


@pytest.mark.property
@given(STEPS, st.sampled_from([*LEGACY, R2026_07_28]), st.integers(1, 3))
def test_with_one_that_lets_everything_pass_the_same_is_said(steps: list[str], revision: Revision, many: int) -> None:
    def said(middleware: list[Middleware]) -> tuple[list[tuple[str, bytes]], list[str]]:
        transcript, outcomes = Transcript(), list[str]()

        async def conversation() -> None:
            # Keys that seal what goes from round to round are random, so nobody is asked in rounds here.
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
                    "greet": lambda: client.call_tool("greet", on_progress=lambda p: outcomes.append(repr(p))),
                    "nothing": lambda: client.get_prompt("none"),
                }
                for step in steps:
                    try:
                        outcomes.append(repr(await actions[step]()))
                    except (RequestFailed, LocalProtocolError) as error:
                        outcomes.append(repr(error))

        trio.run(conversation, clock=trio.testing.MockClock(autojump_threshold=0))
        return transcript.lines, outcomes

    assert said([Middleware() for _ in range(many)]) == said([])


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


async def test_it_stands_around_the_messages_of_a_process(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(PROGRAM)
    recorder = Recorder()
    async with open_stdio([sys.executable, program], middleware=[recorder]) as client:
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
    assert recorder.seen == [(">", "tools/call")]


async def test_it_stands_around_the_messages_over_http() -> None:
    recorder = Recorder()
    async with serving(modern()) as server, open_http(server.url, middleware=[recorder]) as client:
        assert text(await client.call_tool("add")) == "ok"
    assert recorder.seen == [(">", "tools/call")]
