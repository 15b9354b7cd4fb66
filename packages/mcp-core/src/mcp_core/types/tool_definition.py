"""What a tool is. Apart from `tools`, since a model that is asked by sampling gets tools as well.

Spec: server/tools#tool
"""

from __future__ import annotations

from typing import Literal

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_03_26, R2025_06_18, R2025_11_25, between
from mcp_core.types.base import META_SINCE, Icon, ObjectSchema, Open
from mcp_core.types.wire_object import field, wire

__all__ = ["Tool", "ToolAnnotations", "ToolExecution"]


@wire(since=R2025_03_26)
class ToolAnnotations(Open):
    """Hints on what a tool does. Not to be trusted, unless the server is. Spec: server/tools#tool"""

    title: str | None = None
    """The name for people; `Tool.title` goes before it."""
    read_only_hint: bool | None = None
    """It changes nothing. By default it may."""
    destructive_hint: bool | None = None
    """It may destroy something. By default it may."""
    idempotent_hint: bool | None = None
    """The same call again has no further effect. By default it may."""
    open_world_hint: bool | None = None
    """It deals with things outside of the server. By default it does."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ToolExecution(Open):
    """How a tool may be run. Spec: basic/utilities/tasks#tool-level-negotiation (2025-11-25)"""

    task_support: Literal["forbidden", "optional", "required"] | None = None
    """Whether it may, or has to, run as a task. By default it must not."""


@wire()
class Tool(Open):
    """A tool. Spec: server/tools#tool"""

    name: str
    """The name for programs: what a call names."""
    input_schema: ObjectSchema
    """The JSON Schema of the arguments."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The name for people."""
    description: str | None = None
    """What it does, for the model. Written by the server: untrusted text."""
    output_schema: JsonObject | None = field(
        default=None, since=R2025_06_18, was=(between(R2025_06_18, R2025_11_25), ObjectSchema)
    )
    """The JSON Schema of `CallToolResult.structured_content`."""
    annotations: ToolAnnotations | None = field(default=None, since=R2025_03_26)
    """Hints on what it does. Not to be trusted, unless the server is."""
    execution: ToolExecution | None = field(default=None, since=R2025_11_25, until=R2025_11_25)
    """How it may be run."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """Its pictures."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""
