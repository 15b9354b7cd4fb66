"""Task-augmented client requests: creation of the tasks, and their state (2025-11-25).

Spec: basic/utilities/tasks (2025-11-25)
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.tasks.client_task_records import (
    TASK_SCENARIO,
    check_answered,
    each_kind,
    member,
    steps,
    task_run,
)
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.unguessable_ids import flaw_of_ids
from mcp_conformance.scenarios.client_tasks import (
    ENORMOUS,
    KINDS,
    MANY,
    PLAIN_PING,
    RELATED,
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
_DECLINED: Final = "conformance_asks_tasks_declined"
_UNDECLARED: Final = "conformance_asks_tasks_undeclared"
_FURTHER: Final = (_UNANSWERED, _DECLINED)
"""The scenarios whose tasks end in another way than with a result."""
_NEEDS: Final = (f"scenario:{TASK_SCENARIO}",)
_STATUS: Final = "notifications/tasks/status"
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_STATUSES: Final = ("working", "input_required", *ENDED)
_FROM: Final = {"working": _STATUSES, "input_required": _STATUSES}
_FLAT: Final = ("tasks/get", "tasks/cancel")


# --- creation
# -----------------------------------------------------------------------------------------------------------


@check(
    "tasks.client-create",
    proves=("tasks.create-result", "tasks.id-by-receiver", "schema.create-task-result"),
    needs=_NEEDS,
)
async def create(client: ClientUnderTest) -> None:
    """A task-augmented client request is answered with a task of the client, not with the result."""
    for kind, response in each_kind(client, "create"):
        if "error" in response:
            raise NotTestable(f"the client rejects the request: {brief(response)}")
        if task_id(response) is None or flaw(response["result"], kind, client.revision) is None:
            raise Deviation("result.task with a taskId, without another result", brief(response))
    for related in steps(client, MANY, "related"):
        if task_id(related) == RELATED:
            raise Deviation("a taskId of the client, not that of the related task", brief(related))


@check("tasks.client-create-soon", proves=("tasks.create-result-soon",), needs=(f"scenario:{_UNANSWERED}",))
async def create_soon(client: ClientUnderTest) -> None:
    """The task is created before the user responds."""
    found = steps(client, UNANSWERED, "create", _UNANSWERED)
    if not found:
        raise NotTestable(f"{UNANSWERED} was not called: {client.run(_UNANSWERED).ending}")
    if found[0] is None:
        raise Deviation("a task before the response of the user", client.run(_UNANSWERED).ending)


@check("tasks.client-starts-working", proves=("tasks.starts-working",), needs=_NEEDS)
async def starts_working(client: ClientUnderTest) -> None:
    """A new task has the status working."""
    for _, response in each_kind(client, "create"):
        # Another check requires a task.
        if task_id(response) is not None and member(response, "result", "task", "status") != "working":
            raise Deviation("the status working", brief(response))


@check("tasks.client-bears-no-ttl", proves=("tasks.ttl-optional",), needs=_NEEDS)
async def accepts_no_ttl(client: ClientUnderTest) -> None:
    """A task-augmented request without a ttl is accepted."""
    created = _many(client)
    if task_id(created[2]) is None:
        raise NotTestable("the control request failed: params.task with a ttl does not create a task either")
    if task_id(created[0]) is None:
        raise Deviation("a task for params.task {}", brief(created[0]))


def _many(client: ClientUnderTest) -> list[JsonObject | None]:
    """Return the responses to requests with different ttl. Raise `NotTestable` when there are not enough."""
    found = steps(client, MANY, "create")
    if len(found) < 4:
        raise NotTestable(f"{MANY} was not called: {client.run(TASK_SCENARIO).ending}")
    return found


@check("tasks.client-ttl-limit", proves=("tasks.limit-ttl",), needs=_NEEDS)
async def ttl_limit(client: ClientUnderTest) -> None:
    """The ttl of a task is limited when the server requests three hundred years."""
    created = _many(client)[1]
    ttl = member(created, "result", "task", "ttl")
    if task_id(created) is None:
        raise NotTestable(f"there is no task: {brief(created)}")
    if not isinstance(ttl, int) or ttl >= ENORMOUS:
        raise Deviation("a ttl below the requested one", brief(created))


@check("tasks.client-ids", proves=("tasks.id-unique", "tasks.id-entropy"), needs=_NEEDS)
async def ids(client: ClientUnderTest) -> None:
    """Task ids are long and unique, and cannot be derived from one another."""
    task_run(client)
    found = [
        task_id(each.response)
        for each in client.run(TASK_SCENARIO).server.client_requests
        if each.name.endswith(": create")
    ]
    known = [each for each in found if each is not None]
    if len(known) < 2:
        raise NotTestable("there were not enough tasks")
    wrong = flaw_of_ids(known)
    if wrong is not None:
        raise Deviation("ids that cannot be guessed", f"{wrong}: {brief([*known])}")


# --- task objects
# -------------------------------------------------------------------------------------------------------


def _shown(client: ClientUnderTest) -> Iterator[tuple[str, JsonObject]]:
    """Yield the task objects of the client that have a taskId. Another check requires the taskId."""
    yield from ((method, task) for method, task in _task_objects(client) if "taskId" in task)


def _task_objects(client: ClientUnderTest, scenario: str = TASK_SCENARIO) -> Iterator[tuple[str, JsonObject]]:
    """Yield all task objects of the client in a scenario, in order, with the method of the message."""
    evidence = task_run(client, scenario)
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
        raise NotTestable("the client sent no task object")


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
    needs=(*_NEEDS, *(f"scenario:{each}" for each in _FURTHER)),
)
async def fields(client: ClientUnderTest) -> None:
    """A task has a taskId, a ttl that is an integer or null, and optionally a poll interval and a status message."""
    check_answered(client, "tasks/get", "tasks/cancel")
    tasks = list(_task_objects(client))
    for scenario in _FURTHER:
        # Only a task that fails or is cancelled may have a status message.
        with suppress(NotApplicable, NotTestable):
            tasks += _task_objects(client, scenario)
    for method, task in tasks:
        # Other checks cover the status and the timestamps.
        whole: JsonObject = {**task, "status": "working", "createdAt": "", "lastUpdatedAt": ""}
        wrong = flaw(whole, "Task", client.revision)
        if wrong is not None:
            raise Deviation(f"a task in {method} according to the schema", f"{wrong}, in {brief(task)}")
    for each in task_run(client).server.client_requests:
        listed = member(each.response, "result")
        if each.method != "tasks/list" or not isinstance(listed, dict):
            continue
        if not isinstance(listed.get("tasks"), list):
            raise Deviation("an array of tasks in tasks/list", brief(listed))
        if not isinstance(listed.get("nextCursor", ""), str):
            raise Deviation("a nextCursor that is a string, or none", brief(listed))


@check("tasks.client-timestamps", proves=("tasks.created-at", "tasks.last-updated-at"), needs=_NEEDS)
async def timestamps(client: ClientUnderTest) -> None:
    """A task has createdAt, which does not change, and lastUpdatedAt, which are ISO 8601 timestamps."""
    created: dict[JsonValue, JsonValue] = {}
    for _, task in _shown(client):
        for name in ("createdAt", "lastUpdatedAt"):
            value = task.get(name)
            if not isinstance(value, str) or not _STAMP.fullmatch(value):
                raise Deviation(f"{name} that is a timestamp", brief(task))
        first = created.setdefault(str(task["taskId"]), task["createdAt"])
        if task["createdAt"] != first:
            raise Deviation(f"createdAt {first}, as before", brief(task))


@check("tasks.client-status", proves=("schema.task-status",), needs=_NEEDS)
async def status(client: ClientUnderTest) -> None:
    """The status of a task is working, input_required, completed, failed or cancelled."""
    for _, task in _shown(client):
        if task.get("status") not in _STATUSES:
            raise Deviation(f"one of {', '.join(_STATUSES)}", brief(task))


@check("tasks.client-transitions", proves=("tasks.valid-transitions", "tasks.terminal-is-final"), needs=_NEEDS)
async def transitions(client: ClientUnderTest) -> None:
    """The status of a task follows the defined transitions, and a terminal status is final."""
    last: dict[str, str] = {}
    for method, task in _shown(client):
        if method not in _FLAT:
            # A notification may cross a response, and report an earlier status.
            continue
        id, new = str(task.get("taskId")), str(task.get("status"))
        if new not in _STATUSES:
            # Another check covers an unknown status.
            continue
        old = last.get(id, "working")
        if new not in _FROM.get(old, (old,)):
            raise Deviation(f"no transition from {old} to {new}", brief(task))
        last[id] = new
    _listed_as_ended(client)


def _listed_as_ended(client: ClientUnderTest) -> None:
    """Check that `tasks/list` shows each task that had ended before the request with the status of its end."""
    ended: dict[str, str] = {}
    methods: dict[bytes, str] = {}
    known: dict[bytes, dict[str, str]] = {}
    for entry in task_run(client).transcript:
        message = entry.value
        if not isinstance(message, dict):
            continue
        id = encoded(message.get("id"))
        if entry.sent and "method" in message:
            methods[id] = str(message["method"])
            # A client that handles requests concurrently may end other tasks while it makes the list.
            known[id] = dict(ended)
        elif not entry.sent and methods.get(id) in _FLAT:
            status = member(message, "result", "status")
            if status in ENDED:
                ended[str(member(message, "result", "taskId"))] = str(status)
        elif not entry.sent and methods.get(id) == "tasks/list":
            listed = member(message, "result", "tasks")
            for task in listed if isinstance(listed, list) else []:
                expected = known[id].get(str(member(task, "taskId")))
                # Another check covers an unknown status.
                if expected is not None and member(task, "status") in set(_STATUSES) - {expected}:
                    raise Deviation(f"the status {expected} in tasks/list, as before", brief(task))


@check("tasks.client-answers-unrelated", proves=("tasks.no-related-meta-in-answers",), needs=_NEEDS)
async def answers_unrelated(client: ClientUnderTest) -> None:
    """The results of requests about a task have no related task in `_meta`."""
    for each in task_run(client).server.client_requests:
        if each.method in (*_FLAT, "tasks/list") and member(each.response, "result", "_meta", RELATED_TASK) is not None:
            raise Deviation(f"no {RELATED_TASK} in _meta of the result of {each.method}", brief(each.response))


@check("tasks.client-told-unrelated", proves=("tasks.status-notification-no-related-meta",), needs=_NEEDS)
async def status_unrelated(client: ClientUnderTest) -> None:
    """A status notification of a task has no related task in `_meta`."""
    found = task_run(client).sent(_STATUS)
    for message in found:
        if member(message, "params", "_meta", RELATED_TASK) is not None:
            raise Deviation(f"no {RELATED_TASK} in _meta of {_STATUS}", brief(message))
    if not found:
        raise NotApplicable("the client sends no status notifications of its tasks")


@check("tasks.client-told-known", proves=("schema.task-status-params",), needs=_NEEDS)
async def status_known(client: ClientUnderTest) -> None:
    """A status notification has the id of a task that the client created."""
    evidence = task_run(client)
    created = {task_id(each.response) for each in evidence.server.client_requests if each.response is not None}
    found = evidence.sent(_STATUS)
    for message in found:
        if member(message, "params", "taskId") not in created:
            raise Deviation("the id of a task of the client", brief(message))
    if not found:
        raise NotApplicable("the client sends no status notifications of its tasks")


# --- undeclared tasks
# ---------------------------------------------------------------------------------------------------


@check(
    "tasks.client-undeclared",
    proves=("tasks.ignore-undeclared", "tasks.declare-capability"),
    needs=(f"scenario:{_UNDECLARED}",),
)
async def undeclared(client: ClientUnderTest) -> None:
    """A client that declares no tasks answers a task-augmented request like any other."""
    responses = {each.name: each.response for each in client.run(_UNDECLARED).server.client_requests}
    tried = 0
    for tool, kind in KINDS.items():
        if flaw(member(responses.get(f"{tool}: plain"), "result"), kind, client.revision) is not None:
            # The control request failed: there is no result without a task either, or no request.
            continue
        tried += 1
        response = responses.get(f"{tool}: create")
        if flaw(member(response, "result"), kind, client.revision) is not None:
            raise Deviation(f"a {kind}, as no tasks are declared", brief(response))
    if not tried and not responses:
        raise NotApplicable("the client declares neither elicitation nor sampling, or declares tasks for them")
    if not tried:
        raise NotTestable("the control request failed: the request without a task gets no result")


@check("tasks.client-exhaustive", proves=("tasks.requests-exhaustive",), needs=_NEEDS)
async def exhaustive(client: ClientUnderTest) -> None:
    """A params.task is ignored in a request whose type cannot be declared for tasks."""
    found = [each for each in client.run(TASK_SCENARIO).server.client_requests if each.name == PLAIN_PING]
    if not found:
        raise NotTestable(f"the client did not call {PLAIN_PING}: {client.run(TASK_SCENARIO).ending}")
    answer = member(found[0].response, "result")
    if not isinstance(answer, dict) or "task" in answer:
        raise Deviation("the result of ping", brief(found[0].response))


# --- progress ----------------------------------------------------------------------------------------------------------


def _progress(client: ClientUnderTest) -> list[JsonObject]:
    """Return the progress notifications of the client. Raise `NotApplicable` without any."""
    found = task_run(client).sent("notifications/progress")
    if not found:
        raise NotApplicable("the client reports no progress")
    return found


@check("tasks.client-related-progress", proves=("tasks.related-task-meta", "schema.related-task"), needs=_NEEDS)
async def related_progress(client: ClientUnderTest) -> None:
    """Progress of a task names the task in `_meta`."""
    _progress(client)
    evidence = task_run(client)
    tasks = {
        encoded(token): id
        for each in evidence.server.client_requests
        if (id := task_id(each.response)) is not None
        and (token := member(each.request, "params", "_meta", PROGRESS_TOKEN)) is not None
    }
    created: set[str] = set()
    for message in evidence.messages:
        id = task_id(message) if isinstance(message, dict) else None
        if id is not None:
            created.add(id)
        token = member(message, "params", "progressToken")
        # Before the response that creates the task, the server cannot know its id. Another check covers unknown tokens.
        expected = None if token is None else tasks.get(encoded(token))
        if expected in created and member(message, "params", "_meta", RELATED_TASK) != {"taskId": expected}:
            raise Deviation(f"_meta with {RELATED_TASK}: taskId {expected}", brief(message))


@check("progress.client-task-same", proves=("progress.task-same-token",), needs=_NEEDS)
async def same_token(client: ClientUnderTest) -> None:
    """Progress of a task has the token of the request that created it."""
    given = {
        member(each.request, "params", "_meta", PROGRESS_TOKEN) for each in task_run(client).server.client_requests
    }
    for message in _progress(client):
        if member(message, "params", "progressToken") not in given - {None}:
            raise Deviation(f"a token that starts with {TOKEN!r}", brief(message))


@check("progress.client-task-stops", proves=("progress.task-stop-terminal",), needs=_NEEDS)
async def stops(client: ClientUnderTest) -> None:
    """No progress of a task is reported after it has ended."""
    _progress(client)
    evidence = task_run(client)
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
