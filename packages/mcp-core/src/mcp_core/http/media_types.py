"""Media types that a peer accepts (`Accept`) and sends (`Content-Type`).

The functions never raise, whatever a header contains. An unreadable `Accept` counts as missing, and a missing `Accept`
allows every type.

Spec: basic/transports#sending-messages-to-the-server; RFC 9110 sections 8.3 and 12.5.1
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.http.messages import Headers

__all__ = ["EVENT_STREAM", "JSON", "accepts", "is_event_stream", "is_json", "media_type"]

JSON: Final = "application/json"
"""The media type of a single message."""
EVENT_STREAM: Final = "text/event-stream"
"""The media type of a stream of messages."""

_READ_CHARS: Final = 1_024
"""Characters of an `Accept` that are parsed. Browsers send 150; 32 KiB would take ten milliseconds."""

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_RANGE: Final = re.compile(rf"{_TOKEN}/{_TOKEN}")
# A comma or semicolon within quotes is not a separator. Each character can be matched in one way only.
_ITEM: Final = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+', re.DOTALL)
_PARAMETER: Final = re.compile(r'(?:[^;"]|"(?:\\.|[^"\\])*"?)+', re.DOTALL)
_QUALITY: Final = re.compile(r"[01]?(?:\.[0-9]*)?")


def accepts(headers: Headers, media: str) -> float:
    """Return the quality value of `media` in the `Accept` header.

    Args:
        headers: The headers of the request.
        media: A type in lower case, for example `application/json`. Parameters of the accepted types are ignored.

    Returns:
        From 0.0 (not accepted) to 1.0. The most specific range counts: `type/subtype` before `type/*` before `*/*`. 1.0
        if there is no `Accept`, or no readable one.
    """
    values = headers.all("accept")
    if not values:
        return 1.0
    text = values[0] if len(values) == 1 else ",".join(values)
    # Peers send the same text each time: it is parsed once and cached.
    ranges = _ranges(text[:_READ_CHARS])
    quality = ranges.get(media)
    if quality is None:
        quality = ranges.get(f"{media.partition('/')[0]}/*")
    if quality is None:
        quality = ranges.get("*/*")
    return quality if quality is not None else 0.0 if ranges else 1.0


@lru_cache(maxsize=256)
def _ranges(text: str) -> Mapping[str, float]:
    """Return the quality of each range. If a range occurs twice the higher one counts: its parameters are ignored."""
    found: dict[str, float] = {}
    for item in _ITEM.findall(text):
        name, *parameters = _PARAMETER.findall(item) or [""]
        name = name.strip().lower()
        if name == "*":
            name = "*/*"  # sent by the standard library of Java
        if _RANGE.fullmatch(name):
            found[name] = max(found.get(name, 0.0), _quality(parameters))
    return found


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            text = value.strip()
            # The type was listed, so it is accepted even if its quality is unreadable.
            return min(float(text), 1.0) if text not in ("", ".") and _QUALITY.fullmatch(text) else 1.0
    return 1.0


def media_type(value: str | None) -> str:
    """Return the type in a `Content-Type`, in lower case and without parameters; empty if the header is missing."""
    return "" if value is None else value.partition(";")[0].strip().lower()


def is_json(value: str | None) -> bool:
    """Return whether a `Content-Type` is that of a single message."""
    return value == JSON or media_type(value) == JSON


def is_event_stream(value: str | None) -> bool:
    """Return whether a `Content-Type` is that of a stream of messages."""
    return value == EVENT_STREAM or media_type(value) == EVENT_STREAM
