"""Multi round-trip requests of a client (2026-07-28).

Spec: basic/utilities/mrtr
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.input_responses import results_by_request
from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.client_request_tools import STATE, response_of
from mcp_conformance.scenarios.concurrent_calls import CALLED_TWICE, STATE_OF_CALL
from mcp_conformance.scenarios.mrtr import (
    EMPTY_STATE,
    KINDS,
    OTHER_STATES,
    STATE_ONCE,
    STATE_ONCE_ELSEWHERE,
    STATES,
    UNRELATED,
)
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_STATE: Final = "sep-2322-client-request-state"
_ROUND_TRIPS: Final = "conformance_rounds"
_BOTH: Final = (f"scenario:{_STATE}", f"scenario:{_ROUND_TRIPS}")
_RESULTS: Final = {
    f"{kind}: {number}": result
    for number in (1, 2)
    for kind, result in (
        ("elicitation", "ElicitResult"),
        ("sampling", "CreateMessageResult"),
        ("roots", "ListRootsResult"),
    )
}
_RETRY_MEMBERS: Final = ("inputResponses", "requestState")


def _declares(message: JsonObject, capability: str) -> bool:
    meta = params_of(message).get("_meta")
    declared = meta.get(CLIENT_CAPABILITIES) if isinstance(meta, dict) else None
    return isinstance(declared, dict) and capability in declared


def _calls(client: ClientUnderTest, scenario: str, tool: str) -> list[JsonObject]:
    """Return the calls of a tool: the first one and its retries.

    Raises:
        NotApplicable: The client declares no capability for input requests.
        NotTestable: The client did not call the tool.
    """
    evidence = client.run(scenario)
    taken = [each for each in evidence.taken("tools/call") if params_of(each).get("name") == tool]
    if not taken:
        raise NotTestable(f"the client sent no valid call of {tool}: {evidence.ending}")
    # Later calls count even if they were rejected.
    found = [each for each in evidence.sent("tools/call") if params_of(each).get("name") == tool]
    found = found[found.index(taken[0]) :]
    if not any(_declares(found[0], each) for each in KINDS):
        raise NotApplicable("the client declares no capability for input requests, and gets none")
    return found


def _retry(client: ClientUnderTest, scenario: str, tool: str) -> JsonObject:
    """Return the first retry of a call.

    Raises:
        NotTestable: There is no retry.
    """
    found = _calls(client, scenario, tool)
    if len(found) < 2:
        raise NotTestable(f"the client did not retry the call of {tool}")
    return found[1]


@check(
    "mrtr.client-answers",
    proves=("mrtr.client-fulfils-before-retry", "mrtr.client-response-keys"),
    needs=_BOTH,
)
async def answers(client: ClientUnderTest) -> None:
    """Each retry has responses to all input requests of the latest result, under the same keys, and to no other."""
    for scenario, tool in (
        (_STATE, "test_mrtr_echo_state"),
        (_STATE, "test_mrtr_no_state"),
        (_ROUND_TRIPS, "ask_all_kinds"),
    ):
        found = _calls(client, scenario, tool)
        required = _required(results_by_request(client.run(scenario)), found[0])
        if not required:
            raise NotApplicable("the client declares no capability for an input request of the scenario")
        given = params_of(found[1]).get("inputResponses") if len(found) > 1 else None
        if not isinstance(given, dict) or set(given) != required:
            raise Deviation(f"inputResponses with {', '.join(sorted(required))} for {tool}", brief(given))
    for _, again in _other_retries(client):
        given = params_of(again).get("inputResponses")
        if not isinstance(given, dict) or set(given) != {"c"}:
            raise Deviation(f"inputResponses with c for {again['method']}", brief(given))
    results = results_by_request(client.run(_ROUND_TRIPS))
    _retried_each_method(client, results)
    for tool in ("ask_in_rounds", EMPTY_STATE, STATE_ONCE):
        for before, again in pairwise(_further_calls(client, tool)):
            required = _required(results, before)
            given = params_of(again).get("inputResponses", {})
            if not isinstance(given, dict) or set(given) != required:
                expected = ", ".join(sorted(required)) or "no key"
                raise Deviation(f"inputResponses with {expected} in each retry of {tool}", brief(given))


def _retried_each_method(client: ClientUnderTest, results: Mapping[int, JsonObject]) -> None:
    """Check that a client retries a prompt and a resource that require input, as it retries calls."""
    retried = {first["method"] for first, _ in _other_retries(client)}
    for method in OTHER_STATES:
        for message in client.run(_ROUND_TRIPS).sent(method):
            if method not in retried and _required(results, message):
                raise Deviation(f"{method} again, with inputResponses", client.run(_ROUND_TRIPS).ending)


def _required(results: Mapping[int, JsonObject], request: JsonObject) -> set[str]:
    """Return the keys of the input requests in the result of a request."""
    requested = results.get(id(request), {}).get("inputRequests")
    return set(requested) if isinstance(requested, dict) else set()


@check("mrtr.client-response-shape", proves=("mrtr.client-response-shape",), needs=(f"scenario:{_ROUND_TRIPS}",))
async def response_shape(client: ClientUnderTest) -> None:
    """Each input response has the type that its input request requires."""
    given = params_of(_retry(client, _ROUND_TRIPS, "ask_all_kinds")).get("inputResponses")
    for key, kind in _RESULTS.items():
        if isinstance(given, dict) and key in given:
            wrong = flaw(given[key], kind, client.revision)
            if wrong is not None:
                raise Deviation(f"a {kind} without a wrapper", f"{wrong} in {brief(given[key])}")


def _further_calls(client: ClientUnderTest, tool: str) -> list[JsonObject]:
    """Return the calls of a tool with several round trips: none if the client did not call it."""
    with suppress(NotTestable):
        return _calls(client, _ROUND_TRIPS, tool)
    return []


@check("mrtr.client-state", proves=("mrtr.state-echo", "mrtr.state-opaque"), needs=_BOTH)
async def state(client: ClientUnderTest) -> None:
    """The retry has the requestState unchanged, also the empty string, and also JSON."""
    expected = [(_retry(client, _STATE, "test_mrtr_echo_state"), STATE)]
    expected += [(message, "") for message in _further_calls(client, EMPTY_STATE)[1:]]
    expected += [(again, OTHER_STATES[str(again["method"])]) for _, again in _other_retries(client)]
    for message, right in zip(_further_calls(client, "ask_in_rounds")[1:], STATES, strict=False):
        # Another check covers the state of an earlier result.
        if params_of(message).get("requestState") not in (None, *STATES):
            expected.append((message, right))
    for message, right in expected:
        given = params_of(message).get("requestState")
        if given != right:
            raise Deviation(f"requestState {brief(right)} in {message['method']}", brief(given))


@check("mrtr.client-no-state", proves=("mrtr.state-not-invented",), needs=_BOTH)
async def no_state(client: ClientUnderTest) -> None:
    """The retry has no requestState if the result had none, also if an earlier result had one."""
    params = params_of(_retry(client, _STATE, "test_mrtr_no_state"))
    if "requestState" in params:
        raise Deviation("no requestState", brief(params["requestState"]))
    for message in [*_further_calls(client, STATE_ONCE)[2:], *_last_retries_elsewhere(client)]:
        if "requestState" in params_of(message):
            raise Deviation("no requestState, as the last result has none", brief(message))


def _last_retries_elsewhere(client: ClientUnderTest) -> Iterator[JsonObject]:
    """Yield the retries, of other methods than tool calls, of a request whose latest result has no state."""
    evidence = client.run(_ROUND_TRIPS)
    results = results_by_request(evidence)
    for method, name in STATE_ONCE_ELSEWHERE.items():
        named = [
            each for each in evidence.sent(method) if name in (params_of(each).get("name"), params_of(each).get("uri"))
        ]
        for before, again in pairwise(named):
            if _required(results, before) and "requestState" not in results[id(before)]:
                yield again


@check("mrtr.client-latest-state", proves=("mrtr.state-latest-only",), needs=(f"scenario:{_ROUND_TRIPS}",))
async def latest_state(client: ClientUnderTest) -> None:
    """Of several requestStates the retry has only the latest."""
    found = _calls(client, _ROUND_TRIPS, "ask_in_rounds")
    if len(found) < 3:
        raise NotTestable(f"the client called ask_in_rounds {len(found)} times instead of three")
    if (first := params_of(found[1]).get("requestState")) not in (STATE, *STATES):
        raise NotTestable(f"the first retry does not have the requestState unchanged: {brief(first)}")
    second = params_of(found[2]).get("requestState")
    if second not in (None, STATE, *STATES):
        raise NotTestable(f"the second retry does not have the requestState unchanged: {brief(second)}")
    if second != STATES[1]:
        raise Deviation(f"requestState {brief(STATES[1])}", brief(second))


@check("mrtr.client-new-id", proves=("mrtr.retry-new-id", "tools.retry-new-id"), needs=_BOTH)
async def new_id(client: ClientUnderTest) -> None:
    """A retry has a new request id."""
    for scenario, tool in ((_STATE, "test_mrtr_echo_state"), (_ROUND_TRIPS, "ask_in_rounds")):
        found = _calls(client, scenario, tool)
        _retry(client, scenario, tool)
        ids = [encoded(each["id"]) for each in found]
        if len(set(ids)) != len(ids):
            raise Deviation(f"a new id for each request of {tool}", brief([each["id"] for each in found]))
    for first, again in _other_retries(client):
        if encoded(first["id"]) == encoded(again["id"]):
            raise Deviation(f"a new id for the retry of {first['method']}", brief(again["id"]))


def _retries(client: ClientUnderTest) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield pairs of a first request and its retry."""
    for name in ("ask_all_kinds", "ask_in_rounds"):
        first, *others = _calls(client, _ROUND_TRIPS, name)
        _retry(client, _ROUND_TRIPS, name)
        yield from ((first, other) for other in others)
    yield from _other_retries(client)


def _other_retries(client: ClientUnderTest) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield pairs of a first request and its retry, of other methods than tool calls, with one round trip."""
    for method, member in (("prompts/get", "name"), ("resources/read", "uri")):
        firsts: dict[JsonValue, JsonObject] = {}
        for message in client.run(_ROUND_TRIPS).sent(method):
            key = encoded(params_of(message).get(member)).decode()
            if params_of(message).get(member) == STATE_ONCE_ELSEWHERE[method]:
                continue
            if set(params_of(message)) & set(_RETRY_MEMBERS) and key in firsts:
                yield firsts[key], message
            firsts.setdefault(key, message)


@check("mrtr.client-same-params", proves=("mrtr.retry-same-params",), needs=(f"scenario:{_ROUND_TRIPS}",))
async def same_params(client: ClientUnderTest) -> None:
    """A retry has the same params as the first request, except for the input responses and the state."""
    for first, again in _retries(client):
        before, after = _own_params(first), _own_params(again)
        if before != after:
            raise Deviation(f"{first['method']} with {brief(before)}", brief(after))


def _own_params(message: JsonObject) -> JsonObject:
    return {name: value for name, value in params_of(message).items() if name not in (*_RETRY_MEMBERS, "_meta")}


@check("meta.client-retries", proves=("meta.required-on-retries",), needs=_BOTH)
async def meta_on_retries(client: ClientUnderTest) -> None:
    """A retry has the required members of `_meta`."""
    for _, again in _retries(client):
        meta = params_of(again).get("_meta")
        if not isinstance(meta, dict) or not {PROTOCOL_VERSION, CLIENT_CAPABILITIES} <= set(meta):
            raise Deviation(f"{PROTOCOL_VERSION} and {CLIENT_CAPABILITIES} in _meta", brief(meta))


@check(
    "mrtr.client-no-cross-use",
    proves=("mrtr.no-cross-request-use",),
    needs=(*_BOTH, f"scenario:{CALLED_TWICE}"),
)
async def no_cross_use(client: ClientUnderTest) -> None:
    """The input responses and the state of one request are not used in another, also if both are sent at once."""
    _retry(client, _STATE, "test_mrtr_echo_state")
    for scenario, tool in ((_STATE, "test_mrtr_unrelated"), (_ROUND_TRIPS, "ask_nothing")):
        for message in _calls(client, scenario, tool):
            if set(params_of(message)) & set(_RETRY_MEMBERS):
                raise Deviation(f"neither inputResponses nor requestState for {tool}", brief(message))
    for method, name in UNRELATED.items():
        for message in client.run(_ROUND_TRIPS).sent(method):
            params = params_of(message)
            if name in (params.get("name"), params.get("uri")) and set(params) & set(_RETRY_MEMBERS):
                raise Deviation(f"neither inputResponses nor requestState for {name}", brief(message))
    for message in client.run(CALLED_TWICE).sent("tools/call"):
        arguments = params_of(message).get("arguments")
        called = arguments.get("name") if isinstance(arguments, dict) else None
        for name, right in STATE_OF_CALL.items():
            if called in STATE_OF_CALL.keys() - {name} and params_of(message).get("requestState") == right:
                raise Deviation(f"the state of the {name} call in its own retry only", brief(message))


@check("mrtr.client-initial", proves=("mrtr.client-no-initial-fields",))
async def initial(client: ClientUnderTest) -> None:
    """No request has input responses or a state before an InputRequiredResult."""
    for evidence in client.all(instructed=True):
        offered = False
        for entry in evidence.transcript:
            message = entry.value
            if not isinstance(message, dict):
                continue
            result = message.get("result")
            if entry.sent and isinstance(result, dict) and result.get("resultType") == "input_required":
                offered = True
            # The input requests of a task get their responses in requests of their own.
            about_task = message.get("method") == "tasks/update"
            if not entry.sent and not offered and not about_task and set(params_of(message)) & set(_RETRY_MEMBERS):
                raise Deviation("neither inputResponses nor requestState in a first request", brief(message))


@check(
    "mrtr.client-decline",
    proves=("mrtr.decline-is-an-answer",),
    needs=("scenario:conformance_declines",),
)
async def decline(client: ClientUnderTest) -> None:
    """A declined elicitation is sent as an input response, or the request is not retried."""
    response = response_of(client, "conformance_declines", "ask_form")
    if response is None:
        return
    answer = response.get("result")
    if isinstance(answer, dict) and answer.get("action") == "accept":
        raise NotTestable("the form was accepted")
    wrong = flaw(answer, "ElicitResult", client.revision)
    if wrong is not None:
        raise Deviation('an ElicitResult with the action "decline" or "cancel"', f"{wrong} in {brief(answer)}")
