"""How a class says what it looks like on the wire, and in which revisions.

`wire` makes a frozen class and registers the lifetime of the concept; `field` does the same for one member.
Everything that depends on the revision is read from these two by `mcp_core.conversion.wire_types`; nothing else knows camelCase.

    @wire(since=R2025_03_26, tag="type")
    class AudioContent(WireObject):
        type: ClassVar[Literal["audio"]] = "audio"
        data: str
        meta: JsonObject | None = field(default=None, name="_meta", since=R2025_06_18)

A member without a default has to be there. With the default `None` it is optional, and a `null` on the wire means
that it is absent. With the default `ABSENT` it is optional and `null` is a value like any other.

The classes are made here and not by attrs, which makes all other data classes of this project: there are over 150 of
them, and attrs takes 240 microseconds for each, which was a fifth of the time to import a client. What a wire class
has is little: slots, one `__init__` for all, equality, `repr`, and no way to change a value.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, cast, dataclass_transform, overload

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
    "Required",
    "WireObject",
    "evolve",
    "field",
    "wire",
]

T = TypeVar("T")

_ALL: Final = between()


class Absent(enum.Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"
    """The one value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""Stands for a member that is not there, where `None` would stand for a `null` that is."""


class _NoExtra(Mapping[str, JsonValue]):
    """An empty mapping that nobody can fill, and that stays itself when it is copied or pickled."""

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
"""No unknown members; shared, and cannot be changed."""


class FieldInfo(NamedTuple):
    """What the wire knows of one field."""

    name: str | None = None
    """The wire name; `None` to derive it from the name of the attribute."""
    alive: frozenset[Revision] = _ALL
    """The revisions that have the member."""
    required: frozenset[Revision] = frozenset()
    """The revisions in which the member has to be there although the class has a default for it."""
    refuse: bool = False
    """To send it to a peer whose revision lacks it is an error. If not, it is left out."""
    always: bool = False
    """It is sent also when it has its default value."""
    added: bool = False
    """The connection adds to it when a message is sent, so it is not missed before."""
    was: tuple[frozenset[Revision], object] | None = None
    """Another type that the member has in some revisions."""
    minimum: float | None = None
    """The smallest number that is allowed."""
    maximum: float | None = None
    """The largest number that is allowed."""


class Required(enum.Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "required"
    """The one value."""


REQUIRED: Final = Required.REQUIRED
"""Stands where a default would stand, of a field that has to be given."""


class Field(NamedTuple):
    """One field of a class."""

    name: str
    """The name of the attribute."""
    default: object = REQUIRED
    """Its default."""
    info: FieldInfo = FieldInfo()
    """What the wire knows of it."""


class ClassInfo(NamedTuple):
    """What the wire knows of one class."""

    alive: frozenset[Revision]
    """The revisions that have the concept."""
    tag: str | None
    """The class variable whose value stands on the wire and tells the class from others."""
    when: tuple[str, ...]
    """The path of a member that tells the class from others in a union."""
    needs: tuple[str, Mapping[str, str]] | None
    """A field, and for some of its values another field that then has to be there."""
    any_of: tuple[str, ...]
    """Fields of which at least one has to be there."""


class WireObject:  # noqa: PLW1641  # JSON has no hash
    """The base of everything that is a JSON object on the wire.

    Two values are equal when they are of the same class and have equal fields. They have no hash, since they hold JSON.
    """

    __slots__ = ()
    __wire__: ClassVar[ClassInfo]
    __fields__: ClassVar[tuple[Field, ...]] = ()

    if TYPE_CHECKING:
        # Type checkers make an `__init__` of the fields, as `dataclass_transform` says.
        extra: Mapping[str, JsonValue]
        """Members that the revision does not define, by wire name; kept on receipt and sent again."""
    else:

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
    """What pickling and copying use."""
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
) -> T: ...  # type: ignore[type-var]  # the type comes from the annotation that the call stands beside
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
    """One member of a wire class.

    Args:
        default: The value where the member is absent; without it the member has to be there.
        name: The wire name, where it is not the attribute's name in camelCase.
        since: The first revision that has the member.
        until: The last revision that has it.
        required_since: The first revision in which it has to be there, for a member that has a default.
        required: The same as a set.
        refuse: Sending it to a peer whose revision lacks it raises `LocalProtocolError`; by default it is left out.
        always: It is sent also when it has its default value.
        added: The connection adds to it when a message is sent, so it is not missed before.
        was: Revisions, and the type that the member has in these.
        minimum: The smallest number that is allowed.
        maximum: The largest number that is allowed.

    Returns:
        What has to stand in the class body.
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
    """Makes a class that stands for a JSON object: frozen, keyword-only, with slots.

    Args:
        since: The first revision that has the concept.
        until: The last revision that has it.
        tag: The class variable whose value stands on the wire and tells the class from others, as `type`.
        when: The path of a member that tells the class from others of the same tag, or without one.
        needs: A field, and for some of its values another field that then has to be there.
        any_of: Fields of which at least one has to be there.

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
    """The same class with slots; they have to be there when a class is made, so it is made anew."""
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
    # The class is the one that was decorated, but for its slots.
    return cast("type[W]", type(cls.__name__, cls.__bases__, body))


def evolve(value: W, /, **changes: object) -> W:
    """A copy of `value` with some fields changed.

    Args:
        value: Any wire object.
        **changes: The fields that shall differ.

    Returns:
        The copy; what is not changed is shared.

    Raises:
        TypeError: There is no such field.
    """
    fields: dict[str, object] = {each.name: getattr(value, each.name) for each in value.__fields__}
    fields.update(changes)
    return type(value)(**fields)
