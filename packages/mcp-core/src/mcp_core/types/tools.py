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
    """The result of `tools/list`. Spec: server/tools#listing-tools"""

    tools: tuple[Tool, ...]
    """The tools of this page."""
    next_cursor: str | None = None
    """The cursor of the next page; `None` on the last page."""


@wire()
class CallToolRequestParams(InputResponseRequestParams):
    """The parameters of `tools/call`. Spec: server/tools#calling-tools"""

    name: str
    """The name of the tool."""
    arguments: JsonObject | None = None
    """The arguments, which must match the tool's input schema."""
    task: TaskMetadata | None = field(default=None, since=R2025_11_25, until=R2025_11_25, refuse=True)
    """Metadata of a request that runs as a task; `None` for other requests."""


@wire()
class CallToolResult(Result):
    """The result of `tools/call`. Spec: server/tools#calling-tools"""

    content: tuple[ContentBlock, ...]
    """The result, for the model."""
    structured_content: JsonValue | Absent = field(
        default=ABSENT, since=R2025_06_18, was=(between(R2025_06_18, R2025_11_25), JsonObject)
    )
    """The structured result: any JSON value, an object until 2025-11-25."""
    is_error: bool = False
    """Whether the call failed; the content states the reason."""


@wire()
class ToolListChangedNotificationParams(NotificationParams):
    """The parameters of `notifications/tools/list_changed`. Spec: server/tools#list-changed-notification"""
