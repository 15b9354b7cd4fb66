"""Strict parser of JSON Web Signatures from peers, used before a key is looked up.

The header of a JWT is not trustworthy before the signature is verified. Therefore the algorithm must be in a list,
which contains neither `none` nor an algorithm with a shared secret: otherwise a public key could be used as the secret.
The parser ignores references to a key in the header (`jku`, `x5u`, `x5c`, `jwk`), except in DPoP, where a hash binds
the key. It rejects extensions that must be understood (`crit`).

The core contains no cryptography. The caller provides a `Verifier`, as it provides a `mcp_core.oauth.jws.Signer`.

Spec: RFC 7515, RFC 8725 sections 2.1 and 3
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import orjson

from mcp_core.errors import InvalidValue
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["VERIFIED_ALGORITHMS", "SignedJwt", "Verifier", "read_signed_jwt"]

VERIFIED_ALGORITHMS: Final = (
    "ES256", "ES384", "ES512", "EdDSA", "Ed25519", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
)  # fmt: skip
"""The default algorithms for verification: all asymmetric algorithms in use."""

_LONGEST: Final = 16 * 1024
"""In characters. A token has to fit into a header line, and most servers accept at most 8 KiB of headers."""

_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_KIND: Final = "application/"


class Verifier(Protocol):
    """A verifier of signatures."""

    def verify(self, jwk: Mapping[str, JsonValue], algorithm: str, data: bytes, signature: bytes) -> bool:
        """Return whether the signature of `data` was made with the private key of a public key.

        Args:
            jwk: The public key (RFC 7517).
            algorithm: The algorithm, for example `ES256`: one of `VERIFIED_ALGORITHMS`. If the key has another type or
                curve, the result must be false.
            data: The signed data.
            signature: The signature, in the form of RFC 7518.
        """
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SignedJwt(FieldValue):
    """A parsed JWT. Do not trust its contents before the signature is verified."""

    algorithm: str
    """The algorithm in the header, which is an allowed one."""
    header: JsonObject
    """The whole header."""
    claims: JsonObject = attrs.field(repr=False)
    """The payload."""
    data: bytes = attrs.field(repr=False)
    """The signed data."""
    signature: bytes = attrs.field(repr=False)
    """The signature."""

    @property
    def key_id(self) -> str | None:
        """The id of the key, `kid`; `None` if it is missing."""
        kid = self.header.get("kid")
        return kid if isinstance(kid, str) else None

    @property
    def kind(self) -> str:
        """The type, `typ`, in lower case, without `application/`; `jwt` if missing. Spec: RFC 7515 section 4.1.9"""
        kind = self.header.get("typ", "JWT")
        return kind.lower().removeprefix(_KIND) if isinstance(kind, str) else ""


def read_signed_jwt(text: str, *, algorithms: Collection[str]) -> SignedJwt:
    """Parse a JWT in compact form.

    Args:
        text: The JWT.
        algorithms: The allowed algorithms.

    Raises:
        InvalidValue: The text is not a JWT, or must not be verified. The message contains only the algorithm.
    """
    if len(text) > _LONGEST:
        raise InvalidValue(f"it has {len(text)} characters, more than the limit of {_LONGEST}")
    parts = _SHAPE.fullmatch(text)
    if parts is None:
        raise InvalidValue("it is not a JWS in compact form")
    header = _object(parts[1], "header")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise InvalidValue(f"the algorithm {algorithm!a:.40} is not allowed; allowed: {', '.join(algorithms)}")
    if "crit" in header:
        raise InvalidValue("its header has crit, but no extensions are supported")
    if not isinstance(header.get("kid", ""), str):
        raise InvalidValue("its kid is not a string")
    return SignedJwt(
        algorithm=algorithm,
        header=header,
        claims=_object(parts[2], "payload"),
        data=text[: parts.end(2)].encode("ascii"),
        signature=_decoded(parts[3], "signature"),
    )


def _object(text: str, what: str) -> JsonObject:
    try:
        value: JsonValue = orjson.loads(_decoded(text, what))
    except orjson.JSONDecodeError:
        raise InvalidValue(f"its {what} is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidValue(f"its {what} is not a JSON object")
    return value


def _decoded(text: str, what: str) -> bytes:
    if len(text) % 4 == 1:
        raise InvalidValue(f"its {what} is not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
