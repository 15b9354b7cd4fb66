"""The turns of tasks that do long work in parts, so that other requests are served between the parts.

A task that works for long without waiting delays all other tasks, and a hundred tasks that each do a short part of it
delay them as much. Therefore a task takes a turn before each part. In one iteration of the event loop the parts of all
tasks together have about `PART` units. The others wait for the next iterations, in the order in which they came.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

__all__ = ["PART", "take_turn"]

PART: Final = 64
"""Units of work in one iteration of the event loop, which take about 2 ms. A unit is a notification to encode, or a URI
to look up."""


class _Turns:
    """The turns of one event loop."""

    __slots__ = ("_left", "_waiting")

    def __init__(self) -> None:
        self._left = PART
        self._waiting: Final[deque[tuple[trio.Event, int]]] = deque()

    async def take(self, units: int) -> None:
        if self._left > 0 and not self._waiting:
            if self._left == PART:
                self._renew_soon()
            self._left -= units
            return
        turn = trio.Event(), units
        self._waiting.append(turn)
        try:
            await turn[0].wait()
        except trio.Cancelled:
            if not turn[0].is_set():
                self._waiting.remove(turn)
            raise

    def _renew_soon(self) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(self._renew)

    def _renew(self) -> None:
        self._left = PART
        while self._waiting and self._left > 0:
            event, units = self._waiting.popleft()
            self._left -= units
            event.set()
        if self._left < PART:
            self._renew_soon()


_turns: Final = trio.lowlevel.RunVar[_Turns]("mcp_server.turns")


async def take_turn(units: int = PART) -> None:
    """Wait for a turn in long work. Returns at once, without a checkpoint, if no other work was done in this iteration.

    Args:
        units: The units of the part that follows, at least 1.
    """
    try:
        turns = _turns.get()
    except LookupError:
        turns = _Turns()
        _turns.set(turns)
    await turns.take(units)
