"""What a client tells of a response that is no answer of the protocol.

An error names the status, what came instead, and the beginning of it; a person shall see from the first line whether
the address is wrong, a login page stands before the server, or the server is at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import EXCERPT_BYTES, AccessDenied, HttpFailure
from mcp_core.http.media_types import media_type

if TYPE_CHECKING:
    from mcp_core.http.messages import HttpHead

__all__ = ["FAILURE_BYTES", "clipped", "encoding_of", "failure_of", "media_type_of", "printable"]

FAILURE_BYTES: Final = EXCERPT_BYTES
"""How much of the body of a failure is read."""

_QUOTED: Final = 200
"""How many characters of it stand in the sentence; all that was read is in `HttpFailure.body`."""

_REFUSALS: Final = {
    401: "the server wants credentials, or others",
    403: "the server refuses access",
}
"""The statuses that are about who asks. Spec: basic/authorization"""


def failure_of(method: str, head: HttpHead, body: bytes) -> HttpFailure:
    """The error for a response.

    Args:
        method: Of the request, as `POST`.
        head: The beginning of the response.
        body: Of its body, the first 512 bytes or more.

    Returns:
        `AccessDenied` for the statuses 401 and 403, else `HttpFailure`.
    """
    refusal = _REFUSALS.get(head.status)
    if refusal is not None:
        challenges = head.headers.all("www-authenticate")
        message = f"{refusal}: {method} was answered with status {head.status}{_what_came(head, body)}"
        return AccessDenied(message, status=head.status, body=body, challenges=challenges)
    message = f"{method} was answered with status {head.status}{_what_came(head, body)}"
    return HttpFailure(f"{message}{_advice(method, head)}", status=head.status, body=body)


def _what_came(head: HttpHead, body: bytes) -> str:
    kind = media_type_of(head)
    named = f" and {clipped(kind)}" if kind else ""
    quoted = clipped(body[:FAILURE_BYTES].decode("utf-8", "replace"))
    return f"{named}: {quoted}" if quoted else named


def _advice(method: str, head: HttpHead) -> str:
    """What it means, where that can be told."""
    encoding = encoding_of(head)
    if encoding is not None:
        return f" (it is encoded as {clipped(encoding)}, which was not asked for)"
    if 200 <= head.status < 300 and method == "GET":
        return " (this is no stream of events)"
    if 200 <= head.status < 300:
        return " (this is no MCP endpoint, or something else answers in its place: a web page, a login, a proxy)"
    location = head.headers.get("location")
    if 300 <= head.status < 400 and location is not None:
        return f" (it refers to {clipped(location.partition('?')[0])}, which was not followed)"
    return ""


def media_type_of(head: HttpHead) -> str:
    """The media type of a response, in lower case and without parameters; empty when it has none."""
    return media_type(head.headers.get("content-type") or "")


def encoding_of(head: HttpHead) -> str | None:
    """The content encoding of a response; `None` when it has none, as was asked for."""
    encoding = (head.headers.get("content-encoding") or "").strip().lower()
    return None if encoding in ("", "identity") else encoding


def printable(text: str) -> str:
    """Text of a peer without what could act on a terminal or a log; runs of blanks become one."""
    blank = " ".join(text.split())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in blank)


def clipped(text: str) -> str:
    """Text of a peer for a sentence of ours: printable, and of bounded length."""
    shown = printable(text)
    return shown if len(shown) <= _QUOTED else f"{shown[:_QUOTED]}..."
