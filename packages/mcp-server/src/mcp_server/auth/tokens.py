"""The interface between a resource server and a verifier of access tokens, and a cache of verified tokens.

The verification of a signature costs fifty times as much as the rest of a request, and an introspection request a
thousand times as much. A client sends the same token with each request, so results are cached for a while.
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
"""The maximum number of cached tokens: about 10 MB."""


class TokensUnavailable(McpError):
    """Access tokens cannot be verified at present. The client receives status 503, because its token may be valid."""


class TokenVerifier(Protocol):
    """A verifier of access tokens.

    `verify` runs on the loop of the host: trio, or asyncio. A verifier that is always written for the same async library
    has an attribute `async_library` with its name, `"trio"` or `"asyncio"`.
    """

    async def verify(self, token: str) -> AccessToken:
        """Verify that an access token was issued by its issuer, and return its content.

        The caller checks the audience and the expiration time.

        Args:
            token: The access token, as received.

        Raises:
            InvalidToken: The issuer did not issue this token.
            TokensUnavailable: The token cannot be verified at present.
        """
        ...


def digest_of(token: str) -> bytes:
    """Return the key of a token in the cache. The token itself is not stored."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class KnownTokens:
    """A cache of verified tokens.

    Args:
        seconds: Time for which an entry is valid, in seconds.
        limit: The maximum number of entries. Above it, the oldest entry is removed.
    """

    def __init__(self, seconds: float, *, limit: int = _KNOWN) -> None:
        self._seconds: Final = seconds
        self._limit: Final = limit
        self._known: Final[dict[bytes, tuple[float, AccessToken | None]]] = {}

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._known)

    def find(self, digest: bytes) -> tuple[AccessToken | None] | None:
        """Return the entry of a token in a tuple, where `None` is an invalid token; `None` without an entry."""
        entry = self._known.get(digest)
        if entry is None:
            return None
        if trio.current_time() >= entry[0]:
            del self._known[digest]
            return None
        return (entry[1],)

    def learn(self, digest: bytes, token: AccessToken | None) -> None:
        """Store the result for a token: its content, or `None` for an invalid token."""
        self._known.pop(digest, None)
        self._known[digest] = trio.current_time() + self._seconds, token
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]

    def clear(self) -> None:
        """Remove all entries."""
        self._known.clear()
