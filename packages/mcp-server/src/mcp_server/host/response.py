"""An encoder of HTTP/1.1 responses, from the messages of an ASGI application. No I/O.

h11 reads the requests. It could also write the responses, at three times the cost: it checks each header with two
regular expressions and keeps a state machine of the peer, which a server does not need.

Spec: RFC 9112 sections 4, 6 and 7; ASGI HTTP 2.3.
"""

from __future__ import annotations

import enum
import functools
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ResponseWriter", "plain_response"]

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode("ascii") for status in HTTPStatus
}

_PLAIN: Final = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)

_BODILESS: Final = frozenset({204, 304})


class _Framing(enum.Enum):
    """The way in which the client finds the end of the body."""

    NONE = enum.auto()
    LENGTH = enum.auto()
    CHUNKED = enum.auto()
    CLOSE = enum.auto()


@functools.lru_cache(maxsize=256)
def _is_name(name: bytes) -> bool:
    return _TOKEN.fullmatch(name) is not None


class ResponseWriter:
    """An encoder of one response: call `start` once, then `body` for each part.

    Args:
        head_only: Whether the method is HEAD. The body is then not sent.
        old: Whether the client uses HTTP/1.0 and does not support chunks.
    """

    __slots__ = ("_block", "_dated", "_framing", "_left", "_old", "begun", "close", "complete", "head_only", "status")

    def __init__(self, *, head_only: bool, old: bool) -> None:
        self.head_only: Final = head_only
        """Whether the method is HEAD and the body is not sent."""
        self.status: int = 0
        """The status; 0 before `start`."""
        self.close = old
        """Whether the connection closes after this response. Can be set until the first call of `body`."""
        self.begun = False
        """Whether a part was encoded, so that the status and the headers cannot change."""
        self.complete = False
        """Whether the last part was encoded."""
        self._old: Final = old
        self._framing: _Framing | None = None
        self._block = b""
        self._dated = False
        # The bytes that remain of the application's Content-Length.
        self._left: int | None = None

    @property
    def has_length(self) -> bool:
        """Whether the application stated the length of the body."""
        return self._left is not None

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Record the status and the headers. They are sent with the first part of the body, which can be empty.

        Args:
            status: From 200 to 999.
            headers: Names and values. The encoder decides how the body is framed and whether the connection stays open.
                The application can only close the connection with `Connection: close`.

        Raises:
            ValueError: The status or a header is invalid.
            RuntimeError: The response was already started.
        """
        if self.status:
            raise RuntimeError("http.response.start was sent twice")
        if not 200 <= status <= 999:
            raise ValueError(f"invalid status {status!r} of a response: it must be from 200 to 999")
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        for name, value in headers:
            if not _is_name(name):
                raise ValueError(f"invalid header name {name!r}")
            lower = name.lower()
            if lower == b"content-length":
                # Written when the body starts. A response to HEAD has this header without a body.
                if not value.isdigit():
                    raise ValueError(f"invalid Content-Length {value!r}")
                self._left = int(value)
                continue
            if lower == b"connection":
                self.close = self.close or b"close" in value.lower()
                continue
            if lower == b"transfer-encoding":
                continue
            self._dated = self._dated or lower == b"date"
            lines.append(b"%b: %b\r\n" % (name, value))
        block = b"".join(lines)
        # One check of all values: a line break in a value would let its author add headers.
        if block.count(b"\n") != len(lines) or block.count(b"\r") != len(lines) or b"\0" in block:
            raise ValueError("the value of a header contains a line break or a null byte")
        self._block = block
        self.status = status

    def body(self, data: bytes, *, more: bool, date: bytes) -> bytes:
        """Return the bytes to send for a part of the body. The first part includes the head of the response.

        Args:
            data: The part.
            more: Whether another part follows.
            date: The value of the `Date` header.

        Raises:
            ValueError: The body is longer or shorter than the Content-Length of the application.
            RuntimeError: The response was not started, or is complete.
        """
        if not self.status:
            raise RuntimeError("http.response.body was sent before http.response.start")
        if self.complete:
            raise RuntimeError("http.response.body was sent after the end of the response")
        if self.begun:
            head = b""
        else:
            self.begun = True
            head = self._head(data, more=more, date=date)
        framing = self._framing
        if framing is _Framing.LENGTH and self._left is not None:
            self._left = left = self._left - len(data)
            if left < 0 or (left and not more):
                raise ValueError(
                    f"the body is {abs(left)} bytes {'longer' if left < 0 else 'shorter'} than its Content-Length"
                )
        self.complete = not more
        if framing is _Framing.NONE:
            return head
        if framing is not _Framing.CHUNKED:
            return head + data
        chunk = b"%b%x\r\n%b\r\n" % (head, len(data), data) if data else head
        return chunk if more else chunk + b"0\r\n\r\n"

    def _head(self, data: bytes, *, more: bool, date: bytes) -> bytes:
        length = self._left
        if length is None and not more:
            length = len(data)
        extra = b""
        if self.head_only or self.status in _BODILESS:
            self._framing = _Framing.NONE
            # RFC 9110 section 8.6: 204 must not have this header. With 304 and HEAD it does not describe a body.
            if length and self.status != 204:
                extra = b"content-length: %d\r\n" % length
        elif length is not None:
            self._framing = _Framing.LENGTH
            extra = b"content-length: %d\r\n" % length
        elif self._old:
            self._framing = _Framing.CLOSE
        else:
            self._framing = _Framing.CHUNKED
            extra = b"transfer-encoding: chunked\r\n"
        dated = b"" if self._dated else b"date: %b\r\n" % date
        return b"%b%b%b%b\r\n" % (self._block, extra, dated, b"connection: close\r\n" if self.close else b"")


def plain_response(status: int, text: str, *, date: bytes) -> bytes:
    """Return a complete response of the host itself, in plain text, that closes the connection."""
    body = text.encode() + b"\n"
    response = ResponseWriter(head_only=False, old=False)
    response.close = True
    response.start(status, _PLAIN)
    return response.body(body, more=False, date=date)
