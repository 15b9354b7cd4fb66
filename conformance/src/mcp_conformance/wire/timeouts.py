"""Time limits of waits for an implementation, which are shorter after waits in vain.

A timeout detects a hang; no rule is judged by it. An implementation that hangs once would otherwise cost the whole
timeout in each check that needs the same response, and a run would last hours. Two rules prevent this. Both leave a wait
twice as long as the slowest recent response, or more, so that a slow response is not taken for a hang.

- After two waits in a row in vain, the next ones are short. One response restores the timeout.
- The waits in vain of a run have budgets, for an implementation that sometimes responds. A wait may use at most a
  part of the rest of it, so that waits become shorter with each one in vain. A few more are long enough for a machine that
  stops an implementation for a moment.

While an implementation hangs, the runners let more of its waits overlap (`mcp_conformance.runners.adaptive_limiter`). Processes then
start, and clients run, beside others that use the processor. Therefore the shortest waits for them are four times the
slowest earlier one, or more.
"""

from __future__ import annotations

import enum
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["AdaptiveTimeouts", "Wait", "WaitKind"]

_IN_VAIN: Final = 2
"""Waits in a row that end without anything before the next ones are shorter: the first may be a coincidence."""

_BUDGET: Final = 4.0
"""The budget of the waits in vain of one kind, in timeouts."""

_PART: Final = 0.34
"""The part of the remaining budget that one wait gets: the first two in vain have the whole timeout."""

_UNKNOWN: Final = 0.1
"""The shortest wait within the budget, as a part of the timeout, for a response that never arrived before."""

_KNOWN: Final = 0.25
"""The same for a response that arrived before. A machine under load can stop an implementation for longer than the slowest
response so far, and the first error of a process can take a second: then some servers load what formats it."""

_LENIENT: Final = 20
"""The number of waits for known responses that are as long and end in vain. An implementation that hangs uses them up at once."""

_STARTS: Final = 10.0
"""The longest wait for the start of a process, as a multiple of the slowest start so far."""

_MEMORY: Final = 0.9
"""Factor for the slowest response so far after each later one: a single slow one does not count for the whole run."""


class WaitKind(enum.Enum):
    """The kind of a wait."""

    RESPONSE = "response"
    """The response to one request."""
    CONDITION = "condition"
    """Anything else that messages bring about, in any number of them."""
    STREAM = "stream"
    """The end of a stream, which may stay open for some time."""
    START = "start"
    """The first message of a process, which has to start first."""
    EXIT = "exit"
    """The exit of a process after the end of its input."""
    RUN = "run"
    """The exit of a client after its scenario."""


@attrs.frozen(kw_only=True)
class _Floor:
    """The shortest wait of a kind."""

    times: float
    """The shortest wait, as a multiple of the slowest response of the same kind."""
    seconds: float
    """The lower limit of that in seconds."""
    share: float
    """The shortest wait as a part of the timeout when no response is known."""
    reserves: bool = False
    """Whether a wait in progress counts in the budget as one in vain, from the first one in vain: then many of them begin
    before the next one ends.
    """
    like: WaitKind | None = None
    """The kind whose slowest response counts while no response of this kind is known, and whose budget this kind uses."""


_FLOORS: Final[Mapping[WaitKind, _Floor]] = {
    WaitKind.RESPONSE: _Floor(times=2.0, seconds=0.15, share=0.25),
    WaitKind.CONDITION: _Floor(times=4.0, seconds=0.2, share=0.25, like=WaitKind.RESPONSE),
    WaitKind.STREAM: _Floor(times=2.0, seconds=0.2, share=0.25),
    WaitKind.START: _Floor(times=4.0, seconds=0.8, share=0.2),
    WaitKind.EXIT: _Floor(times=2.0, seconds=0.2, share=0.1),
    WaitKind.RUN: _Floor(times=5.0, seconds=2.0, share=0.1, reserves=True),
}


@attrs.define(eq=False)
class Wait:
    """One wait, in the block of `AdaptiveTimeouts.wait`."""

    scope: trio.CancelScope
    """The scope that limits it."""
    seconds: float
    """The time limit in seconds."""
    note: str = ""
    """Why the limit is shorter than the timeout; empty if it is not."""
    in_vain: bool = False
    """Whether the limit was reached."""


class AdaptiveTimeouts:
    """The time limits of the waits for one implementation."""

    def __init__(self) -> None:
        self._in_vain: Final[dict[str, int]] = {}
        self._slowest: Final[dict[WaitKind, float]] = {}
        self._slowest_of: Final[dict[str, float]] = {}
        self._spent: Final[dict[WaitKind, float]] = {}
        self._reserved: Final[dict[WaitKind, float]] = {}
        self._lenient_in_vain = 0

    def limit(self, longest: float, subjects: Sequence[str], kind: WaitKind = WaitKind.RESPONSE) -> float:
        """Return the time limit of a wait in seconds.

        Args:
            longest: The timeout in seconds.
            subjects: What a response is awaited from, for instance a revision, and a method in that revision; the
                most specific one is the last. The limit is shorter if the last waits for any of them were in vain.
            kind: What is waited for.
        """
        floor = _FLOORS[kind]
        slowest = self._slowest.get(kind, self._slowest.get(floor.like) if floor.like is not None else None)
        short = longest * floor.share if slowest is None else max(floor.seconds, floor.times * slowest)
        if self._row(subjects) < _IN_VAIN:
            known = self._slowest_of.get(subjects[-1])
            left = longest * (_BUDGET - self._used(floor.like or kind)) * _PART
            lenient = longest * _KNOWN if self._lenient_in_vain < _LENIENT else 0.0
            least = longest * _UNKNOWN if known is None else lenient
            short = max(short, left, least, floor.times * (known or 0.0))
        return min(longest, short)

    def longest_start(self, timeout: float, starting: float) -> float:
        """Return the longest wait for the first message of a process, in seconds.

        Args:
            timeout: The timeout of a response in seconds.
            starting: The longest wait while no start is known, in seconds.
        """
        slowest = self._slowest.get(WaitKind.START)
        return max(timeout, starting if slowest is None else min(starting, _STARTS * slowest))

    @contextmanager
    def wait(self, longest: float, subjects: Sequence[str], kind: WaitKind = WaitKind.RESPONSE) -> Iterator[Wait]:
        """Limit the time of a block, and count it: as in vain if the time ends, as a response if the block ends.

        Args:
            longest: The timeout in seconds.
            subjects: As in `limit`.
            kind: What is waited for.
        """
        seconds = self.limit(longest, subjects, kind)
        since = trio.current_time()
        reserved = seconds / longest if _FLOORS[kind].reserves else 0.0
        self._reserved[kind] = self._reserved.get(kind, 0.0) + reserved
        try:
            with trio.move_on_after(seconds) as scope:
                wait = Wait(scope, seconds)
                if seconds < longest:
                    wait.note = self._note(longest, subjects)
                yield wait
        finally:
            self._reserved[kind] -= reserved
        wait.in_vain = scope.cancelled_caught
        taken = trio.current_time() - since
        for subject in subjects:
            self._in_vain[subject] = self._in_vain.get(subject, 0) + 1 if wait.in_vain else 0
        if wait.in_vain:
            self._lenient_in_vain += subjects[-1] in self._slowest_of and seconds <= longest * _KNOWN
            account = _FLOORS[kind].like or kind
            self._spent[account] = self._spent.get(account, 0.0) + taken / longest
        else:
            self._slowest[kind] = max(self._slowest.get(kind, 0.0) * _MEMORY, taken)
            self._slowest_of[subjects[-1]] = max(self._slowest_of.get(subjects[-1], 0.0) * _MEMORY, taken)

    def _used(self, account: WaitKind) -> float:
        """Return the used part of a budget, in timeouts."""
        spent = self._spent.get(account, 0.0)
        return spent + self._reserved.get(account, 0.0) if spent else 0.0

    def _row(self, subjects: Sequence[str]) -> int:
        return max(self._in_vain.get(subject, 0) for subject in subjects)

    def _note(self, longest: float, subjects: Sequence[str]) -> str:
        row = self._row(subjects)
        why = f"{row} waits in a row in vain" if row >= _IN_VAIN else "many waits in vain"
        return f"shortened from {longest:g} seconds after {why}; --timeout makes it longer"
