"""Stores of the data that outlives a connection: sessions of Streamable HTTP, and tasks."""

from __future__ import annotations

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

__all__ = [
    "MemoryStore",
    "MemoryTaskStore",
    "PendingNotification",
    "SessionRecord",
    "SessionStore",
    "SqliteStore",
    "SqliteTaskStore",
    "StoreError",
    "StoredEvent",
    "StoredStream",
    "TaskOrder",
    "TaskRecord",
    "TaskStore",
]
