"""How the raw client calls tools that run as tasks, in either form, and looks after these."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mutants.client.messages import Failed, answers, in_scenario, wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.client.messages import Wire

__all__ = ["plays_tasks", "use_tasks"]

_SCENARIOS: Final = (
    "conformance_tasks",
    "conformance_tasks_undeclared",
    "conformance_tasks_cancel",
    "conformance_tasks_unfit",
)
_ENDED: Final = ("completed", "failed", "cancelled")
_WAITS: Final = "task_waits"
_POLLS: Final = 8
"""How often a task is looked at that does not end."""


def plays_tasks() -> bool:
    """Whether it is told to play a scenario about tasks of the server."""
    return any(in_scenario(name) for name in _SCENARIOS)


def use_tasks(wire: Wire, tools: list[JsonObject], capabilities: JsonObject) -> None:
    """Calls each tool, as a task where it may, and looks after what becomes of it.

    Args:
        wire: How the server is reached.
        tools: Its tools.
        capabilities: What it declares.
    """
    modern = answers().modern
    for tool in tools:
        if modern:
            _call(wire, str(tool["name"]))
        else:
            _call_core(wire, tool, capabilities)
    if in_scenario("conformance_tasks"):
        _say_wrongly(wire)
        if not modern:
            _list(wire)


def _member(value: JsonValue, *names: str) -> JsonValue:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# --- 2025-11-25 --------------------------------------------------------------------------------------------------------


def _as_task(tool: JsonObject, capabilities: JsonObject) -> bool:
    support = _member(tool, "execution", "taskSupport")
    if _member(capabilities, "tasks", "requests", "tools", "call") is None and not wrong("task-undeclared-server"):
        return False
    if support == "required":
        return not wrong("task-required-plain")
    return support == "optional" or wrong("task-forbidden")


def _call_core(wire: Wire, tool: JsonObject, capabilities: JsonObject) -> None:
    name = str(tool["name"])
    params: JsonObject = {"name": name, "arguments": {}}
    # One of them is called without a task first: the server may insist on one.
    if not _as_task(tool, capabilities) or name == "task_insists":
        if "error" in wire.ask("tools/call", params) and wrong("dies-of-insisting"):
            raise Failed("it wants to be called otherwise")
        return
    params["task"] = {"ttl": "60000" if wrong("task-ttl-text") else 60_000}
    params["_meta"] = {"progressToken": f"progress of {name}"}
    created = _member(wire.ask("tools/call", params), "task")
    id = _member(created, "taskId")
    if not isinstance(id, str) or (wrong("task-needs-interval") and _member(created, "pollInterval") is None):
        return
    if name == _WAITS:
        _cancel(wire, id)
        return
    _poll_core(wire, id, name)


def _cancel(wire: Wire, id: str) -> None:
    if wrong("task-notified-cancelled"):
        wire.disown()
    else:
        wire.ask("tasks/cancel", {"taskId": id})
    if wrong("dies-of-cancelled-task") and "error" in wire.ask("tasks/get", {"taskId": id}):
        raise Failed("there is no such task any more")


def _poll_core(wire: Wire, id: str, name: str) -> None:
    """Looks at a task until it has ended or asks for something, and fetches its result."""
    for _ in range(_POLLS):
        params: JsonObject = {"taskId": id}
        if wrong("task-token-again"):
            params["_meta"] = {"progressToken": f"progress of {name}"}
        if wrong("task-related-request"):
            params["_meta"] = {"io.modelcontextprotocol/related-task": {"taskId": id}}
        shown = wire.ask("tasks/get", params)
        status = shown.get("status")
        if status in _ENDED or status == "input_required":
            if status != "input_required" or not wrong("task-ignores-input"):
                wire.ask("tasks/result", {"taskId": id})
            return
        if status is None and wrong("dies-of-forgotten-task"):
            raise Failed("there is no such task any more")
        if status is None or wrong("task-polls-once"):
            return
        _pause(shown.get("pollInterval"))


def _pause(interval: JsonValue) -> None:
    if isinstance(interval, int | float) and not wrong("task-impatient"):
        time.sleep(interval / 1000)


def _list(wire: Wire) -> None:
    params: JsonObject = {}
    for _ in range(_POLLS):
        cursor = wire.ask("tasks/list", params).get("nextCursor")
        if not isinstance(cursor, str):
            return
        params = {"cursor": cursor.strip() if wrong("task-cursor-trimmed") else cursor}


# --- 2026-07-28 --------------------------------------------------------------------------------------------------------


def _call(wire: Wire, name: str) -> None:
    created = wire.ask("tools/call", {"name": name, "arguments": {}})
    id = created.get("taskId")
    if created.get("resultType") != "task" or not isinstance(id, str) or wrong("task-never-polls"):
        return
    if name == _WAITS:
        _cancel(wire, id)
        return
    if name == "task_told":
        wire.abandon("subscriptions/listen", {"notifications": {"taskIds": id if wrong("task-ids-text") else [id]}})
    answered: set[str] = set()
    for _ in range(_POLLS):
        shown = wire.ask("tasks/get", {"taskId": id})
        status = shown.get("status")
        if status == "input_required" and not wrong("task-ignores-inputs"):
            _answer(wire, id, shown.get("inputRequests"), answered)
            if wrong("task-leaves-answered"):
                break
        if status is None or status in _ENDED or wrong("task-polls-once"):
            break
        _pause(shown.get("pollIntervalMs"))
    if name == "task_soon" and (wrong("task-hides-extension") or wrong("task-no-name")):
        # When nothing depends on it any more.
        answers().odd = True
        wire.ask("tasks/get", {"taskId": id})
        answers().odd = False


def _answer(wire: Wire, id: str, requests: JsonValue, answered: set[str]) -> None:
    """Answers what was not answered yet, one after the other."""
    for key, request in requests.items() if isinstance(requests, dict) else ():
        again = f"{key}, again"
        if key in answered and (again in answered or not wrong("task-answers-twice")):
            continue
        answered.add(again if key in answered else key)
        asked = _member(request, "params")
        response = answers().answer(str(_member(request, "method")), asked if isinstance(asked, dict) else {})
        given: JsonObject = {key: response if wrong("task-update-wrapped") else response.get("result")}
        if wrong("task-update-more") and len(answered) == 1:
            given["three"] = response.get("result")
        wire.ask("tasks/update", {"taskId": id, "inputResponses": given})


# --- faults that need nothing else -------------------------------------------------------------------------------------


def _say_wrongly(wire: Wire) -> None:
    """Says what no client should, besides all else."""
    if wrong("task-id-missing"):
        wire.ask("tasks/get", {"id": "1"})
    if wrong("task-of-prompt"):
        prompt: JsonObject = {"name": "test_simple_prompt", "arguments": {}, "task": {"ttl": 1}}
        wire.ask("prompts/get", prompt)
    if wrong("task-old-methods") and answers().modern:
        wire.ask("tasks/list", {})
