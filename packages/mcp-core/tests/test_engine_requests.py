"""Pending requests: ids, responses, errors, cancellation and its races, progress."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import (
    ALL,
    CLIENT_INFO,
    FORM,
    PARAMS,
    RESULTS,
    TASK,
    URI,
    ConnectionPair,
    from_wire,
    get_error,
    get_last_event,
    make_client,
    make_server,
    open_pair,
    pair,
    to_wire,
)
from hypothesis import given
from hypothesis import strategies as st

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.connection import InboundRequests, OutboundRequests
from mcp_core.engine.events import (
    CancelReceived,
    ErrorReceived,
    MessageIgnored,
    NotificationReceived,
    ProgressReceived,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.request_meta import write_envelope
from mcp_core.errors import (
    ErrorCode,
    InvalidValue,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    ResourceNotFound,
)
from mcp_core.jsonrpc.messages import (
    ErrorObject,
    ErrorResponse,
    JsonObject,
    JsonValue,
    Notification,
    Request,
    RequestId,
    ResultResponse,
)
from mcp_core.methods import METHODS, Side
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_06_18, R2025_11_25, R2026_07_28, Revision

EVERY_REVISION: Final = pytest.mark.parametrize("revision", ALL, ids=str)
ERAS: Final = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
TOOL_RESULT: Final = RESULTS[m.TOOLS_CALL]


def receive_raw(
    both: ConnectionPair, id: RequestId, method: str = "tools/call", **params: JsonValue
) -> RequestReceived:
    """Send the server a request with any id."""
    members: JsonObject = {"name": "echo", **params}
    if both.client.server is not None and both.client.server.revision is R2026_07_28:
        envelope = to_wire(both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams()))["params"]
        assert isinstance(envelope, dict)
        meta = envelope["_meta"]
        more = members.get("_meta")
        assert isinstance(meta, dict)
        members["_meta"] = {**meta, **(more if isinstance(more, dict) else {})}
    event = both.server.receive(Request(id, method, members)).event
    assert isinstance(event, RequestReceived), event
    return event


# --- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("jsonrpc.result-response-id", "jsonrpc.result-id-echo", "jsonrpc.error-response-id")
@pytest.mark.spec("jsonrpc.error-id-echo", "jsonrpc.request-id-type")
@pytest.mark.parametrize("id", [0, -1, 1, "1", "", "0", 2**63 - 1, 2**64 - 1, -(2**63), "a" * 200, "ü\n", "null"])
@ERAS
def test_request_id_any_value_echoed_unchanged(id: RequestId, revision: Revision) -> None:
    both = open_pair(revision)
    assert receive_raw(both, id).id == id
    assert list(both.server.inbound_requests) == [id]
    answer = to_wire(both.server.respond(id, TOOL_RESULT))["id"]
    assert (answer, type(answer)) == (id, type(id))
    receive_raw(both, id)
    answer = to_wire(both.server.fail(id, RequestFailed("no")))["id"]
    assert (answer, type(answer)) == (id, type(id))
    assert list(both.server.inbound_requests) == []


@ERAS
def test_request_ids_of_different_type_distinguished(revision: Revision) -> None:
    both = open_pair(revision)
    receive_raw(both, 1)
    receive_raw(both, "1")
    assert list(both.server.inbound_requests) == [1, "1"]
    both.server.respond("1", TOOL_RESULT)
    assert list(both.server.inbound_requests) == [1]


@pytest.mark.spec("jsonrpc.request-id-unique-in-flight", "jsonrpc.request-id-unique")
@ERAS
def test_request_id_in_flight_repeated_rejected(revision: Revision) -> None:
    both = open_pair(revision)
    first = receive_raw(both, 5)
    raw = Request(5, "tools/call", first.raw)
    code, message, _ = get_error(both.server.receive(raw))
    assert code == ErrorCode.INVALID_REQUEST
    assert "5" in message
    assert both.server.respond(5, TOOL_RESULT) is not None
    # The id of an ended request may be reused; the engine does not enforce uniqueness over the session.
    assert isinstance(both.server.receive(raw).event, RequestReceived)


@pytest.mark.spec(
    "jsonrpc.request-id-unique", "jsonrpc.request-id-unique-in-flight", "mrtr.retry-new-id", "tools.retry-new-id"
)
@EVERY_REVISION
def test_outbound_request_ids_never_reused(revision: Revision) -> None:
    both = open_pair(revision)
    for _ in range(3):
        both.respond(both.call(m.TOOLS_CALL).id, TOOL_RESULT)
    ids = [sent.message["id"] for sent in both.wire if sent.sender is Side.CLIENT and "id" in sent.message]
    assert len(ids) == len(set(map(str, ids))) >= 4


def test_request_answered_twice_raises() -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL).id
    both.server.respond(id, TOOL_RESULT)
    for command in (
        lambda: both.server.respond(id, TOOL_RESULT),
        lambda: both.server.fail(id, RequestFailed("no")),
        lambda: both.server.progress(id, 1),
        lambda: both.server.log("error", 1, for_request=id),
        lambda: both.server.acknowledge(id),
        lambda: both.server.finish(id),
        lambda: both.server.request(m.ROOTS_LIST, t.ListRootsRequestParams(), for_request=id),
        lambda: both.server.respond("never", TOOL_RESULT),
    ):
        with pytest.raises(LocalProtocolError, match="no pending inbound request"):
            command()
    both.server.withdraw(id)


@pytest.mark.spec("jsonrpc.unknown-response-ignored")
@EVERY_REVISION
def test_response_without_request_ignored_by_both_sides(revision: Revision) -> None:
    both = open_pair(revision)
    for end in (both.client, both.server):
        for message in (
            ResultResponse(99, {}),
            ResultResponse("what", {}),
            ErrorResponse(99, ErrorObject(1, "x")),
            ErrorResponse(None, ErrorObject(1, "x")),
        ):
            reaction = end.receive(message)
            assert isinstance(reaction.event, MessageIgnored)
            assert reaction.event.message == message
            assert reaction.reply is None


@pytest.mark.parametrize("id", ["01", "+1", " 1", "1.0", "-1", "¹", "9" * 30, "1_0"])
def test_response_id_not_canonical_string_ignored(id: str) -> None:
    both = open_pair(R2025_11_25)
    both.client.request(m.TOOLS_CALL, t.CallToolRequestParams(name="x"))
    assert isinstance(both.client.receive(ResultResponse(id, {})).event, MessageIgnored)


def test_response_id_as_string_accepted_with_note() -> None:
    both = open_pair(R2025_11_25)
    both.send(Side.CLIENT, both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams()))
    event = both.client.receive(ResultResponse("2", {"tools": []})).event
    assert isinstance(event, ResultReceived)
    assert event.id == 2
    assert event.notes == ("the response has the id '2', but 2 was sent",)


@pytest.mark.spec("jsonrpc.error-response-id")
def test_error_without_id_ends_only_pending_request() -> None:
    both = open_pair(R2025_11_25)
    message = ErrorResponse(None, ErrorObject(-32600, "bad"))
    first = both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams()).message
    second = both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams()).message
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert isinstance(both.client.receive(message).event, MessageIgnored)
    both.client.receive(ResultResponse(first.id, {"tools": []}))
    event = both.client.receive(message).event
    assert isinstance(event, ErrorReceived)
    assert event.id == second.id
    assert len(event.notes) == 1


# --- results ----------------------------------------------------------------------------------------------------------


@EVERY_REVISION
@pytest.mark.parametrize("row", METHODS, ids=lambda row: f"{row.name}{'*' if row.extension else ''}")
def test_result_of_each_method_delivered(row: m.RequestMethod[object, object], revision: Revision) -> None:
    both = open_pair(revision)
    if revision not in row.revisions or row in (
        m.INITIALIZE,
        m.PING,
        m.SERVER_DISCOVER,
        m.LOGGING_SET_LEVEL,
        m.SUBSCRIPTIONS_LISTEN,
    ):
        return
    result = RESULTS[row]
    if Side.CLIENT in row.sender:
        event = both.respond(both.call(row).id, result)
    else:
        both.send(Side.CLIENT, both.client.respond(both.ask(row).id, result))
        both.run()
        event = get_last_event(both.server_events, ResultReceived)
    assert isinstance(event, ResultReceived)
    assert event.method == row.name
    assert event.notes == ()
    assert isinstance(event.result, row.result)


@pytest.mark.spec(
    "jsonrpc.invalid-params-error",
    "jsonrpc.invalid-params-code",
    "tools.malformed-request-protocol-error",
    "schema.params-object",
)
@ERAS
@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": "x", "arguments": []}], ids=str)
def test_malformed_params_return_invalid_params(params: JsonObject, revision: Revision) -> None:
    both = open_pair(revision)
    envelope = to_wire(both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams()))["params"]
    assert isinstance(envelope, dict)
    reaction = both.server.receive(Request(9, "tools/call", {**envelope, **params}))
    code, message, _ = get_error(reaction)
    assert code == ErrorCode.INVALID_PARAMS
    assert "tools/call" in message
    assert 9 not in both.server.inbound_requests


@EVERY_REVISION
def test_malformed_result_ends_request(revision: Revision) -> None:
    both = open_pair(revision)
    message = both.client.request(m.COMPLETION_COMPLETE, PARAMS[m.COMPLETION_COMPLETE]).message
    assert isinstance(message, Request)
    event = both.client.receive(ResultResponse(message.id, {"completion": 5})).event
    assert isinstance(event, ErrorReceived)
    assert isinstance(event.error, InvalidValue)
    assert event.error.raw == {"completion": 5}
    assert both.client.outbound_requests == {}


@pytest.mark.spec("jsonrpc.result-any-object", "meta.unknown-keys-ignored")
@EVERY_REVISION
def test_unknown_members_preserved_in_both_directions(revision: Revision) -> None:
    both = open_pair(revision)
    params = t.CallToolRequestParams(name="x", extra={"later": 1}, meta={"com.example/a": [1]})
    request = both.call(m.TOOLS_CALL, params)
    assert isinstance(request.params, t.CallToolRequestParams)
    assert request.params.extra == {"later": 1}
    assert request.raw["later"] == 1
    assert request.params.meta is not None
    assert request.params.meta["com.example/a"] == [1]
    event = both.respond(request.id, t.CallToolResult(content=(), extra={"more": {"x": 2}}))
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.CallToolResult)
    assert event.result.extra == {"more": {"x": 2}}
    assert event.raw["more"] == {"x": 2}


@ERAS
def test_result_as_json_sent_unchanged(revision: Revision) -> None:
    both = open_pair(revision)
    raw: JsonObject = {"content": [], "anything": 1}
    event = both.respond(both.call(m.TOOLS_CALL).id, raw)
    assert isinstance(event, ResultReceived)
    assert event.raw["anything"] == 1
    assert raw == {"content": [], "anything": 1}


def test_invalid_result_leaves_request_pending() -> None:
    both = open_pair(R2024_11_05)
    id = both.call(m.TOOLS_CALL).id
    audio = t.CallToolResult(content=(t.AudioContent(data="", mime_type="audio/wav"),))
    with pytest.raises(LocalProtocolError, match="2024-11-05"):
        both.server.respond(id, audio)
    for wrong in (5, None, object(), t.ListToolsResult(tools=()), t.EmptyResult()):
        with pytest.raises(LocalProtocolError, match="tools/call"):
            both.server.respond(id, wrong)
    assert list(both.server.inbound_requests) == [id]
    assert both.server.respond(id, TOOL_RESULT) is not None


def test_params_of_other_method_raise() -> None:
    both = open_pair(R2025_11_25)
    with pytest.raises(LocalProtocolError, match="CallToolRequestParams"):
        both.client.request(m.TOOLS_CALL, t.ListToolsRequestParams())
    with pytest.raises(LocalProtocolError, match="expected"):
        both.server.request(m.ELICITATION_CREATE, t.ListToolsRequestParams(), for_request=None)
    with pytest.raises(LocalProtocolError, match="expected"):
        both.client.request(m.TOOLS_CALL, {"name": "x"})
    assert both.client.outbound_requests == both.server.outbound_requests == {}
    with pytest.raises(LocalProtocolError, match="expected"):
        both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.PromptListChangedNotificationParams())


def test_params_not_in_revision_raise() -> None:
    both = open_pair(R2025_06_18)
    params = t.CallToolRequestParams(name="x", request_state="s")
    with pytest.raises(LocalProtocolError, match="2025-06-18"):
        both.client.request(m.TOOLS_CALL, params)
    assert both.client.outbound_requests == {}


# --- errors -----------------------------------------------------------------------------------------------------------

CODES: Final = [
    # code of the error, code on the wire before 2025-11-25, in 2025-11-25, in 2026-07-28
    (ErrorCode.RESOURCE_NOT_FOUND, -32002, -32002, -32602),
    (ErrorCode.URL_ELICITATION_REQUIRED, -32600, -32042, -32600),
    (ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY, -32600, -32600, -32021),
    (ErrorCode.HEADER_MISMATCH, -32600, -32600, -32020),
    (ErrorCode.UNSUPPORTED_PROTOCOL_VERSION, -32600, -32600, -32022),
    (ErrorCode.INTERNAL_ERROR, -32603, -32603, -32603),
    (ErrorCode.USER_REJECTED, -1, -1, -1),
    (-32050, -32050, -32050, -32603),
    (-32099, -32099, -32099, -32603),
    (-32100, -32100, -32100, -32100),
    (-32019, -32019, -32019, -32019),
    (42, 42, 42, 42),
]


@pytest.mark.spec(
    "error.no-32002", "error.no-32042", "error.reserved-range-only-defined", "error.reserved-codes-meaning"
)
@pytest.mark.spec("jsonrpc.error-code-integer", "jsonrpc.error-code-message", "compat.server-dual-legacy-results")
@pytest.mark.parametrize(("code", "before", "in_2025_11_25", "in_2026_07_28"), CODES)
@EVERY_REVISION
def test_error_code_adapted_to_revision(
    code: int, before: int, in_2025_11_25: int, in_2026_07_28: int, revision: Revision
) -> None:
    both = open_pair(revision)
    id = both.call(m.TOOLS_CALL).id
    error = to_wire(both.server.fail(id, RequestFailed("no", code=code, data={"a": 1})))["error"]
    expected = {R2025_11_25: in_2025_11_25, R2026_07_28: in_2026_07_28}.get(revision, before)
    assert error == {"code": expected, "message": "no", "data": {"a": 1}}


@pytest.mark.spec("error.accept-32002")
@EVERY_REVISION
def test_resource_not_found_recognized_by_code_of_revision(revision: Revision) -> None:
    both = open_pair(revision)
    both.send(Side.SERVER, both.server.fail(both.call(m.RESOURCES_READ).id, ResourceNotFound.of(URI)))
    both.run()
    event = get_last_event(both.client_events, ErrorReceived)
    assert isinstance(event.error, ResourceNotFound)
    assert event.error.data == {"uri": URI}
    assert both.wire[-1].message["error"] == {
        "code": -32602 if revision is R2026_07_28 else -32002,
        "message": f"resource not found: {URI}",
        "data": {"uri": URI},
    }


@pytest.mark.spec("error.accept-32002", "resources.client-accept-32002")
def test_read_error_classified_by_code_and_data() -> None:
    both = open_pair(R2026_07_28)
    uri_data: JsonObject = {"uri": URI}
    for data, kind in ((None, RequestFailed), (uri_data, ResourceNotFound)):
        both.send(
            Side.SERVER, both.server.fail(both.call(m.RESOURCES_READ).id, RequestFailed("x", code=-32602, data=data))
        )
        both.run()
        assert type(get_last_event(both.client_events, ErrorReceived).error) is kind
    both.call(m.RESOURCES_READ)
    (id,) = both.client.outbound_requests
    event = both.client.receive(ErrorResponse(id, ErrorObject(-32002, "old"))).event
    assert isinstance(event, ErrorReceived)
    assert isinstance(event.error, ResourceNotFound)
    message = both.client.request(m.RESOURCES_READ, PARAMS[m.RESOURCES_READ]).message
    assert isinstance(message, Request)
    event = both.client.receive(ResultResponse(message.id, {"contents": 5})).event
    assert isinstance(event, ErrorReceived)
    assert isinstance(event.error, InvalidValue)


# --- cancellation -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("cancellation.request-id-given", "cancellation.request-id-required", "cancellation.reason-optional")
@pytest.mark.spec("cancellation.no-response", "cancellation.stop-processing", "cancellation.client-should-notify")
@EVERY_REVISION
def test_cancelled_request_sends_nothing_more(revision: Revision) -> None:
    both = open_pair(revision)
    id = both.call(m.TOOLS_CALL, progress=True).id
    assert both.server.progress(id, 1) is not None
    both.send(Side.CLIENT, both.client.cancel(id, "enough"))
    assert both.wire[-1].message["params"] == {"requestId": id, "reason": "enough"}
    both.run()
    event = get_last_event(both.server_events, CancelReceived)
    assert (event.id, event.reason) == (id, "enough")
    assert list(both.server.inbound_requests) == []
    assert both.client.outbound_requests == {}
    assert both.server.progress(id, 2) is None
    assert both.server.log("emergency", "x", for_request=id) is None
    assert both.server.notify(m.NOTIFICATIONS_TASKS_STATUS, t.EmptyResult(), for_request=id) is None
    if revision in LEGACY:
        with pytest.raises(LocalProtocolError, match="was cancelled"):
            both.server.request(m.ROOTS_LIST, t.ListRootsRequestParams(), for_request=id)
    assert both.server.respond(id, TOOL_RESULT) is None
    with pytest.raises(LocalProtocolError):
        both.server.respond(id, TOOL_RESULT)


def test_cancelled_request_failure_not_sent() -> None:
    both = open_pair(R2025_11_25)
    first, second = both.call(m.TOOLS_CALL).id, both.call(m.TOOLS_CALL).id
    for id in (first, second):
        both.send(Side.CLIENT, both.client.cancel(id))
    assert "reason" not in (both.wire[-1].message["params"] or {})  # type: ignore[operator]  # an object
    both.run()
    assert both.server.fail(first, RequestFailed("no")) is None
    both.server.withdraw(second)
    with pytest.raises(LocalProtocolError):
        both.server.fail(second, RequestFailed("no"))


@pytest.mark.spec("cancellation.races", "cancellation.race-tolerated", "cancellation.late-response-ignored")
@pytest.mark.parametrize("fails", [False, True])
@EVERY_REVISION
def test_response_crossing_cancellation_ignored_by_both_sides(revision: Revision, fails: bool) -> None:
    both = open_pair(revision)
    id = both.call(m.TOOLS_CALL).id
    both.send(Side.SERVER, both.server.fail(id, RequestFailed("no")) if fails else both.server.respond(id, TOOL_RESULT))
    both.send(Side.CLIENT, both.client.cancel(id))
    late = both.deliver(Side.CLIENT)
    assert isinstance(late.event, MessageIgnored)
    assert "crossed the cancellation" in late.event.reason
    early = both.deliver(Side.SERVER)
    assert isinstance(early.event, MessageIgnored)
    assert late.reply is early.reply is None
    assert list(both.server.inbound_requests) == []
    both.respond(both.call(m.TOOLS_CALL).id, TOOL_RESULT)


def test_late_response_with_id_as_string_ignored() -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL).id
    both.client.cancel(id)
    event = both.client.receive(ResultResponse(str(id), {"content": []})).event
    assert isinstance(event, MessageIgnored)
    assert "crossed" in event.reason


def test_cancelled_ids_remembered_up_to_bound() -> None:
    both = open_pair(R2025_11_25)
    ids = [both.call(m.TOOLS_CALL).id for _ in range(257)]
    for id in ids:
        both.client.cancel(id)
    oldest = both.client.receive(ResultResponse(ids[0], {"content": []})).event
    newest = both.client.receive(ResultResponse(ids[-1], {"content": []})).event
    assert isinstance(oldest, MessageIgnored)
    assert isinstance(newest, MessageIgnored)
    assert "unknown id" in oldest.reason
    assert "crossed" in newest.reason


@pytest.mark.spec("cancellation.invalid-ignored", "cancellation.unknown-id-ignored", "cancellation.malformed-ignored")
@pytest.mark.spec("cancellation.may-ignore")
@pytest.mark.parametrize(
    "params", [{"requestId": 99}, {"requestId": ""}, {}, {"requestId": None}, {"requestId": []}, None]
)
@EVERY_REVISION
def test_cancellation_without_request_ignored(params: JsonObject | None, revision: Revision) -> None:
    both = open_pair(revision)
    id = both.call(m.TOOLS_CALL).id
    for end in (both.client, both.server):
        reaction = end.receive(Notification("notifications/cancelled", params))
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.reply is None
    assert list(both.server.inbound_requests) == [id]


@ERAS
def test_cancellation_repeated_ignored(revision: Revision) -> None:
    both = open_pair(revision)
    id = both.call(m.TOOLS_CALL).id
    message = Notification("notifications/cancelled", {"requestId": id})
    assert isinstance(both.server.receive(message).event, CancelReceived)
    assert isinstance(both.server.receive(message).event, MessageIgnored)


def test_cancellation_with_id_as_string_accepted() -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL).id
    event = both.server.receive(Notification("notifications/cancelled", {"requestId": str(id)})).event
    assert isinstance(event, CancelReceived)
    assert event.id == id


@pytest.mark.spec("cancellation.races", "cancellation.race-tolerated")
@pytest.mark.parametrize(("past", "pending"), [("7", 7), (7, "7")])
@ERAS
def test_late_cancellation_spares_request_with_id_of_other_type(
    past: RequestId, pending: RequestId, revision: Revision
) -> None:
    both = open_pair(revision)
    receive_raw(both, past)
    both.server.respond(past, TOOL_RESULT)
    receive_raw(both, pending)
    event = both.server.receive(Notification("notifications/cancelled", {"requestId": past})).event
    assert isinstance(event, MessageIgnored)
    assert list(both.server.inbound_requests) == [pending]


def test_late_cancellation_of_rejected_request_spares_request_with_id_of_other_type() -> None:
    both = open_pair(R2025_11_25)
    assert get_error(both.server.receive(Request("7", "unknown/method", {})))[0] == ErrorCode.METHOD_NOT_FOUND
    receive_raw(both, 7)
    event = both.server.receive(Notification("notifications/cancelled", {"requestId": "7"})).event
    assert isinstance(event, MessageIgnored)


def test_cancelled_request_id_reusable_after_handler_ended() -> None:
    both = open_pair(R2025_11_25)
    receive_raw(both, 7)
    both.server.receive(Notification("notifications/cancelled", {"requestId": 7}))
    assert get_error(both.server.receive(Request(7, "tools/call", {"name": "x"})))[0] == ErrorCode.INVALID_REQUEST
    both.server.withdraw(7)
    assert receive_raw(both, 7).id == 7


@pytest.mark.spec("cancellation.not-initialize")
def test_initialize_not_cancelled() -> None:
    client = make_client(R2025_11_25)
    client.open()
    with pytest.raises(LocalProtocolError, match="initialize must not be cancelled"):
        client.cancel(1)
    assert client.outbound_requests == {1: "initialize"}


@pytest.mark.spec(
    "cancellation.in-progress",
    "cancellation.only-in-progress",
    "cancellation.same-direction",
    "cancellation.only-own-requests",
)
def test_ended_or_unknown_request_not_cancelled() -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL).id
    both.respond(id, TOOL_RESULT)
    assert both.client.cancel(id) is None
    assert both.client.cancel("never") is None
    assert both.server.cancel(id) is None


@pytest.mark.spec("cancellation.tasks-use-tasks-cancel")
def test_task_augmented_request_cancelled_without_notification() -> None:
    both = open_pair(R2025_11_25)
    params = t.CallToolRequestParams(name="slow", task=t.TaskMetadata(ttl=5))
    id = both.call(m.TOOLS_CALL, params).id
    assert both.client.cancel(id) is None
    assert both.client.outbound_requests == {}
    both.send(Side.SERVER, both.server.respond(id, t.CreateTaskResult(task=TASK)))
    both.run()
    assert isinstance(both.client_events[-1], MessageIgnored)


def test_task_augmented_request_answered_with_task() -> None:
    both = open_pair(R2025_11_25)
    params = t.CallToolRequestParams(name="slow", task=t.TaskMetadata())
    event = both.respond(both.call(m.TOOLS_CALL, params).id, t.CreateTaskResult(task=TASK))
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.CreateTaskResult)
    assert event.result.task.task_id == "t"
    with pytest.raises(LocalProtocolError, match="CallToolResult"):
        both.server.respond(both.call(m.TOOLS_CALL, params).id, TOOL_RESULT)
    # A server without tasks responds with the result of the method.
    plain = make_server(R2025_11_25, capabilities=t.ServerCapabilities(tools=t.ToolsCapability()))
    pair(R2025_11_25, plain).open()
    plain.receive(Request("t", "tools/call", {"name": "x", "task": {}}))
    assert plain.respond("t", TOOL_RESULT) is not None
    # A request that is not task-augmented must not be answered with a task.
    with pytest.raises(LocalProtocolError, match="CreateTaskResult"):
        both.server.respond(both.call(m.TOOLS_CALL).id, t.CreateTaskResult(task=TASK))


def test_server_request_cancelled() -> None:
    both = open_pair(R2025_06_18)
    id = both.ask(m.ELICITATION_CREATE).id
    both.send(Side.SERVER, both.server.cancel(id, "gone"))
    both.run()
    assert get_last_event(both.client_events, CancelReceived).id == id
    assert both.client.respond(id, RESULTS[m.ELICITATION_CREATE]) is None


def test_forgotten_request_not_cancelled_at_peer() -> None:
    both = open_pair(R2026_07_28)
    id = both.call(m.TOOLS_CALL).id
    both.client.forget(id)
    both.client.forget("never")
    assert both.client.outbound_requests == {}
    both.send(Side.SERVER, both.server.respond(id, TOOL_RESULT))
    both.run()
    assert isinstance(both.client_events[-1], MessageIgnored)


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "progress.known-token",
    "progress.token-echo",
    "progress.increasing",
    "progress.fields",
    "meta.progress-token-no-prefix",
)
@pytest.mark.spec("progress.float", "progress.float-allowed", "progress.token-type", "progress.track-tokens")
@EVERY_REVISION
def test_progress_reported_for_request_with_token(revision: Revision) -> None:
    both = open_pair(revision)
    request = both.call(m.TOOLS_CALL, progress=True)
    both.send(Side.SERVER, both.server.progress(request.id, 0.5, 2, "half"))
    both.run()
    event = get_last_event(both.client_events, ProgressReceived)
    assert event.id == request.id
    assert event.notes == ()
    assert (event.params.progress, event.params.total) == (0.5, 2)
    assert event.params.message == (None if revision is R2024_11_05 else "half")
    assert isinstance(both.wire[-1].message["params"], dict)
    assert both.wire[-1].message["params"]["progressToken"] == request.id


@pytest.mark.spec("progress.only-with-token", "progress.known-token")
@EVERY_REVISION
def test_progress_without_token_not_sent(revision: Revision) -> None:
    both = open_pair(revision)
    assert both.server.progress(both.call(m.TOOLS_CALL).id, 1) is None


@pytest.mark.spec("progress.increasing")
@pytest.mark.parametrize("value", [1.0, 0.5, 0, -1, float("nan"), float("inf"), float("-inf")])
def test_outbound_progress_not_increasing_raises(value: float) -> None:
    both = open_pair(R2026_07_28)
    id = both.call(m.TOOLS_CALL, progress=True).id
    both.server.progress(id, 1)
    with pytest.raises(LocalProtocolError, match=r"increase|finite"):
        both.server.progress(id, value)
    assert both.server.progress(id, 1.25) is not None


def test_outbound_progress_first_value_not_finite_raises() -> None:
    both = open_pair(R2026_07_28)
    id = both.call(m.TOOLS_CALL, progress=True).id
    with pytest.raises(LocalProtocolError, match="finite"):
        both.server.progress(id, float("nan"))
    assert both.server.progress(id, -5) is not None


@pytest.mark.parametrize("value", [1, 0.5, 0])
def test_inbound_progress_not_increasing_ignored(value: float) -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL, progress=True).id
    both.send(Side.SERVER, both.server.progress(id, 1))
    both.run()
    event = both.client.receive(Notification("notifications/progress", {"progressToken": id, "progress": value})).event
    assert isinstance(event, MessageIgnored)
    assert "increase" in event.reason


@pytest.mark.spec("progress.in-progress", "progress.stop-after-completion", "progress.client-tracks")
@pytest.mark.parametrize("token", [99, "x", "", 0, "2"])
def test_progress_for_unknown_token_ignored(token: RequestId) -> None:
    both = open_pair(R2025_11_25)
    both.call(m.TOOLS_CALL)
    for end in (both.client, both.server):
        event = end.receive(Notification("notifications/progress", {"progressToken": token, "progress": 1})).event
        assert isinstance(event, MessageIgnored)


def test_progress_after_response_ignored() -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL, progress=True).id
    late = both.server.progress(id, 1)
    both.respond(id, TOOL_RESULT)
    both.send(Side.SERVER, late)
    both.run()
    assert isinstance(both.client_events[-1], MessageIgnored)


def test_progress_token_as_string_accepted_with_note() -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL, progress=True).id
    event = both.client.receive(Notification("notifications/progress", {"progressToken": str(id), "progress": 1})).event
    assert isinstance(event, ProgressReceived)
    assert event.id == id
    assert event.notes == (f"the progress token is {str(id)!r}, but {id!r} was sent",)


@pytest.mark.spec("progress.token-echo", "progress.known-token")
@pytest.mark.parametrize("token", [0, -5, "", "t", 2**63])
@ERAS
def test_progress_token_any_value_echoed_unchanged(token: RequestId, revision: Revision) -> None:
    both = open_pair(revision)
    receive_raw(both, "r", _meta={"progressToken": token})
    params = to_wire(both.server.progress("r", 1))["params"]
    assert params == {"progressToken": token, "progress": 1}


@pytest.mark.parametrize("token", [True, 1.5, None, [], {}])
@ERAS
def test_progress_token_invalid_disables_progress(token: JsonValue, revision: Revision) -> None:
    both = open_pair(revision)
    receive_raw(both, "r", _meta={"progressToken": token})
    assert both.server.progress("r", 1) is None


@pytest.mark.spec("progress.token-unique")
def test_progress_tokens_of_concurrent_requests_distinguished() -> None:
    both = open_pair(R2025_11_25)
    first, second = both.call(m.TOOLS_CALL, progress=True), both.call(m.TOOLS_CALL, progress=True)
    both.send(Side.SERVER, both.server.progress(second.id, 1), both.server.progress(first.id, 1))
    both.run()
    assert [event.id for event in both.client_events if isinstance(event, ProgressReceived)] == [second.id, first.id]


def test_client_reports_progress_of_server_request() -> None:
    both = open_pair(R2025_11_25)
    message = Request("s", "elicitation/create", {**form_params(), "_meta": {"progressToken": "p"}})
    assert isinstance(both.client.receive(message).event, RequestReceived)
    assert to_wire(both.client.progress("s", 1, message="typing"))["params"] == {
        "progressToken": "p",
        "progress": 1,
        "message": "typing",
    }


def form_params() -> JsonObject:
    from mcp_core.conversion.converter import converter

    return converter(R2025_11_25).unstructure(FORM)


# --- related requests -------------------------------------------------------------------------------------------------


@pytest.mark.spec("jsonrpc.request-scoped-notifications")
def test_outgoing_message_names_related_request() -> None:
    both = open_pair(R2025_11_25)
    id = both.call(m.TOOLS_CALL, progress=True).id
    progress, log = both.server.progress(id, 1), both.server.log("error", 1, for_request=id)
    elicitation = both.server.request(m.ELICITATION_CREATE, FORM, for_request=id)
    assert progress is not None
    assert log is not None
    assert progress.for_request == log.for_request == elicitation.for_request == id
    published = both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams())
    assert [each.for_request for each in published] == [None]
    answer = both.server.respond(id, TOOL_RESULT)
    assert answer is not None
    assert answer.for_request == id
    rejection = both.server.receive(Request("bad", "what")).reply
    assert rejection is not None
    assert rejection.for_request == "bad"


@pytest.mark.spec("jsonrpc.concurrent-requests", "jsonrpc.stateless-interleaving", "stdio.correlate-by-id")
@ERAS
def test_responses_accepted_in_any_order(revision: Revision) -> None:
    both = open_pair(revision)
    ids = [both.call(m.TOOLS_CALL).id for _ in range(5)]
    for id in reversed(ids):
        event = both.respond(id, t.CallToolResult(content=(t.TextContent(text=str(id)),)))
        assert isinstance(event, ResultReceived)
        assert event.id == id
        assert isinstance(event.result, t.CallToolResult)
        assert event.result.content == (t.TextContent(text=str(id)),)


# --- arbitrary messages ------------------------------------------------------------------------------------------------

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)
MEMBERS: Final = st.sampled_from(
    ["_meta", "name", "uri", "requestId", "progressToken", "progress", "level", "data", "notifications", "cursor",
     "protocolVersion", "capabilities", "clientInfo", "arguments", "task", "messages", "maxTokens", "inputResponses"]
)  # fmt: skip
META: Final = st.dictionaries(
    st.sampled_from(
        ["progressToken", "io.modelcontextprotocol/subscriptionId", "io.modelcontextprotocol/protocolVersion",
         "io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo",
         "io.modelcontextprotocol/logLevel"]
    ),
    JSON | st.sampled_from(["2026-07-28", "2025-11-25", "debug"]) | st.just({}),
    max_size=6,
)  # fmt: skip
PARAMETERS: Final = st.none() | st.dictionaries(MEMBERS, JSON | META, max_size=5)
NAMES: Final = (
    st.sampled_from(sorted({row.name for row in m.METHODS} | {row.name for row in m.NOTIFICATIONS} | set(m.ALIASES)))
    | st.text()
)
IDS: Final = st.integers(-1, 4) | st.sampled_from(["1", "2", "", "x"])
MESSAGES: Final = st.one_of(
    st.builds(Request, IDS, NAMES, PARAMETERS),
    st.builds(Notification, NAMES, PARAMETERS),
    st.builds(ResultResponse, IDS, st.dictionaries(MEMBERS | st.just("resultType"), JSON, max_size=5)),
    st.builds(ErrorResponse, st.none() | IDS, st.builds(ErrorObject, st.integers(), st.text(), JSON)),
)


@pytest.mark.property
@given(st.sampled_from(ALL), st.sampled_from([Side.CLIENT, Side.SERVER]), st.booleans(), st.lists(MESSAGES, max_size=8))
def test_receive_arbitrary_message_never_raises(
    revision: Revision, role: Side, open_first: bool, messages: list[object]
) -> None:
    both = open_pair(revision) if open_first else ConnectionPair(make_client(revision), make_server(revision))
    if open_first:
        both.call(m.TOOLS_CALL, progress=True)
    else:
        both.client.open()
    for message in messages:
        assert isinstance(message, (Request, Notification, ResultResponse, ErrorResponse))
        reaction = both.connection(role).receive(message)
        if isinstance(message, Request) and not isinstance(reaction.event, RequestReceived):
            assert reaction.reply is not None or revision is R2026_07_28
        if not isinstance(message, Request) and reaction.reply is not None:
            assert isinstance(reaction.reply.message, (Request, Notification))


# --- tables of requests -----------------------------------------------------------------------------------------------


def test_outbound_request_without_progress_has_no_token() -> None:
    outbound = OutboundRequests()
    request = outbound.begin(m.TOOLS_CALL, R2025_11_25, t.CallToolResult, progress=False, augmented=False)
    assert outbound.with_token(request.id) == (None, None)
    assert outbound.cancel(99) is None


def test_inbound_settle_unknown_id_raises() -> None:
    with pytest.raises(LocalProtocolError):
        InboundRequests().settle(1)
    assert InboundRequests().cancel("x") is None


@EVERY_REVISION
def test_error_without_id_form_follows_session_revision(revision: Revision) -> None:
    both = open_pair(revision)
    expected = revision not in (R2025_11_25, R2026_07_28)
    assert both.client.error_ids_are_null is both.server.error_ids_are_null is expected


@EVERY_REVISION
def test_error_without_id_before_negotiation_has_null_id(revision: Revision) -> None:
    for revisions in ((revision,), (revision, R2026_07_28)):
        # If all revisions of the server leave the member out, the engine leaves it out at once.
        assert make_server(*revisions).error_ids_are_null is (revision not in (R2025_11_25, R2026_07_28))
    assert make_server(revision, R2024_11_05).error_ids_are_null


def test_error_without_id_after_modern_request_has_no_id_member() -> None:
    server = make_server()
    meta = write_envelope(R2026_07_28, CLIENT_INFO, t.ClientCapabilities())
    unknown: JsonObject = {**meta, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    assert get_error(server.receive(Request(1, "tools/list", {"_meta": unknown})))
    before = server.error_ids_are_null
    server.receive(Request(2, "tools/list", {"_meta": meta}))
    between = server.error_ids_are_null
    # After the handshake, the session decides.
    info: JsonObject = {"name": "c", "version": "1"}
    server.receive(Request(3, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}))
    assert (before, between, server.error_ids_are_null) == (True, False, True)


def test_notification_has_subscription_id_of_meta() -> None:
    both = open_pair(R2025_11_25)
    meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": "x"}
    message = from_wire({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})
    event = both.client.receive(message).event
    assert isinstance(event, NotificationReceived)
    assert event.subscription == "x"


def test_invalid_value_is_remote_protocol_error() -> None:
    assert issubclass(InvalidValue, RemoteProtocolError)
