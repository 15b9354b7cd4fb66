"""Table of the sessions of legacy HTTP clients, bounded and ordered by use.

*Look-up.* A session is found by its id together with the principal that opened it. For every other principal the
session does not exist, and the response is the same as for an id that was never issued.

*Eviction.* A session expires when it was not used for the idle time. When the table is full, the least recently used
session is evicted. A session with a request in progress neither expires nor is evicted, and its idle time does not run.

One ordered table has the idle sessions, the least recently used first. Another has the sessions with requests in
progress. Each operation therefore takes constant time.

Spec: basic/transports#session-management (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.field_methods import FieldRepr, FieldValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.limits import Limits

__all__ = ["EvictedSession", "EvictionReason", "SessionTable"]

S = TypeVar("S")


class EvictionReason(enum.Enum):
    """The reason why the table removed a session. The value is a text for logs and for the client."""

    IDLE = "it was idle for as long as EndpointPolicy.session_idle allows"
    """The session expired."""
    LEAST_RECENTLY_USED = "it was the least recently used session when the number of sessions reached Limits.sessions"
    """The session was evicted for a new one."""


@attrs.frozen(eq=False, repr=False)
class EvictedSession(FieldValue, Generic[S]):
    """A session that the table removed. The caller must end it."""

    id: str
    """The id of the session."""
    value: S
    """The value that was stored with the session."""
    reason: EvictionReason
    """The reason for the removal."""


@attrs.define(eq=False, repr=False)
class _Entry(FieldRepr, Generic[S]):
    principal: str | None
    value: S
    used: float
    running: int = 0


class SessionTable(Generic[S]):
    """Sessions by id, each with a value of the caller.

    The time is passed as `now`: seconds of a monotonic clock.

    Args:
        limits: The limits. `Limits.sessions` is the maximum number of sessions.
        idle: Time after which an unused session expires, in seconds: `EndpointPolicy.session_idle`.
    """

    __slots__ = ("_allowed", "_idle", "_resting", "_running", "evicted", "expired", "opened")

    opened: int
    """The number of sessions that were ever added."""
    expired: int
    """The number of sessions that expired."""
    evicted: int
    """The number of sessions that were evicted for others."""

    def __init__(self, limits: Limits, *, idle: float) -> None:
        self.opened = self.expired = self.evicted = 0
        self._allowed = limits.sessions
        self._idle = idle
        self._resting: OrderedDict[str, _Entry[S]] = OrderedDict()
        self._running: dict[str, _Entry[S]] = {}

    def add(self, id: str, principal: str | None, value: S, now: float) -> EvictedSession[S] | None:
        """Add a session.

        Args:
            id: An unguessable id that was never used before.
            principal: The principal that opened the session; `None` without authentication.
            value: The value to store with the session.
            now: The time, in seconds.

        Returns:
            The session that was evicted, if the table was full.

        Raises:
            LimitExceeded: The table is full, and each session has a request in progress.
            LocalProtocolError: A session with this id exists.
        """
        if id in self._resting or id in self._running:
            raise LocalProtocolError("a session with this id already exists")
        departed = None
        if len(self) >= self._allowed:
            if not self._resting:
                raise LimitExceeded(
                    "sessions with a request in progress",
                    observed=len(self) + 1,
                    allowed=self._allowed,
                    setting="Limits.sessions",
                )
            departed = self._evict(EvictionReason.LEAST_RECENTLY_USED)
            self.evicted += 1
        self._resting[id] = _Entry(principal, value, now)
        self.opened += 1
        return departed

    def find(self, id: str, principal: str | None, now: float) -> S | None:
        """Find a session and mark it as used.

        Args:
            id: The id of the session.
            principal: The principal of the request.
            now: The time, in seconds.

        Returns:
            The stored value. `None` if the session does not exist, has expired, or belongs to another principal.
        """
        entry = self._running.get(id)
        if entry is not None:
            return entry.value if entry.principal == principal else None
        entry = self._resting.get(id)
        if entry is None or entry.principal != principal or now - entry.used >= self._idle:
            return None
        entry.used = now
        self._resting.move_to_end(id)
        return entry.value

    def busy(self, id: str) -> None:
        """Count a request that begins in a session; end it with `idle`. Does nothing if there is no such session."""
        entry = self._resting.pop(id, None)
        if entry is not None:
            self._running[id] = entry
        else:
            entry = self._running.get(id)
        if entry is not None:
            entry.running += 1

    def idle(self, id: str, now: float) -> None:
        """Record the end of a request in a session. After the last one the idle time starts again.

        Does nothing if there is no such session, because it may have been removed in the meantime.
        """
        entry = self._running.get(id)
        if entry is None:
            return
        entry.running -= 1
        if not entry.running:
            entry.used = now
            del self._running[id]
            self._resting[id] = entry

    def remove(self, id: str) -> S | None:
        """Remove a session, even one with requests in progress.

        Returns:
            The stored value; `None` if there is no such session.
        """
        entry = self._resting.pop(id, None) or self._running.pop(id, None)
        return None if entry is None else entry.value

    def expire(self, now: float) -> list[EvictedSession[S]]:
        """Remove and return the expired sessions, the least recently used first."""
        departed: list[EvictedSession[S]] = []
        while self._resting and now - next(iter(self._resting.values())).used >= self._idle:
            departed.append(self._evict(EvictionReason.IDLE))
        self.expired += len(departed)
        return departed

    @property
    def running(self) -> int:
        """The number of sessions with a request in progress."""
        return len(self._running)

    def get(self, id: str) -> S | None:
        """Return the value that is stored with an id, without marking the session as used; `None` without one."""
        entry = self._running.get(id) or self._resting.get(id)
        return None if entry is None else entry.value

    def in_progress(self) -> Iterator[S]:
        """Iterate over the stored values of the sessions with a request in progress."""
        return (entry.value for entry in self._running.values())

    def __len__(self) -> int:
        return len(self._resting) + len(self._running)

    def __iter__(self) -> Iterator[S]:
        """Iterate over the stored values, in an unspecified order."""
        return (entry.value for entry in chain(self._resting.values(), self._running.values()))

    def _evict(self, reason: EvictionReason) -> EvictedSession[S]:
        id, entry = self._resting.popitem(last=False)
        return EvictedSession(id, entry.value, reason)
