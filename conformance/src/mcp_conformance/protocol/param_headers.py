"""The HTTP headers in which a modern request repeats parts of its body. Written from the specification alone.

Spec: basic/transports/streamable-http#standard-mcp-request-headers (2026-07-28)
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["annotated", "decoded_value", "header_value", "modern_headers"]

_NAMES: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_BEGIN: Final = "=?base64?"
_END: Final = "?="
_PLAIN: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def header_value(value: JsonValue) -> str | None:
    """Return a value in the form of a header; `None` for null, fractions, arrays and objects, which no header carries."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        return None
    if value == "" or (_PLAIN.fullmatch(value) and not _is_marked(value)):
        return value
    return f"{_BEGIN}{base64.b64encode(value.encode()).decode()}{_END}"


def _is_marked(text: str) -> bool:
    return text.startswith(_BEGIN) and text.endswith(_END) and len(text) >= len(_BEGIN) + len(_END)


def decoded_value(text: str) -> str | None:
    """Return the value in a header, decoded if it has the markers of base64; `None` if the encoding is invalid."""
    if not _is_marked(text):
        return text
    try:
        return base64.b64decode(text[len(_BEGIN) : -len(_END)], validate=True).decode()
    except ValueError:
        return None


def annotated(tools: Iterable[JsonObject]) -> dict[str, dict[str, str]]:
    """Return the header names that the input schemas declare in `x-mcp-header`, by tool and property."""
    found: dict[str, dict[str, str]] = {}
    for tool in tools:
        schema = tool.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        for name, member in (properties if isinstance(properties, dict) else {}).items():
            header = member.get("x-mcp-header") if isinstance(member, dict) else None
            if isinstance(header, str):
                found.setdefault(str(tool.get("name")), {})[name] = header
    return found


def modern_headers(
    message: JsonObject, version: str, by_tool: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, str]]:
    """Return the headers of a modern request.

    Args:
        message: The request or notification.
        version: Version for the header when the message names none.
        by_tool: The result of `annotated`.
    """
    method = str(message.get("method"))
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    named = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    headers = [("MCP-Protocol-Version", named if isinstance(named, str) else version), ("Mcp-Method", method)]
    if not isinstance(params, dict):
        return headers
    name = params.get(_NAMES.get(method, ""))
    if isinstance(name, str):
        headers.append(("Mcp-Name", header_value(name) or ""))
    arguments = params.get("arguments")
    if method == "tools/call" and isinstance(name, str) and isinstance(arguments, dict):
        for argument, header in by_tool.get(name, {}).items():
            value = header_value(arguments.get(argument))
            if value is not None:
                headers.append((f"Mcp-Param-{header}", value))
    return headers
