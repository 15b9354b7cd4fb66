from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.features.output_schema import InvalidToolOutput, OutputPolicy, OutputSchemas
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.types import ABSENT, Absent, CallToolResult, Tool

NUMBER: JsonObject = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


def schemas(schema: JsonObject | None, policy: OutputPolicy = "raise") -> OutputSchemas:
    outputs = OutputSchemas(policy)
    outputs.learn([Tool(name="a", input_schema={"type": "object"}, output_schema=schema)])
    return outputs


def result(value: JsonValue | Absent, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=(), structured_content=value, is_error=is_error)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"n": "one"}, "$.n: "),
        ({}, "$: "),
        (ABSENT, "$: there is no structured content"),
        ({"n": "\ud800"}, "$.n: "),
    ],
)
def test_output_violating_schema_raises(value: JsonValue | Absent, problem: str) -> None:
    with pytest.raises(InvalidToolOutput, match=r"the tool 'a' violates its output schema.*validate_output") as caught:
        schemas(NUMBER).check("a", result(value))
    assert caught.value.problems[0].startswith(problem) or "cannot be validated" in caught.value.problems[0]
    assert caught.value.result.structured_content == value


def test_output_valid_accepted() -> None:
    outputs = schemas(NUMBER)
    outputs.check("a", result({"n": 1}))
    outputs.check("a", result({"n": 2, "more": [1]}))


def test_problem_path_through_array() -> None:
    items: JsonObject = {"type": "array", "items": NUMBER}
    with pytest.raises(InvalidToolOutput) as caught:
        schemas(items).check("a", result([{"n": 1}, {"n": None}]))
    assert caught.value.problems[0].startswith("$[1].n: ")


def test_problems_limited_to_20() -> None:
    items: JsonObject = {"type": "array", "items": {"type": "string"}}
    with pytest.raises(InvalidToolOutput) as caught:
        schemas(items).check("a", result([1] * 900))
    assert len(caught.value.problems) == 20


@pytest.mark.parametrize("value", [[1] * 1_001, [[1] * 1_001], {"a": [1] * 1_001}, [[1]] * 501])
def test_large_output_reports_first_problem(value: JsonValue) -> None:
    item: JsonObject = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/all"}]}
    nested: JsonObject = {"type": ["array", "object"], "items": item, "additionalProperties": item}
    with pytest.raises(InvalidToolOutput) as caught:
        schemas({"$ref": "#/$defs/all", "$defs": {"all": nested}}).check("a", result(value))
    assert len(caught.value.problems) == 1


def test_output_of_failed_or_unknown_tool_not_checked() -> None:
    schemas(NUMBER).check("a", result(ABSENT, is_error=True))
    schemas(NUMBER).check("b", result(ABSENT))
    schemas(None).check("a", result(ABSENT))


def test_output_after_forget_not_checked() -> None:
    outputs = schemas(NUMBER)
    outputs.forget()
    outputs.check("a", result({}))


def test_policy_off_warn_and_invalid(caplog: pytest.LogCaptureFixture) -> None:
    schemas(NUMBER, "off").check("a", result({}))
    assert not caplog.records
    schemas(NUMBER, "warn").check("a", result({}))
    assert "violates its output schema" in caplog.text
    with pytest.raises(ValueError, match="validate_output must be 'raise', 'warn' or 'off', not 'loud'"):
        OutputSchemas("loud")  # type: ignore[arg-type]  # an invalid policy


def nested(depth: int) -> JsonObject:
    schema: JsonObject = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def exploding() -> JsonObject:
    definitions: JsonObject = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, "d12": {"type": "string"}}}


def in_enum_property(schema: JsonObject) -> JsonObject:
    """Return a schema with this one as a property whose name is a keyword for data."""
    return {"type": "object", "properties": {"enum": schema}}


@pytest.mark.spec("tools.client-validates-results")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect 'http://json-schema.org/draft-04/schema#'"),
        ({"$schema": 4}, "the dialect '4'"),
        ({"$ref": "https://example.com/schema"}, "leads out of the schema"),
        ({"$ref": "#/nowhere"}, "does not lead to a subschema"),
        ({"$ref": "#/allOf/7", "allOf": [{}]}, "does not lead to a subschema"),
        ({"$dynamicRef": "#name"}, "does not lead to a subschema"),
        ({"type": 3}, "#/type: "),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}, "#/properties/a/pattern"),
        (nested(100), "over the limit of 64"),
        (exploding(), "over the limit of 10000"),
        (in_enum_property(nested(100)), "over the limit of 64"),
    ],
)
def test_unusable_schema_logged_once_and_not_checked(
    schema: JsonObject, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    outputs = schemas(schema, "warn")
    with caplog.at_level(logging.WARNING, "mcp_client"):
        outputs.check("a", result({"any": "thing"}))
        outputs.check("a", result({"any": "thing"}))
    (record,) = caplog.records
    assert reason in record.getMessage()


@pytest.mark.spec(
    "schema.dialect-unsupported-error", "schema.unsupported-dialect-error", "schema.unresolved-ref-rejected"
)
@pytest.mark.parametrize("schema", [{"$schema": "https://example.com/dialect"}, {"$ref": "https://example.com/schema"}])
def test_unusable_schema_with_raise_policy_raises(schema: JsonObject) -> None:
    outputs = schemas(schema)
    for _time in range(2):
        with pytest.raises(InvalidToolOutput, match=r"the tool 'a' cannot be validated: .*example\.com") as caught:
            outputs.check("a", result({"any": "thing"}))
        assert caught.value.result.structured_content == {"any": "thing"}


@pytest.mark.spec(
    "schema.dialect-default", "schema.dialect-explicit", "schema.explicit-dialect", "schema.dialect-validate"
)
@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/n", "definitions": {"n": NUMBER}},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", **NUMBER},
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": NUMBER}},
        {"$ref": "#/allOf/0", "allOf": [NUMBER]},
        {
            "type": "object",
            "anyOf": [NUMBER, {"type": "object", "required": ["b"], "properties": {"b": {"$ref": "#"}}}],
        },
    ],
)
def test_schema_dialects_references_and_recursion_supported(schema: JsonObject) -> None:
    outputs = schemas(schema)
    outputs.check("a", result({"n": 1}))
    with pytest.raises(InvalidToolOutput):
        outputs.check("a", result({"n": "one"}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["$ref", "type", "properties", "not", "x"]), inner),
    max_leaves=20,
)


@pytest.mark.property
@given(
    schema=st.dictionaries(st.sampled_from(["$ref", "$defs", "type", "allOf", "const", "$schema"]), JSON), value=JSON
)
def test_check_any_schema_and_value_never_crashes(schema: JsonObject, value: JsonValue) -> None:
    schemas(schema, "warn").check("a", result(value))


def test_import_does_not_load_validator() -> None:
    code = "import sys, mcp_client; sys.exit(any(name.startswith(('jsonschema_rs', 'rich')) for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
