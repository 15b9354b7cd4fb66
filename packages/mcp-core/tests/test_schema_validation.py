"""Validation of JSON values with untrusted schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded
from mcp_core.schema.validation import (
    DIALECTS,
    InvalidSchema,
    NonLocalReference,
    SchemaLimits,
    SchemaProblem,
    UnknownDialect,
    compile_schema,
)

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

PAIR: JsonObject = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}
DRAFT_7_PAIR: JsonObject = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "array",
    "items": [{"type": "integer"}, {"type": "string"}],
    "additionalItems": False,
}


def make_reference_bomb(levels: int, keyword: str = "$ref") -> JsonObject:
    """Return a short schema whose references expand to two to the power of `levels` subschemas."""
    defs: JsonObject = {}
    for level in range(levels):
        target = f"#/$defs/a{level + 1}" if keyword == "$ref" else f"#a{level + 1}"
        defs[f"a{level}"] = {"$anchor": f"a{level}", "allOf": [{"$ref": target}, {"$ref": target}]}
    defs[f"a{levels}"] = {"$anchor": f"a{levels}", "type": "string"}
    return {"$defs": defs, "$ref": "#/$defs/a0"}


def test_valid_value_has_no_problems() -> None:
    assert compile_schema({"type": "object", "required": ["a"]}).validate({"a": 1}) == ()


def test_problem_has_path_and_message() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
    }
    problems = compile_schema(schema).validate({"a": "x", "b": ["fine", 2]})
    assert [problem.path for problem in problems] == ["$.a", "$.b[1]"]
    assert str(problems[0]) == '$.a: "x" is not of type "integer"'


@pytest.mark.parametrize("invalid", [[1] * 1_001, [[1] * 1_001], {"a": [1] * 1_001}, [[1]] * 501])
def test_large_value_reports_first_problem_only(invalid: JsonValue) -> None:
    item: JsonObject = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/all"}]}
    nested: JsonObject = {"type": ["array", "object"], "items": item, "additionalProperties": item}
    schema: JsonObject = {"$ref": "#/$defs/all", "$defs": {"all": nested}}
    (problem,) = compile_schema(schema).validate(invalid)
    assert problem.path.startswith("$")
    assert len(problem.message) <= 303


def test_problems_are_limited() -> None:
    validator = compile_schema({"items": {"type": "string"}}, limits=SchemaLimits(problems=3))
    assert len(validator.validate([1, 2, 3, 4, 5])) == 3


def test_message_does_not_repeat_large_value() -> None:
    (problem,) = compile_schema({"type": "integer"}).validate("x" * 100_000)
    assert len(problem.message) < 400


@pytest.mark.spec("schema.default-dialect-2020-12", "schema.dialect-default")
def test_schema_without_dialect_uses_2020_12() -> None:
    validator = compile_schema(PAIR)
    assert validator.validate([1, "a"]) == ()
    assert validator.validate([1, "a", "more"]) != ()


@pytest.mark.spec("schema.validate-by-dialect", "schema.dialect-validate")
def test_validation_follows_declared_dialect() -> None:
    validator = compile_schema(DRAFT_7_PAIR)
    assert validator.validate([1, "a"]) == ()
    assert validator.validate([1, "a", "more"]) != ()
    # `prefixItems` means nothing in draft-07.
    as_draft_7: JsonObject = {
        "prefixItems": [{"type": "integer"}],
        "$schema": "http://json-schema.org/draft-07/schema#",
    }
    assert compile_schema(as_draft_7).validate(["no integer"]) == ()
    dependent: JsonObject = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "dependentRequired": {"a": ["b"]},
    }
    assert compile_schema(dependent).validate({"a": 1}) != ()


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_dialect_accepted_with_and_without_empty_fragment(dialect: str) -> None:
    for spelling in (dialect, f"{dialect}#"):
        assert compile_schema({"$schema": spelling, "type": "string"}).validate(1) != ()


@pytest.mark.spec("schema.unsupported-dialect-error", "schema.dialect-unsupported-error")
@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-04/schema#", "urn:mine", "", 7, None])
def test_unknown_dialect_raises(dialect: JsonValue) -> None:
    with pytest.raises(UnknownDialect) as caught:
        compile_schema({"$schema": dialect, "type": "object"})
    assert caught.value.dialect == str(dialect)
    assert "2020-12" in str(caught.value)


@pytest.mark.spec("schema.no-network-ref", "schema.unresolved-ref-rejected", "schema.network-ref-opt-in-off")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:1/a.json",
        "file:///etc/passwd",
        "other.json",
        "//host/x",
        "https://json-schema.org/draft/2020-12/schema",
        "",
    ],
)
def test_external_reference_raises(keyword: str, reference: str) -> None:
    with pytest.raises(NonLocalReference) as caught:
        compile_schema({"properties": {"a/b": {keyword: reference}}})
    assert caught.value.reference == reference
    assert caught.value.path == f"#/properties/a~1b/{keyword}"


def test_local_references_are_resolved() -> None:
    schema: JsonObject = {
        "$id": "https://example.com/root",
        "$defs": {"a b": {"type": "integer"}, "c": {"$anchor": "here", "type": "string"}, "yes": True},
        "prefixItems": [{"$ref": "#/$defs/a%20b"}, {"$ref": "#here"}, {"$ref": "#/$defs/yes"}, {"$ref": "#"}],
    }
    validator = compile_schema(schema)
    assert validator.validate([1, "a", None, [2]]) == ()
    assert [problem.path for problem in validator.validate(["a", 1, None, ["b"]])] == ["$[0]", "$[1]", "$[3][0]"]


def test_draft_7_anchor_is_resolved() -> None:
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"a": {"$id": "#a", "type": "string"}},
        "items": {"$ref": "#a"},
    }
    assert compile_schema(schema).validate(["x"]) == ()
    assert compile_schema(schema).validate([1]) != ()


def test_nested_id_raises() -> None:
    with pytest.raises(InvalidSchema, match="nested subschema with an identifier"):
        compile_schema({"$defs": {"a": {"$id": "https://example.com/a"}}})


@pytest.mark.parametrize("reference", ["#/$defs/absent", "#absent", "#/properties", "#/default"])
def test_unresolved_reference_raises(reference: str) -> None:
    with pytest.raises(InvalidSchema, match="does not lead to a subschema"):
        compile_schema({"properties": {"a": {"$ref": reference}}, "default": {"type": "string"}})


@pytest.mark.parametrize("keyword", ["properties", "$defs"])
def test_property_named_like_keyword_is_not_keyword(keyword: str) -> None:
    compile_schema({keyword: {"$ref": {"type": "string"}, "default": {"type": "string"}, "enum": {"$ref": "#"}}})


def test_data_in_schema_is_not_schema() -> None:
    data: JsonValue = {"$ref": "http://127.0.0.1:1/"}
    validator = compile_schema({"const": data, "default": data, "enum": [data], "examples": [data]})
    assert validator.validate(data) == ()


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strnig"}, "#/type"),
        ({"properties": {"a": {"minLength": -1}}}, "#/properties/a/minLength"),
        ({"properties": {"a": 7}}, "#/properties/a"),
        ({"pattern": "("}, "#/pattern"),
    ],
)
@pytest.mark.spec("schema.valid-schemas", "schema.dialect-valid", "tools.input-schema-valid")
def test_invalid_schema_raises_with_path(schema: JsonObject, path: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        compile_schema(schema)
    assert caught.value.path == path


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "(?<!x)y"])
def test_pattern_with_backtracking_raises(pattern: str) -> None:
    with pytest.raises(InvalidSchema):
        compile_schema({"properties": {"a": {"pattern": pattern}}})


def test_hostile_pattern_matches_in_linear_time() -> None:
    validator = compile_schema({"pattern": "^(a+)+$"})
    assert validator.validate("a" * 50_000 + "b") != ()


@pytest.mark.spec("schema.composition-bounds")
@pytest.mark.parametrize("keyword", ["$ref", "$anchor"])
def test_reference_bomb_raises_before_compilation(keyword: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        compile_schema(make_reference_bomb(60, keyword))
    assert caught.value.setting == "SchemaLimits.subschemas"
    assert compile_schema(make_reference_bomb(8, keyword)).validate("x") == ()


@pytest.mark.spec("schema.composition-bounds")
def test_schema_over_depth_limit_raises() -> None:
    schema: JsonObject = {}
    for _ in range(100_000):
        schema = {"not": schema}
    with pytest.raises(LimitExceeded) as caught:
        compile_schema(schema)
    assert caught.value.setting == "SchemaLimits.depth"


def test_library_compile_error_raises_invalid_schema() -> None:
    schema: JsonObject = {}
    for _ in range(3_000):
        schema = {"not": schema}
    with pytest.raises(InvalidSchema, match="Recursion limit"):
        compile_schema(schema, limits=SchemaLimits(depth=5_000))


def test_schema_over_subschema_limit_raises() -> None:
    properties: JsonObject = {str(number): {"type": "string"} for number in range(50)}
    with pytest.raises(LimitExceeded, match=r"SchemaLimits\.subschemas"):
        compile_schema({"properties": properties}, limits=SchemaLimits(subschemas=50))
    assert compile_schema({"properties": properties}, limits=SchemaLimits(subschemas=51)).validate({"1": 1}) != ()


def test_recursive_schema_counts_once() -> None:
    tree: JsonObject = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "left": {"$ref": "#/$defs/node"},
                    "right": {"$ref": "#/$defs/node"},
                    "value": {"type": "integer"},
                },
            }
        },
        "$ref": "#/$defs/node",
    }
    validator = compile_schema(tree)
    assert validator.validate({"left": {"right": {"value": 1}}}) == ()
    assert [str(p.path) for p in validator.validate({"left": {"right": {"value": "x"}}})] == ["$.left.right.value"]


def test_circular_reference_terminates() -> None:
    schema: JsonObject = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    assert compile_schema(schema).validate(1) == ()


def test_lone_surrogate_is_problem() -> None:
    (problem,) = compile_schema({"type": "string"}).validate("\ud800")
    assert isinstance(problem, SchemaProblem)
    assert "cannot be validated" in problem.message


@pytest.mark.parametrize("value", [10**400, -(10**30), 2**63, 1e308])
def test_large_numbers_are_valid(value: JsonValue) -> None:
    assert compile_schema({"type": "number"}).validate(value) == ()


def test_deeply_nested_value_is_validated() -> None:
    value: JsonValue = []
    for _ in range(5_000):
        value = [value]
    assert compile_schema({"type": "array", "items": {"$ref": "#"}}).validate(value) == ()


def test_validator_keeps_schema() -> None:
    assert compile_schema(PAIR).schema is PAIR


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    ["$ref", "$id", "$anchor", "$schema", "allOf", "items", "properties", "$defs", "type", "const", "pattern"]
)


@given(st.dictionaries(KEYWORDS, JSON, max_size=5), JSON)
def test_generated_schema_compiles_or_raises(schema: JsonObject, value: JsonValue) -> None:
    try:
        validator = compile_schema(schema)
    except (InvalidSchema, LimitExceeded):
        return
    validator.validate(value)


@given(JSON)
def test_const_allows_only_equal_value(value: JsonValue) -> None:
    validator = compile_schema({"const": value})
    assert validator.validate(value) == ()
    assert validator.validate({"other": json.dumps(value)}) != ()


def test_validator_library_is_loaded_lazily() -> None:
    code = "import sys, mcp_core.schema.validation; print('jsonschema_rs' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [("date", "2028-02-29", "2026-02-29"), ("email", "ada@example.com", "ada"), ("uri", "urn:a:b", "/a")],
)
def test_format_checked_on_request_only(name: str, valid: str, invalid: str) -> None:
    schema: JsonObject = {"type": "string", "format": name}
    assert compile_schema(schema).validate(invalid) == ()
    checking = compile_schema(schema, check_formats=True)
    assert checking.validate(valid) == ()
    assert len(checking.validate(invalid)) == 1
    assert compile_schema({"type": "string", "format": "unknown"}, check_formats=True).validate(invalid) == ()
