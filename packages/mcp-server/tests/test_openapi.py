"""Servers of HTTP APIs: operations of an OpenAPI document as tools and resources, with real requests."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qsl, unquote

import httpx
import httpx2
import pytest
import trio
from http_api import echo_api, served
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Client, ToolFailed
from mcp_client.testing import open_in_memory
from mcp_core.errors import RequestFailed, ResourceNotFound
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp_server import RegistrationError, Server, ToolError, serve_stream
from mcp_server.openapi import HttpClient, Operation
from mcp_server.openapi.document import OperationDocument
from mcp_server.openapi.inputs import read_input
from mcp_server.openapi.serialization import bracketed, query_pairs, segment

INFO: Final[JsonObject] = {"title": "Pet shop", "version": "4.2", "description": "Sells pets."}
TEXT: Final[JsonObject] = {"type": "string"}


def document(paths: JsonObject, **members: JsonValue) -> JsonObject:
    return {"openapi": "3.1.0", "info": INFO, "paths": paths, **members}


def parameter(name: str, location: str, schema: JsonObject | None = None, **members: JsonValue) -> JsonObject:
    return {"name": name, "in": location, "schema": TEXT if schema is None else schema, **members}


def get(*parameters: JsonObject, **members: JsonValue) -> JsonObject:
    return {"get": {"operationId": "read", "parameters": [*parameters], **members}}


def post(media_type: str, schema: JsonObject, **members: JsonValue) -> JsonObject:
    content: JsonObject = {media_type: {"schema": schema, **members}}
    return {"post": {"operationId": "write", "requestBody": {"required": True, "content": content}}}


def tool_of(given: JsonObject, name: str = "read") -> Tool:
    server = Server.from_openapi(given, client=httpx.AsyncClient(base_url="http://api.invalid"))
    found = {tool.name: tool for tool in server.offered()["tools"] if isinstance(tool, Tool)}
    return found[name]


def members_of(tool: Tool) -> JsonObject:
    members = tool.input_schema["properties"]
    assert isinstance(members, dict)
    return members


@asynccontextmanager
async def offered(paths: JsonObject) -> AsyncIterator[Client]:
    """Serve the API, and connect a client to a server of its operations."""
    async with served(echo_api()) as url, httpx.AsyncClient(base_url=url) as http:
        server = Server.from_openapi(document(paths), client=http)
        async with connected(server) as client:
            yield client


@asynccontextmanager
async def connected(server: Server, revision: Revision = REVISIONS["2026-07-28"]) -> AsyncIterator[Client]:
    async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
        yield client


async def echoed(paths: JsonObject, name: str, arguments: JsonObject, **members: JsonValue) -> JsonObject:
    """Return the HTTP request that a call of a tool sends to the API."""
    async with served(echo_api()) as url, httpx.AsyncClient(base_url=url) as http:
        server = Server.from_openapi(document(paths, **members), client=http)
        async with connected(server) as client:
            data = (await client.call_tool(name, arguments)).data
            assert isinstance(data, dict)
            return data


# --- requests and responses ------------------------------------------------------------------------------------------

CLIENTS: Final[Mapping[str, Callable[[str], httpx.AsyncClient | httpx2.AsyncClient]]] = {
    "httpx": lambda url: httpx.AsyncClient(base_url=url, headers={"Authorization": "Bearer secret"}),
    "httpx2": lambda url: httpx2.AsyncClient(base_url=url, headers={"Authorization": "Bearer secret"}),
}


@pytest.mark.parametrize("library", CLIENTS)
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_call_of_operation_sends_http_request(revision: Revision, library: str) -> None:
    paths: JsonObject = {
        "/shops/{shop}/pets/{id}": {
            "parameters": [parameter("shop", "path", required=True)],
            "put": {
                "operationId": "update_pet",
                "parameters": [
                    parameter("id", "path", {"type": "integer"}, required=True),
                    parameter("dry-run", "query", {"type": "boolean"}),
                    parameter("X-Trace", "header"),
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            },
        }
    }
    pet: JsonObject = {
        "type": "object",
        "properties": {"name": TEXT, "mother": {"$ref": "#/components/schemas/Pet"}},
        "required": ["name"],
    }
    async with served(echo_api()) as url, CLIENTS[library](f"{url}/v1") as http:
        server = Server.from_openapi(document(paths, components={"schemas": {"Pet": pet}}), client=http)
        async with connected(server, revision) as client:
            body: JsonObject = {"name": "Rex", "mother": {"name": "Bella"}}
            arguments: JsonObject = {"shop": "a/b ?#&%", "id": 7, "dry_run": True, "X_Trace": "t 1", "body": body}
            result = await client.call_tool("update_pet", arguments)
            sent = json.loads(result.text)
            assert isinstance(sent, dict)
            assert result.structured_content in (sent, None)  # absent in revisions without structured content
            assert (sent["method"], sent["query"]) == ("PUT", "dry-run=true")
            assert sent["path"] == "/v1/shops/a%2Fb%20%3F%23%26%25/pets/7"
            assert isinstance(sent["body"], str)
            assert json.loads(sent["body"]) == body
            headers = sent["headers"]
            assert isinstance(headers, dict)
            assert headers["x-trace"] == "t 1"
            assert headers["content-type"] == "application/json"
            assert headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_invalid_arguments_rejected_without_request(revision: Revision) -> None:
    server = Server.from_openapi(
        document({"/pets": get(parameter("limit", "query", {"type": "integer", "maximum": 10}))}),
        client=httpx.AsyncClient(base_url="http://127.0.0.1:9"),
    )
    async with connected(server, revision) as client:
        for arguments in ({"limit": 11}, {"limit": "many"}, {"limits": 3}):
            with pytest.raises((ToolFailed, RequestFailed), match="limit"):
                await client.call_tool("read", arguments)


@pytest.mark.parametrize("value", ["", ".", ".."])
async def test_path_value_that_leads_elsewhere_rejected(value: str) -> None:
    server = Server.from_openapi(
        document({"/users/{id}": get(parameter("id", "path"))}), client=httpx.AsyncClient(base_url="http://127.0.0.1:9")
    )
    async with connected(server) as client:
        with pytest.raises(ToolFailed, match="path"):
            await client.call_tool("read", {"id": value})


async def test_header_value_with_line_break_rejected() -> None:
    server = Server.from_openapi(
        document({"/users": get(parameter("X-Id", "header"))}), client=httpx.AsyncClient(base_url="http://127.0.0.1:9")
    )
    async with connected(server) as client:
        with pytest.raises(ToolFailed, match="X-Id allows only printable ASCII"):
            await client.call_tool("read", {"X_Id": "1\r\nAdmin: yes"})


RESPONSES: Final[Mapping[str, tuple[type, str]]] = {
    "/picture": (ImageContent, "image/png"),
    "/archive": (EmbeddedResource, "application/zip"),
    "/latin": (TextContent, "Käse"),
    "/list": (TextContent, '["Ada","Grace"]'),
}


@pytest.mark.parametrize("path", RESPONSES)
async def test_response_becomes_content_of_its_media_type(path: str) -> None:
    kind, expected = RESPONSES[path]
    async with offered({path: get()}) as client:
        result = await client.call_tool("read")
        (block,) = result.content
        assert isinstance(block, kind)
        match block:
            case TextContent():
                assert block.text.strip() == expected
            case ImageContent() | AudioContent():
                assert (block.mime_type, block.data) == (expected, "iVBORw==")
            case EmbeddedResource(resource=BlobResourceContents() as file):
                assert (file.mime_type, file.blob) == (expected, "UEsA/w==")


async def test_empty_response_becomes_status() -> None:
    async with served(echo_api()) as url, httpx.AsyncClient(base_url=url) as http:
        server = Server.from_openapi(document({"/empty": {"delete": {}}}), client=http)
        async with connected(server) as client:
            assert (await client.call_tool("delete_empty")).text == "DELETE /empty: HTTP 204 No Content"


@pytest.mark.parametrize("status", [302, 404, 500, 599])
async def test_error_response_becomes_failed_tool(status: int) -> None:
    path = f"/status/{status}"
    async with offered({path: get()}) as client:
        with pytest.raises(ToolFailed, match=f"HTTP {status}.*: no such pet"):
            await client.call_tool("read")


@pytest.mark.parametrize("library", CLIENTS)
async def test_response_over_limit_fails_and_names_setting(library: str) -> None:
    async with served(echo_api()) as url, CLIENTS[library](url) as http:
        server = Server("pets", version="1", limits=Limits(message_bytes=9_999))
        server.add_openapi(document({"/large": get(), "/list": {"get": {"operationId": "names"}}}), client=http)
        async with connected(server) as client:
            with pytest.raises(ToolFailed, match=r"more than 9999 bytes \(Limits.message_bytes\)"):
                await client.call_tool("read")
            assert (await client.call_tool("names")).text.strip() == '["Ada","Grace"]'


async def test_api_that_does_not_respond_fails_without_details(caplog: pytest.LogCaptureFixture) -> None:
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]
    await listener[0].aclose()
    http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}")
    server = Server("pets", version="1")
    server.add_openapi(
        document({"/pets": get(), "/pets/all": {"get": {}}}),
        client=http,
        expose=lambda operation: "tool" if operation.operation_id else "resource",
    )
    async with http, connected(server) as client:
        with pytest.raises(ToolFailed) as failed:
            await client.call_tool("read")
        assert str(port) not in str(failed.value)
        assert "did not respond" in str(failed.value)
        with pytest.raises(RequestFailed, match="did not respond"):
            await client.read_resource("openapi://pets/pets/all")
    assert "ConnectError" in caplog.text


async def test_cancelled_call_ends_http_request() -> None:
    received, ended = trio.Event(), trio.Event()

    async def slow(scope: Mapping[str, object], receive: Callable[[], object], send: object) -> None:
        del send
        assert scope["type"] == "http"
        received.set()
        while True:
            message = await receive()  # type: ignore[misc]  # of ASGI
            if message["type"] == "http.disconnect":
                ended.set()
                return

    async with served(slow) as url, httpx.AsyncClient(base_url=url) as http:
        server = Server.from_openapi(document({"/slow": get()}), client=http)
        async with connected(server) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "read")
            await received.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            await ended.wait()


# --- styles ----------------------------------------------------------------------------------------------------------

COLORS: Final[JsonObject] = {"R": 100, "G": 200}
SEGMENTS: Final[list[tuple[str, bool, JsonValue, str]]] = [
    # The examples of OpenAPI 3.1.1, section 4.8.12.4.
    ("simple", False, "blue", "blue"),
    ("simple", False, ["blue", "black"], "blue,black"),
    ("simple", False, COLORS, "R,100,G,200"),
    ("simple", True, COLORS, "R=100,G=200"),
    ("label", False, "blue", ".blue"),
    ("label", True, ["blue", "black"], ".blue.black"),
    ("label", False, ["blue", "black"], ".blue,black"),
    ("label", True, COLORS, ".R=100.G=200"),
    ("matrix", False, "blue", ";color=blue"),
    ("matrix", False, ["blue", "black"], ";color=blue,black"),
    ("matrix", True, ["blue", "black"], ";color=blue;color=black"),
    ("matrix", False, COLORS, ";color=R,100,G,200"),
    ("matrix", True, COLORS, ";R=100;G=200"),
]
QUERIES: Final[list[tuple[str, bool, JsonValue, str]]] = [
    ("form", False, "blue", "color=blue"),
    ("form", False, ["blue", "black"], "color=blue,black"),
    ("form", True, ["blue", "black"], "color=blue&color=black"),
    ("form", False, COLORS, "color=R,100,G,200"),
    ("form", True, COLORS, "R=100&G=200"),
    ("spaceDelimited", False, ["blue", "black"], "color=blue%20black"),
    ("spaceDelimited", False, COLORS, "color=R%20100%20G%20200"),
    ("pipeDelimited", False, ["blue", "black"], "color=blue%7Cblack"),
    ("deepObject", True, COLORS, "color%5BR%5D=100&color%5BG%5D=200"),
    ("deepObject", True, {"a": {"b": [True, None]}}, "color%5Ba%5D%5Bb%5D%5B0%5D=true&color%5Ba%5D%5Bb%5D%5B1%5D="),
]


@pytest.mark.parametrize(("style", "explode", "value", "expected"), SEGMENTS)
async def test_path_style_sent_as_specified(style: str, explode: bool, value: JsonValue, expected: str) -> None:
    row = parameter("color", "path", {}, required=True, style=style, explode=explode)
    assert (await echoed({"/{color}": get(row)}, "read", {"color": value}))["path"] == f"/{expected}"


@pytest.mark.parametrize(("style", "explode", "value", "expected"), QUERIES)
async def test_query_style_sent_as_specified(style: str, explode: bool, value: JsonValue, expected: str) -> None:
    row = parameter("color", "query", {}, style=style, explode=explode)
    assert (await echoed({"/pets": get(row)}, "read", {"color": value}))["query"] == expected


async def test_header_cookie_and_json_parameters_sent() -> None:
    where: JsonObject = {"name": "where", "in": "query", "content": {"application/json": {"schema": {}}}}
    rows = [
        parameter("X-Ids", "header", {"type": "array"}),
        parameter("a b", "cookie"),
        parameter("Authorization", "header", required=True),
        where,
    ]
    sent = await echoed({"/pets": get(*rows)}, "read", {"X_Ids": [1, 2], "a_b": "x;y", "where": {"age": [1]}})
    headers = sent["headers"]
    assert isinstance(headers, dict)
    assert (headers["x-ids"], headers["cookie"]) == ("1,2", "a%20b=x%3By")
    assert "authorization" not in headers
    assert sent["query"] == "where=%7B%22age%22%3A%5B1%5D%7D"


FORMS: Final[list[tuple[JsonObject, JsonObject, str]]] = [
    ({"name": "A&B", "age": 3}, {}, "name=A%26B&age=3"),
    ({"ids": [1, 2]}, {}, "ids=1&ids=2"),
    ({"address": {"city": "Ulm", "lines": ["a"]}}, {}, "address%5Bcity%5D=Ulm&address%5Blines%5D%5B0%5D=a"),
    ({"ids": [1, 2]}, {"ids": {"style": "form", "explode": False}}, "ids=1,2"),
    ({"ids": [1, 2]}, {"ids": {"style": "deepObject", "explode": True}}, "ids%5B0%5D=1&ids%5B1%5D=2"),
]


@pytest.mark.parametrize(("value", "encoding", "expected"), FORMS)
async def test_form_body_sent(value: JsonObject, encoding: JsonObject, expected: str) -> None:
    paths: JsonObject = {"/pets": post("application/x-www-form-urlencoded", {"type": "object"}, encoding=encoding)}
    sent = await echoed(paths, "write", {"body": value})
    assert sent["body"] == expected
    assert isinstance(sent["headers"], dict)
    assert sent["headers"]["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("media_type", "value", "expected", "sent_as"),
    [
        ("text/markdown", "# Käse", "# Käse", "text/markdown"),
        ("application/merge-patch+json", {"a": None}, '{"a":null}', "application/merge-patch+json"),
        ("*/*", [1], "[1]", "application/json"),
    ],
)
async def test_body_sent_in_its_media_type(media_type: str, value: JsonValue, expected: str, sent_as: str) -> None:
    sent = await echoed({"/pets": post(media_type, {})}, "write", {"body": value})
    assert sent["body"] == expected
    assert isinstance(sent["headers"], dict)
    assert sent["headers"]["content-type"] == sent_as


async def test_optional_body_omitted() -> None:
    body: JsonObject = {"content": {"application/json": {"schema": {"type": "object"}}}}
    sent = await echoed({"/pets": {"post": {"operationId": "write", "requestBody": body}}}, "write", {})
    assert sent["body"] == ""
    assert isinstance(sent["headers"], dict)
    assert "content-type" not in sent["headers"]


# --- properties ------------------------------------------------------------------------------------------------------

JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(value=JSON_TEXT, style=st.sampled_from(["simple", "label", "matrix"]))
def test_path_keeps_its_segments_for_each_value(value: str, style: str) -> None:
    paths: JsonObject = {"/users/{id}/keys": get(parameter("id", "path", style=style))}
    read = OperationDocument(document(paths))
    ((operation, item),) = read.operations()
    try:
        target = read_input(read, operation, item).request({"id": value}).target
    except ToolError:
        assert style != "matrix"
        assert value in ("", ".", "..")
        return
    before, segment_, after = target[1:].split("/")
    assert (before, after) == ("users", "keys")
    prefix = {"simple": "", "label": ".", "matrix": ";id="}[style]
    assert segment_ not in ("", ".", "..")
    assert segment_.isascii()
    assert unquote(segment_) == prefix + value


@given(value=st.one_of(JSON_TEXT, st.lists(JSON_TEXT, min_size=1)), name=JSON_TEXT.filter(bool))
def test_exploded_query_read_back(name: str, value: str | list[str]) -> None:
    text = "&".join(query_pairs(name, list(value) if isinstance(value, list) else value, style="form", explode=True))
    items = value if isinstance(value, list) else [value]
    assert parse_qsl(text, keep_blank_values=True) == [(name, item) for item in items]


@given(st.recursive(JSON_TEXT, lambda inner: st.lists(inner) | st.dictionaries(JSON_TEXT, inner), max_leaves=8))
def test_bracketed_query_has_one_member_for_each_leaf(value: JsonValue) -> None:
    def leaves(each: JsonValue) -> Iterable[str]:
        if isinstance(each, dict | list):
            for item in each.values() if isinstance(each, dict) else each:
                yield from leaves(item)
        else:
            assert isinstance(each, str)
            yield each

    read = parse_qsl("&".join(bracketed("a", value)), keep_blank_values=True)
    assert [item for _, item in read] == [*leaves(value)]
    assert all(name.startswith("a") for name, _ in read)


@given(name=JSON_TEXT, value=JSON_TEXT)
def test_header_value_sent_unchanged(name: str, value: str) -> None:
    assert segment(name, value, style="simple", explode=False, encode=False) == value


# --- schemas ---------------------------------------------------------------------------------------------------------

CONVERTED: Final[list[tuple[JsonObject, JsonObject]]] = [
    ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"allOf": [{}], "nullable": True}, {"anyOf": [{"allOf": [{}]}, {"type": "null"}]}),
    ({"minimum": 1, "exclusiveMinimum": True}, {"minimum": 1, "exclusiveMinimum": 1}),
    ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
    ({"exclusiveMaximum": 5}, {"exclusiveMaximum": 5}),
    ({"example": 3}, {"examples": [3]}),
    ({"example": {"$ref": "#/a"}}, {"examples": [{"$ref": "#/a"}]}),
    (
        {"xml": {}, "externalDocs": {}, "x-internal": 1, "type": "array", "items": {"xml": {}}},
        {"type": "array", "items": {}},
    ),
    ({"pattern": "^a$"}, {"pattern": "^a$"}),
    ({"pattern": "(?<=a)b"}, {}),
    (
        {"type": "object", "properties": {"id": {"readOnly": True}, "$ref": TEXT}, "required": ["id", "$ref"]},
        {"type": "object", "properties": {"$ref": TEXT}, "required": ["$ref"]},
    ),
    ({"additionalProperties": {"nullable": True, "type": "null"}}, {"additionalProperties": {"type": ["null"]}}),
]


@pytest.mark.parametrize(("schema", "expected"), CONVERTED)
def test_schema_converted_to_json_schema(schema: JsonObject, expected: JsonObject) -> None:
    tool = tool_of(document({"/pets": post("application/json", schema)}), "write")
    assert members_of(tool)["body"] == expected


def test_components_become_definitions_with_distinct_names() -> None:
    components: JsonObject = {
        "schemas": {
            "Node": {"properties": {"next": {"$ref": "#/components/schemas/Node"}, "tag": {"$ref": "#/x/Node"}}},
            "Unused": {"type": "null"},
        }
    }
    paths: JsonObject = {"/pets": post("application/json", {"$ref": "#/components/schemas/Node"})}
    tool = tool_of(document(paths, components=components, x={"Node": {"type": "integer"}}), "write")
    assert members_of(tool)["body"] == {"$ref": "#/$defs/Node"}
    assert tool.input_schema["$defs"] == {
        "Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "tag": {"$ref": "#/$defs/Node_2"}}},
        "Node_2": {"type": "integer"},
    }


def test_argument_names_are_distinct_and_plain() -> None:
    rows = [
        parameter("id", "path"),
        parameter("id", "query", description="Of the query."),
        parameter("created<", "query"),
        parameter("created>", "query"),
        parameter("body", "query"),
        parameter("page[size]", "query", {"type": "integer"}, deprecated=True, example=10),
    ]
    body: JsonObject = {"content": {"application/json": {"schema": TEXT}}, "description": "The pet."}
    tool = tool_of(
        document({"/{id}": {"post": {"operationId": "write", "parameters": [*rows], "requestBody": body}}}), "write"
    )
    assert members_of(tool) == {
        "id": TEXT,
        "id_query": {"type": "string", "title": "id", "description": "Of the query."},
        "created": {"type": "string", "title": "created<"},
        "created_query": {"type": "string", "title": "created>"},
        "body": TEXT,
        "page_size": {"deprecated": True, "examples": [10], "type": "integer", "title": "page[size]"},
        "body_content": {"type": "string", "description": "The pet."},
    }
    assert tool.input_schema["required"] == ["id"]


def test_tool_described_by_its_operation() -> None:
    operation: JsonObject = {
        "summary": "Delete a pet",
        "description": "Cannot be undone.",
        "deprecated": True,
        "tags": ["pets"],
    }
    tool = tool_of(
        document({"/pets/{id}": {"delete": {**operation, "parameters": [parameter("id", "path")]}}}), "delete_pets_id"
    )
    assert (tool.title, tool.description) == ("Delete a pet", "Deprecated. Cannot be undone.")
    assert tool.annotations is not None
    assert (tool.annotations.destructive_hint, tool.annotations.idempotent_hint) == (True, True)


def test_server_described_by_the_document() -> None:
    server = Server.from_openapi(
        document({}, servers=[{"url": "https://{x}.example/v1", "variables": {"x": {"default": "api"}}}]),
        client=httpx.AsyncClient(),
    )
    assert (server.info.name, server.info.version, server.instructions) == ("Pet shop", "4.2", "Sells pets.")


def test_values_of_yaml_parser_accepted() -> None:
    paths: Mapping[str, object] = {
        "/pets": {
            "get": {
                "operationId": "read",
                "parameters": [{"name": "day", "in": "query", "schema": {"default": datetime.date(2026, 1, 2)}}],
                "responses": {200: {"description": "Pets."}},
            }
        }
    }
    server = Server.from_openapi(
        {"openapi": "3.0.3", "info": INFO, "paths": paths}, client=httpx.AsyncClient(base_url="http://a")
    )
    (tool,) = server.offered()["tools"]
    assert isinstance(tool, Tool)
    assert members_of(tool) == {"day": {"default": "2026-01-02"}}


# --- filters, names, resources ---------------------------------------------------------------------------------------

SHOP: Final = document(
    {
        "/pets": get(parameter("tags", "query", {"type": "array"}), parameter("q", "query"), tags=["public"]),
        "/pets/{pet-id}": {"get": {"parameters": [parameter("pet-id", "path")], "x-internal": True}},
        "/status/404": {"get": {"operationId": "gone"}},
        "/status/500": {"get": {"operationId": "broken"}},
        "/archive": {"get": {"operationId": "archive"}},
        "/orders": {"post": {"operationId": "order"}},
    }
)


def test_expose_receives_each_operation_and_decides() -> None:
    seen: list[Operation] = []

    def expose(operation: Operation) -> None:
        seen.append(operation)

    server = Server.from_openapi(SHOP, client=httpx.AsyncClient(base_url="http://a"), expose=expose)
    assert not any(server.offered().values())
    assert [operation.key for operation in seen] == ["read", "GET /pets/{pet-id}", "gone", "broken", "archive", "order"]
    assert seen[0].tags == ("public",)
    assert seen[1].raw["x-internal"] is True


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_get_operations_read_as_resources(revision: Revision) -> None:
    async with served(echo_api()) as url, httpx.AsyncClient(base_url=url) as http:
        server = Server.from_openapi(
            SHOP,
            client=http,
            expose=lambda operation: "resource" if operation.method == "GET" else None,
            names={"GET /pets/{pet-id}": "pet"},
        )
        async with connected(server, revision) as client:
            listed = {template.name: template.uri_template for template in await client.list_resource_templates()}
            assert listed == {"read": "openapi://pet-shop/pets{?tags,q}", "pet": "openapi://pet-shop/pets/{pet_id}"}
            for uri, sent in {
                "openapi://pet-shop/pets?tags=a,b&q=c%26d": ("/pets", "tags=a&tags=b&q=c%26d"),
                "openapi://pet-shop/pets": ("/pets", ""),
                "openapi://pet-shop/pets/a%20b": ("/pets/a%20b", ""),
            }.items():
                (contents,) = (await client.read_resource(uri)).contents
                assert isinstance(contents, TextResourceContents)
                assert contents.mime_type == "application/json"
                request = json.loads(contents.text)
                assert (request["path"], request["query"]) == sent
            (file,) = (await client.read_resource("openapi://pet-shop/archive")).contents
            assert isinstance(file, BlobResourceContents)
            assert file.mime_type == "application/zip"
            with pytest.raises(ResourceNotFound):
                await client.read_resource("openapi://pet-shop/status/404")
            with pytest.raises(RequestFailed, match="HTTP 500") as failed:
                await client.read_resource("openapi://pet-shop/status/500")
            assert not isinstance(failed.value, ResourceNotFound)
            for value in (".", "..", "%2E%2E"):
                with pytest.raises(RequestFailed):
                    await client.read_resource(f"openapi://pet-shop/pets/{value}")


# --- operations that cannot be called --------------------------------------------------------------------------------

OMITTED: Final[Mapping[str, tuple[JsonObject, str]]] = {
    "body": (post("multipart/form-data", {}), "unsupported media type: multipart/form-data"),
    "external": (get(parameter("a", "query", {"$ref": "other.yaml#/A"})), "leads out of the document"),
    "dangling": (get({"$ref": "#/nowhere"}), "leads to nothing"),
    "cyclic": (get({"$ref": "#/x-cycle"}), "leads to itself"),
    "style": (get(parameter("a", "query", style="simple")), "unknown style 'simple'"),
    "location": (get(parameter("a", "body")), "the location 'body'"),
    "no object": (get({"$ref": "#/info/title"}), "an object is expected"),
    "schema": (get(parameter("a", "query", {"properties": {"b": 3}})), "a schema is an object"),
    "invalid": (get(parameter("a", "query", {"type": "text"})), "text"),
    "deep": (get(parameter("a", "query", json.loads('{"not":' * 70 + "{}" + "}" * 70))), "more than 64 levels"),
    "server": (get(servers=[{"url": "https://evil.example"}]), "its server is https://evil.example"),
    "media": (get({"name": "a", "in": "query", "content": {"text/csv": {}}}), "the media type 'text/csv'"),
}


@pytest.mark.parametrize("case", OMITTED)
def test_operation_that_cannot_be_called_logged_and_omitted(case: str, caplog: pytest.LogCaptureFixture) -> None:
    item, reason = OMITTED[case]
    given_document = {**document({"/bad": item, "/good": {"get": {}}, "x-a": {}}), "x-cycle": {"$ref": "#/x-cycle"}}
    with caplog.at_level(logging.WARNING, "mcp_server"):
        server = Server.from_openapi(given_document, client=httpx.AsyncClient(base_url="http://a"))
    assert [getattr(tool, "name", "") for tool in server.offered()["tools"]] == ["get_good"]
    assert reason in caplog.text


def test_undescribed_path_parameter_omitted(caplog: pytest.LogCaptureFixture) -> None:
    server = Server.from_openapi(
        document({"/{a}/{b}": get(parameter("a", "path"))}), client=httpx.AsyncClient(base_url="http://a")
    )
    assert server.offered()["tools"] == ()
    assert "does not describe the path parameter b" in caplog.text


UNREADABLE: Final[Mapping[str, tuple[JsonObject, str]]] = {
    "header": (get(parameter("a", "header", required=True)), "no header parameters, but a is required"),
    "body": (get(requestBody={"content": {"application/json": {}}}), "has no request body"),
    "object": (get(parameter("a", "query", {"type": "object"}, required=True)), "cannot be an object"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_operation_that_cannot_be_a_resource_omitted(case: str, caplog: pytest.LogCaptureFixture) -> None:
    item, reason = UNREADABLE[case]
    client = httpx.AsyncClient(base_url="http://a")
    server = Server.from_openapi(document({"/a": item}), client=client, expose=lambda _: "resource")
    assert not any(server.offered().values())
    assert reason in caplog.text


def test_operation_of_the_clients_server_called() -> None:
    paths = document({"/upload": get(servers=[{"url": "https://upload.example/v1/"}])})
    client = httpx.AsyncClient(base_url="https://upload.example/v1")
    (tool,) = Server.from_openapi(paths, client=client).offered()["tools"]
    assert isinstance(tool, Tool)


REJECTED: Final[Mapping[str, tuple[Mapping[str, object], str]]] = {
    "swagger": ({"swagger": "2.0"}, "swagger '2.0'; supported are OpenAPI 3.0 and 3.1"),
    "no version": ({}, "openapi None"),
    "not JSON": ({"openapi": "3.1.0", "info": object()}, "only JSON"),
    "no URL": (document({}), r"base_url=\.\.\."),
    "relative URL": (document({}, servers=[{"url": "/v1"}]), r"base_url=\.\.\."),
    "path item": (document({"/a": {"$ref": "other.yaml"}}, servers=[{"url": "https://a"}]), "invalid path item"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_document_that_cannot_be_used_rejected(case: str) -> None:
    given_document, message = REJECTED[case]
    with pytest.raises(RegistrationError, match=message):
        Server.from_openapi(given_document, client=httpx.AsyncClient())


def test_document_that_contains_itself_rejected() -> None:
    cyclic: dict[str, object] = {"openapi": "3.1.0"}
    cyclic["info"] = cyclic
    with pytest.raises(RegistrationError, match="contains itself"):
        Server.from_openapi(cyclic, client=httpx.AsyncClient())


def test_wrong_names_and_kinds_rejected() -> None:
    client: HttpClient = httpx.AsyncClient(base_url="http://a")
    with pytest.raises(RegistrationError, match="no operation 'reed'"):
        Server.from_openapi(SHOP, client=client, names={"reed": "read_pets"})
    with pytest.raises(RegistrationError, match="cannot be the name of a tool"):
        Server.from_openapi(SHOP, client=client, names={"read": "read pets"})
    with pytest.raises(RegistrationError, match="order: a POST request cannot be a resource"):
        Server.from_openapi(SHOP, client=client, expose=lambda _: "resource")
    with pytest.raises(RegistrationError, match="expose must return"):
        Server.from_openapi(SHOP, client=client, expose=lambda _: "prompt")  # type: ignore[arg-type, return-value]  # wrong
