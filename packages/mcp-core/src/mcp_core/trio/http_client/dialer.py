"""Connection establishment: TCP, an optional proxy and optional TLS."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final, Literal

import trio

from mcp_core.errors import RequestTimeout
from mcp_core.trio.http_client.connection import HttpConnection, Route, credentials, write_request
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.proxy import Proxies
from mcp_core.trio.http_client.tls import explain, make_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_core.limits import Limits
    from mcp_core.trio.http_client.proxy import Proxy
    from mcp_core.trio.http_client.tls import Tls
    from mcp_core.trio.http_client.url import HttpUrl

__all__ = ["Dialer"]


class Dialer:
    """An opener of connections.

    Args:
        tls: As in `HttpPool`.
        proxies: As in `HttpPool`.
        limits: The limits; only `header_bytes` applies.
        seconds: Time to open a connection, from name resolution to the end of the TLS handshake, in seconds.
        connect: Opens a TCP connection to a host and a port; `None` for `trio.open_tcp_stream`.

    Raises:
        LocalProtocolError: The proxy settings are invalid.
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
        """Return the route to the origin of a URL. Raises `LocalProtocolError` for a proxy that cannot be used."""
        proxy = self._proxies.of(url)
        return Route(proxy, proxy is not None and url.scheme == "http")

    async def dial(self, url: HttpUrl, route: Route) -> HttpConnection:
        """Open a connection for requests to the origin of `url`.

        Raises:
            HttpConnectionEnded: The connection cannot be opened.
            RequestTimeout: The connection was not opened in time.
            LimitExceeded: The head of the proxy's response is too long.
            LocalProtocolError: The TLS settings cannot be used.
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
            raise HttpConnectionEnded(f"cannot connect to {first.origin}: {_why(error)}", sent=False) from error

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
        # HTTPS servers close without a TLS close_notify: HTTP messages mark their own end.
        secured = trio.SSLStream(
            stream, self._context, server_hostname=url.host.rstrip(".").encode("ascii"), https_compatible=True
        )
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError as broken:
            why = explain(broken) or "the connection ended during the TLS handshake"
            raise HttpConnectionEnded(f"no secure connection to {name}: {why}", sent=False) from broken
        chosen = secured.selected_alpn_protocol()
        if chosen not in (None, "http/1.1"):
            raise HttpConnectionEnded(
                f"{name} selected {chosen}, which the SSLContext offers, but this client supports only http/1.1",
                sent=False,
            )
        return secured

    async def _tunnel(self, stream: trio.abc.Stream, tcp: trio.SocketStream, url: HttpUrl, proxy: Proxy) -> None:
        target = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
        connect_request = write_request("CONNECT", target, target, (), None, of_proxy=credentials(proxy))
        way = HttpConnection(stream, tcp.socket, self._limit, f"the proxy {proxy}")
        try:
            head = await way.exchange("CONNECT", connect_request)
        except HttpConnectionEnded as ended:
            raise HttpConnectionEnded(ended.message, sent=False) from ended
        if not 200 <= head.status < 300:
            raise HttpConnectionEnded(
                f"the proxy {proxy} rejected a tunnel to {target} with status {head.status}", sent=False
            )
        if way.surplus:
            # In a TLS handshake the client sends first, so bytes that arrive now do not come from the server.
            raise HttpConnectionEnded(f"the proxy {proxy} sent more than a response to CONNECT", sent=False)


def _name(url: HttpUrl, route: Route) -> str:
    return url.origin if route.proxy is None else f"{url.origin} through the proxy {route.proxy}"


def _why(error: OSError) -> str:
    """Return the causes as text: trio wraps one error for each address."""
    causes = error.__cause__.exceptions if isinstance(error.__cause__, ExceptionGroup) else [error.__cause__ or error]
    return "; ".join(dict.fromkeys(_describe(each) for each in causes))


def _describe(error: BaseException) -> str:
    # trio puts the address before the system's text; name resolution errors have error numbers of their own.
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno is not None:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)
