"""Demonstrating Proof of Possession: a token that is of use only with a key (RFC 9449).

Each request carries a proof, a JWT that is signed with the key and names the request. A server may want a nonce of its
own in it: it says so in an answer, and the request is repeated. Authorization server and resource server have nonces of
their own each, so they are kept by origin; each answer may bring a new one.

Spec: RFC 9449; MCP extension io.modelcontextprotocol/dpop
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, Protocol

from mcp_core.errors import LocalProtocolError
from mcp_core.oauth.jws import ASYMMETRIC_ALGORITHMS, base64url, public_jwk, sign, thumbprint
from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.steps import Pairs

__all__ = ["DPOP", "Dpop", "Proof", "token_hash"]

DPOP: Final = "DPoP"
"""The scheme of the Authorization header, the token type, and the name of the header with the proof."""

_NONCE_HEADER: Final = "dpop-nonce"
_NONCE: Final = re.compile(r"[!#-\[\]-~]{1,1000}")
_ORIGINS: Final = 16
"""Origins whose nonces are kept. A flow meets two."""
_ID_BYTES: Final = 16


class Proof(Protocol):
    """A way to prove, with each request, that the client has the key that its tokens are bound to."""

    @property
    def token_type(self) -> str:
        """The token type, which is also the scheme of the Authorization header."""
        ...

    @property
    def algorithm(self) -> str:
        """How it signs, in the terms of `dpop_signing_alg_values_supported`."""
        ...

    @property
    def key_id(self) -> str:
        """The thumbprint of its key (RFC 7638), by which a code can be bound to it."""
        ...

    def headers(self, method: str, url: str, *, now: float, access_token: str | None = None) -> Pairs:
        """The headers that prove it for one request."""
        ...

    def learn(self, url: str, headers: Pairs) -> bool:
        """Takes from an answer what the next proof needs; whether it differs from what was used."""
        ...


def token_hash(access_token: str) -> str:
    """The hash of a token that its proof carries, `ath`. Spec: RFC 9449 section 4.2"""
    return base64url(hashlib.sha256(access_token.encode("ascii")).digest())


class Dpop:
    """Makes proofs with one key. One instance per key: it knows the nonces of both servers.

    Args:
        signer: The key. Asymmetric.
        random_bytes: Gives so many unpredictable bytes.

    Raises:
        LocalProtocolError: The key is no asymmetric one.
    """

    def __init__(self, signer: Signer, random_bytes: Callable[[int], bytes]) -> None:
        if signer.algorithm not in ASYMMETRIC_ALGORITHMS:
            raise LocalProtocolError(f"algorithm {signer.algorithm!a} is not asymmetric: DPoP needs a public key")
        self._signer: Final = signer
        self._random_bytes: Final = random_bytes
        self._jwk: Final = public_jwk(signer.jwk)
        self._nonces: Final[dict[str, str]] = {}

    @property
    def token_type(self) -> str:
        """`DPoP`."""
        return DPOP

    @property
    def algorithm(self) -> str:
        """The signer's."""
        return self._signer.algorithm

    @property
    def key_id(self) -> str:
        """The thumbprint of the key, as in `cnf.jkt` and `dpop_jkt`."""
        return thumbprint(self._jwk)

    def headers(self, method: str, url: str, *, now: float, access_token: str | None = None) -> Pairs:
        """The header with the proof for one request. Each call makes another one; none may be sent twice.

        Args:
            method: Of the request, as `POST`.
            url: Of the request; its query and fragment are not signed.
            now: Seconds since the epoch.
            access_token: The token that is sent along; `None` at the token endpoint.

        Raises:
            UnsafeUrl: The URL is none.
        """
        target = parse_url(url, what="URL of a request")
        claims: JsonObject = {
            "jti": base64url(self._random_bytes(_ID_BYTES)),
            "htm": method,
            "htu": f"{target.origin}{target.path or '/'}",
            "iat": int(now),
        }
        if access_token is not None:
            claims["ath"] = token_hash(access_token)
        nonce = self._nonces.get(target.origin)
        if nonce is not None:
            claims["nonce"] = nonce
        return ((DPOP, sign(claims, self._signer, header={"typ": "dpop+jwt", "jwk": self._jwk})),)

    def learn(self, url: str, headers: Pairs) -> bool:
        """Takes the nonce from an answer, for the next proofs for the same origin.

        Args:
            url: That the request went to.
            headers: Of the answer.

        Returns:
            Whether there was one other than the one that is used already. A request that was refused for the lack of it
            may then be repeated, once.

        Raises:
            UnsafeUrl: The URL is none.
        """
        origin = parse_url(url, what="URL of a request").origin
        given = [value for name, value in headers if name.lower() == _NONCE_HEADER]
        if len(given) != 1 or not _NONCE.fullmatch(given[0]) or self._nonces.get(origin) == given[0]:
            return False
        self._nonces.pop(origin, None)
        self._nonces[origin] = given[0]
        if len(self._nonces) > _ORIGINS:
            del self._nonces[next(iter(self._nonces))]
        return True
