"""A Model Context Protocol server on trio.

    server = Server("weather", version="1.2")

    @server.tool
    async def forecast(city: str, days: int = 3) -> str: ...

    trio.run(serve_stdio, server)

Register functions on a `Server`, then serve it with `serve_stdio` or `serve_http`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mcp_core.errors import AccessDenied, McpError, RequestFailed, ResourceNotFound
from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
from mcp_core.revisions import REVISIONS
from mcp_core.types import CallToolResult, TextContent
from mcp_server import lazy_names, tracebacks
from mcp_server.cache_hint import CacheHint
from mcp_server.connection.sealer import InputPolicy
from mcp_server.errors import NotRunning, RegistrationError, ToolError
from mcp_server.features.results import Audio, File, Image
from mcp_server.features.tasks.policy import TaskPolicy
from mcp_server.handlers.access import Access, AccessRequest
from mcp_server.handlers.context import Context
from mcp_server.handlers.elicitation import InvalidAnswer
from mcp_server.handlers.input_required import InputRequired
from mcp_server.handlers.sync_context import SyncContext
from mcp_server.runners.signals import stopped_by_signals
from mcp_server.runners.stdio import serve_stdio, serve_stream
from mcp_server.schema.depends import Depends
from mcp_server.schema.signature import Param
from mcp_server.server import Server

if TYPE_CHECKING:
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_server.host.timeouts import HostTimeouts
    from mcp_server.runners.http import serve_http
    from mcp_server.runners.hypercorn import serve_hypercorn
    from mcp_server.runners.workers import run_workers

__all__ = [
    "REVISIONS",
    "Access",
    "AccessDenied",
    "AccessRequest",
    "Audio",
    "CacheHint",
    "CallToolResult",
    "Context",
    "Depends",
    "ElicitationAccepted",
    "ElicitationCancelled",
    "ElicitationDeclined",
    "EndpointPolicy",
    "File",
    "HostTimeouts",
    "Image",
    "InputPolicy",
    "InputRequired",
    "InvalidAnswer",
    "McpError",
    "NotRunning",
    "Param",
    "RegistrationError",
    "RequestFailed",
    "ResourceNotFound",
    "Server",
    "SyncContext",
    "TaskPolicy",
    "TextContent",
    "ToolError",
    "run_workers",
    "serve_http",
    "serve_hypercorn",
    "serve_stdio",
    "serve_stream",
    "stopped_by_signals",
]

__version__ = "0.1.0"

_LAZY: Final = {
    "EndpointPolicy": "mcp_core.http.endpoint_policy",
    "HostTimeouts": "mcp_server.host.timeouts",
    "run_workers": "mcp_server.runners.workers",
    "serve_http": "mcp_server.runners.http",
    "serve_hypercorn": "mcp_server.runners.hypercorn",
}
"""The modules of names that are imported when a program uses the name."""


def __getattr__(name: str) -> object:
    return lazy_names.import_on_use(__name__, name, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


logging.getLogger("mcp_server").addHandler(logging.NullHandler())
logging.getLogger("mcp_server").addFilter(tracebacks.fold_traceback)
