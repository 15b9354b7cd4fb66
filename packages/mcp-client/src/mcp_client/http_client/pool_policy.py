"""Which connection serves which request: the whole policy of the pool, without I/O.

A request asks for a *ticket*. A ticket that is granted is a slot: it holds one connection, an idle one or one that is
still to be opened, until it is given back. What cannot be granted waits in one of these lines, each in order:

    use      waits while                                                          line
    SIDE     as many requests run as connections are allowed                      one, served before the others
    CALL     the same, with one in reserve for SIDE; or `per_origin` calls run    one for each origin
    STREAM   the same as CALL, without the bound of the origin                    one

The reserve keeps calls from waiting for themselves: an answer that the server waits for goes by SIDE. Streams last as
long as the client, so waiting for one to end would be for ever: they leave one connection to SIDE and one to CALL, and
what goes beyond that is refused.

Every function returns what I/O has to do: wake those whose tickets are granted, close the connections that are not
kept. Nothing waits that could run: that is the property which the tests check after each step.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from mcp_core.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PoolPolicy", "Ticket", "Use"]

C = TypeVar("C")


class Use(enum.Enum):
    """What a request holds its connection for."""

    CALL = "call"
    """An answer; it waits its turn."""
    SIDE = "side"
    """Something short that others may wait for: an answer to the server, a cancellation. It goes first."""
    STREAM = "stream"
    """Messages of the server, for as long as the client lasts. It is not counted as a call."""


# Told apart by identity: two requests are never the same.
@attrs.define(eq=False)
class Ticket(Generic[C]):
    """The place of one request, in a line or in a slot."""

    origin: str
    """Whom it goes to."""
    use: Use
    """What for."""
    granted: bool = False
    """Whether it has a slot."""
    connection: C | None = None
    """The idle connection that it was granted; `None`: one is to be opened."""
    number: int = 0
    """Its age: a lower one asked earlier."""


@attrs.frozen
class _Idle(Generic[C]):
    connection: C
    until: float


class PoolPolicy(Generic[C]):
    """The slots, the lines and the idle connections of one pool.

    Args:
        connections: How many connections there may be, idle ones included.
        per_origin: How many calls to one origin run at a time.
        idle_kept: How many idle connections are kept.
    """

    def __init__(self, *, connections: int, per_origin: int, idle_kept: int) -> None:
        self._connections: Final = connections
        self._unreserved: Final = max(connections - 1, 1)
        self._most_streams: Final = max(connections - 2, 0)
        self._per_origin: Final = per_origin
        self._idle_kept: Final = idle_kept
        self._busy = 0
        self._calls: dict[str, int] = {}
        self._streams = 0
        self._idle: dict[str, list[_Idle[C]]] = {}
        self._idle_count = 0
        self._next_sweep = math.inf
        self._lines: dict[str | Use, deque[Ticket[C]]] = {}
        self._asked = 0

    @property
    def busy(self) -> int:
        """How many slots are taken."""
        return self._busy

    @property
    def idle(self) -> int:
        """How many connections are kept for the next request."""
        return self._idle_count

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot."""
        return sum(len(line) for line in self._lines.values())

    def ask(self, origin: str, use: Use, now: float) -> tuple[Ticket[C], Sequence[C]]:
        """A ticket for a request, granted or in line, and the connections to be closed.

        Args:
            origin: Requests to the same origin can use the same connections.
            use: What for.
            now: The time, in seconds of any clock.

        Raises:
            LimitExceeded: There are as many streams as may be.
        """
        if use is Use.STREAM:
            self._count_stream()
        doomed = self._sweep(now) if now >= self._next_sweep else []
        ticket: Ticket[C] = Ticket(origin, use)
        # That overtakes nobody: if there is room for this one, then nobody waits in its line.
        if self._has_room(ticket):
            self._grant(ticket, doomed)
            return ticket, doomed
        self._asked += 1
        ticket.number = self._asked
        self._lines.setdefault(self._line_of(ticket), deque()).append(ticket)
        return ticket, doomed

    def another(self, ticket: Ticket[C]) -> C | None:
        """The next idle connection for a granted ticket, whose own proved to be dead; `None`: one is to be opened."""
        ticket.connection = self._take_idle(ticket.origin)
        return ticket.connection

    def give_back(
        self, ticket: Ticket[C], connection: C | None, *, until: float, now: float
    ) -> tuple[Sequence[Ticket[C]], Sequence[C]]:
        """Ends a granted ticket.

        Args:
            ticket: Granted, and not given back yet.
            connection: What can be used again; `None`: nothing.
            until: How long it may be kept idle, as a time of the same clock as `now`.
            now: The time.

        Returns:
            The tickets that are granted now, and the connections to be closed.
        """
        ticket.granted = False
        self._busy -= 1
        if ticket.use is Use.STREAM:
            self._streams -= 1
        elif ticket.use is Use.CALL:
            self._count_down(ticket.origin)
        doomed = self._sweep(now) if now >= self._next_sweep else []
        if connection is not None:
            self._keep(ticket.origin, _Idle(connection, until))
        woken = self._serve(doomed) if self._lines else ()
        while self._idle_count > self._idle_kept:
            doomed.append(self._evict())
        return woken, doomed

    def withdraw(self, ticket: Ticket[C]) -> None:
        """Takes a ticket out of its line. A granted one is given back instead."""
        key = self._line_of(ticket)
        line = self._lines[key]
        line.remove(ticket)
        if not line:
            del self._lines[key]
        if ticket.use is Use.STREAM:
            self._streams -= 1

    def clear(self) -> tuple[Sequence[Ticket[C]], Sequence[C]]:
        """Ends the pool: the tickets that wait, ungranted, and all idle connections."""
        waiting = [ticket for line in self._lines.values() for ticket in line]
        self._lines.clear()
        idle = [each.connection for kept in self._idle.values() for each in kept]
        self._idle.clear()
        self._idle_count = 0
        self._next_sweep = math.inf
        return waiting, idle

    # The slots.

    def _has_room(self, ticket: Ticket[C]) -> bool:
        if ticket.use is Use.SIDE:
            return self._busy < self._connections
        if self._busy >= self._unreserved:
            return False
        return ticket.use is Use.STREAM or self._calls.get(ticket.origin, 0) < self._per_origin

    def _grant(self, ticket: Ticket[C], doomed: list[C]) -> None:
        ticket.granted = True
        self._busy += 1
        if ticket.use is Use.CALL:
            self._calls[ticket.origin] = self._calls.get(ticket.origin, 0) + 1
        ticket.connection = self._take_idle(ticket.origin)
        if self._busy + self._idle_count > self._connections:
            doomed.append(self._evict())

    def _count_stream(self) -> None:
        # Counted from the asking: of those that wait, too, each will have its place.
        if self._streams >= self._most_streams:
            raise LimitExceeded(
                "HTTP streams at a time, with two connections left for other requests",
                observed=self._streams + 1,
                allowed=self._most_streams,
                setting="Limits.connections",
            )
        self._streams += 1

    def _count_down(self, origin: str) -> None:
        left = self._calls[origin] - 1
        if left:
            self._calls[origin] = left
        else:
            del self._calls[origin]

    # The lines.

    def _line_of(self, ticket: Ticket[C]) -> str | Use:
        return ticket.origin if ticket.use is Use.CALL else ticket.use

    def _serve(self, doomed: list[C]) -> list[Ticket[C]]:
        """Grants what can be granted: SIDE first, then whoever waits longest."""
        woken: list[Ticket[C]] = []
        while True:
            heads = [line[0] for line in self._lines.values() if self._has_room(line[0])]
            if not heads:
                return woken
            ticket = min(heads, key=_rank)
            key = self._line_of(ticket)
            line = self._lines[key]
            line.popleft()
            if not line:
                del self._lines[key]
            self._grant(ticket, doomed)
            woken.append(ticket)

    # What is idle.

    def _keep(self, origin: str, idle: _Idle[C]) -> None:
        self._idle.setdefault(origin, []).append(idle)
        self._idle_count += 1
        self._next_sweep = min(self._next_sweep, idle.until)

    def _take_idle(self, origin: str) -> C | None:
        """The one that was used last: it is the least likely to be dead, and the others can grow old and go."""
        kept = self._idle.get(origin)
        if kept is None:
            return None
        taken = kept.pop()
        if not kept:
            del self._idle[origin]
        self._idle_count -= 1
        return taken.connection

    def _evict(self) -> C:
        """Forgets the idle connection that would go first."""
        origin, oldest = min(
            ((origin, idle) for origin, kept in self._idle.items() for idle in kept), key=lambda pair: pair[1].until
        )
        self._idle[origin].remove(oldest)
        if not self._idle[origin]:
            del self._idle[origin]
        self._idle_count -= 1
        return oldest.connection

    def _sweep(self, now: float) -> list[C]:
        """Forgets what was idle for too long."""
        doomed: list[C] = []
        self._next_sweep = math.inf
        for origin, kept in list(self._idle.items()):
            doomed += [idle.connection for idle in kept if idle.until <= now]
            fresh = [idle for idle in kept if idle.until > now]
            self._next_sweep = min([self._next_sweep, *(idle.until for idle in fresh)])
            if fresh:
                self._idle[origin] = fresh
            else:
                del self._idle[origin]
            self._idle_count += len(fresh) - len(kept)
        return doomed


def _rank(ticket: Ticket[C]) -> tuple[bool, int]:
    return ticket.use is not Use.SIDE, ticket.number
