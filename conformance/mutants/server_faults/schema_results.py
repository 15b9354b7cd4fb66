"""Faults of the schema of results: each changes the result of one method."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY
from mutants.server_faults.lists import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

Change: TypeAlias = "Callable[[JsonObject], JsonObject]"


class _InResult(Fault):
    """A fault that changes the result of a method, or of one tool, prompt or resource."""

    def __init__(self, method: str, change: Change, of: str | None = None) -> None:
        self._method: Final = method
        self._change: Final = change
        self._of: Final = of

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        mine = inbound.request["method"] == self._method and self._of in (None, name_of(inbound))
        return self._change(result) if mine else result


class _InNotification(Fault):
    """A fault that changes the params of notifications before a response."""

    def __init__(self, method: str, change: Change) -> None:
        self._method: Final = method
        self._change: Final = change

    def before(self, message: JsonValue) -> JsonValue:
        if not isinstance(message, dict) or message.get("method") != self._method:
            return message
        params = message.get("params")
        return {**message, "params": self._change(params if isinstance(params, dict) else {})}


class _ClientRequestFault(Fault):
    """A fault that changes the params of a client request."""

    def __init__(self, method: str, change: Change) -> None:
        self._method: Final = method
        self._change: Final = change

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        return self._change(params) if method == self._method else params


class _InCapabilities(Fault):
    """A fault that changes the server capabilities."""

    def __init__(self, change: Change) -> None:
        self._change: Final = change

    def capabilities(self, declared: JsonObject) -> JsonObject:
        return self._change(declared)


def _with(**members: JsonValue) -> Change:
    """Return a change that adds members."""
    return lambda value: {**value, **members}


def _drop(name: str) -> Change:
    """Return a change that removes a member."""
    return lambda value: {key: each for key, each in value.items() if key != name}


def _first(name: str, change: Change, index: int = 0) -> Change:
    """Return a change of an entry of a list."""

    def changed(value: JsonObject) -> JsonObject:
        entries = value.get(name)
        if not isinstance(entries, list) or len(entries) <= index:
            return value
        entry = entries[index]
        changed_entry = change(entry) if isinstance(entry, dict) else entry
        return {**value, name: [*entries[:index], changed_entry, *entries[index + 1 :]]}

    return changed


def _within(name: str, change: Change) -> Change:
    """Return a change of a member that is an object."""

    def changed(value: JsonObject) -> JsonObject:
        inner = value.get(name)
        return {**value, name: change(inner)} if isinstance(inner, dict) else value

    return changed


def _encoded(data: JsonValue) -> str:
    return base64.b64encode(str(data).encode()).decode()


def _enter(name: str, make: Callable[[], Fault], *caught_by: str, revisions: tuple[str, ...] | None = None) -> None:
    fault(name, *caught_by, revisions=revisions)(make)


_CALL: Final = "tools/call"
_WATCHED: Final = "test://watched-resource"
_MANY: Final = "conformance_prompt_with_many_completions"
_TWO: Final = ("2025-11-25", "2026-07-28")

for _name, _checks, _method, _of, _change in (
    (
        "tool-without-schema",
        ("schema.tool", "tools.input-schema", "tools.list-schema"),
        "tools/list",
        None,
        _first("tools", _drop("inputSchema"), 1),
    ),
    (
        "tool-hint-string",
        ("schema.tool-annotations", "tools.list-schema"),
        "tools/list",
        None,
        _first("tools", _with(annotations={"readOnlyHint": "yes"})),
    ),
    (
        "output-schema-list",
        ("schema.tool-output-schema", "tools.list-schema"),
        "tools/list",
        None,
        _first("tools", _with(outputSchema=[])),
    ),
    (
        "templates-object",
        ("schema.list-templates-result", "resources.templates-list-schema"),
        "resources/templates/list",
        None,
        _with(resourceTemplates={}),
    ),
    ("cursor-null", ("schema.paginated", "prompts.list-schema"), "prompts/list", None, _with(nextCursor=None)),
    (
        "resource-without-scheme",
        ("schema.resource", "resources.uri-syntax", "resources.listed-can-be-read"),
        "resources/list",
        None,
        _first("resources", lambda entry: {**entry, "uri": entry["name"]}, 3),
    ),
    (
        "template-without-name",
        ("schema.resource-template", "resources.templates-list-schema"),
        "resources/templates/list",
        None,
        _first("resourceTemplates", _drop("name")),
    ),
    ("contents-object", ("schema.read-resource-result",), "resources/read", _WATCHED, _with(contents={})),
    (
        "contents-without-uri",
        ("schema.resource-contents",),
        "resources/read",
        _WATCHED,
        _first("contents", _drop("uri")),
    ),
    (
        "argument-without-name",
        ("schema.prompt", "prompts.list-schema"),
        "prompts/list",
        None,
        _first("prompts", _with(arguments=[{"required": True}])),
    ),
    ("messages-object", ("schema.get-prompt-result",), "prompts/get", _MANY, _with(messages={})),
    ("role-system", ("schema.role",), "prompts/get", _MANY, _first("messages", _with(role="system"))),
    (
        "completion-numbers",
        ("schema.complete-result", "completion.result"),
        "completion/complete",
        None,
        _with(completion={"values": [1]}),
    ),
    (
        "icon-without-src",
        ("schema.icon", "tools.list-schema"),
        "tools/list",
        None,
        _first("tools", _with(icons=[{"mimeType": "image/png"}])),
    ),
    (
        "icon-with-spaces",
        ("schema.icon",),
        "tools/list",
        None,
        _first("tools", _with(icons=[{"src": "https://example.com/an icon.png"}])),
    ),
    (
        "icon-of-javascript",
        ("schema.icon-source",),
        "tools/list",
        None,
        _first("tools", _with(icons=[{"src": "javascript:alert(1)"}])),
    ),
    (
        "icon-without-base64",
        ("schema.icon-source",),
        "tools/list",
        None,
        _first("tools", _with(icons=[{"src": "data:image/svg+xml;utf8,%3Csvg%2F%3E"}])),
    ),
    (
        "icon-of-odd-base64",
        ("schema.icon-source",),
        "tools/list",
        None,
        _first("tools", _with(icons=[{"src": "data:image/png;base64,iVBOR~0K"}])),
    ),
    (
        "icon-size-number",
        ("schema.icon-sizes",),
        "tools/list",
        None,
        _first("tools", _with(icons=[{"src": "https://example.com/a.png", "sizes": ["big"]}])),
    ),
    (
        "schema-of-no-type",
        ("schema.valid-schemas", "tools.input-schema"),
        "tools/list",
        None,
        _first("tools", _within("inputSchema", _with(properties={"a": {"type": "text"}}))),
    ),
    (
        "schema-without-definitions",
        ("schema.valid-schemas", "tools.input-schema"),
        "tools/list",
        None,
        _first("tools", _within("inputSchema", _with(properties={"a": {"$ref": "#/$defs/Missing"}}))),
    ),
    (
        "schema-draft-7",
        ("schema.dialect",),
        "tools/list",
        None,
        _first("tools", _within("inputSchema", _with(**{"$schema": "http://json-schema.org/draft-07/schema#"}))),
    ),
    (
        "is-error-string",
        ("schema.call-tool-result", "tools.failure"),
        _CALL,
        "test_error_handling",
        _with(isError="yes"),
    ),
    ("text-number", ("schema.text-content",), _CALL, "test_simple_text", _first("content", _with(text=5))),
    (
        "image-without-type",
        ("schema.image-content",),
        _CALL,
        "test_image_content",
        _first("content", _drop("mimeType")),
    ),
    ("audio-without-data", ("schema.audio-content",), _CALL, "test_audio_content", _first("content", _drop("data"))),
    (
        "link-without-name",
        ("schema.resource-link",),
        _CALL,
        "test_simple_text",
        _with(content=[{"type": "resource_link", "uri": "test://static-text"}]),
    ),
    (
        "embedded-without-resource",
        ("schema.embedded-resource",),
        _CALL,
        "test_embedded_resource",
        _first("content", _drop("resource")),
    ),
    ("content-unknown", ("schema.content-kinds",), _CALL, "test_simple_text", _first("content", _with(type="video"))),
    (
        "text-and-blob",
        ("schema.resource-contents",),
        "resources/read",
        _WATCHED,
        _first("contents", _with(blob="YSB0ZXh0")),
    ),
    (
        "embedded-text-and-blob",
        ("schema.embedded-resource",),
        _CALL,
        "test_embedded_resource",
        _first("content", _within("resource", _with(blob="YSB0ZXh0"))),
    ),
    (
        "image-encoded-twice",
        ("schema.base64",),
        _CALL,
        "test_image_content",
        _first("content", lambda block: {**block, "data": _encoded(block["data"])}),
    ),
    (
        "blob-encoded-twice",
        ("schema.base64",),
        "resources/read",
        "test://static-binary",
        _first("contents", lambda contents: {**contents, "blob": _encoded(contents["blob"])}),
    ),
    ("base64-broken", ("schema.base64",), _CALL, "test_image_content", _first("content", _with(data="!!!"))),
    (
        "priority-two",
        ("schema.annotations", "resources.list-schema"),
        "resources/list",
        None,
        _first("resources", _with(annotations={"priority": 2})),
    ),
    (
        "last-modified-word",
        ("schema.annotations-timestamp",),
        "resources/list",
        None,
        _first("resources", _with(annotations={"lastModified": "yesterday"})),
    ),
):
    _enter(_name, partial(_InResult, _method, _change, _of), *_checks)

_enter(
    "tools-object",
    partial(_InResult, "tools/list", _with(tools={})),
    "schema.list-tools-result",
    "tools.list-schema",
    "tasks.not-augmentable",
    revisions=LEGACY,
)
_enter(
    "structured-list",
    partial(_InResult, _CALL, _with(structuredContent=[1]), "test_simple_text"),
    "schema.structured-content",
    revisions=LEGACY,
)
_enter(
    "log-level-fatal",
    partial(_InNotification, "notifications/message", _with(level="fatal")),
    "schema.logging-level",
    "logging.level",
    "logging.shape",
)
_enter(
    "tokens-string",
    partial(_ClientRequestFault, "sampling/createMessage", _with(maxTokens="many")),
    "schema.create-message-params",
    "sampling.shape",
)
_enter(
    "sampled-resource",
    partial(
        _ClientRequestFault,
        "sampling/createMessage",
        _first("messages", _with(content={"type": "resource", "resource": {"uri": "a:b", "text": ""}})),
    ),
    "schema.sampling-content",
    "sampling.shape",
)
_enter(
    "form-null",
    partial(
        _ClientRequestFault,
        "elicitation/create",
        _within("requestedSchema", _within("properties", _with(odd={"type": "null"}))),
    ),
    "schema.elicit-primitives",
    "elicitation.fields",
)
_enter(
    "form-choice-of-numbers",
    partial(
        _ClientRequestFault,
        "elicitation/create",
        _within("requestedSchema", _within("properties", _with(odd={"type": "string", "enum": [1, 2]}))),
    ),
    "schema.elicit-enums",
)
_enter("flag-string", partial(_InCapabilities, _with(tools={"listChanged": "yes"})), "schema.server-capabilities")
_enter(
    "experimental-flag",
    partial(_InCapabilities, _with(experimental={"a": True})),
    "capability.experimental",
    "schema.server-messages",
)
_enter(
    "extension-flag",
    partial(_InCapabilities, _within("extensions", _with(**{"com.example/a": True}))),
    "capability.extensions",
    "schema.server-messages",
    revisions=("2026-07-28",),
)
_enter(
    "extension-bare",
    partial(_InCapabilities, _within("extensions", _with(plain={}))),
    "capability.extension-id",
    revisions=("2026-07-28",),
)
_enter("core-tasks", partial(_InCapabilities, _with(tasks={})), "compat.no-core-tasks", revisions=("2026-07-28",))
_enter(
    "question-too-early",
    partial(_InResult, _CALL, _with(inputRequests={}), "test_simple_text"),
    "version.respect-negotiated",
    revisions=LEGACY,
)
_enter(
    "task-too-early",
    partial(_InResult, _CALL, _with(task={"taskId": "1"}), "test_simple_text"),
    "version.respect-negotiated",
    revisions=LEGACY[:3],
)
_enter(
    "form-with-array-too-early",
    partial(
        _ClientRequestFault,
        "elicitation/create",
        _within(
            "requestedSchema",
            _within("properties", _with(odd={"type": "array", "items": {"type": "string", "enum": ["a"]}})),
        ),
    ),
    "schema.elicit-enums",
    "elicitation.validates",
    revisions=LEGACY[2:3],
)
_enter(
    "link-too-early",
    partial(
        _InResult,
        _CALL,
        _first("content", _with(type="resource_link", uri="test://static-text", name="static-text")),
        "test_simple_text",
    ),
    "schema.content-kinds",
    revisions=LEGACY[:1],
)
_enter(
    "server-without-version",
    partial(_InResult, "initialize", _within("serverInfo", _drop("version"))),
    "schema.implementation",
    revisions=LEGACY,
)
