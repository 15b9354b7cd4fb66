from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.cli.fields import Field, InvalidEntry, fields_of
from mcp_client.connection.elicitation import why_unfit
from mcp_core.conversion.converter import converter
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LATEST
from mcp_core.types import ElicitRequestFormParams, ElicitResult, RequestedSchema

TITLED: JsonValue = [{"const": "r", "title": "Dark red"}, {"const": "b", "title": "Blue, light"}]
FIELDS: dict[str, JsonObject] = {
    "text": {"type": "string"},
    "short": {"type": "string", "minLength": 2, "maxLength": 4},
    "email": {"type": "string", "format": "email"},
    "uri": {"type": "string", "format": "uri"},
    "date": {"type": "string", "format": "date", "description": "Of arrival.\nIn local time."},
    "time": {"type": "string", "format": "date-time", "maxLength": 30},
    "whole": {"type": "integer", "minimum": 1, "maximum": 5},
    "integer": {"type": "integer"},
    "number": {"type": "number", "minimum": 0.5},
    "sure": {"type": "boolean", "default": True},
    "one": {"type": "string", "enum": ["a", "b"], "default": "b"},
    "named": {"type": "string", "enum": ["a", "b", "c"], "enumNames": ["A one", "B"], "default": "a"},
    "titled": {"type": "string", "oneOf": TITLED, "default": "r"},
    "digits": {"type": "string", "enum": ["2", "1"]},
    "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 1},
    "several": {"type": "array", "items": {"anyOf": TITLED}, "default": ["r", "b"]},
    "any": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    "spoiled": {"type": "integer", "maximum": 3, "default": 7},
}


def field(name: str, *, is_required: bool = True) -> Field:
    raw: JsonObject = {"type": "object", "properties": {name: FIELDS[name]}, "required": [name] if is_required else []}
    (found,) = fields_of(converter(LATEST).structure(raw, RequestedSchema))
    return found


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "some words", "some words"),
        ("short", "abcd", "abcd"),
        ("email", "ada@example.com", "ada@example.com"),
        ("uri", "urn:isbn:1", "urn:isbn:1"),
        ("date", "2028-02-29", "2028-02-29"),
        ("time", "2026-07-28T09:30:00+02:00", "2026-07-28T09:30:00+02:00"),
        ("whole", "5", 5),
        ("whole", "3.0", 3),
        ("integer", "-9223372036854775807", -9223372036854775807),
        ("number", ".5", 0.5),
        ("number", "1e3", 1000.0),
        ("number", "7", 7),
        ("sure", "No", False),
        ("sure", "", True),
        ("one", "a", "a"),
        ("one", "2", "b"),
        ("one", "", "b"),
        ("named", "a ONE", "a"),
        ("named", "b", "b"),
        ("named", "3", "c"),
        ("titled", "dark red", "r"),
        ("digits", "1", "1"),
        ("some", "B", ("b",)),
        ("several", "Blue, light", ("b",)),
        ("several", "2,r, 1", ("b", "r")),
        ("several", "", ("r", "b")),
        ("any", "", ()),
    ],
)
@pytest.mark.spec("elicitation.defaults-prefill")
def test_entry_converted_to_value_of_field(name: str, text: str, value: object) -> None:
    read = field(name).read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("text", "", "a value is required"),
        ("short", "a", "'a' has fewer than 2 characters"),
        ("short", "abcde", "'abcde' has more than 4 characters"),
        ("email", "ada", "'ada' is not an email address, for example ada@example.com"),
        ("uri", "/page", "'/page' is not a URI, for example https://example.com/page"),
        ("date", "2026-02-29", "'2026-02-29' is not a date, for example 2026-07-28"),
        ("time", "2026-07-28 09:30", "'2026-07-28 09:30' is not a date and a time"),
        ("time", "2026-07-28T09:30:00.00000000000000000Z", "has more than 30 characters"),
        ("whole", "0", "'0' is less than 1"),
        ("whole", "6", "'6' is more than 5"),
        ("whole", "1.5", "'1.5' must be an integer"),
        ("whole", "x", "enter a whole number"),
        ("integer", "9223372036854775808", "the number is too large"),
        ("integer", "1e400", "the number is too large"),
        ("integer", "9" * 5000, "the number is too large"),
        ("integer", "nan", "enter a whole number"),
        ("integer", "1_000", "enter a whole number"),
        ("number", "nan", "enter a number"),
        ("number", "inf", "enter a number"),
        ("number", "-Infinity", "enter a number"),
        ("number", "1e400", "the number is too large"),
        ("number", "0.4", "'0.4' is less than 0.5"),
        ("sure", "perhaps", "enter yes or no"),
        ("one", "c", "'c' is not one of: a, b"),
        ("one", "3", "'3' is not one of: a, b"),
        ("one", "0", "'0' is not one of: a, b"),
        ("titled", "x", "'x' is not one of: Dark red (r), Blue, light (b)"),
        ("digits", "3", "'3' is not one of: 2, 1"),
        ("some", "", "the value has fewer than 1 choices"),
        ("some", "a, b", "'a, b' has more than 1 choices"),
        ("some", "a, x", "'x' is not one of: a, b"),
        ("spoiled", "", "a value is required"),
    ],
)
@pytest.mark.spec("elicitation.client-validates", "elicitation.client-validates-content")
def test_invalid_entry_rejected_with_reason(name: str, text: str, problem: str) -> None:
    with pytest.raises(InvalidEntry) as caught:
        field(name).read(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["text", "whole", "titled", "some", "any", "spoiled"])
def test_empty_entry_without_default_omits_optional_field(name: str) -> None:
    optional = field(name, is_required=False)
    assert optional.read("") == ("r" if name == "titled" else None)


@pytest.mark.parametrize(
    ("name", "lines", "prompt"),
    [
        ("text", [], "text: "),
        ("short", ["Enter 2 to 4 characters."], "short: "),
        ("date", ["Of arrival.\nIn local time.", "Enter a date, for example 2026-07-28."], "date: "),
        (
            "time",
            ["Enter a date and a time with its offset, for example 2026-07-28T09:30:00Z, at most 30 characters."],
            "time: ",
        ),
        ("whole", ["Enter a whole number, 1 to 5."], "whole: "),
        ("number", ["Enter a number, at least 0.5."], "number: "),
        ("sure", ["Enter yes or no."], "sure [yes]: "),
        ("one", ["1. a", "2. b", "Enter one of these."], "one [b]: "),
        ("named", ["1. A one (a)", "2. B (b)", "3. c", "Enter one of these."], "named [A one (a)]: "),
        ("digits", ["- 2", "- 1", "Enter one of these."], "digits: "),
        ("some", ["1. a", "2. b", "Enter any of these, with commas between them, exactly 1 of them."], "some: "),
        (
            "several",
            ["1. Dark red (r)", "2. Blue, light (b)", "Enter any of these, with commas between them."],
            "several [Dark red (r), Blue, light (b)]: ",
        ),
        ("spoiled", ["Enter a whole number, at most 3."], "spoiled: "),
    ],
)
def test_rules_choices_and_default_of_field_shown(name: str, lines: list[str], prompt: str) -> None:
    shown = field(name)
    assert shown.lines() == lines
    assert shown.prompt == prompt


def test_title_with_line_ends_shown_in_one_line() -> None:
    raw: JsonObject = {"type": "string", "title": "Name: \n\nSend it? ", "enum": ["a\nb"]}
    schema = converter(LATEST).structure({"type": "object", "properties": {"x": raw}}, RequestedSchema)
    (shown,) = fields_of(schema)
    assert shown.prompt == "Name: Send it? (optional): "
    assert shown.lines() == ["1. a b", "Enter one of these."]


@pytest.mark.property
@given(
    st.sampled_from([*FIELDS]), st.booleans(), st.one_of(st.text(), st.from_regex(r"[-+0-9.e, ab]*", fullmatch=True))
)
def test_value_of_any_entry_is_valid_content(name: str, is_required: bool, text: str) -> None:
    some = field(name, is_required=is_required)
    try:
        value = some.read(text.strip())
    except InvalidEntry:
        return
    if value is None:
        assert not is_required
        return
    assert not isinstance(value, float) or math.isfinite(value)
    schema = RequestedSchema(properties={name: some.schema}, required=(name,))
    params = ElicitRequestFormParams(message="?", requested_schema=schema)
    assert why_unfit(params, ElicitResult(action="accept", content={name: value})) is None
    converter(LATEST).unstructure(ElicitResult(action="accept", content={name: value}))
