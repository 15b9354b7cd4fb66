"""More features of a raw server: the fixtures of this suite, and those of the official framework with MRTR."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from mutants.server.client_requests import may_request_input, request_input
from mutants.server.protocol import LEGACY, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__ = ["MORE_CALLS", "MORE_PROMPTS", "MORE_RESOURCES", "MORE_TOOLS"]

_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_PAGE: Final = "https://example.com/confirm"
_STRING: Final[JsonObject] = {"type": "string"}
_SLOW_STEPS: Final = 100
_TOOL_CALLS: Final = 5


def _tool(name: str, *required: str, **properties: JsonValue) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = [*required]
    return {"name": name, "description": name.replace("_", " "), "inputSchema": schema}


MORE_TOOLS: Final[list[JsonObject]] = [
    _tool("conformance_constrained", "count", count={"type": "integer", "minimum": 1, "maximum": 10}),
    {
        **_tool("conformance_structured", "value", value={"type": "number"}),
        "outputSchema": {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]},
    },
    _tool("conformance_structured_list", "count", count={"type": "integer"}),
    _tool("conformance_logging", secret=_STRING),
    _tool("conformance_slow"),
    _tool("conformance_elicit_url"),
    _tool("conformance_redeem"),
    _tool("conformance_url_required"),
    _tool("conformance_sample_with_tools"),
    _tool("conformance_touch_resource", "uri", uri=_STRING),
    _tool("conformance_change_resources"),
    _tool("test_trigger_tool_change"),
    _tool("test_trigger_prompt_change"),
    _tool("test_logging_tool"),
    _tool("test_elicitation_sep1034_defaults"),
    _tool("test_input_required_result_elicitation"),
    _tool("test_input_required_result_sampling"),
    _tool("test_input_required_result_list_roots"),
    _tool("test_input_required_result_request_state"),
    _tool("test_input_required_result_tampered_state"),
    _tool("test_input_required_result_multiple_inputs"),
    _tool("test_input_required_result_capabilities"),
]

MORE_RESOURCES: Final[list[JsonObject]] = [
    {"uri": "test://conformance/failing", "name": "failing"},
    {"uri": "test://conformance/asking", "name": "asking"},
    {"uri": "file:///conformance/readme.txt", "name": "readme.txt"},
]

MORE_PROMPTS: Final[list[JsonObject]] = [
    {"name": "conformance_prompt_with_audio"},
    {"name": "conformance_failing_prompt", "arguments": [{"name": "word"}]},
    {"name": "conformance_prompt_with_many_completions", "arguments": [{"name": "word"}]},
]


def _said(value: JsonValue) -> JsonObject:
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


# --- tools without client requests -----------------------------------------------------------------------------------


def _constrained(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    count = arguments.get("count")
    # An integer may be written with a fraction of zero.
    integer = isinstance(count, int | float) and not isinstance(count, bool) and count % 1 == 0
    good = integer and isinstance(count, int | float) and 1 <= count <= 10
    if inbound.server.fault.validates(count, good=inbound.server.fault.validated(good=good)):
        return _said(f"The number is {count}.")
    if inbound.revision in LEGACY[:3]:
        raise RpcError(-32602, "count is not an integer from 1 to 10")
    return {**_said("count is not an integer from 1 to 10"), "isError": True}


def _structured(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    number = arguments.get("value", 0)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise RpcError(-32602, "value is not a number")
    value: JsonObject = {"value": number}
    return {**_said(value), **({"structuredContent": value} if inbound.knows_structured_content else {})}


def _structured_list(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    count = arguments.get("count")
    numbers: list[JsonValue] = list(range(count if isinstance(count, int) else 0))
    return {**_said(numbers), **({"structuredContent": numbers} if inbound.modern else {})}


def _logging(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    for level in _LEVELS:
        inbound.log(level, f"at {level}, a secret of {len(str(arguments.get('secret')))} characters")
    return _said("logged")


def _slow(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    for step in range(_SLOW_STEPS):
        inbound.progress(step, _SLOW_STEPS)
        time.sleep(0.02)
        if inbound.cancelled:
            return {}
    return _said("done")


def _touch(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    inbound.server.touched(inbound, str(arguments.get("uri")))
    return _said("touched")


def _changed(kind: str) -> Callable[[InboundRequest, JsonObject], JsonObject]:
    def call(inbound: InboundRequest, _: JsonObject) -> JsonObject:
        inbound.server.changed(inbound, kind)
        return _said("changed")

    return call


def _log_once(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    inbound.log("info", "once")
    return _said("logged")


def _page_required(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    if inbound.revision != LEGACY[3]:
        return _elicit_url(inbound, arguments)
    page: JsonObject = {"mode": "url", "url": _PAGE, "message": "Please confirm.", "elicitationId": "required"}
    raise RpcError(-32042, "a page must be opened first", {"elicitations": [page]})


# --- features with client requests -----------------------------------------------------------------------------------


def _form(**properties: JsonValue) -> JsonObject:
    return {"message": "Please fill it in.", "requestedSchema": {"type": "object", "properties": dict(properties)}}


def _sampling(text: str) -> JsonObject:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 100}


_NAME: Final = ("elicitation/create", _form(name=_STRING))
_GREETING: Final = ("sampling/createMessage", _sampling("Hello"))
_ALL_ROOTS: Final[tuple[str, JsonObject]] = ("roots/list", {})


def _requests(**requests: tuple[str, JsonObject]) -> Callable[[InboundRequest, JsonObject], JsonObject]:
    def call(inbound: InboundRequest, _: JsonObject) -> JsonObject:
        answers = request_input(inbound, requests)
        return _said({key: answer.get("action", "answered") for key, answer in answers.items()})

    return call


_DEFAULTS: Final = _form(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    status={"type": "string", "enum": ["active", "inactive"]},
    verified={"type": "boolean", "default": True},
)


def _capabilities(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    for method, params in (_GREETING, _NAME):
        if may_request_input(inbound, method, params):
            request_input(inbound, {"asked": (method, params)})
            return _said("asked")
    return _said("the client declares no capability")


def _redeem(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    request_input(inbound, {"voucher": _NAME})
    state, fault = inbound.params.get("requestState"), inbound.server.fault
    kept = inbound.server.state
    with kept.redeeming if fault.keeps("redeemed-atomically") else nullcontext():
        if fault.redeemed(inbound, used=state in kept.redeemed):
            raise RpcError(-32602, "requestState was used before")
        if isinstance(state, str):
            kept.redeemed.add(state)
    return _said("redeemed")


def _elicit_url(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    params: JsonObject = {"mode": "url", "message": "Please confirm.", "url": _PAGE}
    if not inbound.modern:
        params["elicitationId"] = "conformance-elicitation"
    if inbound.revision in LEGACY[:3]:
        return _said("elicitation.url is not declared")
    answer = request_input(inbound, {"page": ("elicitation/create", params)})["page"]
    if answer.get("action") == "accept" and not inbound.modern:
        inbound.notify("notifications/elicitation/complete", {"elicitationId": "conformance-elicitation"})
    return _said(str(answer.get("action")))


def _sample_with_tools(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    if inbound.revision in LEGACY[:3] or not inbound.server.fault.samples_with_tools(
        inbound, declared=inbound.declares("sampling", "tools")
    ):
        request_input(inbound, {"plain": _GREETING})
        return _said("sampled")
    messages: list[JsonValue] = [{"role": "user", "content": {"type": "text", "text": "What is the number?"}}]
    for number in range(inbound.server.fault.max_tool_calls(_TOOL_CALLS)):
        params: JsonObject = {
            "messages": list(messages),
            "maxTokens": 100,
            "tools": [{"name": "conformance_lookup", "inputSchema": {"type": "object"}}],
            "toolChoice": {"mode": "auto"},
            "modelPreferences": {"costPriority": 0.5, "speedPriority": 1},
        }
        answer = request_input(inbound, {f"round{number}": ("sampling/createMessage", params)})[f"round{number}"]
        content = answer.get("content")
        blocks: list[JsonValue] = content if isinstance(content, list) else [content]
        calls = [each for each in blocks if isinstance(each, dict) and each.get("type") == "tool_use"]
        if not calls:
            return _said(blocks)
        found: JsonValue = [
            {"type": "tool_result", "toolUseId": each["id"], "content": [{"type": "text", "text": "42"}]}
            for each in inbound.server.fault.answered_calls(calls)
        ]
        messages += [{"role": "assistant", "content": [*blocks]}, {"role": "user", "content": found}]
    return _said("the model calls tools without end")


MORE_CALLS: Final[Mapping[str, Callable[[InboundRequest, JsonObject], JsonObject]]] = {
    "conformance_constrained": _constrained,
    "conformance_structured": _structured,
    "conformance_structured_list": _structured_list,
    "conformance_logging": _logging,
    "conformance_slow": _slow,
    "conformance_elicit_url": _elicit_url,
    "conformance_redeem": _redeem,
    "conformance_url_required": _page_required,
    "conformance_sample_with_tools": _sample_with_tools,
    "conformance_touch_resource": _touch,
    "conformance_change_resources": _changed("resources"),
    "test_trigger_tool_change": _changed("tools"),
    "test_trigger_prompt_change": _changed("prompts"),
    "test_logging_tool": _log_once,
    "test_sampling": _requests(asked=_GREETING),
    "test_elicitation": _requests(asked=("elicitation/create", _form(username=_STRING, email=_STRING))),
    "test_elicitation_sep1034_defaults": _requests(asked=("elicitation/create", _DEFAULTS)),
    "test_input_required_result_elicitation": _requests(user_name=_NAME),
    "test_input_required_result_sampling": _requests(capital=_GREETING),
    "test_input_required_result_list_roots": _requests(client_roots=_ALL_ROOTS),
    "test_input_required_result_request_state": _requests(confirm=_NAME),
    "test_input_required_result_tampered_state": _requests(confirm=_NAME),
    "test_input_required_result_multiple_inputs": _requests(
        user_name=_NAME, greeting=_GREETING, client_roots=_ALL_ROOTS
    ),
    "test_input_required_result_capabilities": _capabilities,
}
