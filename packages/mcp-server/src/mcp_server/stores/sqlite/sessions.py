"""A store of sessions in an SQLite file: they survive the process.

If a process is killed, the file contains everything that the store acknowledged. If the machine stops, for example
after a power failure, the most recent transactions may be missing, as if they had not been made. The file is consistent
in both cases (write-ahead log, `synchronous = NORMAL`). An application that needs more durability needs a disk that is
flushed for each event.
"""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.stores.sqlite.database import opened
from mcp_server.stores.sqlite.tables import Tables
from mcp_server.stores.sqlite.thread import StoreThread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_server.stores.sessions import PendingNotification, SessionRecord, StoredEvent, StoredStream

__all__ = ["SqliteStore"]


_log: Final = logging.getLogger("mcp_server")


class _Recording:
    """Changes that are published one after the other, without another call of the store in between.

    The thread records them as one job. A change that is published faster than it can be recorded therefore does not
    fill the queue.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._changes: Final[dict[PendingNotification, None]] = {}
        self._begun = False

    def add(self, notification: PendingNotification) -> bool:
        """Add a change, and return whether it was added. The thread accepts no changes after it has begun."""
        with self._lock:
            if not self._begun:
                self._changes[notification] = None
            return not self._begun

    def begin(self) -> tuple[PendingNotification, ...]:
        """Close the collection, and return its changes."""
        with self._lock:
            self._begun = True
        return tuple(self._changes)


class SqliteStore:
    """A `SessionStore` in a file. One process at a time can open the file.

    The file is created if it does not exist, and only its owner can read it. `Limits.sessions` bounds it, and
    `Limits.replay_events` and `Limits.replay_bytes` bound each session. The file does not shrink, but the store reuses
    its free space.

    Args:
        path: The file. SQLite creates other files in the same directory while the store is open.
        limits: The bounds. They should be the limits of the server.

    Raises:
        StoreError: The file cannot be opened, is in use, or is not a file of this store. The message states the remedy.
    """

    def __init__(self, path: str | os.PathLike[str], *, limits: Limits = SERVER_LIMITS) -> None:
        place = os.path.abspath(path)  # the working directory of the process may change
        self.thread: Final = StoreThread(place, opened(place))
        """The thread that uses the file."""
        self._tables: Final = Tables(self.thread.connection, limits)
        self.thread.forget.append(self._tables.forget)
        self._recording = _Recording()
        self._recording_requested = -1
        self._recording_fails = False

    def __repr__(self) -> str:
        return f"<SqliteStore {self.thread.path}>"

    # --- for the endpoint ------------------------------------------------------------------------------------------

    @allow_asyncio
    async def save(self, record: SessionRecord) -> tuple[str, ...]:
        """Store a session or replace its record. Remove the least recently used session if there are too many."""
        return await self.thread.do(partial(self._tables.save, record))

    @allow_asyncio
    async def load(self, id: str) -> SessionRecord | None:
        """Return the record of a session, or `None` if the session does not exist."""
        return await self.thread.do(partial(self._tables.load, id))

    @allow_asyncio
    async def touch(self, id: str, used_at: float) -> bool:
        """Renew the time of last use of a session, and return whether it exists."""
        return await self.thread.do(partial(self._tables.touch, id, used_at))

    @allow_asyncio
    async def delete(self, id: str) -> None:
        """Delete a session with its subscriptions and streams."""
        await self.thread.do(partial(self._tables.delete, id))

    @allow_asyncio
    async def subscribe(self, session: str, uri: str) -> None:
        """Add a resource to the subscriptions of a session."""
        await self.thread.do(partial(self._tables.subscribe, session, uri))

    @allow_asyncio
    async def unsubscribe(self, session: str, uri: str) -> None:
        """Remove a resource from the subscriptions of a session."""
        await self.thread.do(partial(self._tables.unsubscribe, session, uri))

    @allow_asyncio
    async def subscriptions(self, session: str) -> frozenset[str]:
        """Return the URIs that a session is subscribed to."""
        return await self.thread.do(partial(self._tables.subscriptions, session))

    @allow_asyncio
    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        """Begin a stream, and return its number."""
        return await self.thread.do(partial(self._tables.begin, session, tuple(pending), worker))

    @allow_asyncio
    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """Store events, all of them or none."""
        await self.thread.do(partial(self._tables.append, session, tuple(events)))

    @allow_asyncio
    async def delivered(self, session: str, stream: int) -> None:
        """End a stream."""
        await self.thread.do(partial(self._tables.delivered, session, stream))

    @allow_asyncio
    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """Return the streams of a session, in the order of their numbers."""
        return await self.thread.do(partial(self._tables.streams, session))

    @allow_asyncio
    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """Return the events of a stream whose number is greater than `after`."""
        return await self.thread.do(partial(self._tables.events, session, stream, after))

    def record_notification(self, notification: PendingNotification) -> None:
        """Record a change as pending for all sessions that it concerns, in one transaction."""
        if self._recording_requested == self.thread.requested and self._recording.add(notification):
            return
        self._recording = recording = _Recording()
        recording.add(notification)
        self.thread.order(partial(self._record, recording), self._not_recorded)
        self._recording_requested = self.thread.requested

    def _record(self, recording: _Recording) -> None:
        for notification in recording.begin():
            self._tables.record(notification)
        self._recording_fails = False

    def _not_recorded(self, error: Exception) -> None:
        if not self._recording_fails:
            self._recording_fails = True
            _log.error("changes cannot be recorded for sessions that are not in use: error=%s", error)

    @allow_asyncio
    async def pending_notifications(self, session: str) -> tuple[PendingNotification, ...]:
        """Return the pending notifications of a session."""
        return await self.thread.do(partial(self._tables.pending, session))

    @allow_asyncio
    async def remove_notifications(self, session: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove pending notifications of a session."""
        await self.thread.do(partial(self._tables.remove, session, tuple(notifications)))

    @allow_asyncio
    async def purge(self, used_before: float, now: float) -> int:
        """Delete the sessions that have not been used for too long, and return their number."""
        return await self.thread.do(partial(self._tables.purge, used_before, now))

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the store, after all earlier calls are completed."""
        await self.thread.aclose()
