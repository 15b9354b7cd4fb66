"""The keys that sign access tokens, and their publication.

A key signs for a month. Then a new key replaces it, and the old key remains published for resource servers while a
token signed with it can be valid. All processes that share a store have the same keys.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import orjson
from joserfc import jwt
from joserfc.jwk import ECKey

from mcp_core.errors import InvalidValue
from mcp_core.oauth.jws import public_jwk
from mcp_core.oauth.signatures import read_signed_jwt
from mcp_server.auth.keys import JoseVerifier

if TYPE_CHECKING:
    import sqlite3

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.model.settings import Lifetimes

__all__ = ["ALGORITHM", "TYPE", "open_token", "public_keys", "sign_token"]

ALGORITHM: Final = "ES256"
"""The signature algorithm."""

TYPE: Final = "at+jwt"
"""The type of an access token. Spec: RFC 9068 section 2.1"""

_MARGIN: Final = 3_600.0
"""Additional time for which a key is published after its last token expires, in seconds, because clocks differ."""


def sign_token(connection: sqlite3.Connection, claims: JsonObject, *, now: float, lifetimes: Lifetimes) -> str:
    """Return an access token with these claims."""
    key = _signing_key(connection, now, lifetimes)
    header = {"alg": ALGORITHM, "typ": TYPE, "kid": key.kid}
    return jwt.encode(header, dict(claims), key, algorithms=[ALGORITHM])


def _signing_key(connection: sqlite3.Connection, now: float, lifetimes: Lifetimes) -> ECKey:
    found = connection.execute(
        "SELECT jwk FROM signing_keys WHERE signs_until > ? ORDER BY signs_until DESC LIMIT 1", (now,)
    ).fetchone()
    if found is not None:
        return _parsed(found[0])
    key = ECKey.generate_key("P-256", auto_kid=True)
    until = now + lifetimes.signing_key
    written = orjson.dumps(key.as_dict(private=True)).decode()
    connection.execute("DELETE FROM signing_keys WHERE expires_at <= ?", (now,))
    connection.execute(
        "INSERT INTO signing_keys VALUES (?, ?, ?, ?)", (key.kid, written, until, until + lifetimes.access + _MARGIN)
    )
    return key


@lru_cache(maxsize=16)
def _parsed(written: str) -> ECKey:
    return ECKey.import_key(orjson.loads(written))


def public_keys(connection: sqlite3.Connection, *, now: float, lifetimes: Lifetimes) -> JsonObject:
    """Return the public keys as a JWK set. Spec: RFC 7517 section 5"""
    _signing_key(connection, now, lifetimes)
    rows = connection.execute(
        "SELECT id, jwk FROM signing_keys WHERE expires_at > ? ORDER BY signs_until DESC", (now,)
    ).fetchall()
    return {
        "keys": [
            {**public_jwk(orjson.loads(written)), "kid": kid, "use": "sig", "alg": ALGORITHM} for kid, written in rows
        ]
    }


def open_token(connection: sqlite3.Connection, token: str, *, now: float) -> JsonObject | None:
    """Return the claims of an access token signed by one of these keys, or `None`. Checks nothing else."""
    try:
        signed = read_signed_jwt(token, algorithms=(ALGORITHM,))
    except InvalidValue:
        return None
    found = connection.execute(
        "SELECT jwk FROM signing_keys WHERE id = ? AND expires_at > ?", (signed.key_id, now)
    ).fetchone()
    if found is None or signed.kind != TYPE:
        return None
    good = JoseVerifier().verify(orjson.loads(found[0]), ALGORITHM, signed.data, signed.signature)
    return signed.claims if good else None
