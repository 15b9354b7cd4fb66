from __future__ import annotations

import json
import logging
from base64 import b64encode
from contextlib import AsyncExitStack, nullcontext

import pytest
import trio
import trio.testing
from zoo import ELICIT, LIST_FIELDS, OK, Asked, Reply, decline, modern, progress, serving

from mcp_client import ChangeKind, Client, Deadlines, Handlers, open_http
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
    ProgressNotificationParams,
    Tool,
)


def notification(method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def tool(name: str, **properties: JsonObject) -> JsonObject:
    return {"name": name, "inputSchema": {"type": "object", "properties": {**properties}}}


# --- what is sent ----------------------------------------------------------------------------------------------------


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
async def test_a_modern_server_is_asked_who_it_is_and_then_only_what_the_caller_wants() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.result(OK, headers={"Mcp-Session-Id": "never to be sent back"})

    async with serving(modern(calls), path="/a/b?x=1") as server, open_http(server.url) as client:
        assert client.revision is R2026_07_28
        assert not (await client.call_tool("echo", {"a": 1})).is_error
        await client.call_tool("echo")
    assert server.rpcs() == ["server/discover", "tools/call", "tools/call"]
    assert server.connections == 1
    for asked in server.asked:
        assert asked.method == "POST"
        assert asked.target == "/a/b?x=1"
        assert asked.headers["accept"] == "application/json, text/event-stream"
        assert asked.headers["content-type"] == "application/json"
        assert asked.headers["mcp-protocol-version"] == "2026-07-28"
        assert asked.headers["mcp-method"] == asked.rpc
        assert "mcp-session-id" not in asked.headers
        assert asked.headers["user-agent"] == "mcp-client"
    assert server.asked[1].headers["mcp-name"] == "echo"


async def test_a_modern_connection_has_no_task_in_the_background() -> None:
    async with serving(modern()) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        assert len(client._channel.nursery.child_tasks) == 0


async def test_a_server_that_is_known_from_another_connection_is_not_even_asked_who_it_is() -> None:
    async with serving(modern()) as server:
        async with open_http(server.url) as first:
            known = first.server
        async with open_http(server.url, server=known) as second:
            await second.call_tool("echo")
            assert second.server_info == known.implementation
    assert server.rpcs() == ["server/discover", "tools/call"]


async def test_what_is_known_of_a_legacy_server_does_not_replace_its_handshake() -> None:
    async def handshake(peer: ScriptedPeer) -> None:
        await peer.initialize()

    async with open_in_memory(scripted(handshake)) as client:
        known = client.server
    with pytest.raises(LocalProtocolError, match="opened by initialize"):
        open_http("http://127.0.0.1/mcp", server=known)


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.client-supports-sse", "http.sse-client-ignores-comments", "http.client-supports-json")
async def test_an_answer_may_come_on_a_stream_with_comments_and_progress_before_it() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.chunk(b": hello\r\n\r\n")
        await reply.event(progress(asked, 1))
        await reply.event(progress(asked, 2), name="message")
        await reply.event_result(OK)
        await reply.end()

    shown: list[float] = []
    async with serving(modern(calls)) as server, open_http(server.url) as client:
        for _ in range(3):
            await client.call_tool("echo", on_progress=lambda params: shown.append(params.progress))
    assert shown == [1, 2] * 3
    assert server.connections == 1


async def test_progress_is_shown_as_it_comes_in_the_task_of_the_caller() -> None:
    tasks: list[trio.lowlevel.Task] = []
    seen = trio.Event()

    async def show(_: ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        tasks.append(trio.lowlevel.current_task())
        seen.set()

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(asked, 1))
        await seen.wait()
        await reply.event_result(OK)
        await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("echo", on_progress=show)
    assert tasks == [trio.lowlevel.current_task()]


async def test_progress_that_comes_with_the_answer_is_shown_before_the_call_returns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shown: list[float] = []

    async def show(params: ProgressNotificationParams) -> None:
        # Longer than any deadline: the answer that is here is not lost to it.
        await trio.sleep(1_000)
        shown.append(params.progress)

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        both = [progress(asked, 7), {"jsonrpc": "2.0", "id": asked.message["id"], "result": OK}]
        await reply.chunk(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in both))
        await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("echo", on_progress=show)
    assert shown == [7]


async def test_a_stream_that_stays_open_behind_its_answer_does_not_keep_the_answer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
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
async def test_an_error_in_the_body_of_a_404_is_the_answer() -> None:
    async with serving(modern()) as server, open_http(server.url) as client:
        with pytest.raises(RequestFailed, match="Method not found") as caught:
            await client.read_resource("a:b")
        assert caught.value.code == -32601
        assert caught.value.context.peer == server.url
        assert caught.value.context.method == "resources/read"
        await client.call_tool("echo")
    assert server.rpcs().count("server/discover") == 1


async def test_a_page_instead_of_an_answer_is_quoted_with_its_status() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
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
async def test_missing_credentials_are_told_apart_in_a_call(status: int) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.body(status, headers={"WWW-Authenticate": 'Bearer scope="a"'})

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(AccessDenied) as caught:
            await client.call_tool("echo")
        assert caught.value.status == status
        assert caught.value.challenges == ('Bearer scope="a"',)


async def test_an_answer_that_is_too_large_names_the_limit_and_harms_no_other() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.params["name"] == "small":
            await reply.result(OK)
        elif asked.params["name"] == "json":
            await reply.result({"content": [{"type": "text", "text": "x" * 5_000}], "resultType": "complete"})
        else:
            await reply.stream()
            await reply.event_result({"content": [{"type": "text", "text": "x" * 90_000}], "resultType": "complete"})
            await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url, limits=Limits(message_bytes=2_000)) as client:
        with pytest.raises(LimitExceeded, match=r"Limits\.message_bytes"):
            await client.call_tool("json")
        with pytest.raises(LimitExceeded, match=r"Limits\.event_bytes"):
            await client.call_tool("stream")
        await client.call_tool("small")


async def test_an_answer_to_something_else_is_none() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.json({"jsonrpc": "2.0", "id": 999, "result": OK})

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("echo")
        assert not client._channel.connection.outbound_requests


@pytest.mark.spec("schema.result-object")
@pytest.mark.parametrize("form", ["json", "stream"])
async def test_result_of_null_raises_error_that_names_it(form: str) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
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


# --- what is lost ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.sse-no-resumption", "http.reissue-after-broken-stream")
@pytest.mark.parametrize("how", ["end", "cut"])
async def test_a_broken_stream_is_told_and_nothing_is_asked_again(how: str) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(asked, 1), id="7")
        await (reply.end() if how == "end" else reply.cut())

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(ConnectionEnded, match="the stream ended before the response"):
            await client.call_tool("echo", on_progress=lambda _: None)
        assert not client._channel.connection.outbound_requests
        assert not client._channel._calls
    assert server.rpcs() == ["server/discover", "tools/call"]


async def test_a_server_that_cannot_be_reached_any_more_is_told() -> None:
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
async def test_cancelling_a_call_closes_its_stream_and_says_nothing(
    streaming: bool, autojump_clock: trio.testing.MockClock
) -> None:
    left = trio.Event()

    async def calls(asked: Asked, reply: Reply) -> None:
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
async def test_deadlines_close_the_stream_and_progress_extends_only_the_idle_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        if asked.params["name"] == "busy":
            for value in range(100):
                await reply.event(progress(asked, value + 1))
                await trio.sleep(8)
        await reply.hang()

    deadlines = Deadlines(idle=10, total=100)
    async with serving(modern(calls)) as server, open_http(server.url, deadlines=deadlines) as client:
        start = trio.current_time()
        with pytest.raises(RequestTimeout, match="idle deadline of 10 s"):
            await client.call_tool("silent")
        assert trio.current_time() - start == pytest.approx(10)
        with pytest.raises(RequestTimeout, match="total deadline of 100 s"):
            await client.call_tool("busy", on_progress=lambda _: None)
        assert trio.current_time() - start == pytest.approx(110)
        assert not client._channel.connection.outbound_requests


async def test_closing_the_client_ends_the_calls_that_wait(autojump_clock: trio.testing.MockClock) -> None:
    errors: list[ConnectionEnded] = []

    async def calls(asked: Asked, reply: Reply) -> None:
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


async def test_a_call_may_close_the_client_from_its_own_progress_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(asked, 1))
        await reply.hang()

    async with serving(modern(calls)) as server, open_http(server.url) as client:

        async def show(_: ProgressNotificationParams) -> None:
            await client.aclose()

        with pytest.raises(ConnectionEnded):
            await client.call_tool("echo", on_progress=show)


# --- headers of the application --------------------------------------------------------------------------------------


async def test_headers_may_be_given_for_all_requests_and_for_some() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/list":
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
    seen = [(asked.headers["authorization"], asked.headers.get("x-two")) for asked in server.asked]
    assert seen == [
        ("Bearer a", None),
        ("Bearer a", None),
        ("Bearer b", None),
        ("Bearer b", None),
        ("Bearer b", "2"),
        ("Bearer a", None),
    ]
    assert all(asked.headers["x-one"] == "1" for asked in server.asked)
    assert server.asked[4].headers["user-agent"] == "me"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_function_gives_the_headers_of_each_request(asynchronous: bool) -> None:
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
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer 1", "Bearer 2", "Bearer 3"]


async def test_a_function_for_headers_that_fails_fails_the_request() -> None:
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
async def test_the_headers_of_the_protocol_are_its_own(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="set by the protocol itself"):
        open_http("http://127.0.0.1/mcp", headers={name: "x"})
    async with serving(modern()) as server, open_http(server.url) as client:
        with pytest.raises(LocalProtocolError, match=name.lower()):
            client.with_headers({name: "x"})


@pytest.mark.spec("stdio.no-header-layer")
async def test_a_pipe_has_no_headers() -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(LocalProtocolError, match="only requests over HTTP"):
            client.with_headers({"a": "b"})


def test_a_url_that_cannot_be_asked_for_is_refused_at_once() -> None:
    with pytest.raises(LocalProtocolError, match="http://"):
        open_http("ftp://example.com/mcp")


# --- parameters in headers -------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "header.param-feature-supported",
    "header.param-mirrored",
    "header.param-only-designated",
    "header.param-unknown-schema-omit",
    "header.param-base64-unsafe",
    "header.param-latest-schema",
)
async def test_parameters_stand_in_headers_as_the_latest_list_says() -> None:
    schema = {"region": {"type": "string", "x-mcp-header": "Region"}, "other": {"type": "string"}}

    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/list":
            await reply.result({"tools": [tool("where", **schema)], **LIST_FIELDS})  # type: ignore[arg-type]  # JSON, as it is written
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
    headers = [{name: value for name, value in asked.headers.items() if "param" in name} for asked in calls_made]
    encoded = f"=?base64?{b64encode('Brüssel'.encode()).decode()}?="
    assert headers == [{}, {"mcp-param-region": "eu"}, {"mcp-param-region": encoded}, {}, {"mcp-param-area": "b"}]


@pytest.mark.spec("header.param-mismatch-retry")
async def test_a_header_mismatch_lists_the_tools_again_and_asks_once_more() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/list":
            region: JsonObject = {"type": "string", "x-mcp-header": "Region"}
            await reply.result({"tools": [tool("where", region=region)], **LIST_FIELDS})
        elif asked.headers.get("mcp-param-region") == "eu":
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
async def test_a_tool_whose_header_annotation_is_wrong_is_left_out_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [
        tool("good", a={"type": "string", "x-mcp-header": "A"}),
        tool("bad", a={"type": "number", "x-mcp-header": "A"}),
        tool("plain"),
    ]

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.result({"tools": [*tools], **LIST_FIELDS})

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        assert [each.name for each in await client.list_tools()] == ["good", "plain"]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "'bad'" in record.getMessage()
    assert "number" in record.getMessage()


# --- subscriptions, input rounds -------------------------------------------------------------------------------------


def acknowledged(asked: Asked) -> JsonObject:
    meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": asked.message["id"]}
    params: JsonObject = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    return notification("notifications/subscriptions/acknowledged", params)


def tools_changed(asked: Asked) -> JsonObject:
    meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": asked.message["id"]}
    return notification("notifications/tools/list_changed", {"_meta": meta})


@pytest.mark.spec("subscription.client-cancel-http")
async def test_a_subscription_has_a_stream_of_its_own_and_ends_with_it(autojump_clock: trio.testing.MockClock) -> None:
    left = trio.Event()

    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "subscriptions/listen":
            await reply.stream()
            await reply.event(acknowledged(asked))
            await reply.event(tools_changed(asked))
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
async def test_many_subscriptions_leave_room_for_calls(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "subscriptions/listen":
            await reply.stream()
            await reply.event(acknowledged(asked))
            await reply.hang()
        else:
            await reply.result(OK)

    async with serving(modern(calls)) as server, open_http(server.url) as client, AsyncExitStack() as stack:
        for _ in range(130):
            await stack.enter_async_context(client.listen(tools=True))
        await client.call_tool("echo")


@pytest.mark.spec("subscription.client-check-ack")
async def test_what_a_server_does_not_promise_to_tell_is_seen_and_is_no_failure() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(acknowledged(asked))
        await reply.event(tools_changed(asked))
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
async def test_a_subscription_may_be_ended_or_lost_and_made_again() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(acknowledged(asked))
        if len(server.asked) == 2:
            meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": asked.message["id"]}
            await reply.event_result({"resultType": "complete", "_meta": meta})
            await reply.end()
        elif len(server.asked) == 3:
            await trio.testing.wait_all_tasks_blocked(0.01)
            await reply.cut()
        else:
            await reply.event(tools_changed(asked))
            await reply.hang()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        async with client.listen(tools=True) as changes:
            assert [change async for change in changes] == []
        async with client.listen(tools=True) as changes:
            with pytest.raises(ConnectionEnded, match="stream ended"):
                await anext(changes)
        async with client.listen(tools=True) as changes:
            assert (await anext(changes)).kind is ChangeKind.TOOLS
        ids = [asked.message["id"] for asked in server.of("subscriptions/listen")]
        assert len(set(ids)) == 3


def asking(state: str) -> JsonObject:
    """A result that asks."""
    question: JsonObject = {"method": "elicitation/create", "params": {**ELICIT, "mode": "form"}}
    return {"resultType": "input_required", "inputRequests": {state: question}, "requestState": state}


async def test_a_question_in_a_result_is_answered_with_a_new_request() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.result(OK if "inputResponses" in asked.params else asking("s"))

    async with serving(modern(calls)) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        await client.call_tool("ask")
        first, second = server.of("tools/call")
    assert second.params["requestState"] == "s"
    assert first.message["id"] != second.message["id"]


@pytest.mark.spec("header.param-mismatch-retry", "mrtr.state-echo", "mrtr.state-latest-only", "mrtr.retry-new-id")
async def test_a_header_mismatch_in_a_later_round_repeats_that_round_only_and_once() -> None:
    never = False

    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/list":
            await reply.result({"tools": [tool("ask", a={"type": "string", "x-mcp-header": "A"})], **LIST_FIELDS})
        elif "inputResponses" not in asked.params:
            await reply.result(asking("one"))
        elif asked.params["requestState"] == "one":
            await reply.result(asking("two"))
        elif asked.headers.get("mcp-param-a") != "x" or never:
            # Meanwhile the tool has changed.
            await reply.error(-32020, "Mcp-Param-A is missing", 400)
        else:
            await reply.result(OK)

    questions = 0

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        nonlocal questions
        questions += 1
        return ElicitResult(action="decline")

    for never in (False, True):
        questions = 0
        async with serving(modern(calls)) as server, open_http(server.url, handlers=Handlers(elicit=elicit)) as client:
            with pytest.raises(HeaderMismatch) if never else nullcontext():
                await client.call_tool("ask", {"a": "x"})
            assert server.rpcs()[1:] == [*["tools/call"] * 3, "tools/list", "tools/call"]
            *_, refused, repeated = server.of("tools/call")
            assert repeated.params["requestState"] == refused.params["requestState"] == "two"
            assert repeated.params["inputResponses"] == refused.params["inputResponses"]
            assert repeated.message["id"] != refused.message["id"]
        # The user is asked nothing twice.
        assert questions == 2


@pytest.mark.spec("http.client-no-responses")
async def test_a_request_of_a_modern_server_is_not_answered(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await reply.event_result(OK)
        await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        await trio.testing.wait_all_tasks_blocked()
        assert server.rpcs() == ["server/discover", "tools/call"]


async def test_many_calls_at_once_get_each_its_own_answer() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        text = str(asked.params["name"])
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
        assert len(server.asked) == 61
    assert len(done) == 60


async def test_a_notification_of_an_extension_is_posted_with_its_headers() -> None:
    row = NotificationMethod(
        name="notifications/acme", sender=Side.CLIENT, params=CancelledNotificationParams, extension="acme"
    )
    answers = [202, 500]

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.body(answers.pop(0))

    extensions = Extensions(notifications={row.name: row})
    async with serving(modern(calls)) as server, open_http(server.url, extensions=extensions) as client:
        await client.with_headers({"x-a": "b"}).notify(row, CancelledNotificationParams(request_id=1))
        (asked,) = server.of(row.name)
        assert asked.headers["x-a"] == "b"
        assert asked.headers["mcp-protocol-version"] == "2026-07-28"
        with pytest.raises(HttpFailure, match="500"):
            await client.notify(row, CancelledNotificationParams(request_id=1))


def test_many_tools_are_remembered_but_not_without_bound() -> None:
    headers = ToolHeaders()
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    for start in (0, 3_000):
        headers.learn(tuple(Tool(name=str(number), input_schema=schema) for number in range(start, start + 3_000)))
    assert not headers.of(Request(1, "tools/call", {"name": "0"}))
    assert [each.header for each in headers.of(Request(1, "tools/call", {"name": "5999"}))] == ["A"]
    assert not headers.of(Request(1, "tools/call", {"name": 7}))
    assert not headers.of(Request(1, "prompts/get", {"name": "5999"}))
