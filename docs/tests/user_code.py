"""Code of users of the client and the server. The strict type checkers accept it: see `test_user_code.py`."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, assert_type

import attrs
import httpx
import msgspec
import pydantic

from mcp_client import (
    ClientOptions,
    ElicitationCancelled,
    ElicitationDeclined,
    Handlers,
    HttpOptions,
    ToolFailed,
    ToolResult,
    open_http,
    open_stdio,
)
from mcp_client.group import open_group
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.types import TextContent
from mcp_server import Context, ElicitationAccepted, Param, Server, SyncContext

if TYPE_CHECKING:
    from mcp_client import ElicitRequestFormParams


@dataclasses.dataclass
class DataclassHit:
    title: str


@attrs.frozen
class AttrsHit:
    title: str


class ModelHit(pydantic.BaseModel):  # type: ignore[explicit-any]  # pydantic's own annotations
    title: str


class StructHit(msgspec.Struct):
    title: str


class DictHit(TypedDict):
    title: str


@dataclasses.dataclass
class Booking:
    name: str
    on: datetime.date


server = Server("shop", version="1.0")


@server.tool
async def search(
    query: Annotated[str, Param(min_length=1)], kind: Literal["tea", "pot"] = "tea", *, context: Context
) -> list[AttrsHit]:
    """Search."""
    await context.progress(1, 2, "searching")
    return [AttrsHit(f"{kind} {query}")]


@server.tool
def book(context: SyncContext) -> str:
    """Return the name of the guest."""
    context.info("booking")
    outcome = context.elicit(Booking, "When?")
    if isinstance(outcome, ElicitationAccepted):
        assert_type(outcome.value, Booking)
        return outcome.value.name
    return "nobody"


@server.tool
async def book_later(context: Context) -> str:
    """Return the name of the guest."""
    outcome = await context.elicit(Booking, "When?")
    match outcome:
        case ElicitationAccepted(value):
            assert_type(value, Booking)
            return value.name
        case ElicitationDeclined() | ElicitationCancelled():
            return "nobody"


async def ask_user(form: ElicitRequestFormParams) -> dict[str, object] | ElicitationDeclined:
    """Return the content of the form."""
    return {"name": form.message, "on": datetime.date(2026, 7, 28)} if form.message else ElicitationDeclined()


def serve_api() -> Server:
    """Serve an HTTP API, of which `GET` operations are resources."""
    assert_type(attrs.evolve(TextContent(text="a"), text="b"), TextContent)
    return Server.from_openapi(
        {"openapi": "3.1.0"},
        client=httpx.AsyncClient(base_url="https://shop.example"),
        expose=lambda operation: "resource" if operation.method == "GET" else "tool",
    )


async def use_client() -> None:
    """Call tools in each way."""
    handlers = Handlers(elicit=ask_user)
    options = ClientOptions(validate_output="raise")
    async with open_stdio(["shop"], handlers=handlers, options=options) as client:
        plain = await client.call_tool("search", {"query": "x"})
        assert_type(plain, ToolResult[JsonValue])
        assert_type(plain.text, str)
        assert_type(plain.structured_content, JsonValue)
        assert_type((await client.call_tool("search", returns=DataclassHit)).data, DataclassHit)
        assert_type((await client.call_tool("search", returns=AttrsHit)).data, AttrsHit)
        assert_type((await client.call_tool("search", returns=ModelHit)).data, ModelHit)
        assert_type((await client.call_tool("search", returns=StructHit)).data, StructHit)
        assert_type((await client.call_tool("search", returns=DictHit)).data, DictHit)
        hits = await client.call_tool("search", {"query": "x"}, returns=list[AttrsHit])
        assert_type(hits, ToolResult[list[AttrsHit]])
        print(hits.data[0].title.upper())
        task = await client.start_task("search", {"query": "x"})
        assert_type((await task.wait(returns=list[AttrsHit])).data, list[AttrsHit])
        try:
            await client.call_tool(
                "search", on_progress=lambda progress, total, message: print(progress, total, message)
            )
        except ToolFailed as failed:
            print(failed.result.text)
    async with open_http("https://shop.example/mcp", http=HttpOptions(proxies=False)) as client:
        failed_result = await client.call_tool("search", raise_on_error=False)
        print(failed_result.is_error)
    async with open_group({"shop": lambda: open_stdio(["shop"])}) as group:
        assert_type((await group.call_tool("shop__search", returns=AttrsHit)).data, AttrsHit)
