"""The type specifications of arrays, objects with arbitrary names, unions, and values of unknown type."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_core.schema.scalars import SCALARS
from mcp_core.schema.type_spec import (
    ALL_KINDS,
    FAULTS_KEPT,
    Fault,
    Mismatch,
    TypeSpec,
    describe,
    describe_object,
    kind_of,
)

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.schema.hooks import ClassHooks
    from mcp_core.schema.type_spec import JsonScalar

__all__ = ["any_spec", "array_spec", "hook_spec", "integer_key_spec", "mapping_spec", "tuple_spec", "union_spec"]

T = TypeVar("T")

_NAME_CHARS: Final = 80
"""Largest length of a member's name in a problem, in characters."""

_COLLISIONS: Final = 1_000
"""Largest number of items of a set whose hash equals that of another item. Integers with equal hashes are easy to find,
and building a set of them takes quadratic time."""

_INTEGER_KEY: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""An integer as the name of a member, in one form only. Integers of up to 18 digits have different hashes: larger ones with
equal hashes would take quadratic time."""

_Faults = list[Fault]


def _each(convert: Callable[[T], object], items: Iterable[T]) -> list[object]:
    """Convert all items. Raises `Mismatch` with the first faults."""
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


def _dump_each(item: TypeSpec, items: Iterable[object]) -> JsonValue:
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


def hook_spec(kind: type, hooks: ClassHooks, form: TypeSpec) -> TypeSpec:
    """Return the type specification of a class that hooks of the application convert.

    Args:
        kind: The class.
        hooks: The hooks.
        form: The type specification of its JSON form.
    """

    def load(value: JsonValue) -> object:
        written = form.load(value)
        if hooks.load is None:
            raise Mismatch.of("no value, because there is no structure hook", describe(value))
        try:
            return hooks.load(written, kind)
        except Exception as error:  # the hook is code of the author
            raise Mismatch.raised(f"{form.expected} for {kind.__name__}", describe(value), error) from error

    def dump(value: object) -> JsonValue:
        if not isinstance(value, kind):
            raise Mismatch.of(f"a {kind.__name__}", describe_object(value))
        if hooks.dump is None:
            raise Mismatch.of(f"a {kind.__name__} with an unstructure hook", describe_object(value))
        try:
            written = hooks.dump(value)
        except Exception as error:  # likewise
            raise Mismatch.raised(f"a {kind.__name__} that the hook accepts", describe_object(value), error) from error
        return form.dump(written)

    return TypeSpec(
        schema=form.schema,
        expected=form.expected,
        kinds=form.kinds,
        lenient=form.lenient,
        load=load,
        dump=dump,
        types=(kind,),
        hashable=getattr(kind, "__hash__", None) is not None,
    )


def array_spec(item: TypeSpec, kind: type) -> TypeSpec:
    """Return the type specification of a list, a deque, a set, a frozenset or a tuple of any length."""
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
            raise Mismatch.of("an array of hashable values", describe(value)) from None
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
    return TypeSpec(
        schema=schema,
        expected=expected,
        kinds=frozenset({"array"}),
        load=load,
        dump=dump,
        types=(kind,),
        hashable=kind is frozenset or (kind is tuple and item.hashable),
    )


def tuple_spec(items: Sequence[TypeSpec]) -> TypeSpec:
    """Return the type specification of a tuple with a type for each item."""
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
    return TypeSpec(
        schema=schema,
        expected=expected,
        kinds=frozenset({"array"}),
        load=load,
        dump=dump,
        types=(tuple,),
        hashable=all(item.hashable for item in items),
    )


def integer_key_spec() -> TypeSpec:
    """Return the type specification of an integer that is the name of a member, and so a string in JSON."""

    def load(value: JsonValue) -> object:
        if type(value) is str and _INTEGER_KEY.fullmatch(value):
            return int(value)
        raise Mismatch.of("an integer as the name of a member", describe(value))

    return attrs.evolve(
        SCALARS[int],
        schema={"pattern": f"^({_INTEGER_KEY.pattern})$"},
        expected="an integer as the name of a member",
        kinds=frozenset({"string"}),
        load=load,
    )


def mapping_spec(
    key: TypeSpec, item: TypeSpec, kind: type = dict, make: Callable[[dict[object, object]], object] | None = None
) -> TypeSpec:
    """Return the type specification of a mapping, whose keys are read from strings.

    Args:
        key: The type specification of the keys.
        item: The type specification of the values.
        kind: The class.
        make: Creates a value of the class; `None` for a `dict`.
    """
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
        return members if make is None else make(members)

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
    return TypeSpec(
        schema=schema,
        expected="an object",
        kinds=frozenset({"object"}),
        load=load,
        dump=dump,
        types=(kind,),
        hashable=False,
    )


def union_spec(members: Sequence[TypeSpec]) -> TypeSpec:
    """Return the type specification of a union.

    A value is read by the members of its JSON type, in order. If there is no such member, it is read by the members
    that accept its JSON type leniently. Of several object types, the one whose tags match the value reads it: by the first
    tag that all of them have with different values, or else if exactly one of them matches.
    """
    flat = tuple(inner for member in members for inner in (member.members or (member,)))
    expected = " or ".join(dict.fromkeys(member.expected for member in flat))
    # Recursive members do not know their kinds yet, so the candidates are determined on first use.
    by_kind: dict[str, Sequence[TypeSpec]] = {}
    discriminators: list[str] = []

    def load(value: JsonValue) -> object:
        kind = kind_of(value)
        candidates = by_kind.get(kind)
        if candidates is None:
            taken = [member for member in flat if kind in member.kinds] or [m for m in flat if kind in m.lenient]
            candidates = by_kind[kind] = taken
            if kind == "object" and len(taken) > 1:
                discriminators.extend(_discriminators(taken))
        if type(value) is dict and len(candidates) > 1:
            if discriminators:
                return _selected(value, candidates, discriminators[0]).load(value)
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

    return TypeSpec(
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
    """Return whether the members of an object have values that the tags allow."""
    for name, allowed in tags.items():
        found = value.get(name)
        if isinstance(found, list | dict) or found not in allowed:
            return False
    return True


def _discriminators(members: Sequence[TypeSpec]) -> list[str]:
    """Return the names of the tags that all members have, each member with values of its own."""
    found = []
    for name in members[0].tags:
        sets = [member.tags.get(name, frozenset()) for member in members]
        values = {(type(value), value) for each in sets for value in each}
        if all(sets) and len(values) == sum(map(len, sets)) == len({value for _, value in values}):
            found.append(name)
    return found


def _selected(value: JsonObject, members: Sequence[TypeSpec], name: str) -> TypeSpec:
    """Return the member of a union that the tag of an object selects. Raises `Mismatch`."""
    found = value.get(name)
    for member in members:
        if not isinstance(found, list | dict) and found in member.tags[name]:
            return member
    allowed = [
        describe(tag).removeprefix("the string ") for member in members for tag in sorted(member.tags[name], key=str)
    ]
    got = describe(found) if name in value else "nothing"
    raise Mismatch([((name,), f"one of {', '.join(allowed)}", got)])


def _first(value: JsonValue, candidates: Sequence[TypeSpec], expected: str) -> object:
    """Return the value as read by the first type specification that accepts it. Raises `Mismatch`."""
    mismatches: list[Mismatch] = []
    for member in candidates:
        try:
            return member.load(value)
        except Mismatch as mismatch:
            mismatches.append(mismatch)
    raise _closest(mismatches, expected, value)


class _Tries(threading.local):
    """A cache of the results of nested unions while one union is read.

    Two members of a union can contain the same union again, for example the nodes of a tree. Without the cache, each of
    them would read its content, and each level of the tree would double the time. With the cache, each value is read
    once for each union.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[object, Mismatch | None]] | None = None

    def first(self, union: object, value: JsonValue, candidates: Sequence[TypeSpec], expected: str) -> object:
        """Return the value as read by the first type specification that accepts it, from the cache if possible.

        Args:
            union: The union, compared by identity.
            value: The value, compared by identity. It is part of a value that is referenced elsewhere.
            candidates: The type specifications to try.
            expected: The description of the union for errors.

        Raises:
            Mismatch: No type specification accepts the value.
        """
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
    """Return the mismatch to report: the one of the closest member, or a general one if no member is closest."""
    ranked = sorted(mismatches, key=lambda mismatch: len(mismatch.faults))
    deep = [mismatch for mismatch in ranked if all(path for path, _, _ in mismatch.faults)]
    if deep and (len(deep) == 1 or len(deep[0].faults) < len(deep[1].faults)):
        return deep[0]
    return Mismatch.of(expected, describe(value))


def any_spec(of_value: Callable[[object], TypeSpec]) -> TypeSpec:
    """Return the type specification of any JSON value.

    Args:
        of_value: Returns the type specification of a Python value that is not JSON.
    """

    def dump(value: object) -> JsonValue:
        if value is None or type(value) in (bool, str, int):
            return value  # type: ignore[return-value]  # exact types are compared for speed
        if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_fields"):
            return _dump_each(spec, value)
        if isinstance(value, dict):
            return mapping.dump(value)
        return of_value(value).dump(value)

    spec = TypeSpec(
        schema={}, expected="any value", kinds=ALL_KINDS, load=lambda value: value, dump=dump, types=(object,)
    )
    mapping = mapping_spec(SCALARS[str], spec)
    return spec
