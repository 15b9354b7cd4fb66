"""Access to the files below one directory, and to no others.

A path is never passed to the operating system as a whole. Each name is searched among the entries of its directory and
must match exactly. Other spellings of a name (letter case, Unicode normalization, Windows short names and streams) are
therefore not found. The entry is then opened relative to the descriptor of its directory, without following links, so
that an entry that is replaced by a link meanwhile is not followed either. Only regular files are opened, and the type
is checked again on the open descriptor.

On systems without `dir_fd`, for example Windows, the opened file is compared with the file at the real path instead.
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
"""Maximum depth of nested directories. Each level holds one descriptor while its files are listed."""

_LONGEST: Final = 4_096
"""Maximum length of a path, in characters. Linux allows as many bytes."""

_FOR_READING: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NOCTTY", 0)
    # Opening a pipe that has replaced a file must not block.
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


class Files:
    """The files below a directory. All methods block.

    Args:
        root: The directory, an absolute path without links.
        hidden: Whether to serve files and directories whose names begin with a dot.
    """

    def __init__(self, root: str, *, hidden: bool) -> None:
        self._root: Final = root
        self._hidden: Final = hidden

    def read(self, path: str, most: int) -> bytes:
        """Return the contents of a file.

        Args:
            path: Its path relative to the root, with `/` as separator.
            most: Maximum size, in bytes.

        Raises:
            FileNotFoundError: There is no regular file with this path.
            OSError: The file cannot be read.
            LimitExceeded: The file is larger than `most`.
        """
        with os.fdopen(self._open(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # The bound also applies to a file that grows, or that does not report its size.
            data = file.read(most + 1) if size <= most else b""
        if max(size, len(data)) > most:
            raise LimitExceeded(
                f"bytes of {path}", observed=max(size, len(data)), allowed=most, setting="Limits.file_bytes"
            )
        return data

    def walk(self, most: int) -> Generator[tuple[str, os.stat_result] | None]:
        """Yield all files, sorted by their paths, compared name by name.

        Args:
            most: Maximum number of directory entries to read.

        Yields:
            The relative path and the status of each regular file. The last item is `None` if there were more entries.
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
                # The entry was removed meanwhile, or cannot be read. It is not listed.
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
    """The number of directory entries that can still be read."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.exceeded = False

    def take(self) -> bool:
        self.exceeded = self.exceeded or not self.left
        self.left = max(0, self.left - 1)
        return not self.exceeded


class _Entries(Protocol):
    """The type that `os.scandir` returns."""

    def __enter__(self) -> Iterator[os.DirEntry[str]]: ...

    def __exit__(self, *_: object) -> None: ...


class _Folder(Protocol):
    """An open directory."""

    def entries(self) -> _Entries:
        """Return its entries."""

    def inner(self, name: str) -> _Folder:
        """Open a directory in it. Raises `OSError`, also for a link."""

    def open(self, name: str) -> int:
        """Open a file in it and return the descriptor. Raises `OSError`, also for a link."""

    def close(self) -> None:
        """Close the directory."""


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
        # The file can have been replaced by a link between the check and the open.
        if path != os.path.realpath(path) or not os.path.samestat(os.fstat(opened), os.lstat(path)):
            os.close(opened)
            raise FileNotFoundError(path)
        return opened

    def _real(self, name: str) -> str:
        path = os.path.join(self._path, name)  # pathlib would normalize the name
        if path != os.path.realpath(path):
            raise FileNotFoundError(path)
        return path

    def close(self) -> None:
        pass


def _open_folder(root: str) -> _Folder:
    if not _BY_DESCRIPTOR:
        return _ByPath(root)
    return _ByDescriptor(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
