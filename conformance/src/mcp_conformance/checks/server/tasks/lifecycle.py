"""The life cycle of tasks in both forms: creation, status, result and cancellation."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.near_misses import INHERITED, near_misses
from mcp_conformance.checks.probes.recorded_values import RecordedMessages, items, member
from mcp_conformance.checks.probes.schema_check import VALID, conforms, look, one_of
from mcp_conformance.checks.probes.task_calls import (
    ENDED,
    ask,
    begin,
    cancellable,
    extended,
    id_of,
    require_status,
    until,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.unguessable_ids import flaw_of_ids
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_SOON: Final[JsonObject] = {"seconds": 0.2, "label": "soon"}
_LATER: Final[JsonObject] = {"seconds": 2.0, "label": "later"}
_LONG: Final[JsonObject] = {"seconds": 60, "label": "long"}
_SHORT: Final[JsonObject] = {"seconds": 0.01, "label": "short"}
_BRIEF: Final[JsonObject] = {"seconds": 0.1, "label": "brief"}
_ACCEPTED: Final[JsonObject] = {"action": "accept", "content": {"confirm": True}}
_OWN: Final = "conformance-id-of-the-client"
_METADATA: Final[tuple[tuple[JsonObject, str], ...]] = (
    ({}, ""),
    ({"ttl": 60_000, "taskId": _OWN}, "a member of the task that the schema does not define"),
)
"""The `task` of calls, and the rule that it breaks on purpose."""
_MEASURABLE: Final = 0.1
"""Seconds."""
_UNKNOWN: Final = "conformance-no-such-task"
_INVALID: Final[tuple[JsonValue, ...]] = (7, None, [])
_FROM: Final = {
    "working": ("working", "input_required", *ENDED),
    "input_required": ("input_required", "working", *ENDED),
}


def _shown(recorded: RecordedMessages) -> Iterator[JsonObject]:
    """Yield all tasks in messages of the server, in both forms."""
    for value in recorded.tasks():
        if isinstance(value, dict):
            yield value
    for each in recorded.exchanges:
        if isinstance(each.result, dict) and each.result.get("resultType") == "task":
            yield each.result
    for value in recorded.notified("notifications/tasks"):
        if isinstance(value, dict):
            yield value


# --- creation
# -----------------------------------------------------------------------------------------------------------


@check(
    "tasks.create",
    proves=("tasks.create-result", "tasks.create-result-soon", "tasks.result-type-task", "tasks.id-by-receiver"),
    subject=CheckScope.RECOVERING,
)
async def create(server: ServerUnderTest) -> None:
    """A call that creates a task returns it immediately, without the result of the call."""
    created = await begin(server, "slow_compute", _LONG)
    task = id_of(server, created)
    for name in ("content", "structuredContent", "isError"):
        if name in created.result():
            raise Deviation("a task without the result of the call", str(created))
    await ask(server, "tasks/cancel", {"taskId": task})
    if server.revision.era is Era.LEGACY:
        await _create_otherwise(server)


async def _create_otherwise(server: ServerUnderTest) -> None:
    """Require a task also without a ttl, and an id of the server although the client names one, as in a draft of tasks."""
    name, arguments = server.tool("slow_compute", _SHORT)
    for metadata, deviant in _METADATA:
        params: JsonObject = {"name": name, "arguments": arguments, "task": dict(metadata)}
        created = await ask(server, "tools/call", params, deviant=deviant)
        # A server may reject a member that the schema does not define.
        if not (deviant and created.is_error) and id_of(server, created) == _OWN:
            raise Deviation("a taskId that the server makes", str(created))


@check(
    "tasks.get-at-once",
    proves=("tasks.durable-before-create", "tasks.get-working", "tasks.ttl-in-get"),
    subject=CheckScope.RECOVERING,
)
async def get_at_once(server: ServerUnderTest) -> None:
    """`tasks/get` returns a task as soon as it is created, with the status working and its ttl, also if none was requested."""
    task = id_of(server, await begin(server, "slow_compute", _LONG))
    answer = await ask(server, "tasks/get", {"taskId": task})
    if answer.member("status", str) != "working":
        raise Deviation("the status working", str(answer))
    _require_ttl(server, answer)
    await ask(server, "tasks/cancel", {"taskId": task})
    if server.revision.era is Era.LEGACY:
        name, arguments = server.tool("slow_compute", _SHORT)
        created = await ask(server, "tools/call", {"name": name, "arguments": arguments, "task": {}})
        other = member(created.message, "result", "task", "taskId")
        # Another check requires that such a call creates a task.
        if isinstance(other, str):
            _require_ttl(server, await ask(server, "tasks/get", {"taskId": other}))


def _require_ttl(server: ServerUnderTest, answer: JsonRpcResponse) -> None:
    """Require the ttl of a task in a result of `tasks/get`: an integer or null."""
    ttl = "ttlMs" if server.revision.era is Era.MODERN else "ttl"
    value = answer.result().get(ttl, "absent")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise Deviation(f"{ttl} to be an integer or null", str(answer))


def _started(recorded: RecordedMessages) -> Iterator[JsonValue]:
    return (
        member(each.result, "task", "status")
        for each in recorded.exchanges
        if isinstance(member(each.result, "task"), dict) and isinstance(member(each.request, "params", "task"), dict)
    )


look(
    "tasks.starts-working",
    "A new task has the status working.",
    "tasks.starts-working",
    at=_started,
    by=one_of("working"),
    what="new task",
)

# --- task objects
# -------------------------------------------------------------------------------------------------------


def _fields(value: JsonValue, revision: Revision) -> str | None:
    modern = revision.era is Era.MODERN
    shown = {
        name: each
        for name, each in (value.items() if isinstance(value, dict) else ())
        if name not in ("status", "createdAt", "lastUpdatedAt", "_meta", "inputRequests", "result", "error")
    }
    whole: JsonObject = {
        **shown,
        "status": "working",
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z",
    }
    return conforms("ExtensionTask" if modern else "Task")(whole, revision)


look(
    "tasks.fields",
    "A task has a taskId, a ttl that is an integer or null, and optionally a poll interval.",
    "schema.task",
    "schema.create-task-result",
    "schema.task-results-flat",
    "schema.list-tasks-result",
    "schema.task-status-params",
    "tasks.id-string",
    "tasks.task-fields",
    VALID,
    at=_shown,
    by=_fields,
    what="task",
)


@check(
    "tasks.timestamps",
    proves=("tasks.created-at", "tasks.last-updated-at", "tasks.task-fields"),
    subject=CheckScope.EVIDENCE,
)
async def timestamps(server: ServerUnderTest) -> None:
    """A task has createdAt, which stays the same, and lastUpdatedAt, which changes with its status, as ISO 8601 timestamps."""
    recorded = RecordedMessages(server.evidence)
    shown = list(_shown(recorded))
    if not shown:
        raise NotApplicable("the server sent no task")
    for each in shown:
        for name in ("createdAt", "lastUpdatedAt"):
            value = each.get(name)
            if not isinstance(value, str) or not _STAMP.fullmatch(value):
                raise Deviation(f"{name} of a task to be an ISO 8601 timestamp", brief(each))
    first: dict[str, JsonObject] = {}
    for task, now in _polled(recorded):
        before = first.setdefault(task, now)
        if now.get("createdAt") != before.get("createdAt"):
            raise Deviation(f"the createdAt {brief(before.get('createdAt'))} as before", brief(now))
    for task in _slow(recorded) & first.keys():
        before = first[task]
        done = next(
            (each for id, each in _polled(recorded) if id == task and each.get("status") == "completed"), before
        )
        if (before.get("status"), done.get("status")) != ("working", "completed") or not _has_milliseconds(done):
            continue
        if before.get("lastUpdatedAt") == done.get("lastUpdatedAt"):
            raise Deviation("another lastUpdatedAt than while the task was working", brief(done))


def _polled(recorded: RecordedMessages) -> Iterator[tuple[str, JsonObject]]:
    """Yield the results of `tasks/get`, each with the task that was requested."""
    for each in recorded.exchanges:
        if each.method == "tasks/get" and isinstance(each.result, dict):
            yield str(member(each.request, "params", "taskId")), each.result


def _slow(recorded: RecordedMessages) -> set[str]:
    """Return the tasks that take so long that the times of their start and end differ."""
    found: set[str] = set()
    for each in recorded.exchanges:
        seconds = member(each.request, "params", "arguments", "seconds")
        if isinstance(seconds, int | float) and seconds >= _MEASURABLE:
            found |= {str(member(each.result, "taskId")), str(member(each.result, "task", "taskId"))}
    return found


def _has_milliseconds(shown: JsonObject) -> bool:
    """Return whether the time of the last update has milliseconds. Seconds alone may be equal after an update."""
    found = _STAMP.fullmatch(str(shown.get("lastUpdatedAt")))
    return found is not None and len(found[1] or "") > len(".00") and found[1].strip(".0") != ""


look(
    "tasks.status",
    "The status of a task is working, input_required, completed, failed or cancelled.",
    "schema.task-status",
    "tasks.status-values",
    at=lambda recorded: (each.get("status") for each in _shown(recorded)),
    by=one_of("working", "input_required", *ENDED),
    what="status",
)


@check(
    "tasks.transitions",
    proves=(
        "tasks.valid-transitions",
        "tasks.terminal-is-final",
        "tasks.cancelled-stays",
        "tasks.status-transitions",
    ),
    subject=CheckScope.EVIDENCE,
)
async def transitions(server: ServerUnderTest) -> None:
    """The status of a task follows the defined transitions, and a terminal status is final, also in a list."""
    has_tasks = False
    for transcript in server.evidence:
        status: dict[str, str] = {}
        recorded = RecordedMessages([transcript])
        for each in recorded.exchanges:
            # The modern result of `tasks/cancel` is an acknowledgment without a task.
            alone = each.method in ("tasks/get", "tasks/cancel") and member(each.result, "taskId") is not None
            listed = items(member(each.result, "tasks")) if each.method == "tasks/list" else []
            for shown in [each.result] if alone else listed:
                task, new = str(member(shown, "taskId")), str(member(shown, "status"))
                old = status.get(task, "working")
                if new not in _FROM.get(old, (old,)):
                    raise Deviation(f"no transition from {old} to {new} of the task {task}", brief(each.response))
                status[task] = new
                has_tasks = True
    if not has_tasks:
        raise NotApplicable("the server had no tasks")


@check(
    "tasks.ids", proves=("tasks.id-unique", "tasks.id-entropy", "tasks.id-unguessable"), subject=CheckScope.RECOVERING
)
async def ids(server: ServerUnderTest) -> None:
    """Task ids are long and unique, and cannot be derived from one another."""
    found = [id_of(server, await begin(server, "slow_compute", _LONG)) for _ in range(4)]
    for task in found:
        await ask(server, "tasks/cancel", {"taskId": task})
    wrong = flaw_of_ids(found)
    if wrong is not None:
        raise Deviation("ids that cannot be guessed", f"{wrong}: {brief(list(found))}")


# --- the end
# ------------------------------------------------------------------------------------------------------------


async def _outcome(server: ServerUnderTest, task: str) -> JsonObject:
    """Return the message with the outcome of a task: a response in the legacy form, a task in the modern one."""
    if server.revision.era is Era.LEGACY:
        return (await ask(server, "tasks/result", {"taskId": task})).message
    return await until(server, task, *ENDED)


def _parts(result: JsonValue) -> tuple[list[JsonValue], bool]:
    """Return the kinds of the content of a tool result, and whether it has structured content."""
    kinds = [member(each, "type") for each in items(member(result, "content"))]
    return kinds, member(result, "structuredContent") is not None


async def _require_final(server: ServerUnderTest, task: str, status: str, outcome: JsonObject, *names: str) -> None:
    """Require that a task keeps its terminal status and a member of its outcome, also if a client cancels it."""
    if cancellable(server):
        # Another check judges the response.
        await ask(server, "tasks/cancel", {"taskId": task})
        await require_status(server, task, status)
    again = await _outcome(server, task) if server.revision.era is Era.LEGACY else outcome
    if member(again, *names) != member(outcome, *names):
        raise Deviation(f"the same outcome as before: {brief(outcome)}", brief(again))


@check(
    "tasks.completed",
    proves=(
        "tasks.result-terminal",
        "tasks.result-success-same",
        "tasks.get-completed",
        "tasks.completed-result-field",
        "tasks.terminal-is-final",
        "tasks.status-transitions",
    ),
    subject=CheckScope.RECOVERING,
)
async def completed(server: ServerUnderTest) -> None:
    """A successful task has the status completed and the result of the call, also when it is requested again."""
    task = id_of(server, await begin(server, "slow_compute", _SOON))
    await until(server, task, "completed")
    outcome = await _outcome(server, task)
    if not isinstance(member(outcome, "result", "content"), list):
        raise Deviation("a result with content", brief(outcome))
    ordinary = (await server.call("slow_compute", _SHORT)).message.get("result")
    # A server may require a task for this tool. The text may name the time.
    if isinstance(member(ordinary, "content"), list) and _parts(ordinary) != _parts(outcome["result"]):
        raise Deviation(f"the same parts as in a call without a task: {brief(ordinary)}", brief(outcome))
    await _require_final(server, task, "completed", outcome, "result", "content")


@check(
    "tasks.tool-error",
    proves=("tasks.result-success-same", "tasks.tool-error-completed", "tasks.failed-only-jsonrpc"),
    subject=CheckScope.RECOVERING,
)
async def tool_error(server: ServerUnderTest) -> None:
    """A tool error gives a result with isError, and in the modern form a task with the status completed."""
    task = id_of(server, await begin(server, "failing_job"))
    shown = await until(server, task, *ENDED)
    outcome = await _outcome(server, task)
    if member(outcome, "result", "isError") is not True:
        raise Deviation("a result with isError true", brief(outcome))
    if server.revision.era is Era.MODERN and shown.get("status") != "completed":
        raise Deviation("the status completed", brief(shown))


@check("tasks.tool-error-failed", proves=("tasks.failed-on-tool-error",), subject=CheckScope.RECOVERING)
async def tool_error_failed(server: ServerUnderTest) -> None:
    """A task of 2025-11-25 with a tool error has the status failed."""
    await until(server, id_of(server, await begin(server, "failing_job")), "failed")


@check(
    "tasks.failed",
    proves=(
        "tasks.failed-on-error",
        "tasks.result-error-same",
        "tasks.get-failed",
        "tasks.failed-error-field",
        "tasks.result-terminal",
        "tasks.terminal-is-final",
        "tasks.status-transitions",
    ),
    subject=CheckScope.RECOVERING,
)
async def failed(server: ServerUnderTest) -> None:
    """A task that ends with a JSON-RPC error has the status failed and the error, also when it is requested again."""
    task = id_of(server, await begin(server, "protocol_error_job"))
    await until(server, task, "failed")
    outcome = await _outcome(server, task)
    code, message = member(outcome, "error", "code"), member(outcome, "error", "message")
    if not isinstance(code, int) or not isinstance(message, str):
        raise Deviation("an error with a code and a message", brief(outcome))
    await _require_final(server, task, "failed", outcome, "error", "code")
    if server.revision.era is Era.LEGACY and _may_run_without_task(server, "protocol_error_job"):
        ordinary = member((await server.call("protocol_error_job")).message, "error", "code")
        if ordinary is not None and ordinary != code:
            raise Deviation(f"the error {ordinary} of the call without a task", brief(outcome))


def _may_run_without_task(server: ServerUnderTest, fixture: str) -> bool:
    name, _ = server.tool(fixture)
    return member(server.inventory.find("tools", name) or {}, "execution", "taskSupport") != "required"


@check(
    "tasks.failed-message",
    proves=("tasks.failed-status-message", "tasks.failed-diagnostic-message"),
    subject=CheckScope.RECOVERING,
)
async def failed_message(server: ServerUnderTest) -> None:
    """A failed task has a statusMessage with the reason."""
    task = id_of(server, await begin(server, "protocol_error_job"))
    shown = await until(server, task, "failed")
    if not isinstance(shown.get("statusMessage"), str) or not shown["statusMessage"]:
        raise Deviation("a statusMessage", brief(shown))


@check(
    "tasks.stable",
    proves=("tasks.get-terminal-stable", "tasks.ttl-not-early", "tasks.terminal-is-final"),
    subject=CheckScope.RECOVERING,
)
async def stable(server: ServerUnderTest) -> None:
    """A task that has ended remains available and unchanged."""
    task = id_of(server, await begin(server, "slow_compute", _SOON))
    first = await until(server, task, "completed")
    second = (await ask(server, "tasks/get", {"taskId": task})).result()
    if first.get("status") != second.get("status") or first.get("result") != second.get("result"):
        raise Deviation(f"the same as before: {brief(first)}", brief(second))


# --- cancellation, and unknown tasks
# ------------------------------------------------------------------------------------


@check(
    "tasks.cancelled",
    proves=(
        "tasks.cancel-status-before-response",
        "tasks.cancel-stops",
        "tasks.get-cancelled",
        "tasks.cancel-ack",
        "tasks.cancel-result-type",
        "tasks.cancelled-stays",
    ),
    subject=CheckScope.RECOVERING,
)
async def cancelled(server: ServerUnderTest) -> None:
    """A cancelled task has the status cancelled, permanently: in the response (legacy form), and in `tasks/get`."""
    task = id_of(server, await begin(server, "slow_compute", _LONG))
    answer = await ask(server, "tasks/cancel", {"taskId": task})
    if server.revision.era is Era.LEGACY:
        if answer.member("status", str) != "cancelled":
            raise Deviation("the status cancelled", str(answer))
        await require_status(server, task, "cancelled")
    else:
        _acknowledged(answer.result())
        await until(server, task, "cancelled")
        with suppress(NotTestable):  # a server without this tool has other tasks
            await _cancel_waiting(server)
    await _stays_cancelled(server)


async def _cancel_waiting(server: ServerUnderTest) -> None:
    """Require that a task is cancelled while it waits for the client, and that late input responses do not continue it."""
    task = id_of(server, await begin(server, "confirm_delete", {"filename": "none.txt"}))
    waiting = await until(server, task, "input_required")
    _acknowledged((await ask(server, "tasks/cancel", {"taskId": task})).result())
    await until(server, task, "cancelled")
    open_requests = waiting.get("inputRequests")
    responses: JsonObject = dict.fromkeys(open_requests if isinstance(open_requests, dict) else (), _ACCEPTED)
    await ask(server, "tasks/update", {"taskId": task, "inputResponses": responses})
    await require_status(server, task, "cancelled")


async def _stays_cancelled(server: ServerUnderTest) -> None:
    """Require that a task is still cancelled when it would have been completed, and that another one is completed."""
    task = id_of(server, await begin(server, "slow_compute", _SOON))
    later = id_of(server, await begin(server, "slow_compute", _SOON))
    await ask(server, "tasks/cancel", {"taskId": task})
    status = (await ask(server, "tasks/get", {"taskId": task})).message
    await until(server, later, "completed")
    # It may have been completed before the cancellation.
    if member(status, "result", "status") == "cancelled":
        await require_status(server, task, "cancelled")


@check(
    "tasks.request-cancelled-late",
    proves=("cancellation.invalid-ignored", "cancellation.unknown-id-ignored"),
    revisions=("2025-11-25", "2026-07-28"),
    subject=CheckScope.RECOVERING,
)
async def request_cancelled_late(server: ServerUnderTest) -> None:
    """A notifications/cancelled for a call that was answered with a task is ignored: the task is completed."""
    extended(server)
    if server.revision.era is Era.MODERN and server.transport is Transport.HTTP:
        raise NotApplicable("a client sends no notifications/cancelled over this transport")
    created = await begin(server, "slow_compute", _BRIEF)
    await server.peer.notify("notifications/cancelled", {"requestId": created.message["id"]})
    await until(server, id_of(server, created), "completed")


def _acknowledged(result: JsonObject) -> None:
    if result.get("resultType") != "complete":
        raise Deviation("the resultType complete", brief(result))
    for name in ("taskId", "status", "result", "error", "inputRequests"):
        if name in result:
            raise Deviation("an acknowledgment without members of the task", brief(result))


@check(
    "tasks.cancel-ended",
    proves=("tasks.cancel-terminal-error", "tasks.cancel-terminal-ack"),
    subject=CheckScope.RECOVERING,
)
async def cancel_ended(server: ServerUnderTest) -> None:
    """Cancelling a task that has ended is rejected with -32602 (legacy form), or has no effect (modern form).

    Also while another task is in progress.
    """
    task = id_of(server, await begin(server, "slow_compute", _SOON))
    await until(server, task, "completed")
    await _require_no_cancellation(server, task)
    with suppress(NotTestable):
        # It begins after the end of the other one: a server may run one task at a time.
        other = id_of(server, await begin(server, "slow_compute", _LONG))
        await _require_no_cancellation(server, task)
        await ask(server, "tasks/cancel", {"taskId": other})


async def _require_no_cancellation(server: ServerUnderTest, task: str) -> None:
    """Cancel a task that is completed, and require the response of the form, and that it stays completed."""
    answer = await ask(server, "tasks/cancel", {"taskId": task})
    if server.revision.era is Era.LEGACY:
        answer.error(-32602, what="tasks/cancel of a task that has ended")
        await require_status(server, task, "completed")
        return
    _acknowledged(answer.result())
    await until(server, task, "completed")


@check(
    "tasks.unknown",
    proves=(
        "tasks.unknown-task-error",
        "tasks.get-unknown-32602",
        "tasks.cancel-unknown-task",
        "tasks.update-unknown-task",
    ),
)
async def unknown(server: ServerUnderTest) -> None:
    """Each request for an unknown task is answered with -32602, also if its id is invalid, or almost that of another one.

    A task that has expired for `tasks/get` has expired for the others, too.
    """
    extended(server)
    ids = [_UNKNOWN, *INHERITED]
    expiring = None
    if server.revision.era is Era.LEGACY:
        with suppress(NotTestable):
            expiring = await _begin_expiring(server)
    with suppress(NotTestable):
        # It must not end before its cancellation, which the task of a correct server does not get.
        ids += near_misses(id_of(server, await begin(server, "slow_compute", _LATER)))
    if server.revision.era is Era.LEGACY:
        methods = ["tasks/get", *(["tasks/cancel"] if server.inventory.has("tasks.cancel") else []), "tasks/result"]
    else:
        methods = ["tasks/get", "tasks/cancel", "tasks/update"]
    for method in methods:
        more: JsonObject = {"inputResponses": {}} if method == "tasks/update" else {}
        for id in ids:
            answer = await ask(server, method, {"taskId": id, **more})
            answer.error(-32602, what=f"{method} of the unknown task {brief(id)}")
        for invalid in _INVALID if server.revision.era is Era.LEGACY else ():
            answer = await ask(server, method, {"taskId": invalid}, deviant="a taskId that is no string")
            answer.error(-32602, what=f"{method} with the taskId {brief(invalid)}")
    # A server may choose a longer ttl, and may remove a task later than it expires.
    if expiring is not None and (await ask(server, "tasks/get", {"taskId": expiring})).is_error:
        for method in methods:
            answer = await ask(server, method, {"taskId": expiring})
            answer.error(-32602, what=f"{method} of a task that has expired")


async def _begin_expiring(server: ServerUnderTest) -> str:
    """Start a short task that lives for a millisecond, if the server permits it, and return its id."""
    name, arguments = server.tool("slow_compute", _SHORT)
    created = await ask(server, "tools/call", {"name": name, "arguments": arguments, "task": {"ttl": 1}})
    if created.is_error:
        raise NotTestable("the server rejects a ttl of a millisecond")
    return id_of(server, created)
