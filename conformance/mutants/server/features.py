"""The features of a raw server: tools, resources and prompts with the names of the fixtures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mutants.server.client_requests import BadAnswer, request_input
from mutants.server.client_tasks import CLIENT_TASK_CALLS, CLIENT_TASK_TOOLS
from mutants.server.fixture_features import MORE_CALLS, MORE_PROMPTS, MORE_RESOURCES, MORE_TOOLS
from mutants.server.pages import PAGE_CALLS, PAGE_TOOLS
from mutants.server.protocol import LEGACY, REVISIONS, RpcError
from mutants.server.schemas import SCHEMA_CALLS, SCHEMA_TOOLS
from mutants.server.skills import SKILL_RESOURCE, read_skill_file
from mutants.server.waiting_tools import WAITING_CALLS, WAITING_TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__ = ["PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS", "call_tool", "get_prompt", "known_by", "read_resource"]

_PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
_WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


def _tool(name: str, description: str, **properties: JsonValue) -> JsonObject:
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": dict(properties)},
    }


_STRING: Final[JsonObject] = {"type": "string"}

TOOLS: Final[list[JsonObject]] = [
    _tool("test_simple_text", "Returns a text"),
    _tool("test_image_content", "Returns an image"),
    _tool("test_audio_content", "Returns audio"),
    _tool("test_embedded_resource", "Returns a resource"),
    _tool("test_multiple_content_types", "Returns a text, an image and a resource"),
    _tool("test_tool_with_logging", "Sends three log messages"),
    _tool("test_tool_with_progress", "Reports progress"),
    _tool("test_error_handling", "Fails"),
    _tool("test_sampling", "Requests sampling", prompt=_STRING),
    _tool("test_elicitation", "Requests elicitation", message=_STRING),
    {**_tool("echo_number", "Returns a number", value={"type": "number"}), "outputSchema": {
        "type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}},
    *WAITING_TOOLS,
    *MORE_TOOLS,
    *SCHEMA_TOOLS,
    *CLIENT_TASK_TOOLS,
    *PAGE_TOOLS,
]  # fmt: skip

RESOURCES: Final[list[JsonObject]] = [
    {"uri": "test://static-text", "name": "static-text", "mimeType": "text/plain"},
    {"uri": "test://static-binary", "name": "static-binary", "mimeType": "image/png"},
    {"uri": "test://watched-resource", "name": "watched-resource", "mimeType": "text/plain"},
    *MORE_RESOURCES,
    SKILL_RESOURCE,
]

TEMPLATES: Final[list[JsonObject]] = [
    {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
]

PROMPTS: Final[list[JsonObject]] = [
    {"name": "test_simple_prompt", "description": "A prompt"},
    {
        "name": "test_prompt_with_arguments",
        "description": "A prompt with arguments",
        "arguments": [{"name": "arg1", "required": True}, {"name": "arg2", "required": True}],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "A prompt with a resource",
        "arguments": [{"name": "resourceUri", "required": True}],
    },
    {"name": "test_prompt_with_image", "description": "A prompt with an image"},
    *MORE_PROMPTS,
]


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


_IMAGE: Final[JsonObject] = {"type": "image", "data": _PNG, "mimeType": "image/png"}
_STATIC: Final[Mapping[str, JsonObject]] = {
    "test://static-text": {"uri": "test://static-text", "mimeType": "text/plain", "text": "a text"},
    "test://watched-resource": {"uri": "test://watched-resource", "mimeType": "text/plain", "text": "a text"},
    "test://static-binary": {"uri": "test://static-binary", "mimeType": "image/png", "blob": _PNG},
}
"""The contents that do not change, by URI."""
_RESOURCE: Final[JsonObject] = {"type": "resource", "resource": _STATIC["test://static-text"]}


def _simple(*content: JsonObject) -> Callable[[InboundRequest, JsonObject], JsonObject]:
    return lambda _, __: {"content": [dict(each) for each in content]}


def _logging(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    for step in range(3):
        inbound.log("info", f"step {step}")
        time.sleep(0.01)
    return {"content": [_text("done")]}


def _progress(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    for done in (0, 50, 100):
        if inbound.cancelled:
            break
        inbound.progress(done, 100)
        time.sleep(0.05)
    return {"content": [_text("done")]}


def _echo_number(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    value = arguments.get("value", 0)
    result: JsonObject = {"content": [_text(str(value))]}
    if inbound.knows_structured_content:
        result["structuredContent"] = {"value": value}
    return result


_CALLS: Final[Mapping[str, Callable[[InboundRequest, JsonObject], JsonObject]]] = {
    "test_simple_text": _simple(_text("a simple text")),
    "test_image_content": _simple(_IMAGE),
    "test_audio_content": _simple({"type": "audio", "data": _WAV, "mimeType": "audio/wav"}),
    "test_embedded_resource": _simple(_RESOURCE),
    "test_multiple_content_types": _simple(_text("a text"), _IMAGE, _RESOURCE),
    "test_tool_with_logging": _logging,
    "test_tool_with_progress": _progress,
    "test_error_handling": lambda _, __: {"content": [_text("the tool failed on purpose")], "isError": True},
    "echo_number": _echo_number,
    **MORE_CALLS,
    **SCHEMA_CALLS,
    **WAITING_CALLS,
    **CLIENT_TASK_CALLS,
    **PAGE_CALLS,
}


_SINCE: Final = {
    "annotations": REVISIONS[1:],
    "title": REVISIONS[2:],
    "outputSchema": REVISIONS[2:],
    "icons": REVISIONS[3:],
    "execution": REVISIONS[3:4],
}
"""The revisions that have a member of tools."""


def known_by(revision: str, page: JsonObject) -> JsonObject:
    """Return a page of tools without members that the revision lacks; return other pages unchanged."""
    tools, prompts = page.get("tools"), page.get("prompts")
    if isinstance(prompts, list) and revision not in REVISIONS[1:]:
        named = [each for each in prompts if isinstance(each, dict)]
        return {**page, "prompts": [each for each in named if each["name"] != "conformance_prompt_with_audio"]}
    if not isinstance(tools, list):
        return page
    known = [
        {name: each for name, each in tool.items() if revision in _SINCE.get(name, REVISIONS)}
        for tool in tools
        if isinstance(tool, dict) and (tool["name"] != "test_audio_content" or revision in REVISIONS[1:])
    ]
    return {**page, "tools": list(known)}


_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "number": (int, float),
    "integer": (int, float),
    "object": dict,
}


def call_tool(inbound: InboundRequest, name: str, arguments: JsonObject) -> JsonObject:
    """Return the result of a tool."""
    call = _CALLS.get(name)
    if call is None:
        raise RpcError(-32602, f"unknown tool {name!r}")
    # This tool states its own range.
    wrong = None if name == "conformance_constrained" else _wrong_argument(name, arguments)
    if wrong is not None and not inbound.server.fault.takes_any_type(name):
        if inbound.revision in LEGACY[:3]:
            raise RpcError(-32602, wrong)
        return {"content": [_text(wrong)], "isError": True}
    try:
        return call(inbound, arguments)
    except BadAnswer as bad:
        return {"content": [_text(str(bad))], "isError": True}


def _wrong_argument(name: str, arguments: JsonObject) -> str | None:
    """Return a sentence about an argument that is missing, or of another type than the inputSchema states."""
    schema = next((tool["inputSchema"] for tool in TOOLS if tool["name"] == name), None)
    properties, required = (
        schema.get(each) if isinstance(schema, dict) else None for each in ("properties", "required")
    )
    for argument in required if isinstance(required, list) else ():
        if argument not in arguments:
            return f"the argument {argument!r} is missing"
    for argument, each in properties.items() if isinstance(properties, dict) else ():
        kind = each.get("type") if isinstance(each, dict) else None
        expected = _KINDS.get(kind, object) if isinstance(kind, str) else object
        if argument in arguments and not isinstance(arguments[argument], expected):
            return f"the argument {argument!r} is not of the type {kind}"
    return None


_CONFIRM: Final[JsonObject] = {"type": "object", "properties": {"confirmed": {"type": "boolean"}}}


def read_resource(inbound: InboundRequest, uri: str) -> JsonObject:
    """Return the contents of a resource."""
    if uri in _STATIC:
        return {"contents": [dict(_STATIC[uri])]}
    if uri == "test://conformance/asking":
        if inbound.revision not in LEGACY[:2]:
            request_input(
                inbound,
                {"confirm": ("elicitation/create", {"message": "Read the resource?", "requestedSchema": _CONFIRM})},
            )
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "a text"}]}
    if uri == "test://conformance/failing":
        raise RpcError(-32603, "the resource cannot be read")
    if uri == "file:///conformance/readme.txt":
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "read me"}]}
    if uri.startswith("test://template/") and uri.endswith("/data"):
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": f'{{"id": "{uri[16:-5]}"}}'}]}
    skill_file = read_skill_file(uri)
    if skill_file is not None:
        return skill_file
    raise RpcError(-32602 if inbound.modern else -32002, f"unknown resource {uri!r}", {"uri": uri})


def get_prompt(name: str, arguments: JsonObject) -> JsonObject:
    """Return the messages of a prompt."""
    prompt = next((each for each in PROMPTS if each["name"] == name), None)
    if prompt is None:
        raise RpcError(-32602, f"unknown prompt {name!r}")
    wanted = prompt.get("arguments")
    for argument in wanted if isinstance(wanted, list) else ():
        required = isinstance(argument, dict) and argument.get("required") is True
        if isinstance(argument, dict) and required and argument["name"] not in arguments:
            raise RpcError(-32602, f"the argument {argument['name']!r} is missing")
    if name == "conformance_failing_prompt":
        raise RpcError(-32603, "the prompt fails on purpose")
    content: JsonObject = _text(f"{name} {' '.join(str(value) for value in arguments.values())}")
    if name == "test_prompt_with_image":
        content = _IMAGE
    if name == "conformance_prompt_with_audio":
        content = {"type": "audio", "data": _WAV, "mimeType": "audio/wav"}
    if name == "test_prompt_with_embedded_resource":
        uri = str(arguments["resourceUri"])
        if uri not in _STATIC:
            raise RpcError(-32602, f"resourceUri {uri!r} is not one of {', '.join(_STATIC)}")
        content = {"type": "resource", "resource": dict(_STATIC[uri])}
    return {"messages": [{"role": "user", "content": content}]}
