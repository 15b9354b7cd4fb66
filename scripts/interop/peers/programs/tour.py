"""The tour of the clients on the official Python SDK: it lists all features and uses each once.

Both major versions share this module: their methods have the same names.
"""

from __future__ import annotations

import json
import os
import sys

import anyio
from mcp.types import PromptReference
from pydantic import AnyUrl

__all__ = ["answer", "example", "scenario", "tour"]

TIMEOUT = 5.0
"""Timeout of each request in seconds: some requests wait for an action that no client here takes."""
PLAIN = {"integer": 1, "number": 0.5, "boolean": True, "null": None, "array": [], "object": {}}

scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


async def tour(client: object, offered: object) -> None:
    """Use the features of the server, part by part. A rejected request does not end the tour.

    Args:
        client: The connection.
        offered: The capabilities of the server, or `None` if they are unknown.
    """
    if scenario == "http-custom-headers":
        await tried(client.list_tools())
        for call in context.get("toolCalls", []):
            await tried(client.call_tool(call["name"], call["arguments"]))
        return
    if offered is None or offered.tools:
        await call_tools(client)
    if offered is None or offered.resources:
        for resource in await listed(client.list_resources, "resources"):
            uri = resource.uri if isinstance(resource.uri, str) else AnyUrl(str(resource.uri))
            await tried(client.read_resource(uri))
        await listed(client.list_resource_templates, "resourceTemplates", "resource_templates")
    if offered is None or offered.prompts:
        await get_prompts(client, completing=offered is None or offered.completions is not None)


async def call_tools(client: object) -> None:
    """Call each tool."""
    for tool in await listed(client.list_tools, "tools"):
        schema = getattr(tool, "inputSchema", None) or getattr(tool, "input_schema", None) or {}
        await tried(client.call_tool(tool.name, arguments(schema)))


async def get_prompts(client: object, *, completing: bool) -> None:
    """Get each prompt, and request completions of its arguments."""
    for prompt in await listed(client.list_prompts, "prompts"):
        wanted = {each.name: "example" for each in prompt.arguments or () if each.required}
        await tried(client.get_prompt(prompt.name, wanted or None))
        known: dict[str, str] = {}
        for each in (prompt.arguments or ()) if completing else ():
            reference = PromptReference(type="ref/prompt", name=prompt.name)
            await tried(client.complete(reference, {"name": each.name, "value": ""}, known or None))
            known = {**known, each.name: "example"}


async def listed(method: object, *members: str) -> list:
    """Return all pages of a list."""
    found: list = []
    cursor = None
    for _ in range(20):
        page = await tried(method() if cursor is None else method(cursor=cursor))
        if page is None:
            break
        found += next(getattr(page, member) for member in members if hasattr(page, member))
        cursor = page.nextCursor if hasattr(page, "nextCursor") else page.next_cursor
        if cursor is None:
            break
    return found


async def tried(request: object) -> object:
    """Return the result of a request, or `None` if it fails or times out; print either."""
    with anyio.move_on_after(TIMEOUT):
        try:
            return await request
        except Exception as error:  # noqa: BLE001  the tour continues after any error of the SDK
            print(f"{type(error).__name__}: {error}"[:200], file=sys.stderr)
    return None


def answer(schema: dict | None) -> tuple[str, dict | None]:
    """Return the user's answer to a form, or to a page without a form; decline in one scenario."""
    if scenario == "conformance_declines":
        return "decline", None
    if schema is None:
        return "accept", None
    return "accept", {name: example(field) for name, field in (schema.get("properties") or {}).items()}


def arguments(schema: dict) -> dict:
    """Return the arguments that a tool requires."""
    properties = schema.get("properties") or {}
    return {name: example(properties.get(name)) for name in schema.get("required") or ()}


def example(schema: object) -> object:
    """Return an example value for a tool argument."""
    if not isinstance(schema, dict):
        return "example"
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    if schema.get("enum"):
        return schema["enum"][0]
    for word in ("oneOf", "anyOf"):
        if schema.get(word):
            return example(schema[word][0])
    if schema.get("type") == "array":
        return [example(schema.get("items"))] * max(1, schema.get("minItems", 1))
    if schema.get("format") == "email":
        return "someone@example.com"
    return schema.get("minimum", PLAIN.get(schema.get("type"), "example"))
