"""A client for asyncio: the names of `mcp_client`, which work on both libraries.

    async with open_http("http://127.0.0.1:8000/mcp") as client:
        print((await client.call_tool("forecast", {"city": "Ghent"})).text)

In an asyncio task, all functions and objects of the application that the client calls may be written for asyncio: handlers,
middleware, `on_progress`, user agents, credential stores. Groups of servers are in `mcp_client.group`, which works on both
libraries, too. trio runs as a guest of the loop.
"""

from __future__ import annotations

from mcp_client.client import Client
from mcp_client.connection.response_cache import ResponseCache
from mcp_client.connectors.http import open_http
from mcp_client.connectors.options import ClientOptions, HttpOptions
from mcp_client.connectors.stdio import Connector, open_stdio, open_stream
from mcp_client.deadlines import Deadlines
from mcp_client.features.changes import Change, ChangeKind, Changes
from mcp_client.features.output_schema import InvalidToolOutput
from mcp_client.features.tasks import TaskCancelled, TaskHandle
from mcp_client.features.tool_result import ToolFailed, ToolResult
from mcp_client.handlers import Handlers
from mcp_client.transports.stdio.command import Grace
from mcp_core.errors import (
    AccessDenied,
    ConnectionEnded,
    LocalProtocolError,
    McpError,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
from mcp_core.revisions import REVISIONS
from mcp_core.trio.http_client.tls import Tls
from mcp_core.types import ElicitRequestFormParams, Root, TextContent

__all__ = [
    "REVISIONS",
    "AccessDenied",
    "Change",
    "ChangeKind",
    "Changes",
    "Client",
    "ClientOptions",
    "ConnectionEnded",
    "Connector",
    "Deadlines",
    "ElicitRequestFormParams",
    "ElicitationAccepted",
    "ElicitationCancelled",
    "ElicitationDeclined",
    "Grace",
    "Handlers",
    "HttpOptions",
    "InvalidToolOutput",
    "LocalProtocolError",
    "McpError",
    "RequestFailed",
    "RequestTimeout",
    "ResponseCache",
    "Root",
    "TaskCancelled",
    "TaskHandle",
    "TextContent",
    "Tls",
    "ToolFailed",
    "ToolResult",
    "open_http",
    "open_stdio",
    "open_stream",
]
