"""The files below one directory, and nothing outside of it.

A path is never handed to the operating system as a whole. Each name is looked for among the entries of its directory and
has to be there letter by letter, so that another spelling of it (in case, in Unicode, as a short name or a stream of
Windows) is nothing. Then it is opened in that directory, by descriptor, without following a link: what is swapped for a
link meanwhile leads nowhere either. Only regular files are opened, and it is checked again of what was opened.

Systems that cannot open by descriptor, as Windows, compare the opened file with the one at the real path instead.
"""

from __future__ import annotations

import heapq
import os
import stat
from typing import TYPE_CHECKING, Final, Protocol

from mcp_core.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = ["Files"]

_DEEPEST: Final = 64
"""Directories in directories that are entered: each holds a descriptor while its files are listed."""

_LONGEST: Final = 4_096
"""Characters of a path: as many bytes as Linux takes."""

_FOR_READING: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NOCTTY", 0)
    # A pipe that took the place of a file must not be waited for.
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


class Files:
    """The files below a directory. All methods block.

    Args:
        root: The directory, an absolute path without links.
        hidden: Whether files and directories are there whose names begin with a dot.
    """

    def __init__(self, root: str, *, hidden: bool) -> None:
        self._root: Final = root
        self._hidden: Final = hidden

    def read(self, path: str, most: int) -> bytes:
        """The contents of a file.

        Args:
            path: Its path from here, with `/` between the names.
            most: The most bytes that it may have.

        Raises:
            FileNotFoundError: There is no such regular file.
            OSError: It cannot be read.
            LimitExceeded: It is larger.
        """
        with os.fdopen(self._open(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A file that grows, or does not know its size, is not read beyond the bound either.
            data = file.read(most + 1) if size <= most else b""
        if max(size, len(data)) > most:
            raise LimitExceeded(
                f"bytes of {path}", observed=max(size, len(data)), allowed=most, setting="Limits.file_bytes"
            )
        return data

    def walk(self, most: int) -> Generator[tuple[str, os.stat_result] | None]:
        """All files, in the order of their paths, name by name.

        Args:
            most: How many entries of directories are looked at.

        Yields:
            The path from here and the facts of each regular file; at last `None` when there were too many.
        """
        budget = _Budget(most)
        folder = _open_folder(self._root)
        try:
            yield from self._walk(folder, "", budget, 1)
        finally:
            folder.close()
        if budget.exceeded:
            yield None

    def _walk(self, folder: _Folder, prefix: str, budget: _Budget, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        with folder.entries() as entries:
            first = heapq.nsmallest(
                budget.left + 1, (each for each in entries if self._is_shown(each.name)), key=lambda each: each.name
            )
        for entry in first:
            if not budget.take():
                return
            path = prefix + entry.name
            try:
                if entry.is_file(follow_symlinks=False):
                    yield path, entry.stat(follow_symlinks=False)
                elif entry.is_dir(follow_symlinks=False) and depth < _DEEPEST and len(path) < _LONGEST:
                    inner = folder.inner(entry.name)
                    try:
                        yield from self._walk(inner, f"{path}/", budget, depth + 1)
                    finally:
                        inner.close()
            except OSError:
                # It went away meanwhile, or we may not look into it: it is not listed.
                continue

    def _is_shown(self, name: str) -> bool:
        return self._hidden or not name.startswith(".")

    def _open(self, path: str) -> int:
        *folders, name = path.split("/")
        if len(path) > _LONGEST or len(folders) >= _DEEPEST:
            raise FileNotFoundError(path)
        folder = _open_folder(self._root)
        try:
            for each in folders:
                if not self._entry(folder, each).is_dir(follow_symlinks=False):
                    raise FileNotFoundError(path)
                outer, folder = folder, folder.inner(each)
                outer.close()
            if not self._entry(folder, name).is_file(follow_symlinks=False):
                raise FileNotFoundError(path)
            opened = folder.open(name)
        finally:
            folder.close()
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise FileNotFoundError(path)
        return opened

    def _entry(self, folder: _Folder, name: str) -> os.DirEntry[str]:
        if self._is_shown(name):
            with folder.entries() as entries:
                for entry in entries:
                    if entry.name == name:
                        return entry
        raise FileNotFoundError(name)


class _Budget:
    """How many entries may still be looked at."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.exceeded = False

    def take(self) -> bool:
        self.exceeded = self.exceeded or not self.left
        self.left = max(0, self.left - 1)
        return not self.exceeded


class _Entries(Protocol):
    """What `os.scandir` gives."""

    def __enter__(self) -> Iterator[os.DirEntry[str]]: ...

    def __exit__(self, *_: object) -> None: ...


class _Folder(Protocol):
    """A directory that is open."""

    def entries(self) -> _Entries:
        """What is in it."""

    def inner(self, name: str) -> _Folder:
        """A directory in it. Raises `OSError`, also when it is a link."""

    def open(self, name: str) -> int:
        """A file in it. Raises `OSError`, also when it is a link."""

    def close(self) -> None:
        """It is no longer needed."""


class _ByDescriptor:
    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor

    def entries(self) -> _Entries:
        return os.scandir(self._descriptor)

    def inner(self, name: str) -> _ByDescriptor:
        return _ByDescriptor(os.open(name, _FOR_READING | os.O_DIRECTORY, dir_fd=self._descriptor))

    def open(self, name: str) -> int:
        return os.open(name, _FOR_READING, dir_fd=self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _ByPath:
    def __init__(self, path: str) -> None:
        self._path: Final = path

    def entries(self) -> _Entries:
        return os.scandir(self._path)

    def inner(self, name: str) -> _ByPath:
        return _ByPath(self._real(name))

    def open(self, name: str) -> int:
        path = self._real(name)
        opened = os.open(path, _FOR_READING)
        # Between the two steps it may have become a link.
        if path != os.path.realpath(path) or not os.path.samestat(os.fstat(opened), os.lstat(path)):
            os.close(opened)
            raise FileNotFoundError(path)
        return opened

    def _real(self, name: str) -> str:
        path = os.path.join(self._path, name)  # pathlib would make another name of it
        if path != os.path.realpath(path):
            raise FileNotFoundError(path)
        return path

    def close(self) -> None:
        pass


def _open_folder(root: str) -> _Folder:
    if not _BY_DESCRIPTOR:
        return _ByPath(root)
    return _ByDescriptor(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
