"""Named locks, between the tasks of a process and between processes.

Between processes, a lock is an empty file that the operating system locks for the process that has it open. The system
releases the lock of a process that dies, so no lock is left behind. The file remains. Deleting it would be wrong:
another process may just have opened it, and would then hold a lock that no other process can see.

To block in the operating system until the lock is free would need a thread that cannot be cancelled, and that would
acquire the lock when no task needs it. Therefore the lock is polled. Tasks of one process wait for each other, so that
only one of them polls.
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
"""Time between two attempts, in seconds: a lock is held for a login of seconds or minutes, or a refresh of 0.1
seconds."""

_TAKEN: Final = frozenset({errno.EACCES, errno.EDEADLK})
"""Errors on Windows if another process holds the lock."""


def private_folder(path: Path) -> None:
    """Create a folder that only its owner can access. An existing folder is unchanged. Raises `OSError`."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


class TaskLocks:
    """A lock for each name, for the tasks of one run of trio. Unused locks are removed."""

    def __init__(self) -> None:
        self._locks: Final[dict[str, trio.Lock]] = {}

    @asynccontextmanager
    async def held(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of a name."""
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
        folder: The folder of the lock files. It is created when needed.
        prefix: The prefix of the file names.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder: Final = folder
        self._prefix: Final = prefix
        self._tasks: Final = TaskLocks()

    def path(self, name: str) -> Path:
        """Return the file of a name. It contains a part of a hash, because names can have any length and characters."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._folder / f"{self._prefix}.{digest}.lock"

    @asynccontextmanager
    async def held(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of a name.

        Raises:
            CredentialStoreError: The file cannot be created or locked.
        """
        path = self.path(name)
        async with self._tasks.held(name):
            # In a thread, because the folder may be on a network. The thread is not abandoned, so that a lock is always
            # released. An event is not possible: another process holds the lock.
            while (taken := await trio.to_thread.run_sync(_take, path)) is None:  # noqa: ASYNC110
                await trio.sleep(_PAUSE)
            try:
                yield
            finally:
                os.close(taken)


def _take(path: Path) -> int | None:
    """Return the open file that holds the lock; `None` if another process holds it."""
    try:
        private_folder(path.parent)
        opened = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            taken = _lock(opened)
        except BaseException:
            os.close(opened)
            raise
    except OSError as error:
        raise CredentialStoreError(f"cannot lock {path}: {error.strerror or error}") from error
    if taken:
        return opened
    os.close(opened)
    return None


if sys.platform == "win32":

    def _lock(opened: int) -> bool:
        """Return whether the lock was acquired."""
        try:
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        return True

else:

    def _lock(opened: int) -> bool:
        """Return whether the lock was acquired."""
        try:
            # Not `lockf`: its locks belong to the process, and end when any part of the process closes the file.
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
