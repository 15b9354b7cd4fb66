"""The tables of the protocol, and the deletion of expired rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

__all__ = ["TABLES", "sweep"]

TABLES: Final = """
    CREATE TABLE clients (
        client_id TEXT PRIMARY KEY,
        description TEXT NOT NULL,
        by_document INTEGER NOT NULL,
        learned_at REAL NOT NULL,
        fresh_until REAL NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX clients_by_end ON clients (expires_at);
    CREATE INDEX clients_by_age ON clients (by_document, learned_at);
    CREATE TABLE pending (
        digest TEXT PRIMARY KEY,
        client_id TEXT NOT NULL,
        redirect_uri TEXT NOT NULL,
        redirect_uri_sent INTEGER NOT NULL,
        state TEXT,
        scope TEXT NOT NULL,
        resource TEXT NOT NULL,
        prompts TEXT NOT NULL,
        code_challenge TEXT NOT NULL,
        key_id TEXT,
        created_at REAL NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX pending_by_end ON pending (expires_at);
    CREATE TABLE grants (
        id INTEGER PRIMARY KEY,
        client_id TEXT NOT NULL,
        subject TEXT NOT NULL,
        scope TEXT NOT NULL,
        resource TEXT NOT NULL,
        auth_time REAL,
        key_id TEXT,
        revoked INTEGER NOT NULL DEFAULT 0,
        expires_at REAL NOT NULL
    );
    CREATE INDEX grants_by_end ON grants (expires_at);
    CREATE TABLE codes (
        digest TEXT PRIMARY KEY,
        grant_id INTEGER NOT NULL REFERENCES grants ON DELETE CASCADE,
        redirect_uri TEXT NOT NULL,
        redirect_uri_sent INTEGER NOT NULL,
        code_challenge TEXT NOT NULL,
        key_id TEXT,
        used INTEGER NOT NULL DEFAULT 0,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX codes_by_grant ON codes (grant_id);
    CREATE TABLE refresh_tokens (
        digest TEXT PRIMARY KEY,
        grant_id INTEGER NOT NULL REFERENCES grants ON DELETE CASCADE,
        used INTEGER NOT NULL DEFAULT 0,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX refresh_tokens_by_grant ON refresh_tokens (grant_id);
    CREATE INDEX refresh_tokens_by_end ON refresh_tokens (expires_at);
    CREATE TABLE access_tokens (
        id TEXT PRIMARY KEY,
        grant_id INTEGER NOT NULL REFERENCES grants ON DELETE CASCADE,
        revoked INTEGER NOT NULL DEFAULT 0,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX access_tokens_by_grant ON access_tokens (grant_id);
    CREATE INDEX access_tokens_by_end ON access_tokens (expires_at);
    CREATE TABLE seen (
        digest TEXT PRIMARY KEY,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX seen_by_end ON seen (expires_at);
    CREATE TABLE signing_keys (
        id TEXT PRIMARY KEY,
        jwk TEXT NOT NULL,
        signs_until REAL NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
"""
"""A grant is the access that one user granted to one client, or that a client has without a user. Its codes and tokens
reference it, and end with it.

Bearer secrets (codes, tokens, ids of pending requests) are stored as digests."""

_SWEPT: Final = (
    ("clients", "client_id"),
    ("pending", "digest"),
    ("grants", "id"),
    ("refresh_tokens", "digest"),
    ("access_tokens", "id"),
    ("seen", "digest"),
)
_AT_ONCE: Final = 50
"""The maximum number of rows deleted from each table. A transaction adds fewer than ten, so the deletion keeps up."""


def sweep(connection: sqlite3.Connection, now: float) -> None:
    """Delete some of the expired rows. Each transaction that adds rows calls this function first."""
    for table, key in _SWEPT:
        connection.execute(
            f"DELETE FROM {table} WHERE {key} IN"  # noqa: S608  # names from the table above
            f" (SELECT {key} FROM {table} WHERE expires_at <= ? ORDER BY expires_at LIMIT {_AT_ONCE})",
            (now,),
        )
