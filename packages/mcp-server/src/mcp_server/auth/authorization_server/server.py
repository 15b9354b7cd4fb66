"""The authorization server: its public class."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.errors import UnsafeUrl
from mcp_core.limits.rates import Rate
from mcp_core.oauth.dpop_verification import NonceIssuer, ProofCheck
from mcp_core.oauth.urls import parse_url
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.auth.authorization_server.app import PATHS, make_app
from mcp_server.auth.authorization_server.clients.documents import Documents
from mcp_server.auth.authorization_server.clients.registration import RegistrationPolicy
from mcp_server.auth.authorization_server.model.settings import Lifetimes, Settings
from mcp_server.auth.authorization_server.model.store import MemoryStore
from mcp_server.auth.authorization_server.pages import routes as pages
from mcp_server.auth.authorization_server.protocol.authorization import Requests
from mcp_server.auth.authorization_server.protocol.endpoints import Endpoints
from mcp_server.auth.authorization_server.protocol.metadata import metadata_paths
from mcp_server.auth.authorization_server.protocol.token_verifier import OwnTokens
from mcp_server.auth.keys import JoseVerifier
from mcp_server.host.embedded import HttpHost
from mcp_server.host.listeners import listen

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quart_trio import QuartTrio

    from mcp_server.asgi import Application, Receive, Scope, Send
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.interaction import Interactions
    from mcp_server.auth.authorization_server.model.store import SqliteStore
    from mcp_server.auth.authorization_server.pages.delegation import Delegation
    from mcp_server.auth.authorization_server.pages.users import Users
    from mcp_server.auth.tokens import TokenVerifier

__all__ = ["AuthorizationServer"]

_RATE: Final = Rate(300)


class AuthorizationServer:
    """An authorization server, which issues access tokens to clients when users log in and consent.

    It is intended for development, tests and small deployments. It is an ASGI application with its own pages and one
    SQLite file.

    Args:
        issuer: The URL of the server, as clients know it: https, or http on this machine. If it has a path, all
            endpoints are below the path.
        users: The users who can log in, or a `Delegation` to another authorization server.
        resources: The MCP servers that tokens are issued for, by the URLs of their endpoints.
        scopes: The scopes that can be granted, each with a short description for users.
        clients: The configured clients, see `Client.configured`.
        policy: The policy for the registration of other clients.
        store: The store of all data. Default: a store in memory. The server does not close the store.
        lifetimes: The lifetimes of tokens, codes and clients.
        rate: Requests of one address to the authorization endpoint and to the endpoints for clients. Behind a proxy,
            all clients have the address of the proxy, unless the host is configured otherwise.
        dpop_nonces: The key of the nonces: 32 secret bytes, the same in all processes. If given, each DPoP proof needs
            a nonce.
        clock: A function that returns the time in seconds since the epoch.

    Raises:
        TypeError: `resources` is a string.
        ValueError: An argument is invalid.
    """

    def __init__(
        self,
        issuer: str,
        *,
        users: Users | Delegation,
        resources: Iterable[str],
        scopes: Mapping[str, str] | None = None,
        clients: Iterable[Client] = (),
        policy: RegistrationPolicy | None = None,
        store: SqliteStore | None = None,
        lifetimes: Lifetimes | None = None,
        rate: Rate = _RATE,
        dpop_nonces: bytes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings: Final = Settings(
            issuer=_checked_issuer(issuer),
            resources=_checked_resources(resources),
            scopes=_checked_scopes(scopes or {}),
            lifetimes=lifetimes or Lifetimes(),
            clients=_by_id(clients),
            random_bytes=secrets.token_bytes,
            clock=clock,
        )
        self.issuer: Final = issuer
        """The issuer identifier, exactly as configured."""
        self.prefix: Final = self._settings.prefix
        """The start of all paths of the server: the path of the issuer, without a slash at the end."""
        self.secure: Final = parse_url(issuer, what="issuer").scheme == "https"
        """Whether the issuer is an https URL."""
        self.resources: Final = self._settings.resources
        """The MCP servers that tokens are issued for."""
        self.scopes: Final = self._settings.scopes
        """The scopes, with their descriptions for users."""
        self.users: Final = users
        """The users who can log in, or the delegation to another authorization server."""
        self.store: Final[SqliteStore] = store or MemoryStore()
        """The store of all data."""
        self.clock: Final = clock
        """A function that returns the time in seconds since the epoch."""
        self._requests: Final = Requests(self._settings, self.store)
        self.interactions: Final[Interactions] = self._requests
        """The authorization requests that wait for a decision of a user."""
        self.tokens: Final[TokenVerifier] = OwnTokens(self._settings, self.store)
        """The verifier of this server's access tokens, for a `ResourceServer` in the same process. It detects a revoked
        token at once."""
        nonces = None if dpop_nonces is None else NonceIssuer(dpop_nonces)
        self.app: Final[QuartTrio] = make_app(self, self._endpoints(policy or RegistrationPolicy(), rate, nonces))
        """The ASGI application."""

    def _endpoints(self, policy: RegistrationPolicy, rate: Rate, nonces: NonceIssuer | None) -> Endpoints:
        return Endpoints(
            self._settings,
            self.store,
            policy=policy,
            documents=Documents(self._settings, self.store, policy),
            requests=self._requests,
            proofs=ProofCheck(JoseVerifier(), nonces=nonces),
            rate=rate,
        )

    def __repr__(self) -> str:
        return f"<AuthorizationServer {self.issuer}>"

    def takes(self, path: str) -> bool:
        """Return whether a path belongs to this server, for an application that combines it with another one."""
        if path in metadata_paths(self.prefix):
            return True
        own = path.removeprefix(self.prefix) if path.startswith(f"{self.prefix}/") else ""
        return any(own == each or own.startswith(f"{each}/") for each in (*PATHS, *pages.PATHS))

    def combine(self, other: Application) -> Application:
        """Return an application that combines the authorization server with another application.

        Requests for paths that do not belong to the authorization server go to the other application.
        """

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            mine = scope["type"] == "http" and self.takes(str(scope["path"]))
            app = cast("Application", self.app) if mine else other  # its event types are more specific
            await app(scope, receive, send)

        return both

    @allow_asyncio
    async def serve(
        self,
        bind: str | Sequence[trio.SocketListener],
        *,
        tls: ssl.SSLContext | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the authorization server alone, until cancelled. Any other ASGI server on trio can run `app` too.

        Cancellation aborts running requests. Each of them is one transaction, which has its entire effect or none.

        Args:
            bind: `HOST:PORT`, or sockets that already listen. The URL of the issuer must lead there.
            tls: The TLS context, to serve https without a proxy.
            task_status: Reports when the server accepts connections.

        Raises:
            ValueError: `bind` is not in the form `HOST:PORT`.
            OSError: The server cannot listen at this address. The error states the cause.
        """
        listeners = await listen(bind) if isinstance(bind, str) else bind
        host = HttpHost(cast("Application", self.app), tls=tls)  # its event types are more specific
        await host.run(listeners, task_status=task_status)


def _checked_issuer(issuer: str) -> str:
    try:
        url = parse_url(issuer, what="issuer")
    except UnsafeUrl as unsafe:
        raise ValueError(unsafe.message) from None
    if url.scheme != "https" and not url.is_loopback:
        raise ValueError(f"issuer {issuer!r} must be an https URL; http is allowed only on this machine")
    if url.query is not None or url.fragment is not None:
        raise ValueError(f"issuer {issuer!r} has a query or a fragment")
    return issuer


def _checked_resources(resources: Iterable[str]) -> tuple[str, ...]:
    if isinstance(resources, str):
        raise TypeError(f"resources must be a list, not a string: [{resources!r}]")
    checked = tuple(dict.fromkeys(resources))
    if not checked:
        raise ValueError("resources is empty: name at least one server that tokens are issued for")
    for resource in checked:
        try:
            fragment = parse_url(resource, what="resource").fragment
        except UnsafeUrl as unsafe:
            raise ValueError(unsafe.message) from None
        if fragment is not None:
            raise ValueError(f"resource {resource!r} has a fragment")
    return checked


def _checked_scopes(scopes: Mapping[str, str]) -> dict[str, str]:
    for scope in scopes:
        # Spec: RFC 6749 section 3.3
        if not scope or not all(each == "!" or "#" <= each <= "[" or "]" <= each <= "~" for each in scope):
            raise ValueError(f"scope {scope!r} is empty or has a character that RFC 6749 does not allow in a scope")
    return dict(scopes)


def _by_id(clients: Iterable[Client]) -> dict[str, Client]:
    by_id: dict[str, Client] = {}
    for client in clients:
        if client.client_id in by_id:
            raise ValueError(f"two clients have the client_id {client.client_id!r}")
        by_id[client.client_id] = client
    return by_id
