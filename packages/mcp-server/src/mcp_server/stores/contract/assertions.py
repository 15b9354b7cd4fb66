"""Assertions and sample data of `mcp_server.stores.contract`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.limits import Limits
from mcp_server.stores.sessions import SessionRecord, SessionStore, StoredEvent, StoredStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_core.jsonrpc.messages import RequestId

__all__ = [
    "LARGEST",
    "RECORD",
    "ROOMY",
    "TEN",
    "WORKER",
    "OpenStore",
    "StoreCheck",
    "begun",
    "events",
    "numbers",
    "opened",
    "refused",
    "same",
    "streams",
    "true",
]

OpenStore: TypeAlias = Callable[[Limits], Awaitable[SessionStore]]
"""A function that opens the store with these bounds. Within one check it opens the same store, at first empty."""

StoreCheck: TypeAlias = Callable[[OpenStore], Awaitable[None]]
"""A check of a store of sessions. It raises `AssertionError` if the store breaks the rule."""

ROOMY: Final = Limits()
TEN: Final = Limits(replay_events=10, sessions=3)
LARGEST: Final = 10**18 - 1
"""The largest number that an event id can have."""

WORKER: Final = "worker-1"
"""The worker of the streams."""

RECORD: Final = SessionRecord(
    id="session-1",
    principal="Ann Ü",
    revision="2025-11-25",
    client={"clientInfo": {"name": "x", "version": "1"}, "large": 2**70, "list": [1.5, None, True, "ü\n"]},
    log_level="debug",
    used_at=1_700_000_000.25,
)


def same(observed: object, expected: object, what: str) -> None:
    """Raise `AssertionError` unless both values are equal and have the same type."""
    if observed != expected or type(observed) is not type(expected):
        raise AssertionError(f"{what}: expected {expected!r}, found {observed!r}")


def true(holds: bool, what: str) -> None:  # noqa: FBT001  # reads as a sentence
    """Raise `AssertionError` unless a condition holds."""
    if not holds:
        raise AssertionError(what)


async def refused(error: type[Exception], call: Awaitable[object], what: str) -> None:
    """Raise `AssertionError` unless a call raises `error`."""
    try:
        await call
    except error:
        return
    raise AssertionError(f"{what}: expected {error.__name__}")


@asynccontextmanager
async def opened(open_store: OpenStore, limits: Limits = ROOMY, *sessions: str) -> AsyncIterator[SessionStore]:
    """Open a store that contains the sessions, and close it at the end of the block."""
    store = await open_store(limits)
    try:
        for id in sessions:
            await store.save(attrs.evolve(RECORD, id=id))
        yield store
    finally:
        await store.aclose()


async def begun(store: SessionStore, session: str, *pending: RequestId) -> int:
    """Begin a stream of `WORKER`, and return its number."""
    return await store.begin(session, pending, worker=WORKER)


async def streams(store: SessionStore, session: str) -> tuple[StoredStream, ...]:
    """Return the streams of a session without their workers."""
    return tuple([attrs.evolve(each, worker="") for each in await store.streams(session)])


def events(stream: int, first: int, last: int) -> tuple[StoredEvent, ...]:
    """Return the events of a stream with the numbers from `first` to `last`."""
    return tuple(StoredEvent(stream, number, b"%d of %d" % (number, stream)) for number in range(first, last + 1))


def numbers(events: tuple[StoredEvent, ...]) -> tuple[int, ...]:
    """Return the numbers of the events."""
    return tuple(event.number for event in events)
