"""A second `initialize` on one connection: the session ends, and another one begins."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import FORM, RESULTS, URI, get_error, make_client, make_server
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.events import (
    CancelReceived,
    ClientPeer,
    ConnectionOpened,
    MessageIgnored,
    RequestHandled,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.lifecycle import State
from mcp_core.engine.server import ServerConnection, SessionReplaced
from mcp_core.errors import ErrorCode, LocalProtocolError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Notification, Request, RequestId, ResultResponse
from mcp_core.revisions import (
    LEGACY,
    R2025_06_18,
    R2025_11_25,
    Revision,
)

DECLARED: Final[JsonObject] = {"roots": {}, "elicitation": {"form": {}}, "sampling": {}}
ENVELOPE: Final[JsonObject] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZED: Final = Notification("notifications/initialized")


def initialize(
    id: RequestId = 0, revision: Revision = R2025_11_25, capabilities: JsonObject = DECLARED, name: str = "first"
) -> Request:
    params: JsonObject = {
        "protocolVersion": revision.name,
        "capabilities": capabilities,
        "clientInfo": {"name": name, "version": "1"},
    }
    return Request(id, "initialize", params)


def call(id: RequestId, token: JsonValue = None, *, modern: bool = False) -> Request:
    meta: JsonObject = {**(ENVELOPE if modern else {}), **({} if token is None else {"progressToken": token})}
    return Request(id, "tools/call", {"name": "echo", "arguments": {}, "_meta": meta})


def open_server(revision: Revision = R2025_11_25) -> ServerConnection:
    server = make_server()
    server.receive(initialize(revision=revision))
    server.receive(INITIALIZED)
    assert server.state is State.OPERATING
    return server


def replace_session(server: ServerConnection, message: Request) -> SessionReplaced:
    """Send a second `initialize`, check its result, and return the event."""
    reaction = server.receive(message)
    assert isinstance(reaction.event, SessionReplaced)
    assert reaction.reply is not None
    assert isinstance(reaction.reply.message, ResultResponse)
    assert reaction.reply.message.id == message.id
    return reaction.event


def get_client_info(server: ServerConnection) -> ClientPeer:
    assert isinstance(server.session, ClientPeer)
    return server.session


@pytest.mark.parametrize("wait", [True, False], ids=["after initialized", "before initialized"])
@pytest.mark.parametrize("second", LEGACY, ids=str)
def test_second_initialize_on_open_session_begins_new_session(second: Revision, wait: bool) -> None:
    server = make_server()
    first = server.receive(initialize(0))
    assert isinstance(first.event, RequestHandled)
    if wait:
        server.receive(INITIALIZED)
    event = replace_session(server, initialize(0, second, {}, "second"))
    assert event.id == 0
    assert any("initialize in the state" in note for note in event.notes)
    peer = get_client_info(server)
    assert peer.revision is second
    assert peer.implementation == t.Implementation(name="second", version="1")
    assert peer.capabilities == t.ClientCapabilities()
    assert server.state is State.ANSWERED
    opened = server.receive(INITIALIZED).event
    assert isinstance(opened, ConnectionOpened)
    assert opened.peer is peer
    server.request(m.PING, t.PingRequestParams(), for_request=None)


def test_second_initialize_returns_abandoned_requests_of_both_sides() -> None:
    server = open_server()
    server.receive(call(1))
    server.receive(call("b"))
    server.receive(call(3))
    server.receive(Notification("notifications/cancelled", {"requestId": 3}))
    request = server.request(m.ELICITATION_CREATE, FORM, for_request=1)
    event = replace_session(server, initialize(9))
    assert isinstance(request.message, Request)
    assert event.abandoned.outbound == {request.message.id: "elicitation/create"}
    assert event.abandoned.inbound == (1, "b")
    assert server.outbound_requests == {}
    assert server.inbound_requests == ()
    assert event.ended.end().outbound == {}


def test_second_initialize_with_invalid_params_keeps_session() -> None:
    server = open_server()
    before = server.session
    server.receive(call(1))
    request = server.request(m.ELICITATION_CREATE, FORM, for_request=1)
    malformed: tuple[JsonObject | None, ...] = (None, {}, {"protocolVersion": "2025-11-25", "capabilities": []})
    for params in malformed:
        code, _, _ = get_error(server.receive(Request(2, "initialize", params)))
        assert code == ErrorCode.INVALID_PARAMS
    assert server.session is before
    assert server.state is State.OPERATING
    assert server.inbound_requests == (1,)
    assert isinstance(request.message, Request)
    answer = ResultResponse(request.message.id, {"action": "decline"})
    assert isinstance(server.receive(answer).event, ResultReceived)
    assert server.respond(1, RESULTS[m.TOOLS_CALL]) is not None


def test_second_initialize_clears_subscriptions_and_log_level() -> None:
    server = open_server()
    server.receive(Request(1, "resources/subscribe", {"uri": URI}))
    assert server.respond(1, t.EmptyResult()) is not None
    server.receive(Request(2, "logging/setLevel", {"level": "debug"}))
    assert get_client_info(server).log_level == "debug"
    replace_session(server, initialize(1))
    server.receive(INITIALIZED)
    assert server.watched == ()
    assert server.watched_bytes == 0
    assert get_client_info(server).log_level is None
    updated = t.ResourceUpdatedNotificationParams(uri=URI)
    assert server.publish(m.NOTIFICATIONS_RESOURCES_UPDATED, updated) == ()
    assert server.log("debug", "x") is None


def test_late_result_of_ended_session_with_reused_id_not_sent() -> None:
    server = open_server()
    server.receive(call(1, token="t"))
    event = replace_session(server, initialize(0))
    server.receive(INITIALIZED)
    assert isinstance(server.receive(call(1, token="t")).event, RequestReceived)
    ended = event.ended
    assert ended.state is State.CLOSED
    assert ended.progress(1, 5.0) is None
    assert ended.log("error", "x", for_request=1) is None
    with pytest.raises(LocalProtocolError, match="cancelled"):
        ended.request(m.ELICITATION_CREATE, FORM, for_request=1)
    with pytest.raises(LocalProtocolError):
        ended.request(m.PING, t.PingRequestParams(), for_request=None)
    assert ended.respond(1, RESULTS[m.TOOLS_CALL]) is None
    # None of these calls affects the request of the new session.
    assert server.inbound_requests == (1,)
    assert server.progress(1, 1.0) is not None
    assert server.respond(1, RESULTS[m.TOOLS_CALL]) is not None


def test_late_failure_of_ended_session_with_reused_id_not_sent() -> None:
    server = open_server()
    server.receive(call(1))
    ended = replace_session(server, initialize(0)).ended
    server.receive(call(1))
    assert ended.fail(1, RequestFailed("no", code=7)) is None
    ended.withdraw(1)
    assert server.inbound_requests == (1,)


def test_response_to_request_of_ended_session_ignored_with_reason() -> None:
    server = open_server()
    old = server.request(m.PING, t.PingRequestParams(), for_request=None).message
    replace_session(server, initialize(0))
    server.receive(INITIALIZED)
    new = server.request(m.PING, t.PingRequestParams(), for_request=None).message
    assert isinstance(old, Request)
    assert isinstance(new, Request)
    assert old.id != new.id
    for id in (old.id, str(old.id)):
        event = server.receive(ResultResponse(id, {})).event
        assert isinstance(event, MessageIgnored)
        assert "session that has ended" in event.reason
    assert isinstance(server.receive(ResultResponse(new.id, {})).event, ResultReceived)


def test_cancellation_of_request_of_ended_session_ignored() -> None:
    server = open_server()
    server.receive(call(1))
    replace_session(server, initialize(0))
    late = Notification("notifications/cancelled", {"requestId": 1})
    assert isinstance(server.receive(late).event, MessageIgnored)


@pytest.mark.parametrize("first", LEGACY, ids=str)
@pytest.mark.parametrize("second", LEGACY, ids=str)
def test_second_initialize_revision_determines_batches_and_null_ids(first: Revision, second: Revision) -> None:
    server = open_server(first)
    replace_session(server, initialize(5, second))
    assert (server.refuse_batch() is None) is second.batching
    assert server.error_ids_are_null is not second.error_without_id


def test_modern_requests_continue_while_session_is_replaced() -> None:
    server = open_server()
    filter_: JsonObject = {"toolsListChanged": True}
    server.receive(call(1, modern=True))
    server.receive(Request(2, "subscriptions/listen", {"notifications": filter_, "_meta": ENVELOPE}))
    server.acknowledge(2)
    server.receive(call(3))
    event = replace_session(server, initialize(4))
    assert event.abandoned.inbound == (3,)
    assert server.inbound_requests == (1, 2)
    assert server.subscriptions == (2,)
    assert server.respond(1, RESULTS[m.TOOLS_CALL]) is not None
    changed = server.publish(m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams())
    assert [each.for_request for each in changed] == [2]
    # Their ids remain in use; otherwise the client could not distinguish the responses.
    code, _, _ = get_error(server.receive(call(2)))
    assert code == ErrorCode.INVALID_REQUEST
    cancelled = server.receive(Notification("notifications/cancelled", {"requestId": 2})).event
    assert isinstance(cancelled, CancelReceived)


def test_client_second_initialize_raises() -> None:
    client = make_client(R2025_06_18)
    client.open()
    with pytest.raises(LocalProtocolError):
        client.open()


def test_initialize_after_connection_closed_ignored() -> None:
    server = open_server()
    server.end()
    reaction = server.receive(initialize(1))
    assert isinstance(reaction.event, MessageIgnored)
    assert reaction.reply is None


# --- random sequences ------------------------------------------------------------------------------------------------

IDS: Final = st.integers(1, 3) | st.sampled_from(["a", "1"])


class ReusedConnection(RuleBasedStateMachine):
    """A connection that several independent clients use one after another, while handlers end at any time.

    A handler keeps the connection that was current when its request was received.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = make_server()
        self.session = 0
        self.running: list[tuple[RequestId, int | None, ServerConnection]] = []
        """Running handlers: the id, the number of the session or `None` for a modern request, and the connection."""
        self.outbound: dict[RequestId, int] = {}
        self.settled: set[RequestId] = set()
        self.inbound: dict[RequestId, int | None] = {}
        """Pending inbound requests by the model: the id, and the number of the session."""

    @property
    def has_session(self) -> bool:
        return self.server.session is not None

    @rule(id=IDS, revision=st.sampled_from(LEGACY), finish=st.booleans())
    def client_initializes(self, id: RequestId, revision: Revision, finish: bool) -> None:
        had_session = self.has_session
        legacy = {each for each, session in self.inbound.items() if session is not None}
        pending = set(self.server.outbound_requests)
        reaction = self.server.receive(initialize(id, revision))
        assert reaction.reply is not None
        assert isinstance(reaction.reply.message, ResultResponse)
        event = reaction.event
        assert isinstance(event, SessionReplaced) is had_session
        if isinstance(event, SessionReplaced):
            assert set(event.abandoned.inbound) == legacy
            assert set(event.abandoned.outbound) == pending
            for each in pending:
                self.settle(each)
            self.running = [
                (
                    each,
                    session,
                    connection if session is None else event.ended if connection is self.server else connection,
                )
                for each, session, connection in self.running
            ]
        self.inbound = {each: session for each, session in self.inbound.items() if session is None}
        self.session += 1
        assert get_client_info(self.server).revision is revision
        if finish:
            self.server.receive(INITIALIZED)

    @precondition(lambda self: self.has_session)
    @rule(id=IDS, params=st.sampled_from([None, {}, {"protocolVersion": 3}]))
    def client_sends_a_bad_initialize(self, id: RequestId, params: JsonObject | None) -> None:
        before = (
            self.server.session,
            self.server.state,
            self.server.inbound_requests,
            dict(self.server.outbound_requests),
        )
        get_error(self.server.receive(Request(id, "initialize", params)))
        assert before == (
            self.server.session,
            self.server.state,
            self.server.inbound_requests,
            dict(self.server.outbound_requests),
        )

    @rule(id=IDS, modern=st.booleans(), token=st.none() | st.just("t"))
    def client_calls(self, id: RequestId, modern: bool, token: str | None) -> None:
        reaction = self.server.receive(call(id, token, modern=modern))
        accepted = isinstance(reaction.event, RequestReceived)
        handled = any(each == id and connection is self.server for each, _, connection in self.running)
        assert accepted is (not handled and (modern or self.has_session))
        if accepted:
            session = None if modern else self.session
            self.inbound[id] = session
            self.running.append((id, session, self.server))

    @rule(id=IDS)
    def client_cancels(self, id: RequestId) -> None:
        event = self.server.receive(Notification("notifications/cancelled", {"requestId": id})).event
        if isinstance(event, CancelReceived):
            del self.inbound[event.id]

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 9), fails=st.booleans())
    def handler_ends(self, index: int, fails: bool) -> None:
        id, session, connection = self.running.pop(index % len(self.running))
        outgoing = (
            connection.fail(id, RequestFailed("no", code=7)) if fails else connection.respond(id, RESULTS[m.TOOLS_CALL])
        )
        is_expected = connection is self.server and id in self.inbound
        assert (outgoing is not None) is is_expected, "a response is sent only to the session of its request"
        if is_expected:
            assert self.inbound.pop(id) == session

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 9), value=st.floats(0, 9))
    def handler_reports_progress(self, index: int, value: float) -> None:
        id, _, connection = self.running[index % len(self.running)]
        try:
            outgoing = connection.progress(id, value)
        except LocalProtocolError:
            assert connection is self.server
        else:
            assert outgoing is None or (connection is self.server and id in self.inbound)

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 9))
    def handler_sends_client_request(self, index: int) -> None:
        id, session, connection = self.running[index % len(self.running)]
        try:
            request = connection.request(m.ELICITATION_CREATE, FORM, for_request=id).message
        except (LocalProtocolError, RequestFailed):
            return
        assert connection is self.server
        assert isinstance(request, Request)
        assert request.id not in self.outbound, "the id of an outbound request was reused"
        self.outbound[request.id] = self.session
        assert session in (self.session, None)

    @precondition(lambda self: self.outbound)
    @rule(index=st.integers(0, 9))
    def client_answers(self, index: int) -> None:
        ids = sorted(self.outbound, key=str)
        id = ids[-1 - index % len(ids)]
        event = self.server.receive(ResultResponse(id, {"action": "decline"})).event
        if isinstance(event, ResultReceived):
            self.settle(id)
        else:
            assert isinstance(event, MessageIgnored)
            assert id in self.settled

    def settle(self, id: RequestId) -> None:
        assert id not in self.settled, f"request {id!r} ended twice"
        self.settled.add(id)

    def teardown(self) -> None:
        assert set(self.server.inbound_requests) == set(self.inbound)
        for id in self.server.end().outbound:
            self.settle(id)
        assert self.settled == set(self.outbound)


@pytest.mark.property
def test_reused_connection_answers_requests_in_original_session() -> None:
    run_state_machine_as_test(ReusedConnection)
