"""Task-augmented client requests: tasks of a server's requests that the client runs (2025-11-25).

The tasks are kept in memory. They end with the connection and are removed when their time to live has passed.

Spec: basic/utilities/tasks (2025-11-25)
"""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import declared
from mcp_core.errors import ErrorCode, LimitExceeded, McpError, RequestFailed
from mcp_core.features.tasks import TaskState, as_task
from mcp_core.field_methods import FieldRepr
from mcp_core.methods import NOTIFICATIONS_TASKS_STATUS, TASKS_CANCEL, TASKS_GET, TASKS_LIST, TASKS_RESULT
from mcp_core.types import (
    CancelTaskResult,
    CreateTaskResult,
    GetTaskResult,
    ListTasksRequestParams,
    ListTasksResult,
    Task,
    TaskMetadata,
    TaskStatusNotificationParams,
    WireObject,
)
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import RequestReceived
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import NotificationMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import TaskStatus

__all__ = ["ClientTasks"]

_log: Final = logging.getLogger("mcp_client")

_TTL: Final = 3_600_000
"""Maximum and default time to live of a task, in milliseconds."""

_POLL_INTERVAL: Final = 1_000
"""Poll interval for the server, in milliseconds."""

_ID_BYTES: Final = 24


@attrs.define(eq=False, repr=False)
class _ClientTask(FieldRepr):
    """One task."""

    state: TaskState
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    over: trio.Event = attrs.field(factory=trio.Event)


class ClientTasks:
    """The tasks of one server's client requests.

    Args:
        connection: The engine.
        answer: Returns the result of a client request.
        notify: Sends a notification to the server.
        nursery: The nursery of the handlers.
    """

    def __init__(
        self,
        connection: ClientConnection,
        answer: Callable[[RequestReceived], Awaitable[object]],
        notify: Callable[[NotificationMethod[WireObject], WireObject], Awaitable[None]],
        nursery: trio.Nursery,
    ) -> None:
        self._connection: Final = connection
        self._answer: Final = answer
        self._notify: Final = notify
        self._nursery: Final = nursery
        self._tasks: Final[dict[str, _ClientTask]] = {}

    async def answer(self, event: RequestReceived) -> object:
        """Return the result of a request of the server, or the error to send.

        A task-augmented request starts a task, and the result is that task.
        """
        try:
            if event.definition is TASKS_LIST:
                return self._list(event)
            if event.definition in {TASKS_GET, TASKS_RESULT, TASKS_CANCEL}:
                return await self._about(event)
            wished = getattr(event.params, "task", None)
            offered = declared(self._connection.capabilities, event.definition.task_capability or ("tasks", "none"))
            if isinstance(wished, TaskMetadata) and event.peer.revision.core_tasks and offered:
                return self._begin(event, wished)
        except RequestFailed as failure:
            return failure
        return await self._answer(event)

    def _begin(self, event: RequestReceived, wished: TaskMetadata) -> CreateTaskResult:
        allowed = self._connection.limits.tasks
        if len(self._tasks) >= allowed:
            excess = LimitExceeded("tasks that are kept", observed=allowed + 1, allowed=allowed, setting="Limits.tasks")
            raise RequestFailed(excess.message, code=ErrorCode.INVALID_REQUEST)
        now = time.time()
        ttl = _TTL if wished.ttl is None else min(max(wished.ttl, 1), _TTL)
        id = secrets.token_urlsafe(_ID_BYTES)
        task = _ClientTask(TaskState(id=id, created_at=now, updated_at=now, ttl=ttl, poll_interval=_POLL_INTERVAL))
        self._tasks[id] = task
        self._nursery.start_soon(self._run, task, event, ttl / 1000)
        _log.debug("task created: task=%s… method=%s", id[:8], event.method)
        return CreateTaskResult(task=as_task(task.state, Task))

    async def _run(self, task: _ClientTask, event: RequestReceived, seconds: float) -> None:
        with trio.move_on_after(seconds):
            try:
                with task.scope:
                    await self._end(task, await self._answer(event), event.peer.revision)
                # Keep the result until the time to live has passed.
                await trio.sleep_forever()
            finally:
                task.over.set()
        del self._tasks[task.state.id]
        _log.debug("task expired: task=%s…", task.state.id[:8])

    async def _end(self, task: _ClientTask, outcome: object, revision: Revision) -> None:
        if task.state.terminal:
            return
        if isinstance(outcome, RequestFailed):
            error: JsonObject = {"code": outcome.code, "message": outcome.message}
            if outcome.data is not None:
                error["data"] = outcome.data
            await self._move(task, "failed", message=outcome.message, error=error)
            return
        wire = outcome if isinstance(outcome, dict) else converter(revision).unstructure(cast("WireObject", outcome))
        await self._move(task, "completed", result=wire)

    async def _move(
        self,
        task: _ClientTask,
        status: TaskStatus,
        *,
        message: str | None = None,
        result: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> None:
        task.state = task.state.moved(status, time.time(), message=message, result=result, error=error)
        task.over.set()
        try:
            await self._notify(NOTIFICATIONS_TASKS_STATUS, as_task(task.state, TaskStatusNotificationParams))
        except McpError as failure:
            _log.debug("task status notification not sent: %s", failure)

    # --- requests for tasks ----------------------------------------------------------------------------------------

    async def _about(self, event: RequestReceived) -> object:
        task = self._tasks.get(getattr(event.params, "task_id", ""))
        if task is None:
            why = f"{event.method}: there is no such task, or it has expired"
            raise RequestFailed(why, code=ErrorCode.INVALID_PARAMS)
        if event.definition is TASKS_GET:
            return as_task(task.state, GetTaskResult)
        if event.definition is TASKS_CANCEL:
            if task.state.terminal:
                why = f"cannot cancel the task: it is already {task.state.status}"
                raise RequestFailed(why, code=ErrorCode.INVALID_PARAMS)
            task.state = task.state.moved("cancelled", time.time(), message="cancelled by the server")
            task.over.set()
            task.scope.cancel()
            return as_task(task.state, CancelTaskResult)
        await task.over.wait()
        return _result(task.state)

    def _list(self, event: RequestReceived) -> ListTasksResult:
        cursor = cast("ListTasksRequestParams", event.params).cursor
        ids = list(self._tasks)
        if cursor is not None and cursor not in self._tasks:
            raise RequestFailed("invalid cursor: not from a page of this list", code=ErrorCode.INVALID_PARAMS)
        begin = 0 if cursor is None else ids.index(cursor) + 1
        page = ids[begin : begin + self._connection.limits.page_items]
        more = page and page[-1] != ids[-1]
        return ListTasksResult(
            tasks=tuple(as_task(self._tasks[id].state, Task) for id in page), next_cursor=page[-1] if more else None
        )


def _result(state: TaskState) -> JsonObject:
    """Return the result of the client request of a task.

    Raises:
        RequestFailed: The request failed, or the task does not have a result.
    """
    if state.error is not None:
        error = state.error
        raise RequestFailed(str(error["message"]), code=cast("int", error["code"]), data=error.get("data"))
    if state.result is None:
        raise RequestFailed(f"the task does not have a result: it is {state.status}", code=ErrorCode.INVALID_REQUEST)
    meta = state.result.get("_meta")
    return {**state.result, "_meta": {**(meta if isinstance(meta, dict) else {}), RELATED_TASK: {"taskId": state.id}}}
