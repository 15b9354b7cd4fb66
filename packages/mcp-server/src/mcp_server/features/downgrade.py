"""Content that an old revision does not have is replaced by a text that says what it was.

So a tool that returns a recording still answers a client of 2024-11-05, which could not read it.
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
    """The kinds of content that `revision` does not have."""
    return tuple(kind for kind in _KINDS if revision not in kind.__wire__.alive)


def _fit(block: ContentBlock, missing: tuple[type, ...]) -> ContentBlock:
    if not isinstance(block, missing):
        return block
    if isinstance(block, AudioContent):
        return TextContent(
            text=f"[a recording of type {block.mime_type}, which this revision of the protocol cannot carry]"
        )
    link = cast("ResourceLink", block)  # nothing else was added later
    about = f"{link.title or link.name}: {link.uri}"
    return TextContent(text=about if link.mime_type is None else f"{about} ({link.mime_type})")


def fit_result(result: CallToolResult, revision: Revision) -> CallToolResult:
    """The result with nothing in it that `revision` cannot say."""
    missing = _missing(revision)
    if not missing or not any(isinstance(block, missing) for block in result.content):
        return result
    return evolve(result, content=tuple(_fit(block, missing) for block in result.content))


def fit_prompt(result: GetPromptResult, revision: Revision) -> GetPromptResult:
    """The prompt with nothing in it that `revision` cannot say."""
    missing = _missing(revision)
    if not missing or not any(isinstance(message.content, missing) for message in result.messages):
        return result
    return evolve(
        result,
        messages=tuple(evolve(message, content=_fit(message.content, missing)) for message in result.messages),
    )
