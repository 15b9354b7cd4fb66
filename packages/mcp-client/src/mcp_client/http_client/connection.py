"""One HTTP/1.1 connection: h11 joined to a stream.

A request and its answer are one *exchange*; several follow each other on a connection. Whether the next one may is
decided by `recycle`: both messages are complete, and nothing came that was not asked for.

Answers are read by h11. Requests are written here, which takes a fifth of the time: their form is known, and one
regular expression holds it. h11 is told only what it needs to read the answer, so no header that changes the framing
may come from elsewhere.
"""

from __future__ import annotations

import os
import re
import select
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import h11
import trio

from mcp_client.http_client.errors import HttpConnectionEnded
from mcp_client.http_client.tls import explain
from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.http.messages import Headers, HttpHead

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HttpConnection", "write_request"]

_MOST_INFORMATIONAL: Final = 16
"""Answers of the kind 1xx before the real one. Proxies send a 102 every few seconds at most; the rest is a flood."""

_VERSIONS: Final = frozenset({b"1.0", b"1.1"})
"""The versions of HTTP that this connection reads. h11 accepts any digits: `HTTP/2.0`, `HTTP/0.9`."""

_ANNOUNCED_MARGIN: Final = 1.0
"""Seconds that an idle connection is given up before the server said that it would."""

_LONGEST_IDLE: Final = 60.0
"""Seconds that it is kept, whatever the server says."""

_QUOTED: Final = 200
"""How many characters of a complaint about what came are shown: it quotes what came."""

_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE: Final = r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?"
_NAME: Final = re.compile(_TOKEN)
_WHOLE_VALUE: Final = re.compile(_VALUE)
_HEAD: Final = re.compile(rf"{_TOKEN} [!-~]+ HTTP/1\.1\r\n(?:{_TOKEN}: {_VALUE}\r\n)+\r\n")
"""The grammar of a head, RFC 9112 sections 3 and 5."""

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
"""What is between this connection and its other end, and nobody else's."""


def write_request(
    method: str,
    target: str,
    authority: str,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    of_proxy: Sequence[tuple[str, str]] = (),
) -> bytes:
    """A request as it is on the wire.

    Args:
        method: Its method.
        target: Path and query, or what else the method wants there.
        authority: The value of `Host`, unless `headers` have another.
        headers: What the caller wants to say.
        body: Its body; `None`: it has none.
        of_proxy: What only the proxy is to be told.

    Raises:
        LocalProtocolError: A header cannot be sent. The message has its name, and never its value.
    """
    # Servers that may compress do so to streams as well, and hold events back.
    lines = [f"{method} {target} HTTP/1.1", f"Host: {authority}", "Accept-Encoding: identity"]
    for name, value in headers:
        lowered = _lowered(name)
        if lowered in _FRAMING:
            raise LocalProtocolError(f"the header {name!r} is set by the connection itself")
        if not lowered:
            raise _unsendable(method, headers)
        if lowered == "host":
            lines[1] = f"{name}: {value}"
        else:
            lines.append(f"{name}: {value}")
    for name, value in of_proxy:
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    lines.append("\r\n")
    head = "\r\n".join(lines)
    # What fits, but has more lines than were put in, has one in a value.
    if _HEAD.fullmatch(head) is None or head.count("\r\n") != len(lines):
        raise _unsendable(method, headers)
    data = head.encode("latin-1")
    return data + body if body else data


def _unsendable(method: str, headers: Sequence[tuple[str, str]]) -> LocalProtocolError:
    for name, value in headers:
        if not _lowered(name) or _WHOLE_VALUE.fullmatch(value) is None:
            return LocalProtocolError(
                f"the header {name!r} cannot be sent: its name or value has characters that HTTP does not allow"
            )
    return LocalProtocolError(f"{method!r} is no method of HTTP")


# There are few names, and they come again with each request.
@lru_cache(maxsize=256)
def _lowered(name: str) -> str:
    """In lower case; empty if it is no name of a header."""
    return name.lower() if _NAME.fullmatch(name) else ""


@lru_cache(maxsize=16)
def _as_h11(method: str) -> h11.Request:
    """What h11 is told of a request: what it needs to read the answer."""
    return h11.Request(method=method, target="/", headers=[("Host", "")])


_END: Final = h11.EndOfMessage()

_ALERT: Final = b"\x15\x03"
"""The beginning of an alert of TLS (RFC 8446 section 5.1)."""


if sys.platform == "win32":

    def _readable(socket: trio.socket.SocketType) -> bool:
        return bool(select.select([socket.fileno()], [], [], 0)[0])

    def _write_now(socket: trio.socket.SocketType, data: bytes) -> int:  # noqa: ARG001  a descriptor here is no file
        return 0

else:

    def _readable(socket: trio.socket.SocketType) -> bool:
        # Not `select`, which knows only the first 1,024 descriptors.
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _write_now(socket: trio.socket.SocketType, data: bytes) -> int:
        """Writes what can be written without waiting. What is wrong shows when the rest is sent."""
        try:
            return os.write(socket.fileno(), data)
        except OSError:
            return 0


class HttpConnection:
    """A connection that is open. At most one exchange at a time.

    Args:
        stream: The bytes; TLS or not.
        socket: What carries them in the end: it is watched, and closed.
        limit: `Limits.header_bytes`.
        peer: Who is at the other end, for errors.
    """

    __slots__ = (
        "_broken",
        "_eof",
        "_h11",
        "_limit",
        "_peer",
        "_received",
        "_socket",
        "_stream",
        "idle_seconds",
        "idle_until",
        "reused",
    )

    def __init__(self, stream: trio.abc.Stream, socket: trio.socket.SocketType, limit: int, peer: str) -> None:
        self._stream = stream
        self._socket = socket
        self._limit = limit
        self._peer = peer
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=limit)
        self._received = 0
        self._eof = False
        self._broken = False
        self.reused = False
        """An exchange has been completed on it."""
        self.idle_seconds: float | None = None
        """How long it may be idle according to the server, with a margin; `None` if that did not say."""
        self.idle_until: float = 0.0
        """When it is to be closed if nobody uses it before; kept here for the pool."""

    def is_stale(self) -> bool:
        """Whether an idle one is of no use: the server closed it, or said something unasked."""
        return _readable(self._socket)

    async def exchange(self, method: str, request: bytes) -> HttpHead:
        """Sends a request and waits for the head of its answer.

        Args:
            method: Its method.
            request: All of it, from `write_request`.

        Raises:
            HttpConnectionEnded: The connection ended, or what came is no HTTP.
            LimitExceeded: The head of the answer is too long.
        """
        self._received = 0
        self._h11.send(_as_h11(method))
        self._h11.send(_END)
        try:
            await self._send(request)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            # The server may have answered before it hung up: too long, not allowed.
            self._broken = True
            try:
                return await self._receive_head()
            except HttpConnectionEnded as ended:
                raise self._ended("ended while the request was sent", sent=False, begun=ended.begun) from broken
        return await self._receive_head()

    async def _send(self, request: bytes) -> None:
        """Sends all. Trio's own `send_all` lets all other tasks run first, and the answer is waited for anyway."""
        await trio.lowlevel.checkpoint_if_cancelled()
        written = _write_now(self._socket, request) if isinstance(self._stream, trio.SocketStream) else 0
        if written < len(request):
            await self._stream.send_all(request[written:])

    async def _receive_head(self) -> HttpHead:
        for _ in range(_MOST_INFORMATIONAL + 1):
            event = await self._next_event()
            if type(event) is h11.Response:
                if self._received > self._limit:
                    self._check_length(event)
                self._check_version(event)
                head = HttpHead(status=event.status_code, headers=Headers.from_raw(event.headers))
                self._judge(head.headers)
                return head
            if type(event) is h11.InformationalResponse:
                self._check_version(event)
        raise self._ended(f"sent more than {_MOST_INFORMATIONAL} informational answers", sent=True, begun=True)

    async def receive_some(self) -> bytes:
        """The next bytes of the body; empty when it is complete. Raises `HttpConnectionEnded`."""
        event = await self._next_event()
        return bytes(event.data) if type(event) is h11.Data else b""

    def receive_nowait(self) -> bytes | None:
        """The same with what is here already; `None`: there is no more, or nothing good."""
        try:
            event = self._h11.next_event()
        except h11.RemoteProtocolError:
            return None
        if type(event) is h11.Data:
            return bytes(event.data)
        return b"" if type(event) is h11.EndOfMessage else None

    def recycle(self) -> bool:
        """After the end of the body: whether another exchange may follow."""
        h = self._h11
        if self._broken or self._eof or h.our_state is not h11.DONE or h.their_state is not h11.DONE or self.surplus:
            return False
        h.start_next_cycle()
        self.reused = True
        return True

    @property
    def surplus(self) -> bool:
        """Whether more came than the answer."""
        return bool(self._h11.trailing_data[0])

    def close(self) -> None:
        """Closes it at once. Whoever reads or writes is told. More than once is fine."""
        self._socket.close()

    async def _next_event(self) -> h11.Event:
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as bad:
                raise self._violation(bad) from bad
            if isinstance(event, type):
                await self._receive()
            else:
                return event

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some()
        except trio.BrokenResourceError as broken:
            # A server that wants another certificate says so only here.
            what = "broke before the answer was complete"
            why = explain(broken)
            begun = self._received > 0
            raise self._ended(f"{what}: {why}" if why else what, sent=True, begun=begun) from broken
        except trio.ClosedResourceError:
            raise self._ended("was closed by this side", sent=True, begun=self._received > 0) from None
        if not data and not self._received:
            raise self._ended(f"ended without an answer{self._hint()}", sent=True, begun=False)
        if not self._received and data.startswith(_ALERT):
            raise self._ended(f"carries TLS{self._hint()}", sent=True, begun=True)
        self._eof = not data
        self._received += len(data)
        self._h11.receive_data(bytes(data))

    def _check_version(self, event: h11.Response | h11.InformationalResponse) -> None:
        """Raise `HttpConnectionEnded` for a version other than HTTP/1.0 and HTTP/1.1."""
        if event.http_version not in _VERSIONS:
            version = event.http_version.decode("ascii")
            raise self._ended(f"does not carry HTTP/1.1: the answer is HTTP/{version}", sent=True, begun=True)

    def _hint(self) -> str:
        """What a server does that wants TLS and gets none: it answers with an alert, or hangs up."""
        plain = not self.reused and not isinstance(self._stream, trio.SSLStream)
        return "; if it speaks TLS there, use https:// instead of http://" if plain else ""

    def _judge(self, headers: Headers) -> None:
        """Read what the head of an answer says about its framing and the next exchange.

        Raises:
            HttpConnectionEnded: The answer has two lengths.
        """
        if "transfer-encoding" in headers and "content-length" in headers:
            # Two readings of where the answer ends, which is how responses are split and smuggled. RFC 9112 section 6.3
            # lets a client read on and close; but a proxy in between may have chosen the other reading.
            what = "sent an answer with both Content-Length and Transfer-Encoding"
            raise self._ended(what, sent=True, begun=True)
        for part in (headers.get("keep-alive") or "").split(","):
            name, _, seconds = part.strip().partition("=")
            if name.lower() == "timeout" and seconds.isdecimal():
                # The number may have any length.
                self.idle_seconds = min(float(seconds) - _ANNOUNCED_MARGIN, _LONGEST_IDLE)

    def _check_length(self, event: h11.Response) -> None:
        """h11 bounds what is incomplete; a head that comes in one piece may be longer."""
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
            return self._ended("ended before the answer was complete", sent=True, begun=True)
        return self._ended(f"does not carry HTTP/1.1: {str(bad)[:_QUOTED]}", sent=True, begun=True)

    def _too_long(self, length: int) -> LimitExceeded:
        return LimitExceeded(
            f"bytes of the head of an answer of {self._peer}",
            observed=length,
            allowed=self._limit,
            setting="Limits.header_bytes",
        )

    def _ended(self, what: str, *, sent: bool, begun: bool) -> HttpConnectionEnded:
        return HttpConnectionEnded(f"the connection to {self._peer} {what}", sent=sent, begun=begun)
