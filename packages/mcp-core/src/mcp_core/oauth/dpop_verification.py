"""Checks proofs of possession: what stands on the server's side of `mcp_core.oauth.dpop`.

A proof is a JWT about one request: its method, its URL, the token with it, and when. Whoever has it could repeat it as
long as the window of time is open. So it is taken once: the ids of those that were taken are remembered, for as long as
they would pass otherwise.

*The memory is bounded.* When it is full, the oldest second goes, and no proof of that second or an earlier one is taken
any more: the window becomes smaller, and nothing is taken twice. Each process has a memory of its own; several behind one
name are held together by nonces only, which say when a proof was made at the earliest.

*Nonces* are made from the time and a key, so that nothing is kept of them, and any process with the key knows them.

Spec: RFC 9449 sections 4.3, 8, 9 and 11.1
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from mcp_core.errors import InvalidValue, LocalProtocolError, McpError, UnsafeUrl
from mcp_core.oauth.dpop import token_hash
from mcp_core.oauth.jws import base64url, thumbprint
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed
from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.signatures import Signed, Verifier

__all__ = ["InvalidProof", "NonceWanted", "Nonces", "ProofCheck", "Replays"]

_WINDOW: Final = 300.0
"""Seconds that a proof may be old, or early: what the extension of MCP allows, so that no clock has to be exact."""

_REMEMBERED: Final = 200_000
"""Proofs whose ids are remembered: some 20 MB at most. That is 333 requests in each second of the window."""

_LONGEST_ID: Final = 1_000
_KIND: Final = "dpop+jwt"
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Members of a key that nobody must see (RFC 7518 section 6)."""

_PERIOD: Final = 300
"""Seconds after which there is another nonce. The one before is taken as long again."""

_KEY_BYTES: Final = 32
_STEP_BYTES: Final = 6
_MAC_BYTES: Final = 16


class InvalidProof(McpError):
    """A proof proves nothing. The sentence may be told to whoever sent it."""


class NonceWanted(InvalidProof):
    """A proof is good, but for the nonce: with another one it may be sent again."""

    def __init__(self, nonce: str) -> None:
        super().__init__("the DPoP proof needs the nonce of this server")
        self.nonce: str = nonce
        """The one to use."""


class Nonces:
    """Nonces of a server.

    Args:
        key: At least 32 secret bytes; the same in all processes of one server.

    Raises:
        LocalProtocolError: The key is shorter.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise LocalProtocolError(f"the key of nonces has {len(key)} bytes, and needs {_KEY_BYTES}")
        self._key: Final = key

    def current(self, now: float) -> str:
        """The nonce of the present.

        Args:
            now: Seconds since the epoch.
        """
        return self._of(int(now) // _PERIOD)

    def is_current(self, nonce: str, now: float) -> bool:
        """Whether it is the nonce of the present, or the one before."""
        step = int(now) // _PERIOD
        given = nonce.encode("utf-8", "replace")
        return any(hmac.compare_digest(given, self._of(each).encode("ascii")) for each in (step, step - 1))

    def _of(self, step: int) -> str:
        stamp = step.to_bytes(_STEP_BYTES, "big")
        return base64url(stamp + hmac.digest(self._key, b"DPoP nonce" + stamp, "sha256")[:_MAC_BYTES])


class Replays:
    """Remembers the proofs that were taken.

    Args:
        limit: How many, at most.
    """

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit: Final = limit
        self._seconds: Final[dict[int, set[bytes]]] = {}
        self._count = 0
        self._floor = -1

    def __len__(self) -> int:
        """How many are remembered."""
        return self._count

    def take(self, proof: bytes, issued_at: float, *, since: float) -> bool:
        """Takes a proof, unless it was taken before or may have been.

        Args:
            proof: What tells it from all others.
            issued_at: When it was made, by its own word.
            since: What is older is not asked for any more, and forgotten.
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
            # The clock may be put back, and what is forgotten be asked for again.
            self._floor = max(self._floor, second)


class ProofCheck:
    """Checks the proofs that come to one server.

    Args:
        verifier: Verifies their signatures.
        algorithms: Those that are allowed; asymmetric ones.
        nonces: Makes nonces; with it each proof needs one. `None`: none is asked for.
        replays: Remembers what was taken.
    """

    def __init__(
        self,
        verifier: Verifier,
        *,
        algorithms: Collection[str] = VERIFIED_ALGORITHMS,
        nonces: Nonces | None = None,
        replays: Replays | None = None,
    ) -> None:
        self.algorithms: Final = tuple(algorithms)
        """What metadata and challenges say of them."""
        self._verifier: Final = verifier
        self._nonces: Final = nonces
        self._replays: Final = Replays() if replays is None else replays

    def check(
        self, proofs: Sequence[str], *, method: str, urls: Sequence[str], now: float, access_token: str | None = None
    ) -> str:
        """Checks the proof of one request, which is taken with it.

        Args:
            proofs: The values of all `DPoP` headers: it has to be one.
            method: Of the request.
            urls: The request's own, as its client may know it; queries make no difference.
            now: Seconds since the epoch.
            access_token: The token that came along; `None` at the token endpoint.

        Returns:
            The thumbprint of the key, which the token has to be bound to.

        Raises:
            NonceWanted: It needs the nonce that the error has.
            InvalidProof: It proves nothing.
        """
        if len(proofs) != 1:
            raise InvalidProof(
                f"there have to be one DPoP proof, and are {len(proofs)}" if proofs else "the DPoP proof is missing"
            )
        try:
            signed = read_signed(proofs[0], algorithms=self.algorithms)
        except InvalidValue as bad:
            raise InvalidProof(f"the DPoP proof cannot be used: {bad.message}") from None
        jwk, key = _key(signed)
        if not self._verifier.verify(jwk, signed.algorithm, signed.data, signed.signature):
            raise InvalidProof("the signature of the DPoP proof is wrong")
        claims = signed.claims
        _check_request(claims, method, urls)
        if access_token is not None and claims.get("ath") != token_hash(access_token):
            raise InvalidProof("the DPoP proof is about another access token")
        self._check_time(claims, key, now)
        return key

    def _check_time(self, claims: JsonObject, key: str, now: float) -> None:
        issued_at, id, nonce = claims.get("iat"), claims.get("jti"), claims.get("nonce")
        if self._nonces is not None and not (isinstance(nonce, str) and self._nonces.is_current(nonce, now)):
            raise NonceWanted(self._nonces.current(now))
        if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
            raise InvalidProof("the DPoP proof has no jti that can be used")
        if isinstance(issued_at, bool) or not isinstance(issued_at, int | float):
            raise InvalidProof("the DPoP proof does not say when it was made")
        if not now - _WINDOW <= issued_at <= now + _WINDOW:
            raise InvalidProof("the DPoP proof is too old, or from the future")
        # An id is its key's own affair: nobody can use up those of others.
        known_by = hashlib.sha256(f"{key} {id}".encode()).digest()[:16]
        if not self._replays.take(known_by, issued_at, since=now - _WINDOW):
            raise InvalidProof("the DPoP proof was used before")


def _key(signed: Signed) -> tuple[JsonObject, str]:
    """The key in the header, and its thumbprint."""
    if signed.kind != _KIND:
        raise InvalidProof(f"the DPoP proof is none: its typ is not {_KIND}")
    jwk = signed.header.get("jwk")
    if not isinstance(jwk, dict) or not _PRIVATE.isdisjoint(jwk):
        raise InvalidProof("the DPoP proof has no public key in its header")
    try:
        return jwk, thumbprint(jwk)
    except LocalProtocolError:
        raise InvalidProof("the key of the DPoP proof is none of EC, OKP or RSA") from None


def _check_request(claims: JsonObject, method: str, urls: Sequence[str]) -> None:
    if claims.get("htm") != method:
        raise InvalidProof("the DPoP proof is about another method")
    target = claims.get("htu")
    if not isinstance(target, str) or _address(target) not in {_address(url) for url in urls}:
        raise InvalidProof("the DPoP proof is about another URL")


def _address(text: str) -> tuple[str, tuple[str, ...]]:
    """A URL as it is compared: without query and fragment, and in one spelling."""
    try:
        url = parse_url(text, what="URL of a request")
    except UnsafeUrl:
        return ("", (text,))
    # A slash at the end is kept: it is another path.
    return (url.origin, (*url.segments, "") if url.path.endswith("/") and url.segments else url.segments)
