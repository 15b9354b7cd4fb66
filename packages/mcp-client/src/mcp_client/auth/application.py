"""The store and the user agent of the application, each called on the async library that it is written for.

An attribute `async_library` of the object names the library, `"asyncio"` or `"trio"`. An object without the attribute is
written for the library of the application: asyncio if an asyncio task opened the connection.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.trio.async_library import asyncio_host, call_in, enter_in, library_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.auth.user_agents import Receiver, UserAgent
    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["ApplicationStore", "ApplicationUserAgent"]


class ApplicationStore:
    """A store of the application, for code on trio. Its methods are those of `CredentialStore`.

    Args:
        store: The store.
    """

    def __init__(self, store: CredentialStore) -> None:
        self._store: Final = store

    def check(self) -> None:
        """Check that the library of the store runs. Raises `WrongAsyncLibrary`."""
        asyncio_host(library_of(self._store))

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """Return the tokens of a server."""
        return await call_in(library_of(self._store), partial(self._store.load_tokens, server_url))

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """Replace the tokens of a server."""
        await call_in(library_of(self._store), partial(self._store.save_tokens, server_url, tokens))

    async def load_client(self, issuer: str) -> ClientRecord | None:
        """Return the client of an authorization server."""
        return await call_in(library_of(self._store), partial(self._store.load_client, issuer))

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """Replace the client of an authorization server."""
        await call_in(library_of(self._store), partial(self._store.save_client, issuer, client))

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Return the lock of a server."""
        return enter_in(library_of(self._store), partial(self._store.lock, server_url))


class ApplicationUserAgent:
    """A user agent of the application, for code on trio. Its methods are those of `UserAgent`.

    Args:
        user_agent: The user agent.
    """

    def __init__(self, user_agent: UserAgent) -> None:
        self._user_agent: Final = user_agent

    def check(self) -> None:
        """Check that the library of the user agent runs. Raises `WrongAsyncLibrary`."""
        asyncio_host(library_of(self._user_agent))

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        """Prepare to receive a redirect."""
        library = library_of(self._user_agent)
        async with enter_in(library, partial(self._user_agent.receive, port)) as receiver:
            yield _ApplicationReceiver(receiver, self._user_agent)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        """Prompt the user for a client id."""
        return await call_in(library_of(self._user_agent), partial(self._user_agent.ask_client, issuer, reason))


class _ApplicationReceiver:
    """A receiver of a user agent of the application."""

    def __init__(self, receiver: Receiver, user_agent: UserAgent) -> None:
        self._receiver: Final = receiver
        self._user_agent: Final = user_agent

    @property
    def redirect_uri(self) -> str:
        return self._receiver.redirect_uri

    async def open(self, url: str) -> None:
        await call_in(library_of(self._user_agent), partial(self._receiver.open, url))

    async def redirected(self) -> str:
        return await call_in(library_of(self._user_agent), self._receiver.redirected)
