"""Sessions in memory: they end with the process."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.errors import LocalProtocolError
from mcp_core.http.event_log import EventLog
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_server._stores import StoredEvent, StoredStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_server._stores import SessionRecord

__all__ = ["MemoryStore"]


@attrs.define
class _Kept:
    record: SessionRecord
    log: EventLog | None = None
    """Most sessions have no streams, and a thousand of them shall fit in little memory."""
    newest: int = -1


class MemoryStore:
    """A `SessionStore` in memory. Nothing of it waits for anything, and none of its methods is a checkpoint.

    Args:
        limits: The bounds: `sessions`, for each session `replay_events` and `replay_bytes`, and `stored_bytes` for all.
    """

    def __init__(self, *, limits: Limits = SERVER_LIMITS) -> None:
        self._limits: Final = limits
        self._kept: Final[OrderedDict[str, _Kept]] = OrderedDict()
        self._bytes = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._kept)} sessions>"

    async def save(self, record: SessionRecord) -> None:
        """See `SessionStore.save`."""
        kept = self._find(record.id)
        if kept is None:
            self._kept[record.id] = _Kept(record)
            if len(self._kept) > self._limits.sessions:
                self._drop(next(iter(self._kept)))
        else:
            kept.record = record
            self._kept.move_to_end(record.id)

    async def load(self, id: str) -> SessionRecord | None:
        """See `SessionStore.load`."""
        kept = self._find(id)
        return None if kept is None else kept.record

    async def delete(self, id: str) -> None:
        """See `SessionStore.delete`."""
        if self._find(id) is not None:
            self._drop(id)

    async def begin(self, session: str, stream: int, owed: Sequence[RequestId]) -> None:
        """See `SessionStore.begin`."""
        kept = self._find(session)
        if kept is not None:
            if kept.log is None:
                kept.log = EventLog(self._limits)
            kept.log.begin(stream, owed)
            kept.newest = max(kept.newest, stream)

    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """See `SessionStore.append`."""
        kept = self._find(session)
        if kept is None:
            return
        before = 0 if kept.log is None else kept.log.size
        try:
            self._add(kept, events)
        finally:
            self._bytes += (0 if kept.log is None else kept.log.size) - before
        if self._bytes > self._limits.stored_bytes:
            self._make_room(session)

    @staticmethod
    def _add(kept: _Kept, events: Sequence[StoredEvent]) -> None:
        for event in events:
            stream = None if kept.log is None else kept.log.find(event.stream)
            if kept.log is None or stream is None:
                raise LocalProtocolError(f"stream {event.stream} was not begun")
            if event.number > stream.last + 1:
                raise LocalProtocolError(
                    f"event {event.number} of stream {event.stream} cannot follow event {stream.last}"
                )
            if event.number > stream.last:
                kept.log.append(event.stream, event.data, event.answers)

    async def delivered(self, session: str, stream: int) -> None:
        """See `SessionStore.delivered`."""
        kept = self._find(session)
        if kept is not None and kept.log is not None:
            before = kept.log.size
            kept.log.delivered(stream)
            self._bytes += kept.log.size - before

    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """See `SessionStore.streams`."""
        kept = self._find(session)
        if kept is None or kept.log is None:
            return ()
        found = {each.stream: StoredStream(each.stream, each.last, each.owed) for each in kept.log.streams()}
        found.setdefault(kept.newest, StoredStream(kept.newest, 0))
        return tuple([found[stream] for stream in sorted(found)])

    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """See `SessionStore.events`."""
        kept = self._find(session)
        replay = None if kept is None or kept.log is None else kept.log.after(stream, after)
        if replay is None:
            return ()
        return tuple([StoredEvent(stream, event.number, event.data, event.answers) for event in replay.events])

    async def purge(self, used_before: float) -> int:
        """See `SessionStore.purge`."""
        self._find("")
        old = [id for id, kept in self._kept.items() if kept.record.used_at < used_before]
        for id in old:
            self._drop(id)
        return len(old)

    async def aclose(self) -> None:
        """See `SessionStore.aclose`. What was kept is gone."""
        self._closed = True
        self._kept.clear()
        self._bytes = 0

    def _drop(self, id: str) -> None:
        kept = self._kept.pop(id)
        if kept.log is not None:
            self._bytes -= kept.log.size

    def _make_room(self, current: str) -> None:
        """Drops what was used least recently. A tenth more than needed, so that it is not done for each event."""
        enough = self._limits.stored_bytes * 9 // 10
        for kept in self._kept.values():
            if kept.log is not None and kept.log.size:
                before = kept.log.size
                kept.log.shed()
                self._bytes += kept.log.size - before
                if self._bytes <= enough:
                    return
        for id in [id for id in self._kept if id != current]:
            self._drop(id)
            if self._bytes <= enough:
                return

    def _find(self, id: str) -> _Kept | None:
        if self._closed:
            raise trio.ClosedResourceError("the store was closed")
        return self._kept.get(id)
