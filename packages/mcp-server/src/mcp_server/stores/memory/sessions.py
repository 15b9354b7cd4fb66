"""A store of sessions in memory: they end with the process."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.http.event_log import EventLog
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.stores.sessions import StoredEvent, StoredStream, next_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.stores.sessions import PendingNotification, SessionRecord

__all__ = ["MemoryStore"]


_EVENT_BYTES: Final = 256
"""Memory of an event in addition to its data, in bytes."""
_STREAM_BYTES: Final = 512
"""Memory of a stream without its events, in bytes."""


@attrs.define
class _Kept:
    record: SessionRecord
    charge: MemoryCharge
    """The charge for the memory of the streams and their events."""
    subscriptions: set[str] | None = None
    """The subscribed URIs. `None` until the first subscription: most sessions have none."""
    log: EventLog | None = None
    """The events. `None` until the first stream: most sessions have none, and a thousand of them must fit in little
    memory."""
    newest: int = 0
    """The greatest number of a stream; 0 without one."""
    removed: int = 0
    """The greatest number of the streams that were removed because memory was short."""


class MemoryStore:
    """A `SessionStore` in memory. No method blocks, and none is a checkpoint.

    Args:
        limits: The bounds: `sessions`; `replay_events` and `replay_bytes` for each session; `stored_bytes` for all.
        budget: The budget that events are charged to. `None`: a separate budget of `Limits.total_bytes`.
    """

    def __init__(self, *, limits: Limits = SERVER_LIMITS, budget: MemoryBudget | None = None) -> None:
        self._limits: Final = limits
        self._budget: Final = MemoryBudget(limits.total_bytes) if budget is None else budget
        self._kept: Final[OrderedDict[str, _Kept]] = OrderedDict()
        self._bytes = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._kept)} sessions>"

    @allow_asyncio
    async def save(self, record: SessionRecord) -> tuple[str, ...]:
        """Store a session or replace its record. Remove the least recently used session if there are too many."""
        removed: tuple[str, ...] = ()
        kept = self._find(record.id)
        if kept is None:
            owner = ("session", record.id) if record.principal is None else ("principal", record.principal)
            self._kept[record.id] = _Kept(record, self._budget.charge(owner, 0))
            if len(self._kept) > self._limits.sessions:
                removed = (next(iter(self._kept)),)
                self._drop(removed[0])
        else:
            kept.record = record
            self._kept.move_to_end(record.id)
        return removed

    @allow_asyncio
    async def load(self, id: str) -> SessionRecord | None:
        """Return the record of a session, or `None` if the session does not exist."""
        kept = self._find(id)
        return None if kept is None else kept.record

    @allow_asyncio
    async def touch(self, id: str, used_at: float) -> bool:
        """Renew the time of last use of a session, and return whether it exists."""
        kept = self._find(id)
        if kept is None:
            return False
        kept.record = attrs.evolve(kept.record, used_at=used_at)
        self._kept.move_to_end(id)
        return True

    @allow_asyncio
    async def delete(self, id: str) -> None:
        """Delete a session with its subscriptions and streams."""
        if self._find(id) is not None:
            self._drop(id)

    @allow_asyncio
    async def subscribe(self, session: str, uri: str) -> None:
        """Add a resource to the subscriptions of a session."""
        kept = self._find(session)
        if kept is not None:
            if kept.subscriptions is None:
                kept.subscriptions = set()
            kept.subscriptions.add(uri)

    @allow_asyncio
    async def unsubscribe(self, session: str, uri: str) -> None:
        """Remove a resource from the subscriptions of a session."""
        kept = self._find(session)
        if kept is not None and kept.subscriptions is not None:
            kept.subscriptions.discard(uri)

    @allow_asyncio
    async def subscriptions(self, session: str) -> frozenset[str]:
        """Return the URIs that a session is subscribed to."""
        kept = self._find(session)
        return frozenset() if kept is None else frozenset(kept.subscriptions or ())

    @allow_asyncio
    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        """Begin a stream, and return its number."""
        kept = self._find(session)
        if kept is None:
            return 0
        self._reserve(kept.charge, _STREAM_BYTES)
        if kept.log is None:
            kept.log = EventLog(self._limits)
        before = kept.log.size
        stream = next_stream(kept.newest, standalone=not pending)
        try:
            kept.log.begin(stream, pending, worker=worker)
        finally:
            self._settle(kept, before)
        kept.newest = stream
        return stream

    @allow_asyncio
    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """Store events. Remove replayable events, the largest sessions first, if memory is short."""
        kept = self._find(session)
        if kept is None:
            return
        more = _EVENT_BYTES * len(events)
        for event in events:
            more += len(event.data)
        if kept.removed:
            events = [event for event in events if event.stream > kept.removed]
        self._reserve(kept.charge, more)
        before = 0 if kept.log is None else kept.log.size
        try:
            self._add(kept, events)
        finally:
            self._settle(kept, before)
        if self._bytes > self._limits.stored_bytes:
            self._free(session)

    def _reserve(self, charge: MemoryCharge, more: int) -> None:
        """Charge for a stream or for events. Remove replayable events, the largest sessions first, if memory is short.

        Raises:
            LimitExceeded: The budget is exhausted.
        """
        try:
            charge.resize(charge.size + more)
        except LimitExceeded:
            if not self._charge_instead(charge, more):
                raise

    def _charge_instead(self, charge: MemoryCharge, more: int) -> bool:
        """Charge for events in place of others: events kept for replay have less value. Return whether this is enough."""
        for other in self._largest():
            self._shed(other)
            with suppress(LimitExceeded):
                charge.resize(charge.size + more)
                return True
        return False

    def _settle(self, kept: _Kept, before: int) -> None:
        """Update the totals after a change of an event log that had `before` bytes of data."""
        log = kept.log
        if log is not None:
            now = log.size
            self._bytes += now - before
            size = now + _EVENT_BYTES * log.events + _STREAM_BYTES * log.stream_count
            # Most events stay as they were reserved.
            if size != kept.charge.size:
                kept.charge.resize(size)

    @staticmethod
    def _add(kept: _Kept, events: Sequence[StoredEvent]) -> None:
        for event in events:
            last = None if kept.log is None else kept.log.last(event.stream)
            if kept.log is None or last is None:
                raise LocalProtocolError(f"stream {event.stream} was not begun")
            if event.number > last + 1:
                raise LocalProtocolError(f"event {event.number} of stream {event.stream} cannot follow event {last}")
            if event.number > last:
                kept.log.append(event.stream, event.data, event.answers)

    @allow_asyncio
    async def delivered(self, session: str, stream: int) -> None:
        """End a stream."""
        kept = self._find(session)
        if kept is not None and kept.log is not None:
            before = kept.log.size
            kept.log.delivered(stream)
            self._settle(kept, before)

    @allow_asyncio
    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """Return the streams of a session, in the order of their numbers."""
        kept = self._find(session)
        if kept is None or not kept.newest:
            return ()
        streams = () if kept.log is None else kept.log.streams()
        found = {each.stream: StoredStream(each.stream, each.last, each.pending, each.worker) for each in streams}
        found.setdefault(kept.newest, StoredStream(kept.newest, 0))
        return tuple([found[stream] for stream in sorted(found)])

    @allow_asyncio
    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """Return the events of a stream whose number is greater than `after`."""
        kept = self._find(session)
        replay = None if kept is None or kept.log is None else kept.log.after(stream, after)
        if replay is None:
            return ()
        return tuple([StoredEvent(stream, event.number, event.data, event.answers) for event in replay.events])

    def record_notification(self, notification: PendingNotification) -> None:
        """Do nothing: the sessions themselves remember the change until the process ends."""

    @allow_asyncio
    async def pending_notifications(self, session: str) -> tuple[PendingNotification, ...]:
        """Return no notifications: this store does not record any."""
        self._find(session)
        return ()

    @allow_asyncio
    async def remove_notifications(self, session: str, notifications: Sequence[PendingNotification]) -> None:  # noqa: ARG002
        """Do nothing: this store does not record notifications."""
        self._find(session)

    @allow_asyncio
    async def purge(self, used_before: float, now: float) -> int:
        """Delete the sessions that have not been used for too long, and return their number."""
        self._find("")
        for each in self._kept.values():
            if each.record.used_at > now:
                each.record = attrs.evolve(each.record, used_at=now)
        old = [id for id, kept in self._kept.items() if kept.record.used_at < used_before]
        for id in old:
            self._drop(id)
        return len(old)

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the store and delete its sessions."""
        self._closed = True
        for kept in self._kept.values():
            kept.charge.release()
        self._kept.clear()
        self._bytes = 0

    def _drop(self, id: str) -> None:
        kept = self._kept.pop(id)
        kept.charge.release()
        if kept.log is not None:
            self._bytes -= kept.log.size

    def _free(self, current: str) -> None:
        """Remove events, then other streams, largest first, until a tenth of the space is free for later events."""
        enough = self._limits.stored_bytes * 9 // 10
        largest = self._largest()
        for kept in largest:
            self._shed(kept)
            if self._bytes <= enough:
                return
        for kept in [kept for kept in largest if kept.record.id != current]:
            self._remove_streams(kept)
            if self._bytes <= enough:
                return

    def _remove_streams(self, kept: _Kept) -> None:
        """Remove all streams of a session. It continues, but they cannot be resumed."""
        if kept.log is not None:
            self._bytes -= kept.log.size
        kept.log, kept.removed = None, kept.newest
        kept.charge.resize(0)

    def _largest(self) -> list[_Kept]:
        """Return the sessions with events, the largest first, so that clients with few events do not lose them."""
        holding = [kept for kept in self._kept.values() if kept.log is not None and kept.log.size]
        return sorted(holding, key=_log_size, reverse=True)

    def _shed(self, kept: _Kept) -> None:
        """Remove the events of a session that may be removed."""
        if kept.log is not None:
            before = kept.log.size
            kept.log.shed()
            self._settle(kept, before)

    def _find(self, id: str) -> _Kept | None:
        if self._closed:
            raise trio.ClosedResourceError("the session store was closed")
        return self._kept.get(id)


def _log_size(kept: _Kept) -> int:
    return 0 if kept.log is None else kept.log.size
