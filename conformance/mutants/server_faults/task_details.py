"""More faults of tasks, in both forms."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN, RpcError
from mutants.server_faults.lists import changed, name_of

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

_CORE: Final = LEGACY[3:]
_DECLARED: Final = f"{META}clientCapabilities"
_EXTENSION: Final = f"{META}tasks"
_RELATED: Final = f"{META}related-task"
_TASK: Final[JsonObject] = {
    "taskId": "0123456789abcdef0123456789abcdef",
    "status": "working",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttlMs": 60_000,
}
_ABOUT: Final = ("tasks/get", "tasks/update", "tasks/cancel")
_OUTCOME: Final = ("result", "error", "statusMessage")
"""The members of a task that has ended."""


def _task_of(message: JsonValue, method: str) -> str:
    """Return the task that a request of a method is about; empty for another message."""
    if not isinstance(message, dict) or message.get("method") != method:
        return ""
    params = message.get("params")
    return str(params.get("taskId")) if isinstance(params, dict) else ""


def _is(inbound: InboundRequest, *methods: str) -> bool:
    return inbound.request["method"] in methods


# --- both forms ------------------------------------------------------------------------------------------------------


@fault("task-error-hidden", "tasks.tool-error", revisions=(*_CORE, *MODERN))
class _ErrorHidden(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        inner = result.get("result")
        if _is(inbound, "tasks/get") and isinstance(inner, dict):
            return {**result, "result": {key: each for key, each in inner.items() if key != "isError"}}
        return result


@fault("task-changes-at-the-end", "tasks.stable", revisions=MODERN)
class _ChangesAtTheEnd(Fault):
    def __init__(self) -> None:
        self._seen: set[JsonValue] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if not _is(inbound, "tasks/get") or result.get("status") != "completed" or "isError" in str(result):
            return result
        again = str(result["taskId"]) in self._seen
        self._seen.add(str(result["taskId"]))
        return {**result, "result": {"content": []}} if again else result


@fault("task-id-by-time", "tasks.ids", revisions=(*_CORE, *MODERN))
class _IdByTime(Fault):
    def task_id(self, id: str, number: int) -> str:  # noqa: ARG002
        return str(uuid.uuid1(node=0x5E0000000001, clock_seq=77))


@fault("task-content-dropped", "tasks.completed", revisions=(*_CORE, *MODERN))
class _ContentDropped(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        inner = result.get("result")
        if _is(inbound, "tasks/get") and isinstance(inner, dict) and "isError" not in inner:
            return {**result, "result": {**inner, "content": []}}
        return result


@fault("task-structure-dropped", "tasks.completed", revisions=(*_CORE, *MODERN))
class _StructureDropped(Fault):
    """A server whose tool has structured content, which it omits in the result of a task."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "slow_compute" and "content" in result:
            return {**result, "structuredContent": {"seconds": 1}}
        return result


@fault("task-created-now", "tasks.timestamps", revisions=(*_CORE, *MODERN))
class _CreatedNow(Fault):
    """A server that makes the time of the creation for each response."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        return {**result, "createdAt": _now()} if "createdAt" in result else result


@fault("task-never-updated", "tasks.timestamps", revisions=(*_CORE, *MODERN))
class _NeverUpdated(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        return {**result, "lastUpdatedAt": result["createdAt"]} if "createdAt" in result else result


def _now() -> str:
    return datetime.now(UTC).isoformat()


@fault("task-id-inherited", "tasks.unknown", revisions=(*_CORE, *MODERN))
class _InheritedId(Fault):
    """A server that looks up tasks in an object of JavaScript."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.params.get("taskId") in ("constructor", "toString", "__proto__"):
            raise RpcError(-32603, "task.status is not a function")
        raise error


class _RequestCancelled(Fault):
    """A server for which the cancellation of a call that was answered cancels its task."""

    def __init__(self) -> None:
        self._tasks: dict[str, JsonValue] = {}
        self._cancelled: list[JsonValue] = []

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        created = result.get("task", result)
        if _is(inbound, "tools/call") and isinstance(created, dict) and "taskId" in created:
            self._tasks[json.dumps(inbound.request["id"])] = created["taskId"]
        if _is(inbound, "tasks/get") and result["taskId"] in self._cancelled:
            return {**{key: each for key, each in result.items() if key not in _OUTCOME}, "status": "cancelled"}
        return result

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        if message["method"] == "notifications/cancelled" and json.dumps(id) in self._tasks:
            self._cancelled.append(self._tasks[json.dumps(id)])
        return answer


fault("task-ends-with-request", "tasks.request-cancelled-late", revisions=_CORE)(_RequestCancelled)
fault(
    *("extension-task-ends-with-request", "tasks.request-cancelled-late"),
    revisions=MODERN,
    transports=("stdio",),
)(_RequestCancelled)


class _LatestCancelled(Fault):
    """A server that cancels also the task that was created last."""

    def __init__(self) -> None:
        self._latest: JsonValue = None
        self._cancelled: list[JsonValue] = []

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        created = result.get("task", result)
        if name_of(inbound) == "slow_compute" and isinstance(created, dict) and "taskId" in created:
            self._latest = created["taskId"]
        if _is(inbound, "tasks/cancel") and inbound.params["taskId"] != self._latest:
            self._cancelled.append(self._latest)
        if _is(inbound, "tasks/get") and result["taskId"] in self._cancelled:
            return {**{key: each for key, each in result.items() if key not in _OUTCOME}, "status": "cancelled"}
        return result


fault("task-cancels-latest", "tasks.cancelled", revisions=(*_CORE, *MODERN))(_LatestCancelled)


# --- 2025-11-25 ------------------------------------------------------------------------------------------------------


@fault("task-without-ttl-ignored", "tasks.create", revisions=_CORE)
class _EmptyMetadata(Fault):
    """A server that takes an empty object for no task."""

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or params.get("task") != {}:
            return message
        return {**message, "params": {key: each for key, each in params.items() if key != "task"}}


@fault("task-id-of-requestor", "tasks.create", revisions=_CORE)
class _IdOfRequestor(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        given, created = inbound.params.get("task"), result.get("task")
        if isinstance(given, dict) and isinstance(created, dict) and "taskId" in given:
            return {**result, "task": {**created, "taskId": given["taskId"]}}
        return result


def _refuse_task(name: str, *caught_by: str, method: str, declared: bool) -> None:
    """Add a fault: requests of a method with a `task` are rejected, although they cannot run as tasks."""

    class _TaskRefused(Fault):
        def capabilities(self, declared: JsonObject) -> JsonObject:
            return declared if has_tasks else {key: each for key, each in declared.items() if key != "tasks"}

        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            if _is(inbound, method) and "task" in inbound.params:
                raise RpcError(-32602, "unexpected member 'task'")
            return result

    has_tasks = declared
    fault(name, *caught_by, revisions=_CORE)(_TaskRefused)


_refuse_task("task-of-prompt-refused", "tasks.not-augmentable", method="prompts/get", declared=True)
_refuse_task("task-of-resource-refused", "tasks.not-augmentable", method="resources/read", declared=True)
_refuse_task("task-refused-undeclared", "tasks.not-augmentable", "tasks.declared", method="tools/call", declared=False)


@fault("result-never-after-cancel", "tasks.result-waits", revisions=_CORE)
class _NeverAfterCancel(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "result-of-cancelled"


@fault("task-error-unrelated", "tasks.related", revisions=_CORE)
class _ErrorUnrelated(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "tasks/result") and "isError" in result:
            return {key: each for key, each in result.items() if key != "_meta"}
        return result


@fault("task-second-input-unrelated", "tasks.input", revisions=_CORE)
class _SecondInputUnrelated(Fault):
    def __init__(self) -> None:
        self._requests: Counter[JsonValue] = Counter()

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        if not _is(inbound, "tasks/result"):
            return params
        self._requests[str(inbound.params["taskId"])] += 1
        is_first = self._requests[str(inbound.params["taskId"])] == 1
        return params if is_first else {key: each for key, each in params.items() if key != "_meta"}


@fault("task-input-of-latest", "tasks.input", revisions=_CORE)
class _InputOfLatest(Fault):
    def __init__(self) -> None:
        self._latest: JsonValue = None

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        created = result.get("task")
        if _is(inbound, "tools/call") and isinstance(created, dict):
            self._latest = created["taskId"]
        return result

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        related: JsonObject = {_RELATED: {"taskId": self._latest}}
        return {**params, "_meta": related} if _is(inbound, "tasks/result") else params


@fault("task-token-falsy", "tasks.progress-token", revisions=_CORE)
class _FalsyToken(Fault):
    def task_token(self, token: JsonValue) -> JsonValue:
        return token or None


@fault("task-list-stale", "tasks.transitions", revisions=_CORE)
class _ListStale(Fault):
    """A server that lists tasks as they were when they were created."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        tasks = result.get("tasks")
        if not _is(inbound, "tasks/list") or not isinstance(tasks, list):
            return result
        return {"tasks": [{**each, "status": "working"} for each in tasks if isinstance(each, dict)]}


@fault("task-id-as-number", "tasks.unknown", revisions=_CORE)
class _IdAsNumber(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if not isinstance(inbound.params.get("taskId", ""), str):
            raise RpcError(-32603, "'int' object has no attribute 'encode'")
        raise error


@fault("tasks-undeclared", "tasks.declared", revisions=_CORE)
class _WithoutCapability(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {key: each for key, each in declared.items() if key != "tasks"}


@fault("tasks-list-undeclared", "tasks.gated", revisions=_CORE)
class _ListUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}


@fault("list-as-task", "tasks.not-augmentable", revisions=_CORE)
class _ListAsTask(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "tools/list") and "task" in inbound.params:
            raise RpcError(-32602, "a list cannot run as a task")
        return result


@fault("result-at-once", "tasks.result-waits", revisions=_CORE)
class _ResultAtOnce(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "result-waits"


@fault("related-task-wins", "tasks.id-param-wins", revisions=_CORE)
class _RelatedWins(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        related = inbound.meta.get(_RELATED)
        if _is(inbound, "tasks/get") and isinstance(related, dict):
            return {**result, "taskId": related["taskId"]}
        return result


changed("related-task-number", "schema.related-task", "tasks.related", method="tasks/result", revisions=_CORE,
        change=lambda _, result: {**result, "_meta": {_RELATED: {"taskId": 1}}})  # fmt: skip


@fault("task-result-once", "tasks.completed", "tasks.failed", "tasks.result-waits", revisions=_CORE)
class _ResultOnce(Fault):
    def __init__(self) -> None:
        self._returned: set[str] = set()

    def reads(self, message: JsonValue) -> JsonValue:
        task = _task_of(message, "tasks/result")
        if task in self._returned and isinstance(message, dict):
            return {**message, "params": {"taskId": "deleted"}}
        if task:
            self._returned.add(task)
        return message


@fault("task-of-one-waiter", "tasks.result-waits", revisions=_CORE)
class _OneWaiter(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "several-waiters"


@fault("task-cancel-forgotten", "tasks.input-status", "tasks.transitions", revisions=_CORE)
class _CancelForgotten(Fault):
    """A task that waits for input is reported as cancelled, and goes on waiting."""

    def __init__(self) -> None:
        self._waiting: set[JsonValue] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if result.get("status") == "input_required":
            self._waiting.add(result["taskId"])
        if _is(inbound, "tasks/get") and result["taskId"] in self._waiting:
            return {**result, "status": "input_required"}
        return result


@fault("task-completed-by-late-response", "tasks.input-status", "tasks.transitions", revisions=_CORE)
class _CompletedByLateResponse(Fault):
    """A task that waits for input is cancelled, until the response of the client arrives."""

    def __init__(self) -> None:
        self._waiting: set[JsonValue] = set()
        self._cancelled: Counter[str] = Counter()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        task = str(result.get("taskId"))
        if result.get("status") == "input_required":
            self._waiting.add(task)
        if not _is(inbound, "tasks/get") or task not in self._waiting or result["status"] != "cancelled":
            return result
        self._cancelled[task] += 1
        return {**result, "status": "completed"} if self._cancelled[task] > 1 else result


@fault("cancelled-task-completed", "tasks.cancelled", "tasks.transitions")
class _CancelledCompleted(Fault):
    """A cancelled task is completed when its time has passed."""

    def __init__(self) -> None:
        self._until: dict[JsonValue, float] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        created = result.get("task", result)
        if name_of(inbound) == "slow_compute" and isinstance(created, dict) and "taskId" in created:
            self._until[created["taskId"]] = time.monotonic() + 0.2
        over = self._until.get(result.get("taskId"), math.inf) < time.monotonic()
        is_late = _is(inbound, "tasks/get") and over and result["status"] == "cancelled"
        return {**result, "status": "completed"} if is_late else result


@fault("task-cancel-undone", "tasks.progress-ends", "tasks.transitions", revisions=_CORE)
class _CancelUndone(Fault):
    """A cancelled task is completed when its time has passed."""

    def __init__(self) -> None:
        self._until: dict[JsonValue, float] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        created = result.get("task")
        if name_of(inbound) == "conformance_task_progress" and isinstance(created, dict):
            self._until[created["taskId"]] = time.monotonic() + 0.25
        over = self._until.get(result.get("taskId"), math.inf) < time.monotonic()
        return {**result, "status": "completed"} if _is(inbound, "tasks/get") and over else result


@fault("task-without-limit-without-ttl", "tasks.get-at-once", "tasks.fields", revisions=_CORE)
class _WithoutTtl(Fault):
    """A task for which the client requests no ttl has none, which is missing instead of null."""

    def __init__(self) -> None:
        self._unlimited: Final[set[JsonValue]] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        requested, created = inbound.params.get("task"), result.get("task")
        if isinstance(requested, dict) and "ttl" not in requested and isinstance(created, dict):
            self._unlimited.add(created["taskId"])
            return {"task": {**created, "ttl": None}}
        is_about = _is(inbound, "tasks/get") and result.get("taskId") in self._unlimited
        return {name: each for name, each in result.items() if name != "ttl"} if is_about else result


@fault("task-list-newest", "tasks.list", revisions=_CORE)
class _ListNewest(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        tasks = result.get("tasks")
        return {"tasks": tasks[-20:]} if _is(inbound, "tasks/list") and isinstance(tasks, list) else result


def _hide(name: str, status: str, *caught_by: str) -> None:
    """Add a fault: tasks with a status are not listed."""

    class _Hidden(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            tasks = result.get("tasks")
            if not _is(inbound, "tasks/list") or not isinstance(tasks, list):
                return result
            return {"tasks": [each for each in tasks if isinstance(each, dict) and each["status"] != status]}

    fault(name, *caught_by, revisions=_CORE)(_Hidden)


_hide("task-list-active", "cancelled", "tasks.list")
_hide("task-list-unblocked", "input_required", "tasks.input-status")


def _prefer_related(name: str, method: str) -> None:
    """Add a fault: a request about a task goes by the related task in its metadata."""

    class _RelatedFirst(Fault):
        def reads(self, message: JsonValue) -> JsonValue:
            if not isinstance(message, dict) or message.get("method") != method:
                return message
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            related = meta.get(_RELATED) if isinstance(meta, dict) else None
            return {**message, "params": related} if isinstance(related, dict) else message

    fault(name, "tasks.id-param-wins", revisions=_CORE)(_RelatedFirst)


_prefer_related("related-task-cancelled", "tasks/cancel")
_prefer_related("related-task-result", "tasks/result")


@fault("task-progress-unrelated", "tasks.progress-token", revisions=_CORE)
class _ProgressUnrelated(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "task-progress-related"


# --- of the extension ------------------------------------------------------------------------------------------------


@fault("extension-undeclared", "tasks.methods-unsupported", revisions=MODERN)
class _ExtensionUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {key: each for key, each in declared.items() if key != "extensions"}


@fault("task-by-surprise", "tasks.advertised", "jsonrpc.result-type-not-unadvertised", revisions=MODERN)
class _BySurprise(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {key: each for key, each in declared.items() if key != "extensions"}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**_TASK, "resultType": "task"} if name_of(inbound) == "test_trigger_prompt_change" else result

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if str(inbound.request["method"]).startswith("tasks/"):
            raise RpcError(-32601, "unknown method", status=404)
        raise error


@fault("task-for-anybody", "jsonrpc.result-type-not-unadvertised", "tasks.fallback", revisions=MODERN)
class _WithoutExtension(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "slow_compute" and not inbound.declares("extensions", _EXTENSION):
            return {**_TASK, "resultType": "task"}
        return result


@fault("fallback-refused", "tasks.fallback", revisions=MODERN)
class _FallbackRefused(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "slow_compute" and not inbound.declares("extensions", _EXTENSION) and inbound.modern:
            raise RpcError(-32602, "only as a task")
        return result


@fault("task-param-refused", "tasks.param-ignored", revisions=MODERN)
class _ParamRefused(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.modern and "task" in inbound.params:
            raise RpcError(-32602, "unknown param task")
        return result


@fault("task-got-as-task", "tasks.only-of-calls", revisions=MODERN)
class _GotAsTask(Fault):
    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "resultType": "task"} if _is(inbound, "tasks/get") else result


@fault("task-key-renamed", "tasks.inputs", revisions=MODERN)
class _KeyRenamed(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        requests = result.get("inputRequests")
        if _is(inbound, "tasks/get") and isinstance(requests, dict) and set(requests) == {"name"}:
            return {**result, "inputRequests": {"again": requests["name"]}}
        return result


@fault("task-key-reused", "tasks.inputs", revisions=MODERN)
class _KeyReused(Fault):
    """The requests of a task are sent one after the other, with the same key."""

    _KEY: str | None = "input"

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        requests = result.get("inputRequests")
        if not _is(inbound, "tasks/get") or not isinstance(requests, dict):
            return result
        first = min(requests)
        self._first[str(result["taskId"])] = first
        return {**result, "inputRequests": {self._KEY or first: requests[first]}}

    def reads(self, message: JsonValue) -> JsonValue:
        first = self._first.get(_task_of(message, "tasks/update"))
        if first is None or self._KEY is None:
            return message
        read: JsonValue = json.loads(json.dumps(message).replace(f'"{self._KEY}": ', f'"{first}": '))
        return read


@fault("task-inputs-once", "tasks.inputs", "tasks.unknown-keys", revisions=MODERN)
class _InputsOnce(Fault):
    """Each request of a task is in one response."""

    def __init__(self) -> None:
        self._sent: Final[set[tuple[str, str]]] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        requests, task = result.get("inputRequests"), str(result.get("taskId"))
        if not _is(inbound, "tasks/get") or not isinstance(requests, dict):
            return result
        new: JsonObject = {key: each for key, each in requests.items() if (task, key) not in self._sent}
        self._sent.update((task, key) for key in new)
        return {**result, "inputRequests": new}


@fault("task-inputs-in-turn", revisions=MODERN)
class _InTurn(_KeyReused):
    """The requests of a task are sent one after the other, each with its own key."""

    _KEY = None


@fault("task-expired-served", "tasks.unknown", revisions=_CORE)
class _ExpiredServed(Fault):
    """A server that looks at the expiry of a task only in `tasks/get`."""

    def finds_expired(self, inbound: InboundRequest) -> bool:
        return not _is(inbound, "tasks/get")


@fault("task-answered-key-stays", "tasks.inputs", revisions=MODERN)
class _AnsweredKeyStays(Fault):
    """A task lists all its input requests until the last one has a response."""

    def __init__(self) -> None:
        self._first: dict[str, JsonValue] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if not _is(inbound, "tasks/get") or "inputRequests" not in result:
            return result
        return {**result, "inputRequests": self._first.setdefault(str(result["taskId"]), result["inputRequests"])}


@fault("task-key-again", "tasks.inputs", revisions=MODERN)
class _KeyAgain(Fault):
    """After all responses, a task sends another request with a key that had a response."""

    def __init__(self) -> None:
        self._answered: set[str] = set()

    def reads(self, message: JsonValue) -> JsonValue:
        if '"name": {"action"' in json.dumps(message):
            self._answered.add(_task_of(message, "tasks/update"))
        return message

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        task = str(result.get("taskId"))
        if _is(inbound, "tasks/get") and result.get("status") == "completed" and task in self._answered:
            form: JsonObject = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}}
            requests: JsonObject = {"confirm": {"method": "elicitation/create", "params": form}}
            kept = {key: each for key, each in result.items() if key != "result"}
            return {**kept, "status": "input_required", "inputRequests": requests}
        return result


@fault(
    "task-cancelled-ended",
    "tasks.completed",
    "tasks.failed",
    "tasks.cancel-ended",
    "tasks.transitions",
    revisions=MODERN,
)
class _CancelledEnded(Fault):
    """A task that has ended becomes cancelled."""

    def __init__(self) -> None:
        self._cancelled: set[str] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "tasks/cancel"):
            self._cancelled.add(str(inbound.params["taskId"]))
        if _is(inbound, "tasks/get") and str(result["taskId"]) in self._cancelled:
            return {**{key: each for key, each in result.items() if key not in _OUTCOME}, "status": "cancelled"}
        return result


@fault("task-resumed", "tasks.input-required", "tasks.transitions", revisions=MODERN)
class _ResumedTask(Fault):
    """A response to a task that has ended makes it continue."""

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._continued: set[str] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        task = str(inbound.params.get("taskId"))
        if _is(inbound, "tasks/update") and task in self._ended:
            self._continued.add(task)
        if task in self._continued and _is(inbound, "tasks/get"):
            return {**{key: each for key, each in result.items() if key not in _OUTCOME}, "status": "working"}
        if result.get("status") == "completed":
            self._ended.add(task)
        return result


@fault("late-input-refused", "tasks.unknown-keys", revisions=MODERN)
class _LateInputRefused(Fault):
    """A server that rejects a response to a task that has ended."""

    def __init__(self) -> None:
        self._ended: set[str] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        task = str(inbound.params.get("taskId"))
        if _is(inbound, "tasks/get") and result.get("status") in ("completed", "failed"):
            self._ended.add(task)
        if _is(inbound, "tasks/update") and task in self._ended:
            raise RpcError(-32602, "the task has ended")
        return result


@fault("answered-input-refused", "tasks.unknown-keys", revisions=MODERN)
class _AnsweredRefused(Fault):
    """A server that rejects a second response to the same input request."""

    def __init__(self) -> None:
        self._answered: set[tuple[str, str]] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        given = inbound.params.get("inputResponses")
        if _is(inbound, "tasks/update") and isinstance(given, dict):
            found = {(str(inbound.params.get("taskId")), key) for key in given}
            if found & self._answered:
                raise RpcError(-32602, "the input request has a response")
            self._answered |= found
        return result


@fault("waiting-task-not-cancelled", "tasks.cancelled", revisions=MODERN)
class _WaitingNotCancelled(Fault):
    """A task that waits for input is not cancelled."""

    def __init__(self) -> None:
        self._waiting: dict[str, JsonObject] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        task = str(inbound.params.get("taskId"))
        if result.get("status") == "input_required":
            self._waiting[task] = result
        if _is(inbound, "tasks/get") and result.get("status") == "cancelled":
            return self._waiting.get(task, result)
        return result


@fault("late-input-continues", "tasks.cancelled", "tasks.transitions", revisions=MODERN)
class _LateInput(Fault):
    """A response to a task that was cancelled while it waited makes it continue."""

    def __init__(self) -> None:
        self._continued: set[str] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        task = str(inbound.params.get("taskId"))
        if _is(inbound, "tasks/update"):
            self._continued.add(task)
        is_again = _is(inbound, "tasks/get") and result.get("status") == "cancelled" and task in self._continued
        return {**result, "status": "working"} if is_again else result


@fault("task-param-opts-in", "tasks.param-ignored", revisions=MODERN)
class _ParamOptsIn(Fault):
    """A server that creates a task as in 2025-11-25."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.modern and "task" in inbound.params and name_of(inbound) == "slow_compute":
            return {"task": {**_TASK}}
        return result


def _unnamed(name: str, check: str, *methods: str) -> None:
    """Add a fault: the error for a client without the extension does not name it."""

    class _UnnamedExtension(Fault):
        def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
            if error.code == -32021 and _is(inbound, *methods):
                raise RpcError(-32021, str(error), {"requiredCapabilities": {}}, error.status)
            raise error

    fault(name, check, revisions=MODERN)(_UnnamedExtension)


_unnamed("extension-unnamed", "tasks.methods-undeclared", *_ABOUT)
_unnamed("extension-unnamed-of-subscription", "tasks.listen-undeclared", "subscriptions/listen")


@fault("task-progress-of-extension", "tasks.listen", revisions=MODERN, transports=("stdio",))
class _ProgressOfExtension(Fault):
    """A server whose tasks report progress, as in 2025-11-25."""

    def keeps(self, rule: str) -> bool:
        return rule != "task-without-progress"


@fault("second-task-unheard", "tasks.listen", revisions=MODERN)
class _SecondUnheard(Fault):
    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:  # noqa: ARG002
        tasks = granted.get("taskIds")
        return {**granted, "taskIds": tasks[:1]} if isinstance(tasks, list) else granted


@fault("task-status-untagged", "tasks.listen", revisions=MODERN)
class _StatusUntagged(Fault):
    """A server that sends the status of a task on the stream of the request for it."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "tasks/get") and result.get("status") == "completed":
            inbound.notify("notifications/tasks", {key: each for key, each in result.items() if key != "_meta"})
        return result


@fault(
    *("task-heard-without-its-result", "tasks.listen", "schema.server-messages"),
    revisions=MODERN,
    transports=("stdio",),
)
class _HeardWithoutResult(Fault):
    """A server that notifies of a completed task without its result."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "tasks/get") and result.get("status") == "completed":
            inbound.server.listeners.notify_of_task(
                str(result["taskId"]), {key: each for key, each in result.items() if key != "result"}
            )
        return result


@fault("task-name-unheeded-by-others", "tasks.mcp-name", revisions=MODERN, transports=("http",))
class _NameUnheededByOthers(Fault):
    """A server that compares Mcp-Name only in `tasks/get`."""

    def flaw(self, kept: JsonObject, message: JsonObject, flaw: str | None) -> str | None:  # noqa: ARG002
        return None if message["method"] in ("tasks/update", "tasks/cancel") else flaw


@fault("task-name-unheeded", "tasks.mcp-name", revisions=MODERN, transports=("http",))
class _NameUnheeded(Fault):
    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:  # noqa: ARG002
        return same or (name == "Mcp-Name" and text == "another")


@fault("anybody-hears-tasks", "tasks.listen-undeclared", revisions=MODERN)
class _ListenWithoutExtension(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _is(inbound, "subscriptions/listen") and error.code == -32021:
            return {}
        raise error


@fault("tasks-unheard", "tasks.listen", revisions=MODERN)
class _Unheard(Fault):
    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:  # noqa: ARG002
        return {key: each for key, each in granted.items() if key != "taskIds"}


@fault("extension-in-legacy", "tasks.beside-legacy", revisions=MODERN)
class _InLegacy(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        plain = "task" not in inbound.params and name_of(inbound) == "slow_compute"
        if not inbound.modern and plain and inbound.declares("extensions", _EXTENSION):
            return {**_TASK}
        return result


@fault(
    "task-for-empty-extensions",
    "tasks.fallback",
    "jsonrpc.result-type-not-unadvertised",
    revisions=MODERN,
)
class _ForEmptyExtensions(Fault):
    """A server that takes the member `extensions` for the declaration of its extension."""

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        meta = params.get("_meta") if isinstance(params, dict) else None
        declared = meta.get(_DECLARED) if isinstance(meta, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(meta, dict):
            return message
        if message["method"] != "tools/call" or not isinstance(declared, dict) or declared.get("extensions") != {}:
            return message
        tasks: JsonObject = {**declared, "extensions": {_EXTENSION: {}}}
        return {**message, "params": {**params, "_meta": {**meta, _DECLARED: tasks}}}
