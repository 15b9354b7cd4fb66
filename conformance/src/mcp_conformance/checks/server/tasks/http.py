"""Tasks over HTTP: the rules of the transport for requests about tasks, and tasks on other connections."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.http_requests import EVIL, require, session, shown, succeeded, with_header
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.task_calls import DECLARED, begin, extended, id_of
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_LONG: Final[JsonObject] = {"seconds": 60, "label": "long"}
_ELSEWHERE: Final[JsonObject] = {"seconds": 60, "label": "elsewhere"}
_CONNECTIONS: Final = 3
_MEDIA_TYPES: Final = ("application/json", "text/event-stream")


@check(
    "tasks.http-rules",
    proves=("tasks.http-rules-hold",),
    transports=(Transport.HTTP,),
    subject=CheckScope.PROCESS,
)
async def http_rules(server: ServerUnderTest) -> None:
    """The rules of the transport hold for `tasks/get`: media type, Origin, protocol version and end of the session."""
    extended(server)
    name, arguments = server.tool("slow_compute", _LONG)
    async with session(server) as peer:
        created = await peer.request("tools/call", {"name": name, "arguments": arguments, "task": {"ttl": 60_000}})
        request = peer.message("tasks/get", {"taskId": member(created.result(), "task", "taskId")})
        control = await peer.look(headers=peer.headers(request), body=encoded(request))
        if not succeeded(control):
            raise NotTestable(f"the control request failed: {shown(control)}")
        if control.media_type not in _MEDIA_TYPES:
            raise Deviation(f"a response as {' or '.join(_MEDIA_TYPES)}", shown(control))
        for header, value, status in (
            ("Origin", f"https://{EVIL}", 403),
            ("MCP-Protocol-Version", "1999-01-01", 400),
        ):
            headers = with_header(peer.headers(request), header, value)
            answer = await peer.look(headers=headers, body=encoded(request), deviant=f"an invalid {header}")
            require(answer, {status}, f"tasks/get with {header}: {value}")
        await peer.request("tasks/cancel", {"taskId": member(created.result(), "task", "taskId")})
        if peer.session_id is None:
            return
        deleted = await peer.look("DELETE", headers=[*peer.settings.headers, *peer.session_headers()])
        if 200 <= deleted.status < 300:
            answer = await peer.look(headers=peer.headers(request), body=encoded(request), deviant="an ended session")
            peer.session_id = None
            require(answer, {404}, "tasks/get in a terminated session")


@check(
    "tasks.get-elsewhere",
    proves=("tasks.consistency-wait",),
    transports=(Transport.HTTP,),
    subject=CheckScope.RECOVERING,
)
async def get_elsewhere(server: ServerUnderTest) -> None:
    """`tasks/get` returns a task at once on each connection, whichever instance of the server receives it."""
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(server.open()) for _ in range(_CONNECTIONS)]
        task = id_of(server, await begin(server, "slow_compute", _ELSEWHERE))
        params: JsonObject = {"_meta": DECLARED, "taskId": task}
        for other in (server.peer, *others):
            answer = await other.request("tasks/get", params)
            if answer.is_error or answer.result().get("taskId") != task:
                raise Deviation(f"the task {task} on each connection", str(answer))
        await server.peer.request("tasks/cancel", params)
