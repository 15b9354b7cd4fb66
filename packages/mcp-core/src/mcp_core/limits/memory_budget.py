"""The memory that all peers of one process may occupy together, and who occupies it.

Bounds for each connection do not add up to a bound for the process: 4,096 connections with 4 MiB each are 16 GiB. One
`MemoryBudget` holds that sum. Whatever a peer makes this side keep is charged to an owner: a principal where the peer
is authenticated, else a session, else a connection.

*Kept and droppable.* A request body that is still being received can be refused, output that a client does not read can
be dropped with its connection, and a request whose client has left can be ended. Everything else (requests that wait or
run, sessions, subscriptions, events for replay) is established, and is kept until it ends.

*When the budget is exhausted*, the newest work of the largest owner is refused. If the owner that asks for memory is
the largest one, its own request is the newest work, and `LimitExceeded` is raised. Otherwise the newest droppable work
of the largest owner is dropped, until the new charge fits.

*What is kept cannot lock others out.* Kept work of any owner may fill five eighths of the budget. The next eighth is for
owners that hold a small part of what is left of it (`_MODERATE_SHARE`): the more of it is taken, the less an owner gets,
so that it is never taken whole. The last quarter belongs to droppable work and to owners that hold little:
`SMALL_OWNERS` of them fit into it. A client with ordinary requests is therefore served while others hold all that they
can get.

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
"""How many owners the last quarter of the budget has room for: the default of `Limits.connections`."""

_MODERATE_SHARE: Final = 128
"""An owner may hold one part in so many of what is left of the eighth: 256 KiB of 32 MiB, by default."""

_LONG_BYTES: Final = 16 * 1024
_FEW: Final = 256

_LARGE_SHARE: Final = 8
_RECEDED: Final = 4
"""`has_receded` is about an eighth of the budget at least, of which no more than a quarter is left; or about a quarter
of it that came and went."""

# CPython 3.11 on 64 bits. Each value has 8 bytes in what holds it.
_CONTAINER: Final = 72
"""An empty list or dict."""
_LEAF: Final = 36
"""A number, or what an array needs beside its items. A list with one item is larger than an empty one by as much."""
_MEMBER: Final = 50
"""A member of an object, beside its name and its value."""
_QUOTE: Final = 20
"""Half of a string, beside its characters."""
_WIDEST: Final = 4
"""One character, in a string with a character outside of the basic plane."""
_SLACK: Final = 256
_PARSING: Final = 2
"""One part in so many more while the text is parsed and checked."""


def parsed_size(data: bytes) -> int:
    """Estimate the memory of a JSON text and of the objects that it is parsed to, in bytes, while it is parsed.

    The estimate is at least what CPython needs and at most about three times as much. It takes time proportional to the
    text, at a small part of the cost of parsing it.

    Args:
        data: JSON, in UTF-8. It need not be valid.
    """
    size = len(data)
    count = data.count if size <= _LONG_BYTES else partial(_count, data)
    commas = count(b",")
    opening = count(b"{") + count(b"[")
    # Without many commas there are not many empty containers whose commas were counted twice.
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
    """Return how often a byte occurs in a long text. A rare byte is found ten times as fast as it is counted."""
    at = data.find(byte)
    for found in range(_FEW):
        if at < 0:
            return found
        at = data.find(byte, at + 1)
    return data.count(byte)


class _Owner:
    """What one owner holds."""

    __slots__ = ("droppable", "size")

    def __init__(self) -> None:
        self.size = 0
        # In the order in which they came.
        self.droppable: dict[MemoryCharge, None] = {}


class MemoryCharge:
    """A part of the budget, held for one owner until `release`. Made by `MemoryBudget.charge` and `droppable`."""

    __slots__ = ("_budget", "dropped", "kept", "on_drop", "owner", "size")

    size: int
    """What is charged, in bytes."""
    kept: bool
    """It is for established work, which is not dropped."""
    on_drop: Callable[[], None] | None
    """Called when a droppable charge is taken back for a smaller owner: it has to let go of the memory, and must not
    raise. The charge is released already."""
    dropped: LimitExceeded | None
    """Why the charge was taken back; `None` when it was not."""

    def __init__(self, budget: MemoryBudget, owner: Hashable, *, kept: bool) -> None:
        self._budget: Final = budget
        self.owner: Final = owner
        """Who is charged."""
        self.kept = kept
        self.size = 0
        self.on_drop = None
        self.dropped = None

    def resize(self, size: int) -> None:
        """Change the charge.

        Args:
            size: The new size, in bytes.

        Raises:
            LimitExceeded: The budget is exhausted. The charge is as it was.
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
                budget._make_room(total, more)
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
        """Make a droppable charge a kept one: a body is complete, and becomes a request.

        Args:
            size: The new size, in bytes.

        Returns:
            Whether work of others was dropped for it. Its memory is free when its tasks have run.

        Raises:
            LimitExceeded: The budget is exhausted. The charge is released.
        """
        self.release()
        self.kept = True
        refused = self._budget.refused
        self.resize(size)
        return self._budget.refused > refused

    def abandon(self, on_drop: Callable[[], None]) -> None:
        """Make a kept charge a droppable one: the client has left its request.

        Args:
            on_drop: See `MemoryCharge.on_drop`.
        """
        self.on_drop = on_drop
        self._budget._abandon(self)

    def release(self) -> None:
        """Give the memory back. Calling it twice is harmless."""
        if self.size:
            self.resize(0)
        # It may refer to this charge, by way of what is dropped.
        self.on_drop = None


class MemoryBudget:
    """The memory of all peers together.

    Args:
        total: What they may occupy, in bytes: `Limits.total_bytes`.
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
        "refused",
        "used",
    )

    used: int
    """What is charged now, in bytes."""
    refused: int
    """How many charges were refused or taken back."""

    def __init__(self, total: int) -> None:
        self.used = 0
        self.refused = 0
        self._kept = 0
        self._peak = 0
        self._released = 0
        self._total: Final = total
        self._kept_allowed: Final = total * 5 // 8
        self._moderate_allowed: Final = total * 3 // 4
        self._small: Final = (total - self._moderate_allowed) // SMALL_OWNERS
        self._owners: Final[dict[Hashable, _Owner]] = {}

    def has_receded(self) -> bool:
        """Tell, once, that so much was given back that it pays to return free memory to the system.

        That is most of a large amount, or as much as a quarter of the budget since the last time.
        """
        large = self._peak >= self._total // _LARGE_SHARE and self.used <= self._peak // _RECEDED
        if not large and self._released < self._total // _RECEDED:
            return False
        self._peak = self.used
        self._released = 0
        return True

    @property
    def owners(self) -> int:
        """How many owners hold something."""
        return len(self._owners)

    def held_by(self, owner: Hashable) -> int:
        """Return what an owner holds, in bytes."""
        held = self._owners.get(owner)
        return 0 if held is None else held.size

    def charge(self, owner: Hashable, size: int) -> MemoryCharge:
        """Charge an owner for something that is kept until it is released.

        Args:
            owner: Who makes this side keep it.
            size: Bytes.

        Raises:
            LimitExceeded: The budget is exhausted.
        """
        charge = MemoryCharge(self, owner, kept=True)
        charge.resize(size)
        return charge

    def droppable(self, owner: Hashable) -> MemoryCharge:
        """Return a charge, of no bytes yet, for what may be dropped: see `MemoryCharge.on_drop`.

        Args:
            owner: Who is charged.
        """
        return MemoryCharge(self, owner, kept=False)

    def _may_keep(self, kept: int, held: int) -> bool:
        """Return whether more may be kept beyond five eighths, by an owner that would then hold `held` of `kept` bytes."""
        return held <= self._small or held * _MODERATE_SHARE <= self._moderate_allowed - kept

    def _abandon(self, charge: MemoryCharge) -> None:
        if charge.kept and charge.size:
            self._kept -= charge.size
            self._owners[charge.owner].droppable[charge] = None
        charge.kept = False

    def _make_room(self, size: int, more: int) -> None:
        """Drop work of owners that hold more than `size`: the largest owner first, its newest work first."""
        while self.used + more > self._total:
            largest = max(
                (each for each in self._owners.values() if each.droppable), key=lambda each: each.size, default=None
            )
            self.refused += 1
            excess = _exceeded("holds", self.used + more, self._total)
            if largest is None or largest.size <= size:
                raise excess
            newest = next(reversed(largest.droppable))
            drop = newest.on_drop
            newest.release()
            newest.dropped = excess
            if drop is not None:
                drop()


def _exceeded(what: str, observed: int, allowed: int) -> LimitExceeded:
    return LimitExceeded(
        f"memory that the server {what} for all its clients, in bytes, as estimated",
        observed=observed,
        allowed=allowed,
        setting="Limits.total_bytes",
    )
