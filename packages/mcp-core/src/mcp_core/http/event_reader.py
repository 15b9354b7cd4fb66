"""Reader of a server's event stream that yields messages, for every transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.codec import Batch, decode
from mcp_core.errors import LimitExceeded, MalformedMessage
from mcp_core.framing.sse import Event, SseParser
from mcp_core.http.failures import clipped
from mcp_core.jsonrpc.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.limits import Limits

__all__ = ["Deviations", "EventReader", "Received", "read_message"]

Received: TypeAlias = Message | Batch | MalformedMessage
"""Messages, or the error of an invalid message."""

_MESSAGE: Final = "message"

_NOTES_KEPT: Final = 20
"""A stream may last for days and have a deviation in each event."""


class Deviations(list[str]):
    """Tolerated deviations, one sentence each. The first ones are kept until the list is cleared."""

    def note(self, sentence: str) -> None:
        """Append a deviation, unless the list is full."""
        if len(self) < _NOTES_KEPT:
            self.append(sentence)


@attrs.define(init=False, eq=False)
class EventReader:
    """A reader of one stream.

    Args:
        limits: The limits for the events and messages.
        notes: Receives a sentence for each tolerated deviation.
    """

    _limits: Limits
    _notes: Deviations
    _parser: SseParser
    _ended: bool

    def __init__(self, limits: Limits, notes: Deviations) -> None:
        self._limits = limits
        self._notes = notes
        self._parser = SseParser(limits)
        self._ended = False

    @property
    def last_event_id(self) -> str:
        """The id of the last event that had one; empty if no event had one."""
        return self._parser.last_event_id

    @property
    def retry(self) -> int | None:
        """Milliseconds to wait before the next connection: the server's latest value; `None` if it sent none."""
        return self._parser.retry

    def receive_data(self, data: bytes) -> Iterator[Received | Event]:
        """Read the next bytes.

        Args:
            data: Any portion; empty if the stream ended properly, which ends the reading.

        Yields:
            Messages. A `MalformedMessage` for an event that is too large or has no valid message. An `Event` for an
            event of another type that contains no message: another protocol, or the owner of this reader, defines it.
        """
        if not data:
            yield from self._last()
            return
        for event in self._parser.receive_data(data):
            what = self._read(event)
            if what is not None:
                yield what

    def _last(self) -> Iterator[Message | Batch]:
        """Read the last event if the server left out the blank line at its end, and it has a whole message."""
        if self._ended:
            return
        self._ended = True
        before = self._parser.last_event_id
        events = self._parser.receive_data(b"\n\n")
        self._parser.receive_eof()
        for event in events:
            what = self._read(event)
            if isinstance(what, Message | Batch):
                self._notes.note("the blank line after the last event is missing")
                yield what
                return
        # A truncated event was not received: to resume after it would lose it.
        self._parser.last_event_id = before

    def _read(self, event: Event | LimitExceeded) -> Received | Event | None:
        if isinstance(event, LimitExceeded):
            bad = MalformedMessage(event.message)
            bad.__cause__ = event
            return bad
        if event.event == _MESSAGE:
            # An event without data has only an id or a retry time.
            return read_message(event.data, self._limits, self._notes) if event.data else None
        what = read_message(event.data, self._limits, Deviations())
        if isinstance(what, MalformedMessage):
            return event
        self._notes.note(f"an event of type {clipped(event.event)!r} contains a message")
        return what


def read_message(data: bytes, limits: Limits, notes: Deviations) -> Received:
    """Read the message in a body or an event. Never raises.

    Args:
        data: The bytes of the body or event.
        limits: The limits for the message.
        notes: Receives a sentence for each tolerated deviation.

    Returns:
        The message, or the error of an invalid message.
    """
    survived: list[str] = []
    try:
        message = decode(data, limits, notes=survived)
    except MalformedMessage as malformed:
        notes.note(f"invalid message: {malformed.message}")
        return malformed
    for sentence in survived:
        notes.note(sentence)
    return message
