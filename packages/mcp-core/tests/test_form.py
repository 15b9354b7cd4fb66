"""Elicitation forms from classes, and instances from the content of results."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import pytest

from mcp_core.conversion.converter import converter
from mcp_core.errors import LocalProtocolError, UnsupportedType
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_06_18
from mcp_core.schema.form import form_schema
from mcp_core.schema.type_spec import InvalidArguments, Param
from mcp_core.types.elicitation import (
    BooleanSchema,
    ElicitRequestFormParams,
    EnumItems,
    EnumOption,
    LegacyTitledEnumSchema,
    NumberSchema,
    RequestedSchema,
    StringSchema,
    TitledEnumItems,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
)

if TYPE_CHECKING:
    from nowhere import Absent  # type: ignore[import-not-found]  # the tested mistake


class Color(enum.Enum):
    DARK_RED = "red"
    BLUE = "blue"


OPTIONS = (EnumOption(const="red", title="Dark red"), EnumOption(const="blue", title="Blue"))


@dataclasses.dataclass
class Booking:
    """A booking.

    Attributes:
        name: The guest.
    """

    name: Annotated[str, Param(title="Name", min_length=1, max_length=40)]
    mail: Annotated[str, Param(format="email")]
    people: Annotated[int, Param(minimum=1, maximum=8)] = 2
    budget: float | None = None
    window: bool = True
    day: datetime.date = datetime.date(2026, 7, 28)
    at: datetime.datetime | None = None
    color: Color = Color.BLUE
    menu: Literal["a", "b"] = "a"


@dataclasses.dataclass
class MultiSelect:
    colors: Annotated[list[Color], Param(min_length=1, max_length=2, description="which")]
    menus: frozenset[Literal["a", "b"]] = frozenset({"a"})


class TypedDictForm(TypedDict):
    a: int
    b: NotRequired[str]


class NamedTupleForm(NamedTuple):
    a: int


@attrs.frozen
class ValidatedForm:
    a: int = attrs.field(validator=attrs.validators.ge(0))


@pytest.mark.spec("elicitation.form-schema-required", "elicitation.form-schema-flat", "elicitation.string-formats")
def test_class_becomes_form() -> None:
    form = form_schema(Booking)
    assert form.schema == RequestedSchema(
        properties={
            "name": StringSchema(title="Name", description="The guest.", min_length=1, max_length=40),
            "mail": StringSchema(format="email"),
            "people": NumberSchema(type="integer", minimum=1, maximum=8, default=2),
            "budget": NumberSchema(type="number"),
            "window": BooleanSchema(default=True),
            "day": StringSchema(format="date", default="2026-07-28"),
            "at": StringSchema(format="date-time"),
            "color": TitledSingleSelectEnumSchema(one_of=OPTIONS, default="blue"),
            "menu": UntitledSingleSelectEnumSchema(enum=("a", "b"), default="a"),
        },
        required=("name", "mail"),
    )


@pytest.mark.spec("elicitation.enum-names-legacy")
def test_choice_titles_use_enum_names_only_in_legacy_schema() -> None:
    legacy = form_schema(Booking).legacy_schema
    assert legacy.properties["color"] == LegacyTitledEnumSchema(
        enum=("red", "blue"), enum_names=("Dark red", "Blue"), default="blue"
    )
    assert not any(
        isinstance(field, LegacyTitledEnumSchema) for field in form_schema(Booking).schema.properties.values()
    )


def test_field_unsupported_by_revision_is_named_in_error() -> None:
    @attrs.frozen
    class MixedForm:
        color: Color
        menus: frozenset[Literal["a", "b"]]

    params = ElicitRequestFormParams(message="?", requested_schema=form_schema(MixedForm).legacy_schema)
    with pytest.raises(LocalProtocolError, match=r"properties\.menus"):
        converter(R2025_06_18).unstructure(params)


def test_multi_select_fields_have_no_legacy_form() -> None:
    form = form_schema(MultiSelect)
    assert form.schema.properties == {
        "colors": TitledMultiSelectEnumSchema(
            items=TitledEnumItems(any_of=OPTIONS), description="which", min_items=1, max_items=2
        ),
        "menus": UntitledMultiSelectEnumSchema(items=EnumItems(enum=("a", "b")), default=("a",)),
    }
    assert form.legacy_schema == form.schema
    assert form.load({"colors": ("red",), "menus": ["b"]}) == MultiSelect([Color.DARK_RED], frozenset({"b"}))


@pytest.mark.spec("elicitation.server-validates-content")
def test_content_becomes_instance() -> None:
    content: JsonObject = {
        "name": "n",
        "mail": "m@x",
        "people": 3,
        "budget": 1,
        "day": "2026-01-02",
        "color": "red",
        "at": None,
    }
    assert form_schema(Booking).load(content) == Booking(
        "n", "m@x", 3, 1.0, day=datetime.date(2026, 1, 2), color=Color.DARK_RED
    )
    assert form_schema(TypedDictForm).load({"a": 1}) == {"a": 1}
    assert form_schema(TypedDictForm).schema.required == ("a",)
    assert form_schema(NamedTupleForm).load({"a": 1}) == NamedTupleForm(1)


@pytest.mark.spec("elicitation.server-validates-content")
def test_invalid_content_raises_with_all_problems() -> None:
    with pytest.raises(InvalidArguments) as caught:
        form_schema(Booking).load({"name": "", "people": 9, "color": "green", "more": 1})
    assert [problem.path for problem in caught.value.problems] == ["name", "mail", "people", "color", "more"]
    with pytest.raises(InvalidArguments, match="valid values"):
        form_schema(ValidatedForm).load({"a": -1})


@pytest.mark.parametrize(
    ("kind", "field", "answer", "value"),
    [
        (bool, BooleanSchema(), True, True),
        (str, StringSchema(), "a", "a"),
        (int, NumberSchema(type="integer"), 3, 3),
        (float, NumberSchema(type="number"), 3, 3.0),
        (datetime.date, StringSchema(format="date"), "2026-07-28", datetime.date(2026, 7, 28)),
        (Color, TitledSingleSelectEnumSchema(one_of=OPTIONS), "red", Color.DARK_RED),
        (Literal["a"], UntitledSingleSelectEnumSchema(enum=("a",)), "a", "a"),
        (list[Color], TitledMultiSelectEnumSchema(items=TitledEnumItems(any_of=OPTIONS)), ["blue"], [Color.BLUE]),
        (Annotated[str, "who"], StringSchema(description="who"), "a", "a"),
    ],
)
def test_single_type_becomes_form_with_one_field(kind: object, field: object, answer: str, value: object) -> None:
    form = form_schema(kind)
    assert form.schema == RequestedSchema(properties={"value": field}, required=("value",))  # type: ignore[dict-item]  # of any kind
    assert form.load({"value": answer}) == value


def make_form(hint: object, *default: object) -> type:
    """Return a class with one field."""
    return dataclasses.make_dataclass(
        "With", [("x", hint, dataclasses.field(default=default[0]))] if default else [("x", hint)]
    )


class Numbers(enum.Enum):
    ONE = 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (make_form(Booking), "an object (Booking)"),
        (make_form(list[int]), "a list of an integer"),
        (make_form(list[str]), "a list of a string"),
        (make_form(dict[str, int]), "an object"),
        (make_form(bytes), "bytes in base64"),
        (make_form(int | str), "an integer or a string"),
        (make_form(int | str | None, None), "a union"),
        (make_form(Numbers), "must be strings"),
        (make_form(Annotated[str, Param(format="ipv4")]), "'ipv4'"),
        (make_form(int, "x"), "the default does not match the type"),
        (make_form("Absent"), "Absent"),
        (make_form(complex), "complex"),
    ],
)
def test_form_not_flat_raises(kind: type, words: str) -> None:
    with pytest.raises(UnsupportedType, match="form With, field 'x'") as caught:
        form_schema(kind)
    assert words in str(caught.value)


class Unknown(TypedDict):
    x: Absent


def test_form_unresolved_annotation_raises() -> None:
    with pytest.raises(UnsupportedType, match="Absent"):
        form_schema(Unknown)
