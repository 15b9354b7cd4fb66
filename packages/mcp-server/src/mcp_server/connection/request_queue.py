"""The request queue of one principal over HTTP.

The number of running requests and of queued requests is limited. The server rejects requests above both limits. On a
byte stream the server applies backpressure instead (`mcp_server.connection.workers`): it stops reading. Over HTTP each
message arrives in its own HTTP request, so that backpressure would delay only the sender of that request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import LimitExceeded

if TYPE_CHECKING:
    from mcp_core.limits import Limits

__all__ = ["PrincipalQueues", "RequestQueue", "excess"]


def excess(limits: Limits, waiting: int, size: int) -> LimitExceeded | None:
    """Return the limit that a queue exceeds, or `None`.

    Args:
        limits: Supplies `waiting_requests` and `waiting_bytes`.
        waiting: Number of queued requests.
        size: Their total size, in bytes.
    """
    if waiting > limits.waiting_requests:
        name, unit, observed, allowed = "waiting_requests", "", waiting, limits.waiting_requests
    elif size > limits.waiting_bytes:
        name, unit, observed, allowed = "waiting_bytes", ", in bytes", size, limits.waiting_bytes
    else:
        return None
    what = f"queued requests of one client{unit}"
    return LimitExceeded(what, observed=observed, allowed=allowed, setting=f"Limits.{name}")


class RequestQueue:
    """The requests of one principal. Queued requests start in the order of their arrival.

    Args:
        limits: Supplies `running_requests`, `waiting_requests` and `waiting_bytes`.
    """

    __slots__ = ("_claimed", "_claimed_bytes", "_limits", "_queue", "_running")

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._running = 0
        self._claimed = 0
        self._claimed_bytes = 0
        # Created when needed: most principals never have queued requests.
        self._queue: trio.lowlevel.ParkingLot | None = None

    @property
    def unused(self) -> bool:
        """Whether no request runs and no request is queued."""
        return not (self._running or self._claimed)

    def claim(self, size: int) -> LimitExceeded | None:
        """Add a request to the queue. Call `enter` or `give_up` for each request that was added.

        Args:
            size: Its size while it is queued, in bytes.

        Returns:
            The limit for which the request must be rejected; `None` if it was added.
        """
        waiting = self._running + self._claimed + 1 - self._limits.running_requests
        refused = excess(self._limits, waiting, self._claimed_bytes + size) if waiting > 0 else None
        if refused is None:
            self._claimed += 1
            self._claimed_bytes += size
        return refused

    def give_up(self, size: int) -> None:
        """Remove a request from the queue before it starts."""
        self._claimed -= 1
        self._claimed_bytes -= size

    async def enter(self, size: int) -> None:
        """Wait until the request can start. Call `leave` when it ends. Cancellation removes it from the queue."""
        try:
            if self._running < self._limits.running_requests:
                self._running += 1
            else:
                if self._queue is None:
                    self._queue = trio.lowlevel.ParkingLot()
                # `leave` wakes the request without changing the number of running requests.
                await self._queue.park()
        finally:
            self._claimed -= 1
            self._claimed_bytes -= size

    def leave(self) -> None:
        """Stop counting a request as running: it has ended, or it waits for the client until `resume`."""
        if self._queue is not None and len(self._queue) and self._running <= self._limits.running_requests:
            self._queue.unpark()
        else:
            self._running -= 1

    def resume(self) -> None:
        """Continue a request that waited for the client. The limit of running requests may be exceeded meanwhile."""
        self._running += 1


class PrincipalQueues:
    """The request queues of all principals that have requests.

    Args:
        limits: The limits of each queue, as in `RequestQueue`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._queues: Final[dict[str, RequestQueue]] = {}

    def __len__(self) -> int:
        """Return the number of principals that have requests."""
        return len(self._queues)

    def queue(self, principal: str) -> RequestQueue:
        """Return the queue of a principal. Call `claim` before the next checkpoint."""
        return self._queues.setdefault(principal, RequestQueue(self._limits))

    def forget(self, principal: str) -> None:
        """Remove the queue of a principal whose last request has ended."""
        queue = self._queues.get(principal)
        if queue is not None and queue.unused:
            del self._queues[principal]
