"""How long the embedded HTTP host waits for a client, and the one task that keeps all these deadlines.

A cancel scope around each read and each write costs more than the reads and writes themselves. So a connection only
notes when it wants to be looked at, and one housekeeper looks at those that are due. It sleeps until the earliest of
these times; nothing runs while no connection waits for anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HostTimeouts", "Housekeeper", "Watched"]

_LEAST_PAUSE: Final = 0.1
"""Seconds between two looks. Deadlines are whole seconds, so a tenth of one is near enough; with thousands of
connections a look costs less than a millisecond."""


def _seconds(_: HostTimeouts, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"HostTimeouts.{attribute.name} must be a number, not {value!r}")
    if math.isnan(value) or value <= 0:
        raise ValueError(f"HostTimeouts.{attribute.name} must be more than 0, not {value!r}")


@attrs.frozen(kw_only=True)
class HostTimeouts:
    """How long the host waits for a client, in seconds; `math.inf` for ever.

    How long a request may take to be answered is not bounded here.

    Raises:
        TypeError: A value is no number.
        ValueError: A value is not positive.
    """

    head: float = attrs.field(default=10.0, validator=_seconds)
    """For the start line and the headers, from their first byte. A new connection has as long for that byte to come, and
    for the TLS handshake before it."""
    body: float = attrs.field(default=10.0, validator=_seconds)
    """For the body, beside the time that its bytes take at `body_rate`. So many seconds without a byte end the wait."""
    body_rate: float = attrs.field(default=512.0, validator=_seconds)
    """Bytes per second that a client has to reach while it sends a body. Data that is sent early buys no time."""
    idle: float = attrs.field(default=75.0, validator=_seconds)
    """For the next request on a connection that is kept."""
    stall: float = attrs.field(default=30.0, validator=_seconds)
    """For a client that takes nothing of what is sent to it."""
    linger: float = attrs.field(default=2.0, validator=_seconds)
    """For a client that is still sending a body which was refused: what it sends is dropped, so that it gets to see the
    answer."""


class Watched(Protocol):
    """What has deadlines."""

    look_at: float
    """When it wants to be looked at next, by trio's clock; `math.inf` for never. Too early is harmless."""

    def look(self, now: float) -> None:
        """Does what is due, and sets `look_at` anew."""


class Housekeeper:
    """Looks at all connections when one is due.

    Args:
        watched: Them; the collection may change at any time.
    """

    def __init__(self, watched: Iterable[Watched]) -> None:
        self._watched: Final = watched
        self._wakes_at = math.inf
        self._sleep = trio.CancelScope()

    def at_latest(self, when: float) -> None:
        """Makes sure that it looks no later than `when`, by trio's clock. Cheap when it does anyway."""
        if when < self._wakes_at:
            self._wakes_at = when
            self._sleep.deadline = when

    async def run(self) -> None:
        """Looks, for ever. *Closing.* Cancel it."""
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
