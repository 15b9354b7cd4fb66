"""The places of one peer over HTTP: so many of its requests run at a time, so many wait, and more are refused.

A pipe pushes back instead (`mcp_server.connection.workers`): what is beyond the bounds is not read. Over HTTP each request comes
by itself, so that there is nobody to hold up but the one who waits for its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import LimitExceeded

if TYPE_CHECKING:
    from mcp_core.limits import Limits

__all__ = ["Peers", "Places", "excess"]


def excess(limits: Limits, waiting: int, size: int) -> LimitExceeded | None:
    """Why so many requests may not wait; `None` when they may.

    Args:
        limits: `waiting_requests` and `waiting_bytes` are applied.
        waiting: How many.
        size: Their bytes together.
    """
    if waiting > limits.waiting_requests:
        name, unit, observed, allowed = "waiting_requests", "", waiting, limits.waiting_requests
    elif size > limits.waiting_bytes:
        name, unit, observed, allowed = "waiting_bytes", ", in bytes", size, limits.waiting_bytes
    else:
        return None
    what = f"requests that wait for others of the same client to end{unit}"
    return LimitExceeded(what, observed=observed, allowed=allowed, setting=f"Limits.{name}")


class Places:
    """The requests of one peer. Those that wait are served in the order in which they came.

    Args:
        limits: `running_requests`, `waiting_requests` and `waiting_bytes` are applied.
    """

    __slots__ = ("_claimed", "_claimed_bytes", "_limits", "_queue", "_running")

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._running = 0
        self._claimed = 0
        self._claimed_bytes = 0
        # Most peers never need it.
        self._queue: trio.lowlevel.ParkingLot | None = None

    @property
    def unused(self) -> bool:
        """Nothing runs, and nothing is about to."""
        return not (self._running or self._claimed)

    def claim(self, size: int) -> LimitExceeded | None:
        """A request came. Each that may stay has to `enter`, or to `give_up`.

        Args:
            size: What it counts for while it waits, in bytes.

        Returns:
            Why it has to be refused; `None`: it may stay.
        """
        waiting = self._running + self._claimed + 1 - self._limits.running_requests
        refused = excess(self._limits, waiting, self._claimed_bytes + size) if waiting > 0 else None
        if refused is None:
            self._claimed += 1
            self._claimed_bytes += size
        return refused

    def give_up(self, size: int) -> None:
        """A request that may stay goes before it has a place."""
        self._claimed -= 1
        self._claimed_bytes -= size

    async def enter(self, size: int) -> None:
        """Waits for a place, which is to be given back by `leave`. Cancelled, it gives the claim up."""
        try:
            if self._running < self._limits.running_requests:
                self._running += 1
            else:
                if self._queue is None:
                    self._queue = trio.lowlevel.ParkingLot()
                # Whoever leaves hands on the place.
                await self._queue.park()
        finally:
            self.give_up(size)

    def leave(self) -> None:
        """A place is free: the request has ended, or waits for the client until `resume`."""
        if self._queue is not None and len(self._queue) and self._running <= self._limits.running_requests:
            self._queue.unpark()
        else:
            self._running -= 1

    def resume(self) -> None:
        """A request goes on that waited for the client, although another one may have taken its place."""
        self._running += 1


class Peers:
    """The places of all principals that have requests.

    Args:
        limits: See `Places`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._places: Final[dict[str, Places]] = {}

    def __len__(self) -> int:
        """Of how many something is kept."""
        return len(self._places)

    def places(self, principal: str | None) -> Places | None:
        """Where a request of a principal has to claim a place, at once; `None` where nobody is told apart."""
        return None if principal is None else self._places.setdefault(principal, Places(self._limits))

    def forget(self, principal: str | None) -> None:
        """A request has ended: nothing is kept of a principal that has no other one."""
        places = None if principal is None else self._places.get(principal)
        if principal is not None and places is not None and places.unused:
            del self._places[principal]
