from __future__ import annotations

import dataclasses
import datetime
import enum
from functools import partial
from typing import Final

import attrs
import jsonschema_rs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined, Handlers
from mcp_client.connection.elicitation import why_unfit
from mcp_client.testing import open_in_memory
from mcp_core.conversion.converter import converter
from mcp_core.errors import LocalProtocolError
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LATEST, R2025_11_25, R2026_07_28, Revision
from mcp_core.types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, RequestedSchema
from mcp_server import Context, Server, serve_stream

FIELDS: dict[str, JsonObject] = {
    "text": {"type": "string", "minLength": 2, "maxLength": 4},
    "free": {"type": "string"},
    "whole": {"type": "integer", "minimum": 1, "maximum": 5},
    "number": {"type": "number", "minimum": 0.5},
    "sure": {"type": "boolean"},
    "one": {"type": "string", "enum": ["a", "b"]},
    "named": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
    "several": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
}


def form(*names: str, required: tuple[str, ...] = ()) -> ElicitRequestFormParams:
    raw: JsonObject = {"type": "object", "properties": {name: FIELDS[name] for name in names}}
    schema = converter(LATEST).structure({**raw, "required": [*required]}, RequestedSchema)
    return ElicitRequestFormParams(message="Well?", requested_schema=schema)


def accepted(**content: object) -> ElicitResult:
    return ElicitResult(action="accept", content=content)  # type: ignore[arg-type]  # tests pass invalid content


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("text", "a", "text has fewer than 2 characters"),
        ("text", "abcde", "text has more than 4 characters"),
        ("text", 5, "text must be a string"),
        ("whole", 1.5, "whole must be an integer"),
        ("whole", 0, "whole is less than 1"),
        ("whole", 6, "whole is more than 5"),
        ("whole", True, "whole must be a number"),
        ("whole", "1", "whole must be a number"),
        ("sure", 1, "sure must be true or false"),
        ("one", "c", "one is not one of: a, b"),
        ("named", "A", "named is not one of: a, b"),
        ("titled", "A", "titled is not one of: a"),
        ("some", "a", "some must be a list of strings"),
        ("some", 1, "some must be a list of strings"),
        ("some", ("a", "c"), "some is not one of: a, b"),
        ("some", (), "some has fewer than 1 choices"),
        ("some", ("a", "b", "a"), "some has more than 2 choices"),
        ("several", ("b",), "several is not one of: a"),
    ],
)
@pytest.mark.spec("elicitation.client-validates", "elicitation.client-validates-content", "elicitation.validate-both")
def test_content_invalid_for_field_reported(name: str, value: object, problem: str) -> None:
    assert why_unfit(form(name), accepted(**{name: value})) == problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "ab"),
        ("text", "abcd"),
        ("whole", 1),
        ("whole", 5),
        ("whole", 2.0),
        ("number", 0.5),
        ("sure", False),
        ("one", "b"),
        ("some", ("a",)),
        ("some", ("a", "b")),
        ("several", ()),
    ],
)
def test_content_at_bounds_accepted(name: str, value: object) -> None:
    assert why_unfit(form(name), accepted(**{name: value})) is None


def test_content_required_field_missing_reported() -> None:
    assert why_unfit(form("text", "free", required=("free",)), accepted(text="ab")) == "free is missing"
    assert why_unfit(form("free", required=("free",)), ElicitResult(action="accept")) == "free is missing"
    assert why_unfit(form("free"), ElicitResult(action="accept")) is None


def test_content_not_checked_without_accept() -> None:
    for action in ("decline", "cancel"):
        assert why_unfit(form("free", required=("free",)), ElicitResult(action=action)) is None


@pytest.mark.spec("elicitation.url-accept-no-content", "elicitation.accept-url-no-content")
def test_content_of_url_mode_rejected() -> None:
    page = ElicitRequestURLParams(message="Pay.", url="https://example.com/")
    assert why_unfit(page, ElicitResult(action="accept")) is None
    assert why_unfit(page, accepted(paid=True)) == "a URL mode result must not have content"


VALUES: st.SearchStrategy[JsonValue] = st.one_of(
    st.text("ab", max_size=5), st.integers(-1, 7), st.floats(-1, 7), st.booleans(), st.lists(st.sampled_from("abc"))
)


@pytest.mark.property
@given(st.sampled_from(sorted(FIELDS)), VALUES)
def test_content_check_agrees_with_json_schema(name: str, value: JsonValue) -> None:
    given_value = tuple(value) if isinstance(value, list) else value
    is_valid = why_unfit(form(name), accepted(**{name: given_value})) is None
    assert is_valid == jsonschema_rs.is_valid(FIELDS[name], value)


# --- return values of handlers ---------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclasses.dataclass
class Booking:
    name: str
    on: datetime.date
    color: Color = Color.GREEN
    extras: list[Color] = dataclasses.field(default_factory=list)
    note: str | None = None


@attrs.frozen
class AttrsBooking:
    name: str
    on: datetime.date
    note: str | None = None


class ModelBooking(pydantic.BaseModel):  # type: ignore[explicit-any]  # pydantic's own annotations
    name: str
    on: datetime.date


DAY: Final = datetime.date(2026, 7, 28)
BOOKED: Final = "Booking(name='Ada', on=datetime.date(2026, 7, 28), color=<Color.GREEN: 'green'>, extras=[], note=None)"
BOTH_ERAS: Final = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)

server = Server("bookings", version="1.0")


@server.tool
async def book(context: Context) -> str:
    outcome = await context.elicit(Booking, "When?")
    return repr(outcome.value) if isinstance(outcome, ElicitationAccepted) else repr(outcome)


@server.tool
async def name(context: Context) -> str:
    return repr(await context.elicit(str, "Who?"))


@server.tool
async def visit(context: Context) -> str:
    return repr(await context.elicit_url("https://example.com/", "There?"))


async def text_after(answer: object, tool: str, revision: Revision) -> str:
    """Return the text of a tool whose elicitation a handler answers with this value."""

    async def handler(_: object) -> object:
        return answer

    handlers = Handlers(elicit=handler, elicit_url=handler)  # type: ignore[arg-type]  # tests return anything
    async with open_in_memory(partial(serve_stream, server), revisions=[revision], handlers=handlers) as client:
        return (await client.call_tool(tool)).text


@BOTH_ERAS
@pytest.mark.parametrize(
    ("answer", "received"),
    [
        ({"name": "Ada", "on": "2026-07-28"}, BOOKED),
        ({"name": "Ada", "on": DAY, "color": Color.GREEN, "extras": []}, BOOKED),
        (ElicitationAccepted({"name": "Ada", "on": "2026-07-28"}), BOOKED),
        (ElicitationAccepted(Booking("Ada", DAY)), BOOKED),
        (ElicitationAccepted(AttrsBooking("Ada", DAY)), BOOKED),
        (ElicitationAccepted(ModelBooking(name="Ada", on=DAY)), BOOKED),
        (ElicitResult(action="accept", content={"name": "Ada", "on": "2026-07-28"}), BOOKED),
        (
            ElicitationAccepted(Booking("Ada", DAY, Color.RED, [Color.RED, Color.GREEN], "late")),
            "Booking(name='Ada', on=datetime.date(2026, 7, 28), color=<Color.RED: 'red'>, extras=[<Color.RED: 'red'>,"
            " <Color.GREEN: 'green'>], note='late')",
        ),
        (ElicitationDeclined(), "ElicitationDeclined()"),
        (ElicitationCancelled(), "ElicitationCancelled()"),
        (ElicitResult(action="decline"), "ElicitationDeclined()"),
    ],
    ids=repr,
)
async def test_answer_of_handler_reaches_form(revision: Revision, answer: object, received: str) -> None:
    assert await text_after(answer, "book", revision) == received


@BOTH_ERAS
async def test_answer_with_single_value_reaches_form_and_page(revision: Revision) -> None:
    assert await text_after(ElicitationAccepted("Ada"), "name", revision) == "ElicitationAccepted(value='Ada')"
    assert await text_after({"value": "Ada"}, "name", revision) == "ElicitationAccepted(value='Ada')"
    assert await text_after(ElicitationAccepted(None), "visit", revision) == "ElicitationAccepted(value=None)"
    assert await text_after(ElicitationDeclined(), "visit", revision) == "ElicitationDeclined()"


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (True, TypeError, "must return ElicitationAccepted, ElicitationDeclined, .*, not bool"),
        ("accept", TypeError, "not str"),
        ({"name": "Ada"}, LocalProtocolError, "the elicitation result is invalid: on is missing"),
        (ElicitationAccepted(object()), LocalProtocolError, "the elicitation result is invalid: .*a bare object"),
        (ElicitationAccepted(5), LocalProtocolError, "the elicitation result is invalid: name is missing"),
        ({"name": "Ada", "on": complex(1)}, LocalProtocolError, r"invalid: on: .*complex"),
    ],
    ids=["bool", "string", "missing field", "object", "single value", "complex"],
)
async def test_answer_of_handler_invalid_raises(answer: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        await text_after(answer, "book", R2026_07_28)
