"""Notices of changes: the subscribe pair, `subscriptions/listen`, and who is told of what."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import (
    EVERYTHING_OFFERED,
    FILTER,
    NOTHING_DECLARED,
    NOTICES,
    RESULTS,
    URI,
    ConnectionPair,
    error_of,
    last,
    make_client,
    make_server,
    opened,
    pair,
    wire_of,
)

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.events import MessageIgnored, NotificationReceived, RequestReceived, ResultReceived
from mcp_core.engine.subscriptions import SubscriptionRegistry, watched
from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject, Notification, Request, RequestId, ResultResponse
from mcp_core.limits import Limits
from mcp_core.methods import NotificationMethod, Side
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, Revision
from mcp_core.types.meta import SUBSCRIPTION_ID, TASKS_EXTENSION

CHANGES: Final = [
    (m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.SubscriptionFilter(tools_list_changed=True)),
    (m.NOTIFICATIONS_PROMPTS_LIST_CHANGED, t.SubscriptionFilter(prompts_list_changed=True)),
    (m.NOTIFICATIONS_RESOURCES_LIST_CHANGED, t.SubscriptionFilter(resources_list_changed=True)),
    (m.NOTIFICATIONS_RESOURCES_UPDATED, t.SubscriptionFilter(resource_subscriptions=(URI,))),
    (m.NOTIFICATIONS_TASKS, t.SubscriptionFilter(task_ids=("t",))),
]
ROWS: Final = [row for row, _ in CHANGES]
TOOLS_CHANGED: Final = t.ToolListChangedNotificationParams()


def listen(
    both: ConnectionPair, wanted: t.SubscriptionFilter, at_most: t.SubscriptionFilter | None = None
) -> RequestId:
    id = both.call(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=wanted)).id
    both.send(Side.SERVER, both.server.acknowledge(id, at_most))
    both.run()
    return id


def updated(uri: str) -> t.ResourceUpdatedNotificationParams:
    return t.ResourceUpdatedNotificationParams(uri=uri)


def granted(both: ConnectionPair) -> t.SubscriptionFilter:
    params = last(both.client_events, NotificationReceived).params
    assert isinstance(params, t.SubscriptionsAcknowledgedNotificationParams)
    return params.notifications


# --- subscriptions/listen ---------------------------------------------------------------------------------------------


@pytest.mark.spec("subscription.only-requested-types", "subscription.omitted-is-false", "subscription.stays-open")
@pytest.mark.spec(
    "subscription.tools-list-changed", "subscription.prompts-list-changed", "subscription.resource-updated"
)
@pytest.mark.spec("subscription.resources-list-changed", "subscription.filter-fields")
@pytest.mark.parametrize(("row", "wanted"), CHANGES, ids=[row.name for row in ROWS])
def test_a_subscription_is_told_of_what_it_asked_for_and_of_nothing_else(
    row: NotificationMethod[object], wanted: t.SubscriptionFilter
) -> None:
    both = opened(R2026_07_28)
    id = listen(both, wanted)
    told = [each for each in ROWS if both.server.publish(each, NOTICES[each])]
    assert told == [row]
    both.send(Side.SERVER, *both.server.publish(row, NOTICES[row]))
    both.run()
    event = last(both.client_events, NotificationReceived)
    assert event.definition is row
    assert event.subscription == id
    assert event.notes == ()
    assert list(both.server.inbound_requests) == [id]


@pytest.mark.spec("subscription.ack-first", "subscription.nothing-before-ack", "subscription.ack-tagged")
@pytest.mark.spec("subscription.ack-filter", "subscription.id-equals-request-id")
def test_the_acknowledgment_comes_first() -> None:
    both = opened(R2026_07_28)
    params = t.SubscriptionsListenRequestParams(notifications=FILTER)
    id = both.call(m.SUBSCRIPTIONS_LISTEN, params).id
    assert list(both.server.subscriptions) == []
    assert both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED) == ()
    for command in (lambda: both.server.finish(id), lambda: both.server.respond(id, t.SubscriptionsListenResult())):
        with pytest.raises(LocalProtocolError, match="acknowledged"):
            command()
    outgoing = both.server.acknowledge(id)
    assert wire_of(outgoing)["params"] == {
        "notifications": {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": [URI],
        },
        "_meta": {SUBSCRIPTION_ID: id},
    }
    assert outgoing is not None
    assert outgoing.for_request == id
    assert list(both.server.subscriptions) == [id]
    with pytest.raises(LocalProtocolError, match="not a subscription that awaits"):
        both.server.acknowledge(id)


@pytest.mark.spec("subscription.id-equals-request-id", "subscription.all-notifications-tagged")
@pytest.mark.spec("meta.subscription-id-on-stream")
@pytest.mark.parametrize("id", [0, -1, "", "1", 1, "x"])
def test_the_id_of_a_subscription_is_that_of_its_request_in_type_and_value(id: RequestId) -> None:
    both = opened(R2026_07_28)
    raw = wire_of(both.client.request(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=FILTER)))
    assert isinstance(raw["params"], dict)
    event = both.server.receive(Request(id, "subscriptions/listen", raw["params"])).event
    assert isinstance(event, RequestReceived)
    messages = [both.server.acknowledge(id), *both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED)]
    for message in messages:
        params = wire_of(message)["params"]
        assert isinstance(params, dict)
        assert isinstance(params["_meta"], dict)
        found = params["_meta"][SUBSCRIPTION_ID]
        assert (found, type(found)) == (id, type(id))


@pytest.mark.spec("subscription.ack-subset", "subscription.unsupported-not-acked")
def test_what_is_granted_is_asked_for_and_offered() -> None:
    tools_only = t.ServerCapabilities(
        tools=t.ToolsCapability(list_changed=True), resources=t.ResourcesCapability(), prompts=t.PromptsCapability()
    )
    both = pair(R2026_07_28, make_server(R2026_07_28, capabilities=tools_only)).open()
    listen(both, FILTER)
    assert granted(both) == t.SubscriptionFilter(tools_list_changed=True)
    listen(both, t.SubscriptionFilter(prompts_list_changed=True))
    assert granted(both) == t.SubscriptionFilter()


@pytest.mark.spec("subscription.ack-subset")
def test_a_server_may_grant_less_and_never_more() -> None:
    both = opened(R2026_07_28)
    listen(both, t.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=("a:1", "a:2")), FILTER)
    assert granted(both) == t.SubscriptionFilter(tools_list_changed=True)
    listen(
        both, t.evolve(FILTER, resource_subscriptions=(URI, "a:1")), t.SubscriptionFilter(resource_subscriptions=(URI,))
    )
    assert granted(both) == t.SubscriptionFilter(resource_subscriptions=(URI,))


@pytest.mark.spec("subscription.only-requested-uris", "subscription.resource-updated-uri")
@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("file:///a", True),
        ("file:///a/b", True),
        ("file:///a/b/c", True),
        ("file:///dir/x", True),
        ("file:///dir", False),
        ("file:///ab", False),
        ("file:///b", False),
        ("file:///", False),
        ("", False),
        ("/", False),
        ("a", False),
        ("file:///a" + "/" * 1_000, True),
        ("file:///dir" + "/b" * 1_000, True),
        ("file:///b" + "/b" * 1_000, False),
        ("file:///ab" + "/b" * 1_000, False),
    ],
)
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
def test_watching_a_resource_covers_what_is_below_it(uri: str, told: bool, revision: Revision) -> None:
    both = opened(revision)
    if revision is R2026_07_28:
        listen(both, t.SubscriptionFilter(resource_subscriptions=("file:///a", "file:///dir/")))
    else:
        for watch in ("file:///a", "file:///dir/"):
            both.respond(both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri=watch)).id, t.EmptyResult())
    assert bool(both.server.publish(m.NOTIFICATIONS_RESOURCES_UPDATED, updated(uri))) is told


@pytest.mark.spec("subscription.multiple-concurrent", "subscription.server-multiple-concurrent")
@pytest.mark.spec("subscription.client-demux-stdio", "subscription.server-stops-after-cancel")
@pytest.mark.spec("subscription.client-cancel-stdio")
def test_several_subscriptions_live_side_by_side_and_end_one_by_one() -> None:
    both = opened(R2026_07_28)
    first = listen(both, FILTER)
    second = listen(both, t.SubscriptionFilter(tools_list_changed=True))
    third = listen(both, t.SubscriptionFilter(prompts_list_changed=True))

    def told() -> list[RequestId | None]:
        messages = both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED)
        before = len(both.client_events)
        both.send(Side.SERVER, *messages)
        both.run()
        return [event.subscription for event in both.client_events[before:] if isinstance(event, NotificationReceived)]

    assert told() == [first, second]
    both.send(Side.CLIENT, both.client.cancel(first))
    both.run()
    assert told() == [second]
    assert list(both.server.subscriptions) == [second, third]
    # Its handler ends; there is nothing left to say.
    assert both.server.finish(first) == ()
    both.send(Side.SERVER, *both.server.finish(second))
    both.run()
    assert told() == []
    assert list(both.server.subscriptions) == [third]


@pytest.mark.spec(
    "subscription.graceful-result", "subscription.graceful-result-shape", "subscription.clean-close-no-error"
)
@pytest.mark.spec("subscription.server-cancelled-on-teardown", "cancellation.server-references-listen")
@pytest.mark.spec("cancellation.server-only-for-listen")
def test_a_server_ends_a_subscription_with_a_result_and_a_cancellation() -> None:
    both = opened(R2026_07_28)
    id = listen(both, FILTER)
    answer, cancellation = both.server.finish(id)
    result = wire_of(answer)["result"]
    assert isinstance(result, dict)
    assert result["resultType"] == "complete"
    assert isinstance(result["_meta"], dict)
    assert result["_meta"][SUBSCRIPTION_ID] == id
    assert wire_of(cancellation)["params"] == {"requestId": id}
    assert answer.for_request == cancellation.for_request == id
    assert list(both.server.inbound_requests) == []
    both.send(Side.SERVER, answer, cancellation)
    both.run()
    answered, ignored = both.client_events[-2:]
    assert isinstance(answered, ResultReceived)
    assert isinstance(answered.result, t.SubscriptionsListenResult)
    assert isinstance(ignored, MessageIgnored)
    assert both.client.outbound_requests == {}


def test_a_cancellation_alone_ends_a_subscription_too() -> None:
    both = opened(R2026_07_28)
    id = listen(both, FILTER)
    event = both.client.receive(Notification("notifications/cancelled", {"requestId": id})).event
    assert isinstance(event, ResultReceived)
    assert (event.id, event.result) == (id, None)
    assert both.client.outbound_requests == {}
    late = both.client.receive(ResultResponse(id, {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: id}})).event
    assert isinstance(late, MessageIgnored)


def test_a_server_cannot_cancel_other_requests_of_a_client() -> None:
    both = opened(R2026_07_28)
    id = both.call(m.TOOLS_CALL).id
    event = both.client.receive(Notification("notifications/cancelled", {"requestId": id})).event
    assert isinstance(event, MessageIgnored)
    assert both.client.outbound_requests == {id: "tools/call"}


@pytest.mark.parametrize("way", ["respond", "fail", "withdraw"])
def test_however_a_subscription_ends_nobody_is_told_after_it(way: str) -> None:
    both = opened(R2026_07_28)
    id = listen(both, FILTER)
    if way == "respond":
        both.respond(id, t.SubscriptionsListenResult())
        assert both.wire[-1].message["result"]["_meta"][SUBSCRIPTION_ID] == id  # type: ignore[index,call-overload]  # objects
    elif way == "fail":
        both.server.fail(id, RequestFailed("no"))
    else:
        both.server.withdraw(id)
    assert list(both.server.subscriptions) == []
    assert both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED) == ()


def test_a_subscription_that_was_cancelled_is_not_acknowledged() -> None:
    both = opened(R2026_07_28)
    id = both.call(m.SUBSCRIPTIONS_LISTEN).id
    both.send(Side.CLIENT, both.client.cancel(id))
    both.run()
    assert both.server.acknowledge(id) is None
    assert list(both.server.subscriptions) == []


@pytest.mark.spec("logging.request-scoped", "subscription.only-requested-types")
def test_the_stream_of_a_subscription_has_notices_only() -> None:
    both = pair(make_client(R2026_07_28, log_level="debug"), make_server(R2026_07_28)).open()
    params = t.SubscriptionsListenRequestParams(notifications=FILTER)
    id = both.call(m.SUBSCRIPTIONS_LISTEN, params, progress=True).id
    with pytest.raises(LocalProtocolError, match="no progress"):
        both.server.progress(id, 1)
    with pytest.raises(LocalProtocolError, match="no log messages"):
        both.server.log("error", 1, for_request=id)


def test_other_requests_are_no_subscriptions() -> None:
    both = opened(R2026_07_28)
    id = both.call(m.TOOLS_CALL).id
    with pytest.raises(LocalProtocolError, match="not a subscription"):
        both.server.acknowledge(id)
    with pytest.raises(LocalProtocolError, match="not a subscription"):
        both.server.finish(id)
    assert both.server.respond(id, RESULTS[m.TOOLS_CALL]) is not None


@pytest.mark.spec("subscription.filter-missing-invalid", "subscription.filter-required")
def test_a_subscription_without_a_filter_is_refused() -> None:
    both = opened(R2026_07_28)
    raw = wire_of(both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams()))["params"]
    assert isinstance(raw, dict)
    code, message, _ = error_of(both.server.receive(Request(9, "subscriptions/listen", raw)))
    assert code == ErrorCode.INVALID_PARAMS
    assert "subscriptions/listen" in message


@pytest.mark.spec("subscription.no-state-across-connections", "subscription.resubscribe-new-connection")
def test_a_new_connection_knows_nothing_of_old_subscriptions() -> None:
    listen(opened(R2026_07_28), FILTER)
    assert opened(R2026_07_28).server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED) == ()


@pytest.mark.spec("subscription.no-unsubscribed-notifications")
def test_without_a_subscription_a_modern_client_is_told_nothing() -> None:
    both = opened(R2026_07_28)
    both.call(m.TOOLS_CALL)
    for row in ROWS:
        assert both.server.publish(row, NOTICES[row]) == ()


def test_what_is_no_change_is_not_published() -> None:
    for revision in (R2025_11_25, R2026_07_28):
        both = opened(revision)
        for row in (m.NOTIFICATIONS_MESSAGE, m.NOTIFICATIONS_ELICITATION_COMPLETE, m.NOTIFICATIONS_CANCELLED):
            with pytest.raises(LocalProtocolError, match="not a change notification"):
                both.server.publish(row, NOTICES[row])


# --- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.listen-filter", "tasks.listen-undeclared-32021")
def test_tasks_are_watched_by_clients_that_know_them() -> None:
    client = make_client(R2026_07_28, capabilities=NOTHING_DECLARED)
    both = pair(client, make_server(R2026_07_28)).open()
    wanted = t.SubscriptionsListenRequestParams(notifications=t.SubscriptionFilter(task_ids=("t",)))
    both.send(Side.CLIENT, client.request(m.SUBSCRIPTIONS_LISTEN, wanted))
    code, _, data = error_of(both.deliver(Side.SERVER))
    assert code == ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert data == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    assert list(both.server.inbound_requests) == []


def test_a_server_without_tasks_grants_none() -> None:
    offered = t.evolve(EVERYTHING_OFFERED, extensions=None)
    both = pair(make_client(R2026_07_28, capabilities=NOTHING_DECLARED), make_server(R2026_07_28, capabilities=offered))
    both.open()
    listen(both, t.SubscriptionFilter(task_ids=("t",), tools_list_changed=True))
    assert granted(both) == t.SubscriptionFilter(tools_list_changed=True)


@pytest.mark.spec("tasks.listen-only-requested")
def test_tasks_are_told_apart() -> None:
    both = opened(R2026_07_28)
    listen(both, t.SubscriptionFilter(task_ids=("other",)))
    assert both.server.publish(m.NOTIFICATIONS_TASKS, NOTICES[m.NOTIFICATIONS_TASKS]) == ()


# --- the subscribe pair -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_a_session_is_told_of_lists_always_and_of_resources_that_it_subscribed_to(revision: Revision) -> None:
    both = opened(revision)

    def told() -> list[str]:
        return [row.name.rpartition("/")[0] for row in ROWS if both.server.publish(row, NOTICES[row])]

    lists = ["notifications/tools", "notifications/prompts", "notifications/resources"]
    assert told() == lists
    request = both.call(m.RESOURCES_SUBSCRIBE)
    assert told() == lists
    both.respond(request.id, t.EmptyResult())
    assert told() == [*lists, "notifications/resources"]
    both.respond(both.call(m.RESOURCES_UNSUBSCRIBE).id, t.EmptyResult())
    assert told() == lists
    both.respond(both.call(m.RESOURCES_UNSUBSCRIBE).id, t.EmptyResult())
    both.send(Side.SERVER, *both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED))
    both.run()
    event = last(both.client_events, NotificationReceived)
    assert event.subscription is None
    assert event.notes == ()


def test_a_subscription_that_is_refused_watches_nothing() -> None:
    both = opened(R2025_11_25)
    both.server.fail(both.call(m.RESOURCES_SUBSCRIBE).id, RequestFailed("no"))
    assert both.server.publish(m.NOTIFICATIONS_RESOURCES_UPDATED, updated(URI)) == ()


# --- the limit --------------------------------------------------------------------------------------------------------


def test_a_connection_watches_only_so_many_resources_by_the_subscribe_pair() -> None:
    server = make_server(R2025_11_25, limits=Limits(watched_resources=2))
    both = pair(R2025_11_25, server).open()
    for uri in ("a:1", "a:2"):
        both.respond(both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri=uri)).id, t.EmptyResult())
    refused = server.receive(Request("x", "resources/subscribe", {"uri": "a:3"}))
    code, message, _ = error_of(refused)
    assert code == ErrorCode.INVALID_REQUEST
    assert "Limits.watched_resources" in message
    assert "x" not in server.inbound_requests
    # What is watched already needs no room.
    both.respond(both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri="a:2")).id, t.EmptyResult())
    both.respond(both.call(m.RESOURCES_UNSUBSCRIBE, t.UnsubscribeRequestParams(uri="a:2")).id, t.EmptyResult())
    event = server.receive(Request("x", "resources/subscribe", {"uri": "a:3"})).event
    assert isinstance(event, RequestReceived)


def test_the_room_is_looked_at_again_when_the_answer_is_given() -> None:
    server = make_server(R2025_11_25, limits=Limits(watched_resources=1))
    both = pair(R2025_11_25, server).open()
    first = both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri="a:1")).id
    second = both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri="a:2")).id
    server.respond(first, t.EmptyResult())
    with pytest.raises(LimitExceeded):
        server.respond(second, t.EmptyResult())
    assert list(server.inbound_requests) == [second]
    assert server.fail(second, RequestFailed("full")) is not None


def test_a_connection_watches_only_so_many_resources_by_subscriptions() -> None:
    server = make_server(R2026_07_28, limits=Limits(watched_resources=2))
    both = pair(R2026_07_28, server).open()
    many = t.SubscriptionsListenRequestParams(
        notifications=t.SubscriptionFilter(resource_subscriptions=("a", "b", "c"))
    )
    both.send(Side.CLIENT, both.client.request(m.SUBSCRIPTIONS_LISTEN, many))
    code, message, _ = error_of(both.deliver(Side.SERVER))
    assert code == ErrorCode.INVALID_REQUEST
    assert "3 is over the limit of 2" in message
    assert list(server.inbound_requests) == []
    pair_of = t.SubscriptionFilter(resource_subscriptions=("a", "b"))
    first = both.call(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=pair_of)).id
    second = both.call(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=pair_of)).id
    server.acknowledge(first)
    with pytest.raises(LimitExceeded) as full:
        server.acknowledge(second)
    assert (full.value.observed, full.value.allowed) == (4, 2)
    server.finish(first)
    assert server.acknowledge(second) is not None


def test_notices_of_lists_need_no_room() -> None:
    interests = SubscriptionRegistry(Limits(watched_resources=0))
    wanted = t.SubscriptionFilter(tools_list_changed=True)
    interests.listen("x", wanted)
    assert interests.listening == ("x",)
    assert watched(wanted) == 0
    assert watched(t.SubscriptionFilter(resource_subscriptions=("a", "b"), task_ids=("c",))) == 3
    interests.end("never")


def test_unknown_members_of_a_filter_do_no_harm() -> None:
    both = opened(R2026_07_28)
    extra: JsonObject = {"weatherChanged": True}
    listen(both, t.SubscriptionFilter(tools_list_changed=True, extra=extra))
    assert granted(both) == t.SubscriptionFilter(tools_list_changed=True)
