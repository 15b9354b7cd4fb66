"""The benchmark of user types: the time to load and to dump a value, beside pydantic and msgspec.

    nox -s bench_conversion                   all rows, about half a minute
    nox -s bench_conversion -- --repetitions 9     more repetitions, for a busy machine

Each row is a typical type, as a dataclass for this project and msgspec, and as a pydantic model or `TypeAdapter`. All three
load JSON that is already parsed, and dump to values that a JSON encoder accepts, because a message is parsed and encoded
as a whole. The figures are microseconds for one load and one dump, the best of several interleaved repetitions.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime  # noqa: TC003  msgspec and pydantic evaluate annotations
import decimal  # noqa: TC003  likewise
import enum
import sys
import time
import uuid  # noqa: TC003  likewise
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec
import pydantic

from mcp_core.schema.annotations import Scope
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.type_spec import Param

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonValue


class Color(enum.Enum):
    """An enumeration."""

    RED = "red"
    GREEN = "green"


@dataclasses.dataclass
class Point:
    """A flat class."""

    x: float
    y: float


@dataclasses.dataclass
class Address:
    """A class with optional members."""

    street: str
    number: int
    city: str
    postcode: str | None = None


@dataclasses.dataclass
class Customer:
    """A nested class."""

    name: str
    address: Address
    tags: list[str]
    vip: bool = False


@dataclasses.dataclass
class Event:
    """A class with values that are strings in JSON."""

    id: uuid.UUID
    at: datetime.datetime
    day: datetime.date
    price: decimal.Decimal


@dataclasses.dataclass
class Cat:
    """A member of a tagged union."""

    kind: Literal["cat"]
    lives: int


@dataclasses.dataclass
class Dog:
    """A member of a tagged union."""

    kind: Literal["dog"]
    age: int


ADDRESS: Final[dict[str, JsonValue]] = {"street": "Main Street", "number": 5, "city": "Ghent"}
ID: Final = "12345678-1234-5678-1234-567812345678"


class Row(NamedTuple):
    """A row of the table."""

    name: str
    """The name."""
    hint: object
    """The type."""
    value: JsonValue
    """A value in JSON."""


ROWS: Final = (
    Row("an integer with bounds", Annotated[int, Param(minimum=1, maximum=9)], 5),
    Row("a string", str, "forty-two"),
    Row("an enumeration", Color, "green"),
    Row("a class of two numbers", Point, {"x": 1.5, "y": 2.0}),
    Row("a class with an optional member", Address, dict(ADDRESS)),
    Row("a nested class", Customer, {"name": "Ada", "address": dict(ADDRESS), "tags": ["a", "b"]}),
    Row(
        "a UUID, two dates and a Decimal",
        Event,
        {"id": ID, "at": "2026-07-28T09:30:00Z", "day": "2026-07-28", "price": "1.50"},
    ),
    Row("100 classes of two numbers", list[Point], [{"x": 1.5, "y": 2.0} for _ in range(100)]),
    Row("an object of 100 integers", dict[str, int], {f"name {number}": number for number in range(100)}),
    Row("100 items of a tagged union", list[Cat | Dog], [{"kind": "cat", "lives": 9}, {"kind": "dog", "age": 3}] * 50),
)


def ours(row: Row) -> Callable[[], object]:
    """Return a function that loads and dumps the value of a row with this project."""
    load = Compiler("bench").spec(row.hint, Scope({}, {})).load
    dump = Compiler("bench", output=True).spec(row.hint, Scope({}, {})).dump
    return lambda: dump(load(row.value))


def of_pydantic(row: Row) -> Callable[[], object]:
    """Return the same function with pydantic."""
    hint = Annotated[int, pydantic.Field(ge=1, le=9)] if "bounds" in row.name else row.hint
    adapter: pydantic.TypeAdapter[object] = pydantic.TypeAdapter(hint)  # type: ignore[arg-type]  # types of a table
    return lambda: adapter.dump_python(adapter.validate_python(row.value), mode="json")


def of_msgspec(row: Row) -> Callable[[], object]:
    """Return the same function with msgspec."""
    hint: object = Annotated[int, msgspec.Meta(ge=1, le=9)] if "bounds" in row.name else row.hint
    if "union" in row.name:
        hint = list[TaggedCat | TaggedDog]
    return lambda: msgspec.to_builtins(msgspec.convert(row.value, hint))


class TaggedCat(msgspec.Struct, tag_field="kind", tag="cat"):
    """A member of a tagged union, in the only form that msgspec accepts."""

    lives: int


class TaggedDog(msgspec.Struct, tag_field="kind", tag="dog"):
    """A member of a tagged union, in the only form that msgspec accepts."""

    age: int


LIBRARIES: Final = (("ours", ours), ("pydantic", of_pydantic), ("msgspec", of_msgspec))


def seconds_for_one(function: Callable[[], object], seconds: float) -> float:
    """Return the time of one call, measured over about `seconds`."""
    count, spent = 1, 0.0
    while spent < seconds / 2:
        count *= 2
        begin = time.perf_counter()
        for _ in range(count):
            function()
        spent = time.perf_counter() - begin
    return spent / count


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--repetitions", type=int, default=5, help="number of interleaved repetitions (default: %(default)s)"
    )
    repetitions = parser.parse_args(arguments).repetitions
    print(f"{'microseconds for a load and a dump':36}{'ours':>9}{'pydantic':>10}{'msgspec':>9}{'ours/pydantic':>15}")
    for row in ROWS:
        functions = {name: make(row) for name, make in LIBRARIES}
        best = dict.fromkeys(functions, float("inf"))
        for _ in range(repetitions):
            for name, function in functions.items():
                best[name] = min(best[name], seconds_for_one(function, 0.05))
        micro = {name: 1e6 * each for name, each in best.items()}
        ratio = micro["ours"] / micro["pydantic"]
        print(f"{row.name:36}{micro['ours']:9.2f}{micro['pydantic']:10.2f}{micro['msgspec']:9.2f}{ratio:15.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
