"""Media types: what a peer takes (`Accept`) and what it sends (`Content-Type`).

Nothing here raises, whatever a header says: what cannot be read says nothing, and who says nothing takes anything.

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
"""The type of one message."""
EVENT_STREAM: Final = "text/event-stream"
"""The type of a stream of messages."""

_READ_CHARS: Final = 1_024
"""How much of an `Accept` is read. Browsers send 150 characters; 32 KiB of them would take ten milliseconds."""

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_RANGE: Final = re.compile(rf"{_TOKEN}/{_TOKEN}")
# A comma and a semicolon within quotes separate nothing. Each character can be matched in one way only.
_ITEM: Final = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+', re.DOTALL)
_PARAMETER: Final = re.compile(r'(?:[^;"]|"(?:\\.|[^"\\])*"?)+', re.DOTALL)
_QUALITY: Final = re.compile(r"[01]?(?:\.[0-9]*)?")


def accepts(headers: Headers, media: str) -> float:
    """How much the sender of `headers` wants `media`, by its `Accept`.

    Args:
        headers: Those of the request.
        media: A type in lower case, as `application/json`. Parameters of the accepted types are not looked at.

    Returns:
        From 0.0, not at all, to 1.0. The most exact range counts: `type/subtype` before `type/*` before `*/*`. It is 1.0
        when there is no `Accept`, or none that can be read.
    """
    values = headers.all("accept")
    if not values:
        return 1.0
    text = values[0] if len(values) == 1 else ",".join(values)
    # Peers repeat themselves: what they said is read once, and kept.
    ranges = _ranges(text[:_READ_CHARS])
    quality = ranges.get(media)
    if quality is None:
        quality = ranges.get(f"{media.partition('/')[0]}/*")
    if quality is None:
        quality = ranges.get("*/*")
    return quality if quality is not None else 0.0 if ranges else 1.0


@lru_cache(maxsize=256)
def _ranges(text: str) -> Mapping[str, float]:
    """The quality of each range. Of two for the same range the higher one counts: their parameters are not known."""
    found: dict[str, float] = {}
    for item in _ITEM.findall(text):
        name, *parameters = _PARAMETER.findall(item) or [""]
        name = name.strip().lower()
        if name == "*":
            name = "*/*"  # what the standard library of Java sends
        if _RANGE.fullmatch(name):
            found[name] = max(found.get(name, 0.0), _quality(parameters))
    return found


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            text = value.strip()
            # The type was listed, so it is wanted, if it cannot be read how much.
            return min(float(text), 1.0) if text not in ("", ".") and _QUALITY.fullmatch(text) else 1.0
    return 1.0


def media_type(value: str | None) -> str:
    """The type in a `Content-Type`, in lower case and without parameters; empty when there is none."""
    return "" if value is None else value.partition(";")[0].strip().lower()


def is_json(value: str | None) -> bool:
    """Whether a `Content-Type` is that of one message."""
    return value == JSON or media_type(value) == JSON


def is_event_stream(value: str | None) -> bool:
    """Whether a `Content-Type` is that of a stream of messages."""
    return value == EVENT_STREAM or media_type(value) == EVENT_STREAM
