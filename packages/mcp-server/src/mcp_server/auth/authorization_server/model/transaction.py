"""One transaction of the protocol: a connection to the store, and the current time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.oauth.access_token import names_resource
from mcp_server.auth.authorization_server.model.client import Client
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind
from mcp_server.auth.authorization_server.model.messages import OAuthRequestRejected
from mcp_server.auth.authorization_server.model.secrets import digest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.model.settings import Settings

__all__ = ["Session"]


@attrs.define(kw_only=True)
class Session:
    """The context of the functions of one transaction."""

    connection: sqlite3.Connection
    """The connection to the store."""
    settings: Settings
    """The settings of the authorization server."""
    now: float
    """The time of the transaction, in seconds since the epoch."""
    client_keys: JsonObject | None = None
    """The public keys of the client that sent the request, as a JWK set, if they are published at its `jwks_uri`."""

    def client(self, client_id: str) -> Client | None:
        """Return the client with an id, or `None` if it is unknown."""
        configured = self.settings.clients.get(client_id)
        if configured is not None:
            return configured
        row = self.connection.execute(
            "SELECT description FROM clients WHERE client_id = ? AND expires_at > ?", (client_id, self.now)
        ).fetchone()
        return None if row is None else Client.from_json(row[0])

    def keep_client(self, client: Client) -> None:
        """Extend the lifetime of a dynamically registered client that is in use."""
        if client.kind is RegistrationKind.DYNAMIC:
            self.connection.execute(
                "UPDATE clients SET expires_at = ? WHERE client_id = ?",
                (self.now + self.settings.lifetimes.client, client.client_id),
            )

    def resource(self, parameters: Mapping[str, str]) -> str:
        """Return the server that a token is requested for.

        Raises:
            Refused: No tokens are issued for the resource, or the request does not name one of several. Spec: RFC 8707
                section 2
        """
        requested = parameters.get("resource")
        if requested is None and len(self.settings.resources) == 1:
            return self.settings.resources[0]
        if requested is None:
            raise OAuthRequestRejected("invalid_target", "The request must name a resource.")
        named = next((each for each in self.settings.resources if names_resource(requested, each)), None)
        if named is None:
            raise OAuthRequestRejected("invalid_target")
        return named

    def first_time(self, what: str, *, until: float) -> bool:
        """Return whether a text occurs for the first time, and remember it until then (seconds since the epoch)."""
        cursor = self.connection.execute(
            "INSERT INTO seen VALUES (?, ?) ON CONFLICT (digest) DO NOTHING", (digest(what), until)
        )
        return cursor.rowcount > 0
