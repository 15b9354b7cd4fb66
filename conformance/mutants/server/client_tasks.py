"""Tools of a raw server that create tasks at the client, by task-augmented elicitations (2025-11-25)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mutants.server.client_requests import request_client
from mutants.server.protocol import LEGACY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import InboundRequest

__all__ = ["CLIENT_TASK_CALLS", "CLIENT_TASK_TOOLS"]

_PAUSE: Final = 0.02
_FORM: Final[JsonObject] = {
    "message": "What is your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "task": {"ttl": 60_000},
}


def _said(text: str, *, failed: bool = False) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if failed else {})}


def _request(inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:
    return request_client(inbound, method, inbound.server.fault.task_params(method, params))


def _created(inbound: InboundRequest) -> str | None:
    if inbound.revision != LEGACY[3] or not inbound.declares("tasks", "requests", "elicitation", "create"):
        return None
    task = _request(inbound, "elicitation/create", _FORM).get("task")
    return str(task.get("taskId")) if isinstance(task, dict) else None


def _await(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    task = _created(inbound)
    if task is None:
        return _said("the client created no task", failed=True)
    if not inbound.server.fault.polls():
        return _said("the client sent no status")
    named: JsonObject = {"taskId": task}
    while _request(inbound, "tasks/get", named).get("status") == "working":
        time.sleep(_PAUSE)
    return _said(str(_request(inbound, "tasks/result", named).get("action")))


def _cancel(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    task = _created(inbound)
    if task is None:
        return _said("the client created no task", failed=True)
    instead = inbound.server.fault.cancels_task(f"s{next(inbound.session.numbers) - 1}")
    if instead is None:
        return _said(str(_request(inbound, "tasks/cancel", {"taskId": task}).get("status")))
    inbound.notify("notifications/cancelled", instead)
    return _said("cancelled")


def _list(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    if inbound.revision != LEGACY[3] or not inbound.declares("tasks", "list"):
        return _said("the client has no tasks", failed=True)
    page = _request(inbound, "tasks/list", {})
    pages = 1
    while page.get("nextCursor") is not None:
        page = _request(inbound, "tasks/list", {"cursor": page["nextCursor"]})
        pages += 1
    return _said(f"{pages} pages")


CLIENT_TASK_CALLS: Final[Mapping[str, Callable[[InboundRequest, JsonObject], JsonObject]]] = {
    "conformance_await_client_task": _await,
    "conformance_cancel_client_task": _cancel,
    "conformance_list_client_tasks": _list,
}

CLIENT_TASK_TOOLS: Final[list[JsonObject]] = [
    {"name": name, "description": "Uses tasks of the client", "inputSchema": {"type": "object"}}
    for name in CLIENT_TASK_CALLS
]
