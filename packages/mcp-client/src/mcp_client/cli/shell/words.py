r"""The words of a line of the shell.

Words are separated by white space. `'...'` and `"..."` quote text, `\` quotes one character, and `\` at the end of a line
joins the next line, as in a POSIX shell. Unlike there, a value that begins with `{` or `[` is JSON: it extends to the
closing bracket and keeps its quotes, spaces and line ends. Nothing else is special.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from mcp_core.field_methods import FieldValue

__all__ = ["Word", "is_complete", "quote", "split_words"]

_PLAIN: Final = re.compile(r"[^\s'\"\\]+")
"""A word that means the same without quotes, unless it has a value that begins like JSON."""

_JSON: Final = re.compile(r"(?:[^=]*=)?[{\[]")
"""The start of a word whose value is JSON."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Word(FieldValue):
    """A word of a line."""

    text: str
    """The word without quotes."""
    start: int
    """The offset of its first character in the line."""
    is_open: bool = False
    """Whether the line ends in its quotes or brackets, or after a backslash."""
    is_json: bool = False
    """Whether its value begins like JSON."""


def split_words(line: str) -> tuple[Word, ...]:
    """Return the words of a line. Only the last word can be open."""
    words: list[Word] = []
    place = 0
    while place < len(line):
        if line[place].isspace():
            place += 1
        else:
            word, place = _read_word(line, place)
            words.append(word)
    return tuple(words)


def is_complete(line: str) -> bool:
    """Return whether a line does not require another one."""
    words = split_words(line)
    return not (words and words[-1].is_open)


def quote(text: str) -> str:
    """Return a text as a word, with quotes if it requires them. For a value, pass the text after `=` only."""
    if _PLAIN.fullmatch(text) and not _JSON.match(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_word(line: str, start: int) -> tuple[Word, int]:
    """Return the word at an offset, and the offset after it."""
    parts: list[str] = []
    place, is_open, is_json, may_be_json = start, False, False, True
    while place < len(line) and not is_open and not line[place].isspace():
        character = line[place]
        end = place + 1
        if character in "{[" and may_be_json and (not parts or parts[-1] == "="):
            end, is_open = _end_of_json(line, place)
            parts.append(line[place:end])
            is_json, may_be_json = True, False
        elif character in "'\"":
            text, end, is_open = _read_quoted(line, place)
            parts.append(text)
        elif character == "\\":
            is_open = line[end:] in {"", "\n"}
            parts.append("" if is_open or line[end] == "\n" else line[end])
            end = min(end + 1, len(line))
        else:
            # Only the first `=` separates a name from a value.
            may_be_json = may_be_json and "=" not in parts
            parts.append(character)
        place = end
    return Word(text="".join(parts), start=start, is_open=is_open, is_json=is_json), place


def _read_quoted(line: str, start: int) -> tuple[str, int, bool]:
    """Return the text in quotes, the offset after them, and whether the closing quote is missing."""
    mark, parts, place = line[start], [], start + 1
    while place < len(line) and line[place] != mark:
        # In double quotes, a backslash quotes these two characters only, so that other text can be typed as it is.
        if mark == '"' and line[place : place + 2] in ('\\"', "\\\\"):
            place += 1
        parts.append(line[place])
        place += 1
    return "".join(parts), min(place + 1, len(line)), place >= len(line)


def _end_of_json(line: str, start: int) -> tuple[int, bool]:
    """Return the offset after a JSON array or object, and whether its closing bracket is missing."""
    depth, in_string, place = 0, False, start
    while place < len(line):
        character = line[place]
        if in_string:
            if character == "\\":
                place += 1
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if not depth:
                return place + 1, False
        place += 1
    return len(line), True
