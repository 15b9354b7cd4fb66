"""Descriptions of wire types in one revision: members and their forms, derived from the lifetimes.

The converters, the repairs of `mcp_core.conversion.converter` and the JSON schemas are all derived from these
descriptions.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import attrs

from mcp_core.field_methods import FieldRepr
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.types.base import SchemaRoot
from mcp_core.types.wire_object import ABSENT, REQUIRED, Absent, Field, FieldInfo, WireObject

if TYPE_CHECKING:
    from mcp_core.revisions import Revision

__all__ = [
    "AnyJson",
    "Array",
    "Choice",
    "Dictionary",
    "Enumeration",
    "Form",
    "Member",
    "ObjectJson",
    "Ref",
    "Scalar",
    "ScalarKind",
    "WireClass",
    "form_of",
    "wire_class",
    "wire_name",
]


class ScalarKind(enum.Enum):
    """The kinds of scalars, with their names in JSON Schema."""

    STRING = "string"
    """A string."""
    INTEGER = "integer"
    """A whole number; `1.0` is accepted."""
    NUMBER = "number"
    """A number."""
    BOOLEAN = "boolean"
    """True or false."""


@attrs.frozen(eq=False, repr=False)
class Scalar(FieldRepr):
    """A scalar: string, number or boolean."""

    kind: ScalarKind
    """The kind of the scalar."""


@attrs.frozen(eq=False, repr=False)
class Enumeration(FieldRepr):
    """A string from a fixed set."""

    values: tuple[str, ...]
    """The allowed strings."""


@attrs.frozen(eq=False, repr=False)
class AnyJson(FieldRepr):
    """Any JSON value, including `null`."""


@attrs.frozen(eq=False, repr=False)
class ObjectJson(FieldRepr):
    """A JSON object that is not converted."""

    root: str | None = None
    """For a JSON Schema: the required type of its root."""


@attrs.frozen(eq=False, repr=False)
class Array(FieldRepr):
    """An array of items of one form."""

    item: Form
    """The form of the items."""


@attrs.frozen(eq=False, repr=False)
class Dictionary(FieldRepr):
    """An object with arbitrary names."""

    value: Form
    """The form of the values."""


@attrs.frozen(eq=False, repr=False)
class Ref(FieldRepr):
    """An object of a wire class."""

    cls: type[WireObject]
    """The wire class."""


@attrs.frozen(eq=False, repr=False)
class Choice(FieldRepr):
    """A union of forms."""

    forms: tuple[Form, ...]
    """The forms. The order of the objects is the order in which they are tried."""


Form: TypeAlias = "Scalar | Enumeration | AnyJson | ObjectJson | Array | Dictionary | Ref | Choice"
"""The form of a value on the wire."""


class Member(NamedTuple):
    """A member of an object on the wire."""

    attribute: str
    """The name of the attribute."""
    wire: str
    """The name on the wire."""
    form: Form
    """The form of the value."""
    required: bool
    """Whether the member must be present."""
    nullable: bool
    """Whether `null` is a value. If not, `null` for an optional member means that it is absent."""
    default: object
    """The value of the attribute if the member is absent; `REQUIRED` if there is no default."""
    info: FieldInfo
    """The declaration of the field in the class."""


class WireClass(NamedTuple):
    """The description of a wire class in one revision."""

    cls: type[WireObject]
    """The wire class."""
    tag: tuple[str, str] | None
    """A member with a fixed value, and that value."""
    members: tuple[Member, ...]
    """The members in this revision, `_meta` last."""
    refused: tuple[Member, ...]
    """Members that this revision lacks and that must not be omitted, because the meaning would change."""
    needs: tuple[Member, Mapping[str, Member]] | None
    """A member, and for some of its values another member that must then be present."""
    any_of: tuple[Member, ...]
    """Members of which at least one must be present."""


_SCALARS: Final[Mapping[object, Form]] = {
    str: Scalar(ScalarKind.STRING),
    int: Scalar(ScalarKind.INTEGER),
    float: Scalar(ScalarKind.NUMBER),
    bool: Scalar(ScalarKind.BOOLEAN),
    JsonObject: ObjectJson(),
}


def form_of(annotation: object) -> Form:
    """Return the form of a type annotation. `None` and `ABSENT` in a union are ignored: `Member` describes them.

    Args:
        annotation: A type annotation of a field of a wire class.

    Returns:
        The form.

    Raises:
        TypeError: A wire class must not have such a field.
    """
    if annotation == JsonValue or annotation == JsonValue | Absent:
        return AnyJson()
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Union or origin is UnionType:
        forms = tuple(form_of(each) for each in args if each is not NoneType and each is not Absent)
        return forms[0] if len(forms) == 1 else Choice(forms)
    if origin is Literal:
        return Enumeration(args)
    if origin is tuple and args[1:] == (...,):
        return Array(form_of(args[0]))
    if origin is Annotated and isinstance(args[1], SchemaRoot):
        return ObjectJson(args[1].value)
    if isinstance(origin, type) and issubclass(origin, Mapping) and args[0] is str:
        return Dictionary(form_of(args[1]))
    if isinstance(annotation, type) and issubclass(annotation, WireObject):
        return Ref(annotation)
    raise TypeError(f"{annotation!r} has no form on the wire")


def wire_name(attribute: str) -> str:
    """Return the camelCase name of an attribute: `is_error` becomes `isError`."""
    first, *rest = attribute.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _annotations(cls: type[WireObject]) -> Mapping[str, object]:
    # Each name is looked up in the module of the class that has the annotation.
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        names = vars(sys.modules[base.__module__])
        for name, text in inspect.get_annotations(base).items():
            if not str(text).startswith("ClassVar"):
                found[name] = eval(text, names) if isinstance(text, str) else text  # noqa: S307  # our own source
    return found


def _admits_none(annotation: object) -> bool:
    return annotation == JsonValue or annotation == JsonValue | Absent or NoneType in get_args(annotation)


def _member(annotations: Mapping[str, object], attribute: Field, revision: Revision) -> Member:
    info = attribute.info
    annotation = annotations[attribute.name]
    if info.was is not None and revision in info.was[0]:
        annotation = info.was[1]
    default: object = attribute.default
    return Member(
        attribute=attribute.name,
        wire=info.name or wire_name(attribute.name),
        form=form_of(annotation),
        required=default is REQUIRED or revision in info.required,
        nullable=(default is REQUIRED or default is ABSENT) and _admits_none(annotation),
        default=default,
        info=info,
    )


_WIRE_CLASSES: Final[dict[tuple[type[WireObject], Revision], WireClass]] = {}


def wire_class(cls: type[WireObject], revision: Revision) -> WireClass:
    """Return the description of `cls` in `revision`.

    Args:
        cls: A class created with `wire`.
        revision: A revision that has the class.

    Returns:
        The description; the same object on each call.
    """
    found = _WIRE_CLASSES.get((cls, revision))
    if found is None:
        found = _WIRE_CLASSES[cls, revision] = _describe(cls, revision)
    return found


def _describe(cls: type[WireObject], revision: Revision) -> WireClass:
    info = cls.__wire__
    annotations = _annotations(cls)
    fields = [each for each in cls.__fields__ if each.name != "extra"]
    alive = [_member(annotations, each, revision) for each in fields if revision in each.info.alive]
    lacking = [_member(annotations, each, revision) for each in fields if revision not in each.info.alive]
    by_attribute = {member.attribute: member for member in alive}
    return WireClass(
        cls=cls,
        tag=None if info.tag is None else (wire_name(info.tag), str(getattr(cls, info.tag))),
        members=tuple(sorted(alive, key=lambda member: member.wire == "_meta")),
        refused=tuple(member for member in lacking if member.info.refuse),
        needs=info.needs
        and (
            by_attribute[info.needs[0]],
            {value: by_attribute[needed] for value, needed in info.needs[1].items()},
        ),
        any_of=tuple(by_attribute[name] for name in info.any_of),
    )
