"""Checks for stores of sessions: bounds, concurrent tasks, and data that outlives the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_TOOLS_LIST_CHANGED
from mcp_server.stores.contract.assertions import RECORD, ROOMY, TEN, events, numbers, opened, refused, same, true
from mcp_server.stores.sessions import PendingNotification, StoredEvent, StoredStream

if TYPE_CHECKING:
    from mcp_server.stores.contract.assertions import OpenStore
    from mcp_server.stores.sessions import SessionStore

__all__ = [
    "cancelled_write_is_atomic",
    "closed_store_raises",
    "concurrent_writers_keep_their_events",
    "delivered_events_are_dropped_first",
    "rejected_write_leaves_other_writes",
    "reopened_store_counts_stored_bytes",
    "reopened_store_has_all_records",
    "stored_events_have_byte_limit",
    "stored_events_have_count_limit",
    "undelivered_responses_are_kept",
    "undelivered_responses_have_byte_limit",
]


# --- bounds --------------------------------------------------------------------------------------------------------


async def stored_events_have_count_limit(open_store: OpenStore) -> None:
    """Check that the store removes the oldest events."""
    async with opened(open_store, TEN, "a") as store:
        await store.begin("a", 1, (1,))
        for number in range(1, 101):
            await store.append("a", events(1, number, number))
            kept = numbers(await store.events("a", 1, 0))
            true(1 <= len(kept) <= 10, f"{len(kept)} events are stored, but 10 are allowed")
            same(kept, tuple(range(number - len(kept) + 1, number + 1)), "the numbers of the newest events")
        same(await store.streams("a"), (StoredStream(1, 100, (1,)),), "the streams")


async def stored_events_have_byte_limit(open_store: OpenStore) -> None:
    """Check that the store removes the oldest events, and keeps an event that is larger than the bound alone."""
    async with opened(open_store, Limits(replay_bytes=1_000), "a") as store:
        await store.begin("a", 1, (1,))
        for number in range(1, 20):
            await store.append("a", (StoredEvent(1, number, b"x" * 90),))
        kept = await store.events("a", 1, 0)
        size = sum(len(event.data) for event in kept)
        true(0 < size <= 1_000, f"{size} bytes are stored, but 1000 are allowed")
        same(kept[-1].number, 19, "the newest event")
        await store.append("a", (StoredEvent(1, 20, b"x" * 5_000),))
        same(numbers(await store.events("a", 1, 0)), (20,), "the numbers of the events")
        await store.begin("a", 2, (2,))


async def delivered_events_are_dropped_first(open_store: OpenStore) -> None:
    """Check that the store removes responses of an ended stream before any event of a running stream."""
    async with opened(open_store, TEN, "a") as store:
        for stream in (1, 2):
            await store.begin("a", stream, (1,))
        await store.append("a", (*events(2, 1, 4), *events(1, 1, 4), StoredEvent(1, 5, b"{}", 1)))
        await store.delivered("a", 1)
        await store.append("a", events(2, 5, 6))
        same(numbers(await store.events("a", 2, 0)), (1, 2, 3, 4, 5, 6), "the events of the running stream")
        true(len(await store.events("a", 1, 0)) <= 4, "too many events of the ended stream are stored")


async def undelivered_responses_are_kept(open_store: OpenStore) -> None:
    """Check that notifications are removed before responses, and that responses at the bound prevent new streams."""
    async with opened(open_store, TEN, "a") as store:
        for stream in range(1, 11):
            await store.begin("a", stream, (stream,))
            await store.append("a", (*events(stream, 1, 3), StoredEvent(stream, 4, b"{}", stream)))
        for stream in range(1, 11):
            kept = await store.events("a", stream, 0)
            same(kept[-1:], (StoredEvent(stream, 4, b"{}", stream),), f"the response on stream {stream}")
        await refused(LimitExceeded, store.begin("a", 11, (11,)), "a stream while 10 responses are undelivered")
        await store.delivered("a", 5)
        await store.begin("a", 11, (11,))
        await store.append("a", (StoredEvent(11, 1, b"{}", 11),))
        same(len(await store.events("a", 11, 0)), 1, "the number of events of the new stream")


async def undelivered_responses_have_byte_limit(open_store: OpenStore) -> None:
    """Check that a few large undelivered responses prevent new streams too."""
    async with opened(open_store, Limits(replay_bytes=1_000), "a") as store:
        await store.begin("a", 1, (1,))
        await store.append("a", (StoredEvent(1, 1, b"x" * 1_500, 1),))
        await refused(LimitExceeded, store.begin("a", 2, (2,)), "a stream while 1500 bytes are undelivered")
        await store.delivered("a", 1)
        await store.begin("a", 2, (2,))


# --- tasks ---------------------------------------------------------------------------------------------------------


async def concurrent_writers_keep_their_events(open_store: OpenStore) -> None:
    """Check that each stream keeps its order."""

    async def write(store: SessionStore, stream: int) -> None:
        await store.begin("a", stream, (stream,))
        for number in range(1, 21):
            await store.append("a", events(stream, number, number))

    async with opened(open_store, ROOMY, "a") as store:
        async with trio.open_nursery() as nursery:
            for stream in range(1, 11):
                nursery.start_soon(write, store, stream)
        for stream in range(1, 11):
            same(await store.events("a", stream, 0), events(stream, 1, 20), f"the events of stream {stream}")


async def rejected_write_leaves_other_writes(open_store: OpenStore) -> None:
    """Check that one rejected call does not affect the calls of other tasks in the same transaction."""

    async def misuse(store: SessionStore) -> None:
        await refused(LocalProtocolError, store.append("a", events(99, 1, 1)), "an event of an unknown stream")

    async with opened(open_store, ROOMY, "a") as store:
        async with trio.open_nursery() as nursery:
            for stream in range(1, 6):
                nursery.start_soon(store.begin, "a", stream, (stream,))
                nursery.start_soon(misuse, store)
        same(tuple(each.stream for each in await store.streams("a")), (1, 2, 3, 4, 5), "the streams")


async def cancelled_write_is_atomic(open_store: OpenStore) -> None:
    """Check that a cancelled call has its entire effect or none, and that the store stays usable."""
    async with opened(open_store, ROOMY, "a") as store:
        await store.begin("a", 1, (1,))
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.append("a", events(1, 1, 3))
        true(
            len(await store.events("a", 1, 0)) in (0, 3), "the store contains a part of the events of a cancelled call"
        )
        await store.append("a", events(1, 1, 3))
        same(await store.events("a", 1, 0), events(1, 1, 3), "the events")


async def closed_store_raises(open_store: OpenStore) -> None:
    """Check that calls of a closed store raise `trio.ClosedResourceError`, and that closing it again does not."""
    store = await open_store(ROOMY)
    await store.save(RECORD)
    await store.aclose()
    await store.aclose()
    await refused(trio.ClosedResourceError, store.load("a"), "load on a closed store")
    await refused(trio.ClosedResourceError, store.save(RECORD), "save on a closed store")
    await refused(trio.ClosedResourceError, store.append("a", ()), "append on a closed store")
    await refused(trio.ClosedResourceError, store.purge(0.0, 0.0), "purge on a closed store")
    await refused(trio.ClosedResourceError, store.subscribe("a", "test://a"), "subscribe on a closed store")
    await refused(trio.ClosedResourceError, store.pending_notifications("a"), "pending_notifications on a closed store")
    store.record_notification(PendingNotification(NOTIFICATIONS_TOOLS_LIST_CHANGED.name))


# --- data that outlives the process --------------------------------------------------------------------------------


async def reopened_store_has_all_records(open_store: OpenStore) -> None:
    """Check that records, subscriptions, streams, events and pending requests outlive the process."""
    events = (StoredEvent(1, 1, b""), StoredEvent(1, 2, b'{"x":1}'), StoredEvent(1, 3, b"{}", "b"))
    async with opened(open_store) as store:
        await store.save(RECORD)
        for uri in ("test://a", "test://b", "test://c"):
            await store.subscribe(RECORD.id, uri)
        await store.unsubscribe(RECORD.id, "test://b")
        await store.begin(RECORD.id, 1, (1, "b"))
        await store.append(RECORD.id, events)
        await store.begin(RECORD.id, 2, (3,))
        await store.delivered(RECORD.id, 2)
    for _ in range(2):
        async with opened(open_store) as store:
            same(await store.load(RECORD.id), RECORD, "the record")
            same(await store.subscriptions(RECORD.id), frozenset({"test://a", "test://c"}), "the subscriptions")
            streams = (StoredStream(1, 3, (1,)), StoredStream(2, 0))
            same(await store.streams(RECORD.id), streams, "the streams")
            same(await store.events(RECORD.id, 1, 1), events[1:], "the events")
    async with opened(open_store) as store:
        await store.append(RECORD.id, (StoredEvent(1, 4, b"{}", 1),))
        same(await store.streams(RECORD.id), (StoredStream(1, 4), StoredStream(2, 0)), "the streams after the response")


async def reopened_store_counts_stored_bytes(open_store: OpenStore) -> None:
    """Check that the bounds include the data from before the store was opened again."""
    for attempt in range(4):
        async with opened(open_store, TEN) as store:
            await store.save(attrs.evolve(RECORD, id="a", used_at=float(attempt)))
            await store.save(attrs.evolve(RECORD, id=f"b{attempt}", used_at=float(attempt)))
            if not attempt:
                await store.begin("a", 1, tuple(range(1, 20)))
            await store.append("a", events(1, 1 + 8 * attempt, 4 + 8 * attempt))
            answers = (StoredEvent(1, 5 + 8 * attempt + n, b"{}", 1 + 4 * attempt + n) for n in range(4))
            await store.append("a", tuple(answers))
            kept = await store.events("a", 1, 0)
            waiting = sum(event.answers is not None for event in kept)
            same(waiting, 4 * (attempt + 1), "the number of responses")
            true(len(kept) <= max(10, waiting), f"{len(kept)} events are stored, but 10 are allowed")
    async with opened(open_store, TEN) as store:
        await refused(LimitExceeded, store.begin("a", 2, (1,)), "a stream while 16 responses are undelivered")
        same(await store.load("b0"), None, "the record of the least recently used session")
