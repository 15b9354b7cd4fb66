"""A client of the Model Context Protocol, for trio.

    async with open_stdio(["weather-server"]) as client:
        print(await client.call_tool("forecast", {"city": "Ghent"}))

`open_stdio` starts a server and talks to it, `open_http` talks to one that runs somewhere, `open_stream` talks over
bytes that are there.
"""

from __future__ import annotations

import logging

from mcp_client._cache import ResponseCache
from mcp_client._call import ProgressHandler
from mcp_client._client import Client
from mcp_client._command import Grace
from mcp_client._deadlines import Deadlines
from mcp_client._group import ClientGroup, Listed, Member, Named, Restart, configured, open_group
from mcp_client._group_names import NameCollision, Naming
from mcp_client._handlers import Handlers
from mcp_client._host_config import AuthConfig, ConfigError, ConfigInput, ServerConfig, read_config
from mcp_client._http_tls import Tls
from mcp_client._open import Opening, open_stdio, open_stream
from mcp_client._open_http import open_http
from mcp_client._output_schema import InvalidToolOutput, OutputPolicy
from mcp_client._subscriptions import Change, ChangeKind, Changes
from mcp_client._tasks import TaskCancelled, TaskHandle
from mcp_client._transport import ByteStream

__all__ = [
    "AuthConfig",
    "ByteStream",
    "Change",
    "ChangeKind",
    "Changes",
    "Client",
    "ClientGroup",
    "ConfigError",
    "ConfigInput",
    "Deadlines",
    "Grace",
    "Handlers",
    "InvalidToolOutput",
    "Listed",
    "Member",
    "NameCollision",
    "Named",
    "Naming",
    "Opening",
    "OutputPolicy",
    "ProgressHandler",
    "ResponseCache",
    "Restart",
    "ServerConfig",
    "TaskCancelled",
    "TaskHandle",
    "Tls",
    "configured",
    "open_group",
    "open_http",
    "open_stdio",
    "open_stream",
    "read_config",
]

__version__ = "0.1.0"

logging.getLogger("mcp_client").addHandler(logging.NullHandler())
