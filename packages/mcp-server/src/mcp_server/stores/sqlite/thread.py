"""A thread that uses an SQLite file for all stores in it.

The thread takes all queued calls, runs them in one transaction, and completes them when the transaction is committed. A
busy server therefore makes one commit instead of, for example, twenty.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from mcp_server.stores.sessions import StoreError
from mcp_server.stores.sqlite.database import described

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["StoreThread"]

T = TypeVar("T")

_AT_ONCE: Final = 256
"""The maximum number of calls in one transaction: enough to share a commit, few enough to keep the first call's wait
short."""


class _Job(Generic[T]):
    """A call that the thread runs for a waiting task."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._token: Final = trio.lowlevel.current_trio_token()
        self._result: T | None = None
        self._error: Exception | None = None
        self._done: Final = trio.Event()

    def run(self) -> None:
        self._result = self._function()

    def settle(self, error: Exception | None = None) -> None:
        self._error = error
        # The trio run of the caller may have ended.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._done.set)

    async def wait(self) -> T:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # the job has run, so its result is set


class _Order(_Job[None]):
    """A call that the thread runs without a waiting caller."""

    def __init__(self, function: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self._function = function
        self._failed: Final = failed

    def settle(self, error: Exception | None = None) -> None:
        if error is not None:
            self._failed(error)


class StoreThread:
    """A thread that runs functions on a file, one after the other, in the order of the calls.

    Args:
        path: The file, for messages.
        connection: A connection in the mode in which transactions are begun explicitly.
        begin: The statement that begins a transaction. Use `BEGIN IMMEDIATE` if another process can write to the file
            too, so that values that were read stay valid.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, *, begin: str = "BEGIN") -> None:
        self.path: Final = path
        """The path of the file."""
        self.connection: Final = connection
        """The connection, for use in functions that the thread runs."""
        self.forget: Final[list[Callable[[], None]]] = []
        """Functions to call after a rollback, because data cached in memory may be wrong."""
        self._begin: Final = begin
        self._jobs: Final[queue.SimpleQueue[_Job[object] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.requested: int = 0
        """The number of functions received so far."""

    async def do(self, function: Callable[[], T], *, closed: bool = False) -> T:
        """Run a function in a transaction of the thread. The function runs even if the waiting task is cancelled.

        Args:
            function: The function to run.
            closed: Whether the store that calls was closed, although the file is open.

        Raises:
            trio.ClosedResourceError: The store or the file was closed.
            StoreError: The file failed.
        """
        if self._closed or closed:
            raise trio.ClosedResourceError(f"the store {self.path} was closed")
        job = _Job(function)
        self._put(job)  # type: ignore[arg-type]  # the thread does not use results
        return await job.wait()

    def order(self, function: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Queue a function for a transaction of the thread, after all earlier calls. Does not block.

        Args:
            function: The function to run. It is not run if the file was closed.
            failed: A callback for a failure. The thread calls it.
        """
        if not self._closed:
            self._put(_Order(function, failed))  # type: ignore[arg-type]  # as above

    def _put(self, job: _Job[object]) -> None:
        if self._thread is None:
            # A daemon, so that a program that does not close the store can exit.
            self._thread = threading.Thread(target=self._work, name=f"store {self.path}", daemon=True)
            self._thread.start()
        self.requested += 1
        self._jobs.put(job)

    async def aclose(self) -> None:
        """Close the file, after all earlier calls are completed."""
        self._closed = True
        if self._thread is None:
            self.connection.close()
        else:
            self._jobs.put(None)
            # Not cancellable: the caller may open the file again after closing the store.
            await trio.to_thread.run_sync(self._thread.join)
        await trio.lowlevel.checkpoint()

    def _work(self) -> None:
        job: _Job[object] | None = None
        while True:
            jobs: list[_Job[object]] = []
            job = self._jobs.get()
            while job is not None:
                jobs.append(job)
                # Only this thread takes from the queue, so a queue that is not empty stays so.
                if len(jobs) == _AT_ONCE or self._jobs.empty():
                    break
                job = self._jobs.get()
            self._perform(jobs)
            if job is None:
                break
        self.connection.close()

    def _perform(self, jobs: Sequence[_Job[object]]) -> None:
        error = self._transact(jobs)
        if error is None or len(jobs) == 1:
            for job in jobs:
                job.settle(error)
        else:
            # One of the jobs failed. Run each alone, so that the others succeed.
            for job in jobs:
                job.settle(self._transact([job]))

    def _transact(self, jobs: Sequence[_Job[object]]) -> Exception | None:
        try:
            self.connection.execute(self._begin)
            for job in jobs:
                job.run()
            self.connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  # raised to the caller, like all errors of a call
            for forget in self.forget:
                forget()
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                failure = StoreError(f"the store {self.path} failed: {described(error)}")
                failure.__cause__ = error
                return failure
            return error
        return None
