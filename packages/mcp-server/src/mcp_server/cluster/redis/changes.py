"""The log of changes of lists and resources, and the changes of which the client of a session was not notified.

A change is one entry of the log, however many sessions and streams it concerns. A session has a position in the log, from
which its pending changes are computed when a client connects. It also has, for each change that its client was notified
of since that position, the position up to which the notification holds.

A position has the id of the data (`lua/common.lua`, function `epoch`). If the server restarted, took over or lost its
data, or if the log was trimmed, it is not known which changes came after a position: then all lists and all subscribed
resources may have changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.engine.subscriptions import covering
from mcp_core.field_methods import FieldValue
from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
)
from mcp_server.cluster.redis.scripts import script
from mcp_server.stores.sessions import PendingNotification

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from mcp_core.limits import Limits
    from mcp_server.cluster.redis.connection import RedisConnection
    from mcp_server.cluster.redis.key_table import KeyNames
    from mcp_server.cluster.redis.pipeline import Value

__all__ = [
    "ChangeLog",
    "LogPart",
    "Position",
    "SessionChanges",
    "find_pending",
    "from_key",
    "to_key",
    "uri_bytes",
    "uri_text",
]

_log: Final = logging.getLogger("mcp_server")

_LENGTH: Final = b"10000"
"""Changes in the log. A client that was away for more changes is notified that everything may have changed."""

_QUEUE: Final = 10_000
"""Changes that wait until Redis can be reached. Beyond that, everything may have changed."""

_BATCH: Final = 500

_EVERYTHING: Final = PendingNotification("*")
"""An entry of the log: changes could not be recorded, so that everything may have changed."""

_LISTS: Final = tuple(
    PendingNotification(each.name)
    for each in (
        NOTIFICATIONS_TOOLS_LIST_CHANGED,
        NOTIFICATIONS_PROMPTS_LIST_CHANGED,
        NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    )
)


def uri_bytes(uri: str) -> bytes:
    """Return the encoding of a URI. A client can send a lone surrogate, which UTF-8 does not have."""
    return uri.encode("utf-8", "surrogatepass")


def uri_text(uri: bytes) -> str:
    """Return the URI that `uri_bytes` encoded."""
    return uri.decode("utf-8", "surrogatepass")


def to_key(notification: PendingNotification) -> bytes:
    """Return the name under which a change is stored in a session."""
    return uri_bytes(f"{notification.method} {notification.uri}")


def from_key(key: bytes) -> PendingNotification:
    """Return the change that `to_key` named."""
    method, _, uri = uri_text(key).partition(" ")
    return PendingNotification(method, uri)


def _updated(uri: str) -> PendingNotification:
    return PendingNotification(NOTIFICATIONS_RESOURCES_UPDATED.name, uri)


@attrs.frozen(eq=False, repr=False)
class Position(FieldValue):
    """A position in the log: after the change with this number."""

    epoch: str
    """The id of the data."""
    number: int
    """The number of the change."""

    @classmethod
    def parse(cls, text: Value) -> Position:
        """Return the position with this text; or for no text a position that is never reached."""
        if not isinstance(text, bytes) or not text:
            return cls("", 0)
        epoch, _, number = text.decode("ascii").partition("/")
        return cls(epoch, int(number))

    def __str__(self) -> str:
        return f"{self.epoch}/{self.number}"


@attrs.frozen(eq=False, repr=False)
class LogPart(FieldValue):
    """The log after a position."""

    position: Position
    """The current position."""
    first: int
    """The number of the oldest change that the log has."""
    entries: Sequence[tuple[int, PendingNotification]]
    """The changes after the position, with their numbers."""

    def reaches(self, position: Position) -> bool:
        """Return whether the log has all changes after a position."""
        return position.epoch == self.position.epoch and position.number >= self.first - 1


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionChanges(FieldValue):
    """The data of a session about changes."""

    position: Position
    """The position of the session: changes before it are not pending, except the remembered ones."""
    subscriptions: Mapping[str, Position]
    """The subscribed URIs, with the position at the time of the subscription."""
    notified: Mapping[PendingNotification, Position]
    """The position up to which the client was notified of a change."""
    remembered: Sequence[tuple[PendingNotification, Position]] = ()
    """Pending changes before the position of the session."""


def _after(log: LogPart, *positions: Position | None) -> int | None:
    """Return the number after which changes are pending; `None` if the log does not have all changes after it."""
    numbers = [each.number for each in positions if each is not None and log.reaches(each)]
    return max(numbers, default=None)


def _watching(subscriptions: Collection[str], uri: str) -> Iterator[str]:
    """Yield the subscribed URIs that cover `uri`."""
    if uri.count("/") <= len(subscriptions):
        yield from (each for each in covering(uri) if each in subscriptions)
        return
    # As in `mcp_core.engine.subscriptions`: a URI full of slashes would take quadratic time.
    for each in subscriptions:
        if each == uri or (each and uri.startswith(each) and (each.endswith("/") or uri[len(each)] == "/")):
            yield each


class _PendingChanges:
    """The changes that are found to be pending for a session, in the order in which they were first recorded."""

    def __init__(self, session: SessionChanges, log: LogPart, limits: Limits) -> None:
        self._session: Final = session
        self._log: Final = log
        self._limits: Final = limits
        self._own: Final = (*_LISTS, *map(_updated, session.subscriptions))
        self._below = 0
        self.found: dict[PendingNotification, None] = {}
        self.is_folded: bool = False
        """Whether changes were replaced by the resource that the client is subscribed to, because there are too many."""

    def _since(self, change: PendingNotification, subscription: str | None = None) -> int | None:
        """Return the number after which a change is pending; `None` if the log does not have all changes after it."""
        subscribed = None if subscription is None else self._session.subscriptions[subscription]
        return _after(self._log, self._session.position, self._session.notified.get(change), subscribed)

    def add_unknown(self) -> None:
        """Add what may have changed before the log begins."""
        for change in self._own:
            if self._since(change, change.uri if change.is_update else None) is None:
                self.found[change] = None

    def add_all(self, number: int) -> None:
        """Add everything that the session is concerned with, because of an entry of the log."""
        for change in self._own:
            if number > (self._since(change, change.uri if change.is_update else None) or 0):
                self.found[change] = None

    def add_remembered(self, change: PendingNotification, position: Position) -> None:
        """Add a change that the session remembers, if it is still subscribed to the resource."""
        subscriptions = self._session.subscriptions
        watching = [
            each
            for each in (_watching(subscriptions, change.uri) if change.is_update else ())
            if subscriptions[each].epoch != position.epoch or subscriptions[each].number < position.number
        ]
        if watching or not change.is_update:
            self._add(change, watching)

    def add_logged(self, number: int, change: PendingNotification) -> None:
        """Add a change of the log, if it concerns the session and the client was not notified of it."""
        if change.is_update:
            watching = [
                each
                for each in _watching(self._session.subscriptions, change.uri)
                if number > (self._since(change, each) or 0)
            ]
            if watching:
                self._add(change, watching)
        elif number > (self._since(change) or 0):
            self._add(change, ())

    def _add(self, change: PendingNotification, watching: Sequence[str]) -> None:
        if change in self.found:
            return
        if not watching or change.uri in self._session.subscriptions:
            self.found[change] = None
        elif self._below < self._limits.watched_resources and len(change.uri) <= self._limits.uri_chars:
            self._below += 1
            self.found[change] = None
        else:
            self.is_folded = True
            self.found.update(dict.fromkeys(map(_updated, watching)))


def find_pending(session: SessionChanges, log: LogPart, limits: Limits) -> tuple[tuple[PendingNotification, ...], bool]:
    """Compute the pending changes of a session.

    Args:
        session: The data of the session.
        log: The log after the position of the session.
        limits: The bounds `watched_resources` and `uri_chars`.

    Returns:
        The changes, in the order in which they were first recorded; and whether some were replaced by the resource that
        the client is subscribed to, because there are too many.
    """
    pending = _PendingChanges(session, log, limits)
    pending.add_unknown()
    for change, position in session.remembered:
        pending.add_remembered(change, position)
    for number, change in log.entries:
        if change == _EVERYTHING:
            pending.add_all(number)
        else:
            pending.add_logged(number, change)
    return tuple(pending.found), pending.is_folded


class ChangeLog:
    """The connection of one worker to the log.

    Args:
        connection: The connection to Redis.
        names: The names of the keys.
        uri_chars: The maximum length of a URI in the log.
    """

    def __init__(self, connection: RedisConnection, names: KeyNames, uri_chars: int) -> None:
        self._connection: Final = connection
        self._keys: Final = (names.epoch, names.changes)
        self._uri_chars: Final = uri_chars
        self.position: Position = Position("", 0)
        """The latest position that this worker knows. A client that is notified of a change now has been notified of all
        earlier changes of the same kind."""
        self._queue: dict[PendingNotification, None] = {}
        self._flushing: Final = trio.Lock()
        self.wake: trio.Event | None = None
        """Is set when a change waits to be recorded."""
        self._is_lost = False

    def seen(self, position: Position) -> None:
        """Update the latest known position."""
        if position.epoch and (position.epoch != self.position.epoch or position.number > self.position.number):
            self.position = position

    def record(self, change: PendingNotification) -> None:
        """Record a change as soon as possible. Does not block."""
        if len(self._queue) >= _QUEUE:
            if not self._is_lost:
                _log.error(
                    "changes are lost, clients are notified that everything may have changed: changes=%d", _QUEUE
                )
            self._is_lost = True
            self._queue = {_EVERYTHING: None}
        else:
            # One more character than a subscription can have: the URI is then known to be too long.
            self._queue[PendingNotification(change.method, change.uri[: self._uri_chars + 1])] = None
        if self.wake is not None:
            self.wake.set()

    @property
    def is_waiting(self) -> bool:
        """Whether changes wait to be recorded."""
        return bool(self._queue)

    async def flush(self) -> None:
        """Record the changes that wait. Raises `StoreError`, and then keeps them."""
        # One after the other: a change that is recorded twice would be notified twice.
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        while self._queue:
            batch = list(self._queue)[:_BATCH]
            args = [part for each in batch for part in (each.method.encode(), uri_bytes(each.uri))]
            position = await self._connection.run(script("changes_record"), self._keys, _LENGTH, *args)
            for each in batch:
                self._queue.pop(each, None)
            self.seen(Position.parse(position))
        self._is_lost = False

    async def settled(self) -> None:
        """Wait until the changes of this worker are recorded.

        Raises:
            StoreError: They cannot be recorded.
        """
        if self._queue:
            await self.flush()

    async def read(self, position: Position | None) -> LogPart:
        """Return the log after a position, or only the current position. Raises `StoreError`."""
        after = b"" if position is None else str(position).encode()
        reply = await self._connection.run(script("changes_read"), self._keys, after)
        if not isinstance(reply, list):
            raise TypeError(f"unexpected reply: {reply!r}")
        part = _log_part(reply)
        self.seen(part.position)
        return part

    async def now(self) -> Position:
        """Return the current position. Raises `StoreError`."""
        return (await self.read(None)).position


def _log_part(reply: Sequence[Value]) -> LogPart:
    current, first, *rest = reply
    entries: list[tuple[int, PendingNotification]] = []
    for number, method, uri in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if isinstance(number, bytes) and isinstance(method, bytes) and isinstance(uri, bytes):
            entries.append((int(number), PendingNotification(method.decode(), uri_text(uri))))
    return LogPart(Position.parse(current), int(first) if isinstance(first, bytes) else 0, entries)
