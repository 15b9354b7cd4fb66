"""Tasks: requests whose result is retrieved later, in two forms.

The first form is an experimental part of 2025-11-25 (basic/utilities/tasks), with `Task` and `CreateTaskResult`. The
second is the extension `io.modelcontextprotocol/tasks` of 2026-07-28, with `ExtensionTask` and
`CreateExtensionTaskResult`.
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
"""The status of a task, in both forms."""

TERMINAL_STATUSES: Final[frozenset[TaskStatus]] = frozenset({"completed", "failed", "cancelled"})
"""The final statuses of a task."""


@wire(since=R2025_11_25, until=R2025_11_25)
class Task(Open):
    """A task. Spec: basic/utilities/tasks#data-types (2025-11-25)"""

    task_id: str
    """The id of the task."""
    status: TaskStatus
    """The status of the task."""
    created_at: str
    """The time of creation, in ISO 8601."""
    last_updated_at: str
    """The time of the last status change, in ISO 8601."""
    ttl: int | None
    """The time for which the task is kept after its creation, in milliseconds; `None` (`null` on the wire):
    unlimited."""
    poll_interval: int | None = None
    """The time to wait between two polls, in milliseconds."""
    status_message: str | None = None
    """Details of the status, for users."""


@wire(since=R2025_11_25, until=R2025_11_25)
class CreateTaskResult(Result):
    """The result of a request that runs as a task. Spec: basic/utilities/tasks#creating-tasks (2025-11-25)"""

    task: Task
    """The id of the task."""


@wire(since=R2025_11_25)
class GetTaskRequestParams(RequestParams):
    """The parameters of `tasks/get`, in both forms. Spec: basic/utilities/tasks#getting-tasks (2025-11-25)"""

    task_id: str
    """The id of the task."""


@wire(since=R2025_11_25)
class CancelTaskRequestParams(RequestParams):
    """The parameters of `tasks/cancel`, in both forms. Spec: basic/utilities/tasks#cancelling-tasks (2025-11-25)"""

    task_id: str
    """The id of the task."""


@wire(since=R2025_11_25, until=R2025_11_25)
class GetTaskResult(Result):
    """The result of `tasks/get`: the members of a `Task`. Spec: basic/utilities/tasks#getting-tasks (2025-11-25)"""

    task_id: str
    """The id of the task."""
    status: TaskStatus
    """The status of the task."""
    created_at: str
    """The time of creation, in ISO 8601."""
    last_updated_at: str
    """The time of the last status change, in ISO 8601."""
    ttl: int | None
    """The time for which the task is kept after its creation, in milliseconds; `None` (`null` on the wire):
    unlimited."""
    poll_interval: int | None = None
    """The time to wait between two polls, in milliseconds."""
    status_message: str | None = None
    """Details of the status, for users."""


@wire(since=R2025_11_25, until=R2025_11_25)
class CancelTaskResult(GetTaskResult):
    """The result of `tasks/cancel`: the members of a `Task`.

    Spec: basic/utilities/tasks#cancelling-tasks (2025-11-25)
    """


@wire(since=R2025_11_25, until=R2025_11_25)
class GetTaskPayloadRequestParams(RequestParams):
    """The parameters of `tasks/result`. Spec: basic/utilities/tasks#retrieving-task-results (2025-11-25)"""

    task_id: str
    """The id of the task."""


@wire(since=R2025_11_25, until=R2025_11_25)
class GetTaskPayloadResult(Result):
    """The result of `tasks/result`: the members of the result of the request, in `extra`.

    Spec: basic/utilities/tasks#retrieving-task-results (2025-11-25)
    """


@wire(since=R2025_11_25, until=R2025_11_25)
class ListTasksRequestParams(PaginatedRequestParams):
    """The parameters of `tasks/list`. Spec: basic/utilities/tasks#listing-tasks (2025-11-25)"""


@wire(since=R2025_11_25, until=R2025_11_25)
class ListTasksResult(PaginatedResult):
    """The result of `tasks/list`. Spec: basic/utilities/tasks#listing-tasks (2025-11-25)"""

    tasks: tuple[Task, ...]
    """The tasks of this page."""


@wire(since=R2025_11_25, until=R2025_11_25)
class TaskStatusNotificationParams(NotificationParams):
    """The parameters of `notifications/tasks/status`: the members of a `Task`.

    Spec: basic/utilities/tasks (2025-11-25)
    """

    task_id: str
    """The id of the task."""
    status: TaskStatus
    """The status of the task."""
    created_at: str
    """The time of creation, in ISO 8601."""
    last_updated_at: str
    """The time of the last status change, in ISO 8601."""
    ttl: int | None
    """The time for which the task is kept after its creation, in milliseconds; `None` (`null` on the wire):
    unlimited."""
    poll_interval: int | None = None
    """The time to wait between two polls, in milliseconds."""
    status_message: str | None = None
    """Details of the status, for users."""


@wire(since=R2026_07_28)
class TaskError(Open):
    """The JSON-RPC error of a failed task. Spec: the extension `io.modelcontextprotocol/tasks`"""

    code: int
    """The JSON-RPC code."""
    message: str
    """The error message."""
    data: JsonValue | Absent = ABSENT
    """Further data of the error."""


@wire(since=R2026_07_28)
class ExtensionTask(Open):
    """A task of the extension. Spec: the extension `io.modelcontextprotocol/tasks`"""

    task_id: str
    """The id of the task."""
    status: TaskStatus
    """The status of the task."""
    created_at: str
    """The time of creation, in ISO 8601."""
    last_updated_at: str
    """The time of the last status change, in ISO 8601."""
    ttl_ms: int | None
    """The time for which the task is kept after its creation, in milliseconds; `None` (`null` on the wire):
    unlimited."""
    poll_interval_ms: int | None = None
    """The time to wait between two polls, in milliseconds."""
    status_message: str | None = None
    """Details of the status, for users."""


@wire(since=R2026_07_28, tag="result_type")
class CreateExtensionTaskResult(ExtensionTask):
    """The result of a request that runs as a task. Spec: the extension `io.modelcontextprotocol/tasks`"""

    result_type: ClassVar[Literal["task"]] = "task"
    """The type of result."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


_NEEDS: Final = ("status", {"input_required": "input_requests", "completed": "result", "failed": "error"})


@wire(since=R2026_07_28, needs=_NEEDS)
class DetailedTask(ExtensionTask):
    """A task with its result, error or input requests. Spec: the extension `io.modelcontextprotocol/tasks`"""

    input_requests: InputRequests | None = None
    """With the status `input_required`: the input requests without a response."""
    result: JsonObject | None = None
    """With the status `completed`: the result of the request."""
    error: TaskError | None = None
    """With the status `failed`: the error of the request."""


@wire(since=R2026_07_28, needs=_NEEDS)
class GetExtensionTaskResult(DetailedTask):
    """The result of `tasks/get`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""
    result_type: Literal["complete"] = field(default="complete", required_since=R2026_07_28, always=True)
    """The type of result."""


@wire(since=R2026_07_28)
class UpdateTaskRequestParams(RequestParams):
    """The parameters of `tasks/update`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    task_id: str
    """The id of the task."""
    input_responses: InputResponses
    """Responses to input requests of the task; possibly not to all."""


@wire(since=R2026_07_28)
class UpdateTaskResult(Result):
    """The result of `tasks/update`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    result_type: Literal["complete"] = field(default="complete", required_since=R2026_07_28, always=True)
    """The type of result."""


@wire(since=R2026_07_28)
class CancelExtensionTaskResult(Result):
    """The result of `tasks/cancel`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    result_type: Literal["complete"] = field(default="complete", required_since=R2026_07_28, always=True)
    """The type of result."""


@wire(since=R2026_07_28, needs=_NEEDS)
class ExtensionTaskNotificationParams(DetailedTask):
    """The parameters of `notifications/tasks`. Spec: the extension `io.modelcontextprotocol/tasks`"""

    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire(since=R2026_07_28)
class TasksExtensionCapability(Open):
    """The settings under `TASKS_EXTENSION`, which has no settings.

    Spec: the extension `io.modelcontextprotocol/tasks`
    """
