"""Validation of structured tool results against the output schemas of the tools.

Most schemas are never used, and the validator is a large module. So the module compiles a schema, and imports the
validator, when the first result arrives. A tool with an unusable schema (unknown dialect, external reference, too
large) can still be called. Its results cannot be validated, and the policy treats them like results that violate their
schema.

A schema is untrusted input of a server. Its size is measured first, with references followed: a few lines of nested
references can expand to billions of subschemas. Patterns are matched in linear time. References are never fetched.

Spec: server/tools#output-schema, basic#json-schema-usage (2026-07-28)
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import unquote

from mcp_core.errors import RemoteProtocolError
from mcp_core.types import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import jsonschema_rs

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import CallToolResult, Tool

__all__ = ["InvalidToolOutput", "OutputPolicy", "OutputSchemas"]

_log: Final = logging.getLogger("mcp_client")

OutputPolicy: TypeAlias = Literal["raise", "warn", "off"]
"""The treatment of a structured result that violates the output schema of its tool."""

_DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_DIALECTS: Final = {
    _DEFAULT_DIALECT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft-07/schema": "Draft7Validator",
}
"""Validator classes by value of `$schema`, without a trailing `#`."""

_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, in which `$ref` does not have a meaning."""

_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values map names, chosen by the author, to subschemas. These names are not keywords."""

_UNMEASURED: Final = frozenset({"$dynamicRef", "$recursiveRef"})

_DEPTH: Final = 64
"""Maximum nesting depth of a schema with references followed. `mcp_server` has the same limit."""

_SUBSCHEMAS: Final = 10_000
"""Maximum number of objects and arrays in a schema. Referenced ones count again at each reference."""

_FEW_VALUES: Final = 1_000
"""Maximum number of values in a result for which all problems are collected."""

_PROBLEMS: Final = 20
"""Maximum number of reported problems of one result."""

_PROBLEM_CHARACTERS: Final = 300


class InvalidToolOutput(RemoteProtocolError):
    """A structured result violates its output schema, or cannot be validated, and the policy is `raise`."""

    def __init__(self, message: str, *, problems: tuple[str, ...], result: CallToolResult) -> None:
        super().__init__(message, anchor="server/tools#output-schema")
        self.problems: tuple[str, ...] = problems
        """The problems with their paths: `$.temperature: "warm" is not of type "number"`."""
        self.result: CallToolResult = result
        """The invalid result."""


class _Unusable(Exception):
    """The reason why a schema cannot be used."""


class OutputSchemas:
    """The known output schemas of one server's tools.

    Args:
        policy: The treatment of a result that violates its schema.

    Raises:
        ValueError: The policy is unknown.
    """

    def __init__(self, policy: OutputPolicy) -> None:
        if policy not in {"raise", "warn", "off"}:
            raise ValueError(f"validate_output must be 'raise', 'warn' or 'off', not {policy!r}")
        self._policy: Final = policy
        self.schemas: Final[dict[str, JsonObject]] = {}
        """The known schemas by tool. Only results of these tools are validated."""
        self._compiled: dict[str, jsonschema_rs.Validator | str] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """Replace the schemas by those of the listed tools."""
        self.forget()
        if self._policy != "off":
            self.schemas.update({tool.name: tool.output_schema for tool in tools if tool.output_schema is not None})

    def forget(self) -> None:
        """Remove all schemas: the tools have changed."""
        self.schemas.clear()
        self._compiled.clear()

    def check(self, tool: str, result: CallToolResult) -> None:
        """Validate the result of a tool.

        Results of failed tools are not validated. Results of tools that were not listed since the last change are not
        validated either.

        Raises:
            InvalidToolOutput: The result violates the schema or cannot be validated, and the policy is `raise`.
        """
        if tool not in self.schemas or result.is_error:
            return
        if tool not in self._compiled:
            self._compiled[tool] = _compiled(self.schemas[tool])
            self._warn_of(tool)
        compiled = self._compiled[tool]
        if isinstance(compiled, str):
            if self._policy == "raise":
                raise InvalidToolOutput(
                    f"the result of the tool {tool!r} cannot be validated: {compiled} (use validate_output='warn' to"
                    " accept it)",
                    problems=(compiled,),
                    result=result,
                )
            return
        problems = _problems(compiled, result)
        if not problems:
            return
        complaint = f"the result of the tool {tool!r} violates its output schema: {problems[0]}"
        if self._policy == "raise":
            raise InvalidToolOutput(
                f"{complaint} (use validate_output='warn' to accept it)", problems=problems, result=result
            )
        _log.warning("%s", complaint)

    def _warn_of(self, tool: str) -> None:
        """Log once that the results of a tool are not validated, if the policy is `warn`."""
        reason = self._compiled[tool]
        if isinstance(reason, str) and self._policy == "warn":
            _log.warning("the results of the tool %r are not validated: %s", tool, reason)


def _problems(compiled: jsonschema_rs.Validator, result: CallToolResult) -> tuple[str, ...]:
    value = result.structured_content
    if isinstance(value, Absent):
        return ("$: there is no structured content",)
    try:
        if compiled.is_valid(value):
            return ()
        return tuple(_describe(error) for error in itertools.islice(_errors(compiled, value), _PROBLEMS))
    except (ValueError, OverflowError) as error:
        # A lone surrogate or a number out of range: valid JSON that the validator does not support.
        return (f"$: cannot be validated: {error}",)


def _errors(compiled: jsonschema_rs.Validator, value: JsonValue) -> Iterable[jsonschema_rs.ValidationError]:
    """Return all problems of a small value, or the first problem of a large value."""
    if _has_few_values(value):
        return compiled.iter_errors(value)
    import jsonschema_rs  # lazy: see _compile

    # `iter_errors` collects all problems before it yields the first: 15 seconds for an array of 99,000 invalid items.
    try:
        compiled.validate(value)
    except jsonschema_rs.ValidationError as error:
        return (error,)
    return ()


def _has_few_values(value: JsonValue) -> bool:
    """Return whether a value is small enough to collect all of its problems."""
    waiting, count = [value], 0
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict | list):
            if count + len(waiting) + len(each) > _FEW_VALUES:
                return False
            waiting += each.values() if isinstance(each, dict) else each
    return True


def _describe(problem: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.instance_path)
    return f"${path}: {problem.message}"[:_PROBLEM_CHARACTERS]


def _compiled(schema: JsonObject) -> jsonschema_rs.Validator | str:
    """Return a validator, or the reason why the schema cannot be used."""
    try:
        return _compile(schema)
    except _Unusable as reason:
        return str(reason)


def _compile(schema: JsonObject) -> jsonschema_rs.Validator:
    """Return a validator. Raises `_Unusable`."""
    dialect = schema.get("$schema", _DEFAULT_DIALECT)
    name = _DIALECTS.get(dialect.rstrip("#")) if isinstance(dialect, str) else None
    if name is None:
        raise _Unusable(f"the dialect {dialect!r} of its output schema is unknown")
    _Measure(schema).size_of(schema, 1)
    import jsonschema_rs  # lazy: a large native module, and many clients never validate

    kind: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, name)
    try:
        return kind(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise _Unusable(f"its output schema is not valid: {str(error)[:_PROBLEM_CHARACTERS]}") from error


class _Measure:
    """The size of a schema with each reference replaced by its target. Sizes of subschemas are cached."""

    def __init__(self, root: JsonObject) -> None:
        self._root: Final = root
        # A recursive reference to a subschema that is being measured counts as 0: the depth of the validated value
        # limits the recursion.
        self._sizes: dict[int, int] = {}

    def size_of(self, node: JsonValue, depth: int) -> int:
        """Return the number of objects and arrays in `node`. Raises `_Unusable`."""
        if not isinstance(node, dict | list) or not node:
            return 1
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if depth > _DEPTH:
            raise _Unusable(f"its output schema is nested more than {_DEPTH} levels deep, with references followed")
        self._sizes[id(node)] = 0
        children = node if isinstance(node, list) else self._children(node)
        size = 1
        for child in children:
            size += self.size_of(child, depth + 1)
            if size > _SUBSCHEMAS:
                raise _Unusable(f"its output schema has more than {_SUBSCHEMAS} subschemas, with references followed")
        self._sizes[id(node)] = size
        return size

    def _children(self, node: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
        for keyword, value in node.items():
            if keyword in _UNMEASURED:
                raise _Unusable(f"its output schema uses {keyword}")
            if keyword == "$ref" and isinstance(value, str):
                yield self._target(value)
            elif keyword in _MAPS and isinstance(value, dict):
                yield from value.values()
            elif keyword not in _DATA:
                yield value

    def _target(self, reference: str) -> JsonValue:
        if not reference.startswith("#"):
            raise _Unusable(f"its output schema has an external reference, {reference!r}")
        here: JsonValue = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and name in here:
                here = here[name]
            elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
                here = here[int(name)]
            else:
                raise _Unusable(f"the target of the reference {reference!r} is missing in its output schema")
        if reference not in {"#", "#/"} and not reference.startswith("#/"):
            raise _Unusable(f"its output schema has a reference to an anchor, {reference!r}")
        return here
