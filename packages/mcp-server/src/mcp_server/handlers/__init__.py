"""The calls of a server author's functions, and the objects that these functions receive."""

from __future__ import annotations

from mcp_server.handlers.access import AccessKind
from mcp_server.handlers.input_required import Answer, ClientRequestParams

__all__ = [
    "AccessKind",
    "Answer",
    "ClientRequestParams",
]
