"""A server on the official Python SDK 1.x.

python -m interop.peers.programs.server_python_1            over its pipes
python -m interop.peers.programs.server_python_1 PORT       over Streamable HTTP, at /mcp
python -m interop.peers.programs.server_python_1 PORT sse   over HTTP+SSE, at /sse
"""

from __future__ import annotations

import sys

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

from interop.peers.programs.offers import Person, add_offers

port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
server = FastMCP("peer-python-1", port=port, log_level="WARNING")
add_offers(server)


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    return str(await ctx.elicit(message, Person))


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the model."""
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([asked], max_tokens=100, related_request_id=ctx.request_id)
    return answer.model_dump_json()


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Changes the list of tools and changes it back."""
    await ctx.session.send_tool_list_changed()
    return "The list of tools has changed."


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Changes the list of prompts and changes it back."""
    await ctx.session.send_prompt_list_changed()
    return "The list of prompts has changed."


if port == 0:
    server.run("stdio")
else:
    server.run("sse" if sys.argv[2:] == ["sse"] else "streamable-http")
