"""Subscriptions: the acknowledgment, the notifications and the end of `subscriptions/listen`."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.message_pairs import key_of, objects
from mcp_conformance.checks.probes.near_misses import is_within, similar_uris
from mcp_conformance.checks.probes.repetition import each_time
from mcp_conformance.checks.probes.second_user import other_user
from mcp_conformance.checks.probes.subscription_stream import ACKNOWLEDGED, LISTEN, is_tagged, open_subscription, tag_of
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.drivers.server.stdio_connection import StdioConnection
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw, flaw_of_params
from mcp_conformance.protocol.odd_ids import ODD_IDS
from mcp_conformance.protocol.response import brief
from mcp_core.types.meta import LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from mcp_conformance.checks.probes.subscription_stream import SubscriptionStream
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_TOOLS: Final = "notifications/tools/list_changed"
_PROMPTS: Final = "notifications/prompts/list_changed"
_RESOURCES: Final = "notifications/resources/list_changed"
_UPDATED: Final = "notifications/resources/updated"
_FLAGS: Final = {
    "toolsListChanged": "tools.listChanged",
    "promptsListChanged": "prompts.listChanged",
    "resourcesListChanged": "resources.listChanged",
    "resourceSubscriptions": "resources.subscribe",
}
"""The members of a filter, and the capability of each."""
_WATCHED: Final = "test://watched-resource"
_CANCELLED: Final = "notifications/cancelled"
_KEPT_AND_ENDED: Final[tuple[tuple[JsonValue, JsonValue], ...]] = (("0", 0), (471149, "471149"), ("conformance", ""))
"""The ids of a subscription that continues and of one that ends. A server may still use an id after a cancellation."""
_CHANGES_AFTERWARDS: Final = 3
"""The number of changes after a client has disconnected."""


def _offered(server: ServerUnderTest) -> list[str]:
    """Return the members of a filter that the server supports."""
    found = [name for name, capability in _FLAGS.items() if server.inventory.has(capability)]
    # The resource has to exist, or a server may omit its subscription.
    if server.inventory.find("resources", _watched(server)) is None:
        found = [name for name in found if name != "resourceSubscriptions"]
    if not found:
        raise NotApplicable("the server supports no subscriptions")
    return found


def _watched(server: ServerUnderTest) -> str:
    return server.manifest.find("resources", _WATCHED).name


def _filter(server: ServerUnderTest, *names: str) -> JsonObject:
    return {name: [_watched(server)] if name == "resourceSubscriptions" else True for name in names}


async def _trigger(
    server: ServerUnderTest, fixture: str, arguments: JsonObject | None = None, *, meta: JsonObject | None = None
) -> JsonRpcResponse:
    name, given = server.tool(fixture, arguments)
    answer = await server.peer.request("tools/call", {"name": name, "arguments": given, "_meta": meta or {}})
    if answer.is_error:
        raise NotTestable(f"the control request failed: {answer}")
    return answer


# --- start
# --------------------------------------------------------------------------------------------------------------


@check("subscription.served", proves=("subscription.method-available",))
async def served(server: ServerUnderTest) -> None:
    """A server that declares listChanged or subscribe serves `subscriptions/listen`."""
    async with open_subscription(server.peer, _filter(server, *_offered(server))) as subscription:
        await subscription.acknowledged()


@check("subscription.no-filter", proves=("subscription.filter-missing-invalid",))
async def no_filter(server: ServerUnderTest) -> None:
    """`subscriptions/listen` without a filter is answered with the error -32602."""
    _offered(server)
    answer = await server.peer.request(LISTEN, {}, deviant="no filter")
    answer.error(-32602, what="subscriptions/listen without a filter")


@check(
    "subscription.acknowledged-first",
    proves=("subscription.ack-first", "subscription.nothing-before-ack", "subscription.ack-tagged"),
)
async def acknowledged_first(server: ServerUnderTest) -> None:
    """The first message with the id of the subscription is its acknowledgment."""
    async with open_subscription(server.peer, _filter(server, *_offered(server))) as subscription:
        await subscription.until(lambda: bool(subscription.own()), "an acknowledgment with the id of the subscription")
        if subscription.own()[0].get("method") != ACKNOWLEDGED:
            raise Deviation(ACKNOWLEDGED, brief(subscription.own()[0]))


@check("subscription.acknowledged-filter", proves=("subscription.ack-filter", "subscription.ack-subset"))
async def acknowledged_filter(server: ServerUnderTest) -> None:
    """The acknowledgment contains the requested members that the server supports, and no others.

    Nor does it contain those of another subscription, or of a malformed request of another client.
    """
    offered = _offered(server)
    refused: JsonObject = {name: False for name in offered[1:] if name != "resourceSubscriptions"}
    for members, more in ((offered, {}), (offered[:1], {}), (offered[:1], refused), ([], {}), ([], refused)):
        await _require_acknowledged(server, {**_filter(server, *members), **more}, members)
    # The filter of an active subscription is not that of another one.
    others = [uri for uri in _listed_uris(server) if uri != _watched(server)]
    older: JsonObject = {**_filter(server, *offered), "resourceSubscriptions": [*others[:1]]}
    async with open_subscription(server.peer, {name: older[name] for name in offered}) as subscription:
        await subscription.until(partial(_has_begun, subscription), ACKNOWLEDGED)
        await _require_acknowledged(server, _filter(server, *offered[-1:]), offered[-1:])
    if server.transport is Transport.HTTP:
        # A lenient server may acknowledge the malformed member, so that this connection is no evidence.
        malformed: JsonObject = {**_filter(server, *offered[:1]), "resourceSubscriptions": "text"}
        async with (
            server.share(client="malformed") as peer,
            open_subscription(peer, malformed, deviant="no array of URIs") as subscription,
        ):
            await subscription.until(partial(_has_begun, subscription), ACKNOWLEDGED)
        await _require_acknowledged(server, _filter(server, *offered[-1:]), offered[-1:])


def _listed_uris(server: ServerUnderTest) -> list[str]:
    return [str(each.get("uri")) for each in server.inventory.lists.get("resources", ())]


async def _require_acknowledged(server: ServerUnderTest, requested: JsonObject, members: list[str]) -> None:
    """Open a subscription, and require that these members of its filter are acknowledged, and nothing else."""
    async with open_subscription(server.peer, requested) as subscription:
        found = await subscription.acknowledged()
        params = subscription.own(ACKNOWLEDGED)[0].get("params")
    if not isinstance(params, dict) or not isinstance(params.get("notifications"), dict):
        raise Deviation(f"notifications in the acknowledgment of {brief(requested)}", brief(params))
    given = {name for name, value in found.items() if value not in (False, None, [])}
    if given != set(members):
        raise Deviation(f"{brief(requested)} to be acknowledged", brief(found))
    uris = found.get("resourceSubscriptions")
    if isinstance(uris, list) and any(each != _watched(server) for each in uris):
        raise Deviation(f"no resources other than {_watched(server)} to be acknowledged", brief(found))


@check("subscription.not-offered", proves=("subscription.unsupported-not-acked",))
async def not_offered(server: ServerUnderTest) -> None:
    """The server does not acknowledge notifications that it does not declare, or of a type that does not exist."""
    _offered(server)
    offered = [name for name, capability in _FLAGS.items() if server.inventory.has(capability)]
    for unknown in ({}, {"conformanceListChanged": True}):
        async with open_subscription(server.peer, {**_filter(server, *_FLAGS), **unknown}) as subscription:
            await subscription.until(lambda: bool(subscription.own()) or subscription.ended, ACKNOWLEDGED)
            if unknown and subscription.answer is not None and subscription.answer.is_error:
                # The schema does not say what happens to a member that it does not define.
                return
            found = await subscription.acknowledged()
        more = [name for name, value in found.items() if value not in (False, None, []) and name not in offered]
        if more:
            raise Deviation(f"only {brief([*offered])} to be acknowledged", brief([*more]))


@check("subscription.id", proves=("subscription.id-equals-request-id",))
async def same_id(server: ServerUnderTest) -> None:
    """The id in the acknowledgment and in the notifications is that of the request, whatever number or string it is."""
    requested = _filter(server, *_offered(server))
    change: tuple[str, str, str] | None = None
    # The acknowledgment alone shows the id too.
    with suppress(NotApplicable, NotTestable):
        change = _by_tool(server)
    for id in ODD_IDS:
        async with open_subscription(server.peer, requested, id=id) as subscription:
            await _require_id(subscription, ACKNOWLEDGED)
            if change is not None:
                _, method, fixture = change
                await _trigger(server, fixture)
                await _require_id(subscription, method)


async def _require_id(subscription: SubscriptionStream, method: str) -> None:
    """Wait for a notification of a method with the id of the subscription.

    Raises:
        Deviation: No notification has it in time.
    """
    try:
        await subscription.wait(method)
    except Deviation as deviation:
        tags = [tag_of(each) for each in _of_no_other(subscription, method)]
        if not tags:
            raise
        raise Deviation(f"the subscription id {brief(subscription.id)} in {method}", brief(tags)) from deviation


def _of_no_other(subscription: SubscriptionStream, method: str) -> list[JsonObject]:
    """Return the notifications of a method that do not have the id of another subscription."""
    found = [each for each in subscription.messages if each.get("method") == method]
    return [each for each in found if not subscription.is_of_another(each)]


@check("subscription.stays-open", proves=("subscription.stays-open",))
async def stays_open(server: ServerUnderTest) -> None:
    """An active subscription has no response."""
    async with open_subscription(server.peer, _filter(server, *_offered(server))) as subscription:
        await subscription.acknowledged()
        for _ in range(3):
            await server.peer.fence()
        if subscription.ended:
            raise Deviation(
                "no response while the subscription is active", str(subscription.answer or subscription.failed)
            )


@check("subscription.event-stream", proves=("subscription.http-sse",), transports=(Transport.HTTP,))
async def event_stream(server: ServerUnderTest) -> None:
    """Over HTTP the response is an event stream."""
    async with open_subscription(server.peer, _filter(server, *_offered(server))) as subscription:
        await subscription.until(lambda: bool(subscription.messages), "an event stream")


# --- notifications
# ------------------------------------------------------------------------------------------------------

_CHANGES: Final = {
    "tools-changed": ("toolsListChanged", _TOOLS, "test_trigger_tool_change", "subscription.tools-list-changed"),
    "prompts-changed": (
        "promptsListChanged",
        _PROMPTS,
        "test_trigger_prompt_change",
        "subscription.prompts-list-changed",
    ),
    "resources-changed": (
        "resourcesListChanged",
        _RESOURCES,
        "conformance_change_resources",
        "subscription.resources-list-changed",
    ),
    "resource-updated": (
        "resourceSubscriptions",
        _UPDATED,
        "conformance_touch_resource",
        "subscription.resource-updated",
    ),
}
"""The last part of the id, the member of the filter, the notification, the tool that causes it, and the requirement."""


def _register() -> None:
    for words, (member, method, fixture, requirement) in _CHANGES.items():

        async def run(
            server: ServerUnderTest, *, member: str = member, method: str = method, fixture: str = fixture
        ) -> None:
            if member == "resourceSubscriptions":
                server.require("resources", _WATCHED)
            async with open_subscription(server.peer, _filter(server, member)) as subscription:
                await subscription.acknowledged()
                arguments: JsonObject | None = {"uri": _watched(server)} if member == "resourceSubscriptions" else None
                # A server may announce several changes at once, but not a change before it.
                for count in (1, 2):
                    await _trigger(server, fixture, arguments)
                    await subscription.wait(method, count=count)

        SERVER_CHECKS.add(
            f"subscription.{words}",
            run,
            title=f"A subscription with {member} gets `{method}` after each change.",
            proves=(requirement,),
            needs=("capability:tools", f"capability:{_FLAGS[member]}"),
        )


_register()


def _by_tool(server: ServerUnderTest) -> tuple[str, str, str]:
    """Return a change that the suite can cause: the member of the filter, the notification and the tool."""
    for member, method, fixture, _ in list(_CHANGES.values())[:3]:
        if server.inventory.has(_FLAGS[member]):
            server.tool(fixture)
            return member, method, fixture
    raise NotApplicable("the server declares no listChanged")


@attrs.frozen(kw_only=True)
class _Cause:
    """A call that causes a change."""

    member: str
    """The member of the filter that asks for its notification."""
    method: str
    """The notification."""
    fixture: str
    """The tool."""
    arguments: JsonObject | None
    """The arguments of the tool."""


def _causes(server: ServerUnderTest) -> list[_Cause]:
    """Return a call for each change that the server notifies of and the suite can cause.

    Raises:
        NotTestable: The server has no such fixture tool.
    """
    found: list[_Cause] = []
    for member, method, fixture, _ in _CHANGES.values():
        if member in _offered(server):
            arguments: JsonObject | None = {"uri": _watched(server)} if member == "resourceSubscriptions" else None
            with suppress(NotTestable):
                server.tool(fixture)
                found.append(_Cause(member=member, method=method, fixture=fixture, arguments=arguments))
    if not found:
        raise NotTestable("the server has no fixture tool that causes a change")
    return found


@check("subscription.tagged", proves=("subscription.all-notifications-tagged", "meta.subscription-id-on-stream"))
async def tagged(server: ServerUnderTest) -> None:
    """Every notification of a subscription has its id, whatever its type."""
    causes = _causes(server)
    methods = [cause.method for cause in causes]
    async with open_subscription(server.peer, _filter(server, *(cause.member for cause in causes))) as subscription:
        await subscription.acknowledged()
        for cause in causes:
            await _trigger(server, cause.fixture, cause.arguments)
            await subscription.until(partial(_has, subscription, cause.method), cause.method)
        for each in subscription.messages:
            if each.get("method") in methods and not subscription.is_own(each) and not subscription.is_of_another(each):
                raise Deviation(f"the id of the subscription, {brief(subscription.id)}", brief(each))


def _has(subscription: SubscriptionStream, method: str) -> bool:
    """Return whether there is a notification of a method since a subscription began."""
    return any(each.get("method") == method for each in subscription.messages)


@check(
    "subscription.only-what-was-asked",
    proves=("subscription.only-requested-types", "subscription.omitted-is-false"),
    needs=("capability:tools.listChanged", "capability:prompts.listChanged"),
)
async def only_requested_types(server: ServerUnderTest) -> None:
    """A subscription gets no notifications whose member of the filter is missing or false, also beside other subscriptions."""
    for members in ({"promptsListChanged": True}, {"promptsListChanged": True, "toolsListChanged": False}):
        async with open_subscription(server.peer, dict(members)) as subscription:
            await subscription.acknowledged()
            await _trigger(server, "test_trigger_tool_change")
            await _trigger(server, "test_trigger_prompt_change")
            await subscription.wait(_PROMPTS)
            found = [
                each
                for each in subscription.messages
                if each.get("method") == _TOOLS and not subscription.is_of_another(each)
            ]
        if found:
            raise Deviation(f"no {_TOOLS}, which the filter does not contain", brief(found[0]))
    await _require_types_apart(server)


async def _require_types_apart(server: ServerUnderTest) -> None:
    """Require that each of several subscriptions at once gets only the notifications that it requested."""
    opened: list[tuple[_Cause, SubscriptionStream]] = []
    async with AsyncExitStack() as stack:
        for cause in _causes(server):
            requested = _filter(server, cause.member)
            opened.append((cause, await stack.enter_async_context(open_subscription(server.peer, requested))))
        for _, subscription in opened:
            await subscription.acknowledged()
        for cause, subscription in opened:
            await _trigger(server, cause.fixture, cause.arguments)
            await subscription.wait(cause.method)
        await server.peer.fence()
        for cause, subscription in opened:
            for each in subscription.own():
                if each.get("method") not in (ACKNOWLEDGED, cause.method):
                    raise Deviation(f"only {cause.method} with the filter {cause.member}", brief(each))


@check("subscription.not-unasked", proves=("subscription.no-unsubscribed-notifications",))
async def none_without_subscription(server: ServerUnderTest) -> None:
    """Without a subscription there are no change notifications of any type, on the streams of other requests either."""
    causes = _causes(server)
    methods = [cause.method for cause in causes]
    since = len(server.peer.inbox)
    for cause in causes:
        await _trigger(server, cause.fixture, cause.arguments)
        # These members ask for messages on the stream of the request, but not for this one.
        meta: JsonObject = {"progressToken": f"conformance-{cause.member}", LOG_LEVEL: "debug"}
        await _trigger(server, cause.fixture, cause.arguments, meta=meta)
    await server.peer.fence()
    received = [each for each in server.peer.inbox[since:] if each.get("method") in methods]
    # `subscription.cancelled` covers subscriptions that continue after their end.
    if found := [each for each in received if not is_tagged(server.peer, each)]:
        raise Deviation(f"no {found[0].get('method')} without a subscription", brief(found[0]))


@check(
    "subscription.only-these-resources",
    proves=(
        "subscription.only-requested-uris",
        "subscription.resource-updated-uri",
        "subscription.ack-filter",
        "subscription.resource-updated",
    ),
    needs=("capability:tools", "capability:resources.subscribe"),
)
async def only_these_resources(server: ServerUnderTest) -> None:
    """A subscription gets notifications for its resources and for no others, not even for those with similar URIs."""
    watched, other = server.require("resources", _WATCHED), server.require("resources", "test://static-text")
    async with open_subscription(server.peer, {"resourceSubscriptions": [watched]}) as subscription:
        await subscription.acknowledged()
        await _trigger(server, "conformance_touch_resource", {"uri": other})
        for similar in similar_uris(watched):
            # A server may reject the call, because it has no such resource.
            await server.call("conformance_touch_resource", {"uri": similar})
        await _trigger(server, "conformance_touch_resource", {"uri": watched})
        for each in await subscription.wait(_UPDATED):
            if not _is_of(each, watched):
                raise Deviation(f"the uri {watched}", brief(each))
    async with open_subscription(server.peer, {"resourceSubscriptions": [other, watched]}) as subscription:
        found = (await subscription.acknowledged()).get("resourceSubscriptions")
        for uri in (watched, other):
            # A server may support updates of some resources only, and says so.
            if not isinstance(found, list) or uri not in found:
                continue
            await _trigger(server, "conformance_touch_resource", {"uri": uri})
            await subscription.until(
                partial(_notifies, subscription, uri),
                f"{_UPDATED} for {uri}, which is acknowledged together with another one",
            )
    # A server without changeable lists was tested as far as it can be.
    with suppress(NotApplicable, NotTestable):
        await _require_no_updates(server, watched)


async def _require_no_updates(server: ServerUnderTest, watched: str) -> None:
    """Require that an update is sent to no subscription without resources, or to resources with similar URIs."""
    member, method, fixture = _by_tool(server)
    none: list[JsonValue] = []
    similar: list[JsonValue] = [*similar_uris(watched)]
    filters: list[JsonObject] = [{}, {"resourceSubscriptions": none}, {"resourceSubscriptions": similar}]
    if server.inventory.has(_FLAGS["resourcesListChanged"]):
        filters += [{**each, "resourcesListChanged": True} for each in filters]
    async with AsyncExitStack() as stack:
        opened: list[SubscriptionStream] = []
        for each in filters:
            subscription = await stack.enter_async_context(open_subscription(server.peer, {member: True, **each}))
            await subscription.until(partial(_has_begun, subscription), ACKNOWLEDGED)
            opened.append(subscription)
        await _trigger(server, "conformance_touch_resource", {"uri": watched})
        await _trigger(server, fixture)
        for each, subscription in zip(filters, opened, strict=True):
            # A server may reject a filter with unknown resources.
            if not subscription.ended:
                await subscription.wait(method)
                if found := subscription.own(_UPDATED):
                    raise Deviation(f"no {_UPDATED} for {watched} with the filter {brief(each)}", brief(found[0]))


def _has_begun(subscription: SubscriptionStream) -> bool:
    """Return whether a subscription is acknowledged or rejected."""
    return bool(subscription.own()) or subscription.ended


def _notifies(subscription: SubscriptionStream, resource: str) -> bool:
    """Return whether a subscription has a notification of a resource."""
    return any(_is_of(each, resource) for each in subscription.own(_UPDATED))


def _is_of(notification: JsonObject, resource: str) -> bool:
    """Return whether a notification names a resource, or a sub-resource."""
    params = notification.get("params")
    uri = params.get("uri") if isinstance(params, dict) else None
    return isinstance(uri, str) and is_within(uri, resource)


@check("subscription.several", proves=("subscription.server-multiple-concurrent",))
async def several(server: ServerUnderTest) -> None:
    """With several subscriptions each gets the notifications of all types, with its own id."""
    causes = _causes(server)
    requested = _filter(server, *(cause.member for cause in causes))
    async with open_subscription(server.peer, requested) as one, open_subscription(server.peer, requested) as two:
        await one.acknowledged()
        await two.acknowledged()
        for cause in causes:
            await _trigger(server, cause.fixture, cause.arguments)
            await one.wait(cause.method)
            await two.wait(cause.method)


@check(
    "subscription.clients-apart",
    proves=(
        "subscription.server-multiple-concurrent",
        "subscription.server-stops-after-cancel",
        "subscription.no-state-across-connections",
    ),
    transports=(Transport.HTTP,),
)
async def clients_apart(server: ServerUnderTest) -> None:
    """Two clients may use one id: neither ends the subscription of the other, and nothing is kept for a later one.

    Nothing means neither changes nor the filter.
    """
    member, method, fixture = _by_tool(server)
    requested, id = _filter(server, member), f"conformance-same-{server.peer.next_id()}"
    other = next((cause for cause in _causes(server) if cause.member != member), None)
    async with open_subscription(server.peer, requested, id=id) as kept, AsyncExitStack() as stack:
        await kept.acknowledged()
        is_other_user = True
        try:
            client = await stack.enter_async_context(other_user(server))
        except (NotApplicable, NotTestable):
            client, is_other_user = await stack.enter_async_context(server.open()), False

        async def replayed() -> str | None:
            async with open_subscription(client, requested, id=id) as ended:
                await ended.acknowledged()
                known = len(kept.own(method))
                await _trigger(server, fixture)
                await kept.wait(method, count=known + 1)
                await ended.wait(method)
                if is_other_user:
                    # Users choose their ids independently. A server may reject this: over HTTP, clients disconnect.
                    params: JsonObject = {"requestId": id}
                    await client.notify(_CANCELLED, params, deviant="a cancellation in place of a disconnect")
            # A server may notice the disconnect only when it sends the next notification.
            for _ in range(_CHANGES_AFTERWARDS):
                known = len(kept.own(method))
                await _trigger(server, fixture)
                await kept.wait(method, count=known + 1)
            async with open_subscription(client, requested) as later:
                await later.acknowledged()
                await client.fence()
                if later.own(method):
                    return f"{brief(later.own(method)[0])} for a change before the subscription"
            if other is None:
                return None
            async with open_subscription(client, _filter(server, other.member), id=id) as again:
                await again.acknowledged()
                await _trigger(server, fixture)
                await _trigger(server, other.fixture, other.arguments)
                await again.wait(other.method)
                found = again.own(method)
            return f"{brief(found[0])} for the filter of an earlier subscription with the id" if found else None

        # Another client may change the list at the same time.
        if (observed := await each_time(replayed)) is not None:
            raise Deviation(f"no {method} that belongs to an earlier subscription", observed)


@check(
    "subscription.cancelled",
    proves=("subscription.server-stops-after-cancel", "stdio.cancel-no-more-messages"),
    # Not the connection on which another check has cancelled subscriptions with these ids.
    subject=CheckScope.RECOVERING,
)
async def cancelled(server: ServerUnderTest) -> None:
    """After its end a subscription gets no notification of any type and no result, while others continue.

    The others may have a similar id.
    """
    causes = _causes(server)
    known_strays = len(server.peer.strays)
    requested = _filter(server, *(cause.member for cause in causes))
    for kept, id in _KEPT_AND_ENDED:
        async with (
            open_subscription(server.peer, requested, id=kept) as older,
            open_subscription(server.peer, requested, id=id) as ended,
            open_subscription(server.peer, requested) as newer,
        ):
            for each in (older, ended, newer):
                await each.acknowledged()
            await ended.cancel()
            if server.transport is Transport.STDIO:
                # A client may repeat a cancellation, as it does not learn whether it arrived.
                await server.peer.notify(_CANCELLED, {"requestId": id})
            await server.peer.fence()
            known = len(ended.own())
            # Over HTTP a server may notice the end only when it sends the next notification.
            for cause in (causes * _CHANGES_AFTERWARDS)[: max(len(causes), _CHANGES_AFTERWARDS)]:
                counts = [len(each.own(cause.method)) for each in (older, newer)]
                await _trigger(server, cause.fixture, cause.arguments)
                for each, count in zip((older, newer), counts, strict=True):
                    await each.wait(cause.method, count=count + 1)
            await server.peer.fence()
            if len(ended.own()) > known:
                raise Deviation("no notification for a cancelled subscription", brief(ended.own()[-1]))
            for response in server.peer.strays[known_strays:]:
                if key_of(response.get("id")) == key_of(id):
                    raise Deviation("no response to a cancelled subscription", brief(response))


@check(
    "subscription.not-on-another-connection",
    proves=("subscription.no-state-across-connections",),
    subject=CheckScope.PROCESS,
)
async def not_on_another_connection(server: ServerUnderTest) -> None:
    """A subscription ends with its connection: another connection gets no notifications before it subscribes."""
    member, method, fixture = _by_tool(server)
    async with server.open() as first, open_subscription(first, _filter(server, member)) as subscription:
        await subscription.acknowledged()
    async with server.share(client="another") as second:
        name, arguments = server.tool(fixture)
        (await second.request("tools/call", {"name": name, "arguments": arguments})).result()
        await second.fence()
        found = [each for each in second.inbox if each.get("method") == method]
    if found:
        raise Deviation(f"no {method} on a connection without a subscription", brief(found[0]))


# --- end
# ----------------------------------------------------------------------------------------------------------------


async def _shut_down(server: ServerUnderTest) -> tuple[list[JsonValue], list[JsonObject]]:
    """End the input of a server during subscriptions, and return their ids and all messages that follow.

    Raises:
        NotTestable: No message follows. Such a server takes the end of its input for the end of the transport, after
            which it has no client to notify.
    """
    members = _filter(server, *_offered(server))

    async def end() -> tuple[list[JsonValue], list[JsonObject]]:
        async with server.open() as peer:
            if not isinstance(peer, StdioConnection):
                raise NotApplicable("the suite cannot end the server over this transport")
            ids: list[JsonValue] = [peer.next_id(), 0, ""]
            for id in ids:
                await peer.post(peer.message(LISTEN, {"notifications": members}, id=id))
            for _ in ids:
                await peer.expect(ACKNOWLEDGED, ACKNOWLEDGED)
            before = len(peer.transcript.entries)
            await peer.process.close_input()
            ended = peer
            # That the server exits is the subject of stdio.exit.
            with suppress(Deviation):
                await peer.until(lambda: ended.ended, "the end of the output")
            entries = peer.transcript.entries[before:]
            return ids, [each for entry in entries for each in objects(entry) if not entry.sent]
        raise AssertionError("the block returns or raises")

    ids, later = await server.once("end of the input during subscriptions", end)
    if not later:
        raise NotTestable("the server sends no message after the end of its input")
    return ids, later


@check(
    "subscription.ends-with-a-result",
    proves=("subscription.graceful-result",),
    subject=CheckScope.PROCESS,
    transports=(Transport.STDIO,),
)
async def ends_with_a_result(server: ServerUnderTest) -> None:
    """A server that shuts down sends a result for each of its active subscriptions."""
    ids, later = await _shut_down(server)
    for id in ids:
        if sum(key_of(each.get("id")) == key_of(id) and "result" in each for each in later) != 1:
            raise Deviation(f"one result for the subscription {brief(id)}", brief([*later]))


@check(
    "subscription.result-shape",
    proves=("subscription.graceful-result-shape",),
    subject=CheckScope.PROCESS,
    transports=(Transport.STDIO,),
)
async def result_shape(server: ServerUnderTest) -> None:
    """The result of a subscription is complete, and has its id."""
    ids, later = await _shut_down(server)
    known = {key_of(id): id for id in ids}
    results = [(key_of(each.get("id")), each["result"]) for each in later if "result" in each]
    found = [(known[key], result) for key, result in results if key in known]
    if not found:
        raise NotTestable("the server exits without a result for a subscription")
    for id, result in found:
        meta = result.get("_meta") if isinstance(result, dict) else None
        if not isinstance(result, dict) or result.get("resultType") != "complete":
            raise Deviation("resultType 'complete'", brief(result))
        if not isinstance(meta, dict) or key_of(meta.get(SUBSCRIPTION_ID)) != key_of(id):
            raise Deviation(f"the subscription id {brief(id)} in _meta", brief(result))
        # No other check sees this connection, which is not one of a running server.
        wrong = flaw(result, "SubscriptionsListenResult", server.revision)
        if wrong is None and SERVER_INFO in meta:
            wrong = flaw(meta[SERVER_INFO], "Implementation", server.revision)
        if wrong is not None:
            raise Deviation("a valid SubscriptionsListenResult", f"{wrong}, in {brief(result)}")


@check(
    "subscription.result-server-info",
    proves=("meta.server-info-should",),
    subject=CheckScope.PROCESS,
    transports=(Transport.STDIO,),
)
async def result_server_info(server: ServerUnderTest) -> None:
    """The result of a subscription has serverInfo in its `_meta`."""
    _, later = await _shut_down(server)
    results = [result for each in later if isinstance(result := each.get("result"), dict)]
    found = [meta for each in results if isinstance(meta := each.get("_meta"), dict) and SUBSCRIPTION_ID in meta]
    if not found:
        raise NotTestable("the server exits without a result for a subscription")
    for meta in found:
        if SERVER_INFO not in meta:
            raise Deviation(f"{SERVER_INFO} in the result of {LISTEN}", brief(meta))


@check(
    "subscription.ends-with-cancelled",
    proves=("subscription.server-cancelled-on-teardown",),
    subject=CheckScope.PROCESS,
)
async def ends_with_cancelled(server: ServerUnderTest) -> None:
    """Over stdio a server that shuts down cancels its active subscriptions."""
    ids, later = await _shut_down(server)
    for id in ids:
        params = next((each.get("params") for each in later if _cancels(each, id)), None)
        if params is None:
            raise Deviation(f"notifications/cancelled with requestId {brief(id)}", brief([*later]))
        # No other check sees this connection.
        wrong = flaw_of_params(_CANCELLED, params, server.revision)
        if wrong is not None:
            raise Deviation("valid params", f"{wrong}, in {brief(params)}")


def _cancels(message: JsonObject, id: JsonValue) -> bool:
    """Return whether a message is the cancellation of a request."""
    params = message.get("params")
    named = params.get("requestId", "none") if isinstance(params, dict) else "none"
    return message.get("method") == _CANCELLED and key_of(named) == key_of(id) and "id" not in message
