"""Clients that call tools which run as tasks, in either form: how they give up, and what they have to bear.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks` (2026-07-28)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.core_tasks import INSISTING, WAITING_TASK
from mcp_conformance.scenarios.task_script import at_end, in_words, logs_of, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

_TASKS: Final = "conformance_tasks"
_CANCEL: Final = "conformance_tasks_cancel"
_NEEDS: Final = (f"scenario:{_TASKS}",)
_OPERATIONS: Final = ("tasks/get", "tasks/result", "tasks/cancel")


def _params(message: JsonObject) -> JsonObject:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _meta(message: JsonObject) -> JsonObject:
    meta = _params(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


@check(
    "tasks.client-http",
    proves=("tasks.http-rules-hold",),
    transports=frozenset({Transport.HTTP}),
    needs=_NEEDS,
)
async def over_http(client: ClientUnderTest) -> None:
    """A request about a task has the headers of any other: what is accepted, the version, and the session."""
    exchanges = client.run(_TASKS).exchanges
    # What a call of a tool lacks, too, is no matter of tasks.
    calls = [each for each in exchanges if each.message.get("method") == "tools/call"]
    lacking = {name for each in calls for name, _, _ in _wrong_headers(each, client.revision)}
    found = [each for each in exchanges if each.message.get("method") in (*_OPERATIONS, "tasks/list")]
    for exchange in found:
        for name, expected, observed in _wrong_headers(exchange, client.revision):
            if name not in lacking:
                raise Deviation(f"{name} {expected}", f"{exchange} with {observed}")
    if not found:
        raise NotApplicable("the client sends nothing about tasks")
    if lacking:
        raise NotTestable(f"the control failed: calls of tools do not have the right {' and '.join(sorted(lacking))}")


def _wrong_headers(exchange: HttpExchange, revision: Revision) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the headers of any request: the name of one, what it should be, and what it is."""
    accepted = {each.partition(";")[0].strip().lower() for each in ",".join(exchange.all("accept")).split(",")}
    if not {"application/json", "text/event-stream"} <= accepted:
        yield "accept", "with application/json and text/event-stream", f"{sorted(accepted)}"
    session = None if exchange.known is None else exchange.known.id
    for name, wanted in (("mcp-protocol-version", revision.name), ("mcp-session-id", session)):
        if exchange.all(name) != [wanted]:
            yield name, f"{wanted}", f"{exchange.all(name)}"


# --- giving up ---------------------------------------------------------------------------------------------------------


@check(
    "cancellation.client-tasks",
    proves=("cancellation.tasks-use-tasks-cancel", "tasks.cancel-method"),
    needs=(f"scenario:{_CANCEL}",),
)
async def cancels(client: ClientUnderTest) -> None:
    """A task is cancelled by `tasks/cancel`, and not by the notification that cancels requests."""
    evidence = client.run(_CANCEL)
    jobs = tasks_of(evidence)
    begun = [encoded(each["id"]) for each in evidence.sent("tools/call") if _params(each).get("name") == WAITING_TASK]
    for message in evidence.sent("notifications/cancelled"):
        if encoded(_params(message).get("requestId")) in begun:
            raise Deviation("tasks/cancel, and no notifications/cancelled for the call", brief(message))
    named = {_params(each).get("taskId") for each in evidence.sent("tasks/cancel")}
    if not named & set(jobs):
        raise NotTestable(f"the client did not cancel the task: {evidence.ending}")


# --- what others may do, and a client bears ----------------------------------------------------------------------------


def _goes_on(evidence: Evidence, tool: str) -> None:
    """Holds when the client ended well, or called another tool behind one.

    Raises:
        NotTestable: It did not call that one.
    """
    called = [_params(each).get("name") for each in evidence.sent("tools/call")]
    if tool not in called:
        raise NotTestable(f"the client did not call {tool}: {evidence.ending}")
    last = len(called) - 1 - called[::-1].index(tool)
    if evidence.status != 0 and last == len(called) - 1:
        raise Deviation(f"the client to go on behind {tool}", evidence.ending)


@check(
    "tasks.client-bears-forgotten",
    proves=("tasks.expired-deleted", "tasks.ttl-override", "tasks.ttl-server-discard"),
    needs=_NEEDS,
)
async def bears_forgotten(client: ClientUnderTest) -> None:
    """A task whose time is over sooner than was wished, and is forgotten, does no harm."""
    for tool, _ in logs_of(client.run(_TASKS), "task_forgotten"):
        _goes_on(client.run(_TASKS), tool)


@check(
    "tasks.client-bears-insisting",
    proves=("tasks.may-require", "tasks.augmentation-required-error"),
    needs=_NEEDS,
)
async def bears_insisting(client: ClientUnderTest) -> None:
    """That a call is refused since it is not one for a task does no harm."""
    tasks_of(client.run(_TASKS))
    _goes_on(client.run(_TASKS), INSISTING)


@check("tasks.client-bears-no-interval", proves=("tasks.poll-interval-optional",), needs=_NEEDS)
async def bears_no_interval(client: ClientUnderTest) -> None:
    """A task without an interval for polling, and without an end of its time, is looked at all the same."""
    for tool, log in logs_of(client.run(_TASKS), "task_unhurried"):
        if not at_end(log):
            raise Deviation(f"the client to poll the task of {tool} until it has ended", in_words(log))


@check(
    "tasks.client-bears-cancelled",
    proves=("tasks.cancelled-deleted", "tasks.cancel-cooperative"),
    needs=(f"scenario:{_CANCEL}",),
)
async def bears_cancelled(client: ClientUnderTest) -> None:
    """A task that is forgotten as soon as it is cancelled, or goes on for a while, does no harm."""
    evidence = client.run(_CANCEL)
    if not any(each["what"] == "tasks/cancel" for _, log in tasks_of(evidence).values() for each in log):
        raise NotTestable(f"the client did not cancel the task: {evidence.ending}")
    _goes_on(evidence, WAITING_TASK)
