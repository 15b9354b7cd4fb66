"""A parser of docstrings: the description of a function, and the descriptions of its parameters.

It supports three styles, by their section marks: Google (`Args:`), NumPy (`Parameters` with dashes below) and Sphinx
(`:param name:`). The description is the text before the first section on parameters, results or errors.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Docstring", "parse_docstring"]

_MEMBERS: Final = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters", "attributes"}
)
_OTHERS: Final = frozenset({"returns", "return", "yields", "yield", "raises", "raise", "warns"})
_FIELD: Final = re.compile(r":(?P<kind>[a-z]+)(?:\s+(?P<rest>[^:]*))?:(?:\s+(?P<text>.*))?$")
_FIELD_MEMBERS: Final = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "ivar", "var"})
_FIELD_OTHERS: Final = frozenset(
    {"type", "return", "returns", "rtype", "raise", "raises", "yield", "yields", "vartype", "except"}
)
_ENTRY: Final = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?:\([^)]*\))?\s*:(?:\s+(?P<text>.*))?$")
_NUMPY_ENTRY: Final = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


@attrs.frozen(eq=False, repr=False)
class Docstring(FieldValue):
    """The content of a docstring."""

    description: str
    """The text before the sections."""
    members: dict[str, str]
    """The description of each parameter or attribute."""


def parse_docstring(text: str | None) -> Docstring:
    """Return the parts of a docstring; empty parts for `None`.

    Args:
        text: The docstring as it is in the source.

    Returns:
        Its parts, without indentation.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    members: dict[str, str] = {}
    first: int | None = None
    index = 0
    while index < len(lines):
        style = _section(lines, index)
        if style is None:
            index += 1
            continue
        first = index if first is None else first
        index = style(lines, index, members)
    return Docstring("\n".join(lines[:first]).strip(), {name: said for name, said in members.items() if said})


def _section(lines: list[str], index: int) -> Callable[[list[str], int, dict[str, str]], int] | None:
    """Return the reader of the section that starts at a line, or `None`."""
    line = lines[index].rstrip()
    field = _FIELD.match(line)
    if field is not None and field["kind"] in _FIELD_MEMBERS | _FIELD_OTHERS:
        return _read_field
    below = lines[index + 1].strip() if index + 1 < len(lines) else ""
    if len(below) >= 3 and not below.strip("-") and line.strip().lower() in _MEMBERS | _OTHERS:
        return _read_numpy
    if line.endswith(":") and line[:-1].lower() in _MEMBERS | _OTHERS:
        return _read_google
    return None


def _read_google(lines: list[str], index: int, members: dict[str, str]) -> int:
    """Read an indented section. Return the index of the line after it."""
    wanted = lines[index].rstrip()[:-1].lower() in _MEMBERS
    index += 1
    entry_indent: int | None = None
    names: list[str] = []
    while index < len(lines):
        line = lines[index]
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            break
        entry = _ENTRY.match(line.strip())
        if entry is not None and (entry_indent is None or indent <= entry_indent):
            entry_indent = indent
            names = _names(entry["names"])
            _add(members, names if wanted else [], entry["text"] or "")
        else:
            _add(members, names if wanted else [], line.strip())
        index += 1
    return index


def _read_numpy(lines: list[str], index: int, members: dict[str, str]) -> int:
    """Read an underlined section. Return the index of the line after it."""
    wanted = lines[index].strip().lower() in _MEMBERS
    index += 2
    names: list[str] = []
    while index < len(lines):
        line = lines[index]
        below = lines[index + 1].strip() if index + 1 < len(lines) else ""
        if line.strip() and len(below) >= 3 and not below.strip("-"):
            break
        entry = _NUMPY_ENTRY.match(line)
        if line.strip() and not line[0].isspace() and entry is not None:
            names = _names(entry["names"])
        else:
            _add(members, names if wanted else [], line.strip())
        index += 1
    return index


def _read_field(lines: list[str], index: int, members: dict[str, str]) -> int:
    """Read one field of a list. Return the index of the line after it."""
    field = _FIELD.match(lines[index].rstrip())
    rest = (field["rest"] or "").split() if field is not None else []
    wanted = field is not None and field["kind"] in _FIELD_MEMBERS and rest
    names = _names(rest[-1]) if wanted else []
    _add(members, names, (field["text"] or "") if field is not None else "")
    index += 1
    while index < len(lines) and lines[index][:1].isspace():
        _add(members, names, lines[index].strip())
        index += 1
    return index


def _names(text: str) -> list[str]:
    return [name.strip().lstrip("*") for name in text.split(",")]


def _add(members: dict[str, str], names: list[str], text: str) -> None:
    for name in names:
        members[name] = f"{members.get(name, '')} {text}".strip()
