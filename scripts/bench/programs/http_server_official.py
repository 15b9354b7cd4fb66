"""The same server over HTTP, made with the official SDK. The first line that it prints is its port.

`python http_server_official.py FORM LOOP PARSER`: FORM is `json` or `stream`, the form of responses; LOOP is `asyncio` or
`uvloop`, PARSER `h11` or `httptools`.
"""

from __future__ import annotations

import logging
import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("bench", log_level="CRITICAL")


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


@server.resource("note://one")
def note() -> str:
    """A note that changes."""
    return "a note"


@server.tool()
async def change(ctx: Context) -> str:
    """Notify about the changed note."""
    await ctx.notify_resource_updated("note://one")
    return "changed"


async def main() -> None:
    """Serve until the process is killed."""
    logging.disable(logging.CRITICAL)
    app = server.streamable_http_app(
        json_response=sys.argv[1] == "json", host="127.0.0.1", max_request_body_size=64 * 1024 * 1024, max_sessions=None
    )
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="critical", access_log=False, backlog=1024, http=sys.argv[3])
    await uvicorn.Server(config).serve(sockets=[listening])


anyio.run(main, backend_options={"use_uvloop": sys.argv[2] == "uvloop"})
