"""The type specifications of single values: strings, numbers, booleans, dates, choices."""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import math
import re
import uuid
from types import NoneType
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_core.schema.type_spec import Mismatch, TypeSpec, describe, describe_object

if TYPE_CHECKING:
    import enum
    import pathlib
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["NONE", "SCALARS", "choice_spec", "enum_pairs", "path_spec"]

T = TypeVar("T")

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_OFFSET: Final = rf"([Zz]|[+-]{_CLOCK})"
_DATE_ONLY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME: Final = re.compile(rf"{_DATE_ONLY.pattern}[Tt]{_CLOCK}:[0-5][0-9](\.[0-9]+)?{_OFFSET}")
"""The `format` `date-time`, without leap seconds, which Python does not represent. Source: RFC 3339 section 5.6"""
_TIME_ONLY: Final = re.compile(rf"{_CLOCK}(:[0-5][0-9](\.[0-9]+)?)?{_OFFSET}?")
"""A time of day. Unlike the `format` `time`, the offset is optional: a `datetime.time` usually has none."""
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
"""The `format` `uuid`. Source: RFC 4122 section 3"""
_DURATION: Final = re.compile(
    r"(?P<sign>-?)P(?:(?P<weeks>[0-9]+)W|(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:\.[0-9]{1,6})?)S)?)?)"
)
_SECONDS: Final = r"[0-9]+(\.[0-9]{1,6})?S"
_TIMES: Final = rf"T([0-9]+H([0-9]+M)?({_SECONDS})?|[0-9]+M({_SECONDS})?|{_SECONDS})"
_DURATION_TEXT: Final = rf"-?P([0-9]+W|[0-9]+D({_TIMES})?|{_TIMES})"
"""The strings that `_DURATION` accepts. Unlike the `format` `duration`, with fractions and a sign, without months and years."""


def _load_str(value: JsonValue) -> object:
    if type(value) is str:
        return value
    raise Mismatch.of("a string", describe(value))


def _load_int(value: JsonValue) -> object:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch.of("an integer", describe(value))


def _load_float(value: JsonValue) -> object:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch.of("a number that fits into 64 bits", describe(value)) from None
    raise Mismatch.of("a number", describe(value))


def _load_bool(value: JsonValue) -> object:
    if value is True or value is False:
        return value
    raise Mismatch.of("true or false", describe(value))


def _load_none(value: JsonValue) -> object:
    if value is None:
        return None
    raise Mismatch.of("null", describe(value))


def _dump_str(value: object) -> JsonValue:
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise Mismatch.of("a string", describe_object(value))


def _dump_int(value: object) -> JsonValue:
    if isinstance(value, int):
        return int(value)
    raise Mismatch.of("an integer", describe_object(value))


def _dump_float(value: object) -> JsonValue:
    if not isinstance(value, int | float):
        raise Mismatch.of("a number", describe_object(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise Mismatch.of("a finite number", repr(float(value)))
    return float(value) if isinstance(value, float) else int(value)


def _dump_bool(value: object) -> JsonValue:
    if isinstance(value, bool):
        return value
    raise Mismatch.of("a bool", describe_object(value))


def _dump_none(value: object) -> JsonValue:
    if value is None:
        return None
    raise Mismatch.of("None", describe_object(value))


def _text(
    kind: type[T], expected: str, schema: JsonObject, *, parse: Callable[[str], T], write: Callable[[T], str]
) -> TypeSpec:
    """Return the type specification of a class whose values are written as strings."""

    def load(value: JsonValue) -> object:
        if type(value) is not str:
            raise Mismatch.of(expected, describe(value))
        try:
            return parse(value)
        except (ValueError, OverflowError):
            raise Mismatch.of(expected, describe(value)) from None

    def dump(value: object) -> JsonValue:
        if not isinstance(value, kind):
            raise Mismatch.of(f"a {kind.__name__}", describe_object(value))
        try:
            return write(value)
        except (ValueError, OverflowError) as error:
            raise Mismatch.of(f"a {kind.__name__} that can be written ({error})", describe_object(value)) from None

    return TypeSpec(
        schema={"type": "string", **schema},
        expected=expected,
        kinds=frozenset({"string"}),
        load=load,
        dump=dump,
        types=(kind,),
    )


def _parse_bytes(text: str) -> bytes:
    return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)


def _fullmatching(pattern: re.Pattern[str], parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function that parses a string of one form. Python accepts more forms than the `format` of the schema."""

    def checked(text: str) -> T:
        if pattern.fullmatch(text) is None:
            raise ValueError(text)
        return parse(text)

    return checked


def _parse_datetime(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.upper())


def _write_datetime(value: datetime.datetime) -> str:
    # Python takes a datetime without a time zone for local time. The format requires an offset.
    return (value if value.tzinfo is not None else value.astimezone()).isoformat()


def _parse_time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(text.upper())


def _parse_duration(text: str) -> datetime.timedelta:
    found = _DURATION.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        raise ValueError(text)
    parts = {name: float(part) for name, part in found.groupdict().items() if part and name != "sign"}
    return datetime.timedelta(**parts) * (-1 if found["sign"] else 1)


def _write_duration(value: datetime.timedelta) -> str:
    sign, value = ("-", -value) if value < datetime.timedelta() else ("", value)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    return f"{sign}P{value.days}DT{value.seconds}{fraction}S"


def _load_decimal(value: JsonValue) -> object:
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return decimal.Decimal(repr(value) if type(value) is float else value)
    if type(value) is str and _DECIMAL.fullmatch(value):
        return decimal.Decimal(value)
    raise Mismatch.of("a decimal number, as a string or a number", describe(value))


def _dump_decimal(value: object) -> JsonValue:
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return str(value)
    raise Mismatch.of("a finite Decimal", describe_object(value))


def path_spec(kind: type[pathlib.PurePath]) -> TypeSpec:
    """Return the type specification of a class of paths."""
    return _text(kind, "a path", {}, parse=kind, write=str)


NONE: Final = TypeSpec(
    schema={"type": "null"},
    expected="null",
    kinds=frozenset({"null"}),
    load=_load_none,
    dump=_dump_none,
    types=(NoneType,),
)
"""The type specification of `None`."""

_DATETIME: Final = _text(
    datetime.datetime,
    "a date and time such as 2026-07-28T09:30:00Z",
    {"format": "date-time"},
    parse=_fullmatching(_DATE_TIME, _parse_datetime),
    write=_write_datetime,
)
_DATE: Final = _text(
    datetime.date,
    "a date such as 2026-07-28",
    {"format": "date"},
    parse=_fullmatching(_DATE_ONLY, datetime.date.fromisoformat),
    write=datetime.date.isoformat,
)
_TIME: Final = _text(
    datetime.time,
    "a time such as 09:30:00",
    {"pattern": f"^{_TIME_ONLY.pattern}$"},
    parse=_fullmatching(_TIME_ONLY, _parse_time),
    write=datetime.time.isoformat,
)
_TIMEDELTA: Final = _text(
    datetime.timedelta,
    "a duration without months and years, such as PT1H30M",
    {"pattern": f"^{_DURATION_TEXT}$"},
    parse=_parse_duration,
    write=_write_duration,
)

SCALARS: Final[dict[object, TypeSpec]] = {
    str: TypeSpec(
        schema={"type": "string"},
        expected="a string",
        kinds=frozenset({"string"}),
        load=_load_str,
        dump=_dump_str,
        types=(str,),
    ),
    int: TypeSpec(
        schema={"type": "integer"},
        expected="an integer",
        kinds=frozenset({"integer"}),
        lenient=frozenset({"number"}),
        load=_load_int,
        dump=_dump_int,
        types=(int,),
    ),
    float: TypeSpec(
        schema={"type": "number"},
        expected="a number",
        kinds=frozenset({"number"}),
        lenient=frozenset({"integer"}),
        load=_load_float,
        dump=_dump_float,
        types=(float,),
    ),
    bool: TypeSpec(
        schema={"type": "boolean"},
        expected="true or false",
        kinds=frozenset({"boolean"}),
        load=_load_bool,
        dump=_dump_bool,
        types=(bool,),
    ),
    NoneType: NONE,
    None: NONE,
    bytes: _text(
        bytes,
        "bytes in base64",
        {"contentEncoding": "base64"},
        parse=_parse_bytes,
        write=lambda value: base64.b64encode(value).decode("ascii"),
    ),
    datetime.datetime: _DATETIME,
    datetime.date: _DATE,
    datetime.time: _TIME,
    datetime.timedelta: _TIMEDELTA,
    uuid.UUID: _text(uuid.UUID, "a UUID", {"format": "uuid"}, parse=_fullmatching(_UUID, uuid.UUID), write=str),
    decimal.Decimal: TypeSpec(
        schema={"type": ["string", "number"], "pattern": f"^{_DECIMAL.pattern}$"},
        expected="a decimal number",
        kinds=frozenset({"string", "integer", "number"}),
        load=_load_decimal,
        dump=_dump_decimal,
        types=(decimal.Decimal,),
    ),
}
"""The type specification of each class of single values."""


def enum_pairs(kind: type[enum.Enum]) -> list[tuple[JsonValue, object]] | None:
    """Return the values of an enumeration with its members; `None` if a value has no JSON representation."""
    pairs: list[tuple[JsonValue, object]] = []
    for member in kind:
        value: object = member.value
        if not (value is None or isinstance(value, bool | int | float | str)):
            return None
        pairs.append((value, member))
    return pairs


def choice_spec(pairs: Sequence[tuple[JsonValue, object]]) -> TypeSpec:
    """Return the type specification of a choice between values, each in JSON and in Python."""
    by_value = {(type(value), value): member for value, member in pairs if isinstance(value, str | int | float | None)}
    by_member = {(type(member), member): value for value, member in pairs}
    kinds = {_KIND_NAMES[type(value)] for value, _ in pairs}
    expected = f"one of {', '.join(describe(value).removeprefix('the string ') for value, _ in pairs)}"

    def load(value: JsonValue) -> object:
        if isinstance(value, list | dict):
            raise Mismatch.of(expected, describe(value))
        key = (int, int(value)) if type(value) is float and value.is_integer() else (type(value), value)
        if key in by_value:
            return by_value[key]
        if (type(value), value) in by_value:
            return by_value[type(value), value]
        raise Mismatch.of(expected, describe(value))

    def dump(value: object) -> JsonValue:
        try:
            return by_member[type(value), value]
        except (KeyError, TypeError):
            raise Mismatch.of(expected, describe_object(value)) from None

    types: list[JsonValue] = [*sorted(kinds)]
    return TypeSpec(
        schema={"type": types[0] if len(types) == 1 else types, "enum": [value for value, _ in pairs]},
        expected=expected,
        kinds=frozenset(kinds),
        lenient=frozenset({"number"}) if "integer" in kinds else frozenset(),
        load=load,
        dump=dump,
        types=tuple({type(member) for _, member in pairs}),
        choices=tuple(pairs),
    )


_KIND_NAMES: Final[dict[type, str]] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
}
