"""Subscriptions over modern HTTP, and the end of an endpoint."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted, session
from http_gate import Gate, text_of

from mcp_core.errors import ErrorCode
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import MODERN, R2024_11_05, R2025_06_18
from mcp_server import Server
from mcp_server.asgi import Message, Receive, Scope, Send

HOOKED = pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "plain"])
TAG = "io.modelcontextprotocol/subscriptionId"


def listen(client: Client, id: JsonValue = "s", **wanted: JsonValue) -> Reply:
    return client.post(client.request("subscriptions/listen", {"notifications": wanted}, id=id))


async def told(reply: Reply) -> tuple[object, object]:
    """The method of the next message, and the subscription that it is tagged with."""
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
async def test_a_subscription_is_a_stream_of_its_notices(id: JsonValue, hooked: bool) -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), hooked=hooked) as client:
        reply = listen(client, id, toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["memo://x"])
        message = await reply.message()
        params = as_object(message["params"])
        assert message["method"] == "notifications/subscriptions/acknowledged"
        assert params["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["memo://x"]}
        tag = as_object(params["_meta"])[TAG]
        assert (tag, type(tag)) == (id, type(id))
        gate.server.resource_updated("memo://y")
        gate.server.remove_tool("fail")
        gate.server.remove_tool("half")
        gate.server.resource_updated("memo://x")
        assert await told(reply) == ("notifications/tools/list_changed", id)
        assert await told(reply) == ("notifications/resources/updated", id)
        await trio.testing.wait_all_tasks_blocked()
        assert not reply.complete
        assert reply.headers["x-accel-buffering"] == "no"


@HOOKED
async def test_a_plain_function_tells_of_changes_from_its_worker_thread(hooked: bool) -> None:
    server = Server("plain", version="1")

    @server.resource("memo://x")
    def memo() -> str:
        return "a memo"

    @server.tool
    def change() -> str:
        """Changes the memo, and what is there to be called."""
        server.resource_updated("memo://x")
        server.add_tool(lambda: None, name="another")
        return "changed"

    async with hosted(server.asgi(), hooked=hooked) as client:
        reply = listen(client, toolsListChanged=True, resourceSubscriptions=["memo://x"])
        await reply.message()
        await trio.testing.wait_all_tasks_blocked()
        call = client.post(client.request("tools/call", {"name": "change", "arguments": {}}))
        assert "isError" not in as_object((await call.json())["result"])
        assert await told(reply) == ("notifications/resources/updated", "s")
        assert await told(reply) == ("notifications/tools/list_changed", "s")


@pytest.mark.spec("subscription.server-multiple-concurrent", "subscription.server-stops-after-cancel")
async def test_each_subscription_is_told_until_its_client_leaves() -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app) as client:
        replies = [listen(client, "same", toolsListChanged=True) for _ in range(3)]
        for reply in replies:
            await reply.message()
        gate.server.remove_tool("fail")
        for reply in replies:
            assert await told(reply) == ("notifications/tools/list_changed", "same")
        replies[0].leave()
        await replies[0].returned.wait()
        before = len(replies[0].chunks)
        gate.server.remove_tool("half")
        for reply in replies[1:]:
            assert await told(reply) == ("notifications/tools/list_changed", "same")
        assert len(replies[0].chunks) == before
        assert app.running == 2
        assert len(gate.server._service._channels) == 2


async def test_a_subscriber_that_does_not_read_holds_up_nobody(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with hosted(gate.server.asgi()) as client:
        stuck = client.start(
            "POST", client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        )
        await stuck.message()
        stuck.reading = trio.Event()
        reply = listen(client, toolsListChanged=True)
        await reply.message()
        for name in ("fail", "half", "look"):
            gate.server.remove_tool(name)
            assert (await told(reply))[0] == "notifications/tools/list_changed"
        stuck.reading.set()
        # What came meanwhile is told once.
        assert (await told(stuck))[0] == "notifications/tools/list_changed"
        await trio.sleep(1)
        assert (await told(stuck))[0] == "notifications/tools/list_changed"
        await trio.sleep(1)
        assert len(stuck.chunks) == 3


@pytest.mark.spec("http.sse-comment-keepalive")
@HOOKED
async def test_a_silent_subscription_is_kept_alive_without_another_task(
    hooked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(policy=EndpointPolicy(keep_alive=10)), hooked=hooked) as client:
        reply = listen(client, toolsListChanged=True)
        await trio.sleep(35)
        assert reply.chunks[1:] == [b": still here\n\n"] * 3
        assert reply.companions == 0


@pytest.mark.spec("http.listen-not-request-scoped", "subscription.no-unsubscribed-notifications")
async def test_notices_go_nowhere_else() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi()) as client:
        call = client.post(client.call("steps", name="a", token=1))
        await call.message()
        empty = listen(client)
        assert as_object((await empty.message())["params"])["notifications"] == {}
        gate.server.remove_tool("fail")
        gate.let("a1", "a2")
        methods = [json.loads(event.data).get("method") for event in await call.rest()]
        assert methods == ["notifications/progress", None]
        assert len(empty.chunks) == 1


async def test_what_changes_while_the_acknowledgement_is_sent_is_told() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi()) as client:
        message = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        reply = client.start("POST", message, blocked=True)
        await trio.testing.wait_all_tasks_blocked()
        gate.server.remove_tool("fail")
        reply.reading.set()
        assert await told(reply) == ("notifications/subscriptions/acknowledged", "s")
        assert await told(reply) == ("notifications/tools/list_changed", "s")


async def test_a_subscription_that_begins_while_the_server_stops_ends_properly() -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with hosted(app) as client:
        message = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        reply = client.start("POST", message, blocked=True)
        await trio.testing.wait_all_tasks_blocked()
        client.nursery.start_soon(app.drain, 5)
        await trio.testing.wait_all_tasks_blocked()
        reply.reading.set()
        assert await told(reply) == ("notifications/subscriptions/acknowledged", "s")
        assert (await reply.message())["id"] == "s"


async def test_notices_of_what_the_server_did_not_declare_are_not_told() -> None:
    server = Server("x", version="0")

    @server.tool
    async def early() -> None:
        """Early."""

    async with hosted(server.asgi()) as client:
        reply = listen(client, toolsListChanged=True, promptsListChanged=True)
        await reply.message()

        @server.prompt
        async def late() -> str:
            """Late."""
            return "late"

        server.remove_tool("early")
        assert (await told(reply))[0] == "notifications/tools/list_changed"
        assert len(reply.chunks) == 2


@pytest.mark.spec("subscription.filter-missing-invalid")
async def test_a_subscription_without_a_filter_is_refused() -> None:
    async with hosted(Gate().server.asgi()) as client:
        reply = client.post(client.request("subscriptions/listen"))
        assert as_object((await reply.json())["error"])["code"] == ErrorCode.INVALID_PARAMS
        assert reply.status == 400
        reply = client.post(client.request("subscriptions/listen", {"notifications": {}}), accept="application/json")
        await reply.body()
        assert reply.status == 406


async def test_the_template_of_engines_follows_what_is_registered() -> None:
    server = Server("x", version="0")
    app = server.asgi()
    async with hosted(app) as client:
        assert "error" in await client.ask("tools/list")

        @server.tool
        async def late() -> None:
            """Late."""

        assert "result" in await client.ask("tools/list")
        assert app._template() is app._template()

        @server.prompt
        async def hello(name: str) -> str:
            """Hello."""
            return name

        ref: JsonObject = {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": ""}}
        assert "error" in await client.ask("completion/complete", ref)

        @server.completion(prompt="hello", argument="name")
        async def complete(value: str) -> list[str]:
            return ["a"]

        assert "result" in await client.ask("completion/complete", ref)


# --- the end ---------------------------------------------------------------------------------------------------------


@HOOKED
@pytest.mark.spec(
    "subscription.graceful-result",
    "subscription.graceful-result-shape",
    "subscription.server-teardown-http-closes",
    "cancellation.server-only-for-listen",
)
async def test_subscriptions_end_properly_when_the_server_stops(
    hooked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    gate = Gate()
    app = gate.server.asgi()
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
async def test_a_request_whose_body_ends_while_the_server_stops_is_refused(hooked: bool) -> None:
    app = Gate().server.asgi()
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
async def test_calls_may_finish_when_the_server_stops(hooked: bool, autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    app = gate.server.asgi(healthz="/healthz")
    async with hosted(app, hooked=hooked) as client, trio.open_nursery() as nursery:
        quick = client.post(client.call("hold", name="quick"))
        slow = client.post(client.call("hold", name="slow"))
        loud = client.post(client.call("steps", name="loud", token=1))
        await gate.until_running("quick", "slow", "loud")
        nursery.start_soon(app.drain, 3)
        await trio.sleep(1)
        refused = client.post(client.call("echo", text="a"))
        assert (await refused.body() != b"", refused.status) == (True, 503)
        assert "retry-after" in refused.headers
        client.path = "/healthz"
        unwell = client.start("GET")
        assert (await unwell.body(), unwell.status) == (b"stopping\n", 503)
        gate.let("quick")
        assert text_of(await quick.answer()) == "quick"
        await slow.body()
        assert slow.status == 503
        assert [event.data for event in (await loud.rest())[1:]] == []
        assert sorted(gate.cancelled) == ["loud", "slow"]
    assert app.running == 0


@pytest.mark.spec("sse.get-retry")
async def test_sessions_end_gently_when_the_server_stops(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    app = gate.server.asgi(policy=EndpointPolicy(retry=3))
    async with session(app) as client:
        standing = client.get()
        await standing.event()
        older = Client(app, client.nursery, R2025_06_18)
        await older.open()
        plain = older.get()
        slow = client.post(client.call("hold", name="slow"), accept="application/json")
        await gate.until_running("slow")
        await app.drain(2)
        late = client.get()
        assert (await late.body() != b"", late.status) == (True, 503)
        assert [event.retry for event in await standing.rest()] == [3000]
        assert await plain.rest() == []
        await slow.body()
        assert gate.cancelled == ["slow"]
        assert app.running == 0


async def test_a_host_that_announces_its_life_is_answered() -> None:
    app = Gate().server.asgi()
    heard = ["lifespan.startup", "lifespan.shutdown"]
    said: list[object] = []

    async def receive() -> Message:
        return {"type": heard.pop(0)}

    async def send(message: Message) -> None:
        said.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
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
async def test_the_endpoint_has_one_path_wherever_it_is_mounted(path: str, root: str, status: int) -> None:
    app = Gate().server.asgi()

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": root}, receive, send)

    async with hosted(mounted) as client:
        client.path = path
        reply = client.post(client.call("echo", text="a"))
        await reply.body()
        assert reply.status == status
        assert "location" not in reply.headers


async def test_the_endpoint_may_be_the_root() -> None:
    async with hosted(Gate().server.asgi(path="/")) as client:
        client.path = "/"
        assert text_of(await client.post(client.call("echo", text="a")).json()) == "a"


async def test_the_pair_of_2024_ends_with_the_endpoint(autojump_clock: trio.testing.MockClock) -> None:
    app = Gate().server.asgi(legacy_sse=True)
    async with hosted(app, R2024_11_05) as client:
        client.path = "/sse"
        stream = client.get()
        await stream.event()
        await app.drain(1)
        await stream.rest()
        assert app.sessions == 0


async def test_health_is_told_to_anybody() -> None:
    async with hosted(Gate().server.asgi(healthz="/healthz")) as client:
        client.path = "/healthz"
        reply = client.start("GET", host="10.1.2.3")
        assert (await reply.body(), reply.status) == (b"ok\n", 200)


async def test_the_pair_of_2024_is_served_where_it_is_wanted() -> None:
    gate = Gate()
    async with hosted(gate.server.asgi(), R2024_11_05) as client:
        client.path = "/sse"
        reply = client.get()
        await reply.body()
        assert reply.status == 404

    async def identify(request: object) -> str | None:
        raise ZeroDivisionError

    for broken in (False, True):
        app = gate.server.asgi(legacy_sse=True, authenticate=identify if broken else None)
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
