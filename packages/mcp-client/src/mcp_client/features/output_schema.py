"""Whether the structured result of a tool is what the tool's output schema promises.

Most schemas are never used, and the validator is a large module, so both wait until a result comes. A schema that
cannot be used (unknown dialect, a reference to elsewhere, far too large) never means that its tool cannot be called: what
it gives cannot be validated, and is treated as the policy says of what breaks its schema.

A schema comes from a server, so it is measured first, with its references followed: a few lines of nested references
can stand for billions of subschemas. Patterns are matched in linear time, and nothing is ever fetched.

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
"""What becomes of a structured result that breaks the output schema of its tool."""

_DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_DIALECTS: Final = {
    _DEFAULT_DIALECT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft-07/schema": "Draft7Validator",
}
"""What `$schema` may say, without a trailing `#`, and the validator class that stands for it."""

_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, in which a `$ref` means nothing."""

_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values hold subschemas by names of the author's choice, which are no keywords."""

_UNMEASURED: Final = frozenset({"$dynamicRef", "$recursiveRef"})

_DEPTH: Final = 64
"""How deep a schema may be nested, references followed. The same as a server of ours allows."""

_SUBSCHEMAS: Final = 10_000
"""How many objects a schema may hold, counted again at each reference to them."""

_FEW_VALUES: Final = 1_000
"""Values in a result of which all problems are collected."""

_PROBLEMS: Final = 20
"""How many problems of one result are told."""

_PROBLEM_CHARACTERS: Final = 300


class InvalidToolOutput(RemoteProtocolError):
    """A tool gave a structured result that is not, or not known to be, as its output schema says; the policy is `raise`."""

    def __init__(self, message: str, *, problems: tuple[str, ...], result: CallToolResult) -> None:
        super().__init__(message, anchor="server/tools#output-schema")
        self.problems: tuple[str, ...] = problems
        """What is wrong, and where: `$.temperature: "warm" is not of type "number"`."""
        self.result: CallToolResult = result
        """The result all the same."""


class _Unusable(Exception):
    """Why a schema is not used."""


class OutputSchemas:
    """The output schemas of one server's tools, as far as they are known.

    Args:
        policy: What becomes of a result that breaks its schema.
    """

    def __init__(self, policy: OutputPolicy) -> None:
        if policy not in {"raise", "warn", "off"}:
            raise ValueError(f"validate_output must be 'raise', 'warn' or 'off', not {policy!r}")
        self._policy: Final = policy
        self._schemas: dict[str, JsonObject] = {}
        self._compiled: dict[str, jsonschema_rs.Validator | str] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """The tools were listed."""
        self.forget()
        if self._policy != "off":
            self._schemas.update({tool.name: tool.output_schema for tool in tools if tool.output_schema is not None})

    def forget(self) -> None:
        """The tools have changed."""
        self._schemas.clear()
        self._compiled.clear()

    def check(self, tool: str, result: CallToolResult) -> None:
        """Checks the result of a tool. Raises `InvalidToolOutput` if that is the policy.

        A failed tool promises nothing; a tool that was not listed, or not since the last change, is not checked.
        """
        if tool not in self._schemas or result.is_error:
            return
        if tool not in self._compiled:
            self._compiled[tool] = _compiled(self._schemas[tool])
            self._warn_of(tool)
        compiled = self._compiled[tool]
        if isinstance(compiled, str):
            if self._policy == "raise":
                raise InvalidToolOutput(
                    f"the result of the tool {tool!r} cannot be validated: {compiled} (validate_output='warn' lets it"
                    " pass)",
                    problems=(compiled,),
                    result=result,
                )
            return
        problems = _problems(compiled, result)
        if not problems:
            return
        complaint = f"the result of the tool {tool!r} breaks its output schema: {problems[0]}"
        if self._policy == "raise":
            raise InvalidToolOutput(
                f"{complaint} (validate_output='warn' lets it pass)", problems=problems, result=result
            )
        _log.warning("%s", complaint)

    def _warn_of(self, tool: str) -> None:
        """Says once that a tool is not validated, where nothing is raised."""
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
        return tuple(_told(error) for error in itertools.islice(_errors(compiled, value), _PROBLEMS))
    except (ValueError, OverflowError) as error:
        # A lone surrogate or a number out of range: JSON can write it, the validator cannot hold it.
        return (f"$: cannot be validated: {error}",)


def _errors(compiled: jsonschema_rs.Validator, value: JsonValue) -> Iterable[jsonschema_rs.ValidationError]:
    """All problems of a small value, and the first one of a large value."""
    if _has_few_values(value):
        return compiled.iter_errors(value)
    import jsonschema_rs  # lazy: see _compile

    # All problems are collected before the first one is given: 15 seconds for an array of 99,000 wrong items.
    try:
        compiled.validate(value)
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


def _told(problem: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.instance_path)
    return f"${path}: {problem.message}"[:_PROBLEM_CHARACTERS]


def _compiled(schema: JsonObject) -> jsonschema_rs.Validator | str:
    """A validator, or why there is none."""
    try:
        return _compile(schema)
    except _Unusable as reason:
        return str(reason)


def _compile(schema: JsonObject) -> jsonschema_rs.Validator:
    """A validator. Raises `_Unusable`."""
    dialect = schema.get("$schema", _DEFAULT_DIALECT)
    name = _DIALECTS.get(dialect.rstrip("#")) if isinstance(dialect, str) else None
    if name is None:
        raise _Unusable(f"the dialect {dialect!r} of its output schema is not known")
    _Measure(schema).size_of(schema, 1)
    import jsonschema_rs  # lazy: a large native module, and many clients never validate

    kind: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, name)
    try:
        return kind(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise _Unusable(f"its output schema is not valid: {str(error)[:_PROBLEM_CHARACTERS]}") from error


class _Measure:
    """How large a schema is when each reference is replaced by what it points to. Sizes are remembered."""

    def __init__(self, root: JsonObject) -> None:
        self._root: Final = root
        # A subschema that is being measured counts nothing where it comes up again: that is recursion, which the
        # depth of the value bounds.
        self._sizes: dict[int, int] = {}

    def size_of(self, node: JsonValue, depth: int) -> int:
        """The number of objects and arrays in `node`. Raises `_Unusable`."""
        if not isinstance(node, dict | list) or not node:
            return 1
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if depth > _DEPTH:
            raise _Unusable(f"its output schema is nested more than {_DEPTH} deep, references followed")
        self._sizes[id(node)] = 0
        children = node if isinstance(node, list) else self._children(node)
        size = 1
        for child in children:
            size += self.size_of(child, depth + 1)
            if size > _SUBSCHEMAS:
                raise _Unusable(f"its output schema stands for more than {_SUBSCHEMAS} subschemas")
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
            raise _Unusable(f"the reference {reference!r} leaves its output schema")
        here: JsonValue = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and name in here:
                here = here[name]
            elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
                here = here[int(name)]
            else:
                raise _Unusable(f"the reference {reference!r} points to nothing in its output schema")
        if reference not in {"#", "#/"} and not reference.startswith("#/"):
            raise _Unusable(f"the reference {reference!r} names an anchor")
        return here
