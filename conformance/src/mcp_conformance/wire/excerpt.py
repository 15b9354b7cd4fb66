"""Excerpts of the output of an implementation under test, for reports: bounded, with control characters made visible."""

from __future__ import annotations

from typing import Final

__all__ = ["bytes_excerpt", "last_lines", "visible"]

_LINES: Final = 20
"""Maximum number of lines of standard error: enough for the end of a traceback."""
_LINE_CHARS: Final = 400
"""Maximum number of characters of a line."""
_BYTES: Final = 200
"""Maximum number of bytes of other output."""


def visible(text: str) -> str:
    """Return text with each character that cannot be printed as an escape sequence, so that it has no other effect."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def bytes_excerpt(data: bytes) -> str:
    """Return the start of bytes as printable text in quotes, with their number if some are left out."""
    text = visible(data[:_BYTES].decode("utf-8", "backslashreplace"))
    return f'"{text}"' if len(data) <= _BYTES else f'"{text}"... ({len(data)} bytes)'


def last_lines(text: str) -> str:
    """Return the last 20 lines of text, with the blank end removed, and each line shortened to 400 characters."""
    lines = text.rstrip().split("\n")[-_LINES:]
    return "\n".join(_line(line.removesuffix("\r")) for line in lines)


def _line(line: str) -> str:
    shown = visible(line[: _LINE_CHARS + 1])
    return shown if len(shown) <= _LINE_CHARS else f"{shown[:_LINE_CHARS]}..."
