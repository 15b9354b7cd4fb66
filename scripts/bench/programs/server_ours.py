"""A server of this project for the benchmark: an echo, and a given number of tools."""

from __future__ import annotations

import sys

import trio

from mcp_core.limits import Limits
from mcp_server import Server, serve_stdio

server = Server("bench", version="1", limits=Limits(message_bytes=64 * 1024 * 1024, outgoing_bytes=64 * 1024 * 1024))


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
    await trio.sleep(0.001)
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

trio.run(serve_stdio, server)
