"""Public keys of others, and what is verified with them: around joserfc.

joserfc verifies signatures. Which algorithm, and which key, is decided here and in `mcp_core.oauth.signatures`: by the
list that the author gave, and by what the key is, never by what the token says alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs
import orjson
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry
from joserfc.jws import JWSRegistry

from mcp_core.errors import LocalProtocolError
from mcp_core.oauth.jws import public_jwk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joserfc.jwk import Key

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.signatures import Signed

__all__ = ["JoseVerifier", "PublicKey", "choose", "public_keys"]

_KINDS: Final = {
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"), "Ed25519": ("OKP", "Ed25519"),
    "PS256": ("RSA", None), "PS384": ("RSA", None), "PS512": ("RSA", None),
    "RS256": ("RSA", None), "RS384": ("RSA", None), "RS512": ("RSA", None),
}  # fmt: skip
"""The type and curve of the key that an algorithm needs."""

_MODULUS: Final = (342, 1366)
"""Characters of an RSA modulus: of 2048 bits, below which it is weak, and of 8192, above which it is slow."""

_MOST_KEYS: Final = 100
"""Of one set. Providers with many tenants have a dozen."""


@attrs.frozen(kw_only=True)
class PublicKey:
    """One public key that signatures may be verified with."""

    jwk: JsonObject
    """Its public members, and no others."""
    id: str | None
    """`kid`; `None` when it has none."""
    algorithm: str | None
    """The only algorithm that it is for, if it says so."""

    def fits(self, algorithm: str) -> bool:
        """Whether it is of the kind that an algorithm needs."""
        return self.algorithm in (None, algorithm) and _is_of(self.jwk, algorithm)


def _is_of(jwk: Mapping[str, JsonValue], algorithm: str) -> bool:
    kind, curve = _KINDS.get(algorithm, ("", None))
    if jwk.get("kty") != kind or (curve is not None and jwk.get("crv") != curve):
        return False
    modulus = jwk.get("n")
    return kind != "RSA" or (isinstance(modulus, str) and _MODULUS[0] <= len(modulus) <= _MODULUS[1])


def public_keys(document: Mapping[str, object]) -> tuple[PublicKey, ...]:
    """The keys of a JWK set that signatures may be verified with. What is anything else is left out.

    A secret of both sides (`oct`) is left out as well: who knows it can sign. Spec: RFC 7517 sections 4 and 5
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


def choose(keys: Sequence[PublicKey], signed: Signed) -> PublicKey | None:
    """The key that a JWT is to be verified with: that of its `kid`, or the only one that there is for its algorithm."""
    fitting = [key for key in keys if key.fits(signed.algorithm)]
    if signed.key_id is not None:
        return next((key for key in fitting if key.id == signed.key_id), None)
    return fitting[0] if len(fitting) == 1 else None


class JoseVerifier:
    """A `mcp_core.oauth.signatures.Verifier`."""

    def verify(self, jwk: Mapping[str, JsonValue], algorithm: str, data: bytes, signature: bytes) -> bool:
        """See `Verifier.verify`."""
        if not _is_of(jwk, algorithm):
            return False
        try:
            key = _imported(orjson.dumps(public_jwk(jwk)))
            return JWSRegistry.algorithms[algorithm].verify(data, signature, key)
        except (JoseError, LocalProtocolError, ValueError):
            # A point that is not on the curve, members that are no base64.
            return False


@lru_cache(maxsize=256)
def _imported(jwk: bytes) -> Key:
    """A key, ready for use. To make it so costs as much as a verification."""
    return JWKRegistry.import_key(orjson.loads(jwk))
