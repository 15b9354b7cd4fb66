"""The way to a server: through a proxy or not, with TLS or not, until a connection is open."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final, Literal

import attrs
import trio

from mcp_client.http_client.connection import HttpConnection, write_request
from mcp_client.http_client.errors import HttpConnectionEnded
from mcp_client.http_client.proxy import Proxies
from mcp_client.http_client.tls import explain, make_context
from mcp_core.errors import RequestTimeout

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp_client.http_client.proxy import Proxy
    from mcp_client.http_client.tls import Tls
    from mcp_client.http_client.url import HttpUrl
    from mcp_core.limits import Limits

__all__ = ["Dialer", "Route"]


@attrs.frozen
class Route:
    """How an origin is reached."""

    proxy: Proxy | None
    """Through which proxy; `None`: directly."""
    forwarded: bool
    """The proxy is told each request, and makes it. Otherwise it is asked for a tunnel, if there is one."""

    def request(self, method: str, url: HttpUrl, headers: Sequence[tuple[str, str]], body: bytes | None) -> bytes:
        """A request that goes this way, as it is on the wire. Raises `LocalProtocolError`."""
        if not self.forwarded or self.proxy is None:
            return write_request(method, url.target, url.authority, headers, body)
        return write_request(method, str(url), url.authority, headers, body, of_proxy=_credentials(self.proxy))


def _credentials(proxy: Proxy) -> list[tuple[str, str]]:
    return [] if proxy.authorization is None else [("Proxy-Authorization", proxy.authorization)]


class Dialer:
    """Opens connections.

    Args:
        tls: As in `HttpPool`.
        proxies: As in `HttpPool`.
        limits: `header_bytes` holds here.
        seconds: How long opening a connection may take, from the name to the end of the TLS handshake.
        connect: Opens a TCP connection.

    Raises:
        LocalProtocolError: The proxies are not what they should be.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | Tls | None,
        proxies: Mapping[str, str] | Literal[False] | None,
        limits: Limits,
        seconds: float,
        connect: Callable[[str, int], Awaitable[trio.SocketStream]] | None,
    ) -> None:
        self._tls: Final = tls
        self._context: ssl.SSLContext | None = None
        self._proxies: Final = Proxies(proxies, os.environ)
        self._limit: Final = limits.header_bytes
        self._seconds: Final = seconds
        self._connect: Final = trio.open_tcp_stream if connect is None else connect

    def route(self, url: HttpUrl) -> Route:
        """How the origin of a URL is reached. Raises `LocalProtocolError` for a proxy that cannot be used."""
        proxy = self._proxies.of(url)
        return Route(proxy, proxy is not None and url.scheme == "http")

    async def dial(self, url: HttpUrl, route: Route) -> HttpConnection:
        """Opens a connection for requests to the origin of `url`.

        Raises:
            HttpConnectionEnded: It cannot be opened.
            RequestTimeout: It took too long.
            LimitExceeded: The answer of the proxy is too long.
            LocalProtocolError: What is set for TLS cannot be used.
        """
        first = url if route.proxy is None else route.proxy.url
        if "https" in (url.scheme, first.scheme) and self._context is None:
            self._context = make_context(self._tls)
        with trio.move_on_after(self._seconds):
            stream = await self._open_tcp(first)
            try:
                return await self._prepare(stream, url, route)
            except BaseException:
                stream.socket.close()
                raise
        raise RequestTimeout(f"no connection to {_name(url, route)}", deadline="connect", seconds=self._seconds)

    async def _open_tcp(self, first: HttpUrl) -> trio.SocketStream:
        try:
            return await self._connect(first.host, first.port)
        except OSError as error:
            raise HttpConnectionEnded(f"{first.origin} cannot be reached: {_why(error)}", sent=False) from error

    async def _prepare(self, tcp: trio.SocketStream, url: HttpUrl, route: Route) -> HttpConnection:
        stream: trio.abc.Stream = tcp
        if route.proxy is not None:
            stream = await self._secure(stream, route.proxy.url, f"the proxy {route.proxy}")
            if not route.forwarded:
                await self._tunnel(stream, tcp, url, route.proxy)
        if not route.forwarded:
            stream = await self._secure(stream, url, _name(url, route))
        return HttpConnection(stream, tcp.socket, self._limit, _name(url, route))

    async def _secure(self, stream: trio.abc.Stream, url: HttpUrl, name: str) -> trio.abc.Stream:
        if url.scheme != "https" or self._context is None:
            return stream
        # Closing without a farewell is what HTTPS does: its messages tell where they end.
        secured = trio.SSLStream(
            stream, self._context, server_hostname=url.host.rstrip(".").encode("ascii"), https_compatible=True
        )
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError as broken:
            why = explain(broken) or "it ended in the TLS handshake"
            raise HttpConnectionEnded(f"no secure connection to {name}: {why}", sent=False) from broken
        chosen = secured.selected_alpn_protocol()
        if chosen not in (None, "http/1.1"):
            raise HttpConnectionEnded(
                f"{name} chose {chosen}, which the SSLContext offers, but only http/1.1 is spoken", sent=False
            )
        return secured

    async def _tunnel(self, stream: trio.abc.Stream, tcp: trio.SocketStream, url: HttpUrl, proxy: Proxy) -> None:
        target = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
        asked = write_request("CONNECT", target, target, (), None, of_proxy=_credentials(proxy))
        way = HttpConnection(stream, tcp.socket, self._limit, f"the proxy {proxy}")
        try:
            head = await way.exchange("CONNECT", asked)
        except HttpConnectionEnded as ended:
            raise HttpConnectionEnded(ended.message, sent=False) from ended
        if not 200 <= head.status < 300:
            raise HttpConnectionEnded(
                f"the proxy {proxy} refused a tunnel to {target}: its status was {head.status}", sent=False
            )
        if way.surplus:
            # What TLS would begin with is ours to say. Whoever speaks first is not the server.
            raise HttpConnectionEnded(f"the proxy {proxy} sent more than an answer to CONNECT", sent=False)


def _name(url: HttpUrl, route: Route) -> str:
    return url.origin if route.proxy is None else f"{url.origin} through the proxy {route.proxy}"


def _why(error: OSError) -> str:
    """In words: trio wraps what went wrong with each address."""
    causes = error.__cause__.exceptions if isinstance(error.__cause__, ExceptionGroup) else [error.__cause__ or error]
    return "; ".join(dict.fromkeys(_told(each) for each in causes))


def _told(error: BaseException) -> str:
    # trio writes the address before what the system says; the errors of names have numbers of their own.
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno is not None:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)
