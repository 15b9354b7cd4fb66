"""The transports: stdio, Streamable HTTP, HTTP+SSE."""

from __future__ import annotations

from mcp_client.transports.stdio.stream import ByteStream

__all__ = [
    "ByteStream",
]
