"""A Model Context Protocol server on trio.

    server = Server("weather", version="1.2")

    @server.tool
    async def forecast(city: str, days: int = 3) -> str: ...

    trio.run(serve_stdio, server)

Functions are registered on a `Server`, which `serve_stdio` or `serve_stream` then serves.
"""

from __future__ import annotations

from mcp_core.errors import RequestFailed, ResourceNotFound
from mcp_server._context import Accepted, Context, Declined, Dismissed, InvalidAnswer
from mcp_server._errors import RegistrationError, ToolError
from mcp_server._options import PromptOptions, ResourceOptions, ToolOptions
from mcp_server._results import Audio, File, Image
from mcp_server._seal import InputPolicy
from mcp_server._serve import serve_stdio, serve_stream
from mcp_server._server import Server
from mcp_server._signature import Param

__all__ = [
    "Accepted",
    "Audio",
    "Context",
    "Declined",
    "Dismissed",
    "File",
    "Image",
    "InputPolicy",
    "InvalidAnswer",
    "Param",
    "PromptOptions",
    "RegistrationError",
    "RequestFailed",
    "ResourceNotFound",
    "ResourceOptions",
    "Server",
    "ToolError",
    "ToolOptions",
    "__version__",
    "serve_stdio",
    "serve_stream",
]

__version__ = "0.1.0"
