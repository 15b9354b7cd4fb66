"""Being told of changes: `subscriptions/listen` (2026-07-28), or `resources/subscribe` and the notices of a session.

A change says that something is different now, not how often it became so: changes that were not taken yet are kept once
each, and a slow reader loses nothing that matters. Only what lies below a watched resource has no end: with too many
changes there, or URIs that are too long, the watched resource itself counts as changed, with all that is below it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
)
from mcp_core.types import ResourceUpdatedNotificationParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.errors import McpError
    from mcp_core.limits import Limits
    from mcp_core.methods import NotificationRow
    from mcp_core.types import SubscriptionFilter

__all__ = ["Change", "ChangeKind", "Changes"]


class ChangeKind(enum.Enum):
    """What changed."""

    TOOLS = "tools"
    """The list of tools."""
    PROMPTS = "prompts"
    """The list of prompts."""
    RESOURCES = "resources"
    """The list of resources, or of their templates."""
    RESOURCE = "resource"
    """The content of one resource."""


@attrs.frozen
class Change:
    """One change."""

    kind: ChangeKind
    """What changed."""
    uri: str | None = None
    """Which resource, for `ChangeKind.RESOURCE`; it may lie below the one that is watched."""


_KINDS: Final[Mapping[NotificationRow[object], ChangeKind]] = {
    NOTIFICATIONS_TOOLS_LIST_CHANGED: ChangeKind.TOOLS,
    NOTIFICATIONS_PROMPTS_LIST_CHANGED: ChangeKind.PROMPTS,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED: ChangeKind.RESOURCES,
    NOTIFICATIONS_RESOURCES_UPDATED: ChangeKind.RESOURCE,
}

_MEMBERS: Final[Mapping[ChangeKind, str]] = {
    ChangeKind.TOOLS: "tools_list_changed",
    ChangeKind.PROMPTS: "prompts_list_changed",
    ChangeKind.RESOURCES: "resources_list_changed",
}


class Changes:
    """What changed, as it happens: an asynchronous iterator. Made by `Client.listen`.

    It ends when the server ends the subscription; it raises `ConnectionEnded` when the connection is lost.

    Args:
        wanted: What is watched.
        limits: `watched_resources` bounds the changes below the watched resources that wait, `uri_chars` their URIs.
    """

    def __init__(self, wanted: SubscriptionFilter, limits: Limits) -> None:
        self.granted: SubscriptionFilter = wanted
        """What the server promised to tell. It may be less than what was asked for."""
        self._wanted: Final = wanted
        self._limits: Final = limits
        self._pending: dict[Change, None] = {}
        self._news = trio.Event()
        self._over = False
        self._error: McpError | None = None

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        while not self._pending:
            if self._error is not None:
                raise self._error
            if self._over:
                raise StopAsyncIteration
            if self._news.is_set():
                self._news = trio.Event()
            await self._news.wait()
        change = next(iter(self._pending))
        del self._pending[change]
        return change

    def take(self, event: NotificationReceived) -> None:
        """A notification came; it is kept if it is a change that is wanted here."""
        kind = _KINDS.get(event.row)
        if kind is None:
            return
        uri = event.params.uri if isinstance(event.params, ResourceUpdatedNotificationParams) else None
        if uri is None and getattr(self._wanted, _MEMBERS.get(kind, ""), False) is not True:
            return
        if uri is not None:
            watched = self._watched(uri)
            if watched is None:
                return
            if len(self._pending) >= self._limits.watched_resources or len(uri) > self._limits.uri_chars:
                uri = watched
        self._pending[Change(kind, uri)] = None
        self._news.set()

    def anything(self) -> None:
        """All that is watched may have changed: what happened meanwhile was not told."""
        kinds = [kind for kind, member in _MEMBERS.items() if getattr(self.granted, member)]
        uris = self.granted.resource_subscriptions or ()
        for change in (*(Change(kind) for kind in kinds), *(Change(ChangeKind.RESOURCE, uri) for uri in uris)):
            self._pending[change] = None
        self._news.set()

    @property
    def error(self) -> McpError | None:
        """Why no more changes come, when it is not the server's decision."""
        return self._error

    def finish(self, error: McpError | None = None) -> None:
        """No more changes come. What was not taken yet can still be."""
        if not self._over:
            self._over = True
            self._error = error
            self._news.set()

    def _watched(self, uri: str) -> str | None:
        """Return the watched URI that `uri` is or lies below, or `None`."""
        watched = self._wanted.resource_subscriptions or ()
        below = (each for each in watched if uri.startswith(each if each.endswith("/") else each + "/"))
        return uri if uri in watched else next(below, None)
