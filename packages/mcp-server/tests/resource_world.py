"""A protected endpoint, and access tokens that need no cryptography."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio
from controlled_server import ControlledServer

from mcp_core.oauth.access_token import AccessToken
from mcp_core.oauth.challenge import Challenge, read_challenges
from mcp_core.oauth.protected_resource import DpopUse
from mcp_server import Context, Server
from mcp_server.auth import InvalidToken, ResourceServer, Scopes, TokensUnavailable
from mcp_server.stores.sessions import SessionStore
from mcp_server.transports.http.endpoint import HttpEndpoint

ISSUER: Final = "https://as.example"
OTHER_ISSUER: Final = "https://other-as.example"
RESOURCE: Final = "http://127.0.0.1:8000/mcp"
METADATA: Final = "/.well-known/oauth-protected-resource/mcp"


def access(
    subject: str = "anna",
    *,
    issuer: str = ISSUER,
    client_id: str = "c1",
    scopes: str = "",
    expires_at: float | None = None,
    confirmation: str | None = None,
    audience: str = RESOURCE,
) -> AccessToken:
    return AccessToken(
        issuer=issuer,
        subject=subject,
        client_id=client_id,
        audience=(audience,),
        scopes=frozenset(scopes.split()),
        expires_at=expires_at,
        confirmation=confirmation,
    )


class Table:
    """A token verifier with a table of known tokens."""

    def __init__(self, **known: AccessToken) -> None:
        self.known = known
        self.verified: list[str] = []
        self.failure: Exception | None = None

    async def verify(self, token: str) -> AccessToken:
        self.verified.append(token)
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        if token not in self.known:
            raise InvalidToken("the signature of the access token is invalid")
        return self.known[token]

    def fail(self) -> None:
        self.failure = TokensUnavailable("the authorization server at 10.0.0.1 is down")


def guard(
    table: Table,
    *,
    scopes: Scopes | None = None,
    dpop: DpopUse = "off",
    clock: Callable[[], float] = trio.current_time,
) -> ResourceServer:
    return ResourceServer(
        RESOURCE,
        authorization_servers=[ISSUER, OTHER_ISSUER],
        tokens=table,
        scopes=scopes,
        dpop=dpop,
        clock=clock,
    )


def protected(
    table: Table, *, server: Server | None = None, scopes: Scopes | None = None, store: SessionStore | None = None
) -> HttpEndpoint:
    """Return an endpoint with all options on."""
    return (server or ControlledServer().server).asgi(
        auth=guard(table, scopes=scopes), store=store, legacy_sse=True, healthz="/healthz"
    )


def register_recorder(server: Server) -> list[tuple[object, frozenset[str], dict[str, str]]]:
    """Register a tool that records the principal, the scopes and the headers of its calls. Return the records."""
    calls: list[tuple[object, frozenset[str], dict[str, str]]] = []

    @server.tool
    async def record(context: Context) -> str:
        assert context.http is not None
        calls.append((context.principal, context.scopes, dict(context.http.headers)))
        return "recorded"

    return calls


def challenge_of(headers: dict[str, str]) -> Challenge:
    (challenge,) = read_challenges([headers["www-authenticate"]])
    return challenge
