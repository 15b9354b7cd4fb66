"""Tools that run as tasks of the protocol of 2025-11-25."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import ErrorReply, RawReply, encoded, notification
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.scenarios.client_request_table import by_name
from mcp_conformance.scenarios.client_request_tools import declares
from mcp_conformance.scenarios.task_script import ENDED, PLAIN, SAME_ID_BUT_CASE, ScriptedTask, TaskScript, enter, noted
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = ["CORE_SCRIPTS", "INSISTING", "WAITING_TASK", "CoreTasks", "core_tasks_undeclared"]

WAITING_TASK: Final = "task_waits"
"""The tool whose task never ends."""
INSISTING: Final = "task_insists"
"""The tool that runs only as a task although it declares task support as optional."""
_PAGE: Final = 2
_PAUSE: Final = 0.1
"""Seconds that a client waits for a result if it did not poll the task."""
_STATUS: Final = "notifications/tasks/status"

CORE_SCRIPTS: Final = (
    TaskScript(
        name="task_required",
        id=SAME_ID_BUT_CASE[0],
        steps=("working", "working", "working", "completed"),
        intervals=(60, 60, 180),
        respells=True,
    ),
    TaskScript(name="task_optional", support="optional"),
    TaskScript(name="task_forbidden", support="forbidden"),
    PLAIN,
    TaskScript(name="task_told", steps=("working", "working", "working", "completed"), notifies=True),
    TaskScript(name="task_asks", steps=("working", "working", "input_required", "completed"), request_keys=("form",)),
    TaskScript(
        name="task_asks_elsewhere",
        steps=("working", "input_required", "completed"),
        request_keys=("form",),
        elsewhere=True,
    ),
    TaskScript(name="task_fails", id=SAME_ID_BUT_CASE[1], steps=("working", "failed")),
    TaskScript(name="task_forgotten", steps=("working", "working"), ttl=1, forgotten=True),
    TaskScript(name="task_unhurried", intervals=(None,), ttl=None),
    TaskScript(name=INSISTING, support="optional"),
)
"""The tools and the scripts of their tasks. Each tests something that clients must do or tolerate."""


class CoreTasks:
    """The tasks of a server of 2025-11-25.

    Args:
        setup: The setup of the scenario.
        scripts: The scripts of the tools.
    """

    def __init__(self, setup: ScenarioSetup, scripts: tuple[TaskScript, ...]) -> None:
        self._setup: Final = setup
        self._scripts: Final = {each.name: each for each in scripts}
        self._tasks: Final[dict[str, ScriptedTask]] = {}
        server = setup.server
        requests: JsonObject = {"tools": {"call": {}}}
        server.capabilities = {**server.capabilities, "tasks": {"list": {}, "cancel": {}, "requests": requests}}
        server.offers.tools[:] = [each.listed(modern=False) for each in scripts]
        server.offers.calls.clear()
        server.offers.calls.update(dict.fromkeys(self._scripts, self._call))
        handlers: dict[str, Handler] = {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
        }
        server.handlers.update(handlers)

    async def _call(self, request: ScriptedRequest) -> JsonObject:
        script = self._scripts[request.text("name")]
        wished = request.params.get("task")
        if not isinstance(wished, dict):
            if script.support == "required":
                raise ErrorReply(-32601, f"{script.name} runs only as a task")
            if script.name == INSISTING:
                raise ErrorReply(-32600, f"{script.name} must be called as a task")
            return text_result("done at once")
        if script.support not in ("optional", "required"):
            raise ErrorReply(-32601, f"{script.name} does not run as a task")
        task = ScriptedTask(script=script, token=request.token)
        if script.id not in ("", *self._tasks):
            task.id = script.id
        self._tasks[task.id] = task
        enter(self._setup, task)
        noted(self._setup, task, "created", trio.current_time(), status="working")
        created: JsonObject = {"task": task.shown("working", modern=False)}
        raise RawReply(_checked(request, created))

    def _task(self, request: ScriptedRequest) -> ScriptedTask:
        task = self._tasks.get(request.text("taskId"))
        if task is None or task.forgotten:
            raise ErrorReply(-32602, "unknown or expired task")
        return task

    async def _get(self, request: ScriptedRequest) -> JsonObject:
        received_at = trio.current_time()
        task = self._task(request)
        status = task.look()
        if task.forgotten:
            noted(self._setup, task, "tasks/get", received_at, status="forgotten")
            raise ErrorReply(-32602, "the task has expired")
        if status == "working":
            await self._report(request, task)
        noted(self._setup, task, "tasks/get", received_at, status=status, interval=task.interval)
        return task.shown(status, modern=False)

    async def _report(self, request: ScriptedRequest, task: ScriptedTask) -> None:
        """Report progress and status on the standalone stream."""
        sink = request.session.standalone_sink
        if sink is None:
            noted(self._setup, task, "nowhere", trio.current_time())
            return
        if task.script.notifies:
            status_notification = notification(_STATUS, task.shown("working", modern=False), request.revision, "")
            noted(self._setup, task, "told", trio.current_time(), status="working")
            await sink.send(encoded(status_notification))
        if task.token is not None:
            progress: JsonObject = {"progressToken": task.token, "progress": task.looks, **_related(task)}
            await sink.send(encoded(notification("notifications/progress", progress, request.revision, "")))

    async def _result(self, request: ScriptedRequest) -> JsonObject:
        received_at = trio.current_time()
        task = self._task(request)
        noted(self._setup, task, "tasks/result", received_at, status=task.status())
        if task.script.name == WAITING_TASK:
            await task.done.wait()
        if task.script.request_keys and not task.ended:
            await self._ask(request, task)
        elif task.status() not in ENDED:
            # A client that waits for the result does not need to poll the task.
            await trio.sleep(_PAUSE)
            task.end("failed" if task.script.steps[-1] == "failed" else "completed")
        if task.status() == "cancelled":
            raise ErrorReply(-32603, "the task was cancelled")
        if task.status() == "failed":
            raise ErrorReply(-32603, "the task failed")
        task.end("completed")
        return {**task.outcome(), **_related(task)}

    async def _ask(self, request: ScriptedRequest, task: ScriptedTask) -> None:
        """Send the client request of the task once, for a capability that the client declares."""
        if task.request_sent:
            # Another request waits for the response already.
            await task.settled.wait()
            return
        task.request_sent = True
        try:
            await self._ask_whatever(request, task)
        finally:
            task.answered.update(task.script.request_keys)
            task.settled.set()

    async def _ask_whatever(self, request: ScriptedRequest, task: ScriptedTask) -> None:
        for client_request in by_name("ask_form", "ask_sample"):
            if not declares(request.session, client_request.needs):
                continue
            params: JsonObject = {**(client_request.params or {}), **_related(task)}
            elsewhere = task.script.elsewhere
            if elsewhere and request.session.standalone_sink is None:
                noted(self._setup, task, "nowhere", trio.current_time())
                elsewhere = False
            name = f"{task.script.name} {task.id}"
            await request.send_client_request(client_request.method, params, standalone=elsewhere, name=name)
            return

    async def _list(self, request: ScriptedRequest) -> JsonObject:
        tasks = list(self._tasks.values())
        cursor = request.params.get("cursor")
        cursors: list[JsonValue] = [_cursor(begin) for begin in range(0, len(tasks), _PAGE)]
        if cursor is not None and cursor not in cursors:
            raise ErrorReply(-32602, "unknown cursor")
        begin = 0 if cursor is None else _PAGE * cursors.index(cursor)
        page: JsonObject = {"tasks": [each.shown(each.status(), modern=False) for each in tasks[begin : begin + _PAGE]]}
        given = self._setup.notes.setdefault("cursors", [])
        if begin + _PAGE < len(tasks):
            page["nextCursor"] = _cursor(begin + _PAGE)
            if isinstance(given, list):
                given.append(page["nextCursor"])
        return page

    async def _cancel(self, request: ScriptedRequest) -> JsonObject:
        received_at = trio.current_time()
        task = self._task(request)
        if task.status() in ENDED:
            raise ErrorReply(-32602, f"the task is {task.status()}")
        task.end("cancelled")
        # A server may forget a cancelled task at any time.
        del self._tasks[task.id]
        noted(self._setup, task, "tasks/cancel", received_at, status="cancelled")
        return task.shown("cancelled", modern=False)


def core_tasks_undeclared(setup: ScenarioSetup) -> None:
    """Add tools that declare task support, of a server that does not declare tasks, so that they run without."""

    async def call(request: ScriptedRequest) -> JsonObject:
        if "task" in request.params:
            setup.notes["augmented"] = request.text("name")
        return text_result("done at once")

    offers = setup.server.offers
    offers.tools[:] = [
        TaskScript(name=f"task_{support}", support=support).listed(modern=False) for support in ("required", "optional")
    ]
    offers.calls.clear()
    offers.calls.update({str(each["name"]): call for each in offers.tools})


def _cursor(begin: int) -> str:
    return f" tasks from {begin:04d} on: =?base64?eA==?= \u00fc/ "


def _related(task: ScriptedTask) -> JsonObject:
    return {"_meta": {RELATED_TASK: {"taskId": task.id}}}


def _checked(request: ScriptedRequest, created: JsonObject) -> bytes:
    wrong = flaw(created, "CreateTaskResult", request.revision)
    if wrong is not None:
        raise AssertionError(f"the suite would send an invalid task: {wrong}")
    return encoded({"jsonrpc": "2.0", "id": request.message["id"], "result": created})
