"""The server of scripts/bench/cluster_scale.py, run by `mcp-server run scale_server.py`. Its limits allow many clients."""

from __future__ import annotations

import attrs

from mcp_core.limits import SERVER_LIMITS
from mcp_server import Server

server = Server(
    "scale",
    version="1",
    limits=attrs.evolve(SERVER_LIMITS, connections=12_000, sessions=20_000, total_bytes=2**30),
)


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.resource("note://one")
def note() -> str:
    """A note that changes."""
    return "a note"


@server.tool
async def change() -> str:
    """Notify about the changed note."""
    server.resource_updated("note://one")
    return "changed"
