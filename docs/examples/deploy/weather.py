"""A stateless server for several processes: it serves only revisions without sessions."""

from mcp_core.revisions import MODERN
from mcp_server import Server

server = Server("weather", version="1.0", revisions=MODERN)


@server.tool
async def forecast(city: str) -> str:
    """Return the weather forecast."""
    return f"{city}: sun"
