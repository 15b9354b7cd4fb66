"""The private features of the first user of a raw server: a tool, a resource, a template and a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.protocol import RpcError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import InboundRequest

__all__ = ["private", "with_private"]

_OTHER: Final = "Bearer other-"
_TOOL: Final = "conformance_private"
_RESOURCE: Final = "test://conformance/private"
_TEMPLATE: Final = f"{_RESOURCE}/{{word}}"
_PROMPT: Final = "conformance_private_prompt"
_ROWS: Final[Mapping[str, JsonObject]] = {
    "tools": {"name": _TOOL, "description": "Private", "inputSchema": {"type": "object", "properties": {}}},
    "resources": {"uri": _RESOURCE, "name": "private", "mimeType": "text/plain"},
    "resourceTemplates": {"uriTemplate": _TEMPLATE, "name": "private", "mimeType": "text/plain"},
    "prompts": {"name": _PROMPT, "arguments": [{"name": "word"}]},
}


def _theirs(inbound: InboundRequest) -> bool:
    return inbound.server.fault.private(inbound, theirs=not inbound.session.user.startswith(_OTHER))


def with_private(inbound: InboundRequest, listed: JsonObject) -> JsonObject:
    """Return a page; the last page includes private features."""
    for member, row in _ROWS.items():
        rows = listed.get(member)
        if isinstance(rows, list) and "nextCursor" not in listed and inbound.session.user and _theirs(inbound):
            return {**listed, member: [*rows, row]}
    return listed


def private(inbound: InboundRequest) -> JsonObject | None:
    """Return the result of a request for a private feature, or `None` for other requests."""
    method = inbound.request["method"]
    ref, uri = inbound.params.get("ref"), str(inbound.params.get("uri"))
    requested = {
        "tools/call": inbound.params.get("name") == _TOOL,
        "prompts/get": inbound.params.get("name") == _PROMPT,
        "resources/read": uri == _RESOURCE or uri.startswith(f"{_RESOURCE}/"),
        "completion/complete": isinstance(ref, dict) and (ref.get("name") == _PROMPT or ref.get("uri") == _TEMPLATE),
    }
    if not requested.get(str(method)):
        return None
    if not _theirs(inbound):
        raise RpcError(-32602, "unknown feature")
    text: JsonObject = {"type": "text", "text": "private"}
    results: dict[str, JsonObject] = {
        "tools/call": {"content": [text]},
        "prompts/get": {"messages": [{"role": "user", "content": text}]},
        "resources/read": {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "private"}]},
        "completion/complete": {"completion": {"values": ["secret"], "hasMore": False}},
    }
    return results[str(method)]
