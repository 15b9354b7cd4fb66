"""JSON Schemas of the types, one document for each revision, derived from the lifetimes.

The dialect is 2020-12. Objects allow additional members, as in the specification. Rules that a schema cannot express
are omitted.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING

from mcp_core import types as t
from mcp_core.conversion.wire_types import (
    Array,
    Choice,
    Dictionary,
    Enumeration,
    Form,
    Member,
    ObjectJson,
    Ref,
    Scalar,
    wire_class,
)

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["schema_of", "schemas", "wire_classes"]


@cache
def wire_classes(revision: Revision) -> tuple[type[t.WireObject], ...]:
    """Return the classes of `mcp_core.types` that `revision` has, in the order of their names."""
    found = [
        value
        for name in t.__all__
        if inspect.isclass(value := getattr(t, name)) and issubclass(value, t.Open) and value is not t.Open
    ]
    return tuple(cls for cls in found if revision in cls.__wire__.alive)


@cache
def schemas(revision: Revision) -> JsonObject:
    """Return the schemas of all types that `revision` has, under `$defs`, by class name.

    Returns:
        The document. It is the same object on each call and must not be changed.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {cls.__name__: schema_of(cls, revision) for cls in wire_classes(revision)},
    }


def schema_of(cls: type[t.WireObject], revision: Revision) -> JsonObject:
    """Return the schema of one class in `revision`. It refers to other classes as `#/$defs/NAME`."""
    described = wire_class(cls, revision)
    properties: JsonObject = {}
    required: list[JsonValue] = []
    if described.tag is not None:
        wire, value = described.tag
        properties[wire] = {"const": value}
        required.append(wire)
    for member in described.members:
        properties[member.wire] = _member(member, revision)
        if member.required:
            required.append(member.wire)
    found: JsonObject = {"type": "object", "properties": properties, "required": required}
    if described.any_of:
        found["anyOf"] = [{"required": [member.wire]} for member in described.any_of]
    if described.needs is not None:
        member, needed = described.needs
        found["allOf"] = [
            {
                "if": {"properties": {member.wire: {"const": value}}},
                "then": {"required": [other.wire]},
            }
            for value, other in needed.items()
        ]
    return found


def _member(member: Member, revision: Revision) -> JsonObject:
    found = _form(member.form, revision)
    if member.info.minimum is not None:
        found["minimum"] = member.info.minimum
    if member.info.maximum is not None:
        found["maximum"] = member.info.maximum
    return {"anyOf": [found, {"type": "null"}]} if member.nullable and found else found


def _form(form: Form, revision: Revision) -> JsonObject:
    match form:
        case Scalar(kind):
            return {"type": kind.value}
        case Enumeration((only,)):
            return {"const": only}
        case Enumeration(values):
            return {"enum": list(values)}
        case ObjectJson(None):
            return {"type": "object"}
        case ObjectJson(root):
            return {"type": "object", "properties": _SCHEMA_MEMBERS | {"type": {"const": root}}, "required": ["type"]}
        case Array(item):
            return {"type": "array", "items": _form(item, revision)}
        case Dictionary(value):
            return {"type": "object", "additionalProperties": _form(value, revision)}
        case Ref(cls):
            return {"$ref": f"#/$defs/{cls.__name__}"}
        case Choice(forms):
            alive = [each for each in forms if not isinstance(each, Ref) or revision in each.cls.__wire__.alive]
            return {"anyOf": [_form(each, revision) for each in alive]}
        case _:
            return {}


_SCHEMA_MEMBERS: JsonObject = {
    "properties": {"type": "object"},
    "required": {"type": "array", "items": {"type": "string"}},
}
