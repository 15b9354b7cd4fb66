"""Verification of this server's access tokens, for a resource server in the same process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from mcp_core.oauth.access_token import InvalidToken, read_access_token
from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.protocol.keys import open_token
from mcp_server.auth.tokens import digest_of

if TYPE_CHECKING:
    import sqlite3

    from mcp_core.oauth.access_token import AccessToken
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_server.auth.authorization_server.model.settings import Settings
    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["OwnTokens"]

_KNOWN: Final = 10_000
"""The maximum number of tokens with a cached signature check: about 10 MB."""


@attrs.define
class OwnTokens:
    """A `TokenVerifier` of this server's tokens. It queries the store each time, so it detects a revocation at once."""

    async_library: ClassVar[AsyncLibrary] = "trio"

    _settings: Settings
    _store: SqliteStore
    _known: dict[bytes, AccessToken] = attrs.field(factory=dict, init=False)

    async def verify(self, token: str) -> AccessToken:
        """Verify an access token. Raises `InvalidToken`."""
        digest = digest_of(token)
        found = await self._store.run(partial(self._find, token, self._known.get(digest)))
        self._known.pop(digest, None)
        if found is None:
            raise InvalidToken("the access token is unknown, expired or revoked")
        self._known[digest] = found
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return found

    def _find(self, token: str, known: AccessToken | None, connection: sqlite3.Connection) -> AccessToken | None:
        now = self._settings.clock()
        if known is None:
            claims = open_token(connection, token, now=now)
            if claims is None:
                return None
            known = read_access_token(claims)
        grant = records.find_access(connection, known.token_id or "", now=now)
        return None if grant is None else known
