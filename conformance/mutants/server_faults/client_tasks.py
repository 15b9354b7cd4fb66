"""Faults of servers that create tasks at their client (2025-11-25), and of tasks over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

_CORE: Final = LEGACY[3:]


@fault("client-task-ttl", "tasks.server-metadata", "schema.elicit-form", revisions=_CORE)
class _TtlAsText(Fault):
    def task_params(self, method: str, params: JsonObject) -> JsonObject:
        return {**params, "task": {"ttl": "a minute"}} if method == "elicitation/create" else params


@fault("client-task-id-member", "tasks.server-request-params", "schema.server-messages", revisions=_CORE)
class _IdMember(Fault):
    def task_params(self, method: str, params: JsonObject) -> JsonObject:
        return {"id": params["taskId"]} if method == "tasks/get" else params


@fault("client-task-cancelled-id", "tasks.server-request-params", revisions=_CORE)
class _CancelledId(Fault):
    def task_params(self, method: str, params: JsonObject) -> JsonObject:
        return {"taskId": str(params["taskId"]).upper()} if method == "tasks/cancel" else params


@fault("client-task-status-awaited", "tasks.server-polls", revisions=_CORE)
class _AwaitsStatus(Fault):
    def polls(self) -> bool:
        return False


@fault("client-task-cancelled", "tasks.server-cancels", revisions=_CORE)
class _CancelledByNotification(Fault):
    def cancels_task(self, id: str) -> JsonObject | None:
        return {"requestId": id}


@fault("client-task-cursor", "tasks.server-cursor", revisions=_CORE)
class _CursorStripped(Fault):
    def task_params(self, method: str, params: JsonObject) -> JsonObject:
        cursor = params.get("cursor")
        return {"cursor": cursor.rstrip("=")} if isinstance(cursor, str) and method == "tasks/list" else params


# --- tasks over HTTP -------------------------------------------------------------------------------------------------


@fault("task-of-any-page", "tasks.http-rules", revisions=_CORE, transports=("http",))
class _AnyPage(Fault):
    def exempts(self, message: JsonValue) -> bool:
        return isinstance(message, dict) and message.get("method") == "tasks/get"


@fault("task-on-one-instance", "tasks.get-elsewhere", revisions=MODERN, transports=("http",))
class _OneInstance(Fault):
    """A server of two instances, of which one gets to know some new tasks late."""

    def __init__(self) -> None:
        self._late: set[JsonValue] = set()
        self._lookups = 0

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if "elsewhere" in str(inbound.params.get("arguments")):
            self._late.add(str(result.get("taskId")))
        return result

    def owns(self, inbound: InboundRequest, *, mine: bool) -> bool:
        if inbound.params.get("taskId") not in self._late:
            return mine
        self._lookups += 1
        return mine and self._lookups % 2 == 1
