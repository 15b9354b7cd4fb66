"""A store of tasks in an SQLite file: they survive the process.

The file is the file of `mcp_server.stores.sqlite.sessions`, or a separate one.
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.stores.memory.tasks import check_task_bounds, claimed
from mcp_server.stores.sqlite.database import opened
from mcp_server.stores.sqlite.sessions import SqliteStore
from mcp_server.stores.sqlite.thread import StoreThread
from mcp_server.stores.tasks import read_record, write_record

if TYPE_CHECKING:
    from mcp_server.stores.tasks import TaskOrder, TaskRecord

__all__ = ["SqliteTaskStore"]


class SqliteTaskStore:
    """A `TaskStore` in a file. One process at a time can open the file.

    Args:
        place: The file, which is created if it does not exist, and which only its owner can read. Or a `SqliteStore`
            whose file is shared; close the `SqliteStore` after this store.
        limits: The bounds for each owner: `tasks`, `running_tasks` and `task_bytes`.

    Raises:
        StoreError: The file cannot be opened, is in use, or is not a file of this store. The message states the remedy.
    """

    def __init__(self, place: str | os.PathLike[str] | SqliteStore, *, limits: Limits = SERVER_LIMITS) -> None:
        self._shared: Final = isinstance(place, SqliteStore)
        if isinstance(place, SqliteStore):
            self._thread = place.thread
        else:
            path = os.path.abspath(place)  # the working directory of the process may change
            self._thread = StoreThread(path, opened(path))
        self._limits: Final = limits
        self._closed = False
        self._newest = math.inf
        """The latest possible time of creation of a task whose expiry has not been checked against the clock. Infinite
        at first, because the tasks in the file may have any time."""
        self._thread.forget.append(self._forget)

    def __repr__(self) -> str:
        return f"<SqliteTaskStore {self._thread.path}>"

    @allow_asyncio
    async def create(self, record: TaskRecord) -> None:
        """Store a new task. Raises `LimitExceeded`."""
        await self._thread.do(partial(self._create, record), closed=self._closed)

    @allow_asyncio
    async def save(self, record: TaskRecord) -> None:
        """Replace the record of a task. Raises `TaskClaimed` and `LimitExceeded`."""
        await self._thread.do(partial(self._save, record), closed=self._closed)

    @allow_asyncio
    async def claim(self, record: TaskRecord, worker: str) -> TaskRecord | None:
        """Claim a task whose worker was lost."""
        return await self._thread.do(partial(self._claim, record, worker), closed=self._closed)

    @allow_asyncio
    async def load(self, id: str) -> TaskRecord | None:
        """Return the record of a task, or `None` if the task does not exist."""
        found = await self._thread.do(
            partial(self._read, "SELECT record FROM tasks WHERE id = ?", id), closed=self._closed
        )
        return found[0] if found else None

    @allow_asyncio
    async def delete(self, id: str) -> None:
        """Delete a task."""
        await self._thread.do(partial(self._execute, "DELETE FROM tasks WHERE id = ?", id), closed=self._closed)

    @allow_asyncio
    async def listed(self, owner: str, after: TaskOrder | None, count: int) -> tuple[TaskRecord, ...]:
        """Return the tasks of an owner, the oldest first."""
        begin, id = (0.0, "") if after is None else (after.created_at, after.id)
        query = "SELECT record FROM tasks WHERE owner = ? AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?"
        return await self._thread.do(partial(self._read, query, owner, begin, id, count), closed=self._closed)

    @allow_asyncio
    async def unfinished(self) -> tuple[TaskRecord, ...]:
        """Return all tasks whose status can still change, the oldest first."""
        query = "SELECT record FROM tasks WHERE NOT over ORDER BY created_at, id"
        return await self._thread.do(partial(self._read, query), closed=self._closed)

    @allow_asyncio
    async def purge(self, expired_by: float, now: float) -> float | None:
        """Delete expired tasks, and return the time at which the next task expires."""
        return await self._thread.do(partial(self._purge, expired_by, now), closed=self._closed)

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the store. A shared file stays open."""
        self._closed = True
        if not self._shared:
            await self._thread.aclose()

    # --- in the thread ---------------------------------------------------------------------------------------------

    def _create(self, record: TaskRecord) -> None:
        state, text = record.state, write_record(record)
        self._newest = max(self._newest, state.created_at)
        self._check(record.owner, len(text), 1)
        self._execute(
            "INSERT INTO tasks (id, owner, created_at, expires_at, over, size, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
            state.id,
            record.owner,
            state.created_at,
            state.expires_at,
            state.terminal,
            len(text),
            text,
        )

    def _save(self, record: TaskRecord) -> None:
        state, text = record.state, write_record(record)
        query = "SELECT size, json_extract(record, '$.token') FROM tasks WHERE id = ?"
        known: tuple[int, int | None] | None = self._thread.connection.execute(query, (state.id,)).fetchone()
        if known is None:
            return
        size, token = known[0], known[1] or 0
        if token != record.token:
            raise claimed(record, token)
        if len(text) > size:
            self._check(record.owner, len(text) - size, 0)
        self._replace(record, text)

    def _claim(self, record: TaskRecord, worker: str) -> TaskRecord | None:
        found = self._read("SELECT record FROM tasks WHERE id = ? AND NOT over", record.state.id)
        if not found or found[0].token != record.token:
            return None
        mine = attrs.evolve(found[0], worker=worker, token=record.token + 1)
        # Not checked: a claim must not fail because of the few bytes that it adds.
        self._replace(mine, write_record(mine))
        return mine

    def _replace(self, record: TaskRecord, text: str) -> None:
        query = "UPDATE tasks SET over = ?, size = ?, record = ? WHERE id = ?"
        self._execute(query, record.state.terminal, len(text), text, record.state.id)

    def _forget(self) -> None:
        """Forget after a rollback which tasks were checked against the clock."""
        self._newest = math.inf

    def _bring_forward(self, now: float) -> None:
        """Let tasks that were created after `now` expire when their time to live, counted from `now`, has passed."""
        query = "SELECT id, record FROM tasks WHERE created_at > ? AND expires_at IS NOT NULL"
        found = self._thread.connection.execute(query, (now,)).fetchall()
        for id, text in found:
            end = now + (read_record(text).state.ttl or 0) / 1000
            self._execute("UPDATE tasks SET expires_at = ?1 WHERE id = ?2 AND expires_at > ?1", end, id)

    def _check(self, owner: str | None, more: int, tasks: int) -> None:
        query = "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(NOT over), 0) FROM tasks WHERE owner IS ?"
        count, size, unfinished = self._thread.connection.execute(query, (owner,)).fetchone()
        check_task_bounds(self._limits, count + tasks, size + more, unfinished + 1 if tasks else 0)

    def _read(self, query: str, *values: str | float) -> tuple[TaskRecord, ...]:
        return tuple([read_record(text) for (text,) in self._thread.connection.execute(query, values)])

    def _execute(self, query: str, *values: str | float | None) -> None:
        self._thread.connection.execute(query, values)

    def _purge(self, expired_by: float, now: float) -> float | None:
        if self._newest > now:
            self._bring_forward(now)
            self._newest = now
        self._execute("DELETE FROM tasks WHERE expires_at <= ?", expired_by)
        found: tuple[float | None] = self._thread.connection.execute("SELECT min(expires_at) FROM tasks").fetchone()
        return found[0]
