"""Opening of a client connection after HTTP errors and with a known era, and restored sessions."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import (
    ALL,
    ALL_SERVER_CAPABILITIES,
    NO_SERVER_CAPABILITIES,
    ConnectionPair,
    from_wire,
    get_last_event,
    make_client,
    make_server,
    open_pair,
    pair,
    to_wire,
)
from hypothesis import given
from hypothesis import strategies as st

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.client import ClientConnection
from mcp_core.engine.events import (
    ConnectionOpened,
    ErrorReceived,
    MessageIgnored,
    Negotiating,
    NegotiationEnded,
    Outgoing,
    ReceiveResult,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.lifecycle import State
from mcp_core.engine.negotiation import NegotiatedRevision, Negotiation, NegotiationFailure, SendDiscover
from mcp_core.errors import HttpFailure, LocalProtocolError, McpError, RequestFailed, UnsupportedProtocolVersion
from mcp_core.jsonrpc.messages import JsonObject, RequestId
from mcp_core.methods import Side
from mcp_core.revisions import LATEST_LEGACY, LEGACY, R2024_11_05, R2025_06_18, R2025_11_25, R2026_07_28, Era, Revision

NOT_FOUND: Final = HttpFailure("POST returned status 404", status=404)


def get_id(outgoing: Outgoing | None) -> RequestId:
    id = to_wire(outgoing)["id"]
    assert isinstance(id, (int, str))
    return id


def get_negotiation_method(reaction: ReceiveResult | None) -> object:
    assert reaction is not None
    assert isinstance(reaction.event, Negotiating), reaction.event
    sent = to_wire(reaction.reply)["method"]
    assert sent == reaction.event.method
    return sent


def get_negotiation_error(reaction: ReceiveResult | None) -> McpError:
    assert reaction is not None
    assert isinstance(reaction.event, NegotiationEnded), reaction.event
    assert reaction.reply is None
    return reaction.event.error


def get_state(client: ClientConnection) -> State:
    return client.state


def get_pending(client: ClientConnection) -> tuple[RequestId, ...]:
    return client.inbound_requests


def get_sent_methods(both: ConnectionPair) -> list[object]:
    return [sent.message["method"] for sent in both.wire if sent.sender is Side.CLIENT and "method" in sent.message]


def open_as_legacy(server: tuple[Revision, ...]) -> ConnectionPair:
    both = pair(ALL, server)
    both.send(Side.CLIENT, both.client.open(era=Era.LEGACY))
    both.run()
    return both


def respond_with_error(
    client: ClientConnection, id: RequestId, code: int = -32601, data: JsonObject | None = None
) -> ReceiveResult:
    error: JsonObject = {"code": code, "message": "no", "data": data}
    return client.receive(from_wire({"jsonrpc": "2.0", "id": id, "error": error}))


# --- known era -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-cache-era")
def test_server_known_as_legacy_not_probed() -> None:
    both = open_as_legacy(LEGACY)

    assert get_sent_methods(both) == ["initialize", "notifications/initialized"]
    assert get_last_event(both.client_events, ConnectionOpened).peer.revision is LATEST_LEGACY


@pytest.mark.parametrize(
    ("era", "revisions", "method"),
    [
        (None, ALL, "server/discover"),
        (Era.MODERN, ALL, "server/discover"),
        (Era.LEGACY, ALL, "initialize"),
        (Era.LEGACY, (R2026_07_28,), "server/discover"),
        (Era.MODERN, LEGACY, "initialize"),
    ],
    ids=str,
)
def test_first_message_follows_known_era_if_possible(
    era: Era | None, revisions: tuple[Revision, ...], method: str
) -> None:
    assert to_wire(make_client(*revisions).open(era=era))["method"] == method


@pytest.mark.spec("compat.client-persist-era")
def test_outdated_known_era_corrected_by_probe() -> None:
    both = open_as_legacy((R2026_07_28,))

    assert get_sent_methods(both) == ["initialize", "server/discover"]
    assert both.client.server is not None
    assert both.client.server.revision is R2026_07_28
    assert both.client.session is None
    assert both.client.state is State.AWAITING
    both.call(m.TOOLS_LIST)


def test_legacy_revisions_tried_before_probe() -> None:
    client = make_client(*ALL)
    client.open(era=Era.LEGACY)

    reaction = respond_with_error(client, 1, -32602, {"supported": ["2024-11-05", "2026-07-28"]})

    assert get_negotiation_method(reaction) == "initialize"
    params = to_wire(reaction.reply)["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2024-11-05"
    assert get_negotiation_method(respond_with_error(client, 2)) == "server/discover"


def test_negotiation_rejected_entirely_reports_first_error() -> None:
    client = make_client(*ALL)
    client.open(era=Era.LEGACY)
    assert get_negotiation_method(respond_with_error(client, 1, -32001)) == "server/discover"

    error = get_negotiation_error(respond_with_error(client, 2))

    assert isinstance(error, RequestFailed)
    assert error.code == -32001


def test_late_probe_timeout_reports_first_error() -> None:
    client = make_client(*ALL)
    client.open(era=Era.LEGACY)
    respond_with_error(client, 1, -32001)

    error = get_negotiation_error(client.probe_unanswered())

    assert isinstance(error, RequestFailed)
    assert error.code == -32001


def test_contradictory_server_responses_end_negotiation() -> None:
    client = make_client(R2025_11_25, R2026_07_28)
    client.open(era=Era.LEGACY)
    respond_with_error(client, 1)

    result: JsonObject = {"resultType": "complete", "supportedVersions": ["2025-11-25"], "capabilities": {}}
    error = get_negotiation_error(client.receive(from_wire({"jsonrpc": "2.0", "id": 2, "result": result})))

    assert "no protocol version in common" in error.message


# --- HTTP errors ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-http-fallback")
def test_probe_http_error_falls_back_to_initialize() -> None:
    client = make_client(*ALL)
    client.open()

    assert get_negotiation_method(client.opening_refused(NOT_FOUND, 1)) == "initialize"
    assert client.outbound_requests == {2: "initialize"}
    assert isinstance(respond_with_error(client, 1).event, MessageIgnored)


def test_modern_client_probe_http_error_reported() -> None:
    client = make_client(R2026_07_28)
    client.open()

    error = get_negotiation_error(client.opening_refused(NOT_FOUND, 1))

    assert NOT_FOUND.message in error.message


def test_handshake_http_error_ends_negotiation() -> None:
    client = make_client(*LEGACY)
    client.open()

    assert get_negotiation_error(client.opening_refused(NOT_FOUND, 1)) is NOT_FOUND
    assert client.outbound_requests == {}
    assert client.state is State.AWAITING
    assert client.opening_refused(NOT_FOUND, 1) is None


def test_cancelled_probe_http_error_ignored() -> None:
    client = make_client(*ALL)
    client.open()
    assert get_negotiation_method(client.probe_unanswered()) == "initialize"

    assert client.opening_refused(NOT_FOUND, 1) is None
    assert client.outbound_requests == {2: "initialize"}
    assert get_negotiation_error(client.opening_refused(NOT_FOUND, 2)) is NOT_FOUND


def test_http_error_of_later_request_not_negotiation_error() -> None:
    both = open_pair(R2025_11_25)
    request = both.call(m.TOOLS_LIST)

    assert both.client.opening_refused(NOT_FOUND, request.id) is None
    assert both.client.opening_refused(NOT_FOUND, 99) is None
    assert request.id in both.client.outbound_requests


def test_closed_connection_http_error_ignored() -> None:
    client = make_client(*ALL)
    client.open()
    client.end()

    assert client.opening_refused(NOT_FOUND, 1) is None


# --- lost sessions -------------------------------------------------------------------------------------------------


def lose_session(both: ConnectionPair, server: tuple[Revision, ...] = LEGACY, *, offers: bool = True) -> None:
    """Replace the server by one without a session."""
    both.server = make_server(*server, capabilities=ALL_SERVER_CAPABILITIES if offers else NO_SERVER_CAPABILITIES)
    both.to_client.clear()


@pytest.mark.spec("session.client-reinitialize")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_lost_session_reopened_with_negotiated_revision(revision: Revision) -> None:
    both = pair(ALL, revision).open()
    request = both.call(m.TOOLS_LIST)
    lose_session(both)

    reopening = both.client.reopen()
    both.send(Side.CLIENT, reopening)

    assert to_wire(reopening)["method"] == "initialize"
    assert get_id(reopening) == int(request.id) + 1
    assert get_state(both.client) is State.INITIALIZING
    with pytest.raises(LocalProtocolError, match="initializing"):
        both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())
    both.run()
    assert get_last_event(both.client_events, ConnectionOpened).peer.revision is revision
    assert both.client.state is both.server.state is State.OPERATING
    assert get_sent_methods(both)[-2:] == ["initialize", "notifications/initialized"]
    assert both.call(m.TOOLS_LIST).id == int(request.id) + 2


def test_pending_requests_survive_session_reopening() -> None:
    both = open_pair(R2025_11_25)
    request = both.call(m.TOOLS_LIST)
    answer = both.server.respond(request.id, t.ListToolsResult(tools=()))
    lose_session(both)

    both.send(Side.CLIENT, both.client.reopen())
    both.send(Side.SERVER, answer)
    both.run()

    # The old response arrived while the new session was being opened.
    assert get_last_event(both.client_events, ResultReceived).id == request.id
    assert both.client.outbound_requests == {}
    assert both.client.state is State.OPERATING


def test_server_requests_of_lost_session_abandoned() -> None:
    both = open_pair(R2025_11_25)
    request = both.ask(m.ROOTS_LIST)
    lose_session(both)
    assert get_pending(both.client) == (request.id,)
    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert get_pending(both.client) == ()
    assert both.client.respond(request.id, t.ListRootsResult(roots=())) is None
    both.send(Side.CLIENT, both.client.reopen())
    lose_session(both)
    both.run()
    second = both.ask(m.ROOTS_LIST)
    assert second.id == request.id
    assert get_pending(both.client) == (request.id,)
    assert both.client.respond(second.id, t.ListRootsResult(roots=())) is not None


def test_abandoned_request_id_reused_once() -> None:
    both = open_pair(R2025_11_25)
    request = both.ask(m.ROOTS_LIST)
    lose_session(both)
    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert both.ask(m.ROOTS_LIST).id == request.id
    assert get_pending(both.client) == (request.id,)
    repeated = both.client.receive(from_wire({"jsonrpc": "2.0", "id": request.id, "method": "roots/list"}))
    assert isinstance(repeated.event, MessageIgnored)
    assert "is already in use" in repeated.event.reason


def test_reopened_session_has_new_server_capabilities() -> None:
    both = open_pair(R2025_11_25)
    both.call(m.TOOLS_LIST)
    lose_session(both, (R2025_06_18,), offers=False)
    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert isinstance(both.client_events[-1], NegotiationEnded)

    both = pair(LEGACY, R2025_11_25).open()
    both.call(m.TOOLS_LIST)
    lose_session(both, (R2025_06_18,), offers=False)
    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert both.client.server is not None
    assert both.client.server.revision is R2025_06_18
    with pytest.raises(LocalProtocolError, match="does not offer tools"):
        both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())


@pytest.mark.parametrize("code", [-32601, -32022])
def test_rejected_session_reopening_not_negotiated_further(code: int) -> None:
    both = pair(ALL, R2025_11_25)
    both.send(Side.CLIENT, both.client.open(era=Era.LEGACY))
    both.run()
    reopening = both.client.reopen()

    error = get_negotiation_error(respond_with_error(both.client, get_id(reopening), code))

    assert isinstance(error, RequestFailed)
    assert both.client.state is State.AWAITING
    with pytest.raises(LocalProtocolError):
        both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())


def test_session_reopening_uses_versions_of_replaced_server() -> None:
    both = pair(LEGACY, R2024_11_05).open()
    reopening = both.client.reopen()

    reaction = respond_with_error(both.client, get_id(reopening), -32602, {"supported": ["2025-11-25"]})

    # The revision was tried when the first session was opened, but the server may be another one now.
    params = to_wire(reaction.reply)["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2025-11-25"


def test_session_reopening_retried_after_rejection_or_without_response() -> None:
    both = open_pair(R2025_11_25)
    lose_session(both)
    first = both.client.reopen()
    second = both.client.reopen()
    assert both.client.outbound_requests == {get_id(second): "initialize"}
    assert get_negotiation_error(both.client.opening_refused(NOT_FOUND, get_id(second))) is NOT_FOUND

    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert both.client.state is State.OPERATING
    assert isinstance(respond_with_error(both.client, get_id(first)).event, MessageIgnored)
    both.call(m.TOOLS_LIST)


def test_session_reopening_without_legacy_session_raises() -> None:
    unopened = make_client(*ALL)
    modern = open_pair(R2026_07_28).client
    closed = open_pair(R2025_11_25).client
    closed.end()
    for client in (unopened, modern, closed):
        with pytest.raises(LocalProtocolError, match="no legacy session"):
            client.reopen()


def test_lost_session_inbound_request_rejected() -> None:
    both = open_pair(R2025_11_25)
    both.client.reopen()

    reaction = both.client.receive(from_wire({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}))

    assert isinstance(reaction.event, MessageIgnored)
    assert to_wire(reaction.reply)["error"]
    assert not any(isinstance(event, RequestReceived) for event in both.client_events)


# --- properties ----------------------------------------------------------------------------------------------------

_ANSWERS: Final = st.one_of(
    st.just(NOT_FOUND),
    st.just(None),
    st.lists(st.sampled_from([revision.name for revision in ALL]), max_size=3).map(
        lambda names: UnsupportedProtocolVersion.of("x", names)
    ),
    st.lists(st.sampled_from([*[revision.name for revision in ALL], "2030-01-01"]), max_size=3),
)


@pytest.mark.property
@given(
    revisions=st.lists(st.sampled_from(ALL), min_size=1, unique=True),
    era=st.sampled_from([None, *Era]),
    answers=st.lists(_ANSWERS, min_size=12, max_size=12),
)
def test_negotiation_ends_with_bounded_attempts_per_revision(
    revisions: list[Revision], era: Era | None, answers: list[McpError | list[str] | None]
) -> None:
    negotiation = Negotiation(tuple(revisions))
    step = negotiation.start(era)
    tried: list[Revision] = []
    for answer in answers:
        if isinstance(step, (NegotiatedRevision, NegotiationFailure)):
            break
        assert step.revision in revisions
        assert tried.count(step.revision) < (1 if step.revision.era is Era.LEGACY else 2)
        tried.append(step.revision)
        next_step: object
        if answer is None:
            next_step = negotiation.silent() if isinstance(step, SendDiscover) else negotiation.refused(NOT_FOUND)
        elif isinstance(answer, McpError):
            next_step = negotiation.refused(answer)
        elif isinstance(step, SendDiscover):
            next_step = negotiation.discovered(answer)
        else:
            next_step = negotiation.initialized(answer[0] if answer else "")
        assert next_step is not None
        step = next_step  # type: ignore[assignment]  # all four methods return a step
    assert isinstance(step, (NegotiatedRevision, NegotiationFailure))


def test_known_legacy_server_2024_11_05_negotiated() -> None:
    both = open_as_legacy((R2024_11_05,))

    assert get_last_event(both.client_events, ConnectionOpened).peer.revision is R2024_11_05
    assert not any(isinstance(event, ErrorReceived) for event in both.client_events)
