"""Conversion of each class in each revision: round trips, unknown members, and missing or wrong members."""

from __future__ import annotations

import pytest

from mcp_core import types as t
from mcp_core.conversion.converter import converter
from mcp_core.conversion.wire_types import (
    AnyJson,
    Array,
    Choice,
    Dictionary,
    Enumeration,
    Form,
    ObjectJson,
    Ref,
    Scalar,
    wire_class,
)
from mcp_core.errors import InvalidValue
from mcp_core.json_schema import wire_classes
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import (
    REVISIONS,
    Revision,
)


def example(form: Form, revision: Revision) -> JsonValue:
    """Return the smallest JSON value of a form."""
    match form:
        case Scalar(kind):
            scalars: JsonObject = {"string": "x", "integer": 1, "number": 0.5, "boolean": True}
            return scalars[kind.value]
        case Enumeration(values):
            return values[0]
        case AnyJson():
            return {"any": [1, "x", None, True]}
        case ObjectJson(root):
            return {"type": "object"} if root else {"k": 1}
        case Array(item):
            return [example(item, revision)]
        case Dictionary(value):
            return {"a key": example(value, revision)}
        case Ref(cls):
            return smallest(cls, revision)
        case Choice(forms):
            return example(forms[0], revision)


def smallest(cls: type[t.WireObject], revision: Revision, *, full: bool = False) -> JsonObject:
    """Return the smallest JSON object of a class, or one with all members."""
    described = wire_class(cls, revision)
    found: JsonObject = {} if described.tag is None else {described.tag[0]: described.tag[1]}
    for member in described.members:
        if member.required or full:
            found[member.wire] = example(member.form, revision)
    if described.needs is not None:
        member, required_by_value = described.needs
        for value, required in required_by_value.items():
            if found[member.wire] == value:
                found[required.wire] = example(required.form, revision)
    for member in described.any_of[-1:]:
        found[member.wire] = example(member.form, revision)
    return found


def wrong_for(form: Form) -> JsonValue:
    """Return JSON that is not of a form."""
    match form:
        case Array():
            return {}
        case Choice():
            return True
        case _:
            return []


CASES = [(revision, cls) for revision in REVISIONS.values() for cls in wire_classes(revision)]
IDS = [f"{revision}-{cls.__name__}" for revision, cls in CASES]


@pytest.mark.spec("meta.more-types", "sampling.preserve-meta", "sampling.meta-preserved")
@pytest.mark.parametrize(("revision", "cls"), CASES, ids=IDS)
def test_class_round_trip_preserves_members(revision: Revision, cls: type[t.WireObject]) -> None:
    convert = converter(revision)
    for raw in (smallest(cls, revision), smallest(cls, revision, full=True)):
        value = convert.structure(raw, cls)
        again = convert.unstructure(value)
        assert convert.structure(again, cls) == value
        # A member that is not written again has the value that its absence means.
        assert {k: v for k, v in raw.items() if k not in again} in ({}, {"mode": "form"})
        assert {k: raw[k] for k in again} == again


@pytest.mark.spec("schema.result-open", "meta.unknown-keys-ignored", "meta.object", "tasks.immediate-response-meta")
@pytest.mark.parametrize(("revision", "cls"), CASES, ids=IDS)
def test_class_unknown_member_preserved(revision: Revision, cls: type[t.WireObject]) -> None:
    raw: JsonObject = {**smallest(cls, revision), "x-unknown": {"deep": [1, None]}}
    value = converter(revision).structure(raw, cls)
    assert value.extra["x-unknown"] == {"deep": [1, None]}
    assert converter(revision).unstructure(value)["x-unknown"] == {"deep": [1, None]}


@pytest.mark.spec("meta.object")
@pytest.mark.parametrize(("revision", "cls"), CASES, ids=IDS)
def test_class_missing_or_wrong_member_rejected_with_path(revision: Revision, cls: type[t.WireObject]) -> None:
    convert = converter(revision)
    good = smallest(cls, revision, full=True)
    described = wire_class(cls, revision)
    for member in described.members:
        if member.required:
            with pytest.raises(InvalidValue, match="is missing") as caught:
                convert.structure({k: v for k, v in good.items() if k != member.wire}, cls)
            assert caught.value.path in {member.wire, f'["{member.wire}"]'}
            if not member.nullable:
                with pytest.raises(InvalidValue):
                    convert.structure({**good, member.wire: None}, cls)
        elif not member.nullable:
            absent = convert.structure({**good, member.wire: None}, cls)
            assert getattr(absent, member.attribute) is member.default
        if not isinstance(member.form, AnyJson):
            with pytest.raises(InvalidValue) as caught:
                convert.structure({**good, member.wire: wrong_for(member.form)}, cls)
            assert caught.value.path.startswith((member.wire, f'["{member.wire}"]'))
    if described.tag is not None:
        with pytest.raises(InvalidValue) as caught:
            convert.structure({**good, described.tag[0]: "another"}, cls)
        assert caught.value.path == described.tag[0]
    with pytest.raises(InvalidValue, match="expected an object, got an array"):
        convert.structure([], cls)
