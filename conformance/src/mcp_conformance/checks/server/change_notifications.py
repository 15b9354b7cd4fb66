"""Change notifications of legacy revisions, for lists and resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import notified
from mcp_conformance.checks.probes.near_misses import is_within, similar_uris
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.drivers.server.http_connection import HttpConnection
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_CHANGES: Final = 2
"""The number of changes: a server may send a notification only for the first one."""
_UPDATED: Final = "notifications/resources/updated"
_WATCHED: Final = "test://watched-resource"
_OTHER: Final = "test://static-text"
_LISTS: Final = {
    "tools": "test_trigger_tool_change",
    "prompts": "test_trigger_prompt_change",
    "resources": "conformance_change_resources",
}
"""The tool that changes a list, by the capability of the list."""
_SUBSCRIBE: Final = ("capability:tools", "capability:resources.subscribe")


def _register() -> None:
    for kind, fixture in _LISTS.items():

        async def run(server: ServerUnderTest, *, kind: str = kind, fixture: str = fixture) -> None:
            method = f"notifications/{kind}/list_changed"
            for _ in range(_CHANGES):
                before = _count(server.peer, method)
                (await server.call(fixture)).result()
                await _until(server.peer, method, before)

        SERVER_CHECKS.add(
            f"{kind}.list-changed",
            run,
            title=f"Each time that the list of {kind} changes, the server sends a list_changed notification.",
            proves=(f"{kind}.list-changed",),
            needs=("capability:tools", f"capability:{kind}.listChanged"),
        )


_register()


@check(
    "capability.list-changed-undeclared",
    proves=("capability.only-negotiated", "capability.only-negotiated-should"),
    needs=("capability:tools",),
)
async def list_changed_undeclared(server: ServerUnderTest) -> None:
    """A list that changes, and for which the server does not declare listChanged, has no list_changed notification."""
    peer = server.peer
    silent = [kind for kind in _LISTS if server.inventory.has(kind) and not server.inventory.has(f"{kind}.listChanged")]
    if not silent:
        raise NotApplicable("the server declares listChanged for each of its lists")
    for kind in silent:
        (await server.call(_LISTS[kind])).result()
        await peer.fence()
        for each in peer.inbox:
            if each.get("method") == f"notifications/{kind}/list_changed":
                raise Deviation(
                    f"no such notification from a server that does not declare {kind}.listChanged", brief(each)
                )


def _count(peer: SuiteConnection, method: str) -> int:
    return sum(1 for each in peer.inbox if each.get("method") == method)


async def _until(peer: SuiteConnection, method: str, before: int) -> None:
    """Wait for one more notification.

    Raises:
        Deviation: No further notification was received in time.
    """
    await peer.until(lambda: _count(peer, method) > before, method)


async def _touch(server: ServerUnderTest, uri: str, peer: SuiteConnection | None = None) -> None:
    name, arguments = server.tool("conformance_touch_resource", {"uri": uri})
    (await (peer or server.peer).request("tools/call", {"name": name, "arguments": arguments})).result()


async def _touch_and_wait(server: ServerUnderTest, uri: str, peer: SuiteConnection | None = None) -> None:
    """Change a resource by a call of a client that has subscribed to it, and wait for the notification."""
    client = peer or server.peer
    before = _count(client, _UPDATED)
    await _touch(server, uri, client)
    await _until(client, _UPDATED, before)


def _uris(server: ServerUnderTest, since: int) -> list[object]:
    found: list[object] = []
    for each in server.peer.inbox[since:]:
        params = each.get("params")
        if each.get("method") == _UPDATED:
            found.append(params.get("uri") if isinstance(params, dict) else None)
    return found


async def _subscribe(
    server: ServerUnderTest, verb: str = "subscribe", peer: SuiteConnection | None = None
) -> JsonObject:
    uri = _watched(server)
    return (await (peer or server.peer).request(f"resources/{verb}", {"uri": uri})).result()


def _watched(server: ServerUnderTest) -> str:
    return server.require("resources", _WATCHED)


@check(
    "resources.updated",
    proves=("resources.subscription-updates",),
    needs=_SUBSCRIBE,
)
async def updated(server: ServerUnderTest) -> None:
    """A client that subscribed to a resource is notified of each update, until it unsubscribes, and if it subscribes again."""
    if set(result := await _subscribe(server)) - {"_meta"}:
        raise Deviation("an empty result of resources/subscribe", brief(result))
    watched = _watched(server)
    for _ in range(_CHANGES):
        await _touch_and_wait(server, watched)
    # The notification may name a sub-resource.
    if not any(is_within(str(each), watched) for each in _uris(server, 0)):
        raise Deviation(f"{_UPDATED} for {watched}", str(_uris(server, 0)))
    # The end of another subscription, and of an earlier one to the same resource, has no effect. A server may reject
    # subscriptions to other resources.
    if server.inventory.find("resources", server.manifest.find("resources", _OTHER).name) is not None:
        for verb in ("subscribe", "unsubscribe"):
            await server.peer.request(f"resources/{verb}", {"uri": server.require("resources", _OTHER)})
        await _touch_and_wait(server, watched)
    await _subscribe(server, "unsubscribe")
    await _subscribe(server)
    await _touch_and_wait(server, watched)
    # Other checks use the connection too.
    await _subscribe(server, "unsubscribe")


@check(
    "resources.updated-only-if-subscribed",
    proves=("resources.updated-only-if-subscribed", "resources.subscription-updates"),
    needs=_SUBSCRIBE,
)
async def updated_only_if_subscribed(server: ServerUnderTest) -> None:
    """A client without a subscription to a resource, or after unsubscribing, gets no updated notification.

    The subscriptions of other clients make no difference.
    """
    await _subscribe(server)
    # One request ends a subscription, however often it was requested. A server may reject the second request.
    await server.peer.request("resources/subscribe", {"uri": _watched(server)})
    await _touch(server, server.require("resources", _OTHER))
    for similar in similar_uris(_watched(server)):
        # A server may reject the call, because it has no such resource.
        await server.call("conformance_touch_resource", {"uri": similar})
    await _touch(server, _watched(server))
    # A notification of the other resource would precede this one.
    await _until(server.peer, _UPDATED, 0)
    for other in (server.require("resources", _OTHER), *similar_uris(_watched(server))):
        if other in _uris(server, 0):
            raise Deviation(f"no {_UPDATED} for {other}, which has no subscription", str(_uris(server, 0)))
    await _subscribe(server, "unsubscribe")
    await server.peer.fence()
    since = len(server.peer.inbox)
    await _touch(server, _watched(server))
    for _ in range(2):
        await server.peer.fence()
    if _uris(server, since):
        raise Deviation(f"no {_UPDATED} after resources/unsubscribe", str(_uris(server, since)))
    if server.transport is not Transport.STDIO:
        await _require_sessions_apart(server)


async def _require_sessions_apart(server: ServerUnderTest) -> None:
    """Require that the subscriptions of two sessions to the same resource are independent."""
    watched = _watched(server)
    async with server.share(client="another") as other:
        if isinstance(other, HttpConnection) and other.session_id is None:
            return  # the server cannot distinguish its clients
        await _subscribe(server, peer=other)
        since = len(server.peer.inbox)
        await _touch_and_wait(server, watched, other)
        for _ in range(2):
            await server.peer.fence()
        if _uris(server, since):
            raise Deviation(f"no {_UPDATED} for the subscription of another client", str(_uris(server, since)))
        await _subscribe(server)
        await _subscribe(server, "unsubscribe")
        await _touch_and_wait(server, watched, other)
        await _subscribe(server, "unsubscribe", other)


@check(
    "resources.updated-needs-capability", proves=("resources.updated-needs-capability",), subject=CheckScope.EVIDENCE
)
async def updated_needs_capability(server: ServerUnderTest) -> None:
    """Only a server that declares resources.subscribe sends notifications/resources/updated."""
    notifications = list(notified(server, _UPDATED))
    if not notifications:
        raise NotTestable(f"the server sent no {_UPDATED}")
    if not server.inventory.has("resources.subscribe"):
        raise Deviation(f"the capability resources.subscribe, as the server sends {_UPDATED}", brief(notifications[0]))
