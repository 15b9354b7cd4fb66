"""A server asks the client's model. Spec: client/sampling"""

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
"""Which servers' context the model shall see."""


@wire(since=R2025_11_25, tag="type")
class ToolUseContent(Open):
    """The model wants to call a tool. Spec: client/sampling#tool-use-content"""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    """Tells the kinds of content apart."""
    id: str
    """What the result has to name."""
    name: str
    """The tool."""
    input: JsonObject
    """The arguments."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire(since=R2025_11_25, tag="type")
class ToolResultContent(Open):
    """What a tool gave to the model. Spec: client/sampling#tool-result-content"""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    """Tells the kinds of content apart."""
    tool_use_id: str
    """`ToolUseContent.id` of the call."""
    content: tuple[ContentBlock, ...]
    """The result."""
    structured_content: JsonValue | Absent = field(default=ABSENT, was=(between(R2025_11_25, R2025_11_25), JsonObject))
    """The result as data: any JSON, an object until 2025-11-25."""
    is_error: bool = False
    """The call failed."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)
"""What a message to or from a model is made of."""

_ONE_BLOCK = (between(None, R2025_06_18), SamplingMessageContentBlock)


@wire()
class SamplingMessage(Open):
    """A message to or from a model. Spec: client/sampling#messages"""

    role: Role
    """Who said it."""
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...] = field(was=_ONE_BLOCK)
    """What was said; several blocks since 2025-11-25."""
    meta: JsonObject | None = field(default=None, name="_meta", since=R2025_11_25)
    """Metadata."""


@wire()
class ModelHint(Open):
    """A hint on which model to take. Spec: client/sampling#model-preferences"""

    name: str | None = None
    """A part of the model's name."""


@wire()
class ModelPreferences(Open):
    """What matters when the client chooses the model. Spec: client/sampling#model-preferences"""

    hints: tuple[ModelHint, ...] | None = None
    """Models that would do, the best first."""
    cost_priority: float | None = field(default=None, minimum=0, maximum=1)
    """How much a low price matters, from 0 to 1."""
    speed_priority: float | None = field(default=None, minimum=0, maximum=1)
    """How much speed matters, from 0 to 1."""
    intelligence_priority: float | None = field(default=None, minimum=0, maximum=1)
    """How much ability matters, from 0 to 1."""


@wire(since=R2025_11_25)
class ToolChoice(Open):
    """Whether the model may, must or must not call tools. Spec: client/sampling#tool-choice-modes"""

    mode: Literal["auto", "required", "none"] | None = None
    """By default `auto`."""


@wire()
class CreateMessageRequestParams(Open):
    """The parameters of `sampling/createMessage`. Spec: client/sampling#creating-messages"""

    messages: tuple[SamplingMessage, ...]
    """The conversation."""
    max_tokens: int
    """The most tokens that the answer may have."""
    system_prompt: str | None = None
    """The system prompt that the server would like."""
    model_preferences: ModelPreferences | None = None
    """What matters when the client chooses the model."""
    include_context: IncludeContext | None = None
    """Which servers' context the model shall see; anything but `none` is deprecated."""
    temperature: float | None = None
    """The temperature."""
    stop_sequences: tuple[str, ...] | None = None
    """Where the model shall stop."""
    metadata: JsonObject | None = None
    """For the provider of the model."""
    tools: tuple[Tool, ...] | None = field(default=None, since=R2025_11_25, refuse=True)
    """The tools that the model may call; the server runs them."""
    tool_choice: ToolChoice | None = field(default=None, since=R2025_11_25, refuse=True)
    """Whether the model may, must or must not call tools."""
    task: TaskMetadata | None = field(default=None, since=R2025_11_25, until=R2025_11_25, refuse=True)
    """Run it as a task."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


@wire(when=("model",))
class CreateMessageResult(Open):
    """The answer to `sampling/createMessage`. Spec: client/sampling#creating-messages"""

    role: Role
    """Who says it: `assistant`."""
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...] = field(was=_ONE_BLOCK)
    """What the model says; several blocks since 2025-11-25."""
    model: str
    """The model."""
    stop_reason: str | None = None
    """Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or anything else."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""
