"""The JWTs of the raw client: DPoP proofs and client assertions."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from mutants.client.messages import wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Keys", "client_assertion"]


def client_assertion(pem: str, client_id: str, issuer: str) -> str:
    """Return a client assertion."""
    claims: JsonObject = {
        "iss": client_id,
        "sub": "somebody" if wrong("assertion-subject") else client_id,
        "aud": f"{issuer}/token"
        if wrong("assertion-audience")
        else "{0.scheme}://{0.netloc}".format(urlsplit(issuer))
        if wrong("assertion-audience-origin")
        else issuer,
        "exp": (int(time.time()) + 60) * (1000 if wrong("assertion-in-milliseconds") else 1),
        "jti": secrets.token_urlsafe(16),
    }
    return jws.serialize_compact({"alg": "ES256"}, json.dumps(claims), ECKey.import_key(pem))


class Keys:
    """A key, and the nonces for its proofs."""

    def __init__(self) -> None:
        self.wanted = False
        """Whether tokens are bound to the key."""
        self.nonces: dict[str, str] = {}
        """The latest nonce of each origin."""
        self._key = ECKey.generate_key("P-256")
        # A fault selects one of the two.
        self._other = RSAKey.generate_key(2048) if wrong("rsa-proof") else None
        self._jti = secrets.token_urlsafe(16)

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """Return a proof for a request."""
        parts = urlsplit(url)
        url = url if wrong("htu-as-requested") else url.partition("?")[0]
        claims: JsonObject = {
            "jti": self._jti if wrong("same-jti") else secrets.token_urlsafe(16),
            "htm": method,
            "htu": url + "?x=1" if (wrong("htu-with-query") and token) or wrong("htu-always-with-query") else url,
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).decode().rstrip("=")
        nonce = self.nonces.get(f"{parts.scheme}://{parts.netloc}")
        if self.nonces and wrong("one-nonce-for-all"):
            nonce = [*self.nonces.values()][-1]
        if nonce is not None and not (wrong("no-call-nonce") and token):
            claims["nonce"] = nonce
        plain = (wrong("proof-type") and token) or wrong("proof-type-always")
        header: JsonObject = {"typ": "jwt" if plain else "dpop+jwt", "alg": "ES256"}
        if (wrong("symmetric-proof") and token) or wrong("symmetric-proof-always"):
            shared = OctKey.generate_key(256)
            header |= {"alg": "HS256", "jwk": {"kty": "oct", "k": "c2VjcmV0"}}
            return jws.serialize_compact(header, json.dumps(claims), shared)
        if self._other is not None:
            public: JsonObject = {name: str(value) for name, value in self._other.as_dict(private=False).items()}
            return jws.serialize_compact({**header, "alg": "RS256", "jwk": public}, json.dumps(claims), self._other)
        bare = {name: str(value) for name, value in self._key.as_dict(private=False).items()}
        return jws.serialize_compact({**header, "jwk": {**bare}}, json.dumps(claims), self._key)
