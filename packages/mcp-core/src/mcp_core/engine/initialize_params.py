"""What a server keeps of a client's `initialize` for as long as the session lasts.

A client may send megabytes in members that have no meaning here. Only the members that a server uses are kept, and
their JSON is bounded by `Limits.handshake_bytes`.

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
    # Icons may be images of a hundred kilobytes, which a server shows nowhere.
    "clientInfo": frozenset({"name", "version", "title", "description", "websiteUrl"}),
}
"""The members that are kept, and which of their members; `None`: the whole value."""


def kept_handshake(params: JsonObject, allowed: int) -> JsonObject:
    """Return the part of the parameters of `initialize` that is kept.

    Args:
        params: The parameters as they came. Values of a wrong type are kept, for the caller to reject.
        allowed: `Limits.handshake_bytes`.

    Raises:
        LimitExceeded: The part is too large.
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
