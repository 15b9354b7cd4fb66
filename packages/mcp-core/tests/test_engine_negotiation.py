"""Negotiation of era and revision: combinations of clients and servers, and their messages."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import (
    ALL,
    NO_CLIENT_CAPABILITIES,
    ConnectionPair,
    from_wire,
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
from mcp_core.engine.client import ClientConnection
from mcp_core.engine.events import (
    ConnectionOpened,
    ErrorReceived,
    MessageIgnored,
    Negotiating,
    NegotiationEnded,
    ReceiveResult,
    RequestHandled,
    RequestReceived,
    ResultReceived,
    ServerPeer,
)
from mcp_core.engine.lifecycle import State
from mcp_core.engine.negotiation import (
    NegotiatedRevision,
    Negotiation,
    NegotiationFailure,
    Progress,
    SendDiscover,
    SendInitialize,
)
from mcp_core.errors import (
    ErrorCode,
    InvalidValue,
    LocalProtocolError,
    NegotiationFailed,
    RequestFailed,
    UnsupportedProtocolVersion,
)
from mcp_core.jsonrpc.messages import JsonObject, Request
from mcp_core.methods import Side
from mcp_core.revisions import (
    LEGACY,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    Revision,
)

DUAL: Final = (R2025_06_18, R2025_11_25, R2026_07_28)

DISCOVERED: Final[JsonObject] = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}
INITIALIZED: Final[JsonObject] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "serverInfo": {"name": "s", "version": "1"},
}


def methods_sent(both: ConnectionPair, role: Side = Side.CLIENT) -> list[object]:
    return [sent.message["method"] for sent in both.wire if sent.sender is role and "method" in sent.message]


def respond(client: object, id: int | None, **members: object) -> ReceiveResult:
    message = {"id": id, **members}
    assert hasattr(client, "receive")
    reaction = client.receive(from_wire(message))  # type: ignore[arg-type]  # JSON of the test
    assert isinstance(reaction, ReceiveResult)
    return reaction


# --- combinations of revisions ----------------------------------------------------------------------------------------


@pytest.mark.spec(
    "version.server-echo", "version.server-alternative", "version.server-latest", "version.client-disconnect"
)
@pytest.mark.spec("version.client-sends-supported", "lifecycle.handle-version-mismatch")
@pytest.mark.parametrize("client_revision", ALL, ids=str)
@pytest.mark.parametrize("server_revision", ALL, ids=str)
def test_single_revisions_agree_only_if_equal(client_revision: Revision, server_revision: Revision) -> None:
    both = pair(client_revision, server_revision).open()
    if client_revision is server_revision:
        assert get_last_event(both.client_events, ConnectionOpened).peer.revision is client_revision
        both.call(m.TOOLS_LIST)
    else:
        ended = get_last_event(both.client_events, NegotiationEnded)
        assert both.client.server is None
        assert isinstance(ended.error, (NegotiationFailed, UnsupportedProtocolVersion))
        assert not both.to_server
        with pytest.raises(LocalProtocolError):
            both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())


@pytest.mark.spec(
    "compat.client-dual-modern",
    "compat.era-is-server-property",
    "compat.server-dual-modern-request",
    "stdio.probe-discover",
    "stdio.probe-discover-result-modern",
)
def test_dual_era_client_and_server_skip_handshake() -> None:
    both = pair(ALL, ALL).open()
    assert methods_sent(both) == ["server/discover"]
    both.call(m.TOOLS_LIST)
    assert both.client.server is not None
    assert both.client.server.revision is R2026_07_28
    assert both.client.session is both.server.session is None
    assert both.client.state is both.server.state is State.AWAITING


@pytest.mark.spec("compat.client-dual-legacy", "stdio.probe-other-error-fallback")
@pytest.mark.parametrize("server_revision", LEGACY, ids=str)
def test_dual_era_client_falls_back_to_initialize(server_revision: Revision) -> None:
    both = pair(ALL, server_revision).open()
    assert methods_sent(both) == ["server/discover", "initialize", "notifications/initialized"]
    assert isinstance(both.client_events[0], Negotiating)
    assert both.client_events[0].method == "initialize"
    assert both.client.server is not None
    assert both.client.server.revision is server_revision
    assert both.client.state is both.server.state is State.OPERATING


@pytest.mark.spec("compat.client-modern-legacy-surface", "compat.client-modern-legacy-probe")
@pytest.mark.parametrize("server_revision", LEGACY, ids=str)
def test_modern_client_legacy_server_reports_reason(server_revision: Revision) -> None:
    both = pair(R2026_07_28, server_revision).open()
    assert methods_sent(both) == ["server/discover"]
    error = get_last_event(both.client_events, NegotiationEnded).error
    assert isinstance(error, NegotiationFailed)
    assert "modern revisions only (2026-07-28)" in error.message
    assert error.own_revisions == ("2026-07-28",)


@pytest.mark.spec("compat.server-modern-initialize-error-stdio", "compat.server-modern-initialize-names-versions")
@pytest.mark.spec("compat.client-legacy-modern-server")
@pytest.mark.parametrize("client_revision", LEGACY, ids=str)
def test_modern_server_rejects_initialize_with_supported_versions(client_revision: Revision) -> None:
    both = pair(client_revision, R2026_07_28).open()
    error = both.wire[1].message["error"]
    assert isinstance(error, dict)
    assert error["code"] == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION
    assert error["data"] == {"supported": ["2026-07-28"], "requested": client_revision.name}
    ended = get_last_event(both.client_events, NegotiationEnded).error
    assert isinstance(ended, NegotiationFailed)
    assert ended.peer_revisions == ("2026-07-28",)
    assert both.server.session is None


def test_modern_server_rejects_initialize_without_version() -> None:
    _, _, data = get_error(make_server(R2026_07_28).receive(Request(1, "initialize")))
    assert data == {"supported": ["2026-07-28"], "requested": ""}


@pytest.mark.spec("compat.server-dual-initialize", "compat.server-may-be-dual")
@pytest.mark.parametrize("client_revision", LEGACY, ids=str)
def test_dual_era_server_serves_legacy_client(client_revision: Revision) -> None:
    both = pair(client_revision, ALL).open()
    assert both.client.server is not None
    assert both.client.server.revision is client_revision
    event = both.respond(both.call(m.TOOLS_CALL).id, t.CallToolResult(content=()))
    assert isinstance(event, ResultReceived)
    assert "resultType" not in event.raw


@pytest.mark.spec(
    "compat.server-dual-concurrent", "compat.server-dual-modern-request", "compat.server-dual-legacy-results"
)
def test_dual_era_server_serves_both_eras_on_one_connection() -> None:
    both = pair(R2025_06_18, ALL).open()
    modern = make_client(R2026_07_28)
    modern.adopt(ServerPeer(revision=R2026_07_28, capabilities=both.server.capabilities))
    legacy_call = both.call(m.TOOLS_CALL)
    outgoing = modern.request(m.TOOLS_CALL, t.CallToolRequestParams(name="x"))
    event = both.server.receive(from_wire({**to_wire(outgoing), "id": "m"})).event
    assert isinstance(event, RequestReceived)
    assert event.peer.revision is R2026_07_28
    assert legacy_call.peer.revision is R2025_06_18
    result = t.CallToolResult(content=())
    assert to_wire(both.server.respond("m", result))["result"] != {"content": []}
    assert to_wire(both.server.respond(legacy_call.id, result))["result"] == {"content": []}


@pytest.mark.parametrize(
    ("client_revisions", "server_revisions", "agreed"),
    [
        (DUAL, ALL, R2026_07_28),
        (DUAL, LEGACY, R2025_11_25),
        (DUAL, (R2025_06_18, R2024_11_05), R2025_06_18),
        (LEGACY, ALL, R2025_11_25),
        ((R2024_11_05, R2025_03_26), ALL, R2025_03_26),
        ((R2024_11_05, R2026_07_28), (R2025_11_25, R2026_07_28), R2026_07_28),
        ((R2026_07_28,), ALL, R2026_07_28),
        (ALL, (R2026_07_28,), R2026_07_28),
        # The server responds with its newest revision, which the client does not support.
        ((R2024_11_05, R2025_06_18), (R2024_11_05, R2025_03_26), None),
        (DUAL, (R2024_11_05,), None),
    ],
    ids=str,
)
def test_revision_sets_agree_on_newest_common_revision(
    client_revisions: tuple[Revision, ...], server_revisions: tuple[Revision, ...], agreed: Revision | None
) -> None:
    both = pair(client_revisions, server_revisions).open()
    found = both.client.server
    assert (found.revision if found is not None else None) is agreed


@pytest.mark.spec("version.client-latest")
def test_client_proposes_newest_legacy_revision() -> None:
    message = to_wire(make_client(R2024_11_05, R2025_06_18).open())
    params = message["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize("requested", ["2026-07-28", "1999-01-01", "draft"])
def test_initialize_unsupported_version_returns_newest_legacy_revision(requested: str) -> None:
    server = make_server()
    params: JsonObject = {**INITIALIZED, "protocolVersion": requested, "clientInfo": {"name": "c", "version": "1"}}
    reaction = server.receive(Request(1, "initialize", params))
    result = to_wire(reaction.reply)["result"]
    assert isinstance(result, dict)
    assert result["protocolVersion"] == "2025-11-25"


# --- responses to the probe -------------------------------------------------------------------------------------------


@pytest.mark.spec("stdio.probe-other-error-fallback", "stdio.fallback-not-one-code")
@pytest.mark.parametrize(
    ("code", "message", "id"),
    [
        (-32601, "Method not found", 1),
        (-32602, "Invalid request parameters", 1),
        (-32600, "Invalid Request", 1),
        (-32000, "Bad Request: Missing session ID", None),
        (-32000, "Bad Request: Unsupported protocol version", None),
        (-32603, "Internal error", 1),
        (-32002, "Server not initialized", 1),
        (0, "what?", 1),
    ],
)
def test_probe_other_error_falls_back_to_initialize(code: int, message: str, id: int | None) -> None:
    client = make_client()
    client.open()
    reaction = respond(client, id, error={"code": code, "message": message})
    assert isinstance(reaction.event, Negotiating)
    sent = to_wire(reaction.reply)
    assert sent["method"] == "initialize"
    assert sent["id"] == 2
    assert isinstance(respond(client, 2, result=INITIALIZED).event, ConnectionOpened)


@pytest.mark.parametrize("code", [-32601, -32000])
def test_modern_client_probe_error_quotes_server_message(code: int) -> None:
    client = make_client(R2026_07_28)
    client.open()
    event = respond(client, 1, error={"code": code, "message": "no such thing"}).event
    assert isinstance(event, NegotiationEnded)
    assert "no such thing" in event.error.message


@pytest.mark.spec("stdio.probe-timeout-fallback")
def test_probe_timeout_falls_back_to_initialize() -> None:
    client = make_client()
    client.open()
    reaction = client.probe_unanswered()
    assert reaction is not None
    assert isinstance(reaction.event, Negotiating)
    assert to_wire(reaction.reply)["method"] == "initialize"
    assert client.probe_unanswered() is None


def test_modern_client_probe_timeout_ends_negotiation() -> None:
    client = make_client(R2026_07_28)
    client.open()
    reaction = client.probe_unanswered()
    assert reaction is not None
    assert isinstance(reaction.event, NegotiationEnded)
    assert "did not respond" in reaction.event.error.message
    assert reaction.reply is None


def test_probe_timeout_without_probe_ignored() -> None:
    assert make_client().probe_unanswered() is None
    client = make_client(R2025_11_25)
    client.open()
    assert client.probe_unanswered() is None


def test_late_probe_response_overrides_pending_handshake() -> None:
    client = make_client()
    client.open()
    client.probe_unanswered()
    reaction = respond(client, 1, result=DISCOVERED)
    assert isinstance(reaction.event, ConnectionOpened)
    assert reaction.event.peer.revision is R2026_07_28
    assert client.outbound_requests == {}
    event = respond(client, 2, result=INITIALIZED).event
    assert isinstance(event, MessageIgnored)
    assert "crossed" in event.reason
    assert client.server is reaction.event.peer


def test_late_probe_response_after_handshake_ignored() -> None:
    client = make_client()
    client.open()
    client.probe_unanswered()
    assert isinstance(respond(client, 2, result=INITIALIZED).event, ConnectionOpened)
    event = respond(client, 1, result=DISCOVERED).event
    assert isinstance(event, ResultReceived)
    assert client.server is not None
    assert client.server.revision is R2025_11_25


@pytest.mark.parametrize("versions", [[], ["2025-11-25"], ["2030-01-01"]])
def test_late_probe_response_without_common_version_keeps_handshake(versions: list[str]) -> None:
    client = make_client()
    client.open()
    client.probe_unanswered()
    event = respond(client, 1, result={**DISCOVERED, "supportedVersions": versions}).event
    assert isinstance(event, ResultReceived)
    assert client.outbound_requests == {2: "initialize"}
    assert isinstance(respond(client, 2, result=INITIALIZED).event, ConnectionOpened)


def test_late_probe_error_keeps_handshake() -> None:
    client = make_client()
    client.open()
    client.probe_unanswered()
    event = respond(client, 1, error={"code": -32601, "message": "?"}).event
    assert isinstance(event, ErrorReceived)
    assert isinstance(respond(client, 2, result=INITIALIZED).event, ConnectionOpened)


def test_probe_result_of_other_type_falls_back_to_initialize() -> None:
    client = make_client()
    client.open()
    reaction = respond(client, 1, result={"tools": []})
    assert isinstance(reaction.event, Negotiating)
    assert reaction.event.method == "initialize"


@pytest.mark.parametrize("broken", [{"supportedVersions": [5]}, {"_meta": 5, "supportedVersions": [{}]}], ids=str)
def test_malformed_discover_result_ends_negotiation(broken: JsonObject) -> None:
    client = make_client()
    client.open()
    event = respond(client, 1, result={**DISCOVERED, **broken}).event
    assert isinstance(event, NegotiationEnded)
    assert isinstance(event.error, InvalidValue)


@pytest.mark.spec("version.retry-mutual", "stdio.probe-modern-error-no-fallback")
def test_probe_unsupported_version_error_falls_back_to_common_version() -> None:
    client = make_client()
    client.open()
    error: JsonObject = {
        "code": -32022,
        "message": "no",
        "data": {"supported": ["2025-06-18", "2030-01-01"], "requested": "2026-07-28"},
    }
    reaction = respond(client, 1, error=error)
    params = to_wire(reaction.reply)["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2025-06-18"


@pytest.mark.spec("version.no-mutual-surface-error")
@pytest.mark.parametrize("data", [None, {"supported": ["2030-01-01"]}, {"supported": 5}])
def test_probe_unsupported_version_without_common_version_ends_negotiation(data: JsonObject | None) -> None:
    client = make_client()
    client.open()
    reaction = respond(client, 1, error={"code": -32022, "message": "no", "data": data})
    assert isinstance(reaction.event, NegotiationEnded)
    assert isinstance(reaction.event.error, NegotiationFailed)
    assert reaction.reply is None


@pytest.mark.spec("stdio.probe-modern-error-no-fallback")
@pytest.mark.parametrize("code", [-32020, -32021])
def test_probe_other_modern_error_ends_negotiation(code: int) -> None:
    client = make_client()
    client.open()
    event = respond(client, 1, error={"code": code, "message": "no"}).event
    assert isinstance(event, NegotiationEnded)
    assert isinstance(event.error, RequestFailed)
    assert event.error.code == code


@pytest.mark.spec("discover.client-picks-supported-version")
def test_discover_result_with_legacy_versions_only_leads_to_initialize() -> None:
    client = make_client()
    client.open()
    reaction = respond(client, 1, result={**DISCOVERED, "supportedVersions": ["2025-03-26"]})
    assert isinstance(reaction.event, Negotiating)
    params = to_wire(reaction.reply)["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2025-03-26"


def test_cancelled_probe_falls_back_to_initialize() -> None:
    client = make_client()
    client.open()
    client.cancel(1)
    assert client.probe_unanswered() is not None


# --- responses to initialize ------------------------------------------------------------------------------------------


@pytest.mark.spec("version.client-disconnect")
@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "2024-11-05"])
def test_initialize_result_unsupported_version_ends_negotiation(version: str) -> None:
    client = make_client(R2025_11_25)
    client.open()
    reaction = respond(client, 1, result={**INITIALIZED, "protocolVersion": version})
    assert isinstance(reaction.event, NegotiationEnded)
    error = reaction.event.error
    assert isinstance(error, NegotiationFailed)
    assert error.peer_revisions == (version,)
    assert version in error.message
    assert reaction.reply is None


def test_initialize_error_with_versions_leads_to_retry() -> None:
    client = make_client(*LEGACY)
    client.open()
    data = {"supported": ["2024-11-05", "2025-03-26"], "requested": "2025-11-25"}
    reaction = respond(client, 1, error={"code": -32602, "message": "Unsupported protocol version", "data": data})
    params = to_wire(reaction.reply)["params"]
    assert isinstance(params, dict)
    assert params["protocolVersion"] == "2025-03-26"
    assert isinstance(
        respond(client, 2, result={**INITIALIZED, "protocolVersion": "2025-03-26"}).event, ConnectionOpened
    )


def test_initialize_retries_bounded() -> None:
    client = make_client(R2024_11_05, R2025_03_26)
    client.open()
    data = {"supported": ["2024-11-05", "2025-03-26"]}
    respond(client, 1, error={"code": -32602, "message": "no", "data": data})
    reaction = respond(client, 2, error={"code": -32602, "message": "no", "data": data})
    assert isinstance(reaction.event, NegotiationEnded)
    assert isinstance(reaction.event.error, NegotiationFailed)


@pytest.mark.parametrize("result", [{}, {"protocolVersion": 5}, {**INITIALIZED, "protocolVersion": None}], ids=str)
def test_malformed_initialize_result_ends_negotiation(result: JsonObject) -> None:
    client = make_client(R2025_11_25)
    client.open()
    event = respond(client, 1, result=result).event
    assert isinstance(event, NegotiationEnded)
    assert isinstance(event.error, InvalidValue)


def test_initialize_error_ends_negotiation() -> None:
    client = make_client(R2025_11_25)
    client.open()
    event = respond(client, 1, error={"code": -32603, "message": "broken"}).event
    assert isinstance(event, NegotiationEnded)
    assert isinstance(event.error, RequestFailed)
    assert event.error.message == "broken"


# --- opening ----------------------------------------------------------------------------------------------------------


def test_connection_opened_twice_raises() -> None:
    client = make_client()
    client.open()
    with pytest.raises(LocalProtocolError, match="opened already"):
        client.open()
    with pytest.raises(LocalProtocolError, match="opened already"):
        client.adopt(ServerPeer(revision=R2026_07_28, capabilities=t.ServerCapabilities()))


@pytest.mark.spec("version.no-negotiation-needed", "discover.client-may-call", "compat.client-cache-era")
def test_modern_server_info_adopted_without_negotiation() -> None:
    client = make_client(R2026_07_28)
    known = ServerPeer(revision=R2026_07_28, capabilities=t.ServerCapabilities(tools=t.ToolsCapability()))
    client.adopt(known)
    assert client.server is known
    both = pair(client, make_server(R2026_07_28))
    both.call(m.TOOLS_LIST)
    with pytest.raises(LocalProtocolError):
        client.open()


def test_legacy_server_info_adopted_raises() -> None:
    with pytest.raises(LocalProtocolError, match="initialize"):
        make_client().adopt(ServerPeer(revision=R2025_11_25, capabilities=t.ServerCapabilities()))


def test_client_without_revisions_cannot_open() -> None:
    client = ClientConnection(t.Implementation(name="c", version="1"), NO_CLIENT_CAPABILITIES, revisions=())
    with pytest.raises(LocalProtocolError, match="no revision"):
        client.open()


# --- server/discover --------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "discover.implemented",
    "discover.supported-versions",
    "discover.capabilities",
    "discover.result-type",
    "caching.hints-discover",
    "capability.server-declares-implemented",
    "capability.advertise-implemented",
)
@pytest.mark.spec("discover.cache-fields", "discover.server-info-in-meta", "discover.instructions-optional")
@pytest.mark.spec("compat.server-dual-advertises-legacy", "discover.params-only-meta")
def test_discover_result_describes_server() -> None:
    both = pair(make_client(), make_server(instructions="be kind")).open()
    params = both.wire[0].message["params"]
    assert isinstance(params, dict)
    assert params.keys() == {"_meta"}
    result = both.wire[1].message["result"]
    assert isinstance(result, dict)
    assert result["supportedVersions"] == ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    assert result["resultType"] == "complete"
    assert result["instructions"] == "be kind"
    assert result["ttlMs"] == 0
    assert result["cacheScope"] == "private"
    assert result["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "server", "version": "2"}}
    capabilities = result["capabilities"]
    assert isinstance(capabilities, dict)
    assert "tasks" not in capabilities
    assert isinstance(both.server_events[0], RequestHandled)
    server = both.client.server
    assert server is not None
    assert server.implementation == t.Implementation(name="server", version="2")
    assert server.instructions == "be kind"


def test_discover_repeated_returns_result() -> None:
    both = open_pair(R2026_07_28)
    both.send(Side.CLIENT, both.client.request(m.SERVER_DISCOVER, t.DiscoverRequestParams()))
    both.run()
    event = both.client_events[-1]
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.DiscoverResult)


@pytest.mark.parametrize("info", [5, "server 1", None])
def test_malformed_server_info_ignored(info: str | int | None) -> None:
    client = make_client()
    client.open()
    meta: JsonObject = {"io.modelcontextprotocol/serverInfo": info}
    event = respond(client, 1, result={**DISCOVERED, "_meta": meta}).event
    assert isinstance(event, ConnectionOpened)
    assert event.peer.implementation is None


# --- state machine ----------------------------------------------------------------------------------------------------


def test_negotiation_progress_follows_steps() -> None:
    negotiation = Negotiation(ALL)
    progress = [negotiation.progress]
    assert negotiation.start() == SendDiscover(R2026_07_28)
    progress.append(negotiation.progress)
    assert negotiation.silent() == SendInitialize(R2025_11_25)
    progress.append(negotiation.progress)
    assert negotiation.initialized("2025-03-26") == NegotiatedRevision(R2025_03_26)
    progress.append(negotiation.progress)
    assert progress == [Progress.NEW, Progress.PROBING, Progress.INITIALIZING, Progress.DONE]
    assert isinstance(Negotiation(()).start(), NegotiationFailure)


@pytest.mark.spec("version.retry-mutual", "version.no-mutual-surface-error")
def test_rejected_and_listed_revision_probed_once_more() -> None:
    client = make_client()
    client.open()
    error: JsonObject = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28", "2025-06-18"]}}
    again = respond(client, 1, error=error)
    assert to_wire(again.reply)["method"] == "server/discover"
    # After that the client tries the other common revision, but it does not repeat rejected attempts without a limit.
    handshake = respond(client, 2, error=error)
    assert to_wire(handshake.reply)["method"] == "initialize"
    ended = respond(client, 3, error=error)
    assert isinstance(ended.event, NegotiationEnded)
    assert ended.reply is None


def test_untried_revision_probed_before_rejected_one() -> None:
    """Start the machine in the state of probing, because there is only one modern revision."""
    negotiation = Negotiation((R2026_07_28,), Progress.PROBING)
    unsupported = UnsupportedProtocolVersion.of("2027-07-28", ["2026-07-28"])
    assert negotiation.refused(unsupported) == SendDiscover(R2026_07_28)
    assert negotiation.refused(unsupported) == SendDiscover(R2026_07_28)
    assert isinstance(negotiation.refused(unsupported), NegotiationFailure)


def test_unknown_log_level_raises_when_set() -> None:
    connection = ClientConnection(t.Implementation(name="c", version="1"), NO_CLIENT_CAPABILITIES, log_level="warning")
    assert connection.log_level == "warning"
    with pytest.raises(LocalProtocolError, match="unknown log level 'loud'"):
        connection.log_level = "loud"  # type: ignore[assignment]  # the test assigns a wrong value
    assert connection.log_level == "warning"
