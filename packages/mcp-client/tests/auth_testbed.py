"""A protected MCP server with its authorization server on one port, and a user agent that needs no browser."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs
import trio
import trio.testing
from fake_http_server import ReceivedRequest, Reply, Responder, Server, modern, serving

from mcp_client import Client, open_http
from mcp_client.auth import OAuth, Receiver
from mcp_client.auth.keys import PrivateKey
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.dpop import Dpop
from mcp_core.oauth.records import ClientRecord


@attrs.define
class IssuedToken:
    """An access token or a refresh token."""

    scopes: frozenset[str]
    expires_at: float
    client_id: str
    user: str
    family: int


@attrs.define
class AuthTestbed:
    """Both servers. A test changes their behavior by setting attributes, at any time."""

    inner: Responder = attrs.field(factory=modern)
    """The MCP server without its protection."""
    now: float = 1_800_000_000.0
    """The time of all clocks, in seconds since 1970."""
    lifetime: float | None = 3600.0
    """The lifetime of access tokens in seconds; None omits `expires_in`."""
    refreshes: bool = True
    """Whether the token endpoint issues refresh tokens."""
    registers: bool = True
    """Whether the metadata has a registration endpoint."""
    revokes: bool = True
    """Whether the metadata has a revocation endpoint."""
    default_scopes: str = "notes:read"
    """The scope of the first challenge."""
    required_scopes: dict[str, str] = attrs.field(factory=dict)
    """The scope that an operation requires."""
    grants: Callable[[str], str] = attrs.field(default=lambda scopes: scopes)
    """The granted scopes, given the requested ones."""
    issuer_path: str = ""
    """The path of the issuer; a new path makes the server name another authorization server."""
    protects: Callable[[ReceivedRequest], bool] = attrs.field(default=lambda request: True)
    """Whether a request needs a token."""
    accepts_new: bool = True
    """Whether the MCP server accepts the tokens of its authorization server."""
    token_status: int = 200
    """The status of the token endpoint."""
    nonce: str | None = None
    """The nonce that DPoP proofs must carry."""
    prefix: str = "t"
    """The prefix of access tokens."""
    user: str = "ada"
    """The user that logs in."""
    origin: str = ""
    url: str = ""
    requests: list[ReceivedRequest] = attrs.field(factory=list)
    tokens: dict[str, IssuedToken] = attrs.field(factory=dict)
    refresh_tokens: dict[str, IssuedToken] = attrs.field(factory=dict)
    used_refresh_tokens: set[str] = attrs.field(factory=set)
    codes: dict[str, dict[str, str]] = attrs.field(factory=dict)
    clients: list[str] = attrs.field(factory=list)
    revoked: list[str] = attrs.field(factory=list)
    grants_made: list[str] = attrs.field(factory=list)
    """The grant types at the token endpoint, in order."""
    authorized: list[dict[str, str]] = attrs.field(factory=list)
    """The parameters of each authorization request."""
    issued_count: int = 0
    token_blocker: trio.Event | None = None
    """Blocks the token endpoint until it is set."""

    @property
    def issuer(self) -> str:
        return f"{self.origin}{self.issuer_path}"

    def revoke(self) -> None:
        """Make all access tokens invalid; refresh tokens stay valid."""
        self.tokens.clear()

    def revoke_all(self) -> None:
        """Make all tokens invalid."""
        self.tokens.clear()
        self.refresh_tokens.clear()

    # --- the two servers -------------------------------------------------------------------------------------------

    async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
        self.requests.append(request)
        path = request.target.partition("?")[0]
        if "/.well-known/" in path:
            await self._document(path, reply)
        elif path.endswith("/authorize"):
            await reply.body(302, headers={"Location": self.authorize(f"{self.origin}{request.target}")})
        elif path.endswith("/register"):
            await self._register(request, reply)
        elif path.endswith("/token"):
            await self._token(request, reply)
        elif path.endswith("/revoke"):
            self.revoked.append(parse_qs(request.body.decode())["token"][0])
            await reply.body(self.token_status)
        else:
            await self._protected(request, reply)

    async def _document(self, path: str, reply: Reply) -> None:
        if path == "/.well-known/oauth-protected-resource/mcp":
            await reply.json({"resource": self.url, "authorization_servers": [self.issuer]})
        elif path == f"/.well-known/oauth-authorization-server{self.issuer_path}":
            metadata: JsonObject = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "dpop_signing_alg_values_supported": ["ES256"],
            }
            if self.revokes:
                metadata["revocation_endpoint"] = f"{self.issuer}/revoke"
            if self.registers:
                metadata["registration_endpoint"] = f"{self.issuer}/register"
            await reply.json(metadata)
        else:
            await reply.body(404)

    async def _register(self, request: ReceivedRequest, reply: Reply) -> None:
        self.clients.append(f"c{len(self.clients) + 1}")
        await reply.json({"client_id": self.clients[-1], "redirect_uris": request.message["redirect_uris"]}, 201)

    def authorize(self, url: str) -> str:
        """Return the redirect that answers an authorization request, as in the browser of a user who consents."""
        parameters = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.authorized.append(parameters)
        self.issued_count += 1
        code = f"code{self.issued_count}"
        self.codes[code] = {**parameters, "user": self.user}
        back = {"code": code, "state": parameters["state"], "iss": self.issuer}
        return f"{parameters['redirect_uri']}?{urlencode(back)}"

    async def _token(self, request: ReceivedRequest, reply: Reply) -> None:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.grants_made.append(form["grant_type"])
        if self.token_blocker is not None:
            await self.token_blocker.wait()
        if self.token_status != 200:
            await reply.json({"error": "temporarily_unavailable"}, self.token_status)
            return
        if self.nonce is not None and _claims(request).get("nonce") != self.nonce:
            await reply.json({"error": "use_dpop_nonce"}, 400, {"DPoP-Nonce": self.nonce})
            return
        issued = self._issue(form)
        if issued is None:
            await reply.json({"error": "invalid_grant"}, 400)
            return
        self.issued_count += 1
        token = f"{self.prefix}{self.issued_count}"
        self.tokens[token] = issued
        kind = "DPoP" if "dpop" in request.headers else "Bearer"
        answer: JsonObject = {"access_token": token, "token_type": kind, "scope": " ".join(sorted(issued.scopes))}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if self.refreshes and form["grant_type"] != "client_credentials":
            answer["refresh_token"] = f"r{self.issued_count}"
            self.refresh_tokens[f"r{self.issued_count}"] = issued
        await reply.json(answer)

    def _issue(self, form: dict[str, str]) -> IssuedToken | None:
        expires_at = self.now + (self.lifetime or 1e9)
        self.issued_count += 1
        if form["grant_type"] == "client_credentials":
            return IssuedToken(
                frozenset(form.get("scope", "").split()), expires_at, "machine", "machine", self.issued_count
            )
        if form["grant_type"] == "refresh_token":
            # Refresh tokens rotate, so a reused one is treated as stolen.
            assert form["refresh_token"] not in self.used_refresh_tokens, "a refresh token was used twice"
            before = self.refresh_tokens.pop(form["refresh_token"], None)
            if before is None:
                return None
            self.used_refresh_tokens.add(form["refresh_token"])
            return attrs.evolve(before, expires_at=expires_at)
        request = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == request["code_challenge"]
        assert form["redirect_uri"] == request["redirect_uri"]
        assert form["resource"] == request["resource"] == self.url
        scopes = frozenset(self.grants(request.get("scope", "")).split())
        return IssuedToken(scopes, expires_at, form["client_id"], request["user"], self.issued_count)

    async def _protected(self, request: ReceivedRequest, reply: Reply) -> None:
        if not self.protects(request):
            await self.inner(request, reply)
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        issued = self.tokens.get(token)
        metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        if self.nonce is not None and scheme == "DPoP" and _claims(request).get("nonce") != self.nonce:
            headers = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": self.nonce}
            await reply.body(401, b"nonce", "text/plain", headers)
        elif issued is None or issued.expires_at <= self.now or not self.accepts_new:
            error = "" if not token else ', error="invalid_token"'
            scope = f', scope="{self.default_scopes}"' if self.default_scopes else ""
            await reply.body(401, b"no", "text/plain", {"WWW-Authenticate": f"Bearer {metadata}{error}{scope}"})
        elif (lacking := self.required_scopes.get(_operation(request), "")) not in {*issued.scopes, ""}:
            challenge = f'Bearer {metadata}, error="insufficient_scope", scope="{lacking}"'
            await reply.body(403, b"more", "text/plain", {"WWW-Authenticate": challenge})
        else:
            await self.inner(request, reply)

    def mcp(self) -> list[ReceivedRequest]:
        """Return the requests to the MCP server."""
        return [
            request
            for request in self.requests
            if request.target.partition("?")[0] not in _OAUTH and "well-known" not in request.target
        ]


_OAUTH: Final = {"/authorize", "/revoke", "/register", "/token", "/two/register", "/two/token"}


def _operation(request: ReceivedRequest) -> str:
    if not request.body:
        return request.method
    name = request.message.get("params")
    return f"{request.rpc} {name['name']}" if isinstance(name, dict) and "name" in name else request.rpc


def _claims(request: ReceivedRequest) -> JsonObject:
    proof = request.headers.get("dpop", "")
    if not proof:
        return {}
    payload = proof.split(".")[1]
    claims: JsonObject = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


class FakeUserAgent:
    """A user agent that goes to the authorization server at once, or after `blocker`."""

    def __init__(self, testbed: AuthTestbed) -> None:
        self.testbed = testbed
        self.logins = 0
        """The number of logins."""
        self.login_started = trio.Event()
        """Set when the next login starts, and then replaced."""
        self.blocker: trio.Event | None = None
        """Delays the redirect until it is set."""
        self.failure: Exception | None = None
        """Raised instead of the redirect."""
        self.client: ClientRecord | None = None
        """The answer to a request for a client id."""
        self.ports: list[int | None] = []

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        self.ports.append(port)
        yield _Page(self, 49_152 if port is None else port)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        await trio.lowlevel.checkpoint()
        return self.client


class _Page:
    def __init__(self, user_agent: FakeUserAgent, port: int) -> None:
        self._user_agent: Final = user_agent
        self.redirect_uri: Final = f"http://127.0.0.1:{port}/callback"
        self._url = ""

    async def open(self, url: str) -> None:
        self._user_agent.logins += 1
        self._user_agent.login_started.set()
        self._user_agent.login_started = trio.Event()
        self._url = url
        await trio.lowlevel.checkpoint()

    async def redirected(self) -> str:
        if self._user_agent.blocker is not None:
            await self._user_agent.blocker.wait()
        if self._user_agent.failure is not None:
            raise self._user_agent.failure
        return self._user_agent.testbed.authorize(self._url)


@asynccontextmanager
async def protected(testbed: AuthTestbed, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve the MCP server and its authorization server."""
    async with serving(testbed.answer, tls=tls) as server:
        testbed.url = server.url
        testbed.origin = server.url.removesuffix("/mcp")
        yield server


def oauth(testbed: AuthTestbed, user_agent: FakeUserAgent | None = None, **more: object) -> OAuth:
    """Return the OAuth of a client that uses the testbed's clock."""
    auth = OAuth("Tester", user_agent=user_agent or FakeUserAgent(testbed), **more)  # type: ignore[arg-type]  # keywords of OAuth, of many types, passed on as each test gives them
    auth._clock = lambda: testbed.now
    return auth


async def call(client: Client, name: str = "echo") -> None:
    assert not (await client.call_tool(name)).is_error


def authorization_headers(testbed: AuthTestbed) -> list[str | None]:
    """Return the `Authorization` header of each request to the MCP server."""
    return [request.headers.get("authorization") for request in testbed.mcp()]


@asynccontextmanager
async def connected(testbed: AuthTestbed, auth: OAuth) -> AsyncIterator[tuple[Server, Client]]:
    async with protected(testbed) as server, open_http(server.url, auth=auth) as client:
        yield server, client


async def wait_for_logins(user_agent: FakeUserAgent, count: int) -> None:
    """Wait until there were `count` logins."""
    while user_agent.logins < count:
        await user_agent.login_started.wait()


def proof() -> Dpop:
    return Dpop(PrivateKey.generate("ES256"), secrets.token_bytes)
