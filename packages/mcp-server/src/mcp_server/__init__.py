"""A Model Context Protocol server on trio.

    server = Server("weather", version="1.2")

    @server.tool
    async def forecast(city: str, days: int = 3) -> str: ...

    trio.run(serve_stdio, server)

Functions are registered on a `Server`, which `serve_stdio` or `serve_http` then serves.
"""

from __future__ import annotations

from mcp_core.errors import AccessDenied, RequestFailed, ResourceNotFound
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_server._access import Access, AccessKind, AccessRequest
from mcp_server._asked_tasks import ask_as_task
from mcp_server._cache_hint import CacheHint
from mcp_server._context import Context
from mcp_server._depends import Depends
from mcp_server._elicited import Accepted, Declined, Dismissed, InvalidAnswer
from mcp_server._errors import NotRunning, OutputBroken, RegistrationError, ToolError
from mcp_server._host_timeouts import HostTimeouts
from mcp_server._http_endpoint import HttpEndpoint
from mcp_server._input_required import Answer, InputRequired, Question
from mcp_server._lifespan import Lifespan
from mcp_server._mount_remote import RemoteServer
from mcp_server._options import PromptOptions, ResourceOptions, ToolOptions
from mcp_server._results import Audio, File, Image
from mcp_server._seal import InputPolicy
from mcp_server._serve import serve_stdio, serve_stream
from mcp_server._serve_http import HttpOptions, serve_http
from mcp_server._serve_hypercorn import serve_hypercorn
from mcp_server._server import Server
from mcp_server._signals import stopped_by_signals
from mcp_server._signature import Param
from mcp_server._store_memory import MemoryStore
from mcp_server._store_sqlite import SqliteStore
from mcp_server._stores import (
    PendingNotification,
    SessionRecord,
    SessionStore,
    StoredEvent,
    StoredStream,
    StoreError,
)
from mcp_server._task_policy import TaskPolicy
from mcp_server._task_store_memory import MemoryTaskStore
from mcp_server._task_store_sqlite import SqliteTaskStore
from mcp_server._task_stores import TaskPlace, TaskRecord, TaskStore

__all__ = [
    "Accepted",
    "Access",
    "AccessDenied",
    "AccessKind",
    "AccessRequest",
    "Answer",
    "Audio",
    "CacheHint",
    "Context",
    "Declined",
    "Depends",
    "Dismissed",
    "EndpointPolicy",
    "File",
    "HostTimeouts",
    "HttpEndpoint",
    "HttpOptions",
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
    "Question",
    "RegistrationError",
    "RemoteServer",
    "RequestFailed",
    "ResourceNotFound",
    "ResourceOptions",
    "Server",
    "SessionRecord",
    "SessionStore",
    "SqliteStore",
    "SqliteTaskStore",
    "StoreError",
    "StoredEvent",
    "StoredStream",
    "TaskPlace",
    "TaskPolicy",
    "TaskRecord",
    "TaskStore",
    "ToolError",
    "ToolOptions",
    "__version__",
    "ask_as_task",
    "serve_http",
    "serve_hypercorn",
    "serve_stdio",
    "serve_stream",
    "stopped_by_signals",
]

__version__ = "0.1.0"
