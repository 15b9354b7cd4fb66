"""The seam between a resource server and whoever knows what its access tokens are; and a memory of those that are known.

To verify a signature costs fifty times what all else of a request does, and a question to the authorization server a
thousand times. A client sends the same token with each request, so what was found out about it is kept for a while.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Protocol

import trio

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from mcp_core.oauth.access_token import AccessToken

__all__ = ["KnownTokens", "TokenVerifier", "TokensUnavailable", "digest_of"]

_KNOWN: Final = 10_000
"""Tokens that are remembered: some 10 MB at most."""


class TokensUnavailable(McpError):
    """Nobody can say at present what a token is. The client is answered 503, since its token may be good."""


class TokenVerifier(Protocol):
    """Finds out what an access token is."""

    async def verify(self, token: str) -> AccessToken:
        """What the token says, which is known to be the word of its issuer.

        For whom it is and when it ends is checked by the caller.

        Args:
            token: As it came.

        Raises:
            InvalidToken: It is no token of the issuer.
            TokensUnavailable: That cannot be found out at present.
        """
        ...


def digest_of(token: str) -> bytes:
    """What a token is remembered by. The token itself is not kept."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class KnownTokens:
    """Remembers what tokens are, for a while.

    Args:
        seconds: How long.
        limit: How many. With more, the one that was learned first is forgotten.
    """

    def __init__(self, seconds: float, *, limit: int = _KNOWN) -> None:
        self._seconds: Final = seconds
        self._limit: Final = limit
        self._known: Final[dict[bytes, tuple[float, AccessToken | None]]] = {}

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def find(self, digest: bytes) -> tuple[AccessToken | None] | None:
        """What is known of a token: one thing, which is `None` for one that is known to be none. `None`: nothing."""
        entry = self._known.get(digest)
        if entry is None:
            return None
        if trio.current_time() >= entry[0]:
            del self._known[digest]
            return None
        return (entry[1],)

    def learn(self, digest: bytes, token: AccessToken | None) -> None:
        """Remembers one."""
        self._known.pop(digest, None)
        self._known[digest] = trio.current_time() + self._seconds, token
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]

    def clear(self) -> None:
        """Forgets all."""
        self._known.clear()
