"""Subscriptions where the host writes without waiting: told in passing, in order, and with nothing held on to."""

from __future__ import annotations

import gc
import json
import logging
import weakref

import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted
from http_gate import Gate

from mcp_core.errors import ErrorCode
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject
from mcp_server import Server
from mcp_server.asgi import Message, Receive, Scope, Send
from mcp_server.transports.http.subscription import Subscription

COMMENT = b": still here\n\n"
CHANGED = "notifications/resources/updated"
CHANGED_TOOLS = "notifications/tools/list_changed"

Clock = trio.testing.MockClock


async def listen(client: Client, *uris: str, tools: bool = False) -> Reply:
    """A subscription that was acknowledged."""
    wanted: JsonObject = {"resourceSubscriptions": list(uris), "toolsListChanged": tools}
    reply = client.post(client.request("subscriptions/listen", {"notifications": wanted}))
    assert (await reply.message())["method"] == "notifications/subscriptions/acknowledged"
    await trio.testing.wait_all_tasks_blocked()
    return reply


async def told(reply: Reply) -> str:
    """The method of the next message."""
    return str((await reply.message())["method"])


# --- in passing ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("subscription.resource-updated", "subscription.http-sse")
async def test_a_change_is_told_without_waking_the_task_of_the_subscription() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x")
        for number in range(1, 4):
            gate.server.resource_updated("memo://x")
            await trio.testing.wait_all_tasks_blocked()
            assert await told(reply) == CHANGED
            assert (reply.prompt_writes, len(reply.chunks)) == (number, number + 1)


async def test_changes_that_come_together_are_written_together_each_once() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x", "memo://y", tools=True)
        for uri in ("memo://x", "memo://y", "memo://x"):
            gate.server.resource_updated(uri)
        gate.server.remove_tool("fail")
        gate.server.remove_tool("half")
        messages = [await reply.message() for _ in range(3)]
        assert [as_object(message["params"]).get("uri") for message in messages] == ["memo://x", "memo://y", None]
        await trio.testing.wait_all_tasks_blocked()
        assert (reply.prompt_writes, len(reply.chunks)) == (1, 2)


async def test_what_nobody_asked_for_is_not_written() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x")
        gate.server.resource_updated("memo://y")
        gate.server.remove_tool("fail")
        await trio.testing.wait_all_tasks_blocked()
        assert (reply.prompt_writes, len(reply.chunks)) == (0, 1)


async def test_what_json_cannot_say_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    caplog.set_level(logging.DEBUG, "mcp_server")
    async with hosted(gate.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x")
        gate.server.resource_updated("memo://x/\ud800")
        gate.server.resource_updated("memo://x")
        assert await told(reply) == CHANGED
        assert as_object(json.loads(reply.chunks[1].split(b"data: ")[1])["params"])["uri"] == "memo://x"
    assert "notification not sent" in caplog.text


async def test_many_subscriptions_are_told_some_at_a_time() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), prompt=True) as client:
        replies = [await listen(client, "memo://x") for _ in range(150)]
        gate.server.resource_updated("memo://x")
        seen: set[int] = set()
        while (count := sum(reply.prompt_writes for reply in replies)) < len(replies):
            seen.add(count)
            await trio.lowlevel.checkpoint()
        # Others had their turn in between, at least each second time.
        assert seen & {64, 128}
        assert seen <= {0, 64, 128}
        for reply in replies:
            assert await told(reply) == CHANGED


async def test_a_host_that_fails_to_write_harms_no_other_subscription(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), prompt=True) as client:
        bad, good = await listen(client, "memo://x"), await listen(client, "memo://x")
        bad.complete = True  # so that writing fails
        gate.server.resource_updated("memo://x")
        assert await told(good) == CHANGED
        bad.complete = False
    assert "subscription not notified of a change" in caplog.text


async def test_a_subscription_that_cannot_be_acknowledged_is_none() -> None:
    gate = Gate()
    app = gate.server.asgi()
    failures = [ZeroDivisionError("the host fails")]

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        async def failing(message: Message) -> None:
            if failures and message["type"] == "http.response.body":
                raise failures.pop()
            await send(message)

        await app(scope, receive, failing)

    async with hosted(mounted, prompt=True) as client:
        wanted: JsonObject = {"notifications": {"toolsListChanged": True}}
        reply = client.post(client.request("subscriptions/listen", wanted))
        assert as_object((await reply.message())["error"])["code"] == ErrorCode.INTERNAL_ERROR
        await reply.returned.wait()
        assert (failures, app.running, len(gate.server._service._channels)) == ([], 0, 0)


# --- slow clients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1, 30])
async def test_what_the_host_kept_back_follows_and_then_what_came_meanwhile(room: int) -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x", tools=True)
        reply.room = room
        reply.reading = trio.Event()
        gate.server.resource_updated("memo://x")
        await trio.testing.wait_all_tasks_blocked()
        written = len(reply.chunks)
        for name in ("fail", "half", "look"):
            # However much happens, it is held once.
            gate.server.remove_tool(name)
            gate.server.resource_updated("memo://x")
            await trio.testing.wait_all_tasks_blocked()
        # Should the herald come by: its task is at it.
        (subscription,) = app._modern_requests
        assert isinstance(subscription, Subscription)
        subscription.notify_pending()
        assert (reply.prompt_writes, len(reply.chunks)) == (1, written)
        reply.room = None
        reply.reading.set()
        assert [await told(reply) for _ in range(3)] == [CHANGED, CHANGED_TOOLS, CHANGED]
        await trio.testing.wait_all_tasks_blocked()
        assert len(reply.chunks) == written + 2
        # It is told in passing again.
        gate.server.resource_updated("memo://x")
        assert await told(reply) == CHANGED
        assert reply.prompt_writes == 2


async def test_what_comes_before_its_task_runs_again_follows_what_was_kept_back() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x", tools=True)
        reply.room = 10
        gate.server.resource_updated("memo://x")
        while not reply.prompt_writes:
            await trio.lowlevel.checkpoint()
        gate.server.remove_tool("fail")
        assert [await told(reply) for _ in range(2)] == [CHANGED, CHANGED_TOOLS]


# --- silence ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.sse-comment-keepalive")
async def test_a_stream_is_kept_alive_from_its_last_notice_on(autojump_clock: Clock) -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(policy=EndpointPolicy(keep_alive=10)), prompt=True) as client:
        reply = await listen(client, "memo://x")
        await trio.sleep(6)
        gate.server.resource_updated("memo://x")
        await trio.sleep(9)
        assert (len(reply.chunks), COMMENT in reply.chunks) == (2, False)
        await trio.sleep(2)
        assert reply.chunks[2:] == [COMMENT]
        gate.server.resource_updated("memo://x")
        assert [await told(reply) for _ in range(2)] == [CHANGED, CHANGED]


async def test_what_changes_while_a_stream_is_kept_alive_is_told(autojump_clock: Clock) -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(policy=EndpointPolicy(keep_alive=10)), prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.reading = trio.Event()
        await trio.sleep(11)
        gate.server.resource_updated("memo://x")
        reply.reading.set()
        assert await told(reply) == CHANGED
        assert (reply.chunks[1], trio.current_time()) == (COMMENT, 11)


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("subscription.graceful-result", "subscription.server-teardown-http-closes")
@pytest.mark.parametrize("room", [None, 0, 10])
async def test_a_subscription_ends_with_its_result_after_all_that_was_told(
    room: int | None, autojump_clock: Clock
) -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.room = room
        gate.server.resource_updated("memo://x")
        while not reply.prompt_writes:
            await trio.lowlevel.checkpoint()
        await app.drain(5)
        notice, result = await reply.rest()
        assert json.loads(notice.data)["method"] == CHANGED
        assert json.loads(result.data)["result"]["resultType"] == "complete"
        assert (app.running, trio.current_time()) == (0, 0)


async def test_a_subscription_that_is_written_to_when_the_server_stops_ends_properly(autojump_clock: Clock) -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.room = 0
        reply.reading = trio.Event()
        gate.server.resource_updated("memo://x")
        await trio.testing.wait_all_tasks_blocked()
        client.nursery.start_soon(app.drain, 5)
        await trio.testing.wait_all_tasks_blocked()
        reply.reading.set()
        assert len(await reply.rest()) == 2
        assert trio.current_time() == 0


async def test_a_client_that_takes_nothing_does_not_keep_the_server_from_stopping(autojump_clock: Clock) -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.room = 0
        reply.reading = trio.Event()
        gate.server.resource_updated("memo://x")
        await app.drain(5)
        assert trio.current_time() < 7
        assert (app.running, reply.returned.is_set()) == (0, True)


@pytest.mark.spec("subscription.server-stops-after-cancel")
async def test_a_client_that_leaves_is_told_nothing_more() -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app, prompt=True) as client:
        gone, there = await listen(client, "memo://x"), await listen(client, "memo://x")
        # It leaves before it can be told.
        gone.leave()
        gate.server.resource_updated("memo://x")
        await gone.returned.wait()
        assert await told(there) == CHANGED
        gate.server.resource_updated("memo://x")
        assert await told(there) == CHANGED
        assert (app.running, len(app._modern_requests), len(gate.server._service._channels), gone.complete) == (
            1,
            1,
            1,
            False,
        )


async def test_a_subscription_that_ends_before_it_can_be_told_is_forgotten() -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app, prompt=True) as client:
        await listen(client, "memo://x")
        gate.server.resource_updated("memo://x")
        (subscription,) = app._modern_requests
        assert isinstance(subscription, Subscription)
        assert list(app._notifier._due) == [subscription]
        subscription.close()
        # Else nobody would be told in another run.
        assert not app._notifier._due


async def test_nothing_of_the_request_is_held_on_to() -> None:
    class Marked(dict[str, object]):
        """Can be watched, other than a dictionary."""

    scopes: list[weakref.ref[Marked]] = []
    server = Server("x", version="0")

    @server.tool
    async def one() -> None:
        """One."""

    app = server.asgi()

    def serve(scope: Scope, receive: Receive, send: Send) -> None:
        marked = Marked(scope)
        scopes.append(weakref.ref(marked))
        client.nursery.start_soon(app, marked, receive, send)

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        ended = trio.Event()

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                ended.set()
            return message

        serve(scope, heard, send)
        await ended.wait()

    async with hosted(mounted) as client:
        await listen(client, tools=True)
        gc.collect()
        assert [scope() for scope in scopes] == [None]
        assert app.running == 1
