"""Multi round-trip requests: the InputRequiredResult, and the retry."""

from __future__ import annotations

import json
import string
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.interactive_calls import (
    REPLIES,
    converse,
    input_requests_of,
    request_until_input,
    requires_input,
    responses_to,
    retried,
)
from mcp_conformance.checks.probes.message_pairs import answered, objects
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.types.meta import CLIENT_CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_ELICITS: Final = "test_input_required_result_elicitation"
_REDEEMS: Final = "conformance_redeem"
_SEVERAL: Final = "test_input_required_result_multiple_inputs"
_ELICITING_RESOURCE: Final = "test://conformance/asking"
_REPLACED: Final = {each: "4" if each == "7" else "7" for each in string.ascii_letters + string.digits}
"""The replacement of a character: one that neither base64 nor a number without case takes for the same."""
_MOST_RETRIES: Final = 10
_SIMULTANEOUS: Final = 3
_ABANDONED: Final = 20
"""Number of calls without a retry: more than a server keeps that waits for a few of them."""
_FIXTURES: Final = (
    _ELICITS,
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    _SEVERAL,
)
_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


async def _first(server: ServerUnderTest, fixture: str = _ELICITS) -> tuple[JsonObject, JsonRpcResponse]:
    """Call a tool that requires input, and return its params and the InputRequiredResult."""
    name, arguments = server.tool(fixture)
    params: JsonObject = {"name": name, "arguments": arguments}
    return params, await request_until_input(server.peer, "tools/call", params)


async def _all_first(server: ServerUnderTest) -> list[JsonRpcResponse]:
    """Return an InputRequiredResult of each tool that requires input, and of the resource, if the server has it."""
    found = [(await _first(server, fixture))[1] for fixture in _FIXTURES]
    uri = _eliciting_resource(server)
    read = None if uri is None else await server.peer.request("resources/read", {"uri": uri})
    return found if read is None or not requires_input(read) else [*found, read]


def _eliciting_resource(server: ServerUnderTest) -> str | None:
    """Return the URI of the resource that requires input; `None` if the server does not have it."""
    uri = server.manifest.find("resources", _ELICITING_RESOURCE).name
    return None if server.inventory.find("resources", uri) is None else uri


# --- the InputRequiredResult
# --------------------------------------------------------------------------------------------


@check("mrtr.no-requests", proves=("mrtr.only-pattern-for-input",), subject=CheckScope.EVIDENCE)
async def no_requests(server: ServerUnderTest) -> None:
    """The server sends no requests."""
    for transcript in server.evidence:
        for entry in transcript:
            for message in objects(entry):
                if not entry.sent and "method" in message and "id" in message:
                    raise Deviation("no request of the server", brief(message))


@check("mrtr.only-where-it-may-be", proves=("mrtr.not-on-other-methods",), subject=CheckScope.EVIDENCE)
async def only_where_it_may_be(server: ServerUnderTest) -> None:
    """Only `tools/call`, `prompts/get` and `resources/read` return an InputRequiredResult."""
    for request, response in answered(server):
        result = response.get("result")
        # An extension defines the results of its own methods.
        own = str(request["method"]).startswith("tasks/")
        required = isinstance(result, dict) and result.get("resultType") == "input_required"
        if required and not own and request["method"] not in _METHODS:
            raise Deviation(f"no InputRequiredResult for {request['method']}", brief(response))


@check("mrtr.asks-or-has-state", proves=("mrtr.at-least-one-field",), needs=_NEEDS)
async def requests_or_state(server: ServerUnderTest) -> None:
    """An InputRequiredResult has inputRequests, requestState or both."""
    for answer in await _all_first(server):
        if "inputRequests" not in answer.result() and "requestState" not in answer.result():
            raise Deviation("inputRequests or requestState", str(answer))


@check("mrtr.requests-shape", proves=("mrtr.input-requests-shape",), needs=_NEEDS)
async def requests_shape(server: ServerUnderTest) -> None:
    """The inputRequests are an object of requests, each with a method, and without jsonrpc and id."""
    for answer in await _all_first(server):
        requests = answer.result().get("inputRequests", {})
        if not isinstance(requests, dict):
            raise Deviation("inputRequests to be an object", str(answer))
        for key, each in requests.items():
            if not isinstance(each, dict) or not isinstance(each.get("method"), str) or {"id", "jsonrpc"} & set(each):
                raise Deviation(f"a request with a method, without id and jsonrpc, under {key!r}", brief(each))


@check("mrtr.keys-once", proves=("mrtr.input-requests-keys-unique",), needs=_NEEDS)
async def keys_once(server: ServerUnderTest) -> None:
    """The keys of inputRequests are unique."""
    await _first(server, _SEVERAL)
    for entry in server.peer.transcript:
        if not entry.sent and b"inputRequests" in entry.raw:
            try:
                json.loads(entry.raw, object_pairs_hook=_check_unique_keys)
            except _DuplicateKeyError as duplicate:
                raise Deviation("each key once", f"{duplicate} twice: {entry}") from duplicate


class _DuplicateKeyError(ValueError):
    pass


class _JsonObject(dict[str, "JsonValue"]):
    """A JSON object that knows a key which it has more than once."""

    def __init__(self, pairs: list[tuple[str, JsonValue]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.duplicate: Final = next((name for name in names if names.count(name) > 1), None)


def _check_unique_keys(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    for name, value in pairs:
        if name == "inputRequests" and isinstance(value, _JsonObject) and value.duplicate is not None:
            raise _DuplicateKeyError(repr(value.duplicate))
    return _JsonObject(pairs)


@check("mrtr.requests-kinds", proves=("mrtr.input-requests-kinds",), needs=_NEEDS)
async def requests_kinds(server: ServerUnderTest) -> None:
    """An input request is an elicitation, a sampling request or a roots request."""
    for answer in await _all_first(server):
        for each in input_requests_of(answer):
            if each.method not in REPLIES:
                raise Deviation(" or ".join(REPLIES), brief(each.whole))


@check("mrtr.state-is-a-string", proves=("mrtr.request-state-string",), needs=_NEEDS)
async def state_is_a_string(server: ServerUnderTest) -> None:
    """A requestState is a string, also that of an InputRequiredResult after a retry."""
    _, answer = await _first(server, "test_input_required_result_request_state")
    if "requestState" not in answer.result():
        raise NotTestable("the control request failed: there is no requestState")
    answer.member("requestState", str)
    with suppress(NotTestable):  # a server without this tool was tested with another one
        params, answer = await _first(server, _SEVERAL)
        again = await server.peer.request("tools/call", retried(params, answer, {}))
        if requires_input(again) and "requestState" in again.result():
            again.member("requestState", str)


@check("mrtr.only-what-is-declared", proves=("mrtr.respect-client-capabilities",), needs=_NEEDS)
async def only_what_is_declared(server: ServerUnderTest) -> None:
    """There is no input request for a capability that the client did not declare."""
    nothing: JsonObject = {}
    sampling: JsonObject = {"sampling": {}}
    tried = [(fixture, declared) for fixture in _FIXTURES for declared in (nothing, sampling)]
    # A client may have any one of the capabilities that a call needs.
    others: tuple[JsonObject, ...] = ({"elicitation": {}}, {"roots": {}})
    tried += [(_SEVERAL, declared) for declared in others]
    if (uri := _eliciting_resource(server)) is not None:
        for declared in (nothing, sampling):
            read: JsonObject = {"uri": uri, "_meta": {CLIENT_CAPABILITIES: declared}}
            _require_declared(await server.peer.request("resources/read", read), declared)
    for fixture, declared in [*tried, ("test_input_required_result_capabilities", sampling)]:
        name, arguments = server.tool(fixture)
        meta: JsonObject = {CLIENT_CAPABILITIES: declared}
        params: JsonObject = {"name": name, "arguments": arguments, "_meta": meta}
        _require_declared(await server.peer.request("tools/call", params), declared)
    # The capabilities of the retry count, not those of the call before it.
    name, arguments = server.tool(_SEVERAL)
    call: JsonObject = {"name": name, "arguments": arguments}
    first = await server.peer.request("tools/call", call)
    for declared in (nothing, sampling) if requires_input(first) else ():
        again: JsonObject = {**retried(call, first, {}), "_meta": {CLIENT_CAPABILITIES: declared}}
        _require_declared(await server.peer.request("tools/call", again), declared)


def _require_declared(answer: JsonRpcResponse, declared: JsonObject) -> None:
    for each in input_requests_of(answer):
        if _CAPABILITIES.get(each.method) not in declared:
            raise Deviation(f"input requests only for {brief([*declared])}", brief(each.whole))


# --- the retry
# ----------------------------------------------------------------------------------------------------------


@check("mrtr.completes", proves=("mrtr.complete-after-input",), needs=_NEEDS)
async def completes(server: ServerUnderTest) -> None:
    """With responses to all input requests the result is complete, of a resource too."""
    for fixture in _FIXTURES:
        done = await converse(server, fixture)
        if not done.client_requests:
            raise NotTestable(f"the control request failed: {fixture} requires no input")
        if done.answer.member("resultType") != "complete":
            raise Deviation("a complete result", str(done.answer))
    await _one_by_one(server)
    await _read(server)


async def _read(server: ServerUnderTest) -> None:
    """Read the resource that requires input, with responses to all input requests, and require its contents."""
    uri = _eliciting_resource(server)
    if uri is None:
        return
    params: JsonObject = {"uri": uri}
    answer = await server.peer.request("resources/read", params)
    for _ in range(_MOST_RETRIES):
        if not requires_input(answer):
            break
        answer = await server.peer.request("resources/read", retried(params, answer))
    answer.member("contents", list)


async def _one_by_one(server: ServerUnderTest) -> None:
    """Answer one input request with each retry, and require success when no other is left."""
    params, answer = await _first(server, _SEVERAL)
    used: set[str] = set()
    for _ in range(_MOST_RETRIES):
        responses = responses_to(answer)
        # A server may request everything again.
        now = next((key for key in responses if key not in used), None)
        given = responses if now is None else {now: responses[now]}
        used |= given.keys()
        answer = await server.peer.request("tools/call", retried(params, answer, given))
        # A server SHOULD request what is missing, but it may reject a retry without it.
        if answer.is_error and len(given) == len(responses):
            raise Deviation("a result when all input requests were answered, one with each retry", str(answer))
        if not requires_input(answer):
            return
    raise Deviation(f"a complete result within {_MOST_RETRIES} retries, each with one input response", str(answer))


@check("mrtr.tampered-state", proves=("mrtr.state-tamper-rejected",), needs=_NEEDS)
async def tampered_state(server: ServerUnderTest) -> None:
    """A modified requestState is rejected."""
    params, answer = await _first(server, "test_input_required_result_tampered_state")
    if not isinstance(answer.result().get("requestState"), str):
        raise NotTestable("the control request failed: there is no requestState")
    if not await _rejects_modified(server, "tools/call", params, answer):
        raise NotTestable("the control request failed: the unmodified requestState is rejected")
    if (uri := _eliciting_resource(server)) is not None:
        read: JsonObject = {"uri": uri}
        answer = await server.peer.request("resources/read", read)
        if requires_input(answer) and isinstance(answer.result().get("requestState"), str):
            await _rejects_modified(server, "resources/read", read, answer)


async def _rejects_modified(server: ServerUnderTest, method: str, params: JsonObject, answer: JsonRpcResponse) -> bool:
    """Require that modified states are rejected; return false if the unmodified one is rejected too."""
    again = retried(params, answer)
    if (await server.peer.request(method, again)).is_error:
        return False
    for modified in _modified(str(again["requestState"])):
        refused = await server.peer.request(method, {**again, "requestState": modified})
        refused.error(what=f"a modified requestState of {method}, {brief(modified)}")
    # A server may take this for none, and require the input again.
    emptied = await server.peer.request(method, {**again, "requestState": ""})
    if not emptied.is_error and not requires_input(emptied):
        raise Deviation(
            f"an error, or another InputRequiredResult, for an empty requestState of {method}", str(emptied)
        )
    return True


def _modified(state: str) -> Iterator[str]:
    """Yield states that differ in one character, by a suffix, or in their length."""
    yield f"{state}-TAMPERED"
    yield state[: len(state) // 2]
    # The last character of base64 may have bits that are not decoded.
    places = [index for index, each in enumerate(state) if each in _REPLACED][:-1]
    for index in dict.fromkeys(places[at] for at in (0, len(places) // 2, -1)) if places else ():
        yield state[:index] + _REPLACED[state[index]] + state[index + 1 :]


@check("mrtr.state-single-use", proves=("mrtr.state-single-use",), needs=_NEEDS)
async def state_single_use(server: ServerUnderTest) -> None:
    """A requestState that may be used once is rejected when it is used again, and has no effect then."""
    params, answer = await _first(server, _REDEEMS)
    if not isinstance(answer.result().get("requestState"), str):
        raise NotTestable("the control request failed: there is no requestState")
    again = retried(params, answer)
    first = await server.peer.request("tools/call", again)
    if not _is_complete(first):
        raise NotTestable(f"the control request failed: the requestState is rejected when it is used first: {first}")
    other_responses = retried(params, answer, _other_responses(answer))
    for used in (again, again, other_responses, again):
        repeated = await server.peer.request("tools/call", used)
        if _is_complete(repeated):
            raise Deviation(_USED, str(repeated))
    await _at_once(server)
    # Others were used since.
    repeated = await server.peer.request("tools/call", again)
    if _is_complete(repeated):
        raise Deviation(_USED, str(repeated))


_USED: Final = "an error, or another InputRequiredResult, for a requestState that was used"


async def _at_once(server: ServerUnderTest) -> None:
    """Use a new requestState several times at once."""
    params, answer = await _first(server, _REDEEMS)
    again = retried(params, answer)
    complete: list[JsonRpcResponse] = []

    async def use() -> None:
        repeated = await server.peer.request("tools/call", again)
        if _is_complete(repeated):
            complete.append(repeated)

    async with open_nursery() as nursery:
        for _ in range(_SIMULTANEOUS):
            nursery.start_soon(use)
    if len(complete) > 1:
        raise Deviation("one complete result for a requestState that is used several times at once", str(complete[-1]))


def _is_complete(answer: JsonRpcResponse) -> bool:
    return not answer.is_error and answer.result().get("isError") is not True and not requires_input(answer)


def _other_responses(answer: JsonRpcResponse) -> JsonObject:
    """Return responses with other texts."""

    def changed(response: JsonValue) -> JsonValue:
        content = response.get("content") if isinstance(response, dict) else None
        if not isinstance(response, dict) or not isinstance(content, dict):
            return response
        return {**response, "content": {key: "another" if each == "text" else each for key, each in content.items()}}

    return {key: changed(response) for key, response in responses_to(answer).items()}


@check("mrtr.state-of-another-request", proves=("mrtr.state-bind-request",), needs=_NEEDS)
async def state_of_another_request(server: ServerUnderTest) -> None:
    """A requestState is rejected in a request of another tool, or with other arguments, than the one that it was issued for."""
    params, answer = await _first(server, "test_input_required_result_tampered_state")
    if not isinstance(answer.result().get("requestState"), str):
        raise NotTestable("the control request failed: there is no requestState")
    other, arguments = server.tool("test_input_required_result_request_state")
    again = retried(params, answer)
    refused = await server.peer.request("tools/call", {**again, "name": other, "arguments": arguments})
    if not refused.is_error and refused.result().get("resultType") != "input_required":
        raise Deviation(
            "an error, or another InputRequiredResult, for the requestState of another request", str(refused)
        )
    with suppress(NotTestable):  # a server without this tool was tested with others
        await _require_bound_arguments(server)


async def _require_bound_arguments(server: ServerUnderTest) -> None:
    """Require that a confirmation for one file is not accepted for another one."""
    name, arguments = server.tool("confirm_delete", {"filename": "one.txt"})
    _, others = server.tool("confirm_delete", {"filename": "other.txt"})
    params: JsonObject = {"name": name, "arguments": arguments}
    # A client without the tasks extension: the input request is part of the result of the call.
    answer = await request_until_input(server.peer, "tools/call", params)
    if others == arguments or not isinstance(answer.result().get("requestState"), str):
        return
    refused = await server.peer.request("tools/call", {**retried(params, answer), "arguments": others})
    if _is_complete(refused):
        raise Deviation(
            "an error, or another InputRequiredResult, for the requestState of a call with other arguments",
            str(refused),
        )


@check("mrtr.on-another-connection", proves=("mrtr.stateless-retry",), needs=_NEEDS)
async def on_another_connection(server: ServerUnderTest) -> None:
    """The retries of two calls may come in any order, and over HTTP on another connection."""
    calls = [await _first(server), await _first(server)]
    async with AsyncExitStack() as stack:
        has_others = server.transport is not Transport.STDIO
        other = await stack.enter_async_context(server.open()) if has_others else server.peer
        for params, answer in calls:
            done = await other.request("tools/call", retried(params, answer))
            if done.is_error or done.result().get("resultType") != "complete":
                raise Deviation("a complete result of each retry, whatever its connection and order", str(done))


@check("mrtr.nobody-answers", proves=("mrtr.no-assumption-of-retry",), needs=_NEEDS)
async def without_retry(server: ServerUnderTest) -> None:
    """Without a retry the server keeps working, and serves the next call."""
    try:
        params, answer = await _first(server)
    except NotTestable as why:
        # Other checks do not retry each call of the tool.
        name, _ = server.tool(_ELICITS)
        for request, response in answered(server):
            if (
                member(request, "params", "name") == name
                and member(response, "result", "resultType") == "input_required"
            ):
                raise Deviation("an InputRequiredResult, as for an earlier call of the tool", str(why)) from why
        raise
    for _ in range(_ABANDONED):
        answer = await server.peer.request("tools/call", params)
        if not requires_input(answer):
            raise Deviation("an InputRequiredResult after calls that were not retried", str(answer))
    await server.peer.fence()
    done = await server.peer.request("tools/call", retried(params, answer))
    if done.is_error:
        raise Deviation("a result of a retry after calls that were not retried", str(done))


@check("mrtr.asks-again", proves=("mrtr.re-request-missing",), needs=_NEEDS)
async def requests_missing(server: ServerUnderTest) -> None:
    """Missing input responses in the retry are requested again, also when those to other input requests are there."""
    params, answer = await _first(server)
    again = await server.peer.request("tools/call", retried(params, answer, {}))
    if not requires_input(again):
        raise Deviation("another InputRequiredResult", str(again))
    with suppress(NotTestable):  # a server without this tool was tested with another one
        _, several = await _first(server, _SEVERAL)
        for missing in responses_to(several) if len(responses_to(several)) > 1 else ():
            # A state may be one that can be used once.
            params, answer = await _first(server, _SEVERAL)
            given = {key: each for key, each in responses_to(answer).items() if key != missing}
            again = await server.peer.request("tools/call", retried(params, answer, given))
            if not requires_input(again):
                raise Deviation(f"another InputRequiredResult, as the response to {missing!r} is missing", str(again))


@check("mrtr.unexpected-answers", proves=("mrtr.ignore-unexpected",), needs=_NEEDS)
async def unexpected_answers(server: ServerUnderTest) -> None:
    """Unexpected input responses are ignored, also by a tool that requires no input."""
    params, answer = await _first(server)
    given: JsonObject = {**responses_to(answer), "conformance_unknown": {"action": "cancel"}}
    done = await server.peer.request("tools/call", retried(params, answer, given))
    if done.is_error or done.result().get("resultType") != "complete":
        raise Deviation("a complete result", str(done))
    with suppress(NotTestable):  # a server without this tool has others
        name, arguments = server.tool("test_simple_text")
        stray: JsonObject = {"conformance_unknown": {"action": "cancel"}}
        plain: JsonObject = {"name": name, "arguments": arguments, "inputResponses": stray}
        (await server.peer.request("tools/call", plain)).member("content", list)


@check("mrtr.answers-of-another-kind", proves=("mrtr.validate-responses",), needs=_NEEDS)
async def answers_of_another_kind(server: ServerUnderTest) -> None:
    """An invalid input response does not lead to a complete result without an error."""
    params, answer = await _first(server)
    given: JsonObject = dict.fromkeys(responses_to(answer), 12345)
    done = await server.peer.request("tools/call", retried(params, answer, given), deviant="an invalid input response")
    if not done.is_error and done.result().get("resultType") == "complete" and done.result().get("isError") is not True:
        raise Deviation("an error, or another InputRequiredResult", str(done))


@check("mrtr.malformed-answers", proves=("mrtr.protocol-error", "jsonrpc.invalid-params-code"), needs=_NEEDS)
async def malformed_answers(server: ServerUnderTest) -> None:
    """A retry whose inputResponses is not an object is answered with the error -32602."""
    params, answer = await _first(server)
    again: JsonObject = {**retried(params, answer, {}), "inputResponses": ["not an object"]}
    refused = await server.peer.request("tools/call", again, deviant="inputResponses that is not an object")
    # A server may validate the request as a whole.
    refused.error(-32602, -32600, what="inputResponses that is not an object")
