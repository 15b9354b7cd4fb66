"""The syntax of URI templates: literals, and expressions with an operator and variables (RFC 6570 section 2)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import attrs

from mcp_core.errors import LimitExceeded, McpError
from mcp_core.field_methods import FieldValue

__all__ = [
    "RESERVED",
    "AmbiguousTemplate",
    "Expression",
    "InvalidTemplate",
    "Operator",
    "Variable",
    "bound",
    "encode",
    "parse",
]

MAX_TEMPLATE_BYTES: Final = 8 * 1024
MAX_VARIABLES: Final = 256

RESERVED: Final = ":/?#[]@!$&'()*+,;="
_VARSPEC: Final = re.compile(
    r"(?P<name>(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*)(?:(?P<explode>\*)|:(?P<prefix>[1-9][0-9]{0,3}))?"
)
_TRIPLET: Final = re.compile(r"(%[0-9A-Fa-f]{2})")
_NOT_LITERAL: Final = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}\ud800-\udfff]|%(?![0-9A-Fa-f]{2})")


class InvalidTemplate(McpError):
    """A text is not a valid URI template.

    Args:
        message: The problem and its location.
        template: The whole text.
    """

    def __init__(self, message: str, *, template: str) -> None:
        super().__init__(f"URI template {template!r}: {message}")
        self.template: str = template
        """The whole text."""


class AmbiguousTemplate(InvalidTemplate):
    """A template can be expanded, but URIs cannot be matched with it unambiguously."""


@attrs.frozen(eq=False, repr=False)
class Operator(FieldValue):
    """A row of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool
    if_empty: str
    reserved: bool


_OPERATORS: Final = {
    "": Operator("", ",", named=False, if_empty="", reserved=False),
    "+": Operator("", ",", named=False, if_empty="", reserved=True),
    "#": Operator("#", ",", named=False, if_empty="", reserved=True),
    ".": Operator(".", ".", named=False, if_empty="", reserved=False),
    "/": Operator("/", "/", named=False, if_empty="", reserved=False),
    ";": Operator(";", ";", named=True, if_empty="", reserved=False),
    "?": Operator("?", "&", named=True, if_empty="=", reserved=False),
    "&": Operator("&", "&", named=True, if_empty="=", reserved=False),
}


@attrs.frozen(eq=False, repr=False)
class Variable(FieldValue):
    """A variable of an expression, with its modifier."""

    name: str
    explode: bool
    prefix: int | None


@attrs.frozen(eq=False, repr=False)
class Expression(FieldValue):
    """An expression in braces."""

    source: str
    operator: Operator
    variables: tuple[Variable, ...]

    @property
    def repeats(self) -> bool:
        """Whether the separator of the operator can occur in an expansion after its start."""
        return len(self.variables) > 1 or any(variable.explode for variable in self.variables)


def bound(limit: str, observed: int, allowed: int, setting: str) -> None:
    """Check a limit. Raises `LimitExceeded` if `observed` is more than `allowed`."""
    if observed > allowed:
        raise LimitExceeded(limit, observed=observed, allowed=allowed, setting=f"the fixed bound {setting}")


def parse(template: str) -> tuple[str | Expression, ...]:
    """Return the literals and expressions of a template. Raises `InvalidTemplate` and `LimitExceeded`."""
    bound(
        "bytes of a URI template",
        len(template.encode("utf-8", "surrogatepass")),
        MAX_TEMPLATE_BYTES,
        "MAX_TEMPLATE_BYTES",
    )
    parts: list[str | Expression] = []
    position = 0
    while position < len(template):
        start = template.find("{", position)
        literal = template[position:] if start < 0 else template[position:start]
        if literal:
            parts.append(_literal(literal, template))
        if start < 0:
            break
        end = template.find("}", start)
        if end < 0:
            raise InvalidTemplate(f"the expression at character {start} has no closing brace", template=template)
        parts.append(_expression(template[start + 1 : end], template))
        position = end + 1
    count = sum(len(part.variables) for part in parts if isinstance(part, Expression))
    bound("variables of a URI template", count, MAX_VARIABLES, "MAX_VARIABLES")
    return tuple(parts)


def _literal(text: str, template: str) -> str:
    """Return a literal as it is in an expansion."""
    bad = _NOT_LITERAL.search(text)
    if bad is not None:
        raise InvalidTemplate(f"{bad[0]!r} is not allowed outside of an expression", template=template)
    return encode(text, reserved=True)


def _expression(source: str, template: str) -> Expression:
    sign = source[:1] if source[:1] in _OPERATORS else ""
    variables = []
    for text in source[len(sign) :].split(","):
        matched = _VARSPEC.fullmatch(text)
        if matched is None:
            raise InvalidTemplate(f"{{{source}}}: {text!r} is not a valid variable", template=template)
        prefix = matched["prefix"]
        variables.append(
            Variable(matched["name"], matched["explode"] is not None, None if prefix is None else int(prefix))
        )
    return Expression(f"{{{source}}}", _OPERATORS[sign], tuple(variables))


def encode(text: str, *, reserved: bool) -> str:
    """Percent-encode all but unreserved characters. If `reserved`, keep reserved characters and triplets, too."""
    if not reserved:
        return quote(text, safe="")
    return "".join(part if index % 2 else quote(part, safe=RESERVED) for index, part in enumerate(_TRIPLET.split(text)))
