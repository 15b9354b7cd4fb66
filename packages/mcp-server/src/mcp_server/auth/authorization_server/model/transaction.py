"""One transaction of the protocol: the store at a certain time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.oauth.access_token import names_resource
from mcp_server.auth.authorization_server.model.client import Client
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind
from mcp_server.auth.authorization_server.model.messages import Refused
from mcp_server.auth.authorization_server.model.secrets import digest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.model.settings import Settings

__all__ = ["Session"]


@attrs.define(kw_only=True)
class Session:
    """What the functions of a transaction work with."""

    connection: sqlite3.Connection
    """The store."""
    settings: Settings
    """What is fixed."""
    now: float
    """The time, in seconds since the epoch."""
    client_keys: JsonObject | None = None
    """The public keys of the client that makes the request, as a JWK set, if they had to be fetched."""

    def client(self, client_id: str) -> Client | None:
        """A client that is known here."""
        configured = self.settings.clients.get(client_id)
        if configured is not None:
            return configured
        row = self.connection.execute(
            "SELECT description FROM clients WHERE client_id = ? AND expires_at > ?", (client_id, self.now)
        ).fetchone()
        return None if row is None else Client.from_json(row[0])

    def keep_client(self, client: Client) -> None:
        """It is in use: if it registered itself, it is kept for long."""
        if client.kind is RegistrationKind.DYNAMIC:
            self.connection.execute(
                "UPDATE clients SET expires_at = ? WHERE client_id = ?",
                (self.now + self.settings.lifetimes.client, client.client_id),
            )

    def resource(self, parameters: Mapping[str, str]) -> str:
        """The server that a token is asked for.

        Raises:
            Refused: No tokens are issued for it, or there are several and none is named. Spec: RFC 8707 section 2
        """
        asked = parameters.get("resource")
        if asked is None and len(self.settings.resources) == 1:
            return self.settings.resources[0]
        if asked is None:
            raise Refused("invalid_target", "The request has to name a resource.")
        named = next((each for each in self.settings.resources if names_resource(asked, each)), None)
        if named is None:
            raise Refused("invalid_target")
        return named

    def first_time(self, what: str, *, until: float) -> bool:
        """Whether this is seen for the first time. It is remembered until then."""
        cursor = self.connection.execute(
            "INSERT INTO seen VALUES (?, ?) ON CONFLICT (digest) DO NOTHING", (digest(what), until)
        )
        return cursor.rowcount > 0
