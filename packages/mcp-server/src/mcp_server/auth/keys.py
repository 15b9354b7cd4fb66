"""Public keys of other parties, and the verification of signatures with joserfc.

joserfc verifies the signatures. This module and `mcp_core.oauth.signatures` choose the algorithm and the key: from the
configured list and from the type of the key, never from the token alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs
import orjson

from mcp_core.errors import LocalProtocolError
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.jws import public_jwk
from mcp_core.trio.extras import extra

with extra("trio-mcp-server", "auth"):
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry
    from joserfc.jws import JWSRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joserfc.jwk import Key

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.signatures import SignedJwt

__all__ = ["JoseVerifier", "PublicKey", "choose", "public_keys"]

_KINDS: Final = {
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"), "Ed25519": ("OKP", "Ed25519"),
    "PS256": ("RSA", None), "PS384": ("RSA", None), "PS512": ("RSA", None),
    "RS256": ("RSA", None), "RS384": ("RSA", None), "RS512": ("RSA", None),
}  # fmt: skip
"""The type and curve of the key for each algorithm."""

_MODULUS: Final = (342, 1366)
"""The allowed lengths of an RSA modulus, in base64url characters. They correspond to 2048 bits (shorter keys are weak)
and 8192 bits (longer keys are slow)."""

_MOST_KEYS: Final = 100
"""The maximum number of keys read from one set. Providers with many tenants have about a dozen."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PublicKey(FieldValue):
    """A public key for the verification of signatures."""

    jwk: JsonObject
    """The public members of the key, without any others."""
    id: str | None
    """`kid`, or `None` if the key has none."""
    algorithm: str | None
    """The only algorithm that the key may be used for, or `None` if the key does not name one."""

    def fits(self, algorithm: str) -> bool:
        """Return whether the key has the type that an algorithm needs."""
        return self.algorithm in (None, algorithm) and _is_of(self.jwk, algorithm)


def _is_of(jwk: Mapping[str, JsonValue], algorithm: str) -> bool:
    kind, curve = _KINDS.get(algorithm, ("", None))
    if jwk.get("kty") != kind or (curve is not None and jwk.get("crv") != curve):
        return False
    modulus = jwk.get("n")
    return kind != "RSA" or (isinstance(modulus, str) and _MODULUS[0] <= len(modulus) <= _MODULUS[1])


def public_keys(document: Mapping[str, object]) -> tuple[PublicKey, ...]:
    """Return the keys of a JWK set that can verify signatures. All other members are ignored.

    Symmetric keys (`oct`) are ignored too, because each party that can verify with them can also sign.

    Spec: RFC 7517 sections 4 and 5
    """
    members = document.get("keys")
    found: list[PublicKey] = []
    for jwk in members[:_MOST_KEYS] if isinstance(members, list) else []:
        if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig":
            continue
        operations, kid, algorithm = jwk.get("key_ops", ["verify"]), jwk.get("kid"), jwk.get("alg")
        if not isinstance(operations, list) or "verify" not in operations:
            continue
        try:
            public = public_jwk(jwk)
        except LocalProtocolError:
            continue
        key = PublicKey(
            jwk=public,
            id=kid if isinstance(kid, str) else None,
            algorithm=algorithm if isinstance(algorithm, str) else None,
        )
        if any(key.fits(each) for each in _KINDS):
            found.append(key)
    return tuple(found)


def choose(keys: Sequence[PublicKey], signed: SignedJwt) -> PublicKey | None:
    """Return the key to verify a JWT with: the key with its `kid`, or the only key for its algorithm."""
    fitting = [key for key in keys if key.fits(signed.algorithm)]
    if signed.key_id is not None:
        return next((key for key in fitting if key.id == signed.key_id), None)
    return fitting[0] if len(fitting) == 1 else None


class JoseVerifier:
    """A `mcp_core.oauth.signatures.Verifier` that uses joserfc."""

    def verify(self, jwk: Mapping[str, JsonValue], algorithm: str, data: bytes, signature: bytes) -> bool:
        """Return whether a signature is valid. A key of the wrong type makes it invalid."""
        if not _is_of(jwk, algorithm):
            return False
        try:
            key = _imported(orjson.dumps(public_jwk(jwk)))
            return JWSRegistry.algorithms[algorithm].verify(data, signature, key)
        except (JoseError, LocalProtocolError, ValueError):
            # For example a point that is not on the curve, or members that are not base64.
            return False


@lru_cache(maxsize=256)
def _imported(jwk: bytes) -> Key:
    """Return a key in the form that joserfc needs. Its creation costs as much as a verification."""
    return JWKRegistry.import_key(orjson.loads(jwk))
