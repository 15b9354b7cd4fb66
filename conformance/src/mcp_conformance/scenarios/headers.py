"""Scenarios of the headers of modern HTTP requests. Spec: basic/transports/streamable-http"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result, tool
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ANNOTATED", "BODY_CALLS", "HEADER_SCENARIOS", "INVALID", "NESTED", "URIS", "WITHOUT_HEADERS"]

URIS: Final = (
    "file:///path/to/file%20name.txt",
    "https://example.com/resource?id=123",
    "test://ünïcode/\u6e2c\u8a66",
    "=?base64?dGVzdA==?=",
)
"""Resource URIs that are difficult to encode in a header."""

_SPECIAL: Final = ("test_headers", "my-hyphenated-tool", "\u5de5\u5177")
_SPECIAL_PROMPTS: Final = ("special-prompt", "Gr\u00fc\u00dfe aus \u6771\u4eac", "=?base64?dGVzdA==?=")


async def _done(_: ScriptedRequest) -> JsonObject:
    return text_result("done")


async def _say(_: ScriptedRequest) -> list[JsonValue]:
    return [{"role": "user", "content": {"type": "text", "text": "a prompt"}}]


def _standard(setup: ScenarioSetup) -> None:
    """Add URIs and names of tools and prompts of every kind."""
    offers = setup.server.offers
    for name in _SPECIAL:
        offers.add_tool(name, "Does nothing", _done)
    for name in _SPECIAL_PROMPTS:
        offers.prompts.append({"name": name})
        offers.messages[name] = _say
    for number, uri in enumerate(URIS):
        offers.resources.append({"uri": uri, "name": f"special-{number}"})
        offers.texts[uri] = "a text"


ANNOTATED: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
        "query": {"type": "string"},
        "float_val": {"type": "number"},
        # It has the name of an annotated property within an object.
        "city": {"type": "string"},
        "place": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "x-mcp-header": "Place_City.x"},
                "map": {"type": "object", "properties": {"square": {"type": "string", "x-mcp-header": "Square"}}},
            },
        },
        # A property whose name looks like the path of another one.
        "place.city": {"type": "string", "x-mcp-header": "Full-Name"},
        # A property whose name is a keyword elsewhere.
        "items": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Item-Count"}}},
    },
}
"""An input schema with header parameters."""

_CALLS: Final[tuple[JsonObject, ...]] = (
    {"region": "us-west1", "priority": 42, "verbose": False, "query": "SELECT 1", "float_val": 1.5},
    {"region": "eu west 1", "priority": -7, "verbose": True},
    {"region": "", "verbose": None},
    {"region": "\u6771\u4eac", "place": {"city": "Zürich"}, "items": {"count": 3}},
    {"region": " padded ", "place": {"city": "Ghent"}},
    # Latin-1 has the characters too, with other bytes than UTF-8.
    {"region": "Zürich", "place": {"city": "\u6771\u4eac", "map": {"square": "B2"}}},
    # In base64 with "+" and "/", for which some variants have other characters.
    {"region": "\u00ff>?\u00fb\u00ef\u00be"},
    # Two units of UTF-16, which are no characters of their own.
    {"region": "\U0001f9ea"},
    {"city": "Bruges", "place": {"city": "Ghent"}},
    {"place.city": "Lier", "place": {"city": "Ghent"}},
    {"region": "line\r\nInjected: yes"},
    {"region": "\ttab"},
    {"region": "trailing space "},
    {"region": "trailing tab\t"},
    {"region": "a\ttab inside"},
    {"region": "del\x7fete"},
    {"region": "=?base64?dGVzdA==?="},
    {"priority": 0, "query": "nothing else"},
    # A float with its usual precision, or in its usual notation, has other digits.
    {"priority": 12345678},
    {"priority": 1000000},
    {"priority": 2**53 - 1},
    {"priority": 1 - 2**53},
)


BODY_CALLS: Final[tuple[JsonObject, ...]] = (
    {"query": "first", "region": "us-west1", "priority": 42, "verbose": True},
    {"query": "second", "region": "", "priority": 0, "verbose": False},
    {"query": "third", "region": "\u6771\u4eac", "place": {"city": "Z\u00fcrich"}, "items": {"count": 3}},
)
"""The arguments of calls over stdio, which has no headers. The query, which is not annotated, names the call."""
WITHOUT_HEADERS: Final = "conformance_without_headers"
"""The scenario with these calls."""


def _custom(setup: ScenarioSetup) -> None:
    """Add a tool with header parameters."""
    setup.server.offers.add_tool("test_custom_headers", "Does nothing", _done, ANNOTATED)


def _with(schema: JsonObject, header: JsonValue) -> JsonObject:
    return {"type": "object", "properties": {"value": {**schema, "x-mcp-header": header}}}


_STRING: Final[JsonObject] = {"type": "string"}

_ANNOTATED: Final[JsonObject] = {"a": {"type": "string", "x-mcp-header": "A"}}

_INVALID: Final[Mapping[str, JsonObject]] = {
    "empty": _with(_STRING, ""),
    "space": _with(_STRING, "My Region"),
    "colon": _with(_STRING, "Region:Primary"),
    "non_ascii": _with(_STRING, "Rëgion"),
    "control": _with(_STRING, "Region\u0007"),
    "line_feed": _with(_STRING, "Region\n"),
    "slash": _with(_STRING, "a/b"),
    "not_a_string": _with(_STRING, 7),
    "on_object": _with({"type": "object"}, "Data"),
    "on_array": _with({"type": "array", "items": {"type": "string"}}, "Items"),
    "on_null": _with({"type": "null"}, "Nothing"),
    "on_number": _with({"type": "number"}, "Ratio"),
    "duplicate": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"type": "string", "x-mcp-header": "REGION"},
        },
    },
    "duplicate_below": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "region"}}},
        },
    },
    "duplicate_apart": {"type": "object", "properties": {"a": _with(_STRING, "Region"), "b": _with(_STRING, "REGION")}},
    "in_items": {
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"type": "object", "properties": _ANNOTATED}}},
    },
    "in_any_of": {"type": "object", "anyOf": [{"properties": _ANNOTATED}, {"required": []}]},
    "in_one_of": {"type": "object", "oneOf": [{"properties": _ANNOTATED}]},
    "in_all_of": {"type": "object", "allOf": [{"properties": _ANNOTATED}]},
    "in_then": {"type": "object", "if": {"required": ["a"]}, "then": {"properties": _ANNOTATED}},
    "in_property_any_of": {"type": "object", "properties": {"b": {"anyOf": [{"properties": _ANNOTATED}]}}},
}
"""Input schemas with an invalid header annotation, by kind of defect. The tool is named `invalid_` and the kind."""
NESTED: Final = "nested_"
"""The beginning of the kinds of defects that are within an object."""
INVALID: Final[Mapping[str, JsonObject]] = {
    **_INVALID,
    **{f"{NESTED}{kind}": {"type": "object", "properties": {"b": schema}} for kind, schema in _INVALID.items()},
}
"""The same input schemas, and each as a property of another one."""


def _invalid(setup: ScenarioSetup) -> None:
    """Offer one valid tool among invalid ones."""
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    for name, schema in INVALID.items():
        offers.tools.append(tool(f"invalid_{name}", "Must not be used", schema))
        offers.calls[f"invalid_{name}"] = _done
    offers.add_tool("valid_tool", "May be used", _done, ANNOTATED)


HEADER_SCENARIOS: Final = (
    Scenario(
        name="http-standard-headers",
        title="Tools, resources and prompts with names of every kind.",
        prepare=_standard,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
    ),
    Scenario(
        name="http-custom-headers",
        title="A tool with header parameters; the context states the calls.",
        prepare=_custom,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
        context={"toolCalls": [{"name": "test_custom_headers", "arguments": call} for call in _CALLS]},
    ),
    Scenario(
        name=WITHOUT_HEADERS,
        title="A tool with header parameters, over a transport without headers; the context states the calls.",
        prepare=_custom,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.STDIO}),
        context={"toolCalls": [{"name": "test_custom_headers", "arguments": call} for call in BODY_CALLS]},
    ),
    Scenario(
        name="http-invalid-tool-headers",
        title="Tools with invalid header annotations, and one with valid ones.",
        prepare=_invalid,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
    ),
)
"""The scenarios, in order."""
