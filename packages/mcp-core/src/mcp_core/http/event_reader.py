"""A server's stream of events to messages: what every client does with a stream, whichever transport it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import LimitExceeded, MalformedMessage
from mcp_core.framing.sse import Event, SseParser
from mcp_core.http.failures import clipped
from mcp_core.jsonrpc.codec import decode
from mcp_core.jsonrpc.messages import Batch, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.limits import Limits

__all__ = ["Deviations", "EventReader", "Received", "read_message"]

Received: TypeAlias = Message | Batch | MalformedMessage
"""What came: messages, or what is wrong with them."""

_MESSAGE: Final = "message"

_NOTES_KEPT: Final = 20
"""A stream may live for days and be wrong in each event."""


class Deviations(list[str]):
    """Sentences about what was survived; the first ones are kept, until somebody clears the list."""

    def note(self, sentence: str) -> None:
        """Takes down one more, if there is room."""
        if len(self) < _NOTES_KEPT:
            self.append(sentence)


@attrs.define(init=False, eq=False)
class EventReader:
    """Reads one stream.

    Args:
        limits: The bounds that hold here.
        notes: Takes a sentence for each deviation that is survived.
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
        """The id of the last event that had one; empty when none had."""
        return self._parser.last_event_id

    @property
    def retry(self) -> int | None:
        """Milliseconds to wait before connecting again, by the last word of the server; `None` when it said nothing."""
        return self._parser.retry

    def receive_data(self, data: bytes) -> Iterator[Received | Event]:
        """Takes the next bytes.

        Args:
            data: Any portion; empty when the stream ended properly. It ends reading.

        Yields:
            Messages, and `MalformedMessage` for events that hold none or are too large. `Event` stands for one that
            is called otherwise and is no message: it belongs to another protocol, or to the owner of this reader.
        """
        if not data:
            yield from self._last()
            return
        for event in self._parser.receive_data(data):
            what = self._read(event)
            if what is not None:
                yield what

    def _last(self) -> Iterator[Message | Batch]:
        """Some servers leave out the blank line that ends the last event: a whole message counts all the same."""
        if self._ended:
            return
        self._ended = True
        before = self._parser.last_event_id
        events = self._parser.receive_data(b"\n\n")
        self._parser.receive_eof()
        for event in events:
            what = self._read(event)
            if isinstance(what, Message | Batch):
                self._notes.note("the last event of the stream has no end")
                yield what
                return
        # What is cut off was not received: to resume after it would lose it.
        self._parser.last_event_id = before

    def _read(self, event: Event | LimitExceeded) -> Received | Event | None:
        if isinstance(event, LimitExceeded):
            bad = MalformedMessage(event.message)
            bad.__cause__ = event
            return bad
        if event.event == _MESSAGE:
            # Without data it brings only an id or a retry time.
            return read_message(event.data, self._limits, self._notes) if event.data else None
        what = read_message(event.data, self._limits, Deviations())
        if isinstance(what, MalformedMessage):
            return event
        self._notes.note(f"a message came in an event called {clipped(event.event)!r}")
        return what


def read_message(data: bytes, limits: Limits, notes: Deviations) -> Received:
    """The message in a body or an event, or what is wrong with it. Never raises.

    Args:
        data: The bytes.
        limits: The bounds that hold here.
        notes: Takes a sentence for each deviation that was survived.
    """
    survived: list[str] = []
    try:
        message = decode(data, limits, notes=survived)
    except MalformedMessage as malformed:
        notes.note(f"what should be a message is none: {malformed.message}")
        return malformed
    for sentence in survived:
        notes.note(sentence)
    return message
