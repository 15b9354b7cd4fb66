"""Matching of URIs with URI templates, the inverse of expansion.

RFC 6570 does not define matching. If the values permit it, `match(expand(values))` returns them. Matching does not
backtrack, so it takes time proportional to the length of the URI:

- The literal text between expressions splits the URI. From the left, an expression ends at the first occurrence of the
  text after it. From the right, it starts at the last occurrence of the text before it. The first expression that can
  contain the text after it receives the rest, which makes its borders unambiguous: `{+path}/raw/{ref}` is matched from
  the right.
- Expressions without literal text between them are split at their operators, as in `{path}{?page}`.
- The result is split at separators. Only then is each value percent-decoded, exactly once.

Clients supply the values, and servers use them in paths. Therefore matching also validates them: see `_decode`.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote_to_bytes

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.uris.syntax import RESERVED, AmbiguousTemplate, Expression, Variable, bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["MAX_URI_BYTES", "Found", "Matcher", "check_length"]

Found: TypeAlias = str | list[str] | dict[str, str]
"""The value of one variable in a URI."""

MAX_URI_BYTES: Final = 64 * 1024

_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~%-]")
_BORDER: Final = re.compile(r"[/?#]")
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR: Final = re.compile(r"[/\\]")
# Windows reads `C:name` as a path on another drive.
_DRIVE: Final = re.compile(r"[A-Za-z]:")


@attrs.frozen(eq=False, repr=False)
class _Run(FieldValue):
    """Expressions without literal text between them, and the literal text before them."""

    before: str
    expressions: tuple[Expression, ...]

    def may_hold(self, character: str) -> bool:
        """Return whether an expansion of the expressions can contain the character."""
        return _UNRESERVED.match(character) is not None or any(_emits(e, character) for e in self.expressions)


def _emits(expression: Expression, character: str) -> bool:
    operator = expression.operator
    structure = f"{operator.first},{operator.separator}=" if expression.repeats or operator.named else operator.first
    return character in structure or (operator.reserved and character in RESERVED)


def check_length(uri: str) -> None:
    """Check the length of a URI. Raises `LimitExceeded` if it is more than 64 KiB."""
    size = len(uri)
    # A character has at most four bytes: only a long or non-ASCII text must be encoded to measure it.
    if 4 * size > MAX_URI_BYTES:
        size = size if uri.isascii() else len(uri.encode("utf-8", "surrogatepass"))
        bound("bytes of a URI", size, MAX_URI_BYTES, "MAX_URI_BYTES")


class Matcher:
    """A matcher of the URIs of one template.

    Args:
        template: The text of the template, for errors.
        parts: The literals and expressions of the template.

    Raises:
        AmbiguousTemplate: The values of two expressions or variables cannot be separated.
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
        """Return the values that expand to `uri`, as `mcp_server.uris.template.UriTemplate.match` documents."""
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
        """Return the text of each run, or `None` if the literals do not match."""
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


# --- Ambiguity -------------------------------------------------------------------------------------------------------


def _check(template: str, expressions: Sequence[Expression]) -> None:
    """Reject expressions of one run, and variables of one expression, whose values cannot be separated."""
    for index, expression in enumerate(expressions):
        _check_variables(template, expression)
        for later in expressions[index + 1 :]:
            why = _confusion(expression, later)
            if why is not None:
                raise AmbiguousTemplate(
                    f"values of {expression.source} and {later.source} cannot be separated: {why}", template=template
                )


def _confusion(expression: Expression, later: Expression) -> str | None:
    first = later.operator.first
    if not first:
        return "put text between them, for example '/'"
    if later.operator is expression.operator:
        return "write one expression with both variables"
    if expression.repeats and first == expression.operator.separator:
        return f"{first!r} also separates the values of the first"
    if expression.operator.reserved and (first not in "?#" or expression.operator.first):
        return f"values of the first can contain {first!r}"
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
        raise AmbiguousTemplate(f"{expression.source}: values can contain the ',' between them", template=template)


def _rest(runs: Sequence[_Run]) -> int:
    """Return the index of the run that receives the rest: the first that can contain the text after it, or the last."""
    for index, (run, after) in enumerate(itertools.pairwise(runs)):
        if run.may_hold(after.before[0]):
            return index
    return len(runs) - 1


# --- Values ----------------------------------------------------------------------------------------------------------


@attrs.define
class _Values:
    """The values that were found."""

    found: dict[str, Found] = attrs.field(factory=dict)
    prefixes: list[tuple[str, int, str]] = attrs.field(factory=list)

    def put(self, name: str, value: Found | None) -> bool:
        """Add a value. Return whether it is allowed and equal to other occurrences of the variable."""
        return value is not None and self.found.setdefault(name, value) == value

    def put_text(self, variable: Variable, raw: str, *, path_like: bool) -> bool:
        """Decode and add a value. Return whether it is allowed and equal to other occurrences of the variable."""
        value = _decode(raw, path_like=path_like)
        if variable.prefix is None or value is None:
            return self.put(variable.name, value)
        self.prefixes.append((variable.name, variable.prefix, value))
        return len(value) <= variable.prefix

    def finish(self) -> dict[str, Found] | None:
        """Return all values, or `None` if a prefix does not match its variable."""
        for name, length, prefix in sorted(self.prefixes, key=lambda entry: -len(entry[2])):
            whole = self.found.setdefault(name, prefix)
            if not isinstance(whole, str) or whole[:length] != prefix:
                return None
        return self.found


def _split(expressions: Sequence[Expression], text: str) -> Iterator[tuple[Expression, str]]:
    """Yield the text of each expression of a run; empty if an expression has no text."""
    for index, expression in enumerate(expressions):
        borders = [text.find(later.operator.first) for later in expressions[index + 1 :]]
        end = min((at for at in borders if at >= 0), default=len(text))
        yield expression, text[:end]
        text = text[end:]


def _take(expression: Expression, text: str, values: _Values) -> bool:
    """Add the values of one expression. Return whether `text` is an expansion of it."""
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
        # An empty segment would make the path absolute, or would be lost in it.
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
    """Add the values of `name=value` pairs in any order. Unknown names belong to a mapping, or do not match."""
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
    """Percent-decode a value once; `None` if the value is not allowed.

    Not allowed are malformed or overlong encodings, control characters, drive letters, and `.` or `..` as a whole value
    or as a segment of a value. Separators are allowed only if the template expects a path, as `{+path}` does. They are
    not allowed at the start of a value, where they would make the path absolute.
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
    # Windows ignores dots and spaces at the end of a name, so '.. ' and '...' are rejected, too.
    return "." in segment and not segment.strip(". ")
