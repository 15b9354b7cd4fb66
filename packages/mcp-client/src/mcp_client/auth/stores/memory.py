"""A credential store in memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import trio

from mcp_client.auth.stores.locks import TaskLocks
from mcp_client.auth.stores.records import check_client, check_tokens
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.owner_task import enterable_from_asyncio

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.oauth.records import ClientRecord, TokenRecord
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["MemoryStore"]


class MemoryStore:
    """A store with its own lifetime: the default. It can serve several servers, in one run of trio."""

    async_library: ClassVar[AsyncLibrary] = "trio"
    """Its methods run on trio. asyncio tasks can call them too."""

    def __init__(self) -> None:
        self._tokens: Final[dict[str, TokenRecord]] = {}
        self._clients: Final[dict[str, ClientRecord]] = {}
        self._locks: Final = TaskLocks()

    @allow_asyncio
    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """Return the tokens for the MCP server; `None` if not found."""
        await trio.lowlevel.checkpoint()
        return self._tokens.get(server_url)

    @allow_asyncio
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """Store tokens, or delete them with `None`."""
        check_tokens(server_url, tokens)
        await trio.lowlevel.checkpoint()
        if tokens is None:
            self._tokens.pop(server_url, None)
        else:
            self._tokens[server_url] = tokens

    @allow_asyncio
    async def load_client(self, issuer: str) -> ClientRecord | None:
        """Return the client for the authorization server; `None` if not found."""
        await trio.lowlevel.checkpoint()
        return self._clients.get(issuer)

    @allow_asyncio
    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """Store a client, or delete it with `None`."""
        check_client(issuer, client)
        await trio.lowlevel.checkpoint()
        if client is None:
            self._clients.pop(issuer, None)
        else:
            self._clients[issuer] = client

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Return the lock of the server."""
        return enterable_from_asyncio(partial(self._locks.held, server_url), "credential store lock")
