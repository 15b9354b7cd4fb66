"""What every store of credentials is: `CredentialStore`, and what goes wrong in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["CredentialStore", "CredentialStoreError", "NoSecureKeyring", "UnreadableStore"]


class CredentialStoreError(McpError):
    """What is kept cannot be had, or cannot be kept. The sentence has no secret in it, and says what to do."""


class UnreadableStore(CredentialStoreError):
    """There is a store, and it cannot be decrypted or is not one of ours. It was left as it is."""


class NoSecureKeyring(CredentialStoreError):
    """The system has no keyring in which secrets are safe, or none that can be used from here."""


class CredentialStore(Protocol):
    """Keeps tokens by the MCP server that they are for, and clients by the authorization server that they are known to.

    Anything with these methods is one; `mcp_client.auth.stores.contract` checks whether it keeps the rules. A store may be
    used by many tasks at once. What it has of another version, or damaged, counts as nothing: it can be got anew.
    Whatever goes wrong is raised as `CredentialStoreError`.

    Spec: basic/authorization#token-theft, #authorization-server-binding
    """

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """What was saved last for the MCP server; `None` when there is nothing."""
        ...

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """Keeps tokens in place of those of before, in one go; `None` deletes them.

        A refresh token may be void as soon as the next one was given out. So whatever happens, the old record is there
        or the new one, never half of one. A call that is cancelled was made entirely or not at all.

        Args:
            server_url: The MCP server.
            tokens: Its tokens, whose `server_url` is this one.
        """
        ...

    async def load_client(self, issuer: str) -> ClientRecord | None:
        """The client that was saved last for the authorization server; `None` when there is none."""
        ...

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """Keeps the client in place of that of before, in one go; `None` deletes it.

        Args:
            issuer: The authorization server.
            client: The client, whose `issuer` is this one.
        """
        ...

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Keeps all others who want the same lock out until it is left: one login or refresh of a server at a time.

        Others are all tasks, and all processes that share what is kept. It is not reentrant. It may be held for as long
        as a person takes to log in; while it is held, everybody may load and save. Who waits may be cancelled, and one who
        dies leaves it.

        Args:
            server_url: The MCP server. Locks of different servers are different ones.
        """
        ...
