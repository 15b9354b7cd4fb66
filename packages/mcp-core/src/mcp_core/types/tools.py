"""Tools. Spec: server/tools"""

from __future__ import annotations

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_06_18, R2025_11_25, between
from mcp_core.types.base import CacheableResult, NotificationParams, PaginatedRequestParams, Result, TaskMetadata
from mcp_core.types.content import ContentBlock
from mcp_core.types.input_required import InputResponseRequestParams
from mcp_core.types.tool_definition import Tool, ToolAnnotations, ToolExecution
from mcp_core.types.wire_object import ABSENT, Absent, field, wire

__all__ = [
    "CallToolRequestParams",
    "CallToolResult",
    "ListToolsRequestParams",
    "ListToolsResult",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
    "ToolListChangedNotificationParams",
]


@wire()
class ListToolsRequestParams(PaginatedRequestParams):
    """The parameters of `tools/list`. Spec: server/tools#listing-tools"""


@wire()
class ListToolsResult(CacheableResult):
    """The answer to `tools/list`. Spec: server/tools#listing-tools"""

    tools: tuple[Tool, ...]
    """The tools of this page."""
    next_cursor: str | None = None
    """Where the next page begins; `None` on the last one."""


@wire()
class CallToolRequestParams(InputResponseRequestParams):
    """The parameters of `tools/call`. Spec: server/tools#calling-tools"""

    name: str
    """The tool."""
    arguments: JsonObject | None = None
    """The arguments, as the tool's input schema wants them."""
    task: TaskMetadata | None = field(default=None, since=R2025_11_25, until=R2025_11_25, refuse=True)
    """Run it as a task."""


@wire()
class CallToolResult(Result):
    """The answer to `tools/call`. Spec: server/tools#calling-tools"""

    content: tuple[ContentBlock, ...]
    """The result, for the model."""
    structured_content: JsonValue | Absent = field(
        default=ABSENT, since=R2025_06_18, was=(between(R2025_06_18, R2025_11_25), JsonObject)
    )
    """The result as data: any JSON, an object until 2025-11-25."""
    is_error: bool = False
    """The call failed; the content says why."""


@wire()
class ToolListChangedNotificationParams(NotificationParams):
    """The parameters of `notifications/tools/list_changed`. Spec: server/tools#list-changed-notification"""
