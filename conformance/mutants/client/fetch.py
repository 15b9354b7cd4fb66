"""Requests of the raw client to others than its server."""

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
    """One request; no redirect is followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=30)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if wrong("smuggles") and "\n" in url:
        # What is written as it stands ends the request where somebody else wants.
        target = url.split(parts.netloc, 1)[-1]
        connection._validate_path = lambda _: None  # type: ignore[attr-defined]  # noqa: SLF001  typeshed has no private name; that a bad path is sent is the fault
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def document(url: str, headers: dict[str, str] | None = None) -> JsonObject | None:
    """The JSON object at a URL; `None` when there is none."""
    status, _, body = fetch("GET", url, headers)
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if status == 200 and isinstance(found, dict) else None


def texts(value: object) -> list[str]:
    """The members of a list, as text; nothing for what is no list."""
    return [str(each) for each in value] if isinstance(value, list) else []


def default_metadata(base: str) -> JsonObject:
    """What is taken for the metadata of an authorization server that has none."""
    return {
        "issuer": base,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "registration_endpoint": f"{base}/register",
        "code_challenge_methods_supported": ["S256"],
    }
