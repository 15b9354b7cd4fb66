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
def test_what_breaks_the_schema_is_told(value: JsonValue | Absent, problem: str) -> None:
    with pytest.raises(InvalidToolOutput, match=r"the tool 'a' violates its output schema.*validate_output") as caught:
        schemas(NUMBER).check("a", result(value))
    assert caught.value.problems[0].startswith(problem) or "cannot be validated" in caught.value.problems[0]
    assert caught.value.result.structured_content == value


def test_what_fits_passes() -> None:
    outputs = schemas(NUMBER)
    outputs.check("a", result({"n": 1}))
    outputs.check("a", result({"n": 2, "more": [1]}))


def test_a_path_leads_through_arrays() -> None:
    items: JsonObject = {"type": "array", "items": NUMBER}
    with pytest.raises(InvalidToolOutput) as caught:
        schemas(items).check("a", result([{"n": 1}, {"n": None}]))
    assert caught.value.problems[0].startswith("$[1].n: ")


def test_not_more_problems_are_told_than_anybody_reads() -> None:
    items: JsonObject = {"type": "array", "items": {"type": "string"}}
    with pytest.raises(InvalidToolOutput) as caught:
        schemas(items).check("a", result([1] * 900))
    assert len(caught.value.problems) == 20


@pytest.mark.parametrize("value", [[1] * 1_001, [[1] * 1_001], {"a": [1] * 1_001}, [[1]] * 501])
def test_a_large_result_is_reported_by_its_first_problem(value: JsonValue) -> None:
    item: JsonObject = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/all"}]}
    nested: JsonObject = {"type": ["array", "object"], "items": item, "additionalProperties": item}
    with pytest.raises(InvalidToolOutput) as caught:
        schemas({"$ref": "#/$defs/all", "$defs": {"all": nested}}).check("a", result(value))
    assert len(caught.value.problems) == 1


def test_a_failed_tool_and_an_unknown_one_promise_nothing() -> None:
    schemas(NUMBER).check("a", result(ABSENT, is_error=True))
    schemas(NUMBER).check("b", result(ABSENT))
    schemas(None).check("a", result(ABSENT))


def test_tools_that_changed_are_unknown_until_they_are_listed_again() -> None:
    outputs = schemas(NUMBER)
    outputs.forget()
    outputs.check("a", result({}))


def test_the_policy_decides(caplog: pytest.LogCaptureFixture) -> None:
    schemas(NUMBER, "off").check("a", result({}))
    assert not caplog.records
    schemas(NUMBER, "warn").check("a", result({}))
    assert "violates its output schema" in caplog.text
    with pytest.raises(ValueError, match="validate_output must be 'raise', 'warn' or 'off', not 'loud'"):
        OutputSchemas("loud")  # type: ignore[arg-type]  # what a careless caller writes


def nested(depth: int) -> JsonObject:
    schema: JsonObject = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def exploding() -> JsonObject:
    definitions: JsonObject = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, "d12": {"type": "string"}}}


def hidden(schema: JsonObject) -> JsonObject:
    """The schema as a property whose name looks like a keyword for data."""
    return {"type": "object", "properties": {"enum": schema}}


@pytest.mark.spec("tools.client-validates-results")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect 'http://json-schema.org/draft-04/schema#'"),
        ({"$schema": 4}, "dialect 4"),
        ({"$ref": "https://example.com/schema"}, "external reference"),
        ({"$ref": "#/nowhere"}, "is missing in its output schema"),
        ({"$ref": "#/allOf/7", "allOf": [{}]}, "is missing in its output schema"),
        ({"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}, "reference to an anchor"),
        ({"$dynamicRef": "#name"}, "uses $dynamicRef"),
        ({"type": 3}, "not valid"),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}, "not valid"),
        (nested(100), "more than 64 levels deep"),
        (exploding(), "more than 10000 subschemas"),
        (hidden(nested(100)), "more than 64 levels deep"),
    ],
)
def test_a_schema_that_cannot_be_used_does_not_make_its_tool_unusable(
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
def test_who_wants_only_what_is_valid_does_not_get_what_cannot_be_validated(schema: JsonObject) -> None:
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
def test_known_dialects_references_and_recursion_are_followed(schema: JsonObject) -> None:
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
def test_no_schema_and_no_value_crash(schema: JsonObject, value: JsonValue) -> None:
    schemas(schema, "warn").check("a", result(value))


def test_the_validator_is_loaded_when_it_is_needed_and_not_before() -> None:
    code = "import sys, mcp_client; sys.exit(any(name.startswith(('jsonschema_rs', 'rich')) for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
