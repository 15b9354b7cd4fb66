"""Policy of the connection pool, without I/O: which connection serves which request.

A request asks for a *ticket*. A granted ticket occupies a slot: it holds one connection, either idle or still to be
opened, until the ticket is returned. A ticket that cannot be granted waits in one of these queues, each in order:

    use      waits while                                                          queue
    SIDE     as many requests run as connections are allowed                      one, served before the others
    CALL     the same, with one in reserve for SIDE; or `per_origin` calls run    one for each origin
    STREAM   the same as CALL, without the limit of the origin                    one

The reserve prevents a deadlock: a response that the server waits for uses SIDE, so calls cannot block it. Streams last
as long as the client, so waiting for one to end could last indefinitely. Therefore streams leave one connection to SIDE
and one to CALL, and the policy rejects further streams.

Each function returns the I/O to do: wake the tasks whose tickets are granted, and close the connections that are not
retained. No request waits that could run; the tests check this property after each step.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from mcp_core.errors import LimitExceeded
from mcp_core.field_methods import FieldRepr, FieldValue

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PoolPolicy", "Ticket", "Use"]

C = TypeVar("C")


class Use(enum.Enum):
    """The purpose for which a request holds its connection."""

    CALL = "call"
    """A request that waits for its response. It is queued."""
    SIDE = "side"
    """A short message that others may wait for: a response to the server, a cancellation. It is served first."""
    STREAM = "stream"
    """Messages from the server for the lifetime of the client. Streams do not count as calls."""


# Compared by identity: two requests are never equal.
@attrs.define(eq=False, repr=False)
class Ticket(FieldRepr, Generic[C]):
    """A request's entry in a queue or a slot."""

    origin: str
    """The origin of the request."""
    use: Use
    """The purpose of the connection."""
    granted: bool = False
    """Whether the request has a slot."""
    connection: C | None = None
    """The idle connection of the slot; `None` if the caller must open a connection."""
    number: int = 0
    """Sequence number of the request: a lower number was queued earlier."""


@attrs.frozen(eq=False, repr=False)
class _Idle(FieldValue, Generic[C]):
    connection: C
    until: float


class PoolPolicy(Generic[C]):
    """The slots, queues and idle connections of one pool.

    Args:
        connections: Maximum number of connections, including idle ones.
        per_origin: Maximum number of concurrent calls to one origin.
        idle_kept: Maximum number of idle connections.
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
        self._requested = 0

    @property
    def busy(self) -> int:
        """The number of occupied slots."""
        return self._busy

    @property
    def idle(self) -> int:
        """The number of idle connections."""
        return self._idle_count

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return sum(len(line) for line in self._lines.values())

    def request(self, origin: str, use: Use, now: float) -> tuple[Ticket[C], Sequence[C]]:
        """Return a ticket for a request, granted or queued, and the connections to close.

        Args:
            origin: The origin. Requests to the same origin can use the same connections.
            use: The purpose of the connection.
            now: The current time, in seconds of any clock.

        Raises:
            LimitExceeded: The maximum number of streams is open.
        """
        if use is Use.STREAM:
            self._count_stream()
        doomed = self._sweep(now) if now >= self._next_sweep else []
        ticket: Ticket[C] = Ticket(origin, use)
        # Fair: if the pool has capacity for this request, its queue is empty.
        if self._has_capacity(ticket):
            self._grant(ticket, doomed)
            return ticket, doomed
        self._requested += 1
        ticket.number = self._requested
        self._lines.setdefault(self._line_of(ticket), deque()).append(ticket)
        return ticket, doomed

    def next_idle(self, ticket: Ticket[C]) -> C | None:
        """Return the next idle connection for a granted ticket whose connection is dead; `None` without another one."""
        ticket.connection = self._take_idle(ticket.origin)
        return ticket.connection

    def give_back(
        self, ticket: Ticket[C], connection: C | None, *, until: float, now: float
    ) -> tuple[Sequence[Ticket[C]], Sequence[C]]:
        """Return a granted ticket to the pool.

        Args:
            ticket: A granted ticket that was not returned yet.
            connection: The connection if it can be reused, otherwise `None`.
            until: Time until which the connection may stay idle, on the same clock as `now`.
            now: The current time.

        Returns:
            The tickets that are granted now, and the connections to close.
        """
        ticket.granted = False
        self._busy -= 1
        if ticket.use is Use.STREAM:
            self._streams -= 1
        elif ticket.use is Use.CALL:
            left = self._calls[ticket.origin] - 1
            if left:
                self._calls[ticket.origin] = left
            else:
                del self._calls[ticket.origin]
        doomed = self._sweep(now) if now >= self._next_sweep else []
        if connection is not None:
            self._idle.setdefault(ticket.origin, []).append(_Idle(connection, until))
            self._idle_count += 1
            self._next_sweep = min(self._next_sweep, until)
        woken = self._serve(doomed) if self._lines else ()
        while self._idle_count > self._idle_kept:
            doomed.append(self._evict())
        return woken, doomed

    def withdraw(self, ticket: Ticket[C]) -> None:
        """Remove a waiting ticket from its queue. Return a granted ticket with `give_back` instead."""
        key = self._line_of(ticket)
        line = self._lines[key]
        line.remove(ticket)
        if not line:
            del self._lines[key]
        if ticket.use is Use.STREAM:
            self._streams -= 1

    def clear(self) -> tuple[Sequence[Ticket[C]], Sequence[C]]:
        """Clear the pool, and return the waiting tickets and all idle connections."""
        waiting = [ticket for line in self._lines.values() for ticket in line]
        self._lines.clear()
        idle = [each.connection for kept in self._idle.values() for each in kept]
        self._idle.clear()
        self._idle_count = 0
        self._next_sweep = math.inf
        return waiting, idle

    # The slots.

    def _has_capacity(self, ticket: Ticket[C]) -> bool:
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
        # Counted when requested: streams that still wait will also occupy a slot.
        if self._streams >= self._most_streams:
            raise LimitExceeded(
                "concurrent HTTP streams, with two connections left for other requests",
                observed=self._streams + 1,
                allowed=self._most_streams,
                setting="Limits.connections",
            )
        self._streams += 1

    # The queues.

    def _line_of(self, ticket: Ticket[C]) -> str | Use:
        return ticket.origin if ticket.use is Use.CALL else ticket.use

    def _serve(self, doomed: list[C]) -> list[Ticket[C]]:
        """Grant the tickets that can be granted: SIDE first, then in order of age."""
        woken: list[Ticket[C]] = []
        while True:
            heads = [line[0] for line in self._lines.values() if self._has_capacity(line[0])]
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

    # Idle connections.

    def _take_idle(self, origin: str) -> C | None:
        """Take the connection that was used last. It is the least likely to be dead, and the others can expire."""
        kept = self._idle.get(origin)
        if kept is None:
            return None
        taken = kept.pop()
        if not kept:
            del self._idle[origin]
        self._idle_count -= 1
        return taken.connection

    def _evict(self) -> C:
        """Remove the idle connection that expires first."""
        origin, oldest = min(
            ((origin, idle) for origin, kept in self._idle.items() for idle in kept), key=lambda pair: pair[1].until
        )
        self._idle[origin].remove(oldest)
        if not self._idle[origin]:
            del self._idle[origin]
        self._idle_count -= 1
        return oldest.connection

    def _sweep(self, now: float) -> list[C]:
        """Remove and return the idle connections that have expired."""
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
