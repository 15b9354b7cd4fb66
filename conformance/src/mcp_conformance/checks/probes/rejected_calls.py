"""Calls that the server must reject before they have an effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.checks.probes.http_requests import http_peer, shown
from mcp_conformance.checks.probes.waiting_call import outcome_of, waiting_call
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotTestable

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_conformance.checks.probes.http_requests import Headers
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["require_no_effect"]


async def require_no_effect(server: ServerUnderTest, change: Callable[[Headers], Headers], what: str) -> None:
    """Require that a call which is rejected for its headers does not run: it would release another call that waits.

    Args:
        server: The server.
        change: Returns the headers for which the server must reject the call.
        what: The rule that the headers break.

    Raises:
        Deviation: The call has run.
        NotTestable: The server lacks the tools, or does not reject the call, which is the subject of other checks.
    """
    peer = http_peer(server)
    server.tool("conformance_outcome")
    async with waiting_call(server) as key:
        name, arguments = server.tool("conformance_release", {"key": key})
        request = peer.message("tools/call", {"name": name, "arguments": arguments})
        answer = await peer.look(headers=change(peer.headers(request)), body=encoded(request), deviant=what)
        if answer.status < 400:
            raise NotTestable(f"the server does not reject {what}: {shown(answer)}")
        # These are served after the call has run, if it does.
        for _ in range(2):
            await peer.fence()
        if (outcome := await outcome_of(server, key)) != "running":
            raise Deviation(
                f"no effect of {what}", f"the call that it releases is {outcome}, after HTTP {answer.status}"
            )
