"""The workers that take part in the cluster.

Each worker renews its entry in Redis once per second, and receives all entries in the reply. The entry contains a time of
Redis, of which only changes matter: a worker is lost if its entry has not changed for three seconds, measured here. The
clocks of the machines may therefore differ, and the clock of Redis may be set.

While Redis cannot be reached, no entry changes. Workers are lost only if Redis could be reached for three seconds
without a renewal, so that an outage of Redis ends no worker.

An entry appears in Redis before the worker serves its first request. A store that finds an unknown worker in a record
therefore asks again (`look_up`), and then knows whether that worker lives.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.field_methods import FieldValue
from mcp_server.cluster.redis.changes import Position
from mcp_server.cluster.redis.key_table import LAYOUT
from mcp_server.cluster.redis.scripts import script
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_server.cluster.redis.connection import RedisConnection
    from mcp_server.cluster.redis.key_table import KeyNames
    from mcp_server.cluster.redis.pipeline import Value

__all__ = ["Beat", "Membership"]

_log: Final = logging.getLogger("mcp_server")

RENEWAL: Final = 1.0
"""Time between two renewals of an entry, in seconds."""
EXPIRY: Final = 3.0
"""Time without renewal after which a worker is lost, in seconds."""
_SUSPECT: Final = 2.0
"""Time without renewal after which the next look is at the moment when the worker would be lost."""
_SHORTEST: Final = 0.1

_REMOVED: Final = 10_000
"""Age at which an entry is removed from Redis, in milliseconds."""
_STEADY: Final = 5.0
"""Time for which Redis must have been reachable before old entries are removed, in seconds: after an outage of Redis, all
entries are old."""


@attrs.frozen(eq=False, repr=False)
class Beat(FieldValue):
    """The reply to a renewal."""

    epoch: str
    """The id of the data in Redis."""
    position: Position
    """The current position in the log of changes."""
    messages: bytes
    """The id of the last message to all workers."""
    inbox: bytes
    """The id of the last message to this worker."""
    entries: Mapping[str, float]
    """The time of the last renewal of each worker, in seconds before this reply, on the clock of Redis."""
    stamps: Mapping[str, bytes]
    """The same times, on the clock of Redis."""


@attrs.define
class _Entry:
    stamp: bytes
    renewed_at: float
    is_lost: bool = False


class Membership:
    """The workers of a cluster, as one of them knows them.

    Args:
        connection: The connection to Redis.
        names: The names of the keys.
        worker: The id of this worker.
    """

    def __init__(self, connection: RedisConnection, names: KeyNames, worker: str) -> None:
        self._connection: Final = connection
        self._names: Final = names
        self._worker: Final = worker
        self._known: dict[str, _Entry] = {}
        self._reachable_since: float | None = None
        self._epoch = ""
        self._lost: list[str] = []

    def is_alive(self, worker: str) -> bool:
        """Return whether a worker is not known to have ended."""
        entry = self._known.get(worker)
        return worker == self._worker or (entry is not None and not entry.is_lost)

    def others(self) -> frozenset[str]:
        """Return the other workers that are not known to have ended."""
        return frozenset(
            worker for worker, entry in self._known.items() if worker != self._worker and not entry.is_lost
        )

    def heard(self, worker: str) -> None:
        """Add the sender of a message to the known workers."""
        if worker not in self._known:
            self._known[worker] = _Entry(b"", trio.current_time())

    async def look_up(self, workers: Iterable[str]) -> None:
        """Ask Redis if one of the workers is not known.

        Raises:
            StoreError: Redis cannot be reached.
        """
        if any(each and each != self._worker and each not in self._known for each in workers):
            await self.renew()

    async def renew(self) -> Beat:
        """Renew the entry of this worker, and learn of the others.

        Raises:
            StoreError: Redis cannot be reached, or workers of another version use the same prefix.
        """
        names = self._names
        now = trio.current_time()
        since = self._reachable_since
        removed = _REMOVED if since is not None and now - since >= _STEADY else 0
        keys = (
            names.workers,
            names.epoch,
            names.changes,
            names.messages,
            names.inbox(self._worker)[0],
            names.layout,
            names.keys,
            names.sessions,
        )
        try:
            reply = await self._connection.run(
                script("beat"), keys, self._worker.encode(), b"%d" % LAYOUT, b"%d" % removed
            )
        except StoreError:
            self._reachable_since = None
            raise
        if since is None or self._reachable_since is None:
            self._reachable_since = now
        beat = self._parsed(reply)
        self._learn(beat, now)
        return beat

    def _parsed(self, reply: Value) -> Beat:
        match reply:
            case [b"layout", bytes(layout)]:
                raise StoreError(
                    f"workers of another version of mcp_server use the prefix {self._names.prefix!r} in Redis: their "
                    f"layout is {layout.decode()}, and this version uses {LAYOUT}: stop them, or choose another prefix"
                )
            case [b"ok", bytes(epoch), bytes(position), bytes(messages), bytes(inbox), bytes(time), *listed]:
                stamps: dict[str, bytes] = {}
                for worker, stamp in zip(listed[::2], listed[1::2], strict=True):
                    if isinstance(worker, bytes) and isinstance(stamp, bytes):
                        stamps[worker.decode()] = stamp
                ages = {worker: (float(time) - float(stamp)) / 1000 for worker, stamp in stamps.items()}
                return Beat(epoch.decode(), Position.parse(position), messages, inbox, ages, stamps)
            case _:
                raise TypeError(f"unexpected reply: {reply!r}")

    def _learn(self, beat: Beat, now: float) -> None:
        """Update the entries after a renewal that was sent at `now`."""
        for worker, stamp in beat.stamps.items():
            entry = self._known.get(worker)
            if entry is None or entry.stamp != stamp:
                # The entry was renewed before the reply. The clock of Redis states when, if it can be believed.
                age = min(max(beat.entries[worker], 0.0), RENEWAL * 1.5)
                if entry is not None and entry.is_lost:
                    _log.warning("worker is back: worker=%s", worker)
                self._known[worker] = _Entry(stamp, now - age if entry is not None else now)
        # A worker that was in the list of the same data before and is not now has left.
        has_left = beat.epoch == self._epoch
        self._epoch = beat.epoch
        since = self._reachable_since
        for worker, entry in list(self._known.items()):
            if worker == self._worker:
                continue
            is_missing = worker not in beat.stamps
            is_old = now - entry.renewed_at >= EXPIRY and since is not None and now - since >= EXPIRY
            if not entry.is_lost and (is_old or (is_missing and has_left and entry.stamp)):
                entry.is_lost = True
                self._lost.append(worker)
                _log.warning("worker lost: worker=%s reason=%s", worker, "it left" if is_missing else "it is silent")
            if entry.is_lost and is_missing:
                del self._known[worker]

    def take_lost(self) -> list[str]:
        """Return the workers that were lost since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def pause(self) -> float:
        """Return the time until the next renewal, in seconds."""
        now = trio.current_time()
        pauses = [
            entry.renewed_at + EXPIRY - now
            for worker, entry in self._known.items()
            if worker != self._worker and not entry.is_lost and now - entry.renewed_at >= _SUSPECT
        ]
        return max(_SHORTEST, min([RENEWAL, *pauses]))

    async def leave(self) -> None:
        """Remove the entry of this worker. Raises `StoreError`."""
        await self._connection.run(
            script("leave"), (self._names.workers, *self._names.inbox(self._worker)), self._worker.encode()
        )
