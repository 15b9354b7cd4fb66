"""MCP Apps: pages that show what a tool gave. The extension `io.modelcontextprotocol/ui`, in all revisions with `_meta`.

It has no methods: all of it stands under the key `ui` in `_meta` of tools and resources, and in the client's
capabilities. `mcp_core.features.apps` reads and writes these places.
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
"""Who may see and call a tool: the model, or the page of the same server."""


@wire()
class AppsExtensionCapability(Open):
    """What a client says of itself under `UI_EXTENSION`. Spec: the extension `io.modelcontextprotocol/ui`"""

    mime_types: tuple[str, ...]
    """The media types of pages that it can show."""


@wire()
class AppToolMeta(Open):
    """What stands under `ui` in `_meta` of a tool. Spec: the extension `io.modelcontextprotocol/ui`, Resource Discovery"""

    resource_uri: str | None = None
    """The page that shows what the tool gave."""
    visibility: tuple[str, ...] | None = None
    """Who may see and call the tool, see `AppVisibility`; `None`: the model and the page."""


@wire()
class AppCsp(Open):
    """Where a page may load things from: origins as `https://cdn.example.com` or `https://*.example.com`.

    What is left out is allowed from nowhere. Spec: the extension `io.modelcontextprotocol/ui`, UI Resource Format
    """

    connect_domains: tuple[str, ...] | None = None
    """What scripts may ask for: fetch, WebSocket."""
    resource_domains: tuple[str, ...] | None = None
    """Scripts, styles, pictures, fonts, media."""
    frame_domains: tuple[str, ...] | None = None
    """Frames in the page."""
    base_uri_domains: tuple[str, ...] | None = None
    """What relative addresses may be relative to."""


@wire()
class AppPermissions(Open):
    """What a page would like to use of the browser; `{}` says so. It has to do without.

    Spec: the extension `io.modelcontextprotocol/ui`, UI Resource Format
    """

    camera: JsonObject | None = None
    """The camera."""
    microphone: JsonObject | None = None
    """The microphone."""
    geolocation: JsonObject | None = None
    """Where the device is."""
    clipboard_write: JsonObject | None = None
    """Writing to the clipboard."""


@wire()
class AppResourceMeta(Open):
    """What stands under `ui` in `_meta` of a page. Spec: the extension `io.modelcontextprotocol/ui`, UI Resource Format"""

    csp: AppCsp | None = None
    """Where the page may load things from; `None`: from nowhere."""
    permissions: AppPermissions | None = None
    """What it would like to use of the browser."""
    domain: str | None = None
    """The origin that it would like to have, in the form that the host documents."""
    prefers_border: bool | None = None
    """Whether the host shall draw a border and a background; `None`: as it likes."""
