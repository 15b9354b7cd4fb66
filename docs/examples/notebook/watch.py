"""Keeps the index and what the server offers in step with the files on disk, by looking at their times of change."""

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
    """What is different on disk: names of notes."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


class Notebook:
    """A folder of notes and the index over it."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.index = Index()
        self._known: dict[str, Stamp] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """The names of all notes that are known."""
        return list(self._known)

    def refresh(self) -> Changes:
        """Looks at the folder and brings the index up to date. Each change is told to one caller only."""
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
        """Brings one note into the index, or takes it out if it cannot be read any more."""
        try:
            text = self.folder.read(name)
        except (NoSuchFile, NotAllowed):
            self.index.remove(name)
        else:
            self.index.put(name, title_of(name, text), text)


async def watch(look: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Looks again and again, until it is cancelled."""
    while True:
        await trio.sleep(seconds)
        await look()
