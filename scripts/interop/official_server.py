"""A server with one feature of each kind, made with the official SDK, for the client of this project.

    python official_server.py [http | http-json | sse]

Over HTTP, the first line that it prints is its port. The default is stdio.
"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Annotated

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp.types import Completion, CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

if TYPE_CHECKING:
    from starlette.applications import Starlette

server = MCPServer("official", instructions="For tests.")


class Forecast(BaseModel):
    """A weather forecast."""

    city: str
    degrees: float


class Choice(BaseModel):
    """The fields of the form."""

    color: str


async def ask_color() -> Elicit[Choice]:
    """Request the color from the user."""
    return Elicit("Which color?", Choice)


async def ask_model() -> Sample:
    """Request a text from the client's model."""
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say hello"))], max_tokens=10)


async def ask_roots() -> ListRoots:
    """Request the roots."""
    return ListRoots()


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
async def forecast(city: str) -> Forecast:
    """Return a weather forecast."""
    return Forecast(city=city, degrees=21.5)


@server.tool()
async def fail() -> str:
    """Fail always."""
    raise ValueError("it failed on purpose")


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    """Report progress."""
    for number in range(count):
        await ctx.report_progress(number + 1, count, f"step {number + 1}")
    return f"{count} steps"


@server.tool()
async def paint(choice: Annotated[Choice, Resolve(ask_color)]) -> str:
    """Request a color from the user."""
    return f"painted {choice.color}"


@server.tool()
async def think(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Request a text from the client's model."""
    return f"the model said {answer.content.text if isinstance(answer.content, TextContent) else answer.content}"


@server.tool()
async def where(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Return the roots."""
    return " ".join(str(root.uri) for root in roots.roots)


@server.tool()
async def touch(ctx: Context) -> str:
    """Notify about a changed resource."""
    await ctx.notify_resource_updated("note://one")
    await ctx.notify_tools_changed()
    return "touched"


@server.resource("note://one")
def one() -> str:
    """A note."""
    return "the first note"


@server.resource("note://by-name/{name}")
def by_name(name: str) -> str:
    """Any note."""
    return f"the note {name}"


@server.prompt()
def greet(name: str) -> str:
    """Greets."""
    return f"Hello {name}"


@server.completion()
async def complete(ref: object, argument: object, context: object) -> Completion:
    """Complete every argument in the same way."""
    return Completion(values=["alice", "bob"], has_more=False)


async def serve(app: Starlette) -> None:
    """Serve over HTTP until the process is ended."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listening])


transport = sys.argv[1] if len(sys.argv) > 1 else "stdio"
if transport == "stdio":
    server.run("stdio")
elif transport == "sse":
    anyio.run(serve, server.sse_app(host="127.0.0.1"))
else:
    anyio.run(serve, server.streamable_http_app(host="127.0.0.1", json_response=transport == "http-json"))
