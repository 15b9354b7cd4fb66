"""How a client's end comes to be open where answers are more than messages, and how a lost session is opened again."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import (
    ALL,
    EVERYTHING_OFFERED,
    NOTHING_OFFERED,
    ConnectionPair,
    last,
    make_client,
    make_server,
    opened,
    pair,
    received,
    wire_of,
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


def id_of(outgoing: Outgoing | None) -> RequestId:
    id = wire_of(outgoing)["id"]
    assert isinstance(id, (int, str))
    return id


def method_of(reaction: ReceiveResult | None) -> object:
    assert reaction is not None
    assert isinstance(reaction.event, Negotiating), reaction.event
    sent = wire_of(reaction.reply)["method"]
    assert sent == reaction.event.method
    return sent


def ended_by(reaction: ReceiveResult | None) -> McpError:
    assert reaction is not None
    assert isinstance(reaction.event, NegotiationEnded), reaction.event
    assert reaction.reply is None
    return reaction.event.error


def state_of(client: ClientConnection) -> State:
    return client.state


def owed_by(client: ClientConnection) -> tuple[RequestId, ...]:
    return client.inbound_requests


def sent_by_client(both: ConnectionPair) -> list[object]:
    return [sent.message["method"] for sent in both.wire if sent.sender is Side.CLIENT and "method" in sent.message]


def hinted(server: tuple[Revision, ...]) -> ConnectionPair:
    both = pair(ALL, server)
    both.send(Side.CLIENT, both.client.open(era=Era.LEGACY))
    both.run()
    return both


def refuse(
    client: ClientConnection, id: RequestId, code: int = -32601, data: JsonObject | None = None
) -> ReceiveResult:
    error: JsonObject = {"code": code, "message": "no", "data": data}
    return client.receive(received({"jsonrpc": "2.0", "id": id, "error": error}))


# --- a hint --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-cache-era")
def test_a_server_that_is_known_to_be_legacy_is_not_probed() -> None:
    both = hinted(LEGACY)

    assert sent_by_client(both) == ["initialize", "notifications/initialized"]
    assert last(both.client_events, ConnectionOpened).peer.revision is LATEST_LEGACY


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
def test_what_comes_first_follows_the_hint_as_far_as_it_can(
    era: Era | None, revisions: tuple[Revision, ...], method: str
) -> None:
    assert wire_of(make_client(*revisions).open(era=era))["method"] == method


@pytest.mark.spec("compat.client-persist-era")
def test_a_hint_that_became_wrong_heals() -> None:
    both = hinted((R2026_07_28,))

    assert sent_by_client(both) == ["initialize", "server/discover"]
    assert both.client.server is not None
    assert both.client.server.revision is R2026_07_28
    assert both.client.session is None
    assert both.client.state is State.AWAITING
    both.call(m.TOOLS_LIST)


def test_another_legacy_revision_is_tried_before_the_probe() -> None:
    client = make_client(*ALL)
    client.open(era=Era.LEGACY)

    reaction = refuse(client, 1, -32602, {"supported": ["2024-11-05", "2026-07-28"]})

    assert method_of(reaction) == "initialize"
    params = wire_of(reaction.reply)["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2024-11-05"
    assert method_of(refuse(client, 2)) == "server/discover"


def test_when_all_is_refused_the_first_refusal_is_told() -> None:
    client = make_client(*ALL)
    client.open(era=Era.LEGACY)
    assert method_of(refuse(client, 1, -32001)) == "server/discover"

    error = ended_by(refuse(client, 2))

    assert isinstance(error, RequestFailed)
    assert error.code == -32001


def test_when_the_late_probe_is_not_answered_the_first_refusal_is_told() -> None:
    client = make_client(*ALL)
    client.open(era=Era.LEGACY)
    refuse(client, 1, -32001)

    error = ended_by(client.probe_unanswered())

    assert isinstance(error, RequestFailed)
    assert error.code == -32001


def test_a_server_that_wavers_is_not_asked_for_ever() -> None:
    client = make_client(R2025_11_25, R2026_07_28)
    client.open(era=Era.LEGACY)
    refuse(client, 1)

    result: JsonObject = {"resultType": "complete", "supportedVersions": ["2025-11-25"], "capabilities": {}}
    error = ended_by(client.receive(received({"jsonrpc": "2.0", "id": 2, "result": result})))

    assert "no protocol version in common" in error.message


# --- answers that are none -----------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-http-fallback")
def test_a_probe_that_http_refuses_leads_to_the_handshake() -> None:
    client = make_client(*ALL)
    client.open()

    assert method_of(client.opening_refused(NOT_FOUND, 1)) == "initialize"
    assert client.outbound_requests == {2: "initialize"}
    assert isinstance(refuse(client, 1).event, MessageIgnored)


def test_a_modern_client_tells_what_http_said() -> None:
    client = make_client(R2026_07_28)
    client.open()

    error = ended_by(client.opening_refused(NOT_FOUND, 1))

    assert NOT_FOUND.message in error.message


def test_a_handshake_that_http_refuses_is_the_end_of_it() -> None:
    client = make_client(*LEGACY)
    client.open()

    assert ended_by(client.opening_refused(NOT_FOUND, 1)) is NOT_FOUND
    assert client.outbound_requests == {}
    assert client.state is State.AWAITING
    assert client.opening_refused(NOT_FOUND, 1) is None


def test_a_probe_that_is_given_up_is_of_no_interest() -> None:
    client = make_client(*ALL)
    client.open()
    assert method_of(client.probe_unanswered()) == "initialize"

    assert client.opening_refused(NOT_FOUND, 1) is None
    assert client.outbound_requests == {2: "initialize"}
    assert ended_by(client.opening_refused(NOT_FOUND, 2)) is NOT_FOUND


def test_other_requests_are_not_refused_so() -> None:
    both = opened(R2025_11_25)
    request = both.call(m.TOOLS_LIST)

    assert both.client.opening_refused(NOT_FOUND, request.id) is None
    assert both.client.opening_refused(NOT_FOUND, 99) is None
    assert request.id in both.client.outbound_requests


def test_nothing_is_refused_after_the_end() -> None:
    client = make_client(*ALL)
    client.open()
    client.end()

    assert client.opening_refused(NOT_FOUND, 1) is None


# --- a session is lost ---------------------------------------------------------------------------------------------


def lose_session(both: ConnectionPair, server: tuple[Revision, ...] = LEGACY, *, offers: bool = True) -> None:
    """The server forgot everything."""
    both.server = make_server(*server, capabilities=EVERYTHING_OFFERED if offers else NOTHING_OFFERED)
    both.to_client.clear()


@pytest.mark.spec("session.client-reinitialize")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_a_session_is_opened_again_with_what_was_agreed(revision: Revision) -> None:
    both = pair(ALL, revision).open()
    request = both.call(m.TOOLS_LIST)
    lose_session(both)

    again = both.client.reopen()
    both.send(Side.CLIENT, again)

    assert wire_of(again)["method"] == "initialize"
    assert id_of(again) == int(request.id) + 1
    assert state_of(both.client) is State.INITIALIZING
    with pytest.raises(LocalProtocolError, match="initializing"):
        both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())
    both.run()
    assert last(both.client_events, ConnectionOpened).peer.revision is revision
    assert both.client.state is both.server.state is State.OPERATING
    assert sent_by_client(both)[-2:] == ["initialize", "notifications/initialized"]
    assert both.call(m.TOOLS_LIST).id == int(request.id) + 2


def test_requests_that_are_open_stay_open() -> None:
    both = opened(R2025_11_25)
    request = both.call(m.TOOLS_LIST)
    answer = both.server.respond(request.id, t.ListToolsResult(tools=()))
    lose_session(both)

    both.send(Side.CLIENT, both.client.reopen())
    both.send(Side.SERVER, answer)
    both.run()

    # The old answer arrived while the new session was being opened.
    assert last(both.client_events, ResultReceived).id == request.id
    assert both.client.outbound_requests == {}
    assert both.client.state is State.OPERATING


def test_what_the_server_asked_is_gone_and_its_ids_may_come_again() -> None:
    both = opened(R2025_11_25)
    asked = both.ask(m.ROOTS_LIST)
    lose_session(both)
    assert owed_by(both.client) == (asked.id,)
    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert owed_by(both.client) == ()
    assert both.client.respond(asked.id, t.ListRootsResult(roots=())) is None
    both.send(Side.CLIENT, both.client.reopen())
    lose_session(both)
    both.run()
    second = both.ask(m.ROOTS_LIST)
    assert second.id == asked.id
    assert owed_by(both.client) == (asked.id,)
    assert both.client.respond(second.id, t.ListRootsResult(roots=())) is not None


def test_an_id_that_is_abandoned_is_free_but_only_once() -> None:
    both = opened(R2025_11_25)
    asked = both.ask(m.ROOTS_LIST)
    lose_session(both)
    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert both.ask(m.ROOTS_LIST).id == asked.id
    assert owed_by(both.client) == (asked.id,)
    repeated = both.client.receive(received({"jsonrpc": "2.0", "id": asked.id, "method": "roots/list"}))
    assert isinstance(repeated.event, MessageIgnored)
    assert "is already in use" in repeated.event.reason


def test_what_the_server_offers_may_have_changed() -> None:
    both = opened(R2025_11_25)
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
def test_a_refused_session_is_not_looked_for_elsewhere(code: int) -> None:
    both = pair(ALL, R2025_11_25)
    both.send(Side.CLIENT, both.client.open(era=Era.LEGACY))
    both.run()
    again = both.client.reopen()

    error = ended_by(refuse(both.client, id_of(again), code))

    assert isinstance(error, RequestFailed)
    assert both.client.state is State.AWAITING
    with pytest.raises(LocalProtocolError):
        both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())


def test_a_server_that_was_replaced_is_asked_for_what_it_names() -> None:
    both = pair(LEGACY, R2024_11_05).open()
    again = both.client.reopen()

    reaction = refuse(both.client, id_of(again), -32602, {"supported": ["2025-11-25"]})

    # It was tried when the first session was opened; that says nothing of now.
    params = wire_of(reaction.reply)["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2025-11-25"


def test_it_can_be_tried_again_whether_it_was_refused_or_never_answered() -> None:
    both = opened(R2025_11_25)
    lose_session(both)
    first = both.client.reopen()
    second = both.client.reopen()
    assert both.client.outbound_requests == {id_of(second): "initialize"}
    assert ended_by(both.client.opening_refused(NOT_FOUND, id_of(second))) is NOT_FOUND

    both.send(Side.CLIENT, both.client.reopen())
    both.run()

    assert both.client.state is State.OPERATING
    assert isinstance(refuse(both.client, id_of(first)).event, MessageIgnored)
    both.call(m.TOOLS_LIST)


def test_only_a_legacy_session_can_be_opened_again() -> None:
    fresh = make_client(*ALL)
    modern = opened(R2026_07_28).client
    over = opened(R2025_11_25).client
    over.end()
    for client in (fresh, modern, over):
        with pytest.raises(LocalProtocolError, match="no legacy session"):
            client.reopen()


def test_a_lost_session_answers_nothing_that_came_for_it() -> None:
    both = opened(R2025_11_25)
    both.client.reopen()

    reaction = both.client.receive(received({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}))

    assert isinstance(reaction.event, MessageIgnored)
    assert wire_of(reaction.reply)["error"]
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
    ours=st.lists(st.sampled_from(ALL), min_size=1, unique=True),
    era=st.sampled_from([None, *Era]),
    answers=st.lists(_ANSWERS, min_size=12, max_size=12),
)
def test_negotiation_ends_and_tries_no_legacy_revision_twice_and_no_modern_one_thrice(
    ours: list[Revision], era: Era | None, answers: list[McpError | list[str] | None]
) -> None:
    negotiation = Negotiation(tuple(ours))
    step = negotiation.start(era)
    tried: list[Revision] = []
    for answer in answers:
        if isinstance(step, (NegotiatedRevision, NegotiationFailure)):
            break
        assert step.revision in ours
        assert tried.count(step.revision) < (1 if step.revision.era is Era.LEGACY else 2)
        tried.append(step.revision)
        following: object
        if answer is None:
            following = negotiation.silent() if isinstance(step, SendDiscover) else negotiation.refused(NOT_FOUND)
        elif isinstance(answer, McpError):
            following = negotiation.refused(answer)
        elif isinstance(step, SendDiscover):
            following = negotiation.discovered(answer)
        else:
            following = negotiation.initialized(answer[0] if answer else "")
        assert following is not None
        step = following  # type: ignore[assignment]  # a step, by the types of all four
    assert isinstance(step, (NegotiatedRevision, NegotiationFailure))


def test_the_oldest_is_found_by_name() -> None:
    both = hinted((R2024_11_05,))

    assert last(both.client_events, ConnectionOpened).peer.revision is R2024_11_05
    assert not any(isinstance(event, ErrorReceived) for event in both.client_events)
