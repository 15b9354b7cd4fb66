"""The file of `mcp_server._store_sqlite`: made, recognised, and kept for one process."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from typing import Final

from mcp_server._stores import StoreError

__all__ = ["opened"]

_APPLICATION: Final = int.from_bytes(b"MCPs")
"""Tells our files from those of others; `PRAGMA application_id`."""

_VERSION: Final = 1
"""What the tables below are; `PRAGMA user_version`."""

_TABLES: Final = """
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        principal TEXT,
        revision TEXT NOT NULL,
        client TEXT NOT NULL,
        log_level TEXT,
        subscriptions TEXT NOT NULL,
        used_at REAL NOT NULL
    );
    CREATE INDEX sessions_by_use ON sessions (used_at);
    CREATE TABLE streams (
        session INTEGER NOT NULL,
        stream INTEGER NOT NULL,
        last INTEGER NOT NULL,
        owed TEXT NOT NULL,
        standalone INTEGER NOT NULL,
        over INTEGER NOT NULL,
        PRIMARY KEY (session, stream)
    ) WITHOUT ROWID;
    CREATE TABLE events (
        place INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        stream INTEGER NOT NULL,
        number INTEGER NOT NULL,
        data BLOB NOT NULL,
        answers TEXT
    );
    CREATE UNIQUE INDEX events_by_number ON events (session, stream, number);
"""

_LATER: Final = """
    CREATE TABLE IF NOT EXISTS tasks (
        id TEXT PRIMARY KEY,
        owner TEXT,
        created_at REAL NOT NULL,
        expires_at REAL,
        over INTEGER NOT NULL,
        size INTEGER NOT NULL,
        record TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS tasks_by_age ON tasks (owner, created_at, id);
    CREATE INDEX IF NOT EXISTS tasks_by_end ON tasks (expires_at) WHERE expires_at IS NOT NULL;
"""
"""What was added since: a file of the same format gets it when it is opened, and whoever does not know it is not disturbed."""


def opened(path: str) -> sqlite3.Connection:
    """Opens a file, or makes it, and keeps everybody else out. Raises `StoreError`."""
    try:
        # Before SQLite does it, so that nobody else can read it at any time; its other files take over the mode. A file
        # that is there must not be opened by us: to close it would undo all locks that this process has on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        # Statements run in the thread of the store, which is another one.
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the store {path} cannot be opened: {error}") from error
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        _check(connection, path)
        connection.execute("COMMIT")
        os.chmod(path, 0o600)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise StoreError(
                f"the store {path} is in use by another server; give each process a file of its own"
            ) from error
        raise StoreError(f"the store {path} cannot be opened: {error}") from error


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Makes the tables in an empty file; raises `StoreError` when the file is not ours."""
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == _APPLICATION and version == _VERSION:
        _execute(connection, _LATER)
        return
    if application == _APPLICATION:
        raise StoreError(
            f"the store {path} has format {version}, and this version of mcp_server reads format {_VERSION}: "
            "use the version that made it, or another file"
        )
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path} is a database of something else, and is left as it is: use another file")
    _execute(connection, _TABLES + _LATER)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    # One by one: `executescript` would end the transaction.
    for statement in statements.split(";"):
        connection.execute(statement)


def _number(connection: sqlite3.Connection, query: str) -> int:
    found: tuple[int] = connection.execute(query).fetchone()
    return found[0]
