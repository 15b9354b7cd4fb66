"""A cluster of several workers in one process, for tests of servers, and a reference for authors of clusters.

    cluster = MemoryCluster()
    first, second = server_1.asgi(cluster=cluster.worker()), server_2.asgi(cluster=cluster.worker())

It simulates failures: `MemoryCluster.is_reachable` makes the stores fail and delays messages, `MemoryWorker.kill` ends a
worker without a word, and `MemoryWorker.discard_messages` loses what a worker has not received yet.

Nothing here waits for real time, so that the clock of the test decides.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.engine.subscriptions import covering, covers
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.cluster.limits import MemoryRates, MemoryReplays
from mcp_server.cluster.messages import decode_message, encode_message
from mcp_server.stores.memory.sessions import MemoryStore
from mcp_server.stores.memory.tasks import MemoryTaskStore
from mcp_server.stores.sessions import PendingNotification, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import ClusterReceiver, RateStore, ReplayStore
    from mcp_server.stores.sessions import SessionRecord, SessionStore, StoredEvent, StoredStream
    from mcp_server.stores.tasks import TaskOrder, TaskRecord, TaskStore

__all__ = ["MemoryCluster", "MemoryWorker"]

_log: Final = logging.getLogger("mcp_server")

_QUEUED: Final = 10_000
"""The largest number of messages that wait for one worker. Above it, they are lost."""


@attrs.define
class _Session:
    """The changes of one session."""

    subscriptions: set[str] = attrs.field(factory=set)
    pending: dict[PendingNotification, None] = attrs.field(factory=dict)
    """The pending notifications, in the order in which they were recorded."""


class MemoryCluster:
    """A cluster of workers in one process: what they share.

    Args:
        limits: The limits of the stores.
    """

    def __init__(self, *, limits: Limits = SERVER_LIMITS) -> None:
        self.limits: Final = limits
        """The limits of the stores."""
        self.store: Final = MemoryStore(limits=limits)
        """The records and streams of the sessions."""
        self.changes: Final[dict[str, _Session]] = {}
        """The subscriptions and pending notifications of the sessions, by session id."""
        self.task_store: Final = MemoryTaskStore(limits=limits)
        """The tasks."""
        self.replay_ids: Final = MemoryReplays(clock=trio.current_time)
        """The ids that may be used once."""
        self.rate_limits: Final = MemoryRates(clock=trio.current_time)
        """The rate limits of principals."""
        self.members: Final[dict[str, MemoryWorker]] = {}
        """The workers that take part, by id."""
        self.keys: tuple[bytes, ...] = (secrets.token_bytes(32),)
        """The keys of request states and cursors; see `replace_keys`."""
        self._is_reachable = True

    def worker(self) -> MemoryWorker:
        """Return a connection for another worker."""
        return MemoryWorker(self)

    @property
    def is_reachable(self) -> bool:
        """Whether the workers reach the stores and each other. Set it to simulate a failure."""
        return self._is_reachable

    @is_reachable.setter
    def is_reachable(self, is_reachable: bool) -> None:
        self._is_reachable = is_reachable
        for member in self.members.values():
            member.wake()

    def replace_keys(self, keys: Sequence[bytes]) -> None:
        """Replace the keys of request states and cursors, and inform the workers."""
        self.keys = tuple(keys)
        for member in self.members.values():
            member.learn_keys()

    def record(self, notification: PendingNotification) -> None:
        """Record a change as pending for each session that it concerns."""
        above = tuple(covering(notification.uri)) if notification.is_update else ()
        for session in self.changes.values():
            if notification.is_update:
                self._record_update(session, notification.uri, above)
            else:
                session.pending.setdefault(notification)

    def _record_update(self, session: _Session, uri: str, above: Sequence[str]) -> None:
        allowed = self.limits.watched_resources if len(uri) <= self.limits.uri_chars else 0
        for watched in above:
            if watched in session.subscriptions:
                known = uri if watched == uri or len(session.pending) < allowed else watched
                session.pending.setdefault(PendingNotification(NOTIFICATIONS_RESOURCES_UPDATED.name, known))

    def remove_member(self, worker: str) -> None:
        """Remove a worker that has ended, and inform the others."""
        if self.members.pop(worker, None) is not None:
            for member in self.members.values():
                member.learn_lost(worker)


class MemoryWorker:
    """A `Cluster` of a `MemoryCluster`, returned by `MemoryCluster.worker`."""

    is_shared: Final[bool] = True
    """`True`: other workers can join."""

    def __init__(self, shared: MemoryCluster) -> None:
        self.shared: Final = shared
        """What the workers share."""
        self.worker: Final[str] = secrets.token_urlsafe(16)
        """The id of this worker."""
        self.sessions: Final[SessionStore] = _WorkerSessions(self)
        """The sessions of legacy clients over HTTP."""
        self.tasks: Final[TaskStore] = _WorkerTasks(self)
        """The tasks."""
        self.replays: Final[ReplayStore] = _WorkerReplays(self)
        """The ids that may be used once."""
        self.rates: Final[RateStore] = _WorkerRates(self)
        """The rate limits of principals."""
        self.is_killed: bool = False
        """Whether `kill` was called."""
        self.is_paused: bool = False
        """Whether messages wait. Set it to simulate a slow connection, and call `wake` after the end of the pause."""
        self._receiver: ClusterReceiver | None = None
        self._inbox: Final[deque[tuple[str, bytes]]] = deque()
        self._lost: Final[deque[str]] = deque()
        self._has_missed = False
        self._has_keys = False
        self._woken = trio.Event()

    def __repr__(self) -> str:
        return f"<MemoryWorker {self.worker}>"

    # --- failures --------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the worker without a word: its stores fail, its messages are lost, and the others are informed."""
        self.is_killed = True
        self._inbox.clear()
        self.shared.remove_member(self.worker)

    def discard_messages(self) -> None:
        """Discard the messages that this worker has not received yet, and inform it that they are lost."""
        self._inbox.clear()
        self._has_missed = True
        self.wake()

    @allow_asyncio
    async def reach(self) -> None:
        """Wait for the next iteration of the event loop, like a command to a store. Raises `StoreError`."""
        await trio.lowlevel.checkpoint()
        if self.is_killed or not self.shared.is_reachable:
            raise StoreError("the cluster in memory cannot be reached: the test has interrupted it")

    # --- messages --------------------------------------------------------------------------------------------------

    @allow_asyncio
    async def run(
        self, receiver: ClusterReceiver, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Receive messages until cancelled. Raises `trio.BusyResourceError` if it is already running."""
        if self._receiver is not None:
            raise trio.BusyResourceError("the worker takes part in its cluster already")
        self._receiver = receiver
        try:
            while not self.shared.is_reachable or self.is_killed:
                await self._wait()
            self.shared.members[self.worker] = self
            receiver.keys_changed(self.shared.keys)
            task_status.started()
            while True:
                while self._deliver(receiver):
                    await trio.lowlevel.checkpoint()
                await self._wait()
        finally:
            self._receiver = None
            self.shared.remove_member(self.worker)

    def _deliver(self, receiver: ClusterReceiver) -> bool:
        """Deliver the next message, and return whether there was one."""
        if self.is_paused or self.is_killed or not self.shared.is_reachable:
            return False
        if self._has_missed:
            self._has_missed = False
            receiver.missed()
        elif self._inbox:
            sender, data = self._inbox.popleft()
            message = decode_message(data)
            if message is not None:
                receiver.receive(sender, message)
        elif self._has_keys:
            self._has_keys = False
            receiver.keys_changed(self.shared.keys)
        elif self._lost:
            # After the last message of the lost worker.
            receiver.lost(self._lost.popleft())
        else:
            return False
        return True

    async def _wait(self) -> None:
        self._woken = trio.Event()
        await self._woken.wait()

    def wake(self) -> None:
        """Continue to deliver messages."""
        self._woken.set()

    def broadcast(self, message: ClusterMessage) -> None:
        """Send a message to all other workers."""
        for member in tuple(self.shared.members.values()):
            if member is not self:
                self.send(member.worker, message)

    def send(self, worker: str, message: ClusterMessage) -> None:
        """Send a message to one worker."""
        member = self.shared.members.get(worker)
        if member is not None and not self.is_killed:
            member.accept(self.worker, encode_message(message))

    def accept(self, sender: str, data: bytes) -> None:
        """Queue a message of another worker."""
        if len(self._inbox) >= _QUEUED:
            _log.warning("messages between workers lost: worker=%s", self.worker)
            self.discard_messages()
        else:
            self._inbox.append((sender, data))
            self.wake()

    def learn_lost(self, worker: str) -> None:
        """Queue the information that another worker has ended."""
        self._lost.append(worker)
        self.wake()

    def learn_keys(self) -> None:
        """Queue the information that the keys have changed."""
        self._has_keys = True
        self.wake()

    @allow_asyncio
    async def flush(self) -> None:
        """Return: changes and messages are in the cluster at once. Raises `StoreError` if it cannot be reached."""
        await self.reach()

    def is_alive(self, worker: str) -> bool:
        """Return whether a worker takes part."""
        return worker in self.shared.members

    @allow_asyncio
    async def others(self) -> frozenset[str]:
        """Return the other workers that take part. Raises `StoreError`."""
        await self.reach()
        return frozenset(self.shared.members) - {self.worker}

    @allow_asyncio
    async def check(self) -> None:
        """Raise `StoreError` unless the cluster can be reached."""
        await self.reach()

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the stores of this worker. The data stays in the cluster."""
        await self.sessions.aclose()
        await self.tasks.aclose()


class _WorkerSessions:
    """The `SessionStore` of one worker."""

    def __init__(self, worker: MemoryWorker) -> None:
        self._worker: Final = worker
        self._shared: Final = worker.shared
        self._closed = False

    async def _reach(self) -> MemoryStore:
        if self._closed:
            raise trio.ClosedResourceError("the session store was closed")
        await self._worker.reach()
        return self._shared.store

    async def save(self, record: SessionRecord) -> tuple[str, ...]:
        store = await self._reach()
        removed = await store.save(record)
        self._shared.changes.setdefault(record.id, _Session())
        for id in removed:
            self._shared.changes.pop(id, None)
        return removed

    async def load(self, id: str) -> SessionRecord | None:
        return await (await self._reach()).load(id)

    async def touch(self, id: str, used_at: float) -> bool:
        return await (await self._reach()).touch(id, used_at)

    async def delete(self, id: str) -> None:
        await (await self._reach()).delete(id)
        self._shared.changes.pop(id, None)

    async def subscribe(self, session: str, uri: str) -> None:
        await self._reach()
        known = self._shared.changes.get(session)
        if known is not None:
            known.subscriptions.add(uri)

    async def unsubscribe(self, session: str, uri: str) -> None:
        await self._reach()
        known = self._shared.changes.get(session)
        if known is not None and uri in known.subscriptions:
            known.subscriptions.discard(uri)
            for each in tuple(known.pending):
                if each.is_update and not covers(known.subscriptions, each.uri):
                    del known.pending[each]

    async def subscriptions(self, session: str) -> frozenset[str]:
        await self._reach()
        known = self._shared.changes.get(session)
        return frozenset() if known is None else frozenset(known.subscriptions)

    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        return await (await self._reach()).begin(session, pending, worker=worker)

    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        store = await self._reach()
        last = {each.stream: each.last for each in await store.streams(session)}
        await store.append(session, events)
        known = self._shared.changes.get(session)
        for event in events:
            if known is not None and event.notification is not None and event.number > last.get(event.stream, 0):
                known.pending.pop(event.notification, None)

    async def delivered(self, session: str, stream: int) -> None:
        await (await self._reach()).delivered(session, stream)

    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        return await (await self._reach()).streams(session)

    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        return await (await self._reach()).events(session, stream, after)

    def record_notification(self, notification: PendingNotification) -> None:
        if self._closed:
            return
        if self._worker.is_killed or not self._shared.is_reachable:
            _log.error("changes cannot be recorded: the cluster in memory cannot be reached")
            return
        self._shared.record(notification)

    async def pending_notifications(self, session: str) -> tuple[PendingNotification, ...]:
        await self._reach()
        known = self._shared.changes.get(session)
        return () if known is None else tuple(known.pending)

    async def remove_notifications(self, session: str, notifications: Sequence[PendingNotification]) -> None:
        await self._reach()
        known = self._shared.changes.get(session)
        for each in notifications:
            if known is not None:
                known.pending.pop(each, None)

    async def purge(self, used_before: float, now: float) -> int:
        store = await self._reach()
        count = await store.purge(used_before, now)
        for id in tuple(self._shared.changes):
            if await store.load(id) is None:
                self._shared.changes.pop(id, None)
        return count

    async def aclose(self) -> None:
        self._closed = True


class _WorkerTasks:
    """The `TaskStore` of one worker."""

    def __init__(self, worker: MemoryWorker) -> None:
        self._worker: Final = worker
        self._closed = False

    async def _reach(self) -> MemoryTaskStore:
        if self._closed:
            raise trio.ClosedResourceError("the task store was closed")
        await self._worker.reach()
        return self._worker.shared.task_store

    async def create(self, record: TaskRecord) -> None:
        await (await self._reach()).create(record)

    async def save(self, record: TaskRecord) -> None:
        await (await self._reach()).save(record)

    async def claim(self, record: TaskRecord, worker: str) -> TaskRecord | None:
        return await (await self._reach()).claim(record, worker)

    async def load(self, id: str) -> TaskRecord | None:
        return await (await self._reach()).load(id)

    async def delete(self, id: str) -> None:
        await (await self._reach()).delete(id)

    async def listed(self, owner: str, after: TaskOrder | None, count: int) -> tuple[TaskRecord, ...]:
        return await (await self._reach()).listed(owner, after, count)

    async def unfinished(self) -> tuple[TaskRecord, ...]:
        return await (await self._reach()).unfinished()

    async def purge(self, expired_by: float, now: float) -> float | None:
        return await (await self._reach()).purge(expired_by, now)

    async def aclose(self) -> None:
        self._closed = True


class _WorkerReplays:
    """The `ReplayStore` of one worker."""

    def __init__(self, worker: MemoryWorker) -> None:
        self._worker: Final = worker

    async def take(self, id: bytes, seconds: float) -> bool:
        await self._worker.reach()
        return await self._worker.shared.replay_ids.take(id, seconds)


class _WorkerRates:
    """The `RateStore` of one worker."""

    def __init__(self, worker: MemoryWorker) -> None:
        self._worker: Final = worker

    async def take(self, key: str, *, count: int, per_second: float, burst: int) -> int:
        await self._worker.reach()
        return await self._worker.shared.rate_limits.take(key, count=count, per_second=per_second, burst=burst)
