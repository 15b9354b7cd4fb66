"""The sessions of legacy HTTP clients: a bounded table, ordered by use.

*Who is found.* A session is found by its id together with the principal that opened it. For everybody else it does not
exist, and nothing tells that from an id that was never issued.

*Who goes.* A session that nobody uses for the idle time goes, and when the table is full the one that was not used for
the longest time makes room. One in which a request runs never goes by itself, and its time stands still meanwhile.

Sessions that rest are in one ordered table, the longest at rest first; those in which requests run in another. So every
operation takes the same time, however many there are.

Spec: basic/transports#session-management (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from mcp_core.errors import LimitExceeded, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.limits import Limits

__all__ = ["Departed", "Departure", "SessionTable"]

S = TypeVar("S")


class Departure(enum.Enum):
    """Why a session left the table by itself. The value is for logs, and for whom it concerns."""

    IDLE = "it was not used for as long as EndpointPolicy.session_idle allows"
    """Its time was over."""
    CROWDED_OUT = "it was not used for longer than any other when there were as many as Limits.sessions allows"
    """It made room for a new one."""


@attrs.frozen
class Departed(Generic[S]):
    """A session that left the table by itself, and is to be ended."""

    id: str
    """Its id."""
    value: S
    """What was kept under it."""
    reason: Departure
    """Why it left."""


@attrs.define(eq=False)
class _Entry(Generic[S]):
    principal: str | None
    value: S
    used: float
    running: int = 0


class SessionTable(Generic[S]):
    """Sessions by id, each with a value of the caller's.

    Time comes in as `now`: seconds of a clock that does not go back.

    Args:
        limits: `Limits.sessions` holds here.
        idle: Seconds after which a session goes that nobody uses: `EndpointPolicy.session_idle`.
    """

    __slots__ = ("_allowed", "_idle", "_resting", "_running", "crowded_out", "expired", "opened")

    opened: int
    """How many sessions were ever added."""
    expired: int
    """How many of them went since their time was over."""
    crowded_out: int
    """How many of them made room for others."""

    def __init__(self, limits: Limits, *, idle: float) -> None:
        self.opened = self.expired = self.crowded_out = 0
        self._allowed = limits.sessions
        self._idle = idle
        self._resting: OrderedDict[str, _Entry[S]] = OrderedDict()
        self._running: dict[str, _Entry[S]] = {}

    def add(self, id: str, principal: str | None, value: S, now: float) -> Departed[S] | None:
        """Adds a session.

        Args:
            id: Unguessable; nobody had it before.
            principal: Who opened it; `None` where nobody is told apart.
            value: What to keep under it.
            now: The time.

        Returns:
            The session that had to make room, if one had to.

        Raises:
            LimitExceeded: There are as many as may be, and in each of them a request runs.
            LocalProtocolError: There is a session with this id.
        """
        if id in self._resting or id in self._running:
            raise LocalProtocolError("a session with this id exists")
        departed = None
        if len(self) >= self._allowed:
            if not self._resting:
                raise LimitExceeded(
                    "sessions in which a request runs",
                    observed=len(self) + 1,
                    allowed=self._allowed,
                    setting="Limits.sessions",
                )
            departed = self._depart(Departure.CROWDED_OUT)
            self.crowded_out += 1
        self._resting[id] = _Entry(principal, value, now)
        self.opened += 1
        return departed

    def find(self, id: str, principal: str | None, now: float) -> S | None:
        """Looks a session up; that counts as a use of it.

        Args:
            id: Its id.
            principal: Who asks.
            now: The time.

        Returns:
            What is kept under it. `None` when there is none, its time is over, or another principal opened it.
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
        """A request begins to run in a session; end it with `idle`. Nothing happens when there is no such session."""
        entry = self._resting.pop(id, None)
        if entry is not None:
            self._running[id] = entry
        else:
            entry = self._running.get(id)
        if entry is not None:
            entry.running += 1

    def idle(self, id: str, now: float) -> None:
        """A request that ran in a session has ended; with the last one the session's time begins anew.

        Nothing happens when there is no such session: it may have been taken out meanwhile.
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
        """Takes a session out, whether requests run in it or not.

        Returns:
            What was kept under it; `None` when there is none.
        """
        entry = self._resting.pop(id, None) or self._running.pop(id, None)
        return None if entry is None else entry.value

    def expire(self, now: float) -> list[Departed[S]]:
        """Takes out the sessions whose time is over, the longest unused first."""
        departed: list[Departed[S]] = []
        while self._resting and now - next(iter(self._resting.values())).used >= self._idle:
            departed.append(self._depart(Departure.IDLE))
        self.expired += len(departed)
        return departed

    @property
    def running(self) -> int:
        """In how many of them a request runs."""
        return len(self._running)

    def __len__(self) -> int:
        return len(self._resting) + len(self._running)

    def __iter__(self) -> Iterator[S]:
        """What is kept under each, in no order to rely on."""
        return (entry.value for entry in chain(self._resting.values(), self._running.values()))

    def _depart(self, reason: Departure) -> Departed[S]:
        id, entry = self._resting.popitem(last=False)
        return Departed(id, entry.value, reason)
