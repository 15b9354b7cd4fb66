"""The change notifications of a raw server: by subscriptions in the modern revision, by sessions in the others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from mutants.server.protocol import META, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Fault, InboundRequest
    from mutants.server.session import Session

__all__ = ["Subscription", "SubscriptionRegistry", "subscribe"]

_MEMBERS: Final = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class Subscription:
    """A subscription.

    Args:
        id: The id of its request.
        wanted: Its filter.
        send: Sends a message to the client.
        session: Its session.
    """

    def __init__(self, id: JsonValue, wanted: JsonObject, send: Callable[[JsonValue], None], session: Session) -> None:
        self.session: Final = session
        self.id: Final = id
        self.wanted = wanted
        self.send: Final = send
        self.changes: Final[Counter[str]] = Counter()

    def tag(self) -> JsonObject:
        """Return the members that each of its messages has in `_meta`."""
        return {f"{META}subscriptionId": self.id}


class SubscriptionRegistry:
    """The subscriptions of a server.

    Args:
        fault: The fault of the server.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault: Final = fault
        self._all: Final[list[Subscription]] = []

    def open(self, inbound: InboundRequest, declared: JsonObject, tasks: list[JsonValue]) -> None:
        """Open a subscription, and acknowledge the part that the server declares, with those of the tasks that it reports."""
        wanted = inbound.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(-32602, "notifications is missing", status=400)
        subscription = Subscription(inbound.request["id"], wanted, inbound.send, inbound.session)
        granted = {name: value for name, value in wanted.items() if value not in (False, None) and _has(declared, name)}
        if "taskIds" in granted:
            granted["taskIds"] = tasks
        params: JsonObject = {
            "_meta": subscription.tag(),
            "notifications": self._fault.acknowledged(wanted, dict(granted)),
        }
        message: JsonObject = {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": params,
        }
        subscription.wanted = self._fault.filtered(inbound.session.user, subscription.id, wanted)
        for other in self._found("open", inbound.session, subscription.id):
            self._all.remove(other)
        self._all.append(subscription)
        for each in self._fault.opening(message):
            subscription.send(each)

    def _found(self, event: str, session: Session, id: JsonValue) -> list[Subscription]:
        """Return the subscriptions with this id that belong to a session."""
        return [
            each for each in self._all if each.id == id and self._fault.same_client(event, same=each.session is session)
        ]

    def close(self, session: Session, id: JsonValue) -> bool:
        """Remove a subscription without a message, and return whether there was one."""
        found = self._found("cancel", session, id)
        for each in found:
            each.wanted = self._fault.after_end(each.wanted)
            if not each.wanted:
                self._all.remove(each)
            self._end_others(each)
        return bool(found)

    def hung_up(self, session: Session) -> None:
        """Remove a subscription whose stream has ended."""
        for id in [each.id for each in self._all if each.session is session]:
            for each in self._found("disconnect", session, id):
                self._all.remove(each)
                self._end_others(each)

    def _end_others(self, ended: Subscription) -> None:
        """Change the other subscriptions of a user when one has ended: a correct server does not."""
        for each in [each for each in self._all if each is not ended and each.session.user == ended.session.user]:
            each.wanted = self._fault.after_end_of_another(ended.id, each.id, each.wanted)

    def end(self) -> bool:
        """End all subscriptions, and return whether there were any: the server stops."""
        found = bool(self._all)
        for each in self._all:
            result: JsonObject = {"resultType": "complete", "_meta": {**each.tag(), f"{META}serverInfo": _INFO}}
            cancelled: JsonObject = {"requestId": each.id}
            for message in self._fault.ending(
                [
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled},
                    {"jsonrpc": "2.0", "id": each.id, "result": result},
                ]
            ):
                each.send(message)
        self._all.clear()
        return found

    def changed(self, inbound: InboundRequest, kind: str) -> None:
        """Notify about a changed list."""
        method = f"notifications/{kind}/list_changed"
        if not inbound.modern:
            self._send_legacy(inbound, {"jsonrpc": "2.0", "method": method})
            return
        for each in list(self._all):
            if self._fault.wanted(method, wanted=each.wanted.get(_MEMBERS[kind]) is True):
                self._notify(each, method, {})

    def touched(self, inbound: InboundRequest, uri: str) -> None:
        """Notify about a changed resource."""
        method = "notifications/resources/updated"
        if not inbound.modern:
            if self._fault.wanted(method, wanted=self._fault.watches([*inbound.session.subscribed], uri)):
                self._send_legacy(inbound, {"jsonrpc": "2.0", "method": method, "params": {"uri": uri}})
            return
        for each in list(self._all):
            watched = each.wanted.get("resourceSubscriptions")
            uris = self._fault.watched_uris(watched) if isinstance(watched, list) else None
            if self._fault.wanted(method, wanted=self._fault.watches(uris, uri)):
                self._notify(each, method, {"uri": uri})

    def notify_of_task(self, task: str, shown: JsonObject) -> None:
        """Notify about a task."""
        for each in list(self._all):
            tasks = each.wanted.get("taskIds")
            if isinstance(tasks, list) and task in tasks:
                self._notify(each, "notifications/tasks", shown)

    def _send_legacy(self, inbound: InboundRequest, message: JsonObject) -> None:
        notification = self._fault.change_notification(message)
        if notification is None:
            return
        if not inbound.session.announce(notification) or not self._fault.keeps("change-once"):
            inbound.send(notification)

    def _notify(self, subscription: Subscription, method: str, params: JsonObject) -> None:
        notification = self._fault.change_notification(
            {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": subscription.tag()}}
        )
        subscription.changes[method] += 1
        if notification is not None and self._fault.announces(subscription.changes[method]):
            subscription.send(notification)


def _has(declared: JsonObject, member: str) -> bool:
    if member == "taskIds":
        return "extensions" in declared
    flags = {name: (kind, "listChanged") for kind, name in _MEMBERS.items()}
    flags["resourceSubscriptions"] = ("resources", "subscribe")
    if member not in flags:
        return False
    kind, flag = flags[member]
    own = declared.get(kind)
    return isinstance(own, dict) and bool(own.get(flag))


_INFO: Final[JsonObject] = {"name": "raw", "version": "1.0"}


def subscribe(session: Session, method: str, uri: str) -> None:
    """Record a `resources/subscribe` or `resources/unsubscribe` of a session."""
    if method == "resources/subscribe":
        session.subscribed.add(uri)
    else:
        session.subscribed.discard(uri)
