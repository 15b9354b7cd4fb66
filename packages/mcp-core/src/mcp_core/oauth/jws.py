"""JSON Web Signatures in compact form. The caller provides the signer.

The core contains no cryptography except hashing. A `Signer` holds the private key; this module builds the data to sign.

Spec: RFC 7515, RFC 7518, RFC 7638
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final, Protocol

import orjson

from mcp_core.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ASYMMETRIC_ALGORITHMS", "Signer", "base64url", "public_jwk", "sign", "thumbprint"]

ASYMMETRIC_ALGORITHMS: Final = (
    "ES256", "ES384", "ES512", "EdDSA", "Ed25519", "Ed448", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
)  # fmt: skip
"""Algorithms with a public key."""

_PUBLIC_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "EC": ("crv", "kty", "x", "y"),
    "OKP": ("crv", "kty", "x"),
    "RSA": ("e", "kty", "n"),
}
"""The members of a public key, in the order of RFC 7638 section 3.2."""


class Signer(Protocol):
    """A private key."""

    @property
    def algorithm(self) -> str:
        """The asymmetric algorithm, by its name in RFC 7518 or RFC 8037, for example `ES256`."""
        ...

    @property
    def jwk(self) -> Mapping[str, JsonValue]:
        """The public key (RFC 7517), optionally with a `kid`."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data` in the form of RFC 7518: for ES256 the 64 octets of r and s, not DER."""
        ...


def base64url(data: bytes) -> str:
    """Encode bytes in base64url, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def public_jwk(jwk: Mapping[str, JsonValue]) -> JsonObject:
    """Return only the public members of a key, so that a private member cannot reach a header.

    Raises:
        LocalProtocolError: The key is not asymmetric, or lacks a member.
    """
    kind = jwk.get("kty")
    members = _PUBLIC_MEMBERS.get(kind, ()) if isinstance(kind, str) else ()
    if not members or not all(isinstance(jwk.get(name), str) for name in members):
        raise LocalProtocolError(f"a key of kty {kind!a} is not a complete public key of EC, OKP or RSA")
    return {name: jwk[name] for name in members}


def thumbprint(jwk: Mapping[str, JsonValue]) -> str:
    """Return the SHA-256 thumbprint of a public key, as in `cnf.jkt`. Spec: RFC 7638, RFC 9449 section 6.1

    Raises:
        LocalProtocolError: The key is not asymmetric, or lacks a member.
    """
    return base64url(hashlib.sha256(orjson.dumps(public_jwk(jwk), option=orjson.OPT_SORT_KEYS)).digest())


def sign(claims: JsonObject, signer: Signer, *, header: Mapping[str, JsonValue]) -> str:
    """Sign claims.

    Args:
        claims: The payload.
        signer: The key.
        header: Members of the header in addition to `alg`.

    Returns:
        The JWT in compact form.

    Raises:
        LocalProtocolError: The algorithm of the signer is not asymmetric.
    """
    if signer.algorithm not in ASYMMETRIC_ALGORITHMS:
        raise LocalProtocolError(
            f"algorithm {signer.algorithm!a} is not asymmetric: it has no public key to verify with"
        )
    parts = ({"alg": signer.algorithm, **header}, claims)
    signed = ".".join(base64url(orjson.dumps(part)) for part in parts)
    return f"{signed}.{base64url(signer.sign(signed.encode('ascii')))}"
