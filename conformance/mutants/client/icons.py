"""Requests of the raw client for icons, all of which are faults."""

from __future__ import annotations

import base64
import re
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mutants.client.fetch import fetch
from mutants.client.messages import wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["fetch_icons"]

_TOKEN: Final = {"Authorization": "Bearer access-token-for-the-server-only"}
_COOKIE: Final = {"Cookie": "conformance=for-the-server-only"}
_FETCHES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "fetches-icons": ("http", {}),
    "fetches-server-icons": ("http", {}),
    "fetches-icons-with-token": ("http", _TOKEN),
    "fetches-icons-with-cookie": ("http", _COOKIE),
    "follows-icon-redirects": ("http", {}),
    "fetches-ws-icons": ("ws", {}),
    "fetches-ftp-icons": ("ftp", {}),
    "fetches-foreign-icons": ("https", {}),
    "runs-icon-scripts": ("javascript", {}),
    "runs-svg-scripts": ("data", {}),
}
"""By fault, the scheme of the icons that are fetched, and the headers of the requests."""
_SCRIPT: Final = re.compile(r"fetch\('([^']+)'\)")


def fetch_icons(tools: list[JsonObject], server_info: JsonValue) -> None:
    """Fetch the icons of the tools, or of the server, whose scheme is that of the fault."""
    described = server_info if isinstance(server_info, dict) else {}
    for fault, (scheme, headers) in _FETCHES.items():
        bearer = described if fault == "fetches-server-icons" else tools[0] if tools else {}
        for source in _sources(bearer) if wrong(fault) else ():
            if source.startswith(f"{scheme}:"):
                location = _fetch(source, scheme, headers)
                if fault == "follows-icon-redirects":
                    _connect(location)


def _sources(bearer: JsonObject) -> list[str]:
    icons = bearer.get("icons")
    return [str(each["src"]) for each in icons if isinstance(each, dict)] if isinstance(icons, list) else []


def _fetch(source: str, scheme: str, headers: Mapping[str, str]) -> str:
    """Fetch an icon and return the URL to which it redirects, or the empty string."""
    if scheme in ("ftp", "https"):
        # The connection is the fault: nothing is read from it.
        _connect(source)
        return ""
    text = base64.b64decode(source.partition(",")[2]).decode() if scheme == "data" else source
    script = _SCRIPT.search(text)
    url = text.replace("ws:", "http:", 1) if script is None else script[1]
    return fetch("GET", url, {**headers})[1].get("location", "")


def _connect(url: str) -> None:
    parts = urlsplit(url)
    socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30).close()
