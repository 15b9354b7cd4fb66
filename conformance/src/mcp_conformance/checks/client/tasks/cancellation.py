"""Clients that call tools as tasks, in both forms: cancellation, and server behavior that they must tolerate.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks` (2026-07-28)
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.core_tasks import INSISTING, WAITING_TASK
from mcp_conformance.scenarios.task_script import at_end, in_words, logs_of, tasks_of
from mcp_conformance.scenarios.tasks import CANCELLED_LATER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.revisions import Revision

_TASKS: Final = "conformance_tasks"
_CANCEL: Final = "conformance_tasks_cancel"
_NEEDS: Final = (f"scenario:{_TASKS}",)
_OPERATIONS: Final = ("tasks/get", "tasks/result", "tasks/cancel")


@check(
    "tasks.client-http",
    proves=("tasks.http-rules-hold",),
    transports=frozenset({Transport.HTTP}),
    needs=_NEEDS,
)
async def over_http(client: ClientUnderTest) -> None:
    """A request about a task has the same headers as any other: Accept, the version, and the session id."""
    exchanges = client.run(_TASKS).exchanges
    # A header that tool calls lack too does not concern tasks.
    calls = [each for each in exchanges if each.message.get("method") == "tools/call"]
    lacking = {name for each in calls for name, _, _ in _wrong_headers(each, client.revision)}
    found = [each for each in exchanges if each.message.get("method") in (*_OPERATIONS, "tasks/list")]
    for exchange in found:
        for name, expected, observed in _wrong_headers(exchange, client.revision):
            if name not in lacking:
                raise Deviation(f"{name} {expected}", f"{exchange} with {observed}")
    if not found:
        raise NotApplicable("the client sends no requests about tasks")
    if lacking:
        raise NotTestable(
            f"the control request failed: tool calls do not have the correct {' and '.join(sorted(lacking))}"
        )


def _wrong_headers(exchange: HttpExchange, revision: Revision) -> Iterator[tuple[str, str, str]]:
    """Yield the wrong headers of a request: the name, the expected value, and the actual one."""
    accepted = {each.partition(";")[0].strip().lower() for each in ",".join(exchange.all("accept")).split(",")}
    if not {"application/json", "text/event-stream"} <= accepted:
        yield "accept", "with application/json and text/event-stream", f"{sorted(accepted)}"
    session = None if exchange.known is None else exchange.known.id
    for name, expected in (("mcp-protocol-version", revision.name), ("mcp-session-id", session)):
        if exchange.all(name) != [expected]:
            yield name, f"{expected}", f"{exchange.all(name)}"


# --- cancellation
# -------------------------------------------------------------------------------------------------------


@check(
    "cancellation.client-tasks",
    proves=("cancellation.tasks-use-tasks-cancel", "tasks.cancel-method"),
    needs=(f"scenario:{_CANCEL}", f"scenario:{CANCELLED_LATER}"),
)
async def cancels(client: ClientUnderTest) -> None:
    """A task is cancelled by `tasks/cancel`, not by notifications/cancelled, also in a further connection."""
    _cancels(client.run(_CANCEL))
    if CANCELLED_LATER in client.runs:
        # A client without code for that scenario lets the task end.
        with suppress(NotApplicable, NotTestable):
            _cancels(client.run(CANCELLED_LATER))


def _cancels(evidence: Evidence) -> None:
    """Check that the waiting task is not cancelled by a notification. Raise `NotTestable` if it is not cancelled."""
    jobs = tasks_of(evidence)
    call_ids = [
        encoded(each["id"]) for each in evidence.sent("tools/call") if params_of(each).get("name") == WAITING_TASK
    ]
    for message in evidence.sent("notifications/cancelled"):
        if encoded(params_of(message).get("requestId")) in call_ids:
            raise Deviation("tasks/cancel, and no notifications/cancelled for the call", brief(message))
    named = {params_of(each).get("taskId") for each in evidence.sent("tasks/cancel")}
    if not named & set(jobs):
        raise NotTestable(f"the client did not cancel the task: {evidence.ending}")


# --- tolerated server behavior
# ------------------------------------------------------------------------------------------


def _check_continues(evidence: Evidence, tool: str) -> None:
    """Require that the client exited normally, or called another tool after one.

    Raises:
        NotTestable: The client did not call the tool.
    """
    called = [params_of(each).get("name") for each in evidence.sent("tools/call")]
    if tool not in called:
        raise NotTestable(f"the client did not call {tool}: {evidence.ending}")
    last = len(called) - 1 - called[::-1].index(tool)
    if evidence.status != 0 and last == len(called) - 1:
        raise Deviation(f"the client to continue after {tool}", evidence.ending)


@check(
    "tasks.client-bears-forgotten",
    proves=("tasks.expired-deleted", "tasks.ttl-override", "tasks.ttl-server-discard"),
    needs=_NEEDS,
)
async def tolerates_expired(client: ClientUnderTest) -> None:
    """A task that expires before the requested ttl is tolerated."""
    for tool, _ in logs_of(client.run(_TASKS), "task_forgotten"):
        _check_continues(client.run(_TASKS), tool)


@check(
    "tasks.client-bears-insisting",
    proves=("tasks.may-require", "tasks.augmentation-required-error"),
    needs=_NEEDS,
)
async def tolerates_required_task(client: ClientUnderTest) -> None:
    """The rejection of a call that is not task-augmented is tolerated."""
    tasks_of(client.run(_TASKS))
    _check_continues(client.run(_TASKS), INSISTING)


@check("tasks.client-bears-no-interval", proves=("tasks.poll-interval-optional",), needs=_NEEDS)
async def polls_without_interval(client: ClientUnderTest) -> None:
    """A task without pollInterval and with an unlimited ttl is polled."""
    for tool, log in logs_of(client.run(_TASKS), "task_unhurried"):
        if not at_end(log):
            raise Deviation(f"the client to poll the task of {tool} until it has ended", in_words(log))


@check(
    "tasks.client-bears-cancelled",
    proves=("tasks.cancelled-deleted", "tasks.cancel-cooperative"),
    needs=(f"scenario:{_CANCEL}",),
)
async def tolerates_cancelled(client: ClientUnderTest) -> None:
    """A cancelled task that is deleted at once, or continues for a while, is tolerated."""
    evidence = client.run(_CANCEL)
    if not any(each["what"] == "tasks/cancel" for _, log in tasks_of(evidence).values() for each in log):
        raise NotTestable(f"the client did not cancel the task: {evidence.ending}")
    _check_continues(evidence, WAITING_TASK)
