"""Tool calls that run as tasks.

In 2025-11-25 the client requests a task; in the extension of 2026-07-28 the server decides. The client polls a task, at
most as often as the server allows. The handlers of client requests respond to the input requests of a task: in the
extension with `tasks/update`, in 2025-11-25 to requests that arrive while `tasks/result` is pending. The client does
not rely on status notifications of the server.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import inspect
import logging
import math
from typing import TYPE_CHECKING, Final, TypeVar, cast, overload

import trio

from mcp_client.deadlines import Deadlines
from mcp_core.conversion.converter import converter
from mcp_core.errors import (
    ConnectionEnded,
    InvalidValue,
    LocalProtocolError,
    McpError,
    Phase,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    request_failed,
)
from mcp_core.methods import (
    EXTENSION_TASKS_CANCEL,
    EXTENSION_TASKS_GET,
    EXTENSION_TASKS_UPDATE,
    SUBSCRIPTIONS_LISTEN,
    TASKS_CANCEL,
    TASKS_GET,
    TASKS_RESULT,
    TOOLS_CALL,
)
from mcp_core.trio.async_library import allow_asyncio, call_in, caller_library
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.types import (
    ABSENT,
    TERMINAL_STATUSES,
    CallToolResult,
    CancelTaskRequestParams,
    ExtensionTaskNotificationParams,
    GetExtensionTaskResult,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    TaskStatusNotificationParams,
    UpdateTaskRequestParams,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.request_options import RequestOptions
    from mcp_client.features.tool_result import ToolResult, ToolResultReader
    from mcp_client.handlers import ProgressHandler
    from mcp_core.engine.events import NotificationReceived
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import ExtensionTask, GetTaskResult, InputRequest, Task, TaskStatus

__all__ = ["TaskCancelled", "TaskHandle", "check_task_offered", "waited"]

T = TypeVar("T")

_log: Final = logging.getLogger("mcp_client")

_INTERVAL: Final = 1.0
"""Default poll interval, in seconds."""

_LEAST: Final = 0.01
"""Minimum poll interval, in seconds, even if the server allows a shorter one."""

_LOST: Final = 5
"""Maximum number of consecutive lost responses over HTTP before the client stops polling."""

_POLITENESS: Final = 2.0
"""Maximum time to cancel a task whose caller stopped waiting, in seconds."""

_FOR_EVER: Final = Deadlines(idle=math.inf, total=math.inf)


class TaskCancelled(McpError):
    """A task was cancelled, so it does not have a result."""


class TaskHandle:
    """A handle of a tool call that runs as a task. Created by `Client.start_task` and `Client.task`.

    The task does not depend on the handle. Another handle with the same id, in this or another process, can wait for
    it.
    """

    def __init__(
        self,
        channel: ClientChannel,
        options: RequestOptions,
        results: ToolResultReader,
        tool: str | None,
        id: str | None,
        *,
        task: Task | ExtensionTask | None = None,
        result: CallToolResult | None = None,
    ) -> None:
        self.id: Final = id
        """The id of the task; `None` if the server responded with the result and did not create a task. On a server
        without authentication, the id is sufficient to access the task."""
        self.status: TaskStatus = "working" if result is None else "completed"
        """The status at the last poll."""
        self.message: str | None = None
        """A readable message about the status. Untrusted text of the server."""
        self.ttl: float | None = None
        """The time to live after the creation of the task, in seconds; `None` if unknown or unlimited."""
        self._channel: Final = channel
        self._options: Final = options
        self._results: Final = results
        self._tool: Final = tool
        self._interval = _INTERVAL
        self._reported: tuple[TaskStatus, str | None, str] | None = None
        self._input_requests: Mapping[str, InputRequest] = {}
        self._answered: Final[set[str]] = set()
        self._result = result
        self._failure: McpError | None = None
        self._fetching = False
        self._news = trio.Event()
        if task is not None:
            self._take(task)

    def __repr__(self) -> str:
        return f"<TaskHandle {self.status}>"

    @property
    def _legacy(self) -> bool:
        return self._channel.server.revision.core_tasks

    # --- for the application ---------------------------------------------------------------------------------------

    @allow_asyncio
    async def refresh(self) -> TaskStatus:
        """Poll the task and return its status.

        Raises:
            RequestFailed: The task does not exist or has expired.
            McpError: The other exceptions of `Client.request`.
        """
        if self.id is None:
            return self.status
        if self._legacy:
            self._take(await self._channel.request(TASKS_GET, GetTaskRequestParams(task_id=self.id), self._options))
        else:
            got = await self._channel.request(EXTENSION_TASKS_GET, GetTaskRequestParams(task_id=self.id), self._options)
            self._take(got)
            self._take_outcome(got)
        return self.status

    @overload
    async def wait(
        self,
        *,
        returns: type[T],
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[T]: ...
    @overload
    async def wait(
        self,
        *,
        returns: None = None,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[JsonValue]: ...
    @overload
    async def wait(
        self,
        *,
        returns: object,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[object]: ...
    @allow_asyncio
    async def wait(
        self,
        *,
        returns: object = None,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[object]:
        """Wait until the task has ended. Meanwhile the handlers respond to its input requests.

        This method can be called again. Cancelling the caller does not cancel the task.

        Args:
            returns: The type of `ToolResult.data`, as in `Client.call_tool`; `None` for plain JSON.
            raise_on_error: Whether a failed tool raises `ToolFailed`.
            on_progress: Called when the status or its message has changed; the message has the new one.
            deadlines: `total` limits the whole wait; `None` for the deadlines of the connection. Each poll uses the
                deadlines of the connection.

        Returns:
            The result of the tool.

        Raises:
            ToolFailed: The tool failed; the message has the text of the result.
            InvalidToolOutput: The data does not match `returns`.
            UnsupportedType: `returns` has no JSON representation.
            RequestFailed: The call failed with an error, or the task does not exist or has expired.
            TaskCancelled: The task was cancelled.
            RequestTimeout: The total deadline passed; the task continues.
            McpError: The other exceptions of `Client.request`.
        """
        result = await self._wait(on_progress, deadlines)
        return self._results.read(self._tool, result, returns, raise_on_error=raise_on_error)

    async def _wait(self, on_progress: ProgressHandler | None, deadlines: Deadlines | None) -> CallToolResult:
        """Wait until the task has ended and return its result as received."""
        deadlines = deadlines or self._channel.deadlines
        with trio.move_on_after(deadlines.total):
            stop = self._channel.listeners.subscribe(self._hear)
            try:
                async with open_private_nursery() as nursery:
                    await self._poll(nursery, on_progress)
            finally:
                stop()
            return await self._outcome()
        late = RequestTimeout("the task did not end", deadline="total", seconds=deadlines.total)
        self._channel.explain(late, method=TOOLS_CALL.name, phase=Phase.REQUEST)
        raise late

    @allow_asyncio
    async def cancel(self) -> None:
        """Request cancellation of the task. The task may still end in another way. An ended task does not change.

        Raises:
            McpError: The exceptions of `Client.request`.
        """
        if self.id is None:
            return
        params = CancelTaskRequestParams(task_id=self.id)
        if not self._legacy:
            await self._channel.request(EXTENSION_TASKS_CANCEL, params, self._options)
            return
        try:
            self._take(await self._channel.request(TASKS_CANCEL, params, self._options))
        except RequestFailed:
            # The error is expected if the task has already ended.
            if await self.refresh() not in TERMINAL_STATUSES:
                raise

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def _poll(self, nursery: trio.Nursery, on_progress: ProgressHandler | None) -> None:
        """Poll until the task has ended."""
        steps = lost = 0
        reported = self._reported
        listening = self._legacy
        while self._result is None and self._failure is None:
            self._news = trio.Event()
            try:
                await self.refresh()
                lost = 0
            except ConnectionEnded:
                # Over HTTP a response may be lost; the task continues.
                lost += 1
                if self._channel.ended is not None or lost > _LOST:
                    raise
            if self._reported != reported and on_progress is not None:
                steps += 1
                await self._show(on_progress, steps)
            reported = self._reported
            if self.status in TERMINAL_STATUSES:
                return
            if not listening:
                listening = True
                nursery.start_soon(self._listen)
            if self.status == "input_required":
                await self._answer(nursery)
            with trio.move_on_after(self._interval):
                await self._news.wait()

    async def _listen(self) -> None:
        """Subscribe to the status notifications of the task, which make polling more timely."""
        wanted = SubscriptionFilter(task_ids=(cast("str", self.id),))
        params = SubscriptionsListenRequestParams(notifications=wanted)
        try:
            await self._channel.request(SUBSCRIPTIONS_LISTEN, params, self._options, deadlines=_FOR_EVER)
        except McpError as error:
            _log.debug("no status notifications of the task, polling only: %s", error)

    def _hear(self, event: NotificationReceived) -> None:
        """Poll at once when a notification reports another status of the task."""
        params = event.params
        if isinstance(params, ExtensionTaskNotificationParams | TaskStatusNotificationParams) and (
            params.task_id == self.id and params.status != self.status
        ):
            self._news.set()

    async def _show(self, on_progress: ProgressHandler, steps: int) -> None:
        shown = on_progress(steps, None, self.message or self.status)
        if inspect.isawaitable(shown):
            await call_in(caller_library(), lambda: shown)

    async def _answer(self, nursery: trio.Nursery) -> None:
        """Respond to the input requests of the task."""
        if self._legacy:
            if not self._fetching:
                # The server sends its client requests while `tasks/result` is pending.
                self._fetching = True
                nursery.start_soon(self._wait_for_result)
            return
        id = cast("str", self.id)
        for key, input_request in self._input_requests.items():
            # Sequential: a user should not see two dialogs at once.
            if key not in self._answered:
                answer = await self._channel.client_requests.answer_input_request(input_request)
                update = UpdateTaskRequestParams(task_id=id, input_responses={key: answer})
                await self._channel.request(EXTENSION_TASKS_UPDATE, update, self._options)
                self._answered.add(key)

    async def _wait_for_result(self) -> None:
        try:
            self._result = await self._fetch(_FOR_EVER)
        except ConnectionEnded as error:
            _log.debug("tasks/result interrupted: %s", error)
        except McpError as error:
            self._failure = error
        finally:
            self._fetching = False

    # --- the outcome -----------------------------------------------------------------------------------------------

    async def _outcome(self) -> CallToolResult:
        if self._result is None and self._failure is None and self.status == "cancelled":
            self._failure = TaskCancelled(self.message or "the task was cancelled")
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            if not self._legacy:
                raise RemoteProtocolError(f"the result of a task with the status {self.status} is missing")
            self._result = await self._fetch(None)
        return self._result

    async def _fetch(self, deadlines: Deadlines | None) -> CallToolResult:
        """Return the result of `tasks/result` (2025-11-25)."""
        params = GetTaskPayloadRequestParams(task_id=cast("str", self.id))
        payload = await self._channel.request(TASKS_RESULT, params, self._options, deadlines=deadlines)
        return self._read(converter(self._channel.server.revision).unstructure(payload), TASKS_RESULT.name)

    def _read(self, wire: JsonObject, method: str) -> CallToolResult:
        try:
            result, notes = converter(self._channel.server.revision).receive(wire, CallToolResult)
        except InvalidValue as bad:
            self._channel.explain(bad, method=method, phase=Phase.REQUEST)
            raise
        for note in notes:
            _log.debug("deviation tolerated: %s", note)
        return result

    def _take(self, task: Task | GetTaskResult | ExtensionTask) -> None:
        wire = converter(self._channel.server.revision).unstructure(task)
        if self._reported is None or task.status != self.status:
            _log.debug("task status: task=%s… status=%s", task.task_id[:8], task.status)
        self.status, self.message = task.status, task.status_message
        interval, ttl = wire.get("pollInterval", wire.get("pollIntervalMs")), wire.get("ttl", wire.get("ttlMs"))
        self._interval = max(interval / 1000, _LEAST) if isinstance(interval, int) else _INTERVAL
        self.ttl = ttl / 1000 if isinstance(ttl, int) else None
        self._reported = (task.status, task.status_message, task.last_updated_at)

    def _take_outcome(self, got: GetExtensionTaskResult) -> None:
        self._input_requests = got.input_requests or {}
        if got.status == "completed" and got.result is not None:
            self._result = self._read(got.result, EXTENSION_TASKS_GET.name)
        elif got.status == "failed" and got.error is not None:
            data = None if got.error.data is ABSENT else got.error.data
            self._failure = request_failed(got.error.code, got.error.message, data)


async def waited(
    handle: TaskHandle, channel: ClientChannel, *, on_progress: ProgressHandler | None, deadlines: Deadlines | None
) -> CallToolResult:
    """Return the result of a task. Cancel the task if the wait fails or is cancelled."""
    try:
        return await handle._wait(on_progress, deadlines)  # noqa: SLF001  # one module
    except BaseException:
        if handle.status not in TERMINAL_STATUSES and channel.ended is None:
            with trio.move_on_after(_POLITENESS, shield=True):
                try:
                    await handle.cancel()
                except McpError as error:
                    _log.debug("cancelling the task failed: %s", error)
        raise


def check_task_offered(channel: ClientChannel) -> None:
    """Raise `LocalProtocolError` if the revision does not support tasks."""
    revision = channel.server.revision
    if revision not in TOOLS_CALL.task_results:
        raise LocalProtocolError(f"revision {revision} does not support tasks")
