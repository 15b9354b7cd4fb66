"""Asking a client that may answer later: questions as tasks, which the client keeps (2025-11-25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, cast

import trio

from mcp_core.conversion import compatibility
from mcp_core.conversion.converter import converter
from mcp_core.errors import LocalProtocolError, McpError
from mcp_core.methods import TASKS_CANCEL, TASKS_GET, TASKS_RESULT
from mcp_core.types import (
    TERMINAL_STATUSES,
    CancelTaskRequestParams,
    CreateTaskResult,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    TaskMetadata,
    WireObject,
    evolve,
)

if TYPE_CHECKING:
    from mcp_core.methods import Method
    from mcp_core.types import GetTaskResult, Task
    from mcp_server.handlers.context import Context

__all__ = ["ask_as_task"]

P = TypeVar("P", bound=WireObject)
R = TypeVar("R")

_INTERVAL: Final = 1.0
"""Seconds between two polls, where the client says nothing of it."""

_LEAST: Final = 0.01
_POLITENESS: Final = 2.0
"""Seconds that it may take to cancel a question that nobody wants answered any more."""


async def ask_as_task(context: Context, row: Method[P, R], params: P, *, ttl: float | None = None) -> R:
    """Asks the client a question that it may answer later, and polls until it has (2025-11-25).

    For what takes a person longer than a request may take. The client has to have declared that it runs this kind of
    question as a task; it is asked within the request of `context`, so its connection has to last.

    Args:
        context: The request that it is about. It cannot be a task itself.
        row: `ELICITATION_CREATE` or `SAMPLING_CREATE_MESSAGE`.
        params: Its parameters.
        ttl: How many seconds the client shall keep the answer; it may decide otherwise.

    Returns:
        The answer, an instance of `row.result`.

    Raises:
        LocalProtocolError: The client's revision has no tasks.
        MissingRequiredClientCapability: The client did not declare it.
        RequestFailed: The client answered with an error, or cancelled the task.
        ConnectionEnded: The client is gone.
    """
    revision = context.peer.revision
    if not revision.core_tasks:
        raise LocalProtocolError(f"a client cannot be asked for a task in revision {revision}")
    wish = TaskMetadata(ttl=None if ttl is None else int(ttl * 1000))
    # As long as a request has a task, that is what answers it.
    created: object = await context.ask(row, evolve(params, task=wish))
    task: Task | GetTaskResult = cast("CreateTaskResult", created).task
    try:
        while task.status not in TERMINAL_STATUSES and task.status != "input_required":
            interval = task.poll_interval
            await trio.sleep(_INTERVAL if interval is None else max(interval / 1000, _LEAST))
            task = await context.ask(TASKS_GET, GetTaskRequestParams(task_id=task.task_id))
        payload = await context.ask(TASKS_RESULT, GetTaskPayloadRequestParams(task_id=task.task_id))
    except trio.Cancelled:
        with trio.move_on_after(_POLITENESS, shield=True):
            await _cancel(context, task.task_id)
        raise
    answer, _ = compatibility.receive(revision, converter(revision).unstructure(payload), row.result)
    return answer


async def _cancel(context: Context, id: str) -> None:
    try:
        await context.ask(TASKS_CANCEL, CancelTaskRequestParams(task_id=id))
    except McpError:
        # Whatever it is, nobody wants the answer any more.
        return
