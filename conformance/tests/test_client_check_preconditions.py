"""What clients do that shows nothing: it is not laid at their door."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import attrs
import pytest

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.drivers.client.fake_server import FakeServer
from mcp_conformance.drivers.client.scripted_request import ClientRequestRecord, ScriptedRequest, Session, encoded
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.scenarios.cancellation import BATCHED, WAITING
from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
from mcp_conformance.scenarios.pagination import cursors
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import LATEST, LATEST_LEGACY, R2025_03_26
from mcp_core.types.meta import CLIENT_CAPABILITIES

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import MessageSink
    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

_SETTINGS = Settings()
_PROBE: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
_CHANGED: JsonObject = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}


def _request(method: str, **params: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def _opening(capabilities: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": capabilities}}


def _evidence(scenario: str, revision: Revision, *messages: JsonObject, status: int | None = 0) -> Evidence:
    transcript = Transcript()
    server = FakeServer((revision,), _SETTINGS.timeout)
    for message in messages:
        transcript.message(encoded(message), sent=False)
        server.received.append(message)
    return Evidence(
        scenario=SCENARIOS[scenario],
        revision=revision,
        transport=Transport.STDIO,
        transcript=transcript,
        server=server,
        launches=(cast("Launch", None),),  # that there is one is enough
        status=status,
        log="",
    )


async def _judge(id: str, *runs: Evidence) -> None:
    check = next(each for each in CLIENT_CHECKS if each.id == id)
    await check.run(
        ClientUnderTest(
            revision=runs[0].revision,
            transport=Transport.STDIO,
            settings=_SETTINGS,
            runs={each.scenario.name: each for each in runs},
        )
    )


# --- a server that does not answer the probe -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "status", "outcome"),
    [
        ((), None, NotTestable),
        ((), 1, Deviation),
        ((_opening({}),), None, Deviation),
    ],
)
async def test_a_client_that_waits_longer_than_the_suite_is_not_blamed(
    more: tuple[JsonObject, ...], status: int | None, outcome: type[Exception]
) -> None:
    legacy = _evidence("meets-legacy", LATEST, _opening({}))
    silent = _evidence("meets-silent", LATEST, _PROBE, *more, status=status)

    with pytest.raises(outcome):
        await _judge("stdio.client-probe-silence", legacy, silent)


# --- roots that change -----------------------------------------------------------------------------------------------


def _with_roots(*uris: str, tells: bool = False) -> Evidence:
    opening = _opening({"roots": {"listChanged": True}})
    evidence = _evidence("conformance_roots_change", LATEST_LEGACY, opening, *([_CHANGED] if tells else []))
    for id, uri in enumerate(uris):
        response: JsonObject = {"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": uri}]}}
        evidence.server.client_requests.append(
            ClientRequestRecord(method="roots/list", request={}, response=response, name="ask_roots")
        )
    return attrs.evolve(evidence, notes={"posed": ["ask_roots"]})


@pytest.mark.parametrize("uris", [("file:///a",), ("file:///a", "file:///a")])
async def test_a_client_whose_roots_do_not_change_has_nothing_to_tell(uris: tuple[str, ...]) -> None:
    with pytest.raises(NotTestable, match="do not change"):
        await _judge("roots.client-list-changed", _with_roots(*uris))


async def test_a_client_whose_roots_change_tells_so() -> None:
    await _judge("roots.client-list-changed", _with_roots("file:///a", "file:///b", tells=True))
    with pytest.raises(Deviation, match="roots/list_changed"):
        await _judge("roots.client-list-changed", _with_roots("file:///a", "file:///b"))


# --- lists in pages ----------------------------------------------------------------------------------------------------


def _paging(*cursors: str) -> Evidence:
    asked = [_request("tools/list", cursor=cursor) for cursor in cursors]
    call = _request("tools/call", name="add_numbers")
    return _evidence("conformance_pages", LATEST_LEGACY, _request("tools/list"), *asked, call)


async def test_who_reads_one_page_alone_is_not_said_to_go_by_its_length() -> None:
    plain = _evidence("tools_call", LATEST_LEGACY, _request("tools/call", name="add_numbers"))
    with pytest.raises(NotTestable, match="follows no cursor"):
        await _judge("pagination.client-lengths", _paging())
    with pytest.raises(Deviation, match="tool_6"):
        await _judge("pagination.client-whole", _paging(), plain)


async def test_who_stops_in_the_midst_of_a_list_is_not_said_to_read_one_page_alone() -> None:
    plain = _evidence("tools_call", LATEST_LEGACY, _request("tools/call", name="add_numbers"))
    first = cursors("tools/list", LATEST_LEGACY.era)[0]
    with pytest.raises(Deviation, match="tools/list up to the cursor"):
        await _judge("pagination.client-lengths", _paging(first))
    with pytest.raises(NotTestable, match="before the end"):
        await _judge("pagination.client-whole", _paging(first), plain)


# --- what is for another check -----------------------------------------------------------------------------------------


async def test_an_answer_in_a_call_is_no_argument_of_it() -> None:
    odd: JsonObject = {"the question": {"action": "no"}}
    again = _request("tools/call", name="ask_form", arguments={}, inputResponses=odd, requestState=7)
    await _judge("tools.client-arguments", _evidence("tools_call", LATEST, again))
    listed = _request("tools/call", name="add_numbers", arguments=[1])
    with pytest.raises(Deviation, match="arguments"):
        await _judge("tools.client-arguments", _evidence("tools_call", LATEST, listed))


@pytest.mark.parametrize("member", ["experimental", "extensions"])
async def test_capabilities_are_there_even_if_what_they_map_to_is_odd(member: str) -> None:
    def declaring(declared: JsonValue) -> Evidence:
        return _evidence("tools_call", LATEST, _request("tools/list", _meta={CLIENT_CAPABILITIES: declared}))

    await _judge("meta.client-capabilities", declaring({member: {"com.example/x": True}}))
    wrong: list[JsonValue] = [{"sampling": True}, [], None]
    for odd in wrong:
        with pytest.raises(Deviation, match="ClientCapabilities"):
            await _judge("meta.client-capabilities", declaring(odd))


async def test_a_cancellation_of_nothing_is_not_said_to_be_one_of_what_is_not_the_clients() -> None:
    def cancelling(params: JsonObject) -> Evidence:
        told: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        return _evidence("conformance_cancel", LATEST, _request("tools/call", name=WAITING), told)

    with pytest.raises(NotTestable, match="has a requestId"):
        await _judge("cancellation.client-own", cancelling({"reason": "why not?"}))
    with pytest.raises(Deviation, match="of a request of the client"):
        await _judge("cancellation.client-own", cancelling({"requestId": 4711}))
    await _judge("cancellation.client-own", cancelling({"requestId": 7}))


async def test_a_line_that_is_a_batch_is_read_even_if_not_all_of_it_is_answered() -> None:
    def answering(*ids: str) -> Evidence:
        answers: list[JsonObject] = [{"jsonrpc": "2.0", "id": id, "result": {}} for id in ids]
        return _evidence("conformance_batches", R2025_03_26, _request("tools/call", name=BATCHED), *answers)

    await _judge("batch.client-receives-stdio", answering("ping 2"))
    for check in ("batch.client-receives-stdio", "batch.client-receives"):
        with pytest.raises(Deviation):
            await _judge(check, answering())
    with pytest.raises(Deviation, match="ping 1"):
        await _judge("batch.client-receives", answering("ping 2"))


# --- tasks whose requests fail -----------------------------------------------------------------------------------------


def _task_of_a_form(status: str, given: JsonObject) -> Evidence:
    opening = _opening({"elicitation": {}, "tasks": {"requests": {"elicitation": {"create": {}}}}})
    evidence = _evidence("conformance_asks_tasks", LATEST_LEGACY, opening)
    told: list[tuple[str, JsonObject]] = [
        ("create", {"result": {"task": {"taskId": "1"}}}),
        ("result", given),
        ("ended", {"result": {"taskId": "1", "status": status}}),
        ("again", given),
    ]
    for name, response in told:
        asked = ClientRequestRecord(method="tasks/get", request={}, response=response, name=f"ask_task_form: {name}")
        evidence.server.client_requests.append(asked)
    return evidence


@pytest.mark.parametrize("check", ["tasks.client-result", "tasks.client-related-result"])
async def test_a_task_whose_request_is_refused_has_no_result_to_look_at(check: str) -> None:
    refused: JsonObject = {"error": {"code": -32602, "message": "mode is missing"}}
    with pytest.raises(NotTestable, match="no task reached its result"):
        await _judge(check, _task_of_a_form("failed", refused))
    with pytest.raises(Deviation):
        await _judge(check, _task_of_a_form("completed", {"result": {"action": "no"}}))


async def test_a_task_that_is_completed_has_a_result() -> None:
    refused: JsonObject = {"error": {"code": -32602, "message": "mode is missing"}}
    with pytest.raises(Deviation, match="ElicitResult"):
        await _judge("tasks.client-result", _task_of_a_form("completed", refused))


# --- what was refused before it came so far ----------------------------------------------------------------------------


def _telling(evidence: Evidence, *messages: JsonObject) -> Evidence:
    """With what the suite said."""
    for message in messages:
        evidence.transcript.message(encoded(message), sent=True)
    return evidence


_UNREAD: JsonObject = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "this is no JSON"}}


async def test_who_gives_up_when_it_is_refused_does_not_insist_on_a_token() -> None:
    listed = _request("tools/list")
    answers: list[tuple[JsonObject, type[Exception]]] = [
        ({"jsonrpc": "2.0", "id": 7, "error": {"code": -32020, "message": "Mcp-Method is missing"}}, NotTestable),
        ({"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}, Deviation),
    ]
    for answer, outcome in answers:
        with pytest.raises(outcome):
            await _judge("auth.client-optional", _telling(_evidence("tools_call", LATEST, listed, status=1), answer))


async def test_a_list_whose_pages_went_astray_says_nothing_of_their_lengths() -> None:
    asked = [_request("tools/list"), _request("tools/list", cursor=cursors("tools/list", LATEST_LEGACY.era)[0])]

    with pytest.raises(Deviation):
        await _judge("pagination.client-lengths", _evidence("conformance_pages", LATEST_LEGACY, *asked))
    evidence = _telling(_evidence("conformance_pages", LATEST_LEGACY, *asked), _UNREAD)
    with pytest.raises(NotTestable, match="could not be read"):
        await _judge("pagination.client-lengths", evidence)


async def test_a_result_that_never_came_was_not_taken_for_a_failure() -> None:
    used = _request("tools/call", name="gives_plain", arguments={})
    told: JsonObject = {"of": "gives_plain", "outcome": "failed"}
    evidence = _evidence("conformance_results", LATEST, used, _request("tools/call", name="report", arguments=told))

    with pytest.raises(Deviation):
        await _judge("tools.client-is-error-default", evidence)
    evidence.server.received.remove(used)
    with pytest.raises(NotTestable, match="was rejected"):
        await _judge("tools.client-is-error-default", evidence)


@pytest.mark.parametrize("id", [None, 1.5])
async def test_a_request_that_has_no_right_id_cannot_be_named_by_a_cancellation(id: JsonValue) -> None:
    call = {**_request("tools/call", name=WAITING), "id": id}
    named: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}

    with pytest.raises(NotTestable, match="has no valid id"):
        await _judge("cancellation.client-params", _evidence("conformance_cancel", LATEST, call, named))


@pytest.mark.parametrize("told", [1.5, True, None, {}])
async def test_a_progress_token_that_there_cannot_be_is_none_to_the_fake_server(told: JsonValue) -> None:
    for token, seen in ((told, None), ("one", "one"), (0, 0)):
        request = _request("tools/call", _meta={"progressToken": token})
        turn = ScriptedRequest(
            request, Session(revision=LATEST), cast("MessageSink", None), ids=lambda: 1, client_requests=[], timeout=0
        )
        assert turn.token == seen
