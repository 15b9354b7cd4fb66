"""MCP Apps, as far as they travel on the wire: what stands under `ui` in `_meta`, and what a browser is told of it.

Spec: the extension `io.modelcontextprotocol/ui`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_core.conversion.converter import converter
from mcp_core.errors import InvalidValue
from mcp_core.revisions import R2026_07_28
from mcp_core.types.apps import (
    UI_EXTENSION,
    AppCsp,
    AppPermissions,
    AppResourceMeta,
    AppsExtensionCapability,
    AppToolMeta,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import ClientCapabilities, WireObject

__all__ = [
    "allow_attribute",
    "app_types",
    "content_security_policy",
    "is_app_type",
    "is_app_uri",
    "is_origin",
    "read_resource_meta",
    "read_tool_meta",
    "write_meta",
]

T = TypeVar("T")

_KEY: Final = "ui"
_OLD_KEY: Final = "ui/resourceUri"
"""Where the page of a tool stood before; servers still write it."""

_URI: Final = re.compile(r"ui://[^\s\x00-\x1f\x7f]+")
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
_ORIGIN: Final = re.compile(rf"(?:https?|wss?)://(?:\*\.)?{_HOST}(?::[0-9]{{1,5}})?")

# The types have no lifetimes: any revision reads and writes them alike.
_CONVERT: Final = converter(R2026_07_28)


# --- what is what ----------------------------------------------------------------------------------------------------


def is_app_type(mime_type: str | None) -> bool:
    """Whether a media type is that of a page: `text/html;profile=mcp-app`, however it is spaced, quoted and cased."""
    first, *parameters = (mime_type or "").lower().split(";")
    known = {each.strip().replace('"', "") for each in parameters}
    return first.strip() == "text/html" and "profile=mcp-app" in known


def is_app_uri(uri: str) -> bool:
    """Whether a URI can be that of a page: `ui://` and more."""
    return _URI.fullmatch(uri) is not None


def is_origin(text: str) -> bool:
    """Whether a text is an origin that a page may ask for: `https://example.com`, `wss://*.example.com:8443`.

    Nothing else may get into a security policy, in which a semicolon or a space begins something new.
    """
    return _ORIGIN.fullmatch(text) is not None


# --- what stands in `_meta` and in capabilities ----------------------------------------------------------------------


def app_types(capabilities: ClientCapabilities) -> tuple[str, ...]:
    """The media types of pages that a client says it can show; none when it has not said so.

    Legacy revisions have no member for extensions. Hosts write it all the same, so it is looked for among what they lack.
    """
    extensions: object = capabilities.extensions or capabilities.extra.get("extensions")
    settings = extensions.get(UI_EXTENSION) if isinstance(extensions, Mapping) else None
    if not isinstance(settings, dict):
        return ()
    try:
        return _CONVERT.structure(settings, AppsExtensionCapability).mime_types
    except InvalidValue:
        return ()  # whoever cannot say what it shows, shows nothing


def read_tool_meta(meta: JsonObject | None) -> AppToolMeta:
    """What the `_meta` of a tool says of its page. Raises `InvalidValue` when that cannot be read."""
    found = _read(meta, AppToolMeta) or AppToolMeta()
    old = (meta or {}).get(_OLD_KEY)
    if found.resource_uri is None and isinstance(old, str):
        return AppToolMeta(resource_uri=old, visibility=found.visibility)
    return found


def read_resource_meta(meta: JsonObject | None) -> AppResourceMeta | None:
    """What the `_meta` of a page says; `None`: nothing. Raises `InvalidValue` when that cannot be read."""
    return _read(meta, AppResourceMeta)


def _read(meta: JsonObject | None, cls: type[T]) -> T | None:
    raw = None if meta is None else meta.get(_KEY)
    return None if raw is None else _CONVERT.structure(raw, cls)


def write_meta(value: WireObject, meta: JsonObject | None = None) -> JsonObject:
    """The `_meta` that says `value` under `ui`, besides what is there already."""
    return {**(meta or {}), _KEY: _CONVERT.unstructure(value)}


# --- what a browser is told ------------------------------------------------------------------------------------------


def content_security_policy(csp: AppCsp | None) -> str:
    """The `Content-Security-Policy` that a host has to put around a page.

    Args:
        csp: What the page declares; `None`: nothing, so that it may ask for nothing.

    Returns:
        The policy. What is declared and is no origin (`is_origin`) is allowed no more than what is not declared.
    """
    csp = csp or AppCsp()
    resources = _origins(csp.resource_domains)
    connect, frame, base = map(_origins, (csp.connect_domains, csp.frame_domains, csp.base_uri_domains))
    directives = {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-inline'", *resources],
        "style-src": ["'self'", "'unsafe-inline'", *resources],
        "img-src": ["'self'", "data:", *resources],
        "font-src": ["'self'", *resources],
        "media-src": ["'self'", "data:", *resources],
        "connect-src": ["'self'", *connect] if connect else ["'none'"],
        "frame-src": frame or ["'none'"],
        "object-src": ["'none'"],
        "base-uri": base or ["'self'"],
    }
    return "; ".join(" ".join([name, *sources]) for name, sources in directives.items())


def _origins(declared: Iterable[str] | None) -> list[str]:
    return [each for each in declared or () if is_origin(each)]


_FEATURES: Final = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboard_write": "clipboard-write",
}


def allow_attribute(permissions: AppPermissions | None) -> str:
    """The `allow` attribute of the frame of a page that is granted all that it asks for; empty when it asks for nothing."""
    return "; ".join(name for attribute, name in _FEATURES.items() if getattr(permissions, attribute, None) is not None)
