"""What goes wrong between two parties over HTTP harms nothing else: races, failures of the application, lost sessions."""

from __future__ import annotations

import json
import logging

import pytest
import trio
import trio.testing
from zoo import (
    CAPABILITIES,
    CHANGED,
    ELICIT,
    OK,
    Asked,
    Forgetful,
    OldServer,
    Reply,
    decline,
    legacy,
    modern,
    progress,
    question,
    serving,
    until,
)

from mcp_client import Change, ChangeKind, Client, Deadlines, Handlers, open_http
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
    ProgressNotificationParams,
    RootsListChangedNotificationParams,
)

# --- the application fails -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SessionExpired("mine"), ConnectionEnded("mine"), LocalProtocolError("mine")])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_what_a_progress_handler_raises_is_not_taken_for_a_failure_of_its_request(
    error: McpError, asynchronous: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(asked, 1), id="a")
        await reply.hang()

    async def fail_later(_: ProgressNotificationParams) -> None:
        raise error

    def fail(_: ProgressNotificationParams) -> None:
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


async def test_what_a_progress_handler_raises_counts_also_when_the_answer_is_there() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        answer: JsonObject = {"jsonrpc": "2.0", "id": asked.message["id"], "result": OK}
        both = "".join(f"data: {json.dumps(each)}\n\n" for each in (progress(asked, 1), answer))
        await reply.chunk(both.encode())
        await reply.end()

    error = ConnectionEnded("mine")

    def fail(_: ProgressNotificationParams) -> None:
        raise error

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(ConnectionEnded, match="mine"):
            await client.call_tool("a", on_progress=fail)


async def test_a_function_for_headers_that_fails_while_the_server_is_answered_harms_nobody(
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

    async def calls(asked: Asked, reply: Reply) -> None:
        nonlocal failing
        await reply.stream()
        await reply.event(question(5))
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


async def test_an_answer_that_the_server_does_not_take_does_not_stop_the_clock_of_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "response":
            await reply.hang()
        elif asked.rpc == "tools/call":
            await reply.stream()
            await reply.event(question(5))
            await reply.hang()
        else:
            await inner(asked, reply)

    deadlines = Deadlines(idle=20)
    async with (
        serving(answer) as server,
        open_http(server.url, handlers=Handlers(elicit=decline), deadlines=deadlines) as client,
    ):
        start = trio.current_time()
        with pytest.raises(RequestTimeout, match="idle"):
            await client.call_tool("a")
        assert trio.current_time() - start <= 60


async def test_a_notification_that_the_server_does_not_take_is_not_waited_for_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "notifications/roots/list_changed":
            await reply.hang()
        else:
            await inner(asked, reply)

    async with (
        serving(answer) as server,
        open_http(server.url, handlers=Handlers(roots=()), deadlines=Deadlines(idle=20)) as client,
    ):
        with pytest.raises(RequestTimeout, match="idle deadline of 20 s") as raised:
            await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())
        assert raised.value.context.method == "notifications/roots/list_changed"
        await client.ping()


# --- lost sessions ---------------------------------------------------------------------------------------------------


async def test_when_a_session_is_lost_under_many_calls_each_has_one_outcome_and_none_is_processed_twice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        number = int(str(asked.params["name"]))
        if number % 3 == 0:
            await reply.stream()
            await reply.event(id=f"e{number}")
            if number == 9:
                forgetful.alive = False
            await reply.cut()
        elif number % 3 == 1:
            await trio.sleep(number)
            await reply.result(OK)
        else:
            await reply.stream()
            await trio.sleep(number)
            await reply.event_result(OK)
            await reply.end()

    forgetful = Forgetful(calls)
    outcomes: list[str] = []

    async def call(client: Client, number: int) -> None:
        await trio.sleep(number // 4)
        try:
            await client.call_tool(str(number))
            outcomes.append("result")
        except ConnectionEnded as error:
            outcomes.append(error.message)

    async with serving(forgetful.answer) as server:
        async with open_http(server.url) as client:
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(call, client, number)
            assert server.rpcs().count("initialize") == 2
            assert not client._channel.connection.outbound_requests
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0
    assert len(outcomes) == 20
    assert sorted(forgetful.processed) == sorted({str(number) for number in range(20)})
    lost = [outcome for outcome in outcomes if outcome != "result"]
    assert len(lost) == 7
    assert all("the server may have processed the request" in outcome for outcome in lost)


async def test_many_callers_whose_session_cannot_be_replaced_share_the_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    forgetful = Forgetful()
    errors: list[McpError] = []

    async def call(client: Client) -> None:
        with pytest.raises(McpError) as raised:
            await client.call_tool("a")
        errors.append(raised.value)

    async with serving(forgetful.answer) as server, open_http(server.url) as client:
        forgetful.alive, forgetful.refuse = False, 503
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call, client)
        assert server.rpcs().count("initialize") == 2
        assert len({id(error) for error in errors}) == 20
        assert all("503" in error.message for error in errors)
        assert [type(error) for error in errors].count(HttpFailure) == 1
        forgetful.refuse = 0
        await client.call_tool("b")
    assert forgetful.processed == ["b"]


async def test_answers_to_a_batch_and_cancellations_for_a_lost_session_make_no_new_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy(version="2025-03-26")

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.body.startswith(b"[") or asked.rpc == "notifications/cancelled":
            await reply.body(404)
        elif asked.rpc == "tools/call":
            await reply.stream()
            await reply.chunk(f"data: {json.dumps([question(1), question(2)])}\n\n".encode())
            await reply.hang()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        with trio.move_on_after(10):
            await client.call_tool("ask")
        await trio.sleep(5)
        bodies = [asked.body for asked in server.asked if asked.body]
        assert sum(body.startswith(b"[") for body in bodies) == 1
        assert sum(b'"notifications/cancelled"' in body for body in bodies) == 1
        assert sum(b'"initialize"' in body for body in bodies) == 1


async def test_the_answer_to_a_question_of_a_lost_session_is_not_given_to_the_next_question_with_its_id(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def answer_slowly(params: ElicitRequestFormParams) -> ElicitResult:
        if params.message == "first":
            # A dialog that cannot be taken back.
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
            return ElicitResult(action="accept", content={})
        await trio.sleep(30)
        return ElicitResult(action="decline")

    async def get(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(question(5, params={**ELICIT, "message": "first" if forgetful.number == 1 else "second"}))
        await reply.hang()

    forgetful = Forgetful(get=get)
    async with (
        serving(forgetful.answer) as server,
        open_http(server.url, handlers=Handlers(elicit=answer_slowly)) as client,
    ):
        await trio.sleep(1)
        forgetful.alive = False
        await client.ping()
        await trio.sleep(100)
        (response,) = server.of("response")
        result = response.message["result"]
        assert isinstance(result, dict)
        assert result["action"] == "decline"
        assert response.headers["mcp-session-id"] == "s2"
        assert not client._channel.connection.inbound_requests


async def test_what_is_watched_is_watched_again_with_the_headers_of_its_listener() -> None:
    forgetful = Forgetful(capabilities={"resources": {"subscribe": True}})
    async with serving(forgetful.answer) as server, open_http(server.url) as client:
        ada, bob = (client.with_headers({"Authorization": name}) for name in ("ada", "bob"))
        async with ada.listen(uris=["a:a"]), bob.listen(uris=["a:b"]):
            forgetful.alive = False
            await client.ping()
            await trio.testing.wait_all_tasks_blocked(0.01)
        told = [(asked.params["uri"], asked.headers["authorization"]) for asked in server.of("resources/subscribe")]
    assert told == [("a:a", "ada"), ("a:b", "bob")] * 2


async def test_whoever_begins_to_watch_what_another_stops_watching_is_told_of_changes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    subscribed: list[bool] = []

    async def calls(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "resources/unsubscribe":
            await trio.sleep(0.5)
        subscribed.append(asked.rpc == "resources/subscribe")
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


async def test_standing_stream_of_2024_11_05_is_opened_in_a_new_session_too() -> None:
    inner = Forgetful()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize" and inner.alive:
            await legacy(version="2024-11-05")(asked, reply)
        elif asked.rpc == "initialize":
            inner.alive, inner.number = True, 2
            await legacy(version="2024-11-05", session="s2")(asked, reply)
        else:
            await inner.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        inner.alive = False
        await client.ping()
        assert server.rpcs().count("initialize") == 2
        assert [get.headers["mcp-session-id"] for get in server.of("GET")] == ["s1", "s2"]


# --- the standing stream ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 410])
async def test_a_standing_stream_whose_last_event_is_forgotten_begins_anew(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    async def get(asked: Asked, reply: Reply) -> None:
        if "last-event-id" in asked.headers:
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
        assert [asked.headers.get("last-event-id") for asked in server.of("GET")] == [None, "a", None]


async def test_standing_stream_whose_last_event_is_forgotten_reports_that_anything_may_have_changed(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def get(asked: Asked, reply: Reply) -> None:
        if "last-event-id" in asked.headers:
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
            seen = {await anext(changes), await anext(changes)}
    assert seen == {Change(ChangeKind.TOOLS), Change(ChangeKind.RESOURCE, "a:b")}
    assert "notifications may be lost" in caplog.text


@pytest.mark.parametrize("how", ["cut", "503", "401", "429"])
async def test_a_standing_stream_comes_back_after_an_outage_of_many_minutes(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def get(asked: Asked, reply: Reply) -> None:
        if len(server.of("GET")) == 1:
            await reply.stream()
            await reply.end()
        elif trio.current_time() < 900:
            await (reply.cut() if how == "cut" else reply.body(int(how)))
        else:
            await reply.stream()
            back.set()
            await reply.hang()

    back = trio.Event()
    async with serving(legacy(get=get)) as server, open_http(server.url):
        with trio.fail_after(1_000):
            await back.wait()
        # Rarely enough to harm nobody.
        assert len(server.of("GET")) <= 45


async def test_a_standing_stream_that_is_not_offered_any_more_is_told(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def get(asked: Asked, reply: Reply) -> None:
        if len(server.of("GET")) == 1:
            await reply.stream()
            await reply.end()
        else:
            await reply.body(405)

    async with serving(legacy(get=get)) as server, open_http(server.url):
        await trio.sleep(1_000)
        assert len(server.of("GET")) == 2
    assert "standalone stream rejected" in caplog.text


async def test_a_server_that_wants_to_be_asked_again_at_once_and_for_ever_is_not_flooded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def get(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(CHANGED, id=str(len(server.of("GET"))), retry=0)
        await reply.end()

    async def calls(asked: Asked, reply: Reply) -> None:
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


async def test_an_opening_that_is_put_off_again_and_again_is_not_a_flood(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def answer(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        if asked.method == "POST":
            await reply.event(id="x", retry=0)
        await reply.end()

    async with serving(answer) as server:
        with pytest.raises(RequestTimeout):
            async with open_http(server.url, revisions=LEGACY, deadlines=Deadlines(connect=60)):
                pass
        assert 3 <= len(server.of("GET")) <= 10


async def test_a_connection_that_cannot_be_opened_in_time_is_tried_again_when_a_stream_is_resumed(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="a")
        await reply.cut()

    async def get(asked: Asked, reply: Reply) -> None:
        if "last-event-id" not in asked.headers:
            await reply.body(405)
            return
        await reply.stream()
        await reply.event_result_of(server.of("tools/call")[0])
        await reply.end()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        inner = transport.wire._pool._dialer._connect
        tries = 0

        async def connect(host: str, port: int) -> trio.SocketStream:
            nonlocal tries
            tries += 1
            if server.of("tools/call") and tries < 3:
                await trio.sleep_forever()
            return await inner(host, port)

        monkeypatch.setattr(transport.wire._pool._dialer, "_connect", connect)
        await client.call_tool("a")
    assert tries >= 2


@pytest.mark.spec("session.client-reinitialize", "sse.terminate-on-session-expiry")
async def test_a_standing_stream_whose_session_is_gone_when_it_is_resumed_brings_a_new_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def get(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        if forgetful.number == 1:
            await reply.event(CHANGED, id="a")
            forgetful.alive = False
            await reply.cut()
        await reply.hang()

    forgetful = Forgetful(get=get)
    lost = trio.Event()
    async with serving(forgetful.answer) as server, open_http(server.url, on_session_lost=lost.set):
        with trio.fail_after(60):
            await lost.wait()
        await trio.sleep(1)
        told = [(asked.headers["mcp-session-id"], asked.headers.get("last-event-id")) for asked in server.of("GET")]
    assert told == [("s1", None), ("s1", "a"), ("s2", None)]


async def test_no_session_is_made_for_a_client_that_is_closed() -> None:
    async with serving(legacy()) as server, open_http(server.url) as client:
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        assert transport._sessions is not None
        await client.aclose()
        with pytest.raises(ConnectionEnded, match="the client was closed"):
            await transport._sessions.replace(transport._sessions._session)
        assert server.rpcs().count("initialize") == 1


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("session.client-delete")
async def test_a_client_that_is_closed_by_two_tasks_at_once_ends_its_session_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()
    ended: list[str] = []

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method == "DELETE":
            await trio.sleep(1)
            await reply.body(200)
            ended.append(asked.headers["mcp-session-id"])
        else:
            await inner(asked, reply)

    async with serving(answer) as server:
        async with trio.open_nursery() as nursery:
            client: Client = await nursery.start(open_http(server.url).run)
            await client.ping()
            # The block of `run` ends with the connection, so both close at the same time.
            await client.aclose()
            assert ended == ["s1"]
        assert ended == ["s1"]
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


# --- what is remembered of servers -----------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-dual-modern", "compat.client-cache-era")
async def test_a_client_that_speaks_legacy_revisions_only_teaches_others_nothing_about_the_era() -> None:
    modern_part, legacy_part = modern(), legacy()

    async def both(asked: Asked, reply: Reply) -> None:
        inner = modern_part if "mcp-method" in asked.headers else legacy_part
        await inner(asked, reply)

    async with serving(both) as server:
        async with open_http(server.url, revisions=LEGACY) as client:
            assert client.revision is R2025_11_25
        asked_before = len(server.asked)
        async with open_http(server.url) as client:
            await client.call_tool("a")
        assert server.rpcs()[asked_before:] == ["server/discover", "tools/call"]


# --- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("session.client-secure-handling")
async def test_neither_errors_nor_logs_nor_representations_tell_the_session_or_the_credentials(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ("s3cr3t", "t0ken", "qu3ry", "p3rcall")
    treatments = ["cut", "500", "401", "junk", "hang", "404"]

    async def calls(asked: Asked, reply: Reply) -> None:
        how = str(asked.params["name"])
        if how == "cut":
            await reply.cut()
        elif how == "junk":
            await reply.raw(b"nonsense\r\n\r\n")
        elif how == "hang":
            await reply.hang()
        else:
            await reply.body(int(how))

    told: list[str] = []
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
                told += [str(error), repr(error)]
                error = error.__cause__ or error.__context__
            told.append(repr(raised.value.context))
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        assert transport._sessions is not None
        told += [
            repr(each) for each in (client, transport, transport._sessions._session, transport.wire, client._channel)
        ]
    told += [record.getMessage() for record in caplog.records]
    told.append(repr(Session("s3cr3t", R2025_11_25)))
    # The driver's own words and those of libraries below this one are not ours.
    assert len(told) > len(treatments)
    for secret in secrets:
        assert not [sentence for sentence in told if secret in sentence]


# --- odd answers -----------------------------------------------------------------------------------------------------


async def test_an_error_page_whose_body_cannot_be_read_is_told_by_its_status() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        head = b"HTTP/1.1 503 Busy\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        await reply.raw(head + b"5;" + b"x" * 100_000 + b"\r\nhello\r\n0\r\n\r\n")

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(HttpFailure) as raised:
            await client.call_tool("a")
        assert raised.value.status == 503


async def test_what_was_survived_in_an_answer_is_written_to_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.body(
            200, json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": OK}).encode(), "text/plain"
        )

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        await client.call_tool("a")
    assert "the JSON body has another media type" in caplog.text


async def test_a_stream_of_very_many_tiny_events_is_read_to_its_answer() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
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


async def test_a_redirect_within_a_session_repeats_the_request_with_its_session_once() -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/call" and asked.target == "/mcp":
            await reply.body(307, headers={"Location": "/other"})
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("a")
    first, second = server.of("tools/call")
    assert (first.target, second.target) == ("/mcp", "/other")
    assert first.body == second.body
    assert second.headers["mcp-session-id"] == "s1"
    assert server.asked[-1].target == "/mcp"


@pytest.mark.spec("security.sanitize-urls")
async def test_nothing_that_a_server_names_is_asked_at_another_origin() -> None:
    """The addresses that a server can name over HTTP: of a redirect, and of the endpoint of HTTP+SSE."""
    visited: list[str] = []

    async def trap(asked: Asked, reply: Reply) -> None:
        visited.append(asked.target)
        await reply.body(200)

    async with serving(trap) as elsewhere:
        foreign = elsewhere.url

        async def redirecting(asked: Asked, reply: Reply) -> None:
            await reply.body(
                401 if asked.rpc == "tools/call" else 307,
                headers={"Location": foreign, "WWW-Authenticate": f'Bearer resource_metadata="{foreign}"'},
            )

        for answer in (redirecting, OldServer(endpoint=foreign).answer):
            async with serving(answer) as server:
                with pytest.raises(McpError, match=r"another origin|have the origin of the stream"):
                    async with open_http(server.url):
                        pass
        async with serving(modern(redirecting)) as server, open_http(server.url) as client:
            with pytest.raises(HttpFailure):
                await client.call_tool("a")
    assert visited == []


async def test_headers_of_one_call_are_in_no_other_request() -> None:
    async def get(asked: Asked, reply: Reply) -> None:
        if "last-event-id" not in asked.headers:
            await reply.stream()
            await reply.hang()
            return
        await reply.stream()
        await reply.event_result_of(server.of("tools/call")[-1])
        await reply.end()

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="a", retry=1)
        await reply.end()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await client.with_headers({"X-Who": "ada"}).call_tool("a")
        await client.with_headers({"X-Who": "bob"}).call_tool("b")
    said = [(asked.rpc, asked.headers.get("x-who")) for asked in server.asked if "x-who" in asked.headers]
    assert said == [("tools/call", "ada"), ("GET", "ada"), ("tools/call", "bob"), ("GET", "bob")]


async def test_a_request_of_the_server_in_the_middle_of_a_renewal_is_answered_in_the_new_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    forgetful = Forgetful()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize" and not forgetful.alive:
            forgetful.alive, forgetful.number = True, 2
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
            await forgetful.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        forgetful.alive = False
        await client.call_tool("a")
        await client.call_tool("b")
        await until(lambda: server.of("response"))
        assert [asked.headers["mcp-session-id"] for asked in server.of("response")] == ["s2"]
    assert forgetful.processed == ["a", "b"]
