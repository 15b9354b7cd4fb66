from __future__ import annotations

import dataclasses
import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from mcp_client import InvalidToolOutput, ToolFailed
from mcp_client.features.tool_result import is_wrapped
from mcp_client.group import open_group
from mcp_client.testing import open_in_memory
from mcp_core.errors import LimitExceeded, UnsupportedType
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.revisions import R2024_11_05, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import CallToolResult, ImageContent, TextContent
from mcp_server import Server, ToolError, serve_stream

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_client import Client

server = Server("results", version="1.0")


@dataclasses.dataclass
class DataclassHit:
    title: str
    score: float
    on: datetime.date


@attrs.frozen
class AttrsHit:
    title: str
    score: float
    on: datetime.date


class ModelHit(pydantic.BaseModel):  # type: ignore[explicit-any]  # pydantic's own annotations
    title: str
    score: float
    on: datetime.date


class StructHit(msgspec.Struct):
    title: str
    score: float
    on: datetime.date


class TupleHit(NamedTuple):
    title: str
    score: float
    on: datetime.date


class DictHit(TypedDict):
    title: str
    score: float
    on: datetime.date


DAY: Final = datetime.date(2026, 7, 28)


@server.tool
def hit() -> DataclassHit:
    return DataclassHit("tea", 0.5, DAY)


@server.tool
def hits() -> list[DataclassHit]:
    return [DataclassHit("tea", 0.5, DAY), DataclassHit("pot", 1, DAY)]


@server.tool
def count() -> int:
    return 7


@server.tool
def greeting() -> str:
    return "hello\nAda"


@server.tool
def table() -> dict[str, int]:
    return {"result": 3}


@attrs.frozen
class Outcome:
    result: int


@server.tool
def outcome() -> Outcome:
    return Outcome(5)


@server.tool
def broken() -> str:
    raise ToolError("the tea is cold")


@server.tool
def picture() -> ImageContent:
    return ImageContent(data="AAAA", mime_type="image/png")


@server.tool
def deep() -> str:
    return "[" * 200 + "]" * 200


def connected(revision: Revision) -> AbstractAsyncContextManager[Client]:
    return open_in_memory(partial(serve_stream, server), revisions=[revision])


EACH_REVISION = pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
HIT_CLASSES: Final = (DataclassHit, AttrsHit, ModelHit, StructHit, TupleHit)


@EACH_REVISION
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "unlisted"])
async def test_data_has_requested_type(revision: Revision, listed: bool) -> None:
    async with connected(revision) as client:
        if listed:
            await client.list_tools()
        for kind in HIT_CLASSES:
            expected = (
                kind(title="tea", score=0.5, on=DAY),
                kind(title="pot", score=1.0, on=DAY),
            )
            assert (await client.call_tool("hit", returns=kind)).data == expected[0]
            several = await client.call_tool("hits", returns=list[kind])  # type: ignore[valid-type]  # from a table
            assert several.data == list(expected)
            assert (await client.call_tool("hits", returns=tuple[kind, kind])).data == expected  # type: ignore[valid-type]  # likewise
        as_dict = await client.call_tool("hit", returns=DictHit)
        assert as_dict.data == {"title": "tea", "score": 0.5, "on": DAY}
        assert (await client.call_tool("count", returns=int)).data == 7
        assert (await client.call_tool("count", returns=int | None)).data == 7
        assert (await client.call_tool("greeting", returns=str)).data == "hello\nAda"
        assert (await client.call_tool("table", returns=dict[str, int])).data == {"result": 3}
        assert (await client.call_tool("outcome", returns=Outcome)).data == Outcome(5)
        assert (await client.call_tool("outcome", returns=int)).data == 5


@EACH_REVISION
async def test_data_without_type_is_plain_json(revision: Revision) -> None:
    structured = revision not in {R2024_11_05, REVISIONS["2025-03-26"]}
    async with connected(revision) as client:
        unlisted = await client.call_tool("hits")
        await client.list_tools()
        plain: JsonValue = {"title": "tea", "score": 0.5, "on": "2026-07-28"}
        hits_found = [plain, {"title": "pot", "score": 1.0, "on": "2026-07-28"}]
        listed = await client.call_tool("hits")
        if structured:
            assert listed.data == hits_found
            assert listed.structured_content == {"result": hits_found}
            assert unlisted.data == {"result": hits_found}
            assert (await client.call_tool("hit")).data == plain
            assert (await client.call_tool("count")).data == 7
        else:
            assert listed.data is None
            assert listed.structured_content is None
        text = await client.call_tool("greeting")
        assert (text.data, text.structured_content, text.text) == (None, None, "hello\nAda")
        assert text.content == (TextContent(text="hello\nAda"),)
        assert set(text.meta) <= {"io.modelcontextprotocol/serverInfo"}
        assert text.is_error is False
        assert isinstance(text.result, CallToolResult)


@EACH_REVISION
async def test_data_of_other_type_raises(revision: Revision) -> None:
    async with connected(revision) as client:
        await client.list_tools()
        with pytest.raises(
            InvalidToolOutput, match="the result of the tool 'hit' is not of the type given as"
        ) as caught:
            await client.call_tool("hit", returns=dict[str, int])
        assert len(caught.value.problems) == 3
        assert caught.value.problems[0].startswith("title: expected an integer, got the string")
        assert caught.value.result.content
        with pytest.raises(InvalidToolOutput, match=r"\[0\]: expected an integer, got an object"):
            await client.call_tool("hits", returns=list[int])
        with pytest.raises(InvalidToolOutput, match="text that is not JSON"):
            await client.call_tool("greeting", returns=int)
        with pytest.raises(InvalidToolOutput, match="no text and no structured content"):
            await client.call_tool("picture", returns=int)
        with pytest.raises(UnsupportedType, match=r"`returns`: .*complex"):
            await client.call_tool("count", returns=complex)
        await client.list_tools()


@pytest.mark.spec("tools.client-shows-execution-errors", "tools.client-execution-errors-to-model")
@EACH_REVISION
async def test_failed_tool_raises_with_text(revision: Revision) -> None:
    async with connected(revision) as client:
        with pytest.raises(ToolFailed, match=r"^the tool 'broken' failed: the tea is cold$") as caught:
            await client.call_tool("broken", returns=int)
        assert caught.value.result.text == "the tea is cold"
        assert caught.value.result.is_error
        result = await client.call_tool("broken", returns=int, raise_on_error=False)
        assert result.is_error
        assert result.text == "the tea is cold"
        with pytest.raises(ToolFailed, match="the tea is cold"):
            _ = result.data


async def test_failed_tool_in_group_raises_with_text() -> None:
    def connect() -> AbstractAsyncContextManager[Client]:
        return open_in_memory(partial(serve_stream, server))

    async with open_group({"one": connect}) as group:
        with pytest.raises(ToolFailed, match=r"^the tool 'broken' failed: the tea is cold$"):
            await group.call_tool("one__broken")
        assert (await group.call_tool("one__broken", raise_on_error=False)).is_error
        assert (await group.call_tool("one__hits", returns=list[AttrsHit])).data[0].title == "tea"


async def test_text_of_failed_tool_is_shortened_in_message() -> None:
    result = CallToolResult(content=(TextContent(text="a" * 100_000),), is_error=True)
    flood = Server("flood", version="1.0")

    @flood.tool
    def shout() -> CallToolResult:
        return result

    async with open_in_memory(partial(serve_stream, flood)) as client:
        with pytest.raises(ToolFailed) as caught:
            await client.call_tool("shout")
    assert len(str(caught.value)) < 2_100
    assert len(caught.value.result.text) == 100_000


async def test_text_nested_too_deeply_exceeds_limit() -> None:
    async with connected(R2026_07_28) as client:
        with pytest.raises(LimitExceeded, match="nesting_depth") as caught:
            await client.call_tool("deep", returns=list[object])
    assert caught.value.allowed == CLIENT_LIMITS.nesting_depth
    assert caught.value.context.method == "tools/call"


@pytest.mark.parametrize(
    ("schema", "wrapped"),
    [
        (None, False),
        ({"type": "object"}, False),
        ({"type": "object", "properties": {"result": {}}}, False),
        ({"type": "object", "properties": {"result": {}, "a": {}}, "required": ["result"]}, False),
        ({"type": "object", "properties": {"result": {}}, "required": ["result"]}, True),
        ({"type": "object", "properties": {"result": {}}, "required": ["result"], "title": "countOutput"}, True),
    ],
)
def test_wrapped_value_is_only_required_member(schema: JsonObject | None, wrapped: bool) -> None:
    assert is_wrapped(schema) is wrapped


async def test_task_has_typed_data() -> None:
    async with connected(R2025_11_25) as client:
        await client.list_tools()
        assert (await client.call_tool("count", returns=int)).data + 1 == 8
