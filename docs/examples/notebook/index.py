"""A full-text index over notes, in SQLite.

One connection, one lock: the server calls these functions from worker threads, several at once.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass

__all__ = ["BadQuery", "Hit", "Index"]


class BadQuery(Exception):
    """SQLite does not understand the query. The message says why."""


@dataclass(frozen=True)
class Hit:
    """A note that fits a query."""

    name: str
    """The name of the note."""
    title: str
    """Its title."""
    snippet: str
    """The place that fits best, with the words of the query in [brackets]."""
    score: float
    """How well it fits; more is better."""


class Index:
    """The index. It lies in memory, and is gone with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute("CREATE VIRTUAL TABLE notes USING fts5(name UNINDEXED, title, text)")

    def put(self, name: str, title: str, text: str) -> None:
        """Adds a note, or replaces it."""
        with self._lock, self._database:
            self._database.execute("DELETE FROM notes WHERE name = ?", (name,))
            self._database.execute("INSERT INTO notes VALUES (?, ?, ?)", (name, title, text))

    def remove(self, name: str) -> None:
        """Removes a note."""
        with self._lock, self._database:
            self._database.execute("DELETE FROM notes WHERE name = ?", (name,))

    def title(self, name: str) -> str | None:
        """The title of a note; `None` when it is not in the index."""
        with self._lock:
            row = self._database.execute("SELECT title FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def search(self, query: str, limit: int) -> list[Hit]:
        """The notes that fit a query best. Raises `BadQuery`."""
        try:
            with self._lock:
                rows = self._database.execute(
                    "SELECT name, title, snippet(notes, 2, '[', ']', '…', 16), -rank FROM notes"
                    " WHERE notes MATCH ? ORDER BY rank LIMIT ?",
                    (query, limit),
                ).fetchall()
        except sqlite3.OperationalError as error:
            raise BadQuery(str(error)) from error
        return [Hit(name, title, " ".join(snippet.split()), round(score, 6)) for name, title, snippet, score in rows]

    def close(self) -> None:
        """Frees the memory."""
        with self._lock:
            self._database.close()
