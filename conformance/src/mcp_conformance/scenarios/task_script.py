"""Tasks of the fake server: tools that are answered later, each going its steps as it is asked for.

No clock moves them: a task takes its next step when it is looked at, or when somebody waits for its result. What happens
to each is noted, for the checks.
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
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "ENDED",
    "INTERVAL",
    "PLAIN",
    "STAMP",
    "Course",
    "Job",
    "at_end",
    "enter",
    "in_words",
    "jobs_of",
    "logs_of",
    "noted",
]

ENDED: Final = ("completed", "failed", "cancelled")
"""The statuses that do not change any more."""
INTERVAL: Final = 60
"""Milliseconds that a client has to leave between two polls."""
STAMP: Final = "2026-01-01T00:00:00Z"
"""When all tasks began."""
_TTL: Final = 60_000
_JOBS: Final = "tasks"


@attrs.frozen(kw_only=True)
class Course:
    """A tool, and what becomes of its tasks."""

    name: str
    """The tool."""
    support: str | None = "required"
    """Its `execution.taskSupport` (2025-11-25); `None`: it says nothing of that."""
    steps: tuple[str, ...] = ("working", "completed")
    """What it shows, one step for each look at it. The last one stays."""
    intervals: tuple[int | None, ...] = (INTERVAL,)
    """The interval that it wants at each step, in milliseconds; the last one stays. `None`: it wants none."""
    ttl: int | None = _TTL
    """How many milliseconds it is kept, whatever was wished."""
    asks: tuple[str, ...] = ()
    """What it asks the client when it shows `input_required`: keys, each with a question of its own."""
    elsewhere: bool = False
    """Whether it asks where messages go that belong to no request (2025-11-25)."""
    told: bool = False
    """Whether the client is told of it, too."""
    forgotten: bool = False
    """Whether there is no such task any more once its steps are through."""
    id: str = ""
    """The id that it has; empty: a new one."""

    def listed(self, *, modern: bool) -> JsonObject:
        """The tool as it is listed."""
        entry = tool(self.name, "Runs as a task")
        return entry if modern or self.support is None else {**entry, "execution": {"taskSupport": self.support}}


PLAIN: Final = Course(name="task_none", support=None)
"""A tool that never runs as a task."""


@attrs.define(kw_only=True, eq=False)
class Job:
    """One task."""

    course: Course
    """What becomes of it."""
    id: str = attrs.field(factory=lambda: secrets.token_hex(16))
    """Its id."""
    looks: int = 0
    """How often it was looked at."""
    ended: str = ""
    """How it ended before its steps were through; empty: it did not."""
    token: JsonValue = None
    """What progress is reported by."""
    asked: bool = False
    """Whether the client is asked already, or was."""
    settled: trio.Event = attrs.field(factory=trio.Event)
    """Set when what it was asked is answered, or is not going to be."""
    answered: set[str] = attrs.field(factory=set)
    """Which of its questions were answered."""
    lingering: int = 0
    """How many looks it still takes until an answer is seen."""
    done: trio.Event = attrs.field(factory=trio.Event)
    """Set when it ended before its steps were through."""

    def status(self) -> str:
        """What it shows now."""
        steps = self.course.steps
        return self.ended or steps[min(self.looks, len(steps) - 1)]

    def look(self) -> str:
        """One look at it: it goes a step, from `input_required` only with all answers, and shows how it stands then."""
        if self.status() != "input_required" or self.answered >= set(self.course.asks):
            self.looks += 1
        return self.status()

    @property
    def forgotten(self) -> bool:
        """Whether there is no such task any more."""
        return self.course.forgotten and (bool(self.ended) or self.looks >= len(self.course.steps))

    def end(self, status: str) -> None:
        """It ends at once."""
        self.ended = self.ended or status
        self.done.set()

    @property
    def interval(self) -> int | None:
        """What it wants to be left between this look and the next."""
        intervals = self.course.intervals
        return intervals[min(self.looks, len(intervals) - 1)]

    def shown(self, status: str, *, modern: bool) -> JsonObject:
        """A task as it is shown."""
        entry: JsonObject = {
            "taskId": self.id,
            "status": status,
            "createdAt": STAMP,
            "lastUpdatedAt": STAMP,
            "ttlMs" if modern else "ttl": self.course.ttl,
        }
        if self.interval is not None:
            entry["pollIntervalMs" if modern else "pollInterval"] = self.interval
        return {**entry, "statusMessage": "it could not be done"} if status == "failed" else entry

    def outcome(self) -> JsonObject:
        """What the tool gives in the end."""
        return text_result(f"{self.course.name} is done")


def enter(stage: Stage, job: Job) -> None:
    """Begin the notes of a task."""
    found = stage.notes.setdefault(_JOBS, {})
    if isinstance(found, dict):
        found[job.id] = {"tool": job.course.name, "log": []}


def noted(stage: Stage, job: Job, what: str, came: float, **more: JsonValue) -> None:
    """Note what happened to a task.

    Args:
        stage: Where.
        job: The task.
        what: The method, or `told`, `created`.
        came: When it was asked for, in seconds of no particular beginning.
        more: What else is to be known.
    """
    found = stage.notes.get(_JOBS)
    entry = found.get(job.id) if isinstance(found, dict) else None
    log = entry.get("log") if isinstance(entry, dict) else None
    if isinstance(log, list):
        log.append({"what": what, "came": came, "went": trio.current_time(), **more})


def jobs_of(evidence: Evidence) -> dict[str, tuple[str, list[JsonObject]]]:
    """By the id of each task that was begun in a run, its tool and what happened to it, in order.

    Raises:
        NotApplicable: There were none.
    """
    found = evidence.notes.get(_JOBS)
    jobs: dict[str, tuple[str, list[JsonObject]]] = {}
    for id, entry in found.items() if isinstance(found, dict) else ():
        log = entry.get("log") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and isinstance(log, list):
            jobs[id] = (str(entry["tool"]), [each for each in log if isinstance(each, dict)])
    if not jobs:
        raise NotApplicable("the client begins no task")
    return jobs


def logs_of(evidence: Evidence, *tools: str) -> Iterator[tuple[str, list[JsonObject]]]:
    """The tasks of some tools: the tool, and what happened to it.

    Raises:
        NotApplicable: The client begins no task at all.
        NotTestable: It begins none of these tools, or says what cannot be read.
    """
    if evidence.unread is not None:
        raise NotTestable(f"what the client sent could not be read: {brief(evidence.unread)}")
    found = [(tool, log) for tool, log in jobs_of(evidence).values() if tool in tools]
    if not found:
        raise NotTestable(f"the client begins no task of {' or '.join(tools)}: {evidence.ending}")
    yield from found


def in_words(log: list[JsonObject]) -> str:
    """What happened to a task, for a sentence."""
    return ", ".join(f"{each['what']} {each.get('status', '')}".strip() for each in log)


def at_end(log: list[JsonObject]) -> bool:
    """Whether the client went on with a task until it knew the end, or cancelled it."""
    return any(
        each["what"] in ("tasks/result", "tasks/cancel") or (each["what"] == "tasks/get" and each["status"] in ENDED)
        for each in log
    )
