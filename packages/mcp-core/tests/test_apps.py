"""MCP Apps: the member `ui` of `_meta`, and the security headers of a browser."""

from __future__ import annotations

import pytest
from engine_pair import make_client, make_server, pair
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.conversion.converter import converter
from mcp_core.errors import InvalidValue
from mcp_core.features.apps import (
    allow_attribute,
    app_types,
    content_security_policy,
    is_app_type,
    is_app_uri,
    is_origin,
    read_resource_meta,
    read_tool_meta,
    write_meta,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Request
from mcp_core.revisions import REVISIONS, Era, Revision
from mcp_core.types import ClientCapabilities
from mcp_core.types.apps import (
    APP_MIME_TYPE,
    UI_EXTENSION,
    AppCsp,
    AppPermissions,
    AppResourceMeta,
    AppToolMeta,
)

SETTINGS: JsonObject = {"mimeTypes": [APP_MIME_TYPE]}


@pytest.mark.parametrize(
    "text", [APP_MIME_TYPE, "text/html; profile=mcp-app", 'Text/HTML;charset=utf-8; profile="mcp-app"']
)
def test_app_type_written_differently_recognized(text: str) -> None:
    assert is_app_type(text)


@pytest.mark.parametrize(
    "text",
    [None, "", "text/html", "text/html;profile=mcp-apps", "text/plain;profile=mcp-app", "text/html;x-profile=mcp-app"],
)
def test_app_type_other_media_type_rejected(text: str | None) -> None:
    assert not is_app_type(text)


def test_app_uri_syntax_checked() -> None:
    assert is_app_uri("ui://weather/dashboard")
    assert not any(map(is_app_uri, ["ui://", "ui:/a", "https://a", "ui://a b", "ui://a\n", " ui://a", "UI://a"]))


@pytest.mark.parametrize(
    "text", ["https://example.com", "https://*.example.com", "wss://a.b.example:8443", "http://localhost:3000"]
)
def test_origin_valid_accepted(text: str) -> None:
    assert is_origin(text)


@pytest.mark.parametrize(
    "text",
    ["*", "https:", "https://*", "https://a.com/", "https://a.com/x", "https://a.com; script-src *", "https://a.com b",
     "data:", "'unsafe-eval'", "https://a.com,https://b.com", "javascript://a", "https://a..com", "https://-a.com", "https://a.com\n"],
)  # fmt: skip
def test_origin_invalid_not_in_security_policy(text: str) -> None:
    assert not is_origin(text)
    csp = AppCsp(connect_domains=(text,), resource_domains=(text,), frame_domains=(text,), base_uri_domains=(text,))
    assert content_security_policy(csp) == content_security_policy(None)


# --- capabilities and `_meta` ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_server_reads_app_types_of_client_in_any_revision(revision: Revision) -> None:
    capabilities = ClientCapabilities(extensions={UI_EXTENSION: SETTINGS})
    both = pair(make_client(revision, capabilities=capabilities), make_server(revision))
    message = both.client.open().message
    assert isinstance(message, Request)
    params = message.params or {}
    raw = params["capabilities"] if revision.era is Era.LEGACY else None
    if raw is None:
        meta = params["_meta"]
        assert isinstance(meta, dict)
        raw = meta["io.modelcontextprotocol/clientCapabilities"]
    assert raw == {"extensions": {UI_EXTENSION: SETTINGS}}
    assert app_types(converter(revision).structure(raw, ClientCapabilities)) == (APP_MIME_TYPE,)


def test_legacy_initialize_without_extensions_omits_member() -> None:
    capabilities = ClientCapabilities(extensions={}, extra={"x": 1})
    revision = REVISIONS["2025-11-25"]
    message = make_client(revision, capabilities=capabilities).open().message
    assert isinstance(message, Request)
    assert (message.params or {})["capabilities"] == {"x": 1}


@pytest.mark.parametrize("settings", [None, 5, [], {}, {"mimeTypes": "text/html"}, {"mimeTypes": [5]}], ids=str)
def test_app_types_undeclared_or_invalid_empty(settings: JsonValue) -> None:
    assert app_types(ClientCapabilities(extra={"extensions": {UI_EXTENSION: settings}})) == ()
    assert app_types(ClientCapabilities(extra={"extensions": settings})) == ()
    assert app_types(ClientCapabilities()) == ()


def test_tool_meta_written_and_read() -> None:
    app_meta = AppToolMeta(resource_uri="ui://a", visibility=("app",))
    meta = write_meta(app_meta, {"com.example/x": 1})
    assert meta == {"com.example/x": 1, "ui": {"resourceUri": "ui://a", "visibility": ["app"]}}
    assert read_tool_meta(meta) == app_meta
    assert read_tool_meta(None) == read_tool_meta({}) == read_tool_meta({"ui/resourceUri": 5}) == AppToolMeta()
    assert read_tool_meta({"ui": {"visibility": ["model", "robot"]}}).visibility == ("model", "robot")


def test_tool_meta_deprecated_resource_uri_read() -> None:
    old: JsonObject = {"ui/resourceUri": "ui://old"}
    assert read_tool_meta(old) == AppToolMeta(resource_uri="ui://old")
    assert read_tool_meta({**old, "ui": {"visibility": ["app"]}}) == AppToolMeta(
        resource_uri="ui://old", visibility=("app",)
    )
    assert read_tool_meta({**old, "ui": {"resourceUri": "ui://new"}}).resource_uri == "ui://new"


@pytest.mark.parametrize("raw", [5, [], {"resourceUri": 5}, {"visibility": "app"}], ids=str)
def test_tool_meta_invalid_raises(raw: JsonValue) -> None:
    with pytest.raises(InvalidValue):
        read_tool_meta({"ui": raw})


def test_resource_meta_written_and_read() -> None:
    app_meta = AppResourceMeta(csp=AppCsp(connect_domains=("https://a.com",)), domain="x", prefers_border=False)
    meta = write_meta(app_meta)
    assert meta == {"ui": {"csp": {"connectDomains": ["https://a.com"]}, "domain": "x", "prefersBorder": False}}
    assert read_resource_meta(meta) == app_meta
    assert read_resource_meta(None) is read_resource_meta({}) is None
    with pytest.raises(InvalidValue, match="csp"):
        read_resource_meta({"ui": {"csp": []}})


# --- security headers ------------------------------------------------------------------------------------------------


def directives(csp: AppCsp | None) -> dict[str, list[str]]:
    return {name: sources for name, *sources in (each.split() for each in content_security_policy(csp).split("; "))}


def test_security_policy_without_declaration_denies_network() -> None:
    assert directives(None) == directives(AppCsp()) == {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-inline'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "media-src": ["'self'", "data:"],
        "connect-src": ["'none'"],
        "frame-src": ["'none'"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
    }  # fmt: skip


def test_security_policy_contains_declared_domains() -> None:
    csp = AppCsp(
        connect_domains=("wss://c.com",),
        resource_domains=("https://r.com",),
        frame_domains=("https://f.com",),
        base_uri_domains=("https://b.com",),
    )
    found = directives(csp)
    assert found["connect-src"] == ["'self'", "wss://c.com"]
    assert [name for name, sources in found.items() if "https://r.com" in sources] == [
        "script-src", "style-src", "img-src", "font-src", "media-src",
    ]  # fmt: skip
    assert found["frame-src"] == ["https://f.com"]
    assert found["base-uri"] == ["https://b.com"]


@pytest.mark.property
@given(st.lists(st.text(alphabet="htps:/*.a;, '\n-1", max_size=20)))
def test_security_policy_declared_domains_add_no_directive(domains: list[str]) -> None:
    csp = AppCsp(connect_domains=tuple(domains), resource_domains=tuple(domains), frame_domains=tuple(domains))
    assert directives(csp).keys() == directives(None).keys()


def test_allow_attribute_contains_declared_permissions() -> None:
    assert allow_attribute(None) == allow_attribute(AppPermissions()) == ""
    assert allow_attribute(AppPermissions(camera={}, clipboard_write={})) == "camera; clipboard-write"
    assert allow_attribute(AppPermissions(microphone={}, geolocation={})) == "microphone; geolocation"
