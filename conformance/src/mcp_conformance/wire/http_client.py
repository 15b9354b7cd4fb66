"""An HTTP/1.1 client with one connection for each request and no behavior of its own.

It follows no redirect, adds no header except Host and the length, and sends nothing twice. A check can send invalid
requests.
"""

from __future__ import annotations

import re
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs
import h11
import trio

from mcp_conformance.wire.transcript import exchanging
from mcp_conformance.wire.unframed import UNFRAMED_BYTES, unframed
from mcp_core.framing.sse import Event, SseParser
from mcp_core.limits import CLIENT_LIMITS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from mcp_conformance.wire.transcript import Transcript

__all__ = ["ClientExchange", "Endpoint", "Headers", "HttpResponse", "IncompleteResponse"]

_PORTION: Final = 64 * 1024
_MOST: Final = 64 * 1024 * 1024
"""The limit of a body, in bytes."""

_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")

Headers = tuple[tuple[str, str], ...]


class IncompleteResponse(Exception):
    """The response is missing or incomplete. The only argument is the cause."""


@attrs.frozen(kw_only=True)
class HttpResponse:
    """A response with its whole body."""

    status: int
    """The status."""
    headers: Headers
    """The headers, names in lower case."""
    body: bytes
    """The body."""

    def header(self, name: str) -> str | None:
        """Return the first header with this name; `None` if absent."""
        return next((value for given, value in self.headers if given == name.lower()), None)

    @property
    def media_type(self) -> str:
        """The content type without parameters, in lower case; empty if absent."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()


def _in_chunks(body: bytes) -> bytes:
    """Return a body in two chunks."""
    middle = len(body) // 2
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:middle], body[middle:], b""))


class ClientExchange:
    """A sent request, and its response as it arrives. Created by `Endpoint.exchange`."""

    def __init__(self, stream: trio.abc.Stream, connection: h11.Connection, transcript: Transcript) -> None:
        self._transcript: Final = transcript
        self._unread: Final = bytearray()
        """The start of what arrived and is not the whole of anything yet: a head, a body or an event."""
        self._stream: Final = stream
        self._connection: Final = connection
        self._events: Final = SseParser(CLIENT_LIMITS)
        self._queue: list[Event] = []
        self.status: int = 0
        """The status; 0 before the head of the response has arrived."""
        self.headers: Headers = ()
        """The headers of the response, names in lower case."""
        self.ended: bool = False
        """Whether the body has ended."""

    def header(self, name: str) -> str | None:
        """Return the first header with this name; `None` if absent."""
        return next((value for given, value in self.headers if given == name.lower()), None)

    @property
    def media_type(self) -> str:
        """The content type without parameters, in lower case."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    async def _next(self) -> h11.Event | None:
        while True:
            try:
                event = self._connection.next_event()
            except h11.RemoteProtocolError as error:
                raise IncompleteResponse(f"the response is not valid HTTP: {error}: {self._take_unread()}") from error
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:
                return None
            try:
                data = await self._stream.receive_some(_PORTION)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise IncompleteResponse("the connection broke") from error
            if not self.status:
                self._keep(data)
            self._connection.receive_data(bytes(data))

    async def _read_head(self) -> None:
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                self.status = event.status_code
                self._unread.clear()
                self.headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers)
                return
            if not isinstance(event, h11.InformationalResponse):
                raise IncompleteResponse("the connection ended without a response")

    async def receive(self) -> bytes:
        """Return more of the body; empty at its end. Raises `IncompleteResponse` if it is cut off."""
        while not self.ended:
            event = await self._next()
            if isinstance(event, h11.Data):
                self._keep(event.data)
                return bytes(event.data)
            self.ended = True
        return b""

    async def read(self) -> bytes:
        """Return the rest of the body. Raises `IncompleteResponse` if it is cut off or too large."""
        body = bytearray()
        while data := await self.receive():
            body += data
            if len(body) > _MOST:
                raise IncompleteResponse(f"the body has more than {_MOST} bytes")
        self._unread.clear()
        return bytes(body)

    def _keep(self, data: bytes | bytearray | memoryview) -> None:
        self._unread.extend(data[: UNFRAMED_BYTES - len(self._unread)])

    def _take_unread(self) -> str:
        """Enter what is not the whole of anything into the transcript, and return its description."""
        data = bytes(self._unread)
        self._unread.clear()
        self._transcript.unframed(data)
        return unframed(data)

    async def next_event(self) -> Event | None:
        """Return the next event of a stream; `None` at its end, or when the transcript is full.

        Raises:
            IncompleteResponse: The stream is cut off.
        """
        if self._transcript.full.is_set():
            return None
        while not self._queue:
            before = bytes(self._unread)
            data = await self.receive()
            if not data:
                self._take_unread()
                return None
            # The start of the next event follows the last blank line.
            self._unread.clear()
            self._keep(_BLANK_LINE.split(before + data)[-1])
            self._queue += [event for event in self._events.receive_data(data) if isinstance(event, Event)]
        return self._queue.pop(0)

    async def answer(self) -> HttpResponse:
        """Return the response with its whole body."""
        return HttpResponse(status=self.status, headers=self.headers, body=await self.read())


class Endpoint:
    """The URL of a server under test.

    Args:
        url: The URL.
        context: The trusted certificates; `None`: those of the system.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"{url!r} is not an http or https URL")
        self.url: Final = url
        """The URL."""
        self.secure: Final = parts.scheme == "https"
        """Whether the URL is https."""
        self.host: Final = parts.hostname
        """The name or address of the host."""
        self.port: Final = parts.port or (443 if self.secure else 80)
        """The port."""
        self.authority: Final = parts.netloc.rpartition("@")[2]
        """The value of the Host header."""
        self.target: Final = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        """The path and the query."""
        self._context: Final = context

    @property
    def origin(self) -> str:
        """The scheme, host and port, in the form of the `Origin` header."""
        return f"{'https' if self.secure else 'http'}://{self.authority}"

    async def connect(self) -> trio.abc.Stream:
        """Open a connection. Raises `IncompleteResponse` on failure."""
        try:
            stream: trio.abc.Stream = await trio.open_tcp_stream(self.host, self.port)
        except OSError as error:
            raise IncompleteResponse(f"no connection to {self.host}:{self.port}: {error}") from error
        if not self.secure:
            return stream
        context = self._context or ssl.create_default_context()
        secured = trio.SSLStream(stream, context, server_hostname=self.host, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException as error:
            # Also if the caller is cancelled, for instance because the server does not respond.
            await trio.aclose_forcefully(stream)
            if not isinstance(error, trio.BrokenResourceError):
                raise
            raise IncompleteResponse(f"TLS handshake failed with {self.host}:{self.port}: {error.__cause__}") from error
        return secured

    @asynccontextmanager
    async def exchange(
        self,
        transcript: Transcript,
        method: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        *,
        target: str | None = None,
        host: str | None = None,
        deviant: str = "",
        over: trio.abc.Stream | None = None,
        pause: tuple[int, Callable[[], Awaitable[None]]] | None = None,
        chunked: bool = False,
    ) -> AsyncIterator[ClientExchange]:
        """Send a request. The block starts at the head of the response; after the block the connection is closed.

        Args:
            transcript: The transcript that records the exchange.
            method: The HTTP method.
            headers: The headers besides Host and Content-Length.
            body: The body; `None`: no body.
            target: The path and the query; `None`: those of the endpoint.
            host: The Host header; `None`: the one of the endpoint.
            deviant: The rule that the request breaks on purpose.
            over: An open connection, which stays open; the block must read the whole response. `None`: a new one.
            pause: A number of bytes of the body, and a function that is called between these and the rest; `None`: the
                body is sent at once.
            chunked: Whether the body is sent in two chunks, in place of a Content-Length (RFC 9112, section 7.1).

        Raises:
            IncompleteResponse: There is no response.
        """
        with exchanging():
            lines = [("Host", self.authority if host is None else host), *headers]
            if chunked:
                lines.append(("Transfer-Encoding", "chunked"))
            elif body is not None and not any(
                name.lower() in ("content-length", "transfer-encoding") for name, _ in headers
            ):
                lines.append(("Content-Length", str(len(body))))
            where = self.target if target is None else target
            transcript.head(
                "\n".join([f"{method} {where}", *(f"{n}: {v}" for n, v in lines)]), sent=True, deviant=deviant
            )
            if body:
                transcript.message(body, sent=True, deviant=deviant)
            head = f"{method} {where} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines) + "\r\n"
            stream = await self.connect() if over is None else over
            try:
                connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST)
                # h11 must know the request to read the response, but it would not write everything that a check may
                # want to send.
                connection.send(h11.Request(method=method, target="/", headers=[("Host", "suite")]))
                connection.send(h11.EndOfMessage())
                try:
                    data = _in_chunks(body or b"") if chunked else body or b""
                    at, paused = (len(data), None) if pause is None else pause
                    await stream.send_all(head.encode("latin-1", "replace") + data[:at])
                    if paused is not None:
                        await paused()
                        await stream.send_all(data[at:])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    # The server may reject the request before it has read all of it.
                    transcript.note("the connection was closed before the request was read")
                exchange = ClientExchange(stream, connection, transcript)
                try:
                    await exchange._read_head()  # noqa: SLF001  the exchange is not complete without this private method
                    lines_back = [f"HTTP {exchange.status}", *(f"{name}: {value}" for name, value in exchange.headers)]
                    transcript.head("\n".join(lines_back), sent=False)
                    yield exchange
                except trio.Cancelled:
                    exchange._take_unread()  # noqa: SLF001  likewise
                    raise
            finally:
                if over is None:
                    await trio.aclose_forcefully(stream)
