"""A server on FastMCP, the package `fastmcp`, which has an interface of its own on the official Python SDK.

python -m interop.peers.programs.server_fastmcp            over stdio
python -m interop.peers.programs.server_fastmcp PORT       over Streamable HTTP, at /mcp
"""

from __future__ import annotations

import sys

import mcp_types
from fastmcp import Context, FastMCP

from interop.peers.programs.offers import UserForm, add_offers

server = FastMCP("peer-fastmcp", version="1.0")
add_offers(server)
FORM = {
    "type": "object",
    "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
    "required": ["username", "email"],
}


@server.tool
async def test_elicitation(message: str, ctx: Context) -> object:
    """Request a form from the user."""
    if not ctx._is_modern_protocol():
        return str(await ctx.elicit(message, UserForm))
    answers = ctx.input_responses
    if answers is None:
        form = {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": message, "requestedSchema": FORM},
        }
        return mcp_types.InputRequiredResult.model_validate({"inputRequests": {"person": form}, "requestState": "open"})
    answer = answers["person"]
    # FastMCP does not validate the answers to input requests.
    person = UserForm.model_validate(answer.content, strict=True) if answer.action == "accept" else None
    return f"{message} {person}"


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Request a text from the model. FastMCP has no method of its own for this."""
    message = mcp_types.SamplingMessage(role="user", content=mcp_types.TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return answer.model_dump_json()


@server.tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """Change the list of tools and restore it."""
    await ctx.send_notification(mcp_types.ToolListChangedNotification())
    return "The list of tools has changed."


@server.tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Change the list of prompts and restore it."""
    await ctx.send_notification(mcp_types.PromptListChangedNotification())
    return "The list of prompts has changed."


if len(sys.argv) == 1:
    server.run("stdio", show_banner=False)
else:
    server.run("http", port=int(sys.argv[1]), log_level="WARNING", show_banner=False)
