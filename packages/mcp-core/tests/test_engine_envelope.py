"""The metadata of modern requests, and the log level in it."""

from __future__ import annotations

from typing import Final

import pytest
from engine_pair import (
    ALL,
    ALL_CLIENT_CAPABILITIES,
    ConnectionPair,
    get_error,
    make_client,
    make_server,
    open_pair,
    pair,
    to_wire,
)

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.events import (
    ClientPeer,
    LogLevelSet,
    MessageIgnored,
    RequestHandled,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.request_meta import EnvelopeReader, read_server_info, write_envelope
from mcp_core.errors import ErrorCode, LocalProtocolError
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Notification, Request
from mcp_core.methods import METHODS, Side
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, Revision
from mcp_core.types.logging import LOGGING_LEVELS
from mcp_core.types.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO

META: Final[JsonObject] = {
    PROTOCOL_VERSION: "2026-07-28",
    CLIENT_CAPABILITIES: {},
    CLIENT_INFO: {"name": "c", "version": "1"},
}
SERVERS: Final = pytest.mark.parametrize("revisions", [(R2026_07_28,), ALL], ids=["modern", "dual"])


def without(key: str) -> JsonObject:
    return {name: value for name, value in META.items() if name != key}


def get_request_error(
    method: str, meta: JsonValue, *revisions: Revision, **params: JsonValue
) -> tuple[int, str, JsonValue]:
    result = make_server(*revisions).receive(Request(1, method, {**params, "_meta": meta}))
    assert isinstance(result.event, MessageIgnored)
    return get_error(result)


@pytest.mark.spec("meta.protocol-version-required", "meta.client-capabilities-required", "meta.params-object-required")
@pytest.mark.spec("meta.client-info-should", "meta.client-info-shape", "version.request-declares")
def test_modern_request_has_metadata_of_client() -> None:
    both = open_pair(R2026_07_28)
    for row in METHODS:
        if R2026_07_28 in row.revisions and Side.CLIENT in row.sender:
            from engine_pair import PARAMS

            params = to_wire(both.client.request(row, PARAMS[row]))["params"]
            assert isinstance(params, dict)
            meta = params["_meta"]
            assert isinstance(meta, dict)
            assert meta[PROTOCOL_VERSION] == "2026-07-28"
            assert isinstance(meta[CLIENT_CAPABILITIES], dict)
            assert meta[CLIENT_INFO] == {"name": "client", "version": "1"}
            assert LOG_LEVEL not in meta


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_legacy_request_has_no_metadata(revision: Revision) -> None:
    both = open_pair(revision)
    assert "_meta" not in str(to_wire(both.client.request(m.TOOLS_LIST, t.ListToolsRequestParams())))


def test_request_meta_of_caller_kept_except_reserved_keys() -> None:
    both = open_pair(R2026_07_28)
    meta: JsonObject = {"com.example/a": 1, PROTOCOL_VERSION: "forged", "progressToken": "own"}
    params = t.ListToolsRequestParams(meta=meta)
    sent = to_wire(both.client.request(m.TOOLS_LIST, params, progress=True))["params"]
    assert isinstance(sent, dict)
    found = sent["_meta"]
    assert isinstance(found, dict)
    assert found["com.example/a"] == 1
    assert found[PROTOCOL_VERSION] == "2026-07-28"
    assert found["progressToken"] == 2
    assert meta[PROTOCOL_VERSION] == "forged"


@pytest.mark.spec("meta.missing-meta-32602", "meta.missing-protocol-version-32602")
@pytest.mark.spec("meta.missing-client-capabilities-32602", "meta.wrong-type-32602")
@SERVERS
@pytest.mark.parametrize(
    ("meta", "missing"),
    [
        (None, PROTOCOL_VERSION),
        ([], PROTOCOL_VERSION),
        ({}, PROTOCOL_VERSION),
        (without(PROTOCOL_VERSION), PROTOCOL_VERSION),
        ({**META, PROTOCOL_VERSION: 20260728}, PROTOCOL_VERSION),
        ({**META, PROTOCOL_VERSION: None}, PROTOCOL_VERSION),
        (without(CLIENT_CAPABILITIES), CLIENT_CAPABILITIES),
        ({**META, CLIENT_CAPABILITIES: []}, CLIENT_CAPABILITIES),
        ({**META, CLIENT_CAPABILITIES: "all"}, CLIENT_CAPABILITIES),
    ],
    ids=str,
)
def test_request_without_required_metadata_returns_invalid_params(
    meta: JsonValue, missing: str, revisions: tuple[Revision, ...]
) -> None:
    for method in ("tools/list", "server/discover", "what"):
        code, message, _ = get_request_error(method, meta, *revisions)
        assert code == ErrorCode.INVALID_PARAMS
        assert missing in message


@SERVERS
def test_request_without_params_returns_invalid_params(revisions: tuple[Revision, ...]) -> None:
    code, message, _ = get_error(make_server(*revisions).receive(Request(1, "tools/list")))
    assert code == ErrorCode.INVALID_PARAMS
    assert PROTOCOL_VERSION in message


def test_ping_modern_server_returns_method_not_found() -> None:
    server = make_server(R2026_07_28)
    assert get_error(server.receive(Request(1, "ping")))[0] == ErrorCode.INVALID_PARAMS
    assert get_error(server.receive(Request(1, "ping", {"_meta": META})))[0] == ErrorCode.METHOD_NOT_FOUND
    assert isinstance(make_server().receive(Request(1, "ping")).event, RequestHandled)


@pytest.mark.spec("meta.client-info-optional-for-server", "capability.empty-object-no-optional")
@SERVERS
def test_request_without_client_info_accepted(revisions: tuple[Revision, ...]) -> None:
    event = make_server(*revisions).receive(Request(1, "tools/list", {"_meta": without(CLIENT_INFO)})).event
    assert isinstance(event, RequestReceived)
    assert isinstance(event.peer, ClientPeer)
    assert event.peer.implementation is None
    assert event.peer.capabilities == t.ClientCapabilities()


@pytest.mark.parametrize("info", [5, [], "c"])
def test_client_info_malformed_returns_invalid_params(info: JsonValue) -> None:
    code, message, _ = get_request_error("tools/list", {**META, CLIENT_INFO: info}, R2026_07_28)
    assert code == ErrorCode.INVALID_PARAMS
    assert "_meta" in message


@pytest.mark.spec(
    "version.unsupported-error", "version.unsupported-data-supported", "version.unsupported-data-requested"
)
@pytest.mark.spec(
    "version.unsupported-applies-to-discover", "version.unsupported-every-method", "version.string-compare"
)
@pytest.mark.spec("discover.supported-versions-consistent")
@pytest.mark.parametrize("version", ["2025-11-25", "2024-11-05", "2099-01-01", "", "2026-7-28"])
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "subscriptions/listen", "what"])
def test_unsupported_version_returns_supported_versions(version: str, method: str) -> None:
    code, _, data = get_request_error(method, {**META, PROTOCOL_VERSION: version})
    assert code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION
    assert data == {
        "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "requested": version,
    }


def test_request_checks_run_in_order() -> None:
    """Check members, version, log level, method, capabilities and params, in this order."""
    everything_wrong: JsonObject = {PROTOCOL_VERSION: "1999", CLIENT_CAPABILITIES: {}, LOG_LEVEL: "loud"}
    assert get_request_error("what", without(CLIENT_CAPABILITIES))[0] == ErrorCode.INVALID_PARAMS
    assert get_request_error("what", everything_wrong)[0] == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION
    assert get_request_error("what", {**META, LOG_LEVEL: "loud"})[0] == ErrorCode.INVALID_PARAMS
    assert get_request_error("what", META)[0] == ErrorCode.METHOD_NOT_FOUND
    assert get_request_error("tasks/get", META)[0] == ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert get_request_error("tools/call", META)[0] == ErrorCode.INVALID_PARAMS


def test_request_metadata_overrides_session() -> None:
    both = pair(R2025_11_25, ALL).open()
    code, _, _ = get_error(both.server.receive(Request("m", "tools/list", {"_meta": {PROTOCOL_VERSION: "2030-01-01"}})))
    assert code == ErrorCode.INVALID_PARAMS
    event = both.server.receive(Request("m", "tools/list", {"_meta": META})).event
    assert isinstance(event, RequestReceived)
    assert event.peer.revision is R2026_07_28


def test_request_metadata_equal_parsed_once() -> None:
    reader = EnvelopeReader(frozenset({R2026_07_28}), ("2026-07-28",))
    first = reader.read(dict(META))
    assert reader.read({**META, "progressToken": 5}) is first
    second = reader.read({**META, CLIENT_CAPABILITIES: {"roots": {}}})
    assert second is not first
    assert second.capabilities.roots is not None
    assert reader.read(dict(META)).capabilities.roots is None


def test_request_metadata_written_and_read() -> None:
    info = t.Implementation(name="n", version="v", title="N")
    reader = EnvelopeReader(frozenset({R2026_07_28}), ())
    peer = reader.read(write_envelope(R2026_07_28, info, ALL_CLIENT_CAPABILITIES))
    assert peer.implementation == info
    assert peer.capabilities.sampling == ALL_CLIENT_CAPABILITIES.sampling
    assert peer.capabilities.tasks is None
    assert peer.log_level is None
    assert read_server_info({"_meta": {SERVER_INFO: {"name": "n", "version": "v", "title": "N"}}}, R2026_07_28) == info
    assert read_server_info({}, R2026_07_28) is None


@pytest.mark.spec("meta.server-info-should", "meta.server-info-shape", "jsonrpc.result-type-present")
@pytest.mark.spec("jsonrpc.result-type-complete")
def test_modern_result_has_server_info() -> None:
    both = open_pair(R2026_07_28)
    request = both.call(m.TOOLS_LIST)
    event = both.respond(request.id, t.ListToolsResult(tools=(), meta={"com.example/a": 1}))
    assert isinstance(event, ResultReceived)
    assert event.raw["_meta"] == {"com.example/a": 1, SERVER_INFO: {"name": "server", "version": "2"}}
    assert event.raw["resultType"] == "complete"
    event = both.respond(both.call(m.TOOLS_LIST).id, {"tools": [], "ttlMs": 0, "cacheScope": "public"})
    assert isinstance(event, ResultReceived)
    assert event.raw["resultType"] == "complete"
    assert event.raw["_meta"] == {SERVER_INFO: {"name": "server", "version": "2"}}


# --- log levels -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("logging.no-level-no-messages", "logging.threshold", "logging.may-send-at-or-above")
@pytest.mark.spec("logging.request-scoped", "logging.client-log-level-values", "logging.message-shape")
@pytest.mark.parametrize("requested", [None, *LOGGING_LEVELS])
def test_modern_log_messages_filtered_by_request_level(requested: t.LoggingLevel | None) -> None:
    both = pair(make_client(R2026_07_28, log_level=requested), make_server(R2026_07_28)).open()
    id = both.call(m.TOOLS_CALL).id
    sent = [level for level in LOGGING_LEVELS if both.server.log(level, {"x": 1}, logger="l", for_request=id)]
    assert sent == ([] if requested is None else list(LOGGING_LEVELS[LOGGING_LEVELS.index(requested) :]))
    if requested is not None:
        assert to_wire(both.server.log("emergency", None, for_request=id))["params"] == {
            "level": "emergency",
            "data": None,
        }


@pytest.mark.spec("logging.level-not-remembered")
def test_modern_log_level_applies_to_one_request() -> None:
    client = make_client(R2026_07_28, log_level="debug")
    both = pair(client, make_server(R2026_07_28)).open()
    first = both.call(m.TOOLS_CALL).id
    client.log_level = None
    second = both.call(m.TOOLS_CALL).id
    client.log_level = "error"
    third = both.call(m.TOOLS_CALL).id
    sent = [both.server.log("info", 1, for_request=id) is not None for id in (first, second, third)]
    assert sent == [True, False, False]


@pytest.mark.spec("logging.invalid-level-32602", "logging.invalid-level-error")
@pytest.mark.parametrize("level", ["loud", 5, True, [], ""])
def test_modern_log_level_unknown_returns_invalid_params(level: JsonValue) -> None:
    code, message, _ = get_request_error("tools/list", {**META, LOG_LEVEL: level}, R2026_07_28)
    assert code == ErrorCode.INVALID_PARAMS
    assert "debug, info" in message


def test_modern_log_level_null_accepted() -> None:
    event = make_server(R2026_07_28).receive(Request(1, "tools/list", {"_meta": {**META, LOG_LEVEL: None}})).event
    assert isinstance(event, RequestReceived)


def test_modern_log_message_without_request_raises() -> None:
    both = open_pair(R2026_07_28)
    with pytest.raises(LocalProtocolError, match="no session"):
        both.server.log("error", "x")


def set_level(both: ConnectionPair, level: t.LoggingLevel) -> None:
    both.send(Side.CLIENT, both.client.request(m.LOGGING_SET_LEVEL, t.SetLevelRequestParams(level=level)))
    both.run()
    event = both.server_events[-1]
    assert isinstance(event, LogLevelSet)
    assert event.level == level
    assert isinstance(both.client_events[-1], ResultReceived)


@pytest.mark.spec("logging.level-filter", "logging.set-level", "logging.default-level")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_session_log_level_applies_until_changed(revision: Revision) -> None:
    both = open_pair(revision)

    def sent() -> list[str]:
        return [level for level in LOGGING_LEVELS if both.server.log(level, 1) is not None]

    assert sent() == list(LOGGING_LEVELS[1:])
    earlier = both.call(m.TOOLS_CALL).id
    set_level(both, "error")
    assert sent() == list(LOGGING_LEVELS[4:])
    # A request that was sent before the level was set is also part of the session.
    assert both.server.log("info", 1, for_request=earlier) is None
    set_level(both, "debug")
    assert sent() == list(LOGGING_LEVELS)
    outgoing = both.server.log("debug", 1, for_request=earlier)
    assert outgoing is not None
    assert outgoing.for_request == earlier
    assert both.server.inbound_requests == (earlier,)


@pytest.mark.spec("logging.invalid-level-error")
def test_session_log_level_unknown_returns_invalid_params() -> None:
    both = open_pair(R2025_11_25)
    code, _, _ = get_error(both.server.receive(Request("l", "logging/setLevel", {"level": "loud"})))
    assert code == ErrorCode.INVALID_PARAMS
    assert both.server.log("debug", 1) is None


def test_session_log_level_in_peer_info() -> None:
    both = open_pair(R2025_11_25)
    set_level(both, "alert")
    peer = both.call(m.TOOLS_LIST).peer
    assert isinstance(peer, ClientPeer)
    assert peer.log_level == "alert"


def test_modern_cancellation_without_session_accepted() -> None:
    both = open_pair(R2026_07_28)
    reaction = both.server.receive(Notification("notifications/cancelled", {"requestId": both.call(m.TOOLS_CALL).id}))
    assert both.server.inbound_requests == ()
    assert reaction.event.notes == ()


@pytest.mark.spec("meta.no-assumptions", "meta.reserved-keys-no-assumptions")
@pytest.mark.parametrize("value", [None, 5, "x", [], {"a": 1}], ids=str)
@pytest.mark.parametrize("revision", ALL, ids=str)
def test_unknown_reserved_meta_key_passed_through(revision: Revision, value: JsonValue) -> None:
    key = "io.modelcontextprotocol/tomorrow"
    both = open_pair(revision)
    event = both.call(m.TOOLS_CALL, t.CallToolRequestParams(name="x", meta={key: value}))
    assert isinstance(event.params, t.CallToolRequestParams)
    assert (event.params.meta or {})[key] == value
    answer = both.respond(event.id, t.CallToolResult(content=(), meta={key: value}))
    assert isinstance(answer, ResultReceived)
    assert isinstance(answer.result, t.CallToolResult)
    assert (answer.result.meta or {})[key] == value
