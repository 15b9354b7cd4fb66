"""A client of the Model Context Protocol, for trio.

    async with open_stdio(["weather-server"]) as client:
        print((await client.call_tool("forecast", {"city": "Ghent"})).text)

`open_stdio` starts a server process and connects to it, `open_http` connects to a server by its URL, and `open_stream`
connects over an existing byte stream.
"""

from __future__ import annotations

import logging

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

__version__ = "0.1.0"

logging.getLogger("mcp_client").addHandler(logging.NullHandler())
