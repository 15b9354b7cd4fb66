"""Tools with an explicit input schema."""

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
        """Return the arguments."""
        return f"{context.method} {arguments!r}"

    return server


@pytest.mark.spec("schema.server-keywords-preserved", "tools.input-schema-any-keyword", "schema.tool-schema-dialect")
@pytest.mark.parametrize("revision", [R2025_06_18, R2026_07_28], ids=str)
async def test_explicit_schema_is_listed_unchanged(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        (tool,) = as_list((await client.call("tools/list"))["tools"])
        assert as_object(tool)["inputSchema"] == SCHEMA
        assert as_object(tool)["description"] == "Return the arguments."


async def test_arguments_are_validated_and_passed_unchanged(server: Server) -> None:
    async with connected(server, R2025_11_25) as client:
        assert await client.text("travel", **{"from": "Ghent"}) == "tools/call {'from': 'Ghent'}"
        result = await client.tool("travel", **{"from": "", "to": "Bruges"})
        assert result["isError"] is True
        assert "- $.from: " in text_of(result)
        assert "'to' was unexpected" in text_of(result)
        assert '"from" is a required property' in text_of(await client.tool("travel"))


async def test_later_change_of_schema_has_no_effect() -> None:
    server = Server("s", version="0")
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
    server.add_tool(lambda arguments: str(arguments), name="f", input_schema=schema)
    as_object(schema["properties"])["a"] = {"type": "integer"}
    async with connected(server, R2025_11_25) as client:
        assert await client.text("f", a="x") == "{'a': 'x'}"


def no_parameters() -> None: ...


def two_parameters(a: JsonObject, b: JsonObject) -> None: ...


def one_parameter(arguments: JsonObject) -> None: ...


@pytest.mark.spec("tools.input-schema-object", "tools.input-schema-valid")
@pytest.mark.parametrize(
    ("function", "schema", "message"),
    [
        (no_parameters, SCHEMA, "must have one parameter, which receives the arguments as a dict, not 0"),
        (two_parameters, SCHEMA, "must have one parameter, which receives the arguments as a dict, not 2"),
        (one_parameter, {}, "must have the type 'object', not None"),
        (one_parameter, {"type": "array"}, "must have the type 'object', not 'array'"),
        (one_parameter, {"type": "object", "properties": {"a": {"type": "text"}}}, "input_schema: #/properties/a/type"),
        (
            one_parameter,
            {"type": "object", "x-mcp-header": "A"},
            "input_schema: inputSchema: x-mcp-header is on the whole schema",
        ),
    ],
)
def test_invalid_function_or_schema_raises(function: object, schema: JsonObject, message: str) -> None:
    assert callable(function)
    with pytest.raises(RegistrationError) as caught:
        Server("s", version="0").add_tool(function, input_schema=schema)
    assert message in caught.value.message
    assert f"test_explicit_schema.{getattr(function, '__name__', '')}" in caught.value.message
