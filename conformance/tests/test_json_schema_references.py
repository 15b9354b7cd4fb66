"""Tests of the references in the JSON Schemas that an implementation publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_conformance.protocol.json_schema import flaw_of_schema

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject

MISSING: JsonObject = {"$ref": "#/$defs/Missing"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a/b": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/a~1b"}}},
        {"$defs": {"a b": {}}, "items": {"$ref": "#/$defs/a%20b"}},
        {"$defs": {"a": {"$anchor": "number"}}, "$ref": "#number"},
        {"allOf": [{"type": "object"}], "items": {"$ref": "#/allOf/0"}},
        {"properties": {"$ref": {"type": "string"}}},
        {"default": MISSING, "enum": [MISSING], "const": MISSING},
        {"$id": "https://example.com/a.json", **MISSING},
        {"$ref": "https://example.com/elsewhere.json"},
    ],
)
def test_schema_whose_references_have_targets_is_valid(schema: JsonObject) -> None:
    assert flaw_of_schema(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        MISSING,
        {"properties": {"properties": MISSING}},
        {"allOf": [{"items": MISSING}]},
        {"$defs": {"a": {}}, "$ref": "#a"},
        {"allOf": [{}], "items": {"$ref": "#/allOf/1"}},
    ],
)
def test_schema_with_reference_without_target_is_invalid(schema: JsonObject) -> None:
    assert "refers to nothing" in str(flaw_of_schema(schema))
