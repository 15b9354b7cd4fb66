"""The redirect URI on the loopback interface: a small web server for one page.

Every program on this machine can connect to it, and every open web page can make the user's browser do so. Therefore
the server accepts one path, one method and one value of `Host`. It responds with the same page to all requests, so that
a response never contains a part of a request, and no request can stop it. The caller of `redirected` decides which
redirect belongs to the login.

Spec: RFC 8252 section 7.3; basic/authorization#communication-security
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import h11
import trio

from mcp_core.trio.nursery import open_private_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["PATH", "Loopback", "open_loopback"]

_log: Final = logging.getLogger("mcp_client")

PATH: Final = "/callback"
"""The only path."""

_HOST: Final = "127.0.0.1"
"""An address, not a name: the resolution of a name could be changed."""

_HEAD_BYTES: Final = 16 * 1024
"""Maximum length of a request, in bytes. Some authorization servers have codes of 4 KiB."""

_SECONDS: Final = 10.0
"""Time to receive a request and respond, in seconds."""

_CONNECTIONS: Final = 16
"""Maximum number of open connections. Browsers open two or three, some of them unused."""

_UNREAD: Final = 16
"""Maximum number of queued redirects. A real login has one."""

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Return to the program</title>
<h1>Return to the program</h1>
<p>The program that opened this page continues. You can close this window.</p>
</html>
""".encode("ascii")

_TEXTS: Final = {
    400: b"This request is not valid HTTP.\n",
    404: b"There is no page at this path.\n",
    405: b"Only GET is supported.\n",
    421: b"The Host header does not match this server.\n",
}

_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
    ("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)


@asynccontextmanager
async def open_loopback(port: int | None = None) -> AsyncIterator[Loopback]:
    """Listen on 127.0.0.1 while the block runs.

    Args:
        port: The port to listen on; if it is in use or `None`, the system chooses a free port.

    Raises:
        OSError: There is no free port.
    """
    listener = await _listen(port)
    loopback = Loopback(listener.socket.getsockname()[1])
    try:
        async with open_private_nursery() as nursery:
            nursery.start_soon(loopback.serve, listener)
            yield loopback
    finally:
        listener.socket.close()


async def _listen(port: int | None) -> trio.SocketListener:
    if port is not None:
        try:
            return (await trio.open_tcp_listeners(port, host=_HOST))[0]
        except OSError:
            # The port is in use.
            pass
    return (await trio.open_tcp_listeners(0, host=_HOST))[0]


class Loopback:
    """The web server. Created by `open_loopback`."""

    def __init__(self, port: int) -> None:
        self._authority: Final = f"{_HOST}:{port}"
        self.redirect_uri: Final = f"http://{self._authority}{PATH}"
        """The redirect URI."""
        self._received, self._reading = trio.open_memory_channel[str](_UNREAD)
        self._limiter: Final = trio.CapacityLimiter(_CONNECTIONS)

    async def redirected(self) -> str:
        """Wait for the next redirect, and return its whole URL."""
        return await self._reading.receive()

    async def serve(self, listener: trio.SocketListener) -> None:
        """Serve until cancelled."""
        async with open_private_nursery() as nursery:
            while True:
                await self._limiter.acquire_on_behalf_of(token := object())
                try:
                    stream = await listener.accept()
                except BaseException:
                    self._limiter.release_on_behalf_of(token)
                    raise
                nursery.start_soon(self._connection, stream, token)

    async def _connection(self, stream: trio.SocketStream, token: object) -> None:
        try:
            with trio.move_on_after(_SECONDS):
                try:
                    await self._answer(stream)
                finally:
                    await trio.aclose_forcefully(stream)
        except trio.BrokenResourceError:
            # A browser that closed the connection does not need the page; the redirect is valid.
            _log.debug("browser closed the connection before it received the page")
        finally:
            self._limiter.release_on_behalf_of(token)

    async def _answer(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        try:
            request = await _request(connection, stream)
        except h11.RemoteProtocolError:
            await _send(stream, 400)
            return
        if request is None:
            return
        status, query = self._judge(request)
        try:
            # Send the page before queuing the redirect, because its receiver closes the server.
            await _send(stream, status)
        finally:
            if query is not None:
                self._deliver(query)

    def _judge(self, request: h11.Request) -> tuple[int, bytes | None]:
        hosts = [value for name, value in request.headers if name == b"host"]
        path, _, query = request.target.partition(b"?")
        if hosts != [self._authority.encode()]:
            return 421, None
        if path != PATH.encode():
            return 404, None
        if request.method != b"GET":
            return 405, None
        return 200, query

    def _deliver(self, query: bytes) -> None:
        # The user does not cause more redirects than the queue holds, and can try again.
        with suppress(trio.WouldBlock):
            self._received.send_nowait(f"{self.redirect_uri}?{query.decode('latin-1')}")


async def _request(connection: h11.Connection, stream: trio.SocketStream) -> h11.Request | None:
    """Return the head of a request; `None` if the connection ended before one. Raises `h11.RemoteProtocolError`."""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            return None
        connection.receive_data(await stream.receive_some(_HEAD_BYTES))


async def _send(stream: trio.SocketStream, status: int) -> None:
    """Send the page, or an error page."""
    body = _PAGE if status == 200 else _TEXTS[status]
    kind = "text/html" if status == 200 else "text/plain"
    lines = [f"HTTP/1.1 {status} -", f"Content-Type: {kind}; charset=utf-8", f"Content-Length: {len(body)}"]
    if status == 405:
        lines.append("Allow: GET")
    lines += [f"{name}: {value}" for name, value in _HEADERS]
    await stream.send_all("\r\n".join([*lines, "", ""]).encode("ascii") + body)
