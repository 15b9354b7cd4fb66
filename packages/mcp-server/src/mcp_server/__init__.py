"""A Model Context Protocol server on trio.

    server = Server("weather", version="1.2")

    @server.tool
    async def forecast(city: str, days: int = 3) -> str: ...

    trio.run(serve_stdio, server)

Register functions on a `Server`, then serve it with `serve_stdio` or `serve_http`.
"""

from __future__ import annotations

from mcp_core.errors import AccessDenied, RequestFailed, ResourceNotFound
from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_server.cache_hint import CacheHint
from mcp_server.connection.sealer import InputPolicy
from mcp_server.errors import NotRunning, OutputBroken, RegistrationError, ToolError
from mcp_server.features.proxy import RemoteServer
from mcp_server.features.results import Audio, File, Image
from mcp_server.features.tasks.client_tasks import request_as_task
from mcp_server.features.tasks.policy import TaskPolicy
from mcp_server.handlers.access import Access, AccessKind, AccessRequest
from mcp_server.handlers.context import Context
from mcp_server.handlers.elicitation import InvalidAnswer
from mcp_server.handlers.input_required import Answer, ClientRequestParams, InputRequired
from mcp_server.handlers.sync_context import SyncContext
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.options import PromptOptions, ResourceOptions, ToolOptions
from mcp_server.runners.http import ServeHttpOptions, serve_http
from mcp_server.runners.hypercorn import serve_hypercorn
from mcp_server.runners.signals import stopped_by_signals
from mcp_server.runners.stdio import serve_stdio, serve_stream
from mcp_server.schema.depends import Depends
from mcp_server.schema.signature import Param
from mcp_server.server import Lifespan, Server
from mcp_server.stores.memory.sessions import MemoryStore
from mcp_server.stores.memory.tasks import MemoryTaskStore
from mcp_server.stores.sessions import (
    PendingNotification,
    SessionRecord,
    SessionStore,
    StoredEvent,
    StoredStream,
    StoreError,
)
from mcp_server.stores.sqlite.sessions import SqliteStore
from mcp_server.stores.sqlite.tasks import SqliteTaskStore
from mcp_server.stores.tasks import TaskOrder, TaskRecord, TaskStore
from mcp_server.transports.http.endpoint import HttpEndpoint

__all__ = [
    "Access",
    "AccessDenied",
    "AccessKind",
    "AccessRequest",
    "Answer",
    "Audio",
    "CacheHint",
    "ClientRequestParams",
    "Context",
    "Depends",
    "ElicitationAccepted",
    "ElicitationCancelled",
    "ElicitationDeclined",
    "EndpointPolicy",
    "File",
    "HostTimeouts",
    "HttpEndpoint",
    "Image",
    "InputPolicy",
    "InputRequired",
    "InvalidAnswer",
    "Lifespan",
    "MemoryStore",
    "MemoryTaskStore",
    "NotRunning",
    "OutputBroken",
    "Param",
    "PendingNotification",
    "PromptOptions",
    "RegistrationError",
    "RemoteServer",
    "RequestFailed",
    "ResourceNotFound",
    "ResourceOptions",
    "ServeHttpOptions",
    "Server",
    "SessionRecord",
    "SessionStore",
    "SqliteStore",
    "SqliteTaskStore",
    "StoreError",
    "StoredEvent",
    "StoredStream",
    "SyncContext",
    "TaskOrder",
    "TaskPolicy",
    "TaskRecord",
    "TaskStore",
    "ToolError",
    "ToolOptions",
    "__version__",
    "request_as_task",
    "serve_http",
    "serve_hypercorn",
    "serve_stdio",
    "serve_stream",
    "stopped_by_signals",
]

__version__ = "0.1.0"
