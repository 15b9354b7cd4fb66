"""The events of one session that can be sent again: a bounded log, stream by stream.

A stream begins with what it owes, the requests whose answers it will carry, and is over when somebody says that it was
delivered. As long as it is not, whoever lost the connection may come back for what followed the last event that came
through, and gets that stream and no other.

*What goes.* With more events or bytes than `Limits.replay_events` and `Limits.replay_bytes` allow, these go, until it
fits: first whole streams that were delivered, the oldest first; then events that answer nothing, the oldest first. The
newest event stays, and if its stream is over, all of that. An answer that was not delivered stays too: nothing else will tell the client what became of its
request. So that this is bounded all the same, no stream begins while answers alone reach the bounds.

*Event ids* name the stream and the place in it, counted from 1: all that a server needs to know to resume, also one that
was started anew. That is no secret: a session is reached by its own unguessable id only.

Spec: basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import LimitExceeded, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits import Limits

__all__ = ["EventLog", "LoggedEvent", "LoggedStream", "Replay", "event_id", "parse_event_id"]

_EVENT_ID: Final = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})", re.ASCII)
"""18 digits are more than a session lives to count, and fit the 64 bits of a database."""


def event_id(stream: int, number: int) -> str:
    """The id of an event, unique in its session: `3-17`.

    Args:
        stream: The stream, 0 or more.
        number: The event's place in it, 0 or more; 0 stands for its beginning.
    """
    return f"{stream}-{number}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Reads what came as `Last-Event-ID`.

    Returns:
        The stream and the number; `None` for all that `event_id` does not write.
    """
    found = _EVENT_ID.fullmatch(text)
    return None if found is None else (int(found[1]), int(found[2]))


@attrs.frozen
class LoggedEvent:
    """One event."""

    number: int
    """Its place in the stream, from 1."""
    data: bytes
    """One JSON message; empty in an event that only has an id."""
    answers: RequestId | None = None
    """The request that it answers; `None` when it answers none."""


@attrs.frozen
class LoggedStream:
    """How far a stream is."""

    stream: int
    """Its number in the session."""
    last: int
    """The number of its last event; 0 when there was none."""
    owed: tuple[RequestId, ...]
    """The requests that it was begun for and that are not answered, in their order; none when it is over."""


@attrs.frozen
class Replay:
    """What followed an event on its stream."""

    events: tuple[LoggedEvent, ...]
    """What is kept of it, in its order."""
    lost: int
    """How many events of it are kept no more."""


_Key: TypeAlias = "tuple[type, RequestId]"
"""An id by type and value: Python takes `True` and 1 for the same."""


@attrs.define(eq=False)
class _Stream:
    owed: dict[_Key, None]
    last: int = 0
    events: dict[int, LoggedEvent] = attrs.field(factory=dict)
    over: bool = False

    def described(self, stream: int) -> LoggedStream:
        return LoggedStream(stream, self.last, tuple([request for _, request in self.owed]))


class EventLog:
    """The log of one session.

    Args:
        limits: `replay_events` and `replay_bytes` hold here.
    """

    __slots__ = (
        "_answer_bytes",
        "_answers",
        "_bytes",
        "_delivered",
        "_events",
        "_limits",
        "_newest",
        "_plain",
        "_standalone",
        "_streams",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._streams: dict[int, _Stream] = {}
        self._events = 0
        self._bytes = 0
        # Of streams that are not over: how many answers, and their bytes; which other events, the oldest first.
        self._answers = 0
        self._answer_bytes = 0
        self._plain: OrderedDict[tuple[int, int], None] = OrderedDict()
        # The streams that are over, and still have events, the oldest first.
        self._delivered: OrderedDict[int, None] = OrderedDict()
        self._standalone: int | None = None
        self._newest = (-1, 0)

    def begin(self, stream: int, owed: Iterable[RequestId] = ()) -> None:
        """Begins a stream.

        Args:
            stream: A number that the session did not use yet.
            owed: The requests whose answers it will carry. With none it is the standalone stream, of which a session
                has one: the one before is over.

        Raises:
            LimitExceeded: Answers that were not delivered reach the bounds. Nothing was begun.
            LocalProtocolError: There is such a stream.
        """
        if stream in self._streams:
            raise LocalProtocolError(f"stream {stream} was begun before")
        self._check_room()
        requests: dict[_Key, None] = {(type(request), request): None for request in owed}
        if not requests:
            if self._standalone is not None:
                self.delivered(self._standalone)
            self._standalone = stream
        self._streams[stream] = _Stream(owed=requests)

    def append(self, stream: int, data: bytes, answers: RequestId | None = None) -> int:
        """Adds an event to a stream.

        Args:
            stream: One that was begun and is not over.
            data: One JSON message; nothing for an event that only has an id.
            answers: The request that it answers, one of those that the stream owes; `None` when it answers none.

        Returns:
            The number of the event: one more than the last one's.

        Raises:
            LocalProtocolError: There is no such stream, it is over, or it does not owe this answer. Nothing was added.
        """
        kept = self._streams.get(stream)
        if kept is None or kept.over:
            raise LocalProtocolError(f"stream {stream} {'was not begun' if kept is None else 'is over'}")
        if answers is not None:
            key = (type(answers), answers)
            if key not in kept.owed:
                raise LocalProtocolError(f"stream {stream} does not owe an answer to the request {answers!r}")
            del kept.owed[key]
        # orjson reserves up to eight times the size of a text and does not give it back: a copy has the exact size.
        data = bytes(memoryview(data))
        number = kept.last = kept.last + 1
        kept.events[number] = LoggedEvent(number, data, answers)
        self._events += 1
        self._bytes += len(data)
        if answers is None:
            self._plain[stream, number] = None
        else:
            self._answers += 1
            self._answer_bytes += len(data)
        self._newest = (stream, number)
        self._shrink()
        return number

    def delivered(self, stream: int) -> None:
        """A stream is over: all of it was written to a client that was still there, or nobody wants the rest of it.

        Its events are kept as long as there is room, for a connection that broke before the last bytes came through.
        Nothing happens when there is no such stream.
        """
        kept = self._streams.get(stream)
        if kept is None or kept.over:
            return
        kept.over = True
        kept.owed = {}
        if self._standalone == stream:
            self._standalone = None
        for number, event in kept.events.items():
            if event.answers is None:
                del self._plain[stream, number]
            else:
                self._answers -= 1
                self._answer_bytes -= len(event.data)
        if kept.events:
            self._delivered[stream] = None
            self._shrink()
        else:
            del self._streams[stream]

    def after(self, stream: int, number: int) -> Replay | None:
        """What followed an event on its stream.

        Args:
            stream: The stream.
            number: The event's number; 0 for the beginning of the stream.

        Returns:
            What is to be sent again; `None` when the stream is not known (any more), or had no such event.
        """
        kept = self._streams.get(stream)
        if kept is None or not 0 <= number <= kept.last:
            return None
        events = tuple([event for event in kept.events.values() if event.number > number])
        return Replay(events, kept.last - number - len(events))

    def find(self, stream: int) -> LoggedStream | None:
        """How far a stream is; `None` when it is not known (any more)."""
        kept = self._streams.get(stream)
        return None if kept is None else kept.described(stream)

    def streams(self) -> tuple[LoggedStream, ...]:
        """All streams that are known, in the order in which they began."""
        return tuple([kept.described(stream) for stream, kept in self._streams.items()])

    def __len__(self) -> int:
        """How many events are kept."""
        return self._events

    @property
    def size(self) -> int:
        """How many bytes of data they have."""
        return self._bytes

    def _check_room(self) -> None:
        for observed, setting in ((self._answers, "replay_events"), (self._answer_bytes, "replay_bytes")):
            allowed: int = getattr(self._limits, setting)
            if observed >= allowed:
                raise LimitExceeded(
                    "answers of one session that its client did not fetch"
                    + (" in bytes" if setting == "replay_bytes" else ""),
                    observed=observed,
                    allowed=allowed,
                    setting=f"Limits.{setting}",
                )

    def _shrink(self) -> None:
        """Drops what may go until the bounds hold."""
        while self._events > self._limits.replay_events or self._bytes > self._limits.replay_bytes:
            if not self._drop_oldest():
                return

    def shed(self) -> None:
        """Drops everything that may go: all but the answers that were not delivered, and the newest event."""
        while self._drop_oldest():
            pass

    def _drop_oldest(self) -> bool:
        """Drops a stream that is over, or else an event. Returns whether there was one."""
        over = next((stream for stream in self._delivered if stream != self._newest[0]), None)
        if over is not None:
            del self._delivered[over]
            for event in self._streams.pop(over).events.values():
                self._forget(event)
            return True
        oldest = next(iter(self._plain), self._newest)
        if oldest == self._newest:
            return False
        del self._plain[oldest]
        self._forget(self._streams[oldest[0]].events.pop(oldest[1]))
        return True

    def _forget(self, event: LoggedEvent) -> None:
        self._events -= 1
        self._bytes -= len(event.data)
