"""The context of a handler: progress, log messages, notifications, and properties of the request."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from raw_client import connected, text_of

from mcp_core import types as t
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import NOTIFICATIONS_ELICITATION_COMPLETE
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import Context, Server

ALL_REVISIONS = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)


@pytest.fixture
def server() -> Server:
    server = Server("s", version="0")

    @server.tool
    async def steps(context: Context) -> str:
        for value in (0.1, 0.5, 0.5, 0.4, 1):
            await context.progress(value, 1, "working")
        return "done"

    @server.tool
    async def talk(context: Context) -> str:
        await context.debug("a")
        await context.info({"b": 1}, "part")
        await context.warning(["c"])
        await context.error(None)
        await context.log("emergency", "e")
        return "done"

    return server


@ALL_REVISIONS
@pytest.mark.spec("progress.increasing", "progress.only-with-token", "progress.token-echo", "progress.total-optional")
async def test_progress_sent_only_with_token_and_increasing(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        await client.call("tools/call", {"name": "steps"})
        assert client.notifications_of("notifications/progress") == []
        await client.call("tools/call", {"name": "steps", "_meta": {"progressToken": "t"}})
        received = client.notifications_of("notifications/progress")
        assert [params["progress"] for params in received] == [0.1, 0.5, 1]
        assert {str(params["progressToken"]) for params in received} == {"t"}
        assert ("message" in received[0]) == (revision is not R2024_11_05)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
@pytest.mark.spec("logging.level-filter")
async def test_log_level_of_session_filters_messages(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        await client.call("tools/call", {"name": "talk"})
        assert [params["level"] for params in client.notifications_of("notifications/message")] == [
            "info",
            "warning",
            "error",
            "emergency",
        ]
        assert client.notifications_of("notifications/message")[0] == {
            "level": "info",
            "data": {"b": 1},
            "logger": "part",
        }
        client.notifications.clear()
        await client.call("logging/setLevel", {"level": "error"})
        await client.call("tools/call", {"name": "talk"})
        assert [params["data"] for params in client.notifications_of("notifications/message")] == [None, "e"]


async def test_log_level_of_modern_request_filters_messages(server: Server) -> None:
    async with connected(server, R2026_07_28) as client:
        await client.call("tools/call", {"name": "talk"})
        assert client.notifications_of("notifications/message") == []
        client.log_level = "warning"
        await client.call("tools/call", {"name": "talk"})
        assert [params["level"] for params in client.notifications_of("notifications/message")] == [
            "warning",
            "error",
            "emergency",
        ]


async def test_unknown_log_level_raises(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")

    @server.tool
    async def shout(context: Context) -> str:
        await context.log("loud", "x")  # type: ignore[arg-type]  # the tested mistake
        return ""

    async with connected(server, R2025_06_18) as client:
        await client.crash("shout")
        assert "unknown log level 'loud'" in caplog.text


@ALL_REVISIONS
async def test_context_has_properties_of_request(revision: Revision) -> None:
    server = Server("s", version="0")
    received: list[object] = []

    @server.tool
    async def show(context: Context) -> str:
        implementation = context.peer.implementation
        received.append((context.peer.revision, implementation.name if implementation else None))
        received.append((context.method, context.request_id, context.principal, context.server))
        assert repr(context) == f"<Context of tools/call {context.request_id!r}>"
        return str(context.meta.get("example.org/x"))

    async with connected(server, revision) as client:
        params: JsonObject = {"name": "show", "_meta": {"example.org/x": "y"}}
        id = await client.start("tools/call", params, id="seven")
        result = (await client.response(id))["result"]
        assert isinstance(result, dict)
        assert text_of(result) == "y"
        assert received == [(revision, "raw"), ("tools/call", "seven", None, server)]
        if revision is not R2026_07_28:
            assert text_of(await client.call("tools/call", {"name": "show"})) == "None"


@pytest.mark.spec("progress.in-progress-only", "progress.stops-after-completion")
async def test_context_after_handler_raises() -> None:
    server = Server("s", version="0")
    contexts: list[Context] = []

    @server.tool
    async def keep(context: Context) -> str:
        contexts.append(context)
        return ""

    async with connected(server, R2025_06_18) as client:
        await client.call("tools/call", {"name": "keep"})
        for operation in (contexts[0].list_roots, lambda: contexts[0].progress(1), lambda: contexts[0].info("x")):
            with pytest.raises(RuntimeError, match="used after its handler has returned"):
                await operation()
        with pytest.raises(RuntimeError, match="context of a finished request"):
            _ = contexts[0].peer


async def test_context_notify_sends_notification() -> None:
    server = Server("s", version="0")

    @server.tool
    async def complete(context: Context) -> str:
        await context.notify(
            NOTIFICATIONS_ELICITATION_COMPLETE, t.ElicitationCompleteNotificationParams(elicitation_id="x")
        )
        return ""

    async with connected(server, R2025_11_25) as client:
        await client.call("tools/call", {"name": "complete"})
        assert client.notifications_of("notifications/elicitation/complete") == [{"elicitationId": "x"}]
    async with connected(server, R2025_06_18) as client:
        await client.crash("complete")


async def test_context_of_cancelled_request_sends_nothing() -> None:
    server = Server("s", version="0")
    started, done = trio.Event(), trio.Event()

    @server.tool
    async def stubborn(context: Context) -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await context.progress(1)
                await context.error("late")
                params = t.ElicitationCompleteNotificationParams(elicitation_id="x")
                await context.notify(NOTIFICATIONS_ELICITATION_COMPLETE, params)
            done.set()

    async with connected(server, R2025_11_25) as client:
        id = await client.start("tools/call", {"name": "stubborn", "_meta": {"progressToken": 1}})
        await started.wait()
        await client.notify("notifications/cancelled", {"requestId": id})
        await done.wait()
        await client.call("ping")
        assert client.notifications == []


async def test_progress_after_disconnect_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s", version="0")
    started, finished = trio.Event(), trio.Event()

    @server.tool
    async def long(context: Context) -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await context.progress(1)
                await context.info("late")
            finished.set()

    async with connected(server, R2025_06_18) as client:
        await client.start("tools/call", {"name": "long", "_meta": {"progressToken": 1}})
        await started.wait()
    assert finished.is_set()
