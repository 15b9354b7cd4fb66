"""Subscriptions over modern HTTP, shutdown, and paths of an endpoint."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted, session
from controlled_server import ControlledServer, text_of

from mcp_core.errors import ErrorCode
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import MODERN, R2024_11_05, R2025_06_18
from mcp_server import Server
from mcp_server.asgi import Message, Receive, Scope, Send

HOOKED = pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "plain"])
TAG = "io.modelcontextprotocol/subscriptionId"


def listen(client: Client, id: JsonValue = "s", **filter_: JsonValue) -> Reply:
    return client.post(client.request("subscriptions/listen", {"notifications": filter_}, id=id))


async def next_notification(reply: Reply) -> tuple[object, object]:
    """Return the method of the next message and its subscription id."""
    message = await reply.message()
    return message.get("method"), as_object(as_object(message["params"])["_meta"])[TAG]


# --- subscriptions ---------------------------------------------------------------------------------------------------


@HOOKED
@pytest.mark.spec(
    "subscription.http-sse",
    "subscription.ack-first",
    "subscription.ack-filter",
    "subscription.ack-subset",
    "subscription.ack-tagged",
    "subscription.id-equals-request-id",
    "subscription.all-notifications-tagged",
    "subscription.stays-open",
    "subscription.tools-list-changed",
    "subscription.only-requested-types",
    "subscription.only-requested-uris",
    "subscription.resource-updated",
    "subscription.resource-updated-uri",
    "subscription.unsupported-not-acked",
    "subscription.nothing-before-ack",
    "subscription.omitted-is-false",
)
@pytest.mark.parametrize("id", [0, "0", "", 7])
async def test_subscription_stream_has_requested_notifications(id: JsonValue, hooked: bool) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), hooked=hooked) as client:
        reply = listen(client, id, toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["memo://x"])
        message = await reply.message()
        params = as_object(message["params"])
        assert message["method"] == "notifications/subscriptions/acknowledged"
        assert params["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["memo://x"]}
        tag = as_object(params["_meta"])[TAG]
        assert (tag, type(tag)) == (id, type(id))
        tools.server.resource_updated("memo://y")
        tools.server.remove_tool("fail")
        tools.server.remove_tool("half")
        tools.server.resource_updated("memo://x")
        assert await next_notification(reply) == ("notifications/tools/list_changed", id)
        assert await next_notification(reply) == ("notifications/resources/updated", id)
        await trio.testing.wait_all_tasks_blocked()
        assert not reply.complete
        assert reply.headers["x-accel-buffering"] == "no"


@HOOKED
async def test_change_in_worker_thread_notifies_subscription(hooked: bool) -> None:
    server = Server("plain", version="1")

    @server.resource("memo://x")
    def memo() -> str:
        return "the text"

    @server.tool
    def change() -> str:
        """Change the memo and the list of tools."""
        server.resource_updated("memo://x")
        server.add_tool(lambda: None, name="another")
        return "changed"

    async with hosted(server.asgi(), hooked=hooked) as client:
        reply = listen(client, toolsListChanged=True, resourceSubscriptions=["memo://x"])
        await reply.message()
        await trio.testing.wait_all_tasks_blocked()
        call = client.post(client.request("tools/call", {"name": "change", "arguments": {}}))
        assert "isError" not in as_object((await call.json())["result"])
        assert await next_notification(reply) == ("notifications/resources/updated", "s")
        assert await next_notification(reply) == ("notifications/tools/list_changed", "s")


@pytest.mark.spec("subscription.server-multiple-concurrent", "subscription.server-stops-after-cancel")
async def test_concurrent_subscriptions_notified_until_disconnect() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app) as client:
        replies = [listen(client, "same", toolsListChanged=True) for _ in range(3)]
        for reply in replies:
            await reply.message()
        tools.server.remove_tool("fail")
        for reply in replies:
            assert await next_notification(reply) == ("notifications/tools/list_changed", "same")
        replies[0].leave()
        await replies[0].returned.wait()
        before = len(replies[0].chunks)
        tools.server.remove_tool("half")
        for reply in replies[1:]:
            assert await next_notification(reply) == ("notifications/tools/list_changed", "same")
        assert len(replies[0].chunks) == before
        assert app.running == 2
        assert len(tools.server._service.changes.targets) == 2


async def test_blocked_subscriber_does_not_delay_others(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        blocked_reply = client.start(
            "POST", client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        )
        await blocked_reply.message()
        blocked_reply.reading = trio.Event()
        reply = listen(client, toolsListChanged=True)
        await reply.message()
        for name in ("fail", "half", "look"):
            tools.server.remove_tool(name)
            assert (await next_notification(reply))[0] == "notifications/tools/list_changed"
        blocked_reply.reading.set()
        # Changes during the block are sent once.
        assert (await next_notification(blocked_reply))[0] == "notifications/tools/list_changed"
        await trio.sleep(1)
        assert (await next_notification(blocked_reply))[0] == "notifications/tools/list_changed"
        await trio.sleep(1)
        assert len(blocked_reply.chunks) == 3


@pytest.mark.spec("http.sse-comment-keepalive")
@HOOKED
async def test_silent_subscription_has_keep_alive_comments_without_companion(
    hooked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(policy=EndpointPolicy(keep_alive=10)), hooked=hooked) as client:
        reply = listen(client, toolsListChanged=True)
        await trio.sleep(35)
        assert reply.chunks[1:] == [b": still here\n\n"] * 3
        assert reply.companions == 0


@pytest.mark.spec("http.listen-not-request-scoped", "subscription.no-unsubscribed-notifications")
async def test_change_notifications_only_on_subscription_stream() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        call = client.post(client.call("steps", name="a", token=1))
        await call.message()
        empty = listen(client)
        assert as_object((await empty.message())["params"])["notifications"] == {}
        tools.server.remove_tool("fail")
        tools.let("a1", "a2")
        methods = [json.loads(event.data).get("method") for event in await call.rest()]
        assert methods == ["notifications/progress", None]
        assert len(empty.chunks) == 1


async def test_change_during_acknowledgment_sent_afterward() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        message = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        reply = client.start("POST", message, blocked=True)
        await trio.testing.wait_all_tasks_blocked()
        tools.server.remove_tool("fail")
        reply.reading.set()
        assert await next_notification(reply) == ("notifications/subscriptions/acknowledged", "s")
        assert await next_notification(reply) == ("notifications/tools/list_changed", "s")


async def test_subscription_started_during_drain_ends_with_result() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app) as client:
        message = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        reply = client.start("POST", message, blocked=True)
        await trio.testing.wait_all_tasks_blocked()
        client.nursery.start_soon(app.drain, 5)
        await trio.testing.wait_all_tasks_blocked()
        reply.reading.set()
        assert await next_notification(reply) == ("notifications/subscriptions/acknowledged", "s")
        assert (await reply.message())["id"] == "s"


async def test_notification_of_undeclared_capability_dropped() -> None:
    server = Server("x", version="0")

    @server.tool
    async def early() -> None:
        """Return nothing."""

    async with hosted(server.asgi()) as client:
        reply = listen(client, toolsListChanged=True, promptsListChanged=True)
        await reply.message()

        @server.prompt
        async def late() -> str:
            """Return a text."""
            return "late"

        server.remove_tool("early")
        assert (await next_notification(reply))[0] == "notifications/tools/list_changed"
        assert len(reply.chunks) == 2


@pytest.mark.spec("subscription.filter-missing-invalid")
async def test_subscription_without_filter_or_stream_rejected() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        reply = client.post(client.request("subscriptions/listen"))
        assert as_object((await reply.json())["error"])["code"] == ErrorCode.INVALID_PARAMS
        assert reply.status == 400
        reply = client.post(client.request("subscriptions/listen", {"notifications": {}}), accept="application/json")
        await reply.body()
        assert reply.status == 406


async def test_engine_template_follows_registrations() -> None:
    server = Server("x", version="0")
    app = server.asgi()
    async with hosted(app) as client:
        assert "error" in await client.ask("tools/list")

        @server.tool
        async def late() -> None:
            """Return nothing."""

        assert "result" in await client.ask("tools/list")
        assert app._current_template() is app._current_template()

        @server.prompt
        async def hello(name: str) -> str:
            """Return the name."""
            return name

        ref: JsonObject = {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": ""}}
        assert "error" in await client.ask("completion/complete", ref)

        @server.completion(prompt="hello", argument="name")
        async def complete(value: str) -> list[str]:
            return ["a"]

        assert "result" in await client.ask("completion/complete", ref)


# --- shutdown ---------------------------------------------------------------------------------------------------------


@HOOKED
@pytest.mark.spec(
    "subscription.graceful-result",
    "subscription.graceful-result-shape",
    "subscription.server-teardown-http-closes",
    "cancellation.server-only-for-listen",
)
async def test_drain_ends_subscription_with_result(hooked: bool, autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app, hooked=hooked) as client:
        reply = listen(client, 5, toolsListChanged=True)
        await reply.message()
        await app.drain(10)
        (event,) = await reply.rest()
        message = json.loads(event.data)
        assert message["id"] == 5
        assert message["result"]["resultType"] == "complete"
        assert message["result"]["_meta"][TAG] == 5
        assert trio.current_time() == 0 or trio.current_time() < 1


@HOOKED
async def test_request_body_completed_during_drain_returns_503(hooked: bool) -> None:
    app = ControlledServer().server.asgi()
    rest = trio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        async def late() -> Message:
            await rest.wait()
            return await receive()

        await app(scope, late, send)

    async with hosted(slow, hooked=hooked) as client, trio.open_nursery() as nursery:
        reply = listen(client, toolsListChanged=True)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(app.drain, 5)
        await trio.testing.wait_all_tasks_blocked()
        rest.set()
        await reply.body()
        assert reply.status == 503


@HOOKED
async def test_running_calls_complete_during_drain_until_timeout(
    hooked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    tools = ControlledServer()
    app = tools.server.asgi(healthz="/healthz", readyz="/readyz")
    async with hosted(app, hooked=hooked) as client, trio.open_nursery() as nursery:
        quick = client.post(client.call("hold", name="quick"))
        slow = client.post(client.call("hold", name="slow"))
        loud = client.post(client.call("steps", name="loud", token=1))
        await tools.until_running("quick", "slow", "loud")
        nursery.start_soon(app.drain, 3)
        await trio.sleep(1)
        refused = client.post(client.call("echo", text="a"))
        assert (await refused.body() != b"", refused.status) == (True, 503)
        assert "retry-after" in refused.headers
        client.path = "/healthz"
        health = client.start("GET")
        assert (await health.body(), health.status) == (b"ok\n", 200)
        client.path = "/readyz"
        ready = client.start("GET")
        assert (await ready.body(), ready.status) == (b"not ready\n", 503)
        tools.let("quick")
        assert text_of(await quick.answer()) == "quick"
        await slow.body()
        assert slow.status == 503
        assert [event.data for event in (await loud.rest())[1:]] == []
        assert sorted(tools.cancelled) == ["loud", "slow"]
    assert app.running == 0


@pytest.mark.spec("sse.get-retry")
async def test_drain_ends_sessions_with_retry(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    app = tools.server.asgi(policy=EndpointPolicy(retry=3))
    async with session(app) as client:
        standalone = client.get()
        await standalone.event()
        older = Client(app, client.nursery, R2025_06_18)
        await older.open()
        plain = older.get()
        slow = client.post(client.call("hold", name="slow"), accept="application/json")
        await tools.until_running("slow")
        await app.drain(2)
        late = client.get()
        assert (await late.body() != b"", late.status) == (True, 503)
        assert [event.retry for event in await standalone.rest()] == [3000]
        assert await plain.rest() == []
        await slow.body()
        assert tools.cancelled == ["slow"]
        assert app.running == 0


async def test_lifespan_events_answered_and_websocket_raises() -> None:
    app = ControlledServer().server.asgi()
    inbound = ["lifespan.startup", "lifespan.shutdown"]
    outbound: list[object] = []

    async def receive() -> Message:
        return {"type": inbound.pop(0)}

    async def send(message: Message) -> None:
        outbound.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert outbound == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(ValueError, match="not websocket"):
        await app({"type": "websocket"}, receive, send)


# --- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "root", "status"),
    [
        ("/mcp", "", 200),
        ("/mcp/", "", 200),
        ("/tools/mcp", "/tools", 200),
        ("/mcp", "/tools", 200),
        ("/tools/mcp/", "/tools/", 200),
        ("/mcp", "/mcp", 200),
        ("/", "", 404),
        ("/mcpx", "", 404),
        ("/mcp/x", "", 404),
        ("/other/mcp", "/tools", 404),
        ("/toolsmcp", "/tools", 404),
    ],
)
async def test_endpoint_path_relative_to_root_path(path: str, root: str, status: int) -> None:
    app = ControlledServer().server.asgi()

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": root}, receive, send)

    async with hosted(mounted) as client:
        client.path = path
        reply = client.post(client.call("echo", text="a"))
        await reply.body()
        assert reply.status == status
        assert "location" not in reply.headers


async def test_endpoint_path_may_be_root() -> None:
    async with hosted(ControlledServer().server.asgi(path="/")) as client:
        client.path = "/"
        assert text_of(await client.post(client.call("echo", text="a")).json()) == "a"


async def test_drain_ends_http_sse_stream(autojump_clock: trio.testing.MockClock) -> None:
    app = ControlledServer().server.asgi(legacy_sse=True)
    async with hosted(app, R2024_11_05) as client:
        client.path = "/sse"
        stream = client.get()
        await stream.event()
        await app.drain(1)
        await stream.rest()
        assert app.sessions == 0


async def test_healthz_returns_200_for_any_host() -> None:
    async with hosted(ControlledServer().server.asgi(healthz="/healthz")) as client:
        client.path = "/healthz"
        reply = client.start("GET", host="10.1.2.3")
        assert (await reply.body(), reply.status) == (b"ok\n", 200)


async def test_http_sse_endpoints_when_enabled_with_failing_authentication() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), R2024_11_05) as client:
        client.path = "/sse"
        reply = client.get()
        await reply.body()
        assert reply.status == 404

    async def identify(request: object) -> str | None:
        raise ZeroDivisionError

    for broken in (False, True):
        app = tools.server.asgi(legacy_sse=True, authenticate=identify if broken else None)
        async with hosted(app, R2024_11_05) as client:
            client.path = "/sse"
            stream = client.get()
            if broken:
                await stream.body()
                assert stream.status == 500
                client.path = "/messages"
                refused = client.post(client.request("ping"))
                assert (await refused.body() != b"", refused.status) == (True, 500)
                continue
            event = await stream.event()
            assert event.event == "endpoint"
            assert app.sessions == 1
            client.path, _, query = event.data.decode().partition("?")
            assert client.path == "/messages"
            client.query = query
            accepted = client.post(client.request("ping"))
            await accepted.body()
            assert accepted.status == 202
            assert (await stream.message())["result"] == {}
            stream.leave()
            await stream.returned.wait()
            assert app.sessions == 0
    with pytest.raises(ValueError, match="legacy"):
        Server("x", version="0", revisions=MODERN).asgi(legacy_sse=True)
