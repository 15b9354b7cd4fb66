"""The keys that a cluster uses in Redis: one table, from which the names and the page of the documentation are made.

In a Redis Cluster, the part of a name in braces decides which server has the key. What one script uses is on one server:
the keys of a session, the keys of the tasks of an owner, and the keys of the whole cluster.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import attrs

from mcp_core.field_methods import FieldValue

__all__ = ["KEY_TABLE", "LAYOUT", "KeyNames", "KeyRow", "acl_rules", "find_row"]

LAYOUT: Final = 1
"""The version of the names and values of the keys. Workers with different versions cannot use the same prefix."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class KeyRow(FieldValue):
    """A kind of key."""

    name: str
    """The name, with the variable parts in angle brackets."""
    type: str
    """The type, as `TYPE` returns it."""
    content: str
    """What the key contains."""
    size: str
    """The memory in bytes, as a formula of what the key contains."""
    lifetime: str
    """When the key expires."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that the names match."""
        return re.compile(re.sub(r"<[a-z ]+>", "[^{}:]+", re.escape(self.name).replace(r"\ ", " ")) + r"\Z")


_USED: Final = "1 day after a worker last ran"
_SESSION: Final = "1.25 x `session_idle` after the last use of the session"

KEY_TABLE: Final = (
    KeyRow(
        name="{<prefix>}:layout",
        type="string",
        content="the version of this table that the workers use",
        size="100",
        lifetime=_USED,
    ),
    KeyRow(
        name="{<prefix>}:epoch",
        type="hash",
        content="the id of the data, which changes when the server restarts, takes over or loses its data; the number of changes",
        size="200",
        lifetime=_USED,
    ),
    KeyRow(
        name="{<prefix>}:workers",
        type="zset",
        content="the workers, by the time at which they renewed their entry",
        size="100 x workers",
        lifetime="1 minute after a worker last ran",
    ),
    KeyRow(
        name="{<prefix>}:keys",
        type="string",
        content="the keys that seal request states and cursors, with their age",
        size="200 x keys",
        lifetime=_USED,
    ),
    KeyRow(
        name="{<prefix>}:messages",
        type="stream",
        content="messages to all workers",
        size="at most 10,000 messages and 16 MiB",
        lifetime="1 hour after the last message",
    ),
    KeyRow(
        name="{<prefix>}:messages:bytes",
        type="string",
        content="the size of the messages to all workers",
        size="100",
        lifetime="1 hour after the last message",
    ),
    KeyRow(
        name="{<prefix>}:inbox:<worker>",
        type="stream",
        content="messages to one worker",
        size="at most 10,000 messages and 16 MiB for each worker",
        lifetime="1 minute after the last message",
    ),
    KeyRow(
        name="{<prefix>}:inbox:<worker>:bytes",
        type="string",
        content="the size of the messages to one worker",
        size="100 x workers",
        lifetime="1 minute after the last message",
    ),
    KeyRow(
        name="{<prefix>}:changes",
        type="stream",
        content="the latest changes of lists and resources, one entry for each change",
        size="60 + the characters of the URI, for each of about 10,000 changes",
        lifetime=_USED,
    ),
    KeyRow(
        name="{<prefix>}:sessions",
        type="zset",
        content="the ids of the sessions, by the time of last use",
        size="150 x sessions",
        lifetime=_USED,
    ),
    KeyRow(
        name="<prefix>:{session:<session>}",
        type="hash",
        content="the record of a session and its streams, without events",
        size="900 + the parameters of `initialize` + 70 x streams + 30 x pending requests",
        lifetime=_SESSION,
    ),
    KeyRow(
        name="<prefix>:{session:<session>}:events",
        type="stream",
        content="the events of a session that can be replayed",
        size="4,400 or more: 40 + data for each event, at most `Limits.replay_bytes` of data; none without events",
        lifetime=_SESSION,
    ),
    KeyRow(
        name="<prefix>:{session:<session>}:subscriptions",
        type="hash",
        content="the resources that a session is subscribed to, with the position in the changes at that time",
        size="100 + characters of the URI, for each subscription",
        lifetime=_SESSION,
    ),
    KeyRow(
        name="<prefix>:{session:<session>}:notified",
        type="hash",
        content="the changes that the client was notified of, and those that it was not, after the position of the session",
        size="100 + characters of the URI, for each of at most 256 + 2 x `Limits.watched_resources` changes",
        lifetime=_SESSION,
    ),
    KeyRow(
        name="<prefix>:{task:<task>}",
        type="string",
        content="the owner of a task",
        size="150 x tasks",
        lifetime="1 day after the time to live of the task; 30 days after the last change of a task without one",
    ),
    KeyRow(
        name="<prefix>:{owner:<owner>}:tasks",
        type="zset",
        content="the tasks of an owner, by age",
        size="120 x tasks of the owner",
        lifetime="as the task that lives longest",
    ),
    KeyRow(
        name="<prefix>:{owner:<owner>}:sizes",
        type="hash",
        content="the size of each task of an owner, whether it has ended, and the totals",
        size="80 x tasks of the owner",
        lifetime="as the task that lives longest",
    ),
    KeyRow(
        name="<prefix>:{owner:<owner>}:task:<task>",
        type="hash",
        content="the record of a task",
        size="300 + arguments, input responses and result; at most `Limits.task_bytes` for each owner",
        lifetime="1 day after the time to live of the task; 30 days after the last change of a task without one",
    ),
    KeyRow(
        name="{<prefix>}:unfinished",
        type="zset",
        content="the tasks whose status can change, by age",
        size="120 x tasks that run or wait for input",
        lifetime="30 days after the last new task",
    ),
    KeyRow(
        name="{<prefix>}:expiring",
        type="zset",
        content="the tasks that expire, by the time at which they do",
        size="120 x tasks",
        lifetime="30 days after the last new task",
    ),
    KeyRow(
        name="<prefix>:{replay:<digest>}",
        type="string",
        content="an id that was used: of a DPoP proof or a client assertion",
        size="150 x ids in their lifetime",
        lifetime="the time for which the proof is valid",
    ),
    KeyRow(
        name="<prefix>:{rate:<digest>}",
        type="hash",
        content="the level of a rate limit of a principal",
        size="200 x limits in use",
        lifetime="the time until the limit allows its burst again",
    ),
)
"""All kinds of keys."""

_COMMANDS: Final = (
    "asking cluster|slots del eval evalsha exists get hdel hget hgetall hello hincrby hkeys hlen hmget hset hsetnx info "
    "pexpire pttl script|load select set time xadd xdel xlen xrange xread xrevrange xtrim zadd zcard zrange zrangebyscore "
    "zrem zremrangebyscore"
)
"""The commands that the workers and their scripts use."""


def acl_rules(prefix: str) -> str:
    """Return the rules of an ACL user that may use the keys of a prefix and nothing else.

    Args:
        prefix: The prefix.
    """
    commands = " ".join(f"+{name}" for name in _COMMANDS.split())
    return f"resetkeys ~{prefix}:* ~{{{prefix}}}:* resetchannels -@all {commands}"


_NAMES: Final = frozenset(row.name for row in KEY_TABLE)


def find_row(prefix: str, name: str) -> KeyRow | None:
    """Return the kind of a key, by its name in Redis."""
    for row in KEY_TABLE:
        if attrs.evolve(row, name=row.name.replace("<prefix>", prefix)).pattern.match(name):
            return row
    return None


class KeyNames:
    """The names of the keys of one cluster.

    Args:
        prefix: The prefix of all names.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix: Final = prefix
        self.layout: Final = self._of("{<prefix>}:layout")
        self.epoch: Final = self._of("{<prefix>}:epoch")
        self.workers: Final = self._of("{<prefix>}:workers")
        self.keys: Final = self._of("{<prefix>}:keys")
        self.messages: Final = self._of("{<prefix>}:messages")
        self.messages_bytes: Final = self._of("{<prefix>}:messages:bytes")
        self.changes: Final = self._of("{<prefix>}:changes")
        self.sessions: Final = self._of("{<prefix>}:sessions")
        self.unfinished: Final = self._of("{<prefix>}:unfinished")
        self.expiring: Final = self._of("{<prefix>}:expiring")

    def inbox(self, worker: str) -> tuple[bytes, bytes]:
        """Return the keys of the messages to one worker, and of their size."""
        return (
            self._of("{<prefix>}:inbox:<worker>", worker=worker),
            self._of("{<prefix>}:inbox:<worker>:bytes", worker=worker),
        )

    def session(self, id: str) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the keys of a session: of its record, events, subscriptions and changes."""
        part = _part(id)
        return (
            self._of("<prefix>:{session:<session>}", session=part),
            self._of("<prefix>:{session:<session>}:events", session=part),
            self._of("<prefix>:{session:<session>}:subscriptions", session=part),
            self._of("<prefix>:{session:<session>}:notified", session=part),
        )

    def task(self, id: str) -> bytes:
        """Return the key that contains the owner of a task."""
        return self._of("<prefix>:{task:<task>}", task=_part(id))

    def owner(self, owner: str) -> tuple[bytes, bytes]:
        """Return the keys of the tasks of an owner by age, and of their sizes.

        Args:
            owner: The result of `owner_part`.
        """
        return (
            self._of("<prefix>:{owner:<owner>}:tasks", owner=owner),
            self._of("<prefix>:{owner:<owner>}:sizes", owner=owner),
        )

    def task_record(self, owner: str, id: str) -> bytes:
        """Return the key of the record of a task.

        Args:
            owner: The result of `owner_part`.
            id: The task id.
        """
        return self._of("<prefix>:{owner:<owner>}:task:<task>", owner=owner, task=_part(id))

    def replay(self, id: bytes) -> bytes:
        """Return the key of an id that may be used once."""
        return self._of("<prefix>:{replay:<digest>}", digest=hashlib.sha256(id).hexdigest())

    def rate(self, key: str) -> bytes:
        """Return the key of a rate limit."""
        return self._of("<prefix>:{rate:<digest>}", digest=_digest(key))

    @staticmethod
    def owner_part(owner: str | None) -> str:
        """Return the part of a name that identifies the owner of tasks."""
        return "none" if owner is None else "principal-" + _digest(owner)

    def _of(self, name: str, **parts: str) -> bytes:
        if name not in _NAMES:
            raise KeyError(name)
        text = name.replace("<prefix>", self.prefix)
        for part, value in parts.items():
            text = text.replace(f"<{part}>", value)
        return text.encode()


def _part(id: str) -> str:
    # A client chooses the ids that it asks for: they must not contain braces, and must not be long.
    return id if _PLAIN.match(id) else "sha256-" + _digest(id)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
