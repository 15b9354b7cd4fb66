"""The host and the origin by which a client reached the fake server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.drivers.client.http_host import PostSink

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest

__all__ = ["origin_of", "reached_host"]


def reached_host(request: ScriptedRequest) -> str:
    """Return the host and port by which the client reached the server."""
    sink = request.sink
    host = sink.exchange.header("host") if isinstance(sink, PostSink) else None
    return host or "localhost"


def origin_of(request: ScriptedRequest) -> str:
    """Return the origin by which the client reached the server."""
    return f"http://{reached_host(request)}"
