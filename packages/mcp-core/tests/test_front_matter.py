"""The YAML front matter of a skill, in the core schema of YAML 1.2."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_core.errors import MissingExtra
from mcp_core.features.skills import InvalidFrontMatter
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.trio.front_matter import read_front_matter


def read(block: str) -> JsonValue:
    return read_front_matter(f"---\n{block}\n---\nThe text.\n")


@pytest.mark.parametrize(
    ("yaml_text", "value"),
    [
        ("text", "text"), ("'5'", "5"), ('"true"', "true"), ('"\\u2028\\/"', "\u2028/"),
        ("|\n  a\n  b", "a\nb\n"), (">-\n  a\n  b", "a b"),
        ("", None), ("~", None), ("Null", None), ("true", True), ("FALSE", False),
        ("5", 5), ("-5", -5), ("+5", 5), ("017", 17), ("0o17", 15), ("0xFF", 255), ("9007199254740991", 2**53 - 1),
        ("1.0", 1.0), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0),
        ("[1, {a: [b]}]", [1, {"a": ["b"]}]), ("\n  - 1\n  - 2", [1, 2]), ("{}", {}),
    ],
)  # fmt: skip
def test_scalar_and_collection_values(yaml_text: str, value: JsonValue) -> None:
    result = read(f"key: {yaml_text}")
    assert result == {"key": value}
    assert json.dumps(result) == json.dumps({"key": value})


@pytest.mark.parametrize(
    "yaml_text",
    ["on", "yes", "No", "y", "2026-11-22", "2026-11-22T10:00:00Z", "1:30", "1_000", "0b1", "=", "tRUE", "1e", "."],
)
def test_yaml_1_1_literals_are_strings(yaml_text: str) -> None:
    assert read(f"key: {yaml_text}") == {"key": yaml_text}


def test_merge_key_is_plain_key() -> None:
    assert read("<<: {a: 1}") == {"<<": {"a": 1}}


@pytest.mark.parametrize(
    ("block", "line", "message"),
    [
        ("", 2, "must be a mapping"),
        ("- a", 2, "must be a mapping"),
        ("text", 2, "must be a mapping"),
        ("a: 1\na: 2", 3, "'a' is duplicated"),
        ("a: 1\n2: x", 3, "a key must be a string"),
        ("a: 1\n? [b]\n: c", 3, "a key must be a string"),
        ("a: &x 1\nb: *x", 3, "an alias"),
        ("a: !!python/object/apply:os.system ['true']", 2, "a tag"),
        ("a: !!str 5", 2, "a tag"),
        ("a: .inf", 2, "JSON cannot represent the number"),
        ("a: -.INF", 2, "JSON cannot represent the number"),
        ("a: .nan", 2, "JSON cannot represent the number"),
        ("a: 1e999", 2, "JSON cannot represent the number"),
        ("a: 9007199254740993", 2, "JSON cannot represent the number"),
        ("a: b: c", 2, "mapping values are not allowed"),
        ("\ta: 1", 2, "cannot start any token"),
        ("a: 'x", 3, "unexpected end of stream"),
        ("a: \x01", None, "not YAML"),
        ("b: 1\na: x\u2028y", 3, "U\\+2028"),
        ("a: " + "[" * 1_000, 2, "deeper than 32"),
        ("a: " + "{a: " * 1_000, 2, "deeper than 32"),
    ],
)
def test_value_not_json_raises_with_line(block: str, line: int | None, message: str) -> None:
    with pytest.raises(InvalidFrontMatter, match=message) as caught:
        read(block)
    assert line is None or caught.value.line == line


def test_second_document_raises() -> None:
    with pytest.raises(InvalidFrontMatter, match="one document"):
        read("a: 1\n... \n--- {b: 2}")


@pytest.mark.property
@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=10),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**53) + 1, 2**53 - 1)
            | st.text(st.characters(codec="ascii", min_codepoint=32)),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
            max_leaves=10,
        ),
        max_size=5,
    )
)
def test_generated_json_is_parsed(value: dict[str, JsonValue]) -> None:
    assert read(json.dumps(value)) == value


@pytest.mark.property
@settings(max_examples=300)
@given(st.text(max_size=60))
def test_generated_text_is_mapping_or_raises(text: str) -> None:
    with suppress(InvalidFrontMatter):
        assert isinstance(read(text), dict)


def test_missing_yaml_library_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"pip install 'trio-mcp-core\[skills\]'"):
        read("a: 1")
