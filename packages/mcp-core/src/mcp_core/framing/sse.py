"""Server-sent events: from byte chunks to events, and from events to bytes.

The parser implements the WHATWG algorithm, with three differences that MCP requires:

- An event without data is returned too, with empty `data`. A server sends an id first to make its stream resumable, and
  `retry` before it closes the connection. Such an event holds no message.
- `data` stays bytes. The decoder of the message rejects bytes that are not UTF-8; this parser does not replace them.
- An event that is too large is discarded, and reported at its end, where its size is known. Its id still becomes the
  last event id: a client that resumes before the event would receive it again.

Comments do not count toward the size of an event, and are not stored.

Spec: basic/transports#streamable-http; https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.field_methods import FieldRepr, FieldValue

if TYPE_CHECKING:
    from mcp_core.limits import Limits

__all__ = ["Event", "SseParser", "encode_comment", "encode_event"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_ENDS: Final = b"\r\n"
_BLANK_LINES: Final = re.compile(rb"\n{3,}")
_COLON: Final = ord(":")
_CR: Final = 0x0D
_LF: Final = 0x0A
_INITIALS: Final = frozenset(b"deir")
"""The first bytes of the known fields: data, event, id, retry."""

_START_BYTES: Final = 4
"""The stored bytes of a line that is too long: enough to recognize a comment after a byte order mark."""

_RETRY_DIGITS: Final = 15
"""The maximum number of digits of a retry time: 31,000 years in milliseconds. `int` rejects 5,000 digits."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Event(FieldValue):
    """One event of a stream of server-sent events."""

    data: bytes = b""
    """The lines of data, joined by LF. Empty in an event that has only an id or a retry time, and thus no message."""
    event: str = "message"
    """The name of the event."""
    id: str | None = None
    """The id of this event; `None` if it has none, an empty string if it resets the last event id."""
    retry: int | None = None
    """The time to wait before reconnecting, in milliseconds; `None` if the event does not set it."""


@attrs.define(init=False, eq=False, repr=False)
class SseParser(FieldRepr):
    """A parser from a byte stream to events. The result does not depend on how the bytes are divided into chunks."""

    last_event_id: str
    """The id to resume the stream after; empty if the stream has no id."""
    retry: int | None
    """The time to wait before reconnecting, in milliseconds, as last set by the server; `None` if never set."""
    _allowed: int
    _partial: bytearray
    _dropped: int
    _after_cr: bool
    _at_start: bool
    _ended: bool
    _size: int
    _data: list[bytes]
    _event_name: bytes
    _event_id: bytes | None
    _event_retry: int | None
    _known: bool

    def __init__(self, limits: Limits) -> None:
        self.last_event_id = ""
        self.retry = None
        self._allowed = limits.event_bytes
        self._partial = bytearray()
        self._dropped = 0
        self._after_cr = False
        self._at_start = True
        self._ended = False
        self._data = []
        self._reset()

    def _reset(self) -> None:
        self._size = 0
        self._data = []
        self._event_name = b""
        self._event_id = None
        self._event_retry = None
        self._known = False

    def receive_data(self, data: bytes) -> list[Event | LimitExceeded]:
        """Receive the next bytes of the stream.

        Args:
            data: A chunk of any size.

        Returns:
            The events that are now complete. `LimitExceeded` replaces an event that was too large.

        Raises:
            LocalProtocolError: The stream has ended.
        """
        if self._ended:
            raise LocalProtocolError("data received after the end of the stream")
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if not data:
            return []
        self._after_cr = data[-1] == _CR
        if b"\n\n\n" in data:
            # After the blank line that ends an event, further blank lines have no effect.
            data = _BLANK_LINES.sub(b"\n\n", data)
        # Unlike str.splitlines, bytes.splitlines splits only at LF, CR and CRLF.
        lines = data.splitlines()
        rest = b"" if data[-1] in _LINE_ENDS else lines.pop()
        events: list[Event | LimitExceeded] = []
        for line in lines:
            if self._partial:
                made = self._line(*self._completed(line))
            elif line[0] == _COLON if line else not self._size:
                # A comment, or a blank line that ends no event: a stream may have very many of them.
                self._at_start = False
                continue
            else:
                made = self._line(line, len(line))
            if made is not None:
                events.append(made)
        if rest:
            self._hold(rest)
        return events

    def receive_eof(self) -> int:
        """Receive the end of the stream. An event without its final blank line is discarded.

        Returns:
            The number of discarded bytes of an unfinished event; 0 if the stream ended after a complete event.

        Raises:
            LocalProtocolError: The stream has already ended.
        """
        if self._ended:
            raise LocalProtocolError("the stream has already ended")
        self._ended = True
        comment = self._partial.startswith(b":")
        discarded = self._size + (0 if comment else len(self._partial) + self._dropped)
        self._partial.clear()
        self._reset()
        return discarded

    def _completed(self, last: bytes) -> tuple[bytes, int]:
        """Return the line that this piece completes, and its size."""
        self._hold(last)
        whole, size = bytes(self._partial), len(self._partial) + self._dropped
        self._partial.clear()
        self._dropped = 0
        return whole, size

    def _hold(self, piece: bytes) -> None:
        """Store a part of an unfinished line; of a line that is too long, only the start."""
        if self._dropped:
            self._dropped += len(piece)
            return
        self._partial += piece
        # The byte order mark does not count.
        if len(self._partial) > self._allowed + len(_BYTE_ORDER_MARK):
            self._dropped = len(self._partial) - _START_BYTES
            del self._partial[_START_BYTES:]

    def _line(self, line: bytes, size: int) -> Event | LimitExceeded | None:
        """Process one line, or the start of a line that is `size` bytes long."""
        if self._at_start:
            self._at_start = False
            if line.startswith(_BYTE_ORDER_MARK):
                line = line[len(_BYTE_ORDER_MARK) :]
                size -= len(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        if line[0] != _COLON:
            self._size += size
            if size <= self._allowed:
                self._field(line)
        return None

    def _field(self, line: bytes) -> None:
        if line[0] not in _INITIALS:
            return
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            self._known = True
            if self._size <= self._allowed:
                self._data.append(value)
        elif field == b"event":
            self._known = True
            self._event_name = value
        elif field == b"id":
            if b"\0" not in value:
                self._known = True
                self._event_id = value
        elif field == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            self._known = True
            self._event_retry = int(value)

    def _dispatch(self) -> Event | LimitExceeded | None:
        made: Event | LimitExceeded | None = None
        # Decoded here, because an event may have any number of ids and names, of which only the last is used.
        event_id = None if self._event_id is None else self._event_id.decode(errors="replace")
        if event_id is not None:
            self.last_event_id = event_id
        if self._event_retry is not None:
            self.retry = self._event_retry
        if self._size > self._allowed:
            made = LimitExceeded(
                "event size in bytes", observed=self._size, allowed=self._allowed, setting="Limits.event_bytes"
            )
        elif self._known:
            name = self._event_name.decode(errors="replace") or "message"
            made = Event(data=b"\n".join(self._data), event=name, id=event_id, retry=self._event_retry)
        self._reset()
        return made


def encode_event(
    data: bytes = b"", *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Encode one event.

    Args:
        data: The data. Each of its lines becomes one data line. It may be empty, to send only an id or a retry time.
        event: The name of the event; receivers use `message` if it is absent.
        id: The id to resume after.
        retry: The time to wait before reconnecting, in milliseconds.

    Raises:
        LocalProtocolError: The data contains a CR, or the name or the id contains a line break or NUL: they would not
            arrive unchanged. The name or the id contains a lone surrogate. Or the retry time is negative.
    """
    if b"\r" in data:
        raise LocalProtocolError("the data of an event must not contain CR")
    if retry is not None and retry < 0:
        raise LocalProtocolError(f"the retry time of an event must not be negative: {retry}")
    head = "".join(
        [
            "" if event is None else f"event: {_one_line(event, 'name of an event')}\n",
            "" if id is None else f"id: {_one_line(id, 'id of an event')}\n",
            "" if retry is None else f"retry: {retry}\n",
        ]
    )
    try:
        start = head.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError("the name or the id of an event contains a lone surrogate") from error
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    return b"%bdata: %b\n\n" % (start, data)


def encode_comment(text: str = "") -> bytes:
    """Encode a comment, which keeps an idle connection open.

    Raises:
        LocalProtocolError: The text contains a line break or NUL.
    """
    return b": %b\n\n" % _one_line(text, "text of a comment").encode(errors="replace")


def _one_line(text: str, what: str) -> str:
    if "\n" in text or "\r" in text or "\0" in text:
        raise LocalProtocolError(f"the {what} must be one line without NUL: {text!r}")
    return text
