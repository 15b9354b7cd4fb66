from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.connection.elicitation import why_unfit
from mcp_core.conversion.converter import converter
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LATEST
from mcp_core.types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, RequestedSchema

FIELDS: dict[str, JsonObject] = {
    "text": {"type": "string", "minLength": 2, "maxLength": 4},
    "free": {"type": "string"},
    "whole": {"type": "integer", "minimum": 1, "maximum": 5},
    "number": {"type": "number", "minimum": 0.5},
    "sure": {"type": "boolean"},
    "one": {"type": "string", "enum": ["a", "b"]},
    "named": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
    "several": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
}


def form(*names: str, required: tuple[str, ...] = ()) -> ElicitRequestFormParams:
    raw: JsonObject = {"type": "object", "properties": {name: FIELDS[name] for name in names}}
    schema = converter(LATEST).structure({**raw, "required": [*required]}, RequestedSchema)
    return ElicitRequestFormParams(message="Well?", requested_schema=schema)


def accepted(**content: object) -> ElicitResult:
    return ElicitResult(action="accept", content=content)  # type: ignore[arg-type]  # tests pass invalid content


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("text", "a", "text has fewer than 2 characters"),
        ("text", "abcde", "text has more than 4 characters"),
        ("text", 5, "text must be a string"),
        ("whole", 1.5, "whole must be an integer"),
        ("whole", 0, "whole is less than 1"),
        ("whole", 6, "whole is more than 5"),
        ("whole", True, "whole must be a number"),
        ("whole", "1", "whole must be a number"),
        ("sure", 1, "sure must be true or false"),
        ("one", "c", "one is not one of: a, b"),
        ("named", "A", "named is not one of: a, b"),
        ("titled", "A", "titled is not one of: a"),
        ("some", "a", "some must be a list of strings"),
        ("some", 1, "some must be a list of strings"),
        ("some", ("a", "c"), "some is not one of: a, b"),
        ("some", (), "some has fewer than 1 choices"),
        ("some", ("a", "b", "a"), "some has more than 2 choices"),
        ("several", ("b",), "several is not one of: a"),
    ],
)
@pytest.mark.spec("elicitation.client-validates", "elicitation.client-validates-content", "elicitation.validate-both")
def test_content_invalid_for_field_reported(name: str, value: object, problem: str) -> None:
    assert why_unfit(form(name), accepted(**{name: value})) == problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "ab"),
        ("text", "abcd"),
        ("whole", 1),
        ("whole", 5),
        ("whole", 2.0),
        ("number", 0.5),
        ("sure", False),
        ("one", "b"),
        ("some", ("a",)),
        ("some", ("a", "b")),
        ("several", ()),
    ],
)
def test_content_at_bounds_accepted(name: str, value: object) -> None:
    assert why_unfit(form(name), accepted(**{name: value})) is None


def test_content_required_field_missing_reported() -> None:
    assert why_unfit(form("text", "free", required=("free",)), accepted(text="ab")) == "free is missing"
    assert why_unfit(form("free", required=("free",)), ElicitResult(action="accept")) == "free is missing"
    assert why_unfit(form("free"), ElicitResult(action="accept")) is None


def test_content_not_checked_without_accept() -> None:
    for action in ("decline", "cancel"):
        assert why_unfit(form("free", required=("free",)), ElicitResult(action=action)) is None


@pytest.mark.spec("elicitation.url-accept-no-content", "elicitation.accept-url-no-content")
def test_content_of_url_mode_rejected() -> None:
    page = ElicitRequestURLParams(message="Pay.", url="https://example.com/")
    assert why_unfit(page, ElicitResult(action="accept")) is None
    assert why_unfit(page, accepted(paid=True)) == "a URL mode result must not have content"


VALUES: st.SearchStrategy[JsonValue] = st.one_of(
    st.text("ab", max_size=5), st.integers(-1, 7), st.floats(-1, 7), st.booleans(), st.lists(st.sampled_from("abc"))
)


@pytest.mark.property
@given(st.sampled_from(sorted(FIELDS)), VALUES)
def test_content_check_agrees_with_json_schema(name: str, value: JsonValue) -> None:
    given_value = tuple(value) if isinstance(value, list) else value
    is_valid = why_unfit(form(name), accepted(**{name: given_value})) is None
    assert is_valid == jsonschema_rs.is_valid(FIELDS[name], value)
