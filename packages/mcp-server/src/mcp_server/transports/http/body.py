"""The body of one HTTP request, charged to the memory budget while it is received.

A body that comes in one piece is not charged here: the host holds it already, and the request that it becomes is charged
as soon as the body is complete.
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

__all__ = ["memory_owner", "receive_body"]

_OVERHEAD: Final = 4
"""The pieces of a body take up to a quarter more memory than the body: the system gives them in blocks."""


def memory_owner(principal: str | None, session: str | None, scope: Scope) -> Hashable:
    """Return who is charged for a request: the principal, else the session that it names, else the connection.

    A session id that does not exist does no harm: it is an owner of its own, as another connection would be.

    Args:
        principal: The authenticated principal, by `Principal.key`.
        session: The session id that the request names.
        scope: The ASGI scope of the request.
    """
    if principal is not None:
        return "principal", principal
    if session:
        return "session", session
    client = scope.get("client")
    # A host that knows no addresses makes each request an owner of its own.
    return tuple(client) if isinstance(client, (tuple, list)) else id(scope)


async def receive_body(
    receive: Receive, charge: MemoryCharge, responses: Responses, limits: Limits
) -> bytes | Refusal | None:
    """Receive the body of a request.

    Args:
        receive: The request, as ASGI has it.
        charge: A droppable charge. It grows with the body.
        responses: Makes the refusals.
        limits: `message_bytes` and `total_bytes` hold here.

    Returns:
        The body; a refusal when it is too large, or when the memory budget is exhausted; `None` when the client left
        before the end of the body.
    """
    message = await receive()
    part = _part(message)
    if part is None or not message.get("more_body", False):
        return responses.too_large(len(part)) if part is not None and len(part) > limits.message_bytes else part
    parts, size = [part], len(part)
    with trio.CancelScope() as scope:
        charge.on_drop = scope.cancel
        while charge.dropped is None:
            if size > limits.message_bytes:
                return responses.too_large(size)
            try:
                charge.resize(size + size // _OVERHEAD)
            except LimitExceeded as excess:
                return responses.busy(excess, own=_is_of_principal(charge))
            message = await receive()
            part = _part(message)
            if part is None:
                return None
            parts.append(part)
            size += len(part)
            if not message.get("more_body", False):
                return b"".join(parts) if size <= limits.message_bytes else responses.too_large(size)
    return None if charge.dropped is None else responses.busy(charge.dropped, own=_is_of_principal(charge))


def _part(message: Message) -> bytes | None:
    """Return a part of the body; `None` when the client has left."""
    if message["type"] == "http.disconnect":
        return None
    part = message.get("body", b"")
    return part if isinstance(part, bytes) else b""


def _is_of_principal(charge: MemoryCharge) -> bool:
    return isinstance(charge.owner, tuple) and charge.owner[0] == "principal"
