"""A stdio server for a bridge to start: `bridged_server.py LOG` writes to LOG when it starts and when a session ends."""

from __future__ import annotations

import logging
import sys

import trio

from mcp_server import Server, serve_stdio

server = Server("bridged", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    logging.basicConfig(filename=sys.argv[1], level=logging.INFO, format="%(message)s")
    logging.getLogger("bridged").info("process started")
    trio.run(serve_stdio, server)
