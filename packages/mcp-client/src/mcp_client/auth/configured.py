"""Authorization for the servers of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_client.auth.oauth import OAuth
from mcp_core.oauth.records import ClientRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.auth.user_agents import UserAgent
    from mcp_client.config import AuthConfig, ServerConfig

__all__ = ["client_records", "configured_auth"]


def client_records(known: AuthConfig | None) -> list[ClientRecord]:
    """Return the client that a configuration file names for a server, as `OAuth` accepts it."""
    if known is None or known.client_id is None:
        return []
    return [ClientRecord(client_id=known.client_id, issuer=None, client_secret=known.client_secret)]


def configured_auth(
    client_name: str, *, store: CredentialStore | None = None, user_agent: UserAgent | None = None
) -> Callable[[ServerConfig], OAuth | None]:
    """Return a value for `mcp_client.group.configured(auth=...)`: a function that creates an `OAuth` for each server.

        servers = configured(read_config(path), auth=configured_auth("Notebook reader", store=store))

    Each `OAuth` uses the client and the scopes in the configuration of its server. A server with an `Authorization`
    header in its configuration gets no `OAuth`.

    Args:
        client_name: The name of the client that the consent page shows to the user.
        store: The store for the credentials of all servers; `None` for a `MemoryStore` in each `OAuth`.
        user_agent: The interaction with the user; `None` for the browser of the system.
    """

    def of(server: ServerConfig) -> OAuth | None:
        if any(name.lower() == "authorization" for name in server.headers):
            return None
        known = server.auth
        return OAuth(
            client_name,
            store=store,
            user_agent=user_agent,
            credentials=client_records(known),
            scopes=None if known is None else known.scopes,
        )

    return of
