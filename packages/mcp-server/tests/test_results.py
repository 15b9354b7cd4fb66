"""The conversion of return values of functions to tool results."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, List, Literal, NamedTuple, NotRequired, TypedDict  # noqa: UP035  # the old alias is supported

import attrs
import orjson
import pytest

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.schema.annotations import Function
from mcp_core.schema.type_spec import Param
from mcp_core.schema.validation import compile_schema
from mcp_core.types.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_core.types.tools import CallToolResult
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.features.results import Audio, File, Image, results


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclasses.dataclass
class Forecast:
    """The weather.

    Attributes:
        city: Where.
    """

    city: str
    degrees: float
    tags: list[str] = dataclasses.field(default_factory=list)
    made: int = dataclasses.field(default=7, init=False)


@attrs.frozen
class Point:
    x: int
    _y: int = 0


@dataclasses.dataclass
class Tree:
    children: list[Tree]


class Options(TypedDict):
    depth: int
    name: NotRequired[str]


class Pair(NamedTuple):
    first: int
    second: str = "b"


def function_returning(hint: object) -> Function:
    """Return a function with this return annotation."""

    def function() -> None: ...

    function.__annotations__["return"] = hint
    return function


OBJECTS: list[tuple[object, object, JsonObject]] = [
    (Forecast, Forecast("Rome", 20.5), {"city": "Rome", "degrees": 20.5, "tags": [], "made": 7}),
    (Point, Point(1, 2), {"x": 1, "y": 2}),
    (Options, {"depth": 1}, {"depth": 1}),
    (Options, {"depth": 1, "name": "n"}, {"depth": 1, "name": "n"}),
    (Pair, Pair(1), {"first": 1, "second": "b"}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict, {"a": datetime.date(2026, 7, 28)}, {"a": "2026-07-28"}),
    (dict[str, Point], {"a": Point(1)}, {"a": {"x": 1, "y": 0}}),
    (Tree, Tree([Tree([])]), {"children": [{"children": []}]}),
    (JsonObject, {"a": [None]}, {"a": [None]}),
]
WRAPPED: list[tuple[object, object, JsonValue]] = [
    (int, 3, 3),
    (float, 2.5, 2.5),
    (float, 2, 2),
    (bool, True, True),
    (list[int], [1, 2], [1, 2]),
    (list[str], ["a"], ["a"]),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (list[Forecast], [Forecast("R", 1.0)], [{"city": "R", "degrees": 1.0, "tags": [], "made": 7}]),
    (Forecast | None, None, None),
    (int | str, "a", "a"),
    (int | None, 4, 4),
    (list[Point | None], [None, Point(1)], [None, {"x": 1, "y": 0}]),
    (Annotated[int, Param(description="how many")], 3, 3),
]
TEXTS: list[tuple[object, object, str]] = [
    (str, "a", "a"),
    (Level, Level.LOW, "low"),
    (Literal["x", "y"], "y", "y"),
    (datetime.date, datetime.date(2026, 7, 28), "2026-07-28"),
    (str | None, "a", "a"),
]


@pytest.mark.spec("tools.output-schema-conformance", "tools.structured-text-fallback", "tools.structured-also-text")
@pytest.mark.parametrize(("hint", "value", "expected"), OBJECTS)
def test_object_result_is_structured_and_text(hint: object, value: object, expected: JsonObject) -> None:
    converter = results(function_returning(hint))
    result = converter.to_result(value)
    assert result.structured_content == expected
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert orjson.loads(block.text) == expected
    assert converter.output_schema is not None
    assert converter.output_schema["type"] == "object"
    assert compile_schema(converter.output_schema).validate(expected) == ()


@pytest.mark.spec("schema.structured-content", "tools.structured-nonobject-text")
@pytest.mark.parametrize(("hint", "value", "expected"), WRAPPED)
def test_non_object_result_is_wrapped(hint: object, value: object, expected: JsonValue) -> None:
    converter = results(function_returning(hint))
    result = converter.to_result(value)
    assert result.structured_content == {"result": expected}
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert orjson.loads(block.text) == {"result": expected}
    assert converter.output_schema is not None
    assert converter.output_schema["type"] == "object"
    assert compile_schema(converter.output_schema).validate({"result": expected}) == ()


@pytest.mark.parametrize(("hint", "value", "text"), TEXTS)
def test_string_result_is_text_only(hint: object, value: object, text: str) -> None:
    converter = results(function_returning(hint))
    assert converter.output_schema is None
    assert converter.to_result(value) == CallToolResult(content=(TextContent(text=text),))


def test_none_result_has_no_content() -> None:
    assert results(function_returning(None)).to_result(None) == CallToolResult(content=())
    assert results(function_returning(str | None)).to_result(None) == CallToolResult(content=())


def test_output_schema_requires_members_that_are_always_present() -> None:
    schema = results(function_returning(Forecast)).output_schema
    assert schema == {
        "description": "The weather.",
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "degrees": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "made": {"type": "integer"},
        },
        "required": ["city", "degrees", "tags", "made"],
    }
    options = results(function_returning(Options)).output_schema
    assert options is not None
    assert options["required"] == ["depth"]


IMAGE = ImageContent(data=base64.b64encode(b"png").decode(), mime_type="image/png")
LINK = ResourceLink(uri="a://b", name="b")


def unannotated():  # type: ignore[no-untyped-def]  # noqa: ANN201  # the tested case
    """Return any value."""


@pytest.mark.spec("schema.content-block-types", "schema.base64-data")
@pytest.mark.parametrize(
    ("hint", "value", "content"),
    [
        (Image, Image(b"png"), (IMAGE,)),
        (Audio, Audio(b"wav"), (AudioContent(data=base64.b64encode(b"wav").decode(), mime_type="audio/wav"),)),
        (ImageContent, IMAGE, (IMAGE,)),
        (ContentBlock, LINK, (LINK,)),
        (list[ContentBlock], [LINK, IMAGE], (LINK, IMAGE)),
        (list[str | Image], ["a", Image(b"png"), 3], (TextContent(text="a"), IMAGE, TextContent(text="3"))),
        (tuple[str, Image], ("a", Image(b"png")), (TextContent(text="a"), IMAGE)),
        (Sequence[Image], [Image(b"png")], (IMAGE,)),
        (Iterable[Image], [Image(b"png")], (IMAGE,)),
        (Image | None, None, ()),
        *[
            (hint, [LINK, Image(b"png"), "a"], (LINK, IMAGE, TextContent(text="a")))
            for hint in (list, List, list[Any], list[object], Sequence, Sequence[Any], Iterable, list | None)  # noqa: UP006
        ],
        (tuple, (LINK, IMAGE), (LINK, IMAGE)),
        (tuple[Any, ...], (LINK, IMAGE), (LINK, IMAGE)),
        (tuple[Any, object], (LINK, IMAGE), (LINK, IMAGE)),
        (list, [], (TextContent(text="[]"),)),
        (list, [1, {"a": Level.LOW}, (1.5, None)], (TextContent(text='[1,{"a":"low"},[1.5,null]]'),)),
        (object, {"a": Point(1)}, (TextContent(text='{"a":{"x":1,"y":0}}'),)),
        (object, [1, 2], (TextContent(text="[1,2]"),)),
        (object, "text", (TextContent(text="text"),)),
        (Any, 1.5, (TextContent(text="1.5"),)),
        (Forecast | CallToolResult, Point(1), (TextContent(text='{"x":1,"y":0}'),)),
    ],
)
def test_content_result_has_no_output_schema(hint: object, value: object, content: tuple[ContentBlock, ...]) -> None:
    converter = results(function_returning(hint))
    assert converter.output_schema is None
    assert converter.to_result(value) == CallToolResult(content=content)


def test_function_without_annotation_returns_text() -> None:
    converter = results(unannotated)
    assert converter.output_schema is None
    assert converter.to_result([Level.LOW]).content == (TextContent(text='["low"]'),)


@pytest.mark.spec("tools.embedded-resource", "tools.embedded-resources")
def test_bytes_result_is_embedded_resource() -> None:
    (block,) = results(function_returning(bytes)).to_result(b"\x00\xff").content
    assert isinstance(block, EmbeddedResource)
    assert block.resource == BlobResourceContents(
        uri="attachment:/result", blob="AP8=", mime_type="application/octet-stream"
    )


def test_call_tool_result_is_unchanged() -> None:
    result = CallToolResult(content=(), structured_content={"a": 1}, is_error=True)
    for hint in (CallToolResult, int, str, Forecast, None):
        assert results(function_returning(hint)).to_result(result) is result


def test_media_are_read_from_path(tmp_path: Path) -> None:
    file = tmp_path / "a b.jpg"
    file.write_bytes(b"jpeg")
    assert Image(path=file).to_content() == ImageContent(data="anBlZw==", mime_type="image/jpeg")
    assert Audio(path=str(file), mime_type="audio/x").to_content() == AudioContent(data="anBlZw==", mime_type="audio/x")
    assert File(path=file).to_content().resource == BlobResourceContents(
        uri="attachment:/a%20b.jpg", blob="anBlZw==", mime_type="image/jpeg"
    )


def test_text_file_is_text_resource() -> None:
    block = File("hello", name="a.md", uri="note://1", mime_type="text/markdown").to_content()
    assert block.resource == TextResourceContents(uri="note://1", text="hello", mime_type="text/markdown")
    assert File("hello").to_content().resource == TextResourceContents(
        uri="attachment:/result", text="hello", mime_type="text/plain"
    )


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_media_without_data_or_path_raise(kind: type[Image]) -> None:
    with pytest.raises(ValueError, match="either data or path"):
        kind()
    with pytest.raises(ValueError, match="either data or path"):
        kind(b"x", path="y")


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (Forecast, None, "an object (Forecast), got None"),
        (Forecast, Forecast("R", "hot"), "degrees: expected a number, got a value of type str"),  # type: ignore[arg-type]  # the tested case
        (int, "3", "an integer, got a value of type str"),
        (bool, 1, "a bool, got a value of type int"),
        (str, None, "a string, got None"),
        (None, 1, "None, got a value of type int"),
        (float, float("nan"), "a finite number, got nan"),
        (float, "x", "a number"),
        (list[int], [1, "x"], "[1]: expected an integer"),
        (list[int], "12", "a list"),
        (dict[str, int], {"a": None}, "a: expected an integer, got None"),
        (dict[str, int], [], "a dict"),
        (tuple[int, int], (1,), "a tuple of 2 items"),
        (tuple[int, int], (1, "x"), "[1]: expected"),
        (Options, {}, "depth: expected an integer, got nothing"),
        (Level, "low", "one of"),
        (Literal["a"], [], "one of"),
        (datetime.date, "2026", "a date"),
        (int | None, "x", "an integer or null"),
        (Point | Forecast, Pair(1), "got a value of type Pair"),
        (Forecast | None, Forecast("R", "hot"), "degrees"),  # type: ignore[arg-type]  # the tested case
        (object, object(), "a value that JSON can represent"),
        (object, [1j, 1j], "a value that JSON can represent"),
        (decimal.Decimal, decimal.Decimal("NaN"), "a finite Decimal"),
        (dict, {"a": {1: 2}}, "a.1: expected a string"),
        (Annotated[int, Param(minimum=3)], 2, "at least 3"),
    ],
)
def test_result_not_matching_annotation_raises_with_function_name(hint: object, value: object, message: str) -> None:
    with pytest.raises(InvalidResult) as caught:
        results(function_returning(hint)).to_result(value)
    assert message in str(caught.value)
    assert "returning.<locals>.function" in str(caught.value)


def test_recursive_value_raises() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InvalidResult, match="contains itself"):
        results(function_returning(list)).to_result(loop)


def test_values_of_unknown_type_are_serialized_alike() -> None:
    (block,) = results(function_returning(list)).to_result([Point(1), Point(2)]).content
    assert block == TextContent(text='[{"x":1,"y":0},{"x":2,"y":0}]')


def test_large_integer_and_lone_surrogate_results_are_accepted() -> None:
    assert results(function_returning(int)).to_result(10**30).content == (
        TextContent(text='{"result":' + "1" + "0" * 30 + "}"),
    )
    (block,) = results(function_returning(list[str])).to_result(["\ud800"]).content
    assert block == TextContent(text='{"result":["\\ud800"]}')


@pytest.mark.parametrize(
    "hint", [Path.open, type, complex, set[list[int]], dict[float, int], "Unknown" + "Class", range]
)
def test_unsupported_return_annotation_raises(hint: object) -> None:
    with pytest.raises(RegistrationError, match="the return annotation"):
        results(function_returning(hint))


def test_callable_without_signature_returns_text() -> None:
    assert results(min).to_result(3).content == (TextContent(text="3"),)
