"""The checks of a raw server for the headers of modern requests."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from mutants.server.protocol import META
from mutants.server.waiting_tools import MARKED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Fault

__all__ = ["mismatch"]

_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def mismatch(fault: Fault, headers: Iterable[tuple[str, str]], message: JsonObject) -> str | None:
    """Return how the headers of a request differ from its body, or `None`."""
    exact = not fault.keeps("names-any-case")
    exactly = list(headers)
    lines: dict[str, list[str]] = {}
    for name, text in exactly:
        lines.setdefault(name if exact else name.lower(), []).append(text)
    given = {name: texts[0] if len(texts) == 1 else fault.repeated(texts) for name, texts in lines.items()}
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    method = str(message.get("method"))
    wanted: list[tuple[str, JsonValue, bool]] = [
        ("MCP-Protocol-Version", meta.get(f"{META}protocolVersion"), False),
        ("Mcp-Method", method, False),
    ]
    if method in _NAMED:
        wanted.append(("Mcp-Name", params.get(_NAMED[method]), True))
    arguments = params.get("arguments")
    marks = MARKED.get(str(params.get("name")), {}) if method == "tools/call" else {}
    for path, name in marks.items():
        wanted.append((f"Mcp-Param-{name}", _at(arguments, path), True))
    known = {name.lower() for name, _, _ in wanted}
    if not fault.keeps("unknown-params") and any(n.startswith("mcp-param-") and n not in known for n in given):
        return "a header names no parameter"
    others = {f"mcp-param-{header.lower()}" for tool in MARKED.values() for header in tool.values()} - known
    if not fault.keeps(f"params of other tools, {method}") and any(name in others for name in given):
        return "a header does not match the body"
    for name, value, encoded in wanted:
        found = given.get(name if exact else name.lower())
        if not exact and not fault.keeps(f"names-any-case {name}") and (name, found) not in exactly:
            found = None
        wrong = _wrong(fault, name, found, value, encoded=encoded)
        if wrong is not None:
            return wrong
    return None


def _at(value: JsonValue, path: str) -> JsonValue:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _wrong(fault: Fault, name: str, given: str | None, value: JsonValue, *, encoded: bool) -> str | None:
    if value is None:
        return None if fault.keeps("no-header-for-nothing") or given else f"the header {name} is missing"
    if given is None:
        return f"the header {name} is missing" if fault.keeps(f"missing {name}") else None
    given = fault.read(name, given.strip(" \t") if fault.keeps(f"spaces {name}") else given)
    if not all(" " <= character <= "~" for character in given):
        # A value that a header cannot hold never equals the body.
        return f"the header {name} has invalid characters" if fault.keeps(f"characters {name}") else None
    text = given
    found = _SENTINEL.fullmatch(given) if encoded and fault.keeps(f"base64 {name}") else None
    if found is not None:
        try:
            text = base64.b64decode(found[1], validate=True).decode()
        except ValueError:
            return f"the header {name} has invalid base64" if fault.keeps("invalid-base64") else None
    if isinstance(value, bool):
        same = text == ("true" if value else "false")
    else:
        same = fault.same_number(text, value) if isinstance(value, int) else text == value
    return None if fault.agrees(name, text, value, same=same) else f"the header {name} does not match the body"
