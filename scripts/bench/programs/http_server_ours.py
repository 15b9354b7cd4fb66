"""A server of this project over HTTP for the benchmark. The first line that it prints is its port.

`python http_server_ours.py FORM`: FORM is `json` or `stream`, the form of responses.
"""

from __future__ import annotations

import sys

import trio

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.limits import Limits
from mcp_server import Server, serve_http

MIB = 1024 * 1024
server = Server("bench", version="1", limits=Limits(message_bytes=64 * MIB, outgoing_bytes=64 * MIB))


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


@server.resource("note://one")
def note() -> str:
    """A note that changes."""
    return "a note"


@server.tool()
async def change() -> str:
    """Notify about the changed note."""
    server.resource_updated("note://one")
    return "changed"


async def main() -> None:
    """Serve until the process is killed."""
    policy = EndpointPolicy(answer="stream" if sys.argv[1] == "stream" else "json")
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(lambda **started: serve_http(server, "127.0.0.1:0", policy=policy, **started))
        print(urls[0].rpartition(":")[2].partition("/")[0], flush=True)


trio.run(main)
