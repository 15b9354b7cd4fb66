"""One HTTP/1.1 connection: h11 on top of a byte stream.

A connection carries one request and its response at a time, and several in sequence. `recycle` decides whether another
request may follow: both messages are complete, and the server sent no unexpected bytes.

This module writes requests, which takes a fifth of the time of h11: their form is fixed, and one regular expression
checks it. Therefore the caller must not set a header that changes the framing.

`common_response` reads responses of the common form, and h11 all others. h11 takes part only in the exchanges whose
responses it reads, so for it, the others do not exist.
"""

from __future__ import annotations

import os
import re
import select
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs
import h11
import trio

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.field_methods import FieldValue
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.trio.http_client.common_response import read_common_response
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.tls import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.trio.http_client.proxy import Proxy
    from mcp_core.trio.http_client.url import HttpUrl

__all__ = ["HttpConnection", "Route", "WrittenHead", "credentials", "write_request"]

_MOST_INFORMATIONAL: Final = 16
"""Maximum number of 1xx responses before the final response. Proxies send a 102 every few seconds at most."""

_VERSIONS: Final = frozenset({b"1.0", b"1.1"})
"""The versions of HTTP that this connection reads. h11 accepts any digits: `HTTP/2.0`, `HTTP/0.9`."""

_ANNOUNCED_MARGIN: Final = 1.0
"""Time, in seconds, by which this side closes an idle connection earlier than the server announced."""

_LONGEST_IDLE: Final = 60.0
"""Maximum time that a connection stays idle, in seconds, whatever the server announces."""

_RECEIVE_BYTES: Final = 64 * 1024
"""Largest read, in bytes."""

_INCOMPLETE: Final = "ended before the response was complete"

_QUOTED: Final = 200
"""Maximum length of an h11 error text in a message, in characters. Such a text quotes what the server sent."""

_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE: Final = r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?"
_NAME: Final = re.compile(_TOKEN)
_WHOLE_VALUE: Final = re.compile(_VALUE)
_HEAD: Final = re.compile(rf"{_TOKEN} [!-~]+ HTTP/1\.1\r\n(?:{_TOKEN}: {_VALUE}\r\n)+")
"""The grammar of a request head without its empty line, RFC 9112 sections 3 and 5."""

_FRAMING: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to the connection. The caller must not set them."""


def write_request(
    method: str,
    target: str,
    authority: str,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    of_proxy: Sequence[tuple[str, str]] = (),
) -> bytes:
    """Return a request as bytes on the wire.

    Args:
        method: The HTTP method.
        target: The request target: path and query, or the form that the method requires.
        authority: The value of `Host`, unless `headers` contains one.
        headers: The headers of the caller.
        body: The body; `None` for a request without a body.
        of_proxy: Headers for the proxy only.

    Raises:
        LocalProtocolError: A header or the method cannot be sent. The message contains the name of the header, never
            its value.
    """
    return _with_body(_write_head(method, target, authority, headers, of_proxy), body)


def _with_body(head: bytes, body: bytes | None) -> bytes:
    """Return a request, from a head without the length of the body and without the empty line."""
    if body is None:
        return head + b"\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def _write_head(
    method: str,
    target: str,
    authority: str,
    headers: Sequence[tuple[str, str]],
    of_proxy: Sequence[tuple[str, str]] = (),
) -> bytes:
    """Return the head of a request for `_with_body`. Raises `LocalProtocolError`, as `write_request` does."""
    # Servers that compress also compress event streams, which delays events.
    lines = [f"{method} {target} HTTP/1.1", f"Host: {authority}", "Accept-Encoding: identity"]
    for name, value in headers:
        lowered = _lowered(name)
        if lowered in _FRAMING:
            raise LocalProtocolError(f"the header {name!r} is set by the connection; remove it from the request")
        if not lowered:
            raise _unsendable(method, headers)
        if lowered == "host":
            lines[1] = f"{name}: {value}"
        else:
            lines.append(f"{name}: {value}")
    for name, value in of_proxy:
        lines.append(f"{name}: {value}")
    lines.append("")
    head = "\r\n".join(lines)
    # A head that matches but has more lines than were joined contains a line break in a value.
    if _HEAD.fullmatch(head) is None or head.count("\r\n") != len(lines) - 1:
        raise _unsendable(method, headers)
    return head.encode("latin-1")


def _unsendable(method: str, headers: Sequence[tuple[str, str]]) -> LocalProtocolError:
    for name, value in headers:
        if not _lowered(name) or _WHOLE_VALUE.fullmatch(value) is None:
            return LocalProtocolError(
                f"cannot send the header {name!r}: its name or value contains characters that HTTP does not allow"
            )
    return LocalProtocolError(f"{method!r} is not an HTTP method")


# Cached: each request uses the same few names.
@lru_cache(maxsize=256)
def _lowered(name: str) -> str:
    """Return a header name in lower case; an empty string if the name is invalid."""
    return name.lower() if _NAME.fullmatch(name) else ""


@lru_cache(maxsize=16)
def _as_h11(method: str) -> h11.Request:
    """Return the part of a request that h11 needs to parse the response."""
    return h11.Request(method=method, target="/", headers=[("Host", "")])


_END: Final = h11.EndOfMessage()

_ALERT: Final = b"\x15\x03"
"""The first bytes of a TLS alert record (RFC 8446 section 5.1)."""


if sys.platform == "win32":

    def _readable(socket: trio.socket.SocketType) -> bool:
        return bool(select.select([socket.fileno()], [], [], 0)[0])

else:

    def _readable(socket: trio.socket.SocketType) -> bool:
        # Not `select`, which supports only the first 1,024 descriptors.
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))


def _write_now(socket: trio.socket.SocketType, data: bytes) -> int:
    """Write as much as possible without blocking, and return the number of bytes. `send_all` reports errors."""
    try:
        return os.write(socket.fileno(), data)
    except OSError:
        return 0


async def _read(socket: trio.socket.SocketType) -> bytes:
    """Wait for bytes of a socket and return them; empty at the end.

    Raises:
        trio.BrokenResourceError: The connection broke.
        trio.ClosedResourceError: This side closed the socket.
    """
    while True:
        if socket.fileno() < 0:
            raise trio.ClosedResourceError("the socket was closed")
        # The stream would try to read first. The response to a request that was just written has rarely arrived.
        await trio.lowlevel.wait_readable(socket)
        try:
            return os.read(socket.fileno(), _RECEIVE_BYTES)
        except BlockingIOError:
            continue
        except OSError as error:
            raise trio.BrokenResourceError(f"the socket cannot be read: {error}") from error


@attrs.frozen(eq=False, repr=False)
class Route(FieldValue):
    """The route to an origin."""

    proxy: Proxy | None
    """The proxy; `None` for a direct connection."""
    forwarded: bool
    """Whether the proxy receives and forwards each request (`http` URLs). Otherwise a proxy provides a tunnel."""

    def head(self, method: str, url: HttpUrl, headers: Sequence[tuple[str, str]]) -> WrittenHead:
        """Return the head of a request for this route. Raises `LocalProtocolError`, as `write_request` does."""
        if not self.forwarded or self.proxy is None:
            raw = _write_head(method, url.target, url.authority, headers)
        else:
            raw = _write_head(method, str(url), url.authority, headers, credentials(self.proxy))
        return WrittenHead(raw, self, method, url, headers)


class WrittenHead:
    """The head of a request, which the next requests of the pool may repeat with bodies of other lengths.

    Args:
        raw: The bytes, without the length of the body and without the empty line.
        route: The route of the request.
        method: The HTTP method.
        url: The URL.
        headers: The headers of the caller.
    """

    __slots__ = ("_headers", "_method", "_raw", "_route", "_url")

    def __init__(self, raw: bytes, route: Route, method: str, url: HttpUrl, headers: Sequence[tuple[str, str]]) -> None:
        self._raw = raw
        self._route = route
        self._method = method
        self._url = url
        # A copy: the caller may change its list.
        self._headers = [*headers]

    def fits(self, route: Route, method: str, url: HttpUrl, headers: Sequence[tuple[str, str]]) -> bool:
        """Return whether a request has this head. An equal URL in another object does not count."""
        return self._url is url and self._method == method and self._route is route and self._headers == headers

    def request(self, body: bytes | None) -> bytes:
        """Return a request as bytes on the wire."""
        return _with_body(self._raw, body)


def credentials(proxy: Proxy) -> list[tuple[str, str]]:
    """Return the headers that authenticate at a proxy."""
    return [] if proxy.authorization is None else [("Proxy-Authorization", proxy.authorization)]


class HttpConnection:
    """An open connection that carries one request at a time.

    Args:
        stream: The byte stream, with or without TLS.
        socket: The socket below the stream, to poll and close.
        limit: `Limits.header_bytes`.
        peer: The name of the peer in errors.
    """

    __slots__ = (
        "_broken",
        "_eof",
        "_h11",
        "_is_plain",
        "_last_head",
        "_left",
        "_limit",
        "_method",
        "_peer",
        "_received",
        "_rest",
        "_socket",
        "_stream",
        "idle_seconds",
        "idle_until",
        "reused",
    )

    def __init__(self, stream: trio.abc.Stream, socket: trio.socket.SocketType, limit: int, peer: str) -> None:
        self._stream = stream
        self._socket = socket
        # The bytes of the socket are those of the stream, and the socket is a file.
        self._is_plain = sys.platform != "win32" and isinstance(stream, trio.SocketStream)
        self._limit = limit
        self._peer = peer
        self._h11: h11.Connection | None = None
        self._method = ""
        # The last head of the common form: its bytes, the method of its request, the head, the length of the body.
        self._last_head: tuple[bytes, str, HttpHead, int] | None = None
        self._received = 0
        # The number of bytes of the body that were not returned yet; `None` if h11 reads the response.
        self._left: int | None = None
        # Received bytes that were not returned yet, if h11 does not read the response.
        self._rest = b""
        self._eof = False
        self._broken = False
        self.reused: bool = False
        """Whether the connection has completed a request."""
        self.idle_seconds: float | None = None
        """Idle time that the server announced, minus a margin, in seconds; `None` if it announced none."""
        self.idle_until: float = 0.0
        """Time at which the pool closes the connection if it is still idle. Set and read by the pool."""

    def is_stale(self) -> bool:
        """Return whether an idle connection is unusable: the server closed it or sent unexpected bytes."""
        return _readable(self._socket)

    async def exchange(self, method: str, request: bytes) -> HttpHead:
        """Send a request and wait for the head of its response.

        Args:
            method: The HTTP method.
            request: The whole request, from `write_request`.

        Raises:
            HttpConnectionEnded: The connection ended, or the server sent something other than HTTP/1.1.
            LimitExceeded: The head of the response is too long.
        """
        self._method = method
        self._received = 0
        try:
            # A direct write comes first, because `send_all` always yields to other tasks.
            await trio.lowlevel.checkpoint_if_cancelled()
            written = _write_now(self._socket, request) if self._is_plain else 0
            if written < len(request):
                await self._stream.send_all(request[written:])
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            # The server may have responded before it closed the connection: body too long, method not allowed.
            self._broken = True
            try:
                return await self._receive_head()
            except HttpConnectionEnded as ended:
                raise self._ended("ended while the request was sent", sent=False, begun=ended.begun) from broken
        return await self._receive_head()

    async def _receive_head(self) -> HttpHead:
        data = await self._receive()
        last = self._last_head
        # Servers repeat a head exactly, within a second. It has been read, and its headers have been judged.
        if last is not None and data.startswith(last[0]) and last[1] == self._method:
            self._left, self._rest = last[3], data[len(last[0]) :]
            return last[2]
        common = read_common_response(self._method, data, self._limit)
        if common is not None:
            head, self._left, self._rest = common
            self._judge(head.headers)
            self._last_head = (data[: len(data) - len(self._rest)], self._method, head, self._left)
            return head
        self._left = self._last_head = None
        if self._h11 is None:
            self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=self._limit)
        self._h11.send(_as_h11(self._method))
        self._h11.send(_END)
        self._h11.receive_data(data)
        for _ in range(_MOST_INFORMATIONAL + 1):
            event = await self._next_event()
            if type(event) is h11.Response:
                if self._received > self._limit:
                    self._check_length(event)
                if event.http_version not in _VERSIONS:
                    raise self._of_version(event)
                head = HttpHead(status=event.status_code, headers=Headers.from_raw(event.headers))
                self._judge(head.headers)
                return head
            if type(event) is h11.InformationalResponse and event.http_version not in _VERSIONS:
                raise self._of_version(event)
        raise self._ended(f"sent more than {_MOST_INFORMATIONAL} informational responses", sent=True, begun=True)

    async def receive_some(self) -> bytes:
        """Return the next bytes of the body; empty when the body is complete. Raises `HttpConnectionEnded`."""
        if self._left is not None:
            if self._left and not self._rest:
                self._rest = await self._receive()
                if not self._rest:
                    raise self._ended(_INCOMPLETE, sent=True, begun=True)
            return self._take()
        event = await self._next_event()
        return bytes(event.data) if type(event) is h11.Data else b""

    def receive_nowait(self) -> bytes | None:
        """Return the next bytes of the body that are already received; `None` if nothing valid is there."""
        if self._left is not None or self._h11 is None:
            return None if self._left and not self._rest else self._take()
        try:
            event = self._h11.next_event()
        except h11.RemoteProtocolError:
            return None
        if type(event) is h11.Data:
            return bytes(event.data)
        return b"" if type(event) is h11.EndOfMessage else None

    def _take(self) -> bytes:
        """Return the received bytes of a body of known length."""
        left = self._left or 0
        part = self._rest if len(self._rest) <= left else self._rest[:left]
        self._rest = self._rest[len(part) :]
        self._left = left - len(part)
        return part

    def recycle(self) -> bool:
        """Return whether another request may follow after a complete response, and prepare the connection for it."""
        if self._broken or self._eof or self.surplus:
            return False
        if self._left is None and self._h11 is not None:
            if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                return False
            self._h11.start_next_cycle()
        elif self._left:
            return False
        self.reused = True
        return True

    @property
    def surplus(self) -> bool:
        """Whether the server sent more bytes than the response."""
        return bool(self._rest if self._left is not None or self._h11 is None else self._h11.trailing_data[0])

    def close(self) -> None:
        """Close the connection at once. Pending reads and writes fail. May be called more than once."""
        self._socket.close()

    async def _next_event(self) -> h11.Event:
        if self._h11 is None:
            raise AssertionError("h11 reads the response only from its first bytes on")
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as bad:
                raise self._violation(bad) from bad
            if not isinstance(event, type):
                return event
            self._h11.receive_data(await self._receive())

    async def _receive(self) -> bytes:
        """Return the next received bytes; empty at the end of a response that has begun. Raises `HttpConnectionEnded`."""
        try:
            data = await _read(self._socket) if self._is_plain else bytes(await self._stream.receive_some())
        except trio.BrokenResourceError as broken:
            # A server that requires another certificate reports it only here.
            what = "broke before the response was complete"
            why = explain(broken)
            begun = self._received > 0
            raise self._ended(f"{what}: {why}" if why else what, sent=True, begun=begun) from broken
        except trio.ClosedResourceError:
            raise self._ended("was closed by this side", sent=True, begun=self._received > 0) from None
        if not data and not self._received:
            raise self._ended(f"ended without a response{self._hint()}", sent=True, begun=False)
        if not self._received and data.startswith(_ALERT):
            raise self._ended(f"carries TLS{self._hint()}", sent=True, begun=True)
        self._eof = not data
        self._received += len(data)
        return data

    def _of_version(self, event: h11.Response | h11.InformationalResponse) -> HttpConnectionEnded:
        """Return the error for a version other than HTTP/1.0 and HTTP/1.1."""
        version = event.http_version.decode("ascii")
        return self._ended(f"does not carry HTTP/1.1: the response is HTTP/{version}", sent=True, begun=True)

    def _hint(self) -> str:
        """Return advice for an alert or an early close: a server that expects TLS does this for plain HTTP."""
        plain = not self.reused and not isinstance(self._stream, trio.SSLStream)
        return "; if the server uses TLS on this port, use https:// instead of http://" if plain else ""

    def _judge(self, headers: Headers) -> None:
        """Check the framing headers of a response, and read its `Keep-Alive` timeout.

        Raises:
            HttpConnectionEnded: The response has both `Transfer-Encoding` and `Content-Length`.
        """
        if headers.get("transfer-encoding") is not None and "content-length" in headers:
            # The end of the response is ambiguous, which permits response splitting and smuggling. RFC 9112 section 6.3
            # lets a client read the response and then close; but a proxy in between may have interpreted it the other
            # way.
            what = "sent a response with both Content-Length and Transfer-Encoding"
            raise self._ended(what, sent=True, begun=True)
        for part in (headers.get("keep-alive") or "").split(","):
            name, _, seconds = part.strip().partition("=")
            if name.lower() == "timeout" and seconds.isdecimal():
                # The number may have any number of digits.
                self.idle_seconds = min(float(seconds) - _ANNOUNCED_MARGIN, _LONGEST_IDLE)

    def _check_length(self, event: h11.Response) -> None:
        """Check the length of a complete head. h11 limits only incomplete heads; one in a single piece may be longer."""
        length = (
            len("HTTP/1.1 200 \r\n\r\n")
            + len(event.reason)
            + sum(len(name) + len(value) + 4 for name, value in event.headers)
        )
        if length > self._limit:
            raise self._too_long(length)

    def _violation(self, bad: h11.RemoteProtocolError) -> HttpConnectionEnded | LimitExceeded:
        if bad.error_status_hint == 431:
            return self._too_long(self._limit + 1)
        if self._eof:
            return self._ended(_INCOMPLETE, sent=True, begun=True)
        return self._ended(f"does not carry HTTP/1.1: {str(bad)[:_QUOTED]}", sent=True, begun=True)

    def _too_long(self, length: int) -> LimitExceeded:
        return LimitExceeded(
            f"bytes in the head of a response of {self._peer}",
            observed=length,
            allowed=self._limit,
            setting="Limits.header_bytes",
        )

    def _ended(self, what: str, *, sent: bool, begun: bool) -> HttpConnectionEnded:
        return HttpConnectionEnded(f"the connection to {self._peer} {what}", sent=sent, begun=begun)
