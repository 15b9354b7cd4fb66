"""The store of the authorization server: an SQLite file, or a database in memory."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_core.trio.async_library import allow_asyncio
from mcp_server.auth.authorization_server.model import page_tables, tables
from mcp_server.stores.sessions import StoreError
from mcp_server.stores.sqlite.thread import StoreThread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryStore", "SqliteStore"]

T = TypeVar("T")

_APPLICATION: Final = int.from_bytes(b"MCPa")
"""Identifies the files of this store; `PRAGMA application_id`."""

_VERSION: Final = 2
"""The version of the tables; `PRAGMA user_version`."""

_BUSY: Final = 5.0
"""Time for which a process waits for a transaction of another process, in seconds. A transaction takes milliseconds."""

_MEMORY: Final = ":memory:"
"""SQLite's name of a database in memory."""


class SqliteStore:
    """A store in a file. Several processes can open the file at the same time.

    The file is created if it does not exist, and only its owner can read it: tokens, codes and secrets are stored as
    hashes, but the keys that sign access tokens are stored as they are.

    Args:
        path: The file. SQLite creates other files in the same directory while the store is open.

    Raises:
        StoreError: The file cannot be opened, or is not a file of this store. The message states the remedy.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # The working directory of the process may change.
        place = _MEMORY if path == _MEMORY else os.path.abspath(path)
        self._thread: Final = StoreThread(place, _opened(place), begin="BEGIN IMMEDIATE")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._thread.path}>"

    @allow_asyncio
    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function in the thread of the file, as one transaction. An exception rolls the transaction back.

        The function may run a second time if another function in the same transaction fails. It must therefore have no
        effects outside the database.

        Raises:
            StoreError: The file failed.
            trio.ClosedResourceError: The store was closed.
        """
        return await self._thread.do(partial(function, self._thread.connection))

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the file, after all earlier calls are completed."""
        await self._thread.aclose()


class MemoryStore(SqliteStore):
    """A store in memory. Its content ends with the process."""

    def __init__(self) -> None:
        super().__init__(_MEMORY)


def _opened(path: str) -> sqlite3.Connection:
    try:
        if path != _MEMORY:
            # Create the file before SQLite does, so that other users cannot read it at any time. SQLite uses its mode
            # for its other files.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the store {path} cannot be opened: {error}") from error
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")
        _check(connection, path)
        connection.execute("COMMIT")
        # Fails while another process has the file open; that process has already set the mode.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        # Durable on commit: after a power failure, a used code must not be usable again.
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"the store {path} cannot be opened: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Create the tables in an empty file. Raises `StoreError` if the file is not a file of this store."""
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == _APPLICATION and version == _VERSION:
        return
    if application == _APPLICATION:
        raise StoreError(
            f"the store {path} has format {version}, but this version of mcp_server supports format {_VERSION}: "
            "use the version that created the file, or use another file"
        )
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path} is a database of another application and was not changed: use another file")
    # One statement at a time: `executescript` would end the transaction.
    for statement in (tables.TABLES + page_tables.TABLES).split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _number(connection: sqlite3.Connection, query: str) -> int:
    found: tuple[int] = connection.execute(query).fetchone()
    return found[0]
