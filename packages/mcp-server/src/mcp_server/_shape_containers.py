"""The shapes of arrays, objects with free names, unions, and of values of which nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TypeVar

from mcp_server._shape import ALL_KINDS, Mismatch, Shape, describe, describe_object, kind_of
from mcp_server._shape_scalars import SCALARS

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["any_shape", "array_shape", "mapping_shape", "tuple_shape", "union_shape"]

T = TypeVar("T")
_Faults = list[tuple[tuple[str | int, ...], str, str]]


def _each(convert: Callable[[T], object], items: Iterable[T]) -> list[object]:
    """Every item converted; raises `Mismatch` with the faults of all."""
    converted: list[object] = []
    faults: _Faults = []
    for index, item in enumerate(items):
        try:
            converted.append(convert(item))
        except Mismatch as mismatch:
            faults += mismatch.under(index)
    if faults:
        raise Mismatch(faults)
    return converted


def _dump_each(item: Shape, items: Iterable[object]) -> JsonValue:
    written: list[JsonValue] = []
    faults: _Faults = []
    for index, member in enumerate(items):
        try:
            written.append(item.dump(member))
        except Mismatch as mismatch:
            faults += mismatch.under(index)
    if faults:
        raise Mismatch(faults)
    return written


def array_shape(item: Shape, kind: type) -> Shape:
    """The shape of a list, a set, a frozenset or a tuple of any length."""
    unique = kind in (set, frozenset)
    expected = "an array"

    def load(value: JsonValue) -> object:
        if type(value) is not list:
            raise Mismatch.of(expected, describe(value))
        items = _each(item.load, value)
        if kind is list:
            return items
        try:
            made: object = kind(items)
        except TypeError:
            raise Mismatch.of("an array of single values", describe(value)) from None
        if unique and isinstance(made, AbstractSet) and len(made) < len(items):
            raise Mismatch.of("an array without duplicates", describe(value))
        return made

    def dump(value: object) -> JsonValue:
        if not isinstance(value, Sequence | AbstractSet) or isinstance(value, str | bytes | bytearray):
            raise Mismatch.of(f"a {kind.__name__}", describe_object(value))
        return _dump_each(item, value)

    schema: JsonObject = {"type": "array", "items": item.schema}
    if unique:
        schema["uniqueItems"] = True
    return Shape(
        schema=schema,
        expected=expected,
        kinds=frozenset({"array"}),
        load=load,
        dump=dump,
        types=(kind,),
        hashable=kind is frozenset or (kind is tuple and item.hashable),
    )


def tuple_shape(items: Sequence[Shape]) -> Shape:
    """The shape of a tuple with a type for each item."""
    expected = f"an array of {len(items)} items"

    def load(value: JsonValue) -> object:
        if type(value) is not list or len(value) != len(items):
            raise Mismatch.of(expected, describe(value))
        return tuple(_each(lambda pair: pair[0].load(pair[1]), zip(items, value, strict=True)))

    def dump(value: object) -> JsonValue:
        if not isinstance(value, tuple) or len(value) != len(items):
            raise Mismatch.of(f"a tuple of {len(items)} items", describe_object(value))
        written: list[JsonValue] = []
        faults: _Faults = []
        for index, (item, member) in enumerate(zip(items, value, strict=True)):
            try:
                written.append(item.dump(member))
            except Mismatch as mismatch:
                faults += mismatch.under(index)
        if faults:
            raise Mismatch(faults)
        return written

    schema: JsonObject = {"type": "array", "minItems": len(items), "maxItems": len(items)}
    if items:
        schema["prefixItems"] = [item.schema for item in items]
    return Shape(
        schema=schema,
        expected=expected,
        kinds=frozenset({"array"}),
        load=load,
        dump=dump,
        types=(tuple,),
        hashable=all(item.hashable for item in items),
    )


def mapping_shape(key: Shape, item: Shape) -> Shape:
    """The shape of a mapping; the keys are read from texts."""
    plain = key is SCALARS[str]

    def load(value: JsonValue) -> object:
        if type(value) is not dict:
            raise Mismatch.of("an object", describe(value))
        members: dict[object, object] = {}
        faults: _Faults = []
        for name, member in value.items():
            try:
                members[name if plain else key.load(name)] = item.load(member)
            except Mismatch as mismatch:
                faults += mismatch.under(name)
        if faults:
            raise Mismatch(faults)
        return members

    def dump(value: object) -> JsonValue:
        if not isinstance(value, Mapping):
            raise Mismatch.of("a dict", describe_object(value))
        written: JsonObject = {}
        faults: _Faults = []
        for name, member in value.items():
            text = str(name)
            try:
                text = str(key.dump(name))
                written[text] = item.dump(member)
            except Mismatch as mismatch:
                faults += mismatch.under(text)
        if faults:
            raise Mismatch(faults)
        return written

    schema: JsonObject = {"type": "object", "additionalProperties": item.schema}
    if not plain:
        schema["propertyNames"] = key.schema
    return Shape(
        schema=schema,
        expected="an object",
        kinds=frozenset({"object"}),
        load=load,
        dump=dump,
        types=(dict,),
        hashable=False,
    )


def union_shape(members: Sequence[Shape]) -> Shape:
    """The shape of a choice between types.

    A value is read by the members that take its JSON type, in their order. Only when there is none, by those that would
    take it leniently.
    """
    flat = tuple(inner for member in members for inner in (member.members or (member,)))
    expected = " or ".join(dict.fromkeys(member.expected for member in flat))

    def load(value: JsonValue) -> object:
        kind = kind_of(value)
        candidates = [member for member in flat if kind in member.kinds] or [m for m in flat if kind in m.lenient]
        if len(candidates) == 1:
            return candidates[0].load(value)
        mismatches: list[Mismatch] = []
        for member in candidates:
            try:
                return member.load(value)
            except Mismatch as mismatch:
                mismatches.append(mismatch)
        raise _closest(mismatches, expected, value)

    def dump(value: object) -> JsonValue:
        exact = [member for member in flat if type(value) in member.types]
        for member in (*exact, *flat):
            try:
                return member.dump(value)
            except Mismatch as mismatch:
                if len(exact) == 1 and member is exact[0]:
                    raise mismatch from None
        raise Mismatch.of(expected, describe_object(value))

    return Shape(
        schema={"anyOf": [member.schema for member in flat]},
        expected=expected,
        kinds=frozenset().union(*(member.kinds for member in flat)),
        lenient=frozenset().union(*(member.lenient for member in flat)),
        load=load,
        dump=dump,
        types=tuple(kind for member in flat for kind in member.types),
        hashable=all(member.hashable for member in flat),
        members=flat,
    )


def _closest(mismatches: Sequence[Mismatch], expected: str, value: JsonValue) -> Mismatch:
    """The mismatch to tell: that of the member that fits best, where one fits better than the others."""
    ranked = sorted(mismatches, key=lambda mismatch: len(mismatch.faults))
    deep = [mismatch for mismatch in ranked if all(path for path, _, _ in mismatch.faults)]
    if deep and (len(deep) == 1 or len(deep[0].faults) < len(deep[1].faults)):
        return deep[0]
    return Mismatch.of(expected, describe(value))


def any_shape(of_value: Callable[[object], Shape]) -> Shape:
    """The shape of any JSON value.

    Args:
        of_value: Gives the shape for a Python value that is not JSON as it is.
    """

    def dump(value: object) -> JsonValue:
        if value is None or type(value) in (bool, str, int):
            return value  # type: ignore[return-value]  # the types are compared, for speed
        if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_fields"):
            return _dump_each(shape, value)
        if isinstance(value, dict):
            return mapping.dump(value)
        return of_value(value).dump(value)

    shape = Shape(
        schema={}, expected="any value", kinds=ALL_KINDS, load=lambda value: value, dump=dump, types=(object,)
    )
    mapping = mapping_shape(SCALARS[str], shape)
    return shape
