"""Tools of a raw server for behavior that is not observable in messages alone."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Final

from mutants.server.protocol import RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import InboundRequest

__all__ = ["MARKED", "WAITING_CALLS", "WAITING_TOOLS"]

MARKED: Final[Mapping[str, Mapping[str, str]]] = {
    "conformance_headers": {"region": "Region", "count": "Count", "urgent": "Urgent", "place.zone": "Zone"}
}
"""By tool and path to an argument, the header parameters."""


def _tool(name: str, description: str, properties: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    return {"name": name, "description": description, "inputSchema": schema}


_KEY: Final[JsonObject] = {"key": {"type": "string"}}

WAITING_TOOLS: Final[list[JsonObject]] = [
    _tool("test_reconnection", "Returns its result on a resumed stream", {}),
    _tool("test_missing_capability", "Requires a client with sampling", {}),
    _tool("test_streaming_elicitation", "Logs, and requests elicitation", {}),
    _tool("conformance_wait", "Waits until it is released or cancelled", _KEY),
    _tool("conformance_release", "Releases a waiting call", _KEY),
    _tool("conformance_outcome", "Returns the outcome of a waiting call", _KEY),
    _tool(
        "conformance_headers",
        "Takes arguments in headers",
        {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "urgent": {"type": "boolean", "x-mcp-header": "Urgent"},
            "place": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
        },
    ),
]


def _done(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}


def _wait(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    key, state = str(arguments.get("key")), inbound.server.state
    released = state.released[key] = threading.Event()
    state.outcomes[key] = "running"
    inbound.progress(1, 2)
    while not released.wait(0.02):
        if inbound.server.fault.hangs_up(gone=_gone(inbound), modern=inbound.modern):
            if not inbound.server.fault.keeps("silent"):
                inbound.progress(2, 2)
            state.outcomes[key] = "cancelled"
            return _done("cancelled")
    state.outcomes[key] = "finished"
    return _done("released")


def _gone(inbound: InboundRequest) -> bool:
    hung_up: Mapping[str, Callable[[], bool]] = getattr(inbound.session, "hung_up", {})
    id = json.dumps(inbound.request["id"])
    return id in hung_up and hung_up[id]()


def _release(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    released = inbound.server.state.released.get(str(arguments.get("key")))
    if released is not None:
        released.set()
    return _done("done")


def _outcome(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    return _done(inbound.server.state.outcomes.get(str(arguments.get("key")), "unknown"))


def _headers(_: InboundRequest, arguments: JsonObject) -> JsonObject:
    return _done(str(sorted(arguments)))


def _missing_capability(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    if inbound.modern and not inbound.declares("sampling"):
        needed: JsonObject = {"requiredCapabilities": {"sampling": {}}}
        status = inbound.server.fault.refusal("capability", 400)
        raise RpcError(-32021, "the client does not declare sampling", needed, status)
    return _done("declared")


def _streaming_elicitation(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    if not inbound.server.fault.keeps("no-requests"):
        inbound.send({"jsonrpc": "2.0", "id": "asked", "method": "ping"})
    return _done("the client was not asked")


WAITING_CALLS: Final[Mapping[str, Callable[[InboundRequest, JsonObject], JsonObject]]] = {
    "test_reconnection": lambda _, __: _done("reconnected"),
    "test_missing_capability": _missing_capability,
    "test_streaming_elicitation": _streaming_elicitation,
    "conformance_wait": _wait,
    "conformance_release": _release,
    "conformance_outcome": _outcome,
    "conformance_headers": _headers,
}
