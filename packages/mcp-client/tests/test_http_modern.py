from __future__ import annotations

import json
import logging
from base64 import b64encode
from contextlib import AsyncExitStack, nullcontext

import pytest
import trio
import trio.testing
from fake_http_server import ELICIT, LIST_FIELDS, OK, ReceivedRequest, Reply, decline, modern, progress, serving

from mcp_client import ChangeKind, Client, ClientOptions, Deadlines, Handlers, HttpOptions, open_http
from mcp_client.testing import ScriptedPeer, open_in_memory, scripted
from mcp_client.transports.http.header_parameters import ToolHeaders
from mcp_core.engine.connection import Extensions
from mcp_core.errors import (
    AccessDenied,
    ConnectionEnded,
    HeaderMismatch,
    HttpFailure,
    LimitExceeded,
    LocalProtocolError,
    Phase,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.jsonrpc.messages import JsonObject, Request
from mcp_core.limits import Limits
from mcp_core.methods import NotificationMethod, Side
from mcp_core.revisions import R2026_07_28
from mcp_core.types import (
    CancelledNotificationParams,
    ElicitRequestFormParams,
    ElicitResult,
    Tool,
)


def notification(method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def tool(name: str, **properties: JsonObject) -> JsonObject:
    return {"name": name, "inputSchema": {"type": "object", "properties": {**properties}}}


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "http.post-per-message",
    "http.accept-both",
    "http.content-type-json",
    "http.metadata-headers-on-post",
    "http.client-no-session-id",
    "http.client-no-get-stream",
    "http.custom-endpoint-path",
    "header.protocol-version-present",
    "header.mcp-method-required",
    "header.mcp-name-tools-call",
    "compat.client-dual-modern",
)
async def test_requests_only_discover_and_calls_sent() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.result(OK, headers={"Mcp-Session-Id": "never to be sent back"})

    async with serving(modern(calls), path="/a/b?x=1") as server, open_http(server.url) as client:
        assert client.revision is R2026_07_28
        assert not (await client.call_tool("echo", {"a": 1})).is_error
        await client.call_tool("echo")
    assert server.rpcs() == ["server/discover", "tools/call", "tools/call"]
    assert server.connections == 1
    for request in server.requests:
        assert request.method == "POST"
        assert request.target == "/a/b?x=1"
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        assert request.headers["mcp-method"] == request.rpc
        assert "mcp-session-id" not in request.headers
        assert request.headers["user-agent"] == "mcp-client"
    assert server.requests[1].headers["mcp-name"] == "echo"


async def test_connection_has_no_background_task() -> None:
    async with serving(modern()) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        assert len(client._channel.nursery.child_tasks) == 0


async def test_known_server_not_discovered_again() -> None:
    async with serving(modern()) as server:
        async with open_http(server.url) as first:
            known = first.server
        async with open_http(server.url, http=HttpOptions(server=known)) as second:
            await second.call_tool("echo")
            assert second.server_info == known.implementation
    assert server.rpcs() == ["server/discover", "tools/call"]


async def test_known_legacy_server_rejected() -> None:
    async def handshake(peer: ScriptedPeer) -> None:
        await peer.initialize()

    async with open_in_memory(scripted(handshake)) as client:
        known = client.server
    with pytest.raises(LocalProtocolError, match="opened by initialize"):
        open_http("http://127.0.0.1/mcp", http=HttpOptions(server=known))


# --- responses -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.client-supports-sse", "http.sse-client-ignores-comments", "http.client-supports-json")
async def test_response_stream_with_comments_and_progress() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.chunk(b": hello\r\n\r\n")
        await reply.event(progress(request, 1))
        await reply.event(progress(request, 2), name="message")
        await reply.event_result(OK)
        await reply.end()

    shown: list[float] = []
    async with serving(modern(calls)) as server, open_http(server.url) as client:
        for _ in range(3):
            await client.call_tool("echo", on_progress=lambda progress, _total, _message: shown.append(progress))
    assert shown == [1, 2] * 3
    assert server.connections == 1


async def test_progress_handler_runs_in_task_of_caller() -> None:
    tasks: list[trio.lowlevel.Task] = []
    shown = trio.Event()

    async def show(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        tasks.append(trio.lowlevel.current_task())
        shown.set()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(request, 1))
        await shown.wait()
        await reply.event_result(OK)
        await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("echo", on_progress=show)
    assert tasks == [trio.lowlevel.current_task()]


async def test_progress_before_response_handled_before_call_returns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shown: list[float] = []

    async def show(progress: float, *_: object) -> None:
        # Longer than any deadline; the received response is not lost.
        await trio.sleep(1_000)
        shown.append(progress)

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        both = [progress(request, 7), {"jsonrpc": "2.0", "id": request.message["id"], "result": OK}]
        await reply.chunk(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in both))
        await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("echo", on_progress=show)
    assert shown == [7]


async def test_response_stream_left_open_call_returns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event_result(OK)
        await reply.hang()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        start = trio.current_time()
        await client.call_tool("echo")
        assert trio.current_time() - start < 1
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


@pytest.mark.spec("http.client-reads-error-body", "compat.client-http-404-with-body")
async def test_404_with_error_body_raises_request_failed() -> None:
    async with serving(modern()) as server, open_http(server.url) as client:
        with pytest.raises(RequestFailed, match="Method not found") as caught:
            await client.read_resource("a:b")
        assert caught.value.code == -32601
        assert caught.value.context.peer == server.url
        assert caught.value.context.method == "resources/read"
        await client.call_tool("echo")
    assert server.rpcs().count("server/discover") == 1


async def test_response_html_raises_http_failure_with_status() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(502, b"<html>" + b"x" * 5_000, "text/html")

    async with serving(modern(calls), path="/mcp?key=secret") as server, open_http(server.url) as client:
        with pytest.raises(HttpFailure, match="status 502") as caught:
            await client.call_tool("echo")
        error = caught.value
        assert error.status == 502
        assert len(error.body) == 512
        assert error.context.phase is Phase.REQUEST
        assert "/mcp" in str(error)
        assert "secret" not in str(error)


@pytest.mark.parametrize("status", [401, 403])
async def test_401_and_403_raise_access_denied(status: int) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(status, headers={"WWW-Authenticate": 'Bearer scope="a"'})

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(AccessDenied) as caught:
            await client.call_tool("echo")
        assert caught.value.status == status
        assert caught.value.challenges == ('Bearer scope="a"',)


async def test_response_over_limit_raises_and_connection_stays_usable() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.params["name"] == "small":
            await reply.result(OK)
        elif request.params["name"] == "json":
            await reply.result({"content": [{"type": "text", "text": "x" * 5_000}], "resultType": "complete"})
        else:
            await reply.stream()
            await reply.event_result({"content": [{"type": "text", "text": "x" * 90_000}], "resultType": "complete"})
            await reply.end()

    async with (
        serving(modern(calls)) as server,
        open_http(server.url, options=ClientOptions(limits=Limits(message_bytes=2_000))) as client,
    ):
        with pytest.raises(LimitExceeded, match=r"Limits\.message_bytes"):
            await client.call_tool("json")
        with pytest.raises(LimitExceeded, match=r"Limits\.event_bytes"):
            await client.call_tool("stream")
        await client.call_tool("small")


async def test_response_with_other_id_raises() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.json({"jsonrpc": "2.0", "id": 999, "result": OK})

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("echo")
        assert not client._channel.connection.outbound_requests


@pytest.mark.spec("schema.result-object")
@pytest.mark.parametrize("form", ["json", "stream"])
async def test_response_null_result_raises(form: str) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if form == "json":
            await reply.result(None)
        else:
            await reply.stream()
            await reply.event_result(None)
            await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(RemoteProtocolError, match="a result must be an object, not null") as caught:
            await client.call_tool("echo")
        assert caught.value.context.method == "tools/call"
        assert not client._channel.connection.outbound_requests


# --- lost connections ------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.sse-no-resumption", "http.reissue-after-broken-stream")
@pytest.mark.parametrize("how", ["end", "cut"])
async def test_response_stream_broken_raises_without_retry(how: str) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(request, 1), id="7")
        await (reply.end() if how == "end" else reply.cut())

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(ConnectionEnded, match="the stream ended before the response"):
            await client.call_tool("echo", on_progress=lambda *_: None)
        assert not client._channel.connection.outbound_requests
        assert not client._channel._calls
    assert server.rpcs() == ["server/discover", "tools/call"]


async def test_unreachable_server_raises_connection_ended() -> None:
    async with serving(modern()) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        gone = server.url
    async with serving(modern()) as other:
        pass
    with pytest.raises(ConnectionEnded) as caught:
        async with open_http(other.url):
            pass
    assert caught.value.context.phase is Phase.NEGOTIATE
    assert caught.value.context.peer == other.url
    assert gone != other.url


# --- cancellation and deadlines --------------------------------------------------------------------------------------


@pytest.mark.spec("http.client-cancel-closes-stream", "cancellation.client-should-notify")
@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelled_call_closes_stream_without_notification(
    streaming: bool, autojump_clock: trio.testing.MockClock
) -> None:
    left = trio.Event()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if streaming:
            await reply.stream()
        await reply.hang()
        left.set()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with trio.move_on_after(1) as scope:
            await client.call_tool("echo")
        assert scope.cancelled_caught
        await left.wait()
        assert not client._channel.connection.outbound_requests
        assert server.rpcs() == ["server/discover", "tools/call"]


@pytest.mark.spec("cancellation.timeouts", "cancellation.timeout-cancels", "cancellation.timeout-maximum")
async def test_deadlines_close_stream_and_progress_extends_idle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        if request.params["name"] == "busy":
            for value in range(100):
                await reply.event(progress(request, value + 1))
                await trio.sleep(8)
        await reply.hang()

    deadlines = Deadlines(idle=10, total=100)
    async with serving(modern(calls)) as server, open_http(server.url, deadlines=deadlines) as client:
        start = trio.current_time()
        with pytest.raises(RequestTimeout, match="idle deadline of 10 s"):
            await client.call_tool("silent")
        assert trio.current_time() - start == pytest.approx(10)
        with pytest.raises(RequestTimeout, match="total deadline of 100 s"):
            await client.call_tool("busy", on_progress=lambda *_: None)
        assert trio.current_time() - start == pytest.approx(110)
        assert not client._channel.connection.outbound_requests


async def test_client_closed_pending_calls_raise(autojump_clock: trio.testing.MockClock) -> None:
    errors: list[ConnectionEnded] = []

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.hang()

    async def call(client: Client) -> None:
        with pytest.raises(ConnectionEnded, match="the client was closed") as caught:
            await client.call_tool("echo")
        errors.append(caught.value)

    async with serving(modern(calls)) as server:
        async with open_http(server.url) as client, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call, client)
            await trio.testing.wait_all_tasks_blocked()
            await client.aclose()
            await client.aclose()
        with pytest.raises(ConnectionEnded, match="the client was closed"):
            await client.call_tool("echo")
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0
    assert len(errors) == 3


async def test_client_closed_in_progress_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(request, 1))
        await reply.hang()

    async with serving(modern(calls)) as server, open_http(server.url) as client:

        async def show(*_: object) -> None:
            await client.aclose()

        with pytest.raises(ConnectionEnded):
            await client.call_tool("echo", on_progress=show)


# --- headers of the application --------------------------------------------------------------------------------------


async def test_headers_of_connection_and_of_view_sent() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            await reply.result({"tools": [], **LIST_FIELDS})
        else:
            await reply.result(OK)

    async with (
        serving(modern(calls)) as server,
        open_http(server.url, headers={"Authorization": "Bearer a", "X-One": "1"}) as client,
    ):
        await client.call_tool("echo")
        view = client.with_headers({"authorization": "Bearer b"})
        await view.call_tool("echo")
        await view.list_tools()
        await view.with_headers({"X-Two": "2", "User-Agent": "me"}).call_tool("echo")
        await client.call_tool("echo")
    headers_sent = [(request.headers["authorization"], request.headers.get("x-two")) for request in server.requests]
    assert headers_sent == [
        ("Bearer a", None),
        ("Bearer a", None),
        ("Bearer b", None),
        ("Bearer b", None),
        ("Bearer b", "2"),
        ("Bearer a", None),
    ]
    assert all(request.headers["x-one"] == "1" for request in server.requests)
    assert server.requests[4].headers["user-agent"] == "me"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_headers_function_called_for_each_request(asynchronous: bool) -> None:
    count = 0

    def plain() -> dict[str, str]:
        nonlocal count
        count += 1
        return {"Authorization": f"Bearer {count}"}

    async def waiting() -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        return plain()

    async with serving(modern()) as server, open_http(server.url, headers=waiting if asynchronous else plain) as client:
        await client.call_tool("echo")
        await client.call_tool("echo")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer 1", "Bearer 2", "Bearer 3"]


async def test_headers_function_failure_raises() -> None:
    broken = False

    def give() -> dict[str, str]:
        if broken:
            raise ZeroDivisionError
        return {}

    async with serving(modern()) as server, open_http(server.url, headers=give) as client:
        broken = True
        with pytest.raises(LocalProtocolError, match="returns the HTTP headers failed") as caught:
            await client.call_tool("echo")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        broken = False
        await client.call_tool("echo")


@pytest.mark.parametrize("name", ["Accept", "mcp-session-id", "Mcp-Param-Region", "MCP-Protocol-Version"])
async def test_headers_of_protocol_rejected(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="set by the protocol itself"):
        open_http("http://127.0.0.1/mcp", headers={name: "x"})
    async with serving(modern()) as server, open_http(server.url) as client:
        with pytest.raises(LocalProtocolError, match=name.lower()):
            client.with_headers({name: "x"})


@pytest.mark.spec("stdio.no-header-layer")
async def test_headers_on_stdio_rejected() -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(LocalProtocolError, match="only requests over HTTP"):
            client.with_headers({"a": "b"})


def test_url_not_http_rejected() -> None:
    with pytest.raises(LocalProtocolError, match="http://"):
        open_http("ftp://example.com/mcp")


# --- header parameters -----------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "header.param-feature-supported",
    "header.param-mirrored",
    "header.param-only-designated",
    "header.param-unknown-schema-omit",
    "header.param-base64-unsafe",
    "header.param-latest-schema",
)
async def test_header_parameters_follow_latest_tool_list() -> None:
    schema = {"region": {"type": "string", "x-mcp-header": "Region"}, "other": {"type": "string"}}

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            await reply.result({"tools": [tool("where", **schema)], **LIST_FIELDS})  # type: ignore[arg-type]  # a JSON schema
        else:
            await reply.result(OK)

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("where", {"region": "eu"})
        await client.list_tools()
        await client.call_tool("where", {"region": "eu", "other": "x"})
        await client.call_tool("where", {"region": "Brüssel"})
        await client.call_tool("else", {"region": "eu"})
        schema = {"area": {"type": "string", "x-mcp-header": "Area"}}
        await client.list_tools()
        await client.call_tool("where", {"region": "eu", "area": "b"})
        calls_made = server.of("tools/call")
    headers = [{name: value for name, value in request.headers.items() if "param" in name} for request in calls_made]
    encoded = f"=?base64?{b64encode('Brüssel'.encode()).decode()}?="
    assert headers == [{}, {"mcp-param-region": "eu"}, {"mcp-param-region": encoded}, {}, {"mcp-param-area": "b"}]


@pytest.mark.spec("header.param-mismatch-retry")
async def test_header_mismatch_refreshes_tools_and_retries_once() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            region: JsonObject = {"type": "string", "x-mcp-header": "Region"}
            await reply.result({"tools": [tool("where", region=region)], **LIST_FIELDS})
        elif request.headers.get("mcp-param-region") == "eu":
            await reply.result(OK)
        else:
            await reply.error(-32020, "Mcp-Param-Region is missing", 400)

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("where", {"region": "eu"})
        first, second = server.of("tools/call")
        assert first.message["id"] != second.message["id"]
        assert server.rpcs()[1:] == ["tools/call", "tools/list", "tools/call"]
        with pytest.raises(HeaderMismatch):
            await client.call_tool("where", {"region": "us"})
        assert server.rpcs()[4:] == ["tools/call", "tools/list", "tools/call"]


@pytest.mark.spec("header.xmcp-client-rejects-invalid", "header.xmcp-valid-tools-kept", "header.xmcp-log-warning")
async def test_tool_with_invalid_header_parameter_omitted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [
        tool("good", a={"type": "string", "x-mcp-header": "A"}),
        tool("bad", a={"type": "number", "x-mcp-header": "A"}),
        tool("plain"),
    ]

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.result({"tools": [*tools], **LIST_FIELDS})

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        assert [each.name for each in await client.list_tools()] == ["good", "plain"]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "'bad'" in record.getMessage()
    assert "number" in record.getMessage()


# --- subscriptions, multi round-trip requests --------------------------------------------------------------------------


def acknowledged(request: ReceivedRequest) -> JsonObject:
    meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
    params: JsonObject = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    return notification("notifications/subscriptions/acknowledged", params)


def tools_changed(request: ReceivedRequest) -> JsonObject:
    meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
    return notification("notifications/tools/list_changed", {"_meta": meta})


@pytest.mark.spec("subscription.client-cancel-http")
async def test_subscription_own_stream_closed_at_end(autojump_clock: trio.testing.MockClock) -> None:
    left = trio.Event()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "subscriptions/listen":
            await reply.stream()
            await reply.event(acknowledged(request))
            await reply.event(tools_changed(request))
            await reply.hang()
            left.set()
        else:
            await reply.result(OK)

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        async with client.listen(tools=True) as changes:
            change = await anext(changes)
            assert change.kind is ChangeKind.TOOLS
            await client.call_tool("echo")
        await left.wait()
        assert server.rpcs() == ["server/discover", "subscriptions/listen", "tools/call"]


@pytest.mark.spec("subscription.multiple-concurrent")
async def test_subscriptions_do_not_block_calls(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "subscriptions/listen":
            await reply.stream()
            await reply.event(acknowledged(request))
            await reply.hang()
        else:
            await reply.result(OK)

    async with serving(modern(calls)) as server, open_http(server.url) as client, AsyncExitStack() as stack:
        for _ in range(130):
            await stack.enter_async_context(client.listen(tools=True))
        await client.call_tool("echo")


@pytest.mark.spec("subscription.client-check-ack")
async def test_subscription_granted_partially() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(acknowledged(request))
        await reply.event(tools_changed(request))
        await reply.hang()

    async with (
        serving(modern(calls)) as server,
        open_http(server.url) as client,
        client.listen(tools=True, prompts=True, uris=["a:b"]) as changes,
    ):
        assert changes.granted.tools_list_changed
        assert not changes.granted.prompts_list_changed
        assert changes.granted.resource_subscriptions is None
        assert (await anext(changes)).kind is ChangeKind.TOOLS


@pytest.mark.spec("subscription.clean-close-no-error", "subscription.reconnect-allowed")
async def test_subscription_ended_or_lost_reopened() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(acknowledged(request))
        if len(server.requests) == 2:
            meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
            await reply.event_result({"resultType": "complete", "_meta": meta})
            await reply.end()
        elif len(server.requests) == 3:
            await trio.testing.wait_all_tasks_blocked(0.01)
            await reply.cut()
        else:
            await reply.event(tools_changed(request))
            await reply.hang()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        async with client.listen(tools=True) as changes:
            assert [change async for change in changes] == []
        async with client.listen(tools=True) as changes:
            with pytest.raises(ConnectionEnded, match="stream ended"):
                await anext(changes)
        async with client.listen(tools=True) as changes:
            assert (await anext(changes)).kind is ChangeKind.TOOLS
        ids = [request.message["id"] for request in server.of("subscriptions/listen")]
        assert len(set(ids)) == 3


def input_required(state: str) -> JsonObject:
    input_request: JsonObject = {"method": "elicitation/create", "params": {**ELICIT, "mode": "form"}}
    return {"resultType": "input_required", "inputRequests": {state: input_request}, "requestState": state}


async def test_mrtr_input_response_sent_with_new_request() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.result(OK if "inputResponses" in request.params else input_required("s"))

    async with serving(modern(calls)) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        await client.call_tool("ask")
        first, second = server.of("tools/call")
    assert second.params["requestState"] == "s"
    assert first.message["id"] != second.message["id"]


@pytest.mark.spec("header.param-mismatch-retry", "mrtr.state-echo", "mrtr.state-latest-only", "mrtr.retry-new-id")
async def test_mrtr_header_mismatch_repeats_last_retry_once() -> None:
    always_missing = False

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            await reply.result({"tools": [tool("ask", a={"type": "string", "x-mcp-header": "A"})], **LIST_FIELDS})
        elif "inputResponses" not in request.params:
            await reply.result(input_required("one"))
        elif request.params["requestState"] == "one":
            await reply.result(input_required("two"))
        elif request.headers.get("mcp-param-a") != "x" or always_missing:
            # The tool has changed in the meantime.
            await reply.error(-32020, "Mcp-Param-A is missing", 400)
        else:
            await reply.result(OK)

    elicitations = 0

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        nonlocal elicitations
        elicitations += 1
        return ElicitResult(action="decline")

    for always_missing in (False, True):
        elicitations = 0
        async with serving(modern(calls)) as server, open_http(server.url, handlers=Handlers(elicit=elicit)) as client:
            with pytest.raises(HeaderMismatch) if always_missing else nullcontext():
                await client.call_tool("ask", {"a": "x"})
            assert server.rpcs()[1:] == [*["tools/call"] * 3, "tools/list", "tools/call"]
            *_, refused, repeated = server.of("tools/call")
            assert repeated.params["requestState"] == refused.params["requestState"] == "two"
            assert repeated.params["inputResponses"] == refused.params["inputResponses"]
            assert repeated.message["id"] != refused.message["id"]
        # The retry reuses the input responses.
        assert elicitations == 2


@pytest.mark.spec("http.client-no-responses")
async def test_server_request_not_answered(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await reply.event_result(OK)
        await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        await trio.testing.wait_all_tasks_blocked()
        assert server.rpcs() == ["server/discover", "tools/call"]


async def test_concurrent_calls_get_own_responses() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        text = str(request.params["name"])
        if len(text) % 2:
            await reply.result({"content": [{"type": "text", "text": text}], "resultType": "complete"})
        else:
            await reply.stream()
            await reply.event_result({"content": [{"type": "text", "text": text}], "resultType": "complete"})
            await reply.end()

    async def call(client: Client, name: str) -> None:
        (block,) = (await client.call_tool(name)).content
        assert getattr(block, "text", None) == name
        done.append(name)

    done: list[str] = []
    async with serving(modern(calls)) as server, open_http(server.url) as client:
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(call, client, str(number))
        assert not client._channel._calls
        assert not client._channel.connection.outbound_requests
        assert len(server.requests) == 61
    assert len(done) == 60


async def test_extension_notification_posted_with_headers() -> None:
    definition = NotificationMethod(
        name="notifications/acme", sender=Side.CLIENT, params=CancelledNotificationParams, extension="acme"
    )
    answers = [202, 500]

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(answers.pop(0))

    extensions = Extensions(notifications={definition.name: definition})
    async with (
        serving(modern(calls)) as server,
        open_http(server.url, options=ClientOptions(extensions=extensions)) as client,
    ):
        await client.with_headers({"x-a": "b"}).notify(definition, CancelledNotificationParams(request_id=1))
        (notification_request,) = server.of(definition.name)
        assert notification_request.headers["x-a"] == "b"
        assert notification_request.headers["mcp-protocol-version"] == "2026-07-28"
        with pytest.raises(HttpFailure, match="500"):
            await client.notify(definition, CancelledNotificationParams(request_id=1))


def test_tool_headers_bounded() -> None:
    headers = ToolHeaders()
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    for start in (0, 3_000):
        headers.learn(tuple(Tool(name=str(number), input_schema=schema) for number in range(start, start + 3_000)))
    assert not headers.of(Request(1, "tools/call", {"name": "0"}))
    assert [each.header for each in headers.of(Request(1, "tools/call", {"name": "5999"}))] == ["A"]
    assert not headers.of(Request(1, "tools/call", {"name": 7}))
    assert not headers.of(Request(1, "prompts/get", {"name": "5999"}))
