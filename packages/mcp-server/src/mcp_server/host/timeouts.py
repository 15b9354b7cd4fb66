"""Timeouts of the embedded HTTP host, and one task that enforces all deadlines.

A cancel scope around each read and each write costs more than the reads and writes themselves. Therefore a connection
only records when its deadlines must be checked, and one scheduler checks the connections that are due. It sleeps until
the earliest deadline, and does not run while no connection waits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HasDeadlines", "HostTimeouts", "TimeoutScheduler"]

_LEAST_PAUSE: Final = 0.1
"""Least time between two checks, in seconds. Deadlines are whole seconds, so a tenth of a second is accurate enough.
With thousands of connections a check takes less than a millisecond."""


def _seconds(_: HostTimeouts, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"HostTimeouts.{attribute.name} must be a number of seconds, not {value!r}")
    if math.isnan(value) or value <= 0:
        raise ValueError(f"HostTimeouts.{attribute.name} must be more than 0 seconds, not {value!r}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HostTimeouts(FieldValue):
    """Times that the host waits for a client, in seconds; `math.inf` for no limit.

    These settings do not limit the time that the application takes to respond.

    Raises:
        TypeError: A value is not a number.
        ValueError: A value is not positive.
    """

    head: float = attrs.field(default=10.0, validator=_seconds)
    """For the start line and the headers, from their first byte. A new connection has the same time for its first byte,
    including the TLS handshake."""
    body: float = attrs.field(default=10.0, validator=_seconds)
    """For the body, in addition to its length divided by `body_rate`. This time without a byte also ends the wait."""
    body_rate: float = attrs.field(default=512.0, validator=_seconds)
    """Lowest accepted rate of a body, in bytes per second. Sending data early does not extend the deadline."""
    idle: float = attrs.field(default=75.0, validator=_seconds)
    """For the next request on a persistent connection."""
    stall: float = attrs.field(default=30.0, validator=_seconds)
    """For a client that does not read what is sent to it."""
    linger: float = attrs.field(default=2.0, validator=_seconds)
    """For a client that is still sending the body of a rejected request. The host discards the data, so that the client
    can read the response."""


class HasDeadlines(Protocol):
    """An object with deadlines."""

    look_at: float
    """The time of the next check, by trio's clock; `math.inf` for no check. An early check is harmless."""

    def look(self, now: float) -> None:
        """Handle the deadlines that have passed, and set `look_at`."""


class TimeoutScheduler:
    """A scheduler that checks the deadlines of all objects when one is due.

    Args:
        watched: The objects with deadlines. The collection can change at any time.
    """

    def __init__(self, watched: Iterable[HasDeadlines]) -> None:
        self._watched: Final = watched
        self._wakes_at = math.inf
        self._sleep = trio.CancelScope()

    def at_latest(self, when: float) -> None:
        """Check deadlines no later than at `when`, by trio's clock. Cheap if an earlier check is scheduled."""
        if when < self._wakes_at:
            self._wakes_at = when
            self._sleep.deadline = when

    async def run(self) -> None:
        """Check deadlines until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._wakes_at) as self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            earliest = math.inf
            for each in tuple(self._watched):
                if each.look_at <= now:
                    each.look(now)
                earliest = min(earliest, each.look_at)
            self._wakes_at = max(earliest, now + _LEAST_PAUSE)
