"""The raw client in scenarios with caches, failures, repeated reads and skills."""

from __future__ import annotations

import http.client
import os
from typing import TYPE_CHECKING, Final

from mutants.client.http import ModernHttp, SessionHttp, events
from mutants.client.messages import MODERN, SPOKEN, ClientError, answers, wrong
from mutants.client.skills import SKILL_ACTS
from mutants.client.stdio import Pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.client.messages import Wire

__all__ = ["outlive", "play"]

_LISTEN: Final = "subscriptions/listen"
_TOOLS: Final[JsonObject] = {"notifications": {"toolsListChanged": True}}
_PROMPTS: Final[JsonObject] = {"notifications": {"promptsListChanged": True}}
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_REPEATED_LISTENS: Final = 5
"""The number of further subscriptions of a client that wants more than it was granted."""
_STARTS: Final = 3
"""The number of starts of a server that exits."""


def play(wire: Wire, capabilities: JsonObject, context: JsonObject) -> bool:
    """Run the scenario, and return whether it is one of this module."""
    act = _ACTS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""))
    if act is not None:
        act(wire, capabilities, context)
    return act is not None


def _call(wire: Wire, name: str, arguments: JsonObject | None = None) -> JsonObject:
    return wire.call("tools/call", {"name": name, "arguments": arguments or {}})


def _list(wire: Wire, *, learns: bool = True) -> list[JsonObject]:
    tools: list[JsonObject] = []
    params: JsonObject | None = {}
    while params is not None:
        result = wire.call("tools/list", params)
        listed, cursor = result.get("tools"), result.get("nextCursor")
        tools += [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        refreshes_one_page = answers().odd and wrong("refreshes-first-page")
        params = {"cursor": cursor} if isinstance(cursor, str) and not refreshes_one_page else None
    if learns:
        wire.learn(tools)
    return tools


def _report(wire: Wire, name: str, outcome: JsonObject) -> None:
    _call(wire, "report", {"of": name, **outcome})


# --- subscriptions ---------------------------------------------------------------------------------------------------


def _listen(wire: Wire, to: JsonObject = _TOOLS) -> JsonObject:
    """Open a subscription and return the params of its acknowledgment."""
    if isinstance(wire, ModernHttp):
        response = wire.post(wire.messages.request(_LISTEN, to))
        wire.kept.append(response)
        message = next(each for each in events(response))
    elif isinstance(wire, Pipes):
        wire.send(wire.messages.request(_LISTEN, to))
        message = wire.receive()
    else:
        return {}
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _grants_nothing(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    for _time in range(_REPEATED_LISTENS if wrong("listens-again-for-more") else 0):
        _listen(wire)
    if not _listen(wire).get("notifications") and wrong("insists-on-grant"):
        raise ClientError("the filter was not granted")
    _list(wire)


def _ends_subscriptions(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    ended = wire.call(_LISTEN, _TOOLS)
    odd = len(ended.keys() - {"resultType", "_meta"}) > 0 and wrong("bare-ends-only")
    if odd or wrong("end-is-failure"):
        raise ClientError("the subscription ended")
    _list(wire)


def _two_subscriptions(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    if not isinstance(wire, Pipes):
        return
    ids: list[JsonValue] = []
    at_once = wrong("listens-at-once") or wrong("subscriptions-by-order")
    for _time in range(2):
        request = wire.messages.request(_LISTEN, _TOOLS)
        ids.append(request["id"])
        wire.send(request)
        if not at_once:
            wire.receive()
    acknowledged = [_subscription(wire.receive()) for _ in ids] if at_once else ids
    if wrong("subscriptions-by-order"):
        ids = acknowledged
    for tool, later in (("test_tells_second", ""), ("test_tells_first", ", later")):
        wire.notified.clear()
        _call(wire, tool)
        outcome = [_subscription(each) for each in wire.notified]
        if wrong("tells-newest"):
            outcome = [ids[-1] for _ in outcome]
        for name, id in zip(("first", "second"), ids, strict=True):
            _report(wire, f"{name}{later}", {"heard": bool(outcome) if wrong("tells-everybody") else id in outcome})


def _subscription(message: JsonObject) -> JsonValue:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(_SUBSCRIPTION) if isinstance(meta, dict) else None


# --- failures --------------------------------------------------------------------------------------------------------


def _crossed(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    """Send two calls at once and match the responses by id."""
    if not isinstance(wire, Pipes):
        return
    names = ("test_first", "test_second")
    requests = [wire.messages.request("tools/call", {"name": name, "arguments": {}}) for name in names]
    for request in requests:
        wire.send(request)
    answers = [wire.receive(), wire.receive()]
    if not wrong("answers-in-order"):
        answers.sort(key=lambda each: [request["id"] for request in requests].index(each.get("id")))
    for name, answer in zip(names, answers, strict=True):
        result = answer.get("result")
        content = result.get("content") if isinstance(result, dict) else None
        first = content[0] if isinstance(content, list) else None
        _report(wire, name, {"text": first.get("text") if isinstance(first, dict) else None})


def _called_twice(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    """Call a tool twice at once, and retry each call with its own input responses and state."""
    _list(wire)
    calls: list[JsonObject] = [{"name": "test_called_twice", "arguments": {"name": n}} for n in ("first", "second")]
    results = wire.call_at_once("tools/call", calls)
    if wrong("one-state-for-all") and "requestState" in results[-1]:
        results = [{**each, "requestState": results[-1]["requestState"]} for each in results]
    for call, result in zip(calls, results, strict=True):
        again = answers().again(call, result) if result.get("resultType") == "input_required" else None
        if again is not None:
            wire.call("tools/call", again)


def outlive(command: Sequence[str]) -> None:
    """Let the server exit, and continue with another process."""
    subscribed = 1 if wrong("forgets-subscriptions") else 2 if wrong("resubscribes-once") else _STARTS
    for number in range(1 if wrong("never-restarts") else _STARTS):
        wire = Pipes(command, MODERN)
        try:
            wire.open()
            if number < subscribed:
                _listen(wire)
            _call(wire, "test_crashes")
        except ClientError as failed:
            if number == _STARTS - 1:
                raise failed from None
        else:
            break
        finally:
            wire.close()


def _broken_stream(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    try:
        _call(wire, "test_breaks")
    except (ClientError, OSError, http.client.HTTPException):
        if wrong("broken-for-ever"):
            raise ClientError("the connection broke") from None
        if wrong("same-id-after-break") and isinstance(wire, ModernHttp | SessionHttp):
            wire.messages.forget()
            _call(wire, "test_breaks")
    for name in ("test_behind", "test_unavailable", "test_last"):
        _call(wire, name)
    failed = False
    for prompt, arguments in (("test_failing_prompt", {}), ("test_prompt_with_arguments", {"arg1": "1", "arg2": "2"})):
        given: JsonObject = {**arguments}
        if failed and wrong("number-arguments-after-error"):
            given = {name: int(value) for name, value in arguments.items()}
        failed = "error" in wire.call("prompts/get", {"name": prompt, "arguments": given})


# --- repeated reads --------------------------------------------------------------------------------------------------


def _freshness(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    """Use a cache: values that are still fresh are not requested again."""
    _listen(wire)
    _list(wire)
    _call(wire, "test_changes")
    if wrong("keeps-further-pages"):
        wire.call("tools/list", {})
    elif not wrong("deaf-to-changes"):
        _list(wire)
    cursor: JsonObject = {"cursor": wire.call("prompts/list", {}).get("nextCursor")}
    for number in range(3):
        wire.call("resources/templates/list", {})
        if number and wrong("keeps-second-page"):
            continue
        failed = "error" in wire.call("prompts/list", cursor)
        if failed and not wrong("keeps-first-page"):
            again: JsonObject = {"cursor": wire.call("prompts/list", {}).get("nextCursor")}
            wire.call("prompts/list", again)
    wire.call("resources/list", {})
    for _time in range(2):
        wire.call("resources/read", {"uri": "test://static-text"})
    for _time in range(1 if wrong("keeps-rounds") else 2):
        params: JsonObject = {"uri": "test://asks-first"}
        state = wire.call("resources/read", params).get("requestState")
        wire.call("resources/read", params if state is None else {**params, "requestState": state})
    if wrong("polls") and isinstance(wire, Pipes):
        wire.send(wire.messages.request("tools/call", {"name": "test_takes_long", "arguments": {}}))
        wire.call("resources/list", {})
        wire.receive()
    else:
        _call(wire, "test_takes_long")
    wire.call("resources/templates/list", {})
    if not wrong("seconds-for-milliseconds"):
        wire.call("resources/list", {})
    _listen(wire, _PROMPTS)
    # The first page is still in the cache.
    _call(wire, "test_changes")
    wire.call("tools/list" if wrong("tools-for-prompts") else "prompts/list", {})
    updated: JsonObject = {"uri": "test://updated"}
    wire.call("resources/read", updated)
    _listen(wire, {"notifications": {"resourceSubscriptions": [updated["uri"]]}})
    _call(wire, "test_changes")
    if not wrong("deaf-to-updates"):
        wire.call("resources/read", updated)


def _header_moves(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    for number in range(2):
        tools = _list(wire, learns=number == 0 or not wrong("first-schema"))
        for _time in range(2):
            error = _call(wire, "test_moved_header", {"region": "eu", "eager": True}).get("error")
            if not isinstance(error, dict) or error.get("code") != -32020 or wrong("no-header-retry"):
                break
            # From here on, for a fault of repeated calls.
            answers().odd = True
            if not wrong("calls-again-unlisted"):
                _list(wire, learns=not wrong("first-schema"))
        if any(each["name"] == "test_repaired_header" for each in wire.usable(tools)):
            _call(wire, "test_repaired_header", {"region": "eu"})
        _call(wire, "test_simple_text")


def _call_unlisted(wire: Wire, _: JsonObject, context: JsonObject) -> None:
    calls = context.get("toolCalls")
    region: JsonObject = {"type": "string", "x-mcp-header": "Old-Region"}
    if wrong("guesses-headers"):
        wire.learn([{"name": "test_not_listed", "inputSchema": {"properties": {"region": region}}}])
    for call in calls if isinstance(calls, list) else []:
        wire.call("tools/call", call if isinstance(call, dict) else {})
    _list(wire)


def _has_completions(capabilities: JsonObject) -> bool:
    """Return whether the server has completions, for which 2024-11-05 has no capability."""
    return "completions" in capabilities or os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") == SPOKEN[0]


def _completes(wire: Wire, capabilities: JsonObject, _: JsonObject) -> None:
    if not _has_completions(capabilities):
        return
    prompt: JsonObject = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    params: JsonObject = {"ref": prompt, "argument": {"name": "arg1", "value": ""}}
    completion = wire.call("completion/complete", params).get("completion")
    found = completion if isinstance(completion, dict) else {}
    if "total" not in found and wrong("needs-total"):
        raise ClientError("the total is missing")
    values = found.get("values")
    chosen: JsonObject = {"arg1": values[0]} if isinstance(values, list) else {}
    params = {"ref": prompt, "argument": {"name": "arg2", "value": ""}, "context": {"arguments": chosen}}
    if wrong("no-context"):
        del params["context"]
    wire.call("completion/complete", params)


def _completes_at_once(wire: Wire, capabilities: JsonObject, _: JsonObject) -> None:
    if not _has_completions(capabilities):
        return
    prompt: JsonObject = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    params: list[JsonObject] = [{"ref": prompt, "argument": {"name": each, "value": ""}} for each in ("arg1", "arg2")]
    for result in wire.call_at_once("completion/complete", params):
        completion = result.get("completion")
        if isinstance(completion, dict) and "total" not in completion and wrong("needs-total-of-each"):
            raise ClientError("the total is missing")


# --- schemas ---------------------------------------------------------------------------------------------------------


def _schemas(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    tools = _list(wire)
    for tool in tools:
        if tool["name"] != "report":
            _report_fit(wire, tool)
    again = _list(wire)
    for tool in tools if wrong("first-output-schema") else again:
        if tool["name"] == "gives_changed":
            _report_fit(wire, tool)


def _report_fit(wire: Wire, tool: JsonObject) -> None:
    """Call a tool, and report whether its result is valid."""
    value = _call(wire, str(tool["name"])).get("structuredContent")
    pair = value.get("pair") if isinstance(value, dict) else None
    _report(wire, str(tool["name"]), {"outcome": "result" if _fits(pair, tool) else "invalid"})


def _fits(pair: JsonValue, tool: JsonObject) -> bool:
    """Return whether the structured content is valid for the output schema, as far as the scenario needs it."""
    schema = tool.get("outputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    wanted = properties.get("pair") if isinstance(properties, dict) else None
    if not isinstance(schema, dict) or not isinstance(wanted, dict):
        return False
    dialect = str(schema.get("$schema", ""))
    draft7 = "draft-07" in dialect and not wrong("reads-all-as-2020")
    if dialect and "json-schema.org" not in dialect:
        return wrong("ignores-dialect")
    if "2020-12" in dialect and wrong("names-no-default"):
        return False
    if wanted.get("$ref") == "#/$defs/number":
        return isinstance(pair, int) or wrong("ignores-local-references")
    if "$ref" in wanted:
        return wrong("ignores-references")
    if isinstance(pair, list) != (wanted.get("type") == "array"):
        return False
    items = wanted.get("items" if draft7 else "prefixItems")
    if items is None or not isinstance(pair, list) or (wrong("ignores-prefix") and not dialect):
        return True
    return isinstance(pair[0], int)


def _preservation(wire: Wire, _: JsonObject, __: JsonObject) -> None:
    schema = next(tool["inputSchema"] for tool in _list(wire) if tool["name"] == "json_schema_2020_12_tool")
    if wrong("drops-keywords") and isinstance(schema, dict):
        schema = {name: part for name, part in schema.items() if name in ("type", "properties", "required")}
    _call(wire, "json_schema_echo", {"schema": schema})


_ACTS: Final[Mapping[str, Callable[[Wire, JsonObject, JsonObject], None]]] = {
    "conformance_broken_stream": _broken_stream,
    "conformance_call_unlisted": _call_unlisted,
    "conformance_called_twice": _called_twice,
    "conformance_completes": _completes,
    "conformance_completes_at_once": _completes_at_once,
    "conformance_crossed": _crossed,
    "conformance_ends_subscriptions": _ends_subscriptions,
    "conformance_freshness": _freshness,
    "conformance_grants_nothing": _grants_nothing,
    "conformance_header_moves": _header_moves,
    "conformance_schemas": _schemas,
    "conformance_two_subscriptions": _two_subscriptions,
    "json-schema-2020-12-preservation": _preservation,
    **SKILL_ACTS,
}
"""The scenarios by name."""
