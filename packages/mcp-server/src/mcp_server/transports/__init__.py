"""The HTTP transports of a server: Streamable HTTP, and HTTP+SSE."""

from __future__ import annotations

from mcp_server.transports.http.endpoint import HttpEndpoint

__all__ = [
    "HttpEndpoint",
]
