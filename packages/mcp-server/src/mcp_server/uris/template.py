"""URI templates of RFC 6570, level 4: expansion, and matching by `mcp_server.uris.matcher`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mcp_server.uris.matcher import Found, Matcher
from mcp_server.uris.syntax import AmbiguousTemplate, Expression, InvalidTemplate, Operator, Variable, encode, parse

__all__ = ["AmbiguousTemplate", "InvalidTemplate", "UriTemplate", "Value"]

Value: TypeAlias = str | Sequence[str] | Mapping[str, str]
"""The value of a variable for an expansion."""


class UriTemplate:
    """A URI template.

    Args:
        template: The text of the template.
        expand_only: Whether the template is used only for expansion, and can be ambiguous.

    Raises:
        InvalidTemplate: The text is not a valid template of RFC 6570.
        AmbiguousTemplate: URIs cannot be matched with the template.
        LimitExceeded: The template is longer than 8 KiB, or has more than 256 variables.
    """

    def __init__(self, template: str, *, expand_only: bool = False) -> None:
        self.template: str = template
        """The text of the template."""
        self._parts = parse(template)
        first = self._parts[0] if self._parts else ""
        self.beginning: str = first if isinstance(first, str) else ""
        """The literal text before the first expression, with which each URI of the template begins."""
        names = [v.name for part in self._parts if isinstance(part, Expression) for v in part.variables]
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(names))
        """The names of the variables, in the order of their first occurrence."""
        self._matcher = None if expand_only else Matcher(template, self._parts)

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def expand(self, values: Mapping[str, Value | None]) -> str:
        """Return the URI for `values`.

        Args:
            values: A string, a list of strings or a mapping of strings for each variable. A variable that is absent,
                `None`, or an empty list or mapping is omitted.

        Returns:
            The URI.

        Raises:
            ValueError: A variable with a prefix, such as `{name:3}`, has a list or a mapping as its value.
        """
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def match(self, uri: str) -> dict[str, Found] | None:
        """Return the values that expand to `uri`.

        Each value is percent-decoded exactly once. The URI can contain characters unencoded that an expansion would
        encode. A value is not allowed if it contains a separator, `.` or `..` as a segment, a drive letter, or a
        control character, in any encoding. Only `{+path}` can contain separators, and `{/path*}` returns a list of
        segments.

        Args:
            uri: The URI.

        Returns:
            A string for each plain variable. For an exploded variable a list, or a mapping if a query contains
            `key=value` pairs with names other than that of the variable. A variable without a value in the URI is
            omitted. `None` if the URI does not match, a value is not allowed, or the template is only for expansion.

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
            f"{expression.source}: the value of {variable.name!r} must be a string, because the variable has a prefix"
        )

    def quoted(text: str) -> str:
        return encode(text, reserved=operator.reserved)

    if isinstance(value, Mapping):
        pairs = [(quoted(key), quoted(member)) for key, member in value.items()]
        if variable.explode:
            # The rule of the operator for empty values applies if it writes names.
            joined = [
                f"{key}={text}" if text or not operator.named else f"{key}{operator.if_empty}" for key, text in pairs
            ]
            return operator.separator.join(joined)
        return _named(operator, variable.name, ",".join(f"{key},{text}" for key, text in pairs))
    items = [quoted(item) for item in value]
    if variable.explode:
        return operator.separator.join(_named(operator, variable.name, item) for item in items)
    return _named(operator, variable.name, ",".join(items))
