"""A protected MCP server and its authorization server on one port, and a person who logs in without a browser."""

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
from zoo import Answer, Asked, Reply, Server, modern, serving

from mcp_client import Client, open_http
from mcp_client.auth import OAuth, Receiver
from mcp_client.auth.keys import PrivateKey
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.dpop import Dpop
from mcp_core.oauth.records import ClientRecord


@attrs.define
class Issued:
    """One access token."""

    scopes: frozenset[str]
    ends: float
    client_id: str
    user: str
    family: int


@attrs.define
class World:
    """Both servers. What it does can be changed at any time."""

    inner: Answer = attrs.field(factory=modern)
    """The MCP server behind the protection."""
    now: float = 1_800_000_000.0
    """What all clocks say."""
    lifetime: float | None = 3600.0
    """Of access tokens."""
    refreshes: bool = True
    """Whether there are refresh tokens."""
    registers: bool = True
    """Whether there is dynamic registration."""
    revokes: bool = True
    """Whether tokens can be revoked."""
    default_scopes: str = "notes:read"
    """What the first challenge asks for."""
    needed: dict[str, str] = attrs.field(factory=dict)
    """By operation, the scope that it needs."""
    grants: Callable[[str], str] = attrs.field(default=lambda asked: asked)
    """The scopes that are granted, from those that are asked for."""
    issuer_path: str = ""
    """Of the authorization server; when it changes, the server has moved to another one."""
    protects: Callable[[Asked], bool] = attrs.field(default=lambda asked: True)
    """Which requests need a token."""
    accepts_new: bool = True
    """Whether the MCP server takes what its authorization server gives."""
    token_status: int = 200
    """What the token endpoint answers with."""
    nonce: str | None = None
    """The nonce that proofs need."""
    prefix: str = "t"
    """Of access tokens."""
    user: str = "ada"
    """Who logs in."""
    origin: str = ""
    url: str = ""
    asked: list[Asked] = attrs.field(factory=list)
    tokens: dict[str, Issued] = attrs.field(factory=dict)
    refresh_tokens: dict[str, Issued] = attrs.field(factory=dict)
    used: set[str] = attrs.field(factory=set)
    codes: dict[str, dict[str, str]] = attrs.field(factory=dict)
    clients: list[str] = attrs.field(factory=list)
    revoked: list[str] = attrs.field(factory=list)
    grants_made: list[str] = attrs.field(factory=list)
    """What the token endpoint was asked for, in order."""
    authorized: list[dict[str, str]] = attrs.field(factory=list)
    """The parameters of each authorization request."""
    count: int = 0
    gate: trio.Event | None = None
    """What the token endpoint waits for."""

    @property
    def issuer(self) -> str:
        return f"{self.origin}{self.issuer_path}"

    def revoke(self) -> None:
        """All access tokens are void; refresh tokens are not."""
        self.tokens.clear()

    def forget(self) -> None:
        """All tokens are void."""
        self.tokens.clear()
        self.refresh_tokens.clear()

    # --- the two servers -------------------------------------------------------------------------------------------

    async def answer(self, asked: Asked, reply: Reply) -> None:
        self.asked.append(asked)
        path = asked.target.partition("?")[0]
        if "/.well-known/" in path:
            await self._document(path, reply)
        elif path.endswith("/authorize"):
            await reply.body(302, headers={"Location": self.authorize(f"{self.origin}{asked.target}")})
        elif path.endswith("/register"):
            await self._register(asked, reply)
        elif path.endswith("/token"):
            await self._token(asked, reply)
        elif path.endswith("/revoke"):
            self.revoked.append(parse_qs(asked.body.decode())["token"][0])
            await reply.body(self.token_status)
        else:
            await self._protected(asked, reply)

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

    async def _register(self, asked: Asked, reply: Reply) -> None:
        self.clients.append(f"c{len(self.clients) + 1}")
        await reply.json({"client_id": self.clients[-1], "redirect_uris": asked.message["redirect_uris"]}, 201)

    def authorize(self, url: str) -> str:
        """What the person's browser does with the URL: it comes back with this one."""
        parameters = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.authorized.append(parameters)
        self.count += 1
        code = f"code{self.count}"
        self.codes[code] = {**parameters, "user": self.user}
        back = {"code": code, "state": parameters["state"], "iss": self.issuer}
        return f"{parameters['redirect_uri']}?{urlencode(back)}"

    async def _token(self, asked: Asked, reply: Reply) -> None:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        self.grants_made.append(form["grant_type"])
        if self.gate is not None:
            await self.gate.wait()
        if self.token_status != 200:
            await reply.json({"error": "temporarily_unavailable"}, self.token_status)
            return
        if self.nonce is not None and _claims(asked).get("nonce") != self.nonce:
            await reply.json({"error": "use_dpop_nonce"}, 400, {"DPoP-Nonce": self.nonce})
            return
        issued = self._issue(form)
        if issued is None:
            await reply.json({"error": "invalid_grant"}, 400)
            return
        self.count += 1
        token = f"{self.prefix}{self.count}"
        self.tokens[token] = issued
        kind = "DPoP" if "dpop" in asked.headers else "Bearer"
        answer: JsonObject = {"access_token": token, "token_type": kind, "scope": " ".join(sorted(issued.scopes))}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if self.refreshes and form["grant_type"] != "client_credentials":
            answer["refresh_token"] = f"r{self.count}"
            self.refresh_tokens[f"r{self.count}"] = issued
        await reply.json(answer)

    def _issue(self, form: dict[str, str]) -> Issued | None:
        ends = self.now + (self.lifetime or 1e9)
        self.count += 1
        if form["grant_type"] == "client_credentials":
            return Issued(frozenset(form.get("scope", "").split()), ends, "machine", "machine", self.count)
        if form["grant_type"] == "refresh_token":
            # Rotated: one that comes again is a theft.
            assert form["refresh_token"] not in self.used, "a refresh token was used twice"
            before = self.refresh_tokens.pop(form["refresh_token"], None)
            if before is None:
                return None
            self.used.add(form["refresh_token"])
            return attrs.evolve(before, ends=ends)
        request = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == request["code_challenge"]
        assert form["redirect_uri"] == request["redirect_uri"]
        assert form["resource"] == request["resource"] == self.url
        scopes = frozenset(self.grants(request.get("scope", "")).split())
        return Issued(scopes, ends, form["client_id"], request["user"], self.count)

    async def _protected(self, asked: Asked, reply: Reply) -> None:
        if not self.protects(asked):
            await self.inner(asked, reply)
            return
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        issued = self.tokens.get(token)
        metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        if self.nonce is not None and scheme == "DPoP" and _claims(asked).get("nonce") != self.nonce:
            wanted = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": self.nonce}
            await reply.body(401, b"nonce", "text/plain", wanted)
        elif issued is None or issued.ends <= self.now or not self.accepts_new:
            error = "" if not token else ', error="invalid_token"'
            scope = f', scope="{self.default_scopes}"' if self.default_scopes else ""
            await reply.body(401, b"no", "text/plain", {"WWW-Authenticate": f"Bearer {metadata}{error}{scope}"})
        elif (lacking := self.needed.get(_operation(asked), "")) not in {*issued.scopes, ""}:
            challenge = f'Bearer {metadata}, error="insufficient_scope", scope="{lacking}"'
            await reply.body(403, b"more", "text/plain", {"WWW-Authenticate": challenge})
        else:
            await self.inner(asked, reply)

    def mcp(self) -> list[Asked]:
        """The requests to the MCP server."""
        return [
            asked
            for asked in self.asked
            if asked.target.partition("?")[0] not in _OAUTH and "well-known" not in asked.target
        ]


_OAUTH: Final = {"/authorize", "/revoke", "/register", "/token", "/two/register", "/two/token"}


def _operation(asked: Asked) -> str:
    if not asked.body:
        return asked.method
    name = asked.message.get("params")
    return f"{asked.rpc} {name['name']}" if isinstance(name, dict) and "name" in name else asked.rpc


def _claims(asked: Asked) -> JsonObject:
    proof = asked.headers.get("dpop", "")
    if not proof:
        return {}
    payload = proof.split(".")[1]
    claims: JsonObject = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


class Person:
    """A user agent: goes to the authorization server at once, or when it is let."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.logins = 0
        """How often they were asked."""
        self.asked = trio.Event()
        """Set when they are asked the next time."""
        self.waits: trio.Event | None = None
        """What they wait for."""
        self.failure: Exception | None = None
        """What goes wrong."""
        self.client: ClientRecord | None = None
        """What they say when they are asked for a client id."""
        self.ports: list[int | None] = []

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        self.ports.append(port)
        yield _Page(self, 49_152 if port is None else port)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        await trio.lowlevel.checkpoint()
        return self.client


class _Page:
    def __init__(self, person: Person, port: int) -> None:
        self._person: Final = person
        self.redirect_uri: Final = f"http://127.0.0.1:{port}/callback"
        self._url = ""

    async def open(self, url: str) -> None:
        self._person.logins += 1
        self._person.asked.set()
        self._person.asked = trio.Event()
        self._url = url
        await trio.lowlevel.checkpoint()

    async def redirected(self) -> str:
        if self._person.waits is not None:
            await self._person.waits.wait()
        if self._person.failure is not None:
            raise self._person.failure
        return self._person.world.authorize(self._url)


@asynccontextmanager
async def protected(world: World, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Runs it."""
    async with serving(world.answer, tls=tls) as server:
        world.url = server.url
        world.origin = server.url.removesuffix("/mcp")
        yield server


def oauth(world: World, person: Person | None = None, **more: object) -> OAuth:
    """A client of that world, on its clock."""
    auth = OAuth("Tester", user_agent=person or Person(world), **more)  # type: ignore[arg-type]  # keywords of OAuth, of many types, passed on as each test gives them
    auth._clock = lambda: world.now
    return auth


async def call(client: Client, name: str = "echo") -> None:
    assert not (await client.call_tool(name)).is_error


def shown(world: World) -> list[str | None]:
    """The token in each request to the MCP server."""
    return [asked.headers.get("authorization") for asked in world.mcp()]


@asynccontextmanager
async def connected(world: World, auth: OAuth) -> AsyncIterator[tuple[Server, Client]]:
    async with protected(world) as server, open_http(server.url, auth=auth) as client:
        yield server, client


async def logging_in(person: Person, again: int) -> None:
    """Waits until a person was asked so often."""
    while person.logins < again:
        await person.asked.wait()


def proof() -> Dpop:
    return Dpop(PrivateKey.generate("ES256"), secrets.token_bytes)
