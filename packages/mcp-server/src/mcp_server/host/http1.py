"""HTTP/1.1: readers of request heads and an encoder of responses. No I/O.

Nearly all requests have a common form: HTTP/1.1, a path, and a body of known length. `read_common` reads this form at a
tenth of the cost of h11. This saves about a quarter of the total cost of a call. h11 reads all other requests, valid
or not, and reports the errors. It could also write the responses, at three times the cost: it checks each header with
two regular expressions and keeps a state machine of the peer, which a server does not need.

Spec: RFC 9112 sections 2 to 7; ASGI HTTP 2.3
"""

from __future__ import annotations

import enum
import functools
import re
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import h11

from mcp_core.field_methods import FieldValue
from mcp_core.http.header_lines import TOKEN, content_length, read_fields
from mcp_core.http.messages import Headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "BodyReader",
    "Head",
    "HeadReader",
    "RepeatedHead",
    "RequestHeadRejected",
    "ResponseWriter",
    "SizedBody",
    "date_value",
    "plain_response",
    "read_common",
    "rejection",
]

_QUOTED: Final = 200
"""Length of the error text of h11 in a response, in characters. The whole text can be as long as a head."""

_NAME: Final = re.compile(TOKEN)
# It can match a text in only one way, so a client cannot cause backtracking.
_START: Final = re.compile(rb"(%b) (/[!-~]*) HTTP/1\.1(?=\r\n)" % TOKEN)
_LENGTH_LINE: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})\r\n", re.IGNORECASE)
_DIGITS: Final = re.compile(rb"[0-9]{1,15}")
_QUOTATION: Final = re.compile(r""":?\s*(?:bytearray\(|\bb['"])""")

_CLIENT_HELLO: Final = b"\x16\x03"
"""The first bytes of a TLS ClientHello record (RFC 8446 section 5.1)."""

_BARE: Final = re.compile(rb"(?<!\r)\n")
_FOLD: Final = re.compile(rb"\r\n[ \t]")

_END: Final = h11.EndOfMessage()


class RequestHeadRejected(Exception):
    """The request is rejected.

    Args:
        status: The HTTP status of the response.
        why: The reason, which is sent in the response.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status: Final = status


@attrs.frozen(eq=False, repr=False)
class Head(FieldValue):
    """The start line and the headers of a request."""

    method: bytes
    """The method, as received."""
    target: bytes
    """The request target, as received."""
    version: bytes
    """The HTTP version: `1.1` or `1.0`."""
    headers: Sequence[tuple[bytes, bytes]]
    """Names in lower case, and values."""


class BodyReader(Protocol):
    """A reader of a request body: a `SizedBody`, or the `h11.Connection` that read the head."""

    @property
    def they_are_waiting_for_100_continue(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends the body."""

    @property
    def their_state(self) -> object:
        """`h11.MUST_CLOSE` if the client accepts no response after the current one."""

    @property
    def trailing_data(self) -> tuple[bytes, bool]:
        """The bytes after the body, and whether the end of input was received."""

    def receive_data(self, data: bytes) -> None:
        """Append received bytes; empty bytes mean the end of input."""

    def next_event(self) -> object:
        """Return the next part of the body, its end, or `h11.NEED_DATA`.

        Raises:
            h11.RemoteProtocolError: The body is malformed or incomplete.
        """


class SizedBody:
    """A reader of a body of known length.

    Args:
        size: Length of the body, in bytes.
        received: Bytes that were received after the head.
    """

    __slots__ = ("_left", "_received", "length")

    they_are_waiting_for_100_continue: Final = False
    their_state: Final = h11.DONE

    def __init__(self, size: int, received: bytes) -> None:
        self.length: Final = size
        """Declared length of the body, in bytes."""
        self._left = size
        self._received: bytes | None = received

    @property
    def trailing_data(self) -> tuple[bytes, bool]:
        """The bytes after the body, and whether the end of input was received."""
        return self._received or b"", self._received is None

    def take_all(self) -> tuple[bytes, bytes] | None:
        """Return the whole body and the bytes after it; `None` if a part is missing or was taken already."""
        data = self._received
        if data is None or len(data) < self.length or self._left != self.length:
            return None
        self._left, self._received = 0, data[self.length :]
        return data[: self.length], self._received

    def receive_data(self, data: bytes) -> None:
        """Append received bytes; empty bytes mean the end of input."""
        self._received = (self._received or b"") + data if data else None

    def next_event(self) -> object:
        """Return the next part of the body, its end, or `h11.NEED_DATA`.

        Raises:
            h11.RemoteProtocolError: The input ended before the declared length.
        """
        data = self._received
        if not self._left:
            return _END
        if data is None:
            had = self.length - self._left
            raise h11.RemoteProtocolError(f"the body ends after {had} of {self.length} bytes")
        if not data:
            return h11.NEED_DATA
        part = data[: self._left] if len(data) > self._left else data
        self._received = data[len(part) :]
        self._left -= len(part)
        return h11.Data(data=part)


def read_common(data: bytes, limit: int) -> tuple[Head, SizedBody] | None:
    """Read the head of a request that is complete and has the common form.

    Args:
        data: The received bytes.
        limit: Largest length of a head, in bytes.

    Returns:
        The head and the reader of the body; `None` if the head is incomplete or not of the common form.
    """
    end = data.find(b"\r\n\r\n", 0, limit)
    if end < 0:
        return None
    start = _START.match(data)
    if start is None or start[1] == b"CONNECT":
        return None
    headers = read_fields(data, start.end(), end)
    if headers is None:
        return None
    names = {name for name, _ in headers}
    size = content_length(headers, b"0")
    if size is None or b"host" not in names or b"expect" in names:
        return None
    return Head(start[1], start[2], b"1.1", headers), SizedBody(size, data[end + 4 :])


class RepeatedHead:
    """A head of the common form, which the next requests of the connection may repeat.

    A client sends nearly the same bytes as the head of each request. A head that is equal, except for the value of
    `Content-Length`, is not parsed again. The lines of a head are parsed one by one, so the result is the same. Only
    `read_common` decides which heads have the common form.

    Args:
        raw: The bytes of the head, with the empty line at its end.
        head: The head, as returned by `read_common`.
        size: Length of the body, as returned by `read_common`, in bytes.
    """

    __slots__ = ("_after", "_before", "_converted", "_digits", "_headers", "_method", "_size", "_target")

    def __init__(self, raw: bytes, head: Head, size: int) -> None:
        # All bytes are compared if the header is missing, or has blanks after its value.
        found = _LENGTH_LINE.search(raw)
        start, end = (len(raw), len(raw)) if found is None else found.span(1)
        self._before: Final = raw[:start]
        self._digits = raw[start:end]
        self._after: Final = raw[end:]
        self._size = size
        self._method: Final = head.method
        self._target: Final = head.target
        # A copy: an application may change the headers of its scope.
        self._headers = list(head.headers)
        self._converted: Headers | None = None

    def read(self, data: bytes, limit: int) -> tuple[Head, SizedBody] | None:
        """Read a request whose head is equal, except for the length of the body.

        Args:
            data: The received bytes.
            limit: Largest length of a head, in bytes.

        Returns:
            What `read_common` returns; `None` if the head is another one, or incomplete.
        """
        before, after = self._before, self._after
        if not data.startswith(before):
            return None
        start = len(before)
        end = start
        if after:
            end = data.find(b"\r\n", start, start + 17)
            digits = data[start:end] if end >= 0 else b""
            if not data.startswith(after, end) or _DIGITS.fullmatch(digits) is None:
                return None
            if digits != self._digits:
                self._digits, self._size, self._converted = digits, int(digits), None
                self._headers = [
                    (name, digits if name == b"content-length" else value) for name, value in self._headers
                ]
        end += len(after)
        if end > limit:
            return None
        return Head(self._method, self._target, b"1.1", [*self._headers]), SizedBody(self._size, data[end:])

    def convert(self, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
        """Return headers as text (`mcp_server.asgi.ConvertHeaders`). Those of the last request are converted once."""
        if headers != self._headers:
            # The application, or the next request, has others.
            return Headers.from_raw(headers)
        if self._converted is None:
            self._converted = Headers.from_raw(headers)
        return self._converted


class HeadReader:
    """A reader of the head of any request, by means of h11.

    Args:
        limit: Largest length of a head, in bytes.
    """

    __slots__ = ("_limit", "_parser", "_received", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._parser: Final = h11.Connection(h11.SERVER, max_incomplete_event_size=limit)
        self._received = 0
        # The end of the received bytes, which the next bytes can complete to a line break.
        self._tail = b""

    def receive_data(self, data: bytes) -> tuple[Head, BodyReader] | None:
        """Append received bytes.

        Returns:
            The head and the reader of the body; `None` until the head is complete.

        Raises:
            Refused: The input is not an HTTP request, or its head is too large.
        """
        parser, limit = self._parser, self._limit
        if not self._received and data.startswith(_CLIENT_HELLO):
            raise RequestHeadRejected(400, "this is TLS, and this port expects plain HTTP: use http:// in the URL")
        self._received += len(data)
        try:
            parser.receive_data(data)
            request = parser.next_event()
        except h11.RemoteProtocolError as error:
            # h11 quotes what the client sent.
            raise rejection(error, limit) from error
        if not isinstance(request, h11.Request):
            self._check_lines(data)
            return None  # no other event precedes a request
        behind = len(parser.trailing_data[0])
        if (size := self._received - behind) > limit:
            raise RequestHeadRejected(431, f"the head of the request has {size} bytes; Limits.header_bytes is {limit}")
        self._check_lines(data[: len(data) - behind])
        _check(request)
        headers = [(name.lower(), value) for name, value in request.headers.raw_items()]
        return Head(request.method, request.target, request.http_version, headers), parser

    def _check_lines(self, data: bytes) -> None:
        """Reject line breaks that h11 accepts and other programs may not (RFC 9112 sections 2.2 and 5.2)."""
        behind = len(self._tail)
        seen = self._tail + data
        self._tail = seen[-2:]
        if _BARE.search(seen, behind):
            raise RequestHeadRejected(400, "a line of the head ends with a line feed without a carriage return")
        if _FOLD.search(seen):
            raise RequestHeadRejected(400, "a header continues on the next line")


def _check(request: h11.Request) -> None:
    """Reject requests that h11 accepts and this server does not."""
    if not request.http_version.startswith(b"1."):
        raise RequestHeadRejected(505, "this server supports HTTP/1.1 and HTTP/1.0")
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        # RFC 9112 section 6.1: a proxy and the server may disagree on where such a request ends.
        raise RequestHeadRejected(400, "Transfer-Encoding cannot be used with Content-Length or HTTP/1.0")


def rejection(error: h11.RemoteProtocolError, limit: int) -> RequestHeadRejected:
    """Return the rejection of input that h11 does not accept.

    Args:
        error: The error of h11.
        limit: Largest length of a head, in bytes.
    """
    status = error.error_status_hint
    if status == 431:
        return RequestHeadRejected(431, f"the head of the request is too large; Limits.header_bytes is {limit}")
    # Cut the text before the quotation: h11 quotes what the client sent, which can be its credentials.
    said = _QUOTATION.split(str(error), maxsplit=1)[0]
    return RequestHeadRejected(status, f"not a valid HTTP/1.1 request: {said[:_QUOTED]}")


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
    return _NAME.fullmatch(name) is not None


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
        self.close: bool = old
        """Whether the connection closes after this response. Can be set until the first call of `body`."""
        self.begun: bool = False
        """Whether a part was encoded, so that the status and the headers cannot change."""
        self.complete: bool = False
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


@functools.lru_cache(maxsize=1)
def date_value(seconds: int) -> bytes:
    """Return the value of the `Date` header for a time in seconds since the epoch (RFC 9110 section 6.6.1)."""
    return formatdate(seconds, usegmt=True).encode("ascii")


def plain_response(status: int, text: str, *, date: bytes) -> bytes:
    """Return a complete response of the host itself, in plain text, that closes the connection."""
    body = text.encode() + b"\n"
    response = ResponseWriter(head_only=False, old=False)
    response.close = True
    response.start(status, _PLAIN)
    return response.body(body, more=False, date=date)
