"""A client of the Model Context Protocol, for trio.

    async with open_stdio(["weather-server"]) as client:
        print((await client.call_tool("forecast", {"city": "Ghent"})).text)

`open_stdio` starts a server process and connects to it, `open_http` connects to a server by its URL, and `open_stream`
connects over an existing byte stream.
"""

from __future__ import annotations

import logging

from mcp_client.client import Client
from mcp_client.config import AuthConfig, ConfigError, ConfigInput, ServerConfig, read_config
from mcp_client.connection.pending_request import ProgressHandler
from mcp_client.connection.response_cache import ResponseCache
from mcp_client.connectors.http import open_http
from mcp_client.connectors.options import ClientOptions, HttpOptions
from mcp_client.connectors.stdio import Connector, open_stdio, open_stream
from mcp_client.deadlines import Deadlines
from mcp_client.features.changes import Change, ChangeKind, Changes
from mcp_client.features.output_schema import InvalidToolOutput, OutputPolicy
from mcp_client.features.tasks import TaskCancelled, TaskHandle
from mcp_client.features.tool_result import ToolFailed, ToolResult
from mcp_client.group.client_group import ClientGroup, GroupListing, Member, Restart, ServerItem, configured, open_group
from mcp_client.group.names import NameCollision, Naming
from mcp_client.handlers import Handlers
from mcp_client.transports.stdio.command import Grace
from mcp_client.transports.stdio.stream import ByteStream
from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
from mcp_core.trio.http_client.tls import Tls

__all__ = [
    "AuthConfig",
    "ByteStream",
    "Change",
    "ChangeKind",
    "Changes",
    "Client",
    "ClientGroup",
    "ClientOptions",
    "ConfigError",
    "ConfigInput",
    "Connector",
    "Deadlines",
    "ElicitationAccepted",
    "ElicitationCancelled",
    "ElicitationDeclined",
    "Grace",
    "GroupListing",
    "Handlers",
    "HttpOptions",
    "InvalidToolOutput",
    "Member",
    "NameCollision",
    "Naming",
    "OutputPolicy",
    "ProgressHandler",
    "ResponseCache",
    "Restart",
    "ServerConfig",
    "ServerItem",
    "TaskCancelled",
    "TaskHandle",
    "Tls",
    "ToolFailed",
    "ToolResult",
    "configured",
    "open_group",
    "open_http",
    "open_stdio",
    "open_stream",
    "read_config",
]

__version__ = "0.1.0"

logging.getLogger("mcp_client").addHandler(logging.NullHandler())
