"""HTTP+SSE, the transport of 2024-11-05, on the side of the client."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from fake_http_server import HttpSseServer, ReceivedRequest, Reply, serving, wait_until

from mcp_client import ChangeKind, Client, Deadlines, Handlers, open_http
from mcp_core.errors import AccessDenied, ConnectionEnded, HttpFailure, McpError, RemoteProtocolError, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.types import ElicitRequestFormParams, ElicitResult


@pytest.mark.spec(
    "http-sse.post-to-endpoint",
    "http-sse.compat-client-post-first",
    "http-sse.compat-client-fallback-4xx",
    "http-sse.compat-client-fallback-400-404-405",
    "compat.http-sse-client-fallback",
)
@pytest.mark.parametrize("post", [400, 404, 405])
async def test_http_sse_tried_last(post: int) -> None:
    sse_server = HttpSseServer(post=post)
    async with (
        serving(sse_server.answer, path="/sse") as server,
        open_http(server.url, headers={"Authorization": "Bearer a"}) as client,
    ):
        assert client.revision.name == "2024-11-05"
        await client.call_tool("echo")
        await client.ping()
    assert [(request.target.partition("?")[0], request.rpc) for request in server.requests] == [
        ("/sse", "server/discover"),
        ("/sse", "initialize"),
        ("/sse", "GET"),
        ("/messages", "initialize"),
        ("/messages", "notifications/initialized"),
        ("/messages", "tools/call"),
        ("/messages", "ping"),
    ]
    assert server.requests[1].body == server.requests[3].body
    assert server.requests[3].target == "/messages?session=1"
    assert all(request.headers["authorization"] == "Bearer a" for request in server.requests)
    assert "mcp-session-id" not in server.requests[-1].headers


async def test_http_sse_server_remembered() -> None:
    sse_server = HttpSseServer()
    async with serving(sse_server.answer) as server:
        for _ in range(2):
            async with open_http(server.url) as client:
                await client.ping()
    assert server.rpcs()[6:] == ["GET", "initialize", "notifications/initialized", "ping"]


async def test_http_sse_later_revision_negotiated() -> None:
    sse_server = HttpSseServer()
    sse_server.version = "2025-06-18"
    async with serving(sse_server.answer) as server, open_http(server.url) as client:
        assert client.revision.name == "2025-06-18"
        await client.ping()


async def test_stream_delivers_progress_requests_and_changes(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, stream: Reply) -> None:
        meta = request.params["_meta"]
        assert isinstance(meta, dict)
        params: JsonObject = {"progressToken": meta["progressToken"], "progress": 1}
        await stream.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await stream.event({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        await wait_until(lambda: server.of("response"))
        await stream.event_result_of(request)

    shown: list[float] = []
    tasks: list[trio.lowlevel.Task] = []

    async def show(progress: float, *_: object) -> None:
        tasks.append(trio.lowlevel.current_task())
        shown.append(progress)

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action="decline")

    handlers = Handlers(elicit=elicit)
    sse_server = HttpSseServer(calls)
    async with serving(sse_server.answer) as server, open_http(server.url, handlers=handlers) as client:
        async with client.listen(tools=True) as changes:
            await client.call_tool("echo", on_progress=show)
            assert (await anext(changes)).kind is ChangeKind.TOOLS
        (pong,) = server.of("response")
    assert pong.message["id"] == 7
    assert shown == [1]
    assert tasks == [trio.lowlevel.current_task()]


async def test_stream_lost_pending_calls_raise(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, stream: Reply) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await stream.cut()

    sse_server = HttpSseServer(calls)
    errors: list[McpError] = []

    async def call(client: Client) -> None:
        with pytest.raises(ConnectionEnded) as caught:
            await client.call_tool("echo")
        errors.append(caught.value)

    async with serving(sse_server.answer) as server, open_http(server.url) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(call, client)
        await client.wait_ended()
        with pytest.raises(ConnectionEnded, match="stream"):
            await client.ping()
        assert not client._channel._calls
    assert len(errors) == 2


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_post_rejected_fails_only_its_request(status: int) -> None:
    sse_server = HttpSseServer()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/call":
            await reply.body(status, b"no such session", "text/plain")
        else:
            await sse_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        with pytest.raises(HttpFailure, match="no such session") as caught:
            await client.call_tool("echo")
        assert caught.value.status == status
        await client.ping()


async def test_abandoned_call_sends_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, stream: Reply) -> None:
        return

    sse_server = HttpSseServer(calls)
    deadlines = Deadlines(idle=5)
    async with serving(sse_server.answer) as server, open_http(server.url, deadlines=deadlines) as client:
        with pytest.raises(RequestTimeout, match="idle"):
            await client.call_tool("echo")
        with trio.move_on_after(1):
            await client.call_tool("echo")
        await trio.sleep(1)
        cancelled = [request.params["requestId"] for request in server.of("notifications/cancelled")]
        assert cancelled == [request.message["id"] for request in server.of("tools/call")]


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
async def test_endpoint_of_other_origin_rejected(endpoint: str) -> None:
    sse_server = HttpSseServer(endpoint=endpoint)
    async with serving(sse_server.answer) as server:
        with pytest.raises((HttpFailure, RemoteProtocolError), match="endpoint"):
            async with open_http(server.url):
                pass
        assert server.rpcs() == ["server/discover", "initialize", "GET"]
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.open == 0


@pytest.mark.parametrize("how", ["ends", "hangs", "page", "401", "messages only"])
async def test_stream_without_endpoint_reports_post_failure(how: str, autojump_clock: trio.testing.MockClock) -> None:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "POST":
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


async def test_response_on_stream_before_post_response(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sse_server = HttpSseServer()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "POST" and request.target.startswith("/messages"):
            await sse_server.respond_on_stream(request)
            await trio.sleep(5)
            await reply.body(202)
        else:
            await sse_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        start = trio.current_time()
        await client.call_tool("echo")
        assert trio.current_time() - start < 5


async def test_version_rejected_other_version_tried_on_same_stream() -> None:
    sse_server = HttpSseServer()
    sse_server.version = "2024-11-05"

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        handshake = request.target.startswith("/messages") and request.rpc == "initialize"
        if handshake and request.params["protocolVersion"] == "2025-11-25":
            await reply.body(202)
            data: JsonObject = {"supported": ["2024-11-05"]}
            error: JsonObject = {"code": -32602, "message": "Unsupported protocol version", "data": data}
            await sse_server.streams[0].event({"jsonrpc": "2.0", "id": request.message["id"], "error": error})
        else:
            await sse_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.ping()
        versions = [request.params["protocolVersion"] for request in server.of("initialize")]
    assert versions == ["2025-11-25", "2025-11-25", "2024-11-05"]


async def test_second_initialize_rejected_fails_opening() -> None:
    sse_server = HttpSseServer()
    posted = 0

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal posted
        if request.method != "POST" or not request.target.startswith("/messages"):
            await sse_server.answer(request, reply)
            return
        posted += 1
        await reply.body(202 if posted == 1 else 500)
        if posted == 1:
            data: JsonObject = {"supported": ["2024-11-05"]}
            error: JsonObject = {"code": -32602, "message": "Unsupported protocol version", "data": data}
            await sse_server.streams[0].event({"jsonrpc": "2.0", "id": request.message["id"], "error": error})

    async with serving(answer) as server:
        with pytest.raises(HttpFailure, match="500"):
            async with open_http(server.url):
                pass
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.open == 0


async def test_first_post_rejected_raises_access_denied(autojump_clock: trio.testing.MockClock) -> None:
    sse_server = HttpSseServer()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.target.startswith("/messages"):
            await reply.body(403, b"not you", "text/plain")
        else:
            await sse_server.answer(request, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied, match="not you"):
            async with open_http(server.url):
                pass
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0
