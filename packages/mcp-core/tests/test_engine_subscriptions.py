"""Change notifications: `resources/subscribe`, `subscriptions/listen`, and the subscriptions that receive a change."""

from __future__ import annotations

from typing import Final

import attrs
import pytest
from engine_pair import (
    ALL_SERVER_CAPABILITIES,
    FILTER,
    NO_CLIENT_CAPABILITIES,
    NOTIFICATION_PARAMS,
    RESULTS,
    URI,
    ConnectionPair,
    get_error,
    get_last_event,
    make_client,
    make_server,
    open_pair,
    pair,
    to_wire,
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
CHANGE_NOTIFICATIONS: Final = [row for row, _ in CHANGES]
TOOLS_CHANGED: Final = t.ToolListChangedNotificationParams()


def listen(
    both: ConnectionPair, filter_: t.SubscriptionFilter, at_most: t.SubscriptionFilter | None = None
) -> RequestId:
    id = both.call(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=filter_)).id
    both.send(Side.SERVER, both.server.acknowledge(id, at_most))
    both.run()
    return id


def resource_updated(uri: str) -> t.ResourceUpdatedNotificationParams:
    return t.ResourceUpdatedNotificationParams(uri=uri)


def get_granted_filter(both: ConnectionPair) -> t.SubscriptionFilter:
    params = get_last_event(both.client_events, NotificationReceived).params
    assert isinstance(params, t.SubscriptionsAcknowledgedNotificationParams)
    return params.notifications


# --- subscriptions/listen ---------------------------------------------------------------------------------------------


@pytest.mark.spec("subscription.only-requested-types", "subscription.omitted-is-false", "subscription.stays-open")
@pytest.mark.spec(
    "subscription.tools-list-changed", "subscription.prompts-list-changed", "subscription.resource-updated"
)
@pytest.mark.spec("subscription.resources-list-changed", "subscription.filter-fields")
@pytest.mark.parametrize(("row", "filter_"), CHANGES, ids=[row.name for row in CHANGE_NOTIFICATIONS])
def test_subscription_receives_only_requested_notifications(
    row: NotificationMethod[object], filter_: t.SubscriptionFilter
) -> None:
    both = open_pair(R2026_07_28)
    id = listen(both, filter_)
    published = [each for each in CHANGE_NOTIFICATIONS if both.server.publish(each, NOTIFICATION_PARAMS[each])]
    assert published == [row]
    both.send(Side.SERVER, *both.server.publish(row, NOTIFICATION_PARAMS[row]))
    both.run()
    event = get_last_event(both.client_events, NotificationReceived)
    assert event.definition is row
    assert event.subscription == id
    assert event.notes == ()
    assert list(both.server.inbound_requests) == [id]


@pytest.mark.spec("subscription.ack-first", "subscription.nothing-before-ack", "subscription.ack-tagged")
@pytest.mark.spec("subscription.ack-filter", "subscription.id-equals-request-id")
def test_acknowledgment_precedes_notifications() -> None:
    both = open_pair(R2026_07_28)
    params = t.SubscriptionsListenRequestParams(notifications=FILTER)
    id = both.call(m.SUBSCRIPTIONS_LISTEN, params).id
    assert list(both.server.subscriptions) == []
    assert both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED) == ()
    for command in (lambda: both.server.finish(id), lambda: both.server.respond(id, t.SubscriptionsListenResult())):
        with pytest.raises(LocalProtocolError, match="acknowledged"):
            command()
    outgoing = both.server.acknowledge(id)
    assert to_wire(outgoing)["params"] == {
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
def test_subscription_id_equals_request_id_in_type_and_value(id: RequestId) -> None:
    both = open_pair(R2026_07_28)
    raw = to_wire(both.client.request(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=FILTER)))
    assert isinstance(raw["params"], dict)
    event = both.server.receive(Request(id, "subscriptions/listen", raw["params"])).event
    assert isinstance(event, RequestReceived)
    messages = [both.server.acknowledge(id), *both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED)]
    for message in messages:
        params = to_wire(message)["params"]
        assert isinstance(params, dict)
        assert isinstance(params["_meta"], dict)
        found = params["_meta"][SUBSCRIPTION_ID]
        assert (found, type(found)) == (id, type(id))


@pytest.mark.spec("subscription.ack-subset", "subscription.unsupported-not-acked")
def test_granted_filter_limited_to_request_and_capabilities() -> None:
    tools_only = t.ServerCapabilities(
        tools=t.ToolsCapability(list_changed=True), resources=t.ResourcesCapability(), prompts=t.PromptsCapability()
    )
    both = pair(R2026_07_28, make_server(R2026_07_28, capabilities=tools_only)).open()
    listen(both, FILTER)
    assert get_granted_filter(both) == t.SubscriptionFilter(tools_list_changed=True)
    listen(both, t.SubscriptionFilter(prompts_list_changed=True))
    assert get_granted_filter(both) == t.SubscriptionFilter()


@pytest.mark.spec("subscription.ack-subset")
def test_granted_filter_limited_by_server() -> None:
    both = open_pair(R2026_07_28)
    listen(both, t.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=("a:1", "a:2")), FILTER)
    assert get_granted_filter(both) == t.SubscriptionFilter(tools_list_changed=True)
    listen(
        both,
        attrs.evolve(FILTER, resource_subscriptions=(URI, "a:1")),
        t.SubscriptionFilter(resource_subscriptions=(URI,)),
    )
    assert get_granted_filter(both) == t.SubscriptionFilter(resource_subscriptions=(URI,))


@pytest.mark.spec("subscription.only-requested-uris", "subscription.resource-updated-uri")
@pytest.mark.parametrize(
    ("uri", "is_covered"),
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
def test_resource_subscription_covers_resources_below(uri: str, is_covered: bool, revision: Revision) -> None:
    both = open_pair(revision)
    if revision is R2026_07_28:
        listen(both, t.SubscriptionFilter(resource_subscriptions=("file:///a", "file:///dir/")))
    else:
        for subscribed in ("file:///a", "file:///dir/"):
            both.respond(both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri=subscribed)).id, t.EmptyResult())
    assert bool(both.server.publish(m.NOTIFICATIONS_RESOURCES_UPDATED, resource_updated(uri))) is is_covered


@pytest.mark.spec("subscription.multiple-concurrent", "subscription.server-multiple-concurrent")
@pytest.mark.spec("subscription.client-demux-stdio", "subscription.server-stops-after-cancel")
@pytest.mark.spec("subscription.client-cancel-stdio")
def test_concurrent_subscriptions_end_independently() -> None:
    both = open_pair(R2026_07_28)
    first = listen(both, FILTER)
    second = listen(both, t.SubscriptionFilter(tools_list_changed=True))
    third = listen(both, t.SubscriptionFilter(prompts_list_changed=True))

    def get_notified() -> list[RequestId | None]:
        messages = both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED)
        before = len(both.client_events)
        both.send(Side.SERVER, *messages)
        both.run()
        return [event.subscription for event in both.client_events[before:] if isinstance(event, NotificationReceived)]

    assert get_notified() == [first, second]
    both.send(Side.CLIENT, both.client.cancel(first))
    both.run()
    assert get_notified() == [second]
    assert list(both.server.subscriptions) == [second, third]
    # When its handler ends, there is no message to send.
    assert both.server.finish(first) == ()
    both.send(Side.SERVER, *both.server.finish(second))
    both.run()
    assert get_notified() == []
    assert list(both.server.subscriptions) == [third]


@pytest.mark.spec(
    "subscription.graceful-result", "subscription.graceful-result-shape", "subscription.clean-close-no-error"
)
@pytest.mark.spec("subscription.server-cancelled-on-teardown", "cancellation.server-references-listen")
@pytest.mark.spec("cancellation.server-only-for-listen")
def test_server_ends_subscription_with_result_and_cancellation() -> None:
    both = open_pair(R2026_07_28)
    id = listen(both, FILTER)
    answer, cancellation = both.server.finish(id)
    result = to_wire(answer)["result"]
    assert isinstance(result, dict)
    assert result["resultType"] == "complete"
    assert isinstance(result["_meta"], dict)
    assert result["_meta"][SUBSCRIPTION_ID] == id
    assert to_wire(cancellation)["params"] == {"requestId": id}
    assert answer.for_request == cancellation.for_request == id
    assert list(both.server.inbound_requests) == []
    both.send(Side.SERVER, answer, cancellation)
    both.run()
    answered, ignored = both.client_events[-2:]
    assert isinstance(answered, ResultReceived)
    assert isinstance(answered.result, t.SubscriptionsListenResult)
    assert isinstance(ignored, MessageIgnored)
    assert both.client.outbound_requests == {}


def test_cancellation_alone_ends_subscription() -> None:
    both = open_pair(R2026_07_28)
    id = listen(both, FILTER)
    event = both.client.receive(Notification("notifications/cancelled", {"requestId": id})).event
    assert isinstance(event, ResultReceived)
    assert (event.id, event.result) == (id, None)
    assert both.client.outbound_requests == {}
    late = both.client.receive(ResultResponse(id, {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: id}})).event
    assert isinstance(late, MessageIgnored)


def test_server_cancellation_of_other_request_ignored() -> None:
    both = open_pair(R2026_07_28)
    id = both.call(m.TOOLS_CALL).id
    event = both.client.receive(Notification("notifications/cancelled", {"requestId": id})).event
    assert isinstance(event, MessageIgnored)
    assert both.client.outbound_requests == {id: "tools/call"}


@pytest.mark.parametrize("ending", ["respond", "fail", "withdraw"])
def test_ended_subscription_receives_no_notifications(ending: str) -> None:
    both = open_pair(R2026_07_28)
    id = listen(both, FILTER)
    if ending == "respond":
        both.respond(id, t.SubscriptionsListenResult())
        assert both.wire[-1].message["result"]["_meta"][SUBSCRIPTION_ID] == id  # type: ignore[index,call-overload]  # objects
    elif ending == "fail":
        both.server.fail(id, RequestFailed("no"))
    else:
        both.server.withdraw(id)
    assert list(both.server.subscriptions) == []
    assert both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED) == ()


def test_cancelled_subscription_not_acknowledged() -> None:
    both = open_pair(R2026_07_28)
    id = both.call(m.SUBSCRIPTIONS_LISTEN).id
    both.send(Side.CLIENT, both.client.cancel(id))
    both.run()
    assert both.server.acknowledge(id) is None
    assert list(both.server.subscriptions) == []


@pytest.mark.spec("logging.request-scoped", "subscription.only-requested-types")
def test_subscription_progress_and_log_messages_raise() -> None:
    both = pair(make_client(R2026_07_28, log_level="debug"), make_server(R2026_07_28)).open()
    params = t.SubscriptionsListenRequestParams(notifications=FILTER)
    id = both.call(m.SUBSCRIPTIONS_LISTEN, params, progress=True).id
    with pytest.raises(LocalProtocolError, match="no progress"):
        both.server.progress(id, 1)
    with pytest.raises(LocalProtocolError, match="no log messages"):
        both.server.log("error", 1, for_request=id)


def test_acknowledge_request_without_subscription_raises() -> None:
    both = open_pair(R2026_07_28)
    id = both.call(m.TOOLS_CALL).id
    with pytest.raises(LocalProtocolError, match="not a subscription"):
        both.server.acknowledge(id)
    with pytest.raises(LocalProtocolError, match="not a subscription"):
        both.server.finish(id)
    assert both.server.respond(id, RESULTS[m.TOOLS_CALL]) is not None


@pytest.mark.spec("subscription.filter-missing-invalid", "subscription.filter-required")
def test_subscription_without_filter_rejected() -> None:
    both = open_pair(R2026_07_28)
    raw = to_wire(both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams()))["params"]
    assert isinstance(raw, dict)
    code, message, _ = get_error(both.server.receive(Request(9, "subscriptions/listen", raw)))
    assert code == ErrorCode.INVALID_PARAMS
    assert "subscriptions/listen" in message


@pytest.mark.spec("subscription.no-state-across-connections", "subscription.resubscribe-new-connection")
def test_subscriptions_limited_to_connection() -> None:
    listen(open_pair(R2026_07_28), FILTER)
    assert open_pair(R2026_07_28).server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED) == ()


@pytest.mark.spec("subscription.no-unsubscribed-notifications")
def test_modern_client_without_subscription_receives_no_changes() -> None:
    both = open_pair(R2026_07_28)
    both.call(m.TOOLS_CALL)
    for row in CHANGE_NOTIFICATIONS:
        assert both.server.publish(row, NOTIFICATION_PARAMS[row]) == ()


def test_publish_other_notification_raises() -> None:
    for revision in (R2025_11_25, R2026_07_28):
        both = open_pair(revision)
        for row in (m.NOTIFICATIONS_MESSAGE, m.NOTIFICATIONS_ELICITATION_COMPLETE, m.NOTIFICATIONS_CANCELLED):
            with pytest.raises(LocalProtocolError, match="not a change notification"):
                both.server.publish(row, NOTIFICATION_PARAMS[row])


# --- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.listen-filter", "tasks.listen-undeclared-32021")
def test_task_subscription_without_extension_rejected() -> None:
    client = make_client(R2026_07_28, capabilities=NO_CLIENT_CAPABILITIES)
    both = pair(client, make_server(R2026_07_28)).open()
    params = t.SubscriptionsListenRequestParams(notifications=t.SubscriptionFilter(task_ids=("t",)))
    both.send(Side.CLIENT, client.request(m.SUBSCRIPTIONS_LISTEN, params))
    code, _, data = get_error(both.deliver(Side.SERVER))
    assert code == ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert data == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    assert list(both.server.inbound_requests) == []


def test_task_subscription_server_without_tasks_not_granted() -> None:
    offered = attrs.evolve(ALL_SERVER_CAPABILITIES, extensions=None)
    both = pair(
        make_client(R2026_07_28, capabilities=NO_CLIENT_CAPABILITIES), make_server(R2026_07_28, capabilities=offered)
    )
    both.open()
    listen(both, t.SubscriptionFilter(task_ids=("t",), tools_list_changed=True))
    assert get_granted_filter(both) == t.SubscriptionFilter(tools_list_changed=True)


@pytest.mark.spec("tasks.listen-only-requested")
def test_task_subscription_filtered_by_task_id() -> None:
    both = open_pair(R2026_07_28)
    listen(both, t.SubscriptionFilter(task_ids=("other",)))
    assert both.server.publish(m.NOTIFICATIONS_TASKS, NOTIFICATION_PARAMS[m.NOTIFICATIONS_TASKS]) == ()


# --- resources/subscribe ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_session_receives_list_changes_and_subscribed_resources(revision: Revision) -> None:
    both = open_pair(revision)

    def get_published() -> list[str]:
        return [
            row.name.rpartition("/")[0]
            for row in CHANGE_NOTIFICATIONS
            if both.server.publish(row, NOTIFICATION_PARAMS[row])
        ]

    lists = ["notifications/tools", "notifications/prompts", "notifications/resources"]
    assert get_published() == lists
    request = both.call(m.RESOURCES_SUBSCRIBE)
    assert get_published() == lists
    both.respond(request.id, t.EmptyResult())
    assert get_published() == [*lists, "notifications/resources"]
    both.respond(both.call(m.RESOURCES_UNSUBSCRIBE).id, t.EmptyResult())
    assert get_published() == lists
    both.respond(both.call(m.RESOURCES_UNSUBSCRIBE).id, t.EmptyResult())
    both.send(Side.SERVER, *both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, TOOLS_CHANGED))
    both.run()
    event = get_last_event(both.client_events, NotificationReceived)
    assert event.subscription is None
    assert event.notes == ()


def test_rejected_resource_subscription_receives_nothing() -> None:
    both = open_pair(R2025_11_25)
    both.server.fail(both.call(m.RESOURCES_SUBSCRIBE).id, RequestFailed("no"))
    assert both.server.publish(m.NOTIFICATIONS_RESOURCES_UPDATED, resource_updated(URI)) == ()


# --- limits -----------------------------------------------------------------------------------------------------------


def test_resource_subscriptions_over_limit_rejected() -> None:
    server = make_server(R2025_11_25, limits=Limits(watched_resources=2))
    both = pair(R2025_11_25, server).open()
    for uri in ("a:1", "a:2"):
        both.respond(both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri=uri)).id, t.EmptyResult())
    rejection = server.receive(Request("x", "resources/subscribe", {"uri": "a:3"}))
    code, message, _ = get_error(rejection)
    assert code == ErrorCode.INVALID_REQUEST
    assert "Limits.watched_resources" in message
    assert "x" not in server.inbound_requests
    # A repeated subscription to the same resource does not count.
    both.respond(both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri="a:2")).id, t.EmptyResult())
    both.respond(both.call(m.RESOURCES_UNSUBSCRIBE, t.UnsubscribeRequestParams(uri="a:2")).id, t.EmptyResult())
    event = server.receive(Request("x", "resources/subscribe", {"uri": "a:3"})).event
    assert isinstance(event, RequestReceived)


def test_resource_subscription_limit_checked_again_on_response() -> None:
    server = make_server(R2025_11_25, limits=Limits(watched_resources=1))
    both = pair(R2025_11_25, server).open()
    first = both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri="a:1")).id
    second = both.call(m.RESOURCES_SUBSCRIBE, t.SubscribeRequestParams(uri="a:2")).id
    server.respond(first, t.EmptyResult())
    with pytest.raises(LimitExceeded):
        server.respond(second, t.EmptyResult())
    assert list(server.inbound_requests) == [second]
    assert server.fail(second, RequestFailed("full")) is not None


def test_subscription_filters_over_limit_rejected() -> None:
    server = make_server(R2026_07_28, limits=Limits(watched_resources=2))
    both = pair(R2026_07_28, server).open()
    many = t.SubscriptionsListenRequestParams(
        notifications=t.SubscriptionFilter(resource_subscriptions=("a", "b", "c"))
    )
    both.send(Side.CLIENT, both.client.request(m.SUBSCRIPTIONS_LISTEN, many))
    code, message, _ = get_error(both.deliver(Side.SERVER))
    assert code == ErrorCode.INVALID_REQUEST
    assert "3 is over the limit of 2" in message
    assert list(server.inbound_requests) == []
    two_resources = t.SubscriptionFilter(resource_subscriptions=("a", "b"))
    first = both.call(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=two_resources)).id
    second = both.call(m.SUBSCRIPTIONS_LISTEN, t.SubscriptionsListenRequestParams(notifications=two_resources)).id
    server.acknowledge(first)
    with pytest.raises(LimitExceeded) as full:
        server.acknowledge(second)
    assert (full.value.observed, full.value.allowed) == (4, 2)
    server.finish(first)
    assert server.acknowledge(second) is not None


def test_list_subscriptions_do_not_count_toward_limit() -> None:
    interests = SubscriptionRegistry(Limits(watched_resources=0))
    filter_ = t.SubscriptionFilter(tools_list_changed=True)
    interests.listen("x", filter_)
    assert interests.listening == ("x",)
    assert watched(filter_) == 0
    assert watched(t.SubscriptionFilter(resource_subscriptions=("a", "b"), task_ids=("c",))) == 3
    interests.end("never")


def test_unknown_filter_members_ignored() -> None:
    both = open_pair(R2026_07_28)
    extra: JsonObject = {"weatherChanged": True}
    listen(both, t.SubscriptionFilter(tools_list_changed=True, extra=extra))
    assert get_granted_filter(both) == t.SubscriptionFilter(tools_list_changed=True)
