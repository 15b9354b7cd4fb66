"""Clients that answer later: when they begin tasks that a server asks for, and what they say of them (2025-11-25).

Spec: basic/utilities/tasks (2025-11-25)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.tasks.client_task_records import ASKS, asked_run, each_kind, member, steps
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.unguessable_ids import flaw_of_ids
from mcp_conformance.scenarios.client_tasks import (
    ENORMOUS,
    KINDS,
    MANY,
    PLAIN_PING,
    TOKEN,
    UNANSWERED,
    task_id,
)
from mcp_conformance.scenarios.task_script import ENDED
from mcp_core.types.meta import PROGRESS_TOKEN, RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_UNANSWERED: Final = "conformance_asks_tasks_unanswered"
_UNDECLARED: Final = "conformance_asks_tasks_undeclared"
_NEEDS: Final = (f"scenario:{ASKS}",)
_STATUS: Final = "notifications/tasks/status"
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_STATUSES: Final = ("working", "input_required", *ENDED)
_FROM: Final = {"working": _STATUSES, "input_required": _STATUSES}
_FLAT: Final = ("tasks/get", "tasks/cancel")


# --- beginning ---------------------------------------------------------------------------------------------------------


@check(
    "tasks.client-create",
    proves=("tasks.create-result", "tasks.id-by-receiver", "schema.create-task-result"),
    needs=_NEEDS,
)
async def create(client: ClientUnderTest) -> None:
    """What is asked for as a task is answered by a task, and not by the result."""
    for kind, response in each_kind(client, "create"):
        if "error" in response:
            raise NotTestable(f"the client does not accept it: {brief(response)}")
        if task_id(response) is None or flaw(response["result"], kind, client.revision) is None:
            raise Deviation("result.task with a taskId, and no other result", brief(response))


@check("tasks.client-create-soon", proves=("tasks.create-result-soon",), needs=(f"scenario:{_UNANSWERED}",))
async def create_soon(client: ClientUnderTest) -> None:
    """The task is there before the user has answered."""
    found = steps(client, UNANSWERED, "create", _UNANSWERED)
    if not found:
        raise NotTestable(f"{UNANSWERED} was not called: {client.run(_UNANSWERED).ending}")
    if found[0] is None:
        raise Deviation("a task before the user has answered", client.run(_UNANSWERED).ending)


@check("tasks.client-starts-working", proves=("tasks.starts-working",), needs=_NEEDS)
async def starts_working(client: ClientUnderTest) -> None:
    """A task begins with the status working."""
    for _, response in each_kind(client, "create"):
        # Whether it is a task at all is for another check.
        if task_id(response) is not None and member(response, "result", "task", "status") != "working":
            raise Deviation("status working", brief(response))


@check("tasks.client-bears-no-ttl", proves=("tasks.ttl-optional",), needs=_NEEDS)
async def bears_no_ttl(client: ClientUnderTest) -> None:
    """Who asks for a task need not wish for a time to live."""
    created = _many(client)
    if task_id(created[2]) is None:
        raise NotTestable("the control failed: params.task with a ttl does not begin a task either")
    if task_id(created[0]) is None:
        raise Deviation("a task for params.task {}", brief(created[0]))


def _many(client: ClientUnderTest) -> list[JsonObject | None]:
    """What tasks were begun by that differ in the ttl that is wished. Raises `NotTestable` when they were not."""
    found = steps(client, MANY, "create")
    if len(found) < 4:
        raise NotTestable(f"{MANY} was not called: {client.run(ASKS).ending}")
    return found


@check("tasks.client-ttl-limit", proves=("tasks.limit-ttl",), needs=_NEEDS)
async def ttl_limit(client: ClientUnderTest) -> None:
    """A task that is to be kept for three hundred years is not."""
    created = _many(client)[1]
    ttl = member(created, "result", "task", "ttl")
    if task_id(created) is None:
        raise NotTestable(f"there is no task: {brief(created)}")
    if not isinstance(ttl, int) or ttl >= ENORMOUS:
        raise Deviation("a ttl that is less than was wished for", brief(created))


@check("tasks.client-ids", proves=("tasks.id-unique", "tasks.id-entropy"), needs=_NEEDS)
async def ids(client: ClientUnderTest) -> None:
    """The ids of tasks are long, none comes twice, and one does not follow from another."""
    asked_run(client)
    found = [
        task_id(each.response) for each in client.run(ASKS).server.client_requests if each.name.endswith(": create")
    ]
    known = [each for each in found if each is not None]
    if len(known) < 2:
        raise NotTestable("there were too few tasks")
    wrong = flaw_of_ids(known)
    if wrong is not None:
        raise Deviation("ids that cannot be guessed", f"{wrong}: {brief([*known])}")


# --- what is said of a task --------------------------------------------------------------------------------------------


def _shown(client: ClientUnderTest) -> Iterator[tuple[str, JsonObject]]:
    """What the client says of tasks, as far as it is one: that it is, is a check of its own."""
    yield from ((method, task) for method, task in _told(client) if "taskId" in task)


def _told(client: ClientUnderTest) -> Iterator[tuple[str, JsonObject]]:
    """All that the client says of tasks, in order, with the method by which it does."""
    evidence = asked_run(client)
    found = 0
    names = {
        each.request["id"]: each.method
        for each in evidence.server.client_requests
        if isinstance(each.request["id"], int)
    }
    for message in evidence.messages:
        if not isinstance(message, dict):
            continue
        id = message.get("id")
        method = names.get(id, "") if isinstance(id, int) else ""
        result = message.get("result")
        tasks: list[JsonValue] = []
        if message.get("method") == _STATUS:
            method, tasks = _STATUS, [message.get("params")]
        elif method in _FLAT:
            tasks = [result]
        elif method == "tasks/list":
            listed = member(result, "tasks")
            tasks = listed if isinstance(listed, list) else []
        elif isinstance(result, dict) and "task" in result:
            tasks = [result["task"]]
        for task in tasks:
            if isinstance(task, dict):
                found += 1
                yield method, task
    if not found:
        raise NotTestable("the client says nothing of any task")


@check(
    "tasks.client-fields",
    proves=(
        "schema.task",
        "schema.create-task-result",
        "schema.task-results-flat",
        "schema.list-tasks-result",
        "schema.task-status-params",
        "tasks.id-string",
        "tasks.ttl-in-get",
    ),
    needs=_NEEDS,
)
async def fields(client: ClientUnderTest) -> None:
    """A task has a taskId, a ttl that is an integer or null, and perhaps an interval for polling."""
    for method, task in _told(client):
        # Its status and its times are for other checks.
        whole: JsonObject = {**task, "status": "working", "createdAt": "", "lastUpdatedAt": ""}
        wrong = flaw(whole, "Task", client.revision)
        if wrong is not None:
            raise Deviation(f"a task as in the schema in {method}", f"{wrong}, in {brief(task)}")
    for each in asked_run(client).server.client_requests:
        listed = member(each.response, "result")
        if each.method == "tasks/list" and listed is not None and not isinstance(member(listed, "tasks"), list):
            raise Deviation("an array of tasks in tasks/list", brief(listed))


@check("tasks.client-timestamps", proves=("tasks.created-at", "tasks.last-updated-at"), needs=_NEEDS)
async def timestamps(client: ClientUnderTest) -> None:
    """A task has createdAt and lastUpdatedAt, timestamps of ISO 8601."""
    for _, task in _shown(client):
        for name in ("createdAt", "lastUpdatedAt"):
            value = task.get(name)
            if not isinstance(value, str) or not _STAMP.fullmatch(value):
                raise Deviation(f"{name} that is a timestamp", brief(task))


@check("tasks.client-status", proves=("schema.task-status",), needs=_NEEDS)
async def status(client: ClientUnderTest) -> None:
    """The status of a task is working, input_required, completed, failed or cancelled."""
    for _, task in _shown(client):
        if task.get("status") not in _STATUSES:
            raise Deviation(f"one of {', '.join(_STATUSES)}", brief(task))


@check("tasks.client-transitions", proves=("tasks.valid-transitions", "tasks.terminal-is-final"), needs=_NEEDS)
async def transitions(client: ClientUnderTest) -> None:
    """The status of a task moves as the table has it, and an end is the end."""
    last: dict[str, str] = {}
    for method, task in _shown(client):
        if method not in _FLAT:
            # A notification is on its way beside the responses, and may say what was so before.
            continue
        id, new = str(task.get("taskId")), str(task.get("status"))
        if new not in _STATUSES:
            # For another check.
            continue
        old = last.get(id, "working")
        if new not in _FROM.get(old, (old,)):
            raise Deviation(f"no way from {old} to {new}", brief(task))
        last[id] = new


@check("tasks.client-answers-unrelated", proves=("tasks.no-related-meta-in-answers",), needs=_NEEDS)
async def answers_unrelated(client: ClientUnderTest) -> None:
    """What is answered about a task has no related task in `_meta`."""
    for each in asked_run(client).server.client_requests:
        if each.method in (*_FLAT, "tasks/list") and member(each.response, "result", "_meta", RELATED_TASK) is not None:
            raise Deviation(f"no {RELATED_TASK} in _meta of the answer to {each.method}", brief(each.response))


@check("tasks.client-told-unrelated", proves=("tasks.status-notification-no-related-meta",), needs=_NEEDS)
async def told_unrelated(client: ClientUnderTest) -> None:
    """A notification that tells how a task stands has no related task in `_meta`."""
    found = asked_run(client).sent(_STATUS)
    for message in found:
        if member(message, "params", "_meta", RELATED_TASK) is not None:
            raise Deviation(f"no {RELATED_TASK} in _meta of {_STATUS}", brief(message))
    if not found:
        raise NotApplicable("the client does not tell how its tasks stand")


# --- what was not declared ---------------------------------------------------------------------------------------------


@check(
    "tasks.client-undeclared",
    proves=("tasks.ignore-undeclared", "tasks.declare-capability"),
    needs=(f"scenario:{_UNDECLARED}",),
)
async def undeclared(client: ClientUnderTest) -> None:
    """A client that declares no tasks answers what is asked for as one as it would any other request."""
    asked = {each.name: each.response for each in client.run(_UNDECLARED).server.client_requests}
    tried = 0
    for tool, kind in KINDS.items():
        if flaw(member(asked.get(f"{tool}: plain"), "result"), kind, client.revision) is not None:
            # The control failed: it is not answered otherwise either, or not asked at all.
            continue
        tried += 1
        response = asked.get(f"{tool}: create")
        if flaw(member(response, "result"), kind, client.revision) is not None:
            raise Deviation(f"a {kind}, since no tasks are declared", brief(response))
    if not tried and not asked:
        raise NotApplicable("the client declares neither forms nor samples, or declares tasks of them")
    if not tried:
        raise NotTestable("the control failed: what is asked without a task is not answered by a result")


@check("tasks.client-exhaustive", proves=("tasks.requests-exhaustive",), needs=_NEEDS)
async def exhaustive(client: ClientUnderTest) -> None:
    """What cannot be declared for tasks is answered as ever, whatever stands in params.task."""
    found = [each for each in client.run(ASKS).server.client_requests if each.name == PLAIN_PING]
    if not found:
        raise NotTestable(f"the client did not call {PLAIN_PING}: {client.run(ASKS).ending}")
    answer = member(found[0].response, "result")
    if not isinstance(answer, dict) or "task" in answer:
        raise Deviation("the result of ping", brief(found[0].response))


# --- progress ----------------------------------------------------------------------------------------------------------


def _progress(client: ClientUnderTest) -> list[JsonObject]:
    """What the client reports. Raises `NotApplicable` when that is nothing."""
    found = asked_run(client).sent("notifications/progress")
    if not found:
        raise NotApplicable("the client reports no progress")
    return found


@check("progress.client-task-same", proves=("progress.task-same-token",), needs=_NEEDS)
async def same_token(client: ClientUnderTest) -> None:
    """Progress of a task goes by the token of the request that it began with."""
    given = {
        member(each.request, "params", "_meta", PROGRESS_TOKEN) for each in asked_run(client).server.client_requests
    }
    for message in _progress(client):
        if member(message, "params", "progressToken") not in given - {None}:
            raise Deviation(f"a token that begins with {TOKEN!r}", brief(message))


@check("progress.client-task-stops", proves=("progress.task-stop-terminal",), needs=_NEEDS)
async def stops(client: ClientUnderTest) -> None:
    """No progress of a task is reported when it has ended."""
    _progress(client)
    evidence = asked_run(client)
    tokens = {
        task_id(each.response): member(each.request, "params", "_meta", PROGRESS_TOKEN)
        for each in evidence.server.client_requests
    }
    over: list[JsonValue] = []
    for message in evidence.messages:
        status = member(message, "result", "status") or member(message, "params", "status")
        about = member(message, "result", "taskId") or member(message, "params", "taskId")
        if status in ENDED and isinstance(about, str) and tokens.get(about) is not None:
            over.append(tokens[about])
        token = member(message, "params", "progressToken")
        if token is not None and token in over:
            raise Deviation("no progress of a task that has ended", brief(message))
