"""Input schemas of function signatures, and the binding of arguments to values."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import difflib
import enum
import math
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)

import attrs
import jsonschema_rs
import pytest
from counted_calls import count_calls
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.schema.annotations import Function, Scope
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.type_spec import Mismatch
from mcp_core.schema.validation import compile_schema
from mcp_server.errors import RegistrationError
from mcp_server.schema.signature import InvalidArguments, Param, Parameters, Problem, parameters

if TYPE_CHECKING:
    from nowhere import Absent  # type: ignore[import-not-found]  # the tested mistake

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class TupleEnum(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass(frozen=True)
class Point:
    """A place.

    Attributes:
        x: Across.
    """

    x: int
    y: int = 0
    tag: str = dataclasses.field(default="t", init=False)


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)
    when: list[int] = dataclasses.field(default_factory=lambda: [1])


@attrs.frozen
class Range:
    low: int
    _high: int = attrs.field(default=9, validator=attrs.validators.ge(0))
    items: list[int] = attrs.Factory(list)
    other: object = attrs.field(factory=object)
    hidden: int = attrs.field(default=1, init=False)


class Options(TypedDict, total=False):
    depth: Required[int]
    name: str


class MoreOptions(Options):
    extra: NotRequired[Annotated[int, "more"]]
    must: bool


class Pair(NamedTuple):
    first: int
    second: str = "b"


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    next: T | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    item: T
    size: int


class Chain(TypedDict):
    next: NotRequired[Annotated[Chain, Param(max_length=1)]]


@dataclasses.dataclass
class BrokenBox(Generic[T]):
    item: T
    other: Absent


# Annotations that are objects instead of strings, as in a module without the future import.
Bare = dataclasses.make_dataclass("Bare", [("item", T), ("size", int)], bases=(Generic[T],))  # type: ignore[index]  # mypy does not accept a variable as a parameter


@dataclasses.dataclass
class DatedRecord:
    date: datetime.date | None = None
    int: int = 3


@dataclasses.dataclass
class Picky:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


UserId = NewType("UserId", int)
Json = Union[int, list["Json"], dict[str, "Json"]]  # noqa: UP007  # a recursive reference must be a string
Small = Annotated[int, Param(minimum=0, maximum=9)]
Alias = TypeAliasType("Alias", "list[int]")
NestedAlias = TypeAliasType("NestedAlias", "int | list[NestedAlias]")


class Context(Generic[T]):
    """A class that the caller injects."""


def function_taking(hint: object, default: object = ...) -> Function:
    """Return a function with one parameter."""

    def required(x: object) -> None: ...

    def optional(x: object = default) -> None: ...

    function = required if default is ... else optional
    function.__annotations__["x"] = hint
    return function


def parameters_of(hint: object) -> Parameters:
    """Return the parameters of a function with one parameter of a type."""
    return parameters(function_taking(hint))


def schema_of(compiled: Parameters) -> JsonValue:
    """Return the schema of the only parameter."""
    properties = compiled.schema["properties"]
    assert isinstance(properties, dict)
    return properties["x"]


CLOCK: Final = "([01][0-9]|2[0-3]):[0-5][0-9]"
TIME_PATTERN: Final = rf"{CLOCK}(:[0-5][0-9](\.[0-9]+)?)?([Zz]|[+-]{CLOCK})?"
SECONDS: Final = r"[0-9]+(\.[0-9]{1,6})?S"
TIMES: Final = f"T([0-9]+H([0-9]+M)?({SECONDS})?|[0-9]+M({SECONDS})?|{SECONDS})"
DURATION_PATTERN: Final = f"-?P([0-9]+W|[0-9]+D({TIMES})?|{TIMES})"

TYPES: list[tuple[object, JsonValue]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (object, {}),
    (Any, {}),
    (JsonValue, {}),
    (JsonObject, {"type": "object", "additionalProperties": {}}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.time, {"type": "string", "pattern": f"^{TIME_PATTERN}$"}),
    (datetime.timedelta, {"type": "string", "pattern": f"^{DURATION_PATTERN}$"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (pathlib.Path, {"type": "string"}),
    (Color, {"type": "string", "enum": ["red", "blue"]}),
    (Size, {"type": "integer", "enum": [1, 2]}),
    (Literal["a", 1, None, True], {"type": ["boolean", "integer", "null", "string"], "enum": ["a", 1, None, True]}),  # noqa: PYI061  # all in one
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045  # the old spelling is supported
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (list, {"type": "array", "items": {}}),
    (tuple, {"type": "array", "items": {}}),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
    (Iterable[int], {"type": "array", "items": {"type": "integer"}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    ),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    (frozenset[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (dict, {"type": "object", "additionalProperties": {}}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (
        Mapping[Color, int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"type": "string", "enum": ["red", "blue"]},
        },
    ),
    (UserId, {"type": "integer"}),
    (T, {}),
    (Alias, {"type": "array", "items": {"type": "integer"}}),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (Small, {"type": "integer", "minimum": 0, "maximum": 9}),
    ("Small", {"type": "integer", "minimum": 0, "maximum": 9}),
    (
        Annotated[str, Param(title="T", examples=("a",), format="email", min_length=1, max_length=5, pattern="^a")],
        {
            "type": "string",
            "title": "T",
            "examples": ["a"],
            "format": "email",
            "minLength": 1,
            "maxLength": 5,
            "pattern": "^a",
        },
    ),
    (Annotated[list[int], Param(min_length=1)], {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
    (
        Annotated[dict[str, int], Param(max_length=1)],
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
    ),
    (Annotated[int | None, Param(minimum=1)], {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}),
    (
        Point,
        {
            "description": "A place.",
            "type": "object",
            "properties": {
                "x": {"type": "integer", "description": "Across."},
                "y": {"type": "integer", "default": 0},
            },
            "required": ["x"],
            "additionalProperties": False,
        },
    ),
    (
        Range,
        {
            "type": "object",
            "properties": {
                "low": {"type": "integer"},
                "high": {"type": "integer", "default": 9},
                "items": {"type": "array", "items": {"type": "integer"}, "default": []},
                "other": {},
            },
            "required": ["low"],
            "additionalProperties": False,
        },
    ),
    (
        MoreOptions,
        {
            "type": "object",
            "properties": {
                "depth": {"type": "integer"},
                "name": {"type": "string"},
                "extra": {"type": "integer", "description": "more"},
                "must": {"type": "boolean"},
            },
            "required": ["depth", "must"],
            "additionalProperties": False,
        },
    ),
    (
        Page[int],
        {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": {"type": "integer"}},
                "next": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            },
            "required": ["items"],
            "additionalProperties": False,
        },
    ),
]


@pytest.mark.spec("schema.valid-schemas", "schema.recommended-2020-12", "schema.dialect-recommended")
@pytest.mark.parametrize(("hint", "schema"), TYPES)
def test_type_has_schema(hint: object, schema: JsonValue) -> None:
    compiled = parameters_of(hint)
    assert schema_of(compiled) == schema
    jsonschema_rs.meta.validate(compiled.schema)


VALUES: list[tuple[object, JsonValue, object]] = [
    (str, "a", "a"),
    (int, 1, 1),
    (int, 1.0, 1),
    (int, 10**40, 10**40),
    (float, 1, 1.0),
    (float, 1.5, 1.5),
    (bool, True, True),
    (None, None, None),
    (bytes, "AP8=", b"\x00\xff"),
    (object, {"a": [1]}, {"a": [1]}),
    (datetime.datetime, "2026-07-28T09:30:00Z", datetime.datetime(2026, 7, 28, 9, 30, tzinfo=datetime.UTC)),
    (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
    (datetime.time, "09:30:00", datetime.time(9, 30)),
    (datetime.timedelta, "P1DT2H3M4.5S", datetime.timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    (datetime.timedelta, "P2W", datetime.timedelta(weeks=2)),
    (datetime.timedelta, "-PT1S", datetime.timedelta(seconds=-1)),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
    (decimal.Decimal, 3, decimal.Decimal(3)),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678123456781234567812345678")),
    (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
    (Color, "red", Color.RED),
    (Size, 2.0, Size.LARGE),
    (Literal["a", 1, 1.5, True], 1, 1),
    (Literal["a", 1, 1.5, True], True, True),
    (Literal[1.0], 1.0, 1.0),
    (int | None, None, None),
    (int | float, 1.0, 1.0),
    (float | int, 1, 1),
    (int | str, "1", "1"),
    (int | str, 1.0, 1),
    (datetime.date | str, "x", "x"),
    (datetime.date | str, "2026-07-28", datetime.date(2026, 7, 28)),
    (Point | Options, {"x": 1}, Point(1)),
    (Point | Options, {"depth": 1}, {"depth": 1}),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 2], {1, 2}),
    (frozenset[Color], ["red"], frozenset({Color.RED})),
    (dict[Color, Point], {"red": {"x": 1}}, {Color.RED: Point(1)}),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Range, {"low": 1, "high": 2, "other": None}, Range(1, 2, [], None)),
    (Pair, {"first": 1}, Pair(1)),
    (Page[Point], {"items": [{"x": 1}], "next": None}, Page([Point(1)])),
    (DatedRecord, {"date": "2026-07-28"}, DatedRecord(datetime.date(2026, 7, 28))),
    (Json, [1, {"a": 2}], [1, {"a": 2}]),
    (NestedAlias, [1, [2]], [1, [2]]),
    (Small, 5, 5),
    (Point, {"x": 1, "y": None}, Point(1)),
    (Chain, {"next": {"next": {}}}, {"next": {"next": {}}}),
    (Box[Point], {"item": {"x": 1}, "size": 2}, Box(Point(1), 2)),
    (Bare[int], {"item": 1, "size": 2}, Bare(1, 2)),  # type: ignore[index]  # made at run time
    (Annotated[int, Param(maximum=3)], 1, 1),
    (Color | None, "red", Color.RED),
]


@pytest.mark.parametrize(("hint", "argument", "value"), VALUES)
def test_argument_is_converted_to_value(hint: object, argument: JsonValue, value: object) -> None:
    bound = parameters_of(hint).bind({"x": argument})
    assert bound == {"x": value}
    assert type(bound["x"]) is type(value)


@pytest.mark.parametrize(("hint", "argument", "value"), VALUES)
def test_value_dumped_and_bound_is_equal(hint: object, argument: JsonValue, value: object) -> None:
    written = Compiler("test").spec(hint, Scope(globals(), {})).dump(value)
    compiled = parameters_of(hint)
    assert compile_schema(compiled.schema).validate({"x": written}) == ()
    assert compiled.bind({"x": written}) == {"x": value}


INVALID: list[tuple[object, JsonValue, str]] = [
    (str, 1, "x: expected a string, got 1"),
    (int, "1", 'x: expected an integer, got the string "1"'),
    (int, 1.5, "x: expected an integer, got 1.5"),
    (int, True, "x: expected an integer, got true"),
    (float, "1", "x: expected a number"),
    (float, 10**400, "x: expected a number that fits into 64 bits, got a very large number"),
    (bool, 1, "x: expected true or false, got 1"),
    (None, 0, "x: expected null, got 0"),
    (bytes, "a", "x: expected bytes in base64"),
    (bytes, "ä", "x: expected bytes in base64"),
    (datetime.date, "yesterday", "x: expected a date such as 2026-07-28, got the string"),
    (datetime.date, 3, "x: expected a date"),
    (datetime.timedelta, "P1Y", "x: expected a duration"),
    (datetime.timedelta, "P", "x: expected a duration"),
    (datetime.timedelta, "P99999999999D", "x: expected a duration"),
    (decimal.Decimal, "NaN", "x: expected a decimal number"),
    (uuid.UUID, "x", "x: expected a UUID"),
    (Color, "green", 'x: expected one of "red", "blue", got the string "green"'),
    (Color, ["red"], "x: expected one of"),
    (Literal[1, 2], True, "x: expected one of 1, 2, got true"),
    (int | None, "x", "x: expected an integer or null"),
    (int | bool | list[int], "x", "x: expected an integer or true or false or an array, got the string"),
    (datetime.date | uuid.UUID, "x", "x: expected a date such as 2026-07-28 or a UUID, got"),
    (Point | None, {"x": "a"}, 'x.x: expected an integer, got the string "a"'),
    (Point | Options, {"x": "a"}, "x.x: expected an integer"),
    (list[int], {"a": 1, "b": 2}, "x: expected an array, got an object with the members a, b"),
    (list[int], [1, "a", None], "x[1]: expected an integer"),
    (tuple[int, str], [1], "x: expected an array of 2 items, got an array of 1 items"),
    (tuple[int, str], [1, 2], "x[1]: expected a string"),
    (set[int], [1, 1], "x: expected an array without duplicates"),
    (set, [[1]], "x: expected an array of hashable values"),
    (dict[str, int], [], "x: expected an object, got an array of 0 items"),
    (dict[str, int], {"a": "b"}, "x.a: expected an integer"),
    (dict[Color, int], {"green": 1}, "x.green: expected one of"),
    (Point, 3, "x: expected an object (Point), got 3"),
    (Point, {}, "x.x: expected a value, because it is required, got nothing"),
    (Point, {"x": 1, "z": 2}, "x.z: expected one of the names x, y, got an unknown name"),
    (Point, {"x": 1, "tag": "t"}, "x.tag: expected one of the names x, y"),
    (Picky, {"x": -1}, "x is negative"),
    (Range, {"low": 1, "high": -1}, "x: expected an object (Range)"),
    (Small, 10, "x: expected an integer, at least 0, at most 9, got 10"),
    (Annotated[str, Param(pattern="^a+$")], "b", "text that matches ^a+$"),
    (Annotated[str, Param(min_length=2)], "b", "at least 2 characters"),
    (Annotated[list[int], Param(max_length=1)], [1, 2], "at most 1 items"),
    (Annotated[int | None, Param(minimum=1)], 0, "at least 1"),
    (str, {}, "got an empty object"),
    (str, {str(n): n for n in range(9)}, "members 0, 1, 2, 3, 4, 5, ..."),
    (int, "x" * 100, f'got the string "{"x" * 60}"...'),
    (int, False, "got false"),
]


@pytest.mark.parametrize(("hint", "argument", "message"), INVALID)
def test_invalid_argument_message_says_what_is_expected(hint: object, argument: JsonValue, message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parameters_of(hint).bind({"x": argument})
    assert message in str(caught.value)


def everything(
    query: str, limit: int = 10, *, point: Point | None = None, context: Context[int], anything: JsonValue = None
) -> str:
    """Find entries.

    Args:
        query: The text to find.
        limit: The maximum number.

    Returns:
        The entries.
    """
    return query


def test_bind_reports_all_problems_at_once() -> None:
    with pytest.raises(InvalidArguments) as caught:
        parameters(everything, injected=[Context]).bind({"limit": "x", "point": {"x": []}, "quarry": 1})
    assert caught.value.problems == (
        Problem("query", "a value, because it is required", "nothing"),
        Problem("limit", "an integer", 'the string "x"'),
        Problem("point.x", "an integer", "an array of 0 items"),
        Problem("quarry", "the name 'query'", "an unknown name"),
    )


def test_bind_limits_number_of_problems() -> None:
    with pytest.raises(InvalidArguments) as caught:
        parameters_of(list[int]).bind({"x": ["a"] * 100})
    assert len(caught.value.problems) == 20
    assert str(caught.value).endswith("\n- and more")


def test_unknown_arguments_compared_with_known_at_most_five_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    compare = difflib.get_close_matches

    def count_comparison(word: str, names: Iterable[str], n: int) -> list[str]:
        compared.append(word)
        return compare(word, list(names), n=n)

    monkeypatch.setattr(difflib, "get_close_matches", count_comparison)
    with pytest.raises(InvalidArguments) as caught:
        parameters(everything, injected=[Context]).bind(
            {"query": "", **{f"limi{number}": 1 for number in range(9_000)}}
        )
    assert len(compared) == 5
    assert len(str(caught.value)) < 4_096
    assert caught.value.problems[0] == Problem("limi0", "the name 'limit'", "an unknown name")


@attrs.define
class IntRecord:
    a: int


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (list[int], [""] * 50_000),
        (list[IntRecord], [{}] * 50_000),
        (list[list[int]], [[""]] * 50_000),
        (dict[str, int], {str(number): "" for number in range(50_000)}),
        (list[int | list[int]], [""] * 50_000),
    ],
)
def test_bind_stops_after_last_reported_item(kind: object, value: JsonValue) -> None:
    bind = parameters_of(kind).bind
    assert count_calls(lambda: bind({"x": value}), raises=InvalidArguments) < 2_000


@attrs.define
class Plus:
    left: Plus | Times | int
    plus: int


@attrs.define
class Times:
    left: Plus | Times | int
    times: int


def test_nested_unions_bind_in_linear_time() -> None:
    def nested(depth: int) -> JsonValue:
        value: JsonValue = 0
        for _ in range(depth):
            value = {"left": value, "wrong": 0}
        return value

    bind = parameters_of(Plus | Times | int).bind
    small, large = (count_calls(partial(bind, {"x": nested(depth)}), raises=InvalidArguments) for depth in (6, 12))
    assert large < 4 * small


def test_nested_union_binds_matching_member() -> None:
    value: JsonValue = {"left": {"left": {"left": 1, "plus": 2}, "times": 3}, "plus": 4}
    bound = parameters_of(Plus | Times | int).bind({"x": value})
    assert bound == {"x": Plus(Times(Plus(1, 2), 3), 4)}


@attrs.define
class Circle:
    kind: Literal["circle"]
    radius: int


@attrs.define
class Square:
    kind: Literal["square"]
    side: int


def test_union_member_selected_by_literal() -> None:
    bind = parameters_of(Circle | Square).bind
    assert bind({"x": {"kind": "square", "side": 1}}) == {"x": Square("square", 1)}
    with pytest.raises(InvalidArguments) as caught:
        bind({"x": {"kind": "square", "side": "", "radius": 1}})
    assert [problem.path for problem in caught.value.problems] == ["x.side", "x.radius"]


def test_integers_with_equal_hash_are_rejected_quickly() -> None:
    modulus = 2**61 - 1
    with pytest.raises(InvalidArguments, match="an array without duplicates"):
        parameters_of(frozenset[int]).bind({"x": [modulus * number for number in range(5_000)]})
    assert parameters_of(frozenset[int]).bind({"x": [0, modulus]}) == {"x": frozenset({0, modulus})}


@pytest.mark.spec("tools.input-schema-object", "tools.input-schema-valid")
def test_function_without_parameters_accepts_no_arguments() -> None:
    def no_parameters() -> None: ...

    compiled = parameters(no_parameters)
    assert compiled.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert compiled.bind({}) == {}
    with pytest.raises(InvalidArguments, match="no members at all"):
        compiled.bind({"a": 1})


def test_docstring_provides_descriptions() -> None:
    compiled = parameters(everything, injected=[Context])
    assert compiled.description == "Find entries."
    properties = compiled.schema["properties"]
    assert isinstance(properties, dict)
    assert properties["query"] == {"type": "string", "description": "The text to find."}
    assert properties["limit"] == {"type": "integer", "description": "The maximum number.", "default": 10}
    assert properties["anything"] == {"default": None}
    assert compiled.schema["required"] == ["query"]


def test_null_argument_keeps_default() -> None:
    compiled = parameters(everything, injected=[Context])
    assert compiled.bind({"query": "a", "limit": None, "point": None}) == {"query": "a", "point": None}


def test_injected_parameter_not_in_schema() -> None:
    def function(a: Context, b: Annotated[Context[str], "c"], c: Context[int] | None, d: int) -> None: ...  # type: ignore[type-arg]  # bare

    compiled = parameters(function, injected=[Context])
    assert compiled.injected == {"a": Context, "b": Context, "c": Context}
    assert compiled.schema["properties"] == {"d": {"type": "integer"}}
    with pytest.raises(InvalidArguments):
        compiled.bind({"d": 1, "a": 1})


def test_injected_class_unimportable_at_run_time_found_by_name() -> None:
    namespace: dict[str, object] = {}
    exec("from __future__ import annotations\ndef f(context: Context[int], a: int): ...", namespace)
    function = namespace["f"]
    assert callable(function)
    assert parameters(function, injected=[Context]).injected == {"context": Context}


def test_local_classes_of_registering_function_resolved() -> None:
    @dataclasses.dataclass
    class Local:
        other: Other

    @dataclasses.dataclass
    class Other:
        x: int

    def function(a: Local, b: list[Other]) -> None: ...

    assert parameters(function).bind({"a": {"other": {"x": 1}}, "b": []}) == {"a": Local(Other(1)), "b": []}


def test_class_in_closure_resolved() -> None:
    def make() -> Function:
        class Hidden(enum.Enum):
            A = "a"

        def function(x: Hidden) -> object:
            return Hidden.A

        return function

    assert [*parameters(make()).bind({"x": "a"})] == ["x"]


def test_parameters_of_methods_partials_wrappers_and_callables() -> None:
    class Thing:
        def method(self, x: Point) -> None:
            """Return nothing."""

        def __call__(self, x: Point) -> None: ...

    def two(x: Point, y: int) -> None: ...

    @wraps(two)
    def wrapper(*args: object, **kwargs: object) -> None: ...

    for function in (Thing().method, Thing(), partial(two, y=1)):
        assert parameters(function).bind({"x": {"x": 1}}) == {"x": Point(1)}
    assert parameters(Thing().method).description == "Return nothing."
    assert parameters(wrapper).bind({"x": {"x": 1}, "y": 2}) == {"x": Point(1), "y": 2}


def invalid_star(*args: int) -> None: ...
def invalid_stars(**kwargs: int) -> None: ...
def invalid_slash(x: int, /) -> None: ...
def invalid_name(x: Absent) -> None: ...
def invalid_nested(x: list[Absent]) -> None: ...


@dataclasses.dataclass
class BrokenRecord:
    x: Absent


class BrokenDict(TypedDict):
    x: Absent


class Unbound:
    def method(self, x: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (invalid_star, ["'args'", "*args", "write a parameter for each argument"]),
        (invalid_stars, ["'kwargs'", "**kwargs"]),
        (invalid_slash, ["'x'", "remove the '/'"]),
        (Unbound.method, ["'self'", "instance.method"]),
        (invalid_name, ["'x'", "Absent", "TYPE_CHECKING"]),
        (invalid_nested, ["'x'", "Absent"]),
        (function_taking(BrokenRecord), ["'x'", "Broken", "Absent"]),
        (function_taking(BrokenDict), ["'x'", "BrokenDict", "Absent"]),
        (function_taking(complex), ["'x'", "complex", "dataclass"]),
        (function_taking(list[complex]), ["complex"]),
        (function_taking(range), ["range"]),
        (function_taking(type[int]), ["type[int]"]),
        (function_taking(dict[float, str]), ["dict[str, ...]", "a number"]),
        (function_taking(set[list[int]]), ["use a list", "an array"]),
        (function_taking(set[Tree]), ["Tree"]),
        (function_taking(TupleEnum), ["TupleEnum", "strings or numbers"]),
        (function_taking(Literal[b"x"]), ["b'x'"]),
        (function_taking(Annotated[str, Param(minimum=1)]), ["minimum", "a string"]),
        (function_taking(Annotated[int, Param(minimum="1")]), ["minimum must be a finite number, not '1'"]),  # type: ignore[arg-type]  # invalid on purpose
        (function_taking(Annotated[int, Param(maximum=True)]), ["maximum must be a finite number, not True"]),
        (function_taking(Annotated[float, Param(minimum=math.nan)]), ["minimum must be a finite number, not nan"]),
        (function_taking(Annotated[float, Param(maximum=math.inf)]), ["maximum must be a finite number, not inf"]),
        (
            function_taking(Annotated[int, Param(minimum=5, maximum=4)]),
            ["no value can be at least 5 (minimum) and at most 4 (maximum)"],
        ),
        (
            function_taking(Annotated[Annotated[int, Param(minimum=5)], Param(maximum=4)]),
            ["no value can be at least 5"],
        ),
        (
            function_taking(Annotated[str, Param(min_length=5, max_length=4)]),
            ["5 (min_length) and at most 4 (max_length)"],
        ),
        (
            function_taking(Annotated[str, Param(min_length=-1)]),
            ["min_length must be a number of characters, items or members, not -1"],
        ),
        (function_taking(Annotated[str, Param(max_length=1.5)]), ["max_length", "not 1.5"]),  # type: ignore[arg-type]  # invalid on purpose
        (function_taking(Annotated[str, Param(pattern=3)]), ["pattern must be a string, not 3"]),  # type: ignore[arg-type]  # invalid on purpose
        (function_taking(Annotated[str, Param(title=3)]), ["title must be a string, not 3"]),  # type: ignore[arg-type]  # invalid on purpose
        (function_taking(Annotated[int, Param(min_length=1)]), ["min_length", "an integer"]),
        (function_taking(Annotated[int, Param(pattern="a")]), ["pattern", "an integer"]),
        (function_taking(Annotated[str, Param(pattern="(?=a)")]), ["'(?=a)'", "linear time"]),
        (function_taking(Annotated[float, Param(header="A")]), ["header", "int, a str or a bool"]),
        (function_taking(Annotated[str, Param(header="A b")]), ["'A b'"]),
        (function_taking(Annotated[str, Param(header="")]), ["is empty"]),
        (function_taking(list[Annotated[str, Param(header="A")]]), ["properties/x/items", "`properties` only"]),
        (function_taking(Annotated[str | None, Param(header="A")]), ["Only an int"]),
        (function_taking(Annotated[int | str | None, Param(header="A")], None), ["Only an int"]),
        (function_taking(BrokenBox[int]), ["BrokenBox", "Absent"]),
        (function_taking("1 +"), ["1 +"]),
        (function_taking(list["Absent"]), ["Absent"]),
        (function_taking(Annotated["Absent", "x"]), ["Absent"]),
    ],
)
def test_unsupported_signature_raises(function: Function, words: list[str]) -> None:
    with pytest.raises(RegistrationError) as caught:
        parameters(function)
    for word in [*words, "test_signature.py:", getattr(function, "__name__", "")]:
        assert word in str(caught.value)


def test_callable_without_signature_raises() -> None:
    with pytest.raises(RegistrationError, match="wrap it in a function"):
        parameters(min)


@pytest.mark.spec("header.param-server-may-designate", "header.xmcp-primitive-only", "header.xmcp-statically-reachable")
def test_header_parameter_in_schema_and_headers() -> None:
    @dataclasses.dataclass
    class Inner:
        zone: Annotated[int, Param(header="Zone")]

    def function(
        inner: Inner, region: Annotated[str | None, Param(header="Region", description="d")] = None
    ) -> None: ...

    compiled = parameters(function)
    properties = compiled.schema["properties"]
    assert isinstance(properties, dict)
    assert properties["region"] == {"type": "string", "x-mcp-header": "Region", "description": "d"}
    assert isinstance(inner := properties["inner"], dict)
    assert inner["properties"] == {"zone": {"type": "integer", "x-mcp-header": "Zone"}}
    assert [header.path for header in compiled.headers] == [("inner", "zone"), ("region",)]
    assert compiled.bind({"inner": {"zone": 1}, "region": None}) == {"inner": Inner(1), "region": None}


@pytest.mark.spec("header.xmcp-unique-case-insensitive")
def test_duplicate_header_raises() -> None:
    def function(a: Annotated[str, Param(header="Same")], b: Annotated[str, Param(header="same")]) -> None: ...

    with pytest.raises(RegistrationError, match="is already used by"):
        parameters(function)


def test_repeated_or_recursive_class_defined_once() -> None:
    def function(a: Point, b: Point, tree: Tree, nested: NestedAlias) -> None: ...

    schema = parameters(function).schema
    assert isinstance(definitions := schema["$defs"], dict)
    assert sorted(definitions) == ["NestedAlias", "Point", "Tree"]
    assert isinstance(properties := schema["properties"], dict)
    assert properties["a"] == {"$ref": "#/$defs/Point"}
    jsonschema_rs.meta.validate(schema)


def test_classes_of_same_name_get_different_definitions() -> None:
    first = dataclasses.make_dataclass("Same", [("a", int)])
    second = dataclasses.make_dataclass("Same", [("b", int)])
    compiled = parameters_of(dict[str, tuple[first, first, second, second]])  # type: ignore[valid-type]  # made at run time
    assert isinstance(definitions := compiled.schema["$defs"], dict)
    assert sorted(definitions) == ["Same", "Same2"]


def test_default_beside_reference() -> None:
    def function(x: Point, y: Point = Point(2)) -> None: ...  # the default is immutable

    assert isinstance(properties := parameters(function).schema["properties"], dict)
    assert properties["y"] == {"$ref": "#/$defs/Point", "default": {"x": 2, "y": 0}}


def test_value_not_json_raises() -> None:
    with pytest.raises(InvalidArguments, match="a value of type tuple"):
        parameters_of(int | str).bind({"x": (1,)})  # type: ignore[dict-item]  # no codec returns it


def test_lone_surrogate_accepted_as_string() -> None:
    assert parameters_of(str).bind({"x": "\ud800"}) == {"x": "\ud800"}
    with pytest.raises(InvalidArguments):
        parameters_of(bytes).bind({"x": "\ud800"})


def test_name_assigned_after_registration_is_ignored() -> None:
    def function(x: int) -> object:
        return later

    assert parameters(function).bind({"x": 1}) == {"x": 1}
    later = 1


def test_default_with_ref_key_unchanged() -> None:
    def function(x: Point, y: dict[str, str] = {"$ref": "#/$defs/Point"}) -> None: ...  # noqa: B006  # never changed

    assert isinstance(properties := parameters(function).schema["properties"], dict)
    assert isinstance(y := properties["y"], dict)
    assert y["default"] == {"$ref": "#/$defs/Point"}


@pytest.mark.parametrize(
    ("default", "named"),
    [
        (object(), "expected an integer, got a value of type object"),
        (float("nan"), "expected an integer, got a value of type float"),
        ("no integer", "expected an integer, got a value of type str"),
        (None, "got None; write 'T | None' for a value that may be None"),
    ],
)
def test_default_of_other_type_rejected(default: object, named: str) -> None:
    with pytest.raises(RegistrationError, match="the default does not match the type") as caught:
        parameters(function_taking(int, default))
    assert named in str(caught.value)


def test_parameter_without_type_rejected() -> None:
    def days(count, context: Context): ...  # type: ignore[no-untyped-def, type-arg]  # noqa: ANN001, ANN202  # the subject

    def city(name: str, ctx): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # the subject

    with pytest.raises(RegistrationError, match=r"test_signature\.py:\d+\), parameter 'count': .* 'count: str'"):
        parameters(days, injected=(Context,))
    with pytest.raises(RegistrationError, match=r"parameter 'ctx': it has no type; write 'ctx: Context'"):
        parameters(city, injected=(Context,))


def test_default_outside_of_bounds_rejected() -> None:
    with pytest.raises(RegistrationError, match="expected an integer, at least 1, got 0"):
        parameters(function_taking(Annotated[int, Param(minimum=1)], 0))


def test_deeply_nested_arguments_raise() -> None:
    value: JsonValue = {"value": 1}
    for _ in range(100_000):
        value = {"value": 1, "children": [value]}
    with pytest.raises(InvalidArguments, match="too many levels"):
        parameters_of(Tree).bind({"x": value})


def test_type_variable_uses_bound_or_constraints() -> None:
    bound = TypeVar("bound", bound=int)
    constrained = TypeVar("constrained", int, str)
    assert schema_of(parameters_of(bound)) == {"type": "integer"}
    assert schema_of(parameters_of(constrained)) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_signature_import_does_not_load_jsonschema() -> None:
    code = "import sys, mcp_server.schema.signature; print('jsonschema_rs' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"


# --- properties ------------------------------------------------------------------------------------------------------

SCALARS: st.SearchStrategy[object] = st.sampled_from(
    [
        str,
        int,
        float,
        bool,
        bytes,
        type(None),
        datetime.datetime,
        datetime.date,
        datetime.time,
        datetime.timedelta,
        uuid.UUID,
        decimal.Decimal,
        Color,
        Size,
        Literal["a", 1],
        Point,
        Pair,
        Small,
    ]
)
HASHABLE = st.sampled_from([str, int, bool, datetime.date, Color, Size])
HINTS: st.SearchStrategy[object] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda hint: list[hint]),  # type: ignore[valid-type]  # made at run time
        inner.map(lambda hint: dict[str, hint]),  # type: ignore[valid-type]  # made of values
        inner.map(lambda hint: tuple[hint, ...]),  # type: ignore[valid-type]  # made of values
        st.tuples(inner, inner).map(lambda pair: tuple.__class_getitem__(pair)),
        HASHABLE.map(lambda hint: frozenset[hint]),  # type: ignore[valid-type]  # made of values
        inner.map(lambda hint: hint | None),
    ),
    max_leaves=5,
)


@st.composite
def hints_with_values(draw: st.DrawFn) -> tuple[object, object]:
    """Return a type and one of its values."""
    hint = draw(HINTS)
    return hint, draw(st.integers(0, 9) if hint is Small else st.from_type(hint))  # type: ignore[arg-type]  # for any type


# A datetime without a time zone becomes local time, see below.
st.register_type_strategy(datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC)))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False))
st.register_type_strategy(Point, st.builds(Point, st.integers(), st.integers()))


@given(hints_with_values())
def test_generated_value_dumps_to_schema_and_back(case: tuple[object, object]) -> None:
    hint, value = case
    if "Param" in repr(hint) and hint is not Small:
        return  # hypothesis does not know the limits
    shape = Compiler("test").spec(hint, Scope({}, {}))
    written = shape.dump(value)
    compiled = parameters_of(hint)
    assert compile_schema(compiled.schema).validate({"x": written}) == ()
    assert compiled.bind({"x": written}) == {"x": value}


SPECIMENS: Final = (
    *(
        "2026-07-28",
        "20260728",
        "2026-W31-2",
        "2026-02-30",
        "2026-7-28",
        "2026-07-28T09:30:00Z",
        "2026-07-28t09:30:00z",
    ),
    *(
        "2026-07-28T09:30:00+02:00",
        "2026-07-28T09:30:00",
        "2026-07-28 09:30:00Z",
        "2026-07-28T09:30Z",
        "20260728T093000Z",
    ),
    *("2026-07-28T24:00:00Z", "2026-07-28T09:30:00.5Z", "2026-07-28T09:30:00,5Z", "2026-07-28T09:30:00+0200", "09:30"),
    *(
        "09:30:00",
        "09:30:00Z",
        "09:30:00.123456789",
        "T09:30",
        "24:00",
        "09:60",
        "PT1H",
        "PT0.5S",
        "-P1D",
        "P1Y",
        "PT",
        "P",
    ),
    *("P1DT", "P1W", "P1W2D", "PT1H2S", "12345678-1234-5678-1234-567812345678", "12345678123456781234567812345678"),
    *(
        "{12345678-1234-5678-1234-567812345678}",
        "1",
        "1.5",
        "-1e3",
        "1.",
        ".5",
        "0x1",
        "NaN",
        "red",
        "RED",
        "a",
        "AAAA",
    ),
)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 9),
        st.sampled_from([0.5, 1.0, 2.0]),
        st.sampled_from(SPECIMENS),
        st.text(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["x", "y", "name", "a"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(HINTS, JSON)
def test_schema_accepts_value_exactly_if_loader_does(hint: object, value: JsonValue) -> None:
    if "bytes" in repr(hint):
        return  # validators do not check `contentEncoding`
    compiled = parameters_of(hint)
    # An independent validator, which also checks formats.
    valid = jsonschema_rs.Draft202012Validator(compiled.schema, validate_formats=True).is_valid({"x": value})
    try:
        compiled.bind({"x": value})
        accepted = True
    except InvalidArguments:
        accepted = False
    assert accepted is valid


@pytest.mark.parametrize("text", SPECIMENS)
@pytest.mark.parametrize(
    "kind",
    [datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, decimal.Decimal, Color],
    ids=lambda kind: kind.__name__,
)
def test_string_form_accepted_exactly_if_schema_accepts_it(kind: type, text: str) -> None:
    compiled = parameters_of(kind)
    valid = jsonschema_rs.Draft202012Validator(compiled.schema, validate_formats=True).is_valid({"x": text})
    try:
        compiled.bind({"x": text})
        accepted = True
    except InvalidArguments:
        accepted = False
    assert accepted is valid


def test_datetime_without_time_zone_is_written_as_local_time() -> None:
    value = datetime.datetime(2026, 7, 28, 9, 30)  # noqa: DTZ001  the tested case
    written = Compiler("test").spec(datetime.datetime, Scope({}, {})).dump(value)
    assert isinstance(written, str)
    assert datetime.datetime.fromisoformat(written) == value.astimezone()
    with pytest.raises(Mismatch, match=r"^$") as caught:
        Compiler("test").spec(datetime.datetime, Scope({}, {})).dump(datetime.datetime.min)  # noqa: DTZ901  likewise
    assert "that can be written" in str(caught.value.problems()[0])


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), HINTS, max_size=4))
def test_generated_signature_has_valid_schema(hints: dict[str, object]) -> None:
    record = dataclasses.make_dataclass("Arguments", [(f"p_{name}", hint) for name, hint in hints.items()])
    compiled = parameters_of(record)
    jsonschema_rs.meta.validate(compiled.schema)
    compile_schema(compiled.schema)


SIMPLE_HINTS = st.sampled_from(
    [
        str,
        int,
        float,
        bool,
        None,
        Color,
        Size,
        list[int],
        dict[str, bool],
        Point,
        Small,
        tuple[int, str],
        set[int],
        int | str,
        Options,
    ]
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "depth", "name"]), children)
    ),
    max_leaves=6,
)


@given(SIMPLE_HINTS, JSON)
def test_bind_accepts_what_schema_allows(hint: object, value: JsonValue) -> None:
    compiled = parameters_of(hint)
    valid = compile_schema(compiled.schema).validate({"x": value}) == ()
    try:
        compiled.bind({"x": value})
    except InvalidArguments:
        assert not valid
    else:
        # Binding accepts null for a default, which the schema does not describe.
        assert valid or (isinstance(value, dict) and None in value.values())
