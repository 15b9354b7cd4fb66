"""A cluster of one worker: nothing is shared, and nothing outlives the process."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import trio

from mcp_server.stores.memory.sessions import MemoryStore
from mcp_server.stores.memory.tasks import MemoryTaskStore

if TYPE_CHECKING:
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import ClusterReceiver

__all__ = ["LocalCluster"]


class LocalCluster:
    is_shared: Final = False

    def __init__(self, *, limits: Limits, budget: MemoryBudget) -> None:
        self.worker: Final = secrets.token_urlsafe(9)
        self.tasks: Final = MemoryTaskStore(limits=limits, budget=budget)
        self.sessions: Final = MemoryStore(limits=limits, budget=budget)

    async def run(
        self, receiver: ClusterReceiver, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        task_status.started()
        await trio.sleep_forever()

    def broadcast(self, message: ClusterMessage) -> None:
        pass

    def send(self, worker: str, message: ClusterMessage) -> None:
        pass

    def is_alive(self, worker: str) -> bool:
        return worker == self.worker

    async def check(self) -> None:
        pass

    async def aclose(self) -> None:
        pass
