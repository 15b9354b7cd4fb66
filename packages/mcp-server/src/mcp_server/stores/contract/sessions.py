"""Checks for stores of sessions: records and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_server.stores.contract.assertions import LARGEST, RECORD, ROOMY, TEN, events, opened, refused, same, true
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
    "subscriptions_are_added_and_removed",
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
        await store.begin("unknown", 1, (1,))
        await store.append("unknown", events(1, 1, 1))
        await store.delivered("unknown", 1)
        await store.delete("unknown")
        await store.subscribe("unknown", "test://a")
        await store.unsubscribe("unknown", "test://a")
        same(await store.subscriptions("unknown"), frozenset(), "the subscriptions of an unknown session")
        same(await store.load("unknown"), None, "the record of an unknown session")
        same(await store.streams("unknown"), (), "the streams of an unknown session")
        same(await store.events("unknown", 1, 0), (), "the events of an unknown session")
        await store.save(attrs.evolve(RECORD, id="unknown"))
        same(await store.streams("unknown"), (), "the streams after the session was saved")
        same(await store.subscriptions("unknown"), frozenset(), "the subscriptions after the session was saved")


async def saved_again_session_keeps_its_events(open_store: OpenStore) -> None:
    """Check that saving a session again changes its record, but not its subscriptions and streams."""
    changed = attrs.evolve(RECORD, log_level=None, client={"other": True}, used_at=2e9)
    async with opened(open_store, ROOMY, RECORD.id) as store:
        await store.subscribe(RECORD.id, "test://a")
        await store.begin(RECORD.id, 1, (7,))
        await store.append(RECORD.id, events(1, 1, 2))
        await store.save(changed)
        same(await store.load(RECORD.id), changed, "the record")
        same(await store.subscriptions(RECORD.id), frozenset({"test://a"}), "the subscriptions")
        same(await store.streams(RECORD.id), (StoredStream(1, 2, (7,)),), "the streams")
        same(await store.events(RECORD.id, 1, 0), events(1, 1, 2), "the events")


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
        for id in ("a", "b"):
            await store.subscribe(id, "test://a")
            await store.begin(id, 1, (1,))
            await store.append(id, events(1, 1, 2))
        await store.delete("a")
        same(await store.load("a"), None, "the record of the deleted session")
        await store.save(attrs.evolve(RECORD, id="a"))
        same(await store.subscriptions("a"), frozenset(), "the subscriptions of a new session with the same id")
        same(await store.streams("a"), (), "the streams of a new session with the same id")
        same(await store.events("a", 1, 0), (), "the events of a new session with the same id")
        same(await store.events("b", 1, 0), events(1, 1, 2), "the events of the other session")


async def sessions_have_count_limit(open_store: OpenStore) -> None:
    """Check that the least recently used session is removed with its streams above `Limits.sessions`."""
    async with opened(open_store, TEN) as store:
        for used_at, id in enumerate(("a", "b", "c", "a", "d", "e")):
            await store.save(attrs.evolve(RECORD, id=id, used_at=float(used_at)))
            await store.begin(id, used_at, ())
        for id, there in (("a", True), ("b", False), ("c", False), ("d", True), ("e", True)):
            same(await store.load(id) is not None, there, f"whether session {id} exists")
            same(bool(await store.streams(id)), there, f"whether session {id} has streams")


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
    events = tuple(StoredEvent(3, number, each) for number, each in enumerate(data, 1))
    async with opened(open_store, ROOMY, "a") as store:
        await store.begin("a", 3, (1,))
        await store.append("a", events[:1])
        await store.append("a", ())
        await store.append("a", events[1:])
        for after in range(6):
            same(await store.events("a", 3, after), events[after:], f"the events after number {after}")
        for stream, after in ((4, 0), (LARGEST, 0), (3, LARGEST)):
            same(await store.events("a", stream, after), (), f"the events after {after} of stream {stream}")


async def events_of_streams_and_sessions_are_separate(open_store: OpenStore) -> None:
    """Check that each stream of each session has its own events, with their own numbers."""
    async with opened(open_store, ROOMY, "a", "b") as store:
        for id in ("a", "b"):
            for stream in (2, 10):
                await store.begin(id, stream, (stream,))
        await store.append("a", (*events(2, 1, 2), *events(10, 1, 1), *events(2, 3, 3)))
        same(await store.events("a", 2, 0), events(2, 1, 3), "the events of stream 2")
        same(await store.events("a", 10, 0), events(10, 1, 1), "the events of stream 10")
        same(await store.events("b", 2, 0), (), "the events of stream 2 of the other session")
        streams = (StoredStream(2, 3, (2,)), StoredStream(10, 1, (10,)))
        same(await store.streams("a"), streams, "the streams, in the order of their numbers")


async def responses_are_pending_until_sent(open_store: OpenStore) -> None:
    """Check that a request is pending until its response is stored, and that the ids 1 and "1" are different."""
    async with opened(open_store, ROOMY, "a") as store:
        await store.begin("a", 1, (1, "1", 2**70))
        same(await store.streams("a"), (StoredStream(1, 0, (1, "1", 2**70)),), "the pending requests at first")
        answer = StoredEvent(1, 1, b"{}", "1")
        await store.append("a", (answer,))
        same(await store.streams("a"), (StoredStream(1, 1, (1, 2**70)),), "the pending requests after a response")
        same(await store.events("a", 1, 0), (answer,), "the response")


async def repeated_events_change_nothing(open_store: OpenStore) -> None:
    """Check that repeating a call whose outcome is unknown has no effect."""
    events = (StoredEvent(1, 1, b"1"), StoredEvent(1, 2, b"2", 5))
    async with opened(open_store, ROOMY, "a") as store:
        await store.begin("a", 1, (5,))
        for _ in range(2):
            await store.append("a", events)
        same(await store.events("a", 1, 0), events, "the events")
        await store.delivered("a", 1)
        await store.append("a", events)
        same(await store.streams("a"), (StoredStream(1, 2),), "the streams")


async def impossible_events_are_rejected(open_store: OpenStore) -> None:
    """Check that a stream begins only once, has no gaps, and accepts only responses to its pending requests."""
    async with opened(open_store, ROOMY, "a") as store:
        await refused(LocalProtocolError, store.append("a", events(1, 1, 1)), "an event of an unknown stream")
        await store.begin("a", 1, (1,))
        await refused(LocalProtocolError, store.begin("a", 1, (2,)), "a stream that was already begun")
        await refused(LocalProtocolError, store.append("a", events(2, 1, 1)), "an event of another stream")
        await refused(LocalProtocolError, store.append("a", events(1, 2, 2)), "an event after a gap in the numbers")
        stranger = StoredEvent(1, 1, b"{}", "1")
        await refused(LocalProtocolError, store.append("a", (stranger,)), "a response to a request that is not pending")
        await store.append("a", events(1, 1, 1))
        await store.delivered("a", 1)
        await refused(LocalProtocolError, store.append("a", events(1, 2, 2)), "an event of an ended stream")
        same(await store.streams("a"), (StoredStream(1, 1),), "the streams after the rejected calls")


async def session_has_one_standalone_stream(open_store: OpenStore) -> None:
    """Check that a new standalone stream replaces the previous one."""
    async with opened(open_store, ROOMY, "a") as store:
        await store.begin("a", 1, ())
        await store.begin("a", 2, (1,))
        await store.append("a", (*events(1, 1, 1), StoredEvent(2, 1, b"{}", 1)))
        await store.begin("a", 3, ())
        await refused(LocalProtocolError, store.append("a", events(1, 2, 2)), "an event of the replaced stream")
        await store.append("a", (*events(2, 2, 2), *events(3, 1, 1)))
        same(await store.events("a", 1, 0), events(1, 1, 1), "the events of the replaced stream")


async def ended_stream_has_no_pending_responses(open_store: OpenStore) -> None:
    """Check that an ended stream has no pending requests and keeps its events."""
    async with opened(open_store, ROOMY, "a") as store:
        await store.begin("a", 1, (1,))
        await store.append("a", events(1, 1, 2))
        await store.begin("a", 2, ())
        for stream in (1, 1, 5):
            await store.delivered("a", stream)
        same(await store.streams("a"), (StoredStream(1, 2), StoredStream(2, 0)), "the streams")
        same(await store.events("a", 1, 1), events(1, 2, 2), "the events")


async def highest_event_number_is_kept(open_store: OpenStore) -> None:
    """Check that the greatest stream number stays known, so that no new stream reuses a number known to a client."""
    async with opened(open_store, TEN, "a") as store:
        for stream in range(1, 100):
            await store.begin("a", stream, (1,))
            await store.delivered("a", stream)
            streams = await store.streams("a")
            same(streams[-1].stream, stream, "the last stream")
            true(len(streams) <= 10, f"{len(streams)} streams without events are stored")
