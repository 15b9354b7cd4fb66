"""Tests of client checks on evidence that proves nothing: the check is not testable instead of failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import attrs
import pytest

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.drivers.client.fake_server import FakeServer
from mcp_conformance.drivers.client.scripted_request import ClientRequestRecord, ScriptedRequest, Session, encoded
from mcp_conformance.drivers.client.stdio_host import STARTED
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.scenarios.cache_scope import TWO_USERS, USERS, own_text
from mcp_conformance.scenarios.cancellation import BATCHED, WAITING
from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
from mcp_conformance.scenarios.pagination import cursors
from mcp_conformance.scenarios.skills import (
    ALWAYS_RIGHT,
    BY_URI,
    CHANGED,
    DIGEST,
    FILE_DIFFERS,
    FRONT_MATTER,
    HIDDEN,
    NAMESAKES,
    PDF,
    RIGHT,
    SIZE,
    SKILLS,
)
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import LATEST, LATEST_LEGACY, R2024_11_05, R2025_03_26
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import MessageSink
    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_conformance.scenarios.served_skills import ServedSkill
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

_SETTINGS = Settings()
_PROBE: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
_IN_PROGRESS = "cancellation.client-in-progress"
_CHANGED: JsonObject = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}


def _request(method: str, **params: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def _initialize(capabilities: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": capabilities}}


@attrs.frozen
class _Launch:
    """The parts of a start of the server that the checks read."""

    values: list[JsonValue]


def _evidence(scenario: str, revision: Revision, *messages: JsonObject, status: int | None = 0) -> Evidence:
    transcript = Transcript()
    server = FakeServer((revision,), _SETTINGS.timeout)
    for message in messages:
        transcript.message(encoded(message), sent=False)
        server.received.append(message)
    launch = _Launch([*messages])
    return Evidence(
        scenario=SCENARIOS[scenario],
        revision=revision,
        transport=Transport.STDIO,
        transcript=transcript,
        server=server,
        launches=(cast("Launch", launch),),
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


# --- a server that does not answer the probe ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "status", "outcome"),
    [
        ((), None, NotTestable),
        ((), 1, Deviation),
        ((_initialize({}),), None, Deviation),
    ],
)
async def test_unanswered_probe_in_running_client_is_not_testable(
    more: tuple[JsonObject, ...], status: int | None, outcome: type[Exception]
) -> None:
    legacy = _evidence("meets-legacy", LATEST, _initialize({}))
    silent = _evidence("meets-silent", LATEST, _PROBE, *more, status=status)

    with pytest.raises(outcome):
        await _judge("stdio.client-probe-silence", legacy, silent)


# --- cancellations that cross responses -------------------------------------------------------------------------------


def _exchanges(*words: str) -> Evidence:
    """Return evidence of requests (`?1`), their responses (`!1`) and cancellations (`x1`)."""
    evidence = _evidence("initialize", LATEST_LEGACY)
    for word in words:
        id = int(word[1:])
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": "ping"}
        if word[0] == "!":
            message = {"jsonrpc": "2.0", "id": id, "result": {}}
        if word[0] == "x":
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        evidence.transcript.message(encoded(message), sent=word[0] == "!")
    return evidence


async def test_cancellation_of_client_with_other_open_requests_may_cross_response() -> None:
    # Requests 3 to 5 may be of a task that goes on while another one is slow to read response 1.
    await _judge(_IN_PROGRESS, _exchanges("?1", "?2", "!1", "?3", "!3", "?4", "!4", "?5", "!5", "x1", "!2"))


async def test_cancellation_in_another_session_deviates() -> None:
    call, other = _request("tools/call", name=WAITING), _request("tools/list")
    cancellation: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    evidence = _evidence("conformance_cancel", LATEST_LEGACY, call, cancellation)
    await _judge("cancellation.client-own", evidence)

    starts = [_Launch([call, cancellation]), _Launch([{**other, "id": 8}])]
    await _judge("cancellation.client-own", attrs.evolve(evidence, launches=[cast("Launch", each) for each in starts]))
    starts = [_Launch([call]), _Launch([{**other, "id": 8}, cancellation])]
    with pytest.raises(Deviation, match="in the session"):
        await _judge(
            "cancellation.client-own", attrs.evolve(evidence, launches=[cast("Launch", each) for each in starts])
        )


async def test_progress_token_of_request_to_exited_server_may_be_used_again() -> None:
    def calling(note: str) -> Evidence:
        evidence = _evidence("conformance_crash", LATEST)
        for id in (1, 2):
            call = {**_request("tools/call", _meta={"progressToken": "one"}), "id": id}
            evidence.transcript.message(encoded(call), sent=False)
            evidence.transcript.note(note)
        return evidence

    await _judge("progress.client-unique", calling(f"{STARTED}, start 2"))
    with pytest.raises(Deviation, match="no other active request"):
        await _judge("progress.client-unique", calling("the server process: exited"))


# --- roots that change ----------------------------------------------------------------------------------------------


def _with_roots(*uris: str, notifies: bool = False) -> Evidence:
    initialize = _initialize({"roots": {"listChanged": True}})
    evidence = _evidence("conformance_roots_change", LATEST_LEGACY, initialize, *([_CHANGED] if notifies else []))
    for id, uri in enumerate(uris):
        response: JsonObject = {"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": uri}]}}
        evidence.server.client_requests.append(
            ClientRequestRecord(method="roots/list", request={}, response=response, name="ask_roots")
        )
    return attrs.evolve(evidence, notes={"posed": ["ask_roots"]})


@pytest.mark.parametrize("uris", [("file:///a",), ("file:///a", "file:///a")])
async def test_unchanged_roots_are_not_testable(uris: tuple[str, ...]) -> None:
    with pytest.raises(NotTestable, match="do not change"):
        await _judge("roots.client-list-changed", _with_roots(*uris))


async def test_changed_roots_require_notification() -> None:
    await _judge("roots.client-list-changed", _with_roots("file:///a", "file:///b", notifies=True))
    with pytest.raises(Deviation, match="roots/list_changed"):
        await _judge("roots.client-list-changed", _with_roots("file:///a", "file:///b"))


# --- pagination -------------------------------------------------------------------------------------------------------


def _paging(*cursors: str) -> Evidence:
    requests = [_request("tools/list", cursor=cursor) for cursor in cursors]
    call = _request("tools/call", name="add_numbers")
    return _evidence("conformance_pages", LATEST_LEGACY, _request("tools/list"), *requests, call)


async def test_client_reading_one_page_fails_only_whole_list_check() -> None:
    plain = _evidence("tools_call", LATEST_LEGACY, _request("tools/call", name="add_numbers"))
    with pytest.raises(NotTestable, match="follows no cursor"):
        await _judge("pagination.client-lengths", _paging())
    with pytest.raises(Deviation, match="tool_6"):
        await _judge("pagination.client-whole", _paging(), plain)


async def test_client_stopping_after_second_page_fails_only_lengths_check() -> None:
    plain = _evidence("tools_call", LATEST_LEGACY, _request("tools/call", name="add_numbers"))
    first = cursors("tools/list", LATEST_LEGACY.era)[0]
    with pytest.raises(Deviation, match="tools/list up to the cursor"):
        await _judge("pagination.client-lengths", _paging(first))
    with pytest.raises(NotTestable, match="before the end"):
        await _judge("pagination.client-whole", _paging(first), plain)


async def test_client_whose_further_pages_are_rejected_does_not_fail_cursor_check() -> None:
    evidence = _evidence("conformance_pages", LATEST, _request("tools/list"), _request("tools/list", cursor=""))
    evidence.server.received.pop()
    with pytest.raises(NotTestable, match="was rejected"):
        await _judge("pagination.client-empty-cursor", evidence)
    with pytest.raises(Deviation, match='with the cursor ""'):
        await _judge("pagination.client-empty-cursor", _evidence("conformance_pages", LATEST, _request("tools/list")))


# --- a second connection of the same process -------------------------------------------------------------------------

_MODERN_PROBE: JsonObject = {**_PROBE, "params": {"_meta": {PROTOCOL_VERSION: LATEST.name}}}


def _connections(*connections: list[JsonObject]) -> Evidence:
    evidence = _evidence("conformance_no_request", LATEST_LEGACY)
    starts = [
        _Launch([evidence.transcript.message(encoded(each), sent=False) for each in messages])
        for messages in connections
    ]
    return attrs.evolve(evidence, launches=[cast("Launch", each) for each in starts])


def test_modern_requests_before_initialize_of_each_connection_are_probes() -> None:
    evidence = _connections([_MODERN_PROBE, _initialize({})], [_MODERN_PROBE], [_initialize({})])

    assert evidence.messages == [_initialize({})] * 2


def test_modern_request_behind_initialize_is_a_message() -> None:
    evidence = _connections([_initialize({}), _MODERN_PROBE], [_initialize({})])

    assert evidence.messages == [_initialize({}), _MODERN_PROBE, _initialize({})]


@attrs.frozen
class _SseRequest:
    """The parts of an HTTP request to the endpoints of 2024-11-05 that the checks read."""

    number: int
    method: str
    message: JsonObject
    known: object = None


async def _judge_sse(*requests: _SseRequest) -> None:
    check = next(each for each in CLIENT_CHECKS if each.id == "http-sse.client-posts")
    exchanges = [cast("HttpExchange", each) for each in requests]
    evidence = attrs.evolve(_evidence("conformance_no_request", R2024_11_05), exchanges=exchanges)
    runs = {evidence.scenario.name: evidence}
    await check.run(ClientUnderTest(revision=R2024_11_05, transport=Transport.HTTP_SSE, settings=_SETTINGS, runs=runs))


async def test_second_connection_may_begin_with_initialize_by_post() -> None:
    session = object()
    first = (_SseRequest(1, "GET", {}), _SseRequest(2, "POST", _initialize({}), session))
    probe = _SseRequest(3, "POST", _initialize({}))
    await _judge_sse(*first, probe, _SseRequest(4, "GET", {}), _SseRequest(5, "POST", _initialize({}), session))

    with pytest.raises(Deviation, match="POST to the URI"):
        await _judge_sse(*first, probe)
    with pytest.raises(Deviation, match="POST to the URI"):
        await _judge_sse(*first, _SseRequest(3, "POST", _request("tools/list")), _SseRequest(4, "GET", {}))


# --- private results of two users -------------------------------------------------------------------------------------


@attrs.frozen
class _Exchange:
    """The parts of an HTTP exchange that the checks read."""

    message: JsonObject
    user: str = ""
    path: str = "/mcp"

    def header(self, name: str) -> str | None:
        """Return the Authorization header."""
        return f"Bearer {USERS[self.user]}" if self.user and name == "authorization" else None


def _report(user: str, text: str) -> _Exchange:
    arguments: JsonObject = {"of": "test://notes", "outcome": "result", "text": text}
    return _Exchange(_request("tools/call", name="report", arguments=arguments), user)


def _of_users(*exchanges: _Exchange) -> Evidence:
    return attrs.evolve(_evidence(TWO_USERS, LATEST), exchanges=[cast("HttpExchange", each) for each in exchanges])


async def test_client_that_reports_for_one_user_is_not_testable() -> None:
    with pytest.raises(NotTestable, match="no result of ben"):
        await _judge("caching.client-private", _of_users(_report("ann", own_text("ann"))))


async def test_client_without_tokens_is_not_testable() -> None:
    with pytest.raises(NotTestable, match="no result of ann and ben"):
        await _judge("caching.client-private", _of_users(_Exchange(_request("tools/list"))))


async def test_private_results_of_other_user_are_deviations() -> None:
    own = [_report(user, own_text(user)) for user in USERS]
    shared = _Exchange(_request("resources/read", uri="test://notes"), "ben")
    await _judge("caching.client-private", _of_users(*own, shared))
    for foreign in (
        _report("ben", own_text("ann")),
        _Exchange(_request("tools/call", name="notes_of_ann", arguments={}), "ben"),
        _Exchange(_request("resources/read", uri="test://notes/ann"), "ben"),
    ):
        with pytest.raises(Deviation, match="only ann received"):
            await _judge("caching.client-private", _of_users(*own, foreign))


# --- icons ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["security.client-icon-redirects", "security.client-icon-credentials"])
async def test_client_without_requests_for_icons_is_not_applicable(id: str) -> None:
    evidence = _evidence("conformance_urls", LATEST, _request("tools/list"))
    with pytest.raises(NotApplicable, match="fetches no icons"):
        await _judge(id, evidence)


# --- requests that belong to other checks -----------------------------------------------------------------------------


async def test_input_responses_are_not_tool_arguments() -> None:
    invalid: JsonObject = {"the form": {"action": "no"}}
    again = _request("tools/call", name="ask_form", arguments={}, inputResponses=invalid, requestState=7)
    await _judge("tools.client-arguments", _evidence("tools_call", LATEST, again))
    call = _request("tools/call", name="add_numbers", arguments=[1])
    with pytest.raises(Deviation, match="arguments"):
        await _judge("tools.client-arguments", _evidence("tools_call", LATEST, call))


@pytest.mark.parametrize("member", ["experimental", "extensions"])
async def test_capabilities_with_unknown_members_pass(member: str) -> None:
    def declaring(declared: JsonValue) -> Evidence:
        return _evidence("tools_call", LATEST, _request("tools/list", _meta={CLIENT_CAPABILITIES: declared}))

    await _judge("meta.client-capabilities", declaring({member: {"com.example/x": True}}))
    wrong: list[JsonValue] = [{"sampling": True}, [], None]
    for invalid in wrong:
        with pytest.raises(Deviation, match="ClientCapabilities"):
            await _judge("meta.client-capabilities", declaring(invalid))


async def test_cancellation_without_request_id_is_not_testable() -> None:
    def cancelling(params: JsonObject) -> Evidence:
        message: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        return _evidence("conformance_cancel", LATEST, _request("tools/call", name=WAITING), message)

    with pytest.raises(NotTestable, match="has a requestId"):
        await _judge("cancellation.client-own", cancelling({"reason": "why not?"}))
    with pytest.raises(Deviation, match="of a request of the client"):
        await _judge("cancellation.client-own", cancelling({"requestId": 4711}))
    await _judge("cancellation.client-own", cancelling({"requestId": 7}))


async def test_partly_answered_batch_passes_receive_check() -> None:
    def answering(*ids: str) -> Evidence:
        answers: list[JsonObject] = [{"jsonrpc": "2.0", "id": id, "result": {}} for id in ids]
        return _evidence("conformance_batches", R2025_03_26, _request("tools/call", name=BATCHED), *answers)

    await _judge("batch.client-receives-stdio", answering("ping 2"))
    for check in ("batch.client-receives-stdio", "batch.client-receives"):
        with pytest.raises(Deviation):
            await _judge(check, answering())
    with pytest.raises(Deviation, match="ping 1"):
        await _judge("batch.client-receives", answering("ping 2"))


# --- tasks whose requests fail ----------------------------------------------------------------------------------------


def _task_of_a_form(status: str, result: JsonObject) -> Evidence:
    initialize = _initialize({"elicitation": {}, "tasks": {"requests": {"elicitation": {"create": {}}}}})
    evidence = _evidence("conformance_asks_tasks", LATEST_LEGACY, initialize)
    responses: list[tuple[str, JsonObject]] = [
        ("create", {"result": {"task": {"taskId": "1"}}}),
        ("result", result),
        ("ended", {"result": {"taskId": "1", "status": status}}),
        ("again", result),
    ]
    for name, response in responses:
        request = ClientRequestRecord(method="tasks/get", request={}, response=response, name=f"ask_task_form: {name}")
        evidence.server.client_requests.append(request)
    return evidence


@pytest.mark.parametrize("check", ["tasks.client-result", "tasks.client-related-result"])
async def test_failed_task_result_is_not_testable(check: str) -> None:
    refused: JsonObject = {"error": {"code": -32602, "message": "mode is missing"}}
    with pytest.raises(NotTestable, match="no task reached its result"):
        await _judge(check, _task_of_a_form("failed", refused))
    with pytest.raises(Deviation):
        await _judge(check, _task_of_a_form("completed", {"result": {"action": "no"}}))


async def test_completed_task_without_result_deviates() -> None:
    refused: JsonObject = {"error": {"code": -32602, "message": "mode is missing"}}
    with pytest.raises(Deviation, match="ElicitResult"):
        await _judge("tasks.client-result", _task_of_a_form("completed", refused))


async def test_list_of_tasks_may_be_older_than_response_after_its_request() -> None:
    initialize = _initialize({"tasks": {"requests": {"elicitation": {"create": {}}}}})
    working: JsonObject = {"taskId": "1", "status": "working"}
    completed: JsonObject = {"taskId": "1", "status": "completed"}
    requests: dict[str, JsonObject] = {
        method: {"jsonrpc": "2.0", "id": id, "method": method} for id, method in enumerate(("tasks/get", "tasks/list"))
    }

    def listing(*order: str) -> Evidence:
        evidence = _evidence("conformance_asks_tasks", LATEST_LEGACY, initialize)
        for method, request in requests.items():
            record = ClientRequestRecord(method=method, request=request, response=None)
            evidence.server.client_requests.append(record)
        results: dict[str, JsonObject] = {"tasks/get": completed, "tasks/list": {"tasks": [working]}}
        for word in order:
            method = word.removeprefix("!")
            response: JsonObject = {"jsonrpc": "2.0", "id": requests[method]["id"], "result": results[method]}
            sent = word == method
            evidence.transcript.message(encoded(requests[method] if sent else response), sent=sent)
        return evidence

    await _judge("tasks.client-transitions", listing("tasks/get", "tasks/list", "!tasks/get", "!tasks/list"))
    with pytest.raises(Deviation, match="the status completed in tasks/list"):
        await _judge("tasks.client-transitions", listing("tasks/get", "!tasks/get", "tasks/list", "!tasks/list"))


# --- rejected requests ------------------------------------------------------------------------------------------------


def _with_sent(evidence: Evidence, *messages: JsonObject) -> Evidence:
    """Return the evidence with messages of the suite added to its transcript."""
    for message in messages:
        evidence.transcript.message(encoded(message), sent=True)
    return evidence


_UNREAD: JsonObject = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "this is no JSON"}}


async def test_rejected_request_proves_no_token_demand() -> None:
    call = _request("tools/list")
    answers: list[tuple[JsonObject, type[Exception]]] = [
        ({"jsonrpc": "2.0", "id": 7, "error": {"code": -32020, "message": "Mcp-Method is missing"}}, NotTestable),
        ({"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}, Deviation),
    ]
    for answer, outcome in answers:
        with pytest.raises(outcome):
            await _judge("auth.client-optional", _with_sent(_evidence("tools_call", LATEST, call, status=1), answer))


async def test_unread_pages_are_not_testable() -> None:
    requests = [_request("tools/list"), _request("tools/list", cursor=cursors("tools/list", LATEST_LEGACY.era)[0])]

    with pytest.raises(Deviation):
        await _judge("pagination.client-lengths", _evidence("conformance_pages", LATEST_LEGACY, *requests))
    evidence = _with_sent(_evidence("conformance_pages", LATEST_LEGACY, *requests), _UNREAD)
    with pytest.raises(NotTestable, match="could not be read"):
        await _judge("pagination.client-lengths", evidence)


async def test_missing_result_is_not_testable() -> None:
    call = _request("tools/call", name="gives_plain", arguments={})
    message: JsonObject = {"of": "gives_plain", "outcome": "failed"}
    evidence = _evidence("conformance_results", LATEST, call, _request("tools/call", name="report", arguments=message))

    with pytest.raises(Deviation):
        await _judge("tools.client-is-error-default", evidence)
    evidence.server.received.remove(call)
    with pytest.raises(NotTestable, match="was rejected"):
        await _judge("tools.client-is-error-default", evidence)


@pytest.mark.parametrize("id", [None, 1.5])
async def test_cancellation_of_invalid_id_is_not_testable(id: JsonValue) -> None:
    call = {**_request("tools/call", name=WAITING), "id": id}
    cancellation: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}

    with pytest.raises(NotTestable, match="has no valid id"):
        await _judge("cancellation.client-params", _evidence("conformance_cancel", LATEST, call, cancellation))


@pytest.mark.parametrize("message", [1.5, True, None, {}])
async def test_invalid_progress_token_is_ignored_by_fake_server(message: JsonValue) -> None:
    for token, expected in ((message, None), ("one", "one"), (0, 0)):
        request = _request("tools/call", _meta={"progressToken": token})
        request_state = ScriptedRequest(
            request, Session(revision=LATEST), cast("MessageSink", None), ids=lambda: 1, client_requests=[], timeout=0
        )
        assert request_state.token == expected


# --- skills -----------------------------------------------------------------------------------------------------------


def _loading(scenario: str, *uris: str, status: int | None = 0) -> Evidence:
    reads = [_request("resources/read", uri=uri) for uri in uris]
    return _evidence(scenario, LATEST, _request("skills/list"), *reads, status=status)


def _links(*skills: ServedSkill) -> tuple[str, ...]:
    return tuple(uri for each in skills for uri in (each.uri, *each.linked))


async def test_client_without_skills_is_not_judged_by_them() -> None:
    plain = _evidence(SKILLS, LATEST, _request("tools/list"))
    for id in ("skills.client-pages", "skills.client-names", "skills.client-limits"):
        with pytest.raises(NotApplicable, match="does not request skills"):
            await _judge(id, plain)
    with pytest.raises(NotTestable, match="requested no skills in the scenario"):
        await _judge("skills.client-digest", _evidence(DIGEST, LATEST), _loading(SKILLS))


async def test_client_that_loads_no_skill_is_not_testable() -> None:
    listed = _loading(SKILLS)
    for id in ("skills.client-names", "skills.client-reserved-metadata", "skills.client-limits"):
        with pytest.raises(NotTestable, match="did not load"):
            await _judge(id, listed)


async def test_client_that_loads_one_skill_of_several_with_a_name_fails() -> None:
    one, other = NAMESAKES
    with pytest.raises(Deviation, match=other.uri):
        await _judge("skills.client-names", _loading(SKILLS, *_links(*RIGHT, one)))
    await _judge("skills.client-names", _loading(SKILLS, *_links(*RIGHT, one, other)))


@pytest.mark.parametrize("id", ["digest", "size", "front-matter"])
async def test_client_that_follows_no_link_shows_no_verification(id: str) -> None:
    scenario = {"digest": DIGEST, "size": SIZE, "front-matter": FRONT_MATTER}[id]
    skill = PDF[scenario]
    stopped = _loading(scenario, skill.uri, status=1)
    with pytest.raises(NotTestable, match="the control failed"):
        await _judge(f"skills.client-{id}", stopped, _loading(SKILLS, *(each.uri for each in RIGHT)))
    await _judge(f"skills.client-{id}", stopped, _loading(SKILLS, *_links(*RIGHT)))
    with pytest.raises(Deviation, match=skill.linked[0]):
        await _judge(f"skills.client-{id}", _loading(scenario, *_links(skill)), _loading(SKILLS, *_links(*RIGHT)))


async def test_client_that_reads_all_files_does_not_show_which_text_it_used() -> None:
    files = [each.file(path) for each in (*ALWAYS_RIGHT, FILE_DIFFERS) for path in each.texts()]
    for id in ("skills.client-unverified-file", "skills.client-only-listed"):
        with pytest.raises(NotTestable, match="reads all files"):
            await _judge(id, _loading(CHANGED, *files))


async def test_client_that_does_not_try_to_load_unlisted_skill_is_not_testable() -> None:
    control = _loading(SKILLS, *_links(*RIGHT))
    with pytest.raises(NotTestable, match="did not try"):
        await _judge("skills.client-by-uri", _loading(BY_URI), control)
    with pytest.raises(Deviation, match="no such read"):
        await _judge("skills.client-by-uri", _loading(BY_URI, status=1), control)
    await _judge("skills.client-by-uri", _loading(BY_URI, HIDDEN.uri), control)
