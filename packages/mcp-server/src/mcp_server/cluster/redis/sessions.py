"""A store of sessions in Redis, which all workers use."""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_server.cluster.redis.changes import (
    Position,
    SessionChanges,
    find_pending,
    from_key,
    to_key,
    uri_bytes,
    uri_text,
)
from mcp_server.cluster.redis.scripts import script
from mcp_server.stores.sessions import SessionRecord, StoredEvent, StoredStream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits import Limits
    from mcp_server.cluster.redis.changes import ChangeLog
    from mcp_server.cluster.redis.connection import RedisConnection
    from mcp_server.cluster.redis.key_table import KeyNames
    from mcp_server.cluster.redis.membership import Membership
    from mcp_server.cluster.redis.pipeline import Value
    from mcp_server.stores.sessions import PendingNotification

__all__ = ["RedisSessions"]

_DAY: Final = 86_400.0
"""Lifetime of a session in seconds, until the first call of `purge` states how long sessions live."""

_SHORTEST: Final = 60.0
_MARGIN: Final = 1.25
"""A session expires in Redis later than for the workers: the time of last use is stored some times per lifetime only."""

_PURGED: Final = 1_000
"""Sessions that one call of `purge` deletes in one step."""

_LARGEST: Final = 2**53
"""The largest number of a stream or event. Lua has no larger integers. Clients can send larger ones."""

_NAMES: Final = 4_096
"""Sessions whose key names are cached."""


class RedisSessions:
    """A `SessionStore` in Redis.

    `Limits.sessions` bounds the sessions of all workers together, and `Limits.replay_events` and `Limits.replay_bytes` bound
    each session.

    Args:
        connection: The connection to Redis.
        names: The names of the keys.
        changes: The log of changes.
        membership: The workers of the cluster.
        limits: The bounds. All workers should have the same.
    """

    def __init__(
        self,
        connection: RedisConnection,
        names: KeyNames,
        changes: ChangeLog,
        membership: Membership,
        limits: Limits,
    ) -> None:
        self._connection: Final = connection
        self._names: Final = names
        self._keys: Final = lru_cache(_NAMES)(names.session)
        self._changes: Final = changes
        self._membership: Final = membership
        self._limits: Final = limits
        self._bounds: Final = (b"%d" % limits.replay_events, b"%d" % limits.replay_bytes)
        # A session that is notified of more changes has its changes computed again.
        self._most_changes: Final = 2 * limits.watched_resources + 256
        self._lifetime = _DAY
        self._closed = False
        self._append: Final = script("session_append")

    def __repr__(self) -> str:
        return f"<RedisSessions {self._connection!r}>"

    # --- records -------------------------------------------------------------------------------------------------------

    async def save(self, record: SessionRecord) -> tuple[str, ...]:
        """Store a session or replace its record. Remove the least recently used sessions if there are too many."""
        self._check()
        used_at = b"%.6f" % record.used_at
        reply = await self._connection.run(
            script("session_index"),
            (self._names.sessions, self._names.epoch, self._names.changes),
            uri_bytes(record.id),
            used_at,
            b"%d" % self._limits.sessions,
        )
        position, *evicted = _list(reply)
        optional = {b"pr": record.principal, b"ll": record.log_level}
        fields = {
            b"rv": record.revision.encode(),
            b"cl": json.dumps(record.client, separators=(",", ":")).encode(),
            b"us": repr(record.used_at).encode(),
            **{name: uri_bytes(value) for name, value in optional.items() if value is not None},
        }
        removed = [name for name, value in optional.items() if value is None]
        await self._connection.run(
            script("session_save"),
            self._keys(record.id),
            b"%d" % (self._lifetime * 1000),
            _bytes(position),
            b"%d" % len(removed),
            *removed,
            *[part for field in fields.items() for part in field],
        )
        ids = tuple([uri_text(_bytes(each)) for each in evicted])
        for id in ids:
            await self.delete(id)
        return ids

    async def load(self, id: str) -> SessionRecord | None:
        """Return the record of a session, or `None` if the session does not exist."""
        self._check()
        key = self._keys(id)[0]
        principal, revision, client, level, used_at = _list(
            await self._connection.command(key, b"HMGET", key, b"pr", b"rv", b"cl", b"ll", b"us")
        )
        if not isinstance(revision, bytes):
            return None
        return SessionRecord(
            id=id,
            principal=uri_text(principal) if isinstance(principal, bytes) else None,
            revision=revision.decode(),
            client=json.loads(_bytes(client)),
            log_level=uri_text(level) if isinstance(level, bytes) else None,
            used_at=float(_bytes(used_at)),
        )

    async def touch(self, id: str, used_at: float) -> bool:
        """Renew the time of last use of a session."""
        self._check()
        reply = await self._connection.run(
            script("session_touch"), self._keys(id), repr(used_at).encode(), b"%d" % (self._lifetime * 1000)
        )
        if reply == 0:
            return False
        await self._connection.command(
            self._names.sessions, b"ZADD", self._names.sessions, b"%.6f" % used_at, uri_bytes(id)
        )
        return True

    async def delete(self, id: str) -> None:
        """Delete a session with its subscriptions and streams."""
        self._check()
        keys = self._keys(id)
        await self._connection.command(keys[0], b"DEL", *keys)
        await self._forget(id)

    async def _forget(self, id: str) -> None:
        await self._connection.command(self._names.sessions, b"ZREM", self._names.sessions, uri_bytes(id))

    async def purge(self, used_before: float, now: float) -> int:
        """Delete the sessions that have not been used for too long, and return their number."""
        self._check()
        self._lifetime = max(_SHORTEST, (now - used_before) * _MARGIN)
        for id in await self._used(b"(%.6f" % now, b"+inf"):
            await self.touch(id, now)
        purged = 0
        while ids := await self._used(b"-inf", b"(%.6f" % used_before):
            for id in ids:
                reply = await self._connection.run(script("session_purge"), self._keys(id), repr(used_before).encode())
                if isinstance(reply, bytes):
                    # The session was used, but the worker could not state it.
                    await self.touch(id, float(reply))
                    continue
                await self._forget(id)
                purged += 1
        return purged

    async def _used(self, first: bytes, last: bytes) -> list[str]:
        """Return the ids of sessions that were last used between two times."""
        key = self._names.sessions
        reply = await self._connection.command(key, b"ZRANGEBYSCORE", key, first, last, b"LIMIT", b"0", b"%d" % _PURGED)
        return [uri_text(_bytes(each)) for each in _list(reply)]

    # --- subscriptions -------------------------------------------------------------------------------------------------

    async def subscribe(self, session: str, uri: str) -> None:
        """Add a resource to the subscriptions of a session."""
        self._check()
        await self._changes.settled()
        position = await self._changes.now()
        record, _, subscriptions, _ = self._keys(session)
        await self._connection.run(
            script("session_subscribe"), (record, subscriptions), uri_bytes(uri), str(position).encode()
        )

    async def unsubscribe(self, session: str, uri: str) -> None:
        """Remove a resource from the subscriptions of a session."""
        self._check()
        key = self._keys(session)[2]
        await self._connection.command(key, b"HDEL", key, uri_bytes(uri))

    async def subscriptions(self, session: str) -> frozenset[str]:
        """Return the URIs that a session is subscribed to."""
        self._check()
        key = self._keys(session)[2]
        reply = await self._connection.command(key, b"HKEYS", key)
        return frozenset([uri_text(_bytes(each)) for each in _list(reply)])

    # --- changes -------------------------------------------------------------------------------------------------------

    def record_notification(self, notification: PendingNotification) -> None:
        """Record a change in the log of changes."""
        if not self._closed:
            self._changes.record(notification)

    async def pending_notifications(self, session: str) -> tuple[PendingNotification, ...]:
        """Return the pending notifications of a session."""
        self._check()
        await self._changes.settled()
        return await self._pending(session, compact=False)

    async def remove_notifications(self, session: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove pending notifications of a session."""
        self._check()
        await self._changes.settled()
        record, _, _, notified = self._keys(session)
        if not self._changes.position.epoch:
            await self._changes.now()
        await self._connection.run(
            script("session_notified"),
            (record, notified),
            str(self._changes.position).encode(),
            *map(to_key, notifications),
        )

    async def _pending(self, session: str, *, compact: bool) -> tuple[PendingNotification, ...]:
        """Compute the pending changes of a session. Store them if asked to, or if there are too many."""
        record, _, subscriptions, notified = self._keys(session)
        # The number of notified changes is read first: if it changes later, nothing is stored.
        position, version = _list(await self._connection.command(record, b"HMGET", record, b"ps", b"nv"))
        if version is None:
            return ()
        watched = _dict(await self._connection.command(subscriptions, b"HGETALL", subscriptions))
        stored = _dict(await self._connection.command(notified, b"HGETALL", notified))
        state = SessionChanges(
            position=Position.parse(position),
            subscriptions={uri_text(uri): Position.parse(at) for uri, at in watched.items()},
            notified={from_key(key[1:]): Position.parse(at) for key, at in stored.items() if key[:1] == b"n"},
            remembered=[(from_key(key[1:]), Position.parse(at)) for key, at in stored.items() if key[:1] == b"p"],
        )
        log = await self._changes.read(state.position)
        pending, folded = find_pending(state, log, self._limits)
        if compact or folded:
            at = str(log.position).encode()
            await self._connection.run(
                script("session_compact"),
                (record, notified),
                _bytes(version),
                at,
                *[part for each in pending for part in (to_key(each), at)],
            )
        return pending

    # --- streams -------------------------------------------------------------------------------------------------------

    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        """Begin a stream, and return its number."""
        self._check()
        ids = list(dict.fromkeys(map(json.dumps, pending)))
        reply = await self._connection.run(
            script("session_begin"),
            self._keys(session)[:1],
            b"0" if ids else b"1",
            worker.encode(),
            secrets.token_hex(4).encode(),
            *self._bounds,
            json.dumps(ids).encode(),
        )
        if isinstance(reply, list):
            kind, observed = map(_bytes, reply)
            setting, unit = {b"events": ("replay_events", ""), b"bytes": ("replay_bytes", " in bytes")}[kind]
            allowed: int = getattr(self._limits, setting)
            raise LimitExceeded(
                f"undelivered responses of one session{unit}",
                observed=int(observed),
                allowed=allowed,
                setting=f"Limits.{setting}",
            )
        return int(reply) if isinstance(reply, int) else 0

    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        """Store events, all of them or none."""
        self._check()
        if not events:
            return
        args: list[bytes] = []
        position = b""
        for event in events:
            change = b""
            if event.notification is not None:
                change = to_key(event.notification)
                if not position:
                    position = await self._position()
            answers = b"" if event.answers is None else json.dumps(event.answers).encode()
            args += (b"%d" % event.stream, b"%d" % event.number, answers, event.data, change)
        record, log, _, notified = self._keys(session)
        reply = await self._connection.run(self._append, (record, log, notified), *self._bounds, position, *args)
        if isinstance(reply, list):
            raise LocalProtocolError(_rejected(events, *map(_bytes, reply)))
        if isinstance(reply, int) and reply > self._most_changes:
            await self._pending(session, compact=True)

    async def _position(self) -> bytes:
        """Return a position that includes the change of which a client is about to be notified."""
        await self._changes.settled()
        if not self._changes.position.epoch:
            await self._changes.now()
        return str(self._changes.position).encode()

    async def delivered(self, session: str, stream: int) -> None:
        """End a stream."""
        self._check()
        await self._connection.run(script("session_delivered"), self._keys(session)[:1], b"%d" % stream)

    async def streams(self, session: str) -> tuple[StoredStream, ...]:
        """Return the streams of a session, in the order of their numbers."""
        self._check()
        key = self._keys(session)[0]
        fields = _dict(await self._connection.command(key, b"HGETALL", key))
        found: list[StoredStream] = []
        for number in sorted(int(name[1:]) for name in fields if name[:1] == b"s" and name[1:].isdigit()):
            state = _bytes(fields[b"s%d" % number]).split(b" ", 7)
            ids = fields.get(b"p%d" % number)
            pending = tuple([json.loads(id) for id in json.loads(ids)]) if isinstance(ids, bytes) else ()
            found.append(StoredStream(number, int(state[0]), pending, state[7].decode()))
        await self._membership.look_up(each.worker for each in found)
        return tuple(found)

    async def events(self, session: str, stream: int, after: int) -> tuple[StoredEvent, ...]:
        """Return the events of a stream whose number is greater than `after`."""
        self._check()
        if max(stream, after) >= _LARGEST:
            return ()
        reply = _list(
            await self._connection.run(
                script("session_events"), self._keys(session)[1:2], b"%d" % stream, b"%d" % after
            )
        )
        return tuple(_events(stream, map(_bytes, reply)))

    async def aclose(self) -> None:
        """Close the store."""
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("the session store was closed")


def _events(stream: int, values: Iterable[bytes]) -> Iterable[StoredEvent]:
    for number, answers, data in zip(*[iter(values)] * 3, strict=True):
        id: RequestId | None = json.loads(answers) if answers else None
        yield StoredEvent(stream, int(number), data, id)


def _rejected(events: Sequence[StoredEvent], reason: bytes, stream: bytes, detail: bytes) -> str:
    """Return why a script did not store events."""
    text = detail.decode()
    if reason == b"gap":
        number = next((each.number for each in events if each.stream == int(stream) and each.number > int(text) + 1), 0)
        return f"event {number} of stream {stream.decode()} cannot follow event {text}"
    return {
        b"unknown": f"stream {stream.decode()} was not begun",
        b"over": f"stream {stream.decode()} has ended",
        b"answers": f"stream {stream.decode()} has no pending request with the id {text}",
    }[reason]


def _list(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise TypeError(f"Redis sent {type(value).__name__} in place of a list")
    return value


def _dict(value: Value) -> dict[bytes, Value]:
    if not isinstance(value, dict):
        raise TypeError(f"Redis sent {type(value).__name__} in place of a map")
    return value


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"Redis sent {type(value).__name__} in place of a string")
    return value
