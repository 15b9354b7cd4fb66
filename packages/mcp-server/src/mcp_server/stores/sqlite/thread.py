"""The thread that has an SQLite file, on behalf of all that is kept in it.

It takes all calls that wait, does them in one transaction, and tells the callers when that is committed; so a busy server
pays for one commit where it would pay for twenty.
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
"""How many calls one transaction takes: enough to share a commit, few enough that the first does not wait for long."""


class _Job(Generic[T]):
    """One call on its way through the thread."""

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
        # Who asked may be gone, and all of trio with it.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._done.set)

    async def wait(self) -> T:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # it has run: the result is there, and may be None itself


class _Order(_Job[None]):
    """A call that the thread makes for a caller who does not wait for it."""

    def __init__(self, function: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self._function = function
        self._failed: Final = failed

    def settle(self, error: Exception | None = None) -> None:
        if error is not None:
            self._failed(error)


class StoreThread:
    """Does what is asked of a file, one thing after the other, in the order in which it was asked.

    Args:
        path: The file, for messages.
        connection: In the mode in which transactions are begun by hand.
        begin: How one is begun. Where another process may write too, `BEGIN IMMEDIATE`: what was read then stays true.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, *, begin: str = "BEGIN") -> None:
        self.path: Final = path
        """The file."""
        self.connection: Final = connection
        """What functions that are run here may use."""
        self.forget: Final[list[Callable[[], None]]] = []
        """Is called when a transaction was rolled back: what is known in memory may be wrong."""
        self._begin: Final = begin
        self._jobs: Final[queue.SimpleQueue[_Job[object] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.asked = 0
        """How many functions it was given so far."""

    async def do(self, function: Callable[[], T], *, closed: bool = False) -> T:
        """Lets the thread run a function in a transaction. It is run even if who waits for it is cancelled.

        Args:
            function: What to do.
            closed: What asks was closed, though the file is not.

        Raises:
            trio.ClosedResourceError: It was closed.
            StoreError: The file failed.
        """
        if self._closed or closed:
            raise trio.ClosedResourceError(f"the store {self.path} was closed")
        job = _Job(function)
        self._put(job)  # type: ignore[arg-type]  # the thread does not look at results
        return await job.wait()

    def order(self, function: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Let the thread run a function in a transaction, after what was asked for before. Does not wait.

        Args:
            function: What to do. Nothing is done when the file was closed.
            failed: Is called in the thread when it failed.
        """
        if not self._closed:
            self._put(_Order(function, failed))  # type: ignore[arg-type]  # as above

    def _put(self, job: _Job[object]) -> None:
        if self._thread is None:
            # A daemon: a program that forgot to close the store shall end all the same.
            self._thread = threading.Thread(target=self._work, name=f"store {self.path}", daemon=True)
            self._thread.start()
        self.asked += 1
        self._jobs.put(job)

    async def aclose(self) -> None:
        """Closes the file. What was asked for before is done first."""
        self._closed = True
        if self._thread is None:
            self.connection.close()
        else:
            self._jobs.put(None)
            # Not to be abandoned: whoever closes the store may want to open its file again.
            await trio.to_thread.run_sync(self._thread.join)
        await trio.lowlevel.checkpoint()

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
        self.connection.close()

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
            self.connection.execute(self._begin)
            for job in jobs:
                job.run()
            self.connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  # raised where the call was made, as all errors of a call
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
