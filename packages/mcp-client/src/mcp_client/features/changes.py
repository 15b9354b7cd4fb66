"""Change notifications: of `subscriptions/listen` (2026-07-28), or of a session with `resources/subscribe`.

A change states that something is different now, not how often it changed. Each unread change is queued once, so a slow
reader does not lose information. Only the number of resources below a subscribed resource is unbounded. With too many
changes there, or with a URI that is too long, the subscribed resource itself is reported as changed, which includes all
resources below it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.field_methods import FieldValue
from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
)
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types import ResourceUpdatedNotificationParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.limits import Limits
    from mcp_core.methods import NotificationMethod
    from mcp_core.types import SubscriptionFilter

__all__ = ["Change", "ChangeKind", "Changes"]


class ChangeKind(enum.Enum):
    """The kind of a change."""

    TOOLS = "tools"
    """The list of tools."""
    PROMPTS = "prompts"
    """The list of prompts."""
    RESOURCES = "resources"
    """The list of resources, or of their templates."""
    RESOURCE = "resource"
    """The content of one resource."""


@attrs.frozen(eq=False, repr=False)
class Change(FieldValue):
    """One change."""

    kind: ChangeKind
    """The kind of the change."""
    uri: str | None = None
    """The changed resource, for `ChangeKind.RESOURCE`. It may be below the subscribed resource."""


_KINDS: Final[Mapping[NotificationMethod[object], ChangeKind]] = {
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
    """The changes of one subscription: an asynchronous iterator. Created by `Client.listen`.

    The iteration ends when the server ends the subscription. It raises `ConnectionEnded` when the connection is lost.

    Args:
        wanted: The requested notifications.
        limits: `watched_resources` limits the number of unread changes, `uri_chars` the length of their URIs.
    """

    def __init__(self, wanted: SubscriptionFilter, limits: Limits) -> None:
        self.granted: SubscriptionFilter = wanted
        """The notifications that the server agreed to send. They may be fewer than requested."""
        self._wanted: Final = wanted
        self._limits: Final = limits
        self._pending: dict[Change, None] = {}
        self._news = trio.Event()
        self._over = False
        self._error: Exception | None = None

    def __aiter__(self) -> Changes:
        return self

    @allow_asyncio
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
        """Queue the change of a received notification, if it was requested."""
        kind = _KINDS.get(event.definition)
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
        """Report everything subscribed as changed: notifications may have been lost."""
        kinds = [kind for kind, member in _MEMBERS.items() if getattr(self.granted, member)]
        uris = self.granted.resource_subscriptions or ()
        for change in (*(Change(kind) for kind in kinds), *(Change(ChangeKind.RESOURCE, uri) for uri in uris)):
            self._pending[change] = None
        self._news.set()

    @property
    def error(self) -> Exception | None:
        """The error that ended the subscription; `None` if it is open, or if the server ended it.

        An `McpError`, or the exception of a middleware of the client.
        """
        return self._error

    def finish(self, error: Exception | None = None) -> None:
        """End the iteration after the unread changes."""
        if not self._over:
            self._over = True
            self._error = error
            self._news.set()

    def _watched(self, uri: str) -> str | None:
        """Return the watched URI that `uri` is or is below, or `None`."""
        watched = self._wanted.resource_subscriptions or ()
        below = (each for each in watched if uri.startswith(each if each.endswith("/") else each + "/"))
        return uri if uri in watched else next(below, None)
