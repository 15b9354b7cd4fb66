"""Tools that run as tasks of the extension of 2026-07-28.

Spec: the extension `io.modelcontextprotocol/tasks`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import ErrorReply, RawReply, encoded
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.scenarios.client_request_table import by_name
from mcp_conformance.scenarios.client_request_tools import declares
from mcp_conformance.scenarios.task_script import PLAIN, SAME_ID_BUT_CASE, ScriptedTask, TaskScript, enter, noted
from mcp_core.types.meta import SUBSCRIPTION_ID, TASKS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest, Session
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = ["EXTENSION_SCRIPTS", "ODD_TASK", "UNFIT_TASKS", "ExtensionTasks", "declares_tasks", "unfit_tasks"]

ODD_TASK: Final = "t\u00e2che =?base64?eA==?= n\u00b0 1"
"""A task id that a header can contain only in encoded form."""
UNFIT_TASKS: Final = {"prompts/get": "conformance-prompt-as-task-1", "resources/read": "conformance-resource-as-task-2"}
"""The tasks of methods that do not permit tasks."""
_ERROR: Final[JsonObject] = {"code": -32603, "message": "the task failed"}
_PAUSE: Final = 0.1
"""Seconds between two notifications."""

EXTENSION_SCRIPTS: Final = (
    TaskScript(
        name="task_soon",
        id=SAME_ID_BUT_CASE[0],
        steps=("working", "working", "working", "completed"),
        intervals=(60, 60, 180),
        respells=True,
    ),
    PLAIN,
    TaskScript(
        name="task_asks",
        steps=("working", "input_required", "working", "working", "completed"),
        request_keys=("one", "two"),
    ),
    TaskScript(name="task_fails", id=SAME_ID_BUT_CASE[1], steps=("working", "failed")),
    TaskScript(name="task_forgotten", steps=("working", "working"), ttl=1, forgotten=True),
    TaskScript(name="task_unhurried", intervals=(None,), ttl=None),
    TaskScript(name="task_told", steps=("working", "working", "working", "completed"), notifies=True),
    TaskScript(name="task_odd", id=ODD_TASK),
)
"""The tools and the scripts of their tasks. Each tests something that clients must do or tolerate."""


def declares_tasks(session: Session) -> bool:
    """Return whether the client declared the extension."""
    extensions = session.capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)


class ExtensionTasks:
    """The tasks of a server of 2026-07-28.

    Args:
        setup: The setup of the scenario.
        scripts: The scripts of the tools.
    """

    def __init__(self, setup: ScenarioSetup, scripts: tuple[TaskScript, ...]) -> None:
        self._setup: Final = setup
        self._scripts: Final = {each.name: each for each in scripts}
        self._tasks: Final[dict[str, ScriptedTask]] = {}
        server = setup.server
        server.capabilities = {**server.capabilities, "extensions": {TASKS_EXTENSION: {}}}
        server.offers.tools[:] = [each.listed(modern=True) for each in scripts]
        server.offers.calls.clear()
        server.offers.calls.update(dict.fromkeys(self._scripts, self._call))
        handlers: dict[str, Handler] = {
            "tasks/get": self._get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
            "subscriptions/listen": self._listen,
        }
        server.handlers.update(handlers)

    async def _call(self, request: ScriptedRequest) -> JsonObject:
        script = self._scripts[request.text("name")]
        if not declares_tasks(request.session) or script is PLAIN:
            # The server decides whether a call becomes a task, and needs the extension of the client for it.
            return text_result("done at once")
        if script.request_keys and not _client_requests(request.session):
            script = attrs.evolve(script, steps=("working", "completed"), request_keys=())
        task = ScriptedTask(script=script)
        if script.id not in ("", *self._tasks):
            task.id = script.id
        self.add(task)
        noted(self._setup, task, "created", trio.current_time(), status="working")
        raise RawReply(_as_task(self._setup, request, task.shown("working", modern=True)))

    def add(self, task: ScriptedTask) -> None:
        """Add a task that was not created by a tool."""
        self._tasks[task.id] = task
        enter(self._setup, task)

    def _task(self, request: ScriptedRequest) -> ScriptedTask:
        if not declares_tasks(request.session):
            needed: JsonObject = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
            raise ErrorReply(-32021, f"{request.method} needs {TASKS_EXTENSION}", needed, status=400)
        task = self._tasks.get(request.text("taskId"))
        if task is None or task.forgotten:
            raise ErrorReply(-32602, "unknown or expired task")
        return task

    async def _get(self, request: ScriptedRequest) -> JsonObject:
        received_at = trio.current_time()
        task = self._task(request)
        late = task.lingering > 0
        task.lingering -= 1 if late else 0
        status = task.status() if late else task.look()
        if task.forgotten:
            noted(self._setup, task, "tasks/get", received_at, status="forgotten")
            raise ErrorReply(-32602, "the task has expired")
        shown = task.shown(status, modern=True)
        keys: list[JsonValue] = []
        if status == "input_required":
            # While a response has not taken effect yet, its input request is repeated.
            keys = [key for key in task.script.request_keys if late or key not in task.answered]
            client_requests = _client_requests(request.session)
            shown["inputRequests"] = {
                str(key): client_requests[index % len(client_requests)]
                for index, key in enumerate(task.script.request_keys)
                if key in keys
            }
        noted(self._setup, task, "tasks/get", received_at, status=status, interval=task.interval, keys=keys)
        return {**shown, **_outcome(task, status)}

    async def _update(self, request: ScriptedRequest) -> JsonObject:
        received_at = trio.current_time()
        task = self._task(request)
        responses = request.params.get("inputResponses")
        given = list(responses) if isinstance(responses, dict) else []
        keys: list[JsonValue] = [*given]
        task.answered.update(key for key in given if key in task.script.request_keys)
        task.lingering = 1
        noted(self._setup, task, "tasks/update", received_at, status=task.status(), keys=keys)
        return {}

    async def _cancel(self, request: ScriptedRequest) -> JsonObject:
        received_at = trio.current_time()
        task = self._task(request)
        noted(self._setup, task, "tasks/cancel", received_at, status=task.status())
        task.end("cancelled")
        return {}

    async def _listen(self, request: ScriptedRequest) -> JsonObject:
        """Grant the subscription of tasks that notify, and notify of them to their end."""
        granted = request.subscription_filter()
        ids = granted.pop("taskIds", None)
        tasks = (
            [self._tasks[id] for id in ids if isinstance(id, str) and id in self._tasks]
            if isinstance(ids, list)
            else []
        )
        notified = [task for task in tasks if task.script.notifies and declares_tasks(request.session)]
        if notified:
            granted["taskIds"] = [task.id for task in notified]
        meta: JsonObject = {SUBSCRIPTION_ID: request.message["id"]}
        await request.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": granted})
        for task in notified:
            for status in ("working", "completed"):
                noted(self._setup, task, "told", trio.current_time(), status=status)
                shown: JsonObject = {"_meta": meta, **task.shown(status, modern=True), **_outcome(task, status)}
                if status == "completed":
                    task.end("completed")
                await request.notify("notifications/tasks", shown)
                await trio.sleep(_PAUSE)
        await trio.sleep_forever()
        raise AssertionError("the subscription ends only by cancellation")


def unfit_tasks(setup: ScenarioSetup) -> None:
    """Respond to a prompt and a resource with a task, which is valid only for tool calls."""
    tasks = ExtensionTasks(setup, (TaskScript(name="task_soon"),))
    for method, id in UNFIT_TASKS.items():
        right = setup.server.handlers[method]

        async def unfit(request: ScriptedRequest, id: str = id, right: Handler = right) -> JsonObject:
            if not declares_tasks(request.session):
                return await right(request)
            sent = setup.notes.setdefault("unfit", [])
            if isinstance(sent, list):
                sent.append(request.method)
            task = ScriptedTask(script=TaskScript(name=request.method), id=id)
            tasks.add(task)
            shown = task.shown("working", modern=True)
            raise RawReply(_as_task(setup, request, shown), f"a task for {request.method}")

        setup.server.handlers[method] = unfit


def _outcome(task: ScriptedTask, status: str) -> JsonObject:
    """Return the additional members of a task that has ended."""
    if status == "completed":
        return {"result": task.outcome()}
    return {"error": _ERROR} if status == "failed" else {}


def _client_requests(session: Session) -> list[JsonObject]:
    """Return the input requests that the client supports."""
    return [
        {"method": each.method, "params": each.params}
        for each in by_name("ask_form", "ask_sample")
        if declares(session, each.needs)
    ]


def _as_task(setup: ScenarioSetup, request: ScriptedRequest, shown: JsonObject) -> bytes:
    result = setup.server.complete("tools/call", {**shown, "resultType": "task"}, request.revision)
    wrong = flaw(result, "CreateExtensionTaskResult", request.revision)
    if wrong is not None:
        raise AssertionError(f"the suite would send an invalid task: {wrong}")
    return encoded({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
