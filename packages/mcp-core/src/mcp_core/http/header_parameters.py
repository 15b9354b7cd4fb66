"""Which arguments of a tool are repeated in HTTP headers: the `x-mcp-header` annotations of its `inputSchema`.

A server designates a parameter by `"x-mcp-header": "Region"` in its schema; its argument then also travels in the
header `Mcp-Param-Region`, for those who see no bodies. The rules are strict, because the reader of the header and the
reader of the body must mean the same value: where the parameter stands has to be plain from the schema alone, and its
text must have one spelling. A client that speaks HTTP leaves out a tool that breaks one.

Spec: basic/transports/streamable-http#schema-extension (2026-07-28)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["X_MCP_HEADER", "InvalidParamHeader", "ParamHeader", "param_headers"]

X_MCP_HEADER: Final = "x-mcp-header"
"""The member of a property's schema that designates it."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TYPES: Final = ("string", "integer", "boolean")

_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose values are no schemas. What looks like an annotation there is none."""
_NAMED: Final = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"})
"""Keywords that hold schemas by names, as `properties` does; a name may be that of the annotation."""

_DEEPEST: Final = 250
"""Levels of a schema that are looked at: as many as a message can have. It also ends the walk through a value that
contains itself, which the programs of a server can make."""


class InvalidParamHeader(ValueError):
    """An `x-mcp-header` that the specification does not allow."""

    def __init__(self, place: tuple[str, ...], reason: str) -> None:
        self.path: str = ascii("/".join(("inputSchema", *place)))[1:-1][:200]
        """Where it stands, as `inputSchema/properties/region`."""
        self.reason: str = reason
        """What is wrong with it."""
        super().__init__(f"{self.path}: {X_MCP_HEADER} {reason}")


@attrs.frozen
class ParamHeader:
    """One parameter that is repeated in a header. `param_headers` finds them."""

    header: str
    """The annotation, as `Region`: the header is `Mcp-Param-Region`."""
    path: tuple[str, ...]
    """Where in `arguments` the value stands: the names of the members from the outside in."""
    type: str
    """`string`, `integer` or `boolean`."""
    name: str = attrs.field(init=False)
    """The name of the header in lower case, as `mcp-param-region`."""

    @name.default
    def _name_default(self) -> str:
        return f"mcp-param-{self.header.lower()}"


def param_headers(input_schema: JsonObject) -> tuple[ParamHeader, ...]:
    """The parameters of a tool that are repeated in headers.

    Args:
        input_schema: The tool's `inputSchema`.

    Returns:
        One for each annotation, ordered by path; empty for most tools.

    Raises:
        InvalidParamHeader: An annotation breaks a rule, or the schema is nested too deeply to be looked at.
    """
    found: dict[str, ParamHeader] = {}
    # A schema, the keywords and names that lead to it, and whether `properties` is the only keyword among them.
    pending: list[tuple[JsonObject, tuple[str, ...], bool]] = [(input_schema, (), True)]
    while pending:
        schema, place, reachable = pending.pop()
        if len(place) > _DEEPEST:
            raise InvalidParamHeader((), f"cannot be looked for: the schema has more than {_DEEPEST} levels")
        if X_MCP_HEADER in schema:
            param = _param(schema, place, reachable=reachable)
            other = found.setdefault(param.name, param)
            if other is not param:
                same = ascii("/".join(other.path))[:80]
                raise InvalidParamHeader(place, f"{param.header!r:.80} is already that of {same}, but for case")
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
    """The schemas that an object under `keyword` holds."""
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
        raise InvalidParamHeader(place, f"is {header!a:.80}, which is no string")
    if not header:
        raise InvalidParamHeader(place, "is empty")
    if _TOKEN.fullmatch(header) is None:
        raise InvalidParamHeader(
            place, f"is {header!a:.80}, which has characters that the name of a header cannot have"
        )
    if not place:
        raise InvalidParamHeader(place, "is on the whole schema, not on a property")
    if not reachable:
        raise InvalidParamHeader(place, "is not reachable from the root through `properties` only")
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise InvalidParamHeader(place, f"is on a property of type {kind!a:.80}; allowed are {', '.join(_TYPES)}")
    return ParamHeader(header, place[1::2], kind)
