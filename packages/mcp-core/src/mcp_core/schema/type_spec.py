"""The JSON representation of a type: its schema, and how values are read and written.

A `TypeSpec` is compiled once for a type, when a function is registered. Reading is strict: strings are not converted to
numbers, nor numbers to strings. Two habits of language models are tolerated: `1.0` is an integer, and `null` for a
parameter with a default means the default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import McpError
from mcp_core.field_methods import FieldRepr, FieldValue
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.schema.similar_names import similar_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.schema.validation import SchemaProblem

__all__ = [
    "ALL_KINDS",
    "FAULTS_KEPT",
    "Dump",
    "Fault",
    "InvalidArguments",
    "JsonScalar",
    "Load",
    "Mismatch",
    "Param",
    "Problem",
    "TypeSpec",
    "UnknownName",
    "ValidatorFailure",
    "describe",
    "describe_object",
    "kind_of",
]

JsonScalar: TypeAlias = str | int | float | bool | None
"""A JSON value that is neither an array nor an object."""

Load: TypeAlias = Callable[[JsonValue], object]
"""Reads a value, or raises `Mismatch`."""

Dump: TypeAlias = Callable[[object], JsonValue]
"""Writes a value, or raises `Mismatch`."""

_KINDS: Final[dict[type, str]] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}

ALL_KINDS: Final = frozenset(_KINDS.values())
"""The types of JSON values. A number without a fraction has the type `integer`."""

_SHOWN_CHARACTERS: Final = 60
_SHOWN_MEMBERS: Final = 6
_SHOWN_PROBLEMS: Final = 20
_SUGGESTIONS: Final = 5
"""Number of unknown names for which similar names are searched. Each is compared with all known names."""

_EXACT_DIGITS: Final = 10**20


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Param(FieldValue):
    """Settings of a parameter, a field or a result in addition to its type: `Annotated[int, Param(minimum=1)]`.

    A plain string, as in `Annotated[int, "how many"]`, is the same as `Param(description="how many")`. The metadata of
    `annotated_types`, `pydantic.Field` and `msgspec.Meta` has the same effect.
    """

    description: str | None = None
    """The description. It takes precedence over the docstring."""
    title: str | None = None
    """A name for display to users."""
    minimum: float | None = None
    """The smallest allowed number."""
    maximum: float | None = None
    """The largest allowed number."""
    exclusive_minimum: float | None = None
    """A number that all allowed numbers exceed."""
    exclusive_maximum: float | None = None
    """A number that exceeds all allowed numbers."""
    multiple_of: float | None = None
    """A number greater than 0 of which all allowed numbers are multiples."""
    min_length: int | None = None
    """The smallest allowed number of characters, items or members."""
    max_length: int | None = None
    """The largest allowed number of characters, items or members."""
    pattern: str | None = None
    """A regular expression that must match within the string. It is matched in linear time."""
    format: str | None = None
    """The `format` of a string, for example `email` or `uri`. It is listed for the client, but not checked."""
    examples: tuple[JsonValue, ...] | None = None
    """Examples of values."""
    header: str | None = None
    """The `x-mcp-header`: clients repeat the argument in the HTTP header `Mcp-Param-` with this name."""


@attrs.frozen(eq=False, repr=False)
class Problem(FieldValue):
    """A problem with the arguments of a call."""

    path: str
    """The location of the value, for example `items[0].name`."""
    expected: str
    """A description of the expected value."""
    got: str
    """A description of the actual value."""
    cause: Exception | None = attrs.field(default=None, eq=False, repr=False)
    """The exception of a constructor or a validator whose message is not for the peer."""

    def __str__(self) -> str:
        return (
            f"{self.path}: expected {self.expected}, got {self.got}"
            if self.path
            else f"expected {self.expected}, got {self.got}"
        )


class InvalidArguments(McpError):
    """Arguments do not match the parameters of a function. The message lets a language model correct itself."""

    def __init__(self, problems: Iterable[Problem | SchemaProblem]) -> None:
        found = tuple(islice(problems, _SHOWN_PROBLEMS + 1))
        self.problems: tuple[Problem | SchemaProblem, ...] = found[:_SHOWN_PROBLEMS]
        """The first 20 problems."""
        shown = [str(problem) for problem in self.problems]
        if len(found) > len(shown):
            shown.append("and more")
        super().__init__("\n- ".join(["invalid arguments:", *shown]))
        self.sentence: str = f"invalid arguments: {'; '.join(shown)}"
        """The message on one line, for the error of a request."""


@attrs.frozen(eq=False, repr=False)
class UnknownName(FieldValue):
    """The expectation in place of an unknown name in an object.

    Similar names are searched only when the problem is shown, because a peer can send 100,000 names.
    """

    name: str
    """The unknown name."""
    known: Collection[str]
    """The names that the object can have."""

    def describe(self, *, suggest: bool) -> str:
        """Return the similar name, or all names if none is similar."""
        close = similar_name(self.name, self.known) if suggest else None
        if close is not None:
            return f"the name {close!r}"
        return f"one of the names {', '.join(self.known)}" if self.known else "no members at all"


@attrs.frozen(eq=False, repr=False)
class ValidatorFailure(FieldRepr):
    """The expectation of a constructor or a validator that raised an exception whose message is not for the peer."""

    expected: str
    """A description of the expected value."""
    error: Exception
    """The exception."""


Fault: TypeAlias = tuple[tuple[str | int, ...], str | UnknownName | ValidatorFailure, str]
"""A fault in a value: its path, the expected value, and the actual value."""

FAULTS_KEPT: Final = _SHOWN_PROBLEMS + 1
"""Number of faults after which reading of items or members stops: one more than is shown."""


class Mismatch(Exception):
    """A value does not match its type specification. Internal: it becomes an error with these problems."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__()
        self.faults: list[Fault] = faults[:FAULTS_KEPT]

    @classmethod
    def of(cls, expected: str, got: str) -> Mismatch:
        """Create a mismatch of the whole value."""
        return cls([((), expected, got)])

    @classmethod
    def raised(cls, expected: str, got: str, error: Exception) -> Mismatch:
        """Create a mismatch from an exception of a constructor or a validator of the author.

        The message of a `ValueError` or a `TypeError` is for the peer. Any other exception is the `cause` of the problem.
        """
        if isinstance(error, ValueError | TypeError):
            return cls.of(f"{expected}: {error}", got)
        return cls([((), ValidatorFailure(expected, error), got)])

    def under(self, step: str | int) -> list[Fault]:
        """Return the faults with a path that starts at the containing value."""
        return [((step, *path), expected, got) for path, expected, got in self.faults]

    def problems(self) -> list[Problem]:
        """Return the faults with readable paths."""
        found: list[Problem] = []
        suggestions = 0
        for path, expected, got in self.faults:
            cause: Exception | None = None
            match expected:
                case UnknownName():
                    suggestions += 1
                    text = expected.describe(suggest=suggestions <= _SUGGESTIONS)
                case ValidatorFailure():
                    text, cause = f"{expected.expected}, which a validator did not accept", expected.error
                case _:
                    text = expected
            found.append(Problem(_path(path), text, got, cause))
        return found


def _path(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


@attrs.define(kw_only=True, eq=False, repr=False)
class TypeSpec(FieldRepr):
    """A compiled type."""

    schema: JsonObject
    """Its JSON Schema."""
    expected: str
    """A description of its values, with an article."""
    kinds: frozenset[str]
    """The JSON types of its values."""
    load: Load
    """Reads a value."""
    dump: Dump
    """Writes a value."""
    types: tuple[type, ...] = ()
    """The classes of its values, which select the member of a union."""
    lenient: frozenset[str] = frozenset()
    """The JSON types that are also accepted if no other member of a union accepts them."""
    hashable: bool = True
    """Whether its values can be items of a set."""
    members: tuple[TypeSpec, ...] = ()
    """The members of a union; empty for other types."""
    choices: tuple[tuple[JsonValue, object], ...] = ()
    """The values of a choice in JSON and in Python; empty for other types."""
    tags: Mapping[str, frozenset[JsonScalar]] = attrs.field(factory=dict)
    """For objects: the required members with a fixed set of values, with these values in JSON."""


def kind_of(value: JsonValue) -> str:
    """Return the JSON type of a value."""
    return _KINDS.get(type(value), "unknown")


def describe(value: object) -> str:
    """Describe a received value briefly."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if -_EXACT_DIGITS < value < _EXACT_DIGITS else "a very large number"
        case float():
            return repr(value)
        case str():
            more = "..." if len(value) > _SHOWN_CHARACTERS else ""
            return f"the string {json.dumps(value[:_SHOWN_CHARACTERS], ensure_ascii=False)}{more}"
        case list():
            return f"an array of {len(value)} items"
        case dict():
            names = [str(name)[:_SHOWN_CHARACTERS] for name in list(value)[:_SHOWN_MEMBERS]]
            more = ", ..." if len(value) > len(names) else ""
            return f"an object with the members {', '.join(names)}{more}" if names else "an empty object"
    return describe_object(value)


def describe_object(value: object) -> str:
    """Describe a value of a function by its type only, without revealing its content."""
    return "None" if value is None else f"a value of type {type(value).__qualname__}"
