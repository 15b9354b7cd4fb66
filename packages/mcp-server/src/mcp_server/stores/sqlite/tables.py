"""The tables of `mcp_server.stores.sqlite.sessions` and their statements. One thread uses them, inside a transaction.

The numbers of events and bytes are cached in memory for each session in use. They stay correct because no other process
can open the file. A rollback clears the cache.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.engine.subscriptions import covering, covers
from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED
from mcp_server.stores.sessions import PendingNotification, SessionRecord, StoredEvent, StoredStream, next_stream

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.limits import Limits

__all__ = ["Tables"]

_OF_A_SESSION: Final = ("clients", "subscriptions", "notifications", "streams", "pending", "events")
"""The tables that have a column `session`."""

_KEPT: Final = """
    SELECT count(*), coalesce(sum(length(data)), 0), coalesce(sum(waits), 0), coalesce(sum(waits * length(data)), 0)
    FROM (SELECT data, answers IS NOT NULL AND NOT over AS waits FROM events JOIN streams USING (session, stream)
          WHERE session = ?)
"""
"""The numbers and sizes of the stored events of a session."""

_EXPENDABLE: Final = """
    SELECT place, length(data) FROM events JOIN streams USING (session, stream)
    WHERE session = ?1 AND (over OR answers IS NULL) AND place != (SELECT max(place) FROM events WHERE session = ?1)
    ORDER BY NOT over, CASE WHEN over THEN stream END, place
"""
"""The events of a session that may be removed, in the order in which they are removed."""

_SWEEP: Final = """
    DELETE FROM streams WHERE session = ? AND stream BETWEEN ? AND ? AND over
    AND NOT EXISTS (SELECT 1 FROM events WHERE events.session = streams.session AND events.stream = streams.stream)
"""
"""Deletes ended streams without remaining events."""

_RECORD_FOR_ALL: Final = "INSERT OR IGNORE INTO notifications (session, method, uri) SELECT key, ?, ? FROM sessions"
"""Records a change of a list."""

_RECORD_FOR_WATCHERS: Final = """
    INSERT OR IGNORE INTO notifications (session, method, uri)
    SELECT session, ?1, CASE
        WHEN uri = ?2 OR ?4 > (SELECT count(*) FROM notifications AS n WHERE n.session = subscriptions.session)
        THEN ?2 ELSE uri END
    FROM subscriptions WHERE uri = ?3
"""
"""Records a change of a resource for the subscribers of the same resource, or of a resource above it."""

_BORDERS: Final = 100
"""The maximum number of slashes in a URI for a look-up of all URIs above it. The time for the look-up is quadratic."""

_LARGEST: Final = 2**63 - 1
"""The largest integer of SQLite. Clients can send larger numbers."""


def _number(connection: sqlite3.Connection, query: str, *values: str | float) -> int:
    found: tuple[int] = connection.execute(query, values).fetchone()
    return found[0]


@attrs.define
class _Usage:
    """A session in use: its key, and the numbers and sizes of its events."""

    key: int
    events: int
    size: int
    answers: int
    """The number of undelivered responses, which must not be removed."""
    answers_size: int

    def add(self, size: int, *, answers: bool) -> None:
        """Count another event."""
        self.events += 1
        self.size += size
        if answers:
            self.answers += 1
            self.answers_size += size


class Tables:
    """The statements on the tables.

    Args:
        connection: A connection from `opened`.
        limits: The limits, of which `sessions`, `replay_events` and `replay_bytes` apply.
    """

    def __init__(self, connection: sqlite3.Connection, limits: Limits) -> None:
        self._connection: Final = connection
        self._limits: Final = limits
        self._used: dict[str, _Usage] = {}

    def forget(self) -> None:
        """Clear the cache after a rollback, because its values may be wrong."""
        self._used.clear()

    # --- sessions --------------------------------------------------------------------------------------------------

    def save(self, record: SessionRecord) -> tuple[str, ...]:
        """Store a session or replace its record. Remove the least recently used sessions if there are too many."""
        client = json.dumps(record.client)
        values = (record.principal, record.revision, record.log_level, record.used_at)
        used = self._session(record.id)
        if used is not None:
            query = "UPDATE sessions SET principal = ?, revision = ?, log_level = ?, used_at = ? WHERE key = ?"
            self._connection.execute(query, (*values, used.key))
            # Large in some sessions, and almost never changed: the comparison avoids a write.
            query = "UPDATE clients SET client = ?1 WHERE session = ?2 AND client != ?1"
            self._connection.execute(query, (client, used.key))
            return ()
        query = "INSERT INTO sessions (principal, revision, log_level, used_at, id) VALUES (?, ?, ?, ?, ?)"
        key = self._connection.execute(query, (*values, record.id)).lastrowid
        self._connection.execute("INSERT INTO clients (session, client) VALUES (?, ?)", (key, client))
        excess = _number(self._connection, "SELECT count(*) FROM sessions") - self._limits.sessions
        if excess > 0:
            query = "SELECT id FROM sessions WHERE id != ? ORDER BY used_at, key LIMIT ?"
            return self._delete_all(self._connection.execute(query, (record.id, excess)))
        return ()

    def load(self, id: str) -> SessionRecord | None:
        """Return the record of a session, or `None` if the session does not exist."""
        row = self._connection.execute(
            "SELECT principal, revision, client, log_level, used_at FROM sessions JOIN clients ON session = key "
            "WHERE id = ?",
            (id,),
        ).fetchone()
        if row is None:
            return None
        principal, revision, client, log_level, used_at = row
        params: JsonObject = json.loads(client)
        return SessionRecord(
            id=id, principal=principal, revision=revision, client=params, log_level=log_level, used_at=used_at
        )

    def touch(self, id: str, used_at: float) -> bool:
        """Renew the time of last use of a session, and return whether it exists."""
        query = "UPDATE sessions SET used_at = ? WHERE id = ?"
        return self._connection.execute(query, (used_at, id)).rowcount > 0

    def delete(self, id: str) -> None:
        """Delete a session with its subscriptions and streams."""
        used = self._session(id)
        if used is not None:
            for table in _OF_A_SESSION:
                self._connection.execute(f"DELETE FROM {table} WHERE session = ?", (used.key,))  # noqa: S608  # a constant
            self._connection.execute("DELETE FROM sessions WHERE key = ?", (used.key,))
            del self._used[id]

    def purge(self, used_before: float, now: float) -> int:
        """Delete the sessions that have not been used for too long, and return their number."""
        self._connection.execute("UPDATE sessions SET used_at = ?1 WHERE used_at > ?1", (now,))
        found = self._connection.execute("SELECT id FROM sessions WHERE used_at < ?", (used_before,))
        return len(self._delete_all(found))

    def _delete_all(self, found: Iterable[tuple[str]]) -> tuple[str, ...]:
        ids = tuple([id for (id,) in found])
        for id in ids:
            self.delete(id)
        return ids

    def _session(self, id: str) -> _Usage | None:
        used = self._used.get(id)
        if used is None:
            row = self._connection.execute("SELECT key FROM sessions WHERE id = ?", (id,)).fetchone()
            if row is not None:
                used = self._used[id] = _Usage(row[0], *self._connection.execute(_KEPT, row).fetchone())
        return used

    # --- subscriptions ---------------------------------------------------------------------------------------------

    def subscribe(self, session: str, uri: str) -> None:
        """Add a resource to the subscriptions of a session."""
        used = self._session(session)
        if used is not None:
            query = "INSERT OR IGNORE INTO subscriptions (session, uri) VALUES (?, ?)"
            self._connection.execute(query, (used.key, _uri_bytes(uri)))

    def unsubscribe(self, session: str, uri: str) -> None:
        """Remove a resource from the subscriptions of a session."""
        used = self._session(session)
        if used is not None:
            query = "DELETE FROM subscriptions WHERE session = ? AND uri = ?"
            if self._connection.execute(query, (used.key, _uri_bytes(uri))).rowcount:
                self._drop_uncovered(used.key)

    def _drop_uncovered(self, key: int) -> None:
        """Remove the pending notifications that no subscription of a session covers."""
        query = "SELECT place, uri FROM notifications WHERE session = ? AND method = ?"
        found = self._connection.execute(query, (key, NOTIFICATIONS_RESOURCES_UPDATED.name)).fetchall()
        gone = [(place,) for place, uri in found if not self._is_watched(key, uri)]
        self._connection.executemany("DELETE FROM notifications WHERE place = ?", gone)

    def _is_watched(self, key: int, uri: bytes) -> bool:
        query = "SELECT 1 FROM subscriptions WHERE session = ? AND uri = ?"
        above = self._watched_above(_uri_text(uri))
        return any(self._connection.execute(query, (key, each)).fetchone() for each in above)

    def subscriptions(self, session: str) -> frozenset[str]:
        """Return the URIs that a session is subscribed to."""
        used = self._session(session)
        if used is None:
            return frozenset()
        rows = self._connection.execute("SELECT uri FROM subscriptions WHERE session = ?", (used.key,))
        return frozenset([_uri_text(uri) for (uri,) in rows])

    # --- notifications ---------------------------------------------------------------------------------------------

    def record(self, notification: PendingNotification) -> None:
        """Record a change as pending for all sessions that it concerns."""
        if not notification.is_update:
            self._connection.execute(_RECORD_FOR_ALL, (notification.method, b""))
            return
        uri = _uri_bytes(notification.uri)
        allowed = self._limits.watched_resources if len(notification.uri) <= self._limits.uri_chars else 0
        for watched in self._watched_above(notification.uri):
            self._connection.execute(_RECORD_FOR_WATCHERS, (notification.method, uri, watched, allowed))

    def _watched_above(self, uri: str) -> list[bytes]:
        """Return the URIs whose subscribers are notified of a change of `uri`."""
        if uri.count("/") <= _BORDERS:
            return [_uri_bytes(each) for each in covering(uri)]
        found = self._connection.execute("SELECT DISTINCT uri FROM subscriptions")
        return [each for (each,) in found if covers((_uri_text(each),), uri)]

    def pending(self, session: str) -> tuple[PendingNotification, ...]:
        """Return the pending notifications of a session."""
        used = self._session(session)
        if used is None:
            return ()
        query = "SELECT method, uri FROM notifications WHERE session = ? ORDER BY place"
        rows = self._connection.execute(query, (used.key,))
        return tuple([PendingNotification(method, _uri_text(uri)) for method, uri in rows])

    def remove(self, session: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove pending notifications of a session."""
        used = self._session(session)
        if used is not None:
            for each in notifications:
                self._remove(used, each)

    def _remove(self, used: _Usage, notification: PendingNotification) -> None:
        query = "DELETE FROM notifications WHERE session = ? AND method = ? AND uri = ?"
        self._connection.execute(query, (used.key, notification.method, _uri_bytes(notification.uri)))

    # --- streams ---------------------------------------------------------------------------------------------------

    def begin(self, session: str, pending: Sequence[RequestId], worker: str) -> int:
        """Begin a stream, and return its number; 0 if the session does not exist. Raises `LimitExceeded`."""
        used = self._session(session)
        if used is None:
            return 0
        self._check_capacity(used)
        if not pending:
            self._over(used, "standalone AND NOT over")
        newest = self._newest(used)
        stream = next_stream(newest, standalone=not pending)
        self._connection.execute(
            "INSERT INTO streams (session, stream, last, standalone, over, worker) VALUES (?, ?, 0, ?, 0, ?)",
            (used.key, stream, not pending, worker),
        )
        ids = [(used.key, stream, json.dumps(id), place) for place, id in enumerate(pending)]
        self._connection.executemany(
            "INSERT OR IGNORE INTO pending (session, stream, id, place) VALUES (?, ?, ?, ?)", ids
        )
        # The previous newest stream may have been kept only for its number.
        self._connection.execute(_SWEEP, (used.key, newest, newest))
        return stream

    def _newest(self, used: _Usage) -> int:
        """Return the greatest number of a stream, or -1 without a stream."""
        return _number(self._connection, "SELECT coalesce(max(stream), -1) FROM streams WHERE session = ?", used.key)

    def _check_capacity(self, used: _Usage) -> None:
        for observed, setting, unit in (
            (used.answers, "replay_events", ""),
            (used.answers_size, "replay_bytes", " in bytes"),
        ):
            allowed: int = getattr(self._limits, setting)
            if observed >= allowed:
                raise LimitExceeded(
                    f"undelivered responses of one session{unit}",
                    observed=observed,
                    allowed=allowed,
                    setting=f"Limits.{setting}",
                )

    def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """Store events. Raises `LocalProtocolError`."""
        used = self._session(session)
        if used is None:
            return
        for event in events:
            self._append(used, event)
        if used.events > self._limits.replay_events or used.size > self._limits.replay_bytes:
            self._free(used)

    def _append(self, used: _Usage, event: StoredEvent) -> None:
        at = (used.key, event.stream)
        row = self._connection.execute("SELECT last, over FROM streams WHERE session = ? AND stream = ?", at).fetchone()
        if row is None:
            raise LocalProtocolError(f"stream {event.stream} was not begun")
        last, over = row
        if event.number <= last:
            return
        if over:
            raise LocalProtocolError(f"stream {event.stream} has ended")
        if event.number != last + 1:
            raise LocalProtocolError(f"event {event.number} of stream {event.stream} cannot follow event {last}")
        answers: str | None = None
        if event.answers is not None:
            answers = json.dumps(event.answers)
            query = "DELETE FROM pending WHERE session = ? AND stream = ? AND id = ?"
            if not self._connection.execute(query, (*at, answers)).rowcount:
                raise LocalProtocolError(f"stream {event.stream} has no pending request with the id {event.answers!r}")
        self._connection.execute("UPDATE streams SET last = ? WHERE session = ? AND stream = ?", (event.number, *at))
        self._connection.execute(
            "INSERT INTO events (session, stream, number, data, answers) VALUES (?, ?, ?, ?, ?)",
            (*at, event.number, event.data, answers),
        )
        used.add(len(event.data), answers=answers is not None)
        if event.notification is not None:
            self._remove(used, event.notification)

    def _free(self, used: _Usage) -> None:
        """Remove events until there is space for more than one: sorting the events for each new one costs too much."""
        dropped: list[tuple[int]] = []
        for place, size in self._connection.execute(_EXPENDABLE, (used.key,)):
            if used.events <= self._limits.replay_events * 7 // 8 and used.size <= self._limits.replay_bytes * 7 // 8:
                break
            dropped.append((place,))
            used.events -= 1
            used.size -= size
        self._connection.executemany("DELETE FROM events WHERE place = ?", dropped)
        self._connection.execute(_SWEEP, (used.key, -_LARGEST, self._newest(used) - 1))

    def delivered(self, session: str, stream: int) -> None:
        """End a stream."""
        used = self._session(session)
        if used is not None:
            self._over(used, "stream = ?2 AND NOT over", stream)

    def _over(self, used: _Usage, which: str, *values: int) -> None:
        """End the stream for which a condition holds, if there is one."""
        found = self._connection.execute(
            f"SELECT stream FROM streams WHERE session = ?1 AND {which}",  # noqa: S608  # two constants
            (used.key, *values),
        ).fetchone()
        if found is None:
            return
        at = (used.key, *found)
        self._connection.execute("UPDATE streams SET over = 1 WHERE session = ? AND stream = ?", at)
        self._connection.execute("DELETE FROM pending WHERE session = ? AND stream = ?", at)
        answers, size = self._connection.execute(
            "SELECT count(*), coalesce(sum(length(data)), 0) FROM events "
            "WHERE session = ? AND stream = ? AND answers IS NOT NULL",
            at,
        ).fetchone()
        used.answers -= answers
        used.answers_size -= size
        self._connection.execute(_SWEEP, (*at, min(at[1], self._newest(used) - 1)))

    def streams(self, session: str) -> tuple[StoredStream, ...]:
        """Return the streams of a session, in the order of their numbers."""
        used = self._session(session)
        if used is None:
            return ()
        query = "SELECT stream, last, worker FROM streams WHERE session = ? ORDER BY stream"
        rows = self._connection.execute(query, (used.key,)).fetchall()
        pending: dict[int, list[RequestId]] = {stream: [] for stream, _, _ in rows}
        query = "SELECT stream, id FROM pending WHERE session = ? ORDER BY stream, place"
        for stream, id in self._connection.execute(query, (used.key,)):
            pending[stream].append(json.loads(id))
        return tuple(StoredStream(stream, last, tuple(pending[stream]), worker) for stream, last, worker in rows)

    def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """Return the events of a stream whose number is greater than `after`."""
        used = self._session(session)
        if used is None or stream > _LARGEST or after > _LARGEST:
            return ()
        rows = self._connection.execute(
            "SELECT number, data, answers FROM events WHERE session = ? AND stream = ? AND number > ? ORDER BY number",
            (used.key, stream, after),
        )
        return tuple(StoredEvent(stream, number, data, _id(answers)) for number, data, answers in rows)


def _id(text: str | None) -> RequestId | None:
    # Ids are stored as JSON, because 1 and "1" are different ids.
    id: RequestId | None = None if text is None else json.loads(text)
    return id


def _uri_bytes(uri: str) -> bytes:
    # A client can send a lone surrogate, which SQLite does not accept as text.
    return uri.encode("utf-8", "surrogatepass")


def _uri_text(uri: bytes) -> str:
    return uri.decode("utf-8", "surrogatepass")
