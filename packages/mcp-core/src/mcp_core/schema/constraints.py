"""The constraints and annotations that a `Param` adds to a type."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.schema.containers import union_spec
from mcp_core.schema.references import Ref
from mcp_core.schema.type_spec import Mismatch, Param, TypeSpec, describe
from mcp_core.schema.validation import InvalidSchema, compile_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.errors import McpError
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["annotate", "check", "constrain"]

_NUMBERS: Final = frozenset({"integer", "number"})
_LENGTHS: Final = {
    "string": ("minLength", "maxLength", "characters"),
    "array": ("minItems", "maxItems", "items"),
    "object": ("minProperties", "maxProperties", "members"),
}


def _is_multiple(value: float, of: float) -> bool:
    from fractions import Fraction  # lazy: few schemas have `multipleOf`

    # Exact: in binary, 0.3 would be no multiple of 0.1.
    return not Fraction(repr(value)) % Fraction(repr(of))


_NUMBER_LIMITS: Final[Mapping[str, tuple[str, str, Callable[[float, float], bool]]]] = {
    "minimum": ("minimum", "at least", operator.ge),
    "exclusive_minimum": ("exclusiveMinimum", "greater than", operator.gt),
    "maximum": ("maximum", "at most", operator.le),
    "exclusive_maximum": ("exclusiveMaximum", "less than", operator.lt),
    "multiple_of": ("multipleOf", "a multiple of", _is_multiple),
}
"""By setting: the keyword, the text of an error, and the comparison with the bound."""

_RANGES: Final = (
    ("minimum", "maximum", operator.gt),
    ("exclusive_minimum", "maximum", operator.ge),
    ("minimum", "exclusive_maximum", operator.ge),
    ("exclusive_minimum", "exclusive_maximum", operator.ge),
    ("min_length", "max_length", operator.gt),
)
"""Pairs of a lower and an upper bound, each with the comparison that shows that no value is within them."""

_RANGE_TEXTS: Final = {
    "minimum": "at least",
    "exclusive_minimum": "greater than",
    "min_length": "at least",
    "maximum": "at most",
    "exclusive_maximum": "less than",
    "max_length": "at most",
}
"""By setting: the text of an error."""

_Check = tuple[str, "Callable[[JsonValue], bool]"]


def check(param: Param, failure: Callable[[str], McpError]) -> Param:
    """Return a parameter after checking that its settings are valid and consistent.

    Args:
        param: The settings.
        failure: Creates the error for an invalid setting.

    Raises:
        McpError: A setting is invalid; the error of `failure`.
    """
    for name in ("description", "title", "pattern", "format", "header"):
        said: object = getattr(param, name)
        if said is not None and not isinstance(said, str):
            raise failure(f"{name} must be a string, not {said!r}")
    for name in ("minimum", "maximum", "exclusive_minimum", "exclusive_maximum", "multiple_of"):
        said = getattr(param, name)
        if said is not None and not (type(said) is int or (type(said) is float and math.isfinite(said))):
            raise failure(f"{name} must be a finite number, not {said!r}")
    if param.multiple_of is not None and param.multiple_of <= 0:
        raise failure(f"multiple_of must be greater than 0, not {param.multiple_of}")
    for name in ("min_length", "max_length"):
        said = getattr(param, name)
        if said is not None and (type(said) is not int or said < 0):
            raise failure(f"{name} must be a number of characters, items or members, not {said!r}")
    for least, most, is_empty in _RANGES:
        low: float | None = getattr(param, least)
        high: float | None = getattr(param, most)
        if low is not None and high is not None and is_empty(low, high):
            lower, upper = _RANGE_TEXTS[least], _RANGE_TEXTS[most]
            raise failure(f"no value can be {lower} {low} ({least}) and {upper} {high} ({most})")
    return param


def annotate(spec: TypeSpec, param: Param, *, over: bool = True) -> TypeSpec:
    """Return a type specification whose schema includes the annotations of a parameter.

    Args:
        spec: The type specification.
        param: The settings.
        over: Whether they replace annotations that the schema already has.
    """
    said: JsonObject = {}
    if param.title is not None:
        said["title"] = param.title
    if param.description is not None:
        said["description"] = param.description
    if param.examples is not None:
        said["examples"] = list(param.examples)
    if param.format is not None:
        said["format"] = param.format
    if param.header is not None:
        said["x-mcp-header"] = param.header
    schema = spec.schema
    if not over:
        present = schema.beside if isinstance(schema, Ref) else schema
        said = {name: value for name, value in said.items() if name not in present}
    if not said:
        return spec
    return attrs.evolve(spec, schema=schema.merged(said) if isinstance(schema, Ref) else {**schema, **said})


def constrain(spec: TypeSpec, param: Param, failure: Callable[[str], McpError]) -> TypeSpec:
    """Return a type specification that accepts only values within the limits of a parameter.

    Args:
        spec: The type specification.
        param: The settings.
        failure: Creates the error for a limit that does not apply to the type.

    Raises:
        McpError: A limit does not apply to the type, or the pattern is invalid; the error of `failure`.
    """
    limits = attrs.evolve(param, description=None, title=None, examples=None, header=None, format=None)
    if limits == Param():
        return spec
    if spec.members:
        constrained = [
            member if member.kinds == {"null"} else constrain(member, limits, failure) for member in spec.members
        ]
        return union_spec(constrained)
    keywords: JsonObject = {}
    checks: list[_Check] = []
    _limit_numbers(spec, limits, failure, keywords, checks)
    _limit_lengths(spec, limits, failure, keywords, checks)
    if limits.pattern is not None:
        if spec.kinds != {"string"}:
            raise failure(f"pattern applies to strings, not to {spec.expected}")
        try:
            validator = compile_schema({"pattern": limits.pattern})
        except InvalidSchema as error:
            raise failure(
                f"the pattern {limits.pattern!r} is not a regular expression that can be matched in linear time"
            ) from error
        keywords["pattern"] = limits.pattern
        checks.append((f"text that matches {limits.pattern}", lambda value: not validator.validate(value)))
    return _checked(spec, keywords, checks)


def _limit_numbers(
    spec: TypeSpec, limits: Param, failure: Callable[[str], McpError], keywords: JsonObject, checks: list[_Check]
) -> None:
    given = [(name, bound) for name in _NUMBER_LIMITS if (bound := getattr(limits, name)) is not None]
    for name, bound in given:
        if not spec.kinds <= _NUMBERS:
            raise failure(f"{name} applies to numbers, not to {spec.expected}")
        keyword, text, holds = _NUMBER_LIMITS[name]
        keywords[keyword] = bound
        checks.append((f"{text} {bound}", partial(_holds, holds, bound)))


def _holds(holds: Callable[[float, float], bool], bound: float, value: JsonValue) -> bool:
    return isinstance(value, int | float) and holds(value, bound)


def _limit_lengths(
    spec: TypeSpec, limits: Param, failure: Callable[[str], McpError], keywords: JsonObject, checks: list[_Check]
) -> None:
    least, most = limits.min_length, limits.max_length
    if least is None and most is None:
        return
    names = _LENGTHS.get(next(iter(spec.kinds))) if len(spec.kinds) == 1 else None
    if names is None:
        raise failure(f"min_length and max_length apply to strings, arrays and objects, not to {spec.expected}")
    if least is not None:
        keywords[names[0]] = least
        checks.append((f"at least {least} {names[2]}", lambda value: _length(value) >= least))
    if most is not None:
        keywords[names[1]] = most
        checks.append((f"at most {most} {names[2]}", lambda value: _length(value) <= most))


def _length(value: JsonValue) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


def _checked(spec: TypeSpec, keywords: JsonObject, checks: list[_Check]) -> TypeSpec:
    inner_load, inner_dump = spec.load, spec.dump
    expected = f"{spec.expected}, {', '.join(text for text, _ in checks)}"

    def check(value: JsonValue) -> None:
        for _, holds in checks:
            if not holds(value):
                raise Mismatch.of(expected, describe(value))

    def load(value: JsonValue) -> object:
        loaded = inner_load(value)
        check(value)
        return loaded

    def dump(value: object) -> JsonValue:
        written = inner_dump(value)
        check(written)
        return written

    schema = spec.schema.merged(keywords) if isinstance(spec.schema, Ref) else {**spec.schema, **keywords}
    return attrs.evolve(spec, schema=schema, expected=expected, load=load, dump=dump)
