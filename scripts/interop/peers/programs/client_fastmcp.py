"""A client on FastMCP: `python -m interop.peers.programs.client_fastmcp URL`, or a server command."""

from __future__ import annotations

import os
import sys

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp_types import CreateMessageResult, TextContent

from interop.peers.programs.tour import answer, scenario, tour


async def fill_in(message: str, response_type: object, params: object, context: object) -> ElicitResult:
    """Answer an elicitation."""
    action, content = answer(getattr(params, "requested_schema", None))
    return ElicitResult(action=action, content=content)


async def think(messages: object, params: object, context: object) -> CreateMessageResult:
    """Return a short answer of the model."""
    return CreateMessageResult(role="assistant", model="none", content=TextContent(type="text", text="Yes."))


class ProtocolClient:
    """The methods of the protocol, which FastMCP has beside those that return only a part of a result."""

    def __init__(self, client: Client) -> None:
        self.list_tools = client.list_tools_mcp
        self.call_tool = client.call_tool_mcp
        self.list_resources = client.list_resources_mcp
        self.list_resource_templates = client.list_resource_templates_mcp
        self.read_resource = client.read_resource_mcp
        self.list_prompts = client.list_prompts_mcp
        self.get_prompt = client.get_prompt_mcp
        self.complete = client.complete_mcp


async def main(words: list[str]) -> None:
    """Connect and run the tour."""
    server = words[0] if words[0].startswith("http") else StdioTransport(words[0], words[1:], env=dict(os.environ))
    handlers = (
        {}
        if scenario == "conformance_asks_undeclared"
        else {"sampling_handler": think, "elicitation_handler": fill_in, "roots": ["file:///nowhere"]}
    )
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
    # Of the legacy revisions, the SDK always offers the latest.
    mode = "auto" if revision is None else revision if revision == "2026-07-28" else "legacy"
    async with Client(server, mode=mode, **handlers) as client:
        # With a given revision, the client has not requested the capabilities of the server yet.
        await tour(ProtocolClient(client), None if mode == revision else client.server_capabilities)
        if scenario == "conformance_roots_change":
            await client.send_roots_list_changed()


anyio.run(main, sys.argv[1:])
