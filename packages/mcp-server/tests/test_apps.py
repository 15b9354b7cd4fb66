"""MCP Apps: UI resources of a server, and the tools that use them."""

from __future__ import annotations

from pathlib import Path

import pytest
from raw_client import as_list, as_object, connected, text_of

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import Context, RegistrationError, Server
from mcp_server.apps import APP_MIME_TYPE, App, AppCsp, AppPermissions, shows_apps

ALL_REVISIONS = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
BEFORE_META = {R2024_11_05, R2025_03_26}
WITH_META = pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25, R2026_07_28], ids=str)
HTML = "<!DOCTYPE html>\n<title>Weather</title>\n"
URI = "ui://weather/dashboard"
UI: JsonObject = {
    "csp": {"connectDomains": ["https://api.example.com"], "resourceDomains": ["https://*.example.com"]},
    "permissions": {"geolocation": {}},
    "prefersBorder": True,
}


@pytest.fixture
def server() -> Server:
    server = Server("weather", version="1")
    app = App(
        server,
        URI,
        HTML,
        title="Weather",
        description="The weather, as a map.",
        csp=AppCsp(connect_domains=("https://api.example.com",), resource_domains=("https://*.example.com",)),
        permissions=AppPermissions(geolocation={}),
        prefers_border=True,
    )

    @app.tool
    async def forecast(context: Context) -> str:
        """Return the weather forecast."""
        return "as a map" if shows_apps(context) else "sunny, then rain"

    @app.tool(only="app", title="Refresh", meta={"com.example/x": 1})
    async def refresh() -> str:
        return "sunny"

    app.add_tool(plain_tool, name="plain", only="model")
    return server


async def plain_tool() -> str:
    return ""


@ALL_REVISIONS
async def test_app_is_listed_and_read_as_resource(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        (listed,) = [as_object(each) for each in as_list((await client.call("resources/list"))["resources"])]
        expected = {
            "uri": URI,
            "name": URI,
            "mimeType": APP_MIME_TYPE,
            "size": len(HTML),
            "description": "The weather, as a map.",
        }
        assert {key: listed[key] for key in expected} == expected
        (read,) = [as_object(each) for each in as_list((await client.call("resources/read", {"uri": URI}))["contents"])]
        assert (read["uri"], read["mimeType"], read["text"]) == (URI, APP_MIME_TYPE, HTML)
        for each in (listed, read):
            assert each.get("_meta") == (None if revision in BEFORE_META else {"ui": UI})


@WITH_META
async def test_app_tool_metadata_has_uri_and_visibility(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        tools = [as_object(each) for each in as_list((await client.call("tools/list"))["tools"])]
        assert {str(each["name"]): each["_meta"] for each in tools} == {
            "forecast": {"ui": {"resourceUri": URI}},
            "refresh": {"com.example/x": 1, "ui": {"resourceUri": URI, "visibility": ["app"]}},
            "plain": {"ui": {"resourceUri": URI, "visibility": ["model"]}},
        }
        assert tools[1]["title"] == "Refresh"


@ALL_REVISIONS
@pytest.mark.parametrize(
    "types", [[APP_MIME_TYPE], ["text/html", 'text/html; profile="mcp-app"'], ["text/html"], None], ids=str
)
async def test_shows_apps_depends_on_client_mime_types(
    server: Server, revision: Revision, types: list[str] | None
) -> None:
    settings: JsonObject = {} if types is None else {"mimeTypes": [*types]}
    capabilities: JsonObject = {"extensions": {"io.modelcontextprotocol/ui": settings}}
    async with connected(server, revision, capabilities=capabilities) as client:
        supported = types is not None and len(types[-1]) > len("text/html")
        assert text_of(await client.tool("forecast")) == ("as a map" if supported else "sunny, then rain")
    async with connected(server, revision, capabilities={}) as client:
        assert text_of(await client.tool("forecast")) == "sunny, then rain"


async def test_server_with_app_declares_extension(server: Server) -> None:
    async with connected(server, R2026_07_28) as client:
        capabilities = as_object((await client.call("server/discover"))["capabilities"])
        assert capabilities["extensions"] == {"io.modelcontextprotocol/ui": {}}


async def test_app_from_file(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("\ufeff  <!doctype HTML><p>ä", encoding="utf-8")
    server = Server("s", version="1")
    assert App(server, "ui://a", page, name="a", domain="a.example.com").uri == "ui://a"
    page.write_text("changed")
    async with connected(server, R2026_07_28) as client:
        (read,) = as_list((await client.call("resources/read", {"uri": "ui://a"}))["contents"])
        assert as_object(read)["text"] == "\ufeff  <!doctype HTML><p>ä"
        assert as_object(read)["_meta"] == {"ui": {"domain": "a.example.com"}}


@pytest.mark.parametrize("uri", ["ui://", "https://a", "ui:a", "ui://a b", "ui://{a}", "resource://a", ""])
def test_app_uri_without_ui_scheme_raises(uri: str) -> None:
    with pytest.raises(RegistrationError, match="must begin with ui://"):
        App(Server("s", version="1"), uri, HTML)


@pytest.mark.parametrize("html", ["", "<html></html>", "<p>", "page.html", "<!-- x --><!DOCTYPE html>"])
def test_app_not_html_raises(html: str) -> None:
    with pytest.raises(RegistrationError, match="begins with <!DOCTYPE html>"):
        App(Server("s", version="1"), URI, html)


@pytest.mark.parametrize("content", [None, b"\xff<!DOCTYPE html>"], ids=["missing", "no text"])
def test_app_file_unreadable_raises(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "page.html").write_bytes(content)
    with pytest.raises(RegistrationError, match=r"page\.html' cannot be read"):
        App(Server("s", version="1"), URI, tmp_path / "page.html")


@pytest.mark.parametrize("field", ["connect_domains", "resource_domains", "frame_domains", "base_uri_domains"])
@pytest.mark.parametrize(
    "origin", ["*", "https://a.com/", "https://a.com; script-src *", "'unsafe-eval'", "example.com"]
)
def test_app_csp_not_origin_raises(field: str, origin: str) -> None:
    with pytest.raises(RegistrationError, match=f"{field}: .* is not an origin"):
        App(Server("s", version="1"), URI, HTML, csp=AppCsp(**{field: ("https://a.com", origin)}))  # type: ignore[arg-type]  # the tests are about tuples


def test_app_tool_invalid_visibility_raises(server: Server) -> None:
    app = App(server, "ui://other", HTML)
    with pytest.raises(RegistrationError, match="only must be 'model' or 'app', not 'robot'"):
        app.add_tool(plain_tool, name="other", only="robot")  # type: ignore[arg-type]  # the tested mistake


def test_app_duplicate_uri_raises(server: Server) -> None:
    with pytest.raises(RegistrationError, match="already a resource"):
        App(server, URI, HTML)
