"""The header lines of an HTTP/1.1 message, in the form without folded lines and bare line feeds.

h11 reads any message. The readers of messages of the common form use this module, at a tenth of the cost.

Spec: RFC 9112 section 5
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TOKEN", "content_length", "read_fields"]

TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""The pattern of a method and of a header name (RFC 9110 section 5.6.2)."""

# It can match a text in only one way, so a peer cannot cause backtracking.
_FIELD: Final = re.compile(rb"\r\n(%b):([ \t!-~\x80-\xff]*)(?=\r\n)" % TOKEN)
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")

_UNCOMMON: Final = frozenset({b"transfer-encoding", b"upgrade"})
"""Headers that change the protocol of the connection or the framing of the body."""

_SINGLE: Final = (b"host", b"connection", b"content-length")
"""Headers of which h11 checks duplicates."""


def read_fields(data: bytes, start: int, end: int) -> list[tuple[bytes, bytes]] | None:
    """Read header lines.

    Args:
        data: The message.
        start: The end of the start line, without its line break.
        end: The end of the last header line, without its line break.

    Returns:
        Names in lower case, and values; `None` if a line has another form.
    """
    fields = _FIELD.findall(data, start, end + 2)
    if len(fields) != data.count(b"\r\n", start, end):
        return None
    return [(name.lower(), value.strip(b" \t")) for name, value in fields]


def content_length(fields: Sequence[tuple[bytes, bytes]], default: bytes | None = None) -> int | None:
    """Return the length of the body in bytes.

    Args:
        fields: The headers of the message.
        default: The value for a message without this header.

    Returns:
        The length; `None` if h11 is needed to determine it, or if the connection does not stay open after the message.
    """
    first = dict(fields)
    if not _UNCOMMON.isdisjoint(first) or first.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    if len(first) != len(fields):
        names = [name for name, _ in fields]
        if any(names.count(name) > 1 for name in _SINGLE):
            return None
    length = first.get(b"content-length", default)
    return int(length) if length is not None and _LENGTH.fullmatch(length) else None
