"""Tool calls that are answered later.

In 2025-11-25 they are where the client asks for it, in the extension of 2026-07-28 where the server decides so. A task is polled, no faster than the server wants. What it asks is answered by the handlers that answer any question: in
the extension by `tasks/update`, in 2025-11-25 by requests that come while `tasks/result` waits. That the server may tell
of changes by itself is not relied on.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import inspect
import logging
import math
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_client.deadlines import Deadlines
from mcp_client.nursery import open_private_nursery
from mcp_core.conversion import compatibility
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
from mcp_core.types import (
    ABSENT,
    TERMINAL_STATUSES,
    CallToolResult,
    CancelTaskRequestParams,
    CreateExtensionTaskResult,
    CreateTaskResult,
    ExtensionTaskNotificationParams,
    GetExtensionTaskResult,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    ProgressNotificationParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    TaskStatusNotificationParams,
    UpdateTaskRequestParams,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_client.connection.channel import Link
    from mcp_client.connection.pending_request import ProgressHandler
    from mcp_client.features.multi_request import Request
    from mcp_core.engine.events import NotificationReceived
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import ExtensionTask, GetTaskResult, InputRequest, Task, TaskStatus, WireObject

__all__ = ["TaskCancelled", "TaskHandle", "check_task_offered", "waited"]

_log: Final = logging.getLogger("mcp_client")

_INTERVAL: Final = 1.0
"""Seconds between two polls, where the server says nothing of it."""

_LEAST: Final = 0.01
"""Seconds between two polls at least, whatever the server says."""

_LOST: Final = 5
"""How many answers in a row may be lost, where each has a connection of its own, before a task is given up."""

_POLITENESS: Final = 2.0
"""Seconds that it may take to cancel a task that nobody waits for any more."""

_FOR_EVER: Final = Deadlines(idle=math.inf, total=math.inf)


class TaskCancelled(McpError):
    """A task was cancelled, so that it has no result."""


class TaskHandle:
    """A tool call that the server answers later. Made by `Client.start_task` and `Client.task`.

    It holds nothing: the task goes on without it, and can be picked up by its id, by another process too.
    """

    def __init__(self, link: Link, request: Request, id: str | None) -> None:
        self.id: Final = id
        """Its id; `None` when the server answered at once, and there is no task. On a server that tells nobody apart, the
        id is all that is needed to use the task."""
        self.status: TaskStatus = "working"
        """How it stood when the server was asked last."""
        self.message: str | None = None
        """More about the status, for people. Written by the server: untrusted text."""
        self.ttl: float | None = None
        """How many seconds after its beginning the server may forget it; `None`: it did not say, or never."""
        self._link: Final = link
        self._request: Final = request
        self._interval = _INTERVAL
        self._told: tuple[TaskStatus, str | None, str] | None = None
        self._questions: Mapping[str, InputRequest] = {}
        self._answered: Final[set[str]] = set()
        self._result: CallToolResult | None = None
        self._failure: McpError | None = None
        self._fetching = False
        self._news = trio.Event()

    def __repr__(self) -> str:
        return f"<TaskHandle {self.status}>"

    @property
    def _legacy(self) -> bool:
        return self._link.server.revision.core_tasks

    # --- for the application ---------------------------------------------------------------------------------------

    async def refresh(self) -> TaskStatus:
        """Asks the server how it stands. Returns the status. Raises `RequestFailed` when there is no such task any more."""
        if self.id is None:
            return self.status
        if self._legacy:
            self._take(await self._request(TASKS_GET, GetTaskRequestParams(task_id=self.id)))
        else:
            got = await self._request(EXTENSION_TASKS_GET, GetTaskRequestParams(task_id=self.id))
            self._take(got)
            self._take_outcome(got)
        return self.status

    async def wait(
        self, *, on_progress: ProgressHandler | None = None, deadlines: Deadlines | None = None
    ) -> CallToolResult:
        """Waits until the task is over. Meanwhile the handlers answer what it asks. It may be waited for again.

        Cancelling the caller does not cancel the task.

        Args:
            on_progress: Is called when the status, or what the server says of it, has changed: the message says what.
            deadlines: How long to wait, if not as long as usual. `idle` is for each answer to a poll.

        Returns:
            What the tool gave.

        Raises:
            RequestFailed: The call failed with an error; or there is no such task any more.
            TaskCancelled: It was cancelled.
            RequestTimeout: The total deadline passed; the task goes on.
            McpError: As for any request.
        """
        deadlines = deadlines or self._link.deadlines
        with trio.move_on_after(deadlines.total):
            stop = self._link.listeners.subscribe(self._hear)
            try:
                async with open_private_nursery() as nursery:
                    await self._poll(nursery, on_progress)
            finally:
                stop()
            return await self._outcome()
        late = RequestTimeout("the task did not end", deadline="total", seconds=deadlines.total)
        self._link.explain(late, method=TOOLS_CALL.name, phase=Phase.REQUEST)
        raise late

    async def cancel(self) -> None:
        """Asks the server to cancel the task. It may end in another way all the same; one that is over stays so."""
        if self.id is None:
            return
        params = CancelTaskRequestParams(task_id=self.id)
        if not self._legacy:
            await self._request(EXTENSION_TASKS_CANCEL, params)
            return
        try:
            self._take(await self._request(TASKS_CANCEL, params))
        except RequestFailed:
            # It was over before: then there is nothing to cancel, and no harm done.
            if await self.refresh() not in TERMINAL_STATUSES:
                raise

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def _poll(self, nursery: trio.Nursery, on_progress: ProgressHandler | None) -> None:
        """Polls until the task is over."""
        steps = lost = 0
        told = self._told
        listening = self._legacy
        while self._result is None and self._failure is None:
            self._news = trio.Event()
            try:
                await self.refresh()
                lost = 0
            except ConnectionEnded:
                # Over HTTP an answer may be lost, which is no reason to lose what it was about.
                lost += 1
                if self._link.ended is not None or lost > _LOST:
                    raise
            if self._told != told and on_progress is not None:
                steps += 1
                await self._show(on_progress, steps)
            told = self._told
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
        """Has the server tell of changes, if it likes to: then they are known sooner."""
        wanted = SubscriptionFilter(task_ids=(cast("str", self.id),))
        params = SubscriptionsListenRequestParams(notifications=wanted)
        try:
            await self._request(SUBSCRIPTIONS_LISTEN, params, deadlines=_FOR_EVER)
        except McpError as error:
            _log.debug("a task is polled only: %s", error)

    def _hear(self, event: NotificationReceived) -> None:
        """The server told something. What it is exactly is asked for, once, and not more often."""
        params = event.params
        if isinstance(params, ExtensionTaskNotificationParams | TaskStatusNotificationParams) and (
            params.task_id == self.id and params.status != self.status
        ):
            self._news.set()

    async def _show(self, on_progress: ProgressHandler, steps: int) -> None:
        token = cast("str", self.id)  # what is polled has one
        shown = on_progress(
            ProgressNotificationParams(progress_token=token, progress=steps, message=self.message or self.status)
        )
        if inspect.isawaitable(shown):
            await shown

    async def _answer(self, nursery: trio.Nursery) -> None:
        """Answers what the task asks."""
        if self._legacy:
            if not self._fetching:
                # It is asked for by requests, which come while somebody waits for the result.
                self._fetching = True
                nursery.start_soon(self._wait_for_result)
            return
        id = cast("str", self.id)
        for key, question in self._questions.items():
            # One after the other: two dialogs at once are no kindness to a user.
            if key not in self._answered:
                answer = await self._link.answering.fulfil(question)
                await self._request(
                    EXTENSION_TASKS_UPDATE, UpdateTaskRequestParams(task_id=id, input_responses={key: answer})
                )
                self._answered.add(key)

    async def _wait_for_result(self) -> None:
        try:
            self._result = await self._fetch(_FOR_EVER)
        except ConnectionEnded as error:
            _log.debug("the result of a task was not waited for to its end: %s", error)
        except McpError as error:
            self._failure = error
        finally:
            self._fetching = False

    # --- what came of it -------------------------------------------------------------------------------------------

    async def _outcome(self) -> CallToolResult:
        if self._result is None and self._failure is None and self.status == "cancelled":
            self._failure = TaskCancelled(self.message or "the task was cancelled")
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            if not self._legacy:
                raise RemoteProtocolError(f"a task is {self.status}, and its result is missing")
            self._result = await self._fetch(None)
        return self._result

    async def _fetch(self, deadlines: Deadlines | None) -> CallToolResult:
        """What `tasks/result` gives (2025-11-25)."""
        params = GetTaskPayloadRequestParams(task_id=cast("str", self.id))
        payload = await self._request(TASKS_RESULT, params, deadlines=deadlines)
        return self._read(converter(self._link.server.revision).unstructure(payload), TASKS_RESULT.name)

    def _read(self, wire: JsonObject, method: str) -> CallToolResult:
        try:
            result, notes = compatibility.receive(self._link.server.revision, wire, CallToolResult)
        except InvalidValue as bad:
            self._link.explain(bad, method=method, phase=Phase.REQUEST)
            raise
        for note in notes:
            _log.debug("survived: %s", note)
        return result

    def settled(self, result: CallToolResult) -> TaskHandle:
        """The server answered at once: there is no task, or no other than this."""
        self._result = result
        self.status = "completed"
        return self

    def begun(self, created: WireObject) -> TaskHandle:
        """What the server said when the task began."""
        if isinstance(created, CreateTaskResult):
            self._take(created.task)
        elif isinstance(created, CreateExtensionTaskResult):
            self._take(created)
        return self

    def _take(self, task: Task | GetTaskResult | ExtensionTask) -> None:
        wire = converter(self._link.server.revision).unstructure(task)
        if self._told is None or task.status != self.status:
            _log.debug("task %s… is %s", task.task_id[:8], task.status)
        self.status, self.message = task.status, task.status_message
        interval, ttl = wire.get("pollInterval", wire.get("pollIntervalMs")), wire.get("ttl", wire.get("ttlMs"))
        self._interval = max(interval / 1000, _LEAST) if isinstance(interval, int) else _INTERVAL
        self.ttl = ttl / 1000 if isinstance(ttl, int) else None
        self._told = (task.status, task.status_message, task.last_updated_at)

    def _take_outcome(self, got: GetExtensionTaskResult) -> None:
        self._questions = got.input_requests or {}
        if got.status == "completed" and got.result is not None:
            self._result = self._read(got.result, EXTENSION_TASKS_GET.name)
        elif got.status == "failed" and got.error is not None:
            data = None if got.error.data is ABSENT else got.error.data
            self._failure = request_failed(got.error.code, got.error.message, data)


async def waited(
    handle: TaskHandle, link: Link, *, on_progress: ProgressHandler | None, deadlines: Deadlines | None
) -> CallToolResult:
    """What a task gives to a caller who called a tool, and does not know of the task: who gives up gives it up, too."""
    try:
        return await handle.wait(on_progress=on_progress, deadlines=deadlines)
    except BaseException:
        if handle.status not in TERMINAL_STATUSES and link.ended is None:
            with trio.move_on_after(_POLITENESS, shield=True):
                try:
                    await handle.cancel()
                except McpError as error:
                    _log.debug("a task could not be cancelled: %s", error)
        raise


def check_task_offered(link: Link) -> None:
    """Raises `LocalProtocolError` when the revision has no tasks."""
    revision = link.server.revision
    if revision not in TOOLS_CALL.task_results:
        raise LocalProtocolError(f"revision {revision} has no tasks")
