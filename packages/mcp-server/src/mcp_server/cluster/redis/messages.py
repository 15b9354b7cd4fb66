"""The messages between workers: a stream for all, and an inbox for each worker.

*Sending.* Messages wait in a bounded queue, and one task sends them in their order, after the changes that were recorded
before them. What the queue cannot hold is lost; the next message then says so.

*Receiving.* One command waits for both streams. The ids of the messages of a stream are successive numbers, so that a
worker notices when the server removed messages that it had not received. Messages have a number of their sender, too: a
message that was sent twice, because its reply was lost, is received once.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import InvalidValue
from mcp_server.cluster.messages import decode_message, encode_message
from mcp_server.cluster.redis.changes import Position
from mcp_server.cluster.redis.connection import RedisUnavailable
from mcp_server.cluster.redis.pipeline import encode_command
from mcp_server.cluster.redis.scripts import script
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import ClusterReceiver
    from mcp_server.cluster.redis.changes import ChangeLog
    from mcp_server.cluster.redis.connection import RedisConnection, RedisNode
    from mcp_server.cluster.redis.key_table import KeyNames
    from mcp_server.cluster.redis.membership import Beat, Membership
    from mcp_server.cluster.redis.pipeline import Value

__all__ = ["BLOCK_SECONDS", "MessageReader", "MessageSender"]

_log: Final = logging.getLogger("mcp_server")

_QUEUE: Final = 10_000
_QUEUE_BYTES: Final = 16 * 1024 * 1024
"""Messages that wait in a worker until Redis can be reached."""

_BATCH: Final = 100
_BATCH_BYTES: Final = 1024 * 1024
"""Messages that are sent in one step."""

_KEPT: Final = b"10000"
_KEPT_BYTES: Final = b"%d" % (16 * 1024 * 1024)
"""Messages that a stream in Redis keeps, for workers that are behind."""

_LIFETIME: Final = b"3600000"
_INBOX_LIFETIME: Final = b"60000"
"""Lifetime of a stream after its last message, in milliseconds. The worker of an inbox is lost after three seconds."""

BLOCK_SECONDS: Final = 1.0
"""Time for which the server waits for messages before it responds, in seconds."""

_READ: Final = b"200"
"""Messages of one reply."""

_PAUSE: Final = 0.2
"""Time between two attempts while Redis cannot be reached, in seconds."""

_GAP: Final = b""
"""The text of a message which states that others were lost."""


class MessageSender:
    """The queue of messages of one worker.

    Args:
        connection: The connection to Redis.
        names: The names of the keys.
        worker: The id of this worker.
        changes: The log of changes.
        membership: The workers of the cluster.
    """

    def __init__(
        self,
        connection: RedisConnection,
        names: KeyNames,
        worker: str,
        changes: ChangeLog,
        membership: Membership,
    ) -> None:
        self._connection: Final = connection
        self._names: Final = names
        self._worker: Final = worker
        self._changes: Final = changes
        self._membership: Final = membership
        self._queue: deque[tuple[str, int, bytes]] = deque()
        self._bytes = 0
        self._number = 0
        self._is_lost = False
        self._sending: Final = trio.Lock()
        self._wake = trio.Event()
        changes.wake = self._wake

    def broadcast(self, message: ClusterMessage) -> None:
        """Send a message to all other workers. Does not block."""
        self._add("", encode_message(message))

    def send(self, worker: str, message: ClusterMessage) -> None:
        """Send a message to one worker, unless it is lost. Does not block."""
        if worker != self._worker and self._membership.is_alive(worker):
            self._add(worker, encode_message(message))

    def _add(self, target: str, data: bytes) -> None:
        if len(self._queue) >= _QUEUE or self._bytes + len(data) > _QUEUE_BYTES:
            if not self._is_lost:
                _log.error("messages to other workers are lost: messages=%d bytes=%d", len(self._queue), self._bytes)
            self._is_lost = True
            self._queue.clear()
            target, data = "", _GAP
            self._bytes = 0
        self._number += 1
        self._queue.append((target, self._number, data))
        self._bytes += len(data)
        self._wake.set()

    async def run(self) -> None:
        """Send messages until cancelled. Raises `StoreError` if the configuration is wrong."""
        while True:
            await self._wake.wait()
            self._wake = self._changes.wake = trio.Event()
            while self._queue or self._changes.is_waiting:
                try:
                    async with self._sending:
                        await self._changes.flush()
                        await self._send_batch()
                except RedisUnavailable:
                    await trio.sleep(_PAUSE)
            self._is_lost = False

    async def flush(self) -> None:
        """Record the changes that wait, and send the messages that wait. Raises `StoreError`, and then keeps them."""
        last = self._number
        # A batch that is being sent by `run` is still in the queue.
        async with self._sending:
            await self._changes.flush()
            while self._queue and self._queue[0][1] <= last:
                await self._send_batch()

    async def _send_batch(self) -> None:
        if not self._queue:
            return
        target = self._queue[0][0]
        args: list[bytes] = []
        count = size = 0
        for other, number, data in self._queue:
            if other != target or count == _BATCH or (count and size + len(data) > _BATCH_BYTES):
                break
            args += (b"%d" % number, data)
            count += 1
            size += len(data)
        last = self._queue[count - 1][1]
        keys = self._names.inbox(target) if target else (self._names.messages, self._names.messages_bytes)
        await self._connection.run(
            script("send"),
            (*keys, self._names.epoch),
            self._worker.encode(),
            _KEPT,
            _KEPT_BYTES,
            _INBOX_LIFETIME if target else _LIFETIME,
            *args,
        )
        # The queue may have been cleared meanwhile.
        while self._queue and self._queue[0][1] <= last:
            self._bytes -= len(self._queue.popleft()[2])


class MessageReader:
    """The messages that one worker receives.

    Args:
        node: A connection of its own, because commands wait for messages on it.
        names: The names of the keys.
        worker: The id of this worker.
        changes: The log of changes.
        membership: The workers of the cluster.
        receiver: Receives the messages.
    """

    def __init__(
        self,
        node: RedisNode,
        names: KeyNames,
        worker: str,
        *,
        changes: ChangeLog,
        membership: Membership,
        receiver: ClusterReceiver,
    ) -> None:
        self._node: Final = node
        self._worker: Final = worker
        self._changes: Final = changes
        self._membership: Final = membership
        self._receiver: Final = receiver
        self._keys: Final = (names.messages, names.inbox(worker)[0])
        self._places: dict[bytes, int] = {}
        self._numbers: dict[tuple[bytes, bytes], int] = {}
        self._epoch = ""

    def follow(self, beat: Beat) -> bool:
        """Begin to read after the messages that there are, or begin again if the data in Redis are others.

        Returns:
            Whether the data are others.
        """
        if beat.epoch == self._epoch:
            return False
        if self._epoch:
            _log.warning("the data in Redis were lost or replaced, or the server restarted: messages may be missing")
            self._receiver.missed()
        self._epoch = beat.epoch
        self._places = dict(zip(self._keys, map(_number, (beat.messages, beat.inbox)), strict=True))
        return True

    async def run(self) -> None:
        """Receive messages until cancelled."""
        while True:
            places = dict(self._places)
            command = encode_command(
                b"XREAD",
                b"COUNT",
                _READ,
                b"BLOCK",
                b"%d" % (BLOCK_SECONDS * 1000),
                b"STREAMS",
                *places,
                *[b"0-%d" % place for place in places.values()],
            )
            try:
                reply = await self._node.call(command)
            except StoreError:
                await trio.sleep(_PAUSE)
                continue
            if isinstance(reply, Exception):
                # For example: the node of a Redis Cluster does not have the keys any more.
                self._node.reconnect(str(reply))
                await trio.sleep(_PAUSE)
                continue
            if isinstance(reply, dict) and places.keys() == self._places.keys():
                for key, entries in reply.items():
                    if self._places[key] == places[key]:
                        self._receive(key, entries)

    def _receive(self, key: bytes, entries: Value) -> None:
        for entry in entries if isinstance(entries, list) else ():
            match entry:
                case [bytes(id), [b"w", bytes(sender), b"n", bytes(number), b"c", bytes(position), b"m", bytes(data)]]:
                    self._receive_one(key, _number(id), sender, int(number), data)
                    self._changes.seen(Position.parse(position))
                case _:
                    _log.error("unexpected entry in a stream of messages")

    def _receive_one(self, key: bytes, place: int, sender: bytes, number: int, data: bytes) -> None:
        if place > self._places[key] + 1:
            _log.warning("messages of other workers were lost: messages=%d", place - self._places[key] - 1)
            self._receiver.missed()
        self._places[key] = place
        if sender == self._worker.encode():
            return
        name = sender.decode()
        self._membership.heard(name)
        if number <= self._numbers.get((key, sender), 0):
            return
        if len(self._numbers) > 1_000:
            # The numbers of lost workers. The others continue with the next message.
            self._numbers = {
                each: value for each, value in self._numbers.items() if self._membership.is_alive(each[1].decode())
            }
        self._numbers[key, sender] = number
        if data == _GAP:
            self._receiver.missed()
            return
        try:
            message = decode_message(data)
        except InvalidValue:
            _log.exception("message of another worker cannot be read: sender=%s", name)
            return
        if message is not None:
            self._receiver.receive(name, message)


def _number(id: bytes) -> int:
    return int(id.partition(b"-")[2])
