"""Lenient readers of the JSON documents of OAuth: a deviation is noted, and an unusable member counts as missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import orjson

from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["DOCUMENT_BYTES", "Members", "one_line", "read_json"]

DOCUMENT_BYTES: Final = 256 * 1024
"""Maximum size of a document, in bytes. Metadata usually has a few KiB, that of a large provider 10."""

_LONGEST_LINE: Final = 300
_ITEMS: Final = 1_000
"""Maximum number of items of a list. No server offers more scopes."""

_FLAGS: Final = {"true": True, "false": False}


def read_json(body: bytes) -> JsonObject:
    """Parse a document.

    Raises:
        InvalidValue: The document is not a JSON object, or is too large.
    """
    if len(body) > DOCUMENT_BYTES:
        raise InvalidValue(f"the document has {len(body)} bytes, more than the limit of {DOCUMENT_BYTES}")
    try:
        document: JsonValue = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        raise InvalidValue("the document is not JSON" + _looks_like(body)) from None
    if not isinstance(document, dict):
        raise InvalidValue("the document is JSON, but not an object")
    return document


def _looks_like(body: bytes) -> str:
    start = body[:200].lstrip().lower()
    return ", but a web page" if start.startswith((b"<!doctype", b"<html")) else "" if start else ": it is empty"


def one_line(text: str) -> str:
    """Return a peer's text for an error message: in one line, without control characters, at most 300 characters."""
    kept = "".join(each if each.isprintable() else " " for each in text[: 2 * _LONGEST_LINE])
    return " ".join(kept.split())[:_LONGEST_LINE]


@attrs.define
class Members:
    """The members of a document, and its deviations."""

    document: JsonObject
    """The document."""
    notes: list[str] = attrs.field(factory=list, init=False)
    """The deviations, one sentence each."""

    def text(self, name: str) -> str | None:
        """Return a string; an empty string counts as missing."""
        value = self.document.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            return value
        self.notes.append(f"{name} is not a string")
        return None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return a list of strings without duplicates; a single string is split at spaces."""
        value = self.document.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            self.notes.append(f"{name} is a string instead of a list")
            return tuple(dict.fromkeys(value.split()))
        if not isinstance(value, list):
            self.notes.append(f"{name} is not a list")
            return None
        kept = [each for each in value[:_ITEMS] if isinstance(each, str) and each]
        if len(kept) < len(value):
            self.notes.append(f"{name} has items that are not strings or are empty, or has too many items")
        return tuple(dict.fromkeys(kept))

    def flag(self, name: str) -> bool:
        """Return a boolean, also if it is quoted; a missing member is false."""
        value = self.document.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.notes.append(f"{name} is not a boolean")
        return _FLAGS.get(value.lower(), False) if isinstance(value, str) else False

    def seconds(self, name: str) -> float | None:
        """Return a number of seconds, also if it is quoted; a negative or huge number counts as missing."""
        value = self.document.get(name)
        if isinstance(value, str):
            self.notes.append(f"{name} is a string instead of a number")
            value = float(value) if value.isascii() and value.isdigit() and len(value) < 16 else value
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15):
            return value
        self.notes.append(f"{name} is not a number of seconds")
        return None
