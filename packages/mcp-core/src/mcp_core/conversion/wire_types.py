"""What a type looks like on the wire in one revision: its members and their forms, read from the lifetimes.

The converters, the repairs of `mcp_core.conversion.compatibility` and the JSON schemas are all derived from this one description.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import attrs

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.types.base import SchemaRoot
from mcp_core.types.wire_object import ABSENT, REQUIRED, Absent, Field, FieldInfo, WireObject

if TYPE_CHECKING:
    from mcp_core.revisions import Revision

__all__ = [
    "AnyJson",
    "Array",
    "Choice",
    "Chooser",
    "Dictionary",
    "Enumeration",
    "Form",
    "Member",
    "ObjectJson",
    "Ref",
    "Scalar",
    "ScalarKind",
    "Shape",
    "form_of",
    "shape",
    "wire_name",
]


class ScalarKind(enum.Enum):
    """The scalars, by their names in JSON Schema."""

    STRING = "string"
    """A string."""
    INTEGER = "integer"
    """A whole number; `1.0` is one."""
    NUMBER = "number"
    """A number."""
    BOOLEAN = "boolean"
    """True or false."""


@attrs.frozen
class Scalar:
    """A scalar."""

    kind: ScalarKind
    """Which one."""


@attrs.frozen
class Enumeration:
    """One of several strings."""

    values: tuple[str, ...]
    """The strings."""


@attrs.frozen
class AnyJson:
    """Any JSON, `null` included."""


@attrs.frozen
class ObjectJson:
    """A JSON object that is kept as it is."""

    root: str | None = None
    """For a JSON Schema: the type that its root has to have."""


@attrs.frozen
class Array:
    """An array."""

    item: Form
    """What is in it."""


@attrs.frozen
class Dictionary:
    """An object with names that are not fixed."""

    value: Form
    """What the names stand for."""


@attrs.frozen
class Ref:
    """An object of a class."""

    cls: type[WireObject]
    """The class."""


@attrs.frozen
class Choice:
    """One of several forms."""

    forms: tuple[Form, ...]
    """The forms; objects in the order in which they are told apart."""


Form: TypeAlias = "Scalar | Enumeration | AnyJson | ObjectJson | Array | Dictionary | Ref | Choice"
"""What a value looks like on the wire."""


class Member(NamedTuple):
    """A member of an object."""

    attribute: str
    """The name of the attribute."""
    wire: str
    """The name on the wire."""
    form: Form
    """What the value looks like."""
    required: bool
    """It has to be there."""
    nullable: bool
    """`null` is a value. If not, the `null` of an optional member means that it is absent."""
    default: object
    """What the attribute is when the member is absent; `REQUIRED` when there is no default."""
    info: FieldInfo
    """What the class says of it."""


class Shape(NamedTuple):
    """A class, as one revision has it."""

    cls: type[WireObject]
    """The class."""
    tag: tuple[str, str] | None
    """A member with a fixed value, and the value."""
    members: tuple[Member, ...]
    """The members that the revision has, `_meta` last."""
    refused: tuple[Member, ...]
    """Members that it lacks, and without which the meaning would be another."""
    needs: tuple[Member, Mapping[str, Member]] | None
    """A member, and for some of its values another member that then has to be there."""
    any_of: tuple[Member, ...]
    """Members of which at least one has to be there."""


_SCALARS: Final[Mapping[object, Form]] = {
    str: Scalar(ScalarKind.STRING),
    int: Scalar(ScalarKind.INTEGER),
    float: Scalar(ScalarKind.NUMBER),
    bool: Scalar(ScalarKind.BOOLEAN),
    JsonObject: ObjectJson(),
}


def form_of(annotation: object) -> Form:
    """The form that a type stands for. `None` and `ABSENT` in a union are passed over: the member knows of them.

    Args:
        annotation: A type that a field of a wire class may have.

    Returns:
        The form.

    Raises:
        TypeError: No wire class may have such a field.
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
    """The name in camelCase: `is_error` is `isError`."""
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


_SHAPES: Final[dict[tuple[type[WireObject], Revision], Shape]] = {}


def shape(cls: type[WireObject], revision: Revision) -> Shape:
    """What `cls` looks like in `revision`.

    Args:
        cls: A class made with `wire`.
        revision: A revision that has the concept.

    Returns:
        The description; the same object each time.
    """
    found = _SHAPES.get((cls, revision))
    if found is None:
        found = _SHAPES[cls, revision] = _describe(cls, revision)
    return found


def _describe(cls: type[WireObject], revision: Revision) -> Shape:
    info = cls.__wire__
    annotations = _annotations(cls)
    fields = [each for each in cls.__fields__ if each.name != "extra"]
    alive = [_member(annotations, each, revision) for each in fields if revision in each.info.alive]
    lacking = [_member(annotations, each, revision) for each in fields if revision not in each.info.alive]
    by_attribute = {member.attribute: member for member in alive}
    return Shape(
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


def _has(raw: JsonObject, path: tuple[str, ...]) -> bool:
    here: JsonValue = raw
    for name in path:
        if not isinstance(here, dict) or name not in here:
            return False
        here = here[name]
    return True


class Chooser:
    """Tells the classes of a union apart: by the value of their tag, then by the members that are there."""

    def __init__(self, classes: tuple[type[WireObject], ...], revision: Revision) -> None:
        self.classes: Final = tuple(cls for cls in classes if revision in cls.__wire__.alive)
        """The candidates: the classes that the revision has, in the order in which they are tried."""
        self.tag: Final = next((wire_name(tag) for cls in self.classes if (tag := cls.__wire__.tag) is not None), None)
        """The wire name of the member that tells them apart, if there is one."""
        self.tagged: Final[dict[str, list[type[WireObject]]]] = {}
        """The candidates for each value of the tag."""
        self.untagged: Final[list[type[WireObject]]] = []
        """The candidates where the tag is missing or has another value."""
        for cls in self.classes:
            self._enter(cls, shape(cls, revision))

    def _enter(self, cls: type[WireObject], described: Shape) -> None:
        if described.tag is not None:
            self.tagged.setdefault(described.tag[1], []).append(cls)
            return
        # An enumeration can be a tag of several values, and where it is optional the tag of a default.
        values = next((each for each in described.members if each.wire == self.tag), None)
        if values is not None and isinstance(values.form, Enumeration):
            for value in values.form.values:
                self.tagged.setdefault(value, []).append(cls)
            if values.required:
                return
        self.untagged.append(cls)

    def choose(self, raw: JsonObject) -> type[WireObject] | None:
        """The class of an object; `None` when it is of none."""
        kind = None if self.tag is None else raw.get(self.tag)
        for cls in self.tagged.get(kind, self.untagged) if isinstance(kind, str) else self.untagged:
            when = cls.__wire__.when
            if not when or _has(raw, when):
                return cls
        return None
