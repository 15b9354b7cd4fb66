"""A response to a request that changed something is sent when the change cannot be lost with the worker."""

from __future__ import annotations

import threading

import pytest
import trio
from asgi_host import Client
from cluster_deployment import ClusterServer, Deployment, deployed

from mcp_core.revisions import R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Revision
from mcp_server import RequestFailed
from mcp_server.cluster.memory import MemoryCluster, MemoryWorker
from mcp_server.cluster.messages import ChangeMade, ClusterMessage
from mcp_server.stores import StoreError

REVISIONS = (R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)
each_revision = pytest.mark.parametrize("revision", REVISIONS, ids=str)
URI = "test://watched"


class _ChangingServer(ClusterServer):
    """A server with tools that change a resource."""

    def __init__(self) -> None:
        super().__init__()
        server = self.server

        @server.tool
        async def change() -> str:
            """Change the resource in the trio thread."""
            server.resource_updated(URI)
            return "changed"

        @server.tool
        def change_in_thread() -> str:
            """Change the resource in a worker thread."""
            server.resource_updated(URI)
            return "changed"

        @server.tool
        async def change_and_fail() -> str:
            """Change the resource, and fail."""
            server.resource_updated(URI)
            raise RequestFailed("failed", code=-32000)

        @server.tool
        def change_in_other_thread() -> str:
            """Change the resource in a thread that trio does not know."""
            thread = threading.Thread(target=server.resource_updated, args=(URI,))
            thread.start()
            thread.join()
            return "changed"


class _SlowWorker(MemoryWorker):
    """A worker whose changes are not safe until the test allows it."""

    def __init__(self, shared: MemoryCluster) -> None:
        super().__init__(shared)
        self.flushing = trio.Event()
        self.allowed = trio.Event()
        self.changes = 0
        """The changes that were broadcast."""
        self.flushed: list[int] = []
        """How many changes had been broadcast at each flush."""

    def broadcast(self, message: ClusterMessage) -> None:
        self.changes += isinstance(message, ChangeMade)
        super().broadcast(message)

    async def flush(self) -> None:
        self.flushed.append(self.changes)
        self.flushing.set()
        await self.allowed.wait()
        await super().flush()


class _SlowCluster(MemoryCluster):
    def worker(self) -> MemoryWorker:
        return _SlowWorker(self)


def _worker(there: Deployment) -> _SlowWorker:
    worker = there.workers[0].cluster
    assert isinstance(worker, _SlowWorker)
    return worker


@each_revision
@pytest.mark.parametrize("tool", ["change", "change_in_thread", "change_in_other_thread", "change_and_fail"])
async def test_response_after_change_waits_until_change_is_flushed(revision: Revision, tool: str) -> None:
    async with deployed(1, make=_ChangingServer, shared=_SlowCluster()) as there, trio.open_nursery() as nursery:
        client, worker = Client(there, nursery, revision), _worker(there)
        if revision is not R2026_07_28:
            await client.open()
        assert worker.flushed == []
        changed = client.post(client.call(tool))
        with trio.fail_after(10):
            await worker.flushing.wait()
        await there.settle()
        assert not changed.complete
        assert worker.flushed == [1]
        # Other requests do not wait.
        assert "result" in await client.post(client.call("echo", text="x")).json()
        worker.allowed.set()
        message = await changed.json()
        assert ("error" in message) is (tool == "change_and_fail")
        nursery.cancel_scope.cancel()


async def test_response_after_change_while_cluster_unreachable_is_sent() -> None:
    shared = MemoryCluster()
    async with deployed(1, make=_ChangingServer, shared=shared) as there, trio.open_nursery() as nursery:
        client = Client(there, nursery, R2026_07_28)
        shared.is_reachable = False
        with pytest.raises(StoreError):
            await there.workers[0].cluster.flush()
        assert "result" in await client.post(client.call("change")).json()
        nursery.cancel_scope.cancel()
