"""Task-augmented client requests: the results of the tasks, and their cancellation (2025-11-25).

Spec: basic/utilities/tasks (2025-11-25)
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.declared_capabilities import declares, error_code
from mcp_conformance.checks.client.tasks.client_task_records import (
    TASK_SCENARIO,
    check_answered,
    each_kind,
    expect,
    member,
    step,
    steps,
    task_run,
)
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.client_tasks import (
    CANCELS,
    DECLINED_FORM,
    KINDS,
    MANY,
    UNANSWERED,
    UNANSWERED_SAMPLE,
    UNKNOWN,
    task_id,
)
from mcp_conformance.scenarios.task_script import ENDED
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_UNANSWERED: Final = "conformance_asks_tasks_unanswered"
_DECLINED: Final = "conformance_asks_tasks_declined"
_NEEDS: Final = (f"scenario:{TASK_SCENARIO}",)


# --- results
# ------------------------------------------------------------------------------------------------------------


@check("tasks.client-result-waits", proves=("tasks.result-blocks",), needs=_NEEDS)
async def result_waits(client: ClientUnderTest) -> None:
    """Each `tasks/result` is answered when the task has ended, and not before."""
    _each_waiter_answered(client)
    for _, response in each_kind(client, "ended"):
        if error_code(response) == -32602:
            raise NotTestable("the client keeps no ended task")
        if member(response, "result", "status") not in ENDED:
            raise Deviation("a task that has ended when tasks/result is answered", brief(response))


def _each_waiter_answered(client: ClientUnderTest) -> None:
    """Check that no response is missing where another concurrent request for the result of the same task has one."""
    waiting: dict[JsonValue, JsonObject] = {}
    answered: set[str] = set()
    # Of the transcript, as the run may end before the suite has waited for the missing response.
    for entry in task_run(client).transcript:
        message = entry.value
        if not isinstance(message, dict) or not isinstance(id := message.get("id"), int):
            continue
        if entry.sent and message.get("method") == "tasks/result":
            waiting[id] = message
        elif not entry.sent and "method" not in message and id in waiting:
            answered.add(str(member(waiting.pop(id), "params", "taskId")))
    for message in waiting.values():
        if str(member(message, "params", "taskId")) in answered:
            raise Deviation("a response to each tasks/result", brief(message))


@check(
    "tasks.client-result",
    proves=("tasks.result-terminal", "tasks.result-success-same"),
    needs=(*_NEEDS, f"scenario:{_DECLINED}"),
)
async def result(client: ClientUnderTest) -> None:
    """`tasks/result` returns the result of the request itself, also if the user declines, until the task is deleted."""
    tried = 0
    for tool, kind in KINDS.items():
        if _failed(client, tool):
            continue
        for name in ("result", "again"):
            # A task that is deleted stays unknown.
            deleted = any(error_code(each) == -32602 for each in steps(client, tool, "still"))
            for number, response in enumerate(steps(client, tool, name)):
                later = number > 0 or name == "again"
                if response is None or (later and deleted and error_code(response) == -32602):
                    continue
                tried += 1
                wrong = flaw(response.get("result"), kind, client.revision)
                if wrong is not None:
                    raise Deviation(f"a {kind}", f"{wrong}, in {brief(response)}")
    if not tried:
        raise NotTestable(f"no task reached its result: {client.run(TASK_SCENARIO).ending}")
    # The client may not declare tasks for forms, or its user may accept them.
    with suppress(NotApplicable, NotTestable):
        action = member(step(client, DECLINED_FORM, "plain", _DECLINED), "result", "action")
        response = step(client, DECLINED_FORM, "result", _DECLINED)
        if action == "decline" and member(response, "result", "action") != action:
            raise Deviation("the result that the user declines the form", brief(response))


def _failed(client: ClientUnderTest, tool: str) -> bool:
    """Return whether a task failed with an error, which other checks cover."""
    return any(
        member(shown, "result", "status") == "failed" and "error" in (given or {})
        for shown, given in zip(steps(client, tool, "ended"), steps(client, tool, "result"), strict=False)
    )


@check(
    "tasks.client-related-result",
    proves=("tasks.related-meta-in-result", "tasks.related-task-meta", "schema.related-task"),
    needs=_NEEDS,
)
async def related_result(client: ClientUnderTest) -> None:
    """The result of `tasks/result` names the task in `_meta`."""
    tried = 0
    for tool in KINDS:
        for created, given in zip(steps(client, tool, "create"), steps(client, tool, "result"), strict=False):
            # An error has no `_meta`.
            if given is None or "result" not in given:
                continue
            tried += 1
            if member(given, "result", "_meta", RELATED_TASK) != {"taskId": task_id(created)}:
                raise Deviation(f"_meta with {RELATED_TASK}: taskId {task_id(created)}", brief(given))
    if not tried:
        raise NotTestable(f"no task reached its result: {client.run(TASK_SCENARIO).ending}")


def _plain_error(client: ClientUnderTest) -> tuple[JsonValue, JsonValue]:
    """Return code and message of the error for the plain request. Raise `NotTestable` when there is no error."""
    plain = step(client, "ask_declined", "plain", _DECLINED)
    if error_code(plain) is None:
        raise NotTestable("the control request failed: the sampling request that the user rejects gets no error")
    return error_code(plain), member(plain, "error", "message")


@check("tasks.client-failed", proves=("tasks.failed-on-error",), needs=(f"scenario:{_DECLINED}",))
async def failed(client: ClientUnderTest) -> None:
    """A task whose request ends with an error has the status failed."""
    _plain_error(client)
    response = step(client, "ask_declined", "get", _DECLINED)
    if member(response, "result", "status") != "failed":
        raise Deviation("the status failed", brief(response))


@check("tasks.client-failed-message", proves=("tasks.failed-status-message",), needs=(f"scenario:{_DECLINED}",))
async def failed_message(client: ClientUnderTest) -> None:
    """A failed task has a statusMessage with the reason."""
    _plain_error(client)
    response = step(client, "ask_declined", "get", _DECLINED)
    message = member(response, "result", "statusMessage")
    if member(response, "result", "status") == "failed" and not (isinstance(message, str) and message):
        raise Deviation("a statusMessage", brief(response))


@check("tasks.client-error", proves=("tasks.result-error-same",), needs=(f"scenario:{_DECLINED}",))
async def same_error(client: ClientUnderTest) -> None:
    """`tasks/result` of a request that ends with an error returns the same error."""
    code, message = _plain_error(client)
    response = step(client, "ask_declined", "result", _DECLINED)
    if (error_code(response), member(response, "error", "message")) != (code, message):
        raise Deviation(f"error {code}: {message}", brief(response))


# --- task ids
# -----------------------------------------------------------------------------------------------------------


@check("tasks.client-id-param", proves=("tasks.task-id-param-wins",), needs=_NEEDS)
async def id_param(client: ClientUnderTest) -> None:
    """`tasks/get` uses params.taskId, not a related task in `_meta`."""
    response = step(client, MANY, "other")
    expected = task_id(steps(client, MANY, "create")[0])
    if member(response, "result", "taskId") != expected:
        raise Deviation(f"the task {expected}", brief(response))


@check("tasks.client-list", proves=("tasks.list-complete", "tasks.list-next-cursor"), needs=_NEEDS)
async def listed(client: ClientUnderTest) -> None:
    """A task that `tasks/get` returns is on one of the pages of `tasks/list`, also when it is cancelled."""
    pages = steps(client, MANY, "list")
    known = _task_ids(steps(client, MANY, "get"))
    if not declares(client, TASK_SCENARIO, "tasks.list"):
        raise NotApplicable("the client does not declare tasks.list")
    check_answered(client, "tasks/list")
    if not known or not pages:
        raise NotTestable(f"{MANY} did not reach the list: {client.run(TASK_SCENARIO).ending}")
    _on_pages(known, pages)
    # A cancelled task may be deleted: what counts is that it is known after the list.
    if pages := steps(client, CANCELS, "list"):
        _on_pages(_task_ids(steps(client, CANCELS, "still")), pages)


def _task_ids(responses: list[JsonObject | None]) -> set[JsonValue]:
    """Return the ids of the tasks that are results of `tasks/get`."""
    return {id for each in responses if isinstance(id := member(each, "result", "taskId"), str)}


def _on_pages(known: set[JsonValue], pages: list[JsonObject | None]) -> None:
    """Check that each task is on one of the pages of a list."""
    found: list[JsonValue] = []
    for page in pages:
        tasks = member(page, "result", "tasks")
        if not isinstance(tasks, list):
            # Another check requires an array.
            raise NotTestable(f"there are no tasks in {brief(page)}")
        found += [member(each, "taskId") for each in tasks]
    if not known <= {each for each in found if isinstance(each, str)}:
        raise Deviation(f"the tasks {brief([*sorted(map(str, known))])} in tasks/list", brief(found))


@check("tasks.client-list-cursor", proves=("tasks.invalid-cursor-error",), needs=_NEEDS)
async def list_cursor(client: ClientUnderTest) -> None:
    """An invalid cursor of `tasks/list` is answered with -32602."""
    response = step(client, UNKNOWN, "tasks/list")
    if not declares(client, TASK_SCENARIO, "tasks.list"):
        raise NotApplicable("the client does not declare tasks.list")
    expect(response, -32602, "an invalid cursor")


@check("tasks.client-unknown", proves=("tasks.unknown-task-error",), needs=_NEEDS)
async def unknown(client: ClientUnderTest) -> None:
    """Each request for an unknown task is answered with -32602."""
    methods = ["tasks/get", "tasks/result"]
    if declares(client, TASK_SCENARIO, "tasks.cancel"):
        methods.append("tasks/cancel")
    for method in methods:
        expect(step(client, UNKNOWN, method), -32602, f"{method} of an unknown task")


@check("tasks.client-gated", proves=("tasks.list-gated", "tasks.cancel-gated"), needs=_NEEDS)
async def gated(client: ClientUnderTest) -> None:
    """`tasks/list` and `tasks/cancel` are served if they are declared, and are unknown methods otherwise."""
    responses = {each.name: each.response for each in client.run(TASK_SCENARIO).server.client_requests}
    for capability in ("tasks.list", "tasks.cancel"):
        method = capability.replace(".", "/")
        response = responses.get(f"{UNKNOWN}: {method}")
        if response is None:
            raise NotTestable(f"{method} was not sent, or got no response: {client.run(TASK_SCENARIO).ending}")
        has = declares(client, TASK_SCENARIO, capability)
        if has is (error_code(response) == -32601):
            state = "declared" if has else "not declared"
            raise Deviation(
                f"{method} to be served if and only if {capability} is declared", f"{state}: {brief(response)}"
            )


# --- cancellation
# -------------------------------------------------------------------------------------------------------


def _cancelled(client: ClientUnderTest, scenario: str, tool: str) -> JsonObject:
    """Return the response to the cancellation of a task for which the user has not responded yet.

    Raises:
        NotApplicable: The client does not declare tasks, or their cancellation.
        NotTestable: The task had ended before.
    """
    task_run(client, scenario)
    if not declares(client, scenario, "tasks.cancel"):
        raise NotApplicable("the client does not declare tasks.cancel")
    response = step(client, tool, "cancel", scenario)
    if error_code(response) == -32602:
        raise NotTestable("the task had ended before its cancellation")
    return response


@check(
    "tasks.client-cancelled",
    proves=("tasks.cancel-status-before-response", "tasks.cancel-stops"),
    needs=(f"scenario:{_UNANSWERED}",),
)
async def cancelled(client: ClientUnderTest) -> None:
    """A cancelled task, of a form or of sampling, has the status cancelled in the response to `tasks/cancel` and after it."""
    _check_cancelled(client, UNANSWERED)
    # The client may not declare tasks for sampling.
    with suppress(NotTestable):
        _check_cancelled(client, UNANSWERED_SAMPLE)


def _check_cancelled(client: ClientUnderTest, tool: str) -> None:
    response = _cancelled(client, _UNANSWERED, tool)
    if member(response, "result", "status") != "cancelled":
        raise Deviation("the status cancelled", brief(response))
    response = step(client, tool, "get", _UNANSWERED)
    # The task may also be deleted at once.
    if member(response, "result", "status") != "cancelled" and error_code(response) != -32602:
        raise Deviation("the status cancelled", brief(response))


@check("tasks.client-cancelled-stays", proves=("tasks.cancelled-stays",), needs=_NEEDS)
async def cancelled_stays(client: ClientUnderTest) -> None:
    """A cancelled task stays cancelled, even if the user responds later."""
    _cancelled(client, TASK_SCENARIO, CANCELS)
    response = step(client, CANCELS, "still")
    if member(response, "result", "status") != "cancelled" and error_code(response) != -32602:
        raise Deviation("the status cancelled", brief(response))


@check("tasks.client-cancel-ended", proves=("tasks.cancel-terminal-error",), needs=_NEEDS)
async def cancel_ended(client: ClientUnderTest) -> None:
    """Cancelling a task that has ended is answered with -32602."""
    task_run(client)
    if not declares(client, TASK_SCENARIO, "tasks.cancel"):
        raise NotApplicable("the client does not declare tasks.cancel")
    for _, response in each_kind(client, "ended"):
        if member(response, "result", "status") not in ENDED:
            raise NotTestable("the task has not ended although its result is available")
    for _, response in each_kind(client, "cancel"):
        expect(response, -32602, "tasks/cancel of a task that has ended")
