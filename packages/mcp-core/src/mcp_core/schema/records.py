"""Type specifications of dataclasses, attrs classes, `TypedDict`, `NamedTuple`, and of arguments: named members."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, ForwardRef, NotRequired, Required, get_args, get_origin, is_typeddict

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.schema.annotations import Scope, annotations_of
from mcp_core.schema.docstring import parse_docstring
from mcp_core.schema.models import is_model, model_fields
from mcp_core.schema.type_spec import (
    FAULTS_KEPT,
    Fault,
    Load,
    Mismatch,
    TypeSpec,
    UnknownName,
    describe,
    describe_object,
)

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["MISSING", "Member", "Record", "dump_members", "load_members", "plan", "record_of"]

MISSING: Final = inspect.Parameter.empty
"""A sentinel for a missing default."""

_NAME_CHARS: Final = 80
"""Largest length of an unknown name in a problem, in characters."""

_SIMPLE: Final = (list, dict, set, tuple, frozenset)
"""Factories that always return the same value, which can be listed as the default."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Member(FieldValue):
    """A field of a record, or a parameter."""

    name: str
    """Its name on the wire and in Python."""
    hint: object
    """Its annotation."""
    scope: Scope
    """The names that are visible to the annotation."""
    required: bool
    """Whether it is required."""
    default: object = MISSING
    """Its default, if known."""
    description: str | None = None
    """Its description in the docstring."""
    may_be_absent: bool = False
    """Whether a value can lack it, as with `NotRequired`. A member with a default is always present."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Record(FieldValue):
    """A class with named members."""

    members: tuple[Member, ...]
    """The members from which a value is created."""
    make: Callable[[dict[str, object]], object]
    """Creates a value."""
    read: Callable[[object, str], object]
    """Reads one member of a value, or returns `MISSING`."""
    is_value: Callable[[object], bool]
    """Returns whether an object is a value of the class."""
    description: str | None
    """The description in the docstring."""


def record_of(kind: type, *, output: bool) -> Record | None:
    """Return how values of a class with named members are created and read; `None` for any other class.

    Args:
        kind: The class.
        output: Whether to include members that can be read but not set.
    """
    found = _members(kind, output=output)
    if found is None:
        return None
    members, make = found
    said = parse_docstring(None if _generated(kind) else vars(kind).get("__doc__"))
    members = tuple(attrs.evolve(member, description=said.members.get(member.name)) for member in members)
    mapping = _is_typed_dict(kind)
    return Record(
        members=members,
        make=make,
        read=_read_item if mapping else _attribute_reader(kind),
        is_value=(lambda value: isinstance(value, Mapping)) if mapping else (lambda value: isinstance(value, kind)),
        description=said.description or None,
    )


def _read_item(value: object, name: str) -> object:
    return value.get(name, MISSING) if isinstance(value, Mapping) else MISSING


def _attribute_reader(kind: type) -> Callable[[object, str], object]:
    # The constructor of an attrs class has a parameter `y` for the attribute `_y`. On the wire the name is always `y`.
    names = {field.alias: field.name for field in attrs.fields(kind)} if attrs.has(kind) else {}

    def read(value: object, name: str) -> object:
        found: object = getattr(value, names.get(name, name), MISSING)
        return found

    return read


def _generated(kind: type) -> bool:
    """Return whether the docstring is the signature that dataclasses and named tuples generate."""
    text = vars(kind).get("__doc__")
    return isinstance(text, str) and text.startswith(f"{kind.__name__}(")


def _members(kind: type, *, output: bool) -> tuple[tuple[Member, ...], Callable[[dict[str, object]], object]] | None:
    if is_model(kind):
        return _model_members(kind)
    if _is_typed_dict(kind):
        return _typed_dict_members(kind), dict
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple_members(kind), lambda values: kind(**values)
    if attrs.has(kind):
        return _attrs_members(kind, output=output), lambda values: kind(**values)
    if dataclasses.is_dataclass(kind):
        return _dataclass_members(kind, output=output), lambda values: kind(**values)
    return None


def _model_members(kind: type) -> tuple[tuple[Member, ...], Callable[[dict[str, object]], object]]:
    """Return the fields of a pydantic model or a msgspec Struct, for a form."""
    fields, make = model_fields(kind)
    members = tuple(
        Member(
            name=field.name,
            hint=field.hint,
            scope=Scope({}, {}),
            required=field.required,
            default=MISSING if field.required else field.default,
        )
        for field in fields
    )
    return members, make


def _is_typed_dict(kind: type) -> bool:
    # Before Python 3.13, `typing_extensions` has a `TypedDict` of its own.
    return is_typeddict(kind) or type(kind).__name__ == "_TypedDictMeta"


def _qualifier(hint: object) -> str | None:
    """Return the name of the qualifier of a member of a `TypedDict`, or `None`."""
    origin = get_origin(hint)
    if origin in (Required, NotRequired):
        return "Required" if origin is Required else "NotRequired"
    name = getattr(origin, "_name", None) or getattr(origin, "__name__", None)
    return name if name == "ReadOnly" else None


def _typed_dict_members(kind: type) -> tuple[Member, ...]:
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    members = []
    for name, (hint, scope) in annotations_of(kind).items():
        # The hint is evaluated here, because `RequiredType` and `NotRequired` decide whether the member is required.
        meaning = scope.evaluate(hint) if isinstance(hint, str | ForwardRef) else hint
        needed = name in required
        while (qualifier := _qualifier(meaning)) is not None:
            needed = qualifier == "Required" or (qualifier == "ReadOnly" and needed)
            (meaning,) = get_args(meaning)
        members.append(Member(name=name, hint=meaning, scope=scope, required=needed, may_be_absent=not needed))
    return tuple(members)


def _named_tuple_members(kind: type) -> tuple[Member, ...]:
    annotations = annotations_of(kind)
    fields: tuple[str, ...] = getattr(kind, "_fields", ())
    defaults: Mapping[str, object] = getattr(kind, "_field_defaults", {})
    untyped = Scope({}, {})
    return tuple(
        _member(name, *annotations.get(name, (object, untyped)), default=defaults.get(name, MISSING)) for name in fields
    )


def _attrs_members(kind: type, *, output: bool) -> tuple[Member, ...]:
    annotations = annotations_of(kind)
    untyped = Scope({}, {})
    members = []
    for field in attrs.fields(kind):
        if not field.init and not output:
            continue
        default: object = MISSING if field.default is attrs.NOTHING else field.default
        optional = default is not MISSING
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class with the type of a function
            factory = getattr(default, "factory", None)
            default = factory() if factory in _SIMPLE else MISSING
        hint, scope = annotations.get(field.name, (field.type or object, untyped))
        members.append(
            attrs.evolve(_member(field.alias or field.name, hint, scope, default=default), required=not optional)
        )
    return tuple(members)


def _dataclass_members(kind: type, *, output: bool) -> tuple[Member, ...]:
    annotations = annotations_of(kind)
    members = []
    # `dataclasses.fields` leaves out the fields of type `InitVar`, which are parameters of the constructor only.
    fields: dict[str, dataclasses.Field[object]] = getattr(kind, "__dataclass_fields__", {})
    stored = {field.name for field in dataclasses.fields(kind)}
    for field in fields.values():
        hint, scope = annotations[field.name]
        if field.name not in stored:
            hint = _init_type(hint, scope)
            if hint is None or output:
                continue
        if not field.init and not output:
            continue
        default: object = MISSING if field.default is dataclasses.MISSING else field.default
        factory: object = field.default_factory
        optional = default is not MISSING or factory is not dataclasses.MISSING
        if factory in _SIMPLE and callable(factory):
            default = factory()
        members.append(attrs.evolve(_member(field.name, hint, scope, default=default), required=not optional))
    return tuple(members)


def _init_type(hint: object, scope: Scope) -> object:
    """Return the type of an `InitVar`; `None` for a class variable."""
    meaning = scope.evaluate(hint) if isinstance(hint, str | ForwardRef) else hint
    return meaning.type if isinstance(meaning, dataclasses.InitVar) else None


def _member(name: str, hint: object, scope: Scope, *, default: object) -> Member:
    return Member(name=name, hint=hint, scope=scope, required=default is MISSING, default=default)


# --- Reading and writing ---------------------------------------------------------------------------------------------


def plan(members: Mapping[str, tuple[TypeSpec, bool]]) -> dict[str, tuple[Load, bool, bool]]:
    """Return the loader of each member, whether it is required, and whether `null` means its default."""
    return {
        name: (spec.load, required, not required and "null" not in spec.kinds)
        for name, (spec, required) in members.items()
    }


def load_members(plan: Mapping[str, tuple[Load, bool, bool]], value: JsonValue, expected: str) -> dict[str, object]:
    """Convert the members of an object. A member that is absent and has a default is left out.

    Raises:
        Mismatch: The value does not match. The error has all faults, up to `FAULTS_KEPT`.
    """
    if type(value) is not dict:
        raise Mismatch.of(expected, describe(value))
    members: dict[str, object] = {}
    faults: list[Fault] = []
    known = 0
    for name, (load, required, null_is_default) in plan.items():
        if name in value:
            known += 1
            item = value[name]
            if item is None and null_is_default:
                continue
            try:
                members[name] = load(item)
            except Mismatch as mismatch:
                faults += mismatch.under(name)
        elif required:
            faults.append(((name,), "a value, because it is required", "nothing"))
    if known < len(value):
        unknown = itertools.islice((name[:_NAME_CHARS] for name in value if name not in plan), FAULTS_KEPT)
        faults += [((name,), UnknownName(name, plan), "an unknown name") for name in unknown]
    if faults:
        raise Mismatch(faults)
    return members


def dump_members(
    record: Record, specs: Mapping[str, tuple[TypeSpec, bool]], value: object, expected: str
) -> dict[str, JsonValue]:
    """Return the members of a value as JSON. Raises `Mismatch`."""
    if not record.is_value(value):
        raise Mismatch.of(expected, describe_object(value))
    written: dict[str, JsonValue] = {}
    faults: list[Fault] = []
    for name, (spec, required) in specs.items():
        item = record.read(value, name)
        if item is MISSING:
            if required:
                faults.append(((name,), spec.expected, "nothing"))
            continue
        try:
            written[name] = spec.dump(item)
        except Mismatch as mismatch:
            faults += mismatch.under(name)
    if faults:
        raise Mismatch(faults)
    return written
