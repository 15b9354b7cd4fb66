"""What a type means in JSON: its schema, and how values are read and written.

A `Shape` is compiled once for a type, when a function is registered. Reading is strict: no text becomes a number, no
number a text. Two habits of language models are allowed for: `1.0` is an integer, and `null` for something that has a
default is the default.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import McpError
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_server.schema.validation import SchemaProblem

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
    "Shape",
    "UnknownName",
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
"""The types of JSON values. An integer is of the kind `integer` when it is written without a fraction."""

_SHOWN_CHARACTERS: Final = 60
_SHOWN_MEMBERS: Final = 6
_SHOWN_PROBLEMS: Final = 20
_SUGGESTIONS: Final = 5
"""Unknown names for which a similar one is looked for: each is compared with all names that there are."""

_EXACT_DIGITS: Final = 10**20


@attrs.frozen(kw_only=True)
class Param:
    """Says more about a parameter, a field or a result than its type does: `Annotated[int, Param(minimum=1)]`.

    A plain text, as in `Annotated[int, "how many"]`, is the same as `Param(description="how many")`.
    """

    description: str | None = None
    """What it is for. Goes before what the docstring says."""
    title: str | None = None
    """A name for people."""
    minimum: float | None = None
    """The smallest number."""
    maximum: float | None = None
    """The largest number."""
    min_length: int | None = None
    """The least number of characters, items or members."""
    max_length: int | None = None
    """The largest number of characters, items or members."""
    pattern: str | None = None
    """A regular expression that has to match somewhere in the text. It is matched in linear time."""
    format: str | None = None
    """The `format` of a text, as `email` or `uri`. It is told to the peer, and not checked."""
    examples: tuple[JsonValue, ...] | None = None
    """Values as they may be given."""
    header: str | None = None
    """The `x-mcp-header`: clients repeat the argument in the HTTP header `Mcp-Param-` with this name."""


@attrs.frozen
class Problem:
    """One thing that is wrong with arguments."""

    path: str
    """Where, as `items[0].name`."""
    expected: str
    """What should be there."""
    got: str
    """What is there."""

    def __str__(self) -> str:
        return (
            f"{self.path}: expected {self.expected}, got {self.got}"
            if self.path
            else f"expected {self.expected}, got {self.got}"
        )


class InvalidArguments(McpError):
    """Arguments that a function does not take. The message is written for a model, so that it can correct itself."""

    def __init__(self, problems: Iterable[Problem | SchemaProblem]) -> None:
        found = tuple(islice(problems, _SHOWN_PROBLEMS + 1))
        self.problems: tuple[Problem | SchemaProblem, ...] = found[:_SHOWN_PROBLEMS]
        """What is wrong: the first 20 problems."""
        shown = [str(problem) for problem in self.problems]
        if len(found) > len(shown):
            shown.append("and more")
        super().__init__("\n- ".join(["invalid arguments:", *shown]))
        self.sentence: str = f"invalid arguments: {'; '.join(shown)}"
        """The same in one line: the message of an error is one sentence."""


@attrs.frozen
class UnknownName:
    """What is expected in place of a name that an object must not have.

    A similar name is looked for only when the problem is shown: a peer can send 100,000 names.
    """

    name: str
    """The name."""
    known: Collection[str]
    """The names that the object may have."""

    def describe(self, *, suggest: bool) -> str:
        """Return the similar name, or all names if none is similar."""
        close = difflib.get_close_matches(self.name, self.known, n=1) if suggest else []
        if close:
            return f"the name {close[0]!r}"
        return f"one of the names {', '.join(self.known)}" if self.known else "no members at all"


Fault: TypeAlias = tuple[tuple[str | int, ...], str | UnknownName, str]
"""One thing that is wrong: the path to it, what is expected there, what is there."""

FAULTS_KEPT: Final = _SHOWN_PROBLEMS + 1
"""Reading of items or members stops after so many faults: one more than is shown."""


class Mismatch(Exception):
    """A value does not fit its shape. Internal: it becomes `InvalidArguments` or `InvalidResult`."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__()
        self.faults = faults[:FAULTS_KEPT]

    @classmethod
    def of(cls, expected: str, got: str) -> Mismatch:
        """The value itself is wrong."""
        return cls([((), expected, got)])

    def under(self, step: str | int) -> list[Fault]:
        """The faults as those of a member."""
        return [((step, *path), expected, got) for path, expected, got in self.faults]

    def problems(self) -> list[Problem]:
        """The faults with readable paths."""
        found: list[Problem] = []
        suggestions = 0
        for path, expected, got in self.faults:
            if isinstance(expected, UnknownName):
                suggestions += 1
                expected = expected.describe(suggest=suggestions <= _SUGGESTIONS)  # noqa: PLW2901  # the text of the same
            found.append(Problem(_path(path), expected, got))
        return found


def _path(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


@attrs.define(eq=False, kw_only=True)
class Shape:
    """A type, compiled."""

    schema: JsonObject
    """Its JSON Schema."""
    expected: str
    """What it is, in words, with an article."""
    kinds: frozenset[str]
    """The JSON types of its values."""
    load: Load
    """Reads a value."""
    dump: Dump
    """Writes a value."""
    types: tuple[type, ...] = ()
    """The classes of its values, to choose among the members of a union."""
    lenient: frozenset[str] = frozenset()
    """JSON types that are read, too, when no other member of a union takes them."""
    hashable: bool = True
    """Whether its values can be members of a set."""
    members: tuple[Shape, ...] = ()
    """The members, if it is a union."""
    choices: tuple[tuple[JsonValue, object], ...] = ()
    """The values in JSON and in Python, if it is a choice."""
    tags: Mapping[str, frozenset[JsonScalar]] = attrs.field(factory=dict)
    """The required members that are choices, with their values in JSON, if it is an object."""


def kind_of(value: JsonValue) -> str:
    """The JSON type of a value."""
    return _KINDS.get(type(value), "unknown")


def describe(value: object) -> str:
    """A received value in few words."""
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
    """A value of a function in few words, without saying anything of what is in it."""
    return "None" if value is None else f"a value of type {type(value).__qualname__}"
