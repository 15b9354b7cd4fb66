"""Who is told of changes: by subscriptions in the modern revision, by the session in the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.protocol import META, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Fault, Turn
    from mutants.server.session import Session

__all__ = ["Listener", "Listeners", "subscribe"]

_MEMBERS: Final = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class Listener:
    """One subscription.

    Args:
        id: The id of its request.
        wanted: Its filter.
        send: Sends to it.
        session: What it belongs to.
    """

    def __init__(self, id: JsonValue, wanted: JsonObject, send: Callable[[JsonValue], None], session: Session) -> None:
        self.session: Final = session
        self.id: Final = id
        self.wanted: Final = wanted
        self.send: Final = send

    def tag(self) -> JsonObject:
        """What each of its messages has in `_meta`."""
        return {f"{META}subscriptionId": self.id}


class Listeners:
    """All subscriptions of a server.

    Args:
        fault: What is wrong with it.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault: Final = fault
        self._all: Final[list[Listener]] = []

    def open(self, turn: Turn, declared: JsonObject) -> None:
        """Begins a subscription, and acknowledges as much of it as the server declares."""
        wanted = turn.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(-32602, "notifications is missing", status=400)
        listener = Listener(turn.request["id"], wanted, turn.send, turn.session)
        told = {name: value for name, value in wanted.items() if value not in (False, None) and _has(declared, name)}
        params: JsonObject = {"_meta": listener.tag(), "notifications": self._fault.acknowledged(wanted, dict(told))}
        message: JsonObject = {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": params,
        }
        self._all.append(listener)
        for each in self._fault.opening(message):
            listener.send(each)

    def close(self, id: JsonValue) -> bool:
        """Ends a subscription, and says nothing of it. Whether there was one."""
        found = [each for each in self._all if each.id == id]
        for each in found:
            if self._fault.forgets(each.id):
                self._all.remove(each)
        return bool(found)

    def hung_up(self, session: Session) -> None:
        """Forgets a subscription whose stream is gone."""
        for each in [each for each in self._all if each.session is session]:
            self._all.remove(each)

    def end(self) -> None:
        """Ends all of them: the server goes."""
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

    def changed(self, turn: Turn, kind: str) -> None:
        """Tells of a list that changed."""
        method = f"notifications/{kind}/list_changed"
        if not turn.modern:
            self._told(turn, {"jsonrpc": "2.0", "method": method})
            return
        for each in list(self._all):
            if self._fault.wanted(method, wanted=each.wanted.get(_MEMBERS[kind]) is True):
                self._tell(each, method, {})

    def touched(self, turn: Turn, uri: str) -> None:
        """Tells of a resource that changed."""
        method = "notifications/resources/updated"
        if not turn.modern:
            if self._fault.wanted(method, wanted=uri in turn.session.subscribed):
                self._told(turn, {"jsonrpc": "2.0", "method": method, "params": {"uri": uri}})
            return
        for each in list(self._all):
            watched = each.wanted.get("resourceSubscriptions")
            if self._fault.wanted(method, wanted=isinstance(watched, list) and uri in watched):
                self._tell(each, method, {"uri": uri})

    def _told(self, turn: Turn, message: JsonObject) -> None:
        told = self._fault.told(message)
        if told is not None and not turn.session.announce(told):
            turn.send(told)

    def _tell(self, listener: Listener, method: str, params: JsonObject) -> None:
        told = self._fault.told({"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": listener.tag()}})
        if told is None:
            return
        listener.send(told)


def _has(declared: JsonObject, member: str) -> bool:
    if member == "taskIds":
        return "extensions" in declared
    kind, flag = next(
        ((kind, "listChanged") for kind, name in _MEMBERS.items() if name == member), ("resources", "subscribe")
    )
    own = declared.get(kind)
    return isinstance(own, dict) and bool(own.get(flag))


_INFO: Final[JsonObject] = {"name": "raw", "version": "1.0"}


def subscribe(session: Session, method: str, uri: str) -> None:
    """Keeps who watches a resource, in the revisions with sessions."""
    if method == "resources/subscribe":
        session.subscribed.add(uri)
    else:
        session.subscribed.discard(uri)
