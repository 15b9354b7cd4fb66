"""Pages of servers (MCP Apps) in a client."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mcp_client import Client, Handlers, open_http
from mcp_client.apps import SHOWS_APPS, AppRefused, app_of, callable_by_app, for_model, read_app
from mcp_client.testing import open_in_memory
from mcp_core.errors import ResourceNotFound
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceContents,
    TextResourceContents,
    Tool,
)
from mcp_core.types.apps import APP_MIME_TYPE, AppCsp, AppPermissions
from mcp_server import Context, Server, serve_http, serve_stream
from mcp_server.apps import App, shows_apps

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
WITH_META = pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25, R2026_07_28], ids=str)
HTML = "<!DOCTYPE html><p>Weather: ä"
URI = "ui://weather"
HOST = Handlers(extensions=SHOWS_APPS)


def weather() -> Server:
    server = Server("weather", version="1")
    app = App(server, URI, HTML, csp=AppCsp(connect_domains=("https://a.com",)), permissions=AppPermissions(camera={}))

    @app.tool
    async def forecast(context: Context) -> str:
        return "page" if shows_apps(context) else "text"

    @app.tool(only="app")
    async def refresh() -> str:
        return ""

    @app.tool(only="model")
    async def explain() -> str:
        return ""

    @server.tool
    async def other() -> str:
        return ""

    return server


@asynccontextmanager
async def connected(server: Server, revision: Revision = R2026_07_28) -> AsyncIterator[Client]:
    async with open_in_memory(
        lambda stream: serve_stream(server, stream), handlers=HOST, revisions=[revision]
    ) as client:
        yield client


@WITH_META
async def test_app_tools_page_and_visibility_read(revision: Revision) -> None:
    async with connected(weather(), revision) as client:
        tools = await client.list_tools()
        assert [app_of(tool) for tool in tools] == [URI, URI, URI, None]
        assert [tool.name for tool in for_model(tools)] == ["forecast", "explain", "other"]
        assert [tool.name for tool in tools if callable_by_app(tool)] == ["forecast", "refresh", "other"]


@ALL
async def test_apps_extension_every_revision_declared(revision: Revision) -> None:
    async with connected(weather(), revision) as client:
        (block,) = (await client.call_tool("forecast")).content
        assert getattr(block, "text", None) == "page"
    async with open_in_memory(lambda stream: serve_stream(weather(), stream), revisions=[revision]) as client:
        (block,) = (await client.call_tool("forecast")).content
        assert getattr(block, "text", None) == "text"


@WITH_META
async def test_page_csp_and_permissions_applied(revision: Revision) -> None:
    async with connected(weather(), revision) as client:
        page = await read_app(client, URI)
        assert (page.uri, page.html) == (URI, HTML)
        assert "connect-src 'self' https://a.com;" in page.policy
        assert page.allow == "camera"


async def test_page_over_http_read(autojump_clock: trio.abc.Clock) -> None:
    async with trio.open_nursery() as nursery:
        (url, *_) = await nursery.start(serve_http, weather(), "127.0.0.1:0")
        async with open_http(url, handlers=HOST) as client:
            (tool, *_) = await client.list_tools()
            uri = app_of(tool)
            assert uri is not None
            assert (await read_app(client, uri)).html == HTML
        nursery.cancel_scope.cancel()


# --- invalid servers ----------------------------------------------------------------------------------------------------


def tool(ui: JsonValue, **meta: JsonValue) -> Tool:
    return Tool(name="t", input_schema={"type": "object"}, meta={"ui": ui, **meta})


def test_tool_ui_metadata_invalid_omits_tool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mcp_client")
    wrong: list[JsonValue] = [5, [], {"visibility": "model"}, {"visibility": [5]}, {"resourceUri": 5}]
    for ui in wrong:
        assert app_of(tool(ui)) is None
        assert for_model([tool(ui)]) == ()
        assert not callable_by_app(tool(ui))
    assert "tool omitted, its _meta.ui is invalid: tool='t'" in caplog.text
    invisible = tool({"visibility": []})
    assert (for_model([invisible]), callable_by_app(invisible)) == ((), False)


@pytest.mark.parametrize(
    "uri", ["https://evil.example", "file:///etc/passwd", "javascript:alert(1)", "ui://", "ui://a b"]
)
async def test_page_uri_not_ui_scheme_rejected(uri: str) -> None:
    assert app_of(tool({"resourceUri": uri})) is None
    assert app_of(tool({}, **{"ui/resourceUri": uri})) is None
    async with connected(weather()) as client:
        with pytest.raises(AppRefused, match="not the URI of a page"):
            await read_app(client, uri)


def test_page_uri_former_meta_key_read() -> None:
    assert app_of(tool(None, **{"ui/resourceUri": URI})) == URI


def invalid_page_server(*contents: ResourceContents) -> Server:
    server = Server("rogue", version="1")

    @server.resource(URI)
    async def page() -> ReadResourceResult:
        return ReadResourceResult(contents=contents)

    return server


def text(html: str, mime_type: str | None = APP_MIME_TYPE, meta: JsonObject | None = None) -> TextResourceContents:
    return TextResourceContents(uri=URI, text=html, mime_type=mime_type, meta=meta)


def blob(data: bytes, mime_type: str = APP_MIME_TYPE) -> BlobResourceContents:
    return BlobResourceContents.of_bytes(URI, data, mime_type)


@pytest.mark.spec("capability.extension-data-untrusted")
@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        ((), "has 0 contents"),
        ((text(HTML), text(HTML)), "has 2 contents"),
        ((text(HTML, "text/html"),), "has the type 'text/html'"),
        ((text(HTML, None),), "has the type None"),
        ((text(HTML, "image/png"),), "has the type 'image/png'"),
        ((text("ä" * 51),), "bytes of a page"),
        ((blob(b"x" * 101),), "decoded base64"),
        ((blob(b"\xff"),), "is rejected"),
        ((BlobResourceContents(uri=URI, blob="!", mime_type=APP_MIME_TYPE),), "not base64"),
        ((text(HTML, meta={"ui": 5}),), "is rejected"),
        ((text(HTML, meta={"ui": {"csp": {"connectDomains": "*"}}}),), "connectDomains"),
    ],
)  # fmt: skip
async def test_page_content_invalid_raises(contents: tuple[ResourceContents, ...], problem: str) -> None:
    async with connected(invalid_page_server(*contents)) as client:
        with pytest.raises(AppRefused, match=problem):
            await read_app(client, URI, max_bytes=100)


@pytest.mark.parametrize("contents", [text("ä" * 50), blob("ä".encode() * 50)], ids=["text", "bytes"])
async def test_page_at_size_limit_accepted(contents: ResourceContents) -> None:
    async with connected(invalid_page_server(contents)) as client:
        assert (await read_app(client, URI, max_bytes=100)).html == "ä" * 50


async def test_page_missing_raises_resource_not_found() -> None:
    async with connected(weather()) as client:
        with pytest.raises(ResourceNotFound):
            await read_app(client, "ui://other")


async def test_page_without_ui_meta_uses_listed_meta() -> None:
    listed = Resource(uri=URI, name="x", meta={"ui": {"csp": {"connectDomains": ["https://listed.com"]}}})
    async with connected(invalid_page_server(text(HTML))) as client:
        assert "https://listed.com" in (await read_app(client, URI, listed=listed)).policy
    async with connected(invalid_page_server(text(HTML, meta={"ui": {"prefersBorder": False}}))) as client:
        page = await read_app(client, URI, listed=listed)
        assert "connect-src 'none'" in page.policy
        assert page.meta.prefers_border is False


async def test_page_csp_invalid_origin_dropped() -> None:
    meta: JsonObject = {
        "ui": {"csp": {"connectDomains": ["*", "https://a.com; script-src *"], "resourceDomains": ["data:"]}}
    }
    async with connected(invalid_page_server(text(HTML, meta=meta))) as client:
        assert (await read_app(client, URI)).policy.count("*") == 0
