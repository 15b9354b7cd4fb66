"""What a client makes of the beginning of a response: is its body a message, a stream, nothing, or no answer at all?"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from mcp_core.http.failures import encoding_of, media_type_of
from mcp_core.http.media_types import EVENT_STREAM, JSON

if TYPE_CHECKING:
    from mcp_core.http.messages import HttpHead

__all__ = ["Expect", "expected_of_get", "expected_of_post", "is_good", "says_json"]


class Expect(enum.Enum):
    """What to do with the body of a response."""

    MESSAGE = "one message"
    """Read it all, up to `Limits.message_bytes`, and give it to `receive_body`."""
    STREAM = "events"
    """Give each portion to `receive_data`."""
    NOTHING = "nothing"
    """It was accepted. Drop what there is, and do not wait for it."""
    TEXT = "no answer"
    """Read up to `FAILURE_BYTES` and raise what `failure` gives."""


_JSON: Final = frozenset({JSON, "text/json"})

_PERHAPS_JSON: Final = frozenset({"", "text/plain"})
"""What some servers call JSON."""

_NOT_FROM_POST: Final = frozenset({401, 403, 405})
"""Statuses about who asks, and about the method: what stands in the body was not said by what answers a POST."""

_ACCEPTED: Final = frozenset({202, 204})
"""How what needs no answer is answered. Spec: basic/transports#sending-messages-to-the-server"""


def expected_of_post(head: HttpHead, *, awaiting: bool) -> Expect:
    """What the response to a POST is.

    Args:
        head: Its beginning.
        awaiting: Whether a request was posted. Only then there is an answer.
    """
    status, kind = head.status, media_type_of(head)
    if status in _NOT_FROM_POST or encoding_of(head) is not None:
        return Expect.TEXT
    said = _is_json(kind)
    perhaps = said or kind in _PERHAPS_JSON
    if not is_good(head):
        # A modern server answers errors so, and many a legacy one.
        return Expect.MESSAGE if awaiting and perhaps else Expect.TEXT
    if not awaiting:
        return Expect.NOTHING
    if kind == EVENT_STREAM:
        return Expect.STREAM
    if status in _ACCEPTED and not said:
        return Expect.NOTHING
    return Expect.MESSAGE if perhaps else Expect.TEXT


def expected_of_get(head: HttpHead) -> Expect:
    """What the response to a GET is: a stream, or nothing that was asked for."""
    streams = is_good(head) and media_type_of(head) == EVENT_STREAM and encoding_of(head) is None
    return Expect.STREAM if streams else Expect.TEXT


def is_good(head: HttpHead) -> bool:
    """Whether the status is one of success."""
    return 200 <= head.status < 300


def says_json(head: HttpHead) -> bool:
    """Whether the body is said to be JSON."""
    return _is_json(media_type_of(head))


def _is_json(kind: str) -> bool:
    return kind in _JSON or kind.endswith("+json")
