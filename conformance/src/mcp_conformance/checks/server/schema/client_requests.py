"""Sampling and elicitation requests of the server, validated against the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.probes.schema_check import VALID, conforms, look
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import R2024_11_05, R2025_03_26, between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.checks.probes.recorded_values import RecordedMessages
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.revisions import Revision

_CHOICES: Final = (
    "UntitledSingleSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "LegacyTitledEnumSchema",
    "UntitledMultiSelectEnumSchema",
    "TitledMultiSelectEnumSchema",
)
_URL_REQUIRED: Final = -32042
"""The code of 2025-11-25 for a required URL mode elicitation."""
_REQUESTED: Final = ("elicitation/create", "roots/list", "sampling/createMessage")
"""The methods of input requests."""
_KINDS: Final = ("text", "image", "audio", "resource", "resource_link")
"""The types of content of the result of a tool."""
_PRIMITIVES: Final = {
    "string": "StringSchema",
    "number": "NumberSchema",
    "integer": "NumberSchema",
    "boolean": "BooleanSchema",
}


def _sampling(recorded: RecordedMessages) -> Iterator[JsonValue]:
    return recorded.client_requests("sampling/createMessage")


def _sampled(recorded: RecordedMessages) -> Iterator[JsonValue]:
    """Yield the content blocks of the sampling messages."""
    for content in _contents(recorded):
        yield from content if isinstance(content, list) else [content]


def _contents(recorded: RecordedMessages) -> Iterator[JsonValue]:
    """Yield the content of each sampling message."""
    for params in _sampling(recorded):
        for message in items(member(params, "messages")):
            yield member(message, "content")


look(
    "schema.create-message-params",
    "sampling/createMessage has messages and an integer maxTokens, and its optional members have the right type.",
    "schema.create-message-params",
    "schema.create-message-tools",
    VALID,
    at=_sampling,
    by=conforms("CreateMessageRequestParams", "modelPreferences", "_meta", emptied="messages"),
    what="sampling/createMessage",
)
look(
    "schema.model-preferences",
    "The priorities of model preferences are numbers from 0 to 1, and the hints are objects.",
    "schema.model-preferences",
    VALID,
    at=lambda recorded: recorded.having(_sampling(recorded), "modelPreferences"),
    by=conforms("ModelPreferences"),
    what="modelPreferences",
)


_BLOCKS: Final = {
    "text": "TextContent",
    "image": "ImageContent",
    "audio": "AudioContent",
    "tool_use": "ToolUseContent",
}


def _sampled_content(value: JsonValue, revision: Revision) -> str | None:
    if not isinstance(value, list):
        return _sampled_block(value, revision)
    if not _has_tool_content(revision):
        return f"{brief(value)} is not one object"
    return next((wrong for each in value if (wrong := _sampled_block(each, revision)) is not None), None)


def _has_tool_content(revision: Revision) -> bool:
    """Return whether sampling has tools and arrays of content, which came together."""
    return flaw(0, "ToolUseContent", revision) is not None


def _sampled_block(value: JsonValue, revision: Revision) -> str | None:
    kinds = {"text", "image"}
    if revision in between(R2025_03_26):
        kinds.add("audio")
    if _has_tool_content(revision):
        kinds |= {"tool_use", "tool_result"}
    kind = member(value, "type")
    if not isinstance(kind, str) or kind not in kinds:
        return f"{brief(value)} is not one of {', '.join(sorted(kinds))}"
    # A separate check covers the results of tools.
    return None if kind == "tool_result" else flaw(value, _BLOCKS[kind], revision)


look(
    "schema.sampling-content",
    "The content of a sampling message has a type that the revision defines for it, and conforms to it.",
    "schema.sampling-content-kinds-2024-11-05",
    "schema.sampling-content-kinds-2025-03-26",
    "schema.sampling-content-kinds-2025-11-25",
    "schema.text-content",
    "schema.image-content",
    "schema.audio-content",
    VALID,
    at=_contents,
    by=_sampled_content,
    what="content for sampling",
)


def _tool_result(value: JsonValue, revision: Revision) -> str | None:
    wrong = flaw(value, "ToolResultContent", revision)
    for block in items(member(value, "content")) if wrong is None else ():
        if member(block, "type") not in _KINDS:
            return f"the type of its content is {brief(member(block, 'type'))}, not one of {', '.join(_KINDS)}"
    return wrong


look(
    "schema.tool-result-content",
    "A tool_result in a sampling message has a toolUseId and an array of content of known types.",
    "schema.tool-result-content",
    VALID,
    at=lambda recorded: (each for each in _sampled(recorded) if member(each, "type") == "tool_result"),
    by=_tool_result,
    what="tool_result",
)


def _forms(recorded: RecordedMessages) -> Iterator[JsonValue]:
    return (each for each in recorded.client_requests("elicitation/create") if member(each, "mode") != "url")


def _fields(recorded: RecordedMessages) -> Iterator[JsonValue]:
    for params in _forms(recorded):
        properties = member(params, "requestedSchema", "properties")
        yield from properties.values() if isinstance(properties, dict) else ()


def _form(value: JsonValue, revision: Revision) -> str | None:
    """Return what is wrong with a form, without its fields."""
    if not isinstance(value, dict) or not isinstance(value.get("requestedSchema"), dict):
        return "requestedSchema is missing"
    schema = value["requestedSchema"]
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        schema = {**schema, "properties": {}}
    return flaw({**value, "requestedSchema": schema}, "ElicitRequestFormParams", revision)


look(
    "schema.elicit-form",
    "A form has a message, and a requestedSchema of type object with properties.",
    "schema.elicit-params",
    "schema.elicit-form-params",
    VALID,
    at=_forms,
    by=_form,
    what="elicitation/create",
)


def _flat(value: JsonValue, _: Revision) -> str | None:
    if not isinstance(value, dict) or "properties" in value or value.get("type") == "object":
        return "it is nested"
    entries = value.get("items")
    return "its items are objects" if isinstance(entries, dict) and entries.get("type") == "object" else None


look(
    "schema.elicit-flat",
    "The fields of a form are flat: no objects, and no arrays of objects.",
    "schema.elicit-flat",
    VALID,
    at=_fields,
    by=_flat,
    what="field of a form",
)


def _is_choice(value: JsonValue) -> bool:
    return isinstance(value, dict) and ("enum" in value or "oneOf" in value or value.get("type") == "array")


def _primitive(value: JsonValue, revision: Revision) -> str | None:
    kind = member(value, "type")
    name = _PRIMITIVES.get(kind) if isinstance(kind, str) else None
    return f"its type is {brief(kind)}" if name is None else flaw(value, name, revision)


look(
    "schema.elicit-primitives",
    "A field of a form is a valid schema of a string, number, integer or boolean.",
    "schema.elicit-primitives-2025-06-18",
    "schema.elicit-primitives-2025-11-25",
    VALID,
    at=lambda recorded: (
        each for each in _fields(recorded) if not _is_choice(each) and _flat(each, R2024_11_05) is None
    ),
    by=_primitive,
    what="field of a form",
)


def _choice(value: JsonValue, revision: Revision) -> str | None:
    """Return what is wrong with an enum field, by all its forms in the revision."""
    known = [name for name in _CHOICES if flaw(0, name, revision) is not None]
    flaws = [flaw(value, name, revision) for name in known]
    return None if None in flaws else "; ".join(str(each) for each in flaws)


look(
    "schema.elicit-enums",
    "An enum in a form has one of the forms that the revision defines.",
    "schema.elicit-enums-2025-11-25",
    "schema.elicit-primitives-2025-06-18",
    VALID,
    at=lambda recorded: (each for each in _fields(recorded) if _is_choice(each) and _flat(each, R2024_11_05) is None),
    by=_choice,
    what="enum in a form",
)


def _url(value: JsonValue, revision: Revision) -> str | None:
    found = flaw(value, "ElicitRequestURLParams", revision)
    return found or (None if urlsplit(str(member(value, "url"))).scheme else "its url is not a URI")


def _urls(recorded: RecordedMessages) -> Iterator[JsonValue]:
    yield from (each for each in recorded.client_requests("elicitation/create") if member(each, "mode") == "url")
    for error in recorded.errors():
        if member(error, "code") == _URL_REQUIRED:
            yield from items(member(error, "data", "elicitations"))


look(
    "schema.elicit-url",
    "A URL mode elicitation has a url and a message, and in 2025-11-25 an elicitationId.",
    "schema.elicit-url-params",
    VALID,
    at=_urls,
    by=_url,
    what="URL mode elicitation",
)
look(
    "schema.elicitation-complete",
    "notifications/elicitation/complete has an elicitationId.",
    "schema.elicitation-complete-params",
    at=lambda recorded: recorded.notified("notifications/elicitation/complete"),
    by=conforms("ElicitationCompleteNotificationParams"),
    what="notifications/elicitation/complete",
)
look(
    "schema.url-elicitation-required",
    "The error -32042 has an array of elicitations in its data.",
    "schema.url-elicitation-required-error",
    at=lambda recorded: (each for each in recorded.errors() if member(each, "code") == _URL_REQUIRED),
    by=lambda value, _: (
        None if items(member(value, "data", "elicitations")) else "data.elicitations is not an array with entries"
    ),
    what="error -32042",
)


def _input_required(recorded: RecordedMessages) -> Iterator[JsonValue]:
    """Yield each InputRequiredResult. `mrtr.requests-shape` covers the entries in results of `tools/call`."""
    for each in recorded.exchanges:
        result = each.result
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            own = each.method == "tools/call" and isinstance(result.get("inputRequests"), dict)
            yield {**result, "inputRequests": {}} if own else result


def _flaw_of_input_required(value: JsonValue, revision: Revision) -> str | None:
    requests = member(value, "inputRequests")
    if not isinstance(requests, dict):
        return flaw(value, "InputRequiredResult", revision) or (
            None if "requestState" in (value if isinstance(value, dict) else {}) else "it has neither"
        )
    # Other checks cover the params.
    wrong = [key for key, each in requests.items() if member(each, "method") not in _REQUESTED]
    if wrong:
        return f"the method of inputRequests.{wrong[0]} is not one of {', '.join(_REQUESTED)}"
    emptied: JsonValue = {**value, "inputRequests": {}} if isinstance(value, dict) else value
    return flaw(emptied, "InputRequiredResult", revision)


look(
    "schema.input-required",
    "An InputRequiredResult has a map of inputRequests, or a requestState.",
    "jsonrpc.result-type-input-required",
    VALID,
    at=_input_required,
    by=_flaw_of_input_required,
    what="InputRequiredResult",
)
