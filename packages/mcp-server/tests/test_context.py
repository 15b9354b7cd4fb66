"""What a handler may do besides returning: progress, log messages, notifications; and what it knows."""

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

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)


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


@ALL
@pytest.mark.spec("progress.increasing", "progress.only-with-token", "progress.token-echo", "progress.total-optional")
async def test_progress_goes_to_who_asked_for_it_and_only_upwards(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        await client.call("tools/call", {"name": "steps"})
        assert client.of("notifications/progress") == []
        await client.call("tools/call", {"name": "steps", "_meta": {"progressToken": "t"}})
        seen = client.of("notifications/progress")
        assert [note["progress"] for note in seen] == [0.1, 0.5, 1]
        assert {str(note["progressToken"]) for note in seen} == {"t"}
        assert ("message" in seen[0]) == (revision is not R2024_11_05)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
@pytest.mark.spec("logging.level-filter")
async def test_a_session_gets_the_levels_that_it_set(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        await client.call("tools/call", {"name": "talk"})
        assert [note["level"] for note in client.of("notifications/message")] == [
            "info",
            "warning",
            "error",
            "emergency",
        ]
        assert client.of("notifications/message")[0] == {"level": "info", "data": {"b": 1}, "logger": "part"}
        client.notifications.clear()
        await client.call("logging/setLevel", {"level": "error"})
        await client.call("tools/call", {"name": "talk"})
        assert [note["data"] for note in client.of("notifications/message")] == [None, "e"]


async def test_a_modern_request_gets_the_levels_that_it_names(server: Server) -> None:
    async with connected(server, R2026_07_28) as client:
        await client.call("tools/call", {"name": "talk"})
        assert client.of("notifications/message") == []
        client.log_level = "warning"
        await client.call("tools/call", {"name": "talk"})
        assert [note["level"] for note in client.of("notifications/message")] == ["warning", "error", "emergency"]


async def test_there_is_no_such_level(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")

    @server.tool
    async def shout(context: Context) -> str:
        await context.log("loud", "x")  # type: ignore[arg-type]  # what is tested
        return ""

    async with connected(server, R2025_06_18) as client:
        await client.crash("shout")
        assert "unknown log level 'loud'" in caplog.text


@ALL
async def test_a_context_knows_its_request(revision: Revision) -> None:
    server = Server("s", version="0")
    seen: list[object] = []

    @server.tool
    async def tell(context: Context) -> str:
        implementation = context.peer.implementation
        seen.append((context.peer.revision, implementation.name if implementation else None))
        seen.append((context.method, context.request_id, context.principal, context.server))
        assert repr(context) == f"<Context of tools/call {context.request_id!r}>"
        return str(context.meta.get("example.org/x"))

    async with connected(server, revision) as client:
        params: JsonObject = {"name": "tell", "_meta": {"example.org/x": "y"}}
        id = await client.start("tools/call", params, id="seven")
        result = (await client.response(id))["result"]
        assert isinstance(result, dict)
        assert text_of(result) == "y"
        assert seen == [(revision, "raw"), ("tools/call", "seven", None, server)]
        if revision is not R2026_07_28:
            assert text_of(await client.call("tools/call", {"name": "tell"})) == "None"


@pytest.mark.spec("progress.in-progress-only", "progress.stops-after-completion")
async def test_a_context_cannot_be_used_after_its_handler() -> None:
    server = Server("s", version="0")
    kept: list[Context] = []

    @server.tool
    async def keep(context: Context) -> str:
        kept.append(context)
        return ""

    async with connected(server, R2025_06_18) as client:
        await client.call("tools/call", {"name": "keep"})
        for use in (kept[0].list_roots, lambda: kept[0].progress(1), lambda: kept[0].info("x")):
            with pytest.raises(RuntimeError, match="used after its handler has returned"):
                await use()
        with pytest.raises(RuntimeError, match="context of a finished request"):
            _ = kept[0].peer


async def test_a_handler_sends_notifications_of_its_own() -> None:
    server = Server("s", version="0")

    @server.tool
    async def complete(context: Context) -> str:
        await context.notify(
            NOTIFICATIONS_ELICITATION_COMPLETE, t.ElicitationCompleteNotificationParams(elicitation_id="x")
        )
        return ""

    async with connected(server, R2025_11_25) as client:
        await client.call("tools/call", {"name": "complete"})
        assert client.of("notifications/elicitation/complete") == [{"elicitationId": "x"}]
    async with connected(server, R2025_06_18) as client:
        await client.crash("complete")


async def test_nothing_is_sent_for_a_request_that_was_cancelled() -> None:
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


async def test_progress_after_the_client_has_gone_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s", version="0")
    started, ended = trio.Event(), trio.Event()

    @server.tool
    async def long(context: Context) -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await context.progress(1)
                await context.info("late")
            ended.set()

    async with connected(server, R2025_06_18) as client:
        await client.start("tools/call", {"name": "long", "_meta": {"progressToken": 1}})
        await started.wait()
    assert ended.is_set()
