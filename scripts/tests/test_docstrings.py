"""The conversion of docstrings for the documentation site."""

from __future__ import annotations

import attrs
import pytest
from docutils.core import publish_doctree
from docutils.nodes import literal, literal_block, title_reference
from hypothesis import given
from hypothesis import strategies as st

from documentation.docstrings import convert, convert_docstring, convert_signature, restore_docstring


@pytest.mark.parametrize(
    ("text", "converted"),
    [
        ("Return `name`.", "Return `name`."),
        ("Return `Class.name`.", "Return `Class.name`."),
        ("Send `tools/call`.", "Send ``tools/call``."),
        ("A line after `> `.", "A line after ``>``."),
        ("An `Option[\nint]`.", "An ``Option[ int]``."),
        ("Already ``code``, :py:obj:`name`.", "Already ``code``, :py:obj:`name`."),
    ],
)
def test_code_in_backticks_becomes_literal_unless_it_is_name(text: str, converted: str) -> None:
    assert convert(text) == converted


def test_indented_paragraph_becomes_code_block() -> None:
    text = "Things.\n\n    x = 1\n\n    y = 2\n\nMore.\n\n    a -> b\n"
    expected = (
        "Things.\n\n.. code-block:: python\n\n    x = 1\n\n    y = 2\n\nMore.\n\n.. code-block:: text\n\n    a -> b\n"
    )
    assert convert(text) == expected


def test_sections_stay_unchanged() -> None:
    text = "Make it.\n\nArgs:\n    a: One,\n        which matters.\n\n    b: Two.\n"
    assert convert(text) == text


@pytest.mark.property
@given(st.text(alphabet="ab.<>[]()*|_\\: ", min_size=1, max_size=12).filter(lambda code: code.strip()))
def test_code_in_backticks_is_one_literal_of_page(code: str) -> None:
    found = publish_doctree(convert(f"Before `{code}` after."), settings_overrides={"default_role": "literal"})
    codes = [*found.findall(literal), *found.findall(title_reference)]
    assert [node.astext() for node in codes] == [code.strip()]
    assert not list(found.findall(literal_block))


def test_first_line_of_attribute_keeps_its_colon_from_napoleon() -> None:
    lines = ["Maximum time. Spec: a maximum", "holds: always."]
    convert_docstring(None, "attribute", "a.b", None, None, lines)  # type: ignore[arg-type]  # not used
    assert ":" not in lines[0]
    restore_docstring(None, "attribute", "a.b", None, None, lines)  # type: ignore[arg-type]  # not used
    assert lines == ["Maximum time. Spec: a maximum", "holds: always."]


def test_signature_shows_defaults_of_attrs_class() -> None:
    @attrs.frozen
    class Point:
        x: int = 1
        names: tuple[str, ...] = attrs.field(factory=tuple)

    signature = "(x: int = attr_dict['x'].default, names: tuple[str, ...] = NOTHING)"
    found = convert_signature(None, "class", "Point", Point, None, signature, None)  # type: ignore[arg-type]  # not used
    assert found == ("(x: int = 1, names: tuple[str, ...] = ...)", None)
    found = convert_signature(None, "class", "Point", Point, None, "(**given: object)", None)  # type: ignore[arg-type]  # not used
    assert found == ("(*, x: int = 1, names: tuple[str, ...] = ...)", None)
