"""Tools, resources and prompts, validated against the schema."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.probes.schema_check import VALID, conforms, contents_flaw, look, one_of, uri_flaw
from mcp_conformance.protocol.json_schema import flaw_of_schema
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.uri_syntax import is_uri, is_uri_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.checks.probes.recorded_values import RecordedMessages
    from mcp_conformance.checks.probes.schema_check import Pick
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.revisions import Revision

_LATER: Final = ("annotations", "icons", "execution", "outputSchema")
"""Members that separate checks cover."""
_SIZE: Final = re.compile(r"any|[1-9][0-9]*x[1-9][0-9]*")
_ICON_SCHEME: Final = re.compile(r"https?://[^/?#]", re.IGNORECASE)
_DATA_URI: Final = re.compile(r"data:image/[^,]*;base64,(.+)", re.IGNORECASE)
_MOST_COMPLETIONS: Final = 100
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# --- tools -----------------------------------------------------------------------------------------------------------


def _tool(value: JsonValue, revision: Revision) -> str | None:
    wrong = conforms("Tool", *_LATER)(value, revision)
    properties = member(value, "inputSchema", "properties")
    if wrong is None and isinstance(properties, dict):
        for name, each in properties.items():
            # JSON Schema 2020-12 also has the schemas true and false.
            if not isinstance(each, dict | bool):
                return f"the schema of the property {name} is no object"
    return wrong


look(
    "schema.tool",
    "Each tool has a name and an inputSchema of type object.",
    "schema.tool",
    "schema.title",
    VALID,
    at=lambda recorded: recorded.listed("tools/list"),
    by=_tool,
    what="tool",
)
look(
    "schema.tool-annotations",
    "The hints of a tool are booleans, and its title is a string.",
    "schema.tool-annotations",
    VALID,
    at=lambda recorded: recorded.having(recorded.listed("tools/list"), "annotations"),
    by=conforms("ToolAnnotations"),
    what="tool annotations",
)


def _output_schema(value: JsonValue, revision: Revision) -> str | None:
    if not isinstance(value, dict):
        return "it is not an object"
    if revision.object_structured_content and value.get("type") != "object":
        return f"its type is {brief(value.get('type'))}"
    return None


look(
    "schema.tool-output-schema",
    "The outputSchema of a tool is an object, and until 2025-11-25 it has the type object.",
    "schema.tool-output-schema",
    VALID,
    at=lambda recorded: recorded.having(recorded.listed("tools/list"), "outputSchema"),
    by=_output_schema,
    what="outputSchema",
)
look(
    "schema.tool-execution",
    "The taskSupport of a tool is forbidden, optional or required.",
    "schema.tool-execution",
    at=lambda recorded: recorded.having(recorded.listed("tools/list"), "execution"),
    by=conforms("ToolExecution"),
    what="tool execution",
)
look(
    "schema.call-tool-result",
    "The result of a tool has an array of content, and isError is a boolean.",
    "schema.call-tool-result",
    VALID,
    at=lambda recorded: recorded.outcomes("tools/call"),
    by=conforms("CallToolResult", "structuredContent", "_meta", emptied="content"),
    what="tool result",
)
look(
    "schema.structured-content",
    "structuredContent is an object until 2025-11-25.",
    "schema.structured-content",
    at=lambda recorded: recorded.having(recorded.outcomes("tools/call"), "structuredContent"),
    by=lambda value, _: None if isinstance(value, dict) else "it is not an object",
    what="structuredContent",
)

# --- lists -----------------------------------------------------------------------------------------------------------


def _results_of(method: str) -> Pick:
    return lambda recorded: recorded.results(method)


for _method, _definition, _member, _ids in (
    ("tools/list", "ListToolsResult", "tools", ("schema.list-tools-result",)),
    ("resources/list", "ListResourcesResult", "resources", ("schema.list-resources-result",)),
    ("resources/templates/list", "ListResourceTemplatesResult", "resourceTemplates", ("schema.list-resources-result",)),
    ("prompts/list", "ListPromptsResult", "prompts", ("schema.list-prompts-result",)),
):
    look(
        f"schema.list-{'templates' if _member == 'resourceTemplates' else _member}-result",
        f"The result of {_method} has an array of {_member}.",
        *_ids,
        VALID,
        at=_results_of(_method),
        by=conforms(_definition, "nextCursor", "_meta", emptied=_member),
        what=f"result of {_method}",
    )


def _paged(recorded: RecordedMessages) -> Iterator[JsonValue]:
    lists = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "tasks/list")
    return recorded.having(recorded.results(*lists), "nextCursor")


look(
    "schema.paginated",
    "nextCursor is a string on every page that has one.",
    "schema.paginated",
    VALID,
    at=_paged,
    by=lambda value, _: None if isinstance(value, str) else "it is not a string",
    what="nextCursor",
)

# --- resources -------------------------------------------------------------------------------------------------------


def _resource(value: JsonValue, revision: Revision) -> str | None:
    return conforms("Resource", *_LATER)(value, revision) or uri_flaw(value)


look(
    "schema.resource",
    "Each resource has a URI and a name; a size is an integer.",
    "schema.resource",
    "schema.title",
    VALID,
    at=lambda recorded: recorded.listed("resources/list"),
    by=_resource,
    what="resource",
)


def _template(value: JsonValue, revision: Revision) -> str | None:
    wrong = conforms("ResourceTemplate", *_LATER)(value, revision)
    text = member(value, "uriTemplate")
    if wrong is None and isinstance(text, str) and not is_uri_template(text):
        return f"{brief(text)} is no URI template (RFC 6570)"
    return wrong


look(
    "schema.resource-template",
    "Each resource template has a uriTemplate and a name.",
    "schema.resource-template",
    VALID,
    at=lambda recorded: recorded.listed("resources/templates/list"),
    by=_template,
    what="resource template",
)


def _contents(value: JsonValue, revision: Revision) -> str | None:
    kind = "BlobResourceContents" if isinstance(value, dict) and "blob" in value else "TextResourceContents"
    return flaw(value, kind, revision) or contents_flaw(value)


look(
    "schema.read-resource-result",
    "The result of resources/read has an array of contents.",
    "schema.resource-contents",
    VALID,
    at=lambda recorded: recorded.results("resources/read"),
    by=conforms("ReadResourceResult", "_meta", emptied="contents"),
    what="result of resources/read",
)
look(
    "schema.resource-contents",
    "The contents of a resource have a URI, and either a text or a blob.",
    "schema.resource-contents",
    VALID,
    at=lambda recorded: (
        each for result in recorded.results("resources/read") for each in items(member(result, "contents"))
    ),
    by=_contents,
    what="resource contents",
)
look(
    "schema.resource-updated",
    "notifications/resources/updated has a URI.",
    "schema.resource-updated",
    VALID,
    at=lambda recorded: recorded.notified("notifications/resources/updated"),
    by=conforms("ResourceUpdatedNotificationParams"),
    what="notifications/resources/updated",
)

# --- prompts ---------------------------------------------------------------------------------------------------------

look(
    "schema.prompt",
    "Each prompt has a name, and its arguments have names.",
    "schema.prompt",
    "schema.title",
    VALID,
    at=lambda recorded: recorded.listed("prompts/list"),
    by=conforms("Prompt", *_LATER),
    what="prompt",
)


def _prompt_result(value: JsonValue, revision: Revision) -> str | None:
    found = conforms("GetPromptResult", "_meta", emptied="messages")(value, revision)
    for each in items(member(value, "messages")) if found is None else ():
        if not isinstance(member(each, "content"), dict):
            return "the content of a message is not a single object"
    return found


look(
    "schema.get-prompt-result",
    "The result of prompts/get has an array of messages, each with one content object.",
    "schema.get-prompt-result",
    VALID,
    at=lambda recorded: recorded.results("prompts/get"),
    by=_prompt_result,
    what="result of prompts/get",
)


def _roles(recorded: RecordedMessages) -> Iterator[JsonValue]:
    holders = [*recorded.results("prompts/get"), *recorded.client_requests("sampling/createMessage")]
    return (member(each, "role") for holder in holders for each in items(member(holder, "messages")))


look(
    "schema.role",
    "The role of a message is user or assistant.",
    "schema.role",
    VALID,
    at=_roles,
    by=one_of("user", "assistant"),
    what="role",
)


def _complete_result(value: JsonValue, revision: Revision) -> str | None:
    values = items(member(value, "completion", "values"))
    wrong = f"it has {len(values)} values" if len(values) > _MOST_COMPLETIONS else None
    return wrong or conforms("CompleteResult", "_meta")(value, revision)


look(
    "schema.complete-result",
    "The result of completion/complete has an array of at most 100 strings, and optionally total and hasMore.",
    "schema.complete-result",
    "completion.max-100",
    "completion.values-limit",
    VALID,
    at=lambda recorded: recorded.results("completion/complete"),
    by=_complete_result,
    what="result of completion/complete",
)

# --- icons -----------------------------------------------------------------------------------------------------------


def _icons(recorded: RecordedMessages) -> Iterator[JsonValue]:
    holders = [*recorded.listed(), *recorded.implementations(), *recorded.blocks_of("resource_link")]
    return (
        icon for icons in recorded.having(holders, "icons") for icon in (icons if isinstance(icons, list) else [icons])
    )


look(
    "schema.icon",
    "Each icon has a src that is a URI, and its theme is light or dark.",
    "schema.icons",
    "schema.icon-src-required",
    "schema.icon-theme-values",
    VALID,
    at=_icons,
    by=lambda value, revision: (
        conforms("Icon", "sizes")(value, revision)
        or (None if is_uri(str(member(value, "src"))) else "its src is not a URI")
    ),
    what="icon",
)


def _source(value: JsonValue, _: Revision) -> str | None:
    if _ICON_SCHEME.match(str(value)):
        return None
    data = _DATA_URI.fullmatch(str(value))
    if data is None:
        return "it is neither an HTTP or HTTPS URL nor a data: URI with an image in Base64"
    text = unquote(data[1])
    try:
        # Readers accept data without padding.
        base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        return f"its data are not Base64: {error}"
    return None


look(
    "schema.icon-source",
    "The src of each icon is an HTTP or HTTPS URL, or a data: URI with an image in Base64.",
    "schema.icon-src-kinds",
    at=lambda recorded: recorded.having(_icons(recorded), "src"),
    by=_source,
    what="icon src",
)
look(
    "schema.icon-sizes",
    "The sizes of an icon are an array of WxH or any.",
    "schema.icon-sizes",
    "schema.icon-sizes-format",
    at=lambda recorded: recorded.having(_icons(recorded), "sizes"),
    by=lambda value, _: (
        None
        if isinstance(value, list) and all(isinstance(each, str) and _SIZE.fullmatch(each) for each in value)
        else "they are not an array of WxH or any"
    ),
    what="icon sizes",
)

# --- JSON Schemas ----------------------------------------------------------------------------------------------------


def _valid_schema(value: JsonValue, _: Revision) -> str | None:
    wrong = flaw_of_schema(value) if isinstance(value, dict) else None
    return None if wrong is None else f"it is not a valid schema of its dialect: {wrong}"


look(
    "schema.valid-schemas",
    "Every published schema is valid in its dialect, by default 2020-12.",
    "schema.dialect-valid",
    "schema.dialect-default",
    "schema.valid-schemas",
    at=lambda recorded: recorded.schemas(),
    by=_valid_schema,
    what="JSON Schema",
)
look(
    "schema.dialect",
    "The published schemas use JSON Schema 2020-12.",
    "schema.dialect-recommended",
    "schema.recommended-2020-12",
    at=lambda recorded: (member(each, "$schema") for each in recorded.schemas()),
    by=lambda value, _: None if value in (None, _DIALECT, f"{_DIALECT}#") else "it is another dialect",
    what="$schema",
)
