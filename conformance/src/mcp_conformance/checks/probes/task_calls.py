"""What the checks of tasks have in common, in either form: starting one, and following it to where it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.drivers.server.suite_connection import within
from mcp_conformance.drivers.settings import ALL_CAPABILITIES
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, TASKS_EXTENSION

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import Answer
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["DECLARED", "ENDED", "ask", "begin", "extended", "id_of", "until"]

ENDED: Final = ("completed", "failed", "cancelled")
"""The statuses that do not change any more."""

DECLARED: Final[JsonObject] = {CLIENT_CAPABILITIES: {**ALL_CAPABILITIES, "extensions": {TASKS_EXTENSION: {}}}}
"""What a client puts into `_meta` that can do with tasks in the modern revision."""

_PAUSE: Final = 0.1
"""Seconds between two looks at a task."""


def extended(server: ServerUnderTest) -> None:
    """Holds where tasks are offered, in the form of the revision.

    Raises:
        NotApplicable: They are not.
    """
    if server.revision.era is Era.MODERN:
        if not isinstance(member(server.inventory.capabilities, "extensions", TASKS_EXTENSION), dict):
            raise NotApplicable("the server does not declare the extension of tasks")
    elif not server.inventory.has("tasks.requests.tools.call"):
        raise NotApplicable("the server does not declare tasks for tools/call")


async def ask(server: ServerUnderTest, method: str, params: JsonObject, *, deviant: str = "") -> Answer:
    """Asks as a client does that can do with tasks."""
    if server.revision.era is Era.MODERN:
        params = {"_meta": DECLARED, **params}
    return await server.peer.request(method, params, deviant=deviant)


async def begin(server: ServerUnderTest, fixture: str, arguments: JsonObject | None = None) -> Answer:
    """Calls the tool that stands for a fixture, to be run as a task.

    Raises:
        NotApplicable: The server has no tasks.
        NotTestable: The server has no such tool.
    """
    extended(server)
    name, given = server.tool(fixture, arguments)
    params: JsonObject = {"name": name, "arguments": given}
    if server.revision.era is Era.LEGACY:
        params["task"] = {"ttl": 60_000}
    return await ask(server, "tools/call", params)


def id_of(server: ServerUnderTest, created: Answer) -> str:
    """The id of a task that was begun.

    Raises:
        NotTestable: A modern server answered without a task, as it may.
        Deviation: There is none.
    """
    if server.revision.era is Era.MODERN:
        if created.result().get("resultType") != "task":
            raise NotTestable(f"the server did not make a task of the call: {created}")
        found = created.result().get("taskId")
    else:
        found = member(created.result(), "task", "taskId")
    if not isinstance(found, str):
        raise Deviation("a taskId that is a string", str(created))
    return found


async def until(server: ServerUnderTest, task: str, *statuses: str) -> JsonObject:
    """Follows a task until it has one of some statuses; what `tasks/get` says of it then.

    Raises:
        Deviation: It does not get there.
    """
    shown: JsonObject = {}
    async with within(server.settings.timeout, f"the task to become {' or '.join(statuses)}"):
        while True:
            shown = (await ask(server, "tasks/get", {"taskId": task})).result()
            if shown.get("status") in statuses:
                break
            if shown.get("status") in ENDED:
                raise Deviation(f"the task to become {' or '.join(statuses)}", brief(shown))
            await trio.sleep(_PAUSE)
    return shown
