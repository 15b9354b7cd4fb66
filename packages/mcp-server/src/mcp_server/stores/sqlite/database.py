"""The file of `mcp_server.stores.sqlite.sessions`: creation, recognition, and exclusive use by one process."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import suppress
from typing import Final

from mcp_server.stores.sessions import StoreError

__all__ = ["described", "opened"]

_APPLICATION: Final = int.from_bytes(b"MCPs")
"""Identifies the files of this store; `PRAGMA application_id`."""

_VERSION: Final = 4
"""The version of the tables below; `PRAGMA user_version`. Opening a file of an earlier version converts it."""

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
        worker TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (session, stream)
    ) WITHOUT ROWID;
    CREATE TABLE pending (
        session INTEGER NOT NULL,
        stream INTEGER NOT NULL,
        id TEXT NOT NULL,
        place INTEGER NOT NULL,
        PRIMARY KEY (session, stream, id)
    ) WITHOUT ROWID;
"""
# SQLite writes a row as a whole. Data that clients can make large or numerous has rows of its own, so that a small
# change writes little.

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
"""Tables added since. Opening a file of the same version adds them. Versions of mcp_server without them ignore them."""


_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "free space on its disk",
    sqlite3.SQLITE_IOERR: "check its disk for free space and faults",
    sqlite3.SQLITE_READONLY: "make the file and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "check that the file and its directory exist and are readable and writable",
    sqlite3.SQLITE_CORRUPT: "use another file, and check its disk for faults",
}
"""The remedy for an error, by its primary code."""


def described(error: Exception) -> str:
    """Return the text of an error of a file, with the remedy if one is known."""
    code = getattr(error, "sqlite_errorcode", None)
    advice = None if code is None else _ADVICE.get(code & 0xFF)
    return str(error) if advice is None else f"{error}; {advice}"


def opened(path: str) -> sqlite3.Connection:
    """Open a file for exclusive use, and create it if it does not exist. Raises `StoreError`."""
    try:
        # Create the file before SQLite does, so that other users cannot read it at any time. SQLite uses its mode for
        # the other files too. Do not open an existing file here: closing it would release all locks that this process
        # has on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        _check_writable(path)
        # Statements run in the thread of the store, which is not this thread.
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
                f"the store {path} is in use by another server: configure a separate file for each process"
            ) from error
        raise StoreError(f"the store {path} cannot be opened: {described(error)}") from error


def _check_writable(path: str) -> None:
    # SQLite opens a read-only file or reports an I/O error, and it has to create another file in the same directory.
    for place in (path, os.path.dirname(path)):
        if os.path.exists(place) and not os.access(place, os.W_OK):
            raise StoreError(
                f"the store {path} cannot be opened: {place} is read-only for this user: "
                "make the file and its directory writable, or use another file"
            )


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Create the tables in an empty file, or convert the tables of an earlier version.

    Raises:
        StoreError: The file is not a file of this store, or has a later version.
    """
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == _APPLICATION:
        if not 1 <= version <= _VERSION:
            raise StoreError(
                f"the store {path} has format {version}, but this version of mcp_server supports formats up to "
                f"{_VERSION}: use the version that created the file, or use another file"
            )
        try:
            if version < _VERSION:
                _CONVERSIONS[version](connection)
        except ValueError as error:
            raise StoreError(
                f"the store {path} of format {version} cannot be converted: {error}; the file was not changed: "
                "use the version that created it, or use another file"
            ) from error
        _execute(connection, _LATER)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        return
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path} is a database of another application and was not changed: use another file")
    _execute(connection, _SESSIONS + _EVENTS + _LATER)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _give_rows(connection: sqlite3.Connection) -> None:
    """Convert version 1, whose rows of sessions and streams contain lists of subscriptions and pending requests."""
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
        INSERT INTO streams (session, stream, last, standalone, over)
            SELECT session, stream, last, standalone, over FROM old_streams
        """,
    )
    for key, subscriptions in connection.execute("SELECT key, subscriptions FROM old_sessions"):
        uris: list[str] = json.loads(subscriptions)
        rows = [(key, uri.encode("utf-8", "surrogatepass")) for uri in uris]
        connection.executemany("INSERT OR IGNORE INTO subscriptions VALUES (?, ?)", rows)
    for session, stream, pending in connection.execute('SELECT session, stream, "owed" FROM old_streams'):
        ids = [(session, stream, json.dumps(id), place) for place, id in enumerate(json.loads(pending))]
        connection.executemany("INSERT OR IGNORE INTO pending VALUES (?, ?, ?, ?)", ids)
    _execute(connection, "DROP TABLE old_sessions; DROP TABLE old_streams")


def _rename_pending(connection: sqlite3.Connection) -> None:
    """Convert version 2, whose table of pending requests has another name."""
    _execute(connection, 'ALTER TABLE "owed" RENAME TO pending')
    _add_workers(connection)


def _add_workers(connection: sqlite3.Connection) -> None:
    """Convert version 3, whose streams name no worker."""
    _execute(connection, "ALTER TABLE streams ADD COLUMN worker TEXT NOT NULL DEFAULT ''")


_CONVERSIONS: Final = {1: _give_rows, 2: _rename_pending, 3: _add_workers}
"""The conversions from earlier versions to the current one. Each runs in one transaction."""


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    # One statement at a time: `executescript` would end the transaction.
    for statement in statements.split(";"):
        connection.execute(statement)


def _number(connection: sqlite3.Connection, query: str) -> int:
    found: tuple[int] = connection.execute(query).fetchone()
    return found[0]
