"""Requests of modern revisions over HTTP."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from asgi_host import as_object, hosted
from controlled_server import ControlledServer, text_of

from mcp_core.errors import ErrorCode, LocalProtocolError
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.methods import ROOTS_LIST
from mcp_core.revisions import MODERN, R2026_07_28
from mcp_core.types import ListRootsRequestParams
from mcp_server import Context, Server

HOOKED = pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "plain"])


def code_of(answer: JsonObject) -> JsonValue:
    return as_object(answer["error"])["code"]


# --- the form of the response -----------------------------------------------------------------------------------------


@HOOKED
@pytest.mark.spec(
    "http.single-endpoint-post",
    "http.request-response-content-type",
    "http.success-status-200",
    "http.session-id-not-minted",
    "compat.server-dual-modern-request",
)
async def test_call_without_notifications_answered_with_json(hooked: bool) -> None:
    async with hosted(ControlledServer().server.asgi(), hooked=hooked) as client:
        reply = client.post(client.call("echo", text="hello"))
        assert text_of(await reply.json()) == "hello"
        assert reply.status == 200
        assert "mcp-session-id" not in reply.headers
        assert reply.headers["cache-control"] == "no-store"
        await reply.returned.wait()
        assert reply.companions == 0


@HOOKED
@pytest.mark.spec(
    "http.sse-notifications-before-response",
    "http.sse-notifications-related",
    "http.sse-final-response-ends-stream",
    "http.sse-x-accel-buffering",
    "http.sse-no-requests",
    "progress.on-request-stream",
)
async def test_first_notification_starts_event_stream(hooked: bool) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), hooked=hooked) as client:
        reply = client.post(client.call("steps", name="a", token="t"))
        first = await reply.message()
        assert first["method"] == "notifications/progress"
        assert reply.headers["x-accel-buffering"] == "no"
        assert reply.media == "text/event-stream"
        tools.let("a1", "a2")
        events = await reply.rest()
        assert [event.event for event in events] == ["message", "message"]
        assert [event.id for event in events] == [None, None]
        assert text_of(json.loads(events[1].data)) == "a"
        assert reply.complete


async def test_progress_without_token_starts_no_stream() -> None:
    tools = ControlledServer()
    tools.let("a1", "a2")
    async with hosted(tools.server.asgi()) as client:
        assert text_of(await client.post(client.call("steps", name="a")).json()) == "a"


@HOOKED
async def test_slow_response_becomes_stream_with_keep_alive_comments(
    hooked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    tools = ControlledServer()
    app = tools.server.asgi(policy=EndpointPolicy(stream_after=5, keep_alive=15))
    async with hosted(app, hooked=hooked) as client:
        reply = client.post(client.call("hold", name="a"))
        await trio.sleep(4.9)
        assert reply.status == 0
        await trio.sleep(0.2)
        assert reply.media == "text/event-stream"
        assert reply.chunks == [b": still here\n\n"]
        await trio.sleep(31)
        assert reply.chunks == [b": still here\n\n"] * 3
        tools.let("a")
        assert text_of(await reply.message()) == "a"


@pytest.mark.spec("http.sse-comment-keepalive")
async def test_companion_that_starts_during_last_write_does_not_interrupt_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", token=1, name="a"))
        await reply.message()
        tools.let("a1")
        await reply.message()
        # The host takes the last write only after the companion has started.
        reply.reading = trio.Event()
        tools.let("a2")
        await trio.sleep(1)
        assert reply.companions == 1
        reply.reading.set()
        assert text_of(await reply.answer()) == "a"
        assert reply.complete


async def test_keep_alive_comment_only_on_silent_stream(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(policy=EndpointPolicy(keep_alive=10))) as client:
        reply = client.post(client.call("steps", name="a", token=1, count=3))
        await trio.sleep(8)
        tools.let("a1")
        await trio.sleep(9)
        assert not any(chunk.startswith(b":") for chunk in reply.chunks)
        await trio.sleep(2)
        assert reply.chunks[-1].startswith(b":")


async def test_answer_policy_stream_prefers_event_stream() -> None:
    async with hosted(ControlledServer().server.asgi(policy=EndpointPolicy(answer="stream"))) as client:
        reply = client.post(client.call("echo", text="hello"))
        assert text_of(await reply.message()) == "hello"
        refused = client.post(client.request("no/such"))
        assert code_of(await refused.json()) == ErrorCode.METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("accept", "media"), [("application/json", "application/json"), ("text/event-stream", "text/event-stream")]
)
async def test_accept_header_selects_response_form(accept: str, media: str) -> None:
    tools = ControlledServer()
    tools.let("a1", "a2")
    async with hosted(tools.server.asgi()) as client:
        for message in (
            client.call("echo", text="a"),
            client.call("steps", name="a", token=1),
            client.request("no/such"),
        ):
            reply = client.post(message, accept=accept)
            answer = await reply.answer()
            assert answer["id"] == message["id"]
            assert reply.media == media


async def test_client_accepting_only_json_waits_for_response(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        reply = client.post(client.call("hold", name="a"), accept="application/json")
        await trio.sleep(1000)
        assert reply.status == 0
        tools.let("a")
        assert text_of(await reply.json()) == "a"


async def test_notifications_of_handler_tasks_share_one_stream() -> None:
    server = Server("x", version="0")

    @server.tool
    async def many(context: Context) -> str:
        """Log 50 messages concurrently."""
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(context.info, number)
        return "done"

    async with hosted(server.asgi()) as client:
        message = client.request("tools/call", {"name": "many", "_meta": {"io.modelcontextprotocol/logLevel": "debug"}})
        reply = client.post(message)
        messages = [json.loads(event.data) for event in await reply.rest()]
        assert sorted(each["params"]["data"] for each in messages[:-1]) == list(range(50))
        assert text_of(messages[-1]) == "done"
        # Messages that arrive during a write are sent together.
        assert len(reply.chunks) < 10


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.method-not-found-404", "http.removed-methods-404")
@pytest.mark.parametrize(
    "method", ["no/such", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "initialize"]
)
async def test_unknown_method_returns_404(method: str) -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        reply = client.post(client.request(method))
        assert code_of(await reply.json()) == ErrorCode.METHOD_NOT_FOUND
        assert reply.status == 404


@pytest.mark.spec("http.header-mismatch-400", "http.unsupported-version-400", "http.missing-capability-400")
async def test_request_errors_return_400() -> None:
    server = ControlledServer().server
    async with hosted(server.asgi()) as client:
        reply = client.post(client.call("echo", text="a"), mcp_name="other")
        assert code_of(await reply.json()) == ErrorCode.HEADER_MISMATCH
        assert reply.status == 400
        message = client.call("echo", text="a")
        as_object(as_object(message["params"])["_meta"])["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
        reply = client.post(message, mcp_protocol_version="2099-01-01")
        assert code_of(await reply.json()) == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION
        assert reply.status == 400
        client.capabilities = {}
        reply = client.post(client.call("look"))
        assert code_of(await reply.json()) == ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert reply.status == 400
        message = client.call("echo", text="a")
        del as_object(message["params"])["_meta"]
        reply = client.post(message)
        assert code_of(await reply.json()) == ErrorCode.INVALID_PARAMS
        assert reply.status == 400


@pytest.mark.spec("http.other-error-status-unspecified")
async def test_handler_errors_return_200() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        reply = client.post(client.call("nobody"))
        assert code_of(await reply.json()) == ErrorCode.INVALID_PARAMS
        assert reply.status == 200


async def test_result_not_encodable_as_json_returns_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        for accept in ("application/json", "text/event-stream"):
            answer = await client.post(client.call("half"), accept=accept).answer()
            assert answer["error"] == {"code": ErrorCode.INTERNAL_ERROR, "message": "Internal error"}
    assert "cannot be sent" in caplog.text


async def test_handler_exception_text_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        reply = client.post(client.call("fail"))
        assert b"secret" not in await reply.body()
    assert "a secret" in caplog.text


# --- notifications, batches, sessions ---------------------------------------------------------------------------------


@pytest.mark.spec("http.notification-accepted-202", "cancellation.unknown-id-ignored", "cancellation.malformed-ignored")
async def test_notifications_return_202() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        await client.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        await client.notify("notifications/cancelled", {"requestId": 77})
        await client.notify("notifications/cancelled", {"requestId": [1]})
        await client.notify("notifications/unheard-of")


async def test_cancelled_notification_does_not_reach_other_request_with_same_id() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        reply = client.post(client.call("hold", name="a", id=1))
        await tools.until_running("a")
        await client.notify("notifications/cancelled", {"requestId": 1})
        tools.let("a")
        assert text_of(await reply.answer()) == "a"


@pytest.mark.spec("http.batch-rejected")
async def test_batch_or_response_returns_400() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        for message in ([client.call("echo", text="a")], {"jsonrpc": "2.0", "id": 1, "result": {}}):
            reply = client.start("POST", json.dumps(message).encode(), mcp_protocol_version=R2026_07_28.name)
            assert code_of(await reply.json()) == ErrorCode.INVALID_REQUEST
            assert reply.status == 400


@pytest.mark.spec("http.get-405", "http.delete-405", "http.session-id-ignored", "http.last-event-id-ignored")
async def test_get_and_delete_at_modern_only_server_return_405() -> None:
    async with hosted(ControlledServer(revisions=MODERN).server.asgi()) as client:
        for method in ("GET", "DELETE"):
            reply = client.start(method)
            assert (await reply.body(), reply.status)[1] == 405
            assert reply.headers["allow"] == "POST"
        reply = client.post(client.call("echo", text="a"), mcp_session_id="abc", last_event_id="1-1")
        assert text_of(await reply.json()) == "a"


@pytest.mark.spec("http.multiple-clients")
async def test_concurrent_requests_with_same_id_answered() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        replies = [client.post(client.call("hold", name=name, id=1)) for name in "abc"]
        await tools.until_running("a", "b", "c")
        tools.let("a", "b", "c")
        assert [text_of(await reply.answer()) for reply in replies] == ["a", "b", "c"]


@pytest.mark.spec(
    "elicitation.state-associated-with-user", "elicitation.bind-identity", "jsonrpc.stateless-no-connection-affinity"
)
async def test_mrtr_retry_bound_to_principal() -> None:
    tools = ControlledServer()

    async def identify(request: HttpRequest) -> str | None:
        return request.headers.get("authorization")

    async with hosted(tools.server.asgi(authenticate=identify)) as client:
        first = as_object((await client.post(client.call("look"), authorization="a").json())["result"])
        assert first["resultType"] == "input_required"
        (key,) = as_object(first["inputRequests"])
        message = client.call("look")
        as_object(message["params"]).update(
            requestState=first["requestState"], inputResponses={key: {"roots": [{"uri": "file:///x"}]}}
        )
        assert text_of(await client.post(message, authorization="a").json()) == "1"
        stolen = await client.post(message, authorization="b").json()
        assert code_of(stolen) == ErrorCode.INVALID_PARAMS


async def test_context_has_principal_and_http_request() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        assert text_of(await client.post(client.call("who"), user_agent="test").json()) == "None POST test"


async def test_release_stream_has_no_effect() -> None:
    tools = ControlledServer()
    tools.let("a")
    async with hosted(tools.server.asgi()) as client:
        reply = client.post(client.call("release", name="a", token=1))
        assert text_of(await reply.answer()) == "a"


# --- clients that disconnect ------------------------------------------------------------------------------------------


@HOOKED
@pytest.mark.spec(
    "http.cancel-on-disconnect",
    "http.cancel-server-stops",
    "http.cancel-no-more-messages",
    "cancellation.stop-processing",
)
@pytest.mark.parametrize("tool", ["hold", "steps"])
async def test_disconnect_cancels_request(tool: str, hooked: bool, autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(), hooked=hooked) as client:
        reply = client.post(client.call(tool, name="a", token=1))
        await tools.until_running("a")
        await trio.sleep(1)
        sent = len(reply.chunks)
        reply.leave()
        await reply.returned.wait()
        assert tools.cancelled == ["a"]
        assert len(reply.chunks) == sent


async def test_disconnect_of_blocked_client_cancels_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        reply = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
        await tools.until_running("a")
        await trio.sleep(10)
        reply.leave()
        await reply.returned.wait()
        assert tools.cancelled == ["a"]
        assert trio.current_time() < 20


@HOOKED
async def test_response_ready_during_stream_start_sent_on_stream(
    hooked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi(policy=EndpointPolicy(stream_after=1)), hooked=hooked) as client:
        reply = client.start("POST", client.call("hold", name="a"), blocked=True)
        await trio.sleep(2)
        tools.let("a")
        await trio.testing.wait_all_tasks_blocked()
        reply.reading.set()
        assert text_of(await reply.message()) == "a"


async def test_host_shutdown_does_not_wait_for_blocked_client(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        client.start("POST", client.call("steps", name="a", token=1), blocked=True)
        await trio.sleep(5)
    assert trio.current_time() < 10


async def test_blocked_client_abandoned_after_one_minute(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        reply = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
        await trio.sleep(61)
        await reply.returned.wait()
        assert tools.cancelled == ["a"]


async def test_disconnect_within_body_ends_request() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app) as client:
        reply = client.start("POST", b'{"jsonrpc"', whole=False)
        await trio.testing.wait_all_tasks_blocked()
        assert app.running == 1
        reply.leave()
        await reply.returned.wait()
        assert (reply.status, app.running) == (0, 0)


async def test_body_in_parts_accepted_up_to_limit() -> None:
    async with hosted(ControlledServer(Limits(message_bytes=1000)).server.asgi()) as client:
        message = client.call("echo", text="a")
        text = json.dumps(message).encode()
        headers = {"mcp_protocol_version": R2026_07_28.name, "mcp_method": "tools/call", "mcp_name": "echo"}
        reply = client.start("POST", parts=[text[:10], b"", text[10:]], more=headers)
        assert text_of(await reply.json()) == "a"
        reply = client.start("POST", parts=[b" " * 600, b" " * 600], whole=False, more=headers)
        assert (await reply.body(), reply.status)[1] == 413
        assert b"Limits.message_bytes" in await reply.body()
        reply = client.start("POST", b"", content_length="5000", more=headers)
        assert (await reply.body(), reply.status)[1] == 413


async def test_ended_request_frees_its_state() -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with hosted(app) as client:
        for leave in (False, True):
            reply = client.post(client.call("steps", name="a", token=1))
            await reply.message()
            if leave:
                reply.leave()
            tools.let("a1", "a2")
            await reply.returned.wait()
            tools.releases.clear()
        assert (app.running, app.sessions, len(app._modern_requests)) == (0, 0, 0)


async def test_handler_cancelled_during_send_keeps_stream_intact() -> None:
    server = Server("x", version="0")

    @server.tool
    async def cancel_sends(context: Context) -> str:
        """Cancel each send."""
        for number in range(20):
            with trio.CancelScope() as scope:
                scope.cancel()
                await context.info(f"{number}" * 100)
        return "done"

    async with hosted(server.asgi()) as client:
        message = client.request(
            "tools/call", {"name": "cancel_sends", "_meta": {"io.modelcontextprotocol/logLevel": "debug"}}
        )
        messages = [json.loads(event.data) for event in await client.post(message).rest()]
        assert text_of(messages[-1]) == "done"


async def test_client_request_in_modern_revision_raises() -> None:
    tools = ControlledServer()
    async with hosted(tools.server.asgi()) as client:
        client.post(client.call("hold", name="a"))
        await tools.until_running("a")
        call = tools.contexts[0]._call
        with pytest.raises(LocalProtocolError, match="must not send"):
            await call.channel.request_client(ROOTS_LIST, ListRootsRequestParams(), call)


async def test_tolerated_deviation_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="mcp_server")
    async with hosted(ControlledServer().server.asgi()) as client:
        message = client.call("echo", text="a")
        del message["jsonrpc"]
        reply = client.post(message)
        await reply.body()
    assert "tolerated deviation" in caplog.text or "request rejected" in caplog.text


# --- request queues ---------------------------------------------------------------------------------------------------


async def identify(request: HttpRequest) -> str | None:
    return request.headers.get("authorization")


@HOOKED
async def test_request_queue_of_principal_full_returns_429(hooked: bool) -> None:
    tools = ControlledServer(Limits(running_requests=1, waiting_requests=1))
    app = tools.server.asgi(authenticate=identify)
    async with hosted(app, hooked=hooked) as client:
        client.headers["authorization"] = "me"
        running = client.post(client.call("hold", name="a"))
        await tools.until_running("a")
        waiting = client.post(client.call("hold", name="b"))
        await trio.testing.wait_all_tasks_blocked()
        assert tools.running == ["a"]
        refused = client.post(client.call("hold", name="c", id="c"))
        answer = await refused.json()
        assert (refused.status, answer["id"], code_of(answer)) == (429, "c", ErrorCode.INTERNAL_ERROR)
        assert "Limits.waiting_requests" in str(as_object(answer["error"])["message"])
        assert int(refused.headers["retry-after"]) > 0
        # Other principals have their own queue, and a subscription needs no place in one.
        assert text_of(await client.post(client.call("echo", text="you"), authorization="you").answer()) == "you"
        listening = client.post(client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        assert (await listening.message())["method"] == "notifications/subscriptions/acknowledged"
        # A queued request of a disconnected client leaves the queue.
        waiting.leave()
        await waiting.returned.wait()
        assert tools.running == ["a"]
        third = client.post(client.call("hold", name="d"))
        await trio.testing.wait_all_tasks_blocked()
        tools.let("a", "d")
        assert text_of(await running.answer()) == "a"
        assert text_of(await third.answer()) == "d"


async def test_request_queue_without_authentication_is_per_request() -> None:
    tools = ControlledServer(Limits(running_requests=1, waiting_requests=0))
    async with hosted(tools.server.asgi()) as client:
        replies = [client.post(client.call("hold", name=name)) for name in "abc"]
        await tools.until_running("a", "b", "c")
        tools.let("a", "b", "c")
        assert [text_of(await each.answer()) for each in replies] == ["a", "b", "c"]


async def test_request_queue_of_principal_without_requests_is_removed() -> None:
    tools = ControlledServer()
    app = tools.server.asgi(authenticate=identify)
    async with hosted(app) as client:
        for who in "abc":
            client.headers["authorization"] = who
            assert text_of(await client.post(client.call("echo", text=who)).answer()) == who
            await client.notify("notifications/cancelled", {"requestId": 5})
        assert len(app._queues) == 0


# --- other requirements -----------------------------------------------------------------------------------------------


@pytest.mark.spec("http.notification-rejected-4xx", "http.notification-rejected-body")
async def test_rejected_notification_has_error_without_id() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        params: JsonObject = {"requestId": 5}
        note = {**client.request("notifications/cancelled", params)}
        del note["id"]
        accepted = client.post(note)
        assert (await accepted.body(), accepted.status) == (b"", 202)
        refused = client.post(note, mcp_method="notifications/other")
        answer = await refused.json()
        assert (refused.status, code_of(answer)) == (400, ErrorCode.HEADER_MISMATCH)
        assert "id" not in answer


@pytest.mark.spec("header.validation-precedence-unspecified")
async def test_request_with_several_errors_returns_400() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        whole = client.call("echo", text="x")
        bare: JsonObject = {**whole, "params": {"name": "echo", "arguments": {"text": "x"}}}
        for message, headers in (
            (bare, {"mcp_method": None}),
            (bare, {"mcp_name": "other"}),
            (whole, {"mcp_protocol_version": "2030-01-01", "mcp_name": None}),
            (whole, {"mcp_protocol_version": "2025-11-25", "mcp_method": "tools/list"}),
        ):
            refused = client.post(message, **headers)
            assert "error" in await refused.json()
            assert refused.status == 400


@pytest.mark.spec("compat.http-sse-server", "http.sse-transport-not-adopted", "http.sse-transport-migrate")
async def test_legacy_sse_endpoints_only_when_enabled() -> None:
    for enabled in (False, True):
        async with hosted(ControlledServer().server.asgi(legacy_sse=enabled)) as client:
            client.path = "/sse"
            old = client.get()
            if enabled:
                assert (await old.event()).event == "endpoint"
            else:
                assert (await old.body() != b"", old.status) == (True, 404)
            client.path = "/mcp"
            assert text_of(await client.post(client.call("echo", text="new")).answer()) == "new"


@pytest.mark.spec("subscription.method-available")
async def test_declared_change_notifications_can_be_subscribed() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        offered = as_object(as_object((await client.ask("server/discover"))["result"])["capabilities"])
        assert as_object(offered["tools"])["listChanged"] is True
        assert as_object(offered["resources"])["subscribe"] is True
        requested: JsonObject = {"toolsListChanged": True, "resourceSubscriptions": ["memo://x"]}
        listening = client.post(client.request("subscriptions/listen", {"notifications": requested}))
        acknowledged = await listening.message()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert as_object(acknowledged["params"])["notifications"] == requested


@pytest.mark.spec("compat.no-core-tasks")
async def test_tasks_capability_absent_in_modern_revision() -> None:
    async with hosted(ControlledServer().server.asgi()) as client:
        offered = as_object(as_object((await client.ask("server/discover"))["result"])["capabilities"])
        assert "tasks" not in offered
        tools = as_object((await client.ask("tools/list"))["result"])["tools"]
        assert isinstance(tools, list)
        assert not [tool for tool in tools if "execution" in as_object(tool)]
        assert len(tools) > 0
