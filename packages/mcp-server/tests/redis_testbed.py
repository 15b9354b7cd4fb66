"""Workers on one Redis, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from mcp_core.limits import Limits
from mcp_server.cluster.messages import ClusterMessage
from mcp_server.cluster.redis import RedisCluster


@attrs.define
class Recorder:
    """A receiver that records what it learns."""

    received: list[tuple[str, ClusterMessage]] = attrs.field(factory=list)
    keys: list[tuple[bytes, ...]] = attrs.field(factory=list)
    lost_workers: list[str] = attrs.field(factory=list)
    misses: int = 0
    _changed: trio.Event = attrs.field(factory=trio.Event)

    def receive(self, sender: str, message: ClusterMessage) -> None:
        self.received.append((sender, message))
        self._notify()

    def missed(self) -> None:
        self.misses += 1
        self._notify()

    def lost(self, worker: str) -> None:
        self.lost_workers.append(worker)
        self._notify()

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        self.keys.append(tuple(keys))
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def next(self) -> None:
        """Wait for the next call of a method."""
        with trio.fail_after(20):
            await self._changed.wait()

    async def until_received(self, count: int) -> list[ClusterMessage]:
        """Wait for messages, and return all so far."""
        while len(self.received) < count:
            await self.next()
        return [message for _, message in self.received]


class Workers:
    """The workers of a test, whose `run` ends with the block."""

    def __init__(self, nursery: trio.Nursery, url: str, prefix: str) -> None:
        self.nursery = nursery
        self.url = url
        self.prefix = prefix
        self.clusters: list[RedisCluster] = []

    async def open(self, limits: Limits | None = None, receiver: Recorder | None = None) -> RedisCluster:
        """Start a worker. It ends with `aclose`."""
        cluster = RedisCluster(self.url, prefix=self.prefix, limits=limits or Limits())
        await self.nursery.start(cluster.run, receiver or Recorder())
        self.clusters.append(cluster)
        return cluster


@asynccontextmanager
async def open_workers(url: str, prefix: str = "mcp") -> AsyncIterator[Workers]:
    async with trio.open_nursery() as nursery:
        yield Workers(nursery, url, prefix)
        nursery.cancel_scope.cancel()
