from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from zoo import (
    OK,
    Answer,
    Asked,
    Forgetful,
    Reply,
    decline,
    legacy,
    progress,
    question,
    serving,
    standing,
    until,
)

from mcp_client import Change, ChangeKind, Client, Deadlines, Handlers, open_http
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
from mcp_core.methods import NOTIFICATIONS_ROOTS_LIST_CHANGED
from mcp_core.revisions import LEGACY, R2025_03_26, REVISIONS, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ProgressNotificationParams,
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
async def test_a_legacy_session_is_opened_used_and_ended(version: str) -> None:
    async with (
        serving(legacy(version=version, get=standing), path="/mcp?x=1") as server,
        open_http(server.url) as client,
    ):
        assert client.revision.name == version
        await client.call_tool("echo")
        await client.ping()
    opening = ["server/discover", "initialize", "notifications/initialized", "GET"]
    assert server.rpcs() == [*opening, "tools/call", "ping", "DELETE"]
    expected = version if REVISIONS[version].version_header else None
    for asked in server.asked[2:]:
        assert asked.headers["mcp-session-id"] == "s1"
        assert asked.headers.get("mcp-protocol-version") == expected
        assert asked.target == "/mcp?x=1"
    assert "mcp-session-id" not in server.asked[1].headers
    (get,) = server.of("GET")
    assert get.headers["accept"] == "text/event-stream"
    for asked in server.of("tools/call") + server.of("initialize"):
        assert asked.headers["accept"] == "application/json, text/event-stream"


async def test_a_server_without_sessions_is_told_of_none() -> None:
    async with serving(legacy(session=None)) as server, open_http(server.url, revisions=LEGACY) as client:
        await client.call_tool("echo")
    assert server.rpcs() == ["initialize", "notifications/initialized", "GET", "tools/call"]
    assert not any("mcp-session-id" in asked.headers for asked in server.asked)


async def test_the_headers_of_the_application_are_on_every_request_of_a_session() -> None:
    async with (
        serving(legacy(get=standing)) as server,
        open_http(server.url, headers={"Authorization": "Bearer a"}) as client,
    ):
        await client.call_tool("echo")
    assert server.rpcs()[-1] == "DELETE"
    assert all(asked.headers["authorization"] == "Bearer a" for asked in server.asked)


async def test_credentials_that_are_wanted_for_the_first_notification_only_are_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "notifications/initialized":
            await reply.body(401)
        else:
            await inner(asked, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied):
            async with open_http(server.url):
                pass


async def test_a_server_that_refuses_the_first_notification_is_used_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "notifications/initialized":
            await reply.body(400, b"no id", "text/plain")
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("echo")
    assert "notifications/initialized rejected" in caplog.text


# --- the standing stream ---------------------------------------------------------------------------------------------


async def json_get(asked: Asked, reply: Reply) -> None:
    await reply.json({"name": "a friendly server"})


async def html_get(asked: Asked, reply: Reply) -> None:
    await reply.body(200, b"<html>", "text/html")


async def cut_get(asked: Asked, reply: Reply) -> None:
    await reply.cut()


async def hanging_get(asked: Asked, reply: Reply) -> None:
    await reply.hang()


async def ending_get(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.end()


def status_get(status: int) -> Answer:
    async def answer(asked: Asked, reply: Reply) -> None:
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
        pytest.param(standing, id="silent"),
    ],
)
async def test_whatever_a_server_answers_to_get_the_session_works(
    get: Answer, autojump_clock: trio.testing.MockClock
) -> None:
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


async def test_the_standing_stream_is_open_before_the_first_call_and_brings_requests_and_changes() -> None:
    streams: list[Reply] = []

    async def get(asked: Asked, reply: Reply) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(asked: Asked, reply: Reply) -> None:
        (stream,) = streams
        await stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await stream.event(question(70))
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
async def test_request_on_the_standing_stream_is_answered_in_each_revision(method: str, revision: Revision) -> None:
    streams: list[Reply] = []

    async def get(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(asked: Asked, reply: Reply) -> None:
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


@pytest.mark.spec("resume.client-last-event-id", "sse.client-respects-retry", "resume.always-get")
async def test_a_standing_stream_that_ends_is_opened_again_after_its_last_event_and_not_too_early(
    autojump_clock: trio.testing.MockClock,
) -> None:
    times: list[float] = []

    async def get(asked: Asked, reply: Reply) -> None:
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


async def test_a_standing_stream_that_fails_for_a_while_comes_back(autojump_clock: trio.testing.MockClock) -> None:
    answers = ["stream", "503", "cut", "stream"]

    async def get(asked: Asked, reply: Reply) -> None:
        what = answers.pop(0)
        if what == "stream":
            await reply.stream()
            if answers:
                await reply.cut()
            else:
                await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                await reply.hang()
        else:
            await (reply.body(503) if what == "503" else reply.cut())

    async with (
        serving(legacy(get=get)) as server,
        open_http(server.url) as client,
        client.listen(tools=True) as changes,
    ):
        assert (await anext(changes)).kind is ChangeKind.TOOLS
    assert not answers


# --- resumption ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("sse.client-polls", "sse.client-respects-retry", "resume.client-last-event-id")
async def test_the_rest_of_a_closed_stream_is_fetched_by_get_and_not_earlier_than_the_server_said(
    autojump_clock: trio.testing.MockClock,
) -> None:
    times: list[float] = []

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="p1", retry=500)
        await reply.event(progress(asked, 1), id="p2")
        await reply.end()
        times.append(trio.current_time())

    async def get(asked: Asked, reply: Reply) -> None:
        if "last-event-id" not in asked.headers:
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
        await client.call_tool("slow", on_progress=lambda params: shown.append(params.progress))
        resumed = [asked.headers["last-event-id"] for asked in server.of("GET")[1:]]
    assert resumed == ["p2", "p3"]
    assert times[1] - times[0] >= 0.5
    assert times[2] - times[1] >= 2
    assert shown == [1, 2]


@pytest.mark.parametrize("how", ["405", "404", "503", "cut", "empty"])
async def test_a_stream_that_cannot_be_resumed_ends_its_call_in_bounded_time(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(id="p1")
        await reply.cut()

    async def get(asked: Asked, reply: Reply) -> None:
        if "last-event-id" not in asked.headers:
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


async def test_a_stream_without_event_ids_is_lost(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(asked, 1))
        await reply.cut()

    async with serving(legacy(calls)) as server, open_http(server.url) as client:
        with pytest.raises(ConnectionEnded, match="stream ended before the response"):
            await client.call_tool("slow", on_progress=lambda _: None)
        # What is lost is not cancelled: nobody knows whether it runs.
        assert server.rpcs()[-1] == "tools/call"


# --- answers that come another way -----------------------------------------------------------------------------------


@pytest.mark.spec("sse.multiple-streams")
async def test_an_answer_on_the_standing_stream_settles_the_call_and_leaves_its_own_stream() -> None:
    streams: list[Reply] = []
    left = trio.Event()

    async def get(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await streams[0].event({"jsonrpc": "2.0", "id": asked.message["id"], "result": OK})
        await reply.hang()
        left.set()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        await left.wait()
        assert not client._channel._calls


async def test_an_answer_from_elsewhere_does_not_disturb_a_progress_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    streams: list[Reply] = []
    shown: list[float] = []

    async def show(params: ProgressNotificationParams) -> None:
        await trio.sleep(500)
        shown.append(params.progress)

    async def get(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        streams.append(reply)
        await reply.hang()

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(progress(asked, 1))
        await trio.sleep(1)
        await streams[0].event({"jsonrpc": "2.0", "id": asked.message["id"], "result": OK})
        await reply.hang()

    async with serving(legacy(calls, get=get)) as server, open_http(server.url) as client:
        await client.call_tool("echo", on_progress=show)
    assert shown == [1]


async def test_a_request_of_the_server_may_come_on_the_stream_of_a_call_whose_deadline_then_stands_still(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(_: ElicitRequestFormParams) -> ElicitResult:
        await trio.sleep(100)
        return ElicitResult(action="decline")

    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(question(1))
        await until(lambda: server.of("response"))
        await reply.event_result(OK)
        await reply.end()

    deadlines = Deadlines(idle=10)
    async with (
        serving(legacy(calls)) as server,
        open_http(server.url, handlers=Handlers(elicit=slow), deadlines=deadlines) as client,
    ):
        await client.call_tool("ask")


async def test_a_ping_and_an_unknown_request_are_answered_by_post(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event(question(1, "ping", {}))
        await reply.event(question(2, "no/such", {}))
        await until(lambda: len(server.of("response")) >= 2)
        await reply.event_result(OK)
        await reply.end()

    async with serving(legacy(calls)) as server, open_http(server.url) as client:
        await client.call_tool("ask")
        answers = {int(str(each.message["id"])): each.message for each in server.of("response")}
    assert answers[1]["result"] == {}
    error = answers[2]["error"]
    assert isinstance(error, dict)
    assert error["code"] == -32601


async def test_answers_that_the_server_does_not_take_harm_nothing(autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "response":
            await reply.body(500)
        elif asked.rpc == "tools/call":
            await reply.stream()
            await reply.event(question(1, "ping", {}))
            await reply.event(question(2))
            await until(lambda: len(server.of("response")) >= 2)
            await reply.event_result(OK)
            await reply.end()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        await client.call_tool("ask")
        assert not client._channel._inbound_requests.busy


@pytest.mark.spec("batch.http-post-body")
async def test_a_batch_of_2025_03_26_is_answered_in_one_post(autojump_clock: trio.testing.MockClock) -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        await reply.event([question(1, "ping", {}), question(2, "ping", {})])
        await until(lambda: bodies)
        await reply.event_result(OK)
        await reply.end()

    bodies: list[bytes] = []
    inner = legacy(calls, version="2025-03-26")

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.body.startswith(b"["):
            bodies.append(asked.body)
            await reply.accept()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url, revisions=[R2025_03_26]) as client:
        await client.call_tool("ask")
    (body,) = bodies
    assert [each["id"] for each in json.loads(body)] == [1, 2]


# --- cancellation ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("sse.cancel-explicitly")
@pytest.mark.parametrize("how", ["caller", "deadline"])
async def test_a_call_that_is_given_up_is_cancelled_on_the_wire_and_its_stream_closed(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    left = trio.Event()

    async def calls(asked: Asked, reply: Reply) -> None:
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


async def test_a_server_that_takes_no_cancellation_does_not_hold_anybody_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc in ("notifications/cancelled", "tools/call", "DELETE"):
            await reply.hang()
        else:
            await inner(asked, reply)

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
async def test_a_lost_session_is_replaced_and_the_request_made_again(status: int) -> None:
    forgetful = Forgetful(status=status)
    lost: list[str] = []
    async with (
        serving(forgetful.answer) as server,
        open_http(server.url, on_session_lost=lambda: lost.append("lost")) as client,
    ):
        await client.call_tool("a")
        forgetful.alive = False
        await client.call_tool("b")
        await client.call_tool("c")
    assert lost == ["lost"]
    first, again = server.of("initialize")
    assert "mcp-session-id" not in again.headers
    assert first.message["id"] != again.message["id"]
    assert again.params["protocolVersion"] == "2025-11-25"
    sessions = [asked.headers["mcp-session-id"] for asked in server.of("tools/call")]
    assert sessions == ["s1", "s1", "s2", "s2"]
    assert [asked.headers["mcp-session-id"] for asked in server.of("notifications/initialized")] == ["s1", "s2"]
    assert server.asked[-1].headers["mcp-session-id"] == "s2"
    ids = {str(asked.message["id"]) for asked in server.asked if asked.body and "id" in asked.message}
    assert len(ids) == len([asked for asked in server.asked if asked.body and "id" in asked.message]) - 1


async def test_many_callers_who_find_a_session_lost_make_one_new_one() -> None:
    forgetful = Forgetful()
    async with serving(forgetful.answer) as server, open_http(server.url) as client:
        await client.ping()
        forgetful.alive = False
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(client.call_tool, "a")
        assert len(server.of("initialize")) == 2
        assert not client._channel.connection.outbound_requests


async def test_what_the_server_forgot_is_said_again_and_everything_may_have_changed() -> None:
    forgetful = Forgetful()
    async with (
        serving(forgetful.answer) as server,
        open_http(server.url, log_level="warning") as client,
        client.listen(tools=True, uris=["a:b"]) as changes,
    ):
        forgetful.alive = False
        await client.ping()
        assert {await anext(changes), await anext(changes)} == {
            Change(ChangeKind.TOOLS),
            Change(ChangeKind.RESOURCE, "a:b"),
        }
        await trio.testing.wait_all_tasks_blocked(0.01)
    for rpc in ("resources/subscribe", "logging/setLevel"):
        assert [asked.headers["mcp-session-id"] for asked in server.of(rpc)] == ["s1", "s2"]


async def test_a_new_session_that_is_lost_at_once_ends_the_request() -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/call":
            await reply.body(404)
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        with pytest.raises(SessionExpired):
            await client.call_tool("a")
        assert server.rpcs().count("initialize") == 2
        assert server.rpcs().count("tools/call") == 2
        await client.ping()


async def test_a_session_that_cannot_be_replaced_ends_the_request_and_the_next_one_tries_again() -> None:
    forgetful = Forgetful()
    refuse = False

    async def answer(asked: Asked, reply: Reply) -> None:
        if refuse and asked.rpc == "initialize":
            await reply.body(503, b"starting", "text/plain")
        else:
            await forgetful.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("a")
        forgetful.alive, refuse = False, True
        for _ in range(2):
            with pytest.raises(HttpFailure, match="status 503"):
                await client.call_tool("b")
        refuse = False
        await client.call_tool("c")
        await client.call_tool("d")
        assert server.rpcs().count("initialize") == 4
        assert [asked.params["name"] for asked in server.of("tools/call")] == ["a", "b", "c", "d"]


async def test_a_caller_who_gives_up_while_a_session_is_replaced_harms_no_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    forgetful = Forgetful()
    slow = False

    async def answer(asked: Asked, reply: Reply) -> None:
        nonlocal slow
        if slow and asked.rpc == "initialize":
            slow = False
            await reply.hang()
        else:
            await forgetful.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.ping()
        forgetful.alive, slow = False, True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_briefly, client)
            await trio.sleep(1)
            nursery.start_soon(client.call_tool, "b")
        assert len(server.of("initialize")) == 3


async def _briefly(client: Client) -> None:
    with trio.move_on_after(2):
        await client.call_tool("a")


async def test_a_notification_finds_out_too_that_a_session_is_lost() -> None:
    forgetful = Forgetful()
    async with serving(forgetful.answer) as server, open_http(server.url, handlers=Handlers(roots=())) as client:
        forgetful.alive = False
        await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())
    sessions = [asked.headers["mcp-session-id"] for asked in server.of("notifications/roots/list_changed")]
    assert sessions == ["s1", "s2"]


async def test_a_standing_stream_that_is_refused_with_404_shows_that_the_session_is_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    forgetful = Forgetful()
    lost = trio.Event()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method != "GET" or not forgetful.alive:
            await forgetful.answer(asked, reply)
        elif len(server.of("GET")) == 1:
            await reply.stream()
            await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await trio.sleep(10)
            forgetful.alive = False
            await reply.cut()
        else:
            await standing(asked, reply)

    async with serving(answer) as server, open_http(server.url, on_session_lost=lost.set) as client:
        with trio.fail_after(60):
            await lost.wait()
        await trio.sleep(1)
        await client.ping()
        assert [asked.headers["mcp-session-id"] for asked in server.of("GET")] == ["s1", "s1", "s2"]


async def test_a_function_for_lost_sessions_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    forgetful = Forgetful()

    def fail() -> None:
        raise ZeroDivisionError

    async with serving(forgetful.answer) as server, open_http(server.url, on_session_lost=fail) as client:
        forgetful.alive = False
        await client.ping()
    assert "ZeroDivisionError" in caplog.text


async def test_an_error_of_the_protocol_with_status_404_is_no_lost_session_where_there_is_none() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.error(-32601, "Method not found", 404)

    async with serving(legacy(calls, session=None)) as server, open_http(server.url) as client:
        with pytest.raises(RequestFailed):
            await client.call_tool("a")
        assert server.rpcs().count("initialize") == 1


async def test_a_session_that_is_lost_before_the_answer_of_a_handler_takes_no_answer_any_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    forgetful = Forgetful()
    cancelled = trio.Event()

    async def slow(_: ElicitRequestFormParams) -> ElicitResult:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError("nobody waits for it")

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method == "GET" and forgetful.number == 1:
            await reply.stream()
            await reply.event(question(5))
            await reply.hang()
        else:
            await forgetful.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=slow)) as client:
        await trio.sleep(1)
        forgetful.alive = False
        await client.ping()
        await cancelled.wait()
        assert not server.of("response")


async def test_an_answer_to_a_question_of_a_lost_session_makes_no_new_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "response":
            await reply.body(404)
        elif asked.rpc == "tools/call":
            await reply.stream()
            await reply.event(question(5))
            await until(lambda: server.of("response"))
            await reply.event_result(OK)
            await reply.end()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url, handlers=Handlers(elicit=decline)) as client:
        await client.call_tool("ask")
        await trio.sleep(5)
        assert server.rpcs().count("initialize") == 1


async def test_the_standing_stream_of_a_lost_session_is_left() -> None:
    forgetful = Forgetful()
    left: list[str] = []

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method == "GET":
            await standing(asked, reply)
            left.append(asked.headers["mcp-session-id"])
        else:
            await forgetful.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        forgetful.alive = False
        await client.ping()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert left == ["s1"]
        assert [asked.headers["mcp-session-id"] for asked in server.of("GET")] == ["s1", "s2"]


async def test_a_standing_stream_that_shows_a_lost_session_may_find_no_new_one(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    inner = legacy(get=ending_get)

    async def answer(asked: Asked, reply: Reply) -> None:
        if len(server.of("initialize")) > 1:
            await reply.body(503)
        elif asked.method == "GET" and len(server.of("GET")) > 1:
            await reply.body(404)
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await trio.sleep(60)
        assert "new session failed" in caplog.text
        with pytest.raises(HttpFailure, match="503"):
            await client.call_tool("a")


async def test_a_new_session_that_does_not_come_is_not_waited_for_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    forgetful = Forgetful()
    hang = False

    async def answer(asked: Asked, reply: Reply) -> None:
        if hang and asked.rpc == "initialize":
            await reply.hang()
        else:
            await forgetful.answer(asked, reply)

    deadlines = Deadlines(connect=20, idle=60)
    async with serving(answer) as server, open_http(server.url, deadlines=deadlines) as client:
        forgetful.alive, hang = False, True
        with pytest.raises(RequestTimeout, match="idle"):
            await client.call_tool("a")
        with pytest.raises(RequestTimeout, match="did not open a new session: the connect deadline of 20 s"):
            await client.call_tool("b")
        hang = False
        await client.call_tool("c")


async def test_what_cannot_be_said_again_in_a_new_session_is_told(caplog: pytest.LogCaptureFixture) -> None:
    forgetful = Forgetful()

    async def answer(asked: Asked, reply: Reply) -> None:
        if forgetful.number == 2 and asked.rpc in ("resources/subscribe", "logging/setLevel"):
            await reply.error(-32603, "no more")
        else:
            await forgetful.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url, log_level="warning") as client:
        async with client.listen(uris=["a:b"]):
            forgetful.alive = False
            await client.ping()
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert "setting the log level in the new session failed" in caplog.text
        assert "subscription lost with the session: uri='a:b'" in caplog.text


async def test_a_server_that_makes_a_client_say_too_much_is_not_answered_any_more(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/call":
            await reply.stream()
            for number in range(600):
                await reply.event(question(number, "ping", {}))
            await reply.event_result(OK)
            await reply.end()
        elif asked.rpc == "response":
            await reply.hang()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("a")
        assert "message dropped" in caplog.text
        await trio.sleep(60)
        assert isinstance(client._channel.transport, HttpTransport)
        assert client._channel.transport._posting == 0
