"""Grants, codes and tokens, as rows. All functions run within a transaction of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

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


@attrs.frozen(kw_only=True)
class Grant:
    """What a person gave a client, or a client has by itself."""

    id: int
    """In the store."""
    client_id: str
    """Who has it."""
    subject: str
    """Who gave it; the client itself, where no person did."""
    scope: str
    """What was given."""
    resource: str
    """For which server."""
    auth_time: float | None
    """When the person logged in, in seconds since the epoch."""
    key_id: str | None
    """The thumbprint of the key that its refresh tokens are bound to."""
    revoked: bool
    """It is over, and so are all of its tokens."""


@attrs.frozen(kw_only=True)
class Code:
    """An authorization code. The names of fields are what authlib reads."""

    digest: str
    """Of the code."""
    grant: Grant
    """What it stands for."""
    redirect_uri: str | None
    """The one that was sent with the request, which has to be repeated; `None` if there was none."""
    code_challenge: str
    """For PKCE, by S256."""
    key_id: str | None
    """The thumbprint of the key that the client has to prove, `dpop_jkt`."""
    used: bool
    """It was used already."""
    expires_at: float
    """In seconds since the epoch."""

    @property
    def code_challenge_method(self) -> str:
        """For authlib."""
        return "S256"

    def get_redirect_uri(self) -> str | None:
        """For authlib."""
        return self.redirect_uri

    def get_scope(self) -> str:
        """For authlib."""
        return self.grant.scope


@attrs.frozen(kw_only=True)
class Refresh:
    """A refresh token."""

    digest: str
    """Of the token."""
    grant: Grant
    """What it stands for."""
    used: bool
    """Another one took its place."""
    expires_at: float
    """In seconds since the epoch."""

    def check_client(self, client: object) -> bool:
        """For authlib, which found the token by its client."""
        return getattr(client, "client_id", None) == self.grant.client_id

    def get_scope(self) -> str:
        """For authlib."""
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
    """Makes one."""
    cursor = connection.execute(
        "INSERT INTO grants (client_id, subject, scope, resource, auth_time, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        (client_id, subject, scope, resource, auth_time, expires_at),
    )
    return find_grant(connection, int(cursor.lastrowid or 0))


def find_grant(connection: sqlite3.Connection, id: int) -> Grant:
    """The one with an id that another row has: it is there as long as that one."""
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
    """From now on its refresh tokens need a proof with this key."""
    connection.execute("UPDATE grants SET key_id = ? WHERE id = ?", (key_id, id))


def prolong_grant(connection: sqlite3.Connection, id: int, expires_at: float) -> None:
    """It is kept until then, at least."""
    connection.execute("UPDATE grants SET expires_at = max(expires_at, ?) WHERE id = ?", (expires_at, id))


def revoke_grant(connection: sqlite3.Connection, id: int) -> None:
    """It is over, with all of its codes and tokens."""
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
    """Keeps one."""
    connection.execute(
        "INSERT INTO codes (digest, grant_id, redirect_uri, redirect_uri_sent, code_challenge, key_id, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (digest(code), grant.id, redirect_uri, redirect_uri_sent, code_challenge, key_id, expires_at),
    )


def find_code(connection: sqlite3.Connection, code: str) -> Code | None:
    """One, used or expired though it may be."""
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
    """It cannot be used again."""
    connection.execute("UPDATE codes SET used = 1 WHERE digest = ?", (code.digest,))


# --- tokens ----------------------------------------------------------------------------------------------------------


def add_refresh(connection: sqlite3.Connection, token: str, *, grant: Grant, expires_at: float) -> None:
    """Keeps one."""
    connection.execute(
        "INSERT INTO refresh_tokens (digest, grant_id, expires_at) VALUES (?, ?, ?)",
        (digest(token), grant.id, expires_at),
    )


def find_refresh(connection: sqlite3.Connection, token: str) -> Refresh | None:
    """One, used or expired though it may be."""
    row = connection.execute(
        "SELECT digest, grant_id, used, expires_at FROM refresh_tokens WHERE digest = ?", (digest(token),)
    ).fetchone()
    if row is None:
        return None
    return Refresh(digest=row[0], grant=find_grant(connection, row[1]), used=bool(row[2]), expires_at=row[3])


def use_refresh(connection: sqlite3.Connection, refresh: Refresh) -> None:
    """Another one took its place. It is kept, so that it is noticed when it comes again."""
    connection.execute("UPDATE refresh_tokens SET used = 1 WHERE digest = ?", (refresh.digest,))


def add_access(connection: sqlite3.Connection, id: str, *, grant: Grant, expires_at: float) -> None:
    """Keeps the id of one."""
    connection.execute(
        "INSERT INTO access_tokens (id, grant_id, expires_at) VALUES (?, ?, ?)", (id, grant.id, expires_at)
    )


def find_access(connection: sqlite3.Connection, id: str, *, now: float) -> Grant | None:
    """The grant of an access token that is good yet."""
    row = connection.execute(
        "SELECT grant_id FROM access_tokens WHERE id = ? AND expires_at > ? AND NOT revoked", (id, now)
    ).fetchone()
    grant = None if row is None else find_grant(connection, row[0])
    return None if grant is None or grant.revoked else grant


def revoke_access(connection: sqlite3.Connection, id: str) -> None:
    """It is good no longer, wherever somebody asks."""
    connection.execute("UPDATE access_tokens SET revoked = 1 WHERE id = ?", (id,))
