"""Undeclared capabilities: every request and notification in both directions."""

from __future__ import annotations

from typing import Final

import attrs
import pytest
from engine_pair import (
    ALL,
    ALL_CLIENT_CAPABILITIES,
    ALL_SERVER_CAPABILITIES,
    FORM,
    NO_CLIENT_CAPABILITIES,
    NO_SERVER_CAPABILITIES,
    NOTIFICATION_PARAMS,
    PARAMS,
    SAMPLE,
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
from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared, missing_client_capability, undeclared
from mcp_core.engine.connection import Extensions
from mcp_core.engine.events import LogLevelSet, MessageIgnored, NotificationReceived, RequestHandled, RequestReceived
from mcp_core.errors import ErrorCode, LocalProtocolError, MissingRequiredClientCapability
from mcp_core.jsonrpc.messages import JsonObject, Notification, Request
from mcp_core.methods import METHODS, NOTIFICATIONS, NotificationMethod, RequestMethod, Side
from mcp_core.revisions import (
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    Era,
    Revision,
    between,
)
from mcp_core.types.meta import TASKS_EXTENSION

EVERY_METHOD: Final = pytest.mark.parametrize(
    "row", METHODS, ids=lambda row: f"{row.name}{'*' if row.extension else ''}"
)
EVERY_NOTIFICATION: Final = pytest.mark.parametrize("row", NOTIFICATIONS, ids=lambda row: row.name)
EVERY_REVISION: Final = pytest.mark.parametrize("revision", ALL, ids=str)


def open_bare_pair(revision: Revision) -> ConnectionPair:
    """Return an open pair without capabilities on both sides."""
    return pair(
        make_client(revision, capabilities=NO_CLIENT_CAPABILITIES),
        make_server(revision, capabilities=NO_SERVER_CAPABILITIES),
    ).open()


def raw_request(both: ConnectionPair, row: RequestMethod[object, object], revision: Revision) -> Request:
    """Return a request as a client without checks sends it."""
    params: JsonObject = converter(revision).unstructure(PARAMS[row])
    if revision in between(R2026_07_28):
        outgoing = make_client(revision).open().message
        assert isinstance(outgoing, Request)
        params["_meta"] = (outgoing.params or {})["_meta"]
    return Request("raw", row.name, params)


# --- requests from the client -----------------------------------------------------------------------------------------


@pytest.mark.spec(
    "capability.only-negotiated",
    "capability.respect-declared",
    "version.respect-negotiated",
    "capability.only-negotiated-should",
    "version.respect-negotiated-should",
    "prompts.respect-capability",
    "prompts.respect-capabilities",
)
@pytest.mark.spec("compat.no-ping")
@EVERY_METHOD
@EVERY_REVISION
def test_client_sends_only_requests_of_revision(row: RequestMethod[object, object], revision: Revision) -> None:
    both = open_pair(revision)
    if revision in row.revisions and Side.CLIENT in row.sender and row is not m.INITIALIZE:
        both.send(Side.CLIENT, both.client.request(row, PARAMS[row]))
        reaction = both.deliver(Side.SERVER)
        assert isinstance(reaction.event, (RequestReceived, RequestHandled, LogLevelSet))
        assert reaction.event.notes == ()
    else:
        with pytest.raises(LocalProtocolError, match=row.name):
            both.client.request(row, PARAMS[row])
        assert both.client.outbound_requests == {}


@pytest.mark.spec(
    "capability.only-negotiated",
    "capability.respect-declared",
    "lifecycle.handle-missing-capabilities",
    "capability.only-negotiated-should",
    "capability.respect-throughout",
    "prompts.respect-capability",
    "prompts.respect-capabilities",
    "jsonrpc.optional-components",
    "jsonrpc.components-optional",
)
@EVERY_METHOD
@EVERY_REVISION
def test_client_request_capability_not_declared_by_server_raises(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    both = open_bare_pair(revision)
    if revision not in row.revisions or Side.CLIENT not in row.sender or row is m.INITIALIZE:
        return
    if row.server_capability is None or revision not in row.capability_revisions:
        both.client.request(row, PARAMS[row])
    else:
        with pytest.raises(LocalProtocolError, match="does not offer") as refused:
            both.client.request(row, PARAMS[row])
        assert refused.value.code == ErrorCode.METHOD_NOT_FOUND
        assert ".".join(row.server_capability) in refused.value.message


@pytest.mark.spec(
    "capability.unadvertised-method-not-found",
    "jsonrpc.method-not-found-code",
    "completion.unsupported-error",
    "completion.unsupported-32601",
)
@pytest.mark.spec("jsonrpc.unknown-method-error")
@EVERY_METHOD
@EVERY_REVISION
def test_server_request_for_undeclared_capability_returns_method_not_found(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    both = open_bare_pair(revision)
    if revision not in row.revisions or row is m.INITIALIZE:
        return
    reaction = both.server.receive(raw_request(both, row, revision))
    requires_capability = row.server_capability is not None and revision in row.capability_revisions
    if Side.CLIENT not in row.sender or requires_capability:
        code, message, _ = get_error(reaction)
        assert code == ErrorCode.METHOD_NOT_FOUND
        assert row.name in message
        assert not both.server.inbound_requests
    else:
        assert isinstance(reaction.event, (RequestReceived, RequestHandled))


@pytest.mark.spec("jsonrpc.unknown-method-error", "jsonrpc.method-not-found-code")
@EVERY_METHOD
@EVERY_REVISION
def test_server_method_of_other_revision_returns_method_not_found(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    both = open_pair(revision)
    if any(each.name == row.name and revision in each.revisions for each in METHODS):
        return
    message = Request("raw", row.name, raw_request(both, m.TOOLS_LIST, revision).params)
    code, text, _ = get_error(both.server.receive(message))
    assert code == ErrorCode.METHOD_NOT_FOUND
    assert row.name in text


def test_completion_in_2024_11_05_requires_no_capability() -> None:
    for revision in ALL:
        server = make_server(revision, capabilities=NO_SERVER_CAPABILITIES)
        both = pair(make_client(revision), server).open()
        if revision is R2024_11_05:
            both.call(m.COMPLETION_COMPLETE)
        else:
            with pytest.raises(LocalProtocolError, match="completions"):
                both.client.request(m.COMPLETION_COMPLETE, PARAMS[m.COMPLETION_COMPLETE])


def test_client_task_request_without_server_capability_raises() -> None:
    params = t.CallToolRequestParams(name="slow", task=t.TaskMetadata())
    both = open_pair(R2025_11_25)
    assert list(to_wire(both.client.request(m.TOOLS_CALL, params))) == ["jsonrpc", "id", "method", "params"]
    without = pair(
        make_client(R2025_11_25),
        make_server(R2025_11_25, capabilities=t.ServerCapabilities(tools=t.ToolsCapability())),
    ).open()
    with pytest.raises(LocalProtocolError, match=r"tasks\.requests\.tools\.call"):
        without.client.request(m.TOOLS_CALL, params)
    with pytest.raises(LocalProtocolError, match="task"):
        open_pair(R2025_06_18).client.request(m.TOOLS_CALL, params)
    # A server without the capability handles the request like one without a task.
    raw = Request(5, "tools/call", {"name": "slow", "task": {}})
    assert isinstance(without.server.receive(raw).event, RequestReceived)


# --- requests from the server -----------------------------------------------------------------------------------------


@pytest.mark.spec(
    "capability.only-negotiated",
    "jsonrpc.server-no-requests",
    "mrtr.only-pattern-for-input",
    "capability.only-negotiated-should",
    "version.respect-negotiated-should",
    "jsonrpc.binding-directions",
    "stdio.server-no-requests",
)
@EVERY_METHOD
@EVERY_REVISION
def test_server_sends_only_requests_of_revision(row: RequestMethod[object, object], revision: Revision) -> None:
    both = open_pair(revision)
    if revision in row.revisions and Side.SERVER in row.sender:
        both.send(Side.SERVER, both.server.request(row, PARAMS[row], for_request=None))
        event = both.deliver(Side.CLIENT).event
        assert isinstance(event, (RequestReceived, RequestHandled))
        assert event.notes == ()
    else:
        with pytest.raises(LocalProtocolError):
            both.server.request(row, PARAMS[row], for_request=None)
        assert both.server.outbound_requests == {}


@pytest.mark.spec(
    "capability.only-negotiated",
    "capability.missing-required-error",
    "capability.only-negotiated-should",
    "capability.respect-throughout",
)
@EVERY_METHOD
@EVERY_REVISION
def test_server_request_capability_not_declared_by_client_raises(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    if revision not in row.revisions or Side.SERVER not in row.sender or row is m.PING:
        return
    assert row.client_capability is not None
    with pytest.raises(MissingRequiredClientCapability) as refused:
        open_bare_pair(revision).server.request(row, PARAMS[row], for_request=None)
    assert refused.value.data == {"requiredCapabilities": as_object(row.client_capability)}


@pytest.mark.spec("capability.respect-throughout")
@EVERY_METHOD
@EVERY_REVISION
def test_client_request_for_undeclared_capability_returns_method_not_found(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    both = open_bare_pair(revision)
    reaction = both.client.receive(Request("raw", row.name, {}))
    if revision is R2026_07_28:
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.reply is None
    elif row is m.PING:
        assert isinstance(reaction.event, RequestHandled)
    else:
        code, message, _ = get_error(reaction)
        assert code == ErrorCode.METHOD_NOT_FOUND
        assert row.name in message
        assert not both.client.inbound_requests


@pytest.mark.spec("jsonrpc.client-no-responses", "jsonrpc.binding-directions")
@pytest.mark.parametrize("method", ["ping", "roots/list", "sampling/createMessage", "what"])
def test_modern_client_ignores_all_requests(method: str) -> None:
    for client in (make_client(R2026_07_28), open_pair(R2026_07_28).client):
        reaction = client.receive(Request(1, method, {}))
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.reply is None


def client_capabilities(**capabilities: t.WireObject) -> t.ClientCapabilities:
    return t.ClientCapabilities(**capabilities)  # type: ignore[arg-type]  # the callers pass the right types


@pytest.mark.spec(
    "elicitation.undeclared-mode-error",
    "sampling.no-tools-without-capability",
    "sampling.tools-without-capability-error",
)
@pytest.mark.parametrize(
    ("capabilities", "row", "params", "missing"),
    [
        (client_capabilities(elicitation=t.ElicitationCapability()), m.ELICITATION_CREATE, FORM, None),
        (client_capabilities(elicitation=t.ElicitationCapability(form={})), m.ELICITATION_CREATE, FORM, None),
        (
            client_capabilities(elicitation=t.ElicitationCapability(url={})),
            m.ELICITATION_CREATE,
            FORM,
            {"elicitation": {"form": {}}},
        ),
        (
            client_capabilities(elicitation=t.ElicitationCapability(form={})),
            m.ELICITATION_CREATE,
            t.ElicitRequestURLParams(message="go", url="https://example.com/", elicitation_id="e"),
            {"elicitation": {"url": {}}},
        ),
        (client_capabilities(sampling=t.SamplingCapability()), m.SAMPLING_CREATE_MESSAGE, SAMPLE, None),
        (
            client_capabilities(sampling=t.SamplingCapability()),
            m.SAMPLING_CREATE_MESSAGE,
            attrs.evolve(SAMPLE, tools=()),
            {"sampling": {"tools": {}}},
        ),
        (
            client_capabilities(sampling=t.SamplingCapability()),
            m.SAMPLING_CREATE_MESSAGE,
            attrs.evolve(SAMPLE, tool_choice=t.ToolChoice()),
            {"sampling": {"tools": {}}},
        ),
        (
            client_capabilities(sampling=t.SamplingCapability()),
            m.SAMPLING_CREATE_MESSAGE,
            attrs.evolve(SAMPLE, task=t.TaskMetadata()),
            {"tasks": {"requests": {"sampling": {"createMessage": {}}}}},
        ),
        (
            ALL_CLIENT_CAPABILITIES,
            m.SAMPLING_CREATE_MESSAGE,
            attrs.evolve(SAMPLE, task=t.TaskMetadata(), tools=()),
            None,
        ),
    ],
)
def test_capability_required_by_params_checked(
    capabilities: t.ClientCapabilities,
    row: RequestMethod[object, object],
    params: t.WireObject,
    missing: JsonObject | None,
) -> None:
    both = pair(make_client(R2025_11_25, capabilities=capabilities), make_server(R2025_11_25)).open()
    if missing is None:
        both.ask(row, params)
        return
    with pytest.raises(MissingRequiredClientCapability) as refused:
        both.server.request(row, params, for_request=None)
    assert refused.value.data == {"requiredCapabilities": missing}
    if "tasks" in missing:
        return
    # A server without checks sends the request nevertheless.
    wire = converter(R2025_11_25).unstructure(params)
    code, message, _ = get_error(both.client.receive(Request("raw", row.name, wire)))
    assert code == ErrorCode.INVALID_PARAMS
    assert "did not declare" in message
    assert not both.client.inbound_requests


# --- notifications ----------------------------------------------------------------------------------------------------

SPECIAL_NOTIFICATIONS: Final = {
    m.NOTIFICATIONS_INITIALIZED,
    m.NOTIFICATIONS_CANCELLED,
    m.NOTIFICATIONS_PROGRESS,
    m.NOTIFICATIONS_MESSAGE,
    m.NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
}


@EVERY_NOTIFICATION
@EVERY_REVISION
def test_client_sends_only_notifications_of_revision(row: NotificationMethod[object], revision: Revision) -> None:
    both = open_pair(revision)
    if revision in row.revisions and Side.CLIENT in row.sender_in(revision) and row not in SPECIAL_NOTIFICATIONS:
        both.send(Side.CLIENT, both.client.notify(row, NOTIFICATION_PARAMS[row]))
        event = both.deliver(Side.SERVER).event
        assert isinstance(event, NotificationReceived)
        assert event.definition is row
        assert event.params == NOTIFICATION_PARAMS[row]
        assert event.notes == ()
    else:
        with pytest.raises(LocalProtocolError, match=row.name):
            both.client.notify(row, NOTIFICATION_PARAMS[row])


@pytest.mark.spec("elicitation.no-complete-notification")
@EVERY_NOTIFICATION
@EVERY_REVISION
def test_server_sends_only_notifications_of_revision(row: NotificationMethod[object], revision: Revision) -> None:
    both = open_pair(revision)
    for_request = both.call(m.TOOLS_CALL).id
    is_allowed = revision in row.revisions and Side.SERVER in row.sender
    if is_allowed and row not in SPECIAL_NOTIFICATIONS and row.filter_member is None:
        both.send(Side.SERVER, both.server.notify(row, NOTIFICATION_PARAMS[row], for_request=for_request))
        event = both.deliver(Side.CLIENT).event
        assert isinstance(event, NotificationReceived)
        assert event.definition is row
        assert event.notes == ()
    else:
        with pytest.raises(LocalProtocolError, match=row.name):
            both.server.notify(row, NOTIFICATION_PARAMS[row], for_request=for_request)


@pytest.mark.spec("capability.only-negotiated")
def test_roots_list_changed_undeclared_raises_and_noted() -> None:
    client = make_client(R2025_11_25, capabilities=t.ClientCapabilities(roots=t.RootsCapability()))
    both = pair(client, make_server(R2025_11_25)).open()
    with pytest.raises(LocalProtocolError, match=r"roots\.listChanged"):
        client.notify(m.NOTIFICATIONS_ROOTS_LIST_CHANGED, t.RootsListChangedNotificationParams())
    event = both.server.receive(Notification("notifications/roots/list_changed")).event
    assert isinstance(event, NotificationReceived)
    assert event.notes == (
        "notifications/roots/list_changed requires the capability roots.listChanged, which was not declared",
    )


@pytest.mark.spec("elicitation.capability-empty-is-form")
def test_elicitation_complete_without_url_mode_raises_and_noted() -> None:
    client = make_client(R2025_11_25, capabilities=t.ClientCapabilities(elicitation=t.ElicitationCapability()))
    both = pair(client, make_server(R2025_11_25)).open()
    row = m.NOTIFICATIONS_ELICITATION_COMPLETE
    with pytest.raises(LocalProtocolError, match=r"elicitation\.url"):
        both.server.notify(row, NOTIFICATION_PARAMS[row])
    event = client.receive(Notification(row.name, {"elicitationId": "e"})).event
    assert isinstance(event, NotificationReceived)
    assert len(event.notes) == 1


@pytest.mark.spec("resources.updated-needs-capability")
@pytest.mark.parametrize(
    "row", [row for row in NOTIFICATIONS if row.filter_member is not None], ids=lambda row: row.name
)
@EVERY_REVISION
def test_list_change_undeclared_raises_and_noted(row: NotificationMethod[object], revision: Revision) -> None:
    both = open_bare_pair(revision)
    with pytest.raises(LocalProtocolError, match="was not declared"):
        both.server.publish(row, NOTIFICATION_PARAMS[row])
    if revision in row.revisions:
        wire = converter(revision).unstructure(NOTIFICATION_PARAMS[row])
        event = both.client.receive(Notification(row.name, wire)).event
        assert isinstance(event, NotificationReceived)
        assert any("was not declared" in note for note in event.notes)


@pytest.mark.spec("logging.declare-capability", "logging.capability")
def test_log_without_capability_raises() -> None:
    for revision in ALL:
        both = open_bare_pair(revision)
        for_request = None
        if revision is R2026_07_28:
            message = raw_request(both, m.SUBSCRIPTIONS_LISTEN, revision)
            both.server.receive(message)
            for_request = message.id
        with pytest.raises(LocalProtocolError):
            both.server.log("error", "x", for_request=for_request)


@pytest.mark.spec("jsonrpc.tolerate-unknown-notifications", "jsonrpc.notification-no-response")
@pytest.mark.parametrize("method", ["notifications/what", "window/logMessage", "$/cancelRequest", "tools/call"])
@EVERY_REVISION
def test_unknown_notification_ignored_by_both_sides(method: str, revision: Revision) -> None:
    both = open_pair(revision)
    for end in (both.client, both.server):
        reaction = end.receive(Notification(method, {"x": 1}))
        assert isinstance(reaction.event, MessageIgnored)
        assert method in reaction.event.reason
        assert reaction.reply is None


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/roots/list_changed"])
@EVERY_REVISION
def test_client_ignores_notifications_of_clients(method: str, revision: Revision) -> None:
    assert isinstance(open_pair(revision).client.receive(Notification(method)).event, MessageIgnored)


@pytest.mark.parametrize("row", [m.NOTIFICATIONS_MESSAGE, m.NOTIFICATIONS_TOOLS_LIST_CHANGED], ids=lambda row: row.name)
@EVERY_REVISION
def test_server_ignores_notifications_of_servers(row: NotificationMethod[object], revision: Revision) -> None:
    wire = converter(revision).unstructure(NOTIFICATION_PARAMS[row])
    assert isinstance(open_pair(revision).server.receive(Notification(row.name, wire)).event, MessageIgnored)


@pytest.mark.spec("jsonrpc.notification-no-response", "logging.validate-data")
@EVERY_NOTIFICATION
@EVERY_REVISION
def test_malformed_notification_has_no_reply(row: NotificationMethod[object], revision: Revision) -> None:
    both = open_pair(revision)
    for end in (both.client, both.server):
        broken: JsonObject = {"_meta": 5, "uri": {}, "level": {}, "taskId": 0, "elicitationId": 1, "requestId": []}
        for params in (broken, None):
            reaction = end.receive(Notification(row.name, params))
            assert reaction.reply is None


@pytest.mark.parametrize(
    ("params", "level", "data"),
    [
        ({"message": "Resource not found: file:///missing.txt", "verbose": False}, "info", "Resource not found: "),
        ({"message": "cache miss", "verbose": True}, "debug", "cache miss"),
        ({"message": "cache miss"}, "info", "cache miss"),
    ],
)
@EVERY_REVISION
def test_log_trace_of_first_draft_becomes_log_message(
    params: JsonObject, level: str, data: str, revision: Revision
) -> None:
    event = open_pair(revision).client.receive(Notification("$/logTrace", params)).event

    assert isinstance(event, NotificationReceived)
    assert event.definition is m.NOTIFICATIONS_MESSAGE
    assert event.method == "notifications/message"
    assert isinstance(event.params, t.LoggingMessageNotificationParams)
    assert event.params.level == level
    assert str(event.params.data).startswith(data)
    assert event.params.extra == {}
    assert event.raw == params
    assert "$/logTrace was treated as notifications/message" in event.notes


def test_resources_changed_of_first_draft_becomes_resource_update() -> None:
    both = open_pair(R2025_06_18)

    event = both.client.receive(Notification("notifications/resources/changed", {"uri": "file:///a"})).event

    assert isinstance(event, NotificationReceived)
    assert event.definition is m.NOTIFICATIONS_RESOURCES_UPDATED
    assert event.raw == {"uri": "file:///a"}


@pytest.mark.parametrize("name", sorted(m.ALIASES))
def test_server_ignores_notification_name_of_first_draft(name: str) -> None:
    params: JsonObject = {"message": "m", "verbose": False, "uri": "file:///a"}

    assert isinstance(open_pair(R2025_06_18).server.receive(Notification(name, params)).event, MessageIgnored)


# --- extensions -------------------------------------------------------------------------------------------------------

OWN_METHOD: Final = RequestMethod(
    name="x/y",
    sender=Side.BOTH,
    params=t.ListToolsRequestParams,
    result=t.EmptyResult,
    revisions=between(R2025_03_26),
)
OWN_NOTIFICATION: Final = NotificationMethod(
    name="x/z", sender=Side.BOTH, params=t.ToolListChangedNotificationParams, revisions=between(R2025_03_26)
)
OWN: Final = Extensions(methods={"x/y": OWN_METHOD}, notifications={"x/z": OWN_NOTIFICATION})


@pytest.mark.spec("capability.extension-negotiation-field")
@EVERY_REVISION
def test_extension_method_and_notification_in_both_directions(revision: Revision) -> None:
    both = pair(make_client(revision, extensions=OWN), make_server(revision, extensions=OWN)).open()
    params = t.ListToolsRequestParams(cursor="c")
    if revision is R2024_11_05:
        with pytest.raises(LocalProtocolError):
            both.client.request(OWN_METHOD, params)
        assert get_error(both.server.receive(Request(1, "x/y", {})))[0] == ErrorCode.METHOD_NOT_FOUND
        assert isinstance(both.client.receive(Notification("x/z", {})).event, MessageIgnored)
        return
    both.send(Side.CLIENT, both.client.request(OWN_METHOD, params))
    both.run()
    request = get_last_event(both.server_events, RequestReceived)
    assert request.definition is OWN_METHOD
    assert request.params == params or revision is R2026_07_28
    if revision is R2025_11_25:
        both.send(Side.SERVER, both.server.request(OWN_METHOD, params, for_request=request.id))
        both.run()
        assert get_last_event(both.client_events, RequestReceived).definition is OWN_METHOD
    params_of_notification = t.ToolListChangedNotificationParams()
    both.send(Side.SERVER, both.server.notify(OWN_NOTIFICATION, params_of_notification, for_request=request.id))
    both.send(Side.CLIENT, both.client.notify(OWN_NOTIFICATION, params_of_notification))
    both.run()
    assert get_last_event(both.client_events, NotificationReceived).definition is OWN_NOTIFICATION
    assert get_last_event(both.server_events, NotificationReceived).definition is OWN_NOTIFICATION


@pytest.mark.spec("capability.extension-not-active-by-default", "capability.extension-fallback-or-reject")
@pytest.mark.spec("capability.extension-disabled-by-default")
def test_extension_undeclared_by_one_side_rejected() -> None:
    row = m.EXTENSION_TASKS_GET
    client = make_client(R2026_07_28, capabilities=NO_CLIENT_CAPABILITIES)
    both = pair(client, make_server(R2026_07_28)).open()
    with pytest.raises(LocalProtocolError, match="this client did not declare"):
        client.request(row, PARAMS[row])
    outgoing = client.request(m.TOOLS_LIST, t.ListToolsRequestParams())
    message = from_wire({**to_wire(outgoing), "method": "tasks/get"})
    assert isinstance(message, Request)
    message = attrs.evolve(message, params={**(message.params or {}), "taskId": "t"})
    code, _, data = get_error(both.server.receive(message))
    assert code == ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert data == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}


# --- capabilities of each request -------------------------------------------------------------------------------------


@pytest.mark.spec(
    "jsonrpc.stateless-capability-not-remembered",
    "capability.client-not-relied-undeclared",
    "jsonrpc.stateless-connection-not-session",
)
@pytest.mark.spec("jsonrpc.stateless-no-prior-context")
def test_modern_capabilities_checked_per_request() -> None:
    server = make_server(R2026_07_28)
    input_required = t.InputRequiredResult(input_requests={"a": t.ElicitRequest(params=FORM)})
    for capabilities, allowed in (
        (ALL_CLIENT_CAPABILITIES, True),
        (NO_CLIENT_CAPABILITIES, False),
        (ALL_CLIENT_CAPABILITIES, True),
    ):
        client = make_client(R2026_07_28, capabilities=capabilities)
        both = pair(client, server).open()
        request = both.call(m.TOOLS_CALL)
        if allowed:
            assert server.respond(request.id, input_required) is not None
        else:
            with pytest.raises(MissingRequiredClientCapability):
                server.respond(request.id, input_required)
            server.withdraw(request.id)


# --- functions --------------------------------------------------------------------------------------------------------


def test_declared_capability_found_by_wire_name() -> None:
    server = ALL_SERVER_CAPABILITIES
    assert declared(server, ("tools",))
    assert declared(server, ("tools", "listChanged"))
    assert declared(server, ("tasks", "requests", "tools", "call"))
    assert declared(server, ("extensions", TASKS_EXTENSION))
    assert not declared(server, ("extensions", "com.example/other"))
    assert not declared(server, ("sampling",))
    assert not declared(t.ServerCapabilities(tools=t.ToolsCapability()), ("tools", "listChanged"))
    assert not declared(NO_SERVER_CAPABILITIES, ("tools", "listChanged"))
    assert declared(t.ClientCapabilities(elicitation=t.ElicitationCapability()), ("elicitation", "form"))
    assert not declared(t.ClientCapabilities(elicitation=t.ElicitationCapability()), ("elicitation", "url"))


def test_missing_client_capability_returns_first_path() -> None:
    assert missing_client_capability(NO_CLIENT_CAPABILITIES, ("roots",), None) == ("roots",)
    assert missing_client_capability(NO_CLIENT_CAPABILITIES, None, FORM) == ("elicitation", "form")
    assert missing_client_capability(ALL_CLIENT_CAPABILITIES, ("sampling",), SAMPLE) is None
    assert undeclared(m.NOTIFICATIONS_TASKS, ALL_SERVER_CAPABILITIES, ALL_CLIENT_CAPABILITIES) is None
    assert undeclared(m.NOTIFICATIONS_TASKS, ALL_SERVER_CAPABILITIES, NO_CLIENT_CAPABILITIES) is not None
    assert undeclared(m.NOTIFICATIONS_TASKS, NO_SERVER_CAPABILITIES, ALL_CLIENT_CAPABILITIES) is not None
    assert undeclared(m.NOTIFICATIONS_TASKS, ALL_SERVER_CAPABILITIES, None) is None


@pytest.mark.spec("capability.missing-required-data")
def test_capability_path_as_object() -> None:
    assert as_object(("elicitation", "url")) == {"elicitation": {"url": {}}}
    assert as_object(("roots",)) == {"roots": {}}


@pytest.mark.spec("capability.open-set", "capability.unknown-tolerated", "capability.experimental-object")
@EVERY_REVISION
def test_unknown_capabilities_ignored(revision: Revision) -> None:
    client = make_client(
        revision,
        capabilities=t.ClientCapabilities(extra={"telepathy": {"range": 5}}, experimental={"x": {"y": 1}}),
    )
    both = pair(client, make_server(revision)).open()
    peer = both.call(m.TOOLS_LIST).peer
    # A session keeps only known capabilities; the peer of a modern request lasts only as long as the request.
    assert peer.capabilities.extra == ({} if revision.era is Era.LEGACY else {"telepathy": {"range": 5}})
    assert peer.capabilities.experimental == {"x": {"y": 1}}
