"""The raw client in the scenarios in which it reports results to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.client.messages import LATEST_LEGACY, ClientError, answers, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Call = Callable[[str, JsonObject], JsonObject]

__all__ = ["report_each"]

_TEXT_LIMIT: Final = 1000


def report_each(call: Call, tools: list[JsonObject], resources: list[JsonObject]) -> None:
    """Use each feature by a function that sends requests, and report the outcome to the server."""
    for tool in tools:
        if tool["name"] != "report":
            params: JsonObject = {"name": tool["name"], "arguments": {}}
            result = call("tools/call", params)
            schema = tool.get("outputSchema")
            if result.get("resultType") == "input_required":
                result = call("tools/call", {**params, "requestState": result.get("requestState")})
                schema = None if wrong("validates-first-results") else schema
            if result.get("resultType") == "task" and wrong("polls-any-task"):
                shown = call("tasks/get", {"taskId": result["taskId"]})
                result = shown if "error" in shown else result
            error = result.get("error")
            if isinstance(error, dict) and error.get("code") == -32004 and wrong("initializes-at-old-code"):
                info: JsonObject = {"name": "raw-client", "version": "1.0"}
                result = call("initialize", {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": info})
            if isinstance(error, dict) and isinstance(error.get("data"), list) and wrong("error-data-objects-only"):
                raise ClientError("the data of an error is not an object")
            _report(call, str(tool["name"]), _made_of(result, schema))
    for resource in resources:
        result = call("resources/read", {"uri": resource["uri"]})
        if "resultType" in result and wrong("any-type-of-resource"):
            result["resultType"] = "complete"
        _report(call, str(resource["uri"]), _made_of(result, None))


def _report(call: Call, name: str, outcome: JsonObject) -> None:
    call("tools/call", {"name": "report", "arguments": {"of": name, **outcome}})


_WRONG_OUTCOMES: Final[Mapping[str, tuple[int, JsonObject]]] = {
    "status-only": (-32602, {"outcome": "error", "code": 400}),
    "anonymous-errors-by-status": (-32600, {"outcome": "error", "code": 400}),
    "no-errors-in-streams": (-32010, {"outcome": "result"}),
    "positive-codes-are-no-errors": (1, {"outcome": "result"}),
    "own-errors": (-32010, {"outcome": "not found"}),
    "own-timeouts": (-32001, {"outcome": "failed"}),
}
"""By fault, the code of an error with its outcome."""


def _of_error(code: JsonValue) -> JsonObject:
    for fault, (of, outcome) in _WRONG_OUTCOMES.items():
        if code == of and wrong(fault):
            return outcome
    missing = code == -32602 if wrong("forgets-32002") else code == -32002
    return {"outcome": "not found" if missing else "error", "code": code}


def _made_of(result: JsonObject, schema: JsonValue) -> JsonObject:
    error = result.get("error")
    if isinstance(error, dict):
        return _of_error(error.get("code"))
    kind = result.get("resultType", "" if wrong("type-required") and answers().modern else "complete")
    if not kind and wrong("empty-type-is-complete"):
        kind = "complete"
    if kind != "complete" and not wrong("any-type") and not (kind == "task" and wrong("any-task")):
        return {"outcome": "invalid"}
    value = result.get("structuredContent")
    if "structuredContent" in result and not value and wrong("falsy-is-no-content"):
        return {"outcome": "invalid"}
    failed = result.get("isError", wrong("failed-by-default"))
    checked = result if wrong("validates-whole-result") else value
    fits = schema is None or (isinstance(checked, dict) and isinstance(checked.get("n"), int))
    if not fits and (not failed or wrong("validates-failures")) and not wrong("never-validates"):
        return {"outcome": "invalid"}
    if wrong("failures-as-results"):
        failed = False
    if wrong("no-content-as-failure") and result.get("content") == []:
        failed = True
    outcome: JsonObject = {"outcome": "failed" if failed else "result"}
    content = result.get("content", result.get("contents"))
    if "resultType" not in result and wrong("type-required-for-content"):
        content = None
    if isinstance(content, list) and content and isinstance(content[0], dict):
        text = str(content[0].get("text"))
        if wrong("strips-controls"):
            text = "".join(each for each in text if each.isprintable())
        if wrong("cuts-at-64k"):
            text = text[:65536]
        outcome |= {"text": text[:_TEXT_LIMIT], "length": len(text)}
    if "structuredContent" in result and (isinstance(value, dict) or not wrong("objects-only")):
        outcome["structured"] = value
    return outcome
