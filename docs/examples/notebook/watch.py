"""Synchronization of the index and the server with the files on disk, by polling their modification times."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from index import Index
from notes import Folder, NoSuchFile, NotAllowed, Stamp, differences, title_of

__all__ = ["Changes", "Notebook", "watch"]


@dataclass(frozen=True)
class Changes:
    """The names of notes that changed on disk."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


class Notebook:
    """A folder of notes with its index."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.index = Index()
        self._known: dict[str, Stamp] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """The names of all known notes."""
        return list(self._known)

    def refresh(self) -> Changes:
        """Read the folder, update the index and return the changes. Each change is returned to one caller only."""
        with self._lock:
            now = self.folder.notes()
            added, changed, removed = differences(self._known, now)
            self._known = now
            for name in (*added, *changed):
                self.index_note(name)
            for name in removed:
                self.index.remove(name)
        return Changes(added, changed, removed)

    def index_note(self, name: str) -> None:
        """Index a note, or remove it from the index if it cannot be read."""
        try:
            text = self.folder.read(name)
        except (NoSuchFile, NotAllowed):
            self.index.remove(name)
        else:
            self.index.put(name, title_of(name, text), text)


async def watch(refresh_once: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Call a function repeatedly, until cancelled."""
    while True:
        await trio.sleep(seconds)
        await refresh_once()
