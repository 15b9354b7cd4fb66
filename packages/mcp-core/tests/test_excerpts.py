"""Excerpts of data from a peer in messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.excerpts import EXCERPT_CHARS, quoted, shown
from mcp_core.jsonrpc.messages import JsonValue


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ab", "'ab'"),
        ("a\n\x1b\u202eb\ud800", r"'a\n\x1b\u202eb\ud800'"),
        ("x" * 101, f"'{'x' * 100}'... (101 characters)"),
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (-7, "-7"),
        (10**30, "a very large number"),
        (1.5, "1.5"),
        ([1, 2], "an array of 2 items"),
        ({"a": 1}, "an object of 1 members"),
    ],
)
def test_quoted_json_short_and_printable(value: JsonValue, text: str) -> None:
    assert quoted(value) == text


def test_quoted_value_not_json_shows_type() -> None:
    assert quoted(object()) == "a value of type object"


@given(st.text(max_size=3 * EXCERPT_CHARS))
def test_shown_text_bounded_and_printable(text: str) -> None:
    excerpt = shown(text)
    assert excerpt.isprintable()
    assert len(excerpt) <= 10 * EXCERPT_CHARS + 40
    if len(text) <= EXCERPT_CHARS and text.isprintable():
        assert excerpt == text
