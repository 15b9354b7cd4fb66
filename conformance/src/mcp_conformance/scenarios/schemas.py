"""Scenarios of schemas in several dialects. The client reports each result by calling the tool `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result, tool
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN, R2025_11_25, Era, between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["CHANGED", "ECHOED", "SCHEMAS", "SCHEMA_SCENARIOS"]

SCHEMAS: Final = "conformance_schemas"
"""The name of the scenario with the dialects."""

CHANGED: Final = "gives_changed"
"""The tool whose output schema changes after its first result was reported."""

_DRAFT7: Final = "http://json-schema.org/draft-07/schema#"
_NAMED_DEFAULT: Final = "https://json-schema.org/draft/2020-12/schema"
_UNKNOWN: Final = "https://schemas.example/a-dialect-of-nobody"
_ELSEWHERE: Final = "https://schemas.example/pair.json"
_PAIR: Final[list[JsonValue]] = [{"type": "integer"}, {"type": "string"}]


def _of(pair: JsonObject, dialect: str | None = None) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": {"pair": pair}, "required": ["pair"]}
    return schema if dialect is None else {"$schema": dialect, **schema}


_REFERRING: Final[JsonObject] = {**_of({"$ref": "#/$defs/number"}), "$defs": {"number": {"type": "integer"}}}
"""A schema with a reference within itself."""
_FIT: Final[JsonValue] = [1, "a"]
_UNFIT: Final[JsonValue] = ["a", 1]
_TOOLS: Final[Mapping[str, tuple[JsonObject, JsonValue]]] = {
    "gives_fit": (_of({"type": "array"}), _FIT),
    "gives_unfit": (_of({"type": "array"}), "no array"),
    "gives_prefix_fit": (_of({"type": "array", "prefixItems": _PAIR}), _FIT),
    "gives_prefix_unfit": (_of({"type": "array", "prefixItems": _PAIR}), _UNFIT),
    "gives_2020_fit": (_of({"type": "array", "prefixItems": _PAIR}, _NAMED_DEFAULT), _FIT),
    "gives_2020_unfit": (_of({"type": "array", "prefixItems": _PAIR}, _NAMED_DEFAULT), _UNFIT),
    "gives_reference_fit": (_REFERRING, 1),
    "gives_reference_unfit": (_REFERRING, "one"),
    "gives_draft7_fit": (_of({"type": "array", "items": _PAIR}, _DRAFT7), _FIT),
    "gives_draft7_unfit": (_of({"type": "array", "items": _PAIR}, _DRAFT7), _UNFIT),
    "gives_draft7_unknown_keyword": (_of({"type": "array", "prefixItems": _PAIR}, _DRAFT7), _UNFIT),
    "gives_unknown_dialect": (_of({"type": "array"}, _UNKNOWN), _FIT),
    "gives_unresolved": (_of({"$ref": _ELSEWHERE}), _FIT),
}
"""The output schema and the structured content of each tool."""


def _schemas(setup: ScenarioSetup) -> None:
    """Offer tools with output schemas of several dialects, and valid and invalid results."""
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    offers.resources.clear()

    async def give(request: ScriptedRequest) -> JsonObject:
        value: JsonObject = {"pair": _TOOLS[request.text("name")][1]}
        return {**text_result(encoded(value).decode()), "structuredContent": value}

    forms = [(_of({"type": "array"}), _FIT), (_of({"type": "string"}), "a text now")]

    async def give_changed(_: ScriptedRequest) -> JsonObject:
        value: JsonObject = {"pair": forms[0][1]}
        return {**text_result(encoded(value).decode()), "structuredContent": value}

    async def noted(request: ScriptedRequest) -> JsonObject:
        arguments = request.params.get("arguments")
        if isinstance(arguments, dict) and arguments.get("of") == CHANGED and len(forms) > 1:
            del forms[0]
            offers.tools[changed] = {**offers.tools[changed], "outputSchema": forms[0][0]}
            if request.revision.era is Era.LEGACY:
                await request.notify("notifications/tools/list_changed")
        return text_result("noted")

    for name, (schema, _) in _TOOLS.items():
        offers.tools.append({**tool(name, "Returns structured content"), "outputSchema": schema})
        offers.calls[name] = give
    changed = len(offers.tools)
    offers.tools.append({**tool(CHANGED, "Returns structured content"), "outputSchema": forms[0][0]})
    offers.calls[CHANGED] = give_changed
    report_schema: JsonObject = {
        "type": "object",
        "properties": {"of": {"type": "string"}, "outcome": {"enum": ["result", "failed", "error", "invalid"]}},
        "required": ["of", "outcome"],
    }
    offers.add_tool("report", "Receives the outcome of a call", noted, report_schema)


ECHOED: Final[JsonObject] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"name": {"$anchor": "name", "type": "string"}},
    "properties": {"name": {"$ref": "#/$defs/name"}, "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]}},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["kind"]}]}],
    "if": {"required": ["kind"]},
    "then": {"not": {"required": ["name"]}},
    "else": {"required": ["name"]},
    "additionalProperties": False,
}
"""An input schema with all keywords of 2020-12."""


def _preservation(setup: ScenarioSetup) -> None:
    """Offer a tool with such a schema, and one that takes a schema as argument."""
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()

    async def done(_: ScriptedRequest) -> JsonObject:
        return text_result("done")

    offers.add_tool("json_schema_2020_12_tool", "Has a schema with all keywords", done, dict(ECHOED))
    schema: JsonObject = {"type": "object", "properties": {"schema": {"type": "object"}}, "required": ["schema"]}
    offers.add_tool("json_schema_echo", "Receives the schema of the other tool", done, schema)


SCHEMA_SCENARIOS: Final = (
    Scenario(
        name=SCHEMAS,
        title="Tools with output schemas of several dialects, of which one changes; the client reports the outcome of each by the tool `report`.",
        prepare=_schemas,
        revisions=between(R2025_11_25),
    ),
    Scenario(
        name="json-schema-2020-12-preservation",
        title="A tool whose input schema has all keywords, and one that receives this schema.",
        prepare=_preservation,
        revisions=frozenset(MODERN),
    ),
)
"""The scenarios, in order."""
