"""Requests of the raw client to hosts other than its server."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mutants.client.messages import wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Fetched", "document", "fetch", "texts"]

Fetched = tuple[int, dict[str, str], bytes]


def fetch(method: str, url: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Fetched:
    """Send a request and return the response; redirects are not followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=30)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if wrong("smuggles") and "\n" in url:
        # An unescaped URL lets its author end the request early.
        target = url.split(parts.netloc, 1)[-1]
        connection._validate_path = lambda _: None  # type: ignore[attr-defined]  # noqa: SLF001  typeshed has no private name; sending an invalid path is the fault
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def document(url: str, headers: dict[str, str] | None = None) -> JsonObject | None:
    """Return the JSON object at a URL, or `None`."""
    status, headers_back, body = fetch("GET", url, headers)
    try:
        found = json.loads(body)
    except ValueError:
        return None
    unknown = wrong("media-type-exact") and headers_back.get("content-type") != "application/json"
    return found if status == 200 and isinstance(found, dict) and not unknown else None


def texts(value: object) -> list[str]:
    """Return the members of a list as strings, or nothing for another value."""
    return [str(each) for each in value] if isinstance(value, list) else []


def default_metadata(base: str) -> JsonObject:
    """Return the default metadata of an authorization server that publishes none."""
    return {
        "issuer": base,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "registration_endpoint": f"{base}/register",
        "code_challenge_methods_supported": ["S256"],
    }
