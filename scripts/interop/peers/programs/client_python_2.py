"""A client on the official Python SDK 2.x: `python -m interop.peers.programs.client_python_2 URL`, or a server command."""

from __future__ import annotations

import os
import sys

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from interop.peers.programs.tour import answer, scenario, tour


async def fill_in(context: object, params: object) -> ElicitResult:
    """Answer an elicitation."""
    action, content = answer(getattr(params, "requested_schema", None))
    return ElicitResult(action=action, content=content)


async def think(context: object, params: object) -> CreateMessageResult:
    """Return a short answer of the model."""
    return CreateMessageResult(role="assistant", model="none", content=TextContent(type="text", text="Yes."))


async def roots(context: object) -> ListRootsResult:
    """Return one root."""
    return ListRootsResult(roots=[Root(uri="file:///nowhere")])


async def main(words: list[str]) -> None:
    """Connect and run the tour."""
    server: object = words[0]
    if not words[0].startswith("http"):
        server = StdioServerParameters(command=words[0], args=words[1:])
    elif words[0].endswith("/sse"):
        server = sse_client(words[0])
    handlers = (
        {}
        if scenario == "conformance_asks_undeclared"
        else {"sampling_callback": think, "elicitation_callback": fill_in, "list_roots_callback": roots}
    )
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
    # Of the legacy revisions, the SDK always offers the latest.
    mode = "auto" if revision is None else revision if revision == "2026-07-28" else "legacy"
    async with Client(server, mode=mode, **handlers) as client:
        # With a given revision, the client has not requested the capabilities of the server yet.
        await tour(client, None if mode == revision else client.server_capabilities)
        if scenario == "conformance_roots_change":
            await client.send_roots_list_changed()


anyio.run(main, sys.argv[1:])
