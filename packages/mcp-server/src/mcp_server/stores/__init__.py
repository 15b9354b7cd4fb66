"""Stores of the data that outlives a connection: sessions of Streamable HTTP, and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_server.lazy_names import import_on_use
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
from mcp_server.stores.tasks import TaskOrder, TaskRecord, TaskStore

if TYPE_CHECKING:
    from mcp_server.stores.sqlite.sessions import SqliteStore
    from mcp_server.stores.sqlite.tasks import SqliteTaskStore

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

_LAZY: Final = {
    "SqliteStore": "mcp_server.stores.sqlite.sessions",
    "SqliteTaskStore": "mcp_server.stores.sqlite.tasks",
}


def __getattr__(name: str) -> object:
    return import_on_use(__name__, name, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
