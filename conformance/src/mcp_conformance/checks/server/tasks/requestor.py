"""Tasks that a server creates at its client, by task-augmented client requests (2025-11-25)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_AWAITS: Final = "conformance_await_client_task"
_CANCELS: Final = "conformance_cancel_client_task"
_LISTS: Final = "conformance_list_client_tasks"
_NEEDS: Final = ("capability:tools",)
_CAPABILITIES: Final[JsonObject] = {
    "elicitation": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}},
}
_TASK: Final = "conformance-task-0001"
_CURSOR: Final = "eyJwYWdlIjogMn0= /?\N{LATIN SMALL LETTER E WITH ACUTE}=="
"""A cursor that a server could take for base64, a number or a URL if it read cursors."""
_POLLS: Final = 2
"""How often the task is reported as working."""
_TIME: Final = "2026-01-01T00:00:00Z"


@attrs.define
class _Receiver:
    """The suite as the receiver of one task."""

    created: int = 0
    """The number of task-augmented requests."""
    polls: int = 0
    """The number of times that the task was shown as working."""
    cancelled: bool = False

    def elicit(self, params: JsonObject) -> JsonObject:
        """Create the task, or respond at once to a request that is not task-augmented."""
        if "task" not in params:
            return {"action": "decline"}
        self.created += 1
        return {"task": self._shown("working")}

    def get(self, _: JsonObject) -> JsonObject:
        """Return the task: it works for some polls, and has completed then."""
        self.polls += 1
        return self._shown("working" if self.polls <= _POLLS else "completed")

    def result(self, _: JsonObject) -> JsonObject:
        """Return the result of the task."""
        return {"action": "decline", "_meta": {"io.modelcontextprotocol/related-task": {"taskId": _TASK}}}

    def cancel(self, _: JsonObject) -> JsonObject:
        """Cancel the task."""
        self.cancelled = True
        return self._shown("cancelled")

    def list(self, params: JsonObject) -> JsonObject:
        """Return one of two pages: the second one if there is a cursor, whatever it is."""
        page: JsonObject = {"tasks": [self._shown("working")] if self.created else []}
        return page if "cursor" in params else {**page, "nextCursor": _CURSOR}

    def _shown(self, status: str) -> JsonObject:
        status = "cancelled" if self.cancelled else status
        return {
            "taskId": _TASK,
            "status": status,
            "createdAt": _TIME,
            "lastUpdatedAt": _TIME,
            "ttl": 60_000,
            "pollInterval": 20,
        }


@asynccontextmanager
async def _called(server: ServerUnderTest, fixture: str) -> AsyncIterator[SuiteConnection]:
    """Call a fixture tool on a connection of a client that supports tasks, and yield the connection."""
    name, arguments = server.tool(fixture)
    async with server.share(capabilities=_CAPABILITIES, evident=True) as peer:
        receiver = _Receiver()
        peer.replies.update(
            {
                "elicitation/create": receiver.elicit,
                "tasks/get": receiver.get,
                "tasks/result": receiver.result,
                "tasks/cancel": receiver.cancel,
                "tasks/list": receiver.list,
            }
        )
        await peer.request("tools/call", {"name": name, "arguments": arguments})
        if fixture != _LISTS and not receiver.created:
            raise NotTestable(f"{fixture} sent no task-augmented elicitation")
        yield peer


def _requests(peer: SuiteConnection, *methods: str) -> list[JsonObject]:
    return [each for each in peer.inbox if each.get("method") in methods]


@check("tasks.server-metadata", proves=("schema.task-metadata",), needs=_NEEDS)
async def metadata(server: ServerUnderTest) -> None:
    """The task of a client request is an object with an optional ttl."""
    async with _called(server, _AWAITS) as peer:
        for request in _requests(peer, "elicitation/create"):
            task = member(request, "params", "task")
            wrong = None if task is None else flaw(task, "TaskMetadata", server.revision)
            if wrong is not None:
                raise Deviation("params.task with an optional ttl in milliseconds", f"{wrong}, in {brief(request)}")


@check("tasks.server-request-params", proves=("schema.task-request-params",), needs=_NEEDS)
async def request_params(server: ServerUnderTest) -> None:
    """The server names a task of its client in tasks/get, tasks/result and tasks/cancel with params.taskId."""
    for fixture in (_AWAITS, _CANCELS):
        if fixture == _CANCELS and server.inventory.find("tools", server.manifest.find("tools", fixture).name) is None:
            continue  # the other tool alone shows two of the three methods
        async with _called(server, fixture) as peer:
            for request in _requests(peer, "tasks/get", "tasks/result", "tasks/cancel"):
                if member(request, "params", "taskId") != _TASK:
                    raise Deviation(f"params.taskId {_TASK}", brief(request))


@check("tasks.server-polls", proves=("tasks.status-notification-not-relied-on",), needs=_NEEDS)
async def polls(server: ServerUnderTest) -> None:
    """The server gets the result of a task whose client sends no notifications/tasks/status."""
    async with _called(server, _AWAITS) as peer:
        if not _requests(peer, "tasks/result"):
            raise Deviation("tasks/result, without a status notification", "the tool ends without tasks/result")


@check("tasks.server-cancels", proves=("cancellation.tasks-use-tasks-cancel",), needs=_NEEDS)
async def cancels(server: ServerUnderTest) -> None:
    """The server cancels a task of its client with tasks/cancel, not with notifications/cancelled."""
    async with _called(server, _CANCELS) as peer:
        await peer.fence()
        augmented = [each["id"] for each in _requests(peer, "elicitation/create") if member(each, "params", "task")]
        for cancelled in _requests(peer, "notifications/cancelled"):
            if member(cancelled, "params", "requestId") in augmented:
                raise Deviation("tasks/cancel for a task-augmented request", brief(cancelled))
        if not _requests(peer, "tasks/cancel"):
            raise NotTestable(f"{_CANCELS} did not cancel the task")


@check("tasks.server-cursor", proves=("tasks.list-cursor-opaque",), needs=_NEEDS)
async def cursor(server: ServerUnderTest) -> None:
    """The server sends a cursor of tasks/list back unchanged."""
    async with _called(server, _LISTS) as peer:
        onward = [each for each in _requests(peer, "tasks/list") if member(each, "params", "cursor") is not None]
        if not onward:
            raise NotTestable(f"{_LISTS} requested one page only")
        for request in onward:
            if member(request, "params", "cursor") != _CURSOR:
                raise Deviation(f"the cursor {_CURSOR!r}", brief(request))
