"""Matches URIs against URI templates, the inverse of expanding them.

The RFC does not say how. Where the values allow it, `match(expand(values))` gives them back; and matching takes time in
proportion to the URI, since it does not backtrack:

- The text between expressions cuts the URI. From the left, an expression ends where the text behind it occurs first;
  from the right, it begins where the text before it occurs last. The first one that could hold the text behind it takes
  the rest, so that what is left of it has certain borders: `{+path}/raw/{ref}` is matched from the right.
- Expressions without text between them are cut at the operators, as in `{path}{?page}`.
- What remains is split at separators, and only then is each value percent-decoded, once.

Values come from a peer and go into paths, so what they may say is a part of matching: see `_decode`.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote_to_bytes

import attrs

from mcp_server.uris.syntax import RESERVED, AmbiguousTemplate, Expression, Variable, bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["MAX_URI_BYTES", "Found", "Matcher", "check_length"]

Found: TypeAlias = str | list[str] | dict[str, str]
"""What one variable stands for in a URI."""

MAX_URI_BYTES: Final = 64 * 1024

_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~%-]")
_BORDER: Final = re.compile(r"[/?#]")
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR: Final = re.compile(r"[/\\]")
# Windows reads `C:name` as a path on another drive.
_DRIVE: Final = re.compile(r"[A-Za-z]:")


@attrs.frozen
class _Run:
    """Expressions without text between them, and the text before them."""

    before: str
    expressions: tuple[Expression, ...]

    def may_hold(self, character: str) -> bool:
        """Whether an expansion of the expressions can have the character in it."""
        return _UNRESERVED.match(character) is not None or any(_emits(e, character) for e in self.expressions)


def _emits(expression: Expression, character: str) -> bool:
    operator = expression.operator
    structure = f"{operator.first},{operator.separator}=" if expression.repeats or operator.named else operator.first
    return character in structure or (operator.reserved and character in RESERVED)


def check_length(uri: str) -> None:
    """Raise `LimitExceeded` if a URI is longer than any that is matched."""
    size = len(uri)
    # A character has four bytes at most: only a long or foreign text has to be encoded to be measured.
    if 4 * size > MAX_URI_BYTES:
        size = size if uri.isascii() else len(uri.encode("utf-8", "surrogatepass"))
        bound("bytes of a URI", size, MAX_URI_BYTES, "MAX_URI_BYTES")


class Matcher:
    """Matches the URIs of one template.

    Args:
        template: Its text, for errors.
        parts: What it consists of.

    Raises:
        AmbiguousTemplate: Two expressions cannot be told apart.
    """

    def __init__(self, template: str, parts: Sequence[str | Expression]) -> None:
        runs: list[_Run] = []
        before = ""
        for part in parts:
            if isinstance(part, str):
                before = part
            elif before or not runs:
                runs.append(_Run(before, (part,)))
                before = ""
            else:
                runs[-1] = attrs.evolve(runs[-1], expressions=(*runs[-1].expressions, part))
        for run in runs:
            _check(template, run.expressions)
        self._runs = tuple(runs)
        self._after = before
        self._rest = _rest(runs)

    def match(self, uri: str) -> dict[str, Found] | None:
        """See `mcp_server.uris.template.UriTemplate.match`."""
        check_length(uri)
        pieces = self._cut(uri)
        if pieces is None:
            return None
        values = _Values()
        for run, piece in zip(self._runs, pieces, strict=True):
            for expression, text in _split(run.expressions, piece):
                if text and not _take(expression, text, values):
                    return None
        return values.finish()

    def _cut(self, uri: str) -> list[str] | None:
        """The text of each run, or `None` when the text between them is not there."""
        runs, end = self._runs, len(uri) - len(self._after)
        if not runs:
            return [] if uri == self._after else None
        position = len(runs[0].before)
        if not uri.startswith(runs[0].before) or not uri.endswith(self._after) or position > end:
            return None
        left, right = [], []
        for run in runs[1 : self._rest + 1]:
            at = uri.find(run.before, position, end)
            if at < 0:
                return None
            left.append(uri[position:at])
            position = at + len(run.before)
        for run in runs[: self._rest : -1]:
            at = uri.rfind(run.before, position, end)
            if at < 0:
                return None
            right.append(uri[at + len(run.before) : end])
            end = at
        return [*left, uri[position:end], *reversed(right)]


# --- What can be told apart ------------------------------------------------------------------------------------------


def _check(template: str, expressions: Sequence[Expression]) -> None:
    """Refuses expressions of one run that cannot be told apart, and variables of one expression likewise."""
    for index, expression in enumerate(expressions):
        _check_variables(template, expression)
        for later in expressions[index + 1 :]:
            why = _confusion(expression, later)
            if why is not None:
                raise AmbiguousTemplate(
                    f"{expression.source} and {later.source} cannot be told apart: {why}", template=template
                )


def _confusion(expression: Expression, later: Expression) -> str | None:
    first = later.operator.first
    if not first:
        return "put text between them, as '/'"
    if later.operator is expression.operator:
        return "write one expression with both variables"
    if expression.repeats and first == expression.operator.separator:
        return f"{first!r} also separates the values of the first"
    if expression.operator.reserved and (first not in "?#" or expression.operator.first):
        return f"values of the first may hold {first!r}"
    return None


def _check_variables(template: str, expression: Expression) -> None:
    *earlier, _ = expression.variables
    exploded = [variable for variable in expression.variables if variable.explode]
    if expression.operator.named:
        if len(exploded) > 1:
            raise AmbiguousTemplate(f"{expression.source} has more than one exploded variable", template=template)
    elif any(variable.explode for variable in earlier):
        raise AmbiguousTemplate(f"{expression.source} has an exploded variable that is not the last", template=template)
    elif earlier and expression.operator.reserved:
        raise AmbiguousTemplate(f"{expression.source}: the values may hold the ',' between them", template=template)


def _rest(runs: Sequence[_Run]) -> int:
    """Which run takes the rest: the first that could hold the text behind it, or else the last."""
    for index, (run, after) in enumerate(itertools.pairwise(runs)):
        if run.may_hold(after.before[0]):
            return index
    return len(runs) - 1


# --- Taking values ---------------------------------------------------------------------------------------------------


@attrs.define
class _Values:
    """The values found so far."""

    found: dict[str, Found] = attrs.field(factory=dict)
    prefixes: list[tuple[str, int, str]] = attrs.field(factory=list)

    def put(self, name: str, value: Found | None) -> bool:
        """Whether the value is allowed, and the same as elsewhere."""
        return value is not None and self.found.setdefault(name, value) == value

    def put_text(self, variable: Variable, raw: str, *, path_like: bool) -> bool:
        """Likewise, for a text that is still encoded."""
        value = _decode(raw, path_like=path_like)
        if variable.prefix is None or value is None:
            return self.put(variable.name, value)
        self.prefixes.append((variable.name, variable.prefix, value))
        return len(value) <= variable.prefix

    def finish(self) -> dict[str, Found] | None:
        """All values, unless a prefix is not that of its variable."""
        for name, length, prefix in sorted(self.prefixes, key=lambda entry: -len(entry[2])):
            whole = self.found.setdefault(name, prefix)
            if not isinstance(whole, str) or whole[:length] != prefix:
                return None
        return self.found


def _split(expressions: Sequence[Expression], text: str) -> Iterator[tuple[Expression, str]]:
    """The text of each expression of a run, empty where it has none."""
    for index, expression in enumerate(expressions):
        borders = [text.find(later.operator.first) for later in expressions[index + 1 :]]
        end = min((at for at in borders if at >= 0), default=len(text))
        yield expression, text[:end]
        text = text[end:]


def _take(expression: Expression, text: str, values: _Values) -> bool:
    """Puts the values of one expression. Whether `text` is an expansion of it."""
    operator = expression.operator
    if not text.startswith(operator.first):
        return False
    body = text[len(operator.first) :]
    if operator.named:
        return _take_named(expression, body.split(operator.separator), values)
    if not expression.repeats:
        return values.put_text(expression.variables[0], body, path_like=operator.reserved)
    *plain, last = expression.variables
    texts = body.split(operator.separator)
    if last.explode:
        items, texts = texts[len(plain) :], texts[: len(plain)]
        # An empty segment makes a path absolute, or is lost in it.
        if operator.first == "/" and "" in items:
            return False
        if items and not values.put(last.name, _decode_all(items, path_like=operator.reserved)):
            return False
    else:
        plain.append(last)
    if len(texts) > len(plain):
        return False
    return all(values.put_text(variable, raw, path_like=False) for variable, raw in zip(plain, texts, strict=False))


def _take_named(expression: Expression, texts: Sequence[str], values: _Values) -> bool:
    """Likewise, for `name=value` in any order. A name that the expression does not know is part of a mapping, or wrong."""
    variables = {variable.name: variable for variable in expression.variables if not variable.explode}
    exploded = next((variable.name for variable in expression.variables if variable.explode), None)
    items: list[str] = []
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, _, raw = text.partition("=")
        variable = variables.pop(name, None)
        if variable is not None:
            if not values.put_text(variable, raw, path_like=False):
                return False
        elif name == exploded:
            items.append(raw)
        else:
            pairs.append((name, raw))
    if exploded is None or (items and pairs):
        return not items and not pairs
    if items:
        return values.put(exploded, _decode_all(items, path_like=False))
    if pairs:
        keys, members = (_decode_all(column, path_like=False) for column in zip(*pairs, strict=True))
        if keys is None or members is None or len(set(keys)) < len(keys):
            return False
        return values.put(exploded, dict(zip(keys, members, strict=True)))
    return True


def _decode_all(texts: Sequence[str], *, path_like: bool) -> list[str] | None:
    values = [value for text in texts if (value := _decode(text, path_like=path_like)) is not None]
    return values if len(values) == len(texts) else None


def _decode(raw: str, *, path_like: bool) -> str | None:
    """A value, percent-decoded once; `None` when a peer may not say it.

    Never allowed are: malformed or overlong encodings, control characters, drives, and `.` or `..` as a whole value or as a
    segment of one. Separators are allowed only where the template asks for a path, as `{+path}` does, and not at the
    start, where they would make it absolute.
    """
    if _STRAY_PERCENT.search(raw) or (not path_like and _BORDER.search(raw)):
        return None
    try:
        value = unquote_to_bytes(raw).decode()
    except UnicodeError:
        return None
    segments = _SEPARATOR.split(value)
    if _CONTROL.search(value) or _DRIVE.match(value) or any(_is_dots(segment) for segment in segments):
        return None
    if len(segments) > 1 and (not path_like or not segments[0]):
        return None
    return value


def _is_dots(segment: str) -> bool:
    # Windows ignores dots and spaces at the end of a name, so that '.. ' and '...' are suspicious too.
    return "." in segment and not segment.strip(". ")
