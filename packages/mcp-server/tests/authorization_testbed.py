"""An authorization server on a real socket with a settable clock, its clients, and a user who consents to each request."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs
import httpcore2
import trio
from joserfc.jwk import ECKey
from joserfc.jws import JWSRegistry

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits.rates import Rate
from mcp_core.oauth.dpop import Dpop
from mcp_core.oauth.jws import public_jwk
from mcp_core.oauth.pkce import challenge_of
from mcp_server.asgi import Application
from mcp_server.auth.authorization_server import (
    AuthorizationServer,
    Client,
    Lifetimes,
    MemoryStore,
    RegistrationPolicy,
    SqliteStore,
)
from mcp_server.host.embedded import HttpHost
from mcp_server.host.listeners import listen

START: Final = 1_800_000_000.0
RESOURCE: Final = "https://mcp.example/mcp"
OTHER: Final = "https://other.example/mcp"
SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change your notes"}
LOOPBACK: Final = "http://127.0.0.1/callback"
WEB: Final = "https://app.example/callback"
VERIFIER: Final = "v" * 43
SECRET: Final = "a secret that is hard to guess"


class NoUsers:
    """A user directory without users."""

    async def verify(self, name: str, password: str) -> str | None:
        return None


class Key:
    """A private key of a client."""

    def __init__(self) -> None:
        self._key: Final = ECKey.generate_key("P-256", auto_kid=True)

    @property
    def algorithm(self) -> str:
        return "ES256"

    @property
    def jwk(self) -> Mapping[str, JsonValue]:
        return {**public_jwk(cast("JsonObject", self._key.as_dict(private=False))), "kid": self._key.kid}

    @property
    def jwks(self) -> JsonObject:
        return {"keys": [dict(self.jwk)]}

    def sign(self, data: bytes) -> bytes:
        return JWSRegistry.algorithms["ES256"].sign(data, self._key)

    def dpop(self) -> Dpop:
        return Dpop(self, secrets.token_bytes)


@attrs.define
class Clock:
    """A clock that only tests advance."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@attrs.frozen(kw_only=True)
class Reply:
    """An HTTP response."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for given, value in self.headers if given.lower() == name.lower()), None)

    @property
    def json(self) -> JsonObject:
        value: JsonValue = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    def text(self, name: str) -> str:
        value = self.json[name]
        assert isinstance(value, str)
        return value

    @property
    def error(self) -> str:
        return self.text("error")

    @property
    def location(self) -> str:
        return self.header("location") or ""

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the redirect, each of which must occur once."""
        return query_of(self.location)


def query_of(url: str) -> dict[str, str]:
    found = parse_qs(urlsplit(url).query, keep_blank_values=True, strict_parsing=True)
    assert all(len(values) == 1 for values in found.values()), url
    return {name: values[0] for name, values in found.items()}


CLIENTS: Final = (
    Client.configured("app", name="The app", redirect_uris=[WEB]),
    Client.configured("local", redirect_uris=[LOOPBACK]),
    Client.configured("secret", redirect_uris=[WEB], secret=SECRET),
    Client.configured("worker", secret=SECRET, scopes=["notes:read"]),
    Client.configured("bound", redirect_uris=[WEB], bound=True),
    Client.configured("server", secret=SECRET, introspects=[RESOURCE], grant_types=[]),
)


class AuthorizationTestbed:
    """The authorization server, and the requests that its clients send."""

    def __init__(self, server: AuthorizationServer, clock: Clock, pool: httpcore2.AsyncConnectionPool) -> None:
        self.server: Final = server
        self.clock: Final = clock
        self._pool: Final = pool
        self.url: Final = server.issuer

    async def request(
        self, method: str, path: str, *, headers: Iterable[tuple[str, str]] = (), body: bytes | str | None = None
    ) -> Reply:
        url = urlsplit(self.url)
        data = body.encode() if isinstance(body, str) else body
        answer = await self._pool.request(
            method, f"{url.scheme}://{url.netloc}{path}", headers=list(headers), content=data
        )
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers]
        return Reply(status=answer.status, headers=pairs, body=answer.content)

    async def get(self, path: str, **parameters: str | None) -> Reply:
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        return await self.request("GET", f"{path}?{query}" if query else path)

    async def post(
        self,
        path: str,
        form: Mapping[str, str | None] | Sequence[tuple[str, str]],
        *,
        headers: Iterable[tuple[str, str]] = (),
    ) -> Reply:
        pairs = form.items() if isinstance(form, Mapping) else form
        body = urlencode([(name, value) for name, value in pairs if value is not None])
        kind = ("Content-Type", "application/x-www-form-urlencoded")
        return await self.request("POST", f"{self.server.prefix}{path}", headers=[kind, *headers], body=body)

    # --- steps of a flow ---------------------------------------------------------------------------------------------

    async def register(self, document: JsonObject, *, headers: Iterable[tuple[str, str]] = ()) -> Reply:
        kind = ("Content-Type", "application/json")
        return await self.request(
            "POST", f"{self.server.prefix}/register", headers=[kind, *headers], body=json.dumps(document)
        )

    async def authorize(self, **changes: str | None) -> Reply:
        parameters: dict[str, str | None] = {
            "response_type": "code",
            "client_id": "app",
            "redirect_uri": WEB,
            "scope": "notes:read notes:write",
            "state": "s1",
            "resource": RESOURCE,
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
        }
        return await self.get(f"{self.server.prefix}/authorize", **(parameters | changes))

    async def pending(self, **changes: str | None) -> str:
        """Send a valid authorization request and return its id."""
        reply = await self.authorize(**changes)
        assert reply.status == 303, reply
        path, _, id = reply.location.rpartition("/")
        assert path == f"{self.server.prefix}/interaction", reply.location
        return id

    async def agree(self, id: str, scopes: Iterable[str] = tuple(SCOPES)) -> dict[str, str]:
        """Consent as the user, and return the parameters of the redirect to the client."""
        url = await self.server.interactions.grant(id, subject="ada", scopes=scopes, auth_time=self.clock() - 5)
        assert url is not None
        return query_of(url)

    async def code(self, *, scopes: Iterable[str] = tuple(SCOPES), **changes: str | None) -> str:
        return (await self.agree(await self.pending(**changes), scopes))["code"]

    async def redeem(
        self,
        code: str,
        given: Mapping[str, str] | None = None,
        *,
        headers: Iterable[tuple[str, str]] = (),
        **changes: str | None,
    ) -> Reply:
        form: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": WEB,
            "client_id": "app",
            "code_verifier": VERIFIER,
            "resource": RESOURCE,
        }
        return await self.post("/token", form | dict(given or {}) | changes, headers=headers)

    async def tokens(self, **changes: str | None) -> Reply:
        """Complete a flow and return its token response."""
        reply = await self.redeem((await self.agree(await self.pending(**changes)))["code"])
        assert reply.status == 200, reply
        return reply

    async def refresh(
        self,
        token: str,
        given: Mapping[str, str] | None = None,
        *,
        headers: Iterable[tuple[str, str]] = (),
        **changes: str | None,
    ) -> Reply:
        form: dict[str, str | None] = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "app"}
        return await self.post("/token", form | dict(given or {}) | changes, headers=headers)

    async def introspect(self, token: str) -> JsonObject:
        form = {"token": token, "client_id": "server", "client_secret": SECRET}
        reply = await self.post("/introspect", form)
        assert reply.status == 200, reply
        return reply.json

    async def is_active(self, token: str) -> bool:
        return (await self.introspect(token))["active"] is True


@asynccontextmanager
async def open_testbed(
    *,
    path: str = "",
    resources: Sequence[str] = (RESOURCE,),
    scopes: Mapping[str, str] = SCOPES,
    clients: Iterable[Client] = CLIENTS,
    policy: RegistrationPolicy | None = None,
    store: SqliteStore | None = None,
    lifetimes: Lifetimes | None = None,
    rate: Rate | None = None,
    dpop_nonces: bytes | None = None,
) -> AsyncIterator[AuthorizationTestbed]:
    """Serve an authorization server while the block runs."""
    clock = Clock()
    listeners = await listen("127.0.0.1:0")
    port = listeners[0].socket.getsockname()[1]
    kept = store or MemoryStore()
    server = AuthorizationServer(
        f"http://127.0.0.1:{port}{path}",
        users=NoUsers(),
        resources=resources,
        scopes=scopes,
        clients=clients,
        policy=policy,
        store=kept,
        lifetimes=lifetimes,
        rate=rate or Rate(100_000),
        dpop_nonces=dpop_nonces,
        clock=clock,
    )
    host = HttpHost(cast("Application", server.app))  # `QuartTrio` has narrower types of events
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(host.run, listeners)
            async with httpcore2.AsyncConnectionPool() as pool:
                yield AuthorizationTestbed(server, clock, pool)
            host.stop()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await kept.aclose()
