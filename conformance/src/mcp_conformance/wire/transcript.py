"""Everything that is sent and received on a connection, in order: the evidence of a check, shown in reports."""

from __future__ import annotations

import enum
import itertools
import json
import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.wire.excerpt import visible
from mcp_conformance.wire.unframed import UNFRAMED_BYTES, unframed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["Entry", "Kind", "Part", "Transcript", "exchanging", "strict_json"]

_SHOWN: Final = 400
"""Characters of an entry that are shown."""
_MOST: Final = 20_000
"""The limit of the received messages of one connection. A whole run of the suite receives less than a tenth of it."""
_MOST_BYTES: Final = 256 * 1024 * 1024
"""The limit of their bytes."""
_UNFRAMED: Final = 20
"""Entries without a message that are described together."""
_SECRET: Final = re.compile(r"(?i)^(dpop|[^:]*(authorization|cookie|key|secret|token)[^:]*):")
"""Headers whose values are masked: those of the standards, and any that a server may use for an API key."""

_exchange: ContextVar[int | None] = ContextVar("exchange", default=None)
_numbers: Final = itertools.count(1)


@contextmanager
def exchanging() -> Iterator[None]:
    """Attribute the entries that this task makes in the block to one HTTP exchange."""
    around = _exchange.get()
    _exchange.set(next(_numbers))
    try:
        yield
    finally:
        _exchange.set(around)


class Kind(enum.Enum):
    """The kind of an entry."""

    MESSAGE = "message"
    """JSON: one JSON-RPC message, or an array of them."""
    BYTES = "bytes"
    """Bytes that are not JSON, or are no message whatever they are."""
    HEAD = "head"
    """The head of an HTTP request or response."""
    NOTE = "note"
    """Another incident: the process exited, a stream was closed."""


@attrs.frozen(kw_only=True)
class Entry:
    """An entry of a transcript."""

    sent: bool
    """Whether the suite sent it; otherwise the implementation did."""
    kind: Kind
    """The kind."""
    raw: bytes = b""
    """The bytes on the wire, without the framing."""
    value: JsonValue = None
    """The JSON value."""
    text: str = ""
    """The lines of a head, or the text of a note."""
    deviant: str = ""
    """The rule that the suite broke on purpose; empty if it broke none."""
    exchange: int | None = attrs.field(factory=_exchange.get, eq=False)
    """The number of the HTTP exchange; `None` if absent."""

    def __str__(self) -> str:
        way = "  --" if self.kind is Kind.NOTE else "-->" if self.sent else "<--"
        if self.kind is Kind.HEAD:
            shown = " | ".join(_masked(line) for line in self.text.splitlines())
        elif self.kind is Kind.NOTE:
            shown = self.text
        else:
            shown = self.raw[: _SHOWN * 4].decode("utf-8", "backslashreplace")
        shown = visible(shown)
        more = f" [{len(self.raw)} bytes]" if len(shown) > _SHOWN else ""
        purpose = f"  (on purpose: {self.deviant})" if self.deviant else ""
        return f"{way} {shown[:_SHOWN]}{more}{purpose}"


def _empty() -> str:
    return ""


def _masked(line: str) -> str:
    return f"{line.partition(':')[0]}: <secret>" if _SECRET.match(line) else line


class Transcript:
    """The transcript of one connection."""

    def __init__(self) -> None:
        self.entries: Final[list[Entry]] = []
        """All entries, in order."""
        self.log: Callable[[], str] = _empty
        """Returns the last lines of standard error of the process of the peer; empty if it is not known."""
        self.full: Final = trio.Event()
        """Set when the peer has sent more messages than are kept. The reader of the connection then ends it."""
        self._received = 0
        self._received_bytes = 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def message(self, raw: bytes, *, sent: bool, deviant: str = "") -> JsonValue:
        """Enter a message and return its JSON value; `None` if it is not JSON."""
        if not sent:
            self._count(len(raw))
        try:
            value = strict_json(raw)
        except ValueError:
            self.entries.append(Entry(sent=sent, kind=Kind.BYTES, raw=raw, deviant=deviant))
            return None
        self.entries.append(Entry(sent=sent, kind=Kind.MESSAGE, raw=raw, value=value, deviant=deviant))
        return value

    def data(self, raw: bytes) -> None:
        """Enter received bytes that are no message, whatever they are."""
        if raw:
            self._count(len(raw))
            self.entries.append(Entry(sent=False, kind=Kind.BYTES, raw=raw))

    def _count(self, size: int) -> None:
        """Count a received message, so that a peer that sends without end cannot exhaust the memory of the suite."""
        self._received += 1
        self._received_bytes += size
        if not self.full.is_set() and (self._received > _MOST or self._received_bytes > _MOST_BYTES):
            self.full.set()
            self.note(f"{self.excess}: the suite ends the connection")

    @property
    def excess(self) -> str:
        """What the peer sent too much of, for use in a sentence; empty unless `full` is set."""
        limit = f"more than {_MOST:,} messages" if self._received > _MOST else f"more than {_MOST_BYTES >> 20} MiB"
        return f"{limit} of the peer on one connection" if self.full.is_set() else ""

    def head(self, text: str, *, sent: bool, deviant: str = "") -> None:
        """Enter the head of a request or response."""
        self.entries.append(Entry(sent=sent, kind=Kind.HEAD, text=text, deviant=deviant))

    def note(self, text: str) -> None:
        """Enter an incident that is not a message."""
        self.entries.append(Entry(sent=False, kind=Kind.NOTE, text=text))

    def unframed(self, data: bytes) -> None:
        """Enter bytes that were received and form no message. Only their start is kept."""
        if data.strip():
            kept = data[:UNFRAMED_BYTES]
            self.entries.append(Entry(sent=False, kind=Kind.NOTE, raw=kept, text=f"no message: {unframed(data)}"))

    def unframed_since(self, mark: int) -> str:
        """Return a description of the received bytes that form no message; empty without any.

        Args:
            mark: The number of entries before them.
        """
        found = [
            entry
            for entry in self.entries[mark:]
            if not entry.sent and entry.raw and entry.kind in (Kind.BYTES, Kind.NOTE)
        ]
        data = b"\n".join(entry.raw[:UNFRAMED_BYTES] for entry in found[:_UNFRAMED])
        return unframed(data) if found else ""

    def messages(self, *, sent: bool) -> list[JsonValue]:
        """Return the messages of one direction; those of a batch one by one."""
        found: list[JsonValue] = []
        for entry in self.entries:
            if entry.kind is Kind.MESSAGE and entry.sent is sent:
                found += entry.value if isinstance(entry.value, list) else [entry.value]
        return found

    def lines(self) -> tuple[str, ...]:
        """Return the entries as text, with secrets masked."""
        return tuple(str(entry) for entry in self.entries)


@attrs.frozen(kw_only=True)
class Part:
    """The entries of a transcript from a position on."""

    transcript: Transcript
    """The transcript."""
    since: int
    """The number of entries at that position."""

    @property
    def entries(self) -> list[Entry]:
        """The entries since then."""
        return self.transcript.entries[self.since :]

    @property
    def alone(self) -> Transcript:
        """A transcript of these entries alone."""
        found = Transcript()
        found.entries.extend(self.entries)
        return found


def strict_json(raw: bytes) -> JsonValue:
    """Parse strict JSON: RFC 8259, in UTF-8, without NaN.

    Raises:
        ValueError: It is not strict JSON.
    """

    def refuse(constant: str) -> JsonValue:
        raise ValueError(f"{constant} is not JSON")

    try:
        value: JsonValue = json.loads(raw.decode("utf-8"), parse_constant=refuse)
    except RecursionError:
        raise ValueError("nested too deeply to be read") from None
    return value
