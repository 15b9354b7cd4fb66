"""A function's signature as a JSON Schema, and arguments as values."""

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
from counted_calls import calls_of
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_server.errors import RegistrationError
from mcp_server.schema.annotations import Function, Scope
from mcp_server.schema.compiler import Compiler
from mcp_server.schema.signature import InvalidArguments, Param, Parameters, Problem, parameters
from mcp_server.schema.validation import compile_schema

if TYPE_CHECKING:
    from nowhere import Absent  # type: ignore[import-not-found]  # the subject of a test

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Odd(enum.Enum):
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


class More(Options):
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


# Annotations that are no texts, as in a module without the import from the future.
Bare = dataclasses.make_dataclass("Bare", [("item", T), ("size", int)], bases=(Generic[T],))  # type: ignore[index]  # a variable of a module is no parameter for mypy


@dataclasses.dataclass
class Dated:
    date: datetime.date | None = None
    int: int = 3


@dataclasses.dataclass
class Picky:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


UserId = NewType("UserId", int)
Json = Union[int, list["Json"], dict[str, "Json"]]  # noqa: UP007  # a reference to itself has to be a text
Small = Annotated[int, Param(minimum=0, maximum=9)]
Alias = TypeAliasType("Alias", "list[int]")
Nested = TypeAliasType("Nested", "int | list[Nested]")


class Context(Generic[T]):
    """What the caller provides."""


def taking(hint: object, default: object = ...) -> Function:
    """A function with one parameter."""

    def required(x: object) -> None: ...

    def optional(x: object = default) -> None: ...

    function = required if default is ... else optional
    function.__annotations__["x"] = hint
    return function


def one(hint: object) -> Parameters:
    """The parameters of a function with one parameter of this type."""
    return parameters(taking(hint))


def property_of(compiled: Parameters) -> JsonValue:
    """The schema of the one parameter."""
    properties = compiled.schema["properties"]
    assert isinstance(properties, dict)
    return properties["x"]


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
    (datetime.time, {"type": "string", "format": "time"}),
    (datetime.timedelta, {"type": "string", "format": "duration"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (pathlib.Path, {"type": "string"}),
    (Color, {"type": "string", "enum": ["red", "blue"]}),
    (Size, {"type": "integer", "enum": [1, 2]}),
    (Literal["a", 1, None, True], {"type": ["boolean", "integer", "null", "string"], "enum": ["a", 1, None, True]}),  # noqa: PYI061  # all in one
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045  # the old spelling works, too
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
    (Annotated[int, 7, "how many"], {"type": "integer", "description": "how many"}),
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
        More,
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
def test_each_type_has_its_schema(hint: object, schema: JsonValue) -> None:
    compiled = one(hint)
    assert property_of(compiled) == schema
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
    (uuid.UUID, "12345678123456781234567812345678", uuid.UUID("12345678123456781234567812345678")),
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
    (Dated, {"date": "2026-07-28"}, Dated(datetime.date(2026, 7, 28))),
    (Json, [1, {"a": 2}], [1, {"a": 2}]),
    (Nested, [1, [2]], [1, [2]]),
    (Small, 5, 5),
    (Point, {"x": 1, "y": None}, Point(1)),
    (Chain, {"next": {"next": {}}}, {"next": {"next": {}}}),
    (Box[Point], {"item": {"x": 1}, "size": 2}, Box(Point(1), 2)),
    (Bare[int], {"item": 1, "size": 2}, Bare(1, 2)),  # type: ignore[index]  # made at run time
    (Annotated[int, []], 1, 1),
    (Annotated[int, Param(maximum=3)], 1, 1),
    (Color | None, "red", Color.RED),
]


@pytest.mark.parametrize(("hint", "argument", "value"), VALUES)
def test_arguments_become_values(hint: object, argument: JsonValue, value: object) -> None:
    bound = one(hint).bind({"x": argument})
    assert bound == {"x": value}
    assert type(bound["x"]) is type(value)


@pytest.mark.parametrize(("hint", "argument", "value"), VALUES)
def test_values_are_written_so_that_they_are_read_back(hint: object, argument: JsonValue, value: object) -> None:
    written = Compiler("test").shape(hint, Scope(globals(), {})).dump(value)
    compiled = one(hint)
    assert compile_schema(compiled.schema).validate({"x": written}) == ()
    assert compiled.bind({"x": written}) == {"x": value}


WRONG: list[tuple[object, JsonValue, str]] = [
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


@pytest.mark.parametrize(("hint", "argument", "message"), WRONG)
def test_a_wrong_argument_is_told_so_that_a_model_can_correct_it(
    hint: object, argument: JsonValue, message: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        one(hint).bind({"x": argument})
    assert message in str(caught.value)


def everything(query: str, limit: int = 10, *, point: Point | None = None, context: Context[int], anything=None) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001  # the subject
    """Finds things.

    Args:
        query: What to look for.
        limit: How many.

    Returns:
        Them.
    """
    return query


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidArguments) as caught:
        parameters(everything, injected=[Context]).bind({"limit": "x", "point": {"x": []}, "quarry": 1})
    assert caught.value.problems == (
        Problem("query", "a value, because it is required", "nothing"),
        Problem("limit", "an integer", 'the string "x"'),
        Problem("point.x", "an integer", "an array of 0 items"),
        Problem("quarry", "the name 'query'", "an unknown name"),
    )


def test_a_flood_of_problems_is_shortened_in_the_text() -> None:
    with pytest.raises(InvalidArguments) as caught:
        one(list[int]).bind({"x": ["a"] * 100})
    assert len(caught.value.problems) == 20
    assert str(caught.value).endswith("\n- and more")


def test_unknown_arguments_by_the_thousand_are_compared_with_known_ones_five_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    compare = difflib.get_close_matches

    def counted(word: str, names: Iterable[str], n: int) -> list[str]:
        compared.append(word)
        return compare(word, list(names), n=n)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    with pytest.raises(InvalidArguments) as caught:
        parameters(everything, injected=[Context]).bind(
            {"query": "", **{f"limi{number}": 1 for number in range(9_000)}}
        )
    assert len(compared) == 5
    assert len(str(caught.value)) < 4_096
    assert caught.value.problems[0] == Problem("limi0", "the name 'limit'", "an unknown name")


@attrs.define
class Wrong:
    a: int


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (list[int], [""] * 50_000),
        (list[Wrong], [{}] * 50_000),
        (list[list[int]], [[""]] * 50_000),
        (dict[str, int], {str(number): "" for number in range(50_000)}),
        (list[int | list[int]], [""] * 50_000),
    ],
)
def test_wrong_items_by_the_thousand_are_read_up_to_the_last_one_that_is_reported(
    kind: object, value: JsonValue
) -> None:
    bind = one(kind).bind
    assert calls_of(lambda: bind({"x": value}), raises=InvalidArguments) < 2_000


@attrs.define
class Plus:
    left: Plus | Times | int
    plus: int


@attrs.define
class Times:
    left: Plus | Times | int
    times: int


def test_deeply_nested_unions_are_read_in_linear_time() -> None:
    def nested(depth: int) -> JsonValue:
        value: JsonValue = 0
        for _ in range(depth):
            value = {"left": value, "wrong": 0}
        return value

    bind = one(Plus | Times | int).bind
    few, many = (calls_of(partial(bind, {"x": nested(depth)}), raises=InvalidArguments) for depth in (6, 12))
    assert many < 4 * few


def test_nested_unions_are_read_by_the_member_that_fits() -> None:
    value: JsonValue = {"left": {"left": {"left": 1, "plus": 2}, "times": 3}, "plus": 4}
    found = one(Plus | Times | int).bind({"x": value})
    assert found == {"x": Plus(Times(Plus(1, 2), 3), 4)}


@attrs.define
class Circle:
    kind: Literal["circle"]
    radius: int


@attrs.define
class Square:
    kind: Literal["square"]
    side: int


def test_an_object_of_a_union_is_told_apart_by_its_choices() -> None:
    bind = one(Circle | Square).bind
    assert bind({"x": {"kind": "square", "side": 1}}) == {"x": Square("square", 1)}
    with pytest.raises(InvalidArguments) as caught:
        bind({"x": {"kind": "square", "side": "", "radius": 1}})
    assert [problem.path for problem in caught.value.problems] == ["x.side", "x.radius"]


def test_integers_with_one_hash_are_not_put_into_a_set() -> None:
    modulus = 2**61 - 1
    with pytest.raises(InvalidArguments, match="an array without duplicates"):
        one(frozenset[int]).bind({"x": [modulus * number for number in range(5_000)]})
    assert one(frozenset[int]).bind({"x": [0, modulus]}) == {"x": frozenset({0, modulus})}


@pytest.mark.spec("tools.input-schema-object", "tools.input-schema-valid")
def test_a_function_without_parameters_takes_nothing() -> None:
    def nothing() -> None: ...

    compiled = parameters(nothing)
    assert compiled.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert compiled.bind({}) == {}
    with pytest.raises(InvalidArguments, match="no members at all"):
        compiled.bind({"a": 1})


def test_the_docstring_gives_the_descriptions() -> None:
    compiled = parameters(everything, injected=[Context])
    assert compiled.description == "Finds things."
    properties = compiled.schema["properties"]
    assert isinstance(properties, dict)
    assert properties["query"] == {"type": "string", "description": "What to look for."}
    assert properties["limit"] == {"type": "integer", "description": "How many.", "default": 10}
    assert properties["anything"] == {"default": None}
    assert compiled.schema["required"] == ["query"]


def test_null_for_something_with_a_default_keeps_the_default() -> None:
    compiled = parameters(everything, injected=[Context])
    assert compiled.bind({"query": "a", "limit": None, "point": None}) == {"query": "a", "point": None}


def test_what_the_caller_provides_is_not_in_the_schema() -> None:
    def function(a: Context, b: Annotated[Context[str], "c"], c: Context[int] | None, d: int) -> None: ...  # type: ignore[type-arg]  # bare

    compiled = parameters(function, injected=[Context])
    assert compiled.injected == {"a": Context, "b": Context, "c": Context}
    assert compiled.schema["properties"] == {"d": {"type": "integer"}}
    with pytest.raises(InvalidArguments):
        compiled.bind({"d": 1, "a": 1})


def test_an_injected_class_need_not_be_importable_at_run_time() -> None:
    namespace: dict[str, object] = {}
    exec("from __future__ import annotations\ndef f(context: Context[int], a: int): ...", namespace)
    function = namespace["f"]
    assert callable(function)
    assert parameters(function, injected=[Context]).injected == {"context": Context}


def test_classes_that_are_local_to_the_registering_function_are_found() -> None:
    @dataclasses.dataclass
    class Local:
        other: Other

    @dataclasses.dataclass
    class Other:
        x: int

    def function(a: Local, b: list[Other]) -> None: ...

    assert parameters(function).bind({"a": {"other": {"x": 1}}, "b": []}) == {"a": Local(Other(1)), "b": []}


def test_a_class_in_a_closure_is_found() -> None:
    def make() -> Function:
        class Hidden(enum.Enum):
            A = "a"

        def function(x: Hidden) -> object:
            return Hidden.A

        return function

    assert [*parameters(make()).bind({"x": "a"})] == ["x"]


def test_methods_partials_wrappers_and_callables_are_functions() -> None:
    class Thing:
        def method(self, x: Point) -> None:
            """A method."""

        def __call__(self, x: Point) -> None: ...

    def two(x: Point, y: int) -> None: ...

    @wraps(two)
    def wrapper(*args: object, **kwargs: object) -> None: ...

    for function in (Thing().method, Thing(), partial(two, y=1)):
        assert parameters(function).bind({"x": {"x": 1}}) == {"x": Point(1)}
    assert parameters(Thing().method).description == "A method."
    assert parameters(wrapper).bind({"x": {"x": 1}, "y": 2}) == {"x": Point(1), "y": 2}


def refused_star(*args: int) -> None: ...
def refused_stars(**kwargs: int) -> None: ...
def refused_slash(x: int, /) -> None: ...
def refused_name(x: Absent) -> None: ...
def refused_deep(x: list[Absent]) -> None: ...


@dataclasses.dataclass
class Broken:
    x: Absent


class BrokenDict(TypedDict):
    x: Absent


class Refused:
    def method(self, x: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (refused_star, ["'args'", "*args", "write a parameter for each argument"]),
        (refused_stars, ["'kwargs'", "**kwargs"]),
        (refused_slash, ["'x'", "remove the '/'"]),
        (Refused.method, ["'self'", "instance.method"]),
        (refused_name, ["'x'", "Absent", "TYPE_CHECKING"]),
        (refused_deep, ["'x'", "Absent"]),
        (taking(Broken), ["'x'", "Broken", "Absent"]),
        (taking(BrokenDict), ["'x'", "BrokenDict", "Absent"]),
        (taking(complex), ["'x'", "complex", "dataclass"]),
        (taking(list[complex]), ["complex"]),
        (taking(range), ["range"]),
        (taking(type[int]), ["type[int]"]),
        (taking(dict[int, str]), ["dict[str, ...]", "an integer"]),
        (taking(set[list[int]]), ["use a list", "an array"]),
        (taking(set[Tree]), ["Tree"]),
        (taking(Odd), ["Odd", "strings or numbers"]),
        (taking(Literal[b"x"]), ["b'x'"]),
        (taking(Annotated[str, Param(minimum=1)]), ["minimum", "a string"]),
        (taking(Annotated[int, Param(minimum="1")]), ["minimum must be a finite number, not '1'"]),  # type: ignore[arg-type]  # wrong, which is the point
        (taking(Annotated[int, Param(maximum=True)]), ["maximum must be a finite number, not True"]),
        (taking(Annotated[float, Param(minimum=math.nan)]), ["minimum must be a finite number, not nan"]),
        (taking(Annotated[float, Param(maximum=math.inf)]), ["maximum must be a finite number, not inf"]),
        (
            taking(Annotated[int, Param(minimum=5, maximum=4)]),
            ["no value can be at least 5 (minimum) and at most 4 (maximum)"],
        ),
        (taking(Annotated[Annotated[int, Param(minimum=5)], Param(maximum=4)]), ["no value can be at least 5"]),
        (taking(Annotated[str, Param(min_length=5, max_length=4)]), ["5 (min_length) and at most 4 (max_length)"]),
        (
            taking(Annotated[str, Param(min_length=-1)]),
            ["min_length must be a number of characters, items or members, not -1"],
        ),
        (taking(Annotated[str, Param(max_length=1.5)]), ["max_length", "not 1.5"]),  # type: ignore[arg-type]  # wrong, which is the point
        (taking(Annotated[str, Param(pattern=3)]), ["pattern must be a string, not 3"]),  # type: ignore[arg-type]  # wrong, which is the point
        (taking(Annotated[str, Param(title=3)]), ["title must be a string, not 3"]),  # type: ignore[arg-type]  # wrong, which is the point
        (taking(Annotated[int, Param(min_length=1)]), ["min_length", "an integer"]),
        (taking(Annotated[int, Param(pattern="a")]), ["pattern", "an integer"]),
        (taking(Annotated[str, Param(pattern="(?=a)")]), ["'(?=a)'", "linear time"]),
        (taking(Annotated[float, Param(header="A")]), ["header", "int, a str or a bool"]),
        (taking(Annotated[str, Param(header="A b")]), ["'A b'"]),
        (taking(Annotated[str, Param(header="")]), ["is empty"]),
        (taking(list[Annotated[str, Param(header="A")]]), ["properties/x/items", "`properties` only"]),
        (taking(Annotated[str | None, Param(header="A")]), ["Only an int"]),
        (taking(Annotated[int | str | None, Param(header="A")], None), ["Only an int"]),
        (taking(BrokenBox[int]), ["BrokenBox", "Absent"]),
        (taking("1 +"), ["1 +"]),
        (taking(list["Absent"]), ["Absent"]),
        (taking(Annotated["Absent", "x"]), ["Absent"]),
    ],
)
def test_what_cannot_work_is_refused_at_registration(function: Function, words: list[str]) -> None:
    with pytest.raises(RegistrationError) as caught:
        parameters(function)
    for word in [*words, "test_signature.py:", getattr(function, "__name__", "")]:
        assert word in str(caught.value)


def test_a_callable_without_signature_is_refused() -> None:
    with pytest.raises(RegistrationError, match="wrap it in a function"):
        parameters(min)


@pytest.mark.spec("header.param-server-may-designate", "header.xmcp-primitive-only", "header.xmcp-statically-reachable")
def test_a_header_is_told_where_clients_find_it() -> None:
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
def test_two_parameters_cannot_have_the_same_header() -> None:
    def function(a: Annotated[str, Param(header="Same")], b: Annotated[str, Param(header="same")]) -> None: ...

    with pytest.raises(RegistrationError, match="is already used by"):
        parameters(function)


def test_a_class_that_is_used_often_or_contains_itself_stands_once() -> None:
    def function(a: Point, b: Point, tree: Tree, nested: Nested) -> None: ...

    schema = parameters(function).schema
    assert isinstance(definitions := schema["$defs"], dict)
    assert sorted(definitions) == ["Nested", "Point", "Tree"]
    assert isinstance(properties := schema["properties"], dict)
    assert properties["a"] == {"$ref": "#/$defs/Point"}
    jsonschema_rs.meta.validate(schema)


def test_two_classes_of_the_same_name_are_kept_apart() -> None:
    first = dataclasses.make_dataclass("Same", [("a", int)])
    second = dataclasses.make_dataclass("Same", [("b", int)])
    compiled = one(dict[str, tuple[first, first, second, second]])  # type: ignore[valid-type]  # made at run time
    assert isinstance(definitions := compiled.schema["$defs"], dict)
    assert sorted(definitions) == ["Same", "Same2"]


def test_a_default_stands_beside_a_reference() -> None:
    def function(x: Point, y: Point = Point(2)) -> None: ...  # it cannot be changed

    assert isinstance(properties := parameters(function).schema["properties"], dict)
    assert properties["y"] == {"$ref": "#/$defs/Point", "default": {"x": 2, "y": 0}}


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="a value of type tuple"):
        one(int | str).bind({"x": (1,)})  # type: ignore[dict-item]  # what no codec gives


def test_a_text_that_is_no_unicode_does_no_harm() -> None:
    assert one(str).bind({"x": "\ud800"}) == {"x": "\ud800"}
    with pytest.raises(InvalidArguments):
        one(bytes).bind({"x": "\ud800"})


def test_a_name_that_is_assigned_after_the_registration_does_no_harm() -> None:
    def function(x: int) -> object:
        return later

    assert parameters(function).bind({"x": 1}) == {"x": 1}
    later = 1


def test_data_that_looks_like_a_reference_stays_as_it_is() -> None:
    def function(x: Point, y: dict[str, str] = {"$ref": "#/$defs/Point"}) -> None: ...  # noqa: B006  # never changed

    assert isinstance(properties := parameters(function).schema["properties"], dict)
    assert isinstance(y := properties["y"], dict)
    assert y["default"] == {"$ref": "#/$defs/Point"}


@pytest.mark.parametrize("default", [object(), float("nan"), "no integer"])
def test_a_default_that_json_cannot_say_is_not_told(default: object) -> None:
    compiled = parameters(taking(int, default))
    assert property_of(compiled) == {"type": "integer"}
    assert compiled.bind({}) == {}


def test_arguments_that_are_nested_too_deeply_are_an_error() -> None:
    value: JsonValue = {"value": 1}
    for _ in range(100_000):
        value = {"value": 1, "children": [value]}
    with pytest.raises(InvalidArguments, match="too many levels"):
        one(Tree).bind({"x": value})


def test_type_variables_take_what_they_are_bound_to() -> None:
    bound = TypeVar("bound", bound=int)
    constrained = TypeVar("constrained", int, str)
    assert property_of(one(bound)) == {"type": "integer"}
    assert property_of(one(constrained)) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_nothing_heavy_is_loaded() -> None:
    code = "import sys, mcp_server.schema.signature; print('jsonschema_rs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- Properties ------------------------------------------------------------------------------------------------------

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
    """A type and one of its values."""
    hint = draw(HINTS)
    return hint, draw(st.integers(0, 9) if hint is Small else st.from_type(hint))  # type: ignore[arg-type]  # any type


st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False))
st.register_type_strategy(Point, st.builds(Point, st.integers(), st.integers()))


@given(hints_with_values())
def test_a_value_that_is_written_is_valid_and_is_read_back(case: tuple[object, object]) -> None:
    hint, value = case
    if "Param" in repr(hint) and hint is not Small:
        return  # hypothesis does not know the limits
    shape = Compiler("test").shape(hint, Scope({}, {}))
    written = shape.dump(value)
    compiled = one(hint)
    assert compile_schema(compiled.schema).validate({"x": written}) == ()
    assert compiled.bind({"x": written}) == {"x": value}


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), HINTS, max_size=4))
def test_the_schema_of_any_signature_is_valid(hints: dict[str, object]) -> None:
    record = dataclasses.make_dataclass("Arguments", [(f"p_{name}", hint) for name, hint in hints.items()])
    compiled = one(record)
    jsonschema_rs.meta.validate(compiled.schema)
    compile_schema(compiled.schema)


FREE = st.sampled_from(
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


@given(FREE, JSON)
def test_what_is_bound_is_what_the_schema_allows(hint: object, value: JsonValue) -> None:
    compiled = one(hint)
    valid = compile_schema(compiled.schema).validate({"x": value}) == ()
    try:
        compiled.bind({"x": value})
    except InvalidArguments:
        assert not valid
    else:
        # The one leniency that a schema does not tell.
        assert valid or (isinstance(value, dict) and None in value.values())
