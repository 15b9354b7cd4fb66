"""The tasks of a raw server: those of 2025-11-25, and those of the extension of 2026-07-28."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mutants.server.client_requests import request_input
from mutants.server.protocol import LEGACY, META, RpcError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__ = ["TASK_TOOLS", "Tasks"]

_EXTENSION: Final = f"{META}tasks"
_RELATED: Final = f"{META}related-task"
_LIMIT: Final = 3_600_000
"""The greatest ttl of a task in milliseconds."""
_PAUSE: Final = 0.02


def _form(message: str, field: str, kind: str) -> tuple[str, JsonObject]:
    schema: JsonObject = {"type": "object", "properties": {field: {"type": kind}}}
    return "elicitation/create", {"message": message, "requestedSchema": schema}


_FORMS: Final[Mapping[str, dict[str, tuple[str, JsonObject]]]] = {
    "confirm_delete": {"confirm": _form("Delete it?", "confirm", "boolean")},
    "multi_input": {
        "name": _form("Who are you?", "name", "string"),
        "confirm": _form("Are you sure?", "confirm", "boolean"),
    },
}
_SUPPORT: Final[Mapping[str, str]] = {
    "slow_compute": "optional",
    "failing_job": "required",
    "protocol_error_job": "optional",
    "confirm_delete": "optional",
    "multi_input": "optional",
    "test_tool_with_task": "required",
    "conformance_task_progress": "optional",
}
_STEPS: Final = 5
_STEP: Final = 0.05

TASK_TOOLS: Final[list[JsonObject]] = [
    {
        "name": name,
        "description": "Runs as a task",
        "inputSchema": {"type": "object", "properties": {}},
        "execution": {"taskSupport": support},
    }
    for name, support in _SUPPORT.items()
]
"""The tools that run as tasks."""


class _Task:
    """A task."""

    def __init__(self, name: str, arguments: JsonObject, ttl: int, id: str = "") -> None:
        self.id: Final = id
        self.name: Final = name
        self.ttl: Final = ttl
        self.created: Final = datetime.now(UTC).isoformat()
        seconds = arguments.get("seconds", _STEPS * _STEP if name == "conformance_task_progress" else 0.1)
        self._began: Final = time.monotonic()
        self.until: Final = time.monotonic() + (seconds if isinstance(seconds, int | float) else 0.1)
        self.open: Final = dict(_FORMS.get(name, {}))
        self.cancelled = False
        self.has_waiter = False
        self.user = ""
        self._status = "working"
        self._updated = self.created

    @property
    def expired(self) -> bool:
        """Whether its time to live is over."""
        return time.monotonic() > self._began + self.ttl / 1000

    def status(self, *, modern: bool) -> str:
        """Return the status."""
        if self.cancelled:
            return "cancelled"
        if self.open:
            return "input_required"
        if time.monotonic() < self.until:
            return "working"
        return (
            "failed"
            if self.name == "protocol_error_job" or (self.name == "failing_job" and not modern)
            else "completed"
        )

    def outcome(self) -> JsonObject:
        """Return the outcome of the call: a member `result` or `error`."""
        if self.name == "protocol_error_job":
            return {"error": {"code": -32603, "message": "the task failed on purpose"}}
        text: JsonObject = {"type": "text", "text": f"{self.name} is done"}
        result: JsonObject = {"content": [text]}
        return {"result": {**result, "isError": True} if self.name == "failing_job" else result}

    def shown(self, *, modern: bool) -> JsonObject:
        """Return the task as a result shows it."""
        status = self.status(modern=modern)
        if status != self._status:
            self._status, self._updated = status, datetime.now(UTC).isoformat()
        shown: JsonObject = {
            "taskId": self.id,
            "status": status,
            "createdAt": self.created,
            "lastUpdatedAt": self._updated,
            "ttlMs" if modern else "ttl": self.ttl,
            "pollIntervalMs" if modern else "pollInterval": 50,
        }
        return {**shown, "statusMessage": "the task failed"} if status == "failed" else shown


class Tasks:
    """The tasks of a server."""

    def __init__(self) -> None:
        self._all: Final[dict[str, _Task]] = {}

    def call(self, inbound: InboundRequest, name: str, arguments: JsonObject) -> JsonObject | None:
        """Return the result of a call that may be a task, or `None` for an ordinary call."""
        task = inbound.params.get("task")
        if inbound.revision == LEGACY[3] and not inbound.modern:
            if name not in _SUPPORT and isinstance(task, dict):
                raise RpcError(-32601, f"{name} cannot run as a task")
            if _SUPPORT.get(name) == "required" and not isinstance(task, dict):
                raise RpcError(-32601, f"{name} must run as a task")
        if name not in _SUPPORT:
            return None
        if name == "test_tool_with_task" and inbound.modern:
            request_input(inbound, {"user_name": _form("Who are you?", "name", "string")})
        if inbound.modern and inbound.declares("extensions", _EXTENSION):
            made = self._made(inbound, name, arguments, 60_000)
            return {"resultType": "task", **made.shown(modern=True)}
        if inbound.revision == LEGACY[3] and isinstance(task, dict):
            ttl = task.get("ttl", 60_000)
            made = self._made(inbound, name, arguments, min(ttl, _LIMIT) if isinstance(ttl, int) else 60_000)
            return {"task": {**made.shown(modern=False), "status": "working"}}
        return self._at_once(inbound, name, arguments)

    def _made(self, inbound: InboundRequest, name: str, arguments: JsonObject, ttl: int) -> _Task:
        id = inbound.server.fault.task_id(secrets.token_hex(16), len(self._all))
        made = _Task(name, arguments, ttl, id)
        made.user = inbound.session.user
        self._all[made.id] = made
        if name == "conformance_task_progress":
            threading.Thread(target=_work, args=(inbound, made), daemon=True).start()
        return made

    def _at_once(self, inbound: InboundRequest, name: str, arguments: JsonObject) -> JsonObject:
        if inbound.modern and _SUPPORT[name] == "required":
            _need(inbound)
        if name in _FORMS:
            request_input(inbound, _FORMS[name])
        task = _Task(name, arguments, 0)
        time.sleep(max(0.0, task.until - time.monotonic()))
        return _result(task.outcome())

    def may_listen(self, inbound: InboundRequest) -> None:
        """Reject a task subscription of a client without the extension."""
        if _requested(inbound):
            _need(inbound)

    def reported(self, inbound: InboundRequest) -> list[JsonValue]:
        """Return those tasks of a subscription that are the user's."""
        tasks = [(id, self._all.get(str(id))) for id in _requested(inbound)]
        owns, user = inbound.server.fault.owns, inbound.session.user
        return [id for id, each in tasks if each is not None and owns(inbound, mine=each.user == user)]

    def serve(self, inbound: InboundRequest, method: str) -> JsonObject | None:
        """Return the result of a request about tasks, or `None` for another request."""
        if method == "subscriptions/listen":
            self.may_listen(inbound)
            return None
        if inbound.modern and method in ("tasks/get", "tasks/cancel", "tasks/update"):
            _need(inbound)
            return self._modern(inbound, self._found(inbound), method)
        if not inbound.modern and inbound.revision == LEGACY[3] and method.startswith("tasks/"):
            return self._legacy(inbound, method)
        return None

    def _found(self, inbound: InboundRequest) -> _Task:
        found = self._all.get(str(inbound.params.get("taskId")))
        if found is None or not inbound.server.fault.owns(inbound, mine=found.user == inbound.session.user):
            raise RpcError(-32602, "unknown task")
        if found.expired and not inbound.server.fault.finds_expired(inbound):
            raise RpcError(-32602, "the task has expired")
        return found

    def _modern(self, inbound: InboundRequest, task: _Task, method: str) -> JsonObject:
        if method == "tasks/get":
            shown = task.shown(modern=True)
            if shown["status"] == "input_required":
                input_requests: JsonObject = {
                    key: {"method": each[0], "params": each[1]} for key, each in task.open.items()
                }
                shown["inputRequests"] = input_requests
            return {**shown, **task.outcome()} if shown["status"] in ("completed", "failed") else shown
        if method == "tasks/update":
            given = inbound.params.get("inputResponses")
            for key in given if isinstance(given, dict) else ():
                task.open.pop(key, None)
        elif task.status(modern=True) in ("working", "input_required"):
            task.cancelled = True
        return {}

    def _legacy(self, inbound: InboundRequest, method: str) -> JsonObject | None:
        if method == "tasks/list":
            if inbound.params.get("cursor") is not None:
                raise RpcError(-32602, "unknown cursor")
            mine = [
                each
                for each in self._all.values()
                if inbound.server.fault.owns(inbound, mine=each.user == inbound.session.user) and not each.expired
            ]
            return {"tasks": [each.shown(modern=False) for each in mine]}
        if method not in ("tasks/get", "tasks/result", "tasks/cancel"):
            return None
        task = self._found(inbound)
        if method == "tasks/cancel":
            if task.status(modern=False) not in ("working", "input_required"):
                raise RpcError(-32602, "the task has ended")
            task.cancelled = True
        if method != "tasks/result":
            return task.shown(modern=False)
        if task.has_waiter and not inbound.server.fault.keeps("several-waiters"):
            raise RpcError(-32603, "another request waits for the task")
        task.has_waiter = True
        related: JsonObject = {_RELATED: {"taskId": task.id}}
        if task.open:
            request_input(
                inbound, {key: (kind, {**params, "_meta": related}) for key, (kind, params) in task.open.items()}
            )
            task.open.clear()
        while task.status(modern=False) == "working" and inbound.server.fault.keeps("result-waits"):
            time.sleep(_PAUSE)
        while task.cancelled and not inbound.server.fault.keeps("result-of-cancelled"):
            time.sleep(_PAUSE)
        task.has_waiter = False
        return {**_result(task.outcome()), "_meta": related}


def _requested(inbound: InboundRequest) -> list[JsonValue]:
    """Return the tasks that a subscription requests."""
    wanted = inbound.params.get("notifications")
    ids = wanted.get("taskIds") if isinstance(wanted, dict) else None
    return ids if isinstance(ids, list) else []


def _work(inbound: InboundRequest, task: _Task) -> None:
    """Report the progress of a task until it is cancelled."""
    for step in range(_STEPS):
        if task.cancelled and inbound.server.fault.keeps("task-progress-ends"):
            return
        token = inbound.server.fault.task_token(inbound.meta.get("progressToken"))
        # The tasks of the extension have no progress.
        if token is not None and not (inbound.modern and inbound.server.fault.keeps("task-without-progress")):
            shown: JsonObject = {"progressToken": token, "progress": step + 1, "total": _STEPS}
            if inbound.server.fault.keeps("task-progress-related"):
                shown["_meta"] = {_RELATED: {"taskId": task.id}}
            inbound.session.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": shown})
        time.sleep(_STEP)


def _need(inbound: InboundRequest) -> None:
    if not inbound.declares("extensions", _EXTENSION):
        needed: JsonObject = {"requiredCapabilities": {"extensions": {_EXTENSION: {}}}}
        raise RpcError(-32021, "the request needs the tasks extension", needed, 400)


def _result(outcome: JsonObject) -> JsonObject:
    error, result = outcome.get("error"), outcome.get("result")
    if isinstance(error, dict):
        code = error["code"]
        raise RpcError(code if isinstance(code, int) else -32603, str(error["message"]))
    return result if isinstance(result, dict) else {}
