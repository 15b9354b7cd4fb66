"""A full-text index of notes, in SQLite.

One connection, one lock: the server calls these functions from several worker threads.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass

__all__ = ["BadQuery", "Hit", "Index"]


class BadQuery(Exception):
    """A query that SQLite cannot parse. The message states the reason."""


@dataclass(frozen=True)
class Hit:
    """A note that matches a query."""

    name: str
    """The name of the note."""
    title: str
    """Its title."""
    snippet: str
    """The best matching part of the text, with the words of the query in [brackets]."""
    score: float
    """The relevance; higher is better."""


class Index:
    """The index. It is in memory, and ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute("CREATE VIRTUAL TABLE notes USING fts5(name UNINDEXED, title, text)")

    def put(self, name: str, title: str, text: str) -> None:
        """Add or replace a note."""
        with self._lock, self._database:
            self._database.execute("DELETE FROM notes WHERE name = ?", (name,))
            self._database.execute("INSERT INTO notes VALUES (?, ?, ?)", (name, title, text))

    def remove(self, name: str) -> None:
        """Remove a note."""
        with self._lock, self._database:
            self._database.execute("DELETE FROM notes WHERE name = ?", (name,))

    def title(self, name: str) -> str | None:
        """Return the title of a note; `None` if it is not in the index."""
        with self._lock:
            row = self._database.execute("SELECT title FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def search(self, query: str, limit: int) -> list[Hit]:
        """Return the best matches of a query. Raises `BadQuery`."""
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
        """Close the database and free its memory."""
        with self._lock:
            self._database.close()
