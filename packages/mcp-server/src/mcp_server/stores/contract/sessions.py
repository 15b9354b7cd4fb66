"""Checks for stores of sessions: records and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_server.stores.contract.assertions import (
    LARGEST,
    RECORD,
    ROOMY,
    TEN,
    begun,
    events,
    opened,
    refused,
    same,
    streams,
    true,
)
from mcp_server.stores.sessions import SessionRecord, StoredEvent, StoredStream

if TYPE_CHECKING:
    from mcp_server.stores.contract.assertions import OpenStore

__all__ = [
    "deleted_session_leaves_no_records",
    "ended_stream_has_no_pending_responses",
    "events_load_in_order",
    "events_of_streams_and_sessions_are_separate",
    "highest_event_number_is_kept",
    "impossible_events_are_rejected",
    "repeated_events_change_nothing",
    "responses_are_pending_until_sent",
    "saved_again_session_keeps_its_events",
    "saved_session_loads_unchanged",
    "session_has_one_standalone_stream",
    "session_with_future_time_counts_as_used_now",
    "sessions_have_count_limit",
    "stream_numbers_grow",
    "subscriptions_are_added_and_removed",
    "touched_session_has_new_time",
    "unknown_session_is_not_found",
    "unused_sessions_are_purged",
]


# --- records -------------------------------------------------------------------------------------------------------


async def saved_session_loads_unchanged(open_store: OpenStore) -> None:
    """Check that every field is returned with the same value and type."""
    plain = SessionRecord(id="session-2", principal=None, revision="2025-03-26", client={}, used_at=0.0)
    async with opened(open_store) as store:
        for record in (RECORD, plain, attrs.evolve(plain, id="session-3", principal="")):
            await store.save(record)
        for record in (RECORD, plain, attrs.evolve(plain, id="session-3", principal="")):
            same(await store.load(record.id), record, f"the record of {record.id}")


async def unknown_session_is_not_found(open_store: OpenStore) -> None:
    """Check that an unknown session has no data, and that calls about it have no effect."""
    async with opened(open_store, ROOMY, "known") as store:
        same(await begun(store, "unknown", 1), 0, "the number of a stream of an unknown session")
        same(await store.touch("unknown", 1.0), False, "whether an unknown session exists")  # noqa: FBT003  # compared
        await store.append("unknown", events(1, 1, 1))
        await store.delivered("unknown", 1)
        await store.delete("unknown")
        await store.subscribe("unknown", "test://a")
        await store.unsubscribe("unknown", "test://a")
        same(await store.subscriptions("unknown"), frozenset(), "the subscriptions of an unknown session")
        same(await store.load("unknown"), None, "the record of an unknown session")
        same(await streams(store, "unknown"), (), "the streams of an unknown session")
        same(await store.events("unknown", 1, 0), (), "the events of an unknown session")
        await store.save(attrs.evolve(RECORD, id="unknown"))
        same(await streams(store, "unknown"), (), "the streams after the session was saved")
        same(await store.subscriptions("unknown"), frozenset(), "the subscriptions after the session was saved")


async def saved_again_session_keeps_its_events(open_store: OpenStore) -> None:
    """Check that saving a session again changes its record, but not its subscriptions and streams."""
    changed = attrs.evolve(RECORD, log_level=None, client={"other": True}, used_at=2e9)
    async with opened(open_store, ROOMY, RECORD.id) as store:
        await store.subscribe(RECORD.id, "test://a")
        stream = await begun(store, RECORD.id, 7)
        await store.append(RECORD.id, events(stream, 1, 2))
        same(await store.save(changed), (), "the removed sessions")
        same(await store.load(RECORD.id), changed, "the record")
        same(await store.subscriptions(RECORD.id), frozenset({"test://a"}), "the subscriptions")
        same(await streams(store, RECORD.id), (StoredStream(stream, 2, (7,)),), "the streams")
        same(await store.events(RECORD.id, stream, 0), events(stream, 1, 2), "the events")


async def touched_session_has_new_time(open_store: OpenStore) -> None:
    """Check that renewing the time of last use changes nothing else, and decides which session is removed or purged."""
    async with opened(open_store, TEN) as store:
        for used_at, id in enumerate(("a", "b", "c")):
            await store.save(attrs.evolve(RECORD, id=id, used_at=float(used_at)))
        same(await store.touch("a", 5.0), True, "whether the session exists")  # noqa: FBT003  # compared
        same(await store.load("a"), attrs.evolve(RECORD, id="a", used_at=5.0), "the record")
        same(await store.save(attrs.evolve(RECORD, id="d", used_at=6.0)), ("b",), "the removed sessions")
        same(await store.purge(4.0, 9.0), 1, "the number of purged sessions")
        same(await store.load("a") is not None, True, "whether the renewed session exists")  # noqa: FBT003  # compared
        await store.delete("a")
        same(await store.touch("a", 7.0), False, "whether the deleted session exists")  # noqa: FBT003  # compared
        same(await store.load("a"), None, "the record of the deleted session")


async def subscriptions_are_added_and_removed(open_store: OpenStore) -> None:
    """Check that each session has its own subscriptions, and that a URI may contain any characters."""
    uris = ("test://a", "test://a/", "test://b c", "", "test://ü\n", "lone surrogate: \ud800", "x" * 100_000)
    async with opened(open_store, ROOMY, "a", "b") as store:
        same(await store.subscriptions("a"), frozenset(), "the subscriptions of a new session")
        for uri in (*uris, "test://a"):
            await store.subscribe("a", uri)
        await store.subscribe("b", "test://a")
        same(await store.subscriptions("a"), frozenset(uris), "the subscriptions")
        for uri in ("test://a", "test://a", "test://never"):
            await store.unsubscribe("a", uri)
        same(await store.subscriptions("a"), frozenset(uris[1:]), "the subscriptions after a removal")
        same(await store.subscriptions("b"), frozenset({"test://a"}), "the subscriptions of the other session")


async def deleted_session_leaves_no_records(open_store: OpenStore) -> None:
    """Check that deleting a session deletes its record and streams, and does not change other sessions."""
    async with opened(open_store, ROOMY, "a", "b") as store:
        begun_streams = {}
        for id in ("a", "b"):
            await store.subscribe(id, "test://a")
            begun_streams[id] = await begun(store, id, 1)
            await store.append(id, events(begun_streams[id], 1, 2))
        await store.delete("a")
        same(await store.load("a"), None, "the record of the deleted session")
        await store.save(attrs.evolve(RECORD, id="a"))
        same(await store.subscriptions("a"), frozenset(), "the subscriptions of a new session with the same id")
        same(await streams(store, "a"), (), "the streams of a new session with the same id")
        gone, other = begun_streams["a"], begun_streams["b"]
        same(await store.events("a", gone, 0), (), "the events of a new session with the same id")
        same(await store.events("b", other, 0), events(other, 1, 2), "the events of the other session")


async def sessions_have_count_limit(open_store: OpenStore) -> None:
    """Check that the least recently used session is removed with its streams above `Limits.sessions`."""
    async with opened(open_store, TEN) as store:
        removed = {"d": ("b",), "e": ("c",)}
        for used_at, id in enumerate(("a", "b", "c", "a", "d", "e")):
            gone = await store.save(attrs.evolve(RECORD, id=id, used_at=float(used_at)))
            same(gone, removed.get(id, ()), f"the sessions removed for session {id}")
            await begun(store, id)
        for id, there in (("a", True), ("b", False), ("c", False), ("d", True), ("e", True)):
            same(await store.load(id) is not None, there, f"whether session {id} exists")
            same(bool(await streams(store, id)), there, f"whether session {id} has streams")


async def unused_sessions_are_purged(open_store: OpenStore) -> None:
    """Check that exactly the sessions last used before a given time are purged."""
    async with opened(open_store) as store:
        for used_at in range(4):
            await store.save(attrs.evolve(RECORD, id=f"session-{used_at}", used_at=float(used_at)))
        same(await store.purge(2.0, 9.0), 2, "the number of purged sessions")
        same(await store.purge(2.0, 9.0), 0, "the number of purged sessions the second time")
        for used_at in range(4):
            there = await store.load(f"session-{used_at}") is not None
            same(there, used_at >= 2, f"whether the session used at {used_at} exists")


async def session_with_future_time_counts_as_used_now(open_store: OpenStore) -> None:
    """Check that a session used in the future is purged as if it was used now, because the clock was set back."""
    async with opened(open_store) as store:
        for id, used_at in (("now", 100.0), ("future", 1e9)):
            await store.save(attrs.evolve(RECORD, id=id, used_at=used_at))
        same(await store.purge(50.0, 100.0), 0, "the number of purged sessions")
        same(await store.load("future"), attrs.evolve(RECORD, id="future", used_at=100.0), "the session in the future")
        same(await store.purge(100.5, 150.0), 2, "the number of purged sessions later")


# --- streams -------------------------------------------------------------------------------------------------------


async def events_load_in_order(open_store: OpenStore) -> None:
    """Check that all events after a number are returned in order and byte for byte, including empty ones."""
    data = (b"", b'{"a":"\xc3\xbc"}', bytes(range(256)), b"x" * 300_000)
    async with opened(open_store, ROOMY, "a") as store:
        stream = await begun(store, "a", 1)
        events = tuple(StoredEvent(stream, number, each) for number, each in enumerate(data, 1))
        await store.append("a", events[:1])
        await store.append("a", ())
        await store.append("a", events[1:])
        for after in range(6):
            same(await store.events("a", stream, after), events[after:], f"the events after number {after}")
        for other, after in ((stream + 2, 0), (LARGEST, 0), (stream, LARGEST)):
            same(await store.events("a", other, after), (), f"the events after {after} of stream {other}")


async def events_of_streams_and_sessions_are_separate(open_store: OpenStore) -> None:
    """Check that each stream of each session has its own events, with their own numbers."""
    async with opened(open_store, ROOMY, "a", "b") as store:
        first, second = await begun(store, "a", 2), await begun(store, "a", 10)
        other = await begun(store, "b", 2)
        await store.append("a", (*events(first, 1, 2), *events(second, 1, 1), *events(first, 3, 3)))
        same(await store.events("a", first, 0), events(first, 1, 3), "the events of the first stream")
        same(await store.events("a", second, 0), events(second, 1, 1), "the events of the second stream")
        same(await store.events("b", other, 0), (), "the events of the first stream of the other session")
        expected = (StoredStream(first, 3, (2,)), StoredStream(second, 1, (10,)))
        same(await streams(store, "a"), expected, "the streams, in the order of their numbers")


async def stream_numbers_grow(open_store: OpenStore) -> None:
    """Check that each stream has a greater number, even for standalone streams and odd for others, and its worker."""
    async with opened(open_store, ROOMY, "a") as store:
        last, workers = 0, {}
        for number, pending in enumerate(((), (1,), (2, 3), (), (), (4,), ())):
            worker = f"worker {number % 2}"
            stream = await store.begin("a", pending, worker=worker)
            true(stream > last, f"stream {stream} begins after stream {last}")
            same(stream % 2, 1 if pending else 0, f"the parity of the number of a stream with requests {pending}")
            workers[stream] = worker
            last = stream
        for each in await store.streams("a"):
            if each.pending or each.stream == last:
                same(each.worker, workers[each.stream], f"the worker of stream {each.stream}")


async def responses_are_pending_until_sent(open_store: OpenStore) -> None:
    """Check that a request is pending until its response is stored, and that the ids 1 and "1" are different."""
    async with opened(open_store, ROOMY, "a") as store:
        stream = await begun(store, "a", 1, "1", 2**70)
        same(await streams(store, "a"), (StoredStream(stream, 0, (1, "1", 2**70)),), "the pending requests at first")
        answer = StoredEvent(stream, 1, b"{}", "1")
        await store.append("a", (answer,))
        left = (StoredStream(stream, 1, (1, 2**70)),)
        same(await streams(store, "a"), left, "the pending requests after a response")
        same(await store.events("a", stream, 0), (answer,), "the response")


async def repeated_events_change_nothing(open_store: OpenStore) -> None:
    """Check that repeating a call whose outcome is unknown has no effect."""
    async with opened(open_store, ROOMY, "a") as store:
        stream = await begun(store, "a", 5)
        events = (StoredEvent(stream, 1, b"1"), StoredEvent(stream, 2, b"2", 5))
        for _ in range(2):
            await store.append("a", events)
        same(await store.events("a", stream, 0), events, "the events")
        await store.delivered("a", stream)
        await store.append("a", events)
        same(await streams(store, "a"), (StoredStream(stream, 2),), "the streams")


async def impossible_events_are_rejected(open_store: OpenStore) -> None:
    """Check that a stream was begun, has no gaps, and accepts only responses to its pending requests."""
    async with opened(open_store, ROOMY, "a") as store:
        await refused(LocalProtocolError, store.append("a", events(1, 1, 1)), "an event of an unknown stream")
        stream = await begun(store, "a", 1)
        other = events(stream + 2, 1, 1)
        await refused(LocalProtocolError, store.append("a", other), "an event of another stream")
        gap = events(stream, 2, 2)
        await refused(LocalProtocolError, store.append("a", gap), "an event after a gap in the numbers")
        stranger = StoredEvent(stream, 1, b"{}", "1")
        await refused(LocalProtocolError, store.append("a", (stranger,)), "a response to a request that is not pending")
        await store.append("a", events(stream, 1, 1))
        await store.delivered("a", stream)
        await refused(LocalProtocolError, store.append("a", events(stream, 2, 2)), "an event of an ended stream")
        same(await streams(store, "a"), (StoredStream(stream, 1),), "the streams after the rejected calls")


async def session_has_one_standalone_stream(open_store: OpenStore) -> None:
    """Check that a new standalone stream replaces the previous one."""
    async with opened(open_store, ROOMY, "a") as store:
        first = await begun(store, "a")
        other = await begun(store, "a", 1)
        await store.append("a", (*events(first, 1, 1), StoredEvent(other, 1, b"{}", 1)))
        second = await begun(store, "a")
        await refused(LocalProtocolError, store.append("a", events(first, 2, 2)), "an event of the replaced stream")
        await store.append("a", (*events(other, 2, 2), *events(second, 1, 1)))
        same(await store.events("a", first, 0), events(first, 1, 1), "the events of the replaced stream")


async def ended_stream_has_no_pending_responses(open_store: OpenStore) -> None:
    """Check that an ended stream has no pending requests and keeps its events."""
    async with opened(open_store, ROOMY, "a") as store:
        first = await begun(store, "a", 1)
        await store.append("a", events(first, 1, 2))
        second = await begun(store, "a")
        for stream in (first, first, second + 1):
            await store.delivered("a", stream)
        same(await streams(store, "a"), (StoredStream(first, 2), StoredStream(second, 0)), "the streams")
        same(await store.events("a", first, 1), events(first, 2, 2), "the events")


async def highest_event_number_is_kept(open_store: OpenStore) -> None:
    """Check that the greatest stream number stays known, so that no new stream reuses a number known to a client."""
    async with opened(open_store, TEN, "a") as store:
        for _ in range(100):
            stream = await begun(store, "a", 1)
            await store.delivered("a", stream)
            found = await streams(store, "a")
            same(found[-1].stream, stream, "the last stream")
            true(len(found) <= 10, f"{len(found)} streams without events are stored")
