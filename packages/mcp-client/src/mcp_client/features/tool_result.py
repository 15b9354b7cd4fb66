"""The result of a tool call, with its data as values of the type that the application asks for.

The data is the structured content. If the output schema of the tool wraps a value that is not an object, as servers do
for revisions before 2026-07-28, the data is the wrapped value. Without structured content, which 2025-06-18 introduced,
the data is read from the text: servers send the same JSON as text for older clients.

Spec: server/tools#structured-content, server/tools#error-handling
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import attrs

from mcp_client.features.output_schema import InvalidToolOutput
from mcp_core.errors import LimitExceeded, McpError, Phase
from mcp_core.field_methods import FieldValue
from mcp_core.methods import TOOLS_CALL
from mcp_core.types import ABSENT, CallToolResult, TextContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.features.output_schema import OutputSchemas
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.limits import Limits
    from mcp_core.schema.type_spec import Mismatch, TypeSpec
    from mcp_core.types import ContentBlock

__all__ = ["ToolFailed", "ToolResult", "ToolResultReader", "is_wrapped"]

T_co = TypeVar("T_co", covariant=True)

_MESSAGE_CHARACTERS: Final = 2_000
"""Maximum length of the text of a failed tool in an error message."""

_WRAPPED: Final = "result"
"""The member in which servers wrap a value that is not an object. The specification leaves its name to the servers; this
is the name that the official SDKs and this project use."""

_PROBLEMS: Final = 20


@attrs.frozen(eq=False, repr=False)
class ToolResult(FieldValue, Generic[T_co]):
    """The result of a tool call. Spec: server/tools#tool-result"""

    result: CallToolResult
    """The result as the server sent it."""
    _data: T_co | None = attrs.field(default=None, repr=False)

    @property
    def data(self) -> T_co:
        """The data of the tool, of the class given as `returns`.

        Without `returns`: the structured content as plain JSON, unwrapped if the output schema of the tool that
        `list_tools` returned says so; `None` without structured content.

        Raises:
            ToolFailed: The tool failed, so there is no data.
        """
        if self.result.is_error:
            raise ToolFailed("a tool", cast("ToolResult[object]", self))
        return cast("T_co", self._data)

    @property
    def text(self) -> str:
        """The text of all text blocks, one per line. Untrusted text of the server."""
        return "\n".join(block.text for block in self.result.content if isinstance(block, TextContent))

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """The content blocks: text, images, audio and resources."""
        return self.result.content

    @property
    def structured_content(self) -> JsonValue:
        """The structured content as the server sent it; `None` if absent."""
        value = self.result.structured_content
        return None if value is ABSENT else value

    @property
    def is_error(self) -> bool:
        """Whether the tool failed. Only with `raise_on_error=False`; otherwise a failed tool raises `ToolFailed`."""
        return self.result.is_error

    @property
    def meta(self) -> Mapping[str, JsonValue]:
        """The metadata of the result, `_meta`; empty if absent."""
        return self.result.meta or {}


class ToolFailed(McpError):
    """A tool failed. The message has the text of the result, with which a model can correct the call.

    Spec: server/tools#error-handling
    """

    def __init__(self, tool: str, result: ToolResult[object]) -> None:
        text = result.text or "the server gave no reason"
        if len(text) > _MESSAGE_CHARACTERS:
            text = f"{text[:_MESSAGE_CHARACTERS]}..."
        super().__init__(f"{tool} failed: {text}")
        self.result: ToolResult[object] = result
        """The result, with the whole text."""


def is_wrapped(schema: JsonObject | None) -> bool:
    """Return whether an output schema describes a value wrapped in an object with the only member `result`.

    Args:
        schema: The output schema of a tool; `None` if it is unknown.
    """
    if schema is None:
        return False
    properties, required = schema.get("properties"), schema.get("required")
    return isinstance(properties, dict) and set(properties) == {_WRAPPED} and required == [_WRAPPED]


class ToolResultReader:
    """The conversion of the results of one server's tools.

    Args:
        channel: The connection, for the context of errors and the limits.
        outputs: The output schemas of the tools.
    """

    def __init__(self, channel: ClientChannel, outputs: OutputSchemas) -> None:
        self._channel: Final = channel
        self._outputs: Final = outputs

    def read(
        self, tool: str | None, result: CallToolResult, returns: object, *, raise_on_error: bool
    ) -> ToolResult[object]:
        """Return a result with its data.

        Args:
            tool: The name of the tool; `None` for a task of an unknown tool.
            result: The result as received.
            returns: The type of the data; `None` for plain JSON.
            raise_on_error: Whether a failed tool raises an error.

        Raises:
            ToolFailed: The tool failed, and `raise_on_error` is true.
            InvalidToolOutput: The data does not match the type; or it violates the output schema, and `validate_output`
                is `raise`.
            UnsupportedType: The type has no JSON representation.
            LimitExceeded: JSON in the text exceeds a limit.
        """
        name = "a task" if tool is None else f"the tool {tool!r}"
        if result.is_error:
            failed: ToolResult[object] = ToolResult(result)
            if raise_on_error:
                raise ToolFailed(name, failed)
            return failed
        schema = None if tool is None else self._outputs.schemas.get(tool)
        try:
            if tool is not None and schema is not None:
                self._outputs.check(tool, result)
            return ToolResult(result, self._data(name, result, returns, schema))
        except (InvalidToolOutput, LimitExceeded) as invalid:
            self._channel.explain(invalid, method=TOOLS_CALL.name, phase=Phase.REQUEST)
            raise

    def _data(self, name: str, result: CallToolResult, returns: object, schema: JsonObject | None) -> object:
        content = result.structured_content
        if returns is None:
            return None if content is ABSENT else _unwrapped(content) if is_wrapped(schema) else content
        spec = _spec(returns)
        value = _json_text(name, result, spec, self._channel.connection.limits) if content is ABSENT else content
        inner = _unwrapped(value)
        if inner is value or (schema is not None and not is_wrapped(schema)):
            return _load(name, result, value, spec)
        # A wrapped value and an object with the member `result` have the same schema. The type distinguishes them.
        candidates = (value, inner) if schema is None else (inner, value)
        return _load(name, result, next((each for each in candidates if _accepts(spec, each)), inner), spec)


def _unwrapped(value: JsonValue) -> JsonValue:
    """Return the value in an object with the only member `result`; any other value unchanged."""
    return value[_WRAPPED] if isinstance(value, dict) and set(value) == {_WRAPPED} else value


def _accepts(spec: TypeSpec, value: JsonValue) -> bool:
    from mcp_core.schema.type_spec import Mismatch  # lazy: most clients do not ask for types

    try:
        spec.load(value)
    except Mismatch:
        return False
    return True


def _load(name: str, result: CallToolResult, value: JsonValue, spec: TypeSpec) -> object:
    from mcp_core.schema.type_spec import Mismatch  # lazy: likewise

    try:
        return spec.load(value)
    except Mismatch as mismatch:
        raise _invalid(name, result, mismatch) from None


def _json_text(name: str, result: CallToolResult, spec: TypeSpec, limits: Limits) -> JsonValue:
    """Return the JSON in the text of a result without structured content; for a string type the text itself."""
    from mcp_core.json_text import read  # lazy: likewise
    from mcp_core.schema.type_spec import Mismatch  # lazy: likewise

    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if not texts:
        raise _invalid(name, result, Mismatch.of(spec.expected, "no text and no structured content"))
    if spec.kinds <= {"string", "null"}:
        return "\n".join(texts)
    try:
        value, excess, _ = read(texts[0].encode(), limits)
    except ValueError:
        raise _invalid(name, result, Mismatch.of(spec.expected, "text that is not JSON")) from None
    if excess is not None:
        raise excess
    return value


def _spec(returns: object) -> TypeSpec:
    try:
        hash(returns)
    except TypeError:
        return _compile(returns)  # an Annotated whose metadata is not hashable
    return _cached_spec(returns)


def _compile(returns: object) -> TypeSpec:
    from mcp_core.schema.annotations import Scope  # lazy: most clients do not ask for types
    from mcp_core.schema.compiler import Compiler  # lazy: likewise

    compiler = Compiler("the type given as `returns`")
    return compiler.spec(returns, Scope({}, {}))


@lru_cache(maxsize=256)
def _cached_spec(returns: object) -> TypeSpec:
    """Compile a type once. The cache is bounded because classes can be created at run time."""
    return _compile(returns)


def _invalid(name: str, result: CallToolResult, mismatch: Mismatch) -> InvalidToolOutput:
    problems = tuple(str(problem) for problem in mismatch.problems()[:_PROBLEMS])
    return InvalidToolOutput(
        f"the result of {name} is not of the type given as `returns`: {problems[0]}",
        problems=problems,
        result=result,
    )
