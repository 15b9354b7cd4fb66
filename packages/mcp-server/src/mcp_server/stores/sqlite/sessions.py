"""Sessions in an SQLite file: they survive the process.

What a process that is killed had acknowledged is in the file. When the machine itself stops (a power cut), the
transactions of the last moments may be missing, as if they had not been made; the file is whole all the same
(write-ahead log, `synchronous = NORMAL`). Who needs more than that needs a disk that is flushed for each event.
"""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.limits import SERVER_LIMITS, Limits
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
    """Changes that are announced one after the other, with nothing else asked of the store in between.

    They go to the thread as one. So a change that is announced faster than it can be recorded does not fill the queue.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._changes: Final[dict[PendingNotification, None]] = {}
        self._begun = False

    def add(self, notification: PendingNotification) -> bool:
        """Add a change. Returns whether it was added: it is too late when the thread has begun."""
        with self._lock:
            if not self._begun:
                self._changes[notification] = None
            return not self._begun

    def begin(self) -> tuple[PendingNotification, ...]:
        """Return the changes; no others are added from here on."""
        with self._lock:
            self._begun = True
        return tuple(self._changes)


class SqliteStore:
    """A `SessionStore` in a file, which only one process may have open at a time.

    The file is made if it is not there, readable for its owner only. It is bounded by `Limits.sessions` and, for each
    session, `Limits.replay_events` and `Limits.replay_bytes`; it does not become smaller, but its room is used again.

    Args:
        path: The file. Another one appears beside it while it is in use.
        limits: The bounds; those of the server.

    Raises:
        StoreError: The file cannot be opened, is in use, or is something else; the message says what to do.
    """

    def __init__(self, path: str | os.PathLike[str], *, limits: Limits = SERVER_LIMITS) -> None:
        place = os.path.abspath(path)  # the process may change its directory
        self.thread: Final = StoreThread(place, opened(place))
        """Has the file."""
        self._tables: Final = Tables(self.thread.connection, limits)
        self.thread.forget.append(self._tables.forget)
        self._recording = _Recording()
        self._recording_asked = -1
        self._recording_fails = False

    def __repr__(self) -> str:
        return f"<SqliteStore {self.thread.path}>"

    # --- for the endpoint ------------------------------------------------------------------------------------------

    async def save(self, record: SessionRecord) -> None:
        """See `SessionStore.save`."""
        await self.thread.do(partial(self._tables.save, record))

    async def load(self, id: str) -> SessionRecord | None:
        """See `SessionStore.load`."""
        return await self.thread.do(partial(self._tables.load, id))

    async def delete(self, id: str) -> None:
        """See `SessionStore.delete`."""
        await self.thread.do(partial(self._tables.delete, id))

    async def subscribe(self, session: str, uri: str) -> None:
        """See `SessionStore.subscribe`."""
        await self.thread.do(partial(self._tables.subscribe, session, uri))

    async def unsubscribe(self, session: str, uri: str) -> None:
        """See `SessionStore.unsubscribe`."""
        await self.thread.do(partial(self._tables.unsubscribe, session, uri))

    async def subscriptions(self, session: str) -> frozenset[str]:
        """See `SessionStore.subscriptions`."""
        return await self.thread.do(partial(self._tables.subscriptions, session))

    async def begin(self, session: str, stream: int, owed: Sequence[RequestId]) -> None:
        """See `SessionStore.begin`."""
        await self.thread.do(partial(self._tables.begin, session, stream, tuple(owed)))

    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """See `SessionStore.append`."""
        await self.thread.do(partial(self._tables.append, session, tuple(events)))

    async def delivered(self, session: str, stream: int) -> None:
        """See `SessionStore.delivered`."""
        await self.thread.do(partial(self._tables.delivered, session, stream))

    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """See `SessionStore.streams`."""
        return await self.thread.do(partial(self._tables.streams, session))

    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """See `SessionStore.events`."""
        return await self.thread.do(partial(self._tables.events, session, stream, after))

    def record_notification(self, notification: PendingNotification) -> None:
        """See `SessionStore.record_notification`."""
        if self._recording_asked == self.thread.asked and self._recording.add(notification):
            return
        self._recording = recording = _Recording()
        recording.add(notification)
        self.thread.order(partial(self._record, recording), self._not_recorded)
        self._recording_asked = self.thread.asked

    def _record(self, recording: _Recording) -> None:
        for notification in recording.begin():
            self._tables.record(notification)
        self._recording_fails = False

    def _not_recorded(self, error: Exception) -> None:
        if not self._recording_fails:
            self._recording_fails = True
            _log.error("changes are not recorded for sessions that are not in use: %s", error)

    async def pending_notifications(self, session: str) -> tuple[PendingNotification, ...]:
        """See `SessionStore.pending_notifications`."""
        return await self.thread.do(partial(self._tables.pending, session))

    async def remove_notifications(self, session: str, notifications: Sequence[PendingNotification]) -> None:
        """See `SessionStore.remove_notifications`."""
        await self.thread.do(partial(self._tables.remove, session, tuple(notifications)))

    async def purge(self, used_before: float, now: float) -> int:
        """See `SessionStore.purge`."""
        return await self.thread.do(partial(self._tables.purge, used_before, now))

    async def aclose(self) -> None:
        """See `SessionStore.aclose`. What was asked for before is done first."""
        await self.thread.aclose()
