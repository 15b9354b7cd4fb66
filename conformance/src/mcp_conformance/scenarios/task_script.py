"""Tasks of the fake server. Each follows a script.

No clock advances a task. It takes its next step when the client polls it or waits for its result. All events are
recorded for the checks.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.drivers.client.features import text_result, tool
from mcp_conformance.model.verdict import NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import Evidence
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "ENDED",
    "INTERVAL",
    "PLAIN",
    "SAME_ID_BUT_CASE",
    "STAMPS",
    "ScriptedTask",
    "TaskScript",
    "at_end",
    "enter",
    "in_words",
    "logs_of",
    "noted",
    "tasks_of",
]

ENDED: Final = ("completed", "failed", "cancelled")
"""The final statuses."""
INTERVAL: Final = 60
"""Milliseconds that a client must leave between two polls."""
SAME_ID_BUT_CASE: Final = ("Task/1 a%2F", "task/1 A%2f")
"""Two task ids that differ only in case, with characters that a lax implementation changes."""
STAMPS: Final = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000+00:00")
"""The creation time of all tasks: two equivalent timestamps."""
_TTL: Final = 60_000
_TASKS: Final = "tasks"


@attrs.frozen(kw_only=True)
class TaskScript:
    """A tool, and the script of its tasks."""

    name: str
    """The name of the tool."""
    support: str | None = "required"
    """`execution.taskSupport` (2025-11-25); `None` if absent."""
    steps: tuple[str, ...] = ("working", "completed")
    """The statuses, one for each poll. The last one remains."""
    intervals: tuple[int | None, ...] = (INTERVAL,)
    """The poll interval at each step, in milliseconds; the last one remains. `None`: no interval."""
    ttl: int | None = _TTL
    """The time to live in milliseconds, independent of the requested one."""
    request_keys: tuple[str, ...] = ()
    """The keys of the client requests that the task sends in the status `input_required`."""
    elsewhere: bool = False
    """Whether the client requests are sent on the standalone stream (2025-11-25)."""
    notifies: bool = False
    """Whether the client is also notified of the status."""
    forgotten: bool = False
    """Whether the task expires after its last step."""
    respells: bool = False
    """Whether the timestamps are in another, equivalent form after the first poll."""
    id: str = ""
    """The id of the first task; empty: a random one."""

    def listed(self, *, modern: bool) -> JsonObject:
        """Return the definition of the tool."""
        entry = tool(self.name, "Runs as a task")
        return entry if modern or self.support is None else {**entry, "execution": {"taskSupport": self.support}}


PLAIN: Final = TaskScript(name="task_none", support=None)
"""A tool that never runs as a task."""


@attrs.define(kw_only=True, eq=False)
class ScriptedTask:
    """A task."""

    script: TaskScript
    """The script."""
    id: str = attrs.field(factory=lambda: secrets.token_hex(16))
    """The task id."""
    looks: int = 0
    """The number of polls."""
    ended: str = ""
    """The final status, if the task ended before its last step; otherwise empty."""
    token: JsonValue = None
    """The progress token."""
    request_sent: bool = False
    """Whether the client request was sent."""
    settled: trio.Event = attrs.field(factory=trio.Event)
    """Set when the client request has a response or will get none."""
    answered: set[str] = attrs.field(factory=set)
    """The keys of the client requests with responses."""
    lingering: int = 0
    """The number of polls until the response takes effect."""
    done: trio.Event = attrs.field(factory=trio.Event)
    """Set when the task ended before its last step."""

    def status(self) -> str:
        """Return the current status."""
        steps = self.script.steps
        return self.ended or steps[min(self.looks, len(steps) - 1)]

    def look(self) -> str:
        """Poll the task: advance by one step, from `input_required` only with all responses, and return the status."""
        if self.status() != "input_required" or self.answered >= set(self.script.request_keys):
            self.looks += 1
        return self.status()

    @property
    def forgotten(self) -> bool:
        """Whether the task has expired."""
        return self.script.forgotten and (bool(self.ended) or self.looks >= len(self.script.steps))

    def end(self, status: str) -> None:
        """End the task now."""
        self.ended = self.ended or status
        self.done.set()

    @property
    def interval(self) -> int | None:
        """The poll interval at this step."""
        intervals = self.script.intervals
        return intervals[min(self.looks, len(intervals) - 1)]

    def shown(self, status: str, *, modern: bool) -> JsonObject:
        """Return the task in its wire form."""
        stamp = STAMPS[self.script.respells and self.looks > 0]
        entry: JsonObject = {
            "taskId": self.id,
            "status": status,
            "createdAt": stamp,
            "lastUpdatedAt": stamp,
            "ttlMs" if modern else "ttl": self.script.ttl,
        }
        if self.interval is not None:
            entry["pollIntervalMs" if modern else "pollInterval"] = self.interval
        return {**entry, "statusMessage": "the task failed"} if status == "failed" else entry

    def outcome(self) -> JsonObject:
        """Return the final result of the tool."""
        return text_result(f"{self.script.name} is done")


def enter(setup: ScenarioSetup, task: ScriptedTask) -> None:
    """Begin the log of a task."""
    found = setup.notes.setdefault(_TASKS, {})
    if isinstance(found, dict):
        found[task.id] = {"tool": task.script.name, "log": []}


def noted(setup: ScenarioSetup, task: ScriptedTask, what: str, received_at: float, **more: JsonValue) -> None:
    """Record an event of a task.

    Args:
        setup: The setup of the scenario.
        task: The task.
        what: The method, or `told`, `created`.
        received_at: The time of arrival, in seconds of trio's clock.
        more: Further data.
    """
    found = setup.notes.get(_TASKS)
    entry = found.get(task.id) if isinstance(found, dict) else None
    log = entry.get("log") if isinstance(entry, dict) else None
    if isinstance(log, list):
        log.append({"what": what, "came": received_at, "went": trio.current_time(), **more})


def tasks_of(evidence: Evidence) -> dict[str, tuple[str, list[JsonObject]]]:
    """Return the tool and the log of each task of a run, by task id.

    Raises:
        NotApplicable: There were no tasks.
    """
    found = evidence.notes.get(_TASKS)
    tasks: dict[str, tuple[str, list[JsonObject]]] = {}
    for id, entry in found.items() if isinstance(found, dict) else ():
        log = entry.get("log") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and isinstance(log, list):
            tasks[id] = (str(entry["tool"]), [each for each in log if isinstance(each, dict)])
    if not tasks:
        raise NotApplicable("the client creates no task")
    return tasks


def logs_of(evidence: Evidence, *tools: str) -> Iterator[tuple[str, list[JsonObject]]]:
    """Yield the tool and the log of each task of these tools.

    Raises:
        NotApplicable: The client created no task.
        NotTestable: The client created no task of these tools, or sent an unreadable message.
    """
    if evidence.unread is not None:
        raise NotTestable(f"the client sent an unreadable message: {brief(evidence.unread)}")
    found = [(tool, log) for tool, log in tasks_of(evidence).values() if tool in tools]
    if not found:
        raise NotTestable(f"the client creates no task of {' or '.join(tools)}: {evidence.ending}")
    yield from found


def in_words(log: list[JsonObject]) -> str:
    """Return the log of a task as text."""
    return ", ".join(f"{each['what']} {each.get('status', '')}".strip() for each in log)


def at_end(log: list[JsonObject]) -> bool:
    """Return whether the client followed a task to its end, or cancelled it."""
    return any(
        each["what"] in ("tasks/result", "tasks/cancel") or (each["what"] == "tasks/get" and each["status"] in ENDED)
        for each in log
    )
