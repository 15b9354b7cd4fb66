"""Tasks: requests that are answered later, twice.

First as an experimental part of 2025-11-25 (basic/utilities/tasks), with `Task` and `CreateTaskResult`; then as the
extension `io.modelcontextprotocol/tasks` of 2026-07-28, with `ExtensionTask` and `CreateExtensionTaskResult`.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_core.types.base import (
    NotificationParams,
    Open,
    PaginatedRequestParams,
    PaginatedResult,
    RequestParams,
    Result,
    TaskMetadata,
)
from mcp_core.types.input_required import InputRequests, InputResponses
from mcp_core.types.meta import RelatedTaskMetadata
from mcp_core.types.wire_object import ABSENT, Absent, field, wire

__all__ = [
    "TERMINAL_STATUSES",
    "CancelExtensionTaskResult",
    "CancelTaskRequestParams",
    "CancelTaskResult",
    "CreateExtensionTaskResult",
    "CreateTaskResult",
    "DetailedTask",
    "ExtensionTask",
    "ExtensionTaskNotificationParams",
    "GetExtensionTaskResult",
    "GetTaskPayloadRequestParams",
    "GetTaskPayloadResult",
    "GetTaskRequestParams",
    "GetTaskResult",
    "ListTasksRequestParams",
    "ListTasksResult",
    "RelatedTaskMetadata",
    "Task",
    "TaskError",
    "TaskMetadata",
    "TaskStatus",
    "TaskStatusNotificationParams",
    "TasksExtensionCapability",
    "UpdateTaskRequestParams",
    "UpdateTaskResult",
]

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""How a task stands, in either form."""

TERMINAL_STATUSES: Final[frozenset[TaskStatus]] = frozenset({"completed", "failed", "cancelled"})
"""The statuses that do not change any more."""


@wire(since=R2025_11_25, until=R2025_11_25)
class Task(Open):
    """A task. Spec: basic/utilities/tasks#data-types (2025-11-25)"""

    task_id: str
    """What it is asked for by."""
    status: TaskStatus
    """How it stands."""
    created_at: str
    """When it was made, in ISO 8601."""
    last_updated_at: str
    """When its status changed last, in ISO 8601."""
    ttl: int | None
    """How long it is kept after it was made, in milliseconds; `None` (`null` on the wire): for ever."""
    poll_interval: int | None = None
    """How long to wait before asking again, in milliseconds."""
    status_message: str | None = None
    """More about the status, for people."""


@wire(since=R2025_11_25, until=R2025_11_25)
class CreateTaskResult(Result):
    """The answer to a request that runs as a task. Spec: basic/utilities/tasks#creating-tasks (2025-11-25)"""

    task: Task
    """The task."""


@wire(since=R2025_11_25)
class GetTaskRequestParams(RequestParams):
    """The parameters of `tasks/get`, in either form. Spec: basic/utilities/tasks#getting-tasks (2025-11-25)"""

    task_id: str
    """The task."""


@wire(since=R2025_11_25)
class CancelTaskRequestParams(RequestParams):
    """The parameters of `tasks/cancel`, in either form. Spec: basic/utilities/tasks#cancelling-tasks (2025-11-25)"""

    task_id: str
    """The task."""


@wire(since=R2025_11_25, until=R2025_11_25)
class GetTaskResult(Result):
    """The answer to `tasks/get`: a `Task`, flat. Spec: basic/utilities/tasks#getting-tasks (2025-11-25)"""

    task_id: str
    """What it is asked for by."""
    status: TaskStatus
    """How it stands."""
    created_at: str
    """When it was made, in ISO 8601."""
    last_updated_at: str
    """When its status changed last, in ISO 8601."""
    ttl: int | None
    """How long it is kept after it was made, in milliseconds; `None` (`null` on the wire): for ever."""
    poll_interval: int | None = None
    """How long to wait before asking again, in milliseconds."""
    status_message: str | None = None
    """More about the status, for people."""


@wire(since=R2025_11_25, until=R2025_11_25)
class CancelTaskResult(GetTaskResult):
    """The answer to `tasks/cancel`: a `Task`, flat. Spec: basic/utilities/tasks#cancelling-tasks (2025-11-25)"""


@wire(since=R2025_11_25, until=R2025_11_25)
class GetTaskPayloadRequestParams(RequestParams):
    """The parameters of `tasks/result`. Spec: basic/utilities/tasks#retrieving-task-results (2025-11-25)"""

    task_id: str
    """The task."""


@wire(since=R2025_11_25, until=R2025_11_25)
class GetTaskPayloadResult(Result):
    """The answer to `tasks/result`: what the request would have been answered with; its members are in `extra`.

    Spec: basic/utilities/tasks#retrieving-task-results (2025-11-25)
    """


@wire(since=R2025_11_25, until=R2025_11_25)
class ListTasksRequestParams(PaginatedRequestParams):
    """The parameters of `tasks/list`. Spec: basic/utilities/tasks#listing-tasks (2025-11-25)"""


@wire(since=R2025_11_25, until=R2025_11_25)
class ListTasksResult(PaginatedResult):
    """The answer to `tasks/list`. Spec: basic/utilities/tasks#listing-tasks (2025-11-25)"""

    tasks: tuple[Task, ...]
    """The tasks of this page."""


@wire(since=R2025_11_25, until=R2025_11_25)
class TaskStatusNotificationParams(NotificationParams):
    """The parameters of `notifications/tasks/status`: a `Task`, flat. Spec: basic/utilities/tasks (2025-11-25)"""

    task_id: str
    """What it is asked for by."""
    status: TaskStatus
    """How it stands."""
    created_at: str
    """When it was made, in ISO 8601."""
    last_updated_at: str
    """When its status changed last, in ISO 8601."""
    ttl: int | None
    """How long it is kept after it was made, in milliseconds; `None` (`null` on the wire): for ever."""
    poll_interval: int | None = None
    """How long to wait before asking again, in milliseconds."""
    status_message: str | None = None
    """More about the status, for people."""


@wire(since=R2026_07_28)
class TaskError(Open):
    """The JSON-RPC error that a task failed with. Spec: the extension `io.modelcontextprotocol/tasks`"""

    code: int
    """The JSON-RPC code."""
    message: str
    """What went wrong."""
    data: JsonValue | Absent = ABSENT
    """More about it."""


@wire(since=R2026_07_28)
class ExtensionTask(Open):
    """A task of the extension. Spec: the extension `io.modelcontextprotocol/tasks`"""

    task_id: str
    """What it is asked for by."""
    status: TaskStatus
    """How it stands."""
    created_at: str
    """When it was made, in ISO 8601."""
    last_updated_at: str
    """When its status changed last, in ISO 8601."""
    ttl_ms: int | None
    """How long it is kept after it was made, in milliseconds; `None` (`null` on the wire): for ever."""
    poll_interval_ms: int | None = None
    """How long to wait before asking again, in milliseconds."""
    status_message: str | None = None
    """More about the status, for people."""


@wire(since=R2026_07_28, tag="result_type")
class CreateExtensionTaskResult(ExtensionTask):
    """The answer to a request that runs as a task. Spec: the extension `io.modelcontextprotocol/tasks`"""

    result_type: ClassVar[Literal["task"]] = "task"
    """Tells the kinds of result apart."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


_NEEDS: Final = ("status", {"input_required": "input_requests", "completed": "result", "failed": "error"})


@wire(since=R2026_07_28, needs=_NEEDS)
class DetailedTask(ExtensionTask):
    """A task with what came of it so far. Spec: the extension `io.modelcontextprotocol/tasks`"""

    input_requests: InputRequests | None = None
    """With the status `input_required`: all that is still asked for."""
    result: JsonObject | None = None
    """With the status `completed`: the result of the request."""
    error: TaskError | None = None
    """With the status `failed`: the error of the request."""


@wire(since=R2026_07_28, needs=_NEEDS)
class GetExtensionTaskResult(DetailedTask):
    """The answer to `tasks/get`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""
    result_type: Literal["complete"] = field(default="complete", required_since=R2026_07_28, always=True)
    """What kind of result it is."""


@wire(since=R2026_07_28)
class UpdateTaskRequestParams(RequestParams):
    """The parameters of `tasks/update`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    task_id: str
    """The task."""
    input_responses: InputResponses
    """Answers to what the task asked for; not all have to come at once."""


@wire(since=R2026_07_28)
class UpdateTaskResult(Result):
    """The answer to `tasks/update`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    result_type: Literal["complete"] = field(default="complete", required_since=R2026_07_28, always=True)
    """What kind of result it is."""


@wire(since=R2026_07_28)
class CancelExtensionTaskResult(Result):
    """The answer to `tasks/cancel`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    result_type: Literal["complete"] = field(default="complete", required_since=R2026_07_28, always=True)
    """What kind of result it is."""


@wire(since=R2026_07_28, needs=_NEEDS)
class ExtensionTaskNotificationParams(DetailedTask):
    """The parameters of `notifications/tasks`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire(since=R2026_07_28)
class TasksExtensionCapability(Open):
    """The settings of the extension under `TASKS_EXTENSION`: none. Spec: the extension `io.modelcontextprotocol/tasks`"""
