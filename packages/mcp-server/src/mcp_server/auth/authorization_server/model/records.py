"""Rows of grants, codes and tokens. All functions run within a transaction of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.auth.authorization_server.model.secrets import digest

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "Code",
    "Grant",
    "Refresh",
    "add_access",
    "add_code",
    "add_grant",
    "add_refresh",
    "bind_grant",
    "find_access",
    "find_code",
    "find_grant",
    "find_refresh",
    "prolong_grant",
    "revoke_access",
    "revoke_grant",
    "use_code",
    "use_refresh",
]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Grant(FieldValue):
    """The access that a user granted to a client, or that a client has without a user."""

    id: int
    """The id in the store."""
    client_id: str
    """The client that has the grant."""
    subject: str
    """The user; the client itself for a grant without a user."""
    scope: str
    """The granted scope."""
    resource: str
    """The server that the grant is valid for."""
    auth_time: float | None
    """The time when the user logged in, in seconds since the epoch."""
    key_id: str | None
    """The thumbprint of the key that the refresh tokens are bound to."""
    revoked: bool
    """Whether the grant and all of its tokens are revoked."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Code(FieldValue):
    """An authorization code. authlib reads the fields by their names."""

    digest: str
    """The digest of the code."""
    grant: Grant
    """The grant of the code."""
    redirect_uri: str | None
    """The redirect URI of the request, which the token request must repeat; `None` if the request had none."""
    code_challenge: str
    """The code challenge of PKCE, with the method S256."""
    key_id: str | None
    """The thumbprint of the key that the client must prove, `dpop_jkt`."""
    used: bool
    """Whether the code was used."""
    expires_at: float
    """The expiration time, in seconds since the epoch."""

    @property
    def code_challenge_method(self) -> str:
        """The method of the code challenge, for authlib."""
        return "S256"

    def get_redirect_uri(self) -> str | None:
        """Return the redirect URI, for authlib."""
        return self.redirect_uri

    def get_scope(self) -> str:
        """Return the scope, for authlib."""
        return self.grant.scope


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Refresh(FieldValue):
    """A refresh token."""

    digest: str
    """The digest of the token."""
    grant: Grant
    """The grant of the token."""
    used: bool
    """Whether the token was replaced by a new one."""
    expires_at: float
    """The expiration time, in seconds since the epoch."""

    def check_client(self, client: object) -> bool:
        """Return whether the token was issued to a client, for authlib."""
        return getattr(client, "client_id", None) == self.grant.client_id

    def get_scope(self) -> str:
        """Return the scope, for authlib."""
        return self.grant.scope


# --- grants ----------------------------------------------------------------------------------------------------------


def add_grant(
    connection: sqlite3.Connection,
    *,
    client_id: str,
    subject: str,
    scope: str,
    resource: str,
    auth_time: float | None,
    expires_at: float,
) -> Grant:
    """Store a new grant, and return it."""
    cursor = connection.execute(
        "INSERT INTO grants (client_id, subject, scope, resource, auth_time, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        (client_id, subject, scope, resource, auth_time, expires_at),
    )
    return find_grant(connection, int(cursor.lastrowid or 0))


def find_grant(connection: sqlite3.Connection, id: int) -> Grant:
    """Return the grant with an id from another row. It exists as long as that row."""
    row = connection.execute(
        "SELECT id, client_id, subject, scope, resource, auth_time, key_id, revoked FROM grants WHERE id = ?", (id,)
    ).fetchone()
    return Grant(
        id=row[0],
        client_id=row[1],
        subject=row[2],
        scope=row[3],
        resource=row[4],
        auth_time=row[5],
        key_id=row[6],
        revoked=bool(row[7]),
    )


def bind_grant(connection: sqlite3.Connection, id: int, key_id: str) -> None:
    """Bind the future refresh tokens of a grant to a key: they need a proof with this key."""
    connection.execute("UPDATE grants SET key_id = ? WHERE id = ?", (key_id, id))


def prolong_grant(connection: sqlite3.Connection, id: int, expires_at: float) -> None:
    """Extend the expiration time of a grant to at least `expires_at`."""
    connection.execute("UPDATE grants SET expires_at = max(expires_at, ?) WHERE id = ?", (expires_at, id))


def revoke_grant(connection: sqlite3.Connection, id: int) -> None:
    """Revoke a grant with all of its codes and tokens."""
    connection.execute("UPDATE grants SET revoked = 1 WHERE id = ?", (id,))


# --- codes -----------------------------------------------------------------------------------------------------------


def add_code(
    connection: sqlite3.Connection,
    code: str,
    *,
    grant: Grant,
    redirect_uri: str,
    redirect_uri_sent: bool,
    code_challenge: str,
    key_id: str | None,
    expires_at: float,
) -> None:
    """Store a code."""
    connection.execute(
        "INSERT INTO codes (digest, grant_id, redirect_uri, redirect_uri_sent, code_challenge, key_id, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (digest(code), grant.id, redirect_uri, redirect_uri_sent, code_challenge, key_id, expires_at),
    )


def find_code(connection: sqlite3.Connection, code: str) -> Code | None:
    """Return a code, even if it is used or expired, or `None` if it is unknown."""
    row = connection.execute(
        "SELECT digest, grant_id, redirect_uri, redirect_uri_sent, code_challenge, key_id, used, expires_at"
        " FROM codes WHERE digest = ?",
        (digest(code),),
    ).fetchone()
    if row is None:
        return None
    return Code(
        digest=row[0],
        grant=find_grant(connection, row[1]),
        redirect_uri=row[2] if row[3] else None,
        code_challenge=row[4],
        key_id=row[5],
        used=bool(row[6]),
        expires_at=row[7],
    )


def use_code(connection: sqlite3.Connection, code: Code) -> None:
    """Mark a code as used."""
    connection.execute("UPDATE codes SET used = 1 WHERE digest = ?", (code.digest,))


# --- tokens ----------------------------------------------------------------------------------------------------------


def add_refresh(connection: sqlite3.Connection, token: str, *, grant: Grant, expires_at: float) -> None:
    """Store a refresh token."""
    connection.execute(
        "INSERT INTO refresh_tokens (digest, grant_id, expires_at) VALUES (?, ?, ?)",
        (digest(token), grant.id, expires_at),
    )


def find_refresh(connection: sqlite3.Connection, token: str) -> Refresh | None:
    """Return a refresh token, even if it is used or expired, or `None` if it is unknown."""
    row = connection.execute(
        "SELECT digest, grant_id, used, expires_at FROM refresh_tokens WHERE digest = ?", (digest(token),)
    ).fetchone()
    if row is None:
        return None
    return Refresh(
        digest=row[0],
        grant=find_grant(connection, row[1]),
        used=bool(row[2]),
        expires_at=row[3],
    )


def use_refresh(connection: sqlite3.Connection, refresh: Refresh) -> None:
    """Mark a refresh token as replaced. Its row remains, so that another use of it is detected."""
    connection.execute("UPDATE refresh_tokens SET used = 1 WHERE digest = ?", (refresh.digest,))


def add_access(connection: sqlite3.Connection, id: str, *, grant: Grant, expires_at: float) -> None:
    """Store the id of an access token."""
    connection.execute(
        "INSERT INTO access_tokens (id, grant_id, expires_at) VALUES (?, ?, ?)", (id, grant.id, expires_at)
    )


def find_access(connection: sqlite3.Connection, id: str, *, now: float) -> Grant | None:
    """Return the grant of an access token, or `None` if the token is unknown, expired or revoked."""
    row = connection.execute(
        "SELECT grant_id FROM access_tokens WHERE id = ? AND expires_at > ? AND NOT revoked", (id, now)
    ).fetchone()
    grant = None if row is None else find_grant(connection, row[0])
    return None if grant is None or grant.revoked else grant


def revoke_access(connection: sqlite3.Connection, id: str) -> None:
    """Revoke an access token. Introspection and this server's verifier detect the revocation."""
    connection.execute("UPDATE access_tokens SET revoked = 1 WHERE id = ?", (id,))
