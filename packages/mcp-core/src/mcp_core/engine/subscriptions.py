"""Subscriptions of clients to change notifications: `resources/subscribe` and `subscriptions/listen` (server).

A legacy session receives each change notification once, if its state and subscriptions allow it. A modern connection
receives it once for each open `subscriptions/listen` with a matching filter, tagged with the id of that subscription.

Spec: server/resources#subscriptions (legacy), basic/utilities/subscriptions (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

from mcp_core.engine.capabilities import undeclared
from mcp_core.errors import LimitExceeded
from mcp_core.field_methods import FieldRepr
from mcp_core.methods import notifications
from mcp_core.types import ResourceUpdatedNotificationParams, SubscriptionFilter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from mcp_core.engine.events import ClientPeer
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits import Limits
    from mcp_core.methods import NotificationMethod
    from mcp_core.types import ServerCapabilities

__all__ = [
    "IN_SESSION",
    "NAMED",
    "SubscriptionObserver",
    "SubscriptionRegistry",
    "covering",
    "covering_in",
    "covers",
    "granted",
    "subscription_bytes",
    "watched",
]

_SUBSCRIPTION_BYTES: Final = 1_024
"""Estimated memory of a subscription without its URI, in bytes: the entries of the registry and of the index, and a
notification that awaits a stream."""

_RESOURCES: Final = "resource_subscriptions"

_WIDEST_CHARACTER: Final = 4
"""Maximum size of a character in the memory of CPython, in bytes."""

NAMED: Final[Mapping[str, str]] = {"resource_subscriptions": "uri", "task_ids": "task_id"}
"""Filter members that list single items, and the member of the notification that identifies the item."""

IN_SESSION: Final = "session"
"""The member of which an observer is informed for a legacy session, which receives changes of all lists. It is not a member of
the filter."""


def granted(
    requested: SubscriptionFilter, at_most: SubscriptionFilter | None, server: ServerCapabilities, client: ClientPeer
) -> SubscriptionFilter:
    """Return the granted part of a filter: requested, offered, and within `at_most` if that is given."""
    wanted: dict[str, bool | tuple[str, ...]] = {}
    for definition in notifications(client.revision).values():
        member = definition.filter_member
        if member is None or undeclared(definition, server, client.capabilities) is not None:
            continue
        value = getattr(requested, member)
        if at_most is not None:
            value = _common(value, getattr(at_most, member))
        if value:
            wanted[member] = value
    return _filter(wanted)


def _filter(members: Mapping[str, bool | tuple[str, ...]]) -> SubscriptionFilter:
    made: SubscriptionFilter = SubscriptionFilter(**members)  # type: ignore[arg-type]  # each member has its own type
    return made


def _common(requested: bool | tuple[str, ...] | None, at_most: bool | tuple[str, ...] | None) -> bool | tuple[str, ...]:  # noqa: FBT001  # values of a member
    if isinstance(requested, tuple) and isinstance(at_most, tuple):
        allowed = frozenset(at_most)
        return tuple(each for each in requested if each in allowed)
    return requested is True and at_most is True


def subscription_bytes(uri: str) -> int:
    """Return the estimated memory of a subscription to `uri`, in bytes."""
    return _SUBSCRIPTION_BYTES + _WIDEST_CHARACTER * len(uri)


def watched(wanted: SubscriptionFilter) -> int:
    """Return the number of single items that a filter lists."""
    return sum(len(getattr(wanted, member) or ()) for member in NAMED)


class SubscriptionObserver(Protocol):
    """An observer of the subscriptions of one connection, such as an entry of a `SubscriptionIndex`."""

    def started(self, member: str, item: str = "", /) -> None:
        """Note the start of a subscription.

        Args:
            member: The member of `SubscriptionFilter`, or `IN_SESSION`.
            item: The URI of the resource or the id of the task; empty for a list.
        """

    def ended(self, member: str, item: str = "", /) -> None:
        """Note the end of a subscription. The arguments are those of its start."""


@attrs.define(eq=False, repr=False)
class SubscriptionRegistry(FieldRepr):
    """The subscriptions of one connection: `resources/subscribe` and `subscriptions/listen`."""

    limits: Limits
    """The limits; `watched_resources` and `uri_chars` apply here."""
    _subscribed: dict[str, None] = attrs.field(factory=dict)
    _chars: int = 0
    _listening: dict[RequestId, Mapping[str, Collection[str] | bool]] = attrs.field(factory=dict)
    _watched: dict[RequestId, int] = attrs.field(factory=dict)
    _in_session: bool = False
    _observer: SubscriptionObserver | None = None

    def observe(self, observer: SubscriptionObserver | None) -> None:
        """Inform an observer of the present and future subscriptions. An earlier observer is informed of their end."""
        items = tuple(self._items())
        if self._observer is not None:
            for member, item in items:
                self._observer.ended(member, item)
        self._observer = observer
        if observer is not None:
            for member, item in items:
                observer.started(member, item)

    def _items(self) -> Iterator[tuple[str, str]]:
        """Yield the member and the item of each subscription."""
        if self._in_session:
            yield IN_SESSION, ""
        for uri in self._subscribed:
            yield _RESOURCES, uri
        for wanted in self._listening.values():
            yield from _items_of(wanted)

    def open_session(self) -> None:
        """Note that there is a legacy session, which receives changes of all lists without a subscription."""
        if not self._in_session:
            self._in_session = True
            if self._observer is not None:
                self._observer.started(IN_SESSION)

    def subscribe(self, uri: str) -> None:
        """Add a subscription of the legacy session to `uri`. Raises `LimitExceeded`."""
        self.check_subscribe(uri)
        if uri not in self._subscribed:
            self._subscribed[uri] = None
            self._chars += len(uri)
            if self._observer is not None:
                self._observer.started(_RESOURCES, uri)

    def unsubscribe(self, uri: str) -> None:
        """Remove the subscription; an unknown URI is ignored."""
        if uri in self._subscribed:
            del self._subscribed[uri]
            self._chars -= len(uri)
            if self._observer is not None:
                self._observer.ended(_RESOURCES, uri)

    def unsubscribe_all(self) -> None:
        """Remove all subscriptions of the legacy session."""
        for uri in tuple(self._subscribed):
            self.unsubscribe(uri)

    def listen(self, id: RequestId, wanted: SubscriptionFilter) -> None:
        """Add a `subscriptions/listen` subscription. Raises `LimitExceeded`."""
        self.check_listen(wanted)
        self.end(id)
        self._watched[id] = watched(wanted)
        self._listening[id] = members = {
            attribute.name: frozenset(value) if isinstance(value, tuple) else value
            for attribute in wanted.__fields__
            if isinstance(value := getattr(wanted, attribute.name), (tuple, bool))
        }
        if self._observer is not None:
            for member, item in _items_of(members):
                self._observer.started(member, item)

    def end(self, id: RequestId) -> None:
        """Remove a `subscriptions/listen` subscription; an unknown id is ignored."""
        members = self._listening.pop(id, {})
        self._watched.pop(id, None)
        if self._observer is not None:
            for member, item in _items_of(members):
                self._observer.ended(member, item)

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The URIs that the legacy session subscribed to, in order of subscription."""
        return tuple(self._subscribed)

    @property
    def listened(self) -> frozenset[str]:
        """The URIs of the resources of all subscriptions."""
        found = set(self._subscribed)
        for wanted in self._listening.values():
            named = wanted.get(_RESOURCES, ())
            if not isinstance(named, bool):
                found.update(named)
        return frozenset(found)

    @property
    def subscribed_bytes(self) -> int:
        """The estimated memory of the legacy session's subscriptions, in bytes."""
        return len(self._subscribed) * _SUBSCRIPTION_BYTES + _WIDEST_CHARACTER * self._chars

    @property
    def listening(self) -> tuple[RequestId, ...]:
        """The ids of the open `subscriptions/listen` subscriptions, in order of their start."""
        return tuple(self._listening)

    def session_wants(self, params: object) -> bool:
        """Return whether to notify a legacy session of a change: of lists always, of resources if it subscribed."""
        return not isinstance(params, ResourceUpdatedNotificationParams) or covers(self._subscribed, params.uri)

    def listeners(self, definition: NotificationMethod[object], params: object) -> Iterator[RequestId]:
        """Yield the ids of the subscriptions to notify of a change."""
        member = definition.filter_member or ""
        named = NAMED.get(member)
        for id, wanted in self._listening.items():
            value = wanted.get(member, False)
            if isinstance(value, bool):
                if value:
                    yield id
            elif named is not None and covers(value, getattr(params, named)):
                yield id

    def watched_above(self, uri: str) -> str | None:
        """Return a subscribed URI that covers `uri`: `uri` itself or a parent; or `None`."""
        sets = [self._subscribed, *(wanted.get(_RESOURCES, ()) for wanted in self._listening.values())]
        for each in sets:
            if isinstance(each, bool):
                continue
            above = uri if uri in each else _above(each, uri)
            if above is not None:
                return above
        return None

    def check_subscribe(self, uri: str) -> None:
        """Check the limits for a subscription to `uri`. Raises `LimitExceeded` unless `uri` is subscribed already."""
        self._check(() if uri in self._subscribed else (uri,))

    def check_listen(self, wanted: SubscriptionFilter) -> None:
        """Check the limits for all items that a filter lists. Raises `LimitExceeded`."""
        self._check([name for member in NAMED for name in getattr(wanted, member) or ()])

    def _check(self, more: Sequence[str]) -> None:
        longest = max(map(len, more), default=0)
        if longest > self.limits.uri_chars:
            raise LimitExceeded(
                "the URI of a subscription, in characters",
                observed=longest,
                allowed=self.limits.uri_chars,
                setting="Limits.uri_chars",
            )
        observed = len(self._subscribed) + sum(self._watched.values()) + len(more)
        if more and observed > self.limits.watched_resources:
            raise LimitExceeded(
                "subscribed resources of a connection",
                observed=observed,
                allowed=self.limits.watched_resources,
                setting="Limits.watched_resources",
            )


def _items_of(members: Mapping[str, Collection[str] | bool]) -> Iterator[tuple[str, str]]:
    """Yield the member and the item of each subscription of a filter."""
    for member, value in members.items():
        if not isinstance(value, bool):
            for item in value:
                yield member, item
        elif value:
            yield member, ""


def covers(watched: Collection[str], uri: str) -> bool:
    """Return whether a change of `uri` concerns a client with these subscriptions."""
    return uri in watched or _above(watched, uri) is not None


def _above(watched: Collection[str], uri: str) -> str | None:
    """Return a subscribed URI that covers `uri`, or `None`."""
    return next(covering_in(watched, uri), None)


def covering_in(watched: Collection[str], uri: str) -> Iterator[str]:
    """Yield the subscribed URIs that cover `uri`: itself and its parents."""
    if uri.count("/") > len(watched):
        # Each path separator costs a copy of its prefix: a URI full of slashes would take quadratic time.
        for each in watched:
            if each == uri or (each and uri.startswith(each) and (each.endswith("/") or uri[len(each)] == "/")):
                yield each
    else:
        yield from (each for each in covering(uri) if each in watched)


def covering(uri: str) -> Iterator[str]:
    """Yield the URIs whose subscribers are notified of a change of `uri`.

    They are `uri` and its parents: the changed resource "may be a sub-resource" of the subscribed one.

    The time is quadratic in the number of slashes of the URI.

    Args:
        uri: The URI of a resource.
    """
    yield uri
    at = uri.rfind("/")
    while at > 0:
        yield uri[:at]
        yield uri[: at + 1]
        at = uri.rfind("/", 0, at)
