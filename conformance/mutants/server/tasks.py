"""Tasks of a raw server: those of 2025-11-25, and those of the extension of 2026-07-28."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mutants.server.client_requests import ask
from mutants.server.protocol import LEGACY, META, RpcError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import Turn

__all__ = ["TASK_TOOLS", "Tasks"]

_EXTENSION: Final = f"{META}tasks"
_RELATED: Final = f"{META}related-task"
_LIMIT: Final = 3_600_000
"""Milliseconds that a task is kept at most."""
_PAUSE: Final = 0.02


def _question(message: str, field: str, kind: str) -> tuple[str, JsonObject]:
    schema: JsonObject = {"type": "object", "properties": {field: {"type": kind}}}
    return "elicitation/create", {"message": message, "requestedSchema": schema}


_QUESTIONS: Final[Mapping[str, dict[str, tuple[str, JsonObject]]]] = {
    "confirm_delete": {"confirm": _question("Delete it?", "confirm", "boolean")},
    "multi_input": {
        "name": _question("Who are you?", "name", "string"),
        "confirm": _question("Are you sure?", "confirm", "boolean"),
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
    """One task."""

    def __init__(self, name: str, arguments: JsonObject, ttl: int, id: str = "") -> None:
        self.id: Final = id
        self.name: Final = name
        self.ttl: Final = ttl
        self.created: Final = datetime.now(UTC).isoformat()
        seconds = arguments.get("seconds", _STEPS * _STEP if name == "conformance_task_progress" else 0.1)
        self.until: Final = time.monotonic() + (seconds if isinstance(seconds, int | float) else 0.1)
        self.open: Final = dict(_QUESTIONS.get(name, {}))
        self.cancelled = False
        self.user = ""

    def status(self, *, modern: bool) -> str:
        """How it stands."""
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
        """What the call comes to: a member `result` or `error`."""
        if self.name == "protocol_error_job":
            return {"error": {"code": -32603, "message": "it ended, as it should"}}
        text: JsonObject = {"type": "text", "text": f"{self.name} is done"}
        result: JsonObject = {"content": [text]}
        return {"result": {**result, "isError": True} if self.name == "failing_job" else result}

    def shown(self, *, modern: bool) -> JsonObject:
        """What is said of it."""
        status = self.status(modern=modern)
        told: JsonObject = {
            "taskId": self.id,
            "status": status,
            "createdAt": self.created,
            "lastUpdatedAt": self.created,
            "ttlMs" if modern else "ttl": self.ttl,
            "pollIntervalMs" if modern else "pollInterval": 50,
        }
        return {**told, "statusMessage": "it ended by an error"} if status == "failed" else told


class Tasks:
    """All tasks of a server."""

    def __init__(self) -> None:
        self._all: Final[dict[str, _Task]] = {}

    def call(self, turn: Turn, name: str, arguments: JsonObject) -> JsonObject | None:
        """What a call comes to that may be a task; `None`: it is like any other."""
        task = turn.params.get("task")
        if turn.revision == LEGACY[3] and not turn.modern:
            if name not in _SUPPORT and isinstance(task, dict):
                raise RpcError(-32601, f"{name} is no task")
            if _SUPPORT.get(name) == "required" and not isinstance(task, dict):
                raise RpcError(-32601, f"{name} is always a task")
        if name not in _SUPPORT:
            return None
        if name == "test_tool_with_task" and turn.modern:
            ask(turn, {"user_name": _question("Who are you?", "name", "string")})
        if turn.modern and turn.declares("extensions", _EXTENSION):
            made = self._made(turn, name, arguments, 60_000)
            return {"resultType": "task", **made.shown(modern=True)}
        if turn.revision == LEGACY[3] and isinstance(task, dict):
            ttl = task.get("ttl", 60_000)
            made = self._made(turn, name, arguments, min(ttl, _LIMIT) if isinstance(ttl, int) else 60_000)
            return {"task": {**made.shown(modern=False), "status": "working"}}
        return self._at_once(turn, name, arguments)

    def _made(self, turn: Turn, name: str, arguments: JsonObject, ttl: int) -> _Task:
        id = turn.server.fault.task_id(secrets.token_hex(16), len(self._all))
        made = _Task(name, arguments, ttl, id)
        made.user = turn.session.user
        self._all[made.id] = made
        if name == "conformance_task_progress":
            threading.Thread(target=_work, args=(turn, made), daemon=True).start()
        return made

    def _at_once(self, turn: Turn, name: str, arguments: JsonObject) -> JsonObject:
        if turn.modern and _SUPPORT[name] == "required":
            _need(turn)
        if name in _QUESTIONS:
            ask(turn, _QUESTIONS[name])
        task = _Task(name, arguments, 0)
        time.sleep(max(0.0, task.until - time.monotonic()))
        return _result(task.outcome())

    def may_listen(self, turn: Turn) -> None:
        """Refuses a client without the extension that wants to be told of tasks."""
        wanted = turn.params.get("notifications")
        if isinstance(wanted, dict) and "taskIds" in wanted:
            _need(turn)

    def serve(self, turn: Turn, method: str) -> JsonObject | None:
        """The result of a request about tasks; `None`: it is another one."""
        if method == "subscriptions/listen":
            self.may_listen(turn)
            return None
        if turn.modern and method in ("tasks/get", "tasks/cancel", "tasks/update"):
            _need(turn)
            return self._modern(turn, self._found(turn), method)
        if not turn.modern and turn.revision == LEGACY[3] and method.startswith("tasks/"):
            return self._legacy(turn, method)
        return None

    def _found(self, turn: Turn) -> _Task:
        found = self._all.get(str(turn.params.get("taskId")))
        if found is None or not turn.server.fault.owns(turn, mine=found.user == turn.session.user):
            raise RpcError(-32602, "there is no such task")
        return found

    def _modern(self, turn: Turn, task: _Task, method: str) -> JsonObject:
        if method == "tasks/get":
            shown = task.shown(modern=True)
            if shown["status"] == "input_required":
                asked: JsonObject = {key: {"method": each[0], "params": each[1]} for key, each in task.open.items()}
                shown["inputRequests"] = asked
            return {**shown, **task.outcome()} if shown["status"] in ("completed", "failed") else shown
        if method == "tasks/update":
            given = turn.params.get("inputResponses")
            for key in given if isinstance(given, dict) else ():
                task.open.pop(key, None)
        elif task.status(modern=True) in ("working", "input_required"):
            task.cancelled = True
        return {}

    def _legacy(self, turn: Turn, method: str) -> JsonObject | None:
        if method == "tasks/list":
            if turn.params.get("cursor") is not None:
                raise RpcError(-32602, "there is no such cursor")
            mine = [
                each for each in self._all.values() if turn.server.fault.owns(turn, mine=each.user == turn.session.user)
            ]
            return {"tasks": [each.shown(modern=False) for each in mine]}
        if method not in ("tasks/get", "tasks/result", "tasks/cancel"):
            return None
        task = self._found(turn)
        if method == "tasks/cancel":
            if task.status(modern=False) not in ("working", "input_required"):
                raise RpcError(-32602, "the task has ended")
            task.cancelled = True
        if method != "tasks/result":
            return task.shown(modern=False)
        related: JsonObject = {_RELATED: {"taskId": task.id}}
        if task.open:
            ask(turn, {key: (kind, {**params, "_meta": related}) for key, (kind, params) in task.open.items()})
            task.open.clear()
        while task.status(modern=False) == "working" and turn.server.fault.keeps("result-waits"):
            time.sleep(_PAUSE)
        return {**_result(task.outcome()), "_meta": related}


def _work(turn: Turn, task: _Task) -> None:
    """Tells the progress of a task, as long as it is not cancelled."""
    for step in range(_STEPS):
        if task.cancelled and turn.server.fault.keeps("task-progress-ends"):
            return
        token = turn.server.fault.task_token(turn.meta.get("progressToken"))
        if token is not None:
            told: JsonObject = {"progressToken": token, "progress": step + 1, "total": _STEPS}
            turn.session.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        time.sleep(_STEP)


def _need(turn: Turn) -> None:
    if not turn.declares("extensions", _EXTENSION):
        needed: JsonObject = {"requiredCapabilities": {"extensions": {_EXTENSION: {}}}}
        raise RpcError(-32021, "that needs the extension of tasks", needed, 400)


def _result(outcome: JsonObject) -> JsonObject:
    error, result = outcome.get("error"), outcome.get("result")
    if isinstance(error, dict):
        code = error["code"]
        raise RpcError(code if isinstance(code, int) else -32603, str(error["message"]))
    return result if isinstance(result, dict) else {}
