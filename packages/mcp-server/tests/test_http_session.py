"""Sessions of the legacy revisions over HTTP, and the messages that are posted to them."""

from __future__ import annotations

import json

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted, session
from controlled_server import ControlledServer, text_of

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
from mcp_server import Context, Server
from mcp_server.stores import MemoryStore, SessionRecord, StoreError

SESSIONS = pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18, R2025_11_25], ids=str)
HOOKED = pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "plain"])


def code_of(answer: JsonObject) -> JsonValue:
    return as_object(answer["error"])["code"]


async def identify(request: HttpRequest) -> str | None:
    return request.headers.get("authorization")


# --- lifetime ---------------------------------------------------------------------------------------------------------


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
async def test_initialize_opens_session_in_each_legacy_revision(revision: Revision) -> None:
    app = ControlledServer().server.asgi()
    async with session(app, revision) as client:
        assert client.session is not None
        assert len(client.session) >= 43
        assert all(0x21 <= ord(char) <= 0x7E for char in client.session)
        assert app.sessions == 1
        assert text_of(await client.ask("tools/call", {"name": "echo", "arguments": {"text": "hi"}})) == "hi"
        other = Client(app, client.nursery, revision)
        await other.open()
        assert other.session != client.session


async def test_initialize_with_session_id_opens_second_session() -> None:
    app = ControlledServer().server.asgi()
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
async def test_notification_or_response_returns_202(revision: Revision) -> None:
    async with session(ControlledServer().server.asgi(), revision) as client:
        await client.notify("notifications/roots/list_changed")
        await client.notify("notifications/cancelled", {"requestId": 99})
        reply = client.post({"jsonrpc": "2.0", "id": 5, "result": {}})
        assert (await reply.body(), reply.status) == (b"", 202)


@pytest.mark.spec("http.notification-reject")
async def test_invalid_post_returns_400() -> None:
    async with session(ControlledServer().server.asgi()) as client:
        for body in (b"nonsense", b"[]", b'{"jsonrpc": "2.0", "id": 5}'):
            reply = client.start("POST", body)
            assert (await reply.body() != b"", reply.status) == (True, 400)


@pytest.mark.spec("session.missing-400")
async def test_request_without_session_id_returns_400() -> None:
    async with hosted(ControlledServer().server.asgi(), R2025_11_25) as client:
        reply = client.post(client.request("tools/list"))
        assert code_of(await reply.json()) == ErrorCode.INVALID_REQUEST
        assert reply.status == 400


@pytest.mark.spec("session.terminated-404", "session.terminate-any-time")
@SESSIONS
async def test_deleted_session_returns_404(revision: Revision) -> None:
    app = ControlledServer().server.asgi()
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


@pytest.mark.spec("session.terminated-404")
async def test_request_while_session_ends_returns_404() -> None:
    # The store still has the session, but the request must not restore it: nothing would end it then.
    is_ending, may_delete = trio.Event(), trio.Event()

    class SlowStore(MemoryStore):
        async def delete(self, id: str) -> None:
            is_ending.set()
            await may_delete.wait()
            await super().delete(id)

    app = ControlledServer().server.asgi(store=SlowStore())
    async with session(app) as client:
        ended = client.start("DELETE")
        await is_ending.wait()
        late = client.post(client.request("ping", id=9))
        await trio.testing.wait_all_tasks_blocked()
        may_delete.set()
        assert (await ended.body(), ended.status) == (b"", 200)
        await late.body()
        assert late.status == 404
        assert app.sessions == 0


@pytest.mark.spec("elicitation.bind-user", "elicitation.state-per-user", "elicitation.state-not-session-only")
async def test_session_of_other_principal_returns_404() -> None:
    tools = ControlledServer()
    app = tools.server.asgi(authenticate=identify)
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
async def test_deleted_session_ends_its_requests_and_streams(hooked: bool) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), hooked=hooked) as client:
        standalone = client.get()
        await standalone.event()
        quiet = client.post(client.call("hold", name="a"))
        loud = client.post(client.call("steps", name="b", token=1))
        calls = client.post(client.call("look"))
        await loud.message()
        assert (await calls.message())["method"] == "roots/list"
        await tools.until_running("a", "b", "look")
        assert (await client.start("DELETE").body()) == b""
        assert (await quiet.body(), quiet.status)[1] == 404
        assert await loud.rest() == []
        assert await calls.rest() == []
        assert await standalone.rest() == []
        assert sorted(tools.cancelled) == ["a", "b"]


async def test_idle_session_expires(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    app = tools.server.asgi(policy=EndpointPolicy(session_idle=100))
    async with session(app) as client:
        await trio.sleep(99)
        assert "result" in await client.ask("ping")
        held = client.post(client.call("hold", name="a"))
        await trio.sleep(500)
        tools.let("a")
        assert text_of(await held.answer()) == "a"
        await trio.sleep(99)
        assert "result" in await client.ask("ping")
        standalone = client.get()
        await trio.sleep(500)
        assert "result" in await client.ask("ping")
        standalone.leave()
        await standalone.returned.wait()
        await trio.sleep(101)
        gone = client.post(client.request("ping"))
        await gone.body()
        assert (gone.status, app.sessions) == (404, 0)


async def test_changes_written_to_standalone_streams_in_parts() -> None:
    server = ControlledServer().server
    app = server.asgi()
    async with hosted(app, R2025_11_25) as client:
        streams: list[Reply] = []
        for _ in range(8):
            each = Client(app, client.nursery, R2025_11_25)
            await each.open()
            await each.ask("resources/subscribe", {"uri": "memo://a"})
            streams.append(each.get())
            await streams[-1].event()
        for number in range(128):
            server.resource_updated(f"memo://a/{number}")
        most = before = 0
        while before < 8 * 128:
            await trio.lowlevel.checkpoint()
            after = sum(b"".join(stream.chunks).count(b"notifications/resources/updated") for stream in streams)
            most, before = max(most, after - before), after
        assert most <= 256


async def test_session_table_full_evicts_longest_idle_session() -> None:
    store = MemoryStore()
    server = ControlledServer(Limits(sessions=2)).server
    app = server.asgi(store=store)
    async with hosted(app, R2025_11_25) as client:
        clients = [Client(app, client.nursery, R2025_11_25) for _ in range(3)]
        for each in clients:
            await each.open()
        assert app.sessions == len(server._service.changes.targets) == 2
        assert [await store.load(str(each.session)) is not None for each in clients] == [False, True, True]
        gone = clients[0].post(clients[0].request("ping"))
        await gone.body()
        assert gone.status == 404
        assert "result" in await clients[1].ask("ping")
        # A session with a running request is not evicted.
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


async def test_rejected_initialize_creates_no_session() -> None:
    app = ControlledServer().server.asgi()
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
async def test_initialize_at_modern_only_server_returns_400() -> None:
    async with hosted(ControlledServer(revisions=MODERN).server.asgi(), R2025_11_25) as client:
        reply = client.post(client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}))
        assert b"2026-07-28" in await reply.body()
        assert reply.status == 400


@pytest.mark.spec("http.protocol-version-assume", "http.protocol-version-400")
async def test_protocol_version_header_missing_accepted_unknown_returns_400() -> None:
    async with session(ControlledServer().server.asgi()) as client:
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
async def test_response_is_json_or_event_stream(revision: Revision, hooked: bool) -> None:
    tools = ControlledServer()
    tools.let("a1", "a2")
    async with session(tools.server.asgi(), revision, hooked=hooked) as client:
        reply = client.post(client.call("echo", text="hi"))
        assert text_of(await reply.json()) == "hi"
        assert "mcp-session-id" not in reply.headers
        reply = client.post(client.call("steps", name="a", token="t"))
        messages = [json.loads(event.data) for event in await reply.rest() if event.data]
        assert [message.get("method") for message in messages] == ["notifications/progress"] * 2 + [None]
        assert text_of(messages[-1]) == "a"
        assert reply.headers["x-accel-buffering"] == "no"


async def test_client_accepting_only_event_stream_gets_stream() -> None:
    async with hosted(ControlledServer().server.asgi(), R2025_11_25) as client:
        client.headers["accept"] = "text/event-stream"
        await client.open()
        reply = client.post(client.request("ping"))
        assert (await reply.answer())["result"] == {}
        assert reply.media == "text/event-stream"


async def test_unknown_method_returns_json_rpc_error_with_200() -> None:
    async with session(ControlledServer().server.asgi()) as client:
        reply = client.post(client.request("no/such"))
        assert code_of(await reply.json()) == ErrorCode.METHOD_NOT_FOUND
        assert reply.status == 200


async def test_request_id_in_use_is_rejected() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        held = client.post(client.call("hold", name="a", id=7))
        await tools.until_running("a")
        second = client.post(client.call("echo", text="b", id=7))
        assert code_of(await second.json()) == ErrorCode.INVALID_REQUEST
        tools.let("a")
        assert text_of(await held.answer()) == "a"
        assert text_of(await client.post(client.call("echo", text="b", id=7)).answer()) == "b"


async def test_same_request_ids_in_two_sessions_are_independent() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with session(app) as one:
        other = Client(app, one.nursery, R2025_11_25)
        await other.open()
        replies = [client.post(client.call("hold", name=name, id=1)) for client, name in ((one, "a"), (other, "b"))]
        await tools.until_running("a", "b")
        await other.notify("notifications/cancelled", {"requestId": 1})
        tools.let("a", "b")
        assert text_of(await replies[0].answer()) == "a"
        assert await replies[1].body() == b": still here\n\n"
        assert tools.cancelled == ["b"]


@HOOKED
@pytest.mark.spec("cancellation.stop-processing", "cancellation.no-response", "cancellation.free-resources")
@pytest.mark.parametrize(("tool", "accept"), [("hold", None), ("hold", "application/json"), ("steps", None)])
async def test_cancelled_request_has_no_response(tool: str, accept: str | None, hooked: bool) -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with session(app, R2025_03_26, hooked=hooked) as client:
        if accept:
            client.headers["accept"] = accept
        reply = client.post(client.call(tool, name="a", token=1, id=5))
        await tools.until_running("a")
        await client.notify("notifications/cancelled", {"requestId": 5, "reason": "enough"})
        await reply.returned.wait()
        assert tools.cancelled == ["a"]
        body = await reply.body()
        assert b'"id":5' not in body
        assert reply.status == (202 if accept else 200)
        assert accept or reply.media == "text/event-stream"
        # A late or repeated cancellation does no harm.
        await client.notify("notifications/cancelled", {"requestId": 5})
        assert text_of(await client.post(client.call("echo", text="b", id=5)).answer()) == "b"
        assert "result" in await client.ask("ping")


@pytest.mark.spec("sse.disconnect-not-cancel", "sse.disconnect-any-time")
@HOOKED
@pytest.mark.parametrize("tool", ["hold", "steps"])
async def test_disconnect_does_not_cancel_request(tool: str, hooked: bool) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), hooked=hooked) as client:
        reply = client.post(client.call(tool, name="a", token=1))
        await tools.until_running("a")
        reply.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert not reply.returned.is_set()
        tools.let("a", "a1", "a2")
        await reply.returned.wait()
        assert tools.done == ["a"]
        assert tools.cancelled == []


# --- client requests --------------------------------------------------------------------------------------------------


@HOOKED
@SESSIONS
async def test_client_request_is_sent_on_stream_of_its_call(revision: Revision, hooked: bool) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), revision, hooked=hooked) as client:
        reply = client.post(client.call("look"))
        client_request = await reply.message()
        assert client_request["method"] == "roots/list"
        answered = client.post(
            {"jsonrpc": "2.0", "id": client_request["id"], "result": {"roots": [{"uri": "file:///x"}]}}
        )
        assert (await answered.body(), answered.status) == (b"", 202)
        assert text_of(await reply.answer()) == "1"


async def test_client_request_without_stream_uses_standalone_stream() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("look"), accept="application/json")
        assert "failed" in text_of(await reply.answer())
        standalone = client.get()
        await standalone.event()
        reply = client.post(client.call("look"), accept="application/json")
        client_request = await standalone.message()
        await client.post({"jsonrpc": "2.0", "id": client_request["id"], "error": {"code": 1, "message": "no"}}).body()
        assert code_of(await reply.answer()) == 1


async def test_client_request_without_response_ends_with_expired_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(policy=EndpointPolicy(session_idle=1000))) as client:
        reply = client.post(client.call("look"))
        await reply.message()
        await trio.sleep(5000)
        assert not reply.returned.is_set()
        reply.leave()
        await trio.sleep(1001)
        assert reply.returned.is_set()


async def test_abandoned_client_request_sends_cancelled_notification(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("x", version="0")

    @server.tool
    async def hasty(context: Context) -> str:
        """Cancel a client request."""
        with trio.move_on_after(1):
            await context.list_roots()
        await trio.sleep(100)
        return "late"

    async with session(server.asgi()) as client:
        reply = client.post(client.call("hasty"))
        client_request = await reply.message()
        began = trio.current_time()
        notification = await reply.message()
        assert notification["method"] == "notifications/cancelled"
        assert as_object(notification["params"])["requestId"] == client_request["id"]
        assert trio.current_time() - began < 2
        assert text_of(await reply.answer()) == "late"


@pytest.mark.parametrize(
    "body", [b'"result":5', b'"result":null', b'"error":"no"', b'"result":{"a":NaN}', b'"nothing":1']
)
@SESSIONS
async def test_unreadable_response_fails_client_request(revision: Revision, body: bytes) -> None:
    tools = ControlledServer()
    app = tools.server.asgi(authenticate=identify)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = "me"
        await client.open()
        reply = client.post(client.call("look"))
        request_id = json.dumps((await reply.message())["id"]).encode()
        bad = b'{"jsonrpc":"2.0","id":%b,%b}' % (request_id, body)
        # Another principal, or an unknown session, cannot end the client request.
        assert (await _status(client.start("POST", bad, authorization="you"))) == 400
        assert (await _status(client.start("POST", bad, mcp_session_id="another"))) == 400
        assert (await _status(client.start("POST", bad, mcp_session_id=None))) == 400
        assert (await _status(client.start("POST", bad.replace(request_id, b"999999")))) == 400
        await trio.testing.wait_all_tasks_blocked()
        assert not reply.complete
        assert (await _status(client.start("POST", bad))) == 400
        error = as_object((await reply.answer())["error"])
        assert "the peer's response cannot be read" in str(error["message"])
        assert text_of(await client.ask("tools/call", {"name": "echo", "arguments": {"text": "on"}})) == "on"


async def test_unreadable_response_in_batch_fails_client_request() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), R2025_03_26) as client:
        reply = client.post(client.call("look"))
        request_id = (await reply.message())["id"]
        batch: list[JsonValue] = [{"jsonrpc": "2.0", "id": request_id, "result": 5}, client.request("ping", id="p")]
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
async def test_batch_response_is_one_json_array(hooked: bool) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), R2025_03_26, hooked=hooked) as client:
        reply = client.post(batch_of(client))
        await tools.until_running("a")
        tools.let("a")
        answers = json.loads(await reply.body())
        assert reply.media == "application/json"
        assert {answer.get("id") for answer in answers} == {1, 2, 3, 4, 5, None}
        assert len(answers) == 6


async def test_batch_response_that_becomes_stream_sends_events(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), R2025_03_26) as client:
        reply = client.post(batch_of(client))
        await trio.sleep(10)
        tools.let("a")
        messages = [json.loads(event.data) for event in await reply.rest()]
        assert {message.get("id") for message in messages} == {1, 2, 3, 4, 5, None}
        assert messages[-1]["id"] == 1


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_batch_without_handler_calls_answered_immediately(accept: str) -> None:
    async with session(ControlledServer().server.asgi(), R2025_03_26) as client:
        client.headers["accept"] = accept
        reply = client.post([{"jsonrpc": "1.0"}, {"jsonrpc": "1.0"}, client.request("ping", id=1)])
        if accept == "application/json":
            assert len(json.loads(await reply.body())) == 3
        else:
            assert len(await reply.rest()) == 3
        reply = client.post([{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}])
        assert (await reply.body(), reply.status) == (b"", 202)


async def test_batch_member_without_readable_id_answered_with_null_id() -> None:
    async with session(ControlledServer().server.asgi(), R2025_03_26) as client:
        unreadable: list[JsonValue] = [{"jsonrpc": "2.0"}, 7]
        for broken in unreadable:
            batch: list[JsonValue] = [broken, client.request("ping", id="p")]
            answers = json.loads(await client.post(batch).body())
            assert [answer["id"] for answer in answers] == [None, "p"]


async def test_batch_omits_response_of_cancelled_member() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), R2025_03_26) as client:
        reply = client.post([client.call("hold", name="a", id=1), client.call("echo", text="b", id=2)])
        await tools.until_running("a")
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": 1})
        assert [answer["id"] for answer in json.loads(await reply.body())] == [2]


@pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25], ids=str)
async def test_batch_in_later_revision_returns_400(revision: Revision) -> None:
    async with session(ControlledServer().server.asgi(), revision) as client:
        reply = client.post([client.request("ping")])
        assert code_of(await reply.json()) == ErrorCode.INVALID_REQUEST
        assert reply.status == 400


async def test_running_requests_of_session_are_limited() -> None:
    tools = ControlledServer(Limits(running_requests=2))
    async with session(tools.server.asgi(), R2025_03_26) as client:
        reply = client.post([client.call("hold", name=name, id=name) for name in "abcd"])
        await trio.testing.wait_all_tasks_blocked()
        assert len(tools.running) == 2
        cancelled, waiting = sorted(set("abcd") - set(tools.running))
        await client.notify("notifications/cancelled", {"requestId": cancelled})
        tools.let(*tools.running, waiting)
        assert {answer["id"] for answer in json.loads(await reply.body())} == {*"abcd"} - {cancelled}
        assert cancelled not in tools.running
        # A handler that waits for the client does not count.
        calls = [client.post(client.call("look")) for _ in range(3)]
        for each in calls:
            assert (await each.message())["method"] == "roots/list"


@HOOKED
@SESSIONS
async def test_request_queue_full_returns_429(revision: Revision, hooked: bool) -> None:
    tools = ControlledServer(Limits(running_requests=1, waiting_requests=1))
    async with session(tools.server.asgi(), revision, hooked=hooked) as client:
        running = client.post(client.call("hold", name="a"))
        await tools.until_running("a")
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
        # The connection answers `ping` without the queue, and a cancellation, which frees a place in the queue, does
        # not wait.
        assert (await client.ask("ping"))["result"] == {}
        await client.notify("notifications/cancelled", {"requestId": "b"})
        await waiting.body()
        again = client.post(client.call("hold", name="c", id="c"))
        await trio.testing.wait_all_tasks_blocked()
        tools.let("a", "c")
        assert text_of(await running.answer()) == "a"
        assert text_of(await again.answer()) == "c"


async def test_queued_bytes_over_limit_return_429() -> None:
    tools = ControlledServer(Limits(running_requests=1, waiting_bytes=200))
    async with session(tools.server.asgi()) as client:
        client.post(client.call("hold", name="a"))
        await tools.until_running("a")
        client.post(client.call("hold", name="b"))
        await trio.testing.wait_all_tasks_blocked()
        refused = client.post(client.call("hold", name="c" * 200))
        assert "Limits.waiting_bytes" in str(as_object((await refused.json())["error"])["message"])
        assert refused.status == 429


async def test_batch_members_over_queue_limit_rejected_individually() -> None:
    tools = ControlledServer(Limits(running_requests=1, waiting_requests=1))
    async with session(tools.server.asgi(), R2025_03_26) as client:
        batch: list[JsonValue] = [client.call("hold", name=name, id=name) for name in "abc"]
        tools.let("a", "b")
        reply = client.post([*batch, client.request("ping", id="p")])
        answers = {each["id"]: each for each in json.loads(await reply.body())}
        assert reply.status == 200
        assert sorted(answers) == ["a", "b", "c", "p"]
        assert "Limits.waiting_requests" in answers["c"]["error"]["message"]
        assert (text_of(answers["a"]), text_of(answers["b"])) == ("a", "b")


# --- authentication, and stores that fail -----------------------------------------------------------------------------


async def test_access_denied_returns_401_with_challenge(caplog: pytest.LogCaptureFixture) -> None:
    async def strict(request: HttpRequest) -> str | None:
        if request.headers.get("authorization") is None:
            raise AccessDenied("a token is needed", status=401, challenges=("Bearer", 'Basic realm="x"'))
        if request.headers.get("authorization") == "crash":
            raise ZeroDivisionError("a secret")
        return "a"

    async with hosted(ControlledServer().server.asgi(authenticate=strict), R2025_11_25) as client:
        reply = client.post(client.request("ping"))
        assert b"a token is needed" in await reply.body()
        assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Basic realm="x"')
        reply = client.post(client.request("ping"), authorization="crash")
        assert b"secret" not in await reply.body()
        assert reply.status == 500
    assert "a secret" in caplog.text


@attrs.define
class BrokenStore:
    """A store that fails while `failing` is set."""

    inner: MemoryStore = attrs.field(factory=MemoryStore)
    failing: bool = False

    def __getattr__(self, name: str) -> object:
        if self.failing:
            raise StoreError("the disk is full")
        return getattr(self.inner, name)


async def test_store_failure_keeps_session_and_running_requests(caplog: pytest.LogCaptureFixture) -> None:
    tools = ControlledServer()
    store = BrokenStore()
    async with session(tools.server.asgi(store=store)) as client:  # type: ignore[arg-type]  # has the attributes of a store
        store.failing = True
        tools.let("a1", "a2")
        reply = client.post(client.call("steps", name="a", token=1))
        assert text_of(json.loads((await reply.rest())[-1].data)) == "a"
        assert "result" in await client.ask("logging/setLevel", {"level": "error"})
        resumed = client.get("1-0")
        assert (await resumed.body(), resumed.status)[1] == 503
        lost = client.post(client.request("ping"), mcp_session_id="unknown")
        assert (await lost.body(), lost.status)[1] == 503
        assert (await client.start("DELETE").body()) == b""
    assert "the disk is full" in caplog.text


@pytest.mark.parametrize("discarded", [True, False])
async def test_stream_after_store_failure_has_no_event_ids(discarded: bool, caplog: pytest.LogCaptureFixture) -> None:
    tools = ControlledServer()
    store = BrokenStore()
    async with session(tools.server.asgi(store=store)) as client:  # type: ignore[arg-type]  # has the attributes of a store
        assert client.session is not None
        reply = client.post(client.call("steps", name="a", token=1, count=3))
        await reply.message()
        if discarded:
            # The store may have discarded these events in favor of another session.
            await store.inner.delivered(client.session, 1)
        else:
            store.failing = True
        tools.let("a1", "a2", "a3")
        assert [event.id for event in await reply.rest()] == [None, None, None]
    assert "not stored" in caplog.text


async def test_session_record_has_log_level_principal_and_subscriptions() -> None:
    saved: list[SessionRecord] = []
    changes: list[str] = []

    class RecordingStore(MemoryStore):
        async def save(self, record: SessionRecord) -> tuple[str, ...]:
            saved.append(record)
            return await super().save(record)

        async def subscribe(self, session: str, uri: str) -> None:
            changes.append(f"+{uri}")
            await super().subscribe(session, uri)

        async def unsubscribe(self, session: str, uri: str) -> None:
            changes.append(f"-{uri}")
            await super().unsubscribe(session, uri)

    async with session(ControlledServer().server.asgi(store=RecordingStore(), authenticate=identify)) as client:
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        await client.ask("logging/setLevel", {"level": "error"})
        await client.ask("resources/unsubscribe", {"uri": "memo://x"})
        assert [each.log_level for each in saved] == [None, "error"]
        assert changes == ["+memo://x", "-memo://x"]
        assert (saved[0].id, saved[0].principal, saved[0].revision) == (client.session, None, "2025-11-25")
        assert as_object(saved[0].client["clientInfo"])["name"] == "raw"


async def test_2024_11_05_stream_has_no_event_ids() -> None:
    tools = ControlledServer()
    tools.let("a1", "a2")
    async with session(tools.server.asgi(), R2024_11_05) as client:
        events = await client.post(client.call("steps", name="a", token=1)).rest()
        assert [event.id for event in events] == [None] * 3
        resumed = client.get("1-0")
        assert (await resumed.body(), resumed.status)[1] == 400


# --- corner cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
async def test_answer_policy_stream_prefers_event_stream(accept: str) -> None:
    async with session(ControlledServer().server.asgi(policy=EndpointPolicy(answer="stream"))) as client:
        reply = client.post(client.call("echo", text="hi"), accept=accept)
        assert text_of(await reply.answer()) == "hi"
        assert reply.media == ("application/json" if accept == "application/json" else "text/event-stream")


async def test_batch_with_request_and_its_cancellation_omits_response() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), R2025_03_26) as client:
        batch: list[JsonValue] = [
            client.call("hold", name="a", id=1),
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
            client.call("echo", text="b", id=2),
        ]
        reply = client.post(batch)
        assert [answer["id"] for answer in json.loads(await reply.body())] == [2]
        assert tools.done == []


async def test_handler_tasks_send_client_requests_concurrently() -> None:
    tools = ControlledServer(Limits(running_requests=1))
    server = tools.server

    @server.tool
    async def both(context: Context) -> str:
        """Request the roots twice."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.list_roots)
            nursery.start_soon(context.list_roots)
        return "both"

    async with session(server.asgi()) as client:
        reply = client.post(client.call("both"))
        client_requests = [await reply.message(), await reply.message()]
        assert text_of(await client.post(client.call("echo", text="meanwhile")).answer()) == "meanwhile"
        for client_request in client_requests:
            await client.post({"jsonrpc": "2.0", "id": client_request["id"], "result": {"roots": []}}).body()
        assert text_of(await reply.answer()) == "both"
        assert text_of(await client.post(client.call("echo", text="afterward")).answer()) == "afterward"


async def test_notification_of_undeclared_capability_dropped() -> None:
    server = Server("x", version="0")

    @server.tool
    async def early() -> None:
        """Return nothing."""

    async with session(server.asgi()) as client:
        standalone = client.get()
        await standalone.event()

        @server.prompt
        async def late() -> str:
            """Return a text."""
            return "late"

        server.remove_tool("early")
        assert (await standalone.message())["method"] == "notifications/tools/list_changed"
        await trio.testing.wait_all_tasks_blocked()
        assert len(standalone.chunks) == 2


async def test_subscriptions_listen_in_legacy_session_raises() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        client.post(client.call("hold", name="a"))
        await tools.until_running("a")
        call = tools.contexts[0]._call
        with pytest.raises(LocalProtocolError, match="does not exist"):
            await call.channel.listen(call, SubscriptionFilter())


async def test_session_record_of_used_session_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with session(ControlledServer().server.asgi(store=store, policy=EndpointPolicy(session_idle=800))) as client:
        assert client.session is not None
        first = await store.load(client.session)
        assert first is not None
        for later, kept in ((99, 0.0), (101, 101.0), (150, 101.0)):
            monkeypatch.setattr("time.time", lambda later=later: first.used_at + later)
            await client.ask("ping")
            record = await store.load(client.session)
            assert record is not None
            assert record.used_at == pytest.approx(first.used_at + kept)


async def test_deleted_session_with_blocked_streams_ends_immediately(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        standalone = client.start("GET", blocked=True, accept="text/event-stream")
        blocked_call = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
        await tools.until_running("a")
        await trio.sleep(1)
        assert await client.start("DELETE").body() == b""
        await standalone.returned.wait()
        await blocked_call.returned.wait()
        assert trio.current_time() < 5
        assert tools.cancelled == ["a"]


async def test_drain_with_blocked_streams_ends_after_timeout(autojump_clock: trio.testing.MockClock) -> None:
    for revision in (R2025_11_25, R2026_07_28):
        tools = ControlledServer()
        app = tools.server.asgi()
        async with hosted(app, revision) as client:
            if revision is R2025_11_25:
                await client.open()
                client.start("GET", blocked=True, accept="text/event-stream")
            blocked_call = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
            await tools.until_running("a")
            await trio.sleep(1)
            began = trio.current_time()
            await app.drain(2)
            assert trio.current_time() - began < 4
            assert blocked_call.returned.is_set()
            assert (app.running, tools.cancelled) == (0, ["a"])
            assert repr(app) == f"<HttpEndpoint at /mcp: 0 requests, {app.sessions} sessions>"


async def test_response_completed_when_watcher_starts_during_its_last_write(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", count=1, token=1))
        await reply.message()
        # The client reads no more while the host starts the companion, 0.1 s after the request.
        reply.reading = trio.Event()
        tools.let("a1")
        await trio.sleep(0.3)
        assert reply.companions == 1
        reply.reading.set()
        assert text_of(await reply.answer()) == "a"
