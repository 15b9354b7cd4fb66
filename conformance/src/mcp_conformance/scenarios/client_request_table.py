"""The table of client requests: forms, URLs, sampling and roots, valid and invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.scenarios.client_request_tools import ClientRequest
from mcp_core.revisions import MODERN, R2025_03_26, R2025_06_18, R2025_11_25, between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "CHOICE_ONLY",
    "DEFAULTS",
    "DEFAULT_VALUES",
    "FORM",
    "HINTED",
    "MODELS",
    "ODD_ID",
    "UNFIT",
    "UNFIT_FORMS",
    "WRONG",
    "by_name",
    "valid_client_requests",
]

_FORMS: Final = between(R2025_06_18)
_LATE: Final = between(R2025_11_25)
_PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg+P//PwAF/wL+Xg47rQAAAABJRU5ErkJggg=="
"""An image whose base64 has slashes."""
_SOUND: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 2, "maxLength": 20},
        "age": {"type": "integer", "minimum": 18, "maximum": 150},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "agreed": {"type": "boolean"},
        "color": {"type": "string", "enum": ["red", "green"]},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["name", "age", "agreed", "color"],
}
"""The form of `ask_form`."""
UNFIT: Final[JsonObject] = {"name": "x", "age": 7, "agreed": True, "color": "blue"}
"""Values that do not match that form."""
_RULES: Final[Mapping[str, JsonObject]] = {
    "length": {"properties": {"name": {"type": "string", "minLength": 2}}},
    "minimum": {"properties": {"age": {"type": "integer", "minimum": 18}}},
    "maximum": {"properties": {"age": {"type": "integer", "minimum": 0, "maximum": 6}}},
    "choice": {"properties": {"color": {"type": "string", "enum": ["red", "green"]}}},
    "titled_choice": {
        "properties": {"color": {"type": "string", "oneOf": [{"const": "red", "title": "like a rose"}]}},
    },
    "type": {"properties": {"agreed": {"type": "string"}}},
    "required": {"properties": {"mail": {"type": "string"}}, "required": ["mail"]},
}
"""The rules of the forms of `ask_unfit_form_...`. Those values violate only this rule."""
_PLAIN_FIELDS: Final[JsonObject] = {
    "name": {"type": "string"},
    "age": {"type": "integer"},
    "agreed": {"type": "boolean"},
    "color": {"type": "string"},
}
_CHOICES: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "size": {
            "type": "string",
            "oneOf": [{"const": "s", "title": "small"}, {"const": "l", "title": "large"}],
        },
        # There is no default with as many values.
        "colors": {"type": "array", "minItems": 2, "items": {"type": "string", "enum": ["red", "green", "blue"]}},
        "days": {
            "type": "array",
            "minItems": 2,
            "items": {"anyOf": [{"const": "1", "title": "Monday"}, {"const": "2", "title": "Tuesday"}]},
            "default": ["1", "2"],
        },
    },
    "required": ["size", "colors", "days"],
}
DEFAULT_VALUES: Final[JsonObject] = {
    "name": "John Doe",
    "age": 30,
    "score": 95.5,
    "status": "active",
    "verified": True,
    "tags": ["b", "c"],
    "newsletter": False,
    "discount": 0,
    "ratio": 0.0,
    "size": "l",
    "days": ["2"],
}
"""The defaults of the fields of `ask_defaults`; some of them count as false in many languages."""
ODD_ID: Final = "../1?a=b#c \u00fc \U0001f9ea {}"
"""The id of a URL elicitation. It is opaque to clients."""


_PAGE: Final[JsonObject] = {
    "mode": "url",
    "message": "Please log in there.",
    "url": "https://conformance.invalid/log-in?a=b",
}


def _form(schema: JsonObject, **more: JsonValue) -> JsonObject:
    return {"message": "Please fill in.", "requestedSchema": schema, **more}


def _message(role: str, content: JsonValue) -> JsonObject:
    return {"role": role, "content": content}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _sample(*messages: JsonObject, **more: JsonValue) -> JsonObject:
    return {"messages": list(messages), "maxTokens": 100, **more}


_ASK: Final = _message("user", _text("What is the weather in Ghent?"))
_USE: Final[JsonObject] = {"type": "tool_use", "id": "use-1", "name": "get_weather", "input": {"city": "Ghent"}}
_TWO_USES: Final = _message("assistant", [_USE, {**_USE, "id": "use-2"}])
_RESULT: Final[JsonObject] = {"type": "tool_result", "toolUseId": "use-1", "content": [_text("rain")]}
_TOOLS: Final[list[JsonValue]] = [
    {
        "name": "get_weather",
        "description": "The weather in a city",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]

DEFAULTS: Final = ClientRequest(
    name="ask_defaults",
    method="elicitation/create",
    needs="elicitation.form",
    revisions=_LATE,
    params=_form(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
                "verified": {"type": "boolean", "default": True},
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["a", "b", "c"]},
                    "default": ["b", "c"],
                },
                "newsletter": {"type": "boolean", "default": False},
                "discount": {"type": "integer", "default": 0},
                "ratio": {"type": "number", "default": 0.0},
                "size": {
                    "type": "string",
                    "oneOf": [{"const": "s", "title": "small"}, {"const": "l", "title": "large"}],
                    "default": "l",
                },
                "days": {
                    "type": "array",
                    "items": {"anyOf": [{"const": "1", "title": "Monday"}, {"const": "2", "title": "Tuesday"}]},
                    "default": ["2"],
                },
            },
            # Those that count as false in many languages are left out most easily, and a required boolean becomes false.
            "required": ["newsletter", "discount", "ratio", "verified"],
        }
    ),
)
"""A form whose fields have defaults."""


def _unfit_form(name: str, rule: JsonObject) -> ClientRequest:
    own = rule["properties"]
    schema: JsonObject = {
        "type": "object",
        **rule,
        "properties": {**_PLAIN_FIELDS, **(own if isinstance(own, dict) else {})},
    }
    return ClientRequest(
        name=f"ask_unfit_form_{name}",
        method="elicitation/create",
        needs="elicitation.form",
        revisions=_LATE if name == "titled_choice" else _FORMS,
        params=_form(schema),
    )


UNFIT_FORMS: Final = tuple(_unfit_form(name, rule) for name, rule in _RULES.items())
"""Forms with one rule each, which `UNFIT` violates."""

_RIGHT: Final = (
    ClientRequest(
        name="ask_form",
        method="elicitation/create",
        needs="elicitation.form",
        revisions=_FORMS,
        params=_form(FORM),
    ),
    ClientRequest(
        name="ask_form_by_mode",
        method="elicitation/create",
        needs="elicitation.form",
        revisions=_LATE,
        params=_form(FORM, mode="form"),
    ),
    ClientRequest(
        name="ask_choices",
        method="elicitation/create",
        needs="elicitation.form",
        revisions=_LATE,
        params=_form(_CHOICES),
    ),
    ClientRequest(
        name="ask_url",
        method="elicitation/create",
        needs="elicitation.url",
        revisions=frozenset({R2025_11_25}),
        params={**_PAGE, "elicitationId": ODD_ID},
    ),
    ClientRequest(
        name="ask_url",
        method="elicitation/create",
        needs="elicitation.url",
        revisions=frozenset(MODERN),
        params=_PAGE,
    ),
    ClientRequest(
        name="ask_sample",
        method="sampling/createMessage",
        needs="sampling",
        params=_sample(
            _message("user", _text("Hello")),
            _message("assistant", _text("What is it?")),
            _ASK,
            maxTokens=20,
            systemPrompt="Be brief.",
            temperature=0.5,
            stopSequences=["\n\n"],
            metadata={"a": 1},
            includeContext="none",
            modelPreferences={"costPriority": 0, "speedPriority": 1, "intelligencePriority": 0.5},
        ),
    ),
    ClientRequest(
        name="ask_sample_image",
        method="sampling/createMessage",
        needs="sampling",
        params=_sample(_message("user", {"type": "image", "data": _PIXEL, "mimeType": "image/png"})),
        escaped=True,
    ),
    ClientRequest(
        name="ask_sample_audio",
        method="sampling/createMessage",
        needs="sampling",
        revisions=between(R2025_03_26),
        params=_sample(_message("user", {"type": "audio", "data": _SOUND, "mimeType": "audio/wav"})),
    ),
    ClientRequest(
        name="ask_sample_limits",
        method="sampling/createMessage",
        needs="sampling",
        # Values that count as absent in many languages.
        params=_sample(_ASK, temperature=0, stopSequences=[], systemPrompt=""),
    ),
    ClientRequest(
        name="ask_sample_tools_auto",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(_ASK, tools=_TOOLS, toolChoice={"mode": "auto"}),
    ),
    ClientRequest(
        name="ask_sample_tools_required",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(_ASK, tools=_TOOLS, toolChoice={"mode": "required"}),
    ),
    ClientRequest(
        name="ask_sample_tools_none",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(_ASK, tools=_TOOLS, toolChoice={"mode": "none"}),
    ),
    ClientRequest(
        name="ask_sample_tool_results",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(_ASK, _message("assistant", [_USE]), _message("user", [_RESULT]), tools=_TOOLS),
    ),
    ClientRequest(
        name="ask_sample_parallel_results",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        # The ids, and not the order, show which result belongs to which use.
        params=_sample(
            _ASK,
            _TWO_USES,
            _message("user", [{**_RESULT, "toolUseId": "use-2"}, _RESULT]),
            tools=_TOOLS,
        ),
    ),
    ClientRequest(name="ask_roots", method="roots/list", needs="roots"),
)

CHOICE_ONLY: Final = ClientRequest(
    name="ask_sample_tool_choice",
    method="sampling/createMessage",
    needs="sampling.tools",
    revisions=_LATE,
    params=_sample(_ASK, toolChoice={"mode": "auto"}),
)
"""A sampling request with a choice of tools and without tools, which needs the same capability."""

_WITHOUT_MESSAGES: Final = ClientRequest(
    name="ask_sample_without_messages",
    method="sampling/createMessage",
    needs="sampling",
    params={"maxTokens": 100},
    deviant="sampling/createMessage without messages",
)

WRONG: Final = (
    ClientRequest(
        name="ask_form_without_message",
        method="elicitation/create",
        needs="elicitation.form",
        revisions=_FORMS,
        params={"requestedSchema": FORM},
        deviant="elicitation/create without a message",
    ),
    ClientRequest(
        name="ask_form_without_schema",
        method="elicitation/create",
        needs="elicitation.form",
        revisions=_FORMS,
        params={"message": "Please fill in."},
        deviant="elicitation/create without a requestedSchema",
    ),
    ClientRequest(
        name="ask_sample_without_limit",
        method="sampling/createMessage",
        needs="sampling",
        params={"messages": [_ASK]},
        deviant="sampling/createMessage without maxTokens",
    ),
    _WITHOUT_MESSAGES,
    # The same again: the first one must leave no trace.
    attrs.evolve(_WITHOUT_MESSAGES, name="ask_sample_without_messages_again"),
    ClientRequest(
        name="ask_sample_odd_content",
        method="sampling/createMessage",
        needs="sampling",
        params=_sample(_message("user", {"type": "image", "data": "not base64!", "mimeType": 7})),
        deviant="an image with invalid data and media type",
    ),
    ClientRequest(
        name="ask_sample_odd_audio",
        method="sampling/createMessage",
        needs="sampling",
        revisions=between(R2025_03_26),
        params=_sample(_message("user", {"type": "audio", "data": "not base64!", "mimeType": 7})),
        deviant="audio with invalid data and media type",
    ),
    ClientRequest(
        name="ask_sample_missing_result",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(_ASK, _message("assistant", [_USE]), _message("user", _text("And?")), tools=_TOOLS),
        deviant="a tool_use without its tool_result",
    ),
    ClientRequest(
        name="ask_sample_partial_results",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(
            _ASK,
            _TWO_USES,
            _message("user", [_RESULT]),
            tools=_TOOLS,
        ),
        deviant="two tool_use blocks with one tool_result",
    ),
    ClientRequest(
        name="ask_sample_mixed_result",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(
            _ASK, _message("assistant", [_USE]), _message("user", [_RESULT, _text("and more")]), tools=_TOOLS
        ),
        deviant="a tool_result beside other content",
    ),
    ClientRequest(
        name="ask_sample_mixed_before",
        method="sampling/createMessage",
        needs="sampling.tools",
        revisions=_LATE,
        params=_sample(_ASK, _message("assistant", [_USE]), _message("user", [_text("This:"), _RESULT]), tools=_TOOLS),
        deviant="a tool_result behind other content",
    ),
)
"""Client requests that break a rule."""

MODELS: Final = ("alpha-large-3", "alpha-small-3", "beta-sonnet-20260101", "gamma-mini")
"""The models that a client must have where hints are tested; it prefers the first."""


def _hinted(name: str, *hints: str, **priorities: JsonValue) -> ClientRequest:
    preferences: JsonObject = {"hints": [{"name": hint} for hint in hints], **priorities}
    return ClientRequest(
        name=name,
        method="sampling/createMessage",
        needs="sampling",
        params=_sample(_ASK, modelPreferences=preferences),
    )


HINTED: Final = (
    _hinted("ask_hints_in_order", "no-such-model", "gamma-mini", "alpha-large-3"),
    _hinted("ask_hints_substring", "sonnet"),
    _hinted(
        "ask_hints_before_priorities", "alpha-small-3", intelligencePriority=1.0, speedPriority=0.0, costPriority=0.0
    ),
)
"""Client requests with hints. In each, only one of the models is right."""


def valid_client_requests() -> tuple[ClientRequest, ...]:
    """Return the client requests that break no rule."""
    return _RIGHT


def by_name(*names: str) -> list[ClientRequest]:
    """Return some of them, in the order of the table."""
    return [client_request for client_request in _RIGHT if client_request.name in names]
