"""The file of `mcp_server.stores.sqlite.sessions`: made, recognised, and kept for one process."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import suppress
from typing import Final

from mcp_server.stores.sessions import StoreError

__all__ = ["described", "opened"]

_APPLICATION: Final = int.from_bytes(b"MCPs")
"""Tells our files from those of others; `PRAGMA application_id`."""

_VERSION: Final = 2
"""What the tables below are; `PRAGMA user_version`. Files of an earlier version are converted when they are opened."""

_SESSIONS: Final = """
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        principal TEXT,
        revision TEXT NOT NULL,
        log_level TEXT,
        used_at REAL NOT NULL
    );
    CREATE INDEX sessions_by_use ON sessions (used_at);
    CREATE TABLE clients (
        session INTEGER PRIMARY KEY,
        client TEXT NOT NULL
    );
    CREATE TABLE subscriptions (
        session INTEGER NOT NULL,
        uri BLOB NOT NULL,
        PRIMARY KEY (session, uri)
    ) WITHOUT ROWID;
    CREATE INDEX subscriptions_by_uri ON subscriptions (uri);
    CREATE TABLE notifications (
        place INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        method TEXT NOT NULL,
        uri BLOB NOT NULL
    );
    CREATE UNIQUE INDEX notifications_by_session ON notifications (session, method, uri);
    CREATE TABLE streams (
        session INTEGER NOT NULL,
        stream INTEGER NOT NULL,
        last INTEGER NOT NULL,
        standalone INTEGER NOT NULL,
        over INTEGER NOT NULL,
        PRIMARY KEY (session, stream)
    ) WITHOUT ROWID;
    CREATE TABLE owed (
        session INTEGER NOT NULL,
        stream INTEGER NOT NULL,
        id TEXT NOT NULL,
        place INTEGER NOT NULL,
        PRIMARY KEY (session, stream, id)
    ) WITHOUT ROWID;
"""
# SQLite writes a row as a whole, so what clients can make large or many has rows of its own: a change costs what it changes.

_EVENTS: Final = """
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


_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "free space on its disk",
    sqlite3.SQLITE_IOERR: "look for space and faults on its disk",
    sqlite3.SQLITE_READONLY: "make the file and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "look whether the file and its directory are there, and may be read and written",
    sqlite3.SQLITE_CORRUPT: "use another file, and look for faults on its disk",
}
"""What to do about an error, by its primary code."""


def described(error: Exception) -> str:
    """Return what an error of a file says, and what to do about it where that is known."""
    code = getattr(error, "sqlite_errorcode", None)
    advice = None if code is None else _ADVICE.get(code & 0xFF)
    return str(error) if advice is None else f"{error}; {advice}"


def opened(path: str) -> sqlite3.Connection:
    """Opens a file, or makes it, and keeps everybody else out. Raises `StoreError`."""
    try:
        # Before SQLite does it, so that nobody else can read it at any time; its other files take over the mode. A file
        # that is there must not be opened by us: to close it would undo all locks that this process has on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        _check_writable(path)
        # Statements run in the thread of the store, which is another one.
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        _check_writable(path)
        raise StoreError(f"the store {path} cannot be opened: {described(error)}") from error
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
        raise StoreError(f"the store {path} cannot be opened: {described(error)}") from error


def _check_writable(path: str) -> None:
    # SQLite opens a file that is read-only, or tells of an I/O error, and another file has to be made beside it.
    for place in (path, os.path.dirname(path)):
        if os.path.exists(place) and not os.access(place, os.W_OK):
            raise StoreError(
                f"the store {path} cannot be opened: {place} is read-only for this user: "
                "make the file and its directory writable, or use another file"
            )


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in an empty file, or convert those of an earlier version.

    Raises:
        StoreError: The file is not ours, or of a later version.
    """
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == _APPLICATION:
        if not 1 <= version <= _VERSION:
            raise StoreError(
                f"the store {path} has format {version}, and this version of mcp_server reads formats up to {_VERSION}: "
                "use the version that made it, or another file"
            )
        try:
            for convert in _CONVERSIONS[version - 1 :]:
                convert(connection)
        except ValueError as error:
            raise StoreError(
                f"the store {path} of format {version} cannot be converted: {error}; it is left as it was: "
                "use the version that made it, or another file"
            ) from error
        _execute(connection, _LATER)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        return
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path} is a database of something else, and is left as it is: use another file")
    _execute(connection, _SESSIONS + _EVENTS + _LATER)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _give_rows(connection: sqlite3.Connection) -> None:
    """Convert version 1, where subscriptions and owed requests were lists within the rows of sessions and streams."""
    _execute(
        connection,
        """
        DROP INDEX sessions_by_use;
        ALTER TABLE sessions RENAME TO old_sessions;
        ALTER TABLE streams RENAME TO old_streams
        """,
    )
    _execute(connection, _SESSIONS)
    _execute(
        connection,
        """
        INSERT INTO sessions SELECT key, id, principal, revision, log_level, used_at FROM old_sessions;
        INSERT INTO clients SELECT key, client FROM old_sessions;
        INSERT INTO streams SELECT session, stream, last, standalone, over FROM old_streams
        """,
    )
    for key, subscriptions in connection.execute("SELECT key, subscriptions FROM old_sessions"):
        uris: list[str] = json.loads(subscriptions)
        rows = [(key, uri.encode("utf-8", "surrogatepass")) for uri in uris]
        connection.executemany("INSERT OR IGNORE INTO subscriptions VALUES (?, ?)", rows)
    for session, stream, owed in connection.execute("SELECT session, stream, owed FROM old_streams"):
        ids = [(session, stream, json.dumps(id), place) for place, id in enumerate(json.loads(owed))]
        connection.executemany("INSERT OR IGNORE INTO owed VALUES (?, ?, ?, ?)", ids)
    _execute(connection, "DROP TABLE old_sessions; DROP TABLE old_streams")


_CONVERSIONS: Final = (_give_rows,)
"""What makes each version from the one before, the first from version 1. All of it happens in one transaction."""


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    # One by one: `executescript` would end the transaction.
    for statement in statements.split(";"):
        connection.execute(statement)


def _number(connection: sqlite3.Connection, query: str) -> int:
    found: tuple[int] = connection.execute(query).fetchone()
    return found[0]
