"""HTTP requests and responses as values, parsed without any of the code under test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import attrs

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Pairs", "Request", "Response", "json_object", "json_response", "origin_of", "single"]

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values: headers, or fields of a query or a form."""

_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL in normal form; empty for an invalid URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if not host:
        return ""
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}" + ("" if port in (None, _PORTS.get(parts.scheme)) else f":{port}")


def json_object(text: bytes | str) -> JsonObject | None:
    """Parse a JSON object; `None` if the text is not a JSON object."""
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def single(pairs: Pairs) -> dict[str, str]:
    """Return the first value of each name."""
    return dict(reversed(pairs))


@attrs.frozen(kw_only=True)
class Request:
    """An HTTP request."""

    method: str
    """The method."""
    url: str
    """The absolute URL."""
    headers: Pairs = ()
    """The headers, in order."""
    body: bytes = b""
    """The whole body."""

    @property
    def origin(self) -> str:
        """The origin that received the request."""
        return origin_of(self.url)

    @property
    def path(self) -> str:
        """The path as received; `/` if it is empty."""
        return urlsplit(self.url).path or "/"

    @property
    def place(self) -> str:
        """The URL without its query."""
        return f"{self.origin}{self.path}"

    @property
    def query(self) -> Pairs:
        """The fields of the query."""
        return tuple(parse_qsl(urlsplit(self.url).query, keep_blank_values=True))

    @property
    def form(self) -> Pairs:
        """The fields of the body, if it is a form."""
        return tuple(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    @property
    def media_type(self) -> str:
        """The type of the body, without parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def all(self, name: str) -> list[str]:
        """Return the values of all headers with this name."""
        return [value for given, value in self.headers if given.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """Return the first header with this name; `None` if absent."""
        return next(iter(self.all(name)), None)


@attrs.frozen(kw_only=True)
class Response:
    """An HTTP response."""

    status: int
    """The status."""
    headers: Pairs = ()
    """The headers, in order."""
    body: bytes = b""
    """The whole body."""
    delay: float = 0.0
    """Seconds before the response is sent; infinite: it is never sent."""

    def header(self, name: str) -> str | None:
        """Return the first header with this name; `None` if absent."""
        return next((value for given, value in self.headers if given.lower() == name.lower()), None)


def json_response(document: JsonValue, status: int = 200, headers: Pairs = ()) -> Response:
    """Return a response with a document that must not be cached."""
    named = (("Content-Type", "application/json"), ("Cache-Control", "no-store"), *headers)
    return Response(status=status, headers=named, body=json.dumps(document).encode())
