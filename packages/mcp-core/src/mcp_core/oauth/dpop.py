"""Demonstrating Proof of Possession (DPoP, RFC 9449): access tokens that are usable only with a key.

Each request carries a proof: a JWT that is signed with the key and names the request. A server may require a nonce in
the proof. It sends the nonce in a response, and the client repeats the request. The authorization server and the
resource server have separate nonces, so the client stores them by origin. Each response may contain a new nonce.

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
"""Maximum number of origins whose nonces are stored. A flow uses two."""
_ID_BYTES: Final = 16


class Proof(Protocol):
    """A method to prove, with each request, that the client has the key to which its tokens are bound."""

    @property
    def token_type(self) -> str:
        """The token type, which is also the scheme of the Authorization header."""
        ...

    @property
    def algorithm(self) -> str:
        """The signature algorithm, as in `dpop_signing_alg_values_supported`."""
        ...

    @property
    def key_id(self) -> str:
        """The thumbprint of the key (RFC 7638), to which a code can be bound."""
        ...

    def headers(self, method: str, url: str, *, now: float, access_token: str | None = None) -> Pairs:
        """Return the headers with the proof for one request."""
        ...

    def learn(self, url: str, headers: Pairs) -> bool:
        """Record the data of a response for the next proof. Return whether they differ from those in use."""
        ...


def token_hash(access_token: str) -> str:
    """Return the hash of a token for its proof, `ath`. Spec: RFC 9449 section 4.2"""
    return base64url(hashlib.sha256(access_token.encode("ascii")).digest())


class Dpop:
    """A generator of DPoP proofs with one key. Use one instance per key, because it stores the nonces of both servers.

    Args:
        signer: The key, which must be asymmetric.
        random_bytes: Returns the given number of unpredictable bytes.

    Raises:
        LocalProtocolError: The key is not asymmetric.
    """

    def __init__(self, signer: Signer, random_bytes: Callable[[int], bytes]) -> None:
        if signer.algorithm not in ASYMMETRIC_ALGORITHMS:
            raise LocalProtocolError(f"algorithm {signer.algorithm!a} is not asymmetric: DPoP requires a public key")
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
        """The algorithm of the signer."""
        return self._signer.algorithm

    @property
    def key_id(self) -> str:
        """The thumbprint of the key, as in `cnf.jkt` and `dpop_jkt`."""
        return thumbprint(self._jwk)

    def headers(self, method: str, url: str, *, now: float, access_token: str | None = None) -> Pairs:
        """Return the header with the proof for one request. Each call creates a new proof: send it only once.

        Args:
            method: The method of the request, for example `POST`.
            url: The URL of the request. Its query and fragment are not signed.
            now: Seconds since the epoch.
            access_token: The token of the request; `None` at the token endpoint.

        Raises:
            UnsafeUrl: The URL is invalid.
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
        """Record the nonce of a response for the next proofs for the same origin.

        Args:
            url: The URL of the request.
            headers: The headers of the response.

        Returns:
            Whether the response has a nonce other than the one in use. If so, the client may repeat, once, a request
            that was rejected because of the nonce.

        Raises:
            UnsafeUrl: The URL is invalid.
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
