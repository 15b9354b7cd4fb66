"""The descriptions in docstrings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.schema.docstring import parse_docstring

GOOGLE = """Finds things.

    It looks everywhere,
    twice.

    Args:
        query: What to look for,
            in plain words.

            Even more.
        limit (int, optional): How many.
        a, b: Two of them: both.
        *rest: The others.
        silent:

    Returns:
        query: not this.

    Note:
        Nothing.
    """
NUMPY = """Finds things.

    It looks everywhere,
    twice.

    Parameters
    ----------
    query : str
        What to look for,
        in plain words.

        Even more.
    limit : int, optional
        How many.
    a, b
        Two of them: both.
    *rest
        The others.
    silent : int

    Returns
    -------
    query : int
        not this.

    Notes
    -----
    Nothing.
    """
SPHINX = """Finds things.

    It looks everywhere,
    twice.

    :param query: What to look for,
        in plain words.

        Even more.
    :type query: str
    :param int limit: How many.
    :param a: Two of them: both.
    :param b: Two of them: both.
    :param rest: The others.
    :param silent:
    :returns: not this.
    :raises ValueError: never.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstring_styles_are_equivalent(text: str) -> None:
    parsed = parse_docstring(text)
    assert parsed.description == "Finds things.\n\nIt looks everywhere,\ntwice."
    members = {name: " ".join(line.split()) for name, line in parsed.members.items()}
    if text is SPHINX:
        assert members.pop("query") == "What to look for, in plain words."
    else:
        assert members.pop("query") == "What to look for, in plain words. Even more."
    assert members == {
        "limit": "How many.",
        "a": "Two of them: both.",
        "b": "Two of them: both.",
        "rest": "The others.",
    }


@pytest.mark.parametrize("text", [None, "", "   ", "\n\n"])
def test_empty_docstring_has_no_description(text: str | None) -> None:
    assert parse_docstring(text).description == ""
    assert parse_docstring(text).members == {}


def test_docstring_without_sections_is_description() -> None:
    parsed = parse_docstring("Does it: now.\n\nExample:\n    f(1)\n\nNote: this.")
    assert parsed.description == "Does it: now.\n\nExample:\n    f(1)\n\nNote: this."


def test_returns_section_ends_description() -> None:
    assert parse_docstring("Does it.\n\nReturns:\n    Something.").description == "Does it."


def test_attributes_section_is_parsed_as_members() -> None:
    assert parse_docstring("A point.\n\nAttributes:\n    x: Across.").members == {"x": "Across."}


def test_text_after_google_section_is_not_parameter() -> None:
    parsed = parse_docstring("Does it.\n\nArgs:\n    a: One.\nMore text: here.\n\nArgs:\n    b: Two.")
    assert parsed.members == {"a": "One.", "b": "Two."}


def test_text_before_first_entry_is_ignored() -> None:
    assert parse_docstring("Does it.\n\nArgs:\n    these are they\n    a: One.").members == {"a": "One."}
    assert parse_docstring("Does it.\n\nParameters\n----------\n    stray\na\n    One.").members == {"a": "One."}


@given(st.text("Args:\n -paramx(){}*,Returns", max_size=200))
def test_generated_text_is_parsed(text: str) -> None:
    parse_docstring(text)
