"""What the authorization server remembers: an SQLite file, or one in memory."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_server.auth.authorization_server.model import page_tables, tables
from mcp_server.stores.sessions import StoreError
from mcp_server.stores.sqlite.thread import StoreThread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryStore", "SqliteStore"]

T = TypeVar("T")

_APPLICATION: Final = int.from_bytes(b"MCPa")
"""Tells our files from those of others; `PRAGMA application_id`."""

_VERSION: Final = 1
"""What the tables are; `PRAGMA user_version`."""

_BUSY: Final = 5.0
"""Seconds that one process waits for another which writes. A transaction takes milliseconds."""

_MEMORY: Final = ":memory:"
"""What SQLite calls a file that is none."""


class SqliteStore:
    """A file, which several processes may have open at a time.

    It is made if it is not there, readable for its owner only: though tokens, codes and secrets are kept as hashes, the
    keys that sign access tokens are in it as they are.

    Args:
        path: The file. Others appear beside it while it is in use.

    Raises:
        StoreError: The file cannot be opened, or is something else; the message says what to do.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # The process may change its directory.
        place = _MEMORY if path == _MEMORY else os.path.abspath(path)
        self._thread: Final = StoreThread(place, _opened(place), begin="BEGIN IMMEDIATE")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._thread.path}>"

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a function in the thread of the file, as one transaction: what it raises undoes what it did.

        It may be run a second time, when something else in the same transaction failed; so it does nothing but read
        and write here.

        Raises:
            StoreError: The file failed.
            trio.ClosedResourceError: The store was closed.
        """
        return await self._thread.do(partial(function, self._thread.connection))

    async def aclose(self) -> None:
        """Closes the file. What was asked for before is done first."""
        await self._thread.aclose()


class MemoryStore(SqliteStore):
    """Nothing survives the process."""

    def __init__(self) -> None:
        super().__init__(_MEMORY)


def _opened(path: str) -> sqlite3.Connection:
    try:
        if path != _MEMORY:
            # Before SQLite does it, so that nobody else can read it at any time; its other files take over the mode.
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
        # Not while another process has the file open; that one has asked for the same.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        # A code that was used must not be there again after a power cut: what is acknowledged is on the disk.
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"the store {path} cannot be opened: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Makes the tables in an empty file; raises `StoreError` when the file is not ours."""
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == _APPLICATION and version == _VERSION:
        return
    if application == _APPLICATION:
        raise StoreError(
            f"the store {path} has format {version}, and this version of mcp_server reads format {_VERSION}: "
            "use the version that made it, or another file"
        )
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path} is a database of something else, and is left as it is: use another file")
    # One by one: `executescript` would end the transaction.
    for statement in (tables.TABLES + page_tables.TABLES).split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _number(connection: sqlite3.Connection, query: str) -> int:
    found: tuple[int] = connection.execute(query).fetchone()
    return found[0]
