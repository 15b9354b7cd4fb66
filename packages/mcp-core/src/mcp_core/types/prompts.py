"""Prompts. Spec: server/prompts"""

from __future__ import annotations

from collections.abc import Mapping

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_06_18, R2025_11_25
from mcp_core.types.base import (
    META_SINCE,
    CacheableResult,
    Icon,
    NotificationParams,
    Open,
    PaginatedRequestParams,
    Result,
    Role,
)
from mcp_core.types.content import ContentBlock
from mcp_core.types.input_required import InputResponseRequestParams
from mcp_core.types.wire_object import field, wire

__all__ = [
    "GetPromptRequestParams",
    "GetPromptResult",
    "ListPromptsRequestParams",
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptListChangedNotificationParams",
    "PromptMessage",
]


@wire()
class PromptArgument(Open):
    """An argument of a prompt. Spec: server/prompts#prompt"""

    name: str
    """The identifier."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The display name."""
    description: str | None = None
    """The description."""
    required: bool = False
    """Whether the argument is required."""


@wire()
class Prompt(Open):
    """A prompt. Spec: server/prompts#prompt"""

    name: str
    """The identifier, for `prompts/get`."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The display name."""
    description: str | None = None
    """The description. Untrusted text of the server."""
    arguments: tuple[PromptArgument, ...] | None = None
    """The arguments of the prompt."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """The icons."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire()
class PromptMessage(Open):
    """A message of a prompt. Spec: server/prompts#promptmessage"""

    role: Role
    """The sender of the message."""
    content: ContentBlock
    """The content of the message."""


@wire()
class ListPromptsRequestParams(PaginatedRequestParams):
    """The parameters of `prompts/list`. Spec: server/prompts#listing-prompts"""


@wire()
class ListPromptsResult(CacheableResult):
    """The result of `prompts/list`. Spec: server/prompts#listing-prompts"""

    prompts: tuple[Prompt, ...]
    """The prompts of this page."""
    next_cursor: str | None = None
    """The cursor of the next page; `None` on the last page."""


@wire()
class GetPromptRequestParams(InputResponseRequestParams):
    """The parameters of `prompts/get`. Spec: server/prompts#getting-a-prompt"""

    name: str
    """The name of the prompt."""
    arguments: Mapping[str, str] | None = None
    """The arguments, by name."""


@wire()
class GetPromptResult(Result):
    """The result of `prompts/get`. Spec: server/prompts#getting-a-prompt"""

    messages: tuple[PromptMessage, ...]
    """The initial messages of the conversation."""
    description: str | None = None
    """The description."""


@wire()
class PromptListChangedNotificationParams(NotificationParams):
    """The parameters of `notifications/prompts/list_changed`. Spec: server/prompts#list-changed-notification"""
