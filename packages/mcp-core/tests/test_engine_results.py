"""What may answer a request: kinds of results, and the conditions under which a client takes them."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import (
    ALL,
    FORM,
    NOTHING_DECLARED,
    RESULTS,
    SAMPLE,
    WHEN,
    ConnectionPair,
    make_client,
    make_server,
    opened,
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
    task_id="t", status="working", created_at=WHEN, last_updated_at=WHEN, ttl_ms=None
)
MAY_NEED_INPUT: Final = (m.TOOLS_CALL, m.PROMPTS_GET, m.RESOURCES_READ)


def question(*asked: t.InputRequest, state: str | None = None) -> t.InputRequiredResult:
    return t.InputRequiredResult(
        input_requests={str(index): each for index, each in enumerate(asked)} or None, request_state=state
    )


def with_client(capabilities: t.ClientCapabilities) -> ConnectionPair:
    return pair(make_client(R2026_07_28, capabilities=capabilities), make_server(R2026_07_28)).open()


def raw_answer(both: ConnectionPair, result: JsonObject) -> ResultReceived | ErrorReceived:
    """The client receives any result of a tool."""
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
def test_only_some_methods_are_answered_by_a_question(row: RequestMethod[object, object]) -> None:
    both = opened(R2026_07_28)
    id = both.call(row).id
    if row is m.SUBSCRIPTIONS_LISTEN:
        both.server.acknowledge(id)
    asked = question(t.ElicitRequest(params=FORM), state="s")
    if row in MAY_NEED_INPUT:
        event = both.respond(id, asked)
        assert isinstance(event, ResultReceived)
        assert event.result == t.evolve(asked, meta=event.raw["_meta"])
        assert event.raw["resultType"] == "input_required"
    else:
        with pytest.raises(LocalProtocolError, match="InputRequiredResult"):
            both.server.respond(id, asked)
        assert both.server.inbound_requests == (id,)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_legacy_requests_are_never_answered_by_a_question(revision: Revision) -> None:
    both = opened(revision)
    with pytest.raises(LocalProtocolError):
        both.server.respond(both.call(m.TOOLS_CALL).id, question(state="s"))


@pytest.mark.spec("mrtr.at-least-one-field", "mrtr.input-requests-optional", "mrtr.request-state-optional")
def test_a_question_has_requests_or_a_state() -> None:
    both = opened(R2026_07_28)
    id = both.call(m.TOOLS_CALL).id
    for empty in (question(), t.InputRequiredResult(input_requests={})):
        with pytest.raises(LocalProtocolError, match="inputRequests or requestState"):
            both.server.respond(id, empty)
    assert isinstance(both.respond(id, question(state="")), ResultReceived)


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
    ("declared", "asked", "missing"),
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
            t.CreateMessageRequest(params=t.evolve(SAMPLE, tools=())),
            {"sampling": {"tools": {}}},
        ),
    ],
)
def test_a_question_asks_for_nothing_that_the_request_did_not_declare(
    declared: t.ClientCapabilities, asked: t.InputRequest, missing: JsonObject
) -> None:
    both = with_client(declared)
    id = both.call(m.TOOLS_CALL).id
    with pytest.raises(MissingRequiredClientCapability) as refused:
        both.server.respond(id, question(asked))
    assert refused.value.data == {"requiredCapabilities": missing}
    # It is what the client is to be told.
    assert both.server.fail(id, refused.value) is not None
    # A server without scruples asks all the same.
    from mcp_core.conversion.converter import converter

    event = raw_answer(both, converter(R2026_07_28).unstructure(question(asked)))
    assert isinstance(event, ErrorReceived)
    assert isinstance(event.error, RemoteProtocolError)
    assert "did not declare" in event.error.message


@pytest.mark.spec("mrtr.input-requests-shape", "elicitation.capability-empty-is-form")
def test_questions_that_were_declared_go_through() -> None:
    both = with_client(
        t.ClientCapabilities(
            roots=t.RootsCapability(),
            sampling=t.SamplingCapability(tools={}),
            elicitation=t.ElicitationCapability(form={}, url={}),
        )
    )
    asked = (
        t.ElicitRequest(params=FORM),
        t.ElicitRequest(params=URL),
        t.CreateMessageRequest(params=t.evolve(SAMPLE, tools=())),
        t.ListRootsRequest(),
    )
    event = both.respond(both.call(m.TOOLS_CALL).id, question(*asked))
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.InputRequiredResult)
    assert event.result.input_requests is not None
    assert [type(each) for each in event.result.input_requests.values()] == [type(each) for each in asked]


@pytest.mark.spec("jsonrpc.result-type-unrecognized-invalid", "jsonrpc.result-type-accepted-set")
@pytest.mark.parametrize("kind", ["task2", "", "Complete", 5, None, {}])
def test_a_result_of_an_unknown_kind_is_no_success(kind: JsonValue) -> None:
    event = raw_answer(opened(R2026_07_28), {"resultType": kind, "content": []})
    assert isinstance(event, ErrorReceived)
    assert isinstance(event.error, RemoteProtocolError)
    assert "resultType" in event.error.message


@pytest.mark.spec(
    "jsonrpc.result-type-absent-is-complete", "compat.client-absent-result-type", "tools.is-error-default-false"
)
@pytest.mark.parametrize("revision", ALL, ids=str)
def test_a_result_without_a_kind_is_complete(revision: Revision) -> None:
    event = raw_answer(opened(revision), {"content": []})
    assert isinstance(event, ResultReceived)
    assert event.result == t.CallToolResult(content=())


@pytest.mark.spec(
    "jsonrpc.result-type-accepted-set",
    "jsonrpc.result-type-not-unadvertised",
    "jsonrpc.result-type-extension-values",
    "tasks.supported-methods",
)
def test_a_task_is_a_result_only_for_clients_that_know_tasks() -> None:
    both = opened(R2026_07_28)
    event = both.respond(both.call(m.TOOLS_CALL).id, TASK)
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.CreateExtensionTaskResult)
    event = raw_answer(with_client(NOTHING_DECLARED), {**event.raw})
    assert isinstance(event, ErrorReceived)
    both = with_client(NOTHING_DECLARED)
    id = both.call(m.TOOLS_CALL).id
    with pytest.raises(MissingRequiredClientCapability):
        both.server.respond(id, TASK)
    with pytest.raises(LocalProtocolError):
        both.server.respond(both.call(m.TOOLS_LIST).id, TASK)


@pytest.mark.parametrize("kind", ["input_required", "task", "what"])
def test_a_complete_result_does_not_call_itself_otherwise(kind: str) -> None:
    both = opened(R2026_07_28)
    with pytest.raises(LocalProtocolError, match=kind):
        both.server.respond(both.call(m.TOOLS_CALL).id, t.CallToolResult(content=(), result_type=kind))


def test_the_result_of_a_task_is_that_of_any_request() -> None:
    both = opened(R2025_11_25)
    for result in (RESULTS[m.TOOLS_CALL], t.GetTaskPayloadResult(extra={"x": 1})):
        assert isinstance(both.respond(both.call(m.TASKS_RESULT).id, result), ResultReceived)
    with pytest.raises(LocalProtocolError):
        both.server.respond(both.call(m.TASKS_RESULT).id, FORM)


def test_a_client_answers_with_the_result_of_the_method() -> None:
    both = opened(R2025_11_25)
    id = both.ask(m.ELICITATION_CREATE).id
    with pytest.raises(LocalProtocolError, match="elicitation/create"):
        both.client.respond(id, RESULTS[m.ROOTS_LIST])
    both.send(Side.CLIENT, both.client.respond(id, RESULTS[m.ELICITATION_CREATE]))
    both.run()
    assert isinstance(both.server_events[-1], ResultReceived)


def test_the_kinds_of_results_are_those_of_the_table() -> None:
    assert set(allowed_results(m.TOOLS_CALL, R2026_07_28, tasks=True)) == {"complete", "input_required", "task"}
    assert set(allowed_results(m.TOOLS_CALL, R2026_07_28, tasks=False)) == {"complete", "input_required"}
    assert set(allowed_results(m.TOOLS_LIST, R2026_07_28, tasks=True)) == {"complete"}
    assert set(allowed_results(m.TOOLS_CALL, R2025_11_25, tasks=True)) == {"complete"}
    assert not understands_tasks(NOTHING_DECLARED)
    assert undeclared_need(question(state="s"), R2026_07_28, NOTHING_DECLARED) is None
