"""Tools of a raw server for what the wire alone does not show."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from mutants.server.protocol import RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import Turn

__all__ = ["MARKED", "WAITING_CALLS", "WAITING_TOOLS"]

MARKED: Final[Mapping[str, Mapping[str, str]]] = {"conformance_headers": {"region": "Region", "count": "Count"}}
"""By tool and argument, the parameters that stand in headers."""


def _tool(name: str, description: str, properties: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    return {"name": name, "description": description, "inputSchema": schema}


_KEY: Final[JsonObject] = {"key": {"type": "string"}}

WAITING_TOOLS: Final[list[JsonObject]] = [
    _tool("test_reconnection", "Answers on a stream that has to be taken up again", {}),
    _tool("test_missing_capability", "Wants a client with a model", {}),
    _tool("test_streaming_elicitation", "Logs, and asks the person", {}),
    _tool("conformance_wait", "Waits until it is released or cancelled", _KEY),
    _tool("conformance_release", "Releases a call that waits", _KEY),
    _tool("conformance_outcome", "Says what became of a call that waits", _KEY),
    _tool(
        "conformance_headers",
        "Takes arguments in headers",
        {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
        },
    ),
]

_OUTCOMES: Final[dict[str, str]] = {}
_RELEASED: Final[dict[str, threading.Event]] = {}


def _done(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}


def _wait(turn: Turn, arguments: JsonObject) -> JsonObject:
    key = str(arguments.get("key"))
    released = _RELEASED[key] = threading.Event()
    _OUTCOMES[key] = "running"
    turn.progress(1, 2)
    while not released.wait(0.02):
        if turn.server.fault.hangs_up(gone=_gone(turn), modern=turn.modern):
            if not turn.server.fault.keeps("silent"):
                turn.progress(2, 2)
            _OUTCOMES[key] = "cancelled"
            return _done("cancelled")
    _OUTCOMES[key] = "finished"
    return _done("released")


def _gone(turn: Turn) -> bool:
    hung_up: Mapping[str, Callable[[], bool]] = getattr(turn.session, "hung_up", {})
    id = str(turn.request["id"])
    return id in hung_up and hung_up[id]()


def _release(_: Turn, arguments: JsonObject) -> JsonObject:
    released = _RELEASED.get(str(arguments.get("key")))
    if released is not None:
        released.set()
    return _done("done")


def _outcome(_: Turn, arguments: JsonObject) -> JsonObject:
    return _done(_OUTCOMES.get(str(arguments.get("key")), "unknown"))


def _headers(_: Turn, arguments: JsonObject) -> JsonObject:
    return _done(str(sorted(arguments)))


def _missing_capability(turn: Turn, _: JsonObject) -> JsonObject:
    if turn.modern and not turn.declares("sampling"):
        needed: JsonObject = {"requiredCapabilities": {"sampling": {}}}
        status = turn.server.fault.refusal("capability", 400)
        raise RpcError(-32021, "the client does not declare sampling", needed, status)
    return _done("declared")


def _streaming_elicitation(turn: Turn, _: JsonObject) -> JsonObject:
    if not turn.server.fault.keeps("no-requests"):
        turn.send({"jsonrpc": "2.0", "id": "asked", "method": "ping"})
    return _done("not asked")


WAITING_CALLS: Final[Mapping[str, Callable[[Turn, JsonObject], JsonObject]]] = {
    "test_reconnection": lambda _, __: _done("reconnected"),
    "test_missing_capability": _missing_capability,
    "test_streaming_elicitation": _streaming_elicitation,
    "conformance_wait": _wait,
    "conformance_release": _release,
    "conformance_outcome": _outcome,
    "conformance_headers": _headers,
}
