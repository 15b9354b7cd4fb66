"""The methods of data classes that work on their fields, compared with those that attrs generates."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.field_methods import FieldRepr, FieldValue


def masked(_: object) -> str:
    return "***"


@attrs.frozen
class GeneratedPoint:
    name: str
    _hidden: int = attrs.field(default=0, repr=False)
    ignored: int = attrs.field(default=0, eq=False)
    secret: str = attrs.field(default="", repr=masked)


@attrs.frozen(eq=False, repr=False)
class SharedPoint(FieldValue):
    name: str
    _hidden: int = attrs.field(default=0, repr=False)
    ignored: int = attrs.field(default=0, eq=False)
    secret: str = attrs.field(default="", repr=masked)


@attrs.frozen(eq=False, repr=False)
class DerivedPoint(SharedPoint):
    more: int = 0


@attrs.frozen(eq=False, repr=False)
class Empty(FieldValue):
    pass


@attrs.frozen(eq=False, repr=False)
class Single(FieldValue):
    only: object


@attrs.define(eq=False, repr=False)
class Node(FieldRepr):
    next: Node | None = None


VALUES = st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 1), st.sampled_from("xy"))


@given(VALUES, VALUES)
def test_values_compare_hash_and_show_as_generated(
    one: tuple[str, int, int, str], other: tuple[str, int, int, str]
) -> None:
    assert (SharedPoint(*one) == SharedPoint(*other)) == (GeneratedPoint(*one) == GeneratedPoint(*other))
    assert (SharedPoint(*one) != SharedPoint(*other)) == (GeneratedPoint(*one) != GeneratedPoint(*other))
    if GeneratedPoint(*one) == GeneratedPoint(*other):
        assert hash(SharedPoint(*one)) == hash(SharedPoint(*other))
    assert repr(SharedPoint(*one)) == repr(GeneratedPoint(*one)).replace("GeneratedPoint", "SharedPoint")
    assert len({SharedPoint(*one), SharedPoint(*other)}) == len({GeneratedPoint(*one), GeneratedPoint(*other)})


def test_values_of_other_classes_are_unequal() -> None:
    assert SharedPoint("a") != DerivedPoint("a")
    assert SharedPoint("a") != GeneratedPoint("a")
    assert DerivedPoint("a", more=1) != DerivedPoint("a", more=2)
    assert Single(1) != 1
    assert Single((1,)) != Single(1)
    assert Empty() == Empty()
    assert repr(DerivedPoint("a")) == "DerivedPoint(name='a', ignored=0, secret=***, more=0)"
    assert repr(Empty()) == "Empty()"


def test_unhashable_field_raises() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Single([]))


def test_text_of_cycle_and_of_unset_field_is_short() -> None:
    node = Node()
    node.next = node
    assert repr(node) == "Node(next=...)"
    assert repr(Node.__new__(Node)) == "Node(next=NOTHING)"


def test_instances_without_value_compare_by_identity() -> None:
    assert Node() != Node()
