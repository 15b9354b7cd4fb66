"""Validation of structured tool results against the output schemas of the tools.

Most schemas are never used, so a schema is compiled when the first result arrives. A tool with an unusable schema
(unknown dialect, external reference, too large) can still be called. Its results cannot be validated, and the policy
treats them like results that violate their schema.

Spec: server/tools#output-schema, basic#json-schema-usage (2026-07-28)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from mcp_core.errors import LimitExceeded, RemoteProtocolError
from mcp_core.types import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.schema.validation import Validator
    from mcp_core.types import CallToolResult, Tool

__all__ = ["InvalidToolOutput", "OutputPolicy", "OutputSchemas"]

_log: Final = logging.getLogger("mcp_client")

OutputPolicy: TypeAlias = Literal["raise", "warn", "off"]
"""The treatment of a structured result that violates the output schema of its tool."""


class InvalidToolOutput(RemoteProtocolError):
    """A structured result violates its output schema, or cannot be validated, and the policy is `raise`."""

    def __init__(self, message: str, *, problems: tuple[str, ...], result: CallToolResult) -> None:
        super().__init__(message, anchor="server/tools#output-schema")
        self.problems: tuple[str, ...] = problems
        """The problems with their paths: `$.temperature: "warm" is not of type "number"`."""
        self.result: CallToolResult = result
        """The invalid result."""


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
        """The known schemas by tool."""
        self._compiled: dict[str, Validator | str] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """Replace the schemas by those of the listed tools."""
        self.forget()
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
        if self._policy == "off" or tool not in self.schemas or result.is_error:
            return
        if tool not in self._compiled:
            self._compiled[tool] = _compiled(self.schemas[tool])
            self._warn_of(tool)
        compiled = self._compiled[tool]
        if isinstance(compiled, str):
            if self._policy == "raise":
                raise InvalidToolOutput(
                    f"the result of the tool {tool!r} cannot be validated: {compiled} (use ClientOptions(validate_output='warn') to"
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
                f"{complaint} (use ClientOptions(validate_output='warn') to accept it)",
                problems=problems,
                result=result,
            )
        _log.warning("%s", complaint)

    def _warn_of(self, tool: str) -> None:
        """Log once that the results of a tool are not validated, if the policy is `warn`."""
        reason = self._compiled[tool]
        if isinstance(reason, str) and self._policy == "warn":
            _log.warning("the results of the tool %r are not validated: %s", tool, reason)


def _problems(compiled: Validator, result: CallToolResult) -> tuple[str, ...]:
    value = result.structured_content
    if isinstance(value, Absent):
        return ("$: there is no structured content",)
    return tuple(str(problem) for problem in compiled.validate(value))


def _compiled(schema: JsonObject) -> Validator | str:
    """Return a validator, or the reason why the schema cannot be used."""
    from mcp_core.schema.validation import InvalidSchema, compile_schema  # lazy: many clients never validate

    try:
        return compile_schema(schema)
    except (InvalidSchema, LimitExceeded) as unusable:
        return f"its output schema cannot be used: {unusable}"
