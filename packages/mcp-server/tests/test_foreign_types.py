"""Types and metadata of pydantic, msgspec and annotated_types as parameters, results and forms."""

# mypy: disable-error-code="explicit-any"
# The constructor of a pydantic model takes values of any type.

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final, Generic, Literal, TypeVar

import annotated_types
import attrs
import jsonschema
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
import typing_extensions
from pydantic import BaseModel, Field

from mcp_client import Client
from mcp_client.testing import open_in_memory
from mcp_core.errors import RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2024_11_05, R2025_03_26, REVISIONS, Revision
from mcp_core.schema.annotations import Scope
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.form import form_schema
from mcp_core.schema.type_spec import Mismatch
from mcp_core.types import TextContent
from mcp_server import Param, RegistrationError, Server, serve_stream
from mcp_server.schema.signature import InvalidArguments, parameters

T = TypeVar("T")


class Address(BaseModel):
    street: str
    number: int = Field(ge=1)


class Customer(BaseModel):
    name: str = Field(min_length=1, description="The full name.")
    address: Address
    born: datetime.date | None = None
    referred_by: Customer | None = None


@pydantic.dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Parcel(msgspec.Struct):
    weight: Annotated[float, msgspec.Meta(gt=0)]
    tags: list[str] = []
    inside: Parcel | None = None


class Box(msgspec.Struct, Generic[T]):
    content: T


class Pair(BaseModel, Generic[T]):
    first: T
    second: T


def problems(function: object, arguments: dict[str, object]) -> list[str]:
    with pytest.raises(InvalidArguments) as caught:
        parameters(function).bind(arguments)  # type: ignore[arg-type]  # JSON
    return [str(problem) for problem in caught.value.problems]


def bound(function: object, arguments: dict[str, object]) -> dict[str, object]:
    return parameters(function).bind(arguments)  # type: ignore[arg-type]  # JSON


# --- metadata --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "keywords", "good", "bad", "expected"),
    [
        (annotated_types.Ge(1), {"minimum": 1}, 1, 0, "an integer, at least 1"),
        (annotated_types.Gt(1), {"exclusiveMinimum": 1}, 2, 1, "an integer, greater than 1"),
        (annotated_types.Le(3), {"maximum": 3}, 3, 4, "an integer, at most 3"),
        (annotated_types.Lt(3), {"exclusiveMaximum": 3}, 2, 3, "an integer, less than 3"),
        (annotated_types.MultipleOf(5), {"multipleOf": 5}, 10, 7, "an integer, a multiple of 5"),
        (
            annotated_types.Interval(ge=1, lt=9),
            {"minimum": 1, "exclusiveMaximum": 9},
            8,
            9,
            "an integer, at least 1, less than 9",
        ),
        (Field(ge=1), {"minimum": 1}, 1, 0, "an integer, at least 1"),
        (
            Field(gt=1, multiple_of=2),
            {"exclusiveMinimum": 1, "multipleOf": 2},
            2,
            3,
            "an integer, greater than 1, a multiple of 2",
        ),
        (msgspec.Meta(le=3), {"maximum": 3}, 3, 4, "an integer, at most 3"),
        (Param(exclusive_minimum=0), {"exclusiveMinimum": 0}, 1, 0, "an integer, greater than 0"),
    ],
)
def test_bounds_of_metadata_are_schema_and_check(
    mark: object, keywords: dict[str, object], good: int, bad: int, expected: str
) -> None:
    def tool(days: int) -> None: ...

    tool.__annotations__["days"] = Annotated[int, mark]
    assert parameters(tool).schema["properties"] == {"days": {"type": "integer", **keywords}}
    assert bound(tool, {"days": good}) == {"days": good}
    assert problems(tool, {"days": bad}) == [f"days: expected {expected}, got {bad}"]


@pytest.mark.parametrize(
    ("mark", "keywords", "good", "bad"),
    [
        (annotated_types.Len(1, 3), {"minLength": 1, "maxLength": 3}, "abc", "abcd"),
        (annotated_types.MinLen(2), {"minLength": 2}, "ab", "a"),
        (annotated_types.MaxLen(2), {"maxLength": 2}, "ab", "abc"),
        (Field(pattern="^a+$"), {"pattern": "^a+$"}, "aa", "b"),
        (Field(min_length=1, max_length=2), {"minLength": 1, "maxLength": 2}, "a", ""),
        (msgspec.Meta(pattern="^a", min_length=2), {"pattern": "^a", "minLength": 2}, "ab", "a"),
    ],
)
def test_lengths_and_patterns_of_metadata_are_schema_and_check(
    mark: object, keywords: dict[str, object], good: str, bad: str
) -> None:
    def tool(name: str) -> None: ...

    tool.__annotations__["name"] = Annotated[str, mark]
    assert parameters(tool).schema["properties"] == {"name": {"type": "string", **keywords}}
    assert bound(tool, {"name": good}) == {"name": good}
    assert len(problems(tool, {"name": bad})) == 1


@pytest.mark.parametrize(
    "mark",
    [
        Field(description="How many.", title="Days", examples=[1]),
        msgspec.Meta(description="How many.", title="Days", examples=[1]),
        Param(description="How many.", title="Days", examples=(1,)),
    ],
    ids=["pydantic", "msgspec", "Param"],
)
def test_texts_of_metadata_are_in_schema(mark: object) -> None:
    def tool(days: int) -> None: ...

    tool.__annotations__["days"] = Annotated[int, mark]
    expected = {"type": "integer", "title": "Days", "description": "How many.", "examples": [1]}
    assert parameters(tool).schema["properties"] == {"days": expected}


def test_doc_of_metadata_is_description() -> None:
    def tool(days: Annotated[int, typing_extensions.Doc("How many.")]) -> None: ...

    assert parameters(tool).schema["properties"] == {"days": {"type": "integer", "description": "How many."}}


@pytest.mark.parametrize(
    ("mark", "named"),
    [
        (annotated_types.Predicate(str.islower), "has no counterpart in JSON Schema"),
        (annotated_types.Timezone(None), "has no counterpart in JSON Schema"),
        (object(), "the metadata of the class object has no counterpart"),
        (7, "the metadata 7 has no counterpart"),
        (Field(strict=True), "strict"),
        (Field(json_schema_extra={"a": 1}), "json_schema_extra"),
        (msgspec.Meta(tz=True), "tz"),
        (msgspec.Meta(extra_json_schema={"a": 1}), "extra_json_schema"),
        (annotated_types.Ge(datetime.date(2026, 1, 1)), "minimum must be a finite number"),
        (annotated_types.MultipleOf(0), "multiple_of must be greater than 0"),
        (annotated_types.Interval(gt=3, lt=3), "no value can be"),
    ],
)
def test_metadata_without_counterpart_rejected_with_place(mark: object, named: str) -> None:
    def tool(days: int) -> None: ...

    tool.__annotations__["days"] = Annotated[int, mark]
    with pytest.raises(RegistrationError, match=named) as caught:
        parameters(tool)
    assert "parameter 'days'" in str(caught.value)
    assert "test_foreign_types.py:" in str(caught.value)


def test_multiple_of_decimal_fraction_is_exact() -> None:
    def tool(price: Annotated[float, Field(multiple_of=0.1)]) -> None: ...

    assert bound(tool, {"price": 0.3}) == {"price": 0.3}
    assert problems(tool, {"price": 0.35}) == ["price: expected a number, a multiple of 0.1, got 0.35"]


# --- pydantic.Field as the default of a parameter -----------------------------------------------------------------------


def test_field_as_default_supplies_default_bounds_and_alias() -> None:
    def tool(
        days: int = Field(3, ge=1, description="How many."),
        city: str = Field(alias="in"),
        tags: list[str] = Field(default_factory=list),  # noqa: B008  # the subject of the test
    ) -> None: ...

    read = parameters(tool)
    assert read.schema["properties"] == {
        "days": {"type": "integer", "minimum": 1, "description": "How many.", "default": 3},
        "in": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    assert read.schema["required"] == ["in"]
    assert read.bind({"in": "Ghent"}) == {"days": 3, "city": "Ghent", "tags": []}
    assert read.bind({"in": "Ghent", "days": 5, "tags": ["a"]}) == {"days": 5, "city": "Ghent", "tags": ["a"]}
    assert read.bind({"in": "Ghent"})["tags"] is not read.bind({"in": "Ghent"})["tags"]


def test_default_of_field_is_not_shared_by_calls() -> None:
    def tool(tags: list[str] = Field(["a"])) -> None: ...  # noqa: B008  # the subject of the test

    read = parameters(tool)
    first = read.bind({})["tags"]
    assert isinstance(first, list)
    first.append("b")
    assert read.bind({}) == {"tags": ["a"]}


def test_field_in_annotated_with_default_of_python() -> None:
    def tool(days: Annotated[int, Field(ge=1, alias="d")] = 3) -> None: ...

    read = parameters(tool)
    assert read.schema["properties"] == {"d": {"type": "integer", "minimum": 1, "default": 3}}
    assert read.bind({}) == {}
    assert read.bind({"d": 4}) == {"days": 4}


def test_alias_inside_of_other_type_rejected() -> None:
    def tool(days: list[Annotated[int, Field(alias="d")]]) -> None: ...

    with pytest.raises(RegistrationError, match="alias"):
        parameters(tool)


# --- models ----------------------------------------------------------------------------------------------------------


def test_pydantic_model_as_parameter_is_validated_by_itself() -> None:
    def tool(customer: Customer) -> None: ...

    value = {"name": "Ada", "address": {"street": "A", "number": 1}, "born": "1815-12-10", "referred_by": None}
    made = bound(tool, {"customer": value})["customer"]
    expected = Customer(name="Ada", address=Address(street="A", number=1), born=datetime.date(1815, 12, 10))
    assert made == expected
    assert problems(tool, {"customer": {"name": "", "address": {"street": 1, "number": 0}}}) == [
        'customer.name: expected a value: String should have at least 1 character, got the string ""',
        "customer.address.street: expected a valid string, got 1",
        "customer.address.number: expected greater than or equal to 1, got 0",
    ]
    assert problems(tool, {"customer": {"name": "Ada"}}) == [
        "customer.address: expected a value, because it is required, got nothing"
    ]


def test_model_with_many_problems_counts_them() -> None:
    class Numbers(BaseModel):
        numbers: list[int]

    def tool(numbers: Numbers) -> None: ...

    tool.__annotations__["numbers"] = Numbers
    assert problems(tool, {"numbers": {"numbers": ["x"] * 50_000}}) == [
        "numbers: expected an object (Numbers), got a value with 50,000 problems"
    ]


def test_struct_as_parameter_is_validated_by_itself() -> None:
    def tool(parcel: Parcel) -> None: ...

    value = {"weight": 1.5, "tags": ["a"], "inside": {"weight": 1}}
    assert bound(tool, {"parcel": value}) == {"parcel": Parcel(1.5, ["a"], Parcel(1))}
    assert problems(tool, {"parcel": {"weight": 1, "tags": ["a", 7]}}) == ["parcel.tags[1]: expected str, got 7"]
    assert problems(tool, {"parcel": {"weight": 0}}) == ["parcel.weight: expected float > 0.0, got 0"]
    assert problems(tool, {"parcel": {}}) == ["parcel.weight: expected a value, because it is required, got nothing"]


@pytest.mark.parametrize("kind", [list[Customer], Customer | None, dict[str, Customer], tuple[Customer, Point]])
def test_model_within_other_type_has_complete_schema(kind: object) -> None:
    def tool(value: object) -> None: ...

    tool.__annotations__["value"] = kind
    schema = parameters(tool).schema
    names = set(schema.get("$defs", ()))  # type: ignore[arg-type]  # an object
    assert "Customer" in names  # it contains itself
    assert all(reference.removeprefix("#/$defs/") in names for reference in references(schema))


def references(node: object) -> list[str]:
    if isinstance(node, list):
        return [found for each in node for found in references(each)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for each in node.values() for found in references(each)]


def test_generic_models_are_types_of_their_arguments() -> None:
    def tool(box: Box[int], pair: Pair[str]) -> None: ...

    made = bound(tool, {"box": {"content": 1}, "pair": {"first": "a", "second": "b"}})
    assert made == {"box": Box(1), "pair": Pair[str](first="a", second="b")}
    assert len(problems(tool, {"box": {"content": "1"}, "pair": {"first": 1, "second": "b"}})) == 2


def test_pydantic_dataclass_is_pydantic_model() -> None:
    def tool(point: Point) -> None: ...

    assert bound(tool, {"point": {"x": 1}}) == {"point": Point(1, 0)}
    assert problems(tool, {"point": {"x": "a"}}) == [
        'point.x: expected a valid integer, unable to parse string as an integer, got the string "a"'
    ]


def test_exception_of_validator_is_problem_of_argument() -> None:
    class Picky(BaseModel):
        name: str

        @pydantic.field_validator("name")
        @classmethod
        def check(cls, value: str) -> str:
            if value == "secret":
                raise RuntimeError("internal detail")
            return value

    def tool(picky: Picky) -> None: ...

    tool.__annotations__["picky"] = Picky
    found = problems(tool, {"picky": {"name": "secret"}})
    assert found == [
        "picky: expected an object (Picky), which a validator did not accept, got an object with the members name"
    ]
    assert "internal" not in found[0]


def test_attrs_class_and_model_have_equal_schemas_but_for_titles() -> None:
    @attrs.frozen
    class AttrsAddress:
        street: str
        number: Annotated[int, Param(minimum=1)]

    def with_attrs(address: AttrsAddress) -> None: ...

    def with_model(address: Address) -> None: ...

    with_attrs.__annotations__["address"] = AttrsAddress
    assert without_titles(parameters(with_attrs).schema) == without_titles(parameters(with_model).schema)


def without_titles(node: object) -> object:
    if isinstance(node, list):
        return [without_titles(each) for each in node]
    if not isinstance(node, dict):
        return node
    # A model accepts unknown members; another class does not.
    return {name: without_titles(each) for name, each in node.items() if name not in {"title", "additionalProperties"}}


@pytest.mark.parametrize("kind", ["model", "struct"])
def test_model_as_form_has_its_fields(kind: str) -> None:
    class Model(BaseModel):
        days: int = Field(ge=1, description="How many.")
        city: str = "Ghent"

        @pydantic.model_validator(mode="after")
        def check(self) -> Model:
            if self.city == "Nowhere":
                raise ValueError("there is no such city")
            return self

    class Struct(msgspec.Struct):
        days: Annotated[int, msgspec.Meta(ge=1, description="How many.")]
        city: str = "Ghent"

    read = form_schema(Model if kind == "model" else Struct)
    properties = read.schema.properties
    assert (properties["days"].minimum, properties["days"].description) == (1, "How many.")  # type: ignore[union-attr]  # a NumberSchema
    assert properties["city"].default == "Ghent"
    assert read.schema.required == ("days",)
    made = read.load({"days": 2})
    assert (made.days, made.city) == (2, "Ghent")  # type: ignore[attr-defined]  # either class
    with pytest.raises(InvalidArguments) as caught:
        read.load({"days": 0})
    assert [str(problem) for problem in caught.value.problems] == ["days: expected an integer, at least 1, got 0"]


@dataclass
class Wrapper:
    customer: Customer
    parcel: Parcel


def test_models_in_dataclass_are_read() -> None:
    def tool(wrapper: Wrapper) -> None: ...

    value = {"customer": {"name": "Ada", "address": {"street": "A", "number": 1}}, "parcel": {"weight": 2}}
    made = bound(tool, {"wrapper": value})["wrapper"]
    assert isinstance(made, Wrapper)
    assert made.parcel == Parcel(2)
    assert problems(tool, {"wrapper": {**value, "parcel": {"weight": "x"}}}) == [
        'wrapper.parcel.weight: expected float, got the string "x"'
    ]


@dataclass
class Receipt:
    customer: Customer
    parcel: Parcel
    at: datetime.datetime


# --- typing_extensions -------------------------------------------------------------------------------------------------


class Settings(typing_extensions.TypedDict):
    name: str
    size: typing_extensions.NotRequired[int]
    id: typing_extensions.ReadOnly[int]
    tag: typing_extensions.NotRequired[typing_extensions.ReadOnly[str]]


def test_typed_dict_of_typing_extensions_is_like_that_of_typing() -> None:
    def tool(settings: Settings) -> None: ...

    read = parameters(tool)
    assert read.schema["properties"] == {
        "settings": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "size": {"type": "integer"},
                "id": {"type": "integer"},
                "tag": {"type": "string"},
            },
            "required": ["name", "id"],
            "additionalProperties": False,
        }
    }
    assert read.bind({"settings": {"name": "a", "id": 1}}) == {"settings": {"name": "a", "id": 1}}


# --- containers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "schema", "value", "made"),
    [
        (deque[int], {"type": "array", "items": {"type": "integer"}}, [1, 2], deque([1, 2])),
        (
            dict[int, str],
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "propertyNames": {"pattern": "^(0|-?[1-9][0-9]{0,17})$"},
            },
            {"-7": "a", "0": "b"},
            {-7: "a", 0: "b"},
        ),
        (
            OrderedDict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"b": 1, "a": 2},
            OrderedDict(b=1, a=2),
        ),
        (Counter[str], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 2}, Counter(a=2)),
        (
            defaultdict[str, list[int]],
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
            {"a": [1]},
            defaultdict(list, a=[1]),
        ),
        (Counter, {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 2}, Counter(a=2)),
    ],
)
def test_container_is_read_and_written(kind: object, schema: object, value: object, made: object) -> None:
    def tool(x: object) -> None: ...

    tool.__annotations__["x"] = kind
    read = parameters(tool)
    assert read.schema["properties"] == {"x": schema}
    got = read.bind({"x": value})["x"]  # type: ignore[dict-item]  # JSON
    assert got == made
    assert type(got) is type(made)
    if isinstance(got, defaultdict):
        assert got["missing"] == []
    assert Compiler("test", output=True).spec(kind, Scope({}, {})).dump(made) == value


@pytest.mark.parametrize("name", ["a", "01", "-0", "1.0", "1" * 19, ""])
def test_member_that_is_no_integer_key_rejected(name: str) -> None:
    def tool(x: dict[int, str]) -> None: ...

    assert len(problems(tool, {"x": {name: "a"}})) == 1


# --- calls -----------------------------------------------------------------------------------------------------------

server = Server("shop", version="1.0")


@server.tool
def order(customer: Customer, parcel: Parcel, express: bool = Field(default=False, description="Tomorrow.")) -> Receipt:
    """Order a parcel."""
    return Receipt(customer=customer, parcel=parcel, at=datetime.datetime(2026, 7, 28, tzinfo=datetime.UTC))


@server.tool
def weigh(weights: list[float]) -> list[Parcel]:
    """Return a parcel for each weight."""
    return [Parcel(weight) for weight in weights]


@server.tool
def liar() -> Address:
    """Return another type than the annotation says."""
    return Parcel(1)  # type: ignore[return-value]  # the subject of a test


@server.prompt
def letter(days: Annotated[int, Field(ge=1)], city: str = Field("Ghent", description="Where to.")) -> str:
    """Write a letter."""
    return f"{days} days in {city}"


async def failure(client: Client, name: str, arguments: JsonObject) -> str:
    """Return the text of the error, which is a result since 2025-11-25."""
    try:
        result = await client.call_tool(name, arguments, raise_on_error=False)
    except RequestFailed as error:
        return str(error)
    assert result.is_error
    return str(result.content)


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_call_with_models_has_models_as_result(revision: Revision) -> None:
    async with open_in_memory(partial(serve_stream, server), revisions=[revision]) as client:
        customer: JsonObject = {"name": "Ada", "address": {"street": "A", "number": 1}}
        result = await client.call_tool("order", {"customer": customer, "parcel": {"weight": 2}})
        expected: JsonObject = {
            "customer": {**customer, "born": None, "referred_by": None},
            "parcel": {"weight": 2.0, "tags": [], "inside": None},
            "at": "2026-07-28T00:00:00+00:00",
        }
        (text,) = result.content
        assert isinstance(text, TextContent)
        assert json.loads(text.text) == expected
        if revision not in {R2024_11_05, R2025_03_26}:
            assert result.structured_content == expected
            (tool,) = [tool for tool in await client.list_tools() if tool.name == "order"]
            assert tool.output_schema is not None
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            jsonschema.validate(expected, tool.output_schema)
        problem = await failure(client, "order", {"customer": {"name": "Ada"}, "parcel": {"weight": 0}})
        assert "customer.address: expected a value, because it is required, got nothing" in problem
        assert "parcel.weight: expected float > 0.0, got 0" in problem
        result = await client.call_tool("weigh", {"weights": [1, 2]})
        assert "2.0" in str(result.content)
        assert (await client.call_tool("liar", {}, raise_on_error=False)).is_error
        assert "7 days in Ghent" in str(await client.get_prompt("letter", {"days": "7"}))


# --- classes with parameters -----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Crate(Generic[T]):
    item: T


@dataclasses.dataclass
class NumberBox(Crate[int]):
    label: str = ""


@dataclasses.dataclass
class NestedBox(Crate[list[T]], Generic[T]):
    """A class whose variable has the name of that of its base, and another meaning."""

    other: T


@dataclasses.dataclass
class Duration:
    seconds: float
    minutes: dataclasses.InitVar[int] = 0
    name: ClassVar[str] = "timed"

    def __post_init__(self, minutes: int) -> None:
        self.seconds += 60 * minutes


@dataclasses.dataclass
class Cat:
    kind: Literal["cat"]
    lives: int


@dataclasses.dataclass
class Dog:
    kind: Literal["dog", "puppy"]
    age: int


@dataclasses.dataclass
class Cage:
    animal: Cat | Dog


@pytest.mark.parametrize(
    ("hint", "value", "made"),
    [
        (NumberBox, {"item": 1, "label": "a"}, NumberBox(1, "a")),
        (NestedBox[int], {"item": [1], "other": 2}, NestedBox([1], 2)),
        (Duration, {"seconds": 1}, Duration(1)),
        (Duration, {"seconds": 1, "minutes": 2}, Duration(1, 2)),
        (Cage, {"animal": {"kind": "puppy", "age": 1}}, Cage(Dog("puppy", 1))),
    ],
)
def test_class_with_parameters_is_loaded(hint: object, value: JsonObject, made: object) -> None:
    assert Compiler("test").spec(hint, Scope({}, {})).load(value) == made


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (NumberBox, {"item": "1"}, 'item: expected an integer, got the string "1"'),
        (NestedBox[int], {"item": ["1"], "other": 1}, 'item[0]: expected an integer, got the string "1"'),
        (NestedBox[int], {"item": [], "other": "1"}, 'other: expected an integer, got the string "1"'),
        (Duration, {"seconds": 1, "minutes": "1"}, 'minutes: expected an integer, got the string "1"'),
        (
            Duration,
            {"seconds": 1, "name": "a"},
            "name: expected one of the names seconds, minutes, got an unknown name",
        ),
        (Cage, {"animal": {"kind": "cat", "lives": "9"}}, 'animal.lives: expected an integer, got the string "9"'),
        (Cage, {"animal": {"kind": "cow"}}, 'animal.kind: expected one of "cat", "dog", "puppy", got the string "cow"'),
        (Cage, {"animal": {"lives": 9}}, 'animal.kind: expected one of "cat", "dog", "puppy", got nothing'),
        (
            Cage,
            {"animal": {"kind": ["cat"]}},
            'animal.kind: expected one of "cat", "dog", "puppy", got an array of 1 items',
        ),
    ],
)
def test_class_with_parameters_names_problem(hint: object, value: JsonObject, problem: str) -> None:
    with pytest.raises(Mismatch) as caught:
        Compiler("test").spec(hint, Scope({}, {})).load(value)
    assert [str(each) for each in caught.value.problems()] == [problem]


def test_init_variable_is_not_a_member_of_results() -> None:
    assert Compiler("test", output=True).spec(Duration, Scope({}, {})).dump(Duration(1, 2)) == {"seconds": 121.0}


PEP_695: Final = """
from __future__ import annotations
import dataclasses
from mcp_server import Server

@dataclasses.dataclass
class Box[X]:
    item: X
    more: list[X]

@dataclasses.dataclass
class Numbers(Box[int]):
    pass

type Pair[X] = tuple[X, X]
type Tree = dict[str, Tree] | int

def identity[X: int](box: Box[str], numbers: Numbers, tree: Tree, value: X) -> X:
    return value
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695 is for Python 3.12")
def test_type_parameters_are_resolved() -> None:
    module = types.ModuleType("pep_695")
    sys.modules["pep_695"] = module
    exec(PEP_695, vars(module))
    compiled = parameters(module.identity, injected=())
    value: JsonObject = {"item": "a", "more": ["b"]}
    numbers: JsonObject = {"item": 1, "more": [2]}
    arguments: JsonObject = {"box": value, "numbers": numbers, "tree": {"a": {"b": 1}}, "value": 3}
    assert compiled.bind(arguments)["box"] == module.Box("a", ["b"])
    with pytest.raises(InvalidArguments, match=r"numbers\.more\[0\]: expected an integer"):
        compiled.bind({**arguments, "numbers": {"item": 1, "more": ["b"]}})
