"""An authorization server that only signs: for protected servers under test, which have to believe it.

It has a key, metadata and a JWK set, and makes whatever token a check wants: for the server or for another one, of the
past, of a key that nobody knows. Nobody logs in there.
"""

from __future__ import annotations

import json
import secrets
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.wire.http_server import open_http_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.wire.http_server import Incoming
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ADMIN", "BASE", "ROOT", "Issuer", "ProofKey", "open_issuer"]

BASE: Final = "mcp"
"""The scope that every request needs."""
ADMIN: Final = "mcp:admin"
"""The scope that the fixture tool `test_admin` needs besides."""
ROOT: Final = "mcp:root"
"""The scope that includes both."""

_HOUR: Final = 3600
_JSON: Final = (("Content-Type", "application/json"),)


class Issuer:
    """The authorization server.

    Args:
        url: What it calls itself.
    """

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self.resource = ""
        """The URL of the server under test: what tokens are for."""
        self._key: Final = RSAKey.generate_key(2048)
        self._other: Final = RSAKey.generate_key(2048)

    @property
    def metadata(self) -> JsonObject:
        """What it tells of itself (RFC 8414)."""
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": [BASE, ADMIN, ROOT],
            "dpop_signing_alg_values_supported": ["ES256"],
        }

    @property
    def keys(self) -> JsonObject:
        """Its keys, as a JWK set."""
        public: JsonObject = {name: str(value) for name, value in self._key.as_dict(private=False).items()}
        return {"keys": [{**public, "kid": "suite", "alg": "RS256", "use": "sig"}]}

    def token(self, *, foreign_key: bool = False, changes: JsonObject | None = None) -> str:
        """An access token (RFC 9068), right but for what is changed.

        Args:
            foreign_key: Whether it is signed by a key that nobody knows.
            changes: Claims that differ; `None` as a value: left out.
        """
        now = int(time.time())
        claims: JsonObject = {
            "iss": self.url,
            "sub": "ada",
            "aud": self.resource,
            "client_id": "mcp-conformance",
            "scope": f"{BASE} {ADMIN}",
            "iat": now,
            "exp": now + _HOUR,
            "jti": secrets.token_urlsafe(16),
            **(changes or {}),
        }
        told = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "RS256", "typ": "at+jwt", "kid": "suite"}
        return jws.serialize_compact(header, json.dumps(told), self._other if foreign_key else self._key)

    async def handle(self, incoming: Incoming) -> None:
        """Answer a request for metadata or keys."""
        wells = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
        if incoming.path in wells:
            await incoming.respond(200, _JSON, json.dumps(self.metadata).encode())
        elif incoming.path == "/jwks":
            await incoming.respond(200, _JSON, json.dumps(self.keys).encode())
        else:
            await incoming.respond(404)


@asynccontextmanager
async def open_issuer() -> AsyncIterator[Issuer]:
    """Serve one on the loopback interface, for a block."""
    issuers: list[Issuer] = []

    async def handle(incoming: Incoming) -> None:
        await issuers[0].handle(incoming)

    async with open_http_server(handle) as port:
        issuers.append(Issuer(f"http://127.0.0.1:{port}"))
        yield issuers[0]


class ProofKey:
    """A key that tokens can be bound to (RFC 9449)."""

    def __init__(self) -> None:
        self._key: Final = ECKey.generate_key("P-256")

    @property
    def thumbprint(self) -> str:
        """What `cnf.jkt` of its tokens is."""
        found: str = self._key.thumbprint()
        return found

    def proof(
        self,
        url: str,
        token: str,
        *,
        header: JsonObject | None = None,
        changes: JsonObject | None = None,
        symmetric: bool = False,
    ) -> str:
        """A proof for a POST, right but for what is changed.

        Args:
            url: Where the request goes.
            token: What it comes with.
            header: Header members that differ.
            changes: Claims that differ; `None` as a value: left out.
            symmetric: Whether it is signed by a secret that is in its own header.
        """
        claims: JsonObject = {
            "jti": secrets.token_urlsafe(16),
            "htm": "POST",
            "htu": url,
            "iat": int(time.time()),
            "ath": s256(token),
            **(changes or {}),
        }
        told = json.dumps({name: value for name, value in claims.items() if value is not None})
        if symmetric:
            shared = OctKey.import_key("a-secret-of-thirty-two-octets-here")
            oct_header = {"typ": "dpop+jwt", "alg": "HS256", "jwk": shared.as_dict(private=True)}
            return jws.serialize_compact(oct_header, told, shared)
        public: JsonObject = {name: str(value) for name, value in self._key.as_dict(private=False).items()}
        whole: JsonObject = {"typ": "dpop+jwt", "alg": "ES256", "jwk": public, **(header or {})}
        return jws.serialize_compact(whole, told, self._key)
