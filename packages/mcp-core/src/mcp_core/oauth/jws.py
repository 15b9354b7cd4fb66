"""JSON Web Signatures in their compact form, around a signer that the caller brings.

The core has no cryptography beyond hashing. `Signer` is the seam: it holds the private key, here stands what is signed.

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
"""Algorithms whose keys have a public half."""

_PUBLIC_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "EC": ("crv", "kty", "x", "y"),
    "OKP": ("crv", "kty", "x"),
    "RSA": ("e", "kty", "n"),
}
"""The members that make up a public key, in the order of RFC 7638 section 3.2."""


class Signer(Protocol):
    """A private key."""

    @property
    def algorithm(self) -> str:
        """The name of RFC 7518 or RFC 8037, as `ES256`; an asymmetric one."""
        ...

    @property
    def jwk(self) -> Mapping[str, JsonValue]:
        """The public key (RFC 7517), perhaps with a `kid`."""
        ...

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`, in the form of RFC 7518: for ES256 the 64 octets of r and s, not DER."""
        ...


def base64url(data: bytes) -> str:
    """Base64 in the alphabet of URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def public_jwk(jwk: Mapping[str, JsonValue]) -> JsonObject:
    """The public members of a key, and nothing else: a private one must not slip into a header.

    Raises:
        LocalProtocolError: It is no asymmetric key, or lacks a member.
    """
    kind = jwk.get("kty")
    members = _PUBLIC_MEMBERS.get(kind, ()) if isinstance(kind, str) else ()
    if not members or not all(isinstance(jwk.get(name), str) for name in members):
        raise LocalProtocolError(f"a key of kty {kind!a} is no whole public key of EC, OKP or RSA")
    return {name: jwk[name] for name in members}


def thumbprint(jwk: Mapping[str, JsonValue]) -> str:
    """The SHA-256 thumbprint of a public key, as in `cnf.jkt`. Spec: RFC 7638, RFC 9449 section 6.1

    Raises:
        LocalProtocolError: See `public_jwk`.
    """
    return base64url(hashlib.sha256(orjson.dumps(public_jwk(jwk), option=orjson.OPT_SORT_KEYS)).digest())


def sign(claims: JsonObject, signer: Signer, *, header: Mapping[str, JsonValue]) -> str:
    """Signs claims.

    Args:
        claims: The payload.
        signer: The key.
        header: Members of the header besides `alg`.

    Returns:
        The JWT in compact form.

    Raises:
        LocalProtocolError: The signer's algorithm is not an asymmetric one.
    """
    if signer.algorithm not in ASYMMETRIC_ALGORITHMS:
        raise LocalProtocolError(f"algorithm {signer.algorithm!a} has no public key that others could verify with")
    parts = ({"alg": signer.algorithm, **header}, claims)
    signed = ".".join(base64url(orjson.dumps(part)) for part in parts)
    return f"{signed}.{base64url(signer.sign(signed.encode('ascii')))}"
