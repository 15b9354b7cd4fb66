"""Bytes that arrived and form no message: what they look like, for error messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_conformance.wire.excerpt import bytes_excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UNFRAMED_BYTES", "unframed"]

UNFRAMED_BYTES: Final = 1024
"""Maximum number of bytes without a message that are kept."""

_LOOKS: Final[Sequence[tuple[re.Pattern[bytes], str]]] = (
    (
        re.compile(rb"(?i)content-length:"),
        "headers as in the Language Server Protocol; over stdio, a message is one line",
    ),
    (re.compile(rb"\xff\xfe|\xfe\xff|[\t-~]\0[\t-~]\0|\0[\t-~]\0[\t-~]"), "UTF-16; messages are UTF-8"),
    (re.compile(rb"\xef\xbb\xbf"), "text after a byte order mark, which JSON must not have"),
    (re.compile(rb"(?i)\s*<(!doctype|html)"), "an HTML page"),
    (re.compile(rb"HTTP/\d"), "an HTTP response"),
    (re.compile(rb"\x16\x03"), "TLS; the URL must begin with https"),
    (re.compile(rb"\s*(event|data|id|retry):|:"), "an event without the blank line that ends it"),
    (re.compile(rb"\s*[{\[][^\n]*\Z"), "JSON without the line feed that ends a message"),
)
"""The beginnings of output with a frequent mistake, and what they are."""


def unframed(data: bytes) -> str:
    """Return a description of bytes that form no message: their start, and the mistake that they suggest."""
    looks = next((f" (it looks like {text})" for pattern, text in _LOOKS if pattern.match(data)), "")
    return f"{bytes_excerpt(data)}{looks}"
