"""Start and polling of tasks, for the checks of both forms of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.drivers.settings import ALL_CAPABILITIES
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, TASKS_EXTENSION

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["DECLARED", "ENDED", "ask", "begin", "declares_tasks", "extended", "id_of", "until"]

ENDED: Final = ("completed", "failed", "cancelled")
"""The terminal statuses."""

DECLARED: Final[JsonObject] = {CLIENT_CAPABILITIES: {**ALL_CAPABILITIES, "extensions": {TASKS_EXTENSION: {}}}}
"""The `_meta` of a client that supports tasks in the modern revision."""

_PAUSE: Final = 0.1
"""Poll interval in seconds."""


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
