"""MCP Apps on the wire: the members under `ui` in `_meta`, and the values for a browser derived from them.

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
"""The former key for the page of a tool; servers still write it."""

_URI: Final = re.compile(r"ui://[^\s\x00-\x1f\x7f]+")
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
_ORIGIN: Final = re.compile(rf"(?:https?|wss?)://(?:\*\.)?{_HOST}(?::[0-9]{{1,5}})?")

# The types have no lifetimes: all revisions read and write them in the same way.
_CONVERT: Final = converter(R2026_07_28)


# --- predicates ------------------------------------------------------------------------------------------------------


def is_app_type(mime_type: str | None) -> bool:
    """Return whether a media type is that of a page: `text/html;profile=mcp-app`, in any spacing, quoting and case."""
    first, *parameters = (mime_type or "").lower().split(";")
    known = {each.strip().replace('"', "") for each in parameters}
    return first.strip() == "text/html" and "profile=mcp-app" in known


def is_app_uri(uri: str) -> bool:
    """Return whether a URI can be that of a page: `ui://` followed by a path."""
    return _URI.fullmatch(uri) is not None


def is_origin(text: str) -> bool:
    """Return whether a text is an origin that a page may request: `https://example.com`, `wss://*.example.com:8443`.

    No other text may be part of a security policy, because a semicolon or a space in it starts another directive or
    source.
    """
    return _ORIGIN.fullmatch(text) is not None


# --- `_meta` and capabilities ----------------------------------------------------------------------------------------


def app_types(capabilities: ClientCapabilities) -> tuple[str, ...]:
    """Return the media types of pages that a client declares to display; empty if it declares none.

    Legacy revisions have no member for extensions. Hosts write it nevertheless, so unknown members are searched too.
    """
    extensions: object = capabilities.extensions or capabilities.extra.get("extensions")
    settings = extensions.get(UI_EXTENSION) if isinstance(extensions, Mapping) else None
    if not isinstance(settings, dict):
        return ()
    try:
        return _CONVERT.structure(settings, AppsExtensionCapability).mime_types
    except InvalidValue:
        return ()  # an invalid declaration declares no media types


def read_tool_meta(meta: JsonObject | None) -> AppToolMeta:
    """Return the members of a tool's `_meta` about its page. Raises `InvalidValue` if they are invalid."""
    found = _read(meta, AppToolMeta) or AppToolMeta()
    old = (meta or {}).get(_OLD_KEY)
    if found.resource_uri is None and isinstance(old, str):
        return AppToolMeta(resource_uri=old, visibility=found.visibility)
    return found


def read_resource_meta(meta: JsonObject | None) -> AppResourceMeta | None:
    """Return the members of a page's `_meta`, or `None` without any. Raises `InvalidValue` if they are invalid."""
    return _read(meta, AppResourceMeta)


def _read(meta: JsonObject | None, cls: type[T]) -> T | None:
    raw = None if meta is None else meta.get(_KEY)
    return None if raw is None else _CONVERT.structure(raw, cls)


def write_meta(value: WireObject, meta: JsonObject | None = None) -> JsonObject:
    """Return `meta` with `value` under `ui`."""
    return {**(meta or {}), _KEY: _CONVERT.unstructure(value)}


# --- values for a browser --------------------------------------------------------------------------------------------


def content_security_policy(csp: AppCsp | None) -> str:
    """Return the `Content-Security-Policy` that a host must apply to a page.

    Args:
        csp: The declaration of the page; `None` allows no external origins.

    Returns:
        The policy. A declared text that is not an origin (`is_origin`) is ignored.
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
    """Return the `allow` attribute for the frame of a page with these permissions; empty without permissions."""
    return "; ".join(name for attribute, name in _FEATURES.items() if getattr(permissions, attribute, None) is not None)
