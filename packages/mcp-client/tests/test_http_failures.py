"""Failures over HTTP that must not affect anything else: races, application errors, lost sessions."""

from __future__ import annotations

import json
import logging

import pytest
import trio
import trio.testing
from fake_http_server import (
    CAPABILITIES,
    CHANGED,
    ELICIT,
    OK,
    HttpSseServer,
    ReceivedRequest,
    Reply,
    SessionLosingServer,
    client_request,
    decline,
    legacy,
    modern,
    progress,
    serving,
    wait_until,
)

from mcp_client import Change, ChangeKind, Client, Deadlines, Handlers, HttpOptions, open_http
from mcp_client.transports.http.session import Session
from mcp_client.transports.http.transport import HttpTransport
from mcp_core.errors import (
    ConnectionEnded,
    HttpFailure,
    LocalProtocolError,
    McpError,
    RequestTimeout,
    SessionExpired,
)
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import NOTIFICATIONS_ROOTS_LIST_CHANGED
from mcp_core.revisions import LEGACY, R2025_11_25
from mcp_core.types import (
    ElicitRequestFormParams,
    ElicitResult,
    RootsListChangedNotificationParams,
)

# --- application errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SessionExpired("mine"), ConnectionEnded("mine"), LocalProtocolError("mine")])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_progress_handler_error_raised_unchanged(
    error: McpError, asynchronous: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(request, 1), id="a")
        await reply.hang()

    async def fail_later(*_: object) -> None:
        raise error

    def fail(*_: object) -> None:
        raise error

    async with serving(legacy(calls)) as server, open_http(server.url) as client:
        with pytest.raises(McpError) as raised:
            await client.call_tool("a", on_progress=fail_later if asynchronous else fail)
        assert raised.value is error
        await trio.sleep(1)
        assert server.rpcs().count("initialize") == 1
        assert server.rpcs().count("tools/call") == 1
        assert len(server.of("notifications/cancelled")) == 1
        assert not client._channel.connection.outbound_requests


async def test_progress_handler_error_raised_despite_response() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        answer: JsonObject = {"jsonrpc": "2.0", "id": request.message["id"], "result": OK}
        dual_era = "".join(f"data: {json.dumps(each)}\n\n" for each in (progress(request, 1), answer))
        await reply.chunk(dual_era.encode())
        await reply.end()

    error = ConnectionEnded("mine")

    def fail(*_: object) -> None:
        raise error

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(ConnectionEnded, match="mine"):
            await client.call_tool("a", on_progress=fail)


async def test_headers_function_failure_for_response_logged(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    failing = False

    def headers() -> dict[str, str]:
        if failing:
            raise ZeroDivisionError
        return {}

    async def fail_then_decline(params: ElicitRequestFormParams) -> ElicitResult:
        nonlocal failing
        failing = True
        return await decline(params)

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal failing
        await reply.stream()
        await reply.event(client_request(5))
        await trio.sleep(5)
        failing = False
        await reply.event_result(OK)
        await reply.end()

    async with (
        serving(legacy(calls)) as server,
        open_http(server.url, headers=headers, handlers=Handlers(elicit=fail_then_decline)) as client,
    ):
        await client.call_tool("a")
        await client.call_tool("b")
    assert "response not delivered: method=elicitation/create" in caplog.text


async def test_hanging_response_post_does_not_pause_idle_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "response":
            await reply.hang()
        elif request.rpc == "tools/call":
            await reply.stream()
            await reply.event(client_request(5))
            await reply.hang()
        else:
            await inner(request, reply)

    deadlines = Deadlines(idle=20)
    async with (
        serving(answer) as server,
        open_http(server.url, handlers=Handlers(elicit=decline), deadlines=deadlines) as client,
    ):
        start = trio.current_time()
        with pytest.raises(RequestTimeout, match="idle"):
            await client.call_tool("a")
        assert trio.current_time() - start <= 60


async def test_hanging_notification_post_times_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "notifications/roots/list_changed":
            await reply.hang()
        else:
            await inner(request, reply)

    async with (
        serving(answer) as server,
        open_http(server.url, handlers=Handlers(roots=()), deadlines=Deadlines(idle=20)) as client,
    ):
        with pytest.raises(RequestTimeout, match="idle deadline of 20 s") as raised:
            await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())
        assert raised.value.context.method == "notifications/roots/list_changed"
        await client.ping()


# --- lost sessions ---------------------------------------------------------------------------------------------------


async def test_session_lost_concurrent_calls_processed_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        number = int(str(request.params["name"]))
        if number % 3 == 0:
            await reply.stream()
            await reply.event(id=f"e{number}")
            if number == 9:
                losing_server.alive = False
            await reply.cut()
        elif number % 3 == 1:
            await trio.sleep(number)
            await reply.result(OK)
        else:
            await reply.stream()
            await trio.sleep(number)
            await reply.event_result(OK)
            await reply.end()

    losing_server = SessionLosingServer(calls)
    outcomes: list[str] = []

    async def call(client: Client, number: int) -> None:
        await trio.sleep(number // 4)
        try:
            await client.call_tool(str(number))
            outcomes.append("result")
        except ConnectionEnded as error:
            outcomes.append(error.message)

    async with serving(losing_server.answer) as server:
        async with open_http(server.url) as client:
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(call, client, number)
            assert server.rpcs().count("initialize") == 2
            assert not client._channel.connection.outbound_requests
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0
    assert len(outcomes) == 20
    assert sorted(losing_server.processed) == sorted({str(number) for number in range(20)})
    lost = [outcome for outcome in outcomes if outcome != "result"]
    assert len(lost) == 7
    assert all("the server may have processed the request" in outcome for outcome in lost)


async def test_session_replacement_failure_shared_by_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    losing_server = SessionLosingServer()
    errors: list[McpError] = []

    async def call(client: Client) -> None:
        with pytest.raises(McpError) as raised:
            await client.call_tool("a")
        errors.append(raised.value)

    async with serving(losing_server.answer) as server, open_http(server.url) as client:
        losing_server.alive, losing_server.refuse = False, 503
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call, client)
        assert server.rpcs().count("initialize") == 2
        assert len({id(error) for error in errors}) == 20
        assert all("503" in error.message for error in errors)
        assert [type(error) for error in errors].count(HttpFailure) == 1
        losing_server.refuse = 0
        await client.call_tool("b")
    assert losing_server.processed == ["b"]


async def test_session_lost_batch_response_and_cancellation_open_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy(version="2025-03-26")

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.body.startswith(b"[") or request.rpc == "notifications/cancelled":
            await reply.body(404)
        elif request.rpc == "tools/call":
            await reply.stream()
            await reply.chunk(f"data: {json.dumps([client_request(1), client_request(2)])}\n\n".encode())
            await reply.hang()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        with trio.move_on_after(10):
            await client.call_tool("ask")
        await trio.sleep(5)
        bodies = [request.body for request in server.requests if request.body]
        assert sum(body.startswith(b"[") for body in bodies) == 1
        assert sum(b'"notifications/cancelled"' in body for body in bodies) == 1
        assert sum(b'"initialize"' in body for body in bodies) == 1


async def test_session_lost_late_response_not_sent_for_reused_id(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def answer_slowly(params: ElicitRequestFormParams) -> ElicitResult:
        if params.message == "first":
            # A dialog that cannot be closed.
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
            return ElicitResult(action="accept", content={})
        await trio.sleep(30)
        return ElicitResult(action="decline")

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(
            client_request(5, params={**ELICIT, "message": "first" if losing_server.number == 1 else "second"})
        )
        await reply.hang()

    losing_server = SessionLosingServer(get=get)
    async with (
        serving(losing_server.answer) as server,
        open_http(server.url, handlers=Handlers(elicit=answer_slowly)) as client,
    ):
        await trio.sleep(1)
        losing_server.alive = False
        await client.ping()
        await trio.sleep(100)
        (response,) = server.of("response")
        result = response.message["result"]
        assert isinstance(result, dict)
        assert result["action"] == "decline"
        assert response.headers["mcp-session-id"] == "s2"
        assert not client._channel.connection.inbound_requests


async def test_session_lost_resubscribes_with_headers_of_listener() -> None:
    losing_server = SessionLosingServer(capabilities={"resources": {"subscribe": True}})
    async with serving(losing_server.answer) as server, open_http(server.url) as client:
        ada, bob = (client.with_headers({"Authorization": name}) for name in ("ada", "bob"))
        async with ada.listen(uris=["a:a"]), bob.listen(uris=["a:b"]):
            losing_server.alive = False
            await client.ping()
            await trio.testing.wait_all_tasks_blocked(0.01)
        subscribed = [
            (request.params["uri"], request.headers["authorization"]) for request in server.of("resources/subscribe")
        ]
    assert subscribed == [("a:a", "ada"), ("a:b", "bob")] * 2


async def test_resubscribe_during_unsubscribe_subscribes_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    subscribed: list[bool] = []

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "resources/unsubscribe":
            await trio.sleep(0.5)
        subscribed.append(request.rpc == "resources/subscribe")
        await reply.result({})

    capabilities: JsonObject = {"resources": {"subscribe": True}}
    left = trio.Event()

    async def watch_briefly(client: Client) -> None:
        async with client.listen(uris=["a:b"]):
            await trio.sleep(1)
            left.set()

    async with (
        serving(legacy(calls, capabilities=capabilities)) as server,
        open_http(server.url) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(watch_briefly, client)
        await left.wait()
        await trio.sleep(0.1)
        async with client.listen(uris=["a:b"]):
            await trio.sleep(2)
            assert subscribed == [True, False, True]


async def test_standalone_stream_of_2024_11_05_reopened_in_new_session() -> None:
    inner = SessionLosingServer()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "initialize" and inner.alive:
            await legacy(version="2024-11-05")(request, reply)
        elif request.rpc == "initialize":
            inner.alive, inner.number = True, 2
            await legacy(version="2024-11-05", session="s2")(request, reply)
        else:
            await inner.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        inner.alive = False
        await client.ping()
        assert server.rpcs().count("initialize") == 2
        assert [get.headers["mcp-session-id"] for get in server.of("GET")] == ["s1", "s2"]


# --- the standalone stream ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 410])
async def test_standalone_stream_unknown_last_event_reopened_without_it(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if "last-event-id" in request.headers:
            await reply.body(status, b"no such event", "text/plain")
        elif len(server.of("GET")) == 1:
            await reply.stream()
            await reply.event(CHANGED, id="a")
            await reply.end()
        else:
            await reply.stream()
            await reply.hang()

    async with serving(legacy(get=get)) as server, open_http(server.url) as client:
        await trio.sleep(60)
        await client.ping()
        assert [request.headers.get("last-event-id") for request in server.of("GET")] == [None, "a", None]


async def test_standalone_stream_unknown_last_event_reports_all_changes(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if "last-event-id" in request.headers:
            await reply.body(400, b"no such event", "text/plain")
        elif len(server.of("GET")) == 1:
            await reply.stream()
            await reply.event({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}, id="a")
            await reply.end()
        else:
            await reply.stream()
            await reply.hang()

    async with (
        serving(legacy(get=get, capabilities=CAPABILITIES)) as server,
        open_http(server.url) as client,
        client.listen(tools=True, uris=["a:b"]) as changes,
    ):
        with trio.fail_after(600):
            changes_received = {await anext(changes), await anext(changes)}
    assert changes_received == {Change(ChangeKind.TOOLS), Change(ChangeKind.RESOURCE, "a:b")}
    assert "notifications may be lost" in caplog.text


@pytest.mark.parametrize("how", ["cut", "503", "401", "429"])
async def test_standalone_stream_reopened_after_long_outage(how: str, autojump_clock: trio.testing.MockClock) -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if len(server.of("GET")) == 1:
            await reply.stream()
            await reply.end()
        elif trio.current_time() < 900:
            await (reply.cut() if how == "cut" else reply.body(int(how)))
        else:
            await reply.stream()
            reopened.set()
            await reply.hang()

    reopened = trio.Event()
    async with serving(legacy(get=get)) as server, open_http(server.url):
        with trio.fail_after(1_000):
            await reopened.wait()
        # The attempts are rare enough.
        assert len(server.of("GET")) <= 45


async def test_standalone_stream_405_after_end_logged(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if len(server.of("GET")) == 1:
            await reply.stream()
            await reply.end()
        else:
            await reply.body(405)

    async with serving(legacy(get=get)) as server, open_http(server.url):
        await trio.sleep(1_000)
        assert len(server.of("GET")) == 2
    assert "standalone stream rejected" in caplog.text


async def test_resume_with_retry_0_limited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(CHANGED, id=str(len(server.of("GET"))), retry=0)
        await reply.end()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="x", retry=0)
        await reply.end()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await trio.sleep(10)
        assert 10 <= len(server.of("GET")) <= 110
        before = len(server.of("GET"))
        with pytest.raises(RequestTimeout):
            await client.call_tool("a", deadlines=Deadlines(total=10))
        assert len(server.of("GET")) - before <= 220


async def test_opening_resumed_repeatedly_limited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        if request.method == "POST":
            await reply.event(id="x", retry=0)
        await reply.end()

    async with serving(answer) as server:
        with pytest.raises(RequestTimeout):
            async with open_http(server.url, revisions=LEGACY, deadlines=Deadlines(connect=60)):
                pass
        assert 3 <= len(server.of("GET")) <= 10


async def test_resume_connect_timeout_retried(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="a")
        await reply.cut()

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if "last-event-id" not in request.headers:
            await reply.body(405)
            return
        await reply.stream()
        await reply.event_result_of(server.of("tools/call")[0])
        await reply.end()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        inner = transport.wire._pool._dialer._connect
        attempts = 0

        async def connect(host: str, port: int) -> trio.SocketStream:
            nonlocal attempts
            attempts += 1
            if server.of("tools/call") and attempts < 3:
                await trio.sleep_forever()
            return await inner(host, port)

        monkeypatch.setattr(transport.wire._pool._dialer, "_connect", connect)
        await client.call_tool("a")
    assert attempts >= 2


@pytest.mark.spec("session.client-reinitialize", "sse.terminate-on-session-expiry")
async def test_standalone_stream_resume_session_lost_opens_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        if losing_server.number == 1:
            await reply.event(CHANGED, id="a")
            losing_server.alive = False
            await reply.cut()
        await reply.hang()

    losing_server = SessionLosingServer(get=get)
    lost = trio.Event()
    async with (
        serving(losing_server.answer) as server,
        open_http(server.url, http=HttpOptions(on_session_lost=lost.set)),
    ):
        with trio.fail_after(60):
            await lost.wait()
        await trio.sleep(1)
        streams = [
            (request.headers["mcp-session-id"], request.headers.get("last-event-id")) for request in server.of("GET")
        ]
    assert streams == [("s1", None), ("s1", "a"), ("s2", None)]


async def test_session_not_replaced_after_close() -> None:
    async with serving(legacy()) as server, open_http(server.url) as client:
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        assert transport._handshake.sessions is not None
        await client.aclose()
        with pytest.raises(ConnectionEnded, match="the client was closed"):
            await transport._handshake.sessions.replace(transport._handshake.sessions._session)
        assert server.rpcs().count("initialize") == 1


# --- closing ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("session.client-delete")
async def test_client_closed_by_two_tasks_deletes_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()
    deleted_sessions: list[str] = []

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "DELETE":
            await trio.sleep(1)
            await reply.body(200)
            deleted_sessions.append(request.headers["mcp-session-id"])
        else:
            await inner(request, reply)

    async with serving(answer) as server:
        async with trio.open_nursery() as nursery:
            client: Client = await nursery.start(open_http(server.url).run)
            await client.ping()
            # The block of `run` ends with the connection, so both close at the same time.
            await client.aclose()
            assert deleted_sessions == ["s1"]
        assert deleted_sessions == ["s1"]
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


# --- remembered eras -------------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-dual-modern", "compat.client-cache-era")
async def test_legacy_only_client_does_not_set_remembered_era() -> None:
    modern_part, legacy_part = modern(), legacy()

    async def dual_era(request: ReceivedRequest, reply: Reply) -> None:
        inner = modern_part if "mcp-method" in request.headers else legacy_part
        await inner(request, reply)

    async with serving(dual_era) as server:
        async with open_http(server.url, revisions=LEGACY) as client:
            assert client.revision is R2025_11_25
        count_before = len(server.requests)
        async with open_http(server.url) as client:
            await client.call_tool("a")
        assert server.rpcs()[count_before:] == ["server/discover", "tools/call"]


# --- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("session.client-secure-handling")
async def test_errors_logs_and_reprs_hide_session_and_credentials(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ("s3cr3t", "t0ken", "qu3ry", "p3rcall")
    treatments = ["cut", "500", "401", "junk", "hang", "404"]

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        how = str(request.params["name"])
        if how == "cut":
            await reply.cut()
        elif how == "junk":
            await reply.raw(b"nonsense\r\n\r\n")
        elif how == "hang":
            await reply.hang()
        else:
            await reply.body(int(how))

    texts: list[str] = []
    async with (
        serving(legacy(calls, session="s3cr3t"), path="/mcp?key=qu3ry") as server,
        open_http(
            server.url, headers={"Authorization": "Bearer t0ken"}, deadlines=Deadlines(idle=5, connect=5)
        ) as client,
    ):
        for how in treatments:
            with pytest.raises(McpError) as raised:
                await client.with_headers({"X-Key": "p3rcall"}).call_tool(how)
            error: BaseException | None = raised.value
            while error is not None:
                texts += [str(error), repr(error)]
                error = error.__cause__ or error.__context__
            texts.append(repr(raised.value.context))
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        assert transport._handshake.sessions is not None
        texts += [
            repr(each)
            for each in (client, transport, transport._handshake.sessions._session, transport.wire, client._channel)
        ]
    texts += [record.getMessage() for record in caplog.records]
    texts.append(repr(Session("s3cr3t", R2025_11_25)))
    # Texts of the Python runtime and of other libraries are excluded.
    assert len(texts) > len(treatments)
    for secret in secrets:
        assert not [text for text in texts if secret in text]


# --- unusual responses -----------------------------------------------------------------------------------------------


async def test_error_with_unreadable_body_raises_with_status() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        head = b"HTTP/1.1 503 Busy\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        await reply.raw(head + b"5;" + b"x" * 100_000 + b"\r\nhello\r\n0\r\n\r\n")

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(HttpFailure) as raised:
            await client.call_tool("a")
        assert raised.value.status == 503


async def test_tolerated_deviation_in_response_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(
            200, json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": OK}).encode(), "text/plain"
        )

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("a")
    assert "the JSON body has another media type" in caplog.text


async def test_stream_of_many_tiny_events_read_to_response() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        tiny = b"data\n\n" + json.dumps(CHANGED).join(("data: ", "\n\n")).encode() + b":\n"
        for _ in range(100):
            await reply.raw((b"%x\r\n%b\r\n" % (len(tiny), tiny)) * 500)
        await reply.event_result(OK)
        await reply.end()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("a")
        await client.call_tool("b")
        assert server.connections == 1


async def test_redirect_repeats_request_with_session_id() -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/call" and request.target == "/mcp":
            await reply.body(307, headers={"Location": "/other"})
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("a")
    first, second = server.of("tools/call")
    assert (first.target, second.target) == ("/mcp", "/other")
    assert first.body == second.body
    assert second.headers["mcp-session-id"] == "s1"
    assert server.requests[-1].target == "/mcp"


@pytest.mark.spec("security.sanitize-urls")
async def test_urls_of_server_at_other_origin_not_requested() -> None:
    # A server can name URLs in a redirect, a challenge, and the endpoint event of HTTP+SSE.
    visited: list[str] = []

    async def record_request(request: ReceivedRequest, reply: Reply) -> None:
        visited.append(request.target)
        await reply.body(200)

    async with serving(record_request) as elsewhere:
        foreign = elsewhere.url

        async def redirecting(request: ReceivedRequest, reply: Reply) -> None:
            await reply.body(
                401 if request.rpc == "tools/call" else 307,
                headers={"Location": foreign, "WWW-Authenticate": f'Bearer resource_metadata="{foreign}"'},
            )

        for answer in (redirecting, HttpSseServer(endpoint=foreign).answer):
            async with serving(answer) as server:
                with pytest.raises(McpError, match=r"another origin|have the origin of the stream"):
                    async with open_http(server.url):
                        pass
        async with serving(modern(redirecting)) as server, open_http(server.url) as client:
            with pytest.raises(HttpFailure):
                await client.call_tool("a")
    assert visited == []


async def test_headers_of_view_sent_only_with_its_calls() -> None:
    async def get(request: ReceivedRequest, reply: Reply) -> None:
        if "last-event-id" not in request.headers:
            await reply.stream()
            await reply.hang()
            return
        await reply.stream()
        await reply.event_result_of(server.of("tools/call")[-1])
        await reply.end()

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="a", retry=1)
        await reply.end()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await client.with_headers({"X-Who": "ada"}).call_tool("a")
        await client.with_headers({"X-Who": "bob"}).call_tool("b")
    headers_sent = [
        (request.rpc, request.headers.get("x-who")) for request in server.requests if "x-who" in request.headers
    ]
    assert headers_sent == [("tools/call", "ada"), ("GET", "ada"), ("tools/call", "bob"), ("GET", "bob")]


async def test_ping_during_session_renewal_answered_in_new_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    losing_server = SessionLosingServer()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "initialize" and not losing_server.alive:
            losing_server.alive, losing_server.number = True, 2
            await reply.stream({"Mcp-Session-Id": "s2"})
            await reply.event({"jsonrpc": "2.0", "id": 5, "method": "ping"})
            await trio.sleep(1)
            result: JsonObject = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "zoo", "version": "1"},
            }
            await reply.event_result(result)
            await reply.end()
        else:
            await losing_server.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        losing_server.alive = False
        await client.call_tool("a")
        await client.call_tool("b")
        await wait_until(lambda: server.of("response"))
        assert [request.headers["mcp-session-id"] for request in server.of("response")] == ["s2"]
    assert losing_server.processed == ["a", "b"]
