"""A blocking client, for programs without an event loop: the names of `mcp_client`.

    with open_http("http://127.0.0.1:8000/mcp") as client:
        print(client.call_tool("forecast", {"city": "Ghent"}).text)

One background thread runs the connections of all clients of the process. Any thread can use a client. Handlers of requests
are plain functions, which run in worker threads; `on_progress` is called in the thread that waits for the result.
"""

from __future__ import annotations

from mcp_client.blocking.client import Changes, Client, Connector, TaskHandle, open_http, open_stdio, open_stream
from mcp_client.connection.response_cache import ResponseCache
from mcp_client.connectors.options import ClientOptions, HttpOptions
from mcp_client.deadlines import Deadlines
from mcp_client.features.changes import Change, ChangeKind
from mcp_client.features.output_schema import InvalidToolOutput
from mcp_client.features.tasks import TaskCancelled
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
