"""What every store of sessions has to keep: bounds, tasks that get in each other's way, and what outlives the process."""

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
    "a_cancelled_call_was_made_entirely_or_not_at_all",
    "a_closed_store_says_so",
    "a_misuse_spoils_nothing_of_others",
    "answers_stay_until_they_are_delivered",
    "bounds_count_what_was_there_before",
    "bytes_of_answers_are_bounded",
    "events_are_bounded_in_bytes",
    "events_are_bounded_in_number",
    "everything_is_there_when_it_is_opened_again",
    "many_tasks_do_not_disturb_each_other",
    "what_was_delivered_goes_first",
]


# --- bounds --------------------------------------------------------------------------------------------------------


async def events_are_bounded_in_number(open_store: OpenStore) -> None:
    """The oldest go."""
    async with opened(open_store, TEN, "a") as store:
        await store.begin("a", 1, (1,))
        for number in range(1, 101):
            await store.append("a", events(1, number, number))
            kept = numbers(await store.events("a", 1, 0))
            true(1 <= len(kept) <= 10, f"{len(kept)} events are kept, and 10 are allowed")
            same(kept, tuple(range(number - len(kept) + 1, number + 1)), "the numbers of the newest events")
        same(await store.streams("a"), (StoredStream(1, 100, (1,)),), "the streams")


async def events_are_bounded_in_bytes(open_store: OpenStore) -> None:
    """The oldest go; an event that is larger than the bound is kept alone."""
    async with opened(open_store, Limits(replay_bytes=1_000), "a") as store:
        await store.begin("a", 1, (1,))
        for number in range(1, 20):
            await store.append("a", (StoredEvent(1, number, b"x" * 90),))
        kept = await store.events("a", 1, 0)
        size = sum(len(event.data) for event in kept)
        true(0 < size <= 1_000, f"{size} bytes are kept, and 1000 are allowed")
        same(kept[-1].number, 19, "the newest event")
        await store.append("a", (StoredEvent(1, 20, b"x" * 5_000),))
        same(numbers(await store.events("a", 1, 0)), (20,), "the numbers of the events")
        await store.begin("a", 2, (2,))


async def what_was_delivered_goes_first(open_store: OpenStore) -> None:
    """Answers of a stream that is over go before anything of one that runs."""
    async with opened(open_store, TEN, "a") as store:
        for stream in (1, 2):
            await store.begin("a", stream, (1,))
        await store.append("a", (*events(2, 1, 4), *events(1, 1, 4), StoredEvent(1, 5, b"{}", 1)))
        await store.delivered("a", 1)
        await store.append("a", events(2, 5, 6))
        same(numbers(await store.events("a", 2, 0)), (1, 2, 3, 4, 5, 6), "the events of the stream that runs")
        true(len(await store.events("a", 1, 0)) <= 4, "too many events are kept of the stream that is over")


async def answers_stay_until_they_are_delivered(open_store: OpenStore) -> None:
    """Notifications go before them; when they alone reach the bound, no stream begins until one is delivered."""
    async with opened(open_store, TEN, "a") as store:
        for stream in range(1, 11):
            await store.begin("a", stream, (stream,))
            await store.append("a", (*events(stream, 1, 3), StoredEvent(stream, 4, b"{}", stream)))
        for stream in range(1, 11):
            kept = await store.events("a", stream, 0)
            same(kept[-1:], (StoredEvent(stream, 4, b"{}", stream),), f"the answer on stream {stream}")
        await refused(LimitExceeded, store.begin("a", 11, (11,)), "a stream while 10 answers wait")
        await store.delivered("a", 5)
        await store.begin("a", 11, (11,))
        await store.append("a", (StoredEvent(11, 1, b"{}", 11),))
        same(len(await store.events("a", 11, 0)), 1, "the number of events of the new stream")


async def bytes_of_answers_are_bounded(open_store: OpenStore) -> None:
    """A few large answers that nobody fetches keep streams from beginning as well."""
    async with opened(open_store, Limits(replay_bytes=1_000), "a") as store:
        await store.begin("a", 1, (1,))
        await store.append("a", (StoredEvent(1, 1, b"x" * 1_500, 1),))
        await refused(LimitExceeded, store.begin("a", 2, (2,)), "a stream while 1500 bytes wait")
        await store.delivered("a", 1)
        await store.begin("a", 2, (2,))


# --- tasks ---------------------------------------------------------------------------------------------------------


async def many_tasks_do_not_disturb_each_other(open_store: OpenStore) -> None:
    """Each stream keeps its order."""

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


async def a_misuse_spoils_nothing_of_others(open_store: OpenStore) -> None:
    """Calls of several tasks may be done together, but one that is refused is refused alone."""

    async def misuse(store: SessionStore) -> None:
        await refused(LocalProtocolError, store.append("a", events(99, 1, 1)), "an event of no stream")

    async with opened(open_store, ROOMY, "a") as store:
        async with trio.open_nursery() as nursery:
            for stream in range(1, 6):
                nursery.start_soon(store.begin, "a", stream, (stream,))
                nursery.start_soon(misuse, store)
        same(tuple(each.stream for each in await store.streams("a")), (1, 2, 3, 4, 5), "the streams")


async def a_cancelled_call_was_made_entirely_or_not_at_all(open_store: OpenStore) -> None:
    """And the store can still be used."""
    async with opened(open_store, ROOMY, "a") as store:
        await store.begin("a", 1, (1,))
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.append("a", events(1, 1, 3))
        true(len(await store.events("a", 1, 0)) in (0, 3), "a part of the events is there")
        await store.append("a", events(1, 1, 3))
        same(await store.events("a", 1, 0), events(1, 1, 3), "the events")


async def a_closed_store_says_so(open_store: OpenStore) -> None:
    """Closing it twice is no error."""
    store = await open_store(ROOMY)
    await store.save(RECORD)
    await store.aclose()
    await store.aclose()
    await refused(trio.ClosedResourceError, store.load("a"), "to load from a closed store")
    await refused(trio.ClosedResourceError, store.save(RECORD), "to save in a closed store")
    await refused(trio.ClosedResourceError, store.append("a", ()), "to append in a closed store")
    await refused(trio.ClosedResourceError, store.purge(0.0, 0.0), "to purge a closed store")
    await refused(trio.ClosedResourceError, store.subscribe("a", "test://a"), "to subscribe in a closed store")
    await refused(trio.ClosedResourceError, store.pending_notifications("a"), "to ask a closed store what is pending")
    store.record_notification(PendingNotification(NOTIFICATIONS_TOOLS_LIST_CHANGED.name))


# --- what outlives the process -------------------------------------------------------------------------------------


async def everything_is_there_when_it_is_opened_again(open_store: OpenStore) -> None:
    """Records, subscriptions, streams, events, and what is owed."""
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
        same(await store.streams(RECORD.id), (StoredStream(1, 4), StoredStream(2, 0)), "the streams in the end")


async def bounds_count_what_was_there_before(open_store: OpenStore) -> None:
    """To open a store again gives no new room."""
    for round_ in range(4):
        async with opened(open_store, TEN) as store:
            await store.save(attrs.evolve(RECORD, id="a", used_at=float(round_)))
            await store.save(attrs.evolve(RECORD, id=f"b{round_}", used_at=float(round_)))
            if not round_:
                await store.begin("a", 1, tuple(range(1, 20)))
            await store.append("a", events(1, 1 + 8 * round_, 4 + 8 * round_))
            answers = (StoredEvent(1, 5 + 8 * round_ + n, b"{}", 1 + 4 * round_ + n) for n in range(4))
            await store.append("a", tuple(answers))
            kept = await store.events("a", 1, 0)
            waiting = sum(event.answers is not None for event in kept)
            same(waiting, 4 * (round_ + 1), "the number of answers")
            true(len(kept) <= max(10, waiting), f"{len(kept)} events are kept, and 10 are allowed")
    async with opened(open_store, TEN) as store:
        await refused(LimitExceeded, store.begin("a", 2, (1,)), "a stream while 16 answers wait")
        same(await store.load("b0"), None, "the record that was used first")
