"""The text of a settings file, JSON that may have comments and trailing commas, with one member set or removed.

Editors store settings with comments, which a JSON library would discard, and in the layout of their users. So a scanner
finds the positions of the members of two objects, the root and a section of it, and an edit changes only the text of one
member and the comma beside it. All other bytes stay.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["SettingsTextError", "remove_member", "set_member"]

_MAX_DEPTH: Final = 100
"""The deepest nesting of objects and arrays that the scanner follows; settings have less than 20 levels."""

_SPACE: Final = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*(?s:.*?)\*/)*+")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"')
_SCALAR: Final = re.compile(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-])")
_REST_OF_LINE: Final = re.compile(r"(?:[ \t]|/\*[^\r\n]*?\*/)*+(?://[^\r\n]*)?")
"""Blanks and comments that end in the line in which they begin."""
_END_OF_LINE: Final = re.compile(r"[ \t]*(?:\r?\n|\Z)")
_BLANKS_BEFORE: Final = re.compile(r"(?:\r?\n)?[ \t]*\Z")


class SettingsTextError(Exception):
    """The text is not an object with comments, or an edit would be ambiguous. The message has the line and column."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Member(FieldValue):
    """The positions of a member in the text."""

    name: str
    start: int
    value: int
    end: int
    """The position after the value."""
    comma: int | None
    """The position of the comma after the value."""


def set_member(text: str, section: str, name: str, value: JsonObject) -> str:
    """Return the text with a member of a section inserted or replaced.

    Args:
        text: The content of the file. Without a value, such as an empty file, it becomes an object.
        section: The member of the root that holds the members. It is inserted if it is missing.
        name: The name of the member.
        value: The value of the member.

    Returns:
        The new text. Comments within a replaced value are lost; everything else stays.

    Raises:
        SettingsTextError: The text is not an object, the section is not one, or a name occurs twice.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    start = _SPACE.match(text, 1 if text.startswith("\ufeff") else 0)
    if start is None or start.end() == len(text):
        between = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
        return f"{text}{between}{_rendered({section: {name: value}}, _Layout(newline=newline, unit='  '), '')}{newline}"
    root = _root(text)
    layout = _Layout(newline=newline, unit=_unit(text, root))
    holder = _find(text, root, section)
    if holder is None:
        return _inserted(text, root, section, {name: value}, layout)
    inner = _section(text, holder)
    member = _find(text, inner, name)
    if member is None:
        return _inserted(text, inner, name, value, layout)
    rendered = _rendered(value, layout, _indentation(text, member.start))
    if not _is_on_several_lines(text, inner):
        rendered = json.dumps(value, ensure_ascii=False)
    return text[: member.value] + rendered + text[member.end :]


def remove_member(text: str, section: str, name: str) -> str:
    """Return the text without a member of a section.

    Args:
        text: The content of the file.
        section: The member of the root that holds the members.
        name: The name of the member.

    Returns:
        The new text, which is the same if there is no such member. Only comments within the member are removed.

    Raises:
        SettingsTextError: As for `set_member`.
    """
    start = _SPACE.match(text, 1 if text.startswith("\ufeff") else 0)
    if start is None or start.end() == len(text):
        return text
    holder = _find(text, _root(text), section)
    if holder is None:
        return text
    inner = _section(text, holder)
    member = _find(text, inner, name)
    if member is None:
        return text
    begin, end = member.start, member.end
    comma = member.comma
    if comma is None:
        before = inner.members.index(member) - 1
        comma = inner.members[before].comma if before >= 0 else None
    elif not text[end:comma].strip():
        end, comma = comma + 1, None
    if _END_OF_LINE.match(text, end):
        # The line break goes too. After other text on the line this could extend a comment of the line before.
        begin = _blanks_before(text, begin)
    elif text[begin - 1] in " \t":
        begin = len(text[:begin].rstrip(" \t"))
    else:
        end = len(text) - len(text[end:].lstrip(" \t"))
    if comma is None:
        return text[:begin] + text[end:]
    if comma < begin:
        return text[:comma] + text[comma + 1 : begin] + text[end:]
    return text[:begin] + text[end:comma] + text[comma + 1 :]


# --- the scanner -----------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Object(FieldValue):
    """The positions of an object: of its braces, and its members in order."""

    start: int
    end: int
    members: tuple[_Member, ...]


def _root(text: str) -> _Object:
    start = _after_space(text, 1 if text.startswith("\ufeff") else 0)
    if text[start : start + 1] != "{":
        raise _error(text, start, "expected an object, which begins with {")
    found = _object(text, start, 0)
    rest = _after_space(text, found.end)
    if rest != len(text):
        raise _error(text, rest, "expected the end of the file after the object")
    return found


def _section(text: str, holder: _Member) -> _Object:
    if text[holder.value] != "{":
        raise _error(text, holder.value, f"the value of {holder.name!r} must be an object")
    return _object(text, holder.value, 1)


def _find(text: str, within: _Object, name: str) -> _Member | None:
    found = [member for member in within.members if member.name == name]
    if len(found) > 1:
        raise _error(text, found[1].start, f"{name!r} occurs twice in the same object; remove one of them")
    return found[0] if found else None


def _object(text: str, start: int, depth: int) -> _Object:
    members: list[_Member] = []
    at = _after_space(text, start + 1)
    while text[at : at + 1] != "}":
        if members and members[-1].comma is None:
            raise _error(text, at, "expected , or } after a member")
        key = _STRING.match(text, at)
        if key is None:
            raise _error(text, at, "expected a name in double quotes, or }")
        colon = _after_space(text, key.end())
        if text[colon : colon + 1] != ":":
            raise _error(text, colon, "expected : after a name")
        value = _after_space(text, colon + 1)
        end = _after_value(text, value, depth + 1)
        at = _after_space(text, end)
        comma = at if text[at : at + 1] == "," else None
        name: str = json.loads(key[0])
        members.append(_Member(name=name, start=key.start(), value=value, end=end, comma=comma))
        if comma is not None:
            at = _after_space(text, comma + 1)
    return _Object(start=start, end=at + 1, members=tuple(members))


def _after_value(text: str, start: int, depth: int) -> int:
    """Return the position after the value that begins at `start`."""
    if depth > _MAX_DEPTH:
        raise _error(text, start, f"more than {_MAX_DEPTH} levels of nesting")
    if text[start : start + 1] == "{":
        return _object(text, start, depth).end
    if text[start : start + 1] != "[":
        scalar = _STRING.match(text, start) or _SCALAR.match(text, start)
        if scalar is None:
            raise _error(text, start, "expected a value")
        return scalar.end()
    at = _after_space(text, start + 1)
    while text[at : at + 1] != "]":
        at = _after_space(text, _after_value(text, at, depth + 1))
        if text[at : at + 1] == ",":
            at = _after_space(text, at + 1)
        elif text[at : at + 1] != "]":
            raise _error(text, at, "expected , or ] after an element")
    return at + 1


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def _error(text: str, at: int, message: str) -> SettingsTextError:
    line = text.count("\n", 0, at) + 1
    return SettingsTextError(f"line {line}, column {at - text.rfind(chr(10), 0, at)}: {message}")


# --- the layout ------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Layout(FieldValue):
    """The layout of the file: its line break, and the blanks of one level of indentation."""

    newline: str
    unit: str


def _inserted(text: str, into: _Object, name: str, value: JsonObject, layout: _Layout) -> str:
    """Return the text with a member at the end of an object, in the layout of the object."""
    last = into.members[-1] if into.members else None
    if last is not None and not _is_on_several_lines(text, into):
        written = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        if last.comma is not None:
            return f"{text[: last.comma + 1]} {written},{text[last.comma + 1 :]}"
        return f"{text[: last.end]}, {written}{text[last.end :]}"
    if last is None:
        place = into.start + 1
        indentation = _indentation(text, into.start) + layout.unit
    else:
        place = last.end if last.comma is None else last.comma + 1
        indentation = _indentation(text, last.start)
        if not text[: last.start].endswith((" ", "\t", "\n")) or _blanks_before(text, last.start) == last.start:
            indentation = _indentation(text, into.start) + layout.unit
    rest = _REST_OF_LINE.match(text, place)
    # A comment behind a member stays in its line.
    line = place if rest is None or not rest[0].strip() else rest.end()
    written = f"{layout.newline}{indentation}{json.dumps(name, ensure_ascii=False)}: "
    written += _rendered(value, layout, indentation)
    if last is None:
        after = _after_blanks(text, line)
        closed = after == "}"
        return text[:line] + written + (layout.newline + _indentation(text, into.start) if closed else "") + text[line:]
    comma = "," if last.comma is None else ""
    trailing = "," if last.comma is not None else ""
    return text[: last.end] + comma + text[last.end : line] + written + trailing + text[line:]


def _rendered(value: JsonValue, layout: _Layout, indentation: str) -> str:
    return json.dumps(value, indent=layout.unit, ensure_ascii=False).replace("\n", layout.newline + indentation)


def _is_on_several_lines(text: str, within: _Object) -> bool:
    return "\n" in text[within.start : within.end]


def _after_blanks(text: str, at: int) -> str:
    """Return the first character after blanks."""
    return text[at:].lstrip(" \t")[:1]


def _blanks_before(text: str, at: int) -> int:
    """Return the start of the blanks before a position, with one line break before them."""
    line = text.rfind("\n", 0, at)
    begin = max(0, line - 1)
    found = _BLANKS_BEFORE.search(text[begin:at])
    return at if found is None else begin + found.start()


def _indentation(text: str, at: int) -> str:
    """Return the blanks at the start of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str, root: _Object) -> str:
    """Return the blanks of one level of indentation: those before the first member of the root that has some."""
    outer = _indentation(text, root.start)
    for member in root.members:
        line = text[text.rfind("\n", 0, member.start) + 1 : member.start]
        if line.startswith(outer) and line != outer and not line.strip(" \t"):
            return line.removeprefix(outer)
    return "  "
