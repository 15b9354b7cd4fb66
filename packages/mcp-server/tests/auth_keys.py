"""Keys and tokens of an authorization server, and proofs of a client, made with joserfc."""

from __future__ import annotations

import itertools
import time
from typing import Final, cast

import orjson
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.dpop import token_hash
from mcp_core.oauth.jws import base64url, thumbprint

ISSUER: Final = "https://as.example"
RESOURCE: Final = "http://127.0.0.1:8000/mcp"

EC: Final = ECKey.generate_key("P-256", {"kid": "ec"})
EC_384: Final = ECKey.generate_key("P-384", {"kid": "ec384"})
RSA: Final = RSAKey.generate_key(2048, {"kid": "rsa"})
OKP: Final = OKPKey.generate_key("Ed25519", {"kid": "okp"})
OTHER: Final = ECKey.generate_key("P-256", {"kid": "other"})

Key = ECKey | RSAKey | OKPKey | OctKey

_counter: Final = itertools.count()


def public(*keys: Key) -> JsonObject:
    """Return the JWK set of the public keys."""
    return cast("JsonObject", KeySet(list(keys)).as_dict(private=False))


def compact(header: JsonValue, claims: JsonValue, key: Key | None, *, by: str | None = None) -> str:
    """Return a JWS, also with an invalid header.

    Args:
        header: The header.
        claims: The payload.
        key: The signing key. `None` leaves the signature empty.
        by: The algorithm of the signature, if the header names another one.
    """
    signed = ".".join(base64url(orjson.dumps(part)) for part in (header, claims))
    if key is None:
        return f"{signed}."
    algorithm = by or str(cast("JsonObject", header)["alg"])
    return f"{signed}.{base64url(JWSRegistry.algorithms[algorithm].sign(signed.encode(), key))}"


def claims(**changed: JsonValue) -> JsonObject:
    """Return the claims of a valid token with changes; `None` omits a claim."""
    payload: JsonObject = {
        "iss": ISSUER,
        "sub": "anna",
        "client_id": "c1",
        "aud": RESOURCE,
        "scope": "notes:read",
        "exp": int(time.time()) + 300,
        "iat": int(time.time()),
        "jti": f"t{next(_counter)}",
        **changed,
    }
    return {name: value for name, value in payload.items() if value is not None}


def token(key: Key = EC, *, alg: str = "ES256", header: JsonObject | None = None, **changed: JsonValue) -> str:
    """Return an access token."""
    return compact({"alg": alg, "typ": "at+jwt", "kid": key.kid, **(header or {})}, claims(**changed), key)


JKT: Final = thumbprint(cast("JsonObject", OTHER.as_dict(private=False)))
"""The key thumbprint of tokens that are used with `proof`."""


def proof(
    access_token: str, method: str = "POST", url: str = RESOURCE, *, key: Key = OTHER, **changed: JsonValue
) -> str:
    """Return a DPoP proof for one request with a token."""
    payload: JsonObject = {
        "jti": f"p{next(_counter)}",
        "htm": method,
        "htu": url,
        "iat": time.time(),
        "ath": token_hash(access_token),
        **changed,
    }
    jwk = cast("JsonObject", key.as_dict(private=False))
    return compact({"alg": "ES256", "typ": "dpop+jwt", "jwk": jwk}, payload, key)
