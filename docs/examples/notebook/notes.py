"""Safe access to a folder of notes: reading and writing is confined to the folder.

Notes are Markdown files. The name of a note is its path below the folder, without `.md`: `tutorial/first-server`. All
functions may block, and can be called from any thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Folder", "NoSuchFile", "NotAllowed", "Stamp", "title_of"]

MAX_BYTES = 1024 * 1024
"""The size of the largest note or picture that is read or written."""

MAX_FILES = 10_000
"""The maximum number of notes of a folder."""

NOTE = ".md"
PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
}


class NoSuchFile(Exception):
    """The note or picture does not exist in the folder, or is outside of it."""


class NotAllowed(Exception):
    """The file must not be read or written. The message states the reason."""


@dataclass(frozen=True)
class Stamp:
    """The time and size of a file, which differ when the file has changed."""

    modified_ns: int
    size: int


class Folder:
    """A folder of notes and pictures."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve(strict=True)
        if not self.path.is_dir():
            raise NotADirectoryError(str(path))

    def notes(self) -> dict[str, Stamp]:
        """Return all notes with their stamps."""
        stamps: dict[str, Stamp] = {}
        for path in self._walk(NOTE):
            name = path.relative_to(self.path).with_suffix("").as_posix()
            try:
                stamps[name] = _stamp(self._inside(path).stat())
            except (NoSuchFile, OSError):
                continue  # removed in the meantime, or a link out of the folder
            if len(stamps) == MAX_FILES:
                break
        return dict(sorted(stamps.items()))

    def pictures(self) -> list[str]:
        """Return the names of all pictures."""
        return sorted(path.relative_to(self.path).as_posix() for suffix in PICTURES for path in self._walk(suffix))

    def read(self, name: str) -> str:
        """Return the text of a note. Raises `NoSuchFile` and `NotAllowed`."""
        return self._read(f"{name}{NOTE}").decode("utf-8", errors="replace")

    def picture(self, name: str) -> tuple[bytes, str]:
        """Return a picture and its media type. Raises `NoSuchFile` and `NotAllowed`."""
        media_type = PICTURES.get(Path(name).suffix.lower())
        if media_type is None:
            raise NoSuchFile(name)
        return self._read(name), media_type

    def stamp(self, name: str) -> Stamp:
        """Return the stamp of a note. Raises `NoSuchFile`."""
        try:
            return _stamp(self._find(f"{name}{NOTE}").stat())
        except OSError:
            raise NoSuchFile(name) from None

    def add(self, title: str, text: str) -> str:
        """Write a new note and return its name. Raises `NotAllowed`; an existing note is never overwritten."""
        name = re.sub(r"[\W_]+", "-", title.lower()).strip("-")[:100]
        if not name:
            raise NotAllowed(f"the title {title!r} contains no letters or digits for a file name")
        heading = "" if text.startswith("# ") else f"# {title}\n\n"
        content = f"{heading}{text.rstrip()}\n".encode()
        if len(content) > MAX_BYTES:
            raise NotAllowed(f"the note has {len(content)} bytes; the limit is {MAX_BYTES}")
        try:
            # "x" fails if the path exists, even as a link to another place.
            with (self.path / f"{name}{NOTE}").open("xb") as file:
                file.write(content)
        except FileExistsError:
            raise NotAllowed(f"a note named {name!r} exists; choose another title") from None
        return name

    def _walk(self, suffix: str) -> Iterator[Path]:
        for root, folders, files in os.walk(self.path):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for each in sorted(files):
                if each.lower().endswith(suffix) and not each.startswith("."):
                    yield Path(root, each)

    def _find(self, relative: str) -> Path:
        """Return the real path of a file of the folder. The name is untrusted."""
        parts = relative.split("/")
        if "\0" in relative or "\\" in relative or any(not part or part.startswith(".") for part in parts):
            raise NoSuchFile(relative)
        return self._inside(self.path.joinpath(*parts))

    def _inside(self, path: Path) -> Path:
        """Return the path without links. Raises `NoSuchFile` if it is outside of the folder, or not a regular file."""
        try:
            real = path.resolve(strict=True)
            regular = stat.S_ISREG(real.stat().st_mode)
        except OSError:
            raise NoSuchFile(path.name) from None
        if not regular or not real.is_relative_to(self.path):
            raise NoSuchFile(path.name)
        return real

    def _read(self, relative: str) -> bytes:
        with self._find(relative).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise NotAllowed(f"{relative} has more than {MAX_BYTES} bytes")
        return data


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_mtime_ns, status.st_size)


def title_of(name: str, text: str) -> str:
    """Return the first heading of a note, or its name."""
    heading = re.search(r"^#\s+(.+)$", text, re.MULTILINE)
    return heading[1].strip() if heading else name.rpartition("/")[2]


def differences(old: Mapping[str, Stamp], new: Mapping[str, Stamp]) -> tuple[list[str], list[str], list[str]]:
    """Return the names that were added, changed and removed."""
    added = [name for name in new if name not in old]
    changed = [name for name, stamp in new.items() if name in old and old[name] != stamp]
    removed = [name for name in old if name not in new]
    return added, changed, removed
