"""The states of a legacy session."""

from __future__ import annotations

import pytest
from engine_pair import error_of, last, make_client, make_server, opened, pair, received

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

# By hand, from the page on the lifecycle: state, kind, state after it, and whether it is only tolerated.
# What is not here must not be sent.
ALLOWED: dict[tuple[State, Kind], tuple[State, str]] = {
    (A, Kind.INITIALIZE): (I, ""),
    (A, Kind.PING): (A, ""),
    (A, Kind.NOTIFICATION): (A, SHOULD_NOT),
    (I, Kind.INITIALIZE_RESULT): (W, ""),
    (I, Kind.INITIALIZE_ERROR): (A, ""),
    (I, Kind.PING): (I, ""),
    (I, Kind.LOG): (I, ""),
    (I, Kind.NOTIFICATION): (I, SHOULD_NOT),
    # The pages say nothing of a second handshake; bridges that reuse one pipe for several clients depend on it.
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
def test_the_peer_is_held_to_what_must_not_be_and_forgiven_what_should_not(state: State, kind: Kind) -> None:
    lifecycle = Lifecycle(state)
    allowed = ALLOWED.get((state, kind))
    if allowed is None:
        with pytest.raises(Violation) as refused:
            lifecycle.receive(kind)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        assert kind.value in refused.value.message
        assert lifecycle.state is state
    else:
        note = lifecycle.receive(kind)
        assert lifecycle.state is allowed[0]
        assert (note is None) == (allowed[1] == "")
        assert note is None or (kind.value in note and state.value in note)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", Kind)
def test_we_are_held_to_what_should_not_be_too(state: State, kind: Kind) -> None:
    lifecycle = Lifecycle(state)
    allowed = ALLOWED.get((state, kind))
    if allowed is None or allowed[1] == SHOULD_NOT:
        with pytest.raises(LocalProtocolError, match=kind.value) as refused:
            lifecycle.send(kind)
        assert refused.value.anchor == "basic/lifecycle"
        assert lifecycle.state is state
    else:
        lifecycle.send(kind)
        assert lifecycle.state is allowed[0]


def test_the_table_has_nothing_beyond_the_specification() -> None:
    found = {
        (state, kind): (rule.then, SHOULD_NOT if rule.strength is Strength.SHOULD_NOT else "")
        for state, rules in RULES.items()
        for kind, rule in rules.items()
    }
    assert found == ALLOWED


def test_a_closed_session_stays_closed() -> None:
    lifecycle = Lifecycle(O)
    lifecycle.close()
    assert lifecycle.state is C


@pytest.mark.spec("lifecycle.client-sends-initialize", "lifecycle.server-initialize-result")
@pytest.mark.spec("lifecycle.initialized-notification", "jsonrpc.base-and-lifecycle-support")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_a_session_is_opened_by_three_messages(revision: Revision) -> None:
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
    seen = last(both.client_events, ConnectionOpened).peer
    assert seen is client.session is client.server
    assert seen.implementation == t.Implementation(name="server", version="2")
    assert client.server is not None
    assert client.server.instructions == "be kind"
    assert server.session is not None
    assert server.session.implementation == t.Implementation(name="client", version="1")
    assert last(both.server_events, ConnectionOpened).peer is server.session
    assert seen.revision is server.session.revision is revision


@pytest.mark.spec("lifecycle.initialize-first")
def test_requests_before_initialize_are_refused_and_do_no_harm() -> None:
    server = make_server(R2025_11_25)
    reaction = server.receive(Request("a", "tools/list"))
    code, message, _ = error_of(reaction)
    assert code == ErrorCode.INVALID_REQUEST
    assert "initialize first" in message
    assert isinstance(reaction.event, MessageIgnored)
    assert not server.inbound_requests
    assert isinstance(server.receive(initialize).event, RequestHandled)


@pytest.mark.spec("ping.respond")
def test_pings_are_answered_in_every_state_by_both_sides() -> None:
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


def test_a_client_that_does_not_wait_after_initialize_is_served_with_a_note() -> None:
    server = make_server(R2025_11_25)
    server.receive(initialize)
    event = server.receive(Request(1, "tools/list")).event
    assert isinstance(event, RequestReceived)
    assert any("awaiting notifications/initialized" in note for note in event.notes)
    server.receive(Notification("notifications/initialized"))
    event = server.receive(Request(2, "tools/list")).event
    assert isinstance(event, RequestReceived)
    assert event.notes == ()


def test_a_second_initialized_is_only_noted() -> None:
    both = opened(R2025_11_25)
    event = both.server.receive(Notification("notifications/initialized")).event
    assert isinstance(event, ConnectionOpened)
    assert len(event.notes) == 1


def test_an_initialized_without_initialize_opens_nothing() -> None:
    for server in (make_server(R2025_11_25), make_server(R2025_11_25, R2026_07_28), make_server(R2026_07_28)):
        reaction = server.receive(Notification("notifications/initialized"))
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.reply is None
        assert server.state is State.AWAITING


def test_an_initialized_that_cannot_be_read_opens_nothing() -> None:
    server = make_server(R2025_11_25)
    server.receive(initialize)
    event = server.receive(Notification("notifications/cancelled", {"requestId": {}})).event
    assert isinstance(event, MessageIgnored)
    assert server.state is State.ANSWERED


@pytest.mark.spec("lifecycle.server-no-early-requests", "logging.default-level")
def test_before_initialized_a_server_sends_pings_and_logs_only() -> None:
    server = make_server(R2025_11_25)
    server.receive(
        Request(0, "initialize", {**(initialize.params or {}), "capabilities": {"roots": {"listChanged": True}}})
    )
    with pytest.raises(LocalProtocolError, match="a request from the server"):
        server.request(m.ROOTS_LIST, t.ListRootsRequestParams(), for_request=None)
    assert server.log("error", "early") is not None
    ping = server.request(m.PING, t.PingRequestParams(), for_request=None)
    assert isinstance(ping.message, Request)
    # The client has no lists yet that could have changed.
    assert server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams()) == ()
    server.receive(Notification("notifications/initialized"))
    assert len(server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams())) == 1


@pytest.mark.spec("lifecycle.client-no-early-requests")
def test_before_the_answer_to_initialize_a_client_sends_nothing_else() -> None:
    client = make_client(R2025_11_25)
    client.open()
    with pytest.raises(LocalProtocolError, match="before the revision"):
        client.request(m.TOOLS_LIST, t.ListToolsRequestParams())
    with pytest.raises(LocalProtocolError, match="before the revision"):
        client.notify(m.NOTIFICATIONS_ROOTS_LIST_CHANGED, t.RootsListChangedNotificationParams())


def test_requests_of_a_server_before_its_answer_to_initialize_are_refused() -> None:
    client = make_client(R2025_11_25)
    client.open()
    code, _, _ = error_of(client.receive(Request(1, "roots/list")))
    assert code == ErrorCode.INVALID_REQUEST


def test_log_messages_may_come_before_the_answer_to_initialize() -> None:
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
def test_an_initialize_that_cannot_be_read_opens_nothing(params: dict[str, str]) -> None:
    server = make_server(R2025_11_25)
    code, message, _ = error_of(server.receive(received({"id": 1, "method": "initialize", "params": dict(params)})))
    assert code == ErrorCode.INVALID_PARAMS
    assert "initialize" in message
    assert server.session is None
    assert server.state is State.AWAITING


@pytest.mark.parametrize("revision", [R2025_06_18, R2026_07_28], ids=str)
def test_after_the_end_nothing_happens_any_more(revision: Revision) -> None:
    both = opened(revision)
    pending = both.call(m.TOOLS_CALL)
    waiting = dict(both.client.outbound_requests)
    ended = both.client.end()
    assert dict(ended.outbound) == waiting
    assert list(ended.outbound.values()) == ["tools/call"]
    assert ended.inbound == ()
    assert both.server.end().inbound == (pending.id,)
    assert both.server.inbound_requests == ()
    assert both.client.end() == both.client.end() or not both.client.end().outbound
    assert both.client.state is both.server.state is State.CLOSED
    # A handler that ends late is no error; there is nobody to hear of it.
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


def test_a_probe_is_not_followed_up_after_the_end() -> None:
    client = make_client()
    client.open()
    client.end()
    assert client.probe_unanswered() is None


def test_subscriptions_end_with_the_connection() -> None:
    both = opened(R2026_07_28)
    listen = both.call(m.SUBSCRIPTIONS_LISTEN)
    both.server.acknowledge(listen.id)
    both.server.end()
    assert both.server.subscriptions == ()
    assert both.server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams()) == ()
    assert both.server.finish(listen.id) == ()
