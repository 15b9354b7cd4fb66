"""A server made with the official SDK, with one of everything, for our client to drive.

    python official_server.py [http | http-json | sse]

Over stdio, or over HTTP; then the first line that it prints is its port.
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
    """What the weather will be."""

    city: str
    degrees: float


class Choice(BaseModel):
    """What the user is asked for."""

    colour: str


async def ask_colour() -> Elicit[Choice]:
    """Asks the user."""
    return Elicit("Which colour?", Choice)


async def ask_model() -> Sample:
    """Asks the client's model."""
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say hello"))], max_tokens=10)


async def ask_roots() -> ListRoots:
    """Asks for the roots."""
    return ListRoots()


@server.tool()
async def echo(text: str) -> str:
    """Gives the text back."""
    return text


@server.tool()
async def forecast(city: str) -> Forecast:
    """Says what the weather will be."""
    return Forecast(city=city, degrees=21.5)


@server.tool()
async def fail() -> str:
    """Always fails."""
    raise ValueError("it went wrong")


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    """Reports progress."""
    for number in range(count):
        await ctx.report_progress(number + 1, count, f"step {number + 1}")
    return f"{count} steps"


@server.tool()
async def paint(choice: Annotated[Choice, Resolve(ask_colour)]) -> str:
    """Asks the user for a colour."""
    return f"painted {choice.colour}"


@server.tool()
async def think(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks the client's model."""
    return f"the model said {answer.content.text if isinstance(answer.content, TextContent) else answer.content}"


@server.tool()
async def where(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Tells the roots."""
    return " ".join(str(root.uri) for root in roots.roots)


@server.tool()
async def touch(ctx: Context) -> str:
    """Says that a resource changed."""
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
    """Completes every argument alike."""
    return Completion(values=["alice", "bob"], has_more=False)


async def serve(app: Starlette) -> None:
    """Serves over HTTP until the process is ended."""
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
