"""An index of the subscriptions of many clients: which of them to notify of a change (server).

A server can have thousands of open streams and sessions. To offer each change to each of them would cost as much for a change
without subscribers as for one that concerns all. The index finds the subscribers of a change by its notification, and
by the URI or task that it names. The cost depends on the number of subscribers found, and on the length of the URI.

*Theory of operation.* Each client has a `SubscriptionRegistry`, the only owner of its subscriptions. The registry informs its
observer, an entry of this index, of each subscription that starts or ends, so the index never differs from the registries. A
client may have several subscriptions to the same item, so the entries are counted.

*Bounds.* There is one entry for each subscribed item of a client, of which `Limits.watched_resources` limits the number, and
one for each list that it watches. The memory is a part of `subscription_bytes`. An item without subscribers has no entry.

Spec: server/resources#subscriptions (legacy), basic/utilities/subscriptions (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import attrs

from mcp_core.engine.subscriptions import IN_SESSION, NAMED, covering_in
from mcp_core.field_methods import FieldRepr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_core.engine.subscriptions import SubscriptionRegistry
    from mcp_core.methods import NotificationMethod

__all__ = ["Subscriber", "SubscriptionIndex"]


class Subscriber(Protocol):
    """A client with subscriptions."""

    @property
    def subscription_registry(self) -> SubscriptionRegistry:
        """The subscriptions of the client."""


S = TypeVar("S", bound=Subscriber)

_RESOURCES: Final = "resource_subscriptions"


class SubscriptionIndex(Generic[S]):
    """The subscribers of a server, by what they are subscribed to. It is also their collection, in order of addition."""

    __slots__ = ("_entries", "_wanted")

    def __init__(self) -> None:
        self._entries: Final[dict[S, _Entry[S]]] = {}
        # By the member of the filter, then by the item (empty for a list), with the number of subscriptions.
        self._wanted: Final[dict[str, dict[str, dict[S, int]]]] = {}

    def __contains__(self, subscriber: object) -> bool:
        """Return whether a subscriber was added."""
        return subscriber in self._entries

    def __iter__(self) -> Iterator[S]:
        """Iterate over the subscribers, in order of addition."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of subscribers."""
        return len(self._entries)

    def add(self, subscriber: S) -> None:
        """Add a subscriber with its present and future subscriptions. A known subscriber is ignored."""
        if subscriber not in self._entries:
            self._entries[subscriber] = entry = _Entry(subscriber, self._wanted)
            subscriber.subscription_registry.observe(entry)

    def remove(self, subscriber: S) -> None:
        """Remove a subscriber; an unknown one is ignored."""
        if self._entries.pop(subscriber, None) is not None:
            subscriber.subscription_registry.observe(None)

    def interested(self, definition: NotificationMethod[object], params: object) -> tuple[S, ...]:
        """Return the subscribers to notify of a change, each once.

        A legacy session is included for each change of a list, also before it is open.

        Args:
            definition: The notification.
            params: Its parameters.
        """
        member = definition.filter_member
        if member is None:
            return ()
        items = self._wanted.get(member, {})
        name = NAMED.get(member)
        if name is None:
            return _merged([items.get("", {}), self._wanted.get(IN_SESSION, {}).get("", {})])
        item: str = getattr(params, name)
        if member != _RESOURCES:
            return tuple(items.get(item, ()))
        return _merged([items[each] for each in covering_in(items, item)])


def _merged(groups: Iterable[dict[S, int]]) -> tuple[S, ...]:
    several = [group for group in groups if group]
    if len(several) == 1:
        return tuple(several[0])
    return tuple({subscriber: None for group in several for subscriber in group})


@attrs.define(eq=False, repr=False)
class _Entry(FieldRepr, Generic[S]):
    """The observer of one subscriber's registry."""

    _subscriber: S
    _wanted: dict[str, dict[str, dict[S, int]]]

    def started(self, member: str, item: str = "") -> None:
        """Count a subscription."""
        subscribers = self._wanted.setdefault(member, {}).setdefault(item, {})
        subscribers[self._subscriber] = subscribers.get(self._subscriber, 0) + 1

    def ended(self, member: str, item: str = "") -> None:
        """Remove a subscription."""
        items = self._wanted[member]
        subscribers = items[item]
        subscribers[self._subscriber] -= 1
        if not subscribers[self._subscriber]:
            del subscribers[self._subscriber]
            if not subscribers:
                del items[item]
