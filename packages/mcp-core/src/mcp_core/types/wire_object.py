"""Declaration of wire classes: the JSON form of a class, and the revisions that have it.

`wire` creates a frozen class and records the revisions of the concept; `field` does the same for one member.
`mcp_core.conversion.wire_types` derives everything that depends on the revision from these two. No other module handles
camelCase.

    @wire(since=R2025_03_26, tag="type")
    class AudioContent(WireObject):
        type: ClassVar[Literal["audio"]] = "audio"
        data: str
        meta: JsonObject | None = field(default=None, name="_meta", since=R2025_06_18)

A member without a default is required. A member with the default `None` is optional, and a `null` on the wire means
that it is missing. A member with the default `ABSENT` is optional, and `null` is a value like any other.

This module creates the classes itself, although all other data classes of this project use attrs. There are over 150 of
them, and attrs takes 240 microseconds for each, which was a fifth of the time to import a client. A wire class needs
only slots, one `__init__` for all, equality, `repr`, and immutability.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

import attrs
from attrs.exceptions import FrozenInstanceError

from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.revisions import Revision, between

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ABSENT",
    "NO_EXTRA",
    "REQUIRED",
    "Absent",
    "ClassInfo",
    "Field",
    "FieldInfo",
    "ReceivedExtra",
    "RequiredType",
    "WireObject",
    "field",
    "wire",
]

T = TypeVar("T")

_ALL: Final = between()


class Absent(enum.Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"
    """The only value."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""The value of a missing member, if `None` means a `null` on the wire. It is false, as `None` is."""


class _NoExtra(Mapping[str, JsonValue]):
    """An immutable empty mapping that keeps its identity when it is copied or pickled."""

    __slots__ = ()

    def __getitem__(self, name: str) -> JsonValue:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "NO_EXTRA"

    def __reduce__(self) -> str:
        return "NO_EXTRA"


NO_EXTRA: Final[Mapping[str, JsonValue]] = _NoExtra()
"""No unknown members; shared and immutable."""


class ReceivedExtra(dict[str, JsonValue]):  # noqa: PLW1641  # a dict has no hash
    """The unknown members of an object whose peer sent some members explicitly although they have their default values.

    A default that is sent explicitly means the same as an absent member, so it does not matter for equality. But it is
    sent again, because a proxy should not change what it forwards.
    """

    __slots__ = ("explicit",)

    def __init__(self, members: Mapping[str, JsonValue], explicit: frozenset[str]) -> None:
        super().__init__(members)
        self.explicit: Final = explicit
        """The attributes of these members."""

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self, dict(other)) if isinstance(other, Mapping) else NotImplemented

    def __reduce__(self) -> tuple[type[ReceivedExtra], tuple[dict[str, JsonValue], frozenset[str]]]:
        return ReceivedExtra, (dict(self), self.explicit)


class FieldInfo(NamedTuple):
    """The wire properties of one field."""

    name: str | None = None
    """The wire name; `None` to derive it from the name of the attribute."""
    alive: frozenset[Revision] = _ALL
    """The revisions that have the member."""
    required: frozenset[Revision] = frozenset()
    """The revisions in which the member is required although the class has a default for it."""
    refuse: bool = False
    """Whether it is an error to send the member to a peer whose revision lacks it. If not, the member is left out."""
    always: bool = False
    """Whether the member is sent even if it has its default value."""
    added: bool = False
    """Whether the connection completes the member when it sends a message, so that it may be missing before."""
    was: tuple[frozenset[Revision], object] | None = None
    """Revisions in which the member has another type, and that type."""
    minimum: float | None = None
    """The minimum value of a number."""
    maximum: float | None = None
    """The maximum value of a number."""


class RequiredType(enum.Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "required"
    """The only value."""


REQUIRED: Final = RequiredType.REQUIRED
"""The default of a required field."""


class Field(NamedTuple):
    """One field of a class."""

    name: str
    """The name of the attribute."""
    default: object = REQUIRED
    """The default value."""
    info: FieldInfo = FieldInfo()
    """The wire properties."""


class ClassInfo(NamedTuple):
    """The wire properties of one class."""

    alive: frozenset[Revision]
    """The revisions that have the concept."""
    tag: str | None
    """The class variable whose value is on the wire and identifies the class."""
    when: tuple[str, ...]
    """The path of a member that identifies the class in a union."""
    needs: tuple[str, Mapping[str, str]] | None
    """A field, and for some of its values another field that is then required."""
    any_of: tuple[str, ...]
    """Fields of which at least one is required."""


class _AttrsFields:
    """The fields of each class as attrs describes them, created when attrs first asks for them."""

    def __init__(self) -> None:
        # Not attributes of the classes, because their subclasses would inherit them.
        self._described: Final[dict[type[WireObject], tuple[object, ...]]] = {}

    def __get__(self, instance: object, cls: type[WireObject]) -> tuple[object, ...]:
        if not cls.__fields__:
            raise AttributeError("__attrs_attrs__")
        if cls not in self._described:
            hints: dict[str, object] = {}
            for base in reversed(cls.__mro__):
                hints.update(vars(base).get("__annotations__", {}))
            fields = {
                each.name: attrs.field(
                    default=attrs.NOTHING if each.default is REQUIRED else each.default,
                    type=cast("type | None", hints.get(each.name)),  # an annotation, as in a class body
                )
                for each in cls.__fields__
            }
            made = attrs.make_class(cls.__name__, fields, kw_only=True, init=False, repr=False, eq=False)
            self._described[cls] = attrs.fields(made)
        return self._described[cls]


# For type checkers, the base is an attrs class, so that they check `attrs.evolve` with the `__init__` of each class. At
# run time it is a plain class, because attrs would replace the methods below.
if TYPE_CHECKING:
    from attrs import frozen as _attrs_class
else:

    def _attrs_class(cls: type) -> type:
        return cls


@_attrs_class
class WireObject:  # noqa: PLW1641  # JSON has no hash
    """The base of all classes for JSON objects on the wire.

    The classes work with `attrs.evolve`, `attrs.fields` and `attrs.asdict`. Two values are equal if they have the same
    class and equal fields. They have no hash, because they contain JSON.
    """

    __slots__ = ()
    __wire__: ClassVar[ClassInfo]
    __fields__: ClassVar[tuple[Field, ...]] = ()

    if TYPE_CHECKING:
        # For type checkers, `dataclass_transform` derives an `__init__` from the fields.
        extra: Mapping[str, JsonValue]
        """Members that the revision does not define, by wire name. They are kept on receipt and sent again."""
    else:
        __attrs_attrs__ = _AttrsFields()

        def __init__(self, **given: object) -> None:
            for name, default, _ in self.__fields__:
                value = given.pop(name, default)
                if value is REQUIRED:
                    raise TypeError(f"{type(self).__name__} needs {name}")
                _put(self, name, value)
            if given:
                raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError

    def __reduce__(self) -> tuple[_Remake, tuple[type[WireObject], dict[str, object]]]:
        return _remake, (type(self), {each.name: getattr(self, each.name) for each in self.__fields__})

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in self.__fields__)

    def __repr__(self) -> str:
        given = ((each, getattr(self, each.name)) for each in self.__fields__)
        inside = ", ".join(f"{each.name}={value!r}" for each, value in given if value is not each.default)
        return f"{type(self).__name__}({inside})"


_put: Final = object.__setattr__

_Remake: TypeAlias = "Callable[[type[WireObject], dict[str, object]], WireObject]"


def _remake(cls: type[WireObject], fields: dict[str, object]) -> WireObject:
    """Create an object, for pickle and copy."""
    return cls(**fields)


W = TypeVar("W", bound=WireObject)


@overload
def field(
    *,
    default: T,
    name: str | None = None,
    since: Revision | None = None,
    until: Revision | None = None,
    required_since: Revision | None = None,
    required: frozenset[Revision] = frozenset(),
    refuse: bool = False,
    always: bool = False,
    added: bool = False,
    was: tuple[frozenset[Revision], object] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> T: ...
@overload
def field(
    *,
    name: str | None = None,
    was: tuple[frozenset[Revision], object] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> T: ...  # type: ignore[type-var]  # the annotation of the attribute provides the type
def field(
    *,
    default: object = REQUIRED,
    name: str | None = None,
    since: Revision | None = None,
    until: Revision | None = None,
    required_since: Revision | None = None,
    required: frozenset[Revision] = frozenset(),
    refuse: bool = False,
    always: bool = False,
    added: bool = False,
    was: tuple[frozenset[Revision], object] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> object:
    """Declare one member of a wire class.

    Args:
        default: The value of a missing member. Without a default the member is required.
        name: The wire name, if it is not the attribute's name in camelCase.
        since: The first revision that has the member.
        until: The last revision that has the member.
        required_since: The first revision in which a member with a default is required.
        required: The same as a set.
        refuse: Whether sending the member to a peer whose revision lacks it raises `LocalProtocolError`. By default the
            member is left out.
        always: Whether the member is sent even if it has its default value.
        added: Whether the connection completes the member when it sends a message, so that it may be missing before.
        was: Revisions in which the member has another type, and that type.
        minimum: The minimum value of a number.
        maximum: The maximum value of a number.

    Returns:
        The value for the class body.
    """
    info = FieldInfo(
        name=name,
        alive=_ALL if since is None and until is None else between(since, until),
        required=required if required_since is None else required | between(required_since),
        refuse=refuse,
        always=always,
        added=added,
        was=was,
        minimum=minimum,
        maximum=maximum,
    )
    return Field("", default, info)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def wire(
    *,
    since: Revision | None = None,
    until: Revision | None = None,
    tag: str | None = None,
    when: tuple[str, ...] = (),
    needs: tuple[str, Mapping[str, str]] | None = None,
    any_of: tuple[str, ...] = (),
) -> Callable[[type[W]], type[W]]:
    """Create a class for a JSON object: frozen, keyword-only, with slots.

    Args:
        since: The first revision that has the concept.
        until: The last revision that has the concept.
        tag: The class variable whose value is on the wire and identifies the class, for example `type`.
        when: The path of a member that identifies the class among those with the same tag, or without one.
        needs: A field, and for some of its values another field that is then required.
        any_of: Fields of which at least one is required.

    Returns:
        The decorator.
    """
    info = ClassInfo(between(since, until), tag, when, needs, any_of)

    def decorate(cls: type[W]) -> type[W]:
        made = _with_slots(cls)
        made.__wire__ = info
        return made

    return decorate


def _with_slots(cls: type[W]) -> type[W]:
    """Return a copy of the class with slots, which can be set only when a class is created."""
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    own: dict[str, Field] = {}
    for name, annotation in body.get("__annotations__", {}).items():
        if not str(annotation).startswith("ClassVar"):
            default = body.pop(name, REQUIRED)
            own[name] = default._replace(name=name) if isinstance(default, Field) else Field(name, default)
    fields = {each.name: each for base in reversed(cls.__mro__[1:]) for each in getattr(base, "__fields__", ())}
    body["__slots__"] = tuple(name for name in own if name not in fields)
    body["__fields__"] = tuple({**fields, **own}.values())
    body["__match_args__"] = ()
    # The new class is the decorated class with slots.
    return cast("type[W]", type(cls.__name__, cls.__bases__, body))
