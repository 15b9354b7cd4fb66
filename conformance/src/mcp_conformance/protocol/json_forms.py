"""Forms in which JSON may be written, all on one line. A reader must take each for the same value (RFC 8259)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["JSON_FORMS", "in_all_forms", "rearranged"]


def _reversed(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _reversed(value[name]) for name in reversed(value)}
    return [_reversed(each) for each in value] if isinstance(value, list) else value


def _plain(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)) + '"'


def _written(value: JsonValue, *, space: str = "", string: Callable[[str], str] = _plain) -> str:
    if isinstance(value, dict):
        written = {name: _written(each, space=space, string=string) for name, each in value.items()}
        pairs = (f"{space}{string(name)}{space}:{space}{each}{space}" for name, each in written.items())
        return "{" + (",".join(pairs) or space) + "}"
    if isinstance(value, list):
        items = (f"{space}{_written(each, space=space, string=string)}{space}" for each in value)
        return "[" + (",".join(items) or space) + "]"
    return string(value) if isinstance(value, str) else json.dumps(value)


_SPACE: Final = " \t"

JSON_FORMS: Final[Mapping[str, Callable[[JsonValue], bytes]]] = {
    "its members in reverse order": lambda value: _written(_reversed(value)).encode(),
    "spaces and tabs around its tokens": lambda value: (_SPACE + _written(value, space=_SPACE) + _SPACE).encode(),
    "each character of its strings escaped": lambda value: _written(value, string=_escaped).encode(),
}
"""The forms by their names: functions that write a value."""


def rearranged(value: JsonValue) -> bytes:
    """Write a value with its members in reverse order, and with spaces around its tokens."""
    return (_SPACE + _written(_reversed(value), space=_SPACE) + _SPACE).encode()


def in_all_forms(value: JsonValue) -> bytes:
    """Write a value in all forms of the table at once."""
    return (_SPACE + _written(_reversed(value), space=_SPACE, string=_escaped) + _SPACE).encode()
