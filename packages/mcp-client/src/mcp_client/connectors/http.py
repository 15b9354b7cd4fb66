"""The way in over HTTP: `open_http`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_client.connection.request_headers import HeaderSource
from mcp_client.connection.response_cache import Caching, ResponseCache
from mcp_client.connectors.stdio import DEFAULT_INFO, NO_HANDLERS, Opening, connection_of
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    import trio

    from mcp_client.connection.request_headers import HeadersGiven
    from mcp_client.connection.transport import Transport
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.output_schema import OutputPolicy
    from mcp_client.handlers import Handlers
    from mcp_client.http_client.addresses import AddressRecorder
    from mcp_client.http_client.tls import Tls
    from mcp_client.transports.http.authorizer import Authorization, Authorizer
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_core.engine.connection import Extensions
    from mcp_core.engine.events import ServerPeer
    from mcp_core.http.fallback import EraCache
    from mcp_core.limits import Limits
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Era, Revision
    from mcp_core.types import Implementation, LoggingLevel

__all__ = ["open_http"]

_eras: list[EraCache] = []
"""What this process knows of servers: which era and transport, by URL. No secret is in it, and nobody's data: so all
connections of the process share it. Made when it is needed."""


def open_http(
    url: str,
    *,
    headers: HeadersGiven | None = None,
    tls: ssl.SSLContext | Tls | None = None,
    proxies: Mapping[str, str] | Literal[False] | None = None,
    auth: Authorization | None = None,
    server: ServerPeer | None = None,
    on_session_lost: Callable[[], None] | None = None,
    handlers: Handlers = NO_HANDLERS,
    info: Implementation = DEFAULT_INFO,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    deadlines: Deadlines = DEFAULT_DEADLINES,
    limits: Limits = CLIENT_LIMITS,
    log_level: LoggingLevel | None = None,
    validate_output: OutputPolicy = "warn",
    extensions: Extensions | None = None,
    middleware: Sequence[Middleware] = (),
    cache: ResponseCache | bool = True,
) -> Opening:
    """Talks to a server over HTTP: Streamable HTTP in either era, or HTTP+SSE of 2024-11-05.

        async with open_http("https://example.com/mcp", headers={"Authorization": "Bearer ..."}) as client:
            result = await client.call_tool("forecast", {"city": "Ghent"})

    Which of them the server speaks is found out, and remembered by this process for that URL. A modern server costs one
    round trip before the first call, and no task in the background.

    Connections are kept, and used by this client alone. What belongs to one user belongs into one client, or into
    `Client.with_headers`.

    Spec: basic/transports (legacy), basic/transports/streamable-http (2026-07-28)

    Args:
        url: The endpoint, with `http` or `https`. It is used as it is for every message, path and query included.
        headers: Headers for every request, or a function, plain or asynchronous, that is asked for them each time.
        tls: Whom to trust, and who we are. `None`: whom the system trusts, and nobody.
        proxies: From `http`, `https`, `all` to the URLs of proxies, and `no` for what goes directly. `None`: as the
            environment says (`HTTPS_PROXY` and its like). `False`: none.
        auth: What gets credentials when the server wants them: `mcp_client.auth.OAuth`. While a person logs in, the
            deadlines of the connection stand still, all but the total ones.
        server: What `Client.server` of another connection to this server says. A modern server is then not even asked
            who it is.
        on_session_lost: Is called when a legacy server lost the session and a new one was made. What the server knew of
            the old one is gone; subscriptions and the log level are made again by the client.
        handlers: What the server may ask of us.
        info: Who we are.
        revisions: The revisions that may be spoken; give one to pin it.
        deadlines: How long to wait for what.
        limits: The bounds that hold here.
        log_level: The least level of log messages that is wanted. A legacy server is told when the session is open, a
            modern one with each request; without it they send what they like, or nothing.
        validate_output: Whether a tool's structured result that breaks its output schema is raised, warned of in the
            log, or not checked. Only tools that `list_tools` brought are checked. What cannot be validated, since the
            schema is in an unknown dialect or refers elsewhere, is raised and warned of as well.
        extensions: Methods and notifications beyond the specification.
        middleware: What stands around every message; the first is the outermost.
        cache: Whether a result is used again for as long as the server says that it may be (2026-07-28), by whoever has
            the same headers; or what keeps those that anybody may see, for several clients. `Client.fresh` asks all the
            same.

    Returns:
        An asynchronous context manager that gives the `Client`.

    *Closing*: requests that wait end with `ConnectionEnded`; a session is ended by DELETE, for 2 seconds at most.

    Raises:
        LocalProtocolError: The URL or a header cannot be used; or `server` is a legacy one, whose session is not ours; or
            there are both `auth` and a header with credentials.
        AccessDenied: On entering: the server wants other credentials, and there is no `auth`, or it is of no use.
        AuthorizationError: On entering: `auth` could not get them.
        HttpFailure: On entering: what answers is no server of the protocol; the message says what came instead.
        NegotiationFailed: On entering: no revision in common.
        ConnectionEnded: On entering: it cannot be reached, or went away.
        RequestTimeout: On entering: the connect deadline passed.
    """
    from mcp_client.http_client.url import parse_url  # lazy: urllib takes a while, and a client of a process needs none

    parse_url(url)
    source = HeaderSource(headers)
    if auth is not None and auth.extensions:
        declared = {**{name: {} for name in auth.extensions}, **(handlers.extensions or {})}
        handlers = attrs.evolve(handlers, extensions=declared)
    connection = connection_of(info, handlers, revisions, log_level=log_level, limits=limits, extensions=extensions)
    if server is not None:
        connection.adopt(server)

    authorizing = _Authorizing(auth, source)

    async def start(nursery: trio.Nursery, _era: Era | None) -> Transport:
        from mcp_client.http_client.pool import HttpPool  # lazy: likewise
        from mcp_client.transports.http.message_exchanger import Wire  # lazy: likewise
        from mcp_client.transports.http.transport import (
            HttpTransport,  # lazy: most clients start a process and need no HTTP
        )
        from mcp_core.http.fallback import EraCache  # lazy: likewise
        from mcp_core.http.routing_headers import NAME_PARAMS  # lazy: likewise

        if not _eras:
            _eras.append(EraCache())
        connect = None if authorizing.recorder is None else authorizing.recorder.connect
        pool = HttpPool(tls=tls, proxies=proxies, limits=limits, connect_seconds=deadlines.connect, connect=connect)
        own = {} if extensions is None else extensions.methods
        names = {row.name: row.name_param for row in own.values() if row.name_param is not None}
        wire = Wire(url, pool, limits, source)
        authorizing.begin(wire, nursery, tuple(revisions), tls, proxies)
        return HttpTransport(wire, pool, _eras[0], on_session_lost, {**NAME_PARAMS, **names})

    shared = cache if isinstance(cache, ResponseCache) else None
    caching = Caching(shared, server=url, headers=source.current, identity=authorizing.identity) if cache else None
    return Opening(start, connection, handlers, deadlines, validate_output, middleware=middleware, caching=caching)


class _Authorizing:
    """Who asks, once the connection is being made."""

    def __init__(self, auth: Authorization | None, source: HeaderSource) -> None:
        self.recorder: AddressRecorder | None = None
        """Opens the connections to the server; `None` where their addresses are not needed."""
        if auth is not None:
            from mcp_client.http_client.addresses import AddressRecorder  # lazy: only here
            from mcp_client.transports.http.authorized_request import check_no_credentials  # lazy: likewise

            check_no_credentials(source.fixed)
            self.recorder = AddressRecorder()
        self._auth: Final = auth
        self._authorizer: Authorizer | None = None

    def begin(
        self,
        wire: Wire,
        nursery: trio.Nursery,
        revisions: tuple[Revision, ...],
        tls: ssl.SSLContext | Tls | None,
        proxies: Mapping[str, str] | Literal[False] | None,
    ) -> None:
        """Gives the requests of a connection their credentials."""
        from mcp_client.transports.http.authorizer import Site  # lazy: only here

        if self._auth is not None and self.recorder is not None:
            site = Site(
                url=wire.url,
                nursery=nursery,
                waiting=wire.waiting,
                revisions=revisions,
                tls=tls,
                proxies=proxies,
                limits=wire.limits,
                addresses=self.recorder.addresses,
            )
            self._authorizer = wire.authorizer = self._auth.authorizer(site)

    async def identity(self) -> str | None:
        """Who asks, for what is kept."""
        return None if self._authorizer is None else await self._authorizer.identity()
