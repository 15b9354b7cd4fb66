"""The raw client where it says what it makes of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.client.messages import answers, wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.client.messages import Wire

__all__ = ["report_each"]

_TOLD: Final = 1000


def report_each(wire: Wire, tools: list[JsonObject], resources: list[JsonObject]) -> None:
    """Uses each thing, and tells the server what came of it."""
    for tool in tools:
        if tool["name"] != "report":
            result = wire.ask("tools/call", {"name": tool["name"], "arguments": {}})
            _report(wire, str(tool["name"]), _made_of(result, tool.get("outputSchema")))
    for resource in resources:
        result = wire.ask("resources/read", {"uri": resource["uri"]})
        _report(wire, str(resource["uri"]), _made_of(result, None))


def _report(wire: Wire, name: str, told: JsonObject) -> None:
    wire.ask("tools/call", {"name": "report", "arguments": {"of": name, **told}})


def _made_of(result: JsonObject, schema: JsonValue) -> JsonObject:
    error = result.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        if wrong("status-only") and code == -32602:
            return {"outcome": "error", "code": 400}
        if wrong("own-errors") and code == -32010:
            return {"outcome": "not found"}
        missing = code == -32602 if wrong("forgets-32002") else code == -32002
        return {"outcome": "not found" if missing else "error", "code": code}
    kind = result.get("resultType", "" if wrong("type-required") and answers().modern else "complete")
    if kind != "complete" and not wrong("any-type"):
        return {"outcome": "invalid"}
    value = result.get("structuredContent")
    fits = schema is None or (isinstance(value, dict) and isinstance(value.get("n"), int))
    if not fits and not wrong("never-validates"):
        return {"outcome": "invalid"}
    failed = result.get("isError", wrong("failed-by-default"))
    told: JsonObject = {"outcome": "failed" if failed else "result"}
    content = result.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        text = str(content[0].get("text"))
        if wrong("strips-controls"):
            text = "".join(each for each in text if each.isprintable())
        if wrong("cuts-at-64k"):
            text = text[:65536]
        told |= {"text": text[:_TOLD], "length": len(text)}
    if "structuredContent" in result and (isinstance(value, dict) or not wrong("objects-only")):
        told["structured"] = value
    return told
