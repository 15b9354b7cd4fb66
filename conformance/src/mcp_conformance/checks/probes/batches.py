"""A batch of JSON-RPC messages, and the responses to its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.stdio_connection import StdioConnection
from mcp_conformance.drivers.server.suite_connection import encoded

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["send_batch"]


async def send_batch(
    peer: SuiteConnection, batch: list[JsonValue], answers: int, *, deviant: str = ""
) -> list[JsonObject]:
    """Send a batch, and return its responses: as many as expected, or all when no more can follow."""
    if isinstance(peer, HttpConnection):
        answer = await peer.send(encoded(batch), headers=peer.headers(batch), deviant=deviant)
        found = messages_of(answer)
    else:
        known = len(peer.strays)
        await peer.post(batch, deviant=deviant)
        found = []
        await peer.until(lambda: len(peer.strays) - known >= answers or _ended(peer), f"{answers} responses to a batch")
        # All responses to the batch precede this one.
        await peer.fence()
        found = peer.strays[known:]
    return [each for each in found if "method" not in each]


def _ended(peer: SuiteConnection) -> bool:
    return isinstance(peer, StdioConnection) and peer.ended
