"""Reads the JSON documents of OAuth leniently: what is odd leaves a note, what cannot be used counts as absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import orjson

from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["DOCUMENT_BYTES", "Members", "one_line", "read_json"]

DOCUMENT_BYTES: Final = 256 * 1024
"""The largest document that is looked at. Metadata have some KiB, a large provider's 10."""

_LONGEST_LINE: Final = 300
_ITEMS: Final = 1_000
"""Items of one list. Nobody offers more scopes."""

_FLAGS: Final = {"true": True, "false": False}


def read_json(body: bytes) -> JsonObject:
    """Reads a document.

    Raises:
        InvalidValue: It is no JSON object, or too large.
    """
    if len(body) > DOCUMENT_BYTES:
        raise InvalidValue(f"the document has {len(body)} bytes, more than {DOCUMENT_BYTES}")
    try:
        document: JsonValue = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        raise InvalidValue("not JSON" + _looks_like(body)) from None
    if not isinstance(document, dict):
        raise InvalidValue("JSON, but no object")
    return document


def _looks_like(body: bytes) -> str:
    start = body[:200].lstrip().lower()
    return ", but a web page" if start.startswith((b"<!doctype", b"<html")) else "" if start else ": it is empty"


def one_line(text: str) -> str:
    """A stranger's words, for an error: in one line, without control characters, and cut."""
    kept = "".join(each if each.isprintable() else " " for each in text[: 2 * _LONGEST_LINE])
    return " ".join(kept.split())[:_LONGEST_LINE]


@attrs.define
class Members:
    """The members of a document, and what was odd about them."""

    document: JsonObject
    """The document."""
    notes: list[str] = attrs.field(factory=list, init=False)
    """What was odd, a sentence each."""

    def text(self, name: str) -> str | None:
        """A string; an empty one counts as absent."""
        value = self.document.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            return value
        self.notes.append(f"{name} is no string")
        return None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of strings, each once; a string alone is split at spaces."""
        value = self.document.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            self.notes.append(f"{name} is a string in place of a list")
            return tuple(dict.fromkeys(value.split()))
        if not isinstance(value, list):
            self.notes.append(f"{name} is no list")
            return None
        kept = [each for each in value[:_ITEMS] if isinstance(each, str) and each]
        if len(kept) < len(value):
            self.notes.append(f"{name} has items that are no strings, are empty, or too many")
        return tuple(dict.fromkeys(kept))

    def flag(self, name: str) -> bool:
        """A boolean, also in quotes; absent is false."""
        value = self.document.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.notes.append(f"{name} is no boolean")
        return _FLAGS.get(value.lower(), False) if isinstance(value, str) else False

    def seconds(self, name: str) -> float | None:
        """A number of seconds, also in quotes; what is negative or out of any sense counts as absent."""
        value = self.document.get(name)
        if isinstance(value, str):
            self.notes.append(f"{name} is a string in place of a number")
            value = float(value) if value.isascii() and value.isdigit() and len(value) < 16 else value
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15):
            return value
        self.notes.append(f"{name} is no number of seconds")
        return None
