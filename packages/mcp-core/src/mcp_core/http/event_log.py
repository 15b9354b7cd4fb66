"""Bounded log of the events of one session that can be replayed, stream by stream.

A stream begins with its pending requests, whose responses it will carry. It is over when `delivered` is called. Until
then a client that lost the connection can return for the events after the last one that it received. It receives that
stream and no other.

*Eviction.* If there are more events or bytes than `Limits.replay_events` and `Limits.replay_bytes` allow, the log
removes, until it complies: first whole streams that were delivered, the oldest first; then events without a response,
the oldest first. The newest event stays, and if its stream is over, the whole stream stays. A response that was not
delivered stays too, because the client has no other way to learn the outcome of its request. To bound the log in this
case too, no stream can begin while the responses alone reach a limit.

*Event ids* consist of the number of the stream and the position in it, counted from 1. A server needs no more to
resume, even after a restart. Event ids are not secret: a client reaches a session only with the unguessable session id.

Spec: basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.field_methods import FieldRepr, FieldValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits import Limits

__all__ = ["EventLog", "LoggedEvent", "LoggedStream", "Replay", "event_id", "parse_event_id"]

_EVENT_ID: Final = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})", re.ASCII)
"""18 digits are more than a session can count to, and fit the 64 bits of a database."""


def event_id(stream: int, number: int) -> str:
    """Return the id of an event, unique in its session: `3-17`.

    Args:
        stream: The number of the stream, 0 or more.
        number: The position of the event in the stream, 0 or more; 0 means the beginning of the stream.
    """
    return f"{stream}-{number}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Parse a `Last-Event-ID`.

    Returns:
        The numbers of the stream and of the event; `None` for any text that `event_id` does not write.
    """
    found = _EVENT_ID.fullmatch(text)
    return None if found is None else (int(found[1]), int(found[2]))


@attrs.frozen(eq=False, repr=False)
class LoggedEvent(FieldValue):
    """An event of a stream."""

    number: int
    """The position in the stream, from 1."""
    data: bytes
    """One JSON message; empty in an event that has only an id."""
    answers: RequestId | None = None
    """The id of the request to which the message is the response; `None` if the message is not a response."""


@attrs.frozen(eq=False, repr=False)
class LoggedStream(FieldValue):
    """The state of a stream."""

    stream: int
    """The number of the stream in the session."""
    last: int
    """The number of the last event; 0 without events."""
    pending: tuple[RequestId, ...]
    """The requests of the stream without a response, in their order; empty if the stream is over."""
    worker: str = ""
    """The worker that began the stream."""


@attrs.frozen(eq=False, repr=False)
class Replay(FieldValue):
    """The events that followed a given event on its stream."""

    events: tuple[LoggedEvent, ...]
    """The events that are still in the log, in order."""
    lost: int
    """The number of events that were evicted from the log."""


_Key: TypeAlias = "tuple[type, RequestId]"
"""An id by type and value, because `True` and 1 are equal in Python."""


@attrs.define(eq=False, repr=False)
class _Stream(FieldRepr):
    pending: dict[_Key, None]
    worker: str
    last: int = 0
    events: dict[int, LoggedEvent] = attrs.field(factory=dict)
    over: bool = False

    def described(self, stream: int) -> LoggedStream:
        return LoggedStream(stream, self.last, tuple([request for _, request in self.pending]), self.worker)


class EventLog:
    """The log of one session.

    Args:
        limits: The limits. The log uses `replay_events` and `replay_bytes`.
    """

    __slots__ = (
        "_answer_bytes",
        "_answers",
        "_delivered",
        "_limits",
        "_newest",
        "_plain",
        "_standalone",
        "_streams",
        "events",
        "size",
    )

    events: int
    """The number of events in the log."""
    size: int
    """The data of the events in the log, in bytes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._streams: dict[int, _Stream] = {}
        self.events = 0
        self.size = 0
        # For streams that are not over: the number of responses, their bytes, and the other events, the oldest first.
        self._answers = 0
        self._answer_bytes = 0
        self._plain: OrderedDict[tuple[int, int], None] = OrderedDict()
        # The streams that are over and still have events, the oldest first.
        self._delivered: OrderedDict[int, None] = OrderedDict()
        self._standalone: int | None = None
        self._newest = (-1, 0)

    def begin(self, stream: int, pending: Iterable[RequestId] = (), *, worker: str = "") -> None:
        """Begin a stream.

        Args:
            stream: A number that the session has not used.
            pending: The requests whose responses the stream will carry. Without requests the stream is the standalone
                stream. A session has one of these: the previous one is over.
            worker: The worker that runs the requests.

        Raises:
            LimitExceeded: The responses that were not delivered reach a limit. No stream was begun.
            LocalProtocolError: The stream exists already.
        """
        if stream in self._streams:
            raise LocalProtocolError(f"stream {stream} already exists")
        limits = self._limits
        if self._answers >= limits.replay_events or self._answer_bytes >= limits.replay_bytes:
            raise self._full()
        requests: dict[_Key, None] = {(type(request), request): None for request in pending}
        if not requests:
            if self._standalone is not None:
                self.delivered(self._standalone)
            self._standalone = stream
        self._streams[stream] = _Stream(requests, worker)

    def append(self, stream: int, data: bytes, answers: RequestId | None = None) -> int:
        """Add an event to a stream.

        Args:
            stream: A stream that was begun and is not over.
            data: One JSON message; empty for an event that has only an id.
            answers: The request to which the message is the response, one of the pending requests of the stream; `None`
                if the message is not a response.

        Returns:
            The number of the event: the number of the previous event plus one.

        Raises:
            LocalProtocolError: The stream does not exist or is over, or the request is not pending on it. No event was
                added.
        """
        kept = self._streams.get(stream)
        if kept is None or kept.over:
            raise LocalProtocolError(f"stream {stream} {'does not exist' if kept is None else 'is over'}")
        if answers is not None:
            key = (type(answers), answers)
            if key not in kept.pending:
                raise LocalProtocolError(f"stream {stream} has no pending request {answers!r}")
            del kept.pending[key]
        # orjson reserves up to eight times the size of a text and does not release it: a copy has the exact size.
        data = bytes(memoryview(data))
        number = kept.last = kept.last + 1
        kept.events[number] = LoggedEvent(number, data, answers)
        self.events += 1
        self.size += len(data)
        if answers is None:
            self._plain[stream, number] = None
        else:
            self._answers += 1
            self._answer_bytes += len(data)
        self._newest = (stream, number)
        self._shrink()
        return number

    def delivered(self, stream: int) -> None:
        """Mark a stream as over: it was written to a connected client, or the rest of it is not needed.

        The log keeps the events while the limits allow it, because the connection may have broken before the client
        received the last bytes. Does nothing if there is no such stream.
        """
        kept = self._streams.get(stream)
        if kept is None or kept.over:
            return
        kept.over = True
        kept.pending = {}
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
        """Return the events that followed an event on its stream.

        Args:
            stream: The number of the stream.
            number: The number of the event; 0 for the beginning of the stream.

        Returns:
            The events to send again; `None` if the stream is unknown or was evicted, or never had such an event.
        """
        kept = self._streams.get(stream)
        if kept is None or not 0 <= number <= kept.last:
            return None
        events = tuple([event for event in kept.events.values() if event.number > number])
        return Replay(events, kept.last - number - len(events))

    @property
    def stream_count(self) -> int:
        """The number of streams in the log, with or without events."""
        return len(self._streams)

    def find(self, stream: int) -> LoggedStream | None:
        """Return the state of a stream; `None` if the stream is unknown or was evicted."""
        kept = self._streams.get(stream)
        return None if kept is None else kept.described(stream)

    def last(self, stream: int) -> int | None:
        """Return the number of the last event of a stream; `None` if the stream is unknown or was evicted."""
        kept = self._streams.get(stream)
        return None if kept is None else kept.last

    def streams(self) -> tuple[LoggedStream, ...]:
        """Return the state of all streams in the log, in the order in which they began."""
        return tuple([kept.described(stream) for stream, kept in self._streams.items()])

    def _full(self) -> LimitExceeded:
        """Return the error for responses that reach a limit."""
        what, allowed = "undelivered responses of one session", self._limits.replay_events
        if self._answers >= allowed:
            return LimitExceeded(what, observed=self._answers, allowed=allowed, setting="Limits.replay_events")
        return LimitExceeded(
            f"{what} in bytes",
            observed=self._answer_bytes,
            allowed=self._limits.replay_bytes,
            setting="Limits.replay_bytes",
        )

    def _shrink(self) -> None:
        """Evict events until the log is within its limits."""
        while self.events > self._limits.replay_events or self.size > self._limits.replay_bytes:
            if not self._drop_oldest():
                return

    def shed(self) -> None:
        """Evict everything except the responses that were not delivered, and the newest event."""
        while self._drop_oldest():
            pass

    def _drop_oldest(self) -> bool:
        """Evict a stream that is over, or else an event. Return whether there was one."""
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
        self.events -= 1
        self.size -= len(event.data)
