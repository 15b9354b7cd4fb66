"""JSON Web Signatures of others: they are read strictly, before a key is looked at.

What a header says of itself is the word of whoever wrote it. So the algorithm has to be one of a list, which has neither
`none` nor any whose key is a shared secret: else a public key could be taken for one. Where a key is to be found
(`jku`, `x5u`, `x5c`, `jwk`) is not asked of the header but for the one use that is bound by a hash (DPoP). An extension
that has to be understood (`crit`) is not.

The core has no cryptography: `Verifier` is the seam, as `mcp_core.oauth.jws.Signer` is for signing.

Spec: RFC 7515, RFC 8725 sections 2.1 and 3
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import orjson

from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["VERIFIED_ALGORITHMS", "Signed", "Verifier", "read_signed"]

VERIFIED_ALGORITHMS: Final = (
    "ES256", "ES384", "ES512", "EdDSA", "Ed25519", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
)  # fmt: skip
"""Algorithms that are verified unless told otherwise: all asymmetric ones that are in use."""

_LONGEST: Final = 16 * 1024
"""Characters. A token has to fit into a header line, and most servers take no more than 8 KiB of those."""

_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_KIND: Final = "application/"


class Verifier(Protocol):
    """Verifies signatures."""

    def verify(self, jwk: Mapping[str, JsonValue], algorithm: str, data: bytes, signature: bytes) -> bool:
        """Whether the signature over `data` was made with the private half of a key.

        Args:
            jwk: The public key (RFC 7517).
            algorithm: As `ES256`; one of `VERIFIED_ALGORITHMS`. A key of another kind or curve verifies nothing.
            data: What is signed.
            signature: In the form of RFC 7518.
        """
        ...


@attrs.frozen(kw_only=True)
class Signed:
    """A JWT, taken apart. Nothing in it is true before its signature was verified."""

    algorithm: str
    """How it says that it is signed; one of those that are allowed."""
    header: JsonObject
    """All of its header."""
    claims: JsonObject = attrs.field(repr=False)
    """Its payload."""
    data: bytes = attrs.field(repr=False)
    """What is signed."""
    signature: bytes = attrs.field(repr=False)
    """The signature."""

    @property
    def key_id(self) -> str | None:
        """The name of the key, `kid`; `None` when it has none."""
        kid = self.header.get("kid")
        return kid if isinstance(kid, str) else None

    @property
    def kind(self) -> str:
        """What it is, `typ`: in lower case, without `application/`; `jwt` when it does not say. Spec: RFC 7515 section 4.1.9"""
        kind = self.header.get("typ", "JWT")
        return kind.lower().removeprefix(_KIND) if isinstance(kind, str) else ""


def read_signed(text: str, *, algorithms: Collection[str]) -> Signed:
    """Takes a JWT in compact form apart.

    Args:
        text: The JWT.
        algorithms: Those that are allowed.

    Raises:
        InvalidValue: It is none, or one that must not be verified. The sentence has nothing of it but the algorithm.
    """
    if len(text) > _LONGEST:
        raise InvalidValue(f"it has {len(text)} characters, more than {_LONGEST}")
    parts = _SHAPE.fullmatch(text)
    if parts is None:
        raise InvalidValue("it is no JWS in compact form")
    header = _object(parts[1], "header")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise InvalidValue(f"the algorithm {algorithm!a:.40} is not allowed: {', '.join(algorithms)} are")
    if "crit" in header:
        raise InvalidValue("its header has crit, and no extension is known here")
    if not isinstance(header.get("kid", ""), str):
        raise InvalidValue("its kid is no string")
    return Signed(
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
        raise InvalidValue(f"its {what} is no JSON") from None
    if not isinstance(value, dict):
        raise InvalidValue(f"its {what} is no JSON object")
    return value


def _decoded(text: str, what: str) -> bytes:
    if len(text) % 4 == 1:
        raise InvalidValue(f"its {what} is no base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
