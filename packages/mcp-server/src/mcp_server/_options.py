"""What can be said of a tool, a resource or a prompt when it is registered, besides what its function says."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import Annotations, Icon, ToolAnnotations

__all__ = ["Options", "PromptOptions", "ResourceOptions", "ToolOptions"]


class Options(TypedDict, total=False):
    """What tools, resources and prompts have in common. Everything may be left out."""

    name: str | None
    """The name for programs; that of the function by default."""
    title: str | None
    """The name for people."""
    description: str | None
    """What it is or does, for the model; from the docstring by default."""
    icons: Iterable[Icon]
    """Its pictures."""
    meta: JsonObject | None
    """Its `_meta`."""
    thread: bool | None
    """Whether a plain function runs in a worker thread; it does by default."""


class ToolOptions(Options, total=False):
    """What can be said of a tool."""

    input_schema: JsonObject | None
    """The JSON Schema of the arguments, instead of one that follows from the signature. The arguments are validated by it,
    and given to the function's only parameter as they came."""
    annotations: ToolAnnotations | None
    """Hints on what it does."""


class ResourceOptions(Options, total=False):
    """What can be said of a resource."""

    mime_type: str | None
    """Its media type; of a template, when all its resources have the same."""
    annotations: Annotations | None
    """Hints."""
    size: int | None
    """Its size in bytes; not for templates."""


class PromptOptions(Options, total=False):
    """What can be said of a prompt."""
