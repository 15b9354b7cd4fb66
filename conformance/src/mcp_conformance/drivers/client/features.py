"""The features that the fake server offers by default: small ones of every kind, valid in every revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.drivers.client.scripted_request import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Offers", "text_result", "tool", "usual"]

_NUMBERS: Final[JsonObject] = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}}


def tool(name: str, description: str, schema: JsonObject | None = None) -> JsonObject:
    """Return a tool definition. Without a schema the tool takes no arguments."""
    return {"name": name, "description": description, "inputSchema": _NOTHING if schema is None else schema}


def text_result(text: str) -> JsonObject:
    """Return a tool result with a text."""
    return {"content": [{"type": "text", "text": text}]}


async def _add(request: ScriptedRequest) -> JsonObject:
    arguments = request.params.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    a, b = given.get("a"), given.get("b")
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return {**text_result("a and b must be numbers"), "isError": True}
    return text_result(str(a + b))


async def _simple_text(_: ScriptedRequest) -> JsonObject:
    return text_result("a simple text")


async def _simple_prompt(_: ScriptedRequest) -> list[JsonValue]:
    return [{"role": "user", "content": {"type": "text", "text": "a simple prompt"}}]


async def _prompt_with_arguments(request: ScriptedRequest) -> list[JsonValue]:
    arguments = request.params.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    said = ", ".join(f"{name}: {given.get(name)}" for name in ("arg1", "arg2"))
    return [{"role": "user", "content": {"type": "text", "text": said}}]


@attrs.define(kw_only=True, eq=False)
class Offers:
    """Tables of the offered features. Scenarios add and remove entries."""

    tools: list[JsonObject] = attrs.field(factory=list)
    """The definitions that `tools/list` returns."""
    calls: dict[str, Callable[[ScriptedRequest], Awaitable[JsonObject]]] = attrs.field(factory=dict)
    """The function of each tool, by name."""
    resources: list[JsonObject] = attrs.field(factory=list)
    """The entries of `resources/list`."""
    templates: list[JsonObject] = attrs.field(factory=list)
    """The entries of `resources/templates/list`."""
    texts: dict[str, str] = attrs.field(factory=dict)
    """The contents of resources, by URI."""
    prompts: list[JsonObject] = attrs.field(factory=list)
    """The entries of `prompts/list`."""
    messages: dict[str, Callable[[ScriptedRequest], Awaitable[list[JsonValue]]]] = attrs.field(factory=dict)
    """The function that makes the messages of each prompt, by name."""

    def add_tool(
        self,
        name: str,
        description: str,
        run: Callable[[ScriptedRequest], Awaitable[JsonObject]],
        schema: JsonObject | None = None,
    ) -> None:
        """Add a tool."""
        self.tools.append(tool(name, description, schema))
        self.calls[name] = run

    async def call(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `tools/call`."""
        run = self.calls.get(request.text("name"))
        if run is None:
            raise ErrorReply(-32602, f"unknown tool: {request.params['name']!r}")
        return await run(request)

    async def read(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `resources/read`."""
        uri = request.text("uri")
        text = self.texts.get(uri)
        if text is None and uri.startswith("test://template/") and uri.endswith("/data"):
            text = f"data of {uri.split('/')[3]}"
        if text is None:
            raise ErrorReply(request.revision.resource_not_found, "unknown resource", {"uri": uri})
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}

    async def get_prompt(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `prompts/get`."""
        make = self.messages.get(request.text("name"))
        if make is None:
            raise ErrorReply(-32602, f"unknown prompt: {request.params['name']!r}")
        messages = await make(request)
        return {"messages": messages}


def usual() -> Offers:
    """Return the features that are offered unless a scenario states others."""
    offers = Offers()
    offers.add_tool("add_numbers", "Adds two numbers", _add, _NUMBERS)
    offers.add_tool("test_simple_text", "Says something", _simple_text)
    offers.resources.append(
        {"uri": "test://static-text", "name": "static-text", "description": "A text", "mimeType": "text/plain"}
    )
    offers.texts["test://static-text"] = "a static text"
    offers.templates.append(
        {
            "uriTemplate": "test://template/{id}/data",
            "name": "template",
            "description": "Data",
            "mimeType": "text/plain",
        }
    )
    offers.prompts.append({"name": "test_simple_prompt", "description": "A prompt"})
    offers.messages["test_simple_prompt"] = _simple_prompt
    offers.prompts.append(
        {
            "name": "test_prompt_with_arguments",
            "description": "A prompt with two arguments",
            "arguments": [
                {"name": "arg1", "description": "The first", "required": True},
                {"name": "arg2", "description": "The second", "required": True},
            ],
        }
    )
    offers.messages["test_prompt_with_arguments"] = _prompt_with_arguments
    return offers
