"""Tools whose input schema is given by their author."""

from __future__ import annotations

import pytest
from raw_client import as_list, as_object, connected, text_of

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, RegistrationError, Server

SCHEMA: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"city": {"$anchor": "city", "type": "string", "minLength": 1}},
    "properties": {"from": {"$ref": "#/$defs/city"}, "region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["from"],
    "additionalProperties": False,
}


@pytest.fixture
def server() -> Server:
    server = Server("s", version="0")

    @server.tool(input_schema=SCHEMA)
    async def travel(arguments: JsonObject, context: Context) -> str:
        """Travels."""
        return f"{context.method} {arguments!r}"

    return server


@pytest.mark.spec("schema.server-keywords-preserved", "tools.input-schema-any-keyword", "schema.tool-schema-dialect")
@pytest.mark.parametrize("revision", [R2025_06_18, R2026_07_28], ids=str)
async def test_the_schema_is_listed_as_it_was_given(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        (tool,) = as_list((await client.call("tools/list"))["tools"])
        assert as_object(tool)["inputSchema"] == SCHEMA
        assert as_object(tool)["description"] == "Travels."


async def test_arguments_are_validated_and_given_to_the_function_as_they_came(server: Server) -> None:
    async with connected(server, R2025_11_25) as client:
        assert await client.text("travel", **{"from": "Ghent"}) == "tools/call {'from': 'Ghent'}"
        refused = await client.tool("travel", **{"from": "", "to": "Bruges"})
        assert refused["isError"] is True
        assert "- $.from: " in text_of(refused)
        assert "'to' was unexpected" in text_of(refused)
        assert '"from" is a required property' in text_of(await client.tool("travel"))


async def test_a_change_of_the_given_schema_afterwards_changes_nothing() -> None:
    server = Server("s", version="0")
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
    server.add_tool(lambda arguments: str(arguments), name="f", input_schema=schema)
    as_object(schema["properties"])["a"] = {"type": "integer"}
    async with connected(server, R2025_11_25) as client:
        assert await client.text("f", a="x") == "{'a': 'x'}"


def nothing() -> None: ...


def two(a: JsonObject, b: JsonObject) -> None: ...


def one(arguments: JsonObject) -> None: ...


@pytest.mark.spec("tools.input-schema-object", "tools.input-schema-valid")
@pytest.mark.parametrize(
    ("function", "schema", "words"),
    [
        (nothing, SCHEMA, "must have one parameter, which receives the arguments as a dict, not 0"),
        (two, SCHEMA, "must have one parameter, which receives the arguments as a dict, not 2"),
        (one, {}, "must have the type 'object', not None"),
        (one, {"type": "array"}, "must have the type 'object', not 'array'"),
        (one, {"type": "object", "properties": {"a": {"type": "text"}}}, "input_schema: #/properties/a/type"),
        (
            one,
            {"type": "object", "x-mcp-header": "A"},
            "input_schema: inputSchema: x-mcp-header is on the whole schema",
        ),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function: object, schema: JsonObject, words: str) -> None:
    assert callable(function)
    with pytest.raises(RegistrationError) as caught:
        Server("s", version="0").add_tool(function, input_schema=schema)
    assert words in caught.value.message
    assert f"test_given_schema.{getattr(function, '__name__', '')}" in caught.value.message
