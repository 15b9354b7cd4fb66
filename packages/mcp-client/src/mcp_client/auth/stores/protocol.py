"""The interface of credential stores, `CredentialStore`, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["CredentialStore", "CredentialStoreError", "NoSecureKeyring", "UnreadableStore"]


class CredentialStoreError(McpError):
    """Credentials cannot be loaded or stored. The message does not contain secrets, and states what to do."""


class UnreadableStore(CredentialStoreError):
    """The store exists, but cannot be decrypted or has another format. It is left unchanged."""


class NoSecureKeyring(CredentialStoreError):
    """The system does not have a keyring that protects secrets, or this process cannot use it."""


class CredentialStore(Protocol):
    """A store of tokens by MCP server, and of clients by authorization server.

    Any class with these methods is a store; `mcp_client.auth.stores.contract` checks its behavior. Many tasks may use a
    store concurrently. Records that are damaged or of another version count as absent, because they can be obtained
    again. All failures are raised as `CredentialStoreError`.

    The methods run on the library of the application: asyncio if an asyncio task opened the connection. A store that is
    always written for the same library has an attribute `async_library` with its name, `"trio"` or `"asyncio"`.

    Spec: basic/authorization#token-theft, #authorization-server-binding
    """

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """Return the tokens that were last saved for the MCP server; `None` if not found."""
        ...

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """Replace the stored tokens in one operation; `None` deletes them.

        A refresh token may become invalid as soon as its successor is issued. Therefore the store must contain either
        the old or the new record at any time, never a part of one. A cancelled call either took effect completely or
        not at all.

        Args:
            server_url: The MCP server.
            tokens: Its tokens, whose `server_url` is this one.

        Raises:
            CredentialStoreError: The tokens cannot be stored.
            LocalProtocolError: The tokens are for another server.
        """
        ...

    async def load_client(self, issuer: str) -> ClientRecord | None:
        """Return the client that was last saved for the authorization server; `None` if not found."""
        ...

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """Replace the stored client in one operation; `None` deletes it.

        Args:
            issuer: The authorization server.
            client: The client, whose `issuer` is this one.

        Raises:
            CredentialStoreError: The client cannot be stored.
            LocalProtocolError: The client belongs to another issuer.
        """
        ...

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Return a lock that permits one login or refresh at a time for a server.

        The lock excludes all other tasks, and all processes that share the store. It is not reentrant. It may be held
        as long as a user needs to log in. Meanwhile, other tasks and processes may load and save. A waiting task can be
        cancelled, and the lock of a process that dies is released.

        Args:
            server_url: The MCP server. Each server has its own lock.
        """
        ...
