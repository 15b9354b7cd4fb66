"""Validation of JSON values with JSON Schemas from untrusted sources.

Spec: basic#json-schema-usage (2026-07-28). Three dialects are supported: 2020-12, which is the default if `$schema` is
absent, 2019-09 and draft-07. Nothing is fetched: references must stay within the schema. Patterns are matched in linear
time, so lookaround and backreferences are rejected. The size of a schema is computed with all references followed
before it is compiled, because a few lines of nested references can represent billions of subschemas.

`format` is an annotation, which is the default of the dialects, unless the caller requests its validation.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import attrs

from mcp_core.errors import LimitExceeded, McpError
from mcp_core.excerpts import shown
from mcp_core.field_methods import FieldValue

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
"""The supported values of `$schema`, without a trailing `#`, and their validator classes."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_DATA: Final = frozenset({"const", "default", "enum", "examples"})
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})

_MESSAGE_CHARACTERS: Final = 300

_FEW_VALUES: Final = 1_000
"""Number of nested values up to which all problems of a value are collected."""


class InvalidSchema(McpError):
    """A schema cannot be used.

    Args:
        message: The problem.
        path: Its location in the schema, as a URI fragment.
    """

    def __init__(self, message: str, *, path: str = "#") -> None:
        super().__init__(f"{path}: {message}")
        self.path: str = path
        """The location in the schema, as a URI fragment: `#/properties/a`."""


class UnknownDialect(InvalidSchema):
    """`$schema` names an unsupported dialect."""

    def __init__(self, dialect: str) -> None:
        known = ", ".join(DIALECTS)
        super().__init__(f"the dialect {dialect!r} is not supported; supported: {known}", path="#/$schema")
        self.dialect: str = dialect
        """The value of `$schema`."""


class NonLocalReference(InvalidSchema):
    """A reference leads out of the schema. It is not followed."""

    def __init__(self, reference: str, *, path: str) -> None:
        super().__init__(f"the reference {reference!r} leads out of the schema; write it as '#...'", path=path)
        self.reference: str = reference
        """The reference."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SchemaLimits(FieldValue):
    """The limits on schemas, and on the number of reported problems."""

    depth: int = 64
    """Largest nesting depth of a schema."""
    subschemas: int = 10_000
    """Largest number of subschemas, counted again for each reference to them."""
    problems: int = 20
    """Largest number of problems that are reported for one value."""


@attrs.frozen(eq=False, repr=False)
class SchemaProblem(FieldValue):
    """A problem with a value."""

    path: str
    """The location in the value, for example `$.items[0].name`; `$` is the value itself."""
    message: str
    """The problem."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@attrs.frozen(eq=False, repr=False)
class Validator(FieldValue):
    """A compiled schema."""

    schema: JsonObject
    """The schema from which it was compiled."""
    _compiled: jsonschema_rs.Validator
    _limits: SchemaLimits

    def validate(self, value: JsonValue) -> tuple[SchemaProblem, ...]:
        """Return the problems of `value`, at most `SchemaLimits.problems`; an empty tuple if it is valid.

        For a value that contains more than 1,000 values, only the first problem is returned.
        """
        try:
            if self._compiled.is_valid(value):
                return ()
            errors = itertools.islice(self._errors(value), self._limits.problems)
            return tuple(SchemaProblem(_json_path(error.instance_path), _shorten(error.message)) for error in errors)
        except (ValueError, OverflowError) as error:
            # A lone surrogate or a number out of range, which JSON can represent and the validator cannot.
            return (SchemaProblem("$", _shorten(f"cannot be validated: {error}")),)

    def _errors(self, value: JsonValue) -> Iterable[jsonschema_rs.ValidationError]:
        if _has_few_values(value):
            return self._compiled.iter_errors(value)
        import jsonschema_rs  # lazy: see compile_schema

        # `iter_errors` collects all problems before it returns the first: 15 s for an array of 99,000 invalid items.
        try:
            self._compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            return (error,)
        return ()


def _has_few_values(value: JsonValue) -> bool:
    """Return whether a value contains so few values that all of its problems can be collected."""
    waiting, count = [value], 0
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict | list):
            if count + len(waiting) + len(each) > _FEW_VALUES:
                return False
            waiting += each.values() if isinstance(each, dict) else each
    return True


def compile_schema(schema: JsonObject, *, limits: SchemaLimits | None = None, check_formats: bool = False) -> Validator:
    """Compile a schema for validation.

    Args:
        schema: The schema. It is not changed, and must not be changed after this call.
        limits: The limits; `None`: the defaults.
        check_formats: Whether a string that does not have the `format` of its schema is invalid. Formats that the dialect
            does not define are ignored.

    Returns:
        The validator.

    Raises:
        UnknownDialect: `$schema` names an unsupported dialect.
        NonLocalReference: A reference leads out of the schema.
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
        compiled = kind(
            schema,
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=True if check_formats else None,
        )
    except jsonschema_rs.ValidationError as error:
        raise InvalidSchema(_shorten(error.message), path=_fragment(error.instance_path)) from error
    except ValueError as error:
        raise InvalidSchema(_shorten(str(error))) from error
    return Validator(schema, compiled, bounds)


# --- Size of a schema ------------------------------------------------------------------------------------------------
#
# A schema is a graph: subschemas contain subschemas, and references connect them. Its size is that of the tree that
# results from following every reference, except a reference to an ancestor: that is recursion, which the depth of the
# value limits. Sizes are stored, so the graph is visited once, however large the tree is.


@attrs.define
class _Node:
    """A subschema with the subschemas that it contains or refers to."""

    path: str
    depth: int
    anchors: list[str] = attrs.field(factory=list)
    children: list[_Node] = attrs.field(factory=list)
    references: list[str] = attrs.field(factory=list)
    size: int = 1
    entered: bool = False


def _measure(schema: JsonObject, limits: SchemaLimits) -> None:
    """Reject a schema that is too deep or too large, or has references that lead out of it."""
    nodes = _nodes(schema, limits)
    targets = {name: node for node in nodes for name in (node.path, *node.anchors)}
    for node in nodes:
        for reference in node.references:
            target = targets.get(unquote(reference).rstrip("/") or "#")
            if target is None:
                raise InvalidSchema(f"the reference {reference!r} does not lead to a subschema", path=node.path)
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
            # Either complete with a known size, or an ancestor whose size is still growing (recursion).
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
    """Return all subschemas, starting with the root."""
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
    """Yield the locations and values where subschemas can be, in known and unknown keywords."""
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
    """Return the references of a subschema. Raises `NonLocalReference`."""
    found = [(keyword, value) for keyword in _REFERENCES if isinstance(value := members.get(keyword), str)]
    for keyword, reference in found:
        if not reference.startswith("#"):
            raise NonLocalReference(reference, path=f"{node.path}/{keyword}")
    return [reference for _, reference in found]


def _names(node: _Node, members: JsonObject) -> list[str]:
    """Return the anchors of a subschema. Raises `InvalidSchema`."""
    anchors = [f"#{value}" for keyword in _ANCHORS if isinstance(value := members.get(keyword), str)]
    identifier = members.get("$id")
    if isinstance(identifier, str) and node.depth > 1:
        # The form of an anchor in draft-07. Any other identifier would change the meaning of '#' below it.
        if not identifier.startswith("#"):
            raise InvalidSchema(
                f"a nested subschema with an identifier ({identifier!r}) is not supported", path=node.path
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
