"""A store of tasks in memory: they end with the process."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.limits.memory_budget import MemoryBudget, parsed_size
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.stores.tasks import TaskClaimed, TaskOrder, write_record

if TYPE_CHECKING:
    from collections.abc import Hashable

    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.stores.tasks import TaskRecord

__all__ = ["MemoryTaskStore", "check_task_bounds", "claimed", "task_memory_owner"]


@attrs.define
class _Kept:
    record: TaskRecord
    size: int
    charge: MemoryCharge
    """The charge for the memory of the record."""


@attrs.define
class _Owner:
    """The tasks of one owner."""

    tasks: dict[str, _Kept] = attrs.field(factory=dict)
    size: int = 0


class MemoryTaskStore:
    """A `TaskStore` in memory. No method blocks, and none is a checkpoint.

    Args:
        limits: The bounds for each owner: `tasks`, `running_tasks` and `task_bytes`.
        budget: The budget that tasks are charged to. `None`: a separate budget of `Limits.total_bytes`.
    """

    def __init__(self, *, limits: Limits = SERVER_LIMITS, budget: MemoryBudget | None = None) -> None:
        self._limits: Final = limits
        self._budget: Final = MemoryBudget(limits.total_bytes) if budget is None else budget
        self._kept: Final[dict[str, _Kept]] = {}
        self._owners: Final[dict[str | None, _Owner]] = {}
        self._ends: Final[list[tuple[float, str]]] = []
        self._newest = -math.inf
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryTaskStore of {len(self._kept)} tasks>"

    @allow_asyncio
    async def create(self, record: TaskRecord) -> None:
        """Store a new task. Raises `LimitExceeded`."""
        self._check()
        text = write_record(record)
        size = len(text)
        owner = self._owners.get(record.owner) or _Owner()
        unfinished = sum(not each.record.state.terminal for each in owner.tasks.values())
        check_task_bounds(self._limits, len(owner.tasks) + 1, owner.size + size, unfinished + 1)
        charge = self._budget.charge(task_memory_owner(record.owner), parsed_size(text.encode()))
        self._owners[record.owner] = owner
        owner.tasks[record.state.id] = self._kept[record.state.id] = _Kept(record, size, charge)
        owner.size += size
        if record.state.expires_at is not None:
            heapq.heappush(self._ends, (record.state.expires_at, record.state.id))
            self._newest = max(self._newest, record.state.created_at)

    @allow_asyncio
    async def save(self, record: TaskRecord) -> None:
        """Replace the record of a task. Raises `TaskClaimed` and `LimitExceeded`."""
        self._check()
        kept = self._kept.get(record.state.id)
        if kept is None:
            return
        if kept.record.token != record.token:
            raise claimed(record, kept.record.token)
        text = write_record(record)
        size = len(text)
        owner = self._owners[record.owner]
        if size > kept.size:
            check_task_bounds(self._limits, len(owner.tasks), owner.size + size - kept.size)
        kept.charge.resize(parsed_size(text.encode()))
        owner.size += size - kept.size
        kept.record, kept.size = record, size

    @allow_asyncio
    async def claim(self, record: TaskRecord, worker: str) -> TaskRecord | None:
        """Claim a task whose worker was lost."""
        self._check()
        kept = self._kept.get(record.state.id)
        if kept is None or kept.record.state.terminal or kept.record.token != record.token:
            return None
        kept.record = attrs.evolve(kept.record, worker=worker, token=record.token + 1)
        return kept.record

    @allow_asyncio
    async def load(self, id: str) -> TaskRecord | None:
        """Return the record of a task, or `None` if the task does not exist."""
        self._check()
        kept = self._kept.get(id)
        return None if kept is None else kept.record

    @allow_asyncio
    async def delete(self, id: str) -> None:
        """Delete a task."""
        self._check()
        kept = self._kept.pop(id, None)
        if kept is None:
            return
        kept.charge.release()
        owner = self._owners[kept.record.owner]
        del owner.tasks[id]
        owner.size -= kept.size
        if not owner.tasks:
            del self._owners[kept.record.owner]

    @allow_asyncio
    async def listed(self, owner: str, after: TaskOrder | None, count: int) -> tuple[TaskRecord, ...]:
        """Return the tasks of an owner, the oldest first."""
        self._check()
        found = self._owners.get(owner)
        records = () if found is None else (kept.record for kept in found.tasks.values())
        later = [record for record in records if after is None or TaskOrder.of(record) > after]
        return tuple(sorted(later, key=TaskOrder.of)[:count])

    @allow_asyncio
    async def unfinished(self) -> tuple[TaskRecord, ...]:
        """Return all tasks whose status can still change, the oldest first."""
        self._check()
        records = [kept.record for kept in self._kept.values() if not kept.record.state.terminal]
        return tuple(sorted(records, key=TaskOrder.of))

    @allow_asyncio
    async def purge(self, expired_by: float, now: float) -> float | None:
        """Delete expired tasks, and return the time at which the next task expires."""
        self._check()
        if self._newest > now:
            self._newest = now
            for id, kept in self._kept.items():
                if kept.record.state.created_at > now and kept.record.state.ttl is not None:
                    heapq.heappush(self._ends, (now + kept.record.state.ttl / 1000, id))
        while self._ends and (self._ends[0][0] <= expired_by or self._ends[0][1] not in self._kept):
            _, id = heapq.heappop(self._ends)
            await self.delete(id)
        return self._ends[0][0] if self._ends else None

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the store and delete its tasks."""
        self._closed = True
        for kept in self._kept.values():
            kept.charge.release()
        self._kept.clear()
        self._owners.clear()
        self._ends.clear()

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("the task store was closed")


def task_memory_owner(owner: str | None) -> Hashable:
    """Return the owner that is charged for a task: its principal, or all unauthenticated clients together."""
    return "tasks" if owner is None else ("principal", owner)


def claimed(record: TaskRecord, token: int) -> TaskClaimed:
    """Return the error for a record that was claimed since it was read.

    Args:
        record: The record.
        token: The token of the stored record.
    """
    return TaskClaimed(f"another worker runs the task: its token is {token}, not {record.token}")


def check_task_bounds(limits: Limits, tasks: int, size: int, unfinished: int = 0) -> None:
    """Check the bounds of one owner.

    Args:
        limits: The bounds.
        tasks: The number of tasks that the owner would have.
        size: The size of these tasks together, in bytes.
        unfinished: The number of these tasks that have not ended.

    Raises:
        LimitExceeded: The owner would exceed a bound.
    """
    if tasks > limits.tasks:
        raise LimitExceeded("stored tasks of one owner", observed=tasks, allowed=limits.tasks, setting="Limits.tasks")
    if unfinished > limits.running_tasks:
        raise LimitExceeded(
            "tasks that run", observed=unfinished, allowed=limits.running_tasks, setting="Limits.running_tasks"
        )
    if size > limits.task_bytes:
        raise LimitExceeded(
            "bytes of the stored tasks of one owner",
            observed=size,
            allowed=limits.task_bytes,
            setting="Limits.task_bytes",
        )
