"""One server twice, with pydantic models and with attrs classes: clients see the same schemas, but for titles."""

from __future__ import annotations

import datetime
import enum
from functools import partial
from typing import Annotated, Final, Literal

import attrs
import pydantic
import pytest

from mcp_client.testing import open_in_memory
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import REVISIONS, Revision
from mcp_server import Param, Server, ToolError, serve_stream


class Priority(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Strict(pydantic.BaseModel):  # type: ignore[explicit-any]  # pydantic's own annotations
    model_config = pydantic.ConfigDict(extra="forbid")


class ModelAuthor(Strict):  # type: ignore[explicit-any]  # likewise
    name: Annotated[str, pydantic.Field(min_length=1, description="The full name.")]
    email: str | None = None


class ModelTodo(Strict):  # type: ignore[explicit-any]  # likewise
    text: Annotated[str, pydantic.Field(max_length=100)]
    author: ModelAuthor
    priority: Priority = Priority.LOW
    tags: list[str] = []
    due: datetime.date | None = None
    kind: Literal["todo"] = "todo"
    effort: Annotated[float, pydantic.Field(ge=0, le=8)] = 1.0


@attrs.frozen
class AttrsAuthor:
    name: Annotated[str, Param(min_length=1, description="The full name.")]
    email: str | None = None


@attrs.frozen
class AttrsTodo:
    text: Annotated[str, Param(max_length=100)]
    author: AttrsAuthor
    priority: Priority = Priority.LOW
    tags: list[str] = attrs.field(factory=list)
    due: datetime.date | None = None
    kind: Literal["todo"] = "todo"
    effort: Annotated[float, Param(minimum=0, maximum=8)] = 1.0


def make_server(todo_class: type) -> Server:
    server = Server("todo", version="1.0")
    todos: list[object] = []

    def add(todo: object, position: int = 0) -> object:
        todos.insert(position, todo)
        return todo

    def find(text: str) -> object:
        found = [todo for todo in todos if text in todo.text]  # type: ignore[attr-defined]  # of one of two classes
        if not found:
            raise ToolError(f"there is no todo with {text!r}")
        return found[0]

    add.__annotations__ |= {"todo": todo_class, "return": todo_class}
    find.__annotations__ |= {"return": todo_class}
    server.tool(thread=False)(add)
    server.tool(thread=False)(find)
    return server


SERVERS: Final = (make_server(ModelTodo), make_server(AttrsTodo))


def without_titles(value: JsonValue) -> JsonValue:
    """Return a schema without titles, which pydantic derives from the names of members, and with one form of `const`."""
    if isinstance(value, list):
        return [without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: without_titles(member) for name, member in value.items() if name != "title"}
    if "const" in kept:
        kept["enum"] = [kept.pop("const")]
    return kept


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_servers_have_equal_schemas(revision: Revision) -> None:
    schemas: list[list[tuple[str, JsonValue, JsonValue]]] = []
    for server in SERVERS:
        async with open_in_memory(partial(serve_stream, server), revisions=[revision]) as client:
            tools = await client.list_tools()
            schemas.append([(t.name, without_titles(t.input_schema), without_titles(t.output_schema)) for t in tools])
    assert schemas[0] == schemas[1]
    assert [name for name, _, _ in schemas[0]] == ["add", "find"]


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@pytest.mark.parametrize(
    "todo",
    [
        {"text": "tea", "author": {"name": "Ada"}},
        {"text": "tea", "author": {"name": "Ada", "email": "a@b.c"}, "priority": "high", "due": "2026-07-28"},
        {"text": "tea", "author": {"name": "Ada"}, "tags": ["a", "b"], "effort": 0.5, "kind": "todo"},
        {"text": "tea", "author": {"name": ""}},
        {"text": "tea"},
        {"text": "tea", "author": {"name": "Ada"}, "effort": 9},
        {"text": "tea", "author": {"name": "Ada"}, "priority": "middle"},
        {"text": "tea", "author": {"name": "Ada"}, "due": "28.7.2026"},
        {"text": "tea", "author": {"name": "Ada"}, "more": 1},
    ],
)
async def test_servers_answer_alike(revision: Revision, todo: JsonObject) -> None:
    outcomes: list[object] = []
    for server in SERVERS:
        async with open_in_memory(partial(serve_stream, server), revisions=[revision]) as client:
            try:
                result = await client.call_tool("add", {"todo": todo})
            except Exception as error:  # noqa: BLE001  compared by class: the texts are those of two libraries
                outcomes.append(type(error))
            else:
                outcomes.append(result.structured_content or result.text)
    assert outcomes[0] == outcomes[1]
