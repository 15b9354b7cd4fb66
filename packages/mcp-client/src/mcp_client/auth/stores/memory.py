"""A store that forgets everything with the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_client.auth.stores.locks import TaskLocks
from mcp_client.auth.stores.records import check_client, check_tokens

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["MemoryStore"]


class MemoryStore:
    """Keeps credentials as long as it lives itself: the default. One serves several servers, and one run of trio."""

    def __init__(self) -> None:
        self._tokens: Final[dict[str, TokenRecord]] = {}
        self._clients: Final[dict[str, ClientRecord]] = {}
        self._locks: Final = TaskLocks()

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """See `CredentialStore`."""
        await trio.lowlevel.checkpoint()
        return self._tokens.get(server_url)

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """See `CredentialStore`."""
        check_tokens(server_url, tokens)
        await trio.lowlevel.checkpoint()
        if tokens is None:
            self._tokens.pop(server_url, None)
        else:
            self._tokens[server_url] = tokens

    async def load_client(self, issuer: str) -> ClientRecord | None:
        """See `CredentialStore`."""
        await trio.lowlevel.checkpoint()
        return self._clients.get(issuer)

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """See `CredentialStore`."""
        check_client(issuer, client)
        await trio.lowlevel.checkpoint()
        if client is None:
            self._clients.pop(issuer, None)
        else:
            self._clients[issuer] = client

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """See `CredentialStore`."""
        return self._locks.held(server_url)
