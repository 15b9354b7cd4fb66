from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from fake_http_server import (
    OK,
    ReceivedRequest,
    Reply,
    Responder,
    SessionLosingServer,
    client_request,
    decline,
    legacy,
    progress,
    serving,
    silent_stream,
    wait_until,
)

from mcp_client import Change, ChangeKind, Client, Deadlines, Handlers, HttpOptions, open_http
from mcp_client.transports.http.transport import HttpTransport
from mcp_core.errors import (
    AccessDenied,
    ConnectionEnded,
    HttpFailure,
    RequestFailed,
    RequestTimeout,
    SessionExpired,
)
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import NOTIFICATIONS_ROOTS_LIST_CHANGED, TOOLS_LIST
from mcp_core.revisions import LEGACY, R2025_03_26, REVISIONS, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ListToolsRequestParams,
    Root,
    RootsListChangedNotificationParams,
    TextContent,
)

SAMPLE: JsonObject = {"maxTokens": 1, "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}]}

# --- the handshake ---------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "session.client-sends-id",
    "session.client-delete",
    "http.post-accept",
    "http.get-accept",
    "http.protocol-version-header",
    "http.protocol-version-negotiated",
    "compat.client-dual-legacy",
    "compat.client-http-fallback",
)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_session_opened_used_and_deleted(version: str) -> None:
    async with (
        serving(legacy(version=version, get=silent_stream), path="/mcp?x=1") as server,
        open_http(server.url) as client,
    ):
        assert client.revision.name == version
        await client.call_tool("echo")
        await client.ping()
    opening = ["server/discover", "initialize", "notifications/initialized", "GET"]
    assert server.rpcs() == [*opening, "tools/call", "ping", "DELETE"]
    expected = version if REVISIONS[version].version_header else None
    for request in server.requests[2:]:
        assert request.headers["mcp-session-id"] == "s1"
        assert request.headers.get("mcp-protocol-version") == expected
        assert request.target == "/mcp?x=1"
    assert "mcp-session-id" not in server.requests[1].headers
    (get,) = server.of("GET")
    assert get.headers["accept"] == "text/event-stream"
    for request in server.of("tools/call") + server.of("initialize"):
        assert request.headers["accept"] == "application/json, text/event-stream"


async def test_server_without_session_id_gets_none() -> None:
    async with serving(legacy(session=None)) as server, open_http(server.url, revisions=LEGACY) as client:
        await client.call_tool("echo")
    assert server.rpcs() == ["initialize", "notifications/initialized", "GET", "tools/call"]
    assert not any("mcp-session-id" in request.headers for request in server.requests)


async def test_application_headers_on_every_request() -> None:
    async with (
        serving(legacy(get=silent_stream)) as server,
        open_http(server.url, headers={"Authorization": "Bearer a"}) as client,
    ):
        await client.call_tool("echo")
    assert server.rpcs()[-1] == "DELETE"
    assert all(request.headers["authorization"] == "Bearer a" for request in server.requests)


async def test_initialized_notification_401_raises_access_denied(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "notifications/initialized":
            await reply.body(401)
        else:
            await inner(request, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied):
            async with open_http(server.url):
                pass


async def test_initialized_notification_400_logged_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "notifications/initialized":
            await reply.body(400, b"no id", "text/plain")
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("echo")
    assert "notifications/initialized rejected" in caplog.text


# --- the standalone stream ---------------------------------------------------------------------------------------------


async def json_get(request: ReceivedRequest, reply: Reply) -> None:
    await reply.json({"name": "a friendly server"})


async def html_get(request: ReceivedRequest, reply: Reply) -> None:
    await reply.body(200, b"<html>", "text/html")


async def cut_get(request: ReceivedRequest, reply: Reply) -> None:
    await reply.cut()


async def hanging_get(request: ReceivedRequest, reply: Reply) -> None:
    await reply.hang()


async def ending_get(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.end()


def status_get(status: int) -> Responder:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(status, b"no", "text/plain")

    return answer


@pytest.mark.spec("http.get-stream", "sse.get-close-any-time")
@pytest.mark.parametrize(
    "get",
    [
        pytest.param(status_get(405), id="405"),
        pytest.param(status_get(404), id="404"),
        pytest.param(status_get(501), id="501"),
        pytest.param(status_get(400), id="400"),
        pytest.param(json_get, id="200 with JSON"),
        pytest.param(html_get, id="200 with a page"),
        pytest.param(cut_get, id="cut"),
        pytest.param(hanging_get, id="hanging"),
        pytest.param(ending_get, id="ending at once"),
        pytest.param(silent_stream, id="silent"),
    ],
)
async def test_session_works_with_any_get_response(get: Responder, autojump_clock: trio.testing.MockClock) -> None:
    async with serving(legacy(get=get)) as server:
        start = trio.current_time()
        async with open_http(server.url) as client:
            assert trio.current_time() - start <= 1.01
            await client.call_tool("echo")
            await trio.sleep(600)
            await client.call_tool("echo")
            assert 1 <= len(server.of("GET")) <= 8
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


async def test_standalone_stream_delivers_requests_and_changes() -> None:
    streams: list[Reply] = []

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        (stream,) = streams
        await stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await stream.event(client_request(70))
        while not server.of("response"):
            await trio.lowlevel.checkpoint()
        await reply.result(OK)

    handlers = Handlers(elicit=decline)
    async with (
        serving(legacy(calls, get=get)) as server,
        open_http(server.url, handlers=handlers) as client,
        client.listen(tools=True) as changes,
    ):
        await client.call_tool("echo")
        assert await anext(changes) == Change(ChangeKind.TOOLS)
    (response,) = server.of("response")
    assert response.message["id"] == 70
    assert response.message["result"] == {"action": "decline"}
    assert response.headers["mcp-session-id"] == "s1"


@pytest.mark.parametrize("revision", LEGACY, ids=str)
@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage"])
async def test_standalone_stream_client_request_answered(method: str, revision: Revision) -> None:
    streams: list[Reply] = []

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        (stream,) = streams
        await stream.event({"jsonrpc": "2.0", "id": 70, "method": method, "params": SAMPLE})
        while not server.of("response"):
            await trio.lowlevel.checkpoint()
        await reply.result(OK)

    async def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="hi"), model="m")

    handlers = Handlers(roots=[Root(uri="file:///tmp")], sample=sample)
    async with (
        serving(legacy(calls, version=revision.name, get=get)) as server,
        open_http(server.url, handlers=handlers) as client,
    ):
        await client.call_tool("echo")
    (response,) = server.of("response")
    assert response.message["id"] == 70
    assert "result" in response.message
    assert response.headers["mcp-session-id"] == "s1"


@pytest.mark.parametrize("how", ["502", "cut"])
async def test_response_not_delivered_is_sent_again(how: str, autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": 70, "method": "roots/list"})
        await delivered.wait()
        await reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": OK})
        await reply.end()

    failures = [how, how]
    received: list[ReceivedRequest] = []
    delivered = trio.Event()
    answer = legacy(calls)

    async def unavailable(request: ReceivedRequest, reply: Reply) -> None:
        if request.method != "POST" or request.rpc != "response":
            await answer(request, reply)
        elif failures:
            await (reply.cut() if failures.pop() == "cut" else reply.body(502))
        else:
            received.append(request)
            await answer(request, reply)
            delivered.set()

    handlers = Handlers(roots=[Root(uri="file:///tmp")])
    async with serving(unavailable) as server, open_http(server.url, handlers=handlers) as client:
        with trio.fail_after(60):
            await client.call_tool("echo")
    assert [each.message["id"] for each in received] == [70]


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_standalone_stream_unavailable_at_first_opened_later(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if len(server.of("GET")) <= 2:
            await reply.body(status)
        else:
            await reply.stream()
            opened.set()
            await reply.hang()

    opened = trio.Event()
    async with serving(legacy(get=get)) as server, open_http(server.url):
        with trio.fail_after(60):
            await opened.wait()


@pytest.mark.spec("resume.client-last-event-id", "sse.client-respects-retry", "resume.always-get")
async def test_standalone_stream_resumed_after_last_event_and_retry(
    autojump_clock: trio.testing.MockClock,
) -> None:
    times: list[float] = []

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        times.append(trio.current_time())
        await reply.stream()
        if len(times) <= 2:
            await reply.event(id=f"e{len(times)}", retry=4_000)
            await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id=f"f{len(times)}")
            await reply.end()
        else:
            await reply.hang()

    async with serving(legacy(get=get)) as server, open_http(server.url) as client:
        await trio.sleep(20)
        await client.call_tool("echo")
        gets = server.of("GET")
    assert [get.headers.get("last-event-id") for get in gets] == [None, "f1", "f2"]
    assert times[1] - times[0] >= 4
    assert times[2] - times[1] >= 4


async def test_standalone_stream_failing_reopened(autojump_clock: trio.testing.MockClock) -> None:
    answers = ["stream", "503", "cut", "stream"]

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        response_kind = answers.pop(0)
        if response_kind == "stream":
            await reply.stream()
            if answers:
                await reply.cut()
            else:
                await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                await reply.hang()
        else:
            await (reply.body(503) if response_kind == "503" else reply.cut())

    async with (
        serving(legacy(get=get)) as server,
        open_http(server.url) as client,
        client.listen(tools=True) as changes,
    ):
        assert (await anext(changes)).kind is ChangeKind.TOOLS
    assert not answers


# --- resumption ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("sse.client-polls", "sse.client-respects-retry", "resume.client-last-event-id")
async def test_response_stream_resumed_by_get_after_retry(
    autojump_clock: trio.testing.MockClock,
) -> None:
    times: list[float] = []

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="p1", retry=500)
        await reply.event(progress(request, 1), id="p2")
        await reply.end()
        times.append(trio.current_time())

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if "last-event-id" not in request.headers:
            await reply.body(405)
            return
        times.append(trio.current_time())
        await reply.stream()
        if len(times) == 2:
            await reply.event(id="p3", retry=2_000)
            await reply.end()
        else:
            (call,) = server.of("tools/call")
            await reply.event(progress(call, 2), id="p4")
            await reply.event({"jsonrpc": "2.0", "id": call.message["id"], "result": OK}, id="p5")
            await reply.end()

    shown: list[float] = []
    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await client.call_tool("slow", on_progress=lambda progress, _total, _message: shown.append(progress))
        resumed = [request.headers["last-event-id"] for request in server.of("GET")[1:]]
    assert resumed == ["p2", "p3"]
    assert times[1] - times[0] >= 0.5
    assert times[2] - times[1] >= 2
    assert shown == [1, 2]


@pytest.mark.parametrize("how", ["405", "404", "503", "cut", "empty"])
async def test_response_stream_not_resumable_call_fails_in_time(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="p1")
        await reply.cut()

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if "last-event-id" not in request.headers:
            await reply.body(405)
        elif how == "cut":
            await reply.cut()
        elif how == "empty":
            await reply.stream()
            await reply.end()
        else:
            await reply.body(int(how))

    deadlines = Deadlines(idle=60)
    async with serving(legacy(calls, get=get)) as server, open_http(server.url, deadlines=deadlines) as client:
        start = trio.current_time()
        with pytest.raises((ConnectionEnded, RequestTimeout)) as caught:
            await client.call_tool("slow")
        assert trio.current_time() - start <= 60
        assert not isinstance(caught.value, SessionExpired)
        assert isinstance(caught.value, RequestTimeout) == (how == "empty")
        assert len(server.of("tools/call")) == 1
        assert len(server.of("GET")) <= 8


async def test_response_stream_without_event_ids_not_resumed(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(request, 1))
        await reply.cut()

    async with serving(legacy(calls)) as server, open_http(server.url) as client:
        with pytest.raises(ConnectionEnded, match="stream ended before the response"):
            await client.call_tool("slow", on_progress=lambda *_: None)
        # A lost call is not cancelled: it may still run.
        assert server.rpcs()[-1] == "tools/call"


# --- responses on other streams --------------------------------------------------------------------------------------


@pytest.mark.spec("sse.multiple-streams")
async def test_response_on_standalone_stream_ends_call() -> None:
    streams: list[Reply] = []
    left = trio.Event()

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await streams[0].event({"jsonrpc": "2.0", "id": request.message["id"], "result": OK})
        await reply.hang()
        left.set()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        await left.wait()
        assert not client._channel._calls


async def test_response_on_other_stream_awaits_progress_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    streams: list[Reply] = []
    shown: list[float] = []

    async def handle_progress(progress: float, *_: object) -> None:
        await trio.sleep(500)
        shown.append(progress)

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(request, 1))
        await trio.sleep(1)
        await streams[0].event({"jsonrpc": "2.0", "id": request.message["id"], "result": OK})
        await reply.hang()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await client.call_tool("echo", on_progress=handle_progress)
    assert shown == [1]


async def test_client_request_on_call_stream_pauses_idle_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(_: ElicitRequestFormParams) -> ElicitResult:
        await trio.sleep(100)
        return ElicitResult(action="decline")

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(client_request(1))
        await wait_until(lambda: server.of("response"))
        await reply.event_result(OK)
        await reply.end()

    deadlines = Deadlines(idle=10)
    async with (
        serving(legacy(calls)) as server,
        open_http(server.url, handlers=Handlers(elicit=slow), deadlines=deadlines) as client,
    ):
        await client.call_tool("ask")


async def test_ping_and_unknown_request_answered_by_post(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(client_request(1, "ping", {}))
        await reply.event(client_request(2, "no/such", {}))
        await wait_until(lambda: len(server.of("response")) >= 2)
        await reply.event_result(OK)
        await reply.end()

    async with serving(legacy(calls)) as server, open_http(server.url) as client:
        await client.call_tool("ask")
        answers = {int(str(each.message["id"])): each.message for each in server.of("response")}
    assert answers[1]["result"] == {}
    error = answers[2]["error"]
    assert isinstance(error, dict)
    assert error["code"] == -32601


async def test_rejected_response_post_does_not_affect_call(autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "response":
            await reply.body(500)
        elif request.rpc == "tools/call":
            await reply.stream()
            await reply.event(client_request(1, "ping", {}))
            await reply.event(client_request(2))
            await wait_until(lambda: len(server.of("response")) >= 2)
            await reply.event_result(OK)
            await reply.end()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        await client.call_tool("ask")
        assert not client._channel._inbound_requests.busy


@pytest.mark.spec("batch.http-post-body")
async def test_batch_answered_in_one_post(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event([client_request(1, "ping", {}), client_request(2, "ping", {})])
        await wait_until(lambda: bodies)
        await reply.event_result(OK)
        await reply.end()

    bodies: list[bytes] = []
    inner = legacy(calls, version="2025-03-26")

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.body.startswith(b"["):
            bodies.append(request.body)
            await reply.accept()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url, revisions=[R2025_03_26]) as client:
        await client.call_tool("ask")
    (body,) = bodies
    assert [each["id"] for each in json.loads(body)] == [1, 2]


# --- cancellation ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("sse.cancel-explicitly")
@pytest.mark.parametrize("how", ["caller", "deadline"])
async def test_abandoned_call_sends_cancelled_and_closes_stream(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    left = trio.Event()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.hang()
        left.set()

    async with serving(legacy(calls)) as server:
        async with open_http(server.url) as client:
            if how == "caller":
                with trio.move_on_after(1):
                    await client.call_tool("slow")
            else:
                with pytest.raises(RequestTimeout):
                    await client.call_tool("slow", deadlines=Deadlines(idle=1))
            await left.wait()
        (call,) = server.of("tools/call")
        (cancelled,) = server.of("notifications/cancelled")
        assert cancelled.params["requestId"] == call.message["id"]
        assert server.rpcs()[-1] == "DELETE"


async def test_cancelled_notification_hanging_does_not_block_close(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc in ("notifications/cancelled", "tools/call", "DELETE"):
            await reply.hang()
        else:
            await inner(request, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            for _ in range(3):
                with trio.move_on_after(1):
                    await client.call_tool("slow")
            start = trio.current_time()
        assert trio.current_time() - start <= 3
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


# --- lost sessions ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("session.client-reinitialize")
@pytest.mark.parametrize("status", [404, 400])
async def test_session_lost_replaced_and_request_retried(status: int) -> None:
    losing_server = SessionLosingServer(status=status)
    lost: list[str] = []
    async with (
        serving(losing_server.answer) as server,
        open_http(server.url, http=HttpOptions(on_session_lost=lambda: lost.append("lost"))) as client,
    ):
        await client.call_tool("a")
        losing_server.alive = False
        await client.call_tool("b")
        await client.call_tool("c")
    assert lost == ["lost"]
    first, again = server.of("initialize")
    assert "mcp-session-id" not in again.headers
    assert first.message["id"] != again.message["id"]
    assert again.params["protocolVersion"] == "2025-11-25"
    sessions = [request.headers["mcp-session-id"] for request in server.of("tools/call")]
    assert sessions == ["s1", "s1", "s2", "s2"]
    assert [request.headers["mcp-session-id"] for request in server.of("notifications/initialized")] == ["s1", "s2"]
    assert server.requests[-1].headers["mcp-session-id"] == "s2"
    ids = {str(request.message["id"]) for request in server.requests if request.body and "id" in request.message}
    assert len(ids) == len([request for request in server.requests if request.body and "id" in request.message]) - 1


def _has_cursor(request: ReceivedRequest) -> bool:
    params = request.message.get("params")
    return isinstance(params, dict) and "cursor" in params


class _PagedServer:
    """A server with two pages of tools, which loses its session at the requests for the second page."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        """How often it loses the session."""
        self.losing = SessionLosingServer(self._pages)

    async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
        """Answer one request."""
        if request.rpc == "tools/list" and _has_cursor(request) and self.losses:
            self.losses -= 1
            self.losing.alive = False
        await self.losing.answer(request, reply)

    async def _pages(self, request: ReceivedRequest, reply: Reply) -> None:
        cursor = f"page 2 in session {self.losing.number}"
        name = "b" if _has_cursor(request) else "a"
        page: JsonObject = {"tools": [{"name": name, "inputSchema": {"type": "object"}}]}
        await reply.result(page if name == "b" else {**page, "nextCursor": cursor})


@pytest.mark.spec("pagination.not-across-sessions")
async def test_session_lost_between_pages_lists_again_from_start() -> None:
    paged = _PagedServer(1)
    async with serving(paged.answer) as server, open_http(server.url) as client:
        assert [tool.name for tool in await client.list_tools()] == ["a", "b"]
    requests = server.of("tools/list")
    assert [each.headers["mcp-session-id"] for each in requests] == ["s1", "s1", "s2", "s2"]
    cursors = [each.params["cursor"] for each in requests if _has_cursor(each)]
    assert cursors == ["page 2 in session 1", "page 2 in session 2"]


async def test_session_lost_between_pages_twice_raises_session_expired() -> None:
    async with serving(_PagedServer(2).answer) as server, open_http(server.url) as client:
        with pytest.raises(SessionExpired):
            await client.list_tools()
        await client.ping()
    assert len(server.of("tools/list")) == 4


async def test_session_lost_before_request_with_cursor_raises_session_expired(
    autojump_clock: trio.testing.MockClock,
) -> None:
    losing_server = SessionLosingServer()
    async with serving(losing_server.answer) as server, open_http(server.url) as client:
        losing_server.alive, losing_server.refuse = False, 503
        with pytest.raises(HttpFailure, match="status 503"):
            await client.ping()
        losing_server.refuse = 0
        with pytest.raises(SessionExpired, match="a cursor is not valid in another"):
            await client.request(TOOLS_LIST, ListToolsRequestParams(cursor="of the first session"))
        assert server.of("tools/list") == []


async def test_session_lost_concurrent_calls_open_one_session() -> None:
    losing_server = SessionLosingServer()
    async with serving(losing_server.answer) as server, open_http(server.url) as client:
        await client.ping()
        losing_server.alive = False
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(client.call_tool, "a")
        assert len(server.of("initialize")) == 2
        assert not client._channel.connection.outbound_requests


async def test_session_lost_state_restored_and_changes_reported() -> None:
    losing_server = SessionLosingServer()
    async with (
        serving(losing_server.answer) as server,
        open_http(server.url, log_level="warning") as client,
        client.listen(tools=True, uris=["a:b"]) as changes,
    ):
        losing_server.alive = False
        await client.ping()
        assert {await anext(changes), await anext(changes)} == {
            Change(ChangeKind.TOOLS),
            Change(ChangeKind.RESOURCE, "a:b"),
        }
        await trio.testing.wait_all_tasks_blocked(0.01)
    for rpc in ("resources/subscribe", "logging/setLevel"):
        assert [request.headers["mcp-session-id"] for request in server.of(rpc)] == ["s1", "s2"]


async def test_session_lost_twice_raises_session_expired() -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/call":
            await reply.body(404)
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        with pytest.raises(SessionExpired):
            await client.call_tool("a")
        assert server.rpcs().count("initialize") == 2
        assert server.rpcs().count("tools/call") == 2
        await client.ping()


async def test_session_replacement_failed_retried_by_next_request() -> None:
    losing_server = SessionLosingServer()
    rejecting = False

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if rejecting and request.rpc == "initialize":
            await reply.body(503, b"starting", "text/plain")
        else:
            await losing_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("a")
        losing_server.alive, rejecting = False, True
        for _ in range(2):
            with pytest.raises(HttpFailure, match="status 503"):
                await client.call_tool("b")
        rejecting = False
        await client.call_tool("c")
        await client.call_tool("d")
        assert server.rpcs().count("initialize") == 4
        assert [request.params["name"] for request in server.of("tools/call")] == ["a", "b", "c", "d"]


async def test_session_replacement_cancelled_does_not_affect_other_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    losing_server = SessionLosingServer()
    slow = False

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal slow
        if slow and request.rpc == "initialize":
            slow = False
            await reply.hang()
        else:
            await losing_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.ping()
        losing_server.alive, slow = False, True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_call_for_two_seconds, client)
            await trio.sleep(1)
            nursery.start_soon(client.call_tool, "b")
        assert len(server.of("initialize")) == 3


async def _call_for_two_seconds(client: Client) -> None:
    with trio.move_on_after(2):
        await client.call_tool("a")


async def test_session_lost_detected_by_notification() -> None:
    losing_server = SessionLosingServer()
    async with serving(losing_server.answer) as server, open_http(server.url, handlers=Handlers(roots=())) as client:
        losing_server.alive = False
        await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())
    sessions = [request.headers["mcp-session-id"] for request in server.of("notifications/roots/list_changed")]
    assert sessions == ["s1", "s2"]


async def test_session_lost_detected_by_standalone_stream_404(
    autojump_clock: trio.testing.MockClock,
) -> None:
    losing_server = SessionLosingServer()
    lost = trio.Event()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method != "GET" or not losing_server.alive:
            await losing_server.answer(request, reply)
        elif len(server.of("GET")) == 1:
            await reply.stream()
            await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await trio.sleep(10)
            losing_server.alive = False
            await reply.cut()
        else:
            await silent_stream(request, reply)

    async with serving(answer) as server, open_http(server.url, http=HttpOptions(on_session_lost=lost.set)) as client:
        with trio.fail_after(60):
            await lost.wait()
        await trio.sleep(1)
        await client.ping()
        assert [request.headers["mcp-session-id"] for request in server.of("GET")] == ["s1", "s1", "s2"]


@pytest.mark.spec("session.client-reinitialize")
async def test_session_lost_detected_by_resumption(autojump_clock: trio.testing.MockClock) -> None:
    losing_server = SessionLosingServer()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/call" and losing_server.alive:
            losing_server.alive = False
            await reply.stream()
            await reply.event(id="p1")
            await reply.cut()
        else:
            await losing_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        with pytest.raises(ConnectionEnded, match="may have processed") as caught:
            await client.call_tool("slow")
        assert not isinstance(caught.value, SessionExpired)
        await client.ping()
        assert len(server.of("tools/call")) == 1
        assert len(server.of("initialize")) == 2
        assert [request.headers["mcp-session-id"] for request in server.of("ping")] == ["s2"]


async def test_on_session_lost_failure_logged(caplog: pytest.LogCaptureFixture) -> None:
    losing_server = SessionLosingServer()

    def fail() -> None:
        raise ZeroDivisionError

    async with (
        serving(losing_server.answer) as server,
        open_http(server.url, http=HttpOptions(on_session_lost=fail)) as client,
    ):
        losing_server.alive = False
        await client.ping()
    assert "ZeroDivisionError" in caplog.text


async def test_404_error_without_session_raises_request_failed() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.error(-32601, "Method not found", 404)

    async with serving(legacy(calls, session=None)) as server, open_http(server.url) as client:
        with pytest.raises(RequestFailed):
            await client.call_tool("a")
        assert server.rpcs().count("initialize") == 1


async def test_session_lost_cancels_handler_and_sends_no_response(
    autojump_clock: trio.testing.MockClock,
) -> None:
    losing_server = SessionLosingServer()
    cancelled = trio.Event()

    async def slow(_: ElicitRequestFormParams) -> ElicitResult:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError("the handler was not cancelled")

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "GET" and losing_server.number == 1:
            await reply.stream()
            await reply.event(client_request(5))
            await reply.hang()
        else:
            await losing_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=slow)) as client:
        await trio.sleep(1)
        losing_server.alive = False
        await client.ping()
        await cancelled.wait()
        assert not server.of("response")


async def test_response_404_opens_no_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "response":
            await reply.body(404)
        elif request.rpc == "tools/call":
            await reply.stream()
            await reply.event(client_request(5))
            await wait_until(lambda: server.of("response"))
            await reply.event_result(OK)
            await reply.end()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        await client.call_tool("ask")
        await trio.sleep(5)
        assert server.rpcs().count("initialize") == 1


async def test_session_lost_closes_standalone_stream() -> None:
    losing_server = SessionLosingServer()
    left: list[str] = []

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "GET":
            await silent_stream(request, reply)
            left.append(request.headers["mcp-session-id"])
        else:
            await losing_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        losing_server.alive = False
        await client.ping()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert left == ["s1"]
        assert [request.headers["mcp-session-id"] for request in server.of("GET")] == ["s1", "s2"]


async def test_session_replacement_by_standalone_stream_failed_logged(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    inner = legacy(get=ending_get)

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if len(server.of("initialize")) > 1:
            await reply.body(503)
        elif request.method == "GET" and len(server.of("GET")) > 1:
            await reply.body(404)
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await trio.sleep(60)
        assert "new session failed" in caplog.text
        with pytest.raises(HttpFailure, match="503"):
            await client.call_tool("a")


async def test_session_replacement_hanging_times_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    losing_server = SessionLosingServer()
    hang = False

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if hang and request.rpc == "initialize":
            await reply.hang()
        else:
            await losing_server.answer(request, reply)

    deadlines = Deadlines(connect=20, idle=60)
    async with serving(answer) as server, open_http(server.url, deadlines=deadlines) as client:
        losing_server.alive, hang = False, True
        with pytest.raises(RequestTimeout, match="idle"):
            await client.call_tool("a")
        with pytest.raises(RequestTimeout, match="did not open a new session: the connect deadline of 20 s"):
            await client.call_tool("b")
        hang = False
        await client.call_tool("c")


async def test_session_state_not_restored_logged(caplog: pytest.LogCaptureFixture) -> None:
    losing_server = SessionLosingServer()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if losing_server.number == 2 and request.rpc in ("resources/subscribe", "logging/setLevel"):
            await reply.error(-32603, "no more")
        else:
            await losing_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url, log_level="warning") as client:
        async with client.listen(uris=["a:b"]):
            losing_server.alive = False
            await client.ping()
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert "setting the log level in the new session failed" in caplog.text
        assert "subscription lost with the session: uri='a:b'" in caplog.text


async def test_responses_over_limit_dropped(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/call":
            await reply.stream()
            for number in range(600):
                await reply.event(client_request(number, "ping", {}))
            await reply.event_result(OK)
            await reply.end()
        elif request.rpc == "response":
            await reply.hang()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("a")
        assert "message dropped" in caplog.text
        await trio.sleep(60)
        assert isinstance(client._channel.transport, HttpTransport)
        assert client._channel.transport._posting == 0
