"""A cluster of one worker, which sends no messages: the default of a server."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.cluster.limits import MemoryRates, MemoryReplays
from mcp_server.stores.memory.sessions import MemoryStore
from mcp_server.stores.memory.tasks import MemoryTaskStore

if TYPE_CHECKING:
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import ClusterReceiver, RateStore, ReplayStore
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.stores.tasks import TaskStore

__all__ = ["LocalCluster"]


class LocalCluster:
    """A `Cluster` of one worker. Its stores are in memory.

    Args:
        limits: The limits of the stores.
        budget: The budget that stored data is charged to. `None`: a separate budget of `Limits.total_bytes`.
    """

    def __init__(self, *, limits: Limits = SERVER_LIMITS, budget: MemoryBudget | None = None) -> None:
        self._worker: Final = secrets.token_urlsafe(16)
        self._sessions: Final = MemoryStore(limits=limits, budget=budget)
        self._tasks: Final = MemoryTaskStore(limits=limits, budget=budget)
        self._replays: Final = MemoryReplays()
        self._rates: Final = MemoryRates()
        self._running = False

    def __repr__(self) -> str:
        return f"<LocalCluster {self._worker}>"

    @property
    def worker(self) -> str:
        """The id of this worker."""
        return self._worker

    @property
    def is_shared(self) -> bool:
        """`False`: no other worker can join."""
        return False

    @property
    def sessions(self) -> SessionStore:
        """The sessions of legacy clients over HTTP."""
        return self._sessions

    @property
    def tasks(self) -> TaskStore:
        """The tasks."""
        return self._tasks

    @property
    def replays(self) -> ReplayStore:
        """The ids that may be used once."""
        return self._replays

    @property
    def rates(self) -> RateStore:
        """The rate limits of principals."""
        return self._rates

    @allow_asyncio
    async def run(
        self,
        receiver: ClusterReceiver,  # noqa: ARG002  # there is nothing to receive
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Wait until cancelled: there is no other worker. Raises `trio.BusyResourceError`."""
        if self._running:
            raise trio.BusyResourceError("the worker takes part in its cluster already")
        self._running = True
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            self._running = False

    def broadcast(self, message: ClusterMessage) -> None:
        """Do nothing: there is no other worker."""

    def send(self, worker: str, message: ClusterMessage) -> None:
        """Do nothing: there is no other worker."""

    @allow_asyncio
    async def flush(self) -> None:
        """Return: nothing waits."""
        await trio.lowlevel.checkpoint()

    def is_alive(self, worker: str) -> bool:
        """Return whether the id is that of this worker."""
        return worker == self._worker

    @allow_asyncio
    async def others(self) -> frozenset[str]:
        """Return no worker: there is no other."""
        await trio.lowlevel.checkpoint()
        return frozenset()

    @allow_asyncio
    async def check(self) -> None:
        """Return: the memory of this process can be reached."""
        await trio.lowlevel.checkpoint()

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the stores."""
        await self._sessions.aclose()
        await self._tasks.aclose()
