"""Each type of users in each use and revision: parameter, member, result, output schema, prompt argument, form."""

# mypy: disable-error-code="explicit-any"
# The constructor of a pydantic model takes values of any type.

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import annotated_types
import attrs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
import typing_extensions

from mcp_client import ClientOptions, ElicitationAccepted, Handlers
from mcp_client.testing import open_in_memory
from mcp_core.errors import UnsupportedType
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2024_11_05, R2025_03_26, REVISIONS, Revision
from mcp_core.schema.form import form_schema
from mcp_core.types import ElicitRequestFormParams, EmbeddedResource, TextContent, Tool
from mcp_server import Context, Server, serve_stream

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


UserId = NewType("UserId", int)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class ExtendedMovie(typing_extensions.TypedDict):
    title: typing_extensions.ReadOnly[str]


class Place(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Plain:
    name: str
    on: datetime.date | None = None


@attrs.frozen
class Frozen:
    name: str
    tags: list[str] = attrs.field(factory=list)


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    count: int = pydantic.Field(default=0, ge=0)


@pydantic.dataclasses.dataclass
class ModelData:
    name: str


class Struct(msgspec.Struct):
    name: str
    inside: Struct | None = None


@attrs.frozen
class Box(Generic[T]):
    content: T


@attrs.frozen
class Node:
    value: int
    next: Node | None = None


@attrs.frozen
class Cat:
    kind: Literal["cat"]
    lives: int


@attrs.frozen
class Dog:
    kind: Literal["dog"]
    name: str


@dataclasses.dataclass
class ScaledAmount:
    amount: int
    factor: dataclasses.InitVar[int] = 1

    def __post_init__(self, factor: int) -> None:
        self.amount *= factor


@attrs.frozen
class Row:
    """A type with one of its values in both forms."""

    hint: object
    json: JsonValue
    value: object
    in_form: bool = False
    """Whether the fields of a form can have the type (2025-11-25: server/elicitation#requested-schema)."""


_ID: Final = uuid.UUID("12345678-1234-5678-1234-567812345678")
_UTC: Final = datetime.UTC

ROWS: Final[Mapping[str, Row]] = {
    "str": Row(str, "a", "a", in_form=True),
    "int": Row(int, 3, 3, in_form=True),
    "float": Row(float, 2.5, 2.5, in_form=True),
    "bool": Row(bool, True, True, in_form=True),
    "Decimal": Row(decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    "UUID": Row(uuid.UUID, str(_ID), _ID),
    "datetime": Row(
        datetime.datetime,
        "2026-07-28T09:30:00+00:00",
        datetime.datetime(2026, 7, 28, 9, 30, tzinfo=_UTC),
        in_form=True,
    ),
    "date": Row(datetime.date, "2026-07-28", datetime.date(2026, 7, 28), in_form=True),
    "time": Row(datetime.time, "09:30:00", datetime.time(9, 30)),
    "timedelta": Row(datetime.timedelta, "P0DT90S", datetime.timedelta(seconds=90)),
    "Path": Row(pathlib.Path, "a/b", pathlib.Path("a/b"), in_form=True),
    "bytes": Row(bytes, "YWI=", b"ab"),
    "enum": Row(Color, "red", Color.RED, in_form=True),
    "Literal": Row(Literal["a", "b"], "b", "b", in_form=True),
    "union": Row(int | list[str], ["a"], ["a"]),
    "tagged union": Row(Cat | Dog, {"kind": "dog", "name": "Rex"}, Dog("dog", "Rex")),
    "Optional": Row(typing.Optional[int], None, None),  # noqa: UP045  # this spelling is tested
    "NewType": Row(UserId, 7, 7, in_form=True),
    "TypedDict": Row(Movie, {"title": "M"}, {"title": "M"}),
    "typing_extensions.TypedDict": Row(ExtendedMovie, {"title": "M"}, {"title": "M"}),
    "NamedTuple": Row(Place, {"x": 1, "y": 2}, Place(1, 2)),
    "dataclass": Row(Plain, {"name": "a", "on": "2026-07-28"}, Plain("a", datetime.date(2026, 7, 28))),
    "attrs class": Row(Frozen, {"name": "a", "tags": ["b"]}, Frozen("a", ["b"])),
    "pydantic model": Row(Model, {"name": "a", "count": 2}, Model(name="a", count=2)),
    "pydantic dataclass": Row(ModelData, {"name": "a"}, ModelData("a")),
    "msgspec Struct": Row(Struct, {"name": "a", "inside": {"name": "b", "inside": None}}, Struct("a", Struct("b"))),
    "generic class": Row(Box[int], {"content": 3}, Box(3)),
    "recursive class": Row(Node, {"value": 1, "next": {"value": 2, "next": None}}, Node(1, Node(2))),
    "list": Row(list[int], [1, 2], [1, 2]),
    "tuple": Row(tuple[int, str], [1, "a"], (1, "a")),
    "set": Row(set[int], [1], {1}),
    "frozenset": Row(frozenset[str], ["a"], frozenset({"a"})),
    "dict": Row(dict[str, int], {"a": 1}, {"a": 1}),
    "dict of int": Row(dict[int, str], {"1": "a"}, {1: "a"}),
    "Mapping": Row(Mapping[str, int], {"a": 1}, {"a": 1}),
    "Sequence": Row(Sequence[int], [1], [1]),
    "deque": Row(collections.deque[int], [1], collections.deque([1])),
    "Counter": Row(collections.Counter[str], {"a": 2}, collections.Counter(a=2)),
    "OrderedDict": Row(collections.OrderedDict[str, int], {"a": 1}, collections.OrderedDict(a=1)),
    "defaultdict": Row(collections.defaultdict[str, int], {"a": 1}, collections.defaultdict(int, a=1)),
    "Ge": Row(Annotated[int, annotated_types.Ge(1)], 1, 1, in_form=True),
    "Len": Row(Annotated[list[int], annotated_types.Len(1, 2)], [1], [1]),
    "pydantic.Field": Row(Annotated[str, pydantic.Field(pattern="^a+$", description="As.")], "aa", "aa", in_form=True),
    "msgspec.Meta": Row(Annotated[float, msgspec.Meta(gt=0)], 0.5, 0.5),
    "InitVar": Row(ScaledAmount, {"amount": 3}, ScaledAmount(3)),
}


def with_hints(function: typing.Callable[..., object], **hints: object) -> typing.Callable[..., object]:
    """Return the function with annotations that are known only at run time."""
    function.__annotations__ = hints
    return function


def server_of(row: Row, seen: list[object]) -> Server:
    """Return a server that uses a type in each way, and records the values that its functions receive."""
    server = Server("types", version="1")
    holder = dataclasses.make_dataclass("Holder", [("value", row.hint)])

    def echo(value: object) -> object:
        seen.append(value)
        return value

    def hold(held: object) -> object:
        seen.append(held.value)  # type: ignore[attr-defined]  # it is a `Holder`
        return held

    def prompt(value: object) -> str:
        seen.append(value)
        return "said"

    async def ask(context: Context) -> str:
        form: type[object] = holder
        answer = await context.elicit(form, "Which?")
        assert isinstance(answer, ElicitationAccepted)
        seen.append(answer.value.value)  # type: ignore[attr-defined]  # it is a `Holder`
        return "asked"

    server.add_tool(with_hints(echo, value=row.hint, **{"return": row.hint}), name="echo")
    server.add_tool(with_hints(hold, held=holder, **{"return": holder}), name="hold")
    server.add_prompt(with_hints(prompt, value=row.hint, **{"return": str}), name="prompt")
    if row.in_form:
        server.add_tool(ask, name="ask")
    else:
        with pytest.raises(UnsupportedType):
            form_schema(holder)
    return server


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@pytest.mark.parametrize("name", ROWS)
async def test_type_works_in_each_use(name: str, revision: Revision) -> None:
    row = ROWS[name]
    seen: list[object] = []
    server = server_of(row, seen)

    async def accept(form: ElicitRequestFormParams) -> ElicitationAccepted[JsonObject]:
        assert "value" in form.requested_schema.properties
        return ElicitationAccepted({"value": row.json})

    async with open_in_memory(
        lambda stream: serve_stream(server, stream),
        revisions=[revision],
        handlers=Handlers(elicit=accept),
        options=ClientOptions(validate_output="raise"),
    ) as client:
        tools: dict[str, Tool] = {tool.name: tool for tool in await client.list_tools()}
        assert "value" in typing.cast("JsonObject", tools["echo"].input_schema["properties"])
        # Parameter, result and output schema: the client validates the result with the schema.
        echoed = await client.call_tool("echo", {"value": row.json})
        if row.hint is bytes:
            assert isinstance(echoed.content[0], EmbeddedResource)
        else:
            assert echoed.text == row.json or json.loads(echoed.text) in (row.json, {"result": row.json})
        held = await client.call_tool("hold", {"held": {"value": row.json}})
        assert json.loads(held.text) == {"value": row.json}
        text = row.json if isinstance(row.json, str) else json.dumps(row.json)
        got = await client.get_prompt("prompt", {"value": text})
        assert got.messages[0].content == TextContent(text="said")
        if row.in_form and revision not in (R2024_11_05, R2025_03_26):
            assert (await client.call_tool("ask")).text == "asked"
            assert len(seen) == 4
        assert all(value == row.value and type(value) is type(row.value) for value in seen), seen
        assert len(seen) >= 3
