"""The checks of `mcp_server.cluster.contract`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from mcp_core.field_methods import FieldRepr
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED, NOTIFICATIONS_TOOLS_LIST_CHANGED
from mcp_server.cluster.messages import (
    ChangeMade,
    ClientMessageReceived,
    SessionEnded,
    SessionUpdated,
    StreamAppended,
    StreamFollowed,
)
from mcp_server.cluster.protocol import Cluster
from mcp_server.stores.contract.assertions import RECORD, events, refused, same, streams, true
from mcp_server.stores.sessions import PendingNotification, StoredEvent, StoredStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_server.cluster.messages import ClusterMessage

__all__ = [
    "ClusterCheck",
    "OpenWorker",
    "any_uri_can_be_sent",
    "changes_are_pending_for_all_workers",
    "ended_worker_is_lost",
    "flushed_change_reaches_workers_after_end",
    "id_can_be_used_once",
    "message_reaches_its_worker_only",
    "message_to_ended_worker_is_dropped",
    "messages_of_a_worker_arrive_in_order",
    "one_of_two_responses_is_stored",
    "rate_holds_for_all_workers",
    "sessions_are_shared",
    "streams_of_workers_have_different_numbers",
    "worker_runs_once",
    "workers_have_the_same_keys",
]

OpenWorker: TypeAlias = Callable[[], Awaitable[Cluster]]
"""A function that opens another worker of the cluster."""

ClusterCheck: TypeAlias = Callable[[OpenWorker], Awaitable[None]]
"""A check of a cluster. It raises `AssertionError` if the cluster breaks the rule."""

_WAIT_SECONDS: Final = 30.0
"""The longest time to wait for a message or for the loss of a worker, in seconds."""

_MANY: Final = 500
"""A number of messages that each cluster can queue."""


@attrs.define(eq=False, repr=False)
class _Recorder(FieldRepr):
    """A `ClusterReceiver` that records what it receives."""

    messages: list[tuple[str, ClusterMessage]] = attrs.field(factory=list)
    gone: list[str] = attrs.field(factory=list)
    keys: tuple[bytes, ...] = ()
    gaps: int = 0
    _changed: trio.Event = attrs.field(factory=trio.Event)

    def receive(self, sender: str, message: ClusterMessage) -> None:
        """Record a message."""
        self.messages.append((sender, message))
        self._changed.set()

    def missed(self) -> None:
        """Record that messages may have been lost."""
        self.gaps += 1
        self._changed.set()

    def lost(self, worker: str) -> None:
        """Record that a worker has ended."""
        self.gone.append(worker)
        self._changed.set()

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        """Record the keys."""
        self.keys = tuple(keys)
        self._changed.set()

    async def wait(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raise `AssertionError` if it does not hold in time."""
        with trio.move_on_after(_WAIT_SECONDS):
            while not holds():
                self._changed = trio.Event()
                await self._changed.wait()
            return
        raise AssertionError(f"{what}: not within {_WAIT_SECONDS:.0f} s")


@attrs.define(eq=False, repr=False)
class _Member(FieldRepr):
    """A running worker."""

    cluster: Cluster
    recorder: _Recorder
    scope: trio.CancelScope
    ended: trio.Event

    async def leave(self) -> None:
        """End the worker regularly."""
        self.scope.cancel()
        await self.ended.wait()


async def _run(cluster: Cluster, *, task_status: trio.TaskStatus[_Member] = trio.TASK_STATUS_IGNORED) -> None:
    member = _Member(cluster, _Recorder(), trio.CancelScope(), trio.Event())
    try:
        with member.scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(cluster.run, member.recorder)
                task_status.started(member)
    finally:
        member.ended.set()


@asynccontextmanager
async def _workers(open_worker: OpenWorker, count: int) -> AsyncIterator[list[_Member]]:
    """Run workers that know each other, and close them at the end of the block."""
    clusters = [await open_worker() for _ in range(count)]
    try:
        async with trio.open_nursery() as nursery:
            members: list[_Member] = [await nursery.start(_run, cluster) for cluster in clusters]
            for member in members:
                for other in members:
                    with trio.move_on_after(_WAIT_SECONDS):
                        while not member.cluster.is_alive(other.cluster.worker):  # noqa: ASYNC110  # there is no event
                            await trio.sleep(0.01)
            yield members
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _WAIT_SECONDS):
            for cluster in clusters:
                await cluster.aclose()


# --- messages ------------------------------------------------------------------------------------------------------


async def messages_of_a_worker_arrive_in_order(open_worker: OpenWorker) -> None:
    """Check that messages to one worker and to all arrive in the order in which they were sent, and unchanged."""
    async with _workers(open_worker, 2) as (first, second):
        sent: list[ClusterMessage] = []
        for number in range(_MANY):
            message: ClusterMessage
            if number % 3:
                message = StreamAppended("session", number, is_over=number % 2 == 0)
                first.cluster.send(second.cluster.worker, message)
            else:
                message = ClientMessageReceived("session", {"id": number, "result": {"x": [None, 1.5, "ü\n"]}})
                first.cluster.broadcast(message)
            sent.append(message)
        await second.recorder.wait("all messages", lambda: len(second.recorder.messages) >= _MANY)
        received = [message for _, message in second.recorder.messages]
        # A message to all and one to a single worker may take different ways.
        for kind in (StreamAppended, ClientMessageReceived):
            same(
                [each for each in received if type(each) is kind],
                [each for each in sent if type(each) is kind],
                f"the messages of {kind.__name__}",
            )
        same({sender for sender, _ in second.recorder.messages}, {first.cluster.worker}, "the senders")


async def message_reaches_its_worker_only(open_worker: OpenWorker) -> None:
    """Check that a message to one worker reaches no other, and that a message to all does not reach its sender."""
    async with _workers(open_worker, 3) as (first, second, third):
        first.cluster.send(second.cluster.worker, StreamFollowed("session", 1, is_connected=True))
        for member in (first, second, third):
            member.cluster.broadcast(SessionEnded(f"by {member.cluster.worker}"))
        for member in (first, second, third):
            recorder = member.recorder
            others = {each.cluster.worker for each in (first, second, third)} - {member.cluster.worker}

            def has_all(recorder: _Recorder = recorder, others: set[str] = others) -> bool:
                return {m.session for _, m in recorder.messages if isinstance(m, SessionEnded)} >= {
                    f"by {other}" for other in others
                }

            await recorder.wait("the messages to all", has_all)
            same(
                sorted(sender for sender, m in recorder.messages if isinstance(m, SessionEnded)),
                sorted(others),
                "the senders of the messages to all",
            )
        await second.recorder.wait(
            "the message to one worker",
            lambda: any(isinstance(m, StreamFollowed) for _, m in second.recorder.messages),
        )
        for member in (first, third):
            true(
                not any(isinstance(m, StreamFollowed) for _, m in member.recorder.messages),
                "a worker received a message to another",
            )


async def message_to_ended_worker_is_dropped(open_worker: OpenWorker) -> None:
    """Check that a message to an unknown or ended worker has no effect."""
    async with _workers(open_worker, 2) as (first, second):
        first.cluster.send("unknown", SessionUpdated("session"))
        await second.leave()
        first.cluster.send(second.cluster.worker, SessionUpdated("session"))
        first.cluster.broadcast(SessionUpdated("session"))
        await first.cluster.check()


async def any_uri_can_be_sent(open_worker: OpenWorker) -> None:
    """Check that a URI may contain any characters, and that a large message arrives."""
    uris = ("", "test://ü\n", "lone surrogate: \ud800", "x" * 100_000)
    async with _workers(open_worker, 2) as (first, second):
        for uri in uris:
            first.cluster.broadcast(ChangeMade(NOTIFICATIONS_RESOURCES_UPDATED.name, uri))
        await second.recorder.wait("all messages", lambda: len(second.recorder.messages) >= len(uris))
        received = [message for _, message in second.recorder.messages]
        same(received, [ChangeMade(NOTIFICATIONS_RESOURCES_UPDATED.name, uri) for uri in uris], "the messages")


# --- workers -------------------------------------------------------------------------------------------------------


async def ended_worker_is_lost(open_worker: OpenWorker) -> None:
    """Check that the others learn that a worker has ended, and that no id is alive that never took part."""
    async with _workers(open_worker, 3) as (first, second, third):
        id = second.cluster.worker
        true(first.cluster.is_alive(first.cluster.worker), "a running worker is not alive for itself")
        true(not first.cluster.is_alive("unknown"), "an unknown worker is alive")
        second.cluster.broadcast(SessionUpdated("last"))
        await second.leave()
        for member in (first, third):
            recorder = member.recorder
            await recorder.wait("the loss of a worker", lambda recorder=recorder: id in recorder.gone)  # type: ignore[misc]  # a default
            true(not member.cluster.is_alive(id), "a lost worker is alive")
            same(recorder.gone, [id], "the lost workers")


async def worker_runs_once(open_worker: OpenWorker) -> None:
    """Check that a worker cannot run twice at the same time, and that each worker has an id of its own."""
    async with _workers(open_worker, 2) as (first, second):
        true(first.cluster.worker != second.cluster.worker, "two workers have the same id")
        true(first.cluster.is_shared, "a cluster of several workers is not shared")
        await refused(trio.BusyResourceError, first.cluster.run(_Recorder()), "a second run")


async def workers_have_the_same_keys(open_worker: OpenWorker) -> None:
    """Check that all workers learn the same keys, before other messages."""
    async with _workers(open_worker, 2) as (first, second):
        for member in (first, second):
            recorder = member.recorder
            await recorder.wait("the keys", lambda recorder=recorder: bool(recorder.keys))  # type: ignore[misc]  # a default
        same(first.recorder.keys, second.recorder.keys, "the keys")
        true(all(len(key) >= 32 for key in first.recorder.keys), "a key has less than 256 bits")


# --- stores --------------------------------------------------------------------------------------------------------


async def sessions_are_shared(open_worker: OpenWorker) -> None:
    """Check that a session saved at one worker is visible at the others at once, and deleted for all."""
    async with _workers(open_worker, 2) as (first, second):
        here, there = first.cluster.sessions, second.cluster.sessions
        await here.save(RECORD)
        same(await there.load(RECORD.id), RECORD, "the record at the other worker")
        await there.subscribe(RECORD.id, "test://a")
        same(await here.subscriptions(RECORD.id), frozenset({"test://a"}), "the subscriptions")
        true(await there.touch(RECORD.id, RECORD.used_at + 1), "a session does not exist at the other worker")
        same(await here.load(RECORD.id), attrs.evolve(RECORD, used_at=RECORD.used_at + 1), "the renewed record")
        await there.delete(RECORD.id)
        same(await here.load(RECORD.id), None, "the deleted session")
        same(await here.touch(RECORD.id, 9.0), False, "whether the deleted session exists")  # noqa: FBT003  # compared


async def streams_of_workers_have_different_numbers(open_worker: OpenWorker) -> None:
    """Check that workers can begin streams of one session at the same time, and read the events of each other."""
    numbers: list[int] = []

    async def begin(member: _Member, id: int) -> None:
        stream = await member.cluster.sessions.begin(RECORD.id, (id,), worker=member.cluster.worker)
        await member.cluster.sessions.append(RECORD.id, events(stream, 1, 2))
        numbers.append(stream)

    async with _workers(open_worker, 3) as members:
        await members[0].cluster.sessions.save(RECORD)
        async with trio.open_nursery() as nursery:
            for id in range(30):
                nursery.start_soon(begin, members[id % 3], id)
        same(len(set(numbers)), 30, "the number of different streams")
        for stream in numbers:
            found = await members[stream % 3].cluster.sessions.events(RECORD.id, stream, 0)
            same(found, events(stream, 1, 2), "the events of a stream of another worker")
        found_streams = await members[1].cluster.sessions.streams(RECORD.id)
        same(
            sorted(each.worker for each in found_streams),
            sorted(member.cluster.worker for member in members for _ in range(10)),
            "the workers of the streams",
        )


async def one_of_two_responses_is_stored(open_worker: OpenWorker) -> None:
    """Check that a request has one response in the store if two workers respond to it at the same time."""

    async def respond(member: _Member, stream: int) -> None:
        event = StoredEvent(stream, 1, member.cluster.worker.encode(), 7)
        await member.cluster.sessions.append(RECORD.id, (event,))

    async with _workers(open_worker, 2) as members:
        store = members[0].cluster.sessions
        await store.save(RECORD)
        stream = await store.begin(RECORD.id, (7,), worker=members[0].cluster.worker)
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(respond, member, stream)
        found = await store.events(RECORD.id, stream, 0)
        same(len(found), 1, "the number of responses")
        same(await streams(store, RECORD.id), (StoredStream(stream, 1),), "the streams")


async def changes_are_pending_for_all_workers(open_worker: OpenWorker) -> None:
    """Check that a change recorded at one worker is pending at the others before they receive a later message."""
    change = PendingNotification(NOTIFICATIONS_TOOLS_LIST_CHANGED.name)
    async with _workers(open_worker, 2) as (first, second):
        await second.cluster.sessions.save(RECORD)
        first.cluster.sessions.record_notification(change)
        first.cluster.broadcast(ChangeMade(change.method))
        await second.recorder.wait("the message", lambda: bool(second.recorder.messages))
        same(await second.cluster.sessions.pending_notifications(RECORD.id), (change,), "the pending notifications")
        stream = await second.cluster.sessions.begin(RECORD.id, (), worker=second.cluster.worker)
        event = StoredEvent(stream, 1, b"{}", notification=change)
        await second.cluster.sessions.append(RECORD.id, (event,))
        same(await first.cluster.sessions.pending_notifications(RECORD.id), (), "the notifications after the event")


async def flushed_change_reaches_workers_after_end(open_worker: OpenWorker) -> None:
    """Check that a change is not lost when its worker ends right after `flush`."""
    change = PendingNotification(NOTIFICATIONS_TOOLS_LIST_CHANGED.name)
    async with _workers(open_worker, 2) as (first, second):
        await second.cluster.sessions.save(RECORD)
        first.cluster.sessions.record_notification(change)
        first.cluster.broadcast(ChangeMade(change.method))
        await first.cluster.flush()
        await first.leave()
        await second.recorder.wait("the message", lambda: bool(second.recorder.messages))
        same(await second.cluster.sessions.pending_notifications(RECORD.id), (change,), "the pending notifications")


async def id_can_be_used_once(open_worker: OpenWorker) -> None:
    """Check that an id is accepted by one worker only, however many use it at the same time."""
    taken: list[bool] = []

    async def take(member: _Member) -> None:
        taken.append(await member.cluster.replays.take(b"proof", 60.0))

    async with _workers(open_worker, 3) as members:
        async with trio.open_nursery() as nursery:
            for member in members * 3:
                nursery.start_soon(take, member)
        same(taken.count(True), 1, "how often the id was accepted")  # counted
        true(await members[0].cluster.replays.take(b"another", 60.0), "another id was not accepted")


async def rate_holds_for_all_workers(open_worker: OpenWorker) -> None:
    """Check that all workers together take no more events than the limit allows."""
    async with _workers(open_worker, 3) as members:
        taken = 0
        for _ in range(10):
            for member in members:
                taken += await member.cluster.rates.take("Ann", count=3, per_second=0.001, burst=20)
        same(taken, 20, "the number of events")
        same(
            await members[0].cluster.rates.take("Bob", count=5, per_second=0.001, burst=20), 5, "the events of another"
        )
