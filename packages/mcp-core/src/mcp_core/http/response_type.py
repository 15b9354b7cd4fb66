"""Classification of a response by its head: the body is a message, a stream, irrelevant, or not a JSON-RPC response."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from mcp_core.http.failures import encoding_of, media_type_of
from mcp_core.http.media_types import EVENT_STREAM, JSON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.http.messages import HttpHead

__all__ = ["Expect", "expected_of_get", "expected_of_post", "is_good", "says_json"]


class Expect(enum.Enum):
    """The way to read the body of a response."""

    MESSAGE = "one message"
    """Read the whole body, up to `Limits.message_bytes`, and pass it to `receive_body`."""
    STREAM = "events"
    """Pass each portion to `receive_data`."""
    NOTHING = "nothing"
    """The server accepted the message. Drop the body, and do not wait for it."""
    TEXT = "no answer"
    """Read up to `FAILURE_BYTES`, and raise the result of `failure`."""


_USUAL: Final[Mapping[str, Expect]] = {JSON: Expect.MESSAGE, EVENT_STREAM: Expect.STREAM}
"""The body of the response to a request by `Content-Type`, as most servers send it."""

_JSON: Final = frozenset({JSON, "text/json"})

_PERHAPS_JSON: Final = frozenset({"", "text/plain"})
"""Media types that some servers use for JSON."""

_NOT_FROM_POST: Final = frozenset({401, 403, 405})
"""Statuses about the client or the method. Their body does not come from the code that responds to a POST."""

_ACCEPTED: Final = frozenset({202, 204})
"""Statuses for messages that expect no response. Spec: basic/transports#sending-messages-to-the-server"""


def expected_of_post(head: HttpHead, *, awaiting: bool) -> Expect:
    """Return how to read the response to a POST.

    Args:
        head: The head of the response.
        awaiting: Whether a request was posted. Only requests have a response.
    """
    status = head.status
    if status == 200 and awaiting and head.headers.get("content-encoding") is None:
        # The common responses, as the rules below decide.
        usual = _USUAL.get(head.headers.get("content-type") or "")
        if usual is not None:
            return usual
    kind = media_type_of(head)
    if status in _NOT_FROM_POST or encoding_of(head) is not None:
        return Expect.TEXT
    said = _is_json(kind)
    perhaps = said or kind in _PERHAPS_JSON
    if not is_good(head):
        # Modern servers, and many legacy servers, send errors with such a status.
        return Expect.MESSAGE if awaiting and perhaps else Expect.TEXT
    if not awaiting:
        return Expect.NOTHING
    if kind == EVENT_STREAM:
        return Expect.STREAM
    if status in _ACCEPTED and not said:
        return Expect.NOTHING
    return Expect.MESSAGE if perhaps else Expect.TEXT


def expected_of_get(head: HttpHead) -> Expect:
    """Return how to read the response to a GET: as a stream, or as a failure."""
    streams = is_good(head) and media_type_of(head) == EVENT_STREAM and encoding_of(head) is None
    return Expect.STREAM if streams else Expect.TEXT


def is_good(head: HttpHead) -> bool:
    """Return whether the status is 2xx."""
    return 200 <= head.status < 300


def says_json(head: HttpHead) -> bool:
    """Return whether the media type of the body is JSON."""
    return _is_json(media_type_of(head))


def _is_json(kind: str) -> bool:
    return kind in _JSON or kind.endswith("+json")
