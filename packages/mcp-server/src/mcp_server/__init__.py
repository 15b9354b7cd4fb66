"""A Model Context Protocol server on trio.

    server = Server("weather", version="1.2")

    @server.tool
    async def forecast(city: str, days: int = 3) -> str: ...

    trio.run(serve_stdio, server)

Functions are registered on a `Server`, which `serve_stdio` or `serve_http` then serves.
"""

from __future__ import annotations

from mcp_core.errors import RequestFailed, ResourceNotFound
from mcp_server._context import Context
from mcp_server._elicited import Accepted, Declined, Dismissed, InvalidAnswer
from mcp_server._errors import RegistrationError, ToolError
from mcp_server._host_timeouts import HostTimeouts
from mcp_server._http_endpoint import HttpEndpoint
from mcp_server._options import PromptOptions, ResourceOptions, ToolOptions
from mcp_server._results import Audio, File, Image
from mcp_server._seal import InputPolicy
from mcp_server._serve import serve_stdio, serve_stream
from mcp_server._serve_http import HttpOptions, serve_http
from mcp_server._serve_hypercorn import serve_hypercorn
from mcp_server._server import Server
from mcp_server._signature import Param
from mcp_server._store_memory import MemoryStore
from mcp_server._store_sqlite import SqliteStore
from mcp_server._stores import SessionRecord, SessionStore, StoredEvent, StoredStream, StoreError

__all__ = [
    "Accepted",
    "Audio",
    "Context",
    "Declined",
    "Dismissed",
    "File",
    "HostTimeouts",
    "HttpEndpoint",
    "HttpOptions",
    "Image",
    "InputPolicy",
    "InvalidAnswer",
    "MemoryStore",
    "Param",
    "PromptOptions",
    "RegistrationError",
    "RequestFailed",
    "ResourceNotFound",
    "ResourceOptions",
    "Server",
    "SessionRecord",
    "SessionStore",
    "SqliteStore",
    "StoreError",
    "StoredEvent",
    "StoredStream",
    "ToolError",
    "ToolOptions",
    "__version__",
    "serve_http",
    "serve_hypercorn",
    "serve_stdio",
    "serve_stream",
]

__version__ = "0.1.0"
