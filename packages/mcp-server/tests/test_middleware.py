"""The middleware of a server."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio

from mcp_client import ClientOptions, Handlers
from mcp_client.testing import open_in_memory
from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.methods import (
    NOTIFICATIONS_ROOTS_LIST_CHANGED,
    TOOLS_CALL,
    NotificationMethod,
    Side,
)
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed, around, passed
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_core.types import (
    CallToolRequestParams,
    LoggingMessageNotificationParams,
    NotificationParams,
    RootsListChangedNotificationParams,
    TextContent,
    wire,
)
from mcp_server import Context, RegistrationError, Server, serve_stream


class RecordingMiddleware(Middleware):
    """A middleware that records messages."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        direction = "in" if message.incoming else "out"
        self.log.append(f"{self.name} {direction} {message.method}")
        try:
            return await proceed(message)
        finally:
            self.log.append(f"{self.name} done {message.method}")

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        self.log.append(f"{self.name} {'in' if message.incoming else 'out'} {message.method}")
        return message


def make_server(middleware: Sequence[Middleware]) -> Server:
    """Return a server that exchanges every kind of message."""
    server = Server("talkative", version="1", middleware=middleware)

    @server.tool
    async def talk(word: str, context: Context) -> str:
        await context.progress(1)
        await context.warning("careful")
        roots = await context.list_roots()
        return f"{word} {len(roots)}"

    return server


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_middleware_receives_messages_in_both_directions(revision: Revision) -> None:
    log: list[str] = []
    server = make_server([RecordingMiddleware("a", log), RecordingMiddleware("b", log)])
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
    # With MRTR the handler runs once for the input request, and once with the input response.
    expected = call if revision.server_requests else [*call, *call]
    assert [line for line in log[: log.index("--")] if "initialized" not in line] == expected
    assert log[log.index("--") + 1 :] == [
        "a in tools/list",
        "b in tools/list",
        "b done tools/list",
        "a done tools/list",
    ]


class ChangingMiddleware(Middleware):
    """A middleware that changes requests and log messages, and drops other notifications."""

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if isinstance(message.params, CallToolRequestParams):
            message = attrs.evolve(message, params=attrs.evolve(message.params, arguments={"word": "HI"}))
        return await proceed(message)

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        if isinstance(message.params, LoggingMessageNotificationParams):
            return attrs.evolve(message, params=attrs.evolve(message.params, data="CAREFUL"))
        return None


async def test_middleware_changes_and_drops_messages() -> None:
    received: list[object] = []
    progress: list[float] = []
    async with open_in_memory(
        lambda stream: serve_stream(make_server([ChangingMiddleware()]), stream),
        handlers=Handlers(roots=(), log=lambda params: received.append(params.data)),
        revisions=[R2025_11_25],
        log_level="debug",
    ) as client:
        result = await client.call_tool(
            "talk", {"word": "hi"}, on_progress=lambda value, _total, _message: progress.append(value)
        )
    assert result.content == (TextContent(text="HI 0"),)
    assert received == ["CAREFUL"]
    assert progress == []


class RejectingMiddleware(Middleware):
    """A middleware that rejects tool calls, and returns a list itself."""

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if message.method == TOOLS_CALL.name:
            raise RequestFailed("closed", code=ErrorCode.INVALID_REQUEST)
        if message.method == "tools/list":
            return {"tools": [{"name": "other", "inputSchema": {"type": "object"}}]}
        return await proceed(message)


async def test_middleware_rejects_and_responds_itself() -> None:
    async with open_in_memory(
        lambda stream: serve_stream(make_server([RejectingMiddleware()]), stream), revisions=[R2025_11_25]
    ) as client:
        with pytest.raises(RequestFailed, match="closed"):
            await client.call_tool("talk", {"word": "hi"})
        assert [tool.name for tool in await client.list_tools()] == ["other"]


class FailingMiddleware(Middleware):
    """A middleware that raises with a secret."""

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if message.method == "tools/call":
            return await proceed(message)
        raise ValueError("hunter2")

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        raise ValueError("hunter2")


async def test_middleware_error_is_hidden_from_client(caplog: pytest.LogCaptureFixture) -> None:
    progress: list[object] = []
    async with open_in_memory(
        lambda stream: serve_stream(make_server([FailingMiddleware()]), stream),
        handlers=Handlers(roots=()),
        revisions=[R2025_11_25],
    ) as client:
        with pytest.raises(RequestFailed, match=r"^Internal error"):
            await client.list_tools()
        await client.roots_changed()
        await client.ping()
        result = await client.call_tool(
            "talk", {"word": "hi"}, raise_on_error=False, on_progress=lambda *each: progress.append(each)
        )
        assert result.is_error
        assert "hunter2" not in repr(result)
    assert "hunter2" in caplog.text
    assert progress == []


async def test_notification_function_receives_params() -> None:
    server = make_server([])
    received: list[object] = []

    @server.notification(NOTIFICATIONS_ROOTS_LIST_CHANGED)
    def changed(params: RootsListChangedNotificationParams) -> None:
        received.append(params)

    async with open_in_memory(
        lambda stream: serve_stream(server, stream), handlers=Handlers(roots=()), revisions=[R2025_11_25]
    ) as client:
        await client.roots_changed()
        await client.ping()
    (params,) = received
    assert isinstance(params, RootsListChangedNotificationParams)
    with pytest.raises(RegistrationError, match="notifications/roots/list_changed already has a function"):
        server.notification(NOTIFICATIONS_ROOTS_LIST_CHANGED)(changed)


@wire()
class NudgeParams(NotificationParams):
    """A nudge."""

    hard: bool


NUDGE = NotificationMethod(name="example.org/nudge", sender=Side.CLIENT, params=NudgeParams)


async def test_extension_notification_is_received() -> None:
    from mcp_core.engine.connection import Extensions

    server = make_server([])
    received: list[bool] = []
    server.notification(NUDGE)(lambda params: received.append(params.hard))
    server.extension("example.org/nudging", {"hard": True})
    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[R2025_11_25],
        options=ClientOptions(extensions=Extensions(notifications={NUDGE.name: NUDGE})),
    ) as client:
        await client.notify(NUDGE, NudgeParams(hard=True))
        await client.ping()
    assert received == [True]
    assert server.capabilities.extensions == {"example.org/nudging": {"hard": True}}


@pytest.mark.parametrize(
    "name", ["search", "/search", "com.example/", "1com/search", "com..example/x", "com.example/-x"]
)
def test_extension_invalid_identifier_raises(name: str) -> None:
    with pytest.raises(RegistrationError, match="is not an extension identifier"):
        make_server([]).extension(name)


def test_notification_function_coroutine_raises() -> None:
    async def wait(_: object) -> None:
        raise AssertionError

    with pytest.raises(RegistrationError, match="must not block; write `def`"):
        make_server([]).notification(NUDGE)(wait)  # type: ignore[arg-type]  # the tested mistake


def _message() -> MiddlewareMessage:
    return MiddlewareMessage(method="x/y", params=None, raw={}, incoming=True, revision=None)


async def test_default_middleware_passes_messages() -> None:
    async def last(message: MiddlewareMessage) -> object:
        return message

    message = _message()
    assert await around([Middleware(), Middleware()], message, last) is message
    assert passed([Middleware()], message) is message
    assert passed([], message) is message


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_middleware_without_result_returns_internal_error(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    class ResultDroppingMiddleware(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            result = await proceed(message)
            return None if message.method == "tools/call" else result

    server = Server("forgetful", version="1", middleware=[ResultDroppingMiddleware()])

    @server.tool
    async def echo() -> str:
        return "x"

    async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
        with trio.fail_after(5), pytest.raises(RequestFailed, match="Internal error"):
            await client.call_tool("echo")
        async with client.listen(tools=True) as changes:
            assert changes.granted.tools_list_changed
    assert "tools/call has no result" in caplog.text
