"""Legacy HTTP: sessions, and what is posted to them."""

from __future__ import annotations

import json

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted, session
from http_gate import Gate, text_of

from mcp_core.errors import AccessDenied, ErrorCode, LocalProtocolError
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import (
    LEGACY,
    MODERN,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    Revision,
)
from mcp_core.types import SubscriptionFilter
from mcp_server import Context, MemoryStore, Server, SessionRecord, StoreError

SESSIONS = pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18, R2025_11_25], ids=str)
HOOKED = pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "plain"])


def code_of(answer: JsonObject) -> JsonValue:
    return as_object(answer["error"])["code"]


async def identify(request: HttpRequest) -> str | None:
    return request.headers.get("authorization")


# --- life ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", LEGACY, ids=str)
@pytest.mark.spec(
    "session.assign",
    "session.id-visible-ascii",
    "session.id-secure",
    "http.single-endpoint",
    "compat.server-dual-initialize",
    "compat.legacy-behaviour-by-revision",
    "security.session-id-nondeterministic",
)
async def test_initialize_opens_a_session_in_any_legacy_revision(revision: Revision) -> None:
    app = Gate().server.asgi()
    async with session(app, revision) as client:
        assert client.session is not None
        assert len(client.session) >= 43
        assert all(0x21 <= ord(char) <= 0x7E for char in client.session)
        assert app.sessions == 1
        assert text_of(await client.ask("tools/call", {"name": "echo", "arguments": {"text": "hi"}})) == "hi"
        other = Client(app, client.nursery, revision)
        await other.open()
        assert other.session != client.session


async def test_initialize_that_names_a_session_opens_another_one_and_leaves_the_first_alone() -> None:
    app = Gate().server.asgi()
    async with session(app) as client:
        first = client.session
        params: JsonObject = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "0"},
        }
        reply = client.post(client.request("initialize", params))
        assert "result" in await reply.answer()
        assert reply.headers["mcp-session-id"] != first
        assert app.sessions == 2
        assert text_of(await client.ask("tools/call", {"name": "echo", "arguments": {"text": "hi"}})) == "hi"


@pytest.mark.spec("http.notification-202")
@SESSIONS
async def test_what_is_owed_no_answer_is_accepted(revision: Revision) -> None:
    async with session(Gate().server.asgi(), revision) as client:
        await client.tell("notifications/roots/list_changed")
        await client.tell("notifications/cancelled", {"requestId": 99})
        reply = client.post({"jsonrpc": "2.0", "id": 5, "result": {}})
        assert (await reply.body(), reply.status) == (b"", 202)


@pytest.mark.spec("http.notification-reject")
async def test_what_cannot_be_accepted_is_refused() -> None:
    async with session(Gate().server.asgi()) as client:
        for body in (b"nonsense", b"[]", b'{"jsonrpc": "2.0", "id": 5}'):
            reply = client.start("POST", body)
            assert (await reply.body() != b"", reply.status) == (True, 400)


@pytest.mark.spec("session.missing-400")
async def test_a_request_without_a_session_is_refused() -> None:
    async with hosted(Gate().server.asgi(), R2025_11_25) as client:
        reply = client.post(client.request("tools/list"))
        assert code_of(await reply.json()) == ErrorCode.INVALID_REQUEST
        assert reply.status == 400


@pytest.mark.spec("session.terminated-404", "session.terminate-any-time")
@SESSIONS
async def test_a_session_that_was_ended_is_not_found(revision: Revision) -> None:
    app = Gate().server.asgi()
    async with session(app, revision) as client:
        ended = client.start("DELETE")
        assert (await ended.body(), ended.status) == (b"", 200)
        assert app.sessions == 0
        unknown = []
        for id in (client.session, "never-issued"):
            for reply in (
                client.post(client.request("tools/list", id=1), mcp_session_id=id),
                client.get(mcp_session_id=id),
                client.get("1-1", mcp_session_id=id),
                client.start("DELETE", mcp_session_id=id),
            ):
                await reply.body()
                assert reply.status == 404
                unknown.append(json.loads(await reply.body())["error"])
        assert all(error == unknown[0] for error in unknown)


@pytest.mark.spec("elicitation.bind-user", "elicitation.state-per-user", "elicitation.state-not-session-only")
async def test_a_session_of_somebody_else_looks_like_none() -> None:
    gate = Gate()
    app = gate.server.asgi(authenticate=identify)
    async with hosted(app, R2025_11_25) as client:
        client.headers["authorization"] = "a"
        await client.open()
        unknown = await client.post(client.request("ping", id=9), mcp_session_id="never-issued").body()
        for reply in (
            client.post(client.request("ping", id=9), authorization="b"),
            client.post(client.request("ping", id=9), authorization=None),
        ):
            assert await reply.body() == unknown
            assert reply.status == 404
        for reply in (
            client.get(authorization="b"),
            client.get("1-0", authorization="b"),
            client.start("DELETE", authorization="b"),
        ):
            await reply.body()
            assert reply.status == 404
        assert (await client.ask("ping"))["result"] == {}
        assert text_of(await client.post(client.call("who"), user_agent="x").answer()) == "a POST x"


@HOOKED
async def test_the_end_of_a_session_ends_all_that_belongs_to_it(hooked: bool) -> None:
    gate = Gate()
    async with session(gate.server.asgi(), hooked=hooked) as client:
        standing = client.get()
        await standing.event()
        quiet = client.post(client.call("hold", name="a"))
        loud = client.post(client.call("steps", name="b", token=1))
        asking = client.post(client.call("look"))
        await loud.message()
        assert (await asking.message())["method"] == "roots/list"
        await gate.until_running("a", "b", "look")
        assert (await client.start("DELETE").body()) == b""
        assert (await quiet.body(), quiet.status)[1] == 404
        assert await loud.rest() == []
        assert await asking.rest() == []
        assert await standing.rest() == []
        assert sorted(gate.cancelled) == ["a", "b"]


async def test_a_session_that_nobody_uses_expires(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    app = gate.server.asgi(policy=EndpointPolicy(session_idle=100))
    async with session(app) as client:
        await trio.sleep(99)
        assert "result" in await client.ask("ping")
        held = client.post(client.call("hold", name="a"))
        await trio.sleep(500)
        gate.let("a")
        assert text_of(await held.answer()) == "a"
        await trio.sleep(99)
        assert "result" in await client.ask("ping")
        standing = client.get()
        await trio.sleep(500)
        assert "result" in await client.ask("ping")
        standing.leave()
        await standing.returned.wait()
        await trio.sleep(101)
        gone = client.post(client.request("ping"))
        await gone.body()
        assert (gone.status, app.sessions) == (404, 0)


async def test_the_session_that_rests_longest_makes_room() -> None:
    store = MemoryStore()
    server = Gate(Limits(sessions=2)).server
    app = server.asgi(store=store)
    async with hosted(app, R2025_11_25) as client:
        clients = [Client(app, client.nursery, R2025_11_25) for _ in range(3)]
        for each in clients:
            await each.open()
        assert app.sessions == len(server._service._channels) == 2
        assert [await store.load(str(each.session)) is not None for each in clients] == [False, True, True]
        gone = clients[0].post(clients[0].request("ping"))
        await gone.body()
        assert gone.status == 404
        assert "result" in await clients[1].ask("ping")
        # In which something runs does not.
        gets = [each.get() for each in clients[1:]]
        for get in gets:
            await get.event()
        full = client.post(
            client.request(
                "initialize",
                {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}},
            )
        )
        await full.body()
        assert full.status == 503
        assert "retry-after" in full.headers
        assert b"Limits.sessions" in await full.body()


async def test_a_refused_request_makes_no_session() -> None:
    app = Gate().server.asgi()
    async with hosted(app, R2025_11_25) as client:
        params: JsonObject = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "0"},
        }
        for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}, {"content_type": "text/plain"}):
            reply = client.post(client.request("initialize", params), more=headers)
            assert (await reply.body(), reply.status >= 400)[1]
        reply = client.post(client.request("initialize", {"capabilities": 7}))
        assert code_of(await reply.json()) == ErrorCode.INVALID_PARAMS
        assert "mcp-session-id" not in reply.headers
        assert app.sessions == 0


@pytest.mark.spec("compat.server-modern-initialize-error-http", "compat.server-modern-initialize-names-versions")
async def test_a_modern_server_refuses_initialize() -> None:
    async with hosted(Gate(revisions=MODERN).server.asgi(), R2025_11_25) as client:
        reply = client.post(client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}))
        assert b"2026-07-28" in await reply.body()
        assert reply.status == 400


@pytest.mark.spec("http.protocol-version-assume", "http.protocol-version-400")
async def test_the_version_header_may_be_missing_but_not_wrong() -> None:
    async with session(Gate().server.asgi()) as client:
        assert "result" in await client.post(client.request("ping"), mcp_protocol_version=None).answer()
        for reply in (
            client.post(client.request("ping"), mcp_protocol_version="1999-01-01"),
            client.get(mcp_protocol_version="1999-01-01"),
        ):
            await reply.body()
            assert reply.status == 400


# --- requests --------------------------------------------------------------------------------------------------------


@HOOKED
@pytest.mark.spec(
    "http.request-response-type", "sse.end-after-response", "sse.related-messages", "sse.messages-before-response"
)
@SESSIONS
async def test_an_answer_is_json_or_a_stream(revision: Revision, hooked: bool) -> None:
    gate = Gate()
    gate.let("a1", "a2")
    async with session(gate.server.asgi(), revision, hooked=hooked) as client:
        reply = client.post(client.call("echo", text="hi"))
        assert text_of(await reply.json()) == "hi"
        assert "mcp-session-id" not in reply.headers
        reply = client.post(client.call("steps", name="a", token="t"))
        messages = [json.loads(event.data) for event in await reply.rest() if event.data]
        assert [message.get("method") for message in messages] == ["notifications/progress"] * 2 + [None]
        assert text_of(messages[-1]) == "a"
        assert reply.headers["x-accel-buffering"] == "no"


async def test_a_client_that_takes_only_streams_has_streams() -> None:
    async with hosted(Gate().server.asgi(), R2025_11_25) as client:
        client.headers["accept"] = "text/event-stream"
        await client.open()
        reply = client.post(client.request("ping"))
        assert (await reply.answer())["result"] == {}
        assert reply.media == "text/event-stream"


async def test_errors_are_answers_like_any_other() -> None:
    async with session(Gate().server.asgi()) as client:
        reply = client.post(client.request("no/such"))
        assert code_of(await reply.json()) == ErrorCode.METHOD_NOT_FOUND
        assert reply.status == 200


async def test_an_id_that_is_in_use_is_refused_without_harm() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        held = client.post(client.call("hold", name="a", id=7))
        await gate.until_running("a")
        second = client.post(client.call("echo", text="b", id=7))
        assert code_of(await second.json()) == ErrorCode.INVALID_REQUEST
        gate.let("a")
        assert text_of(await held.answer()) == "a"
        assert text_of(await client.post(client.call("echo", text="b", id=7)).answer()) == "b"


async def test_two_sessions_with_the_same_ids_do_not_meet() -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with session(app) as one:
        other = Client(app, one.nursery, R2025_11_25)
        await other.open()
        replies = [client.post(client.call("hold", name=name, id=1)) for client, name in ((one, "a"), (other, "b"))]
        await gate.until_running("a", "b")
        await other.tell("notifications/cancelled", {"requestId": 1})
        gate.let("a", "b")
        assert text_of(await replies[0].answer()) == "a"
        assert await replies[1].body() == b": still here\n\n"
        assert gate.cancelled == ["b"]


@HOOKED
@pytest.mark.spec("cancellation.stop-processing", "cancellation.no-response", "cancellation.free-resources")
@pytest.mark.parametrize(("tool", "accept"), [("hold", None), ("hold", "application/json"), ("steps", None)])
async def test_a_cancelled_request_gets_no_answer(tool: str, accept: str | None, hooked: bool) -> None:
    gate = Gate()
    app = gate.server.asgi()
    async with session(app, R2025_03_26, hooked=hooked) as client:
        if accept:
            client.headers["accept"] = accept
        reply = client.post(client.call(tool, name="a", token=1, id=5))
        await gate.until_running("a")
        await client.tell("notifications/cancelled", {"requestId": 5, "reason": "enough"})
        await reply.returned.wait()
        assert gate.cancelled == ["a"]
        body = await reply.body()
        assert b'"id":5' not in body
        assert reply.status == (202 if accept else 200)
        assert accept or reply.media == "text/event-stream"
        # Late, and again: no harm.
        await client.tell("notifications/cancelled", {"requestId": 5})
        assert text_of(await client.post(client.call("echo", text="b", id=5)).answer()) == "b"
        assert "result" in await client.ask("ping")


@pytest.mark.spec("sse.disconnect-not-cancel", "sse.disconnect-any-time")
@HOOKED
@pytest.mark.parametrize("tool", ["hold", "steps"])
async def test_a_client_that_leaves_does_not_cancel_its_request(tool: str, hooked: bool) -> None:
    gate = Gate()
    async with session(gate.server.asgi(), hooked=hooked) as client:
        reply = client.post(client.call(tool, name="a", token=1))
        await gate.until_running("a")
        reply.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert not reply.returned.is_set()
        gate.let("a", "a1", "a2")
        await reply.returned.wait()
        assert gate.done == ["a"]
        assert gate.cancelled == []


# --- questions of the server -----------------------------------------------------------------------------------------


@HOOKED
@SESSIONS
async def test_a_handler_asks_on_the_stream_of_its_call(revision: Revision, hooked: bool) -> None:
    gate = Gate()
    async with session(gate.server.asgi(), revision, hooked=hooked) as client:
        reply = client.post(client.call("look"))
        question = await reply.message()
        assert question["method"] == "roots/list"
        answered = client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": "file:///x"}]}})
        assert (await answered.body(), answered.status) == (b"", 202)
        assert text_of(await reply.answer()) == "1"


async def test_a_client_that_takes_no_stream_is_asked_on_its_standalone_one() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("look"), accept="application/json")
        assert "failed" in text_of(await reply.answer())
        standing = client.get()
        await standing.event()
        reply = client.post(client.call("look"), accept="application/json")
        question = await standing.message()
        await client.post({"jsonrpc": "2.0", "id": question["id"], "error": {"code": 1, "message": "no"}}).body()
        assert code_of(await reply.answer()) == 1


async def test_a_question_that_nobody_will_answer_ends(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with session(gate.server.asgi(policy=EndpointPolicy(session_idle=1000))) as client:
        reply = client.post(client.call("look"))
        await reply.message()
        await trio.sleep(5000)
        assert not reply.returned.is_set()
        reply.leave()
        await trio.sleep(1001)
        assert reply.returned.is_set()


async def test_a_question_that_is_no_longer_asked_is_taken_back(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("x", version="0")

    @server.tool
    async def hasty(context: Context) -> str:
        """Hasty."""
        with trio.move_on_after(1):
            await context.list_roots()
        await trio.sleep(100)
        return "late"

    async with session(server.asgi()) as client:
        reply = client.post(client.call("hasty"))
        question = await reply.message()
        began = trio.current_time()
        told = await reply.message()
        assert told["method"] == "notifications/cancelled"
        assert as_object(told["params"])["requestId"] == question["id"]
        assert trio.current_time() - began < 2
        assert text_of(await reply.answer()) == "late"


@pytest.mark.parametrize(
    "body", [b'"result":5', b'"result":null', b'"error":"no"', b'"result":{"a":NaN}', b'"nothing":1']
)
@SESSIONS
async def test_a_handler_does_not_wait_for_an_answer_that_came_and_cannot_be_read(
    revision: Revision, body: bytes
) -> None:
    gate = Gate()
    app = gate.server.asgi(authenticate=identify)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = "me"
        await client.open()
        reply = client.post(client.call("look"))
        asked = json.dumps((await reply.message())["id"]).encode()
        bad = b'{"jsonrpc":"2.0","id":%b,%b}' % (asked, body)
        # Somebody else, and a session that does not exist, can end nobody's waiting.
        assert (await _status(client.start("POST", bad, authorization="you"))) == 400
        assert (await _status(client.start("POST", bad, mcp_session_id="another"))) == 400
        assert (await _status(client.start("POST", bad, mcp_session_id=None))) == 400
        assert (await _status(client.start("POST", bad.replace(asked, b"999999")))) == 400
        await trio.testing.wait_all_tasks_blocked()
        assert not reply.complete
        assert (await _status(client.start("POST", bad))) == 400
        error = as_object((await reply.answer())["error"])
        assert "the peer's response cannot be read" in str(error["message"])
        assert text_of(await client.ask("tools/call", {"name": "echo", "arguments": {"text": "on"}})) == "on"


async def test_an_answer_in_a_batch_that_cannot_be_read_ends_the_waiting_as_well() -> None:
    gate = Gate()
    async with session(gate.server.asgi(), R2025_03_26) as client:
        reply = client.post(client.call("look"))
        asked = (await reply.message())["id"]
        batch: list[JsonValue] = [{"jsonrpc": "2.0", "id": asked, "result": 5}, client.request("ping", id="p")]
        answers = json.loads(await client.post(batch).body())
        assert [each["id"] for each in answers] == ["p"]
        error = as_object((await reply.answer())["error"])
        assert "the peer's response cannot be read" in str(error["message"])


async def _status(reply: Reply) -> int:
    await reply.body()
    return reply.status


# --- batches ---------------------------------------------------------------------------------------------------------


def batch_of(client: Client) -> list[JsonValue]:
    return [
        client.call("hold", name="a", id=1),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        client.request("ping", id=2),
        {"jsonrpc": "2.0", "method": 5, "id": 3},
        client.call("echo", text="b", id=4),
        client.request("initialize", id=5),
        {"jsonrpc": "1.0"},
    ]


@HOOKED
@pytest.mark.spec("batch.receive")
async def test_a_batch_is_answered_by_one_array(hooked: bool) -> None:
    gate = Gate()
    async with session(gate.server.asgi(), R2025_03_26, hooked=hooked) as client:
        reply = client.post(batch_of(client))
        await gate.until_running("a")
        gate.let("a")
        answers = json.loads(await reply.body())
        assert reply.media == "application/json"
        assert {answer.get("id") for answer in answers} == {1, 2, 3, 4, 5, None}
        assert len(answers) == 6


async def test_a_batch_is_answered_by_events_when_it_becomes_a_stream(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with session(gate.server.asgi(), R2025_03_26) as client:
        reply = client.post(batch_of(client))
        await trio.sleep(10)
        gate.let("a")
        messages = [json.loads(event.data) for event in await reply.rest()]
        assert {message.get("id") for message in messages} == {1, 2, 3, 4, 5, None}
        assert messages[-1]["id"] == 1


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_batch_without_anything_for_handlers_is_answered_at_once(accept: str) -> None:
    async with session(Gate().server.asgi(), R2025_03_26) as client:
        client.headers["accept"] = accept
        reply = client.post([{"jsonrpc": "1.0"}, {"jsonrpc": "1.0"}, client.request("ping", id=1)])
        if accept == "application/json":
            assert len(json.loads(await reply.body())) == 3
        else:
            assert len(await reply.rest()) == 3
        reply = client.post([{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}])
        assert (await reply.body(), reply.status) == (b"", 202)


async def test_member_of_a_batch_without_a_readable_id_is_refused_with_a_null_id() -> None:
    async with session(Gate().server.asgi(), R2025_03_26) as client:
        unreadable: list[JsonValue] = [{"jsonrpc": "2.0"}, 7]
        for broken in unreadable:
            batch: list[JsonValue] = [broken, client.request("ping", id="p")]
            answers = json.loads(await client.post(batch).body())
            assert [answer["id"] for answer in answers] == [None, "p"]


async def test_a_cancelled_member_of_a_batch_is_left_out() -> None:
    gate = Gate()
    async with session(gate.server.asgi(), R2025_03_26) as client:
        reply = client.post([client.call("hold", name="a", id=1), client.call("echo", text="b", id=2)])
        await gate.until_running("a")
        await trio.testing.wait_all_tasks_blocked()
        await client.tell("notifications/cancelled", {"requestId": 1})
        assert [answer["id"] for answer in json.loads(await reply.body())] == [2]


@pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25], ids=str)
async def test_other_revisions_have_no_batches(revision: Revision) -> None:
    async with session(Gate().server.asgi(), revision) as client:
        reply = client.post([client.request("ping")])
        assert code_of(await reply.json()) == ErrorCode.INVALID_REQUEST
        assert reply.status == 400


async def test_no_more_calls_of_a_session_run_at_once_than_allowed() -> None:
    gate = Gate(Limits(running_requests=2))
    async with session(gate.server.asgi(), R2025_03_26) as client:
        reply = client.post([client.call("hold", name=name, id=name) for name in "abcd"])
        await trio.testing.wait_all_tasks_blocked()
        assert len(gate.running) == 2
        cancelled, waiting = sorted(set("abcd") - set(gate.running))
        await client.tell("notifications/cancelled", {"requestId": cancelled})
        gate.let(*gate.running, waiting)
        assert {answer["id"] for answer in json.loads(await reply.body())} == {*"abcd"} - {cancelled}
        assert cancelled not in gate.running
        # A handler that waits for the client keeps nobody out.
        asking = [client.post(client.call("look")) for _ in range(3)]
        for each in asking:
            assert (await each.message())["method"] == "roots/list"


@HOOKED
@SESSIONS
async def test_a_request_for_which_there_is_no_room_is_refused_and_nothing_else(
    revision: Revision, hooked: bool
) -> None:
    gate = Gate(Limits(running_requests=1, waiting_requests=1))
    async with session(gate.server.asgi(), revision, hooked=hooked) as client:
        running = client.post(client.call("hold", name="a"))
        await gate.until_running("a")
        waiting = client.post(client.call("hold", name="b", id="b"))
        await trio.testing.wait_all_tasks_blocked()
        refused = client.post(client.call("hold", name="c", id="c"))
        answer = await refused.json()
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 0
        assert answer["id"] == "c"
        error = as_object(answer["error"])
        assert error["code"] == ErrorCode.INTERNAL_ERROR
        assert "2 is over the limit of 1; the setting is Limits.waiting_requests" in str(error["message"])
        # What the connection itself answers never waits, and neither does a cancellation, which makes room.
        assert (await client.ask("ping"))["result"] == {}
        await client.tell("notifications/cancelled", {"requestId": "b"})
        await waiting.body()
        again = client.post(client.call("hold", name="c", id="c"))
        await trio.testing.wait_all_tasks_blocked()
        gate.let("a", "c")
        assert text_of(await running.answer()) == "a"
        assert text_of(await again.answer()) == "c"


async def test_requests_wait_only_up_to_the_bytes_that_may_wait() -> None:
    gate = Gate(Limits(running_requests=1, waiting_bytes=200))
    async with session(gate.server.asgi()) as client:
        client.post(client.call("hold", name="a"))
        await gate.until_running("a")
        client.post(client.call("hold", name="b"))
        await trio.testing.wait_all_tasks_blocked()
        refused = client.post(client.call("hold", name="c" * 200))
        assert "Limits.waiting_bytes" in str(as_object((await refused.json())["error"])["message"])
        assert refused.status == 429


async def test_members_of_a_batch_for_which_there_is_no_room_are_refused_each_by_itself() -> None:
    gate = Gate(Limits(running_requests=1, waiting_requests=1))
    async with session(gate.server.asgi(), R2025_03_26) as client:
        batch: list[JsonValue] = [client.call("hold", name=name, id=name) for name in "abc"]
        gate.let("a", "b")
        reply = client.post([*batch, client.request("ping", id="p")])
        answers = {each["id"]: each for each in json.loads(await reply.body())}
        assert reply.status == 200
        assert sorted(answers) == ["a", "b", "c", "p"]
        assert "Limits.waiting_requests" in answers["c"]["error"]["message"]
        assert (text_of(answers["a"]), text_of(answers["b"])) == ("a", "b")


# --- who asks, and stores that fail ----------------------------------------------------------------------------------


async def test_who_is_not_let_in_is_told_how_to_ask(caplog: pytest.LogCaptureFixture) -> None:
    async def strict(request: HttpRequest) -> str | None:
        if request.headers.get("authorization") is None:
            raise AccessDenied("a token is needed", status=401, challenges=("Bearer", 'Basic realm="x"'))
        if request.headers.get("authorization") == "crash":
            raise ZeroDivisionError("a secret")
        return "a"

    async with hosted(Gate().server.asgi(authenticate=strict), R2025_11_25) as client:
        reply = client.post(client.request("ping"))
        assert b"a token is needed" in await reply.body()
        assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Basic realm="x"')
        reply = client.post(client.request("ping"), authorization="crash")
        assert b"secret" not in await reply.body()
        assert reply.status == 500
    assert "a secret" in caplog.text


@attrs.define
class Broken:
    """A store that fails whenever it is told to."""

    inner: MemoryStore = attrs.field(factory=MemoryStore)
    failing: bool = False

    def __getattr__(self, name: str) -> object:
        if self.failing:
            raise StoreError("the disk is full")
        return getattr(self.inner, name)


async def test_a_store_that_fails_does_not_fail_what_can_go_on(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    store = Broken()
    async with session(gate.server.asgi(store=store)) as client:  # type: ignore[arg-type]  # it is one by its attributes
        store.failing = True
        gate.let("a1", "a2")
        reply = client.post(client.call("steps", name="a", token=1))
        assert text_of(json.loads((await reply.rest())[-1].data)) == "a"
        assert "result" in await client.ask("logging/setLevel", {"level": "error"})
        resumed = client.get("1-0")
        assert (await resumed.body(), resumed.status)[1] == 503
        lost = client.post(client.request("ping"), mcp_session_id="unknown")
        assert (await lost.body(), lost.status)[1] == 503
        assert (await client.start("DELETE").body()) == b""
    assert "the disk is full" in caplog.text


@pytest.mark.parametrize("forgotten", [True, False])
async def test_a_stream_whose_store_fails_goes_on_without_ids(
    forgotten: bool, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    store = Broken()
    async with session(gate.server.asgi(store=store)) as client:  # type: ignore[arg-type]  # it is one by its attributes
        assert client.session is not None
        reply = client.post(client.call("steps", name="a", token=1, count=3))
        await reply.message()
        if forgotten:
            # A store may have had to choose another session's events.
            await store.inner.delivered(client.session, 1)
        else:
            store.failing = True
        gate.let("a1", "a2", "a3")
        assert [event.id for event in await reply.rest()] == [None, None, None]
    assert "not stored" in caplog.text


async def test_a_record_says_what_another_process_has_to_know() -> None:
    saved: list[SessionRecord] = []
    changes: list[str] = []

    class Watched(MemoryStore):
        async def save(self, record: SessionRecord) -> None:
            saved.append(record)
            await super().save(record)

        async def subscribe(self, session: str, uri: str) -> None:
            changes.append(f"+{uri}")
            await super().subscribe(session, uri)

        async def unsubscribe(self, session: str, uri: str) -> None:
            changes.append(f"-{uri}")
            await super().unsubscribe(session, uri)

    async with session(Gate().server.asgi(store=Watched(), authenticate=identify)) as client:
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        await client.ask("logging/setLevel", {"level": "error"})
        await client.ask("resources/unsubscribe", {"uri": "memo://x"})
        assert [each.log_level for each in saved] == [None, "error"]
        assert changes == ["+memo://x", "-memo://x"]
        assert (saved[0].id, saved[0].principal, saved[0].revision) == (client.session, None, "2025-11-25")
        assert as_object(saved[0].client["clientInfo"])["name"] == "raw"


async def test_2024_11_05_has_no_ids_of_events() -> None:
    gate = Gate()
    gate.let("a1", "a2")
    async with session(gate.server.asgi(), R2024_11_05) as client:
        events = await client.post(client.call("steps", name="a", token=1)).rest()
        assert [event.id for event in events] == [None] * 3
        resumed = client.get("1-0")
        assert (await resumed.body(), resumed.status)[1] == 400


# --- corners ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
async def test_the_endpoint_may_prefer_streams(accept: str) -> None:
    async with session(Gate().server.asgi(policy=EndpointPolicy(answer="stream"))) as client:
        reply = client.post(client.call("echo", text="hi"), accept=accept)
        assert text_of(await reply.answer()) == "hi"
        assert reply.media == ("application/json" if accept == "application/json" else "text/event-stream")


async def test_a_request_and_its_cancellation_may_come_in_one_batch() -> None:
    gate = Gate()
    async with session(gate.server.asgi(), R2025_03_26) as client:
        batch: list[JsonValue] = [
            client.call("hold", name="a", id=1),
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
            client.call("echo", text="b", id=2),
        ]
        reply = client.post(batch)
        assert [answer["id"] for answer in json.loads(await reply.body())] == [2]
        assert gate.done == []


async def test_several_tasks_of_a_handler_may_ask_at_once() -> None:
    gate = Gate(Limits(running_requests=1))
    server = gate.server

    @server.tool
    async def both(context: Context) -> str:
        """Asks twice."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.list_roots)
            nursery.start_soon(context.list_roots)
        return "both"

    async with session(server.asgi()) as client:
        reply = client.post(client.call("both"))
        questions = [await reply.message(), await reply.message()]
        assert text_of(await client.post(client.call("echo", text="meanwhile")).answer()) == "meanwhile"
        for question in questions:
            await client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}).body()
        assert text_of(await reply.answer()) == "both"
        assert text_of(await client.post(client.call("echo", text="afterwards")).answer()) == "afterwards"


async def test_notices_of_what_the_server_did_not_declare_are_not_told() -> None:
    server = Server("x", version="0")

    @server.tool
    async def early() -> None:
        """Early."""

    async with session(server.asgi()) as client:
        standing = client.get()
        await standing.event()

        @server.prompt
        async def late() -> str:
            """Late."""
            return "late"

        server.remove_tool("early")
        assert (await standing.message())["method"] == "notifications/tools/list_changed"
        await trio.testing.wait_all_tasks_blocked()
        assert len(standing.chunks) == 2


async def test_a_legacy_session_has_no_subscriptions_by_request() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        client.post(client.call("hold", name="a"))
        await gate.until_running("a")
        call = gate.contexts[0]._call
        with pytest.raises(LocalProtocolError, match="does not exist"):
            await call.channel.listen(call, SubscriptionFilter())


async def test_the_record_of_a_session_in_use_is_kept_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with session(Gate().server.asgi(store=store, policy=EndpointPolicy(session_idle=800))) as client:
        assert client.session is not None
        first = await store.load(client.session)
        assert first is not None
        for later, kept in ((99, 0.0), (101, 101.0), (150, 101.0)):
            monkeypatch.setattr("time.time", lambda later=later: first.used_at + later)
            await client.ask("ping")
            record = await store.load(client.session)
            assert record is not None
            assert record.used_at == pytest.approx(first.used_at + kept)


async def test_a_session_whose_connections_take_nothing_is_ended_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        standing = client.start("GET", blocked=True, accept="text/event-stream")
        stuck = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
        await gate.until_running("a")
        await trio.sleep(1)
        assert await client.start("DELETE").body() == b""
        await standing.returned.wait()
        await stuck.returned.wait()
        assert trio.current_time() < 5
        assert gate.cancelled == ["a"]


async def test_a_stop_does_not_wait_for_clients_that_take_nothing(autojump_clock: trio.testing.MockClock) -> None:
    for revision in (R2025_11_25, R2026_07_28):
        gate = Gate()
        app = gate.server.asgi()
        async with hosted(app, revision) as client:
            if revision is R2025_11_25:
                await client.open()
                client.start("GET", blocked=True, accept="text/event-stream")
            stuck = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
            await gate.until_running("a")
            await trio.sleep(1)
            began = trio.current_time()
            await app.drain(2)
            assert trio.current_time() - began < 4
            assert stuck.returned.is_set()
            assert (app.running, gate.cancelled) == (0, ["a"])
            assert repr(app) == f"<HttpEndpoint at /mcp: 0 requests, {app.sessions} sessions>"
