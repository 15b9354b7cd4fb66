"""A server over HTTP for many sessions and subscriptions. The first line that it prints is its port."""

from __future__ import annotations

import trio

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.limits import Limits
from mcp_server import Server, serve_http

GIB = 1024**3
server = Server(
    "growth", version="1", limits=Limits(connections=20_000, sessions=200_000, stored_bytes=GIB, total_bytes=8 * GIB)
)


@server.tool()
async def echo(text: str) -> str:
    """Return the text.

    Args:
        text: The text.
    """
    return text


@server.resource("note://{number}")
def note(number: str) -> str:
    """A note that changes.

    Args:
        number: The number of the note.
    """
    return number


@server.tool()
async def change() -> str:
    """Notify about a changed note."""
    server.resource_updated("note://one")
    return "changed"


async def main() -> None:
    """Serve until the process is killed."""
    policy = EndpointPolicy(answer="json")
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(lambda **started: serve_http(server, "127.0.0.1:0", policy=policy, **started))
        print(urls[0].rpartition(":")[2].partition("/")[0], flush=True)


trio.run(main)
