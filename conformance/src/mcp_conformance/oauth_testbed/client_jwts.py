"""Verification of the JWTs that clients make: DPoP proofs and client assertions."""

from __future__ import annotations

import hashlib
import math
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final, Literal

import attrs
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import import_key

from mcp_conformance.oauth_testbed.http_messages import json_object

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.http_messages import Pairs, Request
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ALGORITHMS", "Jwt", "NonceIssuer", "ProofChecks", "check_assertion", "read_jwt", "s256"]

ALGORITHMS: Final = (
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
    "PS256",
    "PS384",
    "PS512",
    "RS256",
    "RS384",
    "RS512",
)
"""The accepted algorithms: nothing symmetric, and not `none`."""
_LONGEST: Final = 8_192
"""The limit of a header in bytes. A header with an RSA key exceeds the usual 512."""
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k", "oth"})
_FRESH: Final = 300.0
"""The tolerance for the time of issue of a proof, in seconds."""


def s256(text: str) -> str:
    """Return the SHA-256 of a text in base64url: `code_challenge` of a verifier, `ath` of a token."""
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@attrs.frozen(kw_only=True)
class Jwt:
    """A JWT with a verified signature."""

    header: JsonObject
    """The protected header."""
    claims: JsonObject
    """The payload."""
    thumbprint: str
    """The thumbprint of the verification key (RFC 7638)."""


def read_jwt(text: str, key: JsonObject | None = None) -> Jwt | None:
    """Verify a JWT.

    Args:
        text: The JWT in compact form.
        key: The public key; `None`: the one in its header.

    Returns:
        The JWT; `None` if there is no such key, the signature is wrong, or the text is not a JWT.
    """
    try:
        registry = jws.JWSRegistry(algorithms=list(ALGORITHMS))
        registry.max_header_length = _LONGEST
        header: JsonObject = dict(jws.extract_compact(text.encode(), registry=registry).headers())
        jwk: JsonValue = header.get("jwk") if key is None else key
        if not isinstance(jwk, dict) or jwk.get("kty") == "oct":
            return None
        held = {name: value for name, value in jwk.items() if isinstance(value, str)}
        public = import_key({name: value for name, value in held.items() if name not in _PRIVATE})
        verified = jws.deserialize_compact(text, public, registry=registry)
        thumbprint: str = public.thumbprint()
    except (JoseError, ValueError, KeyError, TypeError):
        return None
    claims = json_object(verified.payload or b"")
    return None if claims is None else Jwt(header=header, claims=claims, thumbprint=thumbprint)


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


@attrs.define
class ProofChecks:
    """The verification of DPoP proofs. It remembers their ids."""

    recorder: ViolationRecorder
    """The recorded violations."""
    _seen: set[str] = attrs.field(factory=set, init=False)

    def check(self, request: Request, now: float, *, access_token: str | None = None) -> Jwt | None:
        """Return the verified proof of a request.

        Args:
            request: The request.
            now: Seconds since the epoch.
            access_token: The token to which the proof must be bound, if there is one.

        Returns:
            The proof; `None` if it is missing or wrong. A wrong proof is recorded as a violation.
        """
        given, expect = request.all("dpop"), self.recorder.expect
        if not given:
            return None
        if not expect(len(given) == 1, "dpop.client-proof-header", "a request has more than one DPoP header"):
            return None
        proof = read_jwt(given[0])
        if proof is None:
            self.recorder.note("dpop.asymmetric-only", "a proof is not signed by the asymmetric key in its header")
            return None
        header, claims = proof.header, proof.claims
        jwk = header.get("jwk")
        typed = header.get("typ") == "dpop+jwt"
        bare = isinstance(jwk, dict) and _PRIVATE.isdisjoint(jwk)
        named = (claims.get("htm"), claims.get("htu")) == (request.method, request.place)
        token = claims.get("ath") == (None if access_token is None else s256(access_token))
        jti = claims.get("jti")
        fresh = isinstance(jti, str) and len(jti) >= 8 and jti not in self._seen
        self._seen.add(str(jti))
        good = [
            expect(typed, "dpop.client-proof-header", f"the typ of a proof is {header.get('typ')!a}"),
            expect(bare, "dpop.client-proof-header", "the header of a proof contains a private key"),
            expect(named, "dpop.client-proof-claims", f"a proof names {claims.get('htm')!a} {claims.get('htu')!a}"),
            expect(token, "dpop.client-proof-claims", "the ath of a proof is not that of the token"),
            expect(fresh, "dpop.client-fresh-proof", "the jti of a proof was used before, or is not valid"),
            expect(
                abs(_number(claims.get("iat")) - now) <= _FRESH,
                "dpop.client-proof-claims",
                "the iat of a proof is not the current time",
            ),
        ]
        return proof if all(good) else None


@attrs.define(kw_only=True)
class NonceIssuer:
    """The nonces of one server (RFC 9449 section 8)."""

    recorder: ViolationRecorder
    """The recorded violations."""
    name: str
    """The beginning of its nonces, which differs between servers."""
    requirement: str
    """The requirement that a request without the current nonce breaks."""
    wanted: bool
    """Whether proofs require a nonce."""
    how: Literal["kept", "renewed", "never right"]
    """The validity of nonces, as in `Quirks.nonces`."""
    _current: str = attrs.field(default="", init=False)
    _sent: bool = attrs.field(default=False, init=False)
    _count: int = attrs.field(default=0, init=False)

    def accept(self, proof: Jwt) -> bool:
        """Return whether a proof has the current nonce."""
        if not self.wanted:
            return True
        given = proof.claims.get("nonce")
        right = bool(self._current) and given == self._current
        if self._sent:
            self.recorder.expect(
                right, self.requirement, f"a proof has the nonce {given!a} instead of the last one that the server sent"
            )
        return right and self.how != "never right"

    def headers(self) -> Pairs:
        """Return the header with the next nonce."""
        if not self.wanted:
            return ()
        if not self._current or self.how != "kept":
            self._count += 1
            self._current = f"{self.name}-{self._count}"
        self._sent = True
        return (("DPoP-Nonce", self._current),)


def check_assertion(
    text: str,
    *,
    client_id: str,
    key: JsonObject | None,
    issuer: str,
    now: float,
    seen: set[str],
    recorder: ViolationRecorder,
) -> bool:
    """Verify a `client_assertion`.

    Args:
        text: The JWT.
        client_id: The client that signed it.
        key: The registered public key.
        issuer: The required audience.
        now: Seconds since the epoch.
        seen: The ids of earlier assertions.
        recorder: The recorded violations.

    Returns:
        Whether the assertion is valid.
    """
    jwt = None if key is None else read_jwt(text, key)
    claims_id = "client-credentials.jwt-claims"
    if jwt is None:
        recorder.note(claims_id, "an assertion is not signed by the registered key")
        return False
    claims = jwt.claims
    named = (claims.get("iss"), claims.get("sub")) == (client_id, client_id)
    ends = _number(claims.get("exp"))
    jti = str(claims.get("jti"))
    fresh = "jti" not in claims or jti not in seen
    seen.add(jti)
    good = [
        recorder.expect(named, claims_id, "iss and sub of an assertion do not match the client id"),
        recorder.expect(
            claims.get("aud") in (issuer, [issuer]), claims_id, f"the aud of an assertion is {claims.get('aud')!a}"
        ),
        recorder.expect(
            now < ends <= now + 3_600, claims_id, "an assertion has expired, or is valid for more than an hour"
        ),
        recorder.expect(fresh, claims_id, "an assertion was sent twice"),
    ]
    return all(good)
