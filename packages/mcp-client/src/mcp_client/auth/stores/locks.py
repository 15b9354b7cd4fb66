"""Locks with names: among the tasks of a process, and among processes.

Among processes a lock is a file that the system locks for whoever has it open. The system takes the lock away from a
process that dies, so none is ever left behind; the file stays, and has nothing in it. To delete it would be wrong: somebody may
just have opened it, and would then hold a lock that nobody else can see.

The system can be asked for a lock in two ways. To wait in the system would need a thread that no cancellation reaches and that
takes the lock when nobody wants it any more. So it is asked whether the lock is free, again and again; tasks of one process
wait for each other, so that only one of them asks.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.auth.stores.protocol import CredentialStoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["FileLocks", "TaskLocks", "private_folder"]

_PAUSE: Final = 0.05
"""Seconds from one question to the next: what is locked is a login of seconds or minutes, or a refresh of a tenth."""

_TAKEN: Final = frozenset({errno.EACCES, errno.EDEADLK})
"""What Windows says when somebody else has the lock."""


def private_folder(path: Path) -> None:
    """Makes a folder that only its owner can look into. One that is there stays as it is. Raises `OSError`."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


class TaskLocks:
    """A lock for each name, for the tasks of one run of trio. Those that nobody wants are forgotten."""

    def __init__(self) -> None:
        self._locks: Final[dict[str, trio.Lock]] = {}

    @asynccontextmanager
    async def held(self, name: str) -> AsyncIterator[None]:
        """Holds the lock of a name."""
        lock = self._locks.setdefault(name, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            statistics = lock.statistics()
            if not statistics.locked and not statistics.tasks_waiting:
                self._locks.pop(name, None)


class FileLocks:
    """A lock for each name, for all processes that use the same folder.

    Args:
        folder: Where the files are; it is made when it is needed.
        prefix: What their names begin with.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder: Final = folder
        self._prefix: Final = prefix
        self._tasks: Final = TaskLocks()

    def path(self, name: str) -> Path:
        """The file of a name. It tells a part of a hash: names are of any length and have any character."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._folder / f"{self._prefix}.{digest}.lock"

    @asynccontextmanager
    async def held(self, name: str) -> AsyncIterator[None]:
        """Holds the lock of a name.

        Raises:
            CredentialStoreError: The file cannot be made or locked.
        """
        path = self.path(name)
        async with self._tasks.held(name):
            # A thread, for a folder may be on a network. It is not abandoned, so that what it took is always given back.
            # Nobody could set an event: the lock is another process's.
            while (taken := await trio.to_thread.run_sync(_take, path)) is None:  # noqa: ASYNC110
                await trio.sleep(_PAUSE)
            try:
                yield
            finally:
                os.close(taken)


def _take(path: Path) -> int | None:
    """The open file that holds the lock; `None` when somebody else has it."""
    try:
        private_folder(path.parent)
        opened = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            taken = _lock(opened)
        except BaseException:
            os.close(opened)
            raise
    except OSError as error:
        raise CredentialStoreError(f"{path} cannot be locked: {error.strerror or error}") from error
    if taken:
        return opened
    os.close(opened)
    return None


if sys.platform == "win32":

    def _lock(opened: int) -> bool:
        """Whether the lock is ours now."""
        try:
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        return True

else:

    def _lock(opened: int) -> bool:
        """Whether the lock is ours now."""
        try:
            # Not `lockf`: its locks are the process's, and end when any part of it closes the file.
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
