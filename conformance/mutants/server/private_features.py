"""What a raw server has for its first user alone: a tool, a resource and a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.protocol import RpcError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import Turn

__all__ = ["private", "with_private"]

_OTHER: Final = "Bearer other-"
_TOOL: Final = "conformance_private"
_RESOURCE: Final = "test://conformance/private"
_PROMPT: Final = "conformance_private_prompt"
_ROWS: Final[Mapping[str, JsonObject]] = {
    "tools": {"name": _TOOL, "description": "Private", "inputSchema": {"type": "object", "properties": {}}},
    "resources": {"uri": _RESOURCE, "name": "private", "mimeType": "text/plain"},
    "prompts": {"name": _PROMPT, "arguments": [{"name": "word"}]},
}


def _theirs(turn: Turn) -> bool:
    return turn.server.fault.private(turn, theirs=not turn.session.user.startswith(_OTHER))


def with_private(turn: Turn, listed: JsonObject) -> JsonObject:
    """A page, with what is private on the last one."""
    for member, row in _ROWS.items():
        rows = listed.get(member)
        if isinstance(rows, list) and "nextCursor" not in listed and turn.session.user and _theirs(turn):
            return {**listed, member: [*rows, row]}
    return listed


def private(turn: Turn) -> JsonObject | None:
    """The result of a request for what is private; `None`: it is for something else."""
    method = turn.request["method"]
    ref = turn.params.get("ref")
    asked = {
        "tools/call": turn.params.get("name") == _TOOL,
        "prompts/get": turn.params.get("name") == _PROMPT,
        "resources/read": turn.params.get("uri") == _RESOURCE,
        "completion/complete": isinstance(ref, dict) and ref.get("name") == _PROMPT,
    }
    if not asked.get(str(method)):
        return None
    if not _theirs(turn):
        raise RpcError(-32602, "there is no such thing")
    text: JsonObject = {"type": "text", "text": "private"}
    results: dict[str, JsonObject] = {
        "tools/call": {"content": [text]},
        "prompts/get": {"messages": [{"role": "user", "content": text}]},
        "resources/read": {"contents": [{"uri": _RESOURCE, "mimeType": "text/plain", "text": "private"}]},
        "completion/complete": {"completion": {"values": ["secret"], "hasMore": False}},
    }
    return results[str(method)]
