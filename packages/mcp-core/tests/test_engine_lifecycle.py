"""The states of a legacy session."""

from __future__ import annotations

import pytest
from engine_pair import from_wire, get_error, get_last_event, make_client, make_server, open_pair, pair

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.events import (
    ConnectionOpened,
    MessageIgnored,
    NotificationReceived,
    RequestHandled,
    RequestReceived,
)
from mcp_core.engine.lifecycle import RULES, Kind, Lifecycle, State, Strength, Violation
from mcp_core.errors import ErrorCode, LocalProtocolError
from mcp_core.jsonrpc.messages import Notification, Request, ResultResponse
from mcp_core.methods import Side
from mcp_core.revisions import LEGACY, R2025_06_18, R2025_11_25, R2026_07_28, Revision

A, I, W, O, C = State.AWAITING, State.INITIALIZING, State.ANSWERED, State.OPERATING, State.CLOSED  # noqa: E741
SHOULD_NOT = "should not"

# Written from the specification page on the lifecycle: state and kind, next state, and whether the kind is only
# tolerated. Other combinations must not occur.
ALLOWED: dict[tuple[State, Kind], tuple[State, str]] = {
    (A, Kind.INITIALIZE): (I, ""),
    (A, Kind.PING): (A, ""),
    (A, Kind.NOTIFICATION): (A, SHOULD_NOT),
    (I, Kind.INITIALIZE_RESULT): (W, ""),
    (I, Kind.INITIALIZE_ERROR): (A, ""),
    (I, Kind.PING): (I, ""),
    (I, Kind.LOG): (I, ""),
    (I, Kind.NOTIFICATION): (I, SHOULD_NOT),
    # The specification does not mention a second handshake; bridges that reuse one stream for several clients need it.
    (W, Kind.INITIALIZE): (I, SHOULD_NOT),
    (W, Kind.INITIALIZED): (O, ""),
    (W, Kind.PING): (W, ""),
    (W, Kind.LOG): (W, ""),
    (W, Kind.NOTIFICATION): (W, ""),
    (W, Kind.CLIENT_REQUEST): (W, SHOULD_NOT),
    (W, Kind.SERVER_REQUEST): (W, SHOULD_NOT),
    (O, Kind.CLIENT_REQUEST): (O, ""),
    (O, Kind.SERVER_REQUEST): (O, ""),
    (O, Kind.PING): (O, ""),
    (O, Kind.LOG): (O, ""),
    (O, Kind.NOTIFICATION): (O, ""),
    (O, Kind.INITIALIZED): (O, SHOULD_NOT),
    (O, Kind.INITIALIZE): (I, SHOULD_NOT),
}

initialize = Request(
    0,
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
)


@pytest.mark.spec("lifecycle.initialize-first")
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", Kind)
def test_peer_must_not_violation_rejected_should_not_noted(state: State, kind: Kind) -> None:
    lifecycle = Lifecycle(state)
    allowed = ALLOWED.get((state, kind))
    if allowed is None:
        with pytest.raises(Violation) as caught:
            lifecycle.receive(kind)
        assert caught.value.code == ErrorCode.INVALID_REQUEST
        assert kind.value in caught.value.message
        assert lifecycle.state is state
    else:
        note = lifecycle.receive(kind)
        assert lifecycle.state is allowed[0]
        assert (note is None) == (allowed[1] == "")
        assert note is None or (kind.value in note and state.value in note)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", Kind)
def test_local_should_not_violation_raises(state: State, kind: Kind) -> None:
    lifecycle = Lifecycle(state)
    allowed = ALLOWED.get((state, kind))
    if allowed is None or allowed[1] == SHOULD_NOT:
        with pytest.raises(LocalProtocolError, match=kind.value) as caught:
            lifecycle.send(kind)
        assert caught.value.anchor == "basic/lifecycle"
        assert lifecycle.state is state
    else:
        lifecycle.send(kind)
        assert lifecycle.state is allowed[0]


def test_lifecycle_rules_equal_specification() -> None:
    found = {
        (state, kind): (rule.then, SHOULD_NOT if rule.strength is Strength.SHOULD_NOT else "")
        for state, rules in RULES.items()
        for kind, rule in rules.items()
    }
    assert found == ALLOWED


def test_closed_lifecycle_stays_closed() -> None:
    lifecycle = Lifecycle(O)
    lifecycle.close()
    assert lifecycle.state is C


@pytest.mark.spec("lifecycle.client-sends-initialize", "lifecycle.server-initialize-result")
@pytest.mark.spec("lifecycle.initialized-notification", "jsonrpc.base-and-lifecycle-support")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_session_opened_by_three_messages(revision: Revision) -> None:
    client = make_client(revision)
    server = make_server(revision, instructions="be kind")
    both = pair(client, server)
    assert [client.session, server.session, client.server] == [None, None, None]
    both.open()
    assert [(sent.sender, sent.message.get("method"), sent.message.get("id")) for sent in both.wire] == [
        (Side.CLIENT, "initialize", 1),
        (Side.SERVER, None, 1),
        (Side.CLIENT, "notifications/initialized", None),
    ]
    assert client.state is server.state is State.OPERATING
    server_info = get_last_event(both.client_events, ConnectionOpened).peer
    assert server_info is client.session is client.server
    assert server_info.implementation == t.Implementation(name="server", version="2")
    assert client.server is not None
    assert client.server.instructions == "be kind"
    assert server.session is not None
    assert server.session.implementation == t.Implementation(name="client", version="1")
    assert get_last_event(both.server_events, ConnectionOpened).peer is server.session
    assert server_info.revision is server.session.revision is revision


@pytest.mark.spec("lifecycle.initialize-first")
def test_request_before_initialize_rejected_without_effect() -> None:
    server = make_server(R2025_11_25)
    reaction = server.receive(Request("a", "tools/list"))
    code, message, _ = get_error(reaction)
    assert code == ErrorCode.INVALID_REQUEST
    assert "initialize first" in message
    assert isinstance(reaction.event, MessageIgnored)
    assert not server.inbound_requests
    assert isinstance(server.receive(initialize).event, RequestHandled)


@pytest.mark.spec("ping.respond")
def test_ping_answered_in_every_state_by_both_sides() -> None:
    server = make_server(R2025_11_25)
    for message in (None, initialize, Notification("notifications/initialized")):
        if message is not None:
            server.receive(message)
        reaction = server.receive(Request("p", "ping", {}))
        assert reaction.reply is not None
        assert reaction.reply.message == ResultResponse("p", {})
        assert isinstance(reaction.event, RequestHandled)
        assert reaction.event.method == "ping"
    client = make_client(R2025_11_25)
    client.open()
    reaction = client.receive(Request(7, "ping"))
    assert reaction.reply is not None
    assert reaction.reply.message == ResultResponse(7, {})


def test_request_before_initialized_accepted_with_note() -> None:
    server = make_server(R2025_11_25)
    server.receive(initialize)
    event = server.receive(Request(1, "tools/list")).event
    assert isinstance(event, RequestReceived)
    assert any("awaiting notifications/initialized" in note for note in event.notes)
    server.receive(Notification("notifications/initialized"))
    event = server.receive(Request(2, "tools/list")).event
    assert isinstance(event, RequestReceived)
    assert event.notes == ()


def test_second_initialized_noted() -> None:
    both = open_pair(R2025_11_25)
    event = both.server.receive(Notification("notifications/initialized")).event
    assert isinstance(event, ConnectionOpened)
    assert len(event.notes) == 1


def test_initialized_without_initialize_ignored() -> None:
    for server in (make_server(R2025_11_25), make_server(R2025_11_25, R2026_07_28), make_server(R2026_07_28)):
        reaction = server.receive(Notification("notifications/initialized"))
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.reply is None
        assert server.state is State.AWAITING


def test_malformed_notification_does_not_initialize() -> None:
    server = make_server(R2025_11_25)
    server.receive(initialize)
    event = server.receive(Notification("notifications/cancelled", {"requestId": {}})).event
    assert isinstance(event, MessageIgnored)
    assert server.state is State.ANSWERED


@pytest.mark.spec("lifecycle.server-no-early-requests", "logging.default-level")
def test_server_before_initialized_sends_only_ping_and_logs() -> None:
    server = make_server(R2025_11_25)
    server.receive(
        Request(0, "initialize", {**(initialize.params or {}), "capabilities": {"roots": {"listChanged": True}}})
    )
    with pytest.raises(LocalProtocolError, match="a request from the server"):
        server.request(m.ROOTS_LIST, t.ListRootsRequestParams(), for_request=None)
    assert server.log("error", "early") is not None
    ping = server.request(m.PING, t.PingRequestParams(), for_request=None)
    assert isinstance(ping.message, Request)
    # The client has not listed anything yet that could have changed.
    assert server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams()) == ()
    server.receive(Notification("notifications/initialized"))
    assert len(server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams())) == 1


@pytest.mark.spec("lifecycle.client-no-early-requests")
def test_client_before_initialize_response_sends_nothing_else() -> None:
    client = make_client(R2025_11_25)
    client.open()
    with pytest.raises(LocalProtocolError, match="before the revision"):
        client.request(m.TOOLS_LIST, t.ListToolsRequestParams())
    with pytest.raises(LocalProtocolError, match="before the revision"):
        client.notify(m.NOTIFICATIONS_ROOTS_LIST_CHANGED, t.RootsListChangedNotificationParams())


def test_server_request_before_initialize_response_rejected() -> None:
    client = make_client(R2025_11_25)
    client.open()
    code, _, _ = get_error(client.receive(Request(1, "roots/list")))
    assert code == ErrorCode.INVALID_REQUEST


def test_log_message_before_initialize_response_accepted() -> None:
    client = make_client(R2025_11_25)
    client.open()
    event = client.receive(Notification("notifications/message", {"level": "info", "data": 1})).event
    assert isinstance(event, NotificationReceived)


@pytest.mark.spec("lifecycle.server-initialize-result")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
        {"protocolVersion": "2025-11-25", "capabilities": []},
    ],
)
def test_malformed_initialize_rejected(params: dict[str, str]) -> None:
    server = make_server(R2025_11_25)
    code, message, _ = get_error(server.receive(from_wire({"id": 1, "method": "initialize", "params": dict(params)})))
    assert code == ErrorCode.INVALID_PARAMS
    assert "initialize" in message
    assert server.session is None
    assert server.state is State.AWAITING


@pytest.mark.parametrize("revision", [R2025_06_18, R2026_07_28], ids=str)
def test_closed_connection_ignores_messages(revision: Revision) -> None:
    both = open_pair(revision)
    pending = both.call(m.TOOLS_CALL)
    pending_requests = dict(both.client.outbound_requests)
    ended = both.client.end()
    assert dict(ended.outbound) == pending_requests
    assert list(ended.outbound.values()) == ["tools/call"]
    assert ended.inbound == ()
    assert both.server.end().inbound == (pending.id,)
    assert both.server.inbound_requests == ()
    assert both.client.end() == both.client.end() or not both.client.end().outbound
    assert both.client.state is both.server.state is State.CLOSED
    # A handler that ends late is not an error, but its result is not sent.
    assert both.server.progress(pending.id, 1) is None
    assert both.server.respond(pending.id, t.CallToolResult(content=())) is None
    assert both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams()) == ()
    for end in (both.client, both.server):
        reaction = end.receive(Request(9, "ping"))
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.event.reason == "the connection has closed"
        assert reaction.reply is None
    with pytest.raises(LocalProtocolError):
        both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())
    with pytest.raises(LocalProtocolError):
        both.client.open()
    assert both.client.probe_unanswered() is None


def test_probe_timeout_after_close_ignored() -> None:
    client = make_client()
    client.open()
    client.end()
    assert client.probe_unanswered() is None


def test_subscriptions_end_with_connection() -> None:
    both = open_pair(R2026_07_28)
    listen = both.call(m.SUBSCRIPTIONS_LISTEN)
    both.server.acknowledge(listen.id)
    both.server.end()
    assert both.server.subscriptions == ()
    assert both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams()) == ()
    assert both.server.finish(listen.id) == ()
