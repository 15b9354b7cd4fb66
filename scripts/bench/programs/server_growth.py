"""A server over stdio with a given number of tools, resources or templates, or for tasks: `python server_growth.py KIND COUNT`."""

from __future__ import annotations

import sys

import trio

from mcp_core.limits import Limits
from mcp_server import Server, serve_stdio

MANY = 200_000
server = Server("growth", version="1", limits=Limits(tasks=MANY, running_tasks=MANY, task_bytes=1024**3))


async def echo(text: str, times: int = 1) -> str:
    """Return the text.

    Args:
        text: The text.
        times: The number of repetitions.
    """
    return text * times


async def note() -> str:
    """Return a note."""
    return "hello"


async def named_note(name: str) -> str:
    """Return a note with a name.

    Args:
        name: The name.
    """
    return f"hello {name}"


async def hold() -> str:
    """Run as a task that never ends."""
    await trio.Event().wait()
    return "never"


kind, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    if kind == "tools":
        server.add_tool(echo, name=f"tool_{number}")
    elif kind == "tasks":
        server.add_tool(hold, task="required")
        break
    elif kind == "resources":
        server.add_resource(note, f"note://{number}", name=f"note_{number}")
    else:
        server.add_resource(named_note, f"note://{number}/{{name}}", name=f"note_{number}")

trio.run(serve_stdio, server)
