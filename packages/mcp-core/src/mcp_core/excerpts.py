"""Excerpts of data from a peer for errors, logs and error data: short, and without control characters.

A peer may send a method name of four megabytes. An error response that repeats it would double the traffic, and a log
entry would fill the disk. Credentials must never be repeated, not even in part: callers do not pass the headers that
contain them to these functions.
"""

from __future__ import annotations

from typing import Final

__all__ = ["EXCERPT_CHARS", "quoted", "shown"]

EXCERPT_CHARS: Final = 100
"""The maximum number of characters of an excerpt: enough to recognize a mistyped name."""

_EXACT_DIGITS: Final = 10**20


def quoted(value: object, most: int = EXCERPT_CHARS) -> str:
    """Return a short, printable text for JSON from a peer: strings in quotes, containers by their size.

    Args:
        value: The JSON.
        most: The maximum number of characters of a string.
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
    """Return text from a peer unchanged if it is short and printable, otherwise quoted and shortened.

    Args:
        text: The text.
        most: The maximum number of characters.
    """
    return text if len(text) <= most and text.isprintable() else quoted(text, most)
