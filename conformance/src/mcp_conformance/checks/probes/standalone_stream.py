"""The notifications on a stream that a client opens by GET."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.checks.probes.http_requests import ACCEPT_STREAM
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.wire.http_client import IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.framing.sse import Event
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["causing_call", "notified_events"]

_CHANGES: Final = 10
"""The most changes until enough are notified: a server notices only after some time that a stream was closed."""
_ENOUGH: Final = 2


def causing_call(server: ServerUnderTest) -> tuple[str, JsonObject, str]:
    """Return a tool that causes a notification, its arguments, and the resource that it updates, or the empty string.

    Raises:
        NotTestable: The server has no such tool.
    """
    with suppress(NotTestable):
        if server.inventory.has("resources.subscribe"):
            watched = server.require("resources", "test://watched-resource")
            return *server.tool("conformance_touch_resource", {"uri": watched}), watched
    return *server.tool("test_trigger_tool_change"), ""


async def notified_events(
    server: ServerUnderTest, peer: HttpConnection, *, most: int = _CHANGES, pause: float = 0.0
) -> list[Event]:
    """Open a stream by GET, cause notifications until some arrive on it, close it, and return its events.

    Args:
        server: The server.
        peer: The session.
        most: The most changes until enough are notified.
        pause: The time between two changes in seconds.

    Returns:
        The events; empty if the server does not offer the stream, or sends its notifications elsewhere.

    Raises:
        NotTestable: The server has no tool that causes a notification, or a call has no response.
    """
    name, arguments, watched = causing_call(server)
    events: list[Event] = []
    headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
    async with peer.open_exchange("GET", headers) as exchange, open_nursery() as nursery:
        if exchange.status != 200 or exchange.media_type != "text/event-stream":
            return []

        async def read() -> None:
            with suppress(IncompleteResponse):
                while (event := await exchange.next_event()) is not None:
                    events.append(event)
                    if event.data:
                        await peer.take(peer.transcript.message(event.data, sent=False))

        nursery.start_soon(read)
        try:
            if watched:
                await peer.request("resources/subscribe", {"uri": watched})
            for _ in range(most):
                await peer.request("tools/call", {"name": name, "arguments": arguments})
                # The events after the first one are those of its resumption.
                if sum(1 for event in events if event.data) >= _ENOUGH:
                    break
                await trio.sleep(pause)
        except Deviation as deviation:
            raise NotTestable(f"the control request failed: {deviation}") from deviation
        nursery.cancel_scope.cancel()
    return events
