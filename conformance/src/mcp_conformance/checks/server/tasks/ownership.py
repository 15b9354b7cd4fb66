"""Ownership of tasks: one user has no access to the tasks of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.probes.second_user import other_user
from mcp_conformance.checks.probes.subscription_stream import ACKNOWLEDGED, open_subscription
from mcp_conformance.checks.probes.task_calls import DECLARED, begin, extended, id_of
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_HTTP: Final = (Transport.HTTP,)
_LONG: Final[JsonObject] = {"seconds": 60, "label": "of one user"}


async def _refused(peer: SuiteConnection, method: str, params: JsonObject) -> None:
    """Require that a request of another user is rejected."""
    if peer.revision.era is Era.MODERN:
        params = {"_meta": DECLARED, **params}
    answer = await peer.request(method, params)
    if not answer.is_error:
        raise Deviation(f"an error for {method} of a task of another user", str(answer))


async def _check_other_user(server: ServerUnderTest, *requests: tuple[str, JsonObject]) -> None:
    """Send requests for a task as another user, and require that it is not affected."""
    extended(server)
    async with other_user(server) as other:
        task = id_of(server, await begin(server, "slow_compute", _LONG))
        await _check_working(server, task)
        for method, params in requests:
            await _refused(other, method, {"taskId": task, **params})
        if other.revision.era is Era.MODERN:
            await _not_reported(other, task)
        await _check_working(server, task)
        await _ask(server, "tasks/cancel", {"taskId": task})


async def _not_reported(other: SuiteConnection, task: str) -> None:
    """Require that a subscription of another user does not include a task."""
    async with open_subscription(other, {"taskIds": [task]}, meta=DECLARED) as subscription:
        await subscription.until(lambda: bool(subscription.own()) or subscription.ended, ACKNOWLEDGED)
        # A server may reject the subscription, or acknowledge it without the task.
        if not subscription.ended and task in items((await subscription.acknowledged()).get("taskIds")):
            raise Deviation(f"no subscription to the task {task} of another user", brief(subscription.own()[0]))


async def _ask(server: ServerUnderTest, method: str, params: JsonObject) -> JsonObject:
    meta: JsonObject = {"_meta": DECLARED} if server.revision.era is Era.MODERN else {}
    return (await server.peer.request(method, {**meta, **params})).result()


async def _check_working(server: ServerUnderTest, task: str) -> None:
    status = (await _ask(server, "tasks/get", {"taskId": task})).get("status")
    if status != "working":
        raise Deviation("the task to keep working", f"it is {status}")


@check(
    "tasks.other-user",
    proves=("tasks.bind-context", "tasks.reject-other-context"),
    transports=_HTTP,
    subject=CheckScope.RECOVERING,
)
async def not_theirs(server: ServerUnderTest) -> None:
    """Another user cannot get the task of a user, wait for it or cancel it."""
    await _check_other_user(server, ("tasks/get", {}), ("tasks/result", {}), ("tasks/cancel", {}))


@check(
    "tasks.other-user-extension",
    proves=("tasks.auth-checks", "tasks.listen-ack"),
    transports=_HTTP,
    subject=CheckScope.RECOVERING,
)
async def not_theirs_of_the_extension(server: ServerUnderTest) -> None:
    """Another user cannot get the task of a user, respond to its input requests, cancel it or subscribe to it."""
    await _check_other_user(server, ("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {}))


@check(
    "tasks.other-user-list",
    proves=("tasks.list-own-context",),
    transports=_HTTP,
    subject=CheckScope.RECOVERING,
)
async def not_on_their_list(server: ServerUnderTest) -> None:
    """The task of a user is not in the list of another one."""
    extended(server)
    if not server.inventory.has("tasks.list"):
        raise NotApplicable("the server does not declare tasks.list")
    async with other_user(server) as other:
        task = id_of(server, await begin(server, "slow_compute", _LONG))
        listed = (await other.request("tasks/list", {})).result()
        if task in {member(each, "taskId") for each in items(listed.get("tasks"))}:
            raise Deviation(f"a list without the task {task} of another user", str(listed))
        await _ask(server, "tasks/cancel", {"taskId": task})
