"""The age of time stamps when the system clock can be set in the meantime.

Data that outlives a process can only be stamped with the time of day, and the time of day can be corrected. After a
correction forward, all stored data would expire at once. After a correction backward, it would never expire. A process
detects both, because its monotonic clock cannot be set:

    forward     For one day, and while this process runs, stamps made before the correction do not age by it.
    backward    Stamps made before the correction now lie in the future. They count as made now.

Another process cannot detect the correction and uses the stamps unchanged.
"""

from __future__ import annotations

import time
from typing import Final

import attrs

from mcp_core.field_methods import FieldValue

__all__ = ["StampClock"]

_NOTICED: Final = 5.0
"""The smallest detected correction, in seconds. Time synchronization makes smaller corrections all the time."""

_REMEMBERED: Final = 86_400.0
"""Time for which a correction forward is remembered, in seconds. Stamps made before it have expired by then, or belong
to data with a lifetime so long that the correction does not matter."""

_STEPS: Final = 16
"""How many corrections forward are remembered. A clock that is set more often is not reliable in any case."""


@attrs.frozen(eq=False, repr=False)
class _Step(FieldValue):
    """A correction forward."""

    before: float
    """The time of day when the clock was set forward, in seconds since the epoch."""
    seconds: float
    """The size of the correction, in seconds."""
    until: float
    """The end of the time for which the correction is remembered, on the monotonic clock."""


class StampClock:
    """A clock that returns the age of time stamps, corrected for changes of the system clock."""

    __slots__ = ("_offset", "_steps")

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._steps: list[_Step] = []

    def age(self, stamp: float) -> float:
        """Return the age of a time stamp in seconds, or 0 for a stamp in the future.

        Args:
            stamp: Seconds since the epoch.
        """
        now = self._observe()
        for step in self._steps:
            # No stamp is made between the two times of a correction. A stamp between them was already in the future.
            stamp = min(stamp + step.seconds, max(stamp, step.before + step.seconds))
        return max(0.0, now - stamp)

    def earliest(self) -> float:
        """Return the time of day without the corrections forward.

        Data that expires before this time has expired, whenever it was stamped.
        """
        return self._observe() - sum(step.seconds for step in self._steps)

    def _observe(self) -> float:
        """Detect whether the system clock was set, and return the time of day."""
        now, steady = time.time(), time.monotonic()
        seconds = now - steady - self._offset
        steps = [step for step in self._steps if steady < step.until]
        if seconds >= _NOTICED:
            steps.append(_Step(steady + self._offset, seconds, steady + _REMEMBERED))
        while seconds <= -_NOTICED and steps:
            # A correction backward undoes corrections forward.
            last = steps.pop()
            seconds += last.seconds
            if seconds > 0:
                steps.append(attrs.evolve(last, seconds=seconds))
        self._steps = steps[-_STEPS:]
        self._offset = now - steady
        return now
