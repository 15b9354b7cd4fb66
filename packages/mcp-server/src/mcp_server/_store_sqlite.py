"""Sessions in an SQLite file: they survive the process.

What a process that is killed had acknowledged is in the file. When the machine itself stops (a power cut), the
transactions of the last moments may be missing, as if they had not been made; the file is whole all the same
(write-ahead log, `synchronous = NORMAL`). Who needs more than that needs a disk that is flushed for each event.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_server._store_file import opened
from mcp_server._store_tables import Tables
from mcp_server._store_thread import StoreThread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_server._stores import SessionRecord, StoredEvent, StoredStream

__all__ = ["SqliteStore"]


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

    async def purge(self, used_before: float) -> int:
        """See `SessionStore.purge`."""
        return await self.thread.do(partial(self._tables.purge, used_before))

    async def aclose(self) -> None:
        """See `SessionStore.aclose`. What was asked for before is done first."""
        await self.thread.aclose()
