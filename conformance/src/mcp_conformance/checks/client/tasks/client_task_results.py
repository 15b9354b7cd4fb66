"""Clients that answer later: what comes of tasks that a server asked for, and how they are cancelled (2025-11-25).

Spec: basic/utilities/tasks (2025-11-25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.declared_capabilities import declares, error_code
from mcp_conformance.checks.client.tasks.client_task_records import (
    ASKS,
    asked_run,
    each_kind,
    expect,
    member,
    step,
    steps,
)
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.client_tasks import (
    CANCELS,
    KINDS,
    MANY,
    UNANSWERED,
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
_NEEDS: Final = (f"scenario:{ASKS}",)


# --- what comes of a task ----------------------------------------------------------------------------------------------


@check("tasks.client-result-waits", proves=("tasks.result-blocks",), needs=_NEEDS)
async def result_waits(client: ClientUnderTest) -> None:
    """`tasks/result` is answered when the task has ended, and not before."""
    for _, response in each_kind(client, "ended"):
        if error_code(response) == -32602:
            raise NotTestable("the client keeps no task that has ended")
        if member(response, "result", "status") not in ENDED:
            raise Deviation("the task to have ended when tasks/result was answered", brief(response))


@check("tasks.client-result", proves=("tasks.result-terminal", "tasks.result-success-same"), needs=_NEEDS)
async def result(client: ClientUnderTest) -> None:
    """`tasks/result` has what the request itself would have been answered by, each time."""
    broken = {kind for tool, kind in KINDS.items() if _failed(client, tool)}
    tried = 0
    for name in ("result", "again"):
        for kind, response in each_kind(client, name):
            if kind in broken:
                continue
            tried += 1
            wrong = flaw(response.get("result"), kind, client.revision)
            forgotten = name == "again" and error_code(response) == -32602
            if wrong is not None and not forgotten:
                raise Deviation(f"a {kind}", f"{wrong}, in {brief(response)}")
    if not tried:
        raise NotTestable(f"no task came to a result: {client.run(ASKS).ending}")


def _failed(client: ClientUnderTest, tool: str) -> bool:
    """Whether what was asked for as a task ended in an error, and the task says so: that is for other checks."""
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
    """The answer to `tasks/result` names the task in `_meta`."""
    tried = 0
    for tool in KINDS:
        for created, given in zip(steps(client, tool, "create"), steps(client, tool, "result"), strict=False):
            # An error has no place for it.
            if given is None or "result" not in given:
                continue
            tried += 1
            if member(given, "result", "_meta", RELATED_TASK) != {"taskId": task_id(created)}:
                raise Deviation(f"_meta with {RELATED_TASK}: taskId {task_id(created)}", brief(given))
    if not tried:
        raise NotTestable(f"no task came to a result: {client.run(ASKS).ending}")


def _plain_error(client: ClientUnderTest) -> tuple[JsonValue, JsonValue]:
    """Code and message by which the request itself was refused. Raises `NotTestable` when it was not."""
    plain = step(client, "ask_declined", "plain", _DECLINED)
    if error_code(plain) is None:
        raise NotTestable("the control failed: the sample that the user declines is no error")
    return error_code(plain), member(plain, "error", "message")


@check("tasks.client-failed", proves=("tasks.failed-on-error",), needs=(f"scenario:{_DECLINED}",))
async def failed(client: ClientUnderTest) -> None:
    """A task whose request ends in an error has the status failed."""
    _plain_error(client)
    response = step(client, "ask_declined", "get", _DECLINED)
    if member(response, "result", "status") != "failed":
        raise Deviation("status failed", brief(response))


@check("tasks.client-failed-message", proves=("tasks.failed-status-message",), needs=(f"scenario:{_DECLINED}",))
async def failed_message(client: ClientUnderTest) -> None:
    """A task that failed says why in statusMessage."""
    _plain_error(client)
    response = step(client, "ask_declined", "get", _DECLINED)
    message = member(response, "result", "statusMessage")
    if member(response, "result", "status") == "failed" and not (isinstance(message, str) and message):
        raise Deviation("a statusMessage", brief(response))


@check("tasks.client-error", proves=("tasks.result-error-same",), needs=(f"scenario:{_DECLINED}",))
async def same_error(client: ClientUnderTest) -> None:
    """`tasks/result` of a request that ends in an error is that error."""
    code, message = _plain_error(client)
    response = step(client, "ask_declined", "result", _DECLINED)
    if (error_code(response), member(response, "error", "message")) != (code, message):
        raise Deviation(f"error {code}: {message}", brief(response))


# --- which task is meant -----------------------------------------------------------------------------------------------


@check("tasks.client-id-param", proves=("tasks.task-id-param-wins",), needs=_NEEDS)
async def id_param(client: ClientUnderTest) -> None:
    """`tasks/get` goes by params.taskId, and not by a related task in `_meta`."""
    response = step(client, MANY, "other")
    wanted = task_id(steps(client, MANY, "create")[0])
    if member(response, "result", "taskId") != wanted:
        raise Deviation(f"the task {wanted}", brief(response))


@check("tasks.client-list", proves=("tasks.list-complete", "tasks.list-next-cursor"), needs=_NEEDS)
async def listed(client: ClientUnderTest) -> None:
    """A task that `tasks/get` knows is on one of the pages of `tasks/list`."""
    known = {
        member(each, "result", "taskId") for each in steps(client, MANY, "get") if member(each, "result") is not None
    }
    pages = steps(client, MANY, "list")
    if not declares(client, ASKS, "tasks.list"):
        raise NotApplicable("the client does not declare tasks.list")
    if not known or not pages:
        raise NotTestable(f"{MANY} did not come to the list: {client.run(ASKS).ending}")
    found: list[JsonValue] = []
    for page in pages:
        tasks = member(page, "result", "tasks")
        if not isinstance(tasks, list):
            # That it is an array is for another check.
            raise NotTestable(f"there are no tasks in {brief(page)}")
        found += [member(each, "taskId") for each in tasks]
    if not known <= {each for each in found if isinstance(each, str)}:
        raise Deviation(f"the tasks {brief([*sorted(map(str, known))])} in tasks/list", brief(found))


@check("tasks.client-list-cursor", proves=("tasks.invalid-cursor-error",), needs=_NEEDS)
async def list_cursor(client: ClientUnderTest) -> None:
    """A cursor for `tasks/list` that the client did not give is answered by -32602."""
    response = step(client, UNKNOWN, "tasks/list")
    if not declares(client, ASKS, "tasks.list"):
        raise NotApplicable("the client does not declare tasks.list")
    expect(response, -32602, "a cursor that the client did not give")


@check("tasks.client-unknown", proves=("tasks.unknown-task-error",), needs=_NEEDS)
async def unknown(client: ClientUnderTest) -> None:
    """A task that does not exist is answered by -32602, whatever is asked of it."""
    methods = ["tasks/get", "tasks/result"]
    if declares(client, ASKS, "tasks.cancel"):
        methods.append("tasks/cancel")
    for method in methods:
        expect(step(client, UNKNOWN, method), -32602, f"{method} of no task")


@check("tasks.client-gated", proves=("tasks.list-gated", "tasks.cancel-gated"), needs=_NEEDS)
async def gated(client: ClientUnderTest) -> None:
    """`tasks/list` and `tasks/cancel` are there where they are declared, and an unknown method where not."""
    asked = {each.name: each.response for each in client.run(ASKS).server.client_requests}
    for capability in ("tasks.list", "tasks.cancel"):
        method = capability.replace(".", "/")
        response = asked.get(f"{UNKNOWN}: {method}")
        if response is None:
            raise NotTestable(f"{method} was not asked for, or not answered: {client.run(ASKS).ending}")
        has = declares(client, ASKS, capability)
        if has is (error_code(response) == -32601):
            state = "declared" if has else "not declared"
            raise Deviation(f"{method} to be served exactly if {capability} is declared", f"{state}: {brief(response)}")


# --- cancelling --------------------------------------------------------------------------------------------------------


def _cancelled(client: ClientUnderTest, scenario: str, tool: str) -> JsonObject:
    """The answer to the cancellation of a task whose user has not answered yet.

    Raises:
        NotApplicable: The client does not declare tasks, or that they can be cancelled.
        NotTestable: It had ended before.
    """
    asked_run(client, scenario)
    if not declares(client, scenario, "tasks.cancel"):
        raise NotApplicable("the client does not declare tasks.cancel")
    response = step(client, tool, "cancel", scenario)
    if error_code(response) == -32602:
        raise NotTestable("the task had ended before it could be cancelled")
    return response


@check(
    "tasks.client-cancelled",
    proves=("tasks.cancel-status-before-response", "tasks.cancel-stops"),
    needs=(f"scenario:{_UNANSWERED}",),
)
async def cancelled(client: ClientUnderTest) -> None:
    """A task that is cancelled has that status as soon as `tasks/cancel` is answered, and the answer shows it."""
    response = _cancelled(client, _UNANSWERED, UNANSWERED)
    if member(response, "result", "status") != "cancelled":
        raise Deviation("status cancelled", brief(response))
    response = step(client, UNANSWERED, "get", _UNANSWERED)
    # It may be forgotten at once, too.
    if member(response, "result", "status") != "cancelled" and error_code(response) != -32602:
        raise Deviation("status cancelled", brief(response))


@check("tasks.client-cancelled-stays", proves=("tasks.cancelled-stays",), needs=_NEEDS)
async def cancelled_stays(client: ClientUnderTest) -> None:
    """A task that was cancelled stays so, even if the user answers behind that."""
    _cancelled(client, ASKS, CANCELS)
    response = step(client, CANCELS, "still")
    if member(response, "result", "status") != "cancelled" and error_code(response) != -32602:
        raise Deviation("status cancelled", brief(response))


@check("tasks.client-cancel-ended", proves=("tasks.cancel-terminal-error",), needs=_NEEDS)
async def cancel_ended(client: ClientUnderTest) -> None:
    """To cancel a task that has ended is answered by -32602."""
    asked_run(client)
    if not declares(client, ASKS, "tasks.cancel"):
        raise NotApplicable("the client does not declare tasks.cancel")
    for _, response in each_kind(client, "ended"):
        if member(response, "result", "status") not in ENDED:
            raise NotTestable("the task has not ended when its result was there")
    for _, response in each_kind(client, "cancel"):
        expect(response, -32602, "tasks/cancel of a task that has ended")
