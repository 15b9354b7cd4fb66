"""The part of a client's `initialize` parameters that a server stores for the lifetime of the session.

A client may send megabytes in members that have no meaning for the server. The server stores only the members that it
uses. Their JSON is limited to `Limits.handshake_bytes`.

Spec: basic/lifecycle#initialization (until 2025-11-25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import LimitExceeded
from mcp_core.jsonrpc.text import write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["kept_handshake"]

_KEPT: Final[Mapping[str, frozenset[str] | None]] = {
    "protocolVersion": None,
    "capabilities": frozenset({"roots", "sampling", "elicitation", "tasks", "experimental", "extensions"}),
    # Icons can be images of a hundred kilobytes, and a server does not display them.
    "clientInfo": frozenset({"name", "version", "title", "description", "websiteUrl"}),
}
"""The members to store, each with the names of its stored members; `None` stores the whole value."""


def kept_handshake(params: JsonObject, allowed: int) -> JsonObject:
    """Return the part of the parameters of `initialize` to store.

    Args:
        params: The parameters as received. Values of a wrong type are retained, for the caller to reject.
        allowed: `Limits.handshake_bytes`.

    Raises:
        LimitExceeded: The JSON of the part has more than `allowed` bytes.
    """
    kept: JsonObject = {}
    for name, members in _KEPT.items():
        if name not in params:
            continue
        value = params[name]
        if members is not None and isinstance(value, dict):
            value = {member: value[member] for member in value if member in members}
        kept[name] = value
    size = len(write(kept))
    if size > allowed:
        raise LimitExceeded(
            "protocolVersion, capabilities and clientInfo of initialize, in bytes",
            observed=size,
            allowed=allowed,
            setting="Limits.handshake_bytes",
        )
    return kept
