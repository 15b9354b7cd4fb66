"""The body of an HTTP request, charged to the memory budget while it is received.

A body that arrives in one part is not charged here: the host already holds it, and the request in it is charged when
the body is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Hashable

    from mcp_core.http.responses import Refusal, Responses
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.asgi import Message, Receive, Scope

__all__ = ["is_of_principal", "memory_owner", "receive_body"]

_OVERHEAD: Final = 4
"""Divisor for the overhead: the parts of a body use up to 1/4 more memory than its bytes, because of block sizes."""


def memory_owner(principal: str | None, session: str | None, scope: Scope) -> Hashable:
    """Return the owner of the memory of a request: the principal, else its session, else the connection.

    A session id that does not exist is harmless: it is a separate owner, as another connection would be.

    Args:
        principal: The authenticated principal, by `Principal.key`.
        session: The session id in the request.
        scope: The ASGI scope of the request.
    """
    if principal is not None:
        return "principal", principal
    if session:
        return "session", session
    client = scope.get("client")
    # If the host reports no addresses, each request is a separate owner.
    return tuple(client) if isinstance(client, (tuple, list)) else id(scope)


async def receive_body(
    receive: Receive, charge: MemoryCharge, responses: Responses, limits: Limits
) -> bytes | Refusal | None:
    """Receive the body of a request.

    Args:
        receive: The ASGI `receive` of the request.
        charge: A droppable charge. It grows with the body.
        responses: Creates the rejections.
        limits: The limits. This function uses `message_bytes`.

    Returns:
        The body; a rejection if the body is too large or the memory budget is exhausted; `None` if the client
        disconnected before the end of the body.
    """
    message = await receive()
    part = _part(message)
    if part is None:
        return None
    if not message.get("more_body", False):
        return part if len(part) <= limits.message_bytes else responses.too_large(len(part))
    parts, size = [part], len(part)
    with trio.CancelScope() as scope:
        charge.on_drop = scope.cancel
        while charge.dropped is None:
            if size > limits.message_bytes:
                return responses.too_large(size)
            try:
                charge.resize(size + size // _OVERHEAD)
            except LimitExceeded as excess:
                return responses.busy(excess, own=is_of_principal(charge))
            message = await receive()
            part = _part(message)
            if part is None:
                return None
            parts.append(part)
            size += len(part)
            if not message.get("more_body", False):
                return b"".join(parts) if size <= limits.message_bytes else responses.too_large(size)
    return None if charge.dropped is None else responses.busy(charge.dropped, own=is_of_principal(charge))


def _part(message: Message) -> bytes | None:
    """Return a part of the body; `None` if the client has disconnected."""
    if message["type"] == "http.disconnect":
        return None
    part = message.get("body", b"")
    return part if isinstance(part, bytes) else b""


def is_of_principal(charge: MemoryCharge) -> bool:
    """Return whether a principal is charged, so that its own requests use the capacity."""
    return isinstance(charge.owner, tuple) and charge.owner[0] == "principal"
