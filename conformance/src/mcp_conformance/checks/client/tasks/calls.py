"""Clients that call tools as tasks, in both forms: when they may do so, and how they poll the tasks.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks` (2026-07-28)
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import meta_of, params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.core_tasks import CORE_SCRIPTS
from mcp_conformance.scenarios.task_script import ENDED, at_end, in_words, logs_of, tasks_of
from mcp_core.types.meta import PROGRESS_TOKEN, RELATED_TASK

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_TASKS: Final = "conformance_tasks"
_CANCEL: Final = "conformance_tasks_cancel"
_UNDECLARED: Final = "conformance_tasks_undeclared"
_NEEDS: Final = (f"scenario:{_TASKS}",)
_EARLY: Final = 0.95
"""The tolerated part of a waiting time, as clocks are coarse. A shorter time means that the client did not wait."""
_FURTHER_POLLS: Final = 3
"""The number of polls of an ended task that a client may send, for instance to show the task again."""
_OPERATIONS: Final = ("tasks/get", "tasks/result", "tasks/cancel")
_AUGMENTED: Final = ("tools/call",)
"""The requests that a client may augment with a task."""


# --- task-augmented calls (2025-11-25)
# ----------------------------------------------------------------------------------


def _calls(client: ClientUnderTest) -> list[JsonObject]:
    """Return the calls of a client after it listed the tools. Raise `NotApplicable` when it starts no tasks."""
    evidence = client.run(_TASKS)
    requests = evidence.requests
    known = next((index for index, each in enumerate(requests) if each["method"] == "tools/list"), None)
    if known is None:
        raise NotTestable(f"the client does not list the tools: {evidence.ending}")
    calls = [each for each in requests[known:] if each["method"] == "tools/call"]
    if not any("task" in params_of(each) for each in calls):
        raise NotApplicable("the client starts no task")
    return calls


def _supporting(*supports: str | None) -> set[str]:
    return {course.name for course in CORE_SCRIPTS if course.support in supports}


@check("tasks.client-required-tool", proves=("tasks.client-task-if-required",), needs=_NEEDS)
async def required_tool(client: ClientUnderTest) -> None:
    """A call of a tool that requires a task is task-augmented."""
    for message in _calls(client):
        if params_of(message).get("name") in _supporting("required") and "task" not in params_of(message):
            raise Deviation("params.task in a call of a tool that requires a task", brief(message))


@check("tasks.client-forbidden-tool", proves=("tasks.client-no-task-if-forbidden",), needs=_NEEDS)
async def forbidden_tool(client: ClientUnderTest) -> None:
    """A call of a tool with forbidden or missing taskSupport is not task-augmented."""
    for message in _calls(client):
        if params_of(message).get("name") in _supporting("forbidden", None) and "task" in params_of(message):
            raise Deviation("no params.task in a call of a tool without taskSupport", brief(message))


@check(
    "tasks.client-undeclared-server",
    proves=(
        "tasks.client-no-tool-tasks-without-capability",
        "tasks.augment-only-declared",
        "tasks.no-tasks-without-capability",
    ),
    needs=(f"scenario:{_UNDECLARED}", *_NEEDS),
)
async def undeclared_server(client: ClientUnderTest) -> None:
    """A call is not task-augmented if the server does not declare tasks, regardless of the tool."""
    for message in client.run(_UNDECLARED).sent("tools/call"):
        if "task" in params_of(message):
            raise Deviation("no params.task, as the server declares no tasks", brief(message))
    _calls(client)


@check("schema.client-task-metadata", proves=("schema.task-metadata",), needs=_NEEDS)
async def task_metadata(client: ClientUnderTest) -> None:
    """`params.task` of a call is an object whose ttl is an integer."""
    for message in _calls(client):
        if "task" in params_of(message):
            wrong = flaw(params_of(message)["task"], "TaskMetadata", client.revision)
            if wrong is not None:
                raise Deviation("params.task according to the schema", wrong)


@check("tasks.client-only-calls", proves=("tasks.augment-only-declared",), needs=_NEEDS)
async def only_calls(client: ClientUnderTest) -> None:
    """Only tool calls are task-augmented, as no other request can be declared for tasks."""
    _calls(client)
    for message in client.run(_TASKS).requests:
        if message["method"] not in _AUGMENTED and "task" in params_of(message):
            raise Deviation(f"no params.task in {message['method']}", brief(message))


# --- polling
# ------------------------------------------------------------------------------------------------------------


def _operations(client: ClientUnderTest, *methods: str) -> list[JsonObject]:
    """Return every request about a task.

    Raises:
        NotApplicable: The client sent no such request.
    """
    scenarios = (_TASKS, _CANCEL)
    runs = [client.run(name) for name in scenarios]
    found = [each for evidence in runs for method in methods for each in evidence.sent(method)]
    if not found:
        raise NotApplicable(f"the client sends no {' or '.join(methods)}")
    return found


@check(
    "schema.client-task-requests",
    proves=("schema.task-request-params", "tasks.get-request"),
    needs=(*_NEEDS, f"scenario:{_CANCEL}"),
)
async def task_requests(client: ClientUnderTest) -> None:
    """A request about a task names it by `params.taskId`, a string: the id that the server has given, unchanged."""
    given = {id for scenario in (_TASKS, _CANCEL) for id in _task_ids(client.run(scenario))}
    for message in _operations(client, *_OPERATIONS):
        id = params_of(message).get("taskId")
        if not isinstance(id, str):
            raise Deviation("params.taskId that is a string", brief(message))
        if given and id not in given:
            raise Deviation("params.taskId that is the id of a task", brief(message))


def _task_ids(evidence: Evidence) -> set[str]:
    """Return the ids of the tasks of a run."""
    with suppress(NotApplicable):
        return set(tasks_of(evidence))
    return set()


@check(
    "tasks.client-polls",
    proves=("tasks.status-notification-not-relied-on", "tasks.poll-until-terminal", "tasks.poll-until-done"),
    needs=_NEEDS,
)
async def polls(client: ClientUnderTest) -> None:
    """A task without notifications is polled until it has ended, also beside one whose id differs only in case."""
    for tool, log in logs_of(client.run(_TASKS), "task_required", "task_soon", "task_fails"):
        if not at_end(log):
            raise Deviation(f"the client to poll the task of {tool} until it has ended", in_words(log))


@check(
    "tasks.client-stops-polling",
    proves=("tasks.poll-until-terminal", "tasks.poll-until-done"),
    needs=(*_NEEDS, f"scenario:{_CANCEL}"),
)
async def stops_polling(client: ClientUnderTest) -> None:
    """A task is not polled on and on after a poll has shown that it has ended: completed, failed or cancelled."""
    known = 0
    for scenario in (_TASKS, _CANCEL):
        with suppress(NotApplicable):
            for tool, log in tasks_of(client.run(scenario)).values():
                statuses = [each["status"] for each in log if each["what"] == "tasks/get"]
                ended = next((index for index, status in enumerate(statuses) if status in ENDED), None)
                if ended is None:
                    continue
                known += 1
                further = len(statuses) - ended - 1
                if further > _FURTHER_POLLS:
                    raise Deviation(f"no tasks/get for the {statuses[ended]} task of {tool}", f"{further} more of them")
    if not known:
        raise NotTestable("the client polled no task to its end")


@check("tasks.client-keeps-polling", proves=("tasks.keep-polling", "tasks.status-notification"), needs=_NEEDS)
async def keeps_polling(client: ClientUnderTest) -> None:
    """A client that got a status notification continues to poll, as notifications are optional."""
    for tool, log in logs_of(client.run(_TASKS), "task_told"):
        notified = [index for index, each in enumerate(log) if each["what"] == "told"]
        if not notified and any(each["what"] == "nowhere" for each in log):
            raise NotApplicable("the client opens no standalone stream")
        if not notified:
            raise NotTestable("the client did not poll the task, and got no notification of it")
        if not at_end(log[notified[0] :]):
            raise Deviation(f"the client to poll the task of {tool} until it has ended", in_words(log))


@check(
    "tasks.client-interval",
    proves=("tasks.respect-poll-interval", "tasks.poll-interval-respected", "tasks.poll-interval-changes"),
    needs=_NEEDS,
)
async def interval(client: ClientUnderTest) -> None:
    """Between two polls the client waits for the pollInterval, which may change each time."""
    pairs = 0
    for _, log in logs_of(client.run(_TASKS), "task_required", "task_soon"):
        looks = [each for each in log if each["what"] == "tasks/get"]
        for before, after in pairwise(looks):
            expected = before.get("interval")
            waited = _number(after["came"]) - _number(before["went"])
            pairs += 1
            if isinstance(expected, int) and waited < expected / 1000 * _EARLY:
                raise Deviation(f"{expected} milliseconds between two polls", f"{waited * 1000:.0f} milliseconds")
    if not pairs:
        raise NotTestable("the client polled no task twice")


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


@check(
    "tasks.client-unrelated", proves=("tasks.no-related-meta-in-operations",), needs=(*_NEEDS, f"scenario:{_CANCEL}")
)
async def unrelated(client: ClientUnderTest) -> None:
    """A request about a task has no related task in `_meta`."""
    for message in _operations(client, *_OPERATIONS):
        if RELATED_TASK in meta_of(message):
            raise Deviation(f"no {RELATED_TASK} in _meta of {message['method']}", brief(message))


@check("tasks.client-cursors", proves=("tasks.list-cursor-opaque",), needs=_NEEDS)
async def cursors(client: ClientUnderTest) -> None:
    """A cursor of `tasks/list` is sent back unchanged."""
    evidence = client.run(_TASKS)
    listed = evidence.sent("tasks/list")
    if not listed:
        raise NotApplicable("the client does not list tasks")
    given = evidence.notes.get("cursors")
    known = given if isinstance(given, list) else []
    for message in listed:
        params = params_of(message)
        if "cursor" in params and params["cursor"] not in known:
            raise Deviation(f"one of the cursors {brief(known)}", brief(message))
    if not known:
        raise NotTestable("there were not enough tasks for a second page")


@check("progress.client-task-token", proves=("progress.task-token-continues",), needs=_NEEDS)
async def task_token(client: ClientUnderTest) -> None:
    """The progress token of a task-augmented call is not reused before the task has ended."""
    evidence = client.run(_TASKS)
    jobs = tasks_of(evidence)
    alive: dict[bytes, bytes] = {}
    tried = 0
    for entry in evidence.transcript:
        message = entry.value
        if not isinstance(message, dict):
            continue
        if entry.sent:
            _forget_ended(message, alive)
        elif PROGRESS_TOKEN in meta_of(message):
            token = encoded(meta_of(message)[PROGRESS_TOKEN])
            if token in alive.values():
                raise Deviation("a progress token that no active task has", brief(message))
            if "task" in params_of(message):
                tried += 1
                alive[encoded(message.get("id"))] = token
    if not tried or not jobs:
        raise NotApplicable("the client requests no progress of tasks")


def _forget_ended(message: JsonObject, alive: dict[bytes, bytes]) -> None:
    """Update the active tokens from a message of the server: the id of a new task, or the end of a task."""
    result = message.get("result")
    if not isinstance(result, dict):
        # A rejected call has no task.
        alive.pop(encoded(message.get("id")), None)
        return
    task = result.get("task")
    call = alive.pop(encoded(message.get("id")), None)
    if call is not None and isinstance(task, dict):
        alive[encoded(task.get("taskId"))] = call
    if result.get("status") in ENDED:
        alive.pop(encoded(result.get("taskId")), None)
    related = result.get("_meta")
    about = related.get(RELATED_TASK) if isinstance(related, dict) else None
    if isinstance(about, dict):
        alive.pop(encoded(about.get("taskId")), None)


# --- client requests of a task (2025-11-25)
# -----------------------------------------------------------------------------


@check("tasks.client-input", proves=("tasks.input-required-call-result",), needs=_NEEDS)
async def goes_for_result(client: ClientUnderTest) -> None:
    """A client that sees the status input_required sends tasks/result, during which it gets the client requests."""
    count = 0
    for tool, log in logs_of(client.run(_TASKS), "task_asks", "task_asks_elsewhere"):
        shown = [index for index, each in enumerate(log) if each.get("status") == "input_required"]
        if shown and log[shown[0]]["what"] == "tasks/get":
            count += 1
            if not any(each["what"] == "tasks/result" for each in log[shown[0] :]):
                raise Deviation(f"tasks/result for the task of {tool}", in_words(log))
    if not count and client.revision.core_tasks:
        raise NotTestable("the client did not poll the task while it waited for input")


def _client_requests(evidence: Evidence, tool: str) -> list[tuple[JsonObject, JsonObject | None]]:
    """Return the client requests of a tool's task, with their responses."""
    return [
        (each.request, each.response) for each in evidence.server.client_requests if each.name.partition(" ")[0] == tool
    ]


@check(
    "tasks.client-related-answer",
    proves=("tasks.related-task-meta",),
    needs=_NEEDS,
)
async def related_answer(client: ClientUnderTest) -> None:
    """The response to a client request of a task names the task in `_meta`, as the request does."""
    evidence = client.run(_TASKS)
    tasks_of(evidence)
    answers = 0
    for tool in ("task_asks", "task_asks_elsewhere"):
        for request, response in _client_requests(evidence, tool):
            result = None if response is None else response.get("result")
            if not isinstance(result, dict):
                continue
            answers += 1
            meta = result.get("_meta")
            related = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
            if related != meta_of(request).get(RELATED_TASK):
                raise Deviation(f"_meta with {RELATED_TASK} of the request", brief(response))
    if not answers:
        raise NotApplicable("the client responds to no client request of a task")


@check("tasks.client-any-stream", proves=("tasks.messages-any-stream",), needs=_NEEDS)
async def any_stream(client: ClientUnderTest) -> None:
    """A client request of a task gets a response on any stream, including the standalone stream."""
    evidence = client.run(_TASKS)
    for _, log in logs_of(client.run(_TASKS), "task_asks_elsewhere"):
        if any(each["what"] == "nowhere" for each in log):
            raise NotApplicable("the client opens no standalone stream")
    control, requests = _client_requests(evidence, "task_asks"), _client_requests(evidence, "task_asks_elsewhere")
    if not requests:
        raise NotApplicable("the client declares no capability for client requests, or did not send tasks/result")
    if not control or control[0][1] is None:
        raise NotTestable(
            "the control request failed: the client request on the stream of tasks/result got no response"
        )
    if requests[0][1] is None:
        raise Deviation("a response to the client request on the standalone stream", evidence.ending)
