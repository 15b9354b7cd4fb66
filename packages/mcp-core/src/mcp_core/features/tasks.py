"""The life of a task, for whoever keeps it: which status may follow which, and how it is told in either form.

    working ──────────► input_required
       ▲ ◄───────────────────┘ │
       └──► completed, failed, cancelled ◄──┘

A task is kept in one form for both: `TaskState`. The forms differ in two things. What is called `ttl` and `pollInterval`
in 2025-11-25 is `ttlMs` and `pollIntervalMs` in the extension. And a tool result that has `isError` is a failed task in
2025-11-25, but in the extension a completed one: there `failed` is for JSON-RPC errors alone.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_core.types import ABSENT, TERMINAL_STATUSES, TaskError, evolve
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import InputRequest, TaskStatus, WireObject

__all__ = ["TRANSITIONS", "TaskState", "as_extension_task", "as_task", "timestamp", "with_related_task"]

TRANSITIONS: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = MappingProxyType(
    {
        "working": frozenset({"input_required", "completed", "failed", "cancelled"}),
        "input_required": frozenset({"working", "completed", "failed", "cancelled"}),
        "completed": frozenset(),
        "failed": frozenset(),
        "cancelled": frozenset(),
    }
)
"""The statuses that may follow each one."""

T = TypeVar("T", bound="WireObject")
W = TypeVar("W", bound="WireObject")

_ERA: Final = 146_097
"""Days in 400 years."""

_EPOCH: Final = 719_468
"""Days from 1 March of the year 0 to 1 January 1970."""

_TOOL_FAILED: Final = "the tool reported an error, which is in the result"


@attrs.frozen(kw_only=True)
class TaskState:
    """How a task stands."""

    id: str
    """What it is asked for by."""
    status: TaskStatus = "working"
    """Its status; `completed` with every result, also one that has `isError`."""
    created_at: float
    """When it was made, in seconds since the epoch."""
    updated_at: float
    """When something about it changed last, in seconds since the epoch."""
    ttl: int | None
    """How long it is kept after it was made, in milliseconds; `None`: for ever."""
    poll_interval: int | None
    """How long to wait before asking again, in milliseconds; `None`: nothing is said."""
    message: str | None = None
    """More about the status, for people."""
    result: JsonObject | None = None
    """What the request is answered with, once it is completed."""
    error: JsonObject | None = None
    """The JSON-RPC error of the request, once it has failed: `code`, `message` and perhaps `data`."""

    @property
    def terminal(self) -> bool:
        """Whether it does not change any more."""
        return self.status in TERMINAL_STATUSES

    @property
    def expires_at(self) -> float | None:
        """When it may be forgotten, in seconds since the epoch; `None`: never."""
        return None if self.ttl is None else self.created_at + self.ttl / 1000

    def moved(
        self,
        status: TaskStatus,
        now: float,
        *,
        message: str | None = None,
        result: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> TaskState:
        """The same task in another status.

        Args:
            status: The status.
            now: The time, in seconds since the epoch.
            message: More about it.
            result: The result, with `completed`.
            error: The error, with `failed`.

        Raises:
            LocalProtocolError: That status cannot follow this one.
        """
        if status not in TRANSITIONS[self.status]:
            raise LocalProtocolError(
                f"a task that is {self.status} cannot become {status}", anchor="basic/utilities/tasks"
            )
        return attrs.evolve(self, status=status, updated_at=now, message=message, result=result, error=error)

    def noted(self, message: str | None, now: float) -> TaskState:
        """The same task with something else to say about its status. Raises `LocalProtocolError` when it is over."""
        if self.terminal:
            raise LocalProtocolError(f"a task that is {self.status} does not change any more")
        return attrs.evolve(self, message=message, updated_at=now)


def timestamp(seconds: float) -> str:
    """A time in ISO 8601, in UTC, to the millisecond. `seconds` are since the epoch, and not before it."""
    # `datetime` could do it, but it could also ask a clock, which nothing here may.
    minutes, millis = divmod(int(seconds * 1000), 60_000)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    # Counted from 1 March of the year 0, so that the day of a leap year is the last of its year; 400 years repeat.
    era, day = divmod(days + _EPOCH, _ERA)
    year = (day - day // 1_460 + day // 36_524 - day // (_ERA - 1)) // 365
    day -= 365 * year + year // 4 - year // 100
    # From March on, five months have 153 days.
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    year += 400 * era + (month <= 2)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{millis // 1000:02}.{millis % 1000:03}Z"


def as_task(state: TaskState, kind: type[T]) -> T:
    """The task in the form of 2025-11-25.

    Args:
        state: How it stands.
        kind: What to make: `Task`, `GetTaskResult`, `CancelTaskResult` or `TaskStatusNotificationParams`.
    """
    failed = state.result is not None and state.result.get("isError") is True
    fields: dict[str, JsonValue] = {
        "task_id": state.id,
        "status": "failed" if failed else state.status,
        "created_at": timestamp(state.created_at),
        "last_updated_at": timestamp(state.updated_at),
        "ttl": state.ttl,
        "poll_interval": state.poll_interval,
        "status_message": _TOOL_FAILED if failed and state.message is None else state.message,
    }
    return kind(**fields)


def as_extension_task(state: TaskState, kind: type[T], questions: Mapping[str, InputRequest] | None = None) -> T:
    """The task in the form of the extension.

    Args:
        state: How it stands.
        kind: What to make: `GetExtensionTaskResult` or `ExtensionTaskNotificationParams`; or
            `CreateExtensionTaskResult`, which says nothing of questions and results.
        questions: With the status `input_required`: all that is still asked for.
    """
    fields: dict[str, object] = {
        "task_id": state.id,
        "status": state.status,
        "created_at": timestamp(state.created_at),
        "last_updated_at": timestamp(state.updated_at),
        "ttl_ms": state.ttl,
        "poll_interval_ms": state.poll_interval,
        "status_message": state.message,
    }
    if any(each.name == "input_requests" for each in kind.__fields__):
        fields["input_requests"] = dict(questions or {}) if state.status == "input_required" else None
        fields["result"] = state.result
        fields["error"] = None if state.error is None else _error(state.error)
    return kind(**fields)


def _error(error: JsonObject) -> TaskError:
    # As whoever keeps the task has written it.
    code = cast("int", error["code"])
    data = error.get("data")
    return TaskError(code=code, message=str(error["message"]), data=ABSENT if data is None else data)


def with_related_task(value: W, task: str) -> W:
    """A copy of parameters or a result whose `_meta` says which task it belongs to (2025-11-25).

    Args:
        value: Anything with a field `meta`.
        task: The id of the task.
    """
    meta: JsonObject | None = getattr(value, "meta", None)
    return evolve(value, meta={**(meta or {}), RELATED_TASK: {"taskId": task}})
