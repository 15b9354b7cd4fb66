"""Checks for stores of sessions: bounds, concurrent tasks, and data that outlives the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_TOOLS_LIST_CHANGED
from mcp_server.stores.contract.assertions import (
    RECORD,
    ROOMY,
    TEN,
    WORKER,
    begun,
    events,
    numbers,
    opened,
    refused,
    same,
    streams,
    true,
)
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
        stream = await begun(store, "a", 1)
        for number in range(1, 101):
            await store.append("a", events(stream, number, number))
            kept = numbers(await store.events("a", stream, 0))
            true(1 <= len(kept) <= 10, f"{len(kept)} events are stored, but 10 are allowed")
            same(kept, tuple(range(number - len(kept) + 1, number + 1)), "the numbers of the newest events")
        same(await streams(store, "a"), (StoredStream(stream, 100, (1,)),), "the streams")


async def stored_events_have_byte_limit(open_store: OpenStore) -> None:
    """Check that the store removes the oldest events, and keeps an event that is larger than the bound alone."""
    async with opened(open_store, Limits(replay_bytes=1_000), "a") as store:
        stream = await begun(store, "a", 1)
        for number in range(1, 20):
            await store.append("a", (StoredEvent(stream, number, b"x" * 90),))
        kept = await store.events("a", stream, 0)
        size = sum(len(event.data) for event in kept)
        true(0 < size <= 1_000, f"{size} bytes are stored, but 1000 are allowed")
        same(kept[-1].number, 19, "the newest event")
        await store.append("a", (StoredEvent(stream, 20, b"x" * 5_000),))
        same(numbers(await store.events("a", stream, 0)), (20,), "the numbers of the events")
        await begun(store, "a", 2)


async def delivered_events_are_dropped_first(open_store: OpenStore) -> None:
    """Check that the store removes responses of an ended stream before any event of a running stream."""
    async with opened(open_store, TEN, "a") as store:
        ended, running = await begun(store, "a", 1), await begun(store, "a", 1)
        await store.append("a", (*events(running, 1, 4), *events(ended, 1, 4), StoredEvent(ended, 5, b"{}", 1)))
        await store.delivered("a", ended)
        await store.append("a", events(running, 5, 6))
        same(numbers(await store.events("a", running, 0)), (1, 2, 3, 4, 5, 6), "the events of the running stream")
        true(len(await store.events("a", ended, 0)) <= 4, "too many events of the ended stream are stored")


async def undelivered_responses_are_kept(open_store: OpenStore) -> None:
    """Check that notifications are removed before responses, and that responses at the bound prevent new streams."""
    async with opened(open_store, TEN, "a") as store:
        found = [await begun(store, "a", id) for id in range(1, 11)]
        for id, stream in enumerate(found, 1):
            await store.append("a", (*events(stream, 1, 3), StoredEvent(stream, 4, b"{}", id)))
        for id, stream in enumerate(found, 1):
            kept = await store.events("a", stream, 0)
            same(kept[-1:], (StoredEvent(stream, 4, b"{}", id),), f"the response on stream {stream}")
        await refused(LimitExceeded, begun(store, "a", 11), "a stream while 10 responses are undelivered")
        await store.delivered("a", found[4])
        stream = await begun(store, "a", 11)
        await store.append("a", (StoredEvent(stream, 1, b"{}", 11),))
        same(len(await store.events("a", stream, 0)), 1, "the number of events of the new stream")


async def undelivered_responses_have_byte_limit(open_store: OpenStore) -> None:
    """Check that a few large undelivered responses prevent new streams too."""
    async with opened(open_store, Limits(replay_bytes=1_000), "a") as store:
        stream = await begun(store, "a", 1)
        await store.append("a", (StoredEvent(stream, 1, b"x" * 1_500, 1),))
        await refused(LimitExceeded, begun(store, "a", 2), "a stream while 1500 bytes are undelivered")
        await store.delivered("a", stream)
        await begun(store, "a", 2)


# --- tasks ---------------------------------------------------------------------------------------------------------


async def concurrent_writers_keep_their_events(open_store: OpenStore) -> None:
    """Check that each stream has a number of its own and keeps its order."""
    found: set[int] = set()

    async def write(store: SessionStore, id: int) -> None:
        stream = await begun(store, "a", id)
        found.add(stream)
        for number in range(1, 21):
            await store.append("a", events(stream, number, number))

    async with opened(open_store, ROOMY, "a") as store:
        async with trio.open_nursery() as nursery:
            for stream in range(1, 11):
                nursery.start_soon(write, store, stream)
        same(len(found), 10, "the number of streams")
        for stream in found:
            same(await store.events("a", stream, 0), events(stream, 1, 20), f"the events of stream {stream}")


async def rejected_write_leaves_other_writes(open_store: OpenStore) -> None:
    """Check that one rejected call does not affect the calls of other tasks in the same transaction."""

    async def misuse(store: SessionStore) -> None:
        await refused(LocalProtocolError, store.append("a", events(99, 1, 1)), "an event of an unknown stream")

    async with opened(open_store, ROOMY, "a") as store:
        async with trio.open_nursery() as nursery:
            for id in range(1, 6):
                nursery.start_soon(begun, store, "a", id)
                nursery.start_soon(misuse, store)
        pending = sorted(each.pending for each in await streams(store, "a"))
        same(pending, [(id,) for id in range(1, 6)], "the pending requests of the streams")


async def cancelled_write_is_atomic(open_store: OpenStore) -> None:
    """Check that a cancelled call has its entire effect or none, and that the store stays usable."""
    async with opened(open_store, ROOMY, "a") as store:
        stream = await begun(store, "a", 1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.append("a", events(stream, 1, 3))
        count = len(await store.events("a", stream, 0))
        true(count in (0, 3), "the store contains a part of the events of a cancelled call")
        await store.append("a", events(stream, 1, 3))
        same(await store.events("a", stream, 0), events(stream, 1, 3), "the events")


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
    async with opened(open_store) as store:
        await store.save(RECORD)
        for uri in ("test://a", "test://b", "test://c"):
            await store.subscribe(RECORD.id, uri)
        await store.unsubscribe(RECORD.id, "test://b")
        first = await begun(store, RECORD.id, 1, "b")
        events = (
            StoredEvent(first, 1, b""),
            StoredEvent(first, 2, b'{"x":1}'),
            StoredEvent(first, 3, b"{}", "b"),
        )
        await store.append(RECORD.id, events)
        second = await begun(store, RECORD.id, 3)
        await store.delivered(RECORD.id, second)
    for _ in range(2):
        async with opened(open_store) as store:
            same(await store.load(RECORD.id), RECORD, "the record")
            same(await store.subscriptions(RECORD.id), frozenset({"test://a", "test://c"}), "the subscriptions")
            expected = (StoredStream(first, 3, (1,)), StoredStream(second, 0))
            same(await streams(store, RECORD.id), expected, "the streams")
            same((await store.streams(RECORD.id))[0].worker, WORKER, "the worker of the first stream")
            same(await store.events(RECORD.id, first, 1), events[1:], "the events")
    async with opened(open_store) as store:
        await store.append(RECORD.id, (StoredEvent(first, 4, b"{}", 1),))
        expected = (StoredStream(first, 4), StoredStream(second, 0))
        same(await streams(store, RECORD.id), expected, "the streams after the response")
        true(await begun(store, RECORD.id, 4) > second, "a new stream has a number that was used before")


async def reopened_store_counts_stored_bytes(open_store: OpenStore) -> None:
    """Check that the bounds include the data from before the store was opened again."""
    stream = 0
    for attempt in range(4):
        async with opened(open_store, TEN) as store:
            await store.save(attrs.evolve(RECORD, id="a", used_at=float(attempt)))
            await store.save(attrs.evolve(RECORD, id=f"b{attempt}", used_at=float(attempt)))
            if not attempt:
                stream = await begun(store, "a", *range(1, 20))
            await store.append("a", events(stream, 1 + 8 * attempt, 4 + 8 * attempt))
            answers = (StoredEvent(stream, 5 + 8 * attempt + n, b"{}", 1 + 4 * attempt + n) for n in range(4))
            await store.append("a", tuple(answers))
            kept = await store.events("a", stream, 0)
            waiting = sum(event.answers is not None for event in kept)
            same(waiting, 4 * (attempt + 1), "the number of responses")
            true(len(kept) <= max(10, waiting), f"{len(kept)} events are stored, but 10 are allowed")
    async with opened(open_store, TEN) as store:
        await refused(LimitExceeded, begun(store, "a", 1), "a stream while 16 responses are undelivered")
        same(await store.load("b0"), None, "the record of the least recently used session")
