"""HTTP+SSE, the transport of 2024-11-05, as a client meets it."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from zoo import Asked, OldServer, Reply, serving, until

from mcp_client import ChangeKind, Client, Deadlines, Handlers, open_http
from mcp_core.errors import AccessDenied, ConnectionEnded, HttpFailure, McpError, RemoteProtocolError, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.types import ElicitRequestFormParams, ElicitResult, ProgressNotificationParams


@pytest.mark.spec(
    "http-sse.post-to-endpoint",
    "http-sse.compat-client-post-first",
    "http-sse.compat-client-fallback-4xx",
    "http-sse.compat-client-fallback-400-404-405",
    "compat.http-sse-client-fallback",
)
@pytest.mark.parametrize("post", [400, 404, 405])
async def test_the_last_thing_that_is_tried_is_the_pair_of_endpoints(post: int) -> None:
    old = OldServer(post=post)
    async with (
        serving(old.answer, path="/sse") as server,
        open_http(server.url, headers={"Authorization": "Bearer a"}) as client,
    ):
        assert client.revision.name == "2024-11-05"
        await client.call_tool("echo")
        await client.ping()
    assert [(asked.target.partition("?")[0], asked.rpc) for asked in server.asked] == [
        ("/sse", "server/discover"),
        ("/sse", "initialize"),
        ("/sse", "GET"),
        ("/messages", "initialize"),
        ("/messages", "notifications/initialized"),
        ("/messages", "tools/call"),
        ("/messages", "ping"),
    ]
    assert server.asked[1].body == server.asked[3].body
    assert server.asked[3].target == "/messages?session=1"
    assert all(asked.headers["authorization"] == "Bearer a" for asked in server.asked)
    assert "mcp-session-id" not in server.asked[-1].headers


async def test_what_such_a_server_speaks_is_remembered_and_asked_for_directly() -> None:
    old = OldServer()
    async with serving(old.answer) as server:
        for _ in range(2):
            async with open_http(server.url) as client:
                await client.ping()
    assert server.rpcs()[6:] == ["GET", "initialize", "notifications/initialized", "ping"]


async def test_a_later_revision_may_be_spoken_on_it() -> None:
    old = OldServer()
    old.version = "2025-06-18"
    async with serving(old.answer) as server, open_http(server.url) as client:
        assert client.revision.name == "2025-06-18"
        await client.ping()


async def test_progress_requests_and_changes_come_on_the_stream(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, stream: Reply) -> None:
        meta = asked.params["_meta"]
        assert isinstance(meta, dict)
        params: JsonObject = {"progressToken": meta["progressToken"], "progress": 1}
        await stream.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await stream.event({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        await until(lambda: server.of("response"))
        await stream.event_result_of(asked)

    shown: list[float] = []
    tasks: list[trio.lowlevel.Task] = []

    async def show(params: ProgressNotificationParams) -> None:
        tasks.append(trio.lowlevel.current_task())
        shown.append(params.progress)

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action="decline")

    handlers = Handlers(elicit=elicit)
    old = OldServer(calls)
    async with serving(old.answer) as server, open_http(server.url, handlers=handlers) as client:
        async with client.listen(tools=True) as changes:
            await client.call_tool("echo", on_progress=show)
            assert (await anext(changes)).kind is ChangeKind.TOOLS
        (pong,) = server.of("response")
    assert pong.message["id"] == 7
    assert shown == [1]
    assert tasks == [trio.lowlevel.current_task()]


async def test_when_the_stream_is_lost_everything_that_waits_ends(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, stream: Reply) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await stream.cut()

    old = OldServer(calls)
    errors: list[McpError] = []

    async def call(client: Client) -> None:
        with pytest.raises(ConnectionEnded) as caught:
            await client.call_tool("echo")
        errors.append(caught.value)

    async with serving(old.answer) as server, open_http(server.url) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(call, client)
        await client.wait_ended()
        with pytest.raises(ConnectionEnded, match="stream"):
            await client.ping()
        assert not client._channel._calls
    assert len(errors) == 2


@pytest.mark.parametrize("refuse", [400, 404, 500])
async def test_a_post_that_is_refused_fails_its_request_alone(refuse: int) -> None:
    old = OldServer()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/call":
            await reply.body(refuse, b"no such session", "text/plain")
        else:
            await old.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        with pytest.raises(HttpFailure, match="no such session") as caught:
            await client.call_tool("echo")
        assert caught.value.status == refuse
        await client.ping()


async def test_a_call_that_is_given_up_is_cancelled_on_the_wire(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, stream: Reply) -> None:
        return

    old = OldServer(calls)
    deadlines = Deadlines(idle=5)
    async with serving(old.answer) as server, open_http(server.url, deadlines=deadlines) as client:
        with pytest.raises(RequestTimeout, match="idle"):
            await client.call_tool("echo")
        with trio.move_on_after(1):
            await client.call_tool("echo")
        await trio.sleep(1)
        cancelled = [asked.params["requestId"] for asked in server.of("notifications/cancelled")]
        assert cancelled == [asked.message["id"] for asked in server.of("tools/call")]


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://127.0.0.1/messages",
        "http://evil.example/messages",
        "http://user:pass@127.0.0.1/messages",
        "//evil.example/messages",
        "javascript:alert(1)",
    ],
)
async def test_an_endpoint_of_another_origin_is_not_posted_to(endpoint: str) -> None:
    old = OldServer(endpoint=endpoint)
    async with serving(old.answer) as server:
        with pytest.raises((HttpFailure, RemoteProtocolError), match="endpoint"):
            async with open_http(server.url):
                pass
        assert server.rpcs() == ["server/discover", "initialize", "GET"]
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.open == 0


@pytest.mark.parametrize("how", ["ends", "hangs", "page", "401", "messages only"])
async def test_a_stream_that_names_no_endpoint_is_told_with_what_the_post_came_to(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method == "POST":
            await reply.body(404, b"nothing here", "text/plain")
        elif how == "401":
            await reply.body(401)
        elif how == "page":
            await reply.body(200, b"<html>", "text/html")
        else:
            await reply.stream()
            if how == "ends":
                await reply.end()
            elif how == "hangs":
                await reply.hang()
            else:
                await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                await reply.hang()

    async with serving(answer) as server:
        with pytest.raises(AccessDenied if how == "401" else HttpFailure) as caught:
            async with open_http(server.url):
                pass
        if how != "401":
            assert caught.value.status == 404
            assert "nothing here" in str(caught.value)
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


async def test_an_answer_may_come_on_the_stream_before_its_post_is_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    old = OldServer()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method == "POST" and asked.target.startswith("/messages"):
            await old.say(asked)
            await trio.sleep(5)
            await reply.body(202)
        else:
            await old.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        start = trio.current_time()
        await client.call_tool("echo")
        assert trio.current_time() - start < 5


async def test_a_version_that_the_server_refuses_is_followed_by_another_on_the_same_stream() -> None:
    old = OldServer()
    old.version = "2024-11-05"

    async def answer(asked: Asked, reply: Reply) -> None:
        handshake = asked.target.startswith("/messages") and asked.rpc == "initialize"
        if handshake and asked.params["protocolVersion"] == "2025-11-25":
            await reply.body(202)
            data: JsonObject = {"supported": ["2024-11-05"]}
            error: JsonObject = {"code": -32602, "message": "Unsupported protocol version", "data": data}
            await old.streams[0].event({"jsonrpc": "2.0", "id": asked.message["id"], "error": error})
        else:
            await old.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.ping()
        versions = [asked.params["protocolVersion"] for asked in server.of("initialize")]
    assert versions == ["2025-11-25", "2025-11-25", "2024-11-05"]


async def test_a_second_try_that_is_not_taken_ends_the_opening() -> None:
    old = OldServer()
    posted = 0

    async def answer(asked: Asked, reply: Reply) -> None:
        nonlocal posted
        if asked.method != "POST" or not asked.target.startswith("/messages"):
            await old.answer(asked, reply)
            return
        posted += 1
        await reply.body(202 if posted == 1 else 500)
        if posted == 1:
            data: JsonObject = {"supported": ["2024-11-05"]}
            error: JsonObject = {"code": -32602, "message": "Unsupported protocol version", "data": data}
            await old.streams[0].event({"jsonrpc": "2.0", "id": asked.message["id"], "error": error})

    async with serving(answer) as server:
        with pytest.raises(HttpFailure, match="500"):
            async with open_http(server.url):
                pass
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.open == 0


async def test_the_first_post_may_be_refused(autojump_clock: trio.testing.MockClock) -> None:
    old = OldServer()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.target.startswith("/messages"):
            await reply.body(403, b"not you", "text/plain")
        else:
            await old.answer(asked, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied, match="not you"):
            async with open_http(server.url):
                pass
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0
