"""Members of `_meta` that an application may set in a request: key names, and the formats of known keys.

Spec: basic#meta, basic/index#_meta (2026-07-28); W3C Trace Context and Baggage
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_core.errors import LocalProtocolError
from mcp_core.types.meta import BAGGAGE, PROGRESS_TOKEN, TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["IDENTIFIER", "TRACE_KEYS", "check_members", "is_baggage", "is_traceparent", "is_tracestate"]

TRACE_KEYS: Final = frozenset({TRACEPARENT, TRACESTATE, BAGGAGE})
"""The keys that propagate a trace between programs. They have no effect on the request."""

_LABEL: Final = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PREFIX: Final = rf"{_LABEL}(?:\.{_LABEL})*/"
_NAME: Final = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"

_KEY: Final = re.compile(rf"(?:{_NAME}|{_PREFIX}(?:{_NAME})?)")

IDENTIFIER: Final = re.compile(rf"{_PREFIX}{_NAME}")
"""The pattern of the name of an extension: a reversed domain, a slash and a name."""

_RESERVED: Final = frozenset({"modelcontextprotocol", "mcp"})
"""Labels of reserved prefixes: as the second label (2025-11-25), or before any other label (2025-06-18)."""

_TRACEPARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")

_STATE_KEY: Final = r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
_STATE: Final = re.compile(rf"{_STATE_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_STATES: Final = 32

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_OCTETS: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_ENTRY: Final = re.compile(rf"{_TOKEN}[ \t]*=[ \t]*{_OCTETS}")
_PROPERTY: Final = re.compile(rf"{_TOKEN}(?:[ \t]*=[ \t]*{_OCTETS})?")
_BAGGAGE_CHARS: Final = 8_192


def is_traceparent(value: JsonValue) -> bool:
    """Return whether a value is a W3C `traceparent`: version, trace id, parent id and flags."""
    found = _TRACEPARENT.fullmatch(value) if isinstance(value, str) else None
    # Later versions may append data after a dash; version 00 does not.
    return found is not None and (found[1] != "00" or found[2] is None)


def is_tracestate(value: JsonValue) -> bool:
    """Return whether a value is a W3C `tracestate`: at most 32 pairs, separated by commas."""
    if not isinstance(value, str):
        return False
    pairs = [pair for pair in (each.strip(" \t") for each in value.split(",")) if pair]
    return 0 < len(pairs) <= _STATES and all(_STATE.fullmatch(pair) for pair in pairs)


def is_baggage(value: JsonValue) -> bool:
    """Return whether a value is W3C baggage: entries with properties, separated by commas, at most 8,192 characters."""
    return isinstance(value, str) and len(value) <= _BAGGAGE_CHARS and all(map(_is_entry, value.split(",")))


def _is_entry(text: str) -> bool:
    entry, *properties = [part.strip(" \t") for part in text.split(";")]
    return _ENTRY.fullmatch(entry) is not None and all(_PROPERTY.fullmatch(each) for each in properties)


def _is_key(key: object) -> bool:
    return isinstance(key, str) and _KEY.fullmatch(key) is not None


_FORMATS: Final = {TRACEPARENT: is_traceparent, TRACESTATE: is_tracestate, BAGGAGE: is_baggage}


def check_members(members: Mapping[str, JsonValue]) -> None:
    """Check the members that an application sets in `_meta`.

    Args:
        members: The keys and values.

    Raises:
        LocalProtocolError: A key is invalid or reserved for the protocol, or a value does not have the format of its
            key.
    """
    for key, value in members.items():
        if not _is_key(key):
            raise LocalProtocolError(
                f"{key!r} is not a valid key of _meta: use a name, optionally with a prefix such as 'com.example/'",
                anchor="basic#meta",
            )
        prefix, slash, _ = key.partition("/")
        labels = prefix.split(".") if slash else []
        if key == PROGRESS_TOKEN or _RESERVED.intersection(labels[:2]):
            raise LocalProtocolError(f"the key {key!r} of _meta is set by the protocol itself", anchor="basic#meta")
        right = _FORMATS.get(key)
        if right is not None and not right(value):
            raise LocalProtocolError(f"{value!r} does not have the W3C format of {key} in _meta", anchor="basic#meta")
