"""The YAML front matter of a `SKILL.md`, converted to JSON by the core schema of YAML 1.2.

PyYAML implements YAML 1.1, in which `on` is true and `2026-11-22` is a date, and it can construct arbitrary objects.
This module therefore uses only its parser, which reports where scalars, sequences and mappings begin and end, and
converts them itself. It rejects everything that JSON cannot represent, or that has several readings: numbers that JSON
does not preserve, keys that are not strings or are duplicated, tags, aliases.

Spec: the extension `io.modelcontextprotocol/skills`, Frontmatter; yaml.org/spec/1.2.2, 10.3
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from mcp_core.features.skills import InvalidFrontMatter, split
from mcp_core.trio.extras import extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import yaml

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["read_front_matter"]

_DEPTH: Final = 32
"""Maximum nesting depth. Metadata has two levels."""

_EXACT: Final = 2**53 - 1
"""The greatest integer that every JSON reader reads exactly."""

_BREAKS: Final = re.compile("[\x85\u2028\u2029]")
"""Characters that are line breaks in YAML 1.1 and ordinary characters in YAML 1.2."""

_LITERALS: Final[dict[str, JsonValue]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_NUMBERS: Final[tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...]] = (
    (re.compile(r"[-+]?[0-9]{1,400}"), int),
    (re.compile(r"0o[0-7]{1,400}"), partial(int, base=0)),
    (re.compile(r"0x[0-9a-fA-F]{1,400}"), partial(int, base=0)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)"), lambda _: float("inf")),
    (re.compile(r"\.(nan|NaN|NAN)"), lambda _: float("nan")),
)


def read_front_matter(text: str) -> JsonObject:
    """Read the front matter of a skill.

    Args:
        text: The whole `SKILL.md`.

    Returns:
        The front matter. Its content is not validated; see `mcp_core.features.skills.front_matter_problem`.

    Raises:
        InvalidFrontMatter: The front matter is missing, is not YAML, or cannot be represented in JSON.
        MissingExtra: PyYAML is not installed.
    """
    block, _ = split(text)
    with extra("trio-mcp-core", "skills"):
        import yaml  # lazy: an extra
    odd = _BREAKS.search(block)
    if odd is not None:
        line = block.count("\n", 0, odd.start()) + 2
        raise InvalidFrontMatter(f"the character U+{ord(odd[0]):04X} is ambiguous: write an escape", line)
    try:
        return _Events(yaml.parse(block, Loader=yaml.BaseLoader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InvalidFrontMatter(str(error.problem or error.context), None if mark is None else mark.line + 2) from None
    except yaml.YAMLError as error:
        raise InvalidFrontMatter(f"it is not YAML: {str(error).splitlines()[0]}") from None


class _Events:
    """A reader of a YAML document from the parser's events. It stops at the first event that it rejects."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events: Final = events

    def document(self) -> JsonObject:
        """Read the document. Raises `InvalidFrontMatter`."""
        self._next()  # the start of the stream
        start = self._next()
        found = None if type(start).__name__ == "StreamEndEvent" else self._value(self._next(), 0)
        if not isinstance(found, dict):
            raise InvalidFrontMatter("the YAML must be a mapping, for example `name: tidy-up`", 2)
        self._next()  # the end of the document
        end = self._next()
        if type(end).__name__ != "StreamEndEvent":
            raise InvalidFrontMatter("the YAML must be one document", _line(end))
        return found

    def _next(self) -> yaml.Event:
        return next(self._events)

    def _value(self, event: yaml.Event, depth: int) -> JsonValue:
        kind, line = type(event).__name__, _line(event)
        if kind == "AliasEvent":
            raise InvalidFrontMatter("an alias is not allowed: write the value out", line)
        if getattr(event, "tag", None) is not None:
            raise InvalidFrontMatter("a tag is not allowed", line)
        if kind == "ScalarEvent":
            return _scalar(cast("yaml.ScalarEvent", event), line)  # checked by the class name
        if depth >= _DEPTH:
            raise InvalidFrontMatter(f"it is nested deeper than {_DEPTH} levels", line)
        return self._sequence(depth + 1) if kind == "SequenceStartEvent" else self._mapping(depth + 1)

    def _sequence(self, depth: int) -> list[JsonValue]:
        found: list[JsonValue] = []
        while type(event := self._next()).__name__ != "SequenceEndEvent":
            found.append(self._value(event, depth))
        return found

    def _mapping(self, depth: int) -> JsonObject:
        found: JsonObject = {}
        while type(event := self._next()).__name__ != "MappingEndEvent":
            key = self._value(event, depth)
            if not isinstance(key, str):
                raise InvalidFrontMatter("a key must be a string: put quotes around it", _line(event))
            if key in found:
                raise InvalidFrontMatter(f"the key {key!r:.100} is duplicated", _line(event))
            found[key] = self._value(self._next(), depth)
        return found


def _line(event: yaml.Event) -> int:
    # Events that are parsed from text have a mark. The first line of the file is the line of dashes.
    return cast("yaml.Mark", event.start_mark).line + 2


def _scalar(event: yaml.ScalarEvent, line: int) -> JsonValue:
    text = event.value
    if event.style is not None:
        return text
    if text in _LITERALS:
        return _LITERALS[text]
    for pattern, convert in _NUMBERS:
        if pattern.fullmatch(text) is not None:
            number = convert(text)
            if not -_EXACT <= number <= _EXACT:
                raise InvalidFrontMatter(f"JSON cannot represent the number {text:.50}: put quotes around it", line)
            return number
    return text
