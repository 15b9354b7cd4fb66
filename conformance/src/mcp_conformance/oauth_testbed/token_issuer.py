"""An authorization server that only signs tokens. Protected servers under test must trust it.

It has a key, metadata and a JWK set, and issues any token that a check needs: for the server or another one, expired,
or signed by an unknown key. It has no login.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from mcp_conformance.oauth_testbed.changed_members import changed
from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.wire.http_server import open_http_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ADMIN", "BASE", "ROOT", "Issuer", "ProofKey", "open_issuer", "unsigned"]

BASE: Final = "mcp"
"""The scope that every request requires."""
ADMIN: Final = "mcp:admin"
"""The additional scope that the fixture tool `test_admin` requires."""
ROOT: Final = "mcp:root"
"""The scope that includes both."""

_HOUR: Final = 3600
_KEY_ID: Final = "suite"
_JSON: Final = (("Content-Type", "application/json"),)


class Issuer:
    """The authorization server.

    Args:
        url: The issuer.
    """

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self.resource = ""
        """The URL of the server under test, which is the audience of tokens."""
        self._key: Final = RSAKey.generate_key(2048)
        self._other: Final = RSAKey.generate_key(2048)

    @property
    def metadata(self) -> JsonObject:
        """The authorization server metadata (RFC 8414)."""
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
        """The public keys, as a JWK set."""
        public: JsonObject = {name: str(value) for name, value in self._key.as_dict(private=False).items()}
        return {"keys": [{**public, "kid": _KEY_ID, "alg": "RS256", "use": "sig"}]}

    def token(self, *, foreign_key: bool = False, key_id: str = _KEY_ID, changes: Changes | None = None) -> str:
        """Issue an access token (RFC 9068), valid except for the changes.

        Args:
            foreign_key: Whether to sign it with an unknown key.
            key_id: The key that its header names.
            changes: Claims with other values, or without a value.
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
        }
        header = {"alg": "RS256", "typ": "at+jwt", "kid": key_id}
        payload = json.dumps(changed(claims, changes))
        return jws.serialize_compact(header, payload, self._other if foreign_key else self._key)

    def forged_tokens(self) -> Iterator[str]:
        """Yield tokens that a server accepts if it takes the key from the token itself, or a public key for a secret."""
        claims = self.token().split(".")[1]
        payload = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        elliptic = ECKey.generate_key("P-256")
        for algorithm, key in (("RS256", self._other), ("ES256", elliptic)):
            public: JsonObject = {name: str(value) for name, value in key.as_dict(private=False).items()}
            yield jws.serialize_compact({"alg": algorithm, "typ": "at+jwt", "jwk": public}, payload, key)
        head = _base64url(json.dumps({"alg": "HS256", "typ": "at+jwt", "kid": _KEY_ID}).encode())
        for encoding in ("PEM", "DER"):
            secret = self._key.as_bytes(encoding=encoding, private=False)
            signature = hmac.digest(secret, f"{head}.{claims}".encode(), hashlib.sha256)
            yield f"{head}.{claims}.{_base64url(signature)}"

    async def handle(self, incoming: ServerExchange) -> None:
        """Respond to a request for metadata or keys."""
        wells = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
        if incoming.path in wells:
            await incoming.respond(200, _JSON, json.dumps(self.metadata).encode())
        elif incoming.path == "/jwks":
            await incoming.respond(200, _JSON, json.dumps(self.keys).encode())
        else:
            await incoming.respond(404)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unsigned(token: str) -> str:
    """Return a JWT that declares itself as unsigned, and has no signature."""
    head, claims, _ = token.split(".")
    members: JsonObject = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    return f"{_base64url(json.dumps({**members, 'alg': 'none'}).encode())}.{claims}."


@asynccontextmanager
async def open_issuer() -> AsyncIterator[Issuer]:
    """Serve an issuer on the loopback interface while the block runs."""
    issuers: list[Issuer] = []

    async def handle(incoming: ServerExchange) -> None:
        await issuers[0].handle(incoming)

    async with open_http_server(handle) as port:
        issuers.append(Issuer(f"http://127.0.0.1:{port}"))
        yield issuers[0]


class ProofKey:
    """A key to which tokens can be bound (RFC 9449)."""

    def __init__(self) -> None:
        self._key: Final = ECKey.generate_key("P-256")

    @property
    def thumbprint(self) -> str:
        """The thumbprint, which is `cnf.jkt` of its tokens."""
        found: str = self._key.thumbprint()
        return found

    @property
    def private_jwk(self) -> JsonObject:
        """The whole key, with its private part."""
        return {name: str(value) for name, value in self._key.as_dict(private=True).items()}

    def proof(
        self,
        url: str,
        token: str,
        *,
        header: Changes | None = None,
        changes: Changes | None = None,
        symmetric: bool = False,
    ) -> str:
        """Make a proof for a POST, valid except for the changes.

        Args:
            url: The URL of the request.
            token: The access token of the request.
            header: Header members with other values, or without a value.
            changes: Claims with other values, or without a value.
            symmetric: Whether to sign it with a secret that is in its own header.
        """
        claims: JsonObject = {
            "jti": secrets.token_urlsafe(16),
            "htm": "POST",
            "htu": url,
            "iat": int(time.time()),
            "ath": s256(token),
        }
        payload = json.dumps(changed(claims, changes))
        if symmetric:
            shared = OctKey.import_key("a-secret-of-thirty-two-octets-here")
            oct_header = {"typ": "dpop+jwt", "alg": "HS256", "jwk": shared.as_dict(private=True)}
            return jws.serialize_compact(oct_header, payload, shared)
        public: JsonObject = {name: str(value) for name, value in self._key.as_dict(private=False).items()}
        whole = changed({"typ": "dpop+jwt", "alg": "ES256", "jwk": public}, header)
        return jws.serialize_compact(whole, payload, self._key)
