"""The definition of a tool. It is separate from `tools`, because sampling requests contain tools too.

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
    """Hints about a tool. Do not trust them unless you trust the server. Spec: server/tools#tool"""

    title: str | None = None
    """The display name; `Tool.title` has precedence."""
    read_only_hint: bool | None = None
    """Whether the tool changes nothing. Default: false."""
    destructive_hint: bool | None = None
    """Whether the tool may destroy data. Default: true."""
    idempotent_hint: bool | None = None
    """Whether a repeated call has no further effect. Default: false."""
    open_world_hint: bool | None = None
    """Whether the tool interacts with systems outside of the server. Default: true."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ToolExecution(Open):
    """The ways to run a tool. Spec: basic/utilities/tasks#tool-level-negotiation (2025-11-25)"""

    task_support: Literal["forbidden", "optional", "required"] | None = None
    """Whether the tool can or must run as a task. Default: `forbidden`."""


@wire()
class Tool(Open):
    """A tool. Spec: server/tools#tool"""

    name: str
    """The identifier, for `tools/call`."""
    input_schema: ObjectSchema
    """The JSON Schema of the arguments."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The display name."""
    description: str | None = None
    """The description, for the model. Untrusted text of the server."""
    output_schema: JsonObject | None = field(
        default=None, since=R2025_06_18, was=(between(R2025_06_18, R2025_11_25), ObjectSchema)
    )
    """The JSON Schema of `CallToolResult.structured_content`."""
    annotations: ToolAnnotations | None = field(default=None, since=R2025_03_26)
    """Hints about the tool. Do not trust them unless you trust the server."""
    execution: ToolExecution | None = field(default=None, since=R2025_11_25, until=R2025_11_25)
    """The ways to run the tool."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """The icons."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""
