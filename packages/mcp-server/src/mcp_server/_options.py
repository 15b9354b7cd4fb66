"""What can be said of a tool, a resource or a prompt when it is registered, besides what its function says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import Annotations, Icon, ToolAnnotations
    from mcp_server._cache_hint import CacheHint

__all__ = ["Options", "PromptOptions", "ResourceOptions", "TaskSupport", "ToolOptions"]

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a tool may, or has to, run as a task."""


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
    task: TaskSupport
    """Whether it may run as a task, which is answered later: `forbidden` (the default), `optional` or `required`. In
    2025-11-25 the client chooses where it is optional; in the extension of 2026-07-28 it is always a task for clients that
    have the extension. Others get the result in the answer, or, where it is required, an error."""
    task_at_once: bool
    """Whether a call becomes a task before the function begins, as it does by default; otherwise where the function says
    so, by `Context.begin_task`. In 2025-11-25 it is always at once."""
    resumable: bool
    """Whether a task that was interrupted, because the server was stopped, runs again from its top when it is started.
    By default it has failed then. See `Context.once` for what must not happen twice."""


class ResourceOptions(Options, total=False):
    """What can be said of a resource."""

    mime_type: str | None
    """Its media type; of a template, when all its resources have the same."""
    annotations: Annotations | None
    """Hints."""
    size: int | None
    """Its size in bytes; not for templates."""
    cache: CacheHint | None
    """How long a client may use its contents again; by default not at all. A function that returns `ReadResourceResult` says
    it there."""


class PromptOptions(Options, total=False):
    """What can be said of a prompt."""
