"""A pool of HTTP/1.1 connections for one client.

A request runs in the task that makes it; the pool has no tasks. If an idle connection is available, the task waits only
for the response. `mcp_core.trio.http_client.pool_policy` makes the decisions, and this module does the I/O.

    parse_url -> Dialer.route -> PoolPolicy.request -> (Dialer.dial) -> HttpConnection.exchange -> PooledResponse

The pool repeats a request on a new connection in these cases:

    connection   failure                                              repeated
    idle         readable before the request was written              yes, the connection was dead
    idle         ended before the whole request was written           yes, the server cannot have processed the request
    idle         ended later, before the first byte of a response     only GET, HEAD and OPTIONS, which are safe
    any          all other failures                                   no: `HttpConnectionEnded`, see its `sent`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import trio

from mcp_core.errors import HttpFailure, LimitExceeded
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.pool_policy import PoolPolicy, Use
from mcp_core.trio.http_client.redirects import redirected
from mcp_core.trio.http_client.url import parse_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from mcp_core.http.messages import HttpHead
    from mcp_core.limits import Limits
    from mcp_core.trio.http_client.connection import HttpConnection, Route, WrittenHead
    from mcp_core.trio.http_client.pool_policy import Ticket
    from mcp_core.trio.http_client.tls import Tls
    from mcp_core.trio.http_client.url import HttpUrl

__all__ = ["HttpPool", "PooledRequest", "PooledResponse"]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_MOST_ROUTES: Final = 1_000
"""Maximum number of origins whose route is cached. A client has one or two; a full cache is cleared."""


class HttpPool:
    """A bounded pool of HTTP/1.1 connections. Each client has its own: principals never share connections.

    Idle connections are closed when they expire, at the start or end of the next request, and by `aclose`.

    Args:
        tls: The trusted authorities and the client certificate, or an `ssl.SSLContext`; `None` for the system's
            authorities and no client certificate.
        proxies: `None` reads the environment, see `Proxies`; `False` disables proxies; or a mapping from `http`,
            `https` and `all` to URLs, and from `no` to a list as in `no_proxy`.
        limits: The limits; `connections` and `header_bytes` apply.
        connect_seconds: Time to open a connection, in seconds: name resolution, TCP, proxy and TLS together.
        per_origin: Maximum number of concurrent calls to one origin; further calls wait. The default is the number of
            requests that a server of this project runs concurrently for one peer by default.
        idle_kept: Maximum number of idle connections.
        idle_seconds: Time that an idle connection is retained, in seconds, unless the server announces another time.
            Common servers close idle connections after 5 seconds, and the pool cannot repeat a call that meets that
            moment.
        connect: Opens a TCP connection to a host and a port; `None` for `trio.open_tcp_stream`.

    Raises:
        LocalProtocolError: The proxy settings are invalid.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | Tls | None = None,
        proxies: Mapping[str, str] | Literal[False] | None = None,
        limits: Limits = CLIENT_LIMITS,
        connect_seconds: float = 30.0,
        per_origin: int = 128,
        idle_kept: int = 64,
        idle_seconds: float = 4.0,
        connect: Callable[[str, int], Awaitable[trio.SocketStream]] | None = None,
    ) -> None:
        from mcp_core.trio.http_client.dialer import (
            Dialer,  # lazy: it needs h11, which clients of other transports do not
        )

        self._dialer: Final = Dialer(tls=tls, proxies=proxies, limits=limits, seconds=connect_seconds, connect=connect)
        self._policy: Final[PoolPolicy[HttpConnection]] = PoolPolicy(
            connections=limits.connections, per_origin=per_origin, idle_kept=idle_kept
        )
        self.idle_seconds: Final = idle_seconds
        """Time that an idle connection is retained, in seconds, unless the server announces another time."""
        self._routes: Final[dict[str, Route]] = {}
        self._last_head: WrittenHead | None = None
        self._open: Final[set[HttpConnection]] = set()
        self._woken: Final[dict[Ticket[HttpConnection], trio.Event]] = {}
        self._closed = False

    def request(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        *,
        use: Use = Use.CALL,
        follow: bool = True,
    ) -> PooledRequest:
        """Return a request as a context manager: `async with pool.request(...) as response`.

        The block starts when the head of the response has arrived. A block that exits before the end of the body closes
        the connection, unless the end has already arrived. Otherwise the pool keeps the connection. Any task may use
        the pool.

        Args:
            method: The HTTP method.
            url: The URL.
            headers: The headers, without those of the connection: Content-Length, Accept-Encoding and similar headers.
            body: The body; `None` for a request without a body.
            use: The purpose of the connection.
            follow: Whether to follow redirects within the origin and to raise an error for all others. If false, the
                caller receives redirects as responses.

        Raises:
            LocalProtocolError: The URL or a header cannot be sent, or the pool cannot use a proxy or TLS setting.
            HttpConnectionEnded: There is no response; `sent` states whether the server may have processed the request.
            RequestTimeout: The connection could not be opened in time.
            LimitExceeded: The head of the response is too long, or there are too many streams.
            HttpFailure: The response is a redirect that is not followed.
        """
        return PooledRequest(self, method, url, headers, body, use=use, follow=follow)

    async def aclose(self) -> None:
        """Close all connections. Requests that are in flight or waiting fail with `HttpConnectionEnded`."""
        self._closed = True
        self._policy.clear()
        for connection in list(self._open):
            self._close(connection)
        for woken in self._woken.values():
            woken.set()
        await trio.lowlevel.checkpoint()

    def __repr__(self) -> str:
        return f"<HttpPool: {self._policy.busy} busy, {self._policy.idle} idle, {self._policy.waiting} waiting>"

    async def open_response(
        self, method: str, url: HttpUrl, headers: Sequence[tuple[str, str]], body: bytes | None, use: Use
    ) -> PooledResponse:
        """Send a request and return its response, without redirects. For the classes of this module."""
        if self._closed:
            self._check_open()
        route = self._routes.get(url.origin) or self._route(url)
        written = self._last_head
        if written is None or not written.fits(route, method, url, headers):
            written = self._last_head = route.head(method, url, headers)
        request = written.request(body)
        ticket, doomed = self._policy.request(url.origin, use, trio.current_time())
        if doomed:
            self._close_all(doomed)
        if not ticket.granted:
            await self._next_event(ticket)
        try:
            while True:
                connection = self._idle_one(ticket) or await self._dial(ticket, url, route)
                try:
                    head = await connection.exchange(method, request)
                except HttpConnectionEnded as ended:
                    processed = ended.begun or (ended.sent and method not in _SAFE)
                    if processed or not connection.reused or self._closed:
                        raise
                    # Dial a new connection even if others are idle: the cause that ended this connection may have ended
                    # them too.
                    self._close(connection)
                    ticket.connection = None
                    continue
                return PooledResponse(self, ticket, connection, head, url)
        except BaseException:
            self.give_back(ticket, None)
            raise

    def _route(self, url: HttpUrl) -> Route:
        if len(self._routes) >= _MOST_ROUTES:
            self._routes.clear()
        route = self._routes[url.origin] = self._dialer.route(url)
        return route

    async def _next_event(self, ticket: Ticket[HttpConnection]) -> None:
        """Wait until a ticket is granted."""
        woken = self._woken[ticket] = trio.Event()
        try:
            await woken.wait()
            self._check_open()
        except BaseException:
            if self._woken.pop(ticket, None) is None:
                # The ticket was granted at the same moment. Return it to the pool so that waiting requests can use it.
                self.give_back(ticket, ticket.connection)
            elif not self._closed:
                self._policy.withdraw(ticket)
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise HttpConnectionEnded("the connections of this client are closed", sent=False)

    def _idle_one(self, ticket: Ticket[HttpConnection]) -> HttpConnection | None:
        connection = ticket.connection
        while connection is not None and connection.is_stale():
            self._close(connection)
            connection = self._policy.next_idle(ticket)
        return connection

    async def _dial(self, ticket: Ticket[HttpConnection], url: HttpUrl, route: Route) -> HttpConnection:
        connection = await self._dialer.dial(url, route)
        self._open.add(connection)
        ticket.connection = connection
        self._check_open()
        return connection

    def give_back(self, ticket: Ticket[HttpConnection], connection: HttpConnection | None) -> None:
        """Return a connection to the pool, or close it. For the classes of this module.

        Args:
            ticket: The ticket of the request.
            connection: The connection if it can be reused; `None` closes the connection of the ticket.
        """
        now = trio.current_time()
        if connection is None or self._closed or connection.idle_until <= now:
            if ticket.connection is not None:
                self._close(ticket.connection)
            connection = None
        ticket.connection = None
        until = 0.0 if connection is None else connection.idle_until
        granted, doomed = self._policy.give_back(ticket, connection, until=until, now=now)
        if doomed:
            self._close_all(doomed)
        for each in granted:
            self._woken.pop(each).set()

    def _close(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        connection.close()

    def _close_all(self, connections: Iterable[HttpConnection]) -> None:
        for connection in connections:
            self._close(connection)


class PooledRequest:
    """A request that is sent when its block is entered. Created by `HttpPool.request`."""

    __slots__ = ("_body", "_follow", "_headers", "_method", "_pool", "_response", "_url", "_use")

    def __init__(
        self,
        pool: HttpPool,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | None,
        *,
        use: Use,
        follow: bool,
    ) -> None:
        self._pool = pool
        self._method = method
        self._url = url
        self._headers = headers
        self._body = body
        self._use = use
        self._follow = follow
        self._response: PooledResponse | None = None

    async def __aenter__(self) -> PooledResponse:
        target = parse_url(self._url)
        followed = 0
        while True:
            response = await self._pool.open_response(self._method, target, self._headers, self._body, self._use)
            onward = None
            if self._follow and 300 <= response.head.status < 400:
                try:
                    onward = redirected(self._method, target, response.head, followed)
                except HttpFailure:
                    response.leave()
                    raise
            if onward is None:
                self._response = response
                return response
            response.leave()
            target = onward
            followed += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._response is not None:
            self._response.leave()


class PooledResponse:
    """A response, inside the block of its request. Only one task at a time may read it."""

    __slots__ = ("_complete", "_connection", "_encoding", "_pool", "_ticket", "_url", "head")

    def __init__(
        self,
        pool: HttpPool,
        ticket: Ticket[HttpConnection],
        connection: HttpConnection,
        head: HttpHead,
        url: HttpUrl,
    ) -> None:
        self._pool = pool
        self._ticket = ticket
        self._connection: HttpConnection | None = connection
        self._url = url
        self._complete = False
        self._encoding = head.headers.get("content-encoding")
        self.head: HttpHead = head
        """The status and headers."""

    @property
    def url(self) -> str:
        """The URL that responded, after all redirects, with its query."""
        return str(self._url)

    async def receive_some(self) -> bytes:
        """Return the next bytes of the body; empty at its end. A cancelled call loses no data.

        Raises:
            HttpConnectionEnded: The connection ended before the body did, or the block was left.
            HttpFailure: The body has a content encoding, for example gzip, which the request did not accept.
            LimitExceeded: The header of a chunk, or the trailer of the body, is too long.
        """
        connection = self._connection
        if connection is None:
            if not self._complete:
                raise HttpConnectionEnded(f"the response of {self._url.shown} was left before its end", sent=True)
            await trio.lowlevel.checkpoint()
            return b""
        if self._encoding is not None and self._encoding.lower() != "identity":
            raise HttpFailure(
                f"{self._url.shown} responded with the content encoding {self._encoding!r}; only identity is accepted",
                status=self.head.status,
            )
        try:
            data = await connection.receive_some()
        except (HttpConnectionEnded, LimitExceeded):
            self._drop()
            raise
        if not data:
            self._finish(connection)
        return data

    async def read(self, limit: int) -> bytes:
        """Return the rest of the body. Raises as `receive_some`, and `LimitExceeded` if the body is too long.

        Args:
            limit: Maximum length of the body, in bytes: `Limits.message_bytes`, or less.
        """
        announced = self.head.headers.get("content-length")
        if announced is not None and int(announced) > limit:
            raise self._too_long(int(announced), limit)
        parts: list[bytes] = []
        size = 0
        while data := await self.receive_some():
            size += len(data)
            if size > limit:
                raise self._too_long(size, limit)
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _too_long(self, size: int, limit: int) -> LimitExceeded:
        return LimitExceeded(
            f"bytes in the response of {self._url.shown}", observed=size, allowed=limit, setting="Limits.message_bytes"
        )

    def leave(self) -> None:
        """Release the connection. Called at the end of the block; may be called more than once."""
        connection = self._connection
        if connection is None:
            return
        data = connection.receive_nowait()
        while data:
            data = connection.receive_nowait()
        if data is None:
            self._drop()
        else:
            self._finish(connection)

    def _finish(self, connection: HttpConnection) -> None:
        self._connection = None
        self._complete = True
        if not connection.recycle():
            self._pool.give_back(self._ticket, None)
            return
        announced = connection.idle_seconds
        connection.idle_until = trio.current_time() + (self._pool.idle_seconds if announced is None else announced)
        self._pool.give_back(self._ticket, connection)

    def _drop(self) -> None:
        self._connection = None
        self._pool.give_back(self._ticket, None)

    def __repr__(self) -> str:
        return f"<PooledResponse {self.head.status} of {self._url.shown}>"
