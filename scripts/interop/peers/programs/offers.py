"""The features of the servers in Python: the fixtures of the suite, as far as the SDK allows them.

Both major versions of the official SDK and FastMCP share this module: they register features in nearly the same way. There is
no audio: 2024-11-05 has no such content, and the registered features are the same in each revision.
"""

from __future__ import annotations

import base64
import json
from typing import Annotated

import anyio

try:
    from fastmcp import Context
    from fastmcp import FastMCP as MCPServer
    from fastmcp.prompts import Message
    from fastmcp.utilities.types import Image
    from mcp import MCPError
except ImportError:
    # The official SDK.
    Message = None
    try:
        from mcp import MCPError
        from mcp.server.mcpserver import Context, Image, MCPServer
    except ImportError:
        # 1.x
        from mcp import McpError as MCPError
        from mcp.server.fastmcp import Context, Image
        from mcp.server.fastmcp import FastMCP as MCPServer
from mcp.types import (
    Completion,
    EmbeddedResource,
    ErrorData,
    ImageContent,
    PromptReference,
    TextResourceContents,
)
from pydantic import BaseModel, Field

__all__ = ["UserForm", "add_offers"]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
CANDIDATES = tuple(f"word{number:03}" for number in range(150))
WORDS = ("test", "testing", "tested")
STEP = 0.02

waiting: dict[str, tuple[anyio.Event, list[str]]] = {}
"""The events that release calls of `conformance_wait`, and the outcomes of the calls, by key."""


class UserForm(BaseModel):
    """The fields of a form."""

    username: str
    email: str


class StructuredNumber(BaseModel):
    """A number, as data."""

    value: float


def embedded(uri: str) -> EmbeddedResource:
    """Return an embedded resource."""
    contents = TextResourceContents.model_validate(
        {"uri": uri, "mimeType": "text/plain", "text": "An embedded resource."}
    )
    return EmbeddedResource(type="resource", resource=contents)


def add_offers(server: MCPServer) -> None:
    """Register all features without client requests."""
    for function in TOOLS:
        server.tool()(function)
    # By default the SDK 1.x and FastMCP make an output schema of any annotation.
    without_schema = {"structured_output": False} if Message is None else {"output_schema": None}
    server.tool(**without_schema)(test_embedded_resource)
    server.tool(**without_schema)(test_image_content)
    server.resource("test://static-text", mime_type="text/plain")(static_text)
    server.resource("test://watched-resource", mime_type="text/plain")(static_text)
    server.resource("test://static-binary", mime_type="image/png")(static_binary)
    server.resource("test://conformance/failing", mime_type="text/plain")(failing)
    server.resource("test://template/{id}/data", mime_type="application/json")(template)
    for function in PROMPTS:
        server.prompt()(function)
    if Message is None:
        server.completion()(complete)
    else:
        server.completion(complete)


async def log(ctx: Context, level: str, text: str, **names: str) -> None:
    """Send a log message: FastMCP has the parameters in another order."""
    words = (level, text) if Message is None else (text, level)
    await ctx.log(*words, **names)


def user_message(content: object) -> object:
    """Return a message of a prompt."""
    return {"role": "user", "content": content} if Message is None else Message(content)


def invalid_params(message: str) -> Exception:
    """Return the error -32602, whose class differs between the versions."""
    try:
        return MCPError(-32602, message)
    except TypeError:
        return MCPError(ErrorData(code=-32602, message=message))


async def test_simple_text() -> str:
    """Return a text."""
    return "A simple text."


async def test_image_content() -> Image:
    """Return an image."""
    return Image(data=base64.b64decode(PNG), format="png")


async def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return embedded("test://embedded-resource")


async def test_error_handling() -> str:
    """Fail always."""
    raise ValueError("This tool always fails.")


async def test_tool_with_logging(ctx: Context) -> str:
    """Log three times."""
    for words in ("started", "at work", "done"):
        await log(ctx, "info", words)
        await anyio.sleep(STEP)
    return "Logged three times."


async def test_logging_tool(ctx: Context) -> str:
    """Log once."""
    await log(ctx, "info", "once")
    return "Logged once."


async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(STEP)
    return "Reported three times."


async def conformance_constrained(count: Annotated[int, Field(ge=1, le=10)]) -> str:
    """Accept a number from 1 to 10."""
    return f"The number is {count}."


async def conformance_structured(value: float) -> StructuredNumber:
    """Return a number."""
    return StructuredNumber(value=value)


async def conformance_logging(secret: str, ctx: Context) -> str:
    """Log at each level."""
    for level in LEVELS:
        await log(ctx, level, f"This is {level}.", logger_name="conformance")
    return f"Logged at each level, and kept {len(secret)} characters to itself."


async def conformance_slow(ctx: Context) -> str:
    """Work for two seconds."""
    for step in range(1, 101):
        await ctx.report_progress(step, 100)
        await anyio.sleep(STEP)
    return "Worked for two seconds."


async def conformance_wait(key: str, ctx: Context) -> str:
    """Wait until it is released."""
    released, state = waiting[key] = (anyio.Event(), ["running"])
    await ctx.report_progress(1)
    try:
        await released.wait()
    except anyio.get_cancelled_exc_class():
        state[0] = "cancelled"
        raise
    state[0] = "finished"
    return "It was released."


async def conformance_release(key: str) -> str:
    """Release a call."""
    if key in waiting:
        waiting[key][0].set()
    return "Released."


async def conformance_outcome(key: str) -> str:
    """Return the outcome of a call."""
    return waiting[key][1][0] if key in waiting else "unknown"


async def static_text() -> str:
    """Return a text."""
    return "A static text."


async def static_binary() -> bytes:
    """Return an image."""
    return base64.b64decode(PNG)


async def failing() -> str:
    """Fail to be read."""
    raise ValueError("The resource cannot be read.")


async def template(id: str) -> str:
    """Return data by number."""
    return json.dumps({"id": id})


def test_simple_prompt() -> str:
    """Return a text."""
    return "A simple prompt."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Return a text with two arguments."""
    return f"The arguments are {arg1} and {arg2}."


def test_prompt_with_image() -> list:
    """Return an image."""
    return [user_message(ImageContent(type="image", data=PNG, mimeType="image/png"))]


def test_prompt_with_embedded_resource(resourceUri: str) -> list:  # noqa: N803  its name on the wire
    """Return a resource."""
    return [user_message(embedded(resourceUri))]


def conformance_prompt_with_many_completions(word: str) -> str:
    """Return a text."""
    return word


def conformance_failing_prompt(word: str) -> str:
    """Fail always."""
    raise ValueError(f"The prompt fails for {word}.")


async def complete(ref: object, argument: object, context: object) -> Completion | None:
    """Complete the words that have candidates."""
    name = ref.name if isinstance(ref, PromptReference) else ""
    if name == "conformance_failing_prompt":
        raise ValueError("Completion fails.")
    if name and name not in [prompt.__name__ for prompt in PROMPTS]:
        raise invalid_params(f"Unknown prompt {name}.")
    candidates = {"test_prompt_with_arguments": WORDS, "conformance_prompt_with_many_completions": CANDIDATES}
    found = [each for each in candidates.get(name, ()) if each.startswith(argument.value)]
    return Completion.model_validate({"values": found[:100], "total": len(found), "hasMore": len(found) > 100})


TOOLS = (
    test_simple_text,
    test_error_handling,
    test_tool_with_logging,
    test_logging_tool,
    test_tool_with_progress,
    conformance_constrained,
    conformance_structured,
    conformance_logging,
    conformance_slow,
    conformance_wait,
    conformance_release,
    conformance_outcome,
)
PROMPTS = (
    test_simple_prompt,
    test_prompt_with_arguments,
    test_prompt_with_image,
    test_prompt_with_embedded_resource,
    conformance_prompt_with_many_completions,
    conformance_failing_prompt,
)
