"""Sampling: a server sends a request to the client's model. Spec: client/sampling"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_06_18, R2025_11_25, between
from mcp_core.types.base import Open, Role, TaskMetadata
from mcp_core.types.content import AudioContent, ContentBlock, ImageContent, TextContent, UnknownContent
from mcp_core.types.tool_definition import Tool
from mcp_core.types.wire_object import ABSENT, Absent, field, wire

__all__ = [
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "IncludeContext",
    "ModelHint",
    "ModelPreferences",
    "SamplingMessage",
    "SamplingMessageContentBlock",
    "ToolChoice",
    "ToolResultContent",
    "ToolUseContent",
]

IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
"""The servers whose context the model receives."""


@wire(since=R2025_11_25, tag="type")
class ToolUseContent(Open):
    """A tool call of the model. Spec: client/sampling#tool-use-content"""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    """The type of content."""
    id: str
    """The id of the call, which the result must name."""
    name: str
    """The name of the tool."""
    input: JsonObject
    """The arguments."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire(since=R2025_11_25, tag="type")
class ToolResultContent(Open):
    """The result of a tool call of the model. Spec: client/sampling#tool-result-content"""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    """The type of content."""
    tool_use_id: str
    """`ToolUseContent.id` of the call."""
    content: tuple[ContentBlock, ...]
    """The result."""
    structured_content: JsonValue | Absent = field(default=ABSENT, was=(between(R2025_11_25, R2025_11_25), JsonObject))
    """The structured result: any JSON value, an object until 2025-11-25."""
    is_error: bool = False
    """Whether the call failed."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)
"""A part of a message to or from a model."""

_ONE_BLOCK = (between(None, R2025_06_18), SamplingMessageContentBlock)


@wire()
class SamplingMessage(Open):
    """A message to or from a model. Spec: client/sampling#messages"""

    role: Role
    """The sender of the message."""
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...] = field(was=_ONE_BLOCK)
    """The content of the message; several blocks since 2025-11-25."""
    meta: JsonObject | None = field(default=None, name="_meta", since=R2025_11_25)
    """Metadata."""


@wire()
class ModelHint(Open):
    """A hint for the selection of a model. Spec: client/sampling#model-preferences"""

    name: str | None = None
    """A part of the model's name."""


@wire()
class ModelPreferences(Open):
    """The preferences for the selection of a model. Spec: client/sampling#model-preferences"""

    hints: tuple[ModelHint, ...] | None = None
    """Suitable models, the best first."""
    cost_priority: float | None = field(default=None, minimum=0, maximum=1)
    """The importance of a low cost, from 0 to 1."""
    speed_priority: float | None = field(default=None, minimum=0, maximum=1)
    """The importance of speed, from 0 to 1."""
    intelligence_priority: float | None = field(default=None, minimum=0, maximum=1)
    """The importance of capability, from 0 to 1."""


@wire(since=R2025_11_25)
class ToolChoice(Open):
    """The rule for tool calls: optional, required or forbidden. Spec: client/sampling#tool-choice-modes"""

    mode: Literal["auto", "required", "none"] | None = None
    """The mode; `auto` by default."""


@wire()
class CreateMessageRequestParams(Open):
    """The parameters of `sampling/createMessage`. Spec: client/sampling#creating-messages"""

    messages: tuple[SamplingMessage, ...]
    """The conversation."""
    max_tokens: int
    """The maximum number of tokens of the result."""
    system_prompt: str | None = None
    """The system prompt that the server requests."""
    model_preferences: ModelPreferences | None = None
    """The preferences for the selection of a model."""
    include_context: IncludeContext | None = None
    """The servers whose context the model receives; values other than `none` are deprecated."""
    temperature: float | None = None
    """The temperature."""
    stop_sequences: tuple[str, ...] | None = None
    """Texts at which the model stops."""
    metadata: JsonObject | None = None
    """Metadata for the provider of the model."""
    tools: tuple[Tool, ...] | None = field(default=None, since=R2025_11_25, refuse=True)
    """The tools that the model may call; the server runs them."""
    tool_choice: ToolChoice | None = field(default=None, since=R2025_11_25, refuse=True)
    """The rule for tool calls: optional, required or forbidden."""
    task: TaskMetadata | None = field(default=None, since=R2025_11_25, until=R2025_11_25, refuse=True)
    """Metadata of a request that runs as a task; `None` for other requests."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


@wire(when=("model",))
class CreateMessageResult(Open):
    """The result of `sampling/createMessage`. Spec: client/sampling#creating-messages"""

    role: Role
    """The sender of the message: `assistant`."""
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...] = field(was=_ONE_BLOCK)
    """The content of the message; several blocks since 2025-11-25."""
    model: str
    """The name of the model."""
    stop_reason: str | None = None
    """The reason why the model stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or any other text."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""
