"""Several clients one after the other on one pipe, as bridges and proxies have it: each gets a session of its own."""

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

EACH = pytest.mark.parametrize("revision", LEGACY, ids=str)


class Gate:
    """A server whose handlers wait until they are let through, and note what happens to them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("gate", version="0", limits=limits or Limits())
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
            """Ends when it likes: cancellation comes too late for it."""
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
    """Another client takes over the pipe: its ids begin at 1 again, and it knows nothing of what came before."""
    await trio.testing.wait_all_tasks_blocked()
    client.revision = revision
    client._last_id = 0
    client._responses.clear()
    client.lines.clear()
    client.notifications.clear()
    client.asked.clear()
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


@EACH
async def test_clients_one_after_the_other_on_one_pipe_are_all_served(revision: Revision) -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        for number in range(3):
            await next_client(client, revision)
            names = {as_object(each)["name"] for each in as_list((await client.call("tools/list"))["tools"])}
            assert "echo" in names
            assert await client.text("echo", text=str(number)) == str(number)


async def test_second_initialize_before_initialized_begins_a_new_session() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18, opened=False) as client:
        await next_client(client, R2025_06_18, initialized=False)
        await next_client(client, R2025_11_25, initialized=False)
        await next_client(client, R2024_11_05)
        assert await client.text("echo", text="a") == "a"


async def test_second_initialize_cancels_handlers_and_answers_none_of_them(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(Limits(running_requests=2))
    async with connected(gate.server, R2025_06_18) as client:
        for name in ("a", "b", "never begun"):
            await client.start("tools/call", tool("hold", name=name))
        await trio.testing.wait_all_tasks_blocked()
        with caplog.at_level(logging.INFO, "mcp_server"):
            await next_client(client, R2025_06_18)
        assert any("session" in record.message and "initialize" in record.message for record in caplog.records)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.ended) == ["a", "b"]
        gate.open.set()
        assert await client.text("echo", text="x") == "x"
        assert gate.running == ["a", "b"]
        assert [as_object(line).get("id") for line in client.lines] == [1, 2]


async def test_late_answer_of_an_ended_session_is_not_sent_to_a_new_request_with_its_id() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_11_25) as client:
        meta: JsonObject = {"progressToken": "t"}
        id = await client.start("tools/call", {**tool("cling", name="old"), "_meta": meta}, id=2)
        await client.told("notifications/progress")
        await next_client(client, R2025_11_25)
        assert await client.start("tools/call", {**tool("hold", name="new"), "_meta": meta}) == id
        await trio.testing.wait_all_tasks_blocked()
        assert gate.running == ["old", "new"]
        gate.open.set()
        assert text_of(as_object((await client.response(id))["result"])) == "new"
        await trio.testing.wait_all_tasks_blocked()
        assert gate.ended == ["old"]
        assert [as_object(line).get("id") for line in client.lines] == [1, 2]
        assert client.notifications == []


async def test_pending_client_request_when_session_is_replaced_ends_and_its_late_answer_is_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        await client.start("tools/call", tool("look"))
        await client.wait_for(lambda: len(client.asked) == 1)
        question = client.asked[0]
        await next_client(client, R2025_06_18)
        await trio.testing.wait_all_tasks_blocked()
        (why,) = gate.ended
        assert "session ended" in why
        looking = await client.start("tools/call", tool("look"))
        await client.wait_for(lambda: len(client.asked) == 1)
        again = client.asked[0]
        assert again["id"] != question["id"]
        with caplog.at_level(logging.DEBUG, "mcp_server"):
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": "file:///old"}]}})
            await trio.testing.wait_all_tasks_blocked()
        assert any("session that has ended" in record.message for record in caplog.records)
        await client.send({"jsonrpc": "2.0", "id": again["id"], "result": {"roots": []}})
        assert text_of(as_object((await client.response(looking))["result"])) == "0"
        # Its client is gone: nothing is withdrawn.
        assert client.of("notifications/cancelled") == []


async def test_subscriptions_and_log_level_end_with_the_session() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        await client.call("resources/subscribe", {"uri": "note://a"})
        await client.call("logging/setLevel", {"level": "debug"})
        await next_client(client, R2025_06_18)
        gate.server.resource_updated("note://a")
        await client.call("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == []
        await client.call("resources/subscribe", {"uri": "note://a"})
        gate.server.resource_updated("note://a")
        await client.told("notifications/resources/updated")


async def test_second_initialize_that_is_invalid_leaves_the_session_running() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        held = await client.start("tools/call", tool("hold", name="a"))
        error = await client.fail("initialize", {"protocolVersion": 7})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        gate.open.set()
        assert text_of(as_object((await client.response(held))["result"])) == "a"


async def test_batch_with_initialize_is_refused_member_by_member_and_the_session_goes_on() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        await client.send([client.request("initialize", {}, id=50), client.request("ping", id=51)])
        refused = await client.response(50)
        assert as_object(refused["error"])["code"] == ErrorCode.INVALID_REQUEST
        assert await client.text("echo", text="a") == "a"


async def test_answers_of_a_batch_of_an_ended_session_are_dropped() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        members: list[JsonValue] = [
            client.request("ping", id=1),
            client.request("tools/call", tool("cling", name="old"), id=2),
        ]
        await client.send(members)
        await trio.testing.wait_all_tasks_blocked()
        assert gate.running == ["old"]
        await next_client(client, R2025_03_26)
        held = await client.start("tools/call", tool("hold", name="new"))
        gate.open.set()
        await client.response(held)
        await trio.testing.wait_all_tasks_blocked()
        assert [as_object(line).get("id") for line in client.lines] == [1, 2]


async def test_modern_requests_are_not_touched_when_the_session_is_replaced() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        modern = RawClient(client.stream, R2026_07_28)
        message = modern.request("tools/call", tool("hold", name="modern"), id="m")
        listen = modern.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        await client.send(message)
        await client.send(listen)
        await client.told("notifications/subscriptions/acknowledged")
        await next_client(client, R2025_06_18)
        client._methods["m"] = client._methods["s"] = "ping"
        gate.open.set()
        await client.wait_for(lambda: any(as_object(line).get("id") == "m" for line in client.lines))
        assert gate.ended == []
        gate.server.tool(name="another")(lambda: "x")
        await client.wait_for(lambda: len(client.of("notifications/tools/list_changed")) == 2)


async def test_status_of_a_task_of_an_ended_session_is_not_told_to_the_next_client() -> None:
    gate = Gate()
    release = trio.Event()

    @gate.server.tool(task="optional")
    async def work() -> str:
        await release.wait()
        return "done"

    async with connected(gate.server, R2025_11_25) as client:
        created = await client.call("tools/call", {**tool("work"), "task": {}})
        task = as_object(created["task"])["taskId"]
        assert len(as_list((await client.call("tasks/list"))["tasks"])) == 1
        await next_client(client, R2025_11_25)
        assert (await client.call("tasks/list"))["tasks"] == []
        release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == []
        # Its id is the key to it, as it is for any other connection.
        assert (await client.call("tasks/get", {"taskId": task}))["status"] == "completed"


async def test_initialize_over_and_over_holds_nothing_of_the_sessions_before() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        for _ in range(300):
            await client.start("tools/call", tool("look"))
            await client.wait_for(lambda: len(client.asked) == 1)
            await next_client(client, R2025_06_18)
        await trio.testing.wait_all_tasks_blocked()
        assert len(gate.ended) == 300
        assert await client.text("echo", text="a") == "a"


@pytest.mark.parametrize("first", [[], {"jsonrpc": "2.0", "id": None, "method": "ping"}, [{"jsonrpc": "2.0"}]])
async def test_error_without_id_before_initialize_has_a_null_id(first: JsonValue) -> None:
    gate = Gate()
    async with connected(gate.server, R2025_11_25, opened=False) as client:
        await client.send(first)
        await client.wait_for(lambda: len(client.lines) == 1)
        answer = as_object(client.lines[0])
        assert "id" in answer
        assert answer["id"] is None
        # 2025-11-25 is the first whose schema has no null id.
        client._responses.clear()
        await client.open()
        await client.send(first)
        await client.wait_for(lambda: len(client.lines) == 3)
        assert "id" not in as_object(client.lines[2])


async def test_call_that_a_proxy_passed_on_is_cancelled_there_when_the_session_is_replaced() -> None:
    gate = Gate()
    front = Server("front", version="0")
    async with open_in_memory(lambda stream: serve_stream(gate.server, stream)) as behind:
        front.mount_remote(behind, prefix="behind")
        async with connected(front, R2025_06_18) as client:
            await client.start("tools/call", tool("behind_hold", name="old"))
            await trio.testing.wait_all_tasks_blocked()
            assert gate.running == ["old"]
            await next_client(client, R2025_06_18)
            await trio.testing.wait_all_tasks_blocked()
            assert gate.ended == ["old"]
            # The connection behind the proxy is its own and goes on.
            assert await client.text("behind_echo", text="a") == "a"
