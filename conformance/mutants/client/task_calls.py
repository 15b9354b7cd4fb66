"""The task-augmented tool calls of the raw client, in both forms."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from mutants.client.http import ModernHttp
from mutants.client.messages import ClientError, answers, in_scenario, wrong
from mutants.client.stdio import Pipes

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.client.messages import Wire

__all__ = ["plays_tasks", "use_tasks"]

_SCENARIOS: Final = (
    "conformance_tasks",
    "conformance_tasks_undeclared",
    "conformance_tasks_cancel",
    "conformance_tasks_cancel_later",
    "conformance_tasks_unfit",
)
_ENDED: Final = ("completed", "failed", "cancelled")
_WAITS: Final = "task_waits"
_POLLS: Final = 8
"""The greatest number of polls of a task that does not end."""


def plays_tasks() -> bool:
    """Return whether the scenario is about tasks of the server."""
    return any(in_scenario(name) for name in _SCENARIOS)


def use_tasks(wire: Wire, tools: list[JsonObject], capabilities: JsonObject) -> None:
    """Call each tool, as a task where it may be one, and follow the tasks.

    Args:
        wire: The connection.
        tools: The tools of the server.
        capabilities: The capabilities of the server.
    """
    modern = answers().modern
    if in_scenario("conformance_tasks_cancel_later"):
        _cancel_later(wire)
        return
    for tool in tools:
        if modern:
            _call(wire, str(tool["name"]))
        else:
            _call_core(wire, tool, capabilities)
    if in_scenario("conformance_tasks"):
        _send_invalid(wire)
        if not modern:
            _list(wire)


_CALLED: Final[list[tuple[JsonValue, JsonObject]]] = []
"""The id of a task that is cancelled in the next connection, and a cancellation of its call, for a fault."""


def _cancel_later(wire: Wire) -> None:
    """Start a task in the first connection, and cancel it in the second one."""
    if not isinstance(wire, ModernHttp):
        return
    if not _CALLED:
        id = wire.call("tools/call", {"name": _WAITS, "arguments": {}}).get("taskId")
        _CALLED.append((id, wire.messages.cancellation_of_last()))
        return
    id, cancellation = _CALLED[0]
    if wrong("task-notified-later"):
        wire.post(cancellation).read()
    else:
        wire.call("tasks/cancel", {"taskId": id})


def _member(value: JsonValue, *names: str) -> JsonValue:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# --- 2025-11-25 ------------------------------------------------------------------------------------------------------


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
    # One tool is called without a task first: the server may require one.
    if not _as_task(tool, capabilities) or name == "task_insists":
        if "error" in wire.call("tools/call", params) and wrong("dies-of-insisting"):
            raise ClientError("the tool requires another form of call")
        return
    params["task"] = {"ttl": "60000" if wrong("task-ttl-text") else 60_000}
    params["_meta"] = {"progressToken": f"progress of {name}"}
    created = _member(wire.call("tools/call", params), "task")
    id = _member(created, "taskId")
    if not isinstance(id, str) or (wrong("task-needs-interval") and _member(created, "pollInterval") is None):
        return
    if name == _WAITS:
        _cancel(wire, id)
        return
    _poll_core(wire, id, name, created)


_NAMES: Final[dict[str, str]] = {}
"""The first task id of those that differ only in case, for a fault that takes them for the same."""


def _known_as(id: str) -> str:
    """Return the id that the client uses for a task."""
    return _NAMES.setdefault(id.lower(), id) if wrong("task-ids-without-case") else id


def _cancel(wire: Wire, id: str) -> None:
    if wrong("task-notified-cancelled"):
        wire.cancel_last()
    else:
        wire.call("tasks/cancel", {"taskId": id})
    for _ in range(_POLLS if wrong("task-polls-cancelled") else 0):
        wire.call("tasks/get", {"taskId": id})
    if wrong("dies-of-cancelled-task") and "error" in wire.call("tasks/get", {"taskId": id}):
        raise ClientError("the task has expired")


def _poll_core(wire: Wire, id: str, name: str, created: JsonValue) -> None:
    """Poll a task until it ends or has input requests, and fetch its result."""
    id = _known_as(id)
    for _ in range(_POLLS):
        params: JsonObject = {"taskId": quote(id, safe="") if wrong("task-ids-encoded") else id}
        if wrong("task-token-again"):
            params["_meta"] = {"progressToken": f"progress of {name}"}
        if wrong("task-related-request"):
            params["_meta"] = {"io.modelcontextprotocol/related-task": {"taskId": id}}
        shown = wire.call("tasks/get", params)
        if shown.get("createdAt") != _member(created, "createdAt") and wrong("task-compares-times-as-text"):
            return
        status = shown.get("status")
        if status in _ENDED or (status == "input_required" and not wrong("task-polls-through-input")):
            if status != "input_required" or not wrong("task-ignores-input"):
                wire.call("tasks/result", {"taskId": id})
            return
        if status is None and wrong("dies-of-forgotten-task"):
            raise ClientError("the task has expired")
        if status is None or wrong("task-polls-once"):
            return
        _pause(shown.get("pollInterval"))


def _pause(interval: JsonValue) -> None:
    if isinstance(interval, int | float) and not wrong("task-impatient"):
        time.sleep(interval / 1000)


def _list(wire: Wire) -> None:
    params: JsonObject = {}
    for _ in range(_POLLS):
        cursor = wire.call("tasks/list", params).get("nextCursor")
        if not isinstance(cursor, str):
            return
        params = {"cursor": cursor.strip() if wrong("task-cursor-trimmed") else cursor}


# --- 2026-07-28 ------------------------------------------------------------------------------------------------------


def _call(wire: Wire, name: str) -> None:
    created = wire.call("tools/call", {"name": name, "arguments": {}})
    id = created.get("taskId")
    if id is None and wrong("task-expected"):
        raise ClientError("taskId is missing")
    if created.get("resultType") != "task" or not isinstance(id, str) or wrong("task-never-polls"):
        return
    if name == _WAITS:
        _cancel(wire, id)
        return
    if name == "task_told":
        named: JsonObject = {"taskIds": id if wrong("task-ids-text") else [id]}
        if wrong("task-ids-beside") and isinstance(wire, Pipes):
            wire.send(wire.messages.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            wire.abandon("subscriptions/listen", {"notifications": {}, **named})
        else:
            wire.abandon("subscriptions/listen", {"notifications": named})
    answered: dict[str, JsonValue] = {}
    id = _known_as(id)
    for _ in range(_POLLS):
        shown = wire.call("tasks/get", {"taskId": id})
        if shown.get("createdAt") != created.get("createdAt") and wrong("task-compares-times-as-text"):
            break
        status = shown.get("status")
        if status == "input_required" and not wrong("task-ignores-inputs"):
            _answer(wire, id, shown.get("inputRequests"), answered)
            if wrong("task-leaves-answered"):
                break
        if status is None or status in _ENDED or wrong("task-polls-once"):
            break
        _pause(shown.get("pollIntervalMs"))
    if name == "task_soon" and (wrong("task-hides-extension") or wrong("task-no-name")):
        # This comes last, when no other message depends on it.
        answers().odd = True
        wire.call("tasks/get", {"taskId": id})
        answers().odd = False


def _answer(wire: Wire, id: str, requests: JsonValue, answered: dict[str, JsonValue]) -> None:
    """Send the missing input responses, one at a time."""
    listed = requests if isinstance(requests, dict) else {}
    if wrong("task-update-crossed"):
        listed = dict(zip(listed, reversed(listed.values()), strict=True))
    for key, request in listed.items():
        again = f"{key}, again"
        if key in answered and (again in answered or not wrong("task-answers-twice")):
            continue
        request_params = _member(request, "params")
        response = answers().answer(
            str(_member(request, "method")), request_params if isinstance(request_params, dict) else {}
        )
        answered[again if key in answered else key] = response.get("result")
        given: JsonObject = {key: response if wrong("task-update-wrapped") else response.get("result")}
        if wrong("task-update-more") and len(answered) == 1:
            given["three"] = response.get("result")
        if wrong("task-update-repeats"):
            given |= answered
        wire.call("tasks/update", {"taskId": id, "inputResponses": given})


# --- independent faults ----------------------------------------------------------------------------------------------


def _send_invalid(wire: Wire) -> None:
    """Send a message that a client must not send, in addition to the valid messages."""
    if wrong("task-id-missing"):
        wire.call("tasks/get", {"id": "1"})
    if wrong("task-of-prompt"):
        prompt: JsonObject = {"name": "test_simple_prompt", "arguments": {}, "task": {"ttl": 1}}
        wire.call("prompts/get", prompt)
    if wrong("task-old-methods") and answers().modern:
        wire.call("tasks/list", {})
