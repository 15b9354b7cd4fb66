"""A server of this project under uvicorn for the benchmark, with asyncio functions. The first line that it prints is its port.

`python http_server_asgi.py FORM LOOP PARSER`: FORM is `json` or `stream`, the form of responses; LOOP is `asyncio` or `uvloop`,
PARSER `h11` or `httptools`.
"""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_server import Server

server = Server("bench", version="1")


@server.tool()
async def echo(text: str, times: int = 1) -> str:
    """Return the text.

    Args:
        text: The text.
        times: The number of repetitions.
    """
    return text * times


def main() -> None:
    """Serve until the process is killed."""
    logging.disable(logging.CRITICAL)
    app = server.asgi(policy=EndpointPolicy(answer="stream" if sys.argv[1] == "stream" else "json"))
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, backlog=1024, loop=sys.argv[2], http=sys.argv[3]
    )
    uvicorn.Server(config).run(sockets=[listening])


main()
