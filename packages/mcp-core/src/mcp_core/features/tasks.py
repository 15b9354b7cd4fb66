"""State machine of a task: the allowed changes of status, and the two wire forms of a task.

    working ──────────► input_required
       ▲ ◄───────────────────┘ │
       └──► completed, failed, cancelled ◄──┘

A task is stored in one form for both wire forms: `TaskState`. The wire forms have two differences. The members `ttl`
and `pollInterval` of 2025-11-25 are `ttlMs` and `pollIntervalMs` in the extension. A tool result that has `isError` is
a failed task in 2025-11-25 and a completed task in the extension, where `failed` is for JSON-RPC errors only.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_core.field_methods import FieldValue
from mcp_core.types import ABSENT, TERMINAL_STATUSES, TaskError
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
"""The statuses that may follow each status."""

T = TypeVar("T", bound="WireObject")
W = TypeVar("W", bound="WireObject")

_ERA: Final = 146_097
"""The number of days in 400 years."""

_EPOCH: Final = 719_468
"""The number of days from 1 March of the year 0 to 1 January 1970."""

_TOOL_FAILED: Final = "the tool reported an error; see the result"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskState(FieldValue):
    """The state of a task."""

    id: str
    """The task id."""
    status: TaskStatus = "working"
    """The status; `completed` with every result, also with a result that has `isError`."""
    created_at: float
    """The creation time, in seconds since the epoch."""
    updated_at: float
    """The time of the last change, in seconds since the epoch."""
    ttl: int | None
    """The time to live after creation, in milliseconds; `None` for no limit."""
    poll_interval: int | None
    """The time to wait between polls, in milliseconds; `None` if not specified."""
    message: str | None = None
    """A description of the status, for users."""
    result: JsonObject | None = None
    """The result of the request, if the task is completed."""
    error: JsonObject | None = None
    """The JSON-RPC error of the request, if the task has failed: `code`, `message` and optionally `data`."""

    @property
    def terminal(self) -> bool:
        """Whether the status is final."""
        return self.status in TERMINAL_STATUSES

    @property
    def expires_at(self) -> float | None:
        """The time after which the task may be deleted, in seconds since the epoch; `None` if never."""
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
        """Return a copy of the task with another status.

        Args:
            status: The new status.
            now: The current time, in seconds since the epoch.
            message: A description of the status.
            result: The result, for `completed`.
            error: The error, for `failed`.

        Raises:
            LocalProtocolError: The new status cannot follow the current one.
        """
        if status not in TRANSITIONS[self.status]:
            raise LocalProtocolError(
                f"a task that is {self.status} cannot become {status}", anchor="basic/utilities/tasks"
            )
        return attrs.evolve(self, status=status, updated_at=now, message=message, result=result, error=error)

    def noted(self, message: str | None, now: float) -> TaskState:
        """Return a copy of the task with another status message. Raises `LocalProtocolError` if the status is final."""
        if self.terminal:
            raise LocalProtocolError(f"a task that is {self.status} cannot change")
        return attrs.evolve(self, message=message, updated_at=now)


def timestamp(seconds: float) -> str:
    """Return a time in ISO 8601, in UTC, with milliseconds. `seconds` are since the epoch and not negative."""
    # `datetime` could format it, but it can also read a clock, which the core must not do.
    minutes, millis = divmod(int(seconds * 1000), 60_000)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    # Counted from 1 March of the year 0, so that a leap day is the last day of its year; the calendar repeats in 400
    # years.
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
    """Return the task in the form of 2025-11-25.

    Args:
        state: The state of the task.
        kind: The class to create: `Task`, `GetTaskResult`, `CancelTaskResult` or `TaskStatusNotificationParams`.
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


def as_extension_task(state: TaskState, kind: type[T], input_requests: Mapping[str, InputRequest] | None = None) -> T:
    """Return the task in the form of the extension.

    Args:
        state: The state of the task.
        kind: The class to create: `GetExtensionTaskResult` or `ExtensionTaskNotificationParams`; or
            `CreateExtensionTaskResult`, which has no input requests and no result.
        input_requests: The pending input requests, for the status `input_required`.
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
        fields["input_requests"] = dict(input_requests or {}) if state.status == "input_required" else None
        fields["result"] = state.result
        fields["error"] = None if state.error is None else _error(state.error)
    return kind(**fields)


def _error(error: JsonObject) -> TaskError:
    # The task store wrote the error, so its members have the right types.
    code = cast("int", error["code"])
    data = error.get("data")
    return TaskError(code=code, message=str(error["message"]), data=ABSENT if data is None else data)


def with_related_task(value: W, task: str) -> W:
    """Return a copy of parameters or a result whose `_meta` names the task that it belongs to (2025-11-25).

    Args:
        value: A value with a field `meta`.
        task: The id of the task.
    """
    meta: JsonObject | None = getattr(value, "meta", None)
    # Parameters and results have the field, but not all wire objects.
    return attrs.evolve(value, meta={**(meta or {}), RELATED_TASK: {"taskId": task}})  # type: ignore[call-arg]  # see above
