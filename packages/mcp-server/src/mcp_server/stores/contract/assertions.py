"""The words of `mcp_server.stores.contract`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.limits import Limits
from mcp_server.stores.sessions import SessionRecord, SessionStore, StoredEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = [
    "LARGEST",
    "RECORD",
    "ROOMY",
    "TEN",
    "OpenStore",
    "StoreCheck",
    "events",
    "numbers",
    "opened",
    "refused",
    "same",
    "true",
]

OpenStore: TypeAlias = Callable[[Limits], Awaitable[SessionStore]]
"""Opens the store with these bounds. In one check it is always the same store, empty at first."""

StoreCheck: TypeAlias = Callable[[OpenStore], Awaitable[None]]
"""One check."""

ROOMY: Final = Limits()
TEN: Final = Limits(replay_events=10, sessions=3)
LARGEST: Final = 10**18 - 1
"""The largest number that an event id can have."""

RECORD: Final = SessionRecord(
    id="session-1",
    principal="Ann Ü",
    revision="2025-11-25",
    client={"clientInfo": {"name": "x", "version": "1"}, "large": 2**70, "list": [1.5, None, True, "ü\n"]},
    log_level="debug",
    used_at=1_700_000_000.25,
)


def same(observed: object, expected: object, what: str) -> None:
    """Raises unless both are equal, and of the same type."""
    if observed != expected or type(observed) is not type(expected):
        raise AssertionError(f"{what}: expected {expected!r}, found {observed!r}")


def true(holds: bool, what: str) -> None:  # noqa: FBT001  # reads as a sentence
    """Raise unless a condition holds."""
    if not holds:
        raise AssertionError(what)


async def refused(error: type[Exception], call: Awaitable[object], what: str) -> None:
    """Raise unless a call raises `error`."""
    try:
        await call
    except error:
        return
    raise AssertionError(f"{what}: expected {error.__name__}")


@asynccontextmanager
async def opened(open_store: OpenStore, limits: Limits = ROOMY, *sessions: str) -> AsyncIterator[SessionStore]:
    """Open a store that has the sessions, and close it at the end of the block."""
    store = await open_store(limits)
    try:
        for id in sessions:
            await store.save(attrs.evolve(RECORD, id=id))
        yield store
    finally:
        await store.aclose()


def events(stream: int, first: int, last: int) -> tuple[StoredEvent, ...]:
    """Return the events of a stream with the numbers from `first` to `last`."""
    return tuple(StoredEvent(stream, number, b"%d of %d" % (number, stream)) for number in range(first, last + 1))


def numbers(events: tuple[StoredEvent, ...]) -> tuple[int, ...]:
    """Return the numbers of events."""
    return tuple(event.number for event in events)
