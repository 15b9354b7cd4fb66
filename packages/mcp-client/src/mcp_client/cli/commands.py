"""The commands of the command line that use a connection. Each command returns the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import orjson
import trio

from mcp_client.cli.arguments import UsageError, closest, json_object, nearest, pairs, typed
from mcp_core.conversion.converter import converter
from mcp_core.errors import InvalidValue, McpError, RequestFailed
from mcp_core.field_methods import FieldValue
from mcp_core.types import (
    ABSENT,
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
    decode_base64,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcp_client.cli.output import Screen
    from mcp_client.client import Client
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import ContentBlock, Prompt, ResourceContents, Tool, WireObject

__all__ = ["COMMANDS", "Invocation"]

OK: Final = 0
FAILED: Final = 1


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Invocation(FieldValue):
    """One run of the command line."""

    client: Client
    """The connection."""
    options: argparse.Namespace
    """The parsed options."""
    screen: Screen
    """The output."""
    seconds: float
    """Time that connecting took, in seconds."""
    secrets: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    """Names of the variables and headers that the server received, by kind. Their values are secret."""


async def _probe(run: Invocation) -> int:
    client, screen = run.client, run.screen
    wire = converter(client.revision)
    info, offered = client.server_info, wire.unstructure(client.capabilities)
    server: JsonObject = {} if info is None else wire.unstructure(info)
    found: JsonObject = {
        "era": client.revision.era.value,
        "revision": client.revision.name,
        "server": server,
        "capabilities": offered,
        "instructions": client.instructions,
        **{kind: dict.fromkeys(names, "***") for kind, names in run.secrets.items()},
        "seconds": round(run.seconds, 3),
    }
    if screen.json:
        screen.data(found)
        return OK
    screen.text(f"server        {server.get('name', 'unnamed')} {server.get('version', '')}".rstrip())
    screen.text(f"revision      {client.revision.name} ({client.revision.era.value})")
    screen.text(f"capabilities  {', '.join(_paths(offered)) or 'none'}")
    screen.text(f"connected in  {run.seconds:.2f} s")
    for kind, names in run.secrets.items():
        for name in names:
            screen.text(f"{kind:<12}  {name}=***")
    if client.instructions:
        screen.text(f"instructions  {client.instructions}")
    return OK


def _paths(capabilities: JsonObject) -> list[str]:
    """Return the declared capabilities as paths, for example `tools` and `tools.listChanged`."""
    found = []
    for name, value in capabilities.items():
        inner = [key for key, member in value.items() if member not in (None, False)] if isinstance(value, dict) else []
        found += [name, *(f"{name}.{key}" for key in inner)]
    return found


# --- list ------------------------------------------------------------------------------------------------------------


async def _list(run: Invocation) -> int:
    offered = run.client.capabilities
    kinds = {
        "tools": offered.tools is not None,
        "resources": offered.resources is not None,
        "templates": offered.resources is not None,
        "prompts": offered.prompts is not None,
    }
    wanted = [run.options.kind] if run.options.kind else [kind for kind, is_offered in kinds.items() if is_offered]
    found: JsonObject = {}
    for kind in wanted:
        found[kind] = [*await _LISTS[kind](run)]
    if run.screen.json:
        run.screen.data(found)
    elif not wanted:
        run.screen.note("The server does not offer tools, resources or prompts.")
    return OK


async def _tools(run: Invocation) -> list[JsonObject]:
    tools = await run.client.list_tools()
    rows = [(tool.name, _signature(tool), tool.description or tool.title or "") for tool in tools]
    return _shown(run, "tools", ("name", "arguments", "description"), rows, tools)


def _signature(tool: Tool) -> str:
    properties, required = tool.input_schema.get("properties"), tool.input_schema.get("required")
    names = list(properties) if isinstance(properties, dict) else []
    needed = required if isinstance(required, list) else []
    return ", ".join(name if name in needed else f"[{name}]" for name in names)


async def _resources(run: Invocation) -> list[JsonObject]:
    resources = await run.client.list_resources()
    rows = [(each.uri, each.mime_type or "", each.title or each.name or "") for each in resources]
    return _shown(run, "resources", ("uri", "type", "name"), rows, resources)


async def _templates(run: Invocation) -> list[JsonObject]:
    templates = await run.client.list_resource_templates()
    rows = [(each.uri_template, each.mime_type or "", each.title or each.name or "") for each in templates]
    return _shown(run, "resource templates", ("uri template", "type", "name"), rows, templates)


async def _prompts(run: Invocation) -> list[JsonObject]:
    prompts = await run.client.list_prompts()
    rows = [(prompt.name, _prompt_arguments(prompt), prompt.description or prompt.title or "") for prompt in prompts]
    return _shown(run, "prompts", ("name", "arguments", "description"), rows, prompts)


def _prompt_arguments(prompt: Prompt) -> str:
    return ", ".join(each.name if each.required else f"[{each.name}]" for each in prompt.arguments or ())


_LISTS: Final[dict[str, Callable[[Invocation], Awaitable[list[JsonObject]]]]] = {
    "tools": _tools,
    "resources": _resources,
    "templates": _templates,
    "prompts": _prompts,
}


def _shown(
    run: Invocation, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], items: Sequence[WireObject]
) -> list[JsonObject]:
    if not run.screen.json:
        run.screen.table(f"{title} ({len(rows)})", columns, rows)
    wire = converter(run.client.revision)
    return [wire.unstructure(item) for item in items]


# --- call, read, prompt ----------------------------------------------------------------------------------------------


async def _call(run: Invocation) -> int:
    options, client = run.options, run.client
    if options.args is not None and options.pairs:
        raise UsageError("pass the arguments with --args or as key=value, not both")
    arguments = {} if options.args is None else json_object(options.args)
    words = pairs(options.pairs, "an argument")
    # Also for a call without arguments: the list contains the output schema that the result is checked against.
    tools = {tool.name: tool for tool in await client.list_tools()}
    if options.name not in tools:
        raise UsageError(f"the server has no tool {options.name!r}{closest(options.name, tools)}")
    if words:
        arguments = typed(words, tools[options.name].input_schema)
    called = await client.call_tool(options.name, arguments, raise_on_error=False, on_progress=run.screen.progress)
    result = called.result
    if run.screen.json:
        run.screen.data(converter(client.revision).unstructure(result))
    else:
        for block in result.content:
            run.screen.text(_described(block))
        if not result.content and result.structured_content is not ABSENT:
            run.screen.text(orjson.dumps(result.structured_content, option=orjson.OPT_INDENT_2).decode())
    if result.is_error and not run.screen.json:
        run.screen.note(f"The tool {options.name!r} reports an error.")
    return FAILED if result.is_error else OK


def _described(block: ContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return f"[{block.type}, {block.mime_type}, {_size(block.data)}]"
    if isinstance(block, ResourceLink):
        return f"[resource {block.uri}, {block.name}]"
    if isinstance(block, EmbeddedResource):
        return _contents(block.resource)
    return f"[{block.type}]"


def _contents(contents: ResourceContents) -> str:
    if isinstance(contents, TextResourceContents):
        return contents.text
    return f"[{contents.uri}, {contents.mime_type or 'binary'}, {_size(contents.blob)}]"


def _size(base64: str) -> str:
    try:
        return f"{len(decode_base64(base64))} bytes"
    except InvalidValue:
        return "invalid base64"


async def _read(run: Invocation) -> int:
    uri = run.options.uri
    try:
        result = await run.client.read_resource(uri, on_progress=run.screen.progress)
    except RequestFailed as error:
        # A URI can be valid and in no list, so the lists are only read for the error.
        near = await _nearest_resource(run.client, uri)
        if near is not None:
            error.add_note(f"Did you mean {near!r}?")
        raise
    if run.screen.json and run.options.output is None:
        run.screen.data(converter(run.client.revision).unstructure(result))
        return OK
    parts = [_bytes(contents) for contents in result.contents]
    if run.options.output is not None:
        data = b"".join(parts)
        await trio.to_thread.run_sync(Path(run.options.output).write_bytes, data)
        run.screen.note(f"{len(data)} bytes written to {run.options.output}")
        return OK
    for contents, data in zip(result.contents, parts, strict=True):
        if isinstance(contents, BlobResourceContents) and not run.screen.is_terminal:
            run.screen.raw(data)
        else:
            run.screen.text(_contents(contents))
            if isinstance(contents, BlobResourceContents):
                run.screen.note("The resource is binary: write it to a file with --output FILE.")
    return OK


def _bytes(contents: ResourceContents) -> bytes:
    if isinstance(contents, BlobResourceContents):
        return decode_base64(contents.blob)
    return contents.text.encode()


async def _nearest_resource(client: Client, uri: str) -> str | None:
    """Return the listed URI that is most similar to a URI that is not listed, or `None`."""
    try:
        known = [resource.uri for resource in await client.list_resources()]
    except McpError:
        return None
    return None if uri in known else nearest(uri, known)


async def _prompt(run: Invocation) -> int:
    options = run.options
    arguments = pairs(options.pairs, "an argument")
    _check_prompt(options.name, arguments, await run.client.list_prompts())
    result = await run.client.get_prompt(options.name, arguments, on_progress=run.screen.progress)
    if run.screen.json:
        run.screen.data(converter(run.client.revision).unstructure(result))
        return OK
    for message in result.messages:
        run.screen.text(f"{message.role}: {_described(message.content)}")
    return OK


def _check_prompt(name: str, arguments: Iterable[str], prompts: Sequence[Prompt]) -> None:
    """Check the name of a prompt and the names of arguments. Raises `UsageError`."""
    known = {prompt.name: prompt for prompt in prompts}
    if name not in known:
        raise UsageError(f"the server has no prompt {name!r}{closest(name, known)}")
    accepted = [argument.name for argument in known[name].arguments or ()]
    for argument in arguments:
        if argument not in accepted:
            raise UsageError(f"the prompt {name!r} has no argument {argument!r}{closest(argument, accepted)}")


async def _complete(run: Invocation) -> int:
    ref, client = run.options.ref, run.client
    arguments = pairs(run.options.pairs, "an argument")
    argument, value = arguments.popitem()
    reference: PromptReference | ResourceTemplateReference
    if "{" in ref or "://" in ref:
        await _check_template(client, ref)
        reference = ResourceTemplateReference(uri=ref)
    else:
        _check_prompt(ref, (*arguments, argument), await client.list_prompts())
        reference = PromptReference(name=ref)
    completion = await client.complete(reference, argument, value, known=arguments or None)
    if run.screen.json:
        run.screen.data(converter(client.revision).unstructure(completion))
        return OK
    for each in completion.values:
        run.screen.text(each)
    if completion.has_more:
        run.screen.note("The server has more values.")
    return OK


async def _check_template(client: Client, uri: str) -> None:
    """Check that the server lists a resource template. Raises `UsageError`."""
    known = [template.uri_template for template in await client.list_resource_templates()]
    if uri not in known:
        raise UsageError(f"the server has no resource template {uri!r}{closest(uri, known)}")


# --- listen ----------------------------------------------------------------------------------------------------------


async def _listen(run: Invocation) -> int:
    options, screen = run.options, run.screen
    everything = not (options.tools or options.prompts or options.resources or options.uri)
    async with run.client.listen(
        tools=options.tools or everything,
        prompts=options.prompts or everything,
        resources=options.resources or everything,
        uris=options.uri,
    ) as changes:
        granted = changes.granted
        subscribed = {
            "tools": granted.tools_list_changed,
            "prompts": granted.prompts_list_changed,
            "resources": granted.resources_list_changed,
            **dict.fromkeys(granted.resource_subscriptions or (), True),
        }
        names = [name for name, is_subscribed in subscribed.items() if is_subscribed]
        if not names:
            screen.note("The server does not send change notifications of these kinds.")
            return FAILED
        screen.note(f"Listening for changes of: {', '.join(names)}. Press Ctrl-C to stop.")
        async for change in changes:
            if screen.json:
                screen.data({"kind": change.kind.value, "uri": change.uri})
            else:
                screen.text(f"{change.kind.value} {change.uri or ''}".rstrip())
    screen.note("The server ended the subscription.")
    return OK


COMMANDS: Final[dict[str, Callable[[Invocation], Awaitable[int]]]] = {
    "probe": _probe,
    "list": _list,
    "call": _call,
    "read": _read,
    "prompt": _prompt,
    "complete": _complete,
    "listen": _listen,
}
"""The commands by name."""
