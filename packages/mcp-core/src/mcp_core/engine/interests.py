"""Who wants to be told of which changes: the subscribe pair and `subscriptions/listen`, in one table (server).

A change is a notification. On a legacy session it is sent once, when the session may have it; on a modern connection
once for each open `subscriptions/listen` whose filter asks for it, tagged with that subscription's id.

Spec: server/resources#subscriptions (legacy), basic/utilities/subscriptions (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.engine.capabilities import undeclared
from mcp_core.errors import LimitExceeded
from mcp_core.methods import notifications
from mcp_core.types import ResourceUpdatedNotificationParams, SubscriptionFilter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from mcp_core.engine.events import ClientPeer
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.methods import NotificationRow
    from mcp_core.types import ServerCapabilities

__all__ = ["Interests", "granted", "watched"]

_NAMED: Final[Mapping[str, str]] = {"resource_subscriptions": "uri", "task_ids": "task_id"}
"""The members of a filter that name single things, and where a notification says which one it is about."""


def granted(
    asked: SubscriptionFilter, at_most: SubscriptionFilter | None, server: ServerCapabilities, client: ClientPeer
) -> SubscriptionFilter:
    """What of a filter is honoured: what was asked for, is offered, and is in `at_most` too, if that is given."""
    wanted: dict[str, bool | tuple[str, ...]] = {}
    for row in notifications(client.revision).values():
        member = row.filter_member
        if member is None or undeclared(row, server, client.capabilities) is not None:
            continue
        value = getattr(asked, member)
        if at_most is not None:
            value = _common(value, getattr(at_most, member))
        if value:
            wanted[member] = value
    return _filter(wanted)


def _filter(members: Mapping[str, bool | tuple[str, ...]]) -> SubscriptionFilter:
    made: SubscriptionFilter = SubscriptionFilter(**members)  # type: ignore[arg-type]  # each member has its own type
    return made


def _common(asked: bool | tuple[str, ...] | None, at_most: bool | tuple[str, ...] | None) -> bool | tuple[str, ...]:  # noqa: FBT001  # values of a member
    if isinstance(asked, tuple) and isinstance(at_most, tuple):
        return tuple(each for each in asked if each in at_most)
    return asked is True and at_most is True


def watched(wanted: SubscriptionFilter) -> int:
    """How many single things a filter watches."""
    return sum(len(getattr(wanted, member) or ()) for member in _NAMED)


@attrs.define(eq=False)
class Interests:
    """What the clients of one connection want to be told."""

    limit: int
    """How many single things may be watched at once on this connection."""
    _subscribed: dict[str, None] = attrs.field(factory=dict)
    _listening: dict[RequestId, Mapping[str, Collection[str] | bool]] = attrs.field(factory=dict)
    _watched: dict[RequestId, int] = attrs.field(factory=dict)

    def subscribe(self, uri: str) -> None:
        """A legacy session watches `uri`. Raises `LimitExceeded`."""
        self.check_subscribe(uri)
        self._subscribed[uri] = None

    def unsubscribe(self, uri: str) -> None:
        """It no longer does."""
        self._subscribed.pop(uri, None)

    def listen(self, id: RequestId, wanted: SubscriptionFilter) -> None:
        """A subscription begins. Raises `LimitExceeded`."""
        self.check_listen(wanted)
        self._watched[id] = watched(wanted)
        self._listening[id] = {
            attribute.name: frozenset(value) if isinstance(value, tuple) else value
            for attribute in wanted.__fields__
            if isinstance(value := getattr(wanted, attribute.name), (tuple, bool))
        }

    def end(self, id: RequestId) -> None:
        """A subscription ends; unknown ids are none."""
        self._listening.pop(id, None)
        self._watched.pop(id, None)

    @property
    def subscribed(self) -> tuple[str, ...]:
        """What the legacy session watches, in the order in which it subscribed."""
        return tuple(self._subscribed)

    @property
    def listening(self) -> tuple[RequestId, ...]:
        """The ids of the open subscriptions, in the order in which they began."""
        return tuple(self._listening)

    def session_wants(self, params: object) -> bool:
        """Whether a legacy session is told of this change: of lists always, of resources that it subscribed to."""
        return not isinstance(params, ResourceUpdatedNotificationParams) or _covers(self._subscribed, params.uri)

    def listeners(self, row: NotificationRow[object], params: object) -> Iterator[RequestId]:
        """The subscriptions that are told of this change."""
        member = row.filter_member or ""
        named = _NAMED.get(member)
        for id, wanted in self._listening.items():
            value = wanted.get(member, False)
            if isinstance(value, bool):
                if value:
                    yield id
            elif named is not None and _covers(value, getattr(params, named)):
                yield id

    def check_subscribe(self, uri: str) -> None:
        """Raises `LimitExceeded` when there is no room to watch `uri`; what is watched already needs none."""
        self._check(0 if uri in self._subscribed else 1)

    def check_listen(self, wanted: SubscriptionFilter) -> None:
        """Raises `LimitExceeded` when there is no room to watch all that a filter names."""
        self._check(watched(wanted))

    def _check(self, more: int) -> None:
        observed = len(self._subscribed) + sum(self._watched.values()) + more
        if more and observed > self.limit:
            raise LimitExceeded(
                "watched resources of a connection",
                observed=observed,
                allowed=self.limit,
                setting="Limits.watched_resources",
            )


def _covers(watched: Collection[str], uri: str) -> bool:
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
