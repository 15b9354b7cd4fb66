"""A cluster of workers that share a Redis or Valkey server, servers behind Sentinel, or a Redis Cluster."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.extras import extra
from mcp_server.cluster.redis.address import RedisAddress
from mcp_server.cluster.redis.changes import ChangeLog
from mcp_server.cluster.redis.connection import RedisConnection, RedisUnavailable
from mcp_server.cluster.redis.key_table import KeyNames
from mcp_server.cluster.redis.keys import LOOK_SECONDS, SealingKeys
from mcp_server.cluster.redis.membership import Membership
from mcp_server.cluster.redis.messages import BLOCK_SECONDS, MessageReader, MessageSender
from mcp_server.cluster.redis.rates import RedisRates
from mcp_server.cluster.redis.replays import RedisReplays
from mcp_server.cluster.redis.sessions import RedisSessions
from mcp_server.cluster.redis.tasks import RedisTasks
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import ClusterReceiver, RateStore, ReplayStore
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.stores.tasks import TaskStore

__all__ = ["RedisCluster"]

_TIMEOUT: Final = 1.0
"""Time in which Redis must respond to a command, in seconds."""

_RETRY: Final = 0.25
"""Pause after a renewal that failed, in seconds. The connection has longer pauses of its own."""

_LEAVE: Final = 0.5
"""Time to remove the entry of this worker when it ends, in seconds."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")


class RedisCluster:
    """A `Cluster` on Redis 7.0 or later, or Valkey. Requires `trio-mcp-server[redis]`.

    Args:
        url: The address: `redis://user:password@host:port/database`; `rediss://` for TLS; with `+sentinel` or `+cluster` after
            the scheme and several hosts separated by commas for Sentinel (`/service/database`) and Redis Cluster. The
            parameters `ca`, `cert` and `key` name files of certificates.
        prefix: The beginning of the names of all keys. Servers with different prefixes can share one Redis.
        limits: The bounds of the stores. All workers should have the same.

    Raises:
        MissingExtra: A package of the extra is not installed.
        StoreError: The URL or the prefix is not valid, or a certificate cannot be read.
    """

    def __init__(self, url: str, *, prefix: str = "mcp", limits: Limits = SERVER_LIMITS) -> None:
        with extra("trio-mcp-server", "redis"):
            import coredis.parser  # noqa: F401  # lazy: an extra, and slow to import
        if not _PREFIX.match(prefix):
            raise StoreError(
                f"the prefix {prefix!r} of the keys in Redis is not valid: use 1 to 64 letters, digits and the characters "
                "_ . : -"
            )
        self._worker: Final = secrets.token_urlsafe(9)
        self._names: Final = KeyNames(prefix)
        self._connection: Final = RedisConnection(RedisAddress.parse(url), timeout=_TIMEOUT)
        self._membership: Final = Membership(self._connection, self._names, self._worker)
        self._changes: Final = ChangeLog(self._connection, self._names, limits.uri_chars)
        self._sender: Final = MessageSender(
            self._connection, self._names, self._worker, self._changes, self._membership
        )
        self._keys: Final = SealingKeys(self._connection, self._names)
        self._sessions: Final = RedisSessions(self._connection, self._names, self._changes, self._membership, limits)
        self._tasks: Final = RedisTasks(self._connection, self._names, self._membership, limits)
        self._replays: Final = RedisReplays(self._connection, self._names)
        self._rates: Final = RedisRates(self._connection, self._names)
        self._is_running = False
        self._scope: trio.CancelScope | None = None

    def __repr__(self) -> str:
        return f"<RedisCluster {self._connection!r} prefix={self._names.prefix!r} worker={self._worker}>"

    @property
    def worker(self) -> str:
        """The id of this worker."""
        return self._worker

    @property
    def is_shared(self) -> bool:
        """Whether other workers can join: always."""
        return True

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
        self, receiver: ClusterReceiver, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Take part in the cluster until cancelled.

        Args:
            receiver: Receives the messages.
            task_status: The status for `Nursery.start`.

        Raises:
            StoreError: The configuration is wrong.
            trio.BusyResourceError: The method is already running.
        """
        if self._is_running:
            raise trio.BusyResourceError("RedisCluster.run is already running")
        self._is_running = True
        try:
            with trio.CancelScope() as self._scope:
                async with self._connection.open() as nursery:
                    await self._take_part(receiver, nursery, task_status)
        finally:
            self._is_running = False
            self._scope = None

    async def _take_part(
        self, receiver: ClusterReceiver, nursery: trio.Nursery, task_status: trio.TaskStatus[None]
    ) -> None:
        node = self._connection.open_node(self._names.messages, _TIMEOUT + BLOCK_SECONDS)
        reader = MessageReader(
            node,
            self._names,
            self._worker,
            changes=self._changes,
            membership=self._membership,
            receiver=receiver,
        )
        try:
            await self._renew(receiver, reader)
            nursery.start_soon(node.run)
            nursery.start_soon(reader.run)
            nursery.start_soon(self._sender.run)
            task_status.started()
            looked_at = trio.current_time()
            while True:
                await trio.sleep(self._membership.pause())
                await self._renew(receiver, reader)
                if trio.current_time() - looked_at >= LOOK_SECONDS:
                    looked_at = trio.current_time()
                    await self._look(receiver)
        finally:
            with trio.move_on_after(_LEAVE, shield=True):
                await self._leave()

    async def _renew(self, receiver: ClusterReceiver, reader: MessageReader) -> None:
        """Renew the entry of this worker. Try again while Redis cannot be reached."""
        while True:
            try:
                beat = await self._membership.renew()
            except RedisUnavailable:
                await trio.sleep(_RETRY)
                continue
            break
        self._changes.seen(beat.position)
        if reader.follow(beat):
            await self._look(receiver)
        for worker in self._membership.take_lost():
            receiver.lost(worker)

    async def _look(self, receiver: ClusterReceiver) -> None:
        try:
            await self._keys.look(receiver)
        except RedisUnavailable:
            # The next look follows, and the keys that this worker has remain valid until then.
            return

    async def _leave(self) -> None:
        try:
            await self._membership.leave()
        except StoreError:
            # The entry expires.
            return

    def broadcast(self, message: ClusterMessage) -> None:
        """Send a message to all other workers."""
        self._sender.broadcast(message)

    def send(self, worker: str, message: ClusterMessage) -> None:
        """Send a message to one worker. A message to a lost worker is dropped."""
        self._sender.send(worker, message)

    @allow_asyncio
    async def flush(self) -> None:
        """Wait until Redis has the changes that were recorded and the messages that were sent. Raises `StoreError`."""
        await self._sender.flush()

    def is_alive(self, worker: str) -> bool:
        """Return whether a worker is not known to have ended."""
        return self._membership.is_alive(worker)

    @allow_asyncio
    async def others(self) -> frozenset[str]:
        """Return the other workers that take part now. Raises `StoreError`."""
        await self._membership.renew()
        return self._membership.others()

    @allow_asyncio
    async def check(self) -> None:
        """Raise `StoreError` unless Redis can be reached now."""
        await self._connection.command(self._names.epoch, b"EXISTS", self._names.epoch)

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the stores, and end `run`."""
        await self._sessions.aclose()
        await self._tasks.aclose()
        if self._scope is not None:
            self._scope.cancel()
