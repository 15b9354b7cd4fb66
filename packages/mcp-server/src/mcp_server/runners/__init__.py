"""Run a server over stdio, a stream or HTTP, until it is cancelled."""

from __future__ import annotations

from mcp_server.runners.http import ServeHttpOptions

__all__ = [
    "ServeHttpOptions",
]
