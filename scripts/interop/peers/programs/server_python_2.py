"""A server on the official Python SDK 2.x.

python -m interop.peers.programs.server_python_2            over stdio
python -m interop.peers.programs.server_python_2 PORT       over Streamable HTTP, at /mcp
python -m interop.peers.programs.server_python_2 PORT sse   over HTTP+SSE, at /sse
"""

from __future__ import annotations

import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp.types import CreateMessageResult, SamplingMessage, TextContent

from interop.peers.programs.offers import UserForm, add_offers

server = MCPServer("peer-python-2", version="1.0", log_level="WARNING")
add_offers(server)


async def ask_user(message: str) -> Elicit[UserForm]:
    """Request a form from the user."""
    return Elicit(message, UserForm)


async def ask_model(prompt: str) -> Sample:
    """Request a text from the client's model."""
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text=prompt))], max_tokens=100)


@server.tool()
async def test_elicitation(message: str, person: Annotated[UserForm, Resolve(ask_user)]) -> str:
    """Request a form from the user."""
    return f"{message} {person.username}"


@server.tool()
async def test_sampling(prompt: str, answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Request a text from the model."""
    return f"{prompt} {answer.model_dump_json()}"


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Change the list of tools and restore it."""
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "The list of tools has changed."


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Change the list of prompts and restore it."""
    await ctx.session.send_prompt_list_changed()
    await ctx.notify_prompts_changed()
    return "The list of prompts has changed."


@server.tool()
async def conformance_touch_resource(uri: str, ctx: Context) -> str:
    """Notify about a changed resource."""
    await ctx.notify_resource_updated(uri)
    return f"{uri} has changed."


@server.tool()
async def conformance_change_resources(ctx: Context) -> str:
    """Change the list of resources and restore it."""
    await ctx.session.send_resource_list_changed()
    await ctx.notify_resources_changed()
    return "The list of resources has changed."


if len(sys.argv) == 1:
    server.run("stdio")
elif sys.argv[2:] == ["sse"]:
    server.run("sse", port=int(sys.argv[1]))
else:
    server.run("streamable-http", port=int(sys.argv[1]))
