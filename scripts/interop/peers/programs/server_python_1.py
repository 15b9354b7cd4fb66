"""A server on the official Python SDK 1.x.

python -m interop.peers.programs.server_python_1            over stdio
python -m interop.peers.programs.server_python_1 PORT       over Streamable HTTP, at /mcp
python -m interop.peers.programs.server_python_1 PORT sse   over HTTP+SSE, at /sse
"""

from __future__ import annotations

import sys

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

from interop.peers.programs.offers import UserForm, add_offers

port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
server = FastMCP("peer-python-1", port=port, log_level="WARNING")
add_offers(server)


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Request a form from the user."""
    return str(await ctx.elicit(message, UserForm))


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Request a text from the model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return answer.model_dump_json()


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Change the list of tools and restore it."""
    await ctx.session.send_tool_list_changed()
    return "The list of tools has changed."


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Change the list of prompts and restore it."""
    await ctx.session.send_prompt_list_changed()
    return "The list of prompts has changed."


if port == 0:
    server.run("stdio")
else:
    server.run("sse" if sys.argv[2:] == ["sse"] else "streamable-http")
