"""Serialization of arguments in paths, queries, headers, cookies and forms.

Source: OpenAPI 3.1.1, section 4.8.12.6 (style values) and appendix C
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["QUERY_STYLES", "SEGMENT_STYLES", "bracketed", "plain_text", "query_pairs", "segment"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _SegmentStyle(FieldValue):
    prefix: str
    separator: str
    """Separates the items of an exploded value."""
    is_named: bool = False
    """Whether the name of the parameter precedes its value."""


SEGMENT_STYLES: Final = {
    "simple": _SegmentStyle(prefix="", separator=","),
    "label": _SegmentStyle(prefix=".", separator="."),
    "matrix": _SegmentStyle(prefix=";", separator=";", is_named=True),
}
"""The styles of paths and headers."""

QUERY_STYLES: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "deepObject": None}
"""The styles of queries and cookies, with the separator of the items of a value that is not exploded."""


def plain_text(value: JsonValue) -> str:
    """Return a value as text: a string itself, anything else as JSON, and nothing for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _encoded(value: JsonValue) -> str:
    """Return the percent-encoded text of a value. Nothing in it can end a path segment or a member of a query."""
    return quote(plain_text(value), safe="")


def segment(name: str, value: JsonValue, *, style: str, explode: bool, encode: bool = True) -> str:
    """Return a value as a part of a path or a header.

    Args:
        name: The name of the parameter.
        value: The value.
        style: A key of `SEGMENT_STYLES`.
        explode: Whether each item is written on its own.
        encode: Whether to percent-encode the value, as in a path.
    """
    row = SEGMENT_STYLES[style]
    text: Callable[[JsonValue], str] = _encoded if encode else plain_text
    shown = text(name)
    if isinstance(value, dict):
        if explode:
            return row.prefix + row.separator.join(f"{text(key)}={text(item)}" for key, item in value.items())
        flat = ",".join(text(part) for pair in value.items() for part in pair)
    elif isinstance(value, list):
        if explode:
            return row.prefix + row.separator.join(
                f"{shown}={text(item)}" if row.is_named else text(item) for item in value
            )
        flat = ",".join(map(text, value))
    else:
        flat = text(value)
    return row.prefix + (f"{shown}={flat}" if row.is_named else flat)


def query_pairs(name: str, value: JsonValue, *, style: str, explode: bool) -> Iterator[str]:
    """Yield the members of a query, for example `id=3`, percent-encoded.

    Args:
        name: The name of the parameter.
        value: The value.
        style: A key of `QUERY_STYLES`.
        explode: Whether each item is a member of its own.
    """
    separator, shown = QUERY_STYLES[style], _encoded(name)
    if separator is None:
        yield from bracketed(name, value)
    elif isinstance(value, dict) and explode:
        yield from (f"{_encoded(key)}={_encoded(item)}" for key, item in value.items())
    elif isinstance(value, list) and explode:
        yield from (f"{shown}={_encoded(item)}" for item in value)
    elif isinstance(value, dict):
        yield f"{shown}={separator.join(_encoded(part) for pair in value.items() for part in pair)}"
    elif isinstance(value, list):
        yield f"{shown}={separator.join(map(_encoded, value))}"
    else:
        yield f"{shown}={_encoded(value)}"


def bracketed(name: str, value: JsonValue) -> Iterator[str]:
    """Yield the members of a query for a nested value: `a[b][0]=1`, as servers of the style `deepObject` read it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from bracketed(f"{name}[{key}]", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from bracketed(f"{name}[{index}]", item)
    else:
        yield f"{_encoded(name)}={_encoded(value)}"
