"""Sessions in an SQLite file: they survive the process.

One thread has the file. It takes all calls that wait, does them in one transaction, and tells the callers when that is
committed; so a busy server pays for one commit where it would pay for twenty.

What a process that is killed had acknowledged is in the file. When the machine itself stops (a power cut), the
transactions of the last moments may be missing, as if they had not been made; the file is whole all the same
(write-ahead log, `synchronous = NORMAL`). Who needs more than that needs a disk that is flushed for each event.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_server._store_file import opened
from mcp_server._store_tables import Tables
from mcp_server._stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_server._stores import SessionRecord, StoredEvent, StoredStream

__all__ = ["SqliteStore"]

T = TypeVar("T")

_AT_ONCE: Final = 256
"""How many calls one transaction takes: enough to share a commit, few enough that the first does not wait for long."""


class _Job(Generic[T]):
    """One call on its way through the thread."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function: Final = function
        self._token: Final = trio.lowlevel.current_trio_token()
        self._result: T | None = None
        self._error: Exception | None = None
        self._done: Final = trio.Event()

    def run(self) -> None:
        self._result = self._function()

    def settle(self, error: Exception | None = None) -> None:
        self._error = error
        # Who asked may be gone, and all of trio with it.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._done.set)

    async def wait(self) -> T:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # it has run: the result is there, and may be None itself


class SqliteStore:
    """A `SessionStore` in a file, which only one process may have open at a time.

    The file is made if it is not there, readable for its owner only. It is bounded by `Limits.sessions` and, for each
    session, `Limits.replay_events` and `Limits.replay_bytes`; it does not become smaller, but its room is used again.

    Args:
        path: The file. Another one appears beside it while it is in use.
        limits: The bounds; those of the server.

    Raises:
        StoreError: The file cannot be opened, is in use, or is something else; the message says what to do.
    """

    def __init__(self, path: str | os.PathLike[str], *, limits: Limits = SERVER_LIMITS) -> None:
        self._path: Final = os.path.abspath(path)  # the process may change its directory
        self._connection: Final = opened(self._path)
        self._tables: Final = Tables(self._connection, limits)
        self._jobs: Final[queue.SimpleQueue[_Job[object] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<SqliteStore {self._path}>"

    # --- for the endpoint ------------------------------------------------------------------------------------------

    async def save(self, record: SessionRecord) -> None:
        """See `SessionStore.save`."""
        await self._do(partial(self._tables.save, record))

    async def load(self, id: str) -> SessionRecord | None:
        """See `SessionStore.load`."""
        return await self._do(partial(self._tables.load, id))

    async def delete(self, id: str) -> None:
        """See `SessionStore.delete`."""
        await self._do(partial(self._tables.delete, id))

    async def begin(self, session: str, stream: int, owed: Sequence[RequestId]) -> None:
        """See `SessionStore.begin`."""
        await self._do(partial(self._tables.begin, session, stream, tuple(owed)))

    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """See `SessionStore.append`."""
        await self._do(partial(self._tables.append, session, tuple(events)))

    async def delivered(self, session: str, stream: int) -> None:
        """See `SessionStore.delivered`."""
        await self._do(partial(self._tables.delivered, session, stream))

    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """See `SessionStore.streams`."""
        return await self._do(partial(self._tables.streams, session))

    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """See `SessionStore.events`."""
        return await self._do(partial(self._tables.events, session, stream, after))

    async def purge(self, used_before: float) -> int:
        """See `SessionStore.purge`."""
        return await self._do(partial(self._tables.purge, used_before))

    async def aclose(self) -> None:
        """See `SessionStore.aclose`. What was asked for before is done first."""
        self._closed = True
        if self._thread is None:
            self._connection.close()
        else:
            self._jobs.put(None)
            # Not to be abandoned: whoever closes the store may want to open its file again.
            await trio.to_thread.run_sync(self._thread.join)
        await trio.lowlevel.checkpoint()

    # --- the thread ------------------------------------------------------------------------------------------------

    async def _do(self, function: Callable[[], T]) -> T:
        """Lets the thread run a function in a transaction. It is run even if who waits for it is cancelled."""
        if self._closed:
            raise trio.ClosedResourceError(f"the store {self._path} was closed")
        if self._thread is None:
            # A daemon: a program that forgot to close the store shall end all the same.
            self._thread = threading.Thread(target=self._work, name=f"store {self._path}", daemon=True)
            self._thread.start()
        job = _Job(function)
        self._jobs.put(job)  # type: ignore[arg-type]  # the thread does not look at results
        return await job.wait()

    def _work(self) -> None:
        job: _Job[object] | None = None
        while True:
            jobs: list[_Job[object]] = []
            job = self._jobs.get()
            while job is not None:
                jobs.append(job)
                # Nobody else takes from the queue: what is not empty stays so.
                if len(jobs) == _AT_ONCE or self._jobs.empty():
                    break
                job = self._jobs.get()
            self._perform(jobs)
            if job is None:
                break
        self._connection.close()

    def _perform(self, jobs: Sequence[_Job[object]]) -> None:
        error = self._transact(jobs)
        if error is None or len(jobs) == 1:
            for job in jobs:
                job.settle(error)
        else:
            # One of them spoilt it, and the others must not suffer.
            for job in jobs:
                job.settle(self._transact([job]))

    def _transact(self, jobs: Sequence[_Job[object]]) -> Exception | None:
        try:
            self._connection.execute("BEGIN")
            for job in jobs:
                job.run()
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  # raised where the call was made, as all errors of a call
            self._tables.forget()
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                failure = StoreError(f"the store {self._path} failed: {error}")
                failure.__cause__ = error
                return failure
            return error
        return None
