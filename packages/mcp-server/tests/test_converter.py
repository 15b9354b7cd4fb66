"""Classes of the author that hooks of a `cattrs.Converter` load and dump."""

from __future__ import annotations

import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import attrs
import cattrs
import pytest

from mcp_client import Handlers, ToolFailed
from mcp_client.testing import open_in_memory
from mcp_core.errors import RequestFailed
from mcp_core.revisions import R2025_11_25, REVISIONS, Revision
from mcp_core.types import StringSchema
from mcp_server import Context, ElicitationAccepted, Param, RegistrationError, Server, serve_stream

if TYPE_CHECKING:
    from mcp_client import Client
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import ElicitRequestFormParams

converter = cattrs.Converter()


class Money:
    """A class without a JSON representation."""

    def __init__(self, cents: int, currency: str) -> None:
        self.cents = cents
        self.currency = currency


@converter.register_structure_hook
def load_money(value: Annotated[str, Param(pattern="^[0-9]+ [A-Z]{3}$")], _: type) -> Money:
    cents, currency = value.split()
    if currency == "XXX":
        raise ValueError("there is no currency XXX")
    if currency == "ZZZ":
        raise ZeroDivisionError("hunter2")
    return Money(int(cents), currency)


@converter.register_unstructure_hook
def dump_money(money: Money) -> str:
    return f"{money.cents} {money.currency}"


@attrs.frozen
class Point:
    """An attrs class that the author writes as an array."""

    x: int
    y: int


@converter.register_structure_hook
def load_point(value: tuple[int, int], _: type) -> Point:
    return Point(*value)


@converter.register_unstructure_hook
def dump_point(point: Point) -> list[int]:
    return [point.x, point.y]


@converter.register_structure_hook
def load_day(value: str, _: type) -> datetime.date:
    day, month, year = value.split(".")
    return datetime.date(int(year), int(month), int(day))


@converter.register_unstructure_hook
def dump_day(day: datetime.date) -> str:
    return f"{day.day}.{day.month}.{day.year}"


@attrs.frozen
class Order:
    price: Money
    at: list[Point]
    due: datetime.date


@attrs.frozen
class Deadline:
    due: datetime.date


server = Server("hooks", version="1.0", converter=converter)


@server.tool
async def order(order: Order, tip: Money | None = None) -> Order:
    return attrs.evolve(order, price=Money(order.price.cents + (tip.cents if tip else 0), order.price.currency))


@server.tool
async def ask(context: Context) -> str:
    outcome = await context.elicit(Deadline, "When?")
    return repr(outcome.value) if isinstance(outcome, ElicitationAccepted) else "no"


@server.prompt
async def remind(due: datetime.date) -> str:
    return f"Remember {due.isoformat()}"


@server.resource("days://{day}")
async def read_day(day: datetime.date) -> str:
    return day.isoformat()


EACH_REVISION: Final = pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
ORDER: Final[JsonObject] = {"price": "100 EUR", "at": [[1, 2], [3, 4]], "due": "28.7.2026"}


async def test_schema_is_that_of_annotations_of_hooks() -> None:
    async with open_in_memory(partial(serve_stream, server)) as client:
        (tool,) = [each for each in await client.list_tools() if each.name == "order"]
    properties = tool.input_schema["properties"]
    assert isinstance(properties, dict)
    integers: JsonObject = {"type": "integer"}
    point: JsonObject = {"type": "array", "prefixItems": [integers, integers], "minItems": 2, "maxItems": 2}
    assert properties["order"] == {
        "type": "object",
        "properties": {
            "price": {"type": "string", "pattern": "^[0-9]+ [A-Z]{3}$"},
            "at": {"type": "array", "items": point},
            "due": {"type": "string"},
        },
        "required": ["price", "at", "due"],
        "additionalProperties": False,
    }


async def text_after(client: Client, arguments: JsonObject) -> str:
    try:
        return (await client.call_tool("order", arguments, raise_on_error=False)).text
    except RequestFailed as error:
        return error.message


@EACH_REVISION
async def test_hooks_load_arguments_and_dump_results(revision: Revision) -> None:
    async with open_in_memory(partial(serve_stream, server), revisions=[revision]) as client:
        result = await client.call_tool("order", {"order": ORDER, "tip": "5 EUR"}, returns=dict[str, object])
        assert result.data == {**ORDER, "price": "105 EUR"}
        assert "28.7.2026" in result.text
        assert "2026-07-28" in str(await client.get_prompt("remind", {"due": "28.7.2026"}))
        assert "2026-07-28" in str(await client.read_resource("days://28.7.2026"))


@EACH_REVISION
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"price": 5}, "order.price: expected a string"),
        ({"price": "5"}, "order.price: expected a string"),
        ({"price": "5 XXX"}, "order.price: expected a string"),
        ({"price": "5 XXX"}, "there is no currency XXX"),
        ({"price": "5 ZZZ"}, "which a validator did not accept"),
        ({"at": [[1, 2], [3, "4"]]}, "order.at[1][1]: expected an integer"),
        ({"at": [[1]]}, "order.at[0]: expected an array"),
        ({"due": "2026-07-28"}, "order.due: expected a string for date: "),
    ],
)
async def test_value_that_hook_rejects_names_its_path(revision: Revision, change: JsonObject, problem: str) -> None:
    async with open_in_memory(partial(serve_stream, server), revisions=[revision]) as client:
        text = await text_after(client, {"order": {**ORDER, **change}})
    assert problem in text
    assert "hunter2" not in text


async def test_hooks_load_forms() -> None:
    async def elicit(form: ElicitRequestFormParams) -> dict[str, object]:
        assert form.requested_schema.properties["due"] == StringSchema()
        return {"due": "28.7.2026"}

    async with open_in_memory(
        partial(serve_stream, server), revisions=[R2025_11_25], handlers=Handlers(elicit=elicit)
    ) as client:
        assert (await client.call_tool("ask")).text == "Deadline(due=datetime.date(2026, 7, 28))"


async def test_server_without_converter_keeps_its_own_forms() -> None:
    plain = Server("plain", version="1.0")

    @plain.tool
    async def add(due: datetime.date) -> datetime.date:
        return due

    async with open_in_memory(partial(serve_stream, plain)) as client:
        assert (await client.call_tool("add", {"due": "2026-07-28"}, returns=datetime.date)).data.month == 7
        with pytest.raises(ToolFailed, match="expected a date such as"):
            await client.call_tool("add", {"due": "28.7.2026"})


def test_hook_without_annotation_raises() -> None:
    bare = cattrs.Converter()
    bare.register_structure_hook(Money, lambda value, _: Money(value, "EUR"))

    def pay(amount: Money) -> None: ...

    with pytest.raises(RegistrationError, match=r"'amount': the hook of Money has no annotation .*; write 'def hook"):
        Server("bare", version="1.0", converter=bare).tool(pay)


def test_missing_unstructure_hook_raises() -> None:
    half = cattrs.Converter()
    half.register_structure_hook(load_money)

    def give() -> Money:
        return Money(1, "EUR")

    with pytest.raises(RegistrationError, match="no hook to use for Money; register an unstructure hook"):
        Server("half", version="1.0", converter=half).tool(give)
