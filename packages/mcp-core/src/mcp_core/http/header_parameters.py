"""Header parameters: arguments of a tool that HTTP headers repeat (`x-mcp-header` in the tool's `inputSchema`).

A server declares a header parameter with `"x-mcp-header": "Region"` in the schema of a property. The header
`Mcp-Param-Region` then repeats the argument, for intermediaries that do not read bodies. The rules are strict, because
the reader of the header and the reader of the body must obtain the same value: the schema alone must determine the path
of the parameter, and its text must have one spelling. A client that uses HTTP leaves out a tool that violates a rule.

Spec: basic/transports/streamable-http#schema-extension (2026-07-28)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["X_MCP_HEADER", "InvalidParamHeader", "ParamHeader", "param_headers"]

X_MCP_HEADER: Final = "x-mcp-header"
"""The member of a property's schema that makes the property a header parameter."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TYPES: Final = ("string", "integer", "boolean")

_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose values are not schemas. A member called `x-mcp-header` in such a value is not an annotation."""
_NAMED: Final = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"})
"""Keywords that contain schemas by name, as `properties` does. A name may equal that of the annotation."""

_DEEPEST: Final = 250
"""The maximum depth of a schema, equal to that of a message. The limit also ends the traversal of a value that contains
itself, which server code can construct."""


class InvalidParamHeader(ValueError):
    """An `x-mcp-header` that the specification does not allow."""

    def __init__(self, place: tuple[str, ...], reason: str) -> None:
        self.path: str = ascii("/".join(("inputSchema", *place)))[1:-1][:200]
        """The location of the annotation, for example `inputSchema/properties/region`."""
        self.reason: str = reason
        """The rule that the annotation violates."""
        super().__init__(f"{self.path}: {X_MCP_HEADER} {reason}")


@attrs.frozen(eq=False, repr=False)
class ParamHeader(FieldValue):
    """A header parameter. `param_headers` finds them."""

    header: str
    """The value of the annotation, for example `Region`: the header is `Mcp-Param-Region`."""
    path: tuple[str, ...]
    """The path of the value in `arguments`: the names of the members, the outermost first."""
    type: str
    """`string`, `integer` or `boolean`."""
    name: str = attrs.field(init=False)
    """The name of the header in lower case, for example `mcp-param-region`."""

    @name.default
    def _name_default(self) -> str:
        return f"mcp-param-{self.header.lower()}"


def param_headers(input_schema: JsonObject) -> tuple[ParamHeader, ...]:
    """Return the header parameters of a tool.

    Args:
        input_schema: The tool's `inputSchema`.

    Returns:
        One entry for each annotation, ordered by path; empty for most tools.

    Raises:
        InvalidParamHeader: An annotation violates a rule, or the schema is nested too deeply.
    """
    found: dict[str, ParamHeader] = {}
    # A schema, the keywords and names of its path, and whether `properties` is the only keyword in the path.
    pending: list[tuple[JsonObject, tuple[str, ...], bool]] = [(input_schema, (), True)]
    while pending:
        schema, place, reachable = pending.pop()
        if len(place) > _DEEPEST:
            raise InvalidParamHeader((), f"cannot be searched for: the schema has more than {_DEEPEST} levels")
        if X_MCP_HEADER in schema:
            param = _param(schema, place, reachable=reachable)
            other = found.setdefault(param.name, param)
            if other is not param:
                same = ascii("/".join(other.path))[:80]
                raise InvalidParamHeader(place, f"{param.header!r:.80} is already used by {same} (case is ignored)")
        for keyword, value in schema.items():
            if isinstance(value, dict):
                pending += _within(keyword, value, place, reachable=reachable)
            elif isinstance(value, list) and keyword not in _DATA:
                pending += [
                    (item, (*place, keyword, str(index)), False)
                    for index, item in enumerate(value)
                    if isinstance(item, dict)
                ]
    return tuple(sorted(found.values(), key=lambda param: param.path))


def _within(
    keyword: str, value: JsonObject, place: tuple[str, ...], *, reachable: bool
) -> list[tuple[JsonObject, tuple[str, ...], bool]]:
    """Return the schemas in an object under `keyword`."""
    if keyword in _DATA:
        return []
    here = keyword == "properties"
    if here or keyword in _NAMED:
        return [
            (member, (*place, keyword, name), here and reachable)
            for name, member in value.items()
            if isinstance(member, dict)
        ]
    return [(value, (*place, keyword), False)]


def _param(schema: JsonObject, place: tuple[str, ...], *, reachable: bool) -> ParamHeader:
    header: JsonValue = schema[X_MCP_HEADER]
    if not isinstance(header, str):
        raise InvalidParamHeader(place, f"is {header!a:.80}, not a string")
    if not header:
        raise InvalidParamHeader(place, "is empty")
    if _TOKEN.fullmatch(header) is None:
        raise InvalidParamHeader(
            place, f"is {header!a:.80}, which contains characters that are not allowed in a header name"
        )
    if not place:
        raise InvalidParamHeader(place, "is on the whole schema, not on a property")
    if not reachable:
        raise InvalidParamHeader(place, "is not reachable from the root through `properties` only")
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise InvalidParamHeader(place, f"is on a property of type {kind!a:.80}; allowed types: {', '.join(_TYPES)}")
    return ParamHeader(header, place[1::2], kind)
