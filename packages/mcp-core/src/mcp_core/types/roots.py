"""Roots: the folders in which a client allows a server to work. Spec: client/roots"""

from __future__ import annotations

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_11_25
from mcp_core.types.base import META_SINCE, NotificationParams, Open
from mcp_core.types.wire_object import field, wire

__all__ = ["ListRootsRequestParams", "ListRootsResult", "Root", "RootsListChangedNotificationParams"]


@wire()
class Root(Open):
    """A folder. Spec: client/roots#root"""

    uri: str
    """A `file:` URI."""
    name: str | None = None
    """The display name."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire()
class ListRootsRequestParams(Open):
    """The parameters of `roots/list`. Spec: client/roots#listing-roots"""

    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire(when=("roots",))
class ListRootsResult(Open):
    """The result of `roots/list`. Spec: client/roots#listing-roots"""

    roots: tuple[Root, ...]
    """The folders."""
    meta: JsonObject | None = field(default=None, name="_meta", until=R2025_11_25)
    """Metadata."""


@wire(until=R2025_11_25)
class RootsListChangedNotificationParams(NotificationParams):
    """The parameters of `notifications/roots/list_changed`. Spec: client/roots#root-list-changes"""
