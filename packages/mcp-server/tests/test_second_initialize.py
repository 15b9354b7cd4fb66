"""Successive clients on one stream, as with bridges and proxies: each gets its own session."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from raw_client import ALL_CAPABILITIES, RawClient, as_list, as_object, connected, text_of

from mcp_client.testing import open_in_memory
from mcp_core.errors import ConnectionEnded, ErrorCode
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, Server, serve_stream

ALL_LEGACY = pytest.mark.parametrize("revision", LEGACY, ids=str)


class GatedServer:
    """A server whose handlers wait for `open`, and that records their ends."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("gated", version="0", limits=limits or Limits())
        self.open = trio.Event()
        self.running: list[str] = []
        self.ended: list[str] = []

        @self.server.tool
        async def hold(name: str) -> str:
            self.running.append(name)
            try:
                await self.open.wait()
            except trio.Cancelled:
                self.ended.append(name)
                raise
            return name

        @self.server.tool
        async def cling(context: Context, name: str) -> str:
            """Ignore cancellation until `open` is set."""
            self.running.append(name)
            with trio.CancelScope(shield=True):
                await context.progress(1, 3)
                await self.open.wait()
                await context.progress(2, 3)
                await context.error("late")
            self.ended.append(name)
            return name

        @self.server.tool
        async def look(context: Context) -> str:
            self.running.append("look")
            try:
                with trio.CancelScope(shield=True):
                    roots = await context.list_roots()
                return str(len(roots))
            except ConnectionEnded as error:
                self.ended.append(error.message)
                raise

        @self.server.tool
        async def echo(text: str) -> str:
            return text

        @self.server.resource("note://a")
        async def note() -> str:
            return "a"


def tool(name: str, /, **arguments: JsonValue) -> JsonObject:
    return {"name": name, "arguments": arguments}


async def next_client(client: RawClient, revision: Revision, *, initialized: bool = True) -> JsonObject:
    """Connect another client on the same stream: its ids begin at 1 again, and it knows no earlier messages."""
    await trio.testing.wait_all_tasks_blocked()
    client.revision = revision
    client._last_id = 0
    client._responses.clear()
    client.lines.clear()
    client.notifications.clear()
    client.client_requests.clear()
    params: JsonObject = {
        "protocolVersion": revision.name,
        "capabilities": ALL_CAPABILITIES,
        "clientInfo": {"name": "next", "version": "0"},
    }
    result = await client.call("initialize", params)
    assert result["protocolVersion"] == revision.name
    if initialized:
        await client.notify("notifications/initialized")
    return result


@ALL_LEGACY
async def test_successive_clients_on_one_stream_are_served(revision: Revision) -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        for number in range(3):
            await next_client(client, revision)
            names = {as_object(each)["name"] for each in as_list((await client.call("tools/list"))["tools"])}
            assert "echo" in names
            assert await client.text("echo", text=str(number)) == str(number)


async def test_second_initialize_before_initialized_starts_new_session() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18, opened=False) as client:
        await next_client(client, R2025_06_18, initialized=False)
        await next_client(client, R2025_11_25, initialized=False)
        await next_client(client, R2024_11_05)
        assert await client.text("echo", text="a") == "a"


async def test_second_initialize_cancels_running_requests(caplog: pytest.LogCaptureFixture) -> None:
    gated = GatedServer(Limits(running_requests=2))
    async with connected(gated.server, R2025_06_18) as client:
        for name in ("a", "b", "never begun"):
            await client.start("tools/call", tool("hold", name=name))
        await trio.testing.wait_all_tasks_blocked()
        with caplog.at_level(logging.INFO, "mcp_server"):
            await next_client(client, R2025_06_18)
        assert any("session" in record.message and "initialize" in record.message for record in caplog.records)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gated.ended) == ["a", "b"]
        gated.open.set()
        assert await client.text("echo", text="x") == "x"
        assert gated.running == ["a", "b"]
        assert [as_object(line).get("id") for line in client.lines] == [1, 2]


async def test_late_response_of_ended_session_not_sent_for_reused_id() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_11_25) as client:
        meta: JsonObject = {"progressToken": "t"}
        id = await client.start("tools/call", {**tool("cling", name="old"), "_meta": meta}, id=2)
        await client.wait_for_notifications("notifications/progress")
        await next_client(client, R2025_11_25)
        assert await client.start("tools/call", {**tool("hold", name="new"), "_meta": meta}) == id
        await trio.testing.wait_all_tasks_blocked()
        assert gated.running == ["old", "new"]
        gated.open.set()
        assert text_of(as_object((await client.response(id))["result"])) == "new"
        await trio.testing.wait_all_tasks_blocked()
        assert gated.ended == ["old"]
        assert [as_object(line).get("id") for line in client.lines] == [1, 2]
        assert client.notifications == []


async def test_pending_client_request_fails_when_session_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        await client.start("tools/call", tool("look"))
        await client.wait_for(lambda: len(client.client_requests) == 1)
        client_request = client.client_requests[0]
        await next_client(client, R2025_06_18)
        await trio.testing.wait_all_tasks_blocked()
        (message,) = gated.ended
        assert "session ended" in message
        call = await client.start("tools/call", tool("look"))
        await client.wait_for(lambda: len(client.client_requests) == 1)
        second_request = client.client_requests[0]
        assert second_request["id"] != client_request["id"]
        with caplog.at_level(logging.DEBUG, "mcp_server"):
            await client.send(
                {"jsonrpc": "2.0", "id": client_request["id"], "result": {"roots": [{"uri": "file:///old"}]}}
            )
            await trio.testing.wait_all_tasks_blocked()
        assert any("session that has ended" in record.message for record in caplog.records)
        await client.send({"jsonrpc": "2.0", "id": second_request["id"], "result": {"roots": []}})
        assert text_of(as_object((await client.response(call))["result"])) == "0"
        # Its client has disconnected: no cancellation is sent.
        assert client.notifications_of("notifications/cancelled") == []


async def test_subscriptions_and_log_level_end_with_session() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        await client.call("resources/subscribe", {"uri": "note://a"})
        await client.call("logging/setLevel", {"level": "debug"})
        await next_client(client, R2025_06_18)
        gated.server.resource_updated("note://a")
        await client.call("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == []
        await client.call("resources/subscribe", {"uri": "note://a"})
        gated.server.resource_updated("note://a")
        await client.wait_for_notifications("notifications/resources/updated")


async def test_second_initialize_invalid_keeps_session() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        pending = await client.start("tools/call", tool("hold", name="a"))
        error = await client.fail("initialize", {"protocolVersion": 7})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        gated.open.set()
        assert text_of(as_object((await client.response(pending))["result"])) == "a"


async def test_batch_with_initialize_rejected_and_session_kept() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
        await client.send([client.request("initialize", {}, id=50), client.request("ping", id=51)])
        response = await client.response(50)
        assert as_object(response["error"])["code"] == ErrorCode.INVALID_REQUEST
        assert await client.text("echo", text="a") == "a"


async def test_batch_responses_of_ended_session_are_dropped() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
        members: list[JsonValue] = [
            client.request("ping", id=1),
            client.request("tools/call", tool("cling", name="old"), id=2),
        ]
        await client.send(members)
        await trio.testing.wait_all_tasks_blocked()
        assert gated.running == ["old"]
        await next_client(client, R2025_03_26)
        pending = await client.start("tools/call", tool("hold", name="new"))
        gated.open.set()
        await client.response(pending)
        await trio.testing.wait_all_tasks_blocked()
        assert [as_object(line).get("id") for line in client.lines] == [1, 2]


async def test_modern_requests_continue_when_session_is_replaced() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        modern = RawClient(client.stream, R2026_07_28)
        message = modern.request("tools/call", tool("hold", name="modern"), id="m")
        listen = modern.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        await client.send(message)
        await client.send(listen)
        await client.wait_for_notifications("notifications/subscriptions/acknowledged")
        await next_client(client, R2025_06_18)
        client._methods["m"] = client._methods["s"] = "ping"
        gated.open.set()
        await client.wait_for(lambda: any(as_object(line).get("id") == "m" for line in client.lines))
        assert gated.ended == []
        gated.server.tool(name="another")(lambda: "x")
        await client.wait_for(lambda: len(client.notifications_of("notifications/tools/list_changed")) == 2)


async def test_task_status_of_ended_session_not_sent_to_next_client() -> None:
    gated = GatedServer()
    release = trio.Event()

    @gated.server.tool(task="optional")
    async def work() -> str:
        await release.wait()
        return "done"

    async with connected(gated.server, R2025_11_25) as client:
        created = await client.call("tools/call", {**tool("work"), "task": {}})
        task = as_object(created["task"])["taskId"]
        assert len(as_list((await client.call("tasks/list"))["tasks"])) == 1
        await next_client(client, R2025_11_25)
        assert (await client.call("tasks/list"))["tasks"] == []
        release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == []
        # The id gives access to the task, as on any other connection.
        assert (await client.call("tasks/get", {"taskId": task}))["status"] == "completed"


async def test_repeated_initialize_keeps_no_state() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        for _ in range(300):
            await client.start("tools/call", tool("look"))
            await client.wait_for(lambda: len(client.client_requests) == 1)
            await next_client(client, R2025_06_18)
        await trio.testing.wait_all_tasks_blocked()
        assert len(gated.ended) == 300
        assert await client.text("echo", text="a") == "a"


@pytest.mark.parametrize("first", [[], {"jsonrpc": "2.0", "id": None, "method": "ping"}, [{"jsonrpc": "2.0"}]])
async def test_error_without_id_before_initialize_has_null_id(first: JsonValue) -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_11_25, opened=False) as client:
        await client.send(first)
        await client.wait_for(lambda: len(client.lines) == 1)
        answer = as_object(client.lines[0])
        assert "id" in answer
        assert answer["id"] is None
        # 2025-11-25 is the first revision whose schema has no null id.
        client._responses.clear()
        await client.open()
        await client.send(first)
        await client.wait_for(lambda: len(client.lines) == 3)
        assert "id" not in as_object(client.lines[2])


async def test_proxied_call_cancelled_when_session_is_replaced() -> None:
    gated = GatedServer()
    front = Server("front", version="0")
    async with open_in_memory(lambda stream: serve_stream(gated.server, stream)) as behind:
        front.mount_remote(behind, prefix="behind")
        async with connected(front, R2025_06_18) as client:
            await client.start("tools/call", tool("behind_hold", name="old"))
            await trio.testing.wait_all_tasks_blocked()
            assert gated.running == ["old"]
            await next_client(client, R2025_06_18)
            await trio.testing.wait_all_tasks_blocked()
            assert gated.ended == ["old"]
            # The remote connection belongs to the proxy and continues.

            assert await client.text("behind_echo", text="a") == "a"
