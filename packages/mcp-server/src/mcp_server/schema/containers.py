"""The shapes of arrays, objects with free names, unions, and of values of which nothing is known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_server.schema.scalars import SCALARS
from mcp_server.schema.type_spec import (
    ALL_KINDS,
    FAULTS_KEPT,
    Fault,
    Mismatch,
    Shape,
    describe,
    describe_object,
    kind_of,
)

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_server.schema.type_spec import JsonScalar

__all__ = ["any_shape", "array_shape", "mapping_shape", "tuple_shape", "union_shape"]

T = TypeVar("T")

_NAME_CHARS: Final = 80
"""Characters of a member's name that a problem repeats."""

_COLLISIONS: Final = 1_000
"""Items of a set that may have the hash of another one. Integers with one hash are easily found, and a set of them takes
quadratic time to make."""

_Faults = list[Fault]


def _each(convert: Callable[[T], object], items: Iterable[T]) -> list[object]:
    """Every item converted; raises `Mismatch` with the first faults."""
    converted: list[object] = []
    faults: _Faults = []
    for index, item in enumerate(items):
        try:
            converted.append(convert(item))
        except Mismatch as mismatch:
            faults += mismatch.under(index)
            if len(faults) >= FAULTS_KEPT:
                break
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
            if unique and len({hash(item) for item in items}) + _COLLISIONS < len(items):
                raise Mismatch.of("an array without duplicates", describe(value))
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
                faults += mismatch.under(name[:_NAME_CHARS])
                if len(faults) >= FAULTS_KEPT:
                    break
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
    take it leniently. Of several objects, that one reads it whose `Shape.tags` the value has, if there is one.
    """
    flat = tuple(inner for member in members for inner in (member.members or (member,)))
    expected = " or ".join(dict.fromkeys(member.expected for member in flat))
    # Members that refer to themselves know their kinds only later, so that this is found out when it is needed.
    by_kind: dict[str, Sequence[Shape]] = {}

    def load(value: JsonValue) -> object:
        kind = kind_of(value)
        candidates = by_kind.get(kind)
        if candidates is None:
            taken = [member for member in flat if kind in member.kinds] or [m for m in flat if kind in m.lenient]
            candidates = by_kind[kind] = taken
        if type(value) is dict and len(candidates) > 1:
            tagged = [member for member in candidates if _has_tags(value, member.tags)]
            candidates = tagged if len(tagged) == 1 else candidates
        if len(candidates) == 1:
            return candidates[0].load(value)
        if type(value) is dict or type(value) is list:
            return _tries.first(by_kind, value, candidates, expected)
        return _first(value, candidates, expected)

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


def _has_tags(value: JsonObject, tags: Mapping[str, frozenset[JsonScalar]]) -> bool:
    """Whether the members of an object that are choices have one of their values."""
    for name, allowed in tags.items():
        found = value.get(name)
        if isinstance(found, list | dict) or found not in allowed:
            return False
    return True


def _first(value: JsonValue, candidates: Sequence[Shape], expected: str) -> object:
    """What the first shape reads that can. Raises `Mismatch`."""
    mismatches: list[Mismatch] = []
    for member in candidates:
        try:
            return member.load(value)
        except Mismatch as mismatch:
            mismatches.append(mismatch)
    raise _closest(mismatches, expected, value)


class _Tries(threading.local):
    """What came of the unions within the union that is being read.

    Two members of a union may contain the same union again, as the nodes of a tree do. Each of them would read what it
    contains, and each level of the tree would double the time. So each value is read once for each union.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[object, Mismatch | None]] | None = None

    def first(self, union: object, value: JsonValue, candidates: Sequence[Shape], expected: str) -> object:
        """See `_first`. `union` is known by its identity, and so is the value, which is a part of one that is held."""
        known = self._known
        if known is None:
            self._known = {}
            try:
                return _first(value, candidates, expected)
            finally:
                self._known = None
        key = (id(union), id(value))
        outcome = known.get(key)
        if outcome is None:
            try:
                outcome = (_first(value, candidates, expected), None)
            except Mismatch as mismatch:
                outcome = (None, mismatch)
            known[key] = outcome
        found, failed = outcome
        if failed is not None:
            raise Mismatch(failed.faults)
        return found


_tries: Final = _Tries()


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
