"""Validates JSON values against JSON Schemas that may come from anywhere.

Spec: basic#json-schema-usage (2026-07-28). Three dialects are known: 2020-12, which is assumed when `$schema` is
absent, 2019-09 and draft-07. Nothing is ever fetched: a reference has to stay within the schema. Patterns are matched
in linear time, so lookaround and backreferences are refused. A schema is measured before it is compiled, with all of
its references followed, because a few lines of nested references can stand for billions of subschemas.

`format` is an annotation, as the dialects have it by default.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import attrs

from mcp_core.errors import LimitExceeded, McpError
from mcp_core.excerpts import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import jsonschema_rs

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "DIALECTS",
    "InvalidSchema",
    "NonLocalReference",
    "SchemaLimits",
    "SchemaProblem",
    "UnknownDialect",
    "Validator",
    "compile_schema",
]

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

DIALECTS: Final = {
    DEFAULT_DIALECT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft-07/schema": "Draft7Validator",
}
"""What `$schema` may say, without a trailing `#`, and the validator class that stands for it."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_DATA: Final = frozenset({"const", "default", "enum", "examples"})
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})

_MESSAGE_CHARACTERS: Final = 300

_FEW_VALUES: Final = 1_000
"""Values in a value of which all problems are collected."""


class InvalidSchema(McpError):
    """A schema that cannot be used: what is wrong, and where."""

    def __init__(self, message: str, *, path: str = "#") -> None:
        super().__init__(f"{path}: {message}")
        self.path: str = path
        """Where in the schema, as a URI fragment: `#/properties/a`."""


class UnknownDialect(InvalidSchema):
    """`$schema` names a dialect that is not implemented here."""

    def __init__(self, dialect: str) -> None:
        known = ", ".join(DIALECTS)
        super().__init__(f"the dialect {dialect!r} is not supported; supported: {known}", path="#/$schema")
        self.dialect: str = dialect
        """What `$schema` says."""


class NonLocalReference(InvalidSchema):
    """A `$ref` points out of the schema. It is not followed."""

    def __init__(self, reference: str, *, path: str) -> None:
        super().__init__(f"the reference {reference!r} leaves the schema; only '#...' is followed", path=path)
        self.reference: str = reference
        """What it points to."""


@attrs.frozen(kw_only=True)
class SchemaLimits:
    """How much schema is accepted, and how much is said about a value that does not match."""

    depth: int = 64
    """How deeply a schema may be nested."""
    subschemas: int = 10_000
    """How many subschemas one may hold, counted again at each reference to them."""
    problems: int = 20
    """How many problems are reported for one value."""


@attrs.frozen
class SchemaProblem:
    """One thing that is wrong with a value."""

    path: str
    """Where in the value, as `$.items[0].name`; `$` is the value itself."""
    message: str
    """What is wrong there."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@attrs.frozen
class Validator:
    """A compiled schema."""

    schema: JsonObject
    """What it was compiled from."""
    _compiled: jsonschema_rs.Validator
    _limits: SchemaLimits

    def validate(self, value: JsonValue) -> tuple[SchemaProblem, ...]:
        """Return what is wrong with `value`: nothing when it is valid, else `SchemaLimits.problems` of the problems.

        Of a value with more than 1,000 values in it only the first problem is reported.
        """
        try:
            if self._compiled.is_valid(value):
                return ()
            errors = itertools.islice(self._errors(value), self._limits.problems)
            return tuple(SchemaProblem(_json_path(error.instance_path), _shorten(error.message)) for error in errors)
        except (ValueError, OverflowError) as error:
            # A lone surrogate or a number out of range: JSON can write it, the validator cannot hold it.
            return (SchemaProblem("$", _shorten(f"cannot be validated: {error}")),)

    def _errors(self, value: JsonValue) -> Iterable[jsonschema_rs.ValidationError]:
        if _has_few_values(value):
            return self._compiled.iter_errors(value)
        import jsonschema_rs  # lazy: see compile_schema

        # All problems are collected before the first one is given: 15 seconds for an array of 99,000 wrong items.
        try:
            self._compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            return (error,)
        return ()


def _has_few_values(value: JsonValue) -> bool:
    """Whether a value has so few values in it that all of its problems can be collected."""
    waiting, count = [value], 0
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict | list):
            if count + len(waiting) + len(each) > _FEW_VALUES:
                return False
            waiting += each.values() if isinstance(each, dict) else each
    return True


def compile_schema(schema: JsonObject, *, limits: SchemaLimits | None = None) -> Validator:
    """Prepares a schema for validation.

    Args:
        schema: The schema. It is not changed and must not be changed afterwards.
        limits: The bounds; the defaults when `None`.

    Returns:
        The validator.

    Raises:
        UnknownDialect: `$schema` names a dialect that is not supported.
        NonLocalReference: A reference leaves the schema.
        LimitExceeded: The schema is too deep or too large.
        InvalidSchema: It is not a valid schema of its dialect, or a pattern cannot be matched in linear time.
    """
    bounds = SchemaLimits() if limits is None else limits
    dialect = schema.get("$schema", DEFAULT_DIALECT)
    name = DIALECTS.get(dialect.rstrip("#")) if isinstance(dialect, str) else None
    if name is None:
        raise UnknownDialect(str(dialect))
    _measure(schema, bounds)
    import jsonschema_rs  # lazy: a large native module, and many processes never validate

    kind: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, name)
    try:
        compiled = kind(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except jsonschema_rs.ValidationError as error:
        raise InvalidSchema(_shorten(error.message), path=_fragment(error.instance_path)) from error
    except ValueError as error:
        raise InvalidSchema(_shorten(str(error))) from error
    return Validator(schema, compiled, bounds)


# --- Measuring -------------------------------------------------------------------------------------------------------
#
# A schema is a graph: subschemas hold subschemas, and references join them. Its size is that of the tree one gets
# by following every reference, except one that leads back to where it came from: that is recursion, which the depth
# of the value bounds. Sizes are remembered, so that the graph is walked once, however large the tree is.


@attrs.define
class _Node:
    """One subschema, and what it leads to."""

    path: str
    depth: int
    anchors: list[str] = attrs.field(factory=list)
    children: list[_Node] = attrs.field(factory=list)
    references: list[str] = attrs.field(factory=list)
    size: int = 1
    entered: bool = False


def _measure(schema: JsonObject, limits: SchemaLimits) -> None:
    """Refuses a schema that is too deep, too large, or refers to something outside of it."""
    nodes = _nodes(schema, limits)
    targets = {name: node for node in nodes for name in (node.path, *node.anchors)}
    for node in nodes:
        for reference in node.references:
            target = targets.get(unquote(reference).rstrip("/") or "#")
            if target is None:
                raise InvalidSchema(f"the reference {reference!r} points to no subschema", path=node.path)
            node.children.append(target)
    stack = [(nodes[0], iter(nodes[0].children))]
    nodes[0].entered = True
    while stack:
        node, children = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            if stack:
                _grow(stack[-1][0], node.size, limits)
        elif child.entered:
            # Either finished, so that its size is known, or an ancestor, whose size is still growing: recursion.
            _grow(node, child.size, limits)
        else:
            child.entered = True
            stack.append((child, iter(child.children)))


def _grow(node: _Node, by: int, limits: SchemaLimits) -> None:
    node.size += by
    if node.size > limits.subschemas:
        raise LimitExceeded(
            "subschemas of a JSON Schema",
            observed=node.size,
            allowed=limits.subschemas,
            setting="SchemaLimits.subschemas",
        )


def _nodes(schema: JsonObject, limits: SchemaLimits) -> list[_Node]:
    """All subschemas, the root first."""
    root = _Node("#", 1)
    nodes = [root]
    pending: list[tuple[_Node, JsonObject]] = [(root, schema)]
    while pending:
        node, members = pending.pop()
        node.anchors, node.references = _names(node, members), _references(node, members)
        if node.depth > limits.depth:
            raise LimitExceeded(
                "nesting of a JSON Schema", observed=node.depth, allowed=limits.depth, setting="SchemaLimits.depth"
            )
        for path, value in _subschemas(node.path, members):
            if not isinstance(value, dict | bool):
                continue
            child = _Node(path, node.depth + 1)
            node.children.append(child)
            nodes.append(child)
            if isinstance(value, dict):
                pending.append((child, value))
        if len(nodes) > limits.subschemas:
            _grow(root, len(nodes), limits)
    return nodes


def _subschemas(path: str, members: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    """Where a subschema may stand, in known keywords and in unknown ones, with what stands there."""
    for keyword, value in members.items():
        here = f"{path}/{_escape(keyword)}"
        if keyword in _DATA:
            continue
        if isinstance(value, dict) and keyword in _MAPS:
            yield from ((f"{here}/{_escape(name)}", member) for name, member in value.items())
        elif isinstance(value, list):
            yield from ((f"{here}/{index}", member) for index, member in enumerate(value))
        else:
            yield here, value


def _references(node: _Node, members: JsonObject) -> list[str]:
    """What a subschema refers to."""
    found = [(keyword, value) for keyword in _REFERENCES if isinstance(value := members.get(keyword), str)]
    for keyword, reference in found:
        if not reference.startswith("#"):
            raise NonLocalReference(reference, path=f"{node.path}/{keyword}")
    return [reference for _, reference in found]


def _names(node: _Node, members: JsonObject) -> list[str]:
    """The anchors by which a subschema can be referred to."""
    anchors = [f"#{value}" for keyword in _ANCHORS if isinstance(value := members.get(keyword), str)]
    identifier = members.get("$id")
    if isinstance(identifier, str) and node.depth > 1:
        # Draft-07 writes an anchor so. Any other identifier would change what '#' means below it.
        if not identifier.startswith("#"):
            raise InvalidSchema(
                f"a subschema with an identifier of its own, {identifier!r}, is not supported", path=node.path
            )
        anchors.append(identifier)
    return anchors


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _fragment(path: list[str | int]) -> str:
    return "/".join(["#", *(_escape(str(step)) for step in path)])


def _json_path(path: list[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{shown(step)}" for step in path)


def _shorten(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARACTERS else f"{text[:_MESSAGE_CHARACTERS]}..."
