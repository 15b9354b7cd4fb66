"""The order of a response and the notifications of its request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.checks.probes.http_requests import read_stream
from mcp_conformance.checks.probes.message_pairs import key_of, objects
from mcp_conformance.drivers.server.http_connection import HttpConnection

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["after_response"]

_FENCES = 2
"""The number of later requests."""


async def after_response(
    server: ServerUnderTest, params: JsonObject, method: str, *, of: str = "tools/call"
) -> list[JsonObject]:
    """Send a request, and return the notifications of a method that follow the response.

    Over HTTP these are notifications on the same stream, or on the stream of a request that was sent after the response.
    On other streams they may arrive later than a response although they were sent before it.

    Args:
        server: The server.
        params: The params of the request.
        method: The method of the notifications.
        of: The method of the request.

    Raises:
        NotApplicable: Over HTTP the response is not in a stream, so that nothing can follow it.
    """
    peer = server.peer
    request = peer.message(of, params)
    if isinstance(peer, HttpConnection):
        received = (await read_stream(peer, request)).messages
        for _ in range(_FENCES):
            received += (await peer.fence()).before
    else:
        await peer.exchange(request)
        for _ in range(_FENCES):
            await peer.fence()
        received = [message for entry in peer.transcript if not entry.sent for message in objects(entry)]
    answers = [
        number
        for number, message in enumerate(received)
        if "method" not in message and key_of(message.get("id")) == key_of(request["id"])
    ]
    # Whether there is a response at all is the subject of other checks.
    return [each for each in received[answers[-1] :] if each.get("method") == method] if answers else []
