"""A client on the official Python SDK 1.x: `python -m interop.peers.programs.client_python_1 URL`, or a server command."""

from __future__ import annotations

import sys

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from interop.peers.programs.tour import answer, scenario, tour


async def fill_in(context: object, params: object) -> ElicitResult:
    """Answer an elicitation."""
    action, content = answer(getattr(params, "requestedSchema", None))
    return ElicitResult(action=action, content=content)


async def think(context: object, params: object) -> CreateMessageResult:
    """Return a short answer of the model."""
    return CreateMessageResult(role="assistant", model="none", content=TextContent(type="text", text="Yes."))


async def roots(context: object) -> ListRootsResult:
    """Return one root."""
    return ListRootsResult(roots=[Root(uri="file:///nowhere")])


async def main(words: list[str]) -> None:
    """Connect and run the tour."""
    if not words[0].startswith("http"):
        opening = stdio_client(StdioServerParameters(command=words[0], args=words[1:]))
    elif words[0].endswith("/sse"):
        opening = sse_client(words[0])
    else:
        opening = streamable_http_client(words[0])
    handlers = (
        {}
        if scenario == "conformance_asks_undeclared"
        else {"sampling_callback": think, "elicitation_callback": fill_in, "list_roots_callback": roots}
    )
    async with opening as streams, ClientSession(streams[0], streams[1], **handlers) as session:
        opened = await session.initialize()
        await session.send_ping()
        await tour(session, opened.capabilities)
        if scenario == "conformance_roots_change":
            await session.send_roots_list_changed()


anyio.run(main, sys.argv[1:])
