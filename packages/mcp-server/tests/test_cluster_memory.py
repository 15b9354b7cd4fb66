"""The cluster in memory follows the contract of clusters, and its stores follow the contract of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcp_core.errors import LocalProtocolError
from mcp_core.limits import Limits
from mcp_server.cluster import Cluster, LocalCluster
from mcp_server.cluster.contract import CLUSTER_CHECKS, ClusterCheck
from mcp_server.cluster.limits import MemoryRates, MemoryReplays
from mcp_server.cluster.memory import MemoryCluster, MemoryWorker
from mcp_server.cluster.messages import ClusterMessage, SessionEnded, SessionUpdated
from mcp_server.stores import SessionStore, StoreError, TaskStore
from mcp_server.stores.contract import (
    DURABLE_STORE_CHECKS,
    DURABLE_TASK_STORE_CHECKS,
    STORE_CHECKS,
    TASK_STORE_CHECKS,
    StoreCheck,
    TaskStoreCheck,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize("check", CLUSTER_CHECKS, ids=lambda check: check.__name__)
async def test_memory_cluster_follows_contract(check: ClusterCheck) -> None:
    shared = MemoryCluster()

    async def open_worker() -> Cluster:
        return shared.worker()

    await check(open_worker)


@pytest.mark.parametrize("check", STORE_CHECKS + DURABLE_STORE_CHECKS, ids=lambda check: check.__name__)
async def test_sessions_of_memory_cluster_follow_contract(check: StoreCheck) -> None:
    shared: list[MemoryCluster] = []

    async def open_store(limits: Limits) -> SessionStore:
        # A check that opens the store again finds its data, as another worker does.
        if not shared:
            shared.append(MemoryCluster(limits=limits))
        return shared[0].worker().sessions

    await check(open_store)


@pytest.mark.parametrize("check", TASK_STORE_CHECKS + DURABLE_TASK_STORE_CHECKS, ids=lambda check: check.__name__)
async def test_tasks_of_memory_cluster_follow_contract(check: TaskStoreCheck) -> None:
    shared: list[MemoryCluster] = []

    async def open_store(limits: Limits) -> TaskStore:
        if not shared:
            shared.append(MemoryCluster(limits=limits))
        return shared[0].worker().tasks

    await check(open_store)


class _ForgetfulWorker(MemoryWorker):
    def send(self, worker: str, message: ClusterMessage) -> None:
        if not isinstance(message, SessionEnded):
            super().send(worker, message)


class _EchoingWorker(MemoryWorker):
    def broadcast(self, message: ClusterMessage) -> None:
        super().broadcast(message)
        self.accept(self.worker, b'{"kind":"session-ended","session":"echo"}')


class _ReorderingWorker(MemoryWorker):
    def accept(self, sender: str, data: bytes) -> None:
        super().accept(sender, data)
        self._inbox.rotate(1)


class _ImmortalWorker(MemoryWorker):
    def is_alive(self, worker: str) -> bool:
        return True


class _LonelyWorker(MemoryWorker):
    def __init__(self, shared: MemoryCluster) -> None:
        super().__init__(shared)
        own = LocalCluster()
        self.replays, self.rates, self.sessions = own.replays, own.rates, own.sessions  # type: ignore[misc]  # on purpose


class _UnflushedWorker(MemoryWorker):
    """A worker that sends messages in the next iteration of the event loop. `flush` does not wait for it."""

    def __init__(self, shared: MemoryCluster) -> None:
        super().__init__(shared)
        self._unsent: list[tuple[str, ClusterMessage]] = []

    def send(self, worker: str, message: ClusterMessage) -> None:
        self._unsent.append((worker, message))
        self.wake()

    async def flush(self) -> None:
        pass

    async def _wait(self) -> None:
        await trio.lowlevel.checkpoint()
        for worker, message in self._unsent:
            super().send(worker, message)
        self._unsent.clear()
        await super()._wait()


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (_ForgetfulWorker, 1),
        (_EchoingWorker, 1),
        (_ReorderingWorker, 2),
        (_ImmortalWorker, 1),
        (_LonelyWorker, 6),
        (_UnflushedWorker, 2),
    ],
)
async def test_contract_detects_broken_cluster(
    kind: type[MemoryWorker], count: int, autojump_clock: trio.testing.MockClock
) -> None:
    broken = []
    for check in CLUSTER_CHECKS:
        shared = MemoryCluster()

        async def open_worker(shared: MemoryCluster = shared) -> Cluster:
            return kind(shared)

        try:
            await check(open_worker)
        except* (AssertionError, LocalProtocolError):
            broken.append(check.__name__)
    assert len(broken) == count, broken


class _Recorder:
    def __init__(self) -> None:
        self.found: list[object] = []

    def receive(self, sender: str, message: ClusterMessage) -> None:
        self.found.append(message)

    def missed(self) -> None:
        self.found.append("missed")

    def lost(self, worker: str) -> None:
        self.found.append(("lost", worker))

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        self.found.append(tuple(keys))


async def test_lost_messages_are_reported() -> None:
    shared = MemoryCluster()
    one, two, recorder = shared.worker(), shared.worker(), _Recorder()
    async with trio.open_nursery() as nursery:
        await nursery.start(one.run, recorder)
        await nursery.start(two.run, _Recorder())
        one.is_paused = True
        two.broadcast(SessionUpdated("lost"))
        one.discard_messages()
        two.broadcast(SessionUpdated("kept"))
        one.is_paused = False
        one.wake()
        await trio.testing.wait_all_tasks_blocked()
        assert recorder.found == [shared.keys, "missed", SessionUpdated("kept")]
        nursery.cancel_scope.cancel()


async def test_too_many_messages_are_reported_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    shared = MemoryCluster()
    one, two, recorder = shared.worker(), shared.worker(), _Recorder()
    async with trio.open_nursery() as nursery:
        await nursery.start(one.run, recorder)
        await nursery.start(two.run, _Recorder())
        for _ in range(10_001):
            two.broadcast(SessionUpdated("a"))
        await trio.testing.wait_all_tasks_blocked()
        assert recorder.found == [shared.keys, "missed"]
        assert "messages between workers lost" in caplog.text
        nursery.cancel_scope.cancel()


async def test_unreachable_cluster_delays_messages_and_fails_stores() -> None:
    shared = MemoryCluster()
    one, two, recorder = shared.worker(), shared.worker(), _Recorder()
    async with trio.open_nursery() as nursery:
        await nursery.start(one.run, recorder)
        await nursery.start(two.run, _Recorder())
        await trio.testing.wait_all_tasks_blocked()
        shared.is_reachable = False
        two.broadcast(SessionUpdated("a"))
        for call in (one.sessions.load("a"), one.tasks.load("a"), one.check(), one.replays.take(b"a", 1.0)):
            with pytest.raises(StoreError, match="cannot be reached"):
                await call
        await trio.testing.wait_all_tasks_blocked()
        assert recorder.found == [shared.keys]
        shared.is_reachable = True
        await one.check()
        await trio.testing.wait_all_tasks_blocked()
        assert recorder.found == [shared.keys, SessionUpdated("a")]
        nursery.cancel_scope.cancel()


async def test_killed_worker_is_lost_and_cannot_write() -> None:
    shared = MemoryCluster()
    one, two, recorder = shared.worker(), shared.worker(), _Recorder()
    async with trio.open_nursery() as nursery:
        await nursery.start(one.run, recorder)
        await nursery.start(two.run, _Recorder())
        two.broadcast(SessionUpdated("before"))
        two.kill()
        two.broadcast(SessionUpdated("after"))
        with pytest.raises(StoreError):
            await two.sessions.load("a")
        shared.replace_keys([b"x" * 32])
        await trio.testing.wait_all_tasks_blocked()
        expected = [recorder.found[0], SessionUpdated("before"), (b"x" * 32,), ("lost", two.worker)]
        assert recorder.found == expected
        assert not one.is_alive(two.worker)
        nursery.cancel_scope.cancel()


async def test_local_cluster_has_one_worker() -> None:
    cluster = LocalCluster()
    assert not cluster.is_shared
    assert cluster.is_alive(cluster.worker)
    assert not cluster.is_alive("another")
    cluster.broadcast(SessionUpdated("a"))
    cluster.send("another", SessionUpdated("a"))
    await cluster.check()
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run, _Recorder())
        with pytest.raises(trio.BusyResourceError):
            await cluster.run(_Recorder())
        nursery.cancel_scope.cancel()
    await cluster.aclose()
    await cluster.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await cluster.sessions.load("a")


async def test_ids_and_rates_in_memory_expire() -> None:
    now = 0.0
    replays, rates = MemoryReplays(clock=lambda: now), MemoryRates(clock=lambda: now)
    assert await replays.take(b"a", 10.0)
    assert not await replays.take(b"a", 10.0)
    assert await rates.take("a", count=8, per_second=2.0, burst=5) == 5
    assert await rates.take("a", count=1, per_second=2.0, burst=5) == 0
    now = 1.5
    assert await rates.take("a", count=8, per_second=2.0, burst=5) == 3
    now = 10.0
    assert await replays.take(b"a", 10.0)
    assert await rates.take("a", count=8, per_second=2.0, burst=5) == 5
