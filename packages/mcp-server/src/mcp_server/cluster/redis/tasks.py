"""A store of tasks in Redis, which all workers use.

The tasks of one owner are on one server, so that their number and size are bounded in one step. Lists of all tasks that have
not ended, and of all tasks that expire, are kept beside them. A task is added to these lists before it is stored and removed
after it has ended, so that a worker that ends in between leaves an entry too many, which the next reader removes.
"""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_server.cluster.redis.scripts import script
from mcp_server.stores.memory.tasks import claimed
from mcp_server.stores.tasks import TaskOrder, read_record, write_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_core.limits import Limits
    from mcp_server.cluster.redis.connection import RedisConnection
    from mcp_server.cluster.redis.key_table import KeyNames
    from mcp_server.cluster.redis.membership import Membership
    from mcp_server.cluster.redis.pipeline import Value
    from mcp_server.stores.tasks import TaskRecord

__all__ = ["RedisTasks"]

_MARGIN: Final = 86_400_000
"""Time for which a task stays in Redis after its time to live, in milliseconds. `purge` deletes it in time: the time of the
workers and the time of Redis may differ."""

_LONGEST: Final = 30 * 86_400_000
"""Time for which a task without a time to live stays after its last change, in milliseconds."""

_READ: Final = 100
"""Tasks that one step reads, so that it does not delay other commands."""

_OWNERS: Final = 4_096
"""Tasks whose owner is cached."""


class RedisTasks:
    """A `TaskStore` in Redis.

    Args:
        connection: The connection to Redis.
        names: The names of the keys.
        membership: The workers of the cluster.
        limits: The bounds for each owner: `tasks`, `running_tasks` and `task_bytes`.
    """

    def __init__(self, connection: RedisConnection, names: KeyNames, membership: Membership, limits: Limits) -> None:
        self._connection: Final = connection
        self._names: Final = names
        self._membership: Final = membership
        self._limits: Final = limits
        self._owners: Final[OrderedDict[str, str]] = OrderedDict()
        self._newest = math.inf
        """The latest possible time of creation of a task whose expiry has not been compared with the clock. Infinite at
        first, because the stored tasks may have any time."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<RedisTasks {self._connection!r}>"

    async def create(self, record: TaskRecord) -> None:
        """Store a new task. Raises `LimitExceeded`."""
        self._check()
        state = record.state
        owner = self._names.owner_part(record.owner)
        self._remember(state.id, owner)
        lifetime = _lifetime(record)
        key = self._names.task(state.id)
        await self._connection.command(key, b"SET", key, owner.encode(), b"PX", b"%d" % lifetime)
        expiring = b""
        if state.expires_at is not None:
            self._newest = max(self._newest, state.created_at)
            expiring = b"%d/%b" % (state.ttl or 0, _member(owner, state.id))
            await self._add(self._names.expiring, state.expires_at, expiring)
        if not state.terminal:
            await self._add(self._names.unfinished, state.created_at, _member(owner, state.id))
        reply = await self._connection.run(
            script("task_create"),
            self._keys(owner, state.id),
            state.id.encode(),
            repr(state.created_at).encode(),
            write_record(record).encode(),
            b"%d" % state.terminal,
            b"%d" % record.token,
            record.worker.encode(),
            expiring,
            b"%d" % self._limits.tasks,
            b"%d" % self._limits.running_tasks,
            b"%d" % self._limits.task_bytes,
            b"%d" % lifetime,
        )
        if isinstance(reply, list):
            await self._connection.command(key, b"DEL", key)
            await self._remove(self._names.unfinished, _member(owner, state.id))
            if expiring:
                await self._remove(self._names.expiring, expiring)
            raise self._excess(reply)

    async def save(self, record: TaskRecord) -> None:
        """Replace the record of a task. Raises `TaskClaimed` and `LimitExceeded`."""
        self._check()
        state = record.state
        owner = self._names.owner_part(record.owner)
        reply = await self._connection.run(
            script("task_save"),
            self._keys(owner, state.id),
            write_record(record).encode(),
            b"%d" % state.terminal,
            b"%d" % record.token,
            b"%d" % self._limits.task_bytes,
            b"%d" % _lifetime(record),
        )
        match reply:
            case [b"claimed", int(token)]:
                raise claimed(record, token)
            case list():
                raise self._excess(reply)
        if state.ttl is None and reply == 1:
            key = self._names.task(state.id)
            await self._connection.command(key, b"PEXPIRE", key, b"%d" % _LONGEST)
        if state.terminal:
            await self._remove(self._names.unfinished, _member(owner, state.id))

    async def claim(self, record: TaskRecord, worker: str) -> TaskRecord | None:
        """Claim a task whose worker was lost."""
        self._check()
        key = self._names.task_record(self._names.owner_part(record.owner), record.state.id)
        call = secrets.token_hex(8).encode()
        reply = await self._connection.run(script("task_claim"), (key,), b"%d" % record.token, worker.encode(), call)
        return _read(reply)

    async def load(self, id: str) -> TaskRecord | None:
        """Return the record of a task, or `None` if the task does not exist."""
        self._check()
        owner = await self._owner(id)
        if owner is None:
            return None
        key = self._names.task_record(owner, id)
        found = _read(await self._connection.command(key, b"HMGET", key, b"r", b"w", b"t"))
        if found is not None and not found.state.terminal:
            await self._membership.look_up((found.worker,))
        return found

    async def delete(self, id: str) -> None:
        """Delete a task."""
        self._check()
        owner = await self._owner(id)
        if owner is not None:
            await self._delete(owner, id)

    async def _delete(self, owner: str, id: str) -> None:
        expiring = await self._connection.run(script("task_delete"), self._keys(owner, id), id.encode())
        key = self._names.task(id)
        await self._connection.command(key, b"DEL", key)
        await self._remove(self._names.unfinished, _member(owner, id))
        if isinstance(expiring, bytes) and expiring:
            await self._remove(self._names.expiring, expiring)

    async def listed(self, owner: str, after: TaskOrder | None, count: int) -> tuple[TaskRecord, ...]:
        """Return the tasks of an owner, the oldest first."""
        self._check()
        part = self._names.owner_part(owner)
        begin, id = ("-inf", "") if after is None else (repr(after.created_at), after.id)
        reply = await self._connection.run(
            script("task_list"), self._names.owner(part)[:1], begin.encode(), id.encode(), b"%d" % count
        )
        ids = [each.decode() for each in _list(reply) if isinstance(each, bytes)]
        return await self._read_all(part, ids)

    async def unfinished(self) -> tuple[TaskRecord, ...]:
        """Return all tasks whose status can still change, the oldest first."""
        self._check()
        key = self._names.unfinished
        owners: dict[str, list[str]] = {}
        for member in _list(await self._connection.command(key, b"ZRANGE", key, b"0", b"-1")):
            owner, _, id = member.decode().partition("/") if isinstance(member, bytes) else ("", "", "")
            owners.setdefault(owner, []).append(id)
        found: list[TaskRecord] = []
        for owner, ids in owners.items():
            records = await self._read_all(owner, ids)
            ended = {each.state.id for each in records if each.state.terminal}
            found += [each for each in records if not each.state.terminal]
            for id in set(ids) - {each.state.id for each in records}:
                # The owner of a task is stored first, and the record last: the task may be on the way.
                key = self._names.task(id)
                if await self._connection.command(key, b"EXISTS", key) == 0:
                    ended.add(id)
            for id in ended:
                await self._remove(self._names.unfinished, _member(owner, id))
        await self._membership.look_up(each.worker for each in found)
        return tuple(sorted(found, key=TaskOrder.of))

    async def purge(self, expired_by: float, now: float) -> float | None:
        """Delete expired tasks, and return the time at which the next task expires."""
        self._check()
        if self._newest > now:
            await self._bring_forward(now)
            self._newest = now
        while found := await self._expiring(b"-inf", repr(expired_by).encode()):
            for member, _ in found:
                _, owner, id = member.decode().split("/", 2)
                await self._delete(owner, id)
                await self._remove(self._names.expiring, member)
        first = await self._expiring(b"-inf", b"+inf", count=1)
        return first[0][1] if first else None

    async def _bring_forward(self, now: float) -> None:
        """Let tasks that were created after `now` expire when their time to live, counted from `now`, has passed."""
        offset = 0
        while found := await self._expiring(b"(%b" % repr(now).encode(), b"+inf", offset=offset):
            for member, expires_at in found:
                end = now + int(member.partition(b"/")[0]) / 1000
                if expires_at > end:
                    await self._add(self._names.expiring, end, member)
            offset += len(found)

    async def _expiring(
        self, first: bytes, last: bytes, *, offset: int = 0, count: int = 1_000
    ) -> list[tuple[bytes, float]]:
        key = self._names.expiring
        reply = await self._connection.command(
            key, b"ZRANGEBYSCORE", key, first, last, b"WITHSCORES", b"LIMIT", b"%d" % offset, b"%d" % count
        )
        found: list[tuple[bytes, float]] = []
        for each in _list(reply):
            match each:
                case [bytes(member), float(score) | int(score)]:
                    found.append((member, float(score)))
        return found

    async def aclose(self) -> None:
        """Close the store."""
        self._closed = True

    # --- keys ----------------------------------------------------------------------------------------------------------

    def _keys(self, owner: str, id: str) -> tuple[bytes, bytes, bytes]:
        return (*self._names.owner(owner), self._names.task_record(owner, id))

    async def _add(self, key: bytes, score: float, member: bytes) -> None:
        await self._connection.command(key, b"ZADD", key, repr(score).encode(), member)
        await self._connection.command(key, b"PEXPIRE", key, b"%d" % _LONGEST)

    async def _remove(self, key: bytes, member: bytes) -> None:
        await self._connection.command(key, b"ZREM", key, member)

    async def _owner(self, id: str) -> str | None:
        owner = self._owners.get(id)
        if owner is None:
            key = self._names.task(id)
            found = await self._connection.command(key, b"GET", key)
            if not isinstance(found, bytes):
                return None
            owner = found.decode()
            self._remember(id, owner)
        return owner

    def _remember(self, id: str, owner: str) -> None:
        self._owners[id] = owner
        if len(self._owners) > _OWNERS:
            self._owners.popitem(last=False)

    async def _read_all(self, owner: str, ids: Sequence[str]) -> tuple[TaskRecord, ...]:
        found: list[TaskRecord] = []
        for first in range(0, len(ids), _READ):
            keys = [self._names.task_record(owner, id) for id in ids[first : first + _READ]]
            found += _read_records(_list(await self._connection.run(script("task_read"), keys)))
        return tuple(found)

    def _excess(self, reply: Sequence[Value]) -> LimitExceeded:
        kind, observed = reply
        what, setting = {
            b"tasks": ("stored tasks of one owner", "tasks"),
            b"unfinished": ("tasks that run", "running_tasks"),
            b"bytes": ("bytes of the stored tasks of one owner", "task_bytes"),
        }[kind if isinstance(kind, bytes) else b""]
        allowed: int = getattr(self._limits, setting)
        return LimitExceeded(
            what, observed=observed if isinstance(observed, int) else 0, allowed=allowed, setting=f"Limits.{setting}"
        )

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("the task store was closed")


def _member(owner: str, id: str) -> bytes:
    return f"{owner}/{id}".encode()


def _lifetime(record: TaskRecord) -> int:
    ttl = record.state.ttl
    return _LONGEST if ttl is None else ttl + _MARGIN


def _read(reply: Value) -> TaskRecord | None:
    """Return the record in a reply. The worker and the token are stored beside it, because a claim changes only these."""
    match reply:
        case [bytes(text), bytes(worker), bytes(token)]:
            return attrs.evolve(read_record(text.decode()), worker=worker.decode(), token=int(token))
        case _:
            return None


def _read_records(replies: Iterable[Value]) -> Iterable[TaskRecord]:
    return [record for each in replies if (record := _read(each)) is not None]


def _list(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise TypeError(f"Redis sent {type(value).__name__} in place of a list")
    return value
