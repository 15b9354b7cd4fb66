"""Task-augmented client requests: the client runs the request as a task and stores the result (2025-11-25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs
import trio

from mcp_core.conversion.converter import converter
from mcp_core.errors import LocalProtocolError, McpError
from mcp_core.methods import TASKS_CANCEL, TASKS_GET, TASKS_RESULT
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types import (
    TERMINAL_STATUSES,
    CancelTaskRequestParams,
    CreateTaskResult,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    TaskMetadata,
    WireObject,
)

if TYPE_CHECKING:
    from mcp_core.methods import RequestMethod
    from mcp_core.types import GetTaskResult, Task
    from mcp_server.handlers.context import Context

__all__ = ["request_as_task"]

P = TypeVar("P", bound=WireObject)
R = TypeVar("R")

_INTERVAL: Final = 1.0
"""Time between two polls if the client does not specify one, in seconds."""

_LEAST: Final = 0.01
_POLITENESS: Final = 2.0
"""Time limit for cancelling the task when its result is not needed any more, in seconds."""


@allow_asyncio
async def request_as_task(
    context: Context, definition: RequestMethod[P, R], params: P, *, ttl: float | None = None
) -> R:
    """Send a client request as a task, and poll until the client has responded (2025-11-25).

    Use it if the user needs more time than a request can take. The client must have declared that it supports tasks for
    this method. The request belongs to the request of `context`, so the connection must stay open.

    Args:
        context: The context of the request that needs the response. It cannot be a task itself.
        definition: `ELICITATION_CREATE` or `SAMPLING_CREATE_MESSAGE`.
        params: Its parameters.
        ttl: The requested time for which the client stores the result, in seconds. The client can choose another time.

    Returns:
        The result, an instance of `row.result`.

    Raises:
        LocalProtocolError: The client's revision does not have tasks.
        MissingRequiredClientCapability: The client did not declare the capability.
        RequestFailed: The client responded with an error, or cancelled the task.
        ConnectionEnded: The client disconnected.
    """
    revision = context.peer.revision
    if not revision.core_tasks:
        raise LocalProtocolError(f"task-augmented client requests are not supported in revision {revision}")
    wish = TaskMetadata(ttl=None if ttl is None else int(ttl * 1000))
    # The result of a request with a `task` member is a `CreateTaskResult`.
    created: object = await context.request(definition, attrs.evolve(params, task=wish))  # type: ignore[call-arg]  # the parameters of both methods have it
    task: Task | GetTaskResult = cast("CreateTaskResult", created).task
    try:
        while task.status not in TERMINAL_STATUSES and task.status != "input_required":
            interval = task.poll_interval
            await trio.sleep(_INTERVAL if interval is None else max(interval / 1000, _LEAST))
            task = await context.request(TASKS_GET, GetTaskRequestParams(task_id=task.task_id))
        payload = await context.request(TASKS_RESULT, GetTaskPayloadRequestParams(task_id=task.task_id))
    except trio.Cancelled:
        with trio.move_on_after(_POLITENESS, shield=True):
            await _cancel(context, task.task_id)
        raise
    answer, _ = converter(revision).receive(converter(revision).unstructure(payload), definition.result)
    return answer


async def _cancel(context: Context, id: str) -> None:
    try:
        await context.request(TASKS_CANCEL, CancelTaskRequestParams(task_id=id))
    except McpError:
        # The result is not needed any more, whatever the reason of the failure is.
        return
