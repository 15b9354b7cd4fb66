"""Connections made from a template, and restored sessions."""

from __future__ import annotations

import pytest

from mcp_core.engine.events import ClientPeer, LogLevelSet, RequestReceived, ResultReceived
from mcp_core.engine.lifecycle import State
from mcp_core.engine.server import ServerConnection
from mcp_core.errors import InvalidValue, LimitExceeded, LocalProtocolError
from mcp_core.jsonrpc.messages import JsonObject, Notification, Request, ResultResponse
from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED, ROOTS_LIST
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS
from mcp_core.types import (
    EmptyResult,
    Implementation,
    ListRootsRequestParams,
    ResourcesCapability,
    ResourceUpdatedNotificationParams,
    ServerCapabilities,
    ToolsCapability,
)

CLIENT: JsonObject = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "client", "version": "1"},
}
META: JsonObject = {
    "io.modelcontextprotocol/protocolVersion": R2026_07_28.name,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def template(limits: Limits | None = None) -> ServerConnection:
    capabilities = ServerCapabilities(
        tools=ToolsCapability(), resources=ResourcesCapability(subscribe=True, list_changed=True), logging={}
    )
    return ServerConnection(Implementation(name="server", version="1"), capabilities, limits=limits)


def open_session(connection: ServerConnection) -> ServerConnection:
    connection.receive(Request(1, "initialize", CLIENT))
    connection.receive(Notification("notifications/initialized"))
    assert connection.state is State.OPERATING
    return connection


def resource_updated(uri: str) -> ResourceUpdatedNotificationParams:
    return ResourceUpdatedNotificationParams(uri=uri)


def test_connections_of_one_template_independent() -> None:
    first = template()
    one, two = open_session(first.exchange()), first.exchange()
    assert two.session is None
    assert (two.state, first.state) == (State.AWAITING, State.AWAITING)
    call = Request(7, "tools/call", {"name": "a"})
    assert isinstance(one.receive(call).event, RequestReceived)
    assert one.inbound_requests == (7,)
    assert two.inbound_requests == first.inbound_requests == ()
    modern = Request(7, "tools/call", {"name": "a", "_meta": META})
    assert isinstance(two.receive(modern).event, RequestReceived)
    one.request(ROOTS_LIST, ListRootsRequestParams(), for_request=7)
    assert (len(one.outbound_requests), len(two.outbound_requests)) == (1, 0)
    one.receive(Request(8, "resources/subscribe", {"uri": "a:b"}))
    one.respond(8, EmptyResult())
    assert (one.watched, two.watched) == (("a:b",), ())
    one.end()
    assert open_session(first.exchange()).session is not None


def test_connections_of_one_template_share_configuration() -> None:
    first = template()
    connection = first.exchange()
    assert (connection.info, connection.capabilities, connection.limits) == (
        first.info,
        first.capabilities,
        first.limits,
    )
    assert connection.revisions == first.revisions == tuple(REVISIONS.values())


def test_session_restored_continues() -> None:
    connection = template().exchange()
    connection.reopen(CLIENT, R2025_06_18, log_level="error", subscriptions=("a:b", "c:d"), last_id=1000)
    peer = connection.session
    assert isinstance(peer, ClientPeer)
    assert (peer.revision, peer.log_level) == (R2025_06_18, "error")
    assert peer.implementation is not None
    assert peer.implementation.name == "client"
    assert connection.watched == ("a:b", "c:d")
    assert connection.state is State.OPERATING
    assert len(connection.publish(NOTIFICATIONS_RESOURCES_UPDATED, resource_updated("a:b"))) == 1
    assert connection.publish(NOTIFICATIONS_RESOURCES_UPDATED, resource_updated("x:y")) == ()
    assert connection.log("info", "nothing") is None
    assert isinstance(connection.receive(Request(2, "tools/call", {"name": "a"})).event, RequestReceived)
    outgoing = connection.request(ROOTS_LIST, ListRootsRequestParams(), for_request=2)
    assert isinstance(outgoing.message, Request)
    assert outgoing.message.id == 1001
    assert isinstance(connection.receive(ResultResponse(1001, {"roots": []})).event, ResultReceived)
    level = connection.receive(Request(3, "logging/setLevel", {"level": "debug"}))
    assert isinstance(level.event, LogLevelSet)


def test_shared_session_operates_without_notification_and_assigns_greater_ids() -> None:
    connection = open_session(template().exchange())
    connection.share(5_000)
    assert connection.state is State.OPERATING
    connection.receive(Request(2, "tools/call", {"name": "a"}))
    outgoing = connection.request(ROOTS_LIST, ListRootsRequestParams(), for_request=2)
    assert isinstance(outgoing.message, Request)
    assert outgoing.message.id == 5_001
    connection.share(1_000)
    outgoing = connection.request(ROOTS_LIST, ListRootsRequestParams(), for_request=2)
    assert isinstance(outgoing.message, Request)
    assert outgoing.message.id == 5_002


def test_session_updated_has_other_level_and_subscriptions() -> None:
    connection = template().exchange()
    connection.reopen(CLIENT, R2025_06_18, log_level="error", subscriptions=("a:b", "c:d"))
    connection.update_session(log_level=None, subscriptions=("c:d", "e:f", "x" * 1_000_000))
    peer = connection.session
    assert isinstance(peer, ClientPeer)
    assert peer.log_level is None
    assert connection.watched == ("c:d", "e:f")
    assert connection.listened == {"c:d", "e:f"}
    with pytest.raises(LocalProtocolError):
        template().exchange().update_session(log_level=None, subscriptions=())


def test_session_restored_twice_or_in_modern_era_raises() -> None:
    connection = template()
    with pytest.raises(LocalProtocolError, match="2026-07-28"):
        connection.reopen(CLIENT, R2026_07_28)
    connection.reopen(CLIENT, R2025_11_25)
    with pytest.raises(LocalProtocolError, match="cannot restore a session"):
        connection.reopen(CLIENT, R2025_11_25)


def test_session_with_invalid_data_not_restored() -> None:
    with pytest.raises(InvalidValue):
        template().reopen({"capabilities": 7}, R2025_11_25)
    with pytest.raises(LimitExceeded, match="watched_resources"):
        template(Limits(watched_resources=1)).reopen(CLIENT, R2025_11_25, subscriptions=("a:b", "c:d"))
