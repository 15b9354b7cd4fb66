"""Errors of a client for HTTP responses without a message of the protocol.

An error names the status, the media type, and the beginning of the body. Its first line shows whether the address is
wrong, a login page replaces the server, or the server is at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import EXCERPT_BYTES, AccessDenied, HttpFailure
from mcp_core.http.media_types import media_type

if TYPE_CHECKING:
    from mcp_core.http.messages import HttpHead

__all__ = ["FAILURE_BYTES", "clipped", "encoding_of", "failure_of", "media_type_of", "printable"]

FAILURE_BYTES: Final = EXCERPT_BYTES
"""Number of bytes of the body that a client reads for an error."""

_QUOTED: Final = 200
"""Characters of the body in the error message. `HttpFailure.body` has all bytes that were read."""

_REFUSALS: Final = {
    401: "the server requires credentials, or rejected those that were sent",
    403: "the server denied access",
}
"""The statuses of authentication and authorization. Spec: basic/authorization"""


def failure_of(method: str, head: HttpHead, body: bytes) -> HttpFailure:
    """Return the error for a response.

    Args:
        method: The method of the request, for example `POST`.
        head: The head of the response.
        body: The body: its first 512 bytes or more.

    Returns:
        `AccessDenied` for the statuses 401 and 403, otherwise `HttpFailure`.
    """
    rejection = _REFUSALS.get(head.status)
    if rejection is not None:
        challenges = head.headers.all("www-authenticate")
        message = f"{rejection}: {method} returned status {head.status}{_received(head, body)}"
        return AccessDenied(message, status=head.status, body=body, challenges=challenges)
    message = f"{method} returned status {head.status}{_received(head, body)}"
    return HttpFailure(f"{message}{_advice(method, head)}", status=head.status, body=body)


def _received(head: HttpHead, body: bytes) -> str:
    kind = media_type_of(head)
    named = f" and {clipped(kind)}" if kind else ""
    quoted = clipped(body[:FAILURE_BYTES].decode("utf-8", "replace"))
    return f"{named}: {quoted}" if quoted else named


def _advice(method: str, head: HttpHead) -> str:
    """Return the meaning of the response, in parentheses; empty if unknown."""
    encoding = encoding_of(head)
    if encoding is not None:
        return f" (the body is encoded as {clipped(encoding)}, which the request did not accept)"
    if 200 <= head.status < 300 and method == "GET":
        return " (this is not an event stream)"
    if 200 <= head.status < 300:
        return " (the URL is not an MCP endpoint, or a web page, a login or a proxy responded in its place)"
    location = head.headers.get("location")
    if 300 <= head.status < 400 and location is not None:
        return f" (it redirects to {clipped(location.partition('?')[0])}, and the redirect was not followed)"
    return ""


def media_type_of(head: HttpHead) -> str:
    """Return the media type of a response, in lower case and without parameters; empty if the header is missing."""
    return media_type(head.headers.get("content-type") or "")


def encoding_of(head: HttpHead) -> str | None:
    """Return the content encoding of a response; `None` without an encoding, as the request specified."""
    encoding = (head.headers.get("content-encoding") or "").strip().lower()
    return None if encoding in ("", "identity") else encoding


def printable(text: str) -> str:
    """Replace characters of a peer's text that could control a terminal or a log. Runs of blanks become one."""
    blank = " ".join(text.split())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in blank)


def clipped(text: str) -> str:
    """Return a peer's text for an error message: printable, and at most 200 characters."""
    shown = printable(text)
    return shown if len(shown) <= _QUOTED else f"{shown[:_QUOTED]}..."
