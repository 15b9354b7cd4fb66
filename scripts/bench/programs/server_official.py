"""The same server, made with the official SDK."""

from __future__ import annotations

import sys

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")


@server.tool()
async def echo(text: str, times: int = 1) -> str:
    """Return the text.

    Args:
        text: The text.
        times: The number of repetitions.
    """
    return text * times


@server.tool()
async def wait(text: str) -> str:
    """Return the text after a millisecond.

    Args:
        text: The text.
    """
    await anyio.sleep(0.001)
    return text


async def do_nothing(city: str, days: int = 3, unit: str = "celsius") -> str:
    """Do nothing, with a signature of the usual length.

    Args:
        city: The city.
        days: How many days.
        unit: The unit.
    """
    return f"{city} {days} {unit}"


for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 0):
    server.add_tool(do_nothing, name=f"tool_{number}")

server.run("stdio")
