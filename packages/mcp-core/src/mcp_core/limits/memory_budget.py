"""Memory budget of one process: the memory of all peers together, and the owner of each part.

Limits for each connection do not add up to a limit for the process: 4,096 connections with 4 MiB each are 16 GiB. One
`MemoryBudget` limits the sum. All memory that a peer causes this side to hold is charged to an owner: the principal of
an authenticated peer, otherwise a session, otherwise a connection.

*Kept and droppable charges.* Three kinds of work are droppable: a request body that is still being received, output
that a client does not read (it is dropped with its connection), and a request whose client has disconnected. All other
work (queued and running requests, sessions, subscriptions, replay events) is kept until it ends.

*Exhausted budget.* The newest work of the largest owner is rejected. If the owner of the new charge is the largest one,
its own request is the newest work, and `LimitExceeded` is raised. Otherwise the newest droppable work of the largest
owner is dropped, until the new charge fits.

*Kept work cannot exclude other owners.* Kept work of any owner may fill five eighths of the budget. The next eighth is
for owners that hold at most a small part of its remainder (`_MODERATE_SHARE`). The share of an owner shrinks as the
remainder shrinks, so this eighth is never used up. The last quarter is for droppable work and for owners that hold
little: it has capacity for `SMALL_OWNERS` of them. A client with ordinary requests is therefore served while others
hold their maximum.

The charges are estimates, high enough that the memory of the process stays below the budget.
"""

# ruff: noqa: SLF001  # a budget and its charges are one class in two parts

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["SMALL_OWNERS", "MemoryBudget", "MemoryCharge", "parsed_size"]

SMALL_OWNERS: Final = 4_096
"""The number of small owners that fit into the last quarter of the budget: the default of `Limits.connections`."""

_MODERATE_SHARE: Final = 128
"""The divisor for the share of an owner in the remainder of the eighth: 256 KiB of 32 MiB, by default."""

_LONG_BYTES: Final = 16 * 1024
_FEW: Final = 256

_LARGE_SHARE: Final = 8
_RECEDED: Final = 4
"""Divisors of `has_receded`: the peak was at least an eighth of the budget, and at most a quarter of the peak remains;
or a quarter of the budget was released."""

# CPython 3.11 on 64 bits. The container of a value has 8 bytes for it.
_CONTAINER: Final = 72
"""An empty list or dict."""
_LEAF: Final = 36
"""A number, or the overhead of an array for each item. A list with one item exceeds an empty list by this much."""
_MEMBER: Final = 50
"""A member of an object, without its name and its value."""
_QUOTE: Final = 20
"""Half of a string, without its characters."""
_WIDEST: Final = 4
"""One character of a string that has a character outside of the basic multilingual plane."""
_SLACK: Final = 256
_PARSING: Final = 2
"""The divisor for the additional memory while the text is parsed and checked."""


def parsed_size(data: bytes) -> int:
    """Estimate the memory of a JSON text and of its parsed objects, in bytes, during parsing.

    The estimate is at least the memory that CPython needs and at most about three times as much. The time is
    proportional to the size of the text, at a small part of the cost of parsing.

    Args:
        data: JSON, in UTF-8. It may be invalid.
    """
    size = len(data)
    count = data.count if size <= _LONG_BYTES else partial(_count, data)
    commas = count(b",")
    opening = count(b"{") + count(b"[")
    # Without many commas there are few empty containers whose commas were counted twice.
    empty = data.count(b"{}") + data.count(b"[]") if commas >= _FEW <= opening else 0
    estimate = (
        _SLACK
        + (size if data.isascii() else _WIDEST * size)
        + size
        + _CONTAINER * opening
        + _LEAF * max(0, commas - empty)
        + _MEMBER * count(b":")
        + _QUOTE * count(b'"')
    )
    return estimate + estimate // _PARSING


def _count(data: bytes, byte: bytes) -> int:
    """Return how often a byte occurs in a long text. `find` is ten times as fast as `count` for a rare byte."""
    at = data.find(byte)
    for found in range(_FEW):
        if at < 0:
            return found
        at = data.find(byte, at + 1)
    return data.count(byte)


class _Owner:
    """The memory of one owner."""

    __slots__ = ("droppable", "size")

    def __init__(self) -> None:
        self.size = 0
        # In the order of their charges.
        self.droppable: dict[MemoryCharge, None] = {}


class MemoryCharge:
    """A part of the budget that one owner holds until `release`. `MemoryBudget.charge` and `droppable` create it."""

    __slots__ = ("_budget", "dropped", "kept", "on_drop", "owner", "size")

    size: int
    """The charged memory, in bytes."""
    kept: bool
    """Whether the charge is for established work, which is not dropped."""
    on_drop: Callable[[], None] | None
    """Called when a droppable charge is dropped in favor of a smaller owner. It must free the memory and must not
    raise. The charge is already released."""
    dropped: LimitExceeded | None
    """The error that describes why the charge was dropped; `None` if it was not."""

    def __init__(self, budget: MemoryBudget, owner: Hashable, *, kept: bool) -> None:
        self._budget: Final = budget
        self.owner: Final = owner
        """The owner that is charged."""
        self.kept = kept
        self.size = 0
        self.on_drop = None
        self.dropped = None

    def resize(self, size: int) -> None:
        """Change the size of the charge.

        Args:
            size: The new size, in bytes.

        Raises:
            LimitExceeded: The budget is exhausted. The charge is unchanged.
        """
        # Called several times for each request: written out here, so that it is one call.
        budget, owner = self._budget, self.owner
        more = size - self.size
        held = budget._owners.get(owner)
        if more > 0:
            total = more if held is None else held.size + more
            kept = budget._kept + more
            if self.kept and kept > budget._kept_allowed and not budget._may_keep(kept, total):
                budget.refused += 1
                raise _exceeded("keeps", kept, budget._kept_allowed)
            if budget.used + more > budget._total:
                budget._free(total, more)
        if held is None:
            held = budget._owners[owner] = _Owner()
        held.size += more
        budget.used += more
        if more > 0:
            budget._peak = max(budget._peak, budget.used)
        else:
            budget._released -= more
        self.size = size
        if self.kept:
            budget._kept += more
        elif size:
            held.droppable[self] = None
        else:
            held.droppable.pop(self, None)
        if not held.size:
            del budget._owners[owner]

    def keep(self, size: int) -> bool:
        """Convert a droppable charge to a kept one, for example when a body is complete and becomes a request.

        Args:
            size: The new size, in bytes.

        Returns:
            Whether work of other owners was dropped for this charge. Its memory is free after its tasks have run.

        Raises:
            LimitExceeded: The budget is exhausted. The charge is released.
        """
        if self.size:
            self.resize(0)
        self.on_drop = None
        self.kept = True
        refused = self._budget.refused
        self.resize(size)
        return self._budget.refused > refused

    def cover_output(self, size: int) -> None:
        """Charge a response, from its creation until it is written. The request does not need most of its charge then.

        Args:
            size: The memory of the response, in bytes.

        Raises:
            LimitExceeded: The budget is exhausted. The size of the charge is unchanged.
        """
        if self._budget.drops_output:
            self._budget._abandon(self)
        if size > self.size:
            self.resize(size)

    def abandon(self, on_drop: Callable[[], None]) -> None:
        """Convert a kept charge to a droppable one, because the client has disconnected from its request.

        Args:
            on_drop: The function to call if the charge is dropped, see `MemoryCharge.on_drop`.
        """
        # After `release`, `on_drop` would never be cleared.
        self.on_drop = on_drop if self.size else None
        self._budget._abandon(self)

    def release(self) -> None:
        """Return the memory to the budget. A second call has no effect."""
        if self.size:
            self.resize(0)
        # `on_drop` may refer to this charge, through the work that it drops.
        self.on_drop = None


class MemoryBudget:
    """The memory budget of all peers together.

    Args:
        total: The size of the budget, in bytes: `Limits.total_bytes`.
    """

    __slots__ = (
        "_kept",
        "_kept_allowed",
        "_moderate_allowed",
        "_owners",
        "_peak",
        "_released",
        "_small",
        "_total",
        "drops_output",
        "refused",
        "used",
    )

    used: int
    """The memory that is charged now, in bytes."""
    refused: int
    """The number of charges that were rejected or dropped."""
    drops_output: bool
    """Whether the HTTP host drops a connection when the charge of its output is dropped. Other hosts keep the output of
    a client that does not read, so that its charge is kept."""

    def __init__(self, total: int) -> None:
        self.used = 0
        self.refused = 0
        self.drops_output = False
        self._kept = 0
        self._peak = 0
        self._released = 0
        self._total: Final = total
        self._kept_allowed: Final = total * 5 // 8
        self._moderate_allowed: Final = total * 3 // 4
        self._small: Final = (total - self._moderate_allowed) // SMALL_OWNERS
        self._owners: Final[dict[Hashable, _Owner]] = {}

    def has_receded(self) -> bool:
        """Return, once, whether enough memory was released to make it worthwhile to return free memory to the system.

        Enough is most of a large amount, or a quarter of the budget since the last `True`.
        """
        large = self._peak >= self._total // _LARGE_SHARE and self.used <= self._peak // _RECEDED
        if not large and self._released < self._total // _RECEDED:
            return False
        self._peak = self.used
        self._released = 0
        return True

    @property
    def owners(self) -> int:
        """The number of owners that hold memory."""
        return len(self._owners)

    def held_by(self, owner: Hashable) -> int:
        """Return the memory that an owner holds, in bytes."""
        held = self._owners.get(owner)
        return 0 if held is None else held.size

    def charge(self, owner: Hashable, size: int) -> MemoryCharge:
        """Charge an owner for memory that is kept until it is released.

        Args:
            owner: The owner to charge.
            size: The size, in bytes.

        Raises:
            LimitExceeded: The budget is exhausted.
        """
        charge = MemoryCharge(self, owner, kept=True)
        charge.resize(size)
        return charge

    def droppable(self, owner: Hashable) -> MemoryCharge:
        """Return a charge of 0 bytes for droppable work, see `MemoryCharge.on_drop`.

        Args:
            owner: The owner to charge.
        """
        return MemoryCharge(self, owner, kept=False)

    def _may_keep(self, kept: int, held: int) -> bool:
        """Return whether an owner that would hold `held` of all `kept` bytes may keep more than five eighths allow."""
        return held <= self._small or held * _MODERATE_SHARE <= self._moderate_allowed - kept

    def _abandon(self, charge: MemoryCharge) -> None:
        if charge.kept and charge.size:
            self._kept -= charge.size
            self._owners[charge.owner].droppable[charge] = None
        charge.kept = False

    def _free(self, size: int, more: int) -> None:
        """Drop work of owners that hold more than `size`: the largest owner first, its newest work first."""
        while self.used + more > self._total:
            largest = max(
                (each for each in self._owners.values() if each.droppable), key=lambda each: each.size, default=None
            )
            self.refused += 1
            if largest is None or largest.size <= size:
                raise self._exhausted(more)
            newest = next(reversed(largest.droppable))
            drop = newest.on_drop
            newest.dropped = self._exhausted(more)
            newest.release()
            if drop is not None:
                drop()

    def _exhausted(self, more: int) -> LimitExceeded:
        # A local variable for the error that `_free` raises would form a cycle with its traceback, which refers to the
        # callers of `_free` and so to the data that was refused, until garbage collection.
        return _exceeded("holds", self.used + more, self._total)


def _exceeded(what: str, observed: int, allowed: int) -> LimitExceeded:
    return LimitExceeded(
        f"memory that the server {what} for all its clients, in bytes, as estimated",
        observed=observed,
        allowed=allowed,
        setting="Limits.total_bytes",
    )
