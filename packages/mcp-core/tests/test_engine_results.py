"""Results of requests: their kinds, and the conditions under which a client accepts them."""

from __future__ import annotations

from typing import Final

import attrs
import pytest
from engine_pair import (
    ALL,
    FORM,
    NO_CLIENT_CAPABILITIES,
    RESULTS,
    SAMPLE,
    TIME,
    ConnectionPair,
    make_client,
    make_server,
    open_pair,
    pair,
)

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.events import ErrorReceived, ResultReceived
from mcp_core.engine.results import allowed_results, undeclared_need, understands_tasks
from mcp_core.errors import LocalProtocolError, MissingRequiredClientCapability, RemoteProtocolError
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, ResultResponse
from mcp_core.methods import METHODS, RequestMethod, Side
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, Revision

URL: Final = t.ElicitRequestURLParams(message="go", url="https://example.com/")
TASK: Final = t.CreateExtensionTaskResult(
    task_id="t", status="working", created_at=TIME, last_updated_at=TIME, ttl_ms=None
)
MRTR_METHODS: Final = (m.TOOLS_CALL, m.PROMPTS_GET, m.RESOURCES_READ)


def input_required(*requests: t.InputRequest, state: str | None = None) -> t.InputRequiredResult:
    return t.InputRequiredResult(
        input_requests={str(index): each for index, each in enumerate(requests)} or None, request_state=state
    )


def open_with_client(capabilities: t.ClientCapabilities) -> ConnectionPair:
    return pair(make_client(R2026_07_28, capabilities=capabilities), make_server(R2026_07_28)).open()


def receive_result(both: ConnectionPair, result: JsonObject) -> ResultReceived | ErrorReceived:
    """Receive any result of a tool at the client, and return the event."""
    id = both.call(m.TOOLS_CALL).id
    event = both.client.receive(ResultResponse(id, result)).event
    assert isinstance(event, (ResultReceived, ErrorReceived))
    assert id not in both.client.outbound_requests
    return event


@pytest.mark.spec("mrtr.allowed-methods", "mrtr.not-on-other-methods", "jsonrpc.result-type-input-required")
@pytest.mark.parametrize(
    "row",
    [row for row in METHODS if R2026_07_28 in row.revisions and row is not m.SERVER_DISCOVER],
    ids=lambda row: row.name,
)
def test_input_required_result_only_for_mrtr_methods(row: RequestMethod[object, object]) -> None:
    both = open_pair(R2026_07_28)
    id = both.call(row).id
    if row is m.SUBSCRIPTIONS_LISTEN:
        both.server.acknowledge(id)
    result = input_required(t.ElicitRequest(params=FORM), state="s")
    if row in MRTR_METHODS:
        event = both.respond(id, result)
        assert isinstance(event, ResultReceived)
        meta = event.raw["_meta"]
        assert isinstance(meta, dict)
        assert event.result == attrs.evolve(result, meta=meta)
        assert event.raw["resultType"] == "input_required"
    else:
        with pytest.raises(LocalProtocolError, match="InputRequiredResult"):
            both.server.respond(id, result)
        assert both.server.inbound_requests == (id,)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_input_required_result_legacy_revision_raises(revision: Revision) -> None:
    both = open_pair(revision)
    with pytest.raises(LocalProtocolError):
        both.server.respond(both.call(m.TOOLS_CALL).id, input_required(state="s"))


@pytest.mark.spec("mrtr.at-least-one-field", "mrtr.input-requests-optional", "mrtr.request-state-optional")
def test_input_required_result_without_requests_and_state_raises() -> None:
    both = open_pair(R2026_07_28)
    id = both.call(m.TOOLS_CALL).id
    for empty in (input_required(), t.InputRequiredResult(input_requests={})):
        with pytest.raises(LocalProtocolError, match="inputRequests or requestState"):
            both.server.respond(id, empty)
    assert isinstance(both.respond(id, input_required(state="")), ResultReceived)


@pytest.mark.spec(
    "mrtr.respect-client-capabilities",
    "mrtr.respect-elicitation-mode",
    "mrtr.input-requests-kinds",
    "sampling.tools-only-if-declared",
    "sampling.client-rejects-undeclared-tools",
    "roots.server-checks-capability",
)
@pytest.mark.spec("capability.missing-required-error", "capability.missing-required-data")
@pytest.mark.parametrize(
    ("declared", "input_request", "missing"),
    [
        (t.ClientCapabilities(), t.ElicitRequest(params=FORM), {"elicitation": {}}),
        (t.ClientCapabilities(), t.CreateMessageRequest(params=SAMPLE), {"sampling": {}}),
        (t.ClientCapabilities(), t.ListRootsRequest(), {"roots": {}}),
        (
            t.ClientCapabilities(elicitation=t.ElicitationCapability()),
            t.ElicitRequest(params=URL),
            {"elicitation": {"url": {}}},
        ),
        (
            t.ClientCapabilities(elicitation=t.ElicitationCapability(url={})),
            t.ElicitRequest(params=FORM),
            {"elicitation": {"form": {}}},
        ),
        (
            t.ClientCapabilities(sampling=t.SamplingCapability()),
            t.CreateMessageRequest(params=attrs.evolve(SAMPLE, tools=())),
            {"sampling": {"tools": {}}},
        ),
    ],
)
def test_input_request_for_undeclared_capability_rejected_on_both_sides(
    declared: t.ClientCapabilities, input_request: t.InputRequest, missing: JsonObject
) -> None:
    both = open_with_client(declared)
    id = both.call(m.TOOLS_CALL).id
    with pytest.raises(MissingRequiredClientCapability) as caught:
        both.server.respond(id, input_required(input_request))
    assert caught.value.data == {"requiredCapabilities": missing}
    # The server can send this error to the client.
    assert both.server.fail(id, caught.value) is not None
    # A server without checks sends the result nevertheless.
    from mcp_core.conversion.converter import converter

    event = receive_result(both, converter(R2026_07_28).unstructure(input_required(input_request)))
    assert isinstance(event, ErrorReceived)
    assert isinstance(event.error, RemoteProtocolError)
    assert "did not declare" in event.error.message


@pytest.mark.spec("mrtr.input-requests-shape", "elicitation.capability-empty-is-form")
def test_input_requests_for_declared_capabilities_accepted() -> None:
    both = open_with_client(
        t.ClientCapabilities(
            roots=t.RootsCapability(),
            sampling=t.SamplingCapability(tools={}),
            elicitation=t.ElicitationCapability(form={}, url={}),
        )
    )
    requests = (
        t.ElicitRequest(params=FORM),
        t.ElicitRequest(params=URL),
        t.CreateMessageRequest(params=attrs.evolve(SAMPLE, tools=())),
        t.ListRootsRequest(),
    )
    event = both.respond(both.call(m.TOOLS_CALL).id, input_required(*requests))
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.InputRequiredResult)
    assert event.result.input_requests is not None
    assert [type(each) for each in event.result.input_requests.values()] == [type(each) for each in requests]


@pytest.mark.spec("jsonrpc.result-type-unrecognized-invalid", "jsonrpc.result-type-accepted-set")
@pytest.mark.parametrize("kind", ["task2", "", "Complete", 5, None, {}])
def test_result_of_unknown_type_is_failure(kind: JsonValue) -> None:
    event = receive_result(open_pair(R2026_07_28), {"resultType": kind, "content": []})
    assert isinstance(event, ErrorReceived)
    assert isinstance(event.error, RemoteProtocolError)
    assert "resultType" in event.error.message


@pytest.mark.spec(
    "jsonrpc.result-type-absent-is-complete", "compat.client-absent-result-type", "tools.is-error-default-false"
)
@pytest.mark.parametrize("revision", ALL, ids=str)
def test_result_without_type_is_complete(revision: Revision) -> None:
    event = receive_result(open_pair(revision), {"content": []})
    assert isinstance(event, ResultReceived)
    assert event.result == t.CallToolResult(content=())


@pytest.mark.spec(
    "jsonrpc.result-type-accepted-set",
    "jsonrpc.result-type-not-unadvertised",
    "jsonrpc.result-type-extension-values",
    "tasks.supported-methods",
)
def test_task_result_requires_tasks_extension_of_client() -> None:
    both = open_pair(R2026_07_28)
    event = both.respond(both.call(m.TOOLS_CALL).id, TASK)
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.CreateExtensionTaskResult)
    event = receive_result(open_with_client(NO_CLIENT_CAPABILITIES), {**event.raw})
    assert isinstance(event, ErrorReceived)
    both = open_with_client(NO_CLIENT_CAPABILITIES)
    id = both.call(m.TOOLS_CALL).id
    with pytest.raises(MissingRequiredClientCapability):
        both.server.respond(id, TASK)
    with pytest.raises(LocalProtocolError):
        both.server.respond(both.call(m.TOOLS_LIST).id, TASK)


@pytest.mark.parametrize("kind", ["input_required", "task", "what"])
def test_complete_result_with_other_type_raises(kind: str) -> None:
    both = open_pair(R2026_07_28)
    with pytest.raises(LocalProtocolError, match=kind):
        both.server.respond(both.call(m.TOOLS_CALL).id, t.CallToolResult(content=(), result_type=kind))


def test_tasks_result_returns_any_result() -> None:
    both = open_pair(R2025_11_25)
    for result in (RESULTS[m.TOOLS_CALL], t.GetTaskPayloadResult(extra={"x": 1})):
        assert isinstance(both.respond(both.call(m.TASKS_RESULT).id, result), ResultReceived)
    with pytest.raises(LocalProtocolError):
        both.server.respond(both.call(m.TASKS_RESULT).id, FORM)


def test_client_result_of_other_method_raises() -> None:
    both = open_pair(R2025_11_25)
    id = both.ask(m.ELICITATION_CREATE).id
    with pytest.raises(LocalProtocolError, match="elicitation/create"):
        both.client.respond(id, RESULTS[m.ROOTS_LIST])
    both.send(Side.CLIENT, both.client.respond(id, RESULTS[m.ELICITATION_CREATE]))
    both.run()
    assert isinstance(both.server_events[-1], ResultReceived)


def test_allowed_results_follow_method_and_revision() -> None:
    assert set(allowed_results(m.TOOLS_CALL, R2026_07_28, tasks=True)) == {"complete", "input_required", "task"}
    assert set(allowed_results(m.TOOLS_CALL, R2026_07_28, tasks=False)) == {"complete", "input_required"}
    assert set(allowed_results(m.TOOLS_LIST, R2026_07_28, tasks=True)) == {"complete"}
    assert set(allowed_results(m.TOOLS_CALL, R2025_11_25, tasks=True)) == {"complete"}
    assert not understands_tasks(NO_CLIENT_CAPABILITIES)
    assert undeclared_need(input_required(state="s"), R2026_07_28, NO_CLIENT_CAPABILITIES) is None
