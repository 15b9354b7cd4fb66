"""Workers on one Redis, for tests."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from mcp_core.limits import Limits
from mcp_server.cluster.messages import ClusterMessage, TaskUpdated
from mcp_server.cluster.protocol import ClusterReceiver
from mcp_server.cluster.redis import RedisCluster
from mcp_server.stores import TaskStore


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


class _FencedReceiver:
    """A receiver that recognizes the messages of `RedisWorker.fence`, and passes on everything else."""

    def __init__(self, receiver: ClusterReceiver, fences: dict[str, int]) -> None:
        self._receiver = receiver
        self._fences = fences
        self.missed = receiver.missed
        self.lost = receiver.lost
        self.keys_changed = receiver.keys_changed

    def receive(self, sender: str, message: ClusterMessage) -> None:
        if isinstance(message, TaskUpdated) and message.task.startswith("fence "):
            self._fences[sender] = int(message.task.split()[1])
        else:
            self._receiver.receive(sender, message)


class RedisWorker(RedisCluster):
    """A worker that can be killed: it leaves its entry behind."""

    is_killed = False

    def __init__(self, url: str, limits: Limits | None) -> None:
        super().__init__(url, limits=limits or Limits())
        self.fences: dict[str, int] = {}

    async def run(
        self, receiver: ClusterReceiver, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await super().run(_FencedReceiver(receiver, self.fences), task_status=task_status)

    async def fence(self, number: int) -> None:
        """Send a message after all others, when all commands have a reply."""
        await self.check()
        self.broadcast(TaskUpdated(f"fence {number}"))

    def kill(self) -> None:
        self.is_killed = True
        if self._scope is not None:
            self._scope.cancel()

    async def _leave(self) -> None:
        if not self.is_killed:
            await super()._leave()


class RedisWorld:
    """The workers of one server on Redis, in place of a `MemoryCluster`."""

    def __init__(self, url: str, *, limits: Limits | None = None) -> None:
        self._url = url
        self._limits = limits
        self.workers: list[RedisWorker] = []
        self._fences = itertools.count(1)

    def worker(self) -> RedisWorker:
        self.workers.append(RedisWorker(self._url, self._limits))
        return self.workers[-1]

    @property
    def task_store(self) -> TaskStore:
        return self.workers[0].tasks

    async def settle(self) -> None:
        """Wait until the messages of all workers, and the messages that they cause, have been received."""
        for _ in range(4):
            number = next(self._fences)
            alive = [worker for worker in self.workers if not worker.is_killed]
            for worker in alive:
                await worker.fence(number)
            for worker in alive:
                for other in alive:
                    while worker is not other and worker.fences.get(other.worker, 0) < number:  # noqa: ASYNC110  # polled
                        await trio.sleep(0.005)
            await trio.testing.wait_all_tasks_blocked(0.005)


async def run_scenario(scenario: object, **values: object) -> None:
    """Run a test of another module, with these values of its fixtures and parameters."""
    assert callable(scenario)
    running = scenario(**{name: values[name] for name in inspect.signature(scenario).parameters})
    assert isinstance(running, Awaitable)
    await running
