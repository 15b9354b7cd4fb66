"""MCP Apps: pages of a server that show what its tools gave. For hosts that can show them.

    handlers = Handlers(extensions=SHOWS_APPS)
    ...
    tools = await client.list_tools()
    offered = for_model(tools)
    uri = app_of(tool)
    page = await read_app(client, uri)

A page is a program of the server. A host shows it in a sandboxed frame of another origin, with `AppPage.policy`, and lets
it call only tools of the same server that are `callable_by_app`. What goes between the host and the frame is not a part
of this library.

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
"""What a host that can show pages declares: the `extensions` of `Handlers`, or a part of them."""

MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""How large a page may be unless told otherwise, in bytes. A framework with all that it needs has two megabytes."""

_MODEL: Final = "model"
_APP: Final = "app"


class AppRefused(McpError):
    """A page is not shown: it is none, or too large, or says nothing that can be read of itself. The message says why."""


@attrs.frozen(kw_only=True)
class AppPage:
    """A page, and what it asks for. All of it is the server's: untrusted."""

    uri: str
    """Where it was read."""
    html: str
    """The document."""
    meta: AppResourceMeta
    """What it says of itself."""

    @property
    def policy(self) -> str:
        """The `Content-Security-Policy` to show it with: it may ask for nothing that it did not declare."""
        return content_security_policy(self.meta.csp)

    @property
    def allow(self) -> str:
        """The `allow` attribute of its frame, if the host grants all that it asks for."""
        return allow_attribute(self.meta.permissions)


def app_of(tool: Tool) -> str | None:
    """The URI of the page that shows what a tool gives; `None`: it has none that can be shown."""
    try:
        uri = read_tool_meta(tool.meta).resource_uri
    except InvalidValue:
        return None
    return uri if uri is not None and is_app_uri(uri) else None


def for_model(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools that a model may see and call. Others are only for the pages of their server.

    What cannot be understood of a tool is taken for a no: it is left out, and the log says so.
    """
    return tuple(tool for tool in tools if _visible_to(_MODEL, tool))


def callable_by_app(tool: Tool) -> bool:
    """Whether a page may call a tool, which has to be one of the same connection to the same server."""
    return _visible_to(_APP, tool)


def _visible_to(whom: str, tool: Tool) -> bool:
    try:
        visibility = read_tool_meta(tool.meta).visibility
    except InvalidValue as error:
        _log.warning("the tool %r is not used: its _meta.ui cannot be read: %s", tool.name, error.message)
        return False
    return visibility is None or whom in visibility


async def read_app(
    client: Client, uri: str, *, listed: Resource | None = None, max_bytes: int = MAX_PAGE_BYTES
) -> AppPage:
    """Reads a page.

    Args:
        client: The server.
        uri: Its URI, as `app_of` gives it.
        listed: What the server listed of it, if that is known. It counts where the page itself says nothing.
        max_bytes: The bound on the document, in bytes.

    Returns:
        The page, which was not run, and not checked for what it does.

    Raises:
        AppRefused: That is no page, or a larger one.
        RequestFailed: The server does not give it.
    """
    if not is_app_uri(uri):
        raise AppRefused(f"{uri!r:.200} is no URI of a page, which begins with ui://")
    contents = (await client.read_resource(uri)).contents
    if len(contents) != 1:
        raise AppRefused(f"{uri} has {len(contents)} contents; a page has one")
    (content,) = contents
    if not is_app_type(content.mime_type):
        raise AppRefused(f"{uri} is of the type {content.mime_type!r:.100}, not {APP_MIME_TYPE}")
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
        raise AppRefused(f"{uri} is not shown: {error}") from error
    return AppPage(uri=uri, html=html, meta=meta or AppResourceMeta())
