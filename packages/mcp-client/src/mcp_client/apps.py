"""MCP Apps: pages of a server that show the results of its tools, for hosts that can show pages.

    handlers = Handlers(extensions=SHOWS_APPS)
    ...
    tools = await client.list_tools()
    offered = for_model(tools)
    uri = app_of(tool)
    page = await read_app(client, uri)

A page is a program of the server. A host shows the page in a sandboxed frame of another origin, with `AppPage.policy`.
The page may call only tools of the same server for which `callable_by_app` is true. The messages between the host and
the frame are not part of this library.

Spec: the extension `io.modelcontextprotocol/ui`
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import InvalidValue, LimitExceeded, McpError
from mcp_core.features.apps import (
    allow_attribute,
    content_security_policy,
    is_app_type,
    is_app_uri,
    read_resource_meta,
    read_tool_meta,
)
from mcp_core.field_methods import FieldValue
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types import TextResourceContents
from mcp_core.types.apps import APP_MIME_TYPE, UI_EXTENSION, AppResourceMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_client.client import Client
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import Resource, Tool

__all__ = [
    "MAX_PAGE_BYTES",
    "SHOWS_APPS",
    "AppPage",
    "AppRefused",
    "AppResourceMeta",
    "app_of",
    "callable_by_app",
    "for_model",
    "read_app",
]

_log: Final = logging.getLogger("mcp_client")

SHOWS_APPS: Final[Mapping[str, JsonObject]] = {UI_EXTENSION: {"mimeTypes": [APP_MIME_TYPE]}}
"""The declaration of a host that can show pages: the `extensions` of `Handlers`, or a part of them."""

MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Default maximum size of a page, in bytes. A page with a bundled framework has about two megabytes."""

_MODEL: Final = "model"
_APP: Final = "app"


class AppRefused(McpError):
    """A page is rejected: it is not a page, is too large, or has invalid metadata. The message has the reason."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AppPage(FieldValue):
    """A page and its declared needs. All members are untrusted content of the server."""

    uri: str
    """The URI of the page."""
    html: str
    """The HTML document."""
    meta: AppResourceMeta
    """The metadata of the page."""

    @property
    def policy(self) -> str:
        """The `Content-Security-Policy` of the page, which allows only the declared origins."""
        return content_security_policy(self.meta.csp)

    @property
    def allow(self) -> str:
        """The `allow` attribute of the frame, if the host grants all requested permissions."""
        return allow_attribute(self.meta.permissions)


def app_of(tool: Tool) -> str | None:
    """Return the URI of the page that shows the results of a tool; `None` if there is no valid one."""
    try:
        uri = read_tool_meta(tool.meta).resource_uri
    except InvalidValue:
        return None
    return uri if uri is not None and is_app_uri(uri) else None


def for_model(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return the tools that a model may see and call. Other tools are only for the pages of their server.

    A tool with invalid `_meta.ui` is omitted, with a warning in the log.
    """
    return tuple(tool for tool in tools if _visible_to(_MODEL, tool))


def callable_by_app(tool: Tool) -> bool:
    """Return whether a page may call a tool. Both must belong to the same connection to the same server."""
    return _visible_to(_APP, tool)


def _visible_to(party: str, tool: Tool) -> bool:
    try:
        visibility = read_tool_meta(tool.meta).visibility
    except InvalidValue as error:
        _log.warning("tool omitted, its _meta.ui is invalid: tool=%r error=%s", tool.name, error.message)
        return False
    return visibility is None or party in visibility


@allow_asyncio
async def read_app(
    client: Client, uri: str, *, listed: Resource | None = None, max_bytes: int = MAX_PAGE_BYTES
) -> AppPage:
    """Read a page.

    Args:
        client: The client of the server.
        uri: The URI of the page, from `app_of`.
        listed: The entry of the page in the list of resources, if known. Its metadata is used if the page has none.
        max_bytes: Maximum size of the document, in bytes.

    Returns:
        The page. Its code was neither run nor checked.

    Raises:
        AppRefused: The resource is not a page, is too large, or has invalid metadata.
        RequestFailed: The server responded with an error.
        McpError: The other exceptions of `Client.read_resource`.
    """
    if not is_app_uri(uri):
        raise AppRefused(f"{uri!r:.200} is not the URI of a page, which begins with ui://")
    contents = (await client.read_resource(uri)).contents
    if len(contents) != 1:
        raise AppRefused(f"{uri} has {len(contents)} contents; a page has exactly one")
    (content,) = contents
    if not is_app_type(content.mime_type):
        raise AppRefused(f"{uri} has the type {content.mime_type!r:.100}, not {APP_MIME_TYPE}")
    try:
        if isinstance(content, TextResourceContents):
            html = content.text
            size = len(html.encode(errors="surrogatepass"))
            if size > max_bytes:
                raise LimitExceeded("bytes of a page", observed=size, allowed=max_bytes, setting="max_bytes")
        else:
            html = content.blob_bytes(max_bytes=max_bytes).decode()
        meta = read_resource_meta(content.meta) or read_resource_meta(None if listed is None else listed.meta)
    except (InvalidValue, LimitExceeded, UnicodeDecodeError) as error:
        raise AppRefused(f"{uri} is rejected: {error}") from error
    return AppPage(uri=uri, html=html, meta=meta or AppResourceMeta())
