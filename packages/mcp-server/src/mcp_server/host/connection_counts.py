"""The numbers of open connections of all worker processes, in shared memory, so that workers have equally many.

Workers accept from one shared socket. The kernel wakes all of them for a new connection, and the first one accepts.
Without more, that is nearly always the same one: of 32 connections that were opened one after the other, two idle
workers accepted 30 and 2. Connections last for many requests, so the other worker would stay idle.

Therefore a worker with more connections than another one waits for a moment before it accepts, and usually the other
one has accepted by then. A wrong number can only cause this delay.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["VARIABLE", "ConnectionCounts"]

VARIABLE: Final = "MCP_SERVER_CONNECTION_COUNTS"
"""The environment variable of a worker: its place and the path of the file, `3:/tmp/counts`."""

_ABSENT: Final = 0xFFFF_FFFF
"""The number of a place whose worker does not accept connections."""

_SIZE: Final = 4
"""Size of a number, in bytes."""


class ConnectionCounts:
    """The numbers in a file that all workers map. Each worker writes only its own.

    Args:
        path: The file.
        place: The place of this worker.
    """

    __slots__ = ("_numbers", "_place")

    def __init__(self, path: Path, place: int = 0) -> None:
        with path.open("r+b") as file:
            self._numbers: Final = memoryview(mmap.mmap(file.fileno(), 0)).cast("I")
        self._place: Final = place

    @classmethod
    def create(cls, path: Path, places: int) -> ConnectionCounts:
        """Create the file, with places for this many workers."""
        path.write_bytes(b"\xff" * (_SIZE * places))
        return cls(path)

    @classmethod
    def take(cls, environment: MutableMapping[str, str] = os.environ) -> ConnectionCounts | None:
        """Return the numbers with the place of this process; `None` if it is no worker. A second call returns `None`.

        Args:
            environment: The environment of the process. The variable is removed.
        """
        place, _, path = environment.pop(VARIABLE, "").partition(":")
        return cls(Path(path), int(place)) if path else None

    def record(self, count: int) -> None:
        """Set the number of connections of this worker."""
        self._numbers[self._place] = count

    def clear(self, place: int | None = None) -> None:
        """Record that a worker accepts no connections: this one, or the one with this place."""
        self._numbers[self._place if place is None else place] = _ABSENT

    def free_place(self, used: set[int]) -> int:
        """Return a place that is not in `used`."""
        return next(place for place in range(len(self._numbers)) if place not in used)

    @property
    def others_have_fewer(self) -> bool:
        """Whether another worker that accepts connections has fewer than this one."""
        return min(self._numbers) < self._numbers[self._place]
