"""The connector for HTTP: `open_http`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_client.connection.request_headers import HeaderSource
from mcp_client.connection.response_cache import Caching, ResponseCache
from mcp_client.connectors.options import DEFAULT_HTTP_OPTIONS, DEFAULT_OPTIONS
from mcp_client.connectors.stdio import NO_HANDLERS, Connector, connection_of, observer_of
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_client.worker_threads import check_plain
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import trio

    from mcp_client.connection.channel import Transport
    from mcp_client.connection.request_headers import HeadersGiven
    from mcp_client.connectors.options import ClientOptions, HttpOptions
    from mcp_client.deadlines import Deadlines
    from mcp_client.handlers import Handlers
    from mcp_client.transports.http.authorizer import Authorization, Authorizer
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_core.http.fallback import EraCache
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Era, Revision
    from mcp_core.trio.http_client.addresses import AddressRecorder
    from mcp_core.types import LoggingLevel

__all__ = ["open_http"]

_eras: list[EraCache] = []
"""The era and the transport of known servers, by URL. All connections of the process share this cache, because it does
not contain secrets or user data. Created on first use."""


def open_http(
    url: str,
    *,
    headers: HeadersGiven | None = None,
    auth: Authorization | None = None,
    handlers: Handlers = NO_HANDLERS,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    deadlines: Deadlines = DEFAULT_DEADLINES,
    log_level: LoggingLevel | None = None,
    middleware: Sequence[Middleware] = (),
    options: ClientOptions = DEFAULT_OPTIONS,
    http: HttpOptions = DEFAULT_HTTP_OPTIONS,
) -> Connector:
    """Connect to a server over HTTP: Streamable HTTP of either era, or HTTP+SSE of 2024-11-05.

        async with open_http("https://example.com/mcp", headers={"Authorization": "Bearer ..."}) as client:
            result = await client.call_tool("forecast", {"city": "Ghent"})

    The client detects the transport of the server, and the process remembers it for the URL. A modern server costs one
    round trip before the first request, and no background task.

    TCP connections are kept open and are used by this client only. Use one client, or one `Client.with_headers`, for
    each user.

    Spec: basic/transports (legacy), basic/transports/streamable-http (2026-07-28)

    Args:
        url: The endpoint, with the scheme `http` or `https`. All messages use the URL unchanged, with path and query.
        headers: Headers of every request, or a plain or asynchronous function that returns them for each request.
        auth: The source of credentials when the server requires them: `mcp_client.auth.OAuth`. While a user logs in,
            all deadlines of the connection pause, except the total ones.
        handlers: The handlers of client requests and notifications.
        revisions: The revisions to negotiate; give a single one to pin it.
        deadlines: The deadlines of the connection and of its requests.
        log_level: The minimum level of log messages that the server sends. A legacy server receives the level when the
            session is open, a modern server with each request. `None`: legacy servers choose a level, and modern
            servers do not send log messages.
        middleware: The middleware of all messages, outermost first.
        options: Further settings.
        http: Further settings for HTTP: certificates, proxies, a known server.

    Returns:
        An asynchronous context manager for the `Client`.

    *Closing*: pending requests raise `ConnectionEnded`. A session is ended with DELETE, in at most 2 seconds.

    Raises:
        LocalProtocolError: The URL or a header is invalid; or `HttpOptions.on_session_lost` or `ClientOptions.on_message`
            is a coroutine function; or `HttpOptions.server` is a legacy server, whose session cannot be shared; or both
            `auth` and a header with credentials are given.
        AccessDenied: On entering: the server requires other credentials, and `auth` is missing or cannot provide them.
        AuthorizationError: On entering: `auth` failed to get credentials.
        HttpFailure: On entering: the response is not from an MCP server; the message describes the response.
        NegotiationFailed: On entering: the client and the server have no revision in common.
        ConnectionEnded: On entering: the server is unreachable or closed the connection.
        RequestTimeout: On entering: the connect deadline passed.
    """
    from mcp_core.trio.http_client.url import (
        parse_url,  # lazy: urllib is slow to import, and stdio clients do not need it
    )

    check_plain(http.on_session_lost, "HttpOptions.on_session_lost")
    observer = observer_of(options)
    parse_url(url)
    source = HeaderSource(headers)
    if auth is not None and auth.extensions:
        declared = {**{name: {} for name in auth.extensions}, **(handlers.extensions or {})}
        handlers = attrs.evolve(handlers, extensions=declared)
    connection = connection_of(handlers, revisions, log_level, options)
    if http.server is not None:
        connection.adopt(http.server)

    authorizing = _Authorizing(auth, source)

    async def start(nursery: trio.Nursery, _era: Era | None) -> Transport:
        from mcp_client.transports.http.message_exchanger import Wire  # lazy: likewise
        from mcp_client.transports.http.transport import (
            HttpTransport,  # lazy: most clients start a process and do not use HTTP
        )
        from mcp_core.http.fallback import EraCache  # lazy: likewise
        from mcp_core.http.routing_headers import NAME_PARAMS  # lazy: likewise
        from mcp_core.trio.http_client.pool import HttpPool  # lazy: likewise

        if not _eras:
            _eras.append(EraCache())
        connect = None if authorizing.recorder is None else authorizing.recorder.connect
        pool = HttpPool(
            tls=http.tls,
            proxies=http.proxies,
            limits=options.limits,
            connect_seconds=deadlines.connect,
            connect=connect,
        )
        own = {} if options.extensions is None else options.extensions.methods
        names = {
            definition.name: definition.name_param for definition in own.values() if definition.name_param is not None
        }
        wire = Wire(url, pool, options.limits, source, observer)
        authorizing.begin(wire, nursery, tuple(revisions), http)
        return HttpTransport(wire, pool, _eras[0], http.on_session_lost, {**NAME_PARAMS, **names})

    shared = options.cache if isinstance(options.cache, ResponseCache) else None
    caching = (
        Caching(shared, server=url, headers=source.current, identity=authorizing.identity) if options.cache else None
    )
    return Connector(
        start, connection, handlers, deadlines, options.validate_output, middleware=middleware, caching=caching
    )


class _Authorizing:
    """The authorization of one connection, which begins when the transport is created."""

    def __init__(self, auth: Authorization | None, source: HeaderSource) -> None:
        self.recorder: AddressRecorder | None = None
        """Opens TCP connections and records their addresses; `None` without authorization."""
        if auth is not None:
            from mcp_client.transports.http.authorized_request import check_no_credentials  # lazy: likewise
            from mcp_core.trio.http_client.addresses import AddressRecorder  # lazy: only here

            check_no_credentials(source.fixed)
            self.recorder = AddressRecorder()
        self._auth: Final = auth
        self._authorizer: Authorizer | None = None

    def begin(
        self,
        wire: Wire,
        nursery: trio.Nursery,
        revisions: tuple[Revision, ...],
        http: HttpOptions,
    ) -> None:
        """Add credentials to the requests of a connection."""
        from mcp_client.transports.http.authorizer import ApplicationAuthorizer, ConnectionTarget  # lazy: only here

        if self._auth is not None and self.recorder is not None:
            target = ConnectionTarget(
                url=wire.url,
                nursery=nursery,
                waiting=wire.waiting,
                revisions=revisions,
                tls=http.tls,
                proxies=http.proxies,
                limits=wire.limits,
                addresses=self.recorder.addresses,
            )
            self._authorizer = wire.authorizer = ApplicationAuthorizer.of(self._auth.authorizer(target))

    async def identity(self) -> str | None:
        """Return the identity of the user, for the keys of the response cache."""
        return None if self._authorizer is None else await self._authorizer.identity()
