"""What stands around the messages of a server."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio

from mcp_client import Handlers
from mcp_client.testing import open_in_memory
from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.methods import (
    NOTIFICATIONS_ROOTS_LIST_CHANGED,
    TOOLS_CALL,
    NotificationRow,
    Role,
)
from mcp_core.middleware import Middleware, Passing, Proceed, around, passed
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_core.types import (
    CallToolRequestParams,
    LoggingMessageNotificationParams,
    NotificationParams,
    RootsListChangedNotificationParams,
    TextContent,
    evolve,
    wire,
)
from mcp_server import Context, RegistrationError, Server, serve_stream


class Seen(Middleware):
    """Writes down what passes."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    async def request(self, message: Passing, proceed: Proceed) -> object:
        way = "in" if message.incoming else "out"
        self.log.append(f"{self.name} {way} {message.method}")
        try:
            return await proceed(message)
        finally:
            self.log.append(f"{self.name} done {message.method}")

    def notification(self, message: Passing) -> Passing | None:
        self.log.append(f"{self.name} {'in' if message.incoming else 'out'} {message.method}")
        return message


def talkative(middleware: Sequence[Middleware]) -> Server:
    """A server that does everything that can be seen."""
    server = Server("talkative", version="1", middleware=middleware)

    @server.tool
    async def talk(word: str, context: Context) -> str:
        await context.progress(1)
        await context.warning("careful")
        roots = await context.list_roots()
        return f"{word} {len(roots)}"

    return server


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_it_sees_requests_and_notifications_in_both_directions(revision: Revision) -> None:
    log: list[str] = []
    server = talkative([Seen("a", log), Seen("b", log)])
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        handlers=Handlers(roots=()),
        revisions=[revision],
        log_level="debug",
    ) as client:
        await client.call_tool("talk", {"word": "hi"}, on_progress=lambda *_: None)
        log.append("--")
        await client.list_tools()
    call = [
        "a in tools/call",
        "b in tools/call",
        "a out notifications/progress",
        "b out notifications/progress",
        "a out notifications/message",
        "b out notifications/message",
        "a out roots/list",
        "b out roots/list",
        "b done roots/list",
        "a done roots/list",
        "b done tools/call",
        "a done tools/call",
    ]
    # In rounds the handler is run once for the question, and once with the answer.
    rounds = call if revision.server_requests else [*call, *call]
    assert [line for line in log[: log.index("--")] if "initialized" not in line] == rounds
    assert log[log.index("--") + 1 :] == [
        "a in tools/list",
        "b in tools/list",
        "b done tools/list",
        "a done tools/list",
    ]


class Shouting(Middleware):
    """Changes what passes."""

    async def request(self, message: Passing, proceed: Proceed) -> object:
        if isinstance(message.params, CallToolRequestParams):
            arguments = {"word": "HI"}
            message = attrs.evolve(message, params=evolve(message.params, arguments=arguments))
        return await proceed(message)

    def notification(self, message: Passing) -> Passing | None:
        if isinstance(message.params, LoggingMessageNotificationParams):
            return attrs.evolve(message, params=evolve(message.params, data="CAREFUL"))
        return None


async def test_it_may_change_and_drop_what_passes() -> None:
    told: list[object] = []
    progress: list[float] = []
    async with open_in_memory(
        lambda stream: serve_stream(talkative([Shouting()]), stream),
        handlers=Handlers(roots=(), log=lambda params: told.append(params.data)),
        revisions=[R2025_11_25],
        log_level="debug",
    ) as client:
        result = await client.call_tool("talk", {"word": "hi"}, on_progress=lambda each: progress.append(each.progress))
    assert result.content == (TextContent(text="HI 0"),)
    assert told == ["CAREFUL"]
    assert progress == []


class Refusing(Middleware):
    """Lets no tool be called, and answers a list by itself."""

    async def request(self, message: Passing, proceed: Proceed) -> object:
        if message.method == TOOLS_CALL.name:
            raise RequestFailed("closed", code=ErrorCode.INVALID_REQUEST)
        if message.method == "tools/list":
            return {"tools": [{"name": "other", "inputSchema": {"type": "object"}}]}
        return await proceed(message)


async def test_it_may_refuse_and_answer_by_itself() -> None:
    async with open_in_memory(
        lambda stream: serve_stream(talkative([Refusing()]), stream), revisions=[R2025_11_25]
    ) as client:
        with pytest.raises(RequestFailed, match="closed"):
            await client.call_tool("talk", {"word": "hi"})
        assert [tool.name for tool in await client.list_tools()] == ["other"]


class Broken(Middleware):
    """Fails with a secret."""

    async def request(self, message: Passing, proceed: Proceed) -> object:
        if message.method == "tools/call":
            return await proceed(message)
        raise ValueError("hunter2")

    def notification(self, message: Passing) -> Passing | None:
        raise ValueError("hunter2")


async def test_one_that_fails_tells_the_client_nothing(caplog: pytest.LogCaptureFixture) -> None:
    progress: list[object] = []
    async with open_in_memory(
        lambda stream: serve_stream(talkative([Broken()]), stream), handlers=Handlers(roots=()), revisions=[R2025_11_25]
    ) as client:
        with pytest.raises(RequestFailed, match=r"^Internal error"):
            await client.list_tools()
        await client.roots_changed()
        await client.ping()
        result = await client.call_tool("talk", {"word": "hi"}, on_progress=progress.append)
        assert result.is_error
        assert "hunter2" not in repr(result)
    assert "hunter2" in caplog.text
    assert progress == []


async def test_what_takes_a_notification_is_given_its_parameters() -> None:
    server = talkative([])
    told: list[object] = []

    @server.notification(NOTIFICATIONS_ROOTS_LIST_CHANGED)
    def changed(params: RootsListChangedNotificationParams) -> None:
        told.append(params)

    async with open_in_memory(
        lambda stream: serve_stream(server, stream), handlers=Handlers(roots=()), revisions=[R2025_11_25]
    ) as client:
        await client.roots_changed()
        await client.ping()
    (params,) = told
    assert isinstance(params, RootsListChangedNotificationParams)
    with pytest.raises(RegistrationError, match="notifications/roots/list_changed already has a function"):
        server.notification(NOTIFICATIONS_ROOTS_LIST_CHANGED)(changed)


@wire()
class NudgeParams(NotificationParams):
    """A nudge."""

    hard: bool


NUDGE = NotificationRow(name="example.org/nudge", sender=Role.CLIENT, params=NudgeParams)


async def test_a_notification_of_an_extension_is_taken() -> None:
    from mcp_core.engine.connection import Extensions

    server = talkative([])
    told: list[bool] = []
    server.notification(NUDGE)(lambda params: told.append(params.hard))
    server.extension("example.org/nudging", {"hard": True})
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[R2025_11_25],
        extensions=Extensions(notifications={NUDGE.name: NUDGE}),
    ) as client:
        await client.notify(NUDGE, NudgeParams(hard=True))
        await client.ping()
    assert told == [True]
    assert server.capabilities.extensions == {"example.org/nudging": {"hard": True}}


@pytest.mark.parametrize(
    "name", ["search", "/search", "com.example/", "1com/search", "com..example/x", "com.example/-x"]
)
def test_a_name_that_no_extension_can_have_is_refused(name: str) -> None:
    with pytest.raises(RegistrationError, match="is not an extension identifier"):
        talkative([]).extension(name)


def test_a_coroutine_function_cannot_take_notifications() -> None:
    async def wait(_: object) -> None:
        raise AssertionError

    with pytest.raises(RegistrationError, match="must not block; write `def`"):
        talkative([]).notification(NUDGE)(wait)  # type: ignore[arg-type]  # what is refused


def _message() -> Passing:
    return Passing(method="x/y", params=None, raw={}, incoming=True, revision=None)


async def test_of_itself_it_lets_everything_pass() -> None:
    async def last(message: Passing) -> object:
        return message

    message = _message()
    assert await around([Middleware(), Middleware()], message, last) is message
    assert passed([Middleware()], message) is message
    assert passed([], message) is message


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_one_that_forgets_the_result_leaves_no_client_waiting(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(Middleware):
        async def request(self, message: Passing, proceed: Proceed) -> object:
            result = await proceed(message)
            return None if message.method == "tools/call" else result

    server = Server("forgetful", version="1", middleware=[Forgetful()])

    @server.tool
    async def echo() -> str:
        return "x"

    async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
        with trio.fail_after(5), pytest.raises(RequestFailed, match="Internal error"):
            await client.call_tool("echo")
        async with client.listen(tools=True) as changes:
            assert changes.granted.tools_list_changed
    assert "tools/call has no result" in caplog.text
