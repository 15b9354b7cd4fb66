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
    """The name for programs."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The name for people."""
    description: str | None = None
    """What it is for."""
    required: bool = False
    """It has to be given."""


@wire()
class Prompt(Open):
    """A prompt. Spec: server/prompts#prompt"""

    name: str
    """The name for programs: what `prompts/get` names."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The name for people."""
    description: str | None = None
    """What it is for. Written by the server: untrusted text."""
    arguments: tuple[PromptArgument, ...] | None = None
    """Its arguments."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """Its pictures."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire()
class PromptMessage(Open):
    """A message of a prompt. Spec: server/prompts#promptmessage"""

    role: Role
    """Who says it."""
    content: ContentBlock
    """What is said."""


@wire()
class ListPromptsRequestParams(PaginatedRequestParams):
    """The parameters of `prompts/list`. Spec: server/prompts#listing-prompts"""


@wire()
class ListPromptsResult(CacheableResult):
    """The answer to `prompts/list`. Spec: server/prompts#listing-prompts"""

    prompts: tuple[Prompt, ...]
    """The prompts of this page."""
    next_cursor: str | None = None
    """Where the next page begins; `None` on the last one."""


@wire()
class GetPromptRequestParams(InputResponseRequestParams):
    """The parameters of `prompts/get`. Spec: server/prompts#getting-a-prompt"""

    name: str
    """The prompt."""
    arguments: Mapping[str, str] | None = None
    """The arguments, by name."""


@wire()
class GetPromptResult(Result):
    """The answer to `prompts/get`. Spec: server/prompts#getting-a-prompt"""

    messages: tuple[PromptMessage, ...]
    """The conversation to begin with."""
    description: str | None = None
    """What it is for."""


@wire()
class PromptListChangedNotificationParams(NotificationParams):
    """The parameters of `notifications/prompts/list_changed`. Spec: server/prompts#list-changed-notification"""
