"""The connection to Redis: which server has a key, reconnection, and the meaning of errors.

*One connection for each server.* Commands are pipelined (`mcp_server.cluster.redis.pipeline`). A second connection to one
server waits for messages.

*Reconnection.* The first attempt follows after a twentieth of a second, and commands wait for it. If it fails, they raise `StoreError`, as do
all later ones until the server can be reached: requests must not wait for a server that is down. Later attempts follow
after growing pauses with a random part, so that workers do not all come back at the same moment. The pauses are at
most one second, so that the service recovers quickly.

*Commands without a reply.* After the connection broke it is unknown whether the server ran a command. Each command is
sent a second time, in the same order, and more often if the connections break quickly: until the timeout after it was
first sent. The scripts are written so that this has no other effect than once.

*Errors.* What the operator has to correct is permanent: `run` raises, and does not try again.
"""

from __future__ import annotations

import logging
import random
import ssl
from binascii import crc_hqx
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_server.cluster.redis.address import Endpoint, Topology
from mcp_server.cluster.redis.pipeline import PendingCommand, PipelineBroken, RedisPipeline, encode_command
from mcp_server.cluster.redis.scripts import SCRIPTS, script
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from mcp_core.errors import McpError
    from mcp_server.cluster.redis.address import Credentials, RedisAddress
    from mcp_server.cluster.redis.pipeline import ServerFacts, Value
    from mcp_server.cluster.redis.scripts import Script

__all__ = ["RedisConnection", "RedisNode", "RedisUnavailable", "slot_of"]

_log: Final = logging.getLogger("mcp_server")

_CONNECT_SECONDS: Final = 1.0
"""Time to open and authenticate a connection, in seconds. Servers are near; an attempt that takes longer has failed."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
"""The pauses between attempts to connect, in seconds. With the longest one and the time of an attempt, a worker is back
within two seconds after the server is."""

_TRIES: Final = 2
"""How often a command is sent if each try takes as long as possible: 1.5 times the timeout."""

_WAITING: Final = 10_000
"""Commands that may wait for their reply on one connection. Each belongs to a request of a client, whose number is
bounded too: more indicate that the server is too slow."""

_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the commands that wait."""

_REDIRECTS: Final = 16
"""How often a command is sent to another server, or again, while servers of a Redis Cluster move data."""

_SLOTS: Final = 16_384

_REFRESH: Final = 0.5
"""Time between two look-ups of the nodes of a Redis Cluster while one of them cannot be reached, in seconds."""

_NOT_RUNNING: Final = "the cluster is not running"

_ADVICE: Final[Mapping[str, str]] = {
    "WRONGPASS": "correct the user name and password in the URL",
    "NOAUTH": "put the user name and password into the URL",
    "NOPERM": "give the ACL user the commands and keys that the page on Redis in the reference lists",
    "OOM": "raise maxmemory of the server, or lower Limits.sessions and Limits.replay_bytes",
    "MISCONF": "check the disk of the server: it cannot save its data",
    "WRONGTYPE": "another application uses the same keys: choose another prefix",
    "NOREPLICAS": "check the replicas of the server: min-replicas-to-write is not met",
    "CLUSTERDOWN": "check the nodes of the Redis Cluster: some are down",
    "BUSY": "another script runs on the server for too long",
    "CROSSSLOT": "report this error: a script uses keys of several servers",
}
"""The remedy for an error reply, by its first word."""

_PERMANENT: Final = ("WRONGPASS", "NOAUTH", "NOPERM")
"""Errors while a connection is opened that do not go away without a change of the configuration."""


_PASSING: Final = frozenset(
    {
        "OOM",
        "MISCONF",
        "NOREPLICAS",
        "CLUSTERDOWN",
        "BUSY",
        "READONLY",
        "LOADING",
        "MASTERDOWN",
        "TRYAGAIN",
        "ASK",
        "MOVED",
    }
)
"""Errors of commands that can pass without a change of the configuration of this side, by their first word."""


class RedisUnavailable(StoreError):
    """Redis cannot be reached at the moment. Other errors of a store are permanent."""


_TEMPORARY: Final = (PipelineBroken, RedisUnavailable, OSError, trio.BrokenResourceError, trio.TooSlowError)
"""Errors after which another attempt to connect can succeed."""


def slot_of(key: bytes) -> int:
    """Return the slot of a Redis Cluster that a key belongs to: of the part in braces, if there is one."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % _SLOTS


class RedisNode:
    """The connection to one server, opened again whenever it ends.

    Args:
        find: Returns the server to connect to. Called before each attempt.
        check: Checks what the server says about itself. Raises `StoreError` if the configuration is wrong, and
            `PipelineBroken` if another attempt can succeed.
        credentials: The credentials.
        tls: The settings of encrypted connections.
        timeout: The time in which the server must respond to a command, in seconds.
        place: The first server, for error messages.
        database: The number of the database.
    """

    def __init__(
        self,
        find: Callable[[], Awaitable[Endpoint]],
        check: Callable[[ServerFacts, Endpoint], None],
        *,
        credentials: Credentials,
        tls: ssl.SSLContext | None,
        timeout: float,
        place: str,
        database: int = 0,
    ) -> None:
        self._database: Final = database
        self._find: Final = find
        self._check: Final = check
        self._credentials: Final = credentials
        self._tls: Final = tls
        self._timeout: Final = timeout
        self._place = place
        self._waiting: deque[PendingCommand] = deque()
        self._waiting_bytes = 0
        self._pipeline: RedisPipeline | None = None
        self._failure: str | None = _NOT_RUNNING
        """Why commands fail at once; `None` if the server can be reached, or the first attempt is still running."""
        self._was_open = self._was_useful = False
        """Whether the last connection was opened, and whether a command had a reply on it."""
        self.is_removed: bool = False
        """Whether the node left the Redis Cluster."""
        self._scope: trio.CancelScope | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""
        return self._pipeline is not None

    async def call(self, data: bytes) -> Value:
        """Run an encoded command, and return its reply, which may be an error.

        Raises:
            StoreError: The server cannot be reached.
        """
        if self._failure is not None:
            raise self._unreachable(self._failure)
        call = PendingCommand(data)
        pipeline = self._pipeline
        waiting = self._waiting if pipeline is None else pipeline.sent
        if len(waiting) >= _WAITING or self._waiting_bytes >= _WAITING_BYTES:
            raise RedisUnavailable(
                f"the Redis server {self._place} is too slow: {len(waiting)} commands wait: give it a faster machine, "
                "or lower the load"
            )
        self._waiting_bytes += len(data)
        try:
            if pipeline is None:
                self._waiting.append(call)
            else:
                pipeline.send(call)
            return await call.wait()
        finally:
            self._waiting_bytes -= len(data)

    def reconnect(self, reason: str) -> None:
        """End the connection, for example because the server has become a replica."""
        if self._pipeline is not None:
            self._pipeline.break_off(PipelineBroken(reason))

    def remove(self) -> None:
        """End the connection without another one: the node has left the Redis Cluster."""
        self.is_removed = True
        if self._scope is not None:
            self._scope.cancel()

    def expect(self) -> None:
        """Let commands wait for the first attempt to connect, which follows."""
        self._failure = None

    async def run(self) -> None:
        """Connect until cancelled.

        Raises:
            StoreError: The configuration is wrong.
        """
        self._failure = None
        failures = 0
        try:
            with trio.CancelScope() as self._scope:
                while not self.is_removed:
                    self._was_open = self._was_useful = False
                    try:
                        await self._connect()
                    except _TEMPORARY as error:
                        self._lost(error)
                    failures = 0 if self._was_useful else failures + 1
                    await trio.sleep(_pause(failures))
        finally:
            self._failure = _NOT_RUNNING
            self._fail_all()

    def _lost(self, error: BaseException) -> None:
        if self._was_open:
            # The next attempt follows, and commands wait for it.
            _log.warning("connection to Redis lost: server=%s error=%s", self._place, _describe(error))
            return
        if self._failure is None:
            _log.error("Redis cannot be reached: server=%s error=%s", self._place, _describe(error))
        self._failure = _describe(error)
        self._fail_all()

    async def _connect(self) -> None:
        """Connect, and run the connection until it ends. Always raises."""
        with trio.fail_after(_CONNECT_SECONDS):
            endpoint = await self._find()
            self._place = str(endpoint)
            pipeline = await self._open(endpoint)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pipeline.run)
                with trio.fail_after(_CONNECT_SECONDS):
                    await self._prepare(pipeline, endpoint)
                self._opened(pipeline)
        except BaseExceptionGroup as group:
            error = _only_error(group)
            if not self._was_open:
                self._raise_permanent_tls(error)
            raise error from None
        finally:
            self._pipeline = None
            with trio.CancelScope(shield=True):
                await pipeline.aclose()
            self._take_back(pipeline)

    async def _open(self, endpoint: Endpoint) -> RedisPipeline:
        try:
            return await RedisPipeline.open(endpoint, self._tls, seconds=self._timeout)
        except trio.BrokenResourceError as error:
            self._raise_permanent_tls(error)
            raise

    async def _prepare(self, pipeline: RedisPipeline, endpoint: Endpoint) -> None:
        from coredis.exceptions import RedisError  # lazy: an extra

        try:
            facts = await pipeline.greet(self._credentials)
            self._check(facts, endpoint)
            if facts.mode != Topology.SENTINEL.value:
                if self._database:
                    await self._select(pipeline)
                await pipeline.commands([(b"SCRIPT", b"LOAD", script(name).text) for name in SCRIPTS])
        except RedisError as error:
            raise self._rejected(error) from None

    async def _select(self, pipeline: RedisPipeline) -> None:
        from coredis.exceptions import ResponseError  # lazy: an extra

        try:
            await pipeline.command(b"SELECT", b"%d" % self._database)
        except ResponseError as error:
            raise StoreError(
                f"the Redis server {self._place} has no database {self._database} for this user: {_text(error)}: correct "
                "the number in the URL"
            ) from None

    def _rejected(self, error: Exception) -> McpError:
        word = _word(error)
        if word in _PERMANENT:
            return StoreError(f"the Redis server {self._place} rejects the connection: {_text(error)}: {_ADVICE[word]}")
        if "unknown command" in str(error).lower() and "hello" in str(error).lower():
            return StoreError(f"the Redis server {self._place} is too old: version 7.0 or later is required")
        return PipelineBroken(_text(error))

    def _raise_permanent_tls(self, error: BaseException) -> None:
        """Raise `StoreError` if a certificate is the cause of an error."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise StoreError(
                    f"the certificate of the Redis server {self._place} is rejected: {cause.verify_message}: "
                    "put the file with its certificate authority into the URL, as ca=FILE, and use the host name of the "
                    "certificate"
                ) from error
            if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                raise StoreError(
                    f"the encryption of the connection to the Redis server {self._place} failed: {cause.reason}: check "
                    "that the server uses TLS on this port, and that the parameters cert and key name the certificate "
                    "that the server requires of clients"
                ) from error
            cause = cause.__cause__ or cause.__context__

    def _opened(self, pipeline: RedisPipeline) -> None:
        if self._failure is not None:
            _log.warning("Redis can be reached again: server=%s", self._place)
        self._failure = None
        self._was_open = True
        self._pipeline = pipeline
        pipeline.is_useful = False
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            if call.task is not None:
                pipeline.send(call)

    def _take_back(self, pipeline: RedisPipeline) -> None:
        """Keep the commands without a reply, to send them again."""
        self._was_useful = self._was_open and pipeline.is_useful
        again: deque[PendingCommand] = deque()
        for call in pipeline.sent:
            if call.task is None:
                continue
            is_young = trio.current_time() - call.first_sent_at < self._timeout
            if (call.tries < _TRIES or is_young) and not self.is_removed:
                again.append(call)
            else:
                call.fail(self._unreachable("the connection ended before the reply"))
        pipeline.sent.clear()
        again.extend(self._waiting)
        self._waiting = again

    def _fail_all(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.fail(self._unreachable(self._failure or "the connection ended"))

    def _unreachable(self, reason: str) -> RedisUnavailable:
        return RedisUnavailable(
            f"the Redis server {self._place} cannot be reached: {reason}: check that it runs, and that the address in "
            "the URL is correct, with rediss if it uses TLS"
        )


def _pause(failures: int) -> float:
    """Return the pause before the next attempt to connect, in seconds."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * float(1 << min(failures, 10)))
    # Jitter against a stampede; it protects nothing.
    return longest * random.uniform(0.5, 1.0)  # noqa: S311


def _describe(error: BaseException) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no response within {_CONNECT_SECONDS:g} s"
    cause = error.__cause__ if isinstance(error, trio.BrokenResourceError | PipelineBroken) else None
    return str(error) or str(cause or "") or type(error).__name__


def _only_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error of a nursery with two tasks: the first that is not a consequence of the other."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        each = pending.pop()
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
        else:
            leaves.append(each)
    for kind in (StoreError, PipelineBroken, OSError):
        for each in leaves:
            if isinstance(each, kind):
                return each
    return leaves[0]


def _word(error: Exception) -> str:
    """Return the first word of an error reply, which coredis removes from errors that it has a class for."""
    from coredis.parser import Parser  # lazy: an extra

    for word, kind in Parser.EXCEPTION_CLASSES.items():
        if type(error) is kind:
            return word
    return str(error).partition(" ")[0]


def _text(error: Exception) -> str:
    # For unknown commands, Redis quotes the arguments, which can contain a password.
    return str(error).partition(", with args")[0][:200]


class RedisConnection:
    """The servers of a cluster, and the commands that run on them.

    Args:
        address: The address.
        timeout: The time in which a server must respond to a command, in seconds.
    """

    def __init__(self, address: RedisAddress, *, timeout: float) -> None:
        self._address: Final = address
        self._timeout: Final = timeout
        self._nursery: trio.Nursery | None = None
        self._nodes: dict[Endpoint, RedisNode] = {}
        self._owners: list[Endpoint | None] = []
        """The server of each slot of a Redis Cluster; empty before the first look-up."""
        self._refreshing: trio.Event | None = None
        self._refreshed_at = 0.0
        self._single: Final = None if address.topology is Topology.CLUSTER else self._node(address.endpoints[0])

    def __repr__(self) -> str:
        return f"<RedisConnection {self._address}>"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[trio.Nursery]:
        """Connect, and stay connected in this block. Its value is the nursery of the connections.

        Raises:
            StoreError: The configuration is wrong.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    if self._single is not None:
                        self._single.expect()
                        nursery.start_soon(self._single.run)
                    yield nursery
                finally:
                    self._nursery = None
                    self._nodes.clear()
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only_error(group) from None

    def open_node(self, key: bytes, timeout: float) -> RedisNode:
        """Return another connection to the server of a key, to be run by the caller.

        Args:
            key: The key.
            timeout: The time in which the server must respond, in seconds.
        """
        if self._single is not None:
            return self._node(self._address.endpoints[0], timeout)

        async def find() -> Endpoint:
            await self._refresh()
            owner = self._owners[slot_of(key)]
            if owner is None:
                raise PipelineBroken("no node of the Redis Cluster has the keys")
            return owner

        return self._node(self._address.endpoints[0], timeout, find)

    async def node_of(self, key: bytes) -> RedisNode:
        """Return the connection to the server of a key.

        Raises:
            StoreError: The server is not known.
        """
        if self._single is not None:
            return self._single
        if not self._owners:
            await self._refresh()
        owner = self._owners[slot_of(key)]
        if owner is None:
            raise RedisUnavailable(
                f"no node of the Redis Cluster {self._address} has the keys: {_ADVICE['CLUSTERDOWN']}"
            )
        return self._node_at(owner)

    async def run(self, script: Script, keys: Sequence[bytes], *args: bytes) -> Value:
        """Run a script.

        Args:
            script: The script.
            keys: The keys, all on the same server.
            *args: The other arguments.

        Raises:
            StoreError: The server cannot be reached or rejects the command.
        """
        data = script.encode(keys, args)
        node, reply = await self._call(keys[0], data)
        if not isinstance(reply, Exception):
            return reply
        return await self._retry(node, reply, keys[0], data, script.encode_whole(keys, args))

    async def command(self, key: bytes, *args: bytes) -> Value:
        """Run a command on the server of a key.

        Args:
            key: The key.
            *args: The command and its arguments, which include the key.

        Raises:
            StoreError: The server cannot be reached or rejects the command.
        """
        data = encode_command(*args)
        node, reply = await self._call(key, data)
        if not isinstance(reply, Exception):
            return reply
        return await self._retry(node, reply, key, data, data)

    async def _call(self, key: bytes, data: bytes) -> tuple[RedisNode, Value]:
        """Run a command on the server of a key, and return the server and the reply, which may be an error."""
        if self._single is not None:
            return self._single, await self._single.call(data)
        node = await self.node_of(key)
        try:
            return node, await node.call(data)
        except RedisUnavailable:
            # A replica may have taken over. Not each request needs to find out.
            if trio.current_time() - self._refreshed_at < _REFRESH:
                raise
            await self._refresh()
            other = await self.node_of(key)
            if other is node:
                raise
            return other, await other.call(data)

    async def _retry(self, node: RedisNode, reply: Exception, key: bytes, data: bytes, whole: bytes) -> Value:
        """Send a command again if the error can be temporary. Raises `StoreError` otherwise."""
        from coredis.exceptions import AskError, MovedError, NoScriptError  # lazy: an extra

        for attempt in range(_REDIRECTS):
            word = _word(reply)
            outcome: Value = None
            if isinstance(reply, NoScriptError):
                outcome = await node.call(whole)
            elif isinstance(reply, AskError) and not isinstance(reply, MovedError):
                node = self._node_at(Endpoint(reply.host, reply.port))
                permission = encode_command(b"ASKING")
                # Both are written in one step, so that no other command comes between them.
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(node.call, permission)
                    outcome = await node.call(whole)
            elif isinstance(reply, MovedError):
                await self._refresh()
                node = await self.node_of(key)
                outcome = await node.call(data)
            elif word in ("READONLY", "LOADING", "MASTERDOWN"):
                node.reconnect(f"the server is not ready: {word}")
                outcome = await node.call(data)
            elif word in ("TRYAGAIN", "CLUSTERDOWN") and attempt < _REDIRECTS - 1:
                await trio.sleep(self._timeout / _REDIRECTS)
                await self._refresh()
                node = await self.node_of(key)
                outcome = await node.call(data)
            else:
                break
            if not isinstance(outcome, Exception):
                return outcome
            reply = outcome
        word = _word(reply)
        advice = _ADVICE.get(word, "check the log of the server")
        text = _text(reply) if str(reply).startswith(word) else f"{word} {_text(reply)}"
        kind = RedisUnavailable if word in _PASSING else StoreError
        raise kind(f"the Redis server at {self._address} rejects a command: {text}: {advice}")

    # --- servers -------------------------------------------------------------------------------------------------------

    def _node(
        self, endpoint: Endpoint, timeout: float = 0.0, find: Callable[[], Awaitable[Endpoint]] | None = None
    ) -> RedisNode:
        async def known() -> Endpoint:
            return endpoint

        if find is None:
            find = self._find_primary if self._address.topology is Topology.SENTINEL else known
        return RedisNode(
            find,
            self._check,
            credentials=self._address.credentials,
            tls=self._address.tls,
            timeout=timeout or self._timeout,
            place=str(endpoint),
            database=self._address.database,
        )

    def _check(self, facts: ServerFacts, endpoint: Endpoint) -> None:
        topology = self._address.topology
        expected = {Topology.CLUSTER: "cluster"}.get(topology, "standalone")
        if facts.mode != expected:
            scheme = {"cluster": "redis+cluster", "sentinel": "redis+sentinel"}.get(facts.mode, "redis")
            raise StoreError(
                f"the Redis server {endpoint} runs in the mode {facts.mode!r}: begin the URL with {scheme}:// or the same "
                "with rediss"
            )
        if facts.role not in ("", "master"):
            if topology is Topology.SERVER:
                raise StoreError(
                    f"the Redis server {endpoint} is a replica, which cannot be written: use the address of its primary, "
                    "or Sentinel"
                )
            raise PipelineBroken("the server is a replica")
        try:
            is_old = int(facts.version.partition(".")[0]) < 7
        except ValueError:
            is_old = False
        if is_old:
            raise StoreError(
                f"the Redis server {endpoint} has version {facts.version}: version 7.0 or later is required"
            )

    async def _find_primary(self) -> Endpoint:
        """Ask the sentinels for the current primary server.

        Raises:
            PipelineBroken: No sentinel responded.
            StoreError: The sentinels do not know the service.
        """
        reasons: list[str] = []
        unknown = 0
        for sentinel in self._address.endpoints:
            try:
                with trio.fail_after(_CONNECT_SECONDS / max(2, len(self._address.endpoints))):
                    reply = await self._ask(
                        sentinel, (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._address.service.encode())
                    )
            except _TEMPORARY as error:
                reasons.append(f"{sentinel}: {_describe(error)}")
                continue
            if isinstance(reply, list) and len(reply) == 2:
                host, port = reply
                if isinstance(host, bytes) and isinstance(port, bytes):
                    return Endpoint(host.decode(), int(port))
            unknown += 1
        if unknown and unknown == len(self._address.endpoints):
            raise StoreError(
                f"the sentinels at {self._address} do not know the service {self._address.service!r}: correct the name "
                "in the URL"
            )
        raise PipelineBroken("no sentinel responds: " + "; ".join(reasons))

    async def _ask(self, endpoint: Endpoint, args: Sequence[bytes]) -> Value:
        """Run one command on a connection of its own.

        Raises:
            PipelineBroken: The server cannot be reached, or rejects the command.
            StoreError: The configuration is wrong.
        """
        from coredis.exceptions import RedisError  # lazy: an extra

        is_sentinel = self._address.topology is Topology.SENTINEL
        credentials = self._address.sentinel_credentials if is_sentinel else self._address.credentials
        asker = RedisNode(
            self._find_primary,
            self._check,
            credentials=credentials,
            tls=self._address.tls,
            timeout=self._timeout,
            place=str(endpoint),
        )
        pipeline = await asker._open(endpoint)  # noqa: SLF001  # the same class of connection
        reply: Value = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pipeline.run)
                try:
                    facts = await pipeline.greet(credentials)
                    if is_sentinel and facts.mode != Topology.SENTINEL.value:
                        raise StoreError(
                            f"{endpoint} is not a sentinel: begin the URL with redis:// or redis+cluster://"
                        )
                    if not is_sentinel:
                        self._check_mode(facts, endpoint)
                    reply = await pipeline.command(*args)
                except RedisError as error:
                    raise asker._rejected(error) from None  # noqa: SLF001  # see above
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only_error(group) from None
        finally:
            with trio.CancelScope(shield=True):
                await pipeline.aclose()
        return reply

    def _check_mode(self, facts: ServerFacts, endpoint: Endpoint) -> None:
        try:
            self._check(facts, endpoint)
        except PipelineBroken:
            # A replica knows the slots, too.
            return

    def _node_at(self, endpoint: Endpoint) -> RedisNode:
        node = self._nodes.get(endpoint)
        if node is None:
            if self._nursery is None:
                raise RedisUnavailable("the cluster is not running: call Cluster.run first")
            node = self._nodes[endpoint] = self._node(endpoint)
            node.expect()
            self._nursery.start_soon(node.run)
        return node

    async def _refresh(self) -> None:
        """Ask for the servers of the slots. Raises `StoreError`."""
        if self._single is not None:
            return
        if self._refreshing is not None:
            await self._refreshing.wait()
            return
        self._refreshing = refreshing = trio.Event()
        self._refreshed_at = trio.current_time()
        try:
            self._owners = await self._look_up()
            used = {each for each in self._owners if each is not None}
            for endpoint in self._nodes.keys() - used:
                self._nodes.pop(endpoint).remove()
        finally:
            self._refreshing = None
            refreshing.set()

    async def _look_up(self) -> list[Endpoint | None]:
        if self._nursery is None:
            raise RedisUnavailable("the cluster is not running: call Cluster.run first")
        reasons: list[str] = []
        known = list(dict.fromkeys([*self._nodes, *self._address.endpoints]))
        for endpoint in known:
            try:
                with trio.fail_after(_CONNECT_SECONDS):
                    reply = await self._ask(endpoint, (b"CLUSTER", b"SLOTS"))
            except _TEMPORARY as error:
                reasons.append(f"{endpoint}: {_describe(error)}")
                continue
            return _slots(reply, endpoint)
        raise RedisUnavailable(
            f"no node of the Redis Cluster can be reached: {'; '.join(reasons)}: check that they run, and that the "
            "addresses in the URL are correct"
        )


def _slots(reply: Value, source: Endpoint) -> list[Endpoint | None]:
    owners: list[Endpoint | None] = [None] * _SLOTS
    for row in reply if isinstance(reply, list) else ():
        match row:
            case [int(first), int(last), [host, int(port), *_], *_]:
                # A node that does not know its own address leaves it out.
                name = host.decode() if isinstance(host, bytes) and host else source.host
                owners[first : last + 1] = [Endpoint(name, port)] * (last + 1 - first)
            case _:
                continue
    return owners
