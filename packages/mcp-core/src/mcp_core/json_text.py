r"""JSON text: strict, bounded and exact reading; strict writing.

*Reading.* orjson is fast and strict (UTF-8 only, no NaN, no infinity, no lone surrogate). However, it accepts repeated
members and uses the last one, converts integers beyond 64 bits to inexact floats, and has a fixed maximum depth. Its
value is therefore written again, at little cost, and compared with the text:

- Each member of an object has one colon outside of strings. The text has more colons than the rewritten value if and
  only if members were dropped. Colons in strings are equal in both, provided that `\u003a` is counted as a colon.
- orjson does not write beyond a certain depth. The value is wrapped in arrays so that a value one level too deep fails
  to be written.

Only a suspicious text, or one with a run of 19 digits, is read again by the json module of the standard library. That
module calls a hook for each object and reads integers exactly. It is slower by a factor of four to ten, and also
linear.

*Writing.* orjson writes NaN and infinities as `null`. If the output contains `null`, the value is searched for NaN and
infinities. Otherwise it has none. Integers beyond 64 bits are passed to orjson as text.
"""

from __future__ import annotations

import gc
import json
from collections import Counter
from functools import partial
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import orjson

from mcp_core.errors import LimitExceeded, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.limits import Limits

__all__ = ["Reading", "Repetition", "depth_exceeded", "read", "without_numbers", "write"]

T = TypeVar("T")

Repetition: TypeAlias = tuple["JsonObject", frozenset[str]]
"""An object, and the names of its repeated members. Of several such objects, the first that ends and the last that
ends; if the last one is the outermost object, it is the value itself. No names if a long text was not searched."""

Reading: TypeAlias = tuple["JsonValue", "LimitExceeded | None", tuple[Repetition, ...]]
"""The value, the limit that it exceeds, and its repeated members. A value that exceeds a limit is not checked further:
its large integers may have been rounded."""

_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 19
"""The digits of the shortest integer beyond 64 bits, -9223372036854775809."""

_EXPONENT: Final = ord("+" if b"+" in orjson.dumps(1e22) else "e")
"""The byte that the text of every float has that may be a rounded integer. Older releases of orjson write no sign."""

_NAMED_BYTES: Final = 1024 * 1024
"""The maximum size of a text to search for repeated members, in bytes. A search takes about 0.1 s for each MiB."""

_UNNAMED: Final[Repetition] = ({}, frozenset())
"""An unidentified object with repeated members."""

_BACKSLASH: Final = ord("\\")

_COUNTED_BYTES: Final = 8 * 1024
"""The maximum size for which counting brackets costs less than wrapping, in bytes."""

_LONG_BYTES: Final = 64 * 1024
"""The minimum size for which the check for one long string pays, in bytes."""

_FEW: Final = 200
"""The number of occurrences to find one by one. `count` visits each byte; `find` skips bytes."""

_ID_DIGITS: Final = 300
"""The maximum number of characters of an integer that is read exactly, to find the id of a message."""

_PLAIN: Final = frozenset({str, int, bool, type(None)})

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1
"""The range of integers that orjson reads and writes exactly."""

_LARGEST_BITS: Final = 1_023
"""The maximum size of an integer, in bits. Larger integers exceed the range of a double, and orjson rejects them."""


def _writable_depth() -> int:
    """Return the number of levels that orjson writes. It is 254 in all releases so far, but undocumented."""
    value: JsonValue = []
    for depth in range(1, 2_000):
        try:
            orjson.dumps(value)
        except TypeError:
            return depth - 1
        value = [value]
    raise ImportError("this release of orjson writes JSON of any depth; mcp_core requires a maximum depth")


_WRITABLE_DEPTH: Final = _writable_depth()


def read(data: bytes, limits: Limits) -> Reading:
    """Read JSON text.

    Args:
        data: The text, in UTF-8, without a byte order mark.
        limits: The limits; `nesting_depth`, `array_items` and `object_members` apply.

    Returns:
        The value, the limit that it exceeds or `None`, and its repeated members.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply for orjson.
    """
    size = len(data)
    value: JsonValue = orjson.loads(data) if size <= _LONG_BYTES else _without_collections(orjson.loads, data)
    depth = limits.nesting_depth
    if size > _LONG_BYTES and _is_simple(data, value, depth):
        return value, None, ()
    wrapped = value
    # A level takes two bytes, so most messages are too short to be too deep.
    if size > 2 * depth and (size > _COUNTED_BYTES or data.count(b"[") + data.count(b"{") > depth):
        for _ in range(_WRITABLE_DEPTH - depth):
            wrapped = [wrapped]
    try:
        again = orjson.dumps(wrapped)
    except TypeError:
        return value, depth_exceeded(depth), ()
    # An item and its comma take at least two bytes; the last item has no comma.
    lengthy = size > 2 * limits.array_items or size > 2 * limits.object_members
    if lengthy and _count(data, b",") >= min(limits.array_items, limits.object_members):
        excess = _collections_exceeded(value, limits)
        if excess is not None:
            return value, excess, ()
    colons = data.count(b":") if size <= _LONG_BYTES else _count(data, b":")
    if _BACKSLASH in data and b"\\u003" in data:
        colons += data.count(b"\\u003a") + data.count(b"\\u003A")
    rounded = _EXPONENT in again and _LONG_NUMBER in data.translate(_DIGITS_TO_ZERO)
    repeated = colons != (again.count(b":") if size <= _LONG_BYTES else _count(again, b":"))
    if repeated and size > _NAMED_BYTES:
        return value, None, (_UNNAMED,)
    if rounded or repeated:
        return _read_exactly(data, repeated=repeated)
    return value, None, ()


def without_numbers(data: bytes) -> JsonValue:
    """Read a text that orjson rejected for a number out of range, with short integers only: the value has the id of a message.

    Args:
        data: The text.

    Returns:
        The value, in which all other numbers are `None`; `None` if the text is not JSON, or is nested too deeply.
    """
    try:
        value: JsonValue = json.loads(data, parse_int=_short_integer, parse_float=_nothing, parse_constant=_nothing)
    except (ValueError, RecursionError):
        return None
    return value


def _short_integer(text: str) -> int | None:
    return int(text) if len(text) <= _ID_DIGITS else None


def _nothing(_: str) -> None:
    return None


def _is_simple(data: bytes, value: JsonValue, depth: int) -> bool:
    """Return whether a long text has so few values that checking each shows it to be correct, without writing it again.

    It is correct if it is not too deep, has one member for each colon, and has no number that may be a rounded integer.
    """
    colons = _count(data, b":", _FEW)
    if colons >= _FEW or _count(data, b",", _FEW) >= _FEW:
        return False
    members = 0
    level = [value]
    for _ in range(depth):
        below: list[JsonValue] = []
        for item in level:
            if type(item) is dict:
                members += len(item)
                below += item.values()
            elif type(item) is list:
                below += item
            elif type(item) is float:
                return False
        if not below:
            return members == colons
        level = below
    return False


def _count(text: bytes, byte: bytes, enough: int | None = None) -> int:
    """Return how often a byte occurs. With `enough`, stop counting there."""
    if len(text) > _LONG_BYTES:
        at = text.find(byte)
        for found in range(_FEW):
            if at < 0:
                return found
            at = text.find(byte, at + 1)
        if enough is not None:
            return enough
    return text.count(byte)


def depth_exceeded(allowed: int) -> LimitExceeded:
    """Return the error for an exceeded nesting depth. The actual depth is not measured."""
    return LimitExceeded(
        "nesting depth in levels", observed=allowed + 1, allowed=allowed, setting="Limits.nesting_depth"
    )


def _collections_exceeded(value: JsonValue, limits: Limits) -> LimitExceeded | None:
    """Return the error for an array or object with too many items or members, or `None`."""
    # Level by level, so that the loops over a million items run in C.
    level: list[JsonValue] = [value]
    while level:
        objects = [item for item in level if type(item) is dict and item]
        arrays = [item for item in level if type(item) is list and item]
        members, items = max(map(len, objects), default=0), max(map(len, arrays), default=0)
        if members > limits.object_members:
            return LimitExceeded(
                "members of a JSON object",
                observed=members,
                allowed=limits.object_members,
                setting="Limits.object_members",
            )
        if items > limits.array_items:
            return LimitExceeded(
                "items of a JSON array", observed=items, allowed=limits.array_items, setting="Limits.array_items"
            )
        level = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]
    return None


def _without_collections(read: Callable[[T], JsonValue], text: T) -> JsonValue:
    """Read a long text with the cyclic garbage collector disabled.

    The collector would traverse the new objects repeatedly, which more than doubles the time for a text full of
    brackets. It would find no garbage, because the new objects contain no cycles.
    """
    if not gc.isenabled():
        return read(text)
    gc.disable()
    try:
        return read(text)
    finally:
        gc.enable()


def _read_exactly(data: bytes, *, repeated: bool) -> Reading:
    """Read a text that orjson has accepted again, and find the objects with repeated members if `repeated` is true."""
    if not repeated:
        return _without_collections(json.loads, data.decode()), None, ()
    # A text may have 100,000 such objects; the caller needs two.
    found: list[tuple[JsonObject, list[tuple[str, JsonValue]]]] = []

    def object_of(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        made = dict(pairs)
        if len(made) != len(pairs):
            del found[1:]
            found.append((made, pairs))
        return made

    value = _without_collections(partial(json.loads, object_pairs_hook=object_of), data.decode())
    return value, None, tuple([(made, _repeated_names(pairs)) for made, pairs in found])


def _repeated_names(pairs: list[tuple[str, JsonValue]]) -> frozenset[str]:
    counts = Counter([name for name, _ in pairs])
    return frozenset(name for name, count in counts.items() if count > 1)


def write(value: JsonValue, *, line: bool = False) -> bytes:
    """Write a value as JSON text in UTF-8, on one line, without blanks.

    Args:
        value: The value. An `orjson.Fragment` in it is copied unchanged.
        line: Whether to append a line feed.

    Raises:
        LocalProtocolError: JSON cannot express the value: a NaN, an infinity, a lone surrogate, an integer of more than
            308 digits, a name that is not a string, another type, or a value that is too deep or contains itself.
    """
    try:
        text = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE if line else None)
    except TypeError as error:
        text = _write_large_integers(value, error) + (b"\n" if line else b"")
    if len(text) > _LONG_BYTES:
        # orjson allocates for the longest possible text, up to 40 times as much as it needs, and keeps all of it.
        text = bytes(memoryview(text))
    # If there are few values, that is, one long string, checking them takes less time than searching the text.
    few = len(text) > _LONG_BYTES and _count(text, b",", _FEW) < _FEW
    if (few or b"null" in text) and _has_infinite(value):
        raise LocalProtocolError(f"{_where(value)} is not a finite number, which JSON cannot express")
    return text


def _has_infinite(value: JsonValue) -> bool:
    """Return whether a value without cycles contains a NaN or an infinity."""
    waiting: list[JsonValue] = [[value]]
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            items: Iterable[JsonValue] = container.values()
        elif isinstance(container, (list, tuple)):
            items = container
        else:
            continue
        for item in items:
            if isinstance(item, float):
                if not isfinite(item):
                    return True
            elif type(item) not in _PLAIN:
                waiting.append(item)
    return False


def _write_large_integers(value: JsonValue, refusal: TypeError) -> bytes:
    """Write a value that orjson rejected, if the only reason was integers beyond 64 bits."""
    copies: dict[int, JsonValue] = {}
    waiting: list[JsonObject | list[JsonValue]] = []

    def replaced(item: JsonValue) -> JsonValue:
        if type(item) is int and item.bit_length() <= _LARGEST_BITS and not _SMALLEST <= item <= _LARGEST:
            return _as_text(item)
        if not isinstance(item, (dict, list, tuple)):
            return item
        # Containers are tracked by identity. The loop therefore ends for a value that contains itself, and orjson
        # rejects it.
        if id(item) not in copies:
            waiting.append(dict(item) if isinstance(item, dict) else list(item))
            copies[id(item)] = waiting[-1]
        return copies[id(item)]

    root = replaced(value)
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            container.update({name: replaced(item) for name, item in container.items()})
        else:
            container[:] = [replaced(item) for item in container]
    try:
        return orjson.dumps(root)
    except TypeError:
        raise LocalProtocolError(f"{_where(value)} cannot be written as JSON: {refusal}") from refusal


def _as_text(number: int) -> JsonValue:
    return orjson.Fragment(str(number))  # type: ignore[return-value]  # orjson accepts it in place of a value


_Path: TypeAlias = "tuple[_Path, str] | None"
"""A position in a value: the position of its container, and its name or index there."""


def _where(value: JsonValue) -> str:
    """Return the path of the first value found that cannot be written, for example `params.points[3]`."""
    seen: set[int] = set()
    waiting: list[tuple[_Path, int, JsonValue]] = [(None, 1, value)]
    while waiting:
        path, depth, item = waiting.pop()
        if not isinstance(item, (dict, list, tuple)):
            if not _writable(item):
                return _shown(path)
        elif depth > _WRITABLE_DEPTH:
            return f"a value nested more than {_WRITABLE_DEPTH} levels deep"
        elif id(item) not in seen:
            seen.add(id(item))
            if isinstance(item, dict):
                for name, inner in item.items():
                    if not _writable({name: None}):
                        return f"the name {name!r} of a member of {_shown(path)}"
                    waiting.append(((path, f".{name}"), depth + 1, inner))
            else:
                waiting.extend(((path, f"[{index}]"), depth + 1, inner) for index, inner in enumerate(item))
    return "a value that contains itself"


def _writable(leaf: JsonValue) -> bool:
    if isinstance(leaf, float) and not isfinite(leaf):
        return False
    if type(leaf) is int:
        return leaf.bit_length() <= _LARGEST_BITS
    try:
        orjson.dumps(leaf)
    except TypeError:
        return False
    return True


def _shown(path: _Path) -> str:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps)).removeprefix(".") or "the value"
