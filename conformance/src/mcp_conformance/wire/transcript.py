"""What went over a wire, both ways, in order: the evidence of a check, and what a reader sees of a failure."""

from __future__ import annotations

import enum
import itertools
import json
import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["Entry", "Kind", "Part", "Transcript", "exchanging", "strict_json"]

_SHOWN: Final = 400
"""Characters that are shown of one entry."""
_SECRET: Final = re.compile(r"(?i)^(dpop|[^:]*(authorization|cookie|key|secret|token)[^:]*):")
"""Headers whose values are masked: those of the standards, and whatever a server may call its key."""

_exchange: ContextVar[int | None] = ContextVar("exchange", default=None)
_numbers: Final = itertools.count(1)


@contextmanager
def exchanging() -> Iterator[None]:
    """What is entered in the block, by the task that is in it, belongs to one HTTP exchange."""
    around = _exchange.get()
    _exchange.set(next(_numbers))
    try:
        yield
    finally:
        _exchange.set(around)


class Kind(enum.Enum):
    """What an entry is."""

    MESSAGE = "message"
    """JSON: one JSON-RPC message, or an array of them."""
    BYTES = "bytes"
    """What is no JSON."""
    HEAD = "head"
    """The head of an HTTP request or response."""
    NOTE = "note"
    """What happened besides: the process ended, a stream was closed."""


@attrs.frozen(kw_only=True)
class Entry:
    """One thing that went one way."""

    sent: bool
    """By the suite; otherwise it came from the implementation."""
    kind: Kind
    """What it is."""
    raw: bytes = b""
    """As it was on the wire, without its frame."""
    value: JsonValue = None
    """The JSON."""
    text: str = ""
    """Of a head: its lines. Of a note: what happened."""
    deviant: str = ""
    """Which rule the suite broke with it, on purpose; empty where it kept them all."""
    exchange: int | None = attrs.field(factory=_exchange.get, eq=False)
    """The HTTP exchange that it belongs to; `None` where there is none."""

    def __str__(self) -> str:
        way = "  --" if self.kind is Kind.NOTE else "-->" if self.sent else "<--"
        if self.kind is Kind.HEAD:
            shown = " | ".join(_masked(line) for line in self.text.splitlines())
        elif self.kind is Kind.NOTE:
            shown = self.text
        else:
            shown = self.raw[: _SHOWN * 4].decode("utf-8", "backslashreplace")
        shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in shown)
        more = f" [{len(self.raw)} bytes]" if len(shown) > _SHOWN else ""
        purpose = f"  (on purpose: {self.deviant})" if self.deviant else ""
        return f"{way} {shown[:_SHOWN]}{more}{purpose}"


def _masked(line: str) -> str:
    return f"{line.partition(':')[0]}: <secret>" if _SECRET.match(line) else line


class Transcript:
    """One connection's entries."""

    def __init__(self) -> None:
        self.entries: Final[list[Entry]] = []
        """All of them, in order."""

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def message(self, raw: bytes, *, sent: bool, deviant: str = "") -> JsonValue:
        """Enter what should be a message; its JSON is returned, `None` if it is none."""
        try:
            value = strict_json(raw)
        except ValueError:
            self.entries.append(Entry(sent=sent, kind=Kind.BYTES, raw=raw, deviant=deviant))
            return None
        self.entries.append(Entry(sent=sent, kind=Kind.MESSAGE, raw=raw, value=value, deviant=deviant))
        return value

    def head(self, text: str, *, sent: bool, deviant: str = "") -> None:
        """Enter the head of a request or response."""
        self.entries.append(Entry(sent=sent, kind=Kind.HEAD, text=text, deviant=deviant))

    def note(self, text: str) -> None:
        """Enter what happened besides."""
        self.entries.append(Entry(sent=False, kind=Kind.NOTE, text=text))

    def messages(self, *, sent: bool) -> list[JsonValue]:
        """The messages of one way; those of an array one by one."""
        found: list[JsonValue] = []
        for entry in self.entries:
            if entry.kind is Kind.MESSAGE and entry.sent is sent:
                found += entry.value if isinstance(entry.value, list) else [entry.value]
        return found

    def lines(self) -> tuple[str, ...]:
        """The entries as text, for people; secrets masked."""
        return tuple(str(entry) for entry in self.entries)


@attrs.frozen(kw_only=True)
class Part:
    """What is entered in a transcript from a moment on."""

    transcript: Transcript
    """It."""
    since: int
    """How many entries it had then."""

    @property
    def entries(self) -> list[Entry]:
        """Those that came since."""
        return self.transcript.entries[self.since :]


def strict_json(raw: bytes) -> JsonValue:
    """Read JSON, and nothing that is only nearly JSON: RFC 8259, in UTF-8, without NaN.

    Raises:
        ValueError: It is none.
    """

    def refuse(constant: str) -> JsonValue:
        raise ValueError(f"{constant} is no JSON")

    try:
        value: JsonValue = json.loads(raw.decode("utf-8"), parse_constant=refuse)
    except RecursionError:
        raise ValueError("nested too deeply to be read") from None
    return value
