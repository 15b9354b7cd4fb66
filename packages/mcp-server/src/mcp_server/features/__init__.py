"""The features of a server: tools, resources, prompts, completion, lists, mounted servers."""

from __future__ import annotations

from mcp_server.features.proxy import RemoteServer
from mcp_server.features.tasks.client_tasks import request_as_task
from mcp_server.options import PromptOptions, ResourceOptions, ToolOptions

__all__ = [
    "PromptOptions",
    "RemoteServer",
    "ResourceOptions",
    "ToolOptions",
    "request_as_task",
]
