"""MCP Apps: pages that show the result of a tool, by the extension `io.modelcontextprotocol/ui`.

The extension works in all revisions with `_meta`, and has no methods. All of its data is under the key `ui` in `_meta`
of tools and resources, and in the client's capabilities. `mcp_core.features.apps` reads and writes it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.types.base import Open
from mcp_core.types.wire_object import wire

__all__ = [
    "APP_MIME_TYPE",
    "UI_EXTENSION",
    "AppCsp",
    "AppPermissions",
    "AppResourceMeta",
    "AppToolMeta",
    "AppVisibility",
    "AppsExtensionCapability",
]

UI_EXTENSION: Final = "io.modelcontextprotocol/ui"
"""The identifier of the extension, a key of `extensions`."""

APP_MIME_TYPE: Final = "text/html;profile=mcp-app"
"""The media type of a page."""

AppVisibility: TypeAlias = Literal["model", "app"]
"""A caller that may see and call a tool: the model, or the page of the same server."""


@wire()
class AppsExtensionCapability(Open):
    """The client capability under `UI_EXTENSION`. Spec: the extension `io.modelcontextprotocol/ui`"""

    mime_types: tuple[str, ...]
    """The media types of pages that the client can show."""


@wire()
class AppToolMeta(Open):
    """The member `ui` in `_meta` of a tool.

    Spec: the extension `io.modelcontextprotocol/ui`, Resource Discovery
    """

    resource_uri: str | None = None
    """The URI of the page that shows the result of the tool."""
    visibility: tuple[str, ...] | None = None
    """The callers that may see and call the tool, see `AppVisibility`; `None` for the model and the page."""


@wire()
class AppCsp(Open):
    """Content security policy of a page: origins, for example `https://cdn.example.com` or `https://*.example.com`.

    A missing list allows no origin. Spec: the extension `io.modelcontextprotocol/ui`, UI Resource Format
    """

    connect_domains: tuple[str, ...] | None = None
    """Origins for requests of scripts: fetch, WebSocket."""
    resource_domains: tuple[str, ...] | None = None
    """Origins of scripts, styles, images, fonts and media."""
    frame_domains: tuple[str, ...] | None = None
    """Origins of frames in the page."""
    base_uri_domains: tuple[str, ...] | None = None
    """Origins for the base URL of the page."""


@wire()
class AppPermissions(Open):
    """Browser features that a page requests, each with `{}`. The page must also work without them.

    Spec: the extension `io.modelcontextprotocol/ui`, UI Resource Format
    """

    camera: JsonObject | None = None
    """The camera."""
    microphone: JsonObject | None = None
    """The microphone."""
    geolocation: JsonObject | None = None
    """The location of the device."""
    clipboard_write: JsonObject | None = None
    """Writing to the clipboard."""


@wire()
class AppResourceMeta(Open):
    """The member `ui` in `_meta` of a page.

    Spec: the extension `io.modelcontextprotocol/ui`, UI Resource Format
    """

    csp: AppCsp | None = None
    """Origins from which the page may load resources; `None` for no origin."""
    permissions: AppPermissions | None = None
    """The browser features that the page requests."""
    domain: str | None = None
    """The origin that the page requests, in the form that the host documents."""
    prefers_border: bool | None = None
    """Whether the host should draw a border and a background; `None` leaves it to the host."""
