"""Verification of DPoP proofs: the server side of `mcp_core.oauth.dpop`.

A proof is a JWT about one request: its method, its URL, its token, and the time. A client that obtains a proof could
replay it within the time window. Therefore the server accepts a proof only once: it stores the ids of accepted proofs
until the window rejects them.

*The store is bounded.* When it is full, the ids of the oldest second are evicted. From then on all proofs of that
second or earlier are rejected: the window becomes shorter, and no proof is accepted twice. Each process has its own
store. Several processes behind one name also need a store that they share, in which the caller looks up
`AcceptedProof.id`.

*Nonces* are computed from the time and a key. They are not stored, and each process with the key can verify them.

Spec: RFC 9449 sections 4.3, 8, 9 and 11.1
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import InvalidValue, LocalProtocolError, McpError, UnsafeUrl
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.dpop import token_hash
from mcp_core.oauth.jws import base64url, thumbprint
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed_jwt
from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.signatures import SignedJwt, Verifier

__all__ = [
    "AcceptedProof",
    "InvalidProof",
    "NonceIssuer",
    "NonceRequired",
    "ProofCheck",
    "ProofReplayed",
    "ReplayCache",
]

_WINDOW: Final = 300.0
"""Maximum age of a proof, in seconds, in both directions: the value of the MCP extension, which tolerates inexact
clocks."""

_REMEMBERED: Final = 200_000
"""Maximum number of stored ids: about 20 MB. This allows 333 requests in each second of the window."""

_LONGEST_ID: Final = 1_000
_KIND: Final = "dpop+jwt"
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Members of a private key (RFC 7518 section 6)."""

_PERIOD: Final = 300
"""Time after which the nonce changes, in seconds. The previous nonce is accepted for the same time."""

_KEY_BYTES: Final = 32
_STEP_BYTES: Final = 6
_MAC_BYTES: Final = 16


class InvalidProof(McpError):
    """A proof was rejected. The message may be sent to the client."""


class ProofReplayed(InvalidProof):
    """A proof was used before."""

    def __init__(self) -> None:
        super().__init__("the DPoP proof was used before")


class NonceRequired(InvalidProof):
    """A valid proof lacks the current nonce. The client may repeat the request with it."""

    def __init__(self, nonce: str) -> None:
        super().__init__("the DPoP proof requires the nonce of this server")
        self.nonce: str = nonce
        """The nonce to use."""


class NonceIssuer:
    """The nonces of a server.

    Args:
        key: At least 32 secret bytes, the same in all processes of one server.

    Raises:
        LocalProtocolError: The key is too short.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise LocalProtocolError(f"the nonce key has {len(key)} bytes: at least {_KEY_BYTES} are required")
        self._key: Final = key

    def current(self, now: float) -> str:
        """Return the current nonce.

        Args:
            now: Seconds since the epoch.
        """
        return self._of(int(now) // _PERIOD)

    def is_current(self, nonce: str, now: float) -> bool:
        """Return whether a nonce is the current or the previous one."""
        step = int(now) // _PERIOD
        given = nonce.encode("utf-8", "replace")
        return any(hmac.compare_digest(given, self._of(each).encode("ascii")) for each in (step, step - 1))

    def _of(self, step: int) -> str:
        stamp = step.to_bytes(_STEP_BYTES, "big")
        return base64url(stamp + hmac.digest(self._key, b"DPoP nonce" + stamp, "sha256")[:_MAC_BYTES])


class ReplayCache:
    """A store of the accepted proofs.

    Args:
        limit: The maximum number of proofs.
    """

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit: Final = limit
        self._seconds: Final[dict[int, set[bytes]]] = {}
        self._count = 0
        self._floor = -1

    def __len__(self) -> int:
        """Return the number of stored proofs."""
        return self._count

    def take(self, proof: bytes, issued_at: float, *, since: float) -> bool:
        """Accept a proof, unless it was or may have been accepted before. Return whether it is accepted.

        Args:
            proof: The unique id of the proof.
            issued_at: The time of the proof according to its claims, in seconds since the epoch.
            since: The beginning of the window, in seconds since the epoch. Older ids are removed.
        """
        self._forget(int(since))
        second = int(issued_at)
        known = self._seconds.setdefault(second, set())
        if second <= self._floor or proof in known:
            return False
        known.add(proof)
        self._count += 1
        if self._count > self._limit:
            self._forget(min(each for each, proofs in self._seconds.items() if proofs) + 1)
        return True

    def _forget(self, before: int) -> None:
        for second in [each for each in self._seconds if each < before]:
            self._count -= len(self._seconds.pop(second))
            # After the clock is set back, a removed id could be presented again.
            self._floor = max(self._floor, second)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AcceptedProof(FieldValue):
    """A proof that this process has accepted."""

    key: str
    """The thumbprint of the key, to which the token must be bound."""
    id: bytes
    """The id of the proof, unique for its key. The proof must not be accepted again."""
    seconds: float
    """The time for which another process would accept the proof, in seconds."""


class ProofCheck:
    """The verification of the proofs sent to one server.

    Args:
        verifier: Verifies the signatures.
        algorithms: The allowed algorithms, which must be asymmetric.
        nonces: The nonces, which each proof must contain; `None` requires no nonce.
        replays: The store of accepted proofs.
    """

    def __init__(
        self,
        verifier: Verifier,
        *,
        algorithms: Collection[str] = VERIFIED_ALGORITHMS,
        nonces: NonceIssuer | None = None,
        replays: ReplayCache | None = None,
    ) -> None:
        self.algorithms: Final = tuple(algorithms)
        """The allowed algorithms, for metadata and challenges."""
        self._verifier: Final = verifier
        self._nonces: Final = nonces
        self._replays: Final = ReplayCache() if replays is None else replays

    def check(
        self, proofs: Sequence[str], *, method: str, urls: Sequence[str], now: float, access_token: str | None = None
    ) -> AcceptedProof:
        """Verify and accept the proof of one request.

        Args:
            proofs: The values of all `DPoP` headers. There must be exactly one.
            method: The method of the request.
            urls: The URLs by which a client may know the request. Queries are ignored.
            now: Seconds since the epoch.
            access_token: The token of the request; `None` at the token endpoint.

        Returns:
            The proof, with the key to which the token must be bound.

        Raises:
            NonceRequired: The proof requires the nonce in the error.
            InvalidProof: The proof is invalid.
        """
        if len(proofs) != 1:
            raise InvalidProof(
                f"expected one DPoP proof, received {len(proofs)}" if proofs else "the DPoP proof is missing"
            )
        try:
            signed = read_signed_jwt(proofs[0], algorithms=self.algorithms)
        except InvalidValue as bad:
            raise InvalidProof(f"the DPoP proof is invalid: {bad.message}") from None
        jwk, key = _key(signed)
        if not self._verifier.verify(jwk, signed.algorithm, signed.data, signed.signature):
            raise InvalidProof("the signature of the DPoP proof is invalid")
        claims = signed.claims
        _check_request(claims, method, urls)
        if access_token is not None and claims.get("ath") != token_hash(access_token):
            raise InvalidProof("the DPoP proof is for another access token")
        return self._accept(claims, key, now)

    def _accept(self, claims: JsonObject, key: str, now: float) -> AcceptedProof:
        issued_at, id, nonce = claims.get("iat"), claims.get("jti"), claims.get("nonce")
        if self._nonces is not None and not (isinstance(nonce, str) and self._nonces.is_current(nonce, now)):
            raise NonceRequired(self._nonces.current(now))
        if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
            raise InvalidProof("the DPoP proof has no valid jti")
        if isinstance(issued_at, bool) or not isinstance(issued_at, int | float):
            raise InvalidProof("the DPoP proof has no valid iat")
        if not now - _WINDOW <= issued_at <= now + _WINDOW:
            raise InvalidProof("the DPoP proof is too old, or its iat is in the future")
        # The id is combined with the key, so that a client cannot use up the ids of other clients.
        known_by = hashlib.sha256(f"{key} {id}".encode()).digest()[:16]
        if not self._replays.take(known_by, issued_at, since=now - _WINDOW):
            raise ProofReplayed
        return AcceptedProof(key=key, id=known_by, seconds=issued_at + _WINDOW - now)


def _key(signed: SignedJwt) -> tuple[JsonObject, str]:
    """Return the key in the header, and its thumbprint."""
    if signed.kind != _KIND:
        raise InvalidProof(f"the typ of the DPoP proof is not {_KIND}")
    jwk = signed.header.get("jwk")
    if not isinstance(jwk, dict) or not _PRIVATE.isdisjoint(jwk):
        raise InvalidProof("the DPoP proof has no public key in its header")
    try:
        return jwk, thumbprint(jwk)
    except LocalProtocolError:
        raise InvalidProof("the key of the DPoP proof is not an EC, OKP or RSA key") from None


def _check_request(claims: JsonObject, method: str, urls: Sequence[str]) -> None:
    if claims.get("htm") != method:
        raise InvalidProof("the DPoP proof is for another method")
    target = claims.get("htu")
    if not isinstance(target, str) or _address(target) not in {_address(url) for url in urls}:
        raise InvalidProof("the DPoP proof is for another URL")


def _address(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a URL for comparison: normalized, without query and fragment."""
    try:
        url = parse_url(text, what="URL of a request")
    except UnsafeUrl:
        return ("", (text,))
    # A slash at the end remains, because it makes another path.
    return (url.origin, (*url.segments, "") if url.path.endswith("/") and url.segments else url.segments)
