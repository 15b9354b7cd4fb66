"""URI templates: RFC 6570 of level 4, both ways. Matching is in `mcp_server.uris.matcher`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mcp_server.uris.matcher import Found, Matcher
from mcp_server.uris.syntax import AmbiguousTemplate, Expression, InvalidTemplate, Operator, Variable, encode, parse

__all__ = ["AmbiguousTemplate", "InvalidTemplate", "UriTemplate", "Value"]

Value: TypeAlias = str | Sequence[str] | Mapping[str, str]
"""What a variable may stand for in an expansion."""


class UriTemplate:
    """A URI template.

    Args:
        template: The text of the template.
        expand_only: The template will not be matched, so that it may be ambiguous.

    Raises:
        InvalidTemplate: It does not have the form of RFC 6570.
        AmbiguousTemplate: It cannot be matched.
        LimitExceeded: It is longer than 8 KiB, or has more than 256 variables.
    """

    def __init__(self, template: str, *, expand_only: bool = False) -> None:
        self.template: str = template
        """The text of the template."""
        self._parts = parse(template)
        names = [v.name for part in self._parts if isinstance(part, Expression) for v in part.variables]
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(names))
        """The names of the variables, in the order of their first occurrence."""
        self._matcher = None if expand_only else Matcher(template, self._parts)

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def expand(self, values: Mapping[str, Value | None]) -> str:
        """The URI for `values`.

        Args:
            values: A text, a list of texts or a mapping of texts for each variable. A variable that is absent, `None`,
                or an empty list or mapping is left out.

        Returns:
            The URI.

        Raises:
            ValueError: A prefix such as `{name:3}` is asked of a list or a mapping.
        """
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def match(self, uri: str) -> dict[str, Found] | None:
        """The values that expand to `uri`.

        Each value is percent-decoded exactly once. A URI of a client may leave characters unencoded that an expansion
        would encode. A separator, `.` or `..` as a segment, a drive, or a control character makes a value not allowed, in
        whatever encoding; only `{+path}` may hold separators, and `{/path*}` gives a list of segments.

        Args:
            uri: The URI.

        Returns:
            A text for each plain variable; for an exploded one a list, or a mapping where a query says `key=value` with
            other names than that of the variable. A variable for which the URI has nothing is left out. `None` when the
            URI is not of this template, a value is not allowed, or the template is for expanding only.

        Raises:
            LimitExceeded: The URI is longer than 64 KiB.
        """
        return None if self._matcher is None else self._matcher.match(uri)


def _expand(expression: Expression, values: Mapping[str, Value | None]) -> str:
    texts = []
    for variable in expression.variables:
        value = values.get(variable.name)
        if value is None or (not isinstance(value, str) and not value):
            continue
        texts.append(
            _expand_text(expression.operator, variable, value)
            if isinstance(value, str)
            else _expand_many(expression, variable, value)
        )
    return expression.operator.first + expression.operator.separator.join(texts) if texts else ""


def _expand_text(operator: Operator, variable: Variable, value: str) -> str:
    text = encode(value[: variable.prefix], reserved=operator.reserved)
    return _named(operator, variable.name, text)


def _named(operator: Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else f"{name}{operator.if_empty}"


def _expand_many(expression: Expression, variable: Variable, value: Sequence[str] | Mapping[str, str]) -> str:
    operator = expression.operator
    if variable.prefix is not None:
        raise ValueError(
            f"{expression.source}: a prefix of {variable.name!r} is asked for, but its value is not one text"
        )

    def quoted(text: str) -> str:
        return encode(text, reserved=operator.reserved)

    if isinstance(value, Mapping):
        pairs = [(quoted(key), quoted(member)) for key, member in value.items()]
        if variable.explode:
            # A name and its value, by the rule of the operator for an empty value where it names things.
            joined = [
                f"{key}={text}" if text or not operator.named else f"{key}{operator.if_empty}" for key, text in pairs
            ]
            return operator.separator.join(joined)
        return _named(operator, variable.name, ",".join(f"{key},{text}" for key, text in pairs))
    items = [quoted(item) for item in value]
    if variable.explode:
        return operator.separator.join(_named(operator, variable.name, item) for item in items)
    return _named(operator, variable.name, ",".join(items))
