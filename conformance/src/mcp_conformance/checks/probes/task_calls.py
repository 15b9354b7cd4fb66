"""Start and polling of tasks, for the checks of both forms of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.drivers.settings import ALL_CAPABILITIES
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, TASKS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "DECLARED",
    "ENDED",
    "ask",
    "begin",
    "cancellable",
    "declares_tasks",
    "extended",
    "id_of",
    "require_status",
    "unlisted",
    "until",
]

ENDED: Final = ("completed", "failed", "cancelled")
"""The terminal statuses."""

DECLARED: Final[JsonObject] = {CLIENT_CAPABILITIES: {**ALL_CAPABILITIES, "extensions": {TASKS_EXTENSION: {}}}}
"""The `_meta` of a client that supports tasks in the modern revision."""

_PAUSE: Final = 0.1
"""Poll interval in seconds."""
_ATTEMPTS: Final = 2
"""How often the list is read before a task counts as missing."""
_PAGES: Final = 100
"""Maximum number of pages that are read."""


def extended(server: ServerUnderTest) -> None:
    """Require that the server supports tasks, in the form of the revision.

    Raises:
        NotApplicable: The server does not declare tasks.
    """
    if not declares_tasks(server):
        what = "the tasks extension" if server.revision.era is Era.MODERN else "tasks for tools/call"
        raise NotApplicable(f"the server does not declare {what}")


def declares_tasks(server: ServerUnderTest) -> bool:
    """Return whether the server supports tasks, in the form of the revision."""
    if server.revision.era is Era.MODERN:
        return isinstance(member(server.inventory.capabilities, "extensions", TASKS_EXTENSION), dict)
    return server.inventory.has("tasks.requests.tools.call")


def cancellable(server: ServerUnderTest) -> bool:
    """Return whether the server supports `tasks/cancel`, which is optional in the legacy form."""
    return server.revision.era is Era.MODERN or server.inventory.has("tasks.cancel")


async def ask(server: ServerUnderTest, method: str, params: JsonObject, *, deviant: str = "") -> JsonRpcResponse:
    """Send a request as a client that supports tasks."""
    if server.revision.era is Era.MODERN:
        params = {"_meta": DECLARED, **params}
    return await server.peer.request(method, params, deviant=deviant)


async def begin(server: ServerUnderTest, fixture: str, arguments: JsonObject | None = None) -> JsonRpcResponse:
    """Call a fixture tool as a task.

    Raises:
        NotApplicable: The server does not declare tasks.
        NotTestable: The server does not have the fixture tool.
    """
    extended(server)
    name, given = server.tool(fixture, arguments)
    params: JsonObject = {"name": name, "arguments": given}
    if server.revision.era is Era.LEGACY:
        params["task"] = {"ttl": 60_000}
    return await ask(server, "tools/call", params)


def id_of(server: ServerUnderTest, created: JsonRpcResponse) -> str:
    """Return the id of a new task.

    Raises:
        NotTestable: A modern server returned a result without a task, which it may do.
        Deviation: The response has no task id.
    """
    if server.revision.era is Era.MODERN:
        if created.result().get("resultType") != "task":
            raise NotTestable(f"the server did not create a task for the call: {created}")
        found = created.result().get("taskId")
    else:
        found = member(created.result(), "task", "taskId")
    if not isinstance(found, str):
        raise Deviation("a taskId that is a string", str(created))
    return found


async def until(server: ServerUnderTest, task: str, *statuses: str) -> JsonObject:
    """Poll a task until it has one of the given statuses, and return the result of `tasks/get`.

    Raises:
        Deviation: The task does not reach the status.
    """
    shown: JsonObject = {}
    async with server.peer.within(f"a task with the status {' or '.join(statuses)}"):
        while True:
            shown = (await ask(server, "tasks/get", {"taskId": task})).result()
            if shown.get("status") in statuses:
                break
            if shown.get("status") in ENDED:
                raise Deviation(f"a task with the status {' or '.join(statuses)}", brief(shown))
            await trio.sleep(_PAUSE)
    return shown


async def require_status(server: ServerUnderTest, task: str, status: str) -> None:
    """Require that a task that has ended has a status, unless the server has deleted it, as a legacy one may when it is cancelled.

    Raises:
        Deviation: The task has another status.
    """
    answer = await ask(server, "tasks/get", {"taskId": task})
    if not answer.is_error and answer.member("status", str) != status:
        raise Deviation(f"the status {status}", str(answer))


async def unlisted(server: ServerUnderTest, tasks: Collection[str]) -> list[str]:
    """Return those of the tasks that `tasks/get` returns, but no page of `tasks/list` contains."""
    missing = list(tasks)
    # A task may move to a page that was read before, when its status changes.
    for _ in range(_ATTEMPTS):
        found = await _listed(server)
        missing = [task for task in missing if task not in found]
        if not missing:
            return []
    return [task for task in missing if not (await ask(server, "tasks/get", {"taskId": task})).is_error]


async def _listed(server: ServerUnderTest) -> set[str]:
    """Return the ids of the tasks on all pages of `tasks/list`."""
    found: set[str] = set()
    cursor: str | None = None
    for _ in range(_PAGES):
        page = (await ask(server, "tasks/list", {} if cursor is None else {"cursor": cursor})).result()
        found |= {str(member(each, "taskId")) for each in items(page.get("tasks"))}
        onward = page.get("nextCursor")
        if not isinstance(onward, str):
            break
        cursor = onward
    return found
