"""Replacement of content that an old revision does not have by a text that describes it.

A tool that returns audio can therefore respond to a client of 2024-11-05, which does not support audio content.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, cast

from mcp_core.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ResourceLink,
    TextContent,
    evolve,
)

if TYPE_CHECKING:
    from mcp_core.revisions import Revision
    from mcp_core.types import ContentBlock

__all__ = ["fit_prompt", "fit_result"]

_KINDS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)


@cache
def _missing(revision: Revision) -> tuple[type, ...]:
    """Return the kinds of content that `revision` does not have."""
    return tuple(kind for kind in _KINDS if revision not in kind.__wire__.alive)


def _fit(block: ContentBlock, missing: tuple[type, ...]) -> ContentBlock:
    if not isinstance(block, missing):
        return block
    if isinstance(block, AudioContent):
        return TextContent(
            text=f"[audio of type {block.mime_type}, which this revision of the protocol does not support]"
        )
    channel = cast("ResourceLink", block)  # the only other kind that later revisions added
    about = f"{channel.title or channel.name}: {channel.uri}"
    return TextContent(text=about if channel.mime_type is None else f"{about} ({channel.mime_type})")


def fit_result(result: CallToolResult, revision: Revision) -> CallToolResult:
    """Return the result with the content that `revision` does not have replaced by text."""
    missing = _missing(revision)
    if not missing or not any(isinstance(block, missing) for block in result.content):
        return result
    return evolve(result, content=tuple(_fit(block, missing) for block in result.content))


def fit_prompt(result: GetPromptResult, revision: Revision) -> GetPromptResult:
    """Return the prompt with the content that `revision` does not have replaced by text."""
    missing = _missing(revision)
    if not missing or not any(isinstance(message.content, missing) for message in result.messages):
        return result
    return evolve(
        result,
        messages=tuple(evolve(message, content=_fit(message.content, missing)) for message in result.messages),
    )
