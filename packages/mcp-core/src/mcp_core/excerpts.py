"""What errors, logs and error data repeat of what a peer sent: short, and without characters that act on a reader.

A peer may send a method name of four megabytes. An answer that repeated it would double the traffic, and a log that did
would fill the disk. Credentials are never repeated, not even in part: the headers that have them are not given to these
functions.
"""

from __future__ import annotations

from typing import Final

__all__ = ["EXCERPT_CHARS", "quoted", "shown"]

EXCERPT_CHARS: Final = 100
"""Characters that are repeated: enough to recognize a name that was mistyped."""

_EXACT_DIGITS: Final = 10**20


def quoted(value: object, most: int = EXCERPT_CHARS) -> str:
    """Return a short, printable text for JSON of a peer: strings in quotes, containers by their size.

    Args:
        value: The JSON.
        most: Characters of a string that are repeated.
    """
    match value:
        case str():
            start = repr(value[:most])
            return start if len(value) <= most else f"{start}... ({len(value)} characters)"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if -_EXACT_DIGITS < value < _EXACT_DIGITS else "a very large number"
        case float():
            return repr(value)
        case list() | tuple():
            return f"an array of {len(value)} items"
        case dict():
            return f"an object of {len(value)} members"
        case _:
            return f"a value of type {type(value).__name__}"


def shown(text: str, most: int = EXCERPT_CHARS) -> str:
    """Return text of a peer as it is if it is short and printable, and else quoted and shortened.

    Args:
        text: The text.
        most: Characters that are repeated.
    """
    return text if len(text) <= most and text.isprintable() else quoted(text, most)
