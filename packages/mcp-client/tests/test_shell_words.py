"""The words of a line of the shell."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.cli.shell.words import is_complete, quote, split_words
from mcp_core.jsonrpc.messages import JsonValue

TEXTS = st.text(st.sampled_from("ab1 \t\n'\"\\={}[],:/-é"), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def words(line: str) -> list[str]:
    return [word.text for word in split_words(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        (" \t\n", []),
        ("call add a=1  b=2", ["call", "add", "a=1", "b=2"]),
        ("""city="New York" name='a "b" c'""", ["city=New York", 'name=a "b" c']),
        (r'"a\"b\\c\n"', ['a"b\\c\\n']),
        (r"a\ b \'", ["a b", "'"]),
        ("a\\\nb", ["ab"]),
        ("\"\" ''", ["", ""]),
        ('p={"x": [1, "}"], "y": 2} q=3', ['p={"x": [1, "}"], "y": 2}', "q=3"]),
        ('f {"a":\n "\\"]"}', ["f", '{"a":\n "\\"]"}']),
        ("p=[1, 2]x y", ["p=[1, 2]x", "y"]),
        # Only the first `=` separates a name from a value, and a bracket within a word is text.
        ("a=b=[1 2]", ["a=b=[1", "2]"]),
        ("read weather://city/{city} x", ["read", "weather://city/{city}", "x"]),
        ("x='{'a b", ["x={a", "b"]),
    ],
)
def test_words_of_a_complete_line_are_separated(line: str, expected: list[str]) -> None:
    assert words(line) == expected
    assert is_complete(line)


@pytest.mark.parametrize("line", ['a "b c', "a 'b", "a=[1, {", 'p={"a}', 'p="x\\"', "a \\", "a \\\n", 'p={"a": "\\'])
def test_line_with_an_open_quote_or_bracket_is_incomplete(line: str) -> None:
    assert not is_complete(line)
    # Only the last word can be open.
    assert [word.is_open for word in split_words(line)][:-1].count(True) == 0


@pytest.mark.property
@given(st.lists(TEXTS, max_size=5))
def test_quoted_texts_are_the_words_of_their_line(texts: list[str]) -> None:
    line = " ".join(map(quote, texts))
    assert words(line) == texts
    assert is_complete(line)


@pytest.mark.property
@given(TEXTS)
def test_quoted_value_is_the_value_of_its_word(value: str) -> None:
    assert words(f"name={quote(value)}") == [f"name={value}"]


@pytest.mark.property
@given(st.lists(JSON, max_size=3) | st.dictionaries(TEXTS, JSON, max_size=3), st.sampled_from([None, 2]))
def test_json_is_one_word_without_quotes(value: JsonValue, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert words(f"call f p={text} q") == ["call", "f", f"p={text}", "q"]
    assert not is_complete(f"p={text[:-1]}")


@pytest.mark.property
@given(TEXTS)
def test_words_of_any_line_are_found_at_their_offsets(line: str) -> None:
    found = split_words(line)
    starts = [word.start for word in found]
    assert starts == sorted(set(starts))
    assert all(not line[start].isspace() for start in starts)
