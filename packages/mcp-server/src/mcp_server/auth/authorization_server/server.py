"""The authorization server, as whoever runs one sees it."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.errors import UnsafeUrl
from mcp_core.limits.rates import Rate
from mcp_core.oauth.dpop_verification import Nonces, ProofCheck
from mcp_core.oauth.urls import parse_url
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
from mcp_server.host.embedded import Host
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
    """Issues access tokens to clients, in the name of people who log in and agree.

    It is for development, tests and small deployments: an ASGI application with its pages, and one SQLite file.

    Args:
        issuer: Its URL, as clients know it: https, or http on this machine. With a path, all of it is below that path.
        users: Who can log in, or a `Delegation` to another authorization server.
        resources: The MCP servers that tokens are issued for, by the URLs of their endpoints.
        scopes: What may be granted, each with a few words for people.
        clients: Those that are known from the start, see `Client.configured`.
        policy: Who may become a client beside them.
        store: Where everything is kept; in memory, when left out. It is not closed here.
        lifetimes: How long things are good for.
        rate: Requests of one address, to the authorization endpoint and those of clients. Behind a proxy all clients have its
            address, unless the host is told otherwise.
        dpop_nonces: The key by which nonces are made: 32 secret bytes, the same in all processes. With it each DPoP proof
            needs a nonce.
        clock: The time, in seconds since the epoch.

    Raises:
        ValueError: An argument cannot be used.
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
        """Its identifier, octet by octet."""
        self.prefix: Final = self._settings.prefix
        """The path that all of its own begin with: that of the issuer, without a slash at the end."""
        self.secure: Final = parse_url(issuer, what="issuer").scheme == "https"
        """Whether it is reached by https."""
        self.resources: Final = self._settings.resources
        """The MCP servers that tokens are issued for."""
        self.scopes: Final = self._settings.scopes
        """The scopes, with words for people."""
        self.users: Final = users
        """Who can log in, or where."""
        self.store: Final[SqliteStore] = store or MemoryStore()
        """What it remembers."""
        self.clock: Final = clock
        """Seconds since the epoch."""
        self._requests: Final = Requests(self._settings, self.store)
        self.interactions: Final[Interactions] = self._requests
        """The requests that wait for people."""
        self.tokens: Final[TokenVerifier] = OwnTokens(self._settings, self.store)
        """Finds out what an access token of this server is: for a `ResourceServer` in the same process. What was revoked is
        seen at once."""
        nonces = None if dpop_nonces is None else Nonces(dpop_nonces)
        self.app: Final[QuartTrio] = make_app(self, self._endpoints(policy or RegistrationPolicy(), rate, nonces))
        """The ASGI application."""

    def _endpoints(self, policy: RegistrationPolicy, rate: Rate, nonces: Nonces | None) -> Endpoints:
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
        """Whether a path is one of this server: for whoever puts it beside another application."""
        if path in metadata_paths(self.prefix):
            return True
        own = path.removeprefix(self.prefix) if path.startswith(f"{self.prefix}/") else ""
        return any(own == each or own.startswith(f"{each}/") for each in (*PATHS, *pages.PATHS))

    def beside(self, other: Application) -> Application:
        """One application of both: what is not for the authorization server is for the other one."""

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            mine = scope["type"] == "http" and self.takes(str(scope["path"]))
            app = cast("Application", self.app) if mine else other  # it says more of its events than we do
            await app(scope, receive, send)

        return both

    async def serve(
        self,
        bind: str | Sequence[trio.SocketListener],
        *,
        tls: ssl.SSLContext | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves it alone, until cancelled. Any other ASGI server on trio can run `app` as well.

        Args:
            bind: Where: `HOST:PORT`, or sockets that listen already. The issuer's URL has to lead there.
            tls: Makes it https by itself.
            task_status: Told when it can be reached.

        Raises:
            ValueError: `bind` is of another form.
            OSError: It cannot listen there; the error says why.

        *Closing.* Cancel it. Requests that run are broken off: each is one transaction, made or not.
        """
        listeners = await listen(bind) if isinstance(bind, str) else bind
        host = Host(cast("Application", self.app), tls=tls)  # it says more of its events than we do
        await host.run(listeners, task_status=task_status)


def _checked_issuer(issuer: str) -> str:
    try:
        url = parse_url(issuer, what="issuer")
    except UnsafeUrl as unsafe:
        raise ValueError(unsafe.message) from None
    if url.scheme != "https" and not url.is_loopback:
        raise ValueError(f"issuer {issuer!r} has to be https, which only this machine may do without")
    if url.query is not None or url.fragment is not None:
        raise ValueError(f"issuer {issuer!r} has a query or a fragment")
    return issuer


def _checked_resources(resources: Iterable[str]) -> tuple[str, ...]:
    if isinstance(resources, str):
        raise TypeError(f"resources has to be several, or one in a list: [{resources!r}]")
    checked = tuple(dict.fromkeys(resources))
    if not checked:
        raise ValueError("resources: name at least one server that tokens are issued for")
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
            raise ValueError(f"scope {scope!r} has a character that a scope cannot have")
    return dict(scopes)


def _by_id(clients: Iterable[Client]) -> dict[str, Client]:
    by_id: dict[str, Client] = {}
    for client in clients:
        if client.client_id in by_id:
            raise ValueError(f"there are two clients {client.client_id!r}")
        by_id[client.client_id] = client
    return by_id
