"""Who wants to be told of which changes: the subscribe pair and `subscriptions/listen`, in one table (server).

A change is a notification. On a legacy session it is sent once, when the session may have it; on a modern connection
once for each open `subscriptions/listen` whose filter asks for it, tagged with that subscription's id.

Spec: server/resources#subscriptions (legacy), basic/utilities/subscriptions (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.engine.capabilities import declared
from mcp_core.errors import LimitExceeded
from mcp_core.methods import notifications
from mcp_core.types import ResourceUpdatedNotificationParams, SubscriptionFilter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.methods import CapabilityPath, NotificationRow
    from mcp_core.revisions import Revision
    from mcp_core.types import ServerCapabilities

__all__ = ["Interests", "granted"]

_SUBSCRIBE: Final[CapabilityPath] = ("resources", "subscribe")


def granted(asked: SubscriptionFilter, revision: Revision, capabilities: ServerCapabilities) -> SubscriptionFilter:
    """What of a filter a server with these capabilities can honour. Spec: acknowledgment."""
    wanted: dict[str, bool] = {}
    for row in notifications(revision).values():
        member = row.filter_member
        if member is None or getattr(asked, member) is not True:
            continue
        if row.server_capability is None or declared(capabilities, row.server_capability):
            wanted[member] = True
    uris = asked.resource_subscriptions if declared(capabilities, _SUBSCRIBE) else None
    return SubscriptionFilter(resource_subscriptions=uris, **wanted)


@attrs.define(eq=False)
class Interests:
    """What the clients of one connection want to be told."""

    limit: int
    """How many resources may be watched at once on this connection."""
    _subscribed: dict[str, None] = attrs.field(factory=dict)
    _listening: dict[RequestId, SubscriptionFilter] = attrs.field(factory=dict)

    def subscribe(self, uri: str) -> None:
        """A legacy session watches `uri`. Raises `LimitExceeded`."""
        if uri not in self._subscribed:
            self.check(1)
        self._subscribed[uri] = None

    def unsubscribe(self, uri: str) -> None:
        """It no longer does."""
        self._subscribed.pop(uri, None)

    def listen(self, id: RequestId, wanted: SubscriptionFilter) -> None:
        """A subscription begins. Raises `LimitExceeded`."""
        self.check(len(wanted.resource_subscriptions or ()))
        self._listening[id] = wanted

    def end(self, id: RequestId) -> None:
        """A subscription ends; unknown ids are none."""
        self._listening.pop(id, None)

    @property
    def listening(self) -> tuple[RequestId, ...]:
        """The ids of the open subscriptions, in the order in which they began."""
        return tuple(self._listening)

    def session_wants(self, params: object) -> bool:
        """Whether a legacy session is told of this change: of lists always, of resources that it subscribed to."""
        return not isinstance(params, ResourceUpdatedNotificationParams) or _covers(self._subscribed, params.uri)

    def listeners(self, row: NotificationRow[object], params: object) -> Iterator[RequestId]:
        """The subscriptions that are told of this change."""
        for id, wanted in self._listening.items():
            if isinstance(params, ResourceUpdatedNotificationParams):
                if _covers(wanted.resource_subscriptions or (), params.uri):
                    yield id
            elif row.filter_member is not None and getattr(wanted, row.filter_member) is True:
                yield id

    def check(self, more: int) -> None:
        """Raises `LimitExceeded` when there is no room to watch so many more."""
        watched = len(self._subscribed) + sum(len(f.resource_subscriptions or ()) for f in self._listening.values())
        if watched + more > self.limit:
            raise LimitExceeded(
                "watched resources of a connection",
                observed=watched + more,
                allowed=self.limit,
                setting="Limits.watched_resources",
            )


def _covers(watched: Mapping[str, None] | tuple[str, ...], uri: str) -> bool:
    """Whether `uri` is watched, or lies below a URI that is ("may be a sub-resource")."""
    if uri in watched:
        return True
    # Each border is looked up once: linear in the URI, not in the number of watched ones.
    at = uri.rfind("/")
    while at > 0:
        if uri[:at] in watched or uri[: at + 1] in watched:
            return True
        at = uri.rfind("/", 0, at)
    return False
