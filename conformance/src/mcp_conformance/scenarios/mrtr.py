"""Scenarios of multi round-trip requests, of tools, prompts and resources (2026-07-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import RawReply, encoded
from mcp_conformance.scenarios.client_request_tools import STATE, declares
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "ARGUMENTS",
    "EMPTY_STATE",
    "KINDS",
    "MRTR_SCENARIOS",
    "OTHER_STATES",
    "STATES",
    "STATE_ONCE",
    "STATE_ONCE_ELSEWHERE",
    "UNRELATED",
]

_CONFIRM: Final[JsonObject] = {
    "method": "elicitation/create",
    "params": {
        "message": "Are you sure?",
        "requestedSchema": {
            "type": "object",
            "properties": {"ok": {"type": "boolean", "default": True}},
            "required": ["ok"],
        },
    },
}
_EXPLAIN: Final[JsonObject] = {
    "method": "elicitation/create",
    "params": {
        "message": "Why?",
        "requestedSchema": {
            "type": "object",
            "properties": {"why": {"type": "string", "default": "It is time"}},
            "required": ["why"],
        },
    },
}
_SAMPLE: Final[JsonObject] = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say something"}}],
        "maxTokens": 50,
    },
}
_ROOTS: Final[JsonObject] = {"method": "roots/list"}
KINDS: Final[Mapping[str, JsonObject]] = {"elicitation": _CONFIRM, "sampling": _SAMPLE, "roots": _ROOTS}
"""An input request by the capability that it needs."""
STATES: Final = (f"first {STATE}", '{"second": 1.0,  "a": ["\\u00fc\\/", 1e2], "a": null}')
"""The states of two successive round trips. The second one is JSON, and differs when it is parsed and serialized."""
OTHER_STATES: Final = {"prompts/get": '[ 1.50,"\\u00fc" ]', "resources/read": "17.50"}
"""The states of other methods than tool calls: JSON too, the second one a number."""
ARGUMENTS: Final[JsonObject] = {"text": "as it is \u00fc", "count": 7}
"""The arguments for the tool with several round trips; its schema has them as defaults, with header annotations."""
EMPTY_STATE: Final = "ask_with_empty_state"
"""The tool whose `requestState` is the empty string."""
STATE_ONCE: Final = "ask_with_state_once"
"""The tool whose first result has a `requestState`, and whose second one has none."""
STATE_ONCE_ELSEWHERE: Final = {"prompts/get": "prompt_with_state_once", "resources/read": "test://with-state-once"}
"""The prompt and the resource whose first result has a `requestState`, and whose second one has none."""
UNRELATED: Final = {"prompts/get": "prompt_without_input", "resources/read": "test://without-input"}
"""The last prompt and the last resource, which require no input."""
_WITH_DEFAULTS: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "default": ARGUMENTS["text"], "x-mcp-header": "Text"},
        "count": {"type": "integer", "default": ARGUMENTS["count"], "x-mcp-header": "Count"},
    },
    "required": ["text", "count"],
}


def _input_required(state: str | None = None, **requests: JsonObject) -> JsonObject:
    result: JsonObject = {"resultType": "input_required"}
    if requests:
        result["inputRequests"] = dict(requests)
    if state is not None:
        result["requestState"] = state
    return result


def _can(request: ScriptedRequest) -> bool:
    return any(_has(request, each) for each in KINDS)


def _has(request: ScriptedRequest, kind: str) -> bool:
    return declares(request.session, "elicitation.form" if kind == "elicitation" else kind)


def _confirm(request: ScriptedRequest) -> JsonObject:
    """Return an input request of the first kind that the client declares."""
    return next(entry for kind, entry in KINDS.items() if _has(request, kind))


async def _echo_state(request: ScriptedRequest) -> JsonObject:
    if not _can(request) or "inputResponses" in request.params:
        return text_result("confirmed")
    return _input_required(STATE, confirm=_confirm(request))


async def _no_state(request: ScriptedRequest) -> JsonObject:
    if not _can(request) or "inputResponses" in request.params:
        return text_result("confirmed")
    return _input_required(confirm=_confirm(request))


async def _unrelated(_: ScriptedRequest) -> JsonObject:
    return text_result("nothing was requested")


async def _no_result_type(request: ScriptedRequest) -> JsonObject:
    result: JsonValue = {"content": [{"type": "text", "text": "complete"}]}
    message: JsonObject = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
    raise RawReply(encoded(message), "a result without resultType")


async def _all_kinds(request: ScriptedRequest) -> JsonObject:
    """Request everything that the client declares in one result, each kind twice. The two forms differ."""
    if "inputResponses" in request.params:
        return text_result("confirmed")
    second = {**KINDS, "elicitation": _EXPLAIN}
    requests = {
        f"{name}: {number}": each
        for number, kinds in ((1, KINDS), (2, second))
        for name, each in kinds.items()
        if _has(request, name)
    }
    return _input_required(STATE, **requests) if requests else text_result("nothing is declared")


async def _two_round_trips(request: ScriptedRequest) -> JsonObject:
    """Return an input request first, then only a state, then the final result."""
    state = request.params.get("requestState")
    if _can(request) and state is None and "inputResponses" not in request.params:
        # Some languages take such a key for a missing one.
        return _input_required(STATES[0], **{"": _confirm(request)})
    # A state that the client changed gets no further round trip.
    return _input_required(STATES[1]) if state == STATES[0] else text_result("done")


async def _empty_state(request: ScriptedRequest) -> JsonObject:
    if not _can(request) or "inputResponses" in request.params:
        return text_result("confirmed")
    # Some languages take such a key for the index of a list.
    return _input_required("", **{"0": _confirm(request)})


async def _state_once(request: ScriptedRequest) -> JsonObject:
    return _once(request, STATES[0]) or text_result("confirmed twice")


def _once(request: ScriptedRequest, state: str) -> JsonObject | None:
    """Return a result that requires input, with a state; then one without a state; then `None`."""
    given = request.params.get("inputResponses")
    if not _can(request):
        return None
    if not isinstance(given, dict) and "requestState" not in request.params:
        # In some languages an object without entries has a value under such a key.
        return _input_required(state, __proto__=_confirm(request))
    if not isinstance(given, dict):
        return None
    if "second" in given or "requestState" not in request.params:
        return None
    return _input_required(second=_confirm(request))


def _request_state(setup: ScenarioSetup) -> None:
    offers = setup.server.offers
    offers.tools.clear()
    offers.add_tool("test_mrtr_echo_state", "Requests a confirmation, with a state", _echo_state)
    offers.add_tool("test_mrtr_no_state", "Requests a confirmation, without a state", _no_state)
    offers.add_tool("test_mrtr_unrelated", "Requests nothing", _unrelated)
    offers.add_tool("test_mrtr_no_result_type", "Returns a result without resultType", _no_result_type)


def _several(setup: ScenarioSetup) -> None:
    server = setup.server
    server.offers.tools.clear()
    server.offers.add_tool("ask_all_kinds", "Requests everything at once", _all_kinds)
    server.offers.add_tool("ask_in_rounds", "Needs two round trips", _two_round_trips, _WITH_DEFAULTS)
    server.offers.add_tool(EMPTY_STATE, "Requests a confirmation, with an empty state", _empty_state)
    server.offers.add_tool(STATE_ONCE, "Requests two confirmations, the second one without a state", _state_once)
    server.offers.add_tool("ask_nothing", "Requests nothing", _unrelated)
    for names in (STATE_ONCE_ELSEWHERE, UNRELATED):
        server.offers.prompts.append({"name": names["prompts/get"]})
        server.offers.messages[names["prompts/get"]] = server.offers.messages["test_simple_prompt"]
        server.offers.resources.append({"uri": names["resources/read"], "name": "a text"})
        server.offers.texts[names["resources/read"]] = "a text"
    for method, state in OTHER_STATES.items():
        right = server.handlers[method]

        async def first(
            request: ScriptedRequest, right: Handler = right, method: str = method, state: str = state
        ) -> JsonObject:
            named = (request.params.get("name"), request.params.get("uri"))
            if STATE_ONCE_ELSEWHERE[method] in named:
                return _once(request, state) or await right(request)
            unrelated = UNRELATED[method] in named
            if not _can(request) or unrelated or "inputResponses" in request.params:
                return await right(request)
            return _input_required(state, c=_confirm(request))

        server.handlers[method] = first


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

MRTR_SCENARIOS: Final = (
    Scenario(
        name="sep-2322-client-request-state",
        title="Tools that request a confirmation with and without a state, and tools that request nothing.",
        prepare=_request_state,
        revisions=frozenset(MODERN),
    ),
    Scenario(
        name="conformance_rounds",
        title="Tools that request several things, also in several round trips; prompts and resources with input requests.",
        prepare=_several,
        revisions=frozenset(MODERN),
    ),
)
"""The scenarios, in order."""
