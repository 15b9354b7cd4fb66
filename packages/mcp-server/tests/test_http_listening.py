"""Subscriptions with a host that writes without waiting: order, slow clients, and the end."""

from __future__ import annotations

import gc
import json
import logging
import weakref

import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted
from controlled_server import ControlledServer

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
    """Open a subscription and wait until it is acknowledged."""
    filter_: JsonObject = {"resourceSubscriptions": list(uris), "toolsListChanged": tools}
    reply = client.post(client.request("subscriptions/listen", {"notifications": filter_}))
    assert (await reply.message())["method"] == "notifications/subscriptions/acknowledged"
    await trio.testing.wait_all_tasks_blocked()
    return reply


async def next_method(reply: Reply) -> str:
    """Return the method of the next message."""
    return str((await reply.message())["method"])


# --- immediate writes -------------------------------------------------------------------------------------------------


@pytest.mark.spec("subscription.resource-updated", "subscription.http-sse")
async def test_change_written_without_waking_subscription_task() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x")
        for number in range(1, 4):
            tools.server.resource_updated("memo://x")
            await trio.testing.wait_all_tasks_blocked()
            assert await next_method(reply) == CHANGED
            assert (reply.prompt_writes, len(reply.chunks)) == (number, number + 1)


async def test_concurrent_changes_written_together_once() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x", "memo://y", tools=True)
        for uri in ("memo://x", "memo://y", "memo://x"):
            tools.server.resource_updated(uri)
        tools.server.remove_tool("fail")
        tools.server.remove_tool("half")
        messages = [await reply.message() for _ in range(3)]
        assert [as_object(message["params"]).get("uri") for message in messages] == ["memo://x", "memo://y", None]
        await trio.testing.wait_all_tasks_blocked()
        assert (reply.prompt_writes, len(reply.chunks)) == (1, 2)


async def iterations_until_acknowledged(client: Client, clients: int, uris: int) -> int:
    """Return the iterations of the event loop until concurrent subscriptions of some URIs each are acknowledged."""
    filter_: JsonObject = {"resourceSubscriptions": [f"memo://{number}" for number in range(uris)]}
    replies = [client.post(client.request("subscriptions/listen", {"notifications": filter_})) for _ in range(clients)]
    count = 0
    while not all(reply.chunks for reply in replies):
        count += 1
        await trio.lowlevel.checkpoint()
    return count


async def test_subscribed_uris_looked_up_in_parts() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), prompt=True) as client:
        few = await iterations_until_acknowledged(client, 10, 10)
        many = await iterations_until_acknowledged(client, 10, 1_000)
        assert few < 20
        assert many > 10 * 1_000 / 64


async def test_change_outside_filter_not_written() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x")
        tools.server.resource_updated("memo://y")
        tools.server.remove_tool("fail")
        await trio.testing.wait_all_tasks_blocked()
        assert (reply.prompt_writes, len(reply.chunks)) == (0, 1)


async def test_change_not_encodable_as_json_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    tools = ControlledServer()
    caplog.set_level(logging.DEBUG, "mcp_server")
    async with hosted(tools.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x")
        tools.server.resource_updated("memo://x/\ud800")
        tools.server.resource_updated("memo://x")
        assert await next_method(reply) == CHANGED
        assert as_object(json.loads(reply.chunks[1].split(b"data: ")[1])["params"])["uri"] == "memo://x"
    assert "notification not sent" in caplog.text


async def test_subscriptions_notified_in_batches() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), prompt=True) as client:
        replies = [await listen(client, "memo://x") for _ in range(150)]
        tools.server.resource_updated("memo://x")
        counts: set[int] = set()
        while (count := sum(reply.prompt_writes for reply in replies)) < len(replies):
            counts.add(count)
            await trio.lowlevel.checkpoint()
        # Other tasks run between the batches, at least every second time.
        assert counts & {64, 128}
        assert counts <= {0, 64, 128}
        for reply in replies:
            assert await next_method(reply) == CHANGED


async def test_write_failure_does_not_affect_other_subscriptions(caplog: pytest.LogCaptureFixture) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), prompt=True) as client:
        bad, good = await listen(client, "memo://x"), await listen(client, "memo://x")
        bad.complete = True  # the next write fails
        tools.server.resource_updated("memo://x")
        assert await next_method(good) == CHANGED
        bad.complete = False
    assert "subscription not notified of a change" in caplog.text


async def test_subscription_without_acknowledgment_is_closed() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    failures = [ZeroDivisionError("the host fails")]

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        async def failing(message: Message) -> None:
            if failures and message["type"] == "http.response.body":
                raise failures.pop()
            await send(message)

        await app(scope, receive, failing)

    async with hosted(mounted, prompt=True) as client:
        filter_: JsonObject = {"notifications": {"toolsListChanged": True}}
        reply = client.post(client.request("subscriptions/listen", filter_))
        assert as_object((await reply.message())["error"])["code"] == ErrorCode.INTERNAL_ERROR
        await reply.returned.wait()
        assert (failures, app.running, len(tools.server._service.changes.targets)) == ([], 0, 0)


# --- slow clients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [0, 1, 30])
async def test_unwritten_bytes_precede_later_changes(capacity: int) -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x", tools=True)
        reply.capacity = capacity
        reply.reading = trio.Event()
        tools.server.resource_updated("memo://x")
        await trio.testing.wait_all_tasks_blocked()
        written = len(reply.chunks)
        for name in ("fail", "half", "look"):
            # Repeated changes are kept once.
            tools.server.remove_tool(name)
            tools.server.resource_updated("memo://x")
            await trio.testing.wait_all_tasks_blocked()
        # The notifier may reach the subscription while its task writes.
        (subscription,) = app._modern_requests
        assert isinstance(subscription, Subscription)
        subscription.notify_pending()
        assert (reply.prompt_writes, len(reply.chunks)) == (1, written)
        reply.capacity = None
        reply.reading.set()
        assert [await next_method(reply) for _ in range(3)] == [CHANGED, CHANGED_TOOLS, CHANGED]
        await trio.testing.wait_all_tasks_blocked()
        assert len(reply.chunks) == written + 2
        # Changes are written immediately again.
        tools.server.resource_updated("memo://x")
        assert await next_method(reply) == CHANGED
        assert reply.prompt_writes == 2


async def test_change_before_task_resumes_follows_unwritten_bytes() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), prompt=True) as client:
        reply = await listen(client, "memo://x", tools=True)
        reply.capacity = 10
        tools.server.resource_updated("memo://x")
        while not reply.prompt_writes:
            await trio.lowlevel.checkpoint()
        tools.server.remove_tool("fail")
        assert [await next_method(reply) for _ in range(2)] == [CHANGED, CHANGED_TOOLS]


# --- keep-alive -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.sse-comment-keepalive")
async def test_keep_alive_interval_starts_at_last_notification(autojump_clock: Clock) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(policy=EndpointPolicy(keep_alive=10)), prompt=True) as client:
        reply = await listen(client, "memo://x")
        await trio.sleep(6)
        tools.server.resource_updated("memo://x")
        await trio.sleep(9)
        assert (len(reply.chunks), COMMENT in reply.chunks) == (2, False)
        await trio.sleep(2)
        assert reply.chunks[2:] == [COMMENT]
        tools.server.resource_updated("memo://x")
        assert [await next_method(reply) for _ in range(2)] == [CHANGED, CHANGED]


async def test_change_during_keep_alive_comment_sent(autojump_clock: Clock) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(policy=EndpointPolicy(keep_alive=10)), prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.reading = trio.Event()
        await trio.sleep(11)
        tools.server.resource_updated("memo://x")
        reply.reading.set()
        assert await next_method(reply) == CHANGED
        assert (reply.chunks[1], trio.current_time()) == (COMMENT, 11)


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("subscription.graceful-result", "subscription.server-teardown-http-closes")
@pytest.mark.parametrize("capacity", [None, 0, 10])
async def test_drain_sends_result_after_pending_notifications(capacity: int | None, autojump_clock: Clock) -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.capacity = capacity
        tools.server.resource_updated("memo://x")
        while not reply.prompt_writes:
            await trio.lowlevel.checkpoint()
        await app.drain(5)
        notification, result = await reply.rest()
        assert json.loads(notification.data)["method"] == CHANGED
        assert json.loads(result.data)["result"]["resultType"] == "complete"
        assert (app.running, trio.current_time()) == (0, 0)


async def test_drain_during_blocked_write_sends_result(autojump_clock: Clock) -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.capacity = 0
        reply.reading = trio.Event()
        tools.server.resource_updated("memo://x")
        await trio.testing.wait_all_tasks_blocked()
        client.nursery.start_soon(app.drain, 5)
        await trio.testing.wait_all_tasks_blocked()
        reply.reading.set()
        assert len(await reply.rest()) == 2
        assert trio.current_time() == 0


async def test_drain_with_blocked_client_ends_after_timeout(autojump_clock: Clock) -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app, prompt=True) as client:
        reply = await listen(client, "memo://x")
        reply.capacity = 0
        reply.reading = trio.Event()
        tools.server.resource_updated("memo://x")
        await app.drain(5)
        assert trio.current_time() < 7
        assert (app.running, reply.returned.is_set()) == (0, True)


@pytest.mark.spec("subscription.server-stops-after-cancel")
async def test_disconnected_client_receives_no_more_notifications() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app, prompt=True) as client:
        closed, open_reply = await listen(client, "memo://x"), await listen(client, "memo://x")
        # The client disconnects before its notification is written.
        closed.leave()
        tools.server.resource_updated("memo://x")
        await closed.returned.wait()
        assert await next_method(open_reply) == CHANGED
        tools.server.resource_updated("memo://x")
        assert await next_method(open_reply) == CHANGED
        assert (
            app.running,
            len(app._modern_requests),
            len(tools.server._service.changes.targets),
            closed.complete,
        ) == (
            1,
            1,
            1,
            False,
        )


async def test_closed_subscription_removed_from_pending_notifications() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app, prompt=True) as client:
        await listen(client, "memo://x")
        tools.server.resource_updated("memo://x")
        (subscription,) = app._modern_requests
        assert isinstance(subscription, Subscription)
        assert list(app._notifier._due) == [subscription]
        subscription.close()
        # A closed subscription must not block the notifier's next run.
        assert not app._notifier._due


async def test_subscription_does_not_keep_scope_of_request() -> None:
    class WeakScope(dict[str, object]):
        """A dictionary that can be weakly referenced."""

    scopes: list[weakref.ref[WeakScope]] = []
    server = Server("x", version="0")

    @server.tool
    async def one() -> None:
        """Return nothing."""

    app = server.asgi()

    def serve(scope: Scope, receive: Receive, send: Send) -> None:
        weak_scope = WeakScope(scope)
        scopes.append(weakref.ref(weak_scope))
        client.nursery.start_soon(app, weak_scope, receive, send)

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        ended = trio.Event()

        async def receive_and_record() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                ended.set()
            return message

        serve(scope, receive_and_record, send)
        await ended.wait()

    async with hosted(mounted) as client:
        await listen(client, tools=True)
        gc.collect()
        assert [scope() for scope in scopes] == [None]
        assert app.running == 1
