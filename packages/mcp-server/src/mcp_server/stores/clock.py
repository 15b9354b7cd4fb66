"""How old something is that was stamped with the time of day, when the clock of the system may be set meanwhile.

What outlives a process can only be stamped with the time of day, which can be corrected: forward, and all that is kept
would be over at once; backward, and it would never be. A process sees both, since it has a second clock that cannot be set.

    forward     what was stamped before does not grow older by it, for a day, as long as this process lives
    backward    what was stamped before is of the future now, and counts as stamped now

Another process cannot know, and takes the stamps as they are.
"""

from __future__ import annotations

import time
from typing import Final

import attrs

__all__ = ["StampClock"]

_NOTICED: Final = 5.0
"""Seconds. Smaller steps are what is corrected in small steps all the time."""

_REMEMBERED: Final = 86_400.0
"""Seconds that a step forward is remembered: what was stamped before is over by then, or lives long enough not to mind."""

_STEPS: Final = 16
"""How many steps are remembered. A clock that is set more often is not to be relied on in any case."""


@attrs.frozen
class _Step:
    """A step forward."""

    before: float
    """The time of day at which the clock was put forward."""
    seconds: float
    """By how much."""
    until: float
    """How long it is remembered, by the clock that cannot be set."""


class StampClock:
    """Tells the age of stamps."""

    __slots__ = ("_offset", "_steps")

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._steps: list[_Step] = []

    def age(self, stamp: float) -> float:
        """Return how many seconds ago something was stamped; 0 for what is of the future.

        Args:
            stamp: Seconds since the epoch.
        """
        now = self._observe()
        for step in self._steps:
            # No stamp is made between the two times of a step: what has one was of the future before.
            stamp = min(stamp + step.seconds, max(stamp, step.before + step.seconds))
        return max(0.0, now - stamp)

    def earliest(self) -> float:
        """Return the time of day without the steps forward: whatever is over by it is over, whenever it was stamped."""
        return self._observe() - sum(step.seconds for step in self._steps)

    def _observe(self) -> float:
        """Look whether the clock was set. Returns the time of day."""
        now, steady = time.time(), time.monotonic()
        seconds = now - steady - self._offset
        steps = [step for step in self._steps if steady < step.until]
        if seconds >= _NOTICED:
            steps.append(_Step(steady + self._offset, seconds, steady + _REMEMBERED))
        while seconds <= -_NOTICED and steps:
            # A step backward undoes those forward.
            last = steps.pop()
            seconds += last.seconds
            if seconds > 0:
                steps.append(attrs.evolve(last, seconds=seconds))
        self._steps = steps[-_STEPS:]
        self._offset = now - steady
        return now
