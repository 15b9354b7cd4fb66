"""Nothing is used that was not declared: every row of the tables, in both directions."""

from __future__ import annotations

from typing import Final

import attrs
import pytest
from engine_pair import (
    ALL,
    EVERYTHING_DECLARED,
    EVERYTHING_OFFERED,
    FORM,
    NOTHING_DECLARED,
    NOTHING_OFFERED,
    NOTICES,
    PARAMS,
    SAMPLE,
    ConnectionPair,
    error_of,
    last,
    make_client,
    make_server,
    opened,
    pair,
    received,
    wire_of,
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


def bare(revision: Revision) -> ConnectionPair:
    """An open pair in which nobody can do anything."""
    return pair(
        make_client(revision, capabilities=NOTHING_DECLARED), make_server(revision, capabilities=NOTHING_OFFERED)
    ).open()


def raw_request(both: ConnectionPair, row: RequestMethod[object, object], revision: Revision) -> Request:
    """The request as a client without scruples sends it."""
    params: JsonObject = converter(revision).unstructure(PARAMS[row])
    if revision in between(R2026_07_28):
        outgoing = make_client(revision).open().message
        assert isinstance(outgoing, Request)
        params["_meta"] = (outgoing.params or {})["_meta"]
    return Request("raw", row.name, params)


# --- requests of the client -------------------------------------------------------------------------------------------


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
def test_a_client_sends_exactly_the_requests_of_its_revision(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    both = opened(revision)
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
def test_a_client_does_not_ask_for_what_the_server_does_not_offer(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    both = bare(revision)
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
def test_a_server_refuses_what_it_does_not_offer(row: RequestMethod[object, object], revision: Revision) -> None:
    both = bare(revision)
    if revision not in row.revisions or row is m.INITIALIZE:
        return
    reaction = both.server.receive(raw_request(both, row, revision))
    gated = row.server_capability is not None and revision in row.capability_revisions
    if Side.CLIENT not in row.sender or gated:
        code, message, _ = error_of(reaction)
        assert code == ErrorCode.METHOD_NOT_FOUND
        assert row.name in message
        assert not both.server.inbound_requests
    else:
        assert isinstance(reaction.event, (RequestReceived, RequestHandled))


@pytest.mark.spec("jsonrpc.unknown-method-error", "jsonrpc.method-not-found-code")
@EVERY_METHOD
@EVERY_REVISION
def test_a_server_knows_no_methods_of_other_revisions(row: RequestMethod[object, object], revision: Revision) -> None:
    both = opened(revision)
    if any(each.name == row.name and revision in each.revisions for each in METHODS):
        return
    message = Request("raw", row.name, raw_request(both, m.TOOLS_LIST, revision).params)
    code, text, _ = error_of(both.server.receive(message))
    assert code == ErrorCode.METHOD_NOT_FOUND
    assert row.name in text


def test_completion_needs_no_capability_where_there_was_none() -> None:
    for revision in ALL:
        server = make_server(revision, capabilities=NOTHING_OFFERED)
        both = pair(make_client(revision), server).open()
        if revision is R2024_11_05:
            both.call(m.COMPLETION_COMPLETE)
        else:
            with pytest.raises(LocalProtocolError, match="completions"):
                both.client.request(m.COMPLETION_COMPLETE, PARAMS[m.COMPLETION_COMPLETE])


def test_a_client_asks_for_a_task_only_where_it_was_offered() -> None:
    params = t.CallToolRequestParams(name="slow", task=t.TaskMetadata())
    both = opened(R2025_11_25)
    assert list(wire_of(both.client.request(m.TOOLS_CALL, params))) == ["jsonrpc", "id", "method", "params"]
    without = pair(
        make_client(R2025_11_25),
        make_server(R2025_11_25, capabilities=t.ServerCapabilities(tools=t.ToolsCapability())),
    ).open()
    with pytest.raises(LocalProtocolError, match=r"tasks\.requests\.tools\.call"):
        without.client.request(m.TOOLS_CALL, params)
    with pytest.raises(LocalProtocolError, match="task"):
        opened(R2025_06_18).client.request(m.TOOLS_CALL, params)
    # Whoever did not offer it answers such a request as any other.
    raw = Request(5, "tools/call", {"name": "slow", "task": {}})
    assert isinstance(without.server.receive(raw).event, RequestReceived)


# --- requests of the server -------------------------------------------------------------------------------------------


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
def test_a_server_sends_exactly_the_requests_of_its_revision(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    both = opened(revision)
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
def test_a_server_does_not_ask_for_what_the_client_did_not_declare(
    row: RequestMethod[object, object], revision: Revision
) -> None:
    if revision not in row.revisions or Side.SERVER not in row.sender or row is m.PING:
        return
    assert row.client_capability is not None
    with pytest.raises(MissingRequiredClientCapability) as refused:
        bare(revision).server.request(row, PARAMS[row], for_request=None)
    assert refused.value.data == {"requiredCapabilities": as_object(row.client_capability)}


@pytest.mark.spec("capability.respect-throughout")
@EVERY_METHOD
@EVERY_REVISION
def test_a_client_refuses_what_it_did_not_declare(row: RequestMethod[object, object], revision: Revision) -> None:
    both = bare(revision)
    reaction = both.client.receive(Request("raw", row.name, {}))
    if revision is R2026_07_28:
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.reply is None
    elif row is m.PING:
        assert isinstance(reaction.event, RequestHandled)
    else:
        code, message, _ = error_of(reaction)
        assert code == ErrorCode.METHOD_NOT_FOUND
        assert row.name in message
        assert not both.client.inbound_requests


@pytest.mark.spec("jsonrpc.client-no-responses", "jsonrpc.binding-directions")
@pytest.mark.parametrize("method", ["ping", "roots/list", "sampling/createMessage", "what"])
def test_a_modern_client_answers_no_requests_at_all(method: str) -> None:
    for client in (make_client(R2026_07_28), opened(R2026_07_28).client):
        reaction = client.receive(Request(1, method, {}))
        assert isinstance(reaction.event, MessageIgnored)
        assert reaction.reply is None


def modes(**capabilities: t.WireObject) -> t.ClientCapabilities:
    return t.ClientCapabilities(**capabilities)  # type: ignore[arg-type]  # each test gives the right ones


@pytest.mark.spec(
    "elicitation.undeclared-mode-error",
    "sampling.no-tools-without-capability",
    "sampling.tools-without-capability-error",
)
@pytest.mark.parametrize(
    ("capabilities", "row", "params", "missing"),
    [
        (modes(elicitation=t.ElicitationCapability()), m.ELICITATION_CREATE, FORM, None),
        (modes(elicitation=t.ElicitationCapability(form={})), m.ELICITATION_CREATE, FORM, None),
        (modes(elicitation=t.ElicitationCapability(url={})), m.ELICITATION_CREATE, FORM, {"elicitation": {"form": {}}}),
        (
            modes(elicitation=t.ElicitationCapability(form={})),
            m.ELICITATION_CREATE,
            t.ElicitRequestURLParams(message="go", url="https://example.com/", elicitation_id="e"),
            {"elicitation": {"url": {}}},
        ),
        (modes(sampling=t.SamplingCapability()), m.SAMPLING_CREATE_MESSAGE, SAMPLE, None),
        (
            modes(sampling=t.SamplingCapability()),
            m.SAMPLING_CREATE_MESSAGE,
            t.evolve(SAMPLE, tools=()),
            {"sampling": {"tools": {}}},
        ),
        (
            modes(sampling=t.SamplingCapability()),
            m.SAMPLING_CREATE_MESSAGE,
            t.evolve(SAMPLE, tool_choice=t.ToolChoice()),
            {"sampling": {"tools": {}}},
        ),
        (
            modes(sampling=t.SamplingCapability()),
            m.SAMPLING_CREATE_MESSAGE,
            t.evolve(SAMPLE, task=t.TaskMetadata()),
            {"tasks": {"requests": {"sampling": {"createMessage": {}}}}},
        ),
        (EVERYTHING_DECLARED, m.SAMPLING_CREATE_MESSAGE, t.evolve(SAMPLE, task=t.TaskMetadata(), tools=()), None),
    ],
)
def test_what_parameters_need_is_checked_too(
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
    # A server without scruples asks all the same.
    wire = converter(R2025_11_25).unstructure(params)
    code, message, _ = error_of(both.client.receive(Request("raw", row.name, wire)))
    assert code == ErrorCode.INVALID_PARAMS
    assert "did not declare" in message
    assert not both.client.inbound_requests


# --- notifications ----------------------------------------------------------------------------------------------------

OWN_COMMAND: Final = {
    m.NOTIFICATIONS_INITIALIZED,
    m.NOTIFICATIONS_CANCELLED,
    m.NOTIFICATIONS_PROGRESS,
    m.NOTIFICATIONS_MESSAGE,
    m.NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
}


@EVERY_NOTIFICATION
@EVERY_REVISION
def test_a_client_sends_exactly_the_notifications_of_its_revision(
    row: NotificationMethod[object], revision: Revision
) -> None:
    both = opened(revision)
    if revision in row.revisions and Side.CLIENT in row.sender_in(revision) and row not in OWN_COMMAND:
        both.send(Side.CLIENT, both.client.notify(row, NOTICES[row]))
        event = both.deliver(Side.SERVER).event
        assert isinstance(event, NotificationReceived)
        assert event.definition is row
        assert event.params == NOTICES[row]
        assert event.notes == ()
    else:
        with pytest.raises(LocalProtocolError, match=row.name):
            both.client.notify(row, NOTICES[row])


@pytest.mark.spec("elicitation.no-complete-notification")
@EVERY_NOTIFICATION
@EVERY_REVISION
def test_a_server_notifies_exactly_as_its_revision_allows(row: NotificationMethod[object], revision: Revision) -> None:
    both = opened(revision)
    for_request = both.call(m.TOOLS_CALL).id
    mine = revision in row.revisions and Side.SERVER in row.sender
    if mine and row not in OWN_COMMAND and row.filter_member is None:
        both.send(Side.SERVER, both.server.notify(row, NOTICES[row], for_request=for_request))
        event = both.deliver(Side.CLIENT).event
        assert isinstance(event, NotificationReceived)
        assert event.definition is row
        assert event.notes == ()
    else:
        with pytest.raises(LocalProtocolError, match=row.name):
            both.server.notify(row, NOTICES[row], for_request=for_request)


@pytest.mark.spec("capability.only-negotiated")
def test_a_client_that_did_not_declare_it_says_nothing_of_its_roots() -> None:
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
def test_a_server_does_not_tell_of_url_elicitations_where_there_are_none() -> None:
    client = make_client(R2025_11_25, capabilities=t.ClientCapabilities(elicitation=t.ElicitationCapability()))
    both = pair(client, make_server(R2025_11_25)).open()
    row = m.NOTIFICATIONS_ELICITATION_COMPLETE
    with pytest.raises(LocalProtocolError, match=r"elicitation\.url"):
        both.server.notify(row, NOTICES[row])
    event = client.receive(Notification(row.name, {"elicitationId": "e"})).event
    assert isinstance(event, NotificationReceived)
    assert len(event.notes) == 1


@pytest.mark.spec("resources.updated-needs-capability")
@pytest.mark.parametrize(
    "row", [row for row in NOTIFICATIONS if row.filter_member is not None], ids=lambda row: row.name
)
@EVERY_REVISION
def test_changes_of_what_is_not_offered_are_not_published_and_noted_when_they_come(
    row: NotificationMethod[object], revision: Revision
) -> None:
    both = bare(revision)
    with pytest.raises(LocalProtocolError, match="was not declared"):
        both.server.publish(row, NOTICES[row])
    if revision in row.revisions:
        wire = converter(revision).unstructure(NOTICES[row])
        event = both.client.receive(Notification(row.name, wire)).event
        assert isinstance(event, NotificationReceived)
        assert any("was not declared" in note for note in event.notes)


@pytest.mark.spec("logging.declare-capability", "logging.capability")
def test_a_server_without_logging_does_not_log() -> None:
    for revision in ALL:
        both = bare(revision)
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
def test_unknown_notifications_are_ignored_by_both_sides(method: str, revision: Revision) -> None:
    both = opened(revision)
    for end in (both.client, both.server):
        reaction = end.receive(Notification(method, {"x": 1}))
        assert isinstance(reaction.event, MessageIgnored)
        assert method in reaction.event.reason
        assert reaction.reply is None


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/roots/list_changed"])
@EVERY_REVISION
def test_a_client_ignores_what_only_clients_say(method: str, revision: Revision) -> None:
    assert isinstance(opened(revision).client.receive(Notification(method)).event, MessageIgnored)


@pytest.mark.parametrize("row", [m.NOTIFICATIONS_MESSAGE, m.NOTIFICATIONS_TOOLS_LIST_CHANGED], ids=lambda row: row.name)
@EVERY_REVISION
def test_a_server_ignores_what_only_servers_say(row: NotificationMethod[object], revision: Revision) -> None:
    wire = converter(revision).unstructure(NOTICES[row])
    assert isinstance(opened(revision).server.receive(Notification(row.name, wire)).event, MessageIgnored)


@pytest.mark.spec("jsonrpc.notification-no-response", "logging.validate-data")
@EVERY_NOTIFICATION
@EVERY_REVISION
def test_notifications_that_cannot_be_read_are_ignored(row: NotificationMethod[object], revision: Revision) -> None:
    both = opened(revision)
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
    event = opened(revision).client.receive(Notification("$/logTrace", params)).event

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
    both = opened(R2025_06_18)

    event = both.client.receive(Notification("notifications/resources/changed", {"uri": "file:///a"})).event

    assert isinstance(event, NotificationReceived)
    assert event.definition is m.NOTIFICATIONS_RESOURCES_UPDATED
    assert event.raw == {"uri": "file:///a"}


@pytest.mark.parametrize("name", sorted(m.ALIASES))
def test_server_receiving_name_of_first_draft_ignores_it(name: str) -> None:
    params: JsonObject = {"message": "m", "verbose": False, "uri": "file:///a"}

    assert isinstance(opened(R2025_06_18).server.receive(Notification(name, params)).event, MessageIgnored)


# --- extensions -------------------------------------------------------------------------------------------------------

OWN_METHOD: Final = RequestMethod(
    name="x/y",
    sender=Side.BOTH,
    params=t.ListToolsRequestParams,
    result=t.EmptyResult,
    revisions=between(R2025_03_26),
)
OWN_NOTICE: Final = NotificationMethod(
    name="x/z", sender=Side.BOTH, params=t.ToolListChangedNotificationParams, revisions=between(R2025_03_26)
)
OWN: Final = Extensions(methods={"x/y": OWN_METHOD}, notifications={"x/z": OWN_NOTICE})


@pytest.mark.spec("capability.extension-negotiation-field")
@EVERY_REVISION
def test_methods_of_ones_own_stand_beside_those_of_the_specification(revision: Revision) -> None:
    both = pair(make_client(revision, extensions=OWN), make_server(revision, extensions=OWN)).open()
    params = t.ListToolsRequestParams(cursor="c")
    if revision is R2024_11_05:
        with pytest.raises(LocalProtocolError):
            both.client.request(OWN_METHOD, params)
        assert error_of(both.server.receive(Request(1, "x/y", {})))[0] == ErrorCode.METHOD_NOT_FOUND
        assert isinstance(both.client.receive(Notification("x/z", {})).event, MessageIgnored)
        return
    both.send(Side.CLIENT, both.client.request(OWN_METHOD, params))
    both.run()
    request = last(both.server_events, RequestReceived)
    assert request.definition is OWN_METHOD
    assert request.params == params or revision is R2026_07_28
    if revision is R2025_11_25:
        both.send(Side.SERVER, both.server.request(OWN_METHOD, params, for_request=request.id))
        both.run()
        assert last(both.client_events, RequestReceived).definition is OWN_METHOD
    notice = t.ToolListChangedNotificationParams()
    both.send(Side.SERVER, both.server.notify(OWN_NOTICE, notice, for_request=request.id))
    both.send(Side.CLIENT, both.client.notify(OWN_NOTICE, notice))
    both.run()
    assert last(both.client_events, NotificationReceived).definition is OWN_NOTICE
    assert last(both.server_events, NotificationReceived).definition is OWN_NOTICE


@pytest.mark.spec("capability.extension-not-active-by-default", "capability.extension-fallback-or-reject")
@pytest.mark.spec("capability.extension-disabled-by-default")
def test_an_extension_is_used_only_when_both_sides_declared_it() -> None:
    row = m.EXTENSION_TASKS_GET
    declining = make_client(R2026_07_28, capabilities=NOTHING_DECLARED)
    both = pair(declining, make_server(R2026_07_28)).open()
    with pytest.raises(LocalProtocolError, match="this client did not declare"):
        declining.request(row, PARAMS[row])
    outgoing = declining.request(m.TOOLS_LIST, t.ListToolsRequestParams())
    message = received({**wire_of(outgoing), "method": "tasks/get"})
    assert isinstance(message, Request)
    message = attrs.evolve(message, params={**(message.params or {}), "taskId": "t"})
    code, _, data = error_of(both.server.receive(message))
    assert code == ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert data == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}


# --- envelopes of two requests are two ----------------------------------------------------------------------------------


@pytest.mark.spec(
    "jsonrpc.stateless-capability-not-remembered",
    "capability.client-not-relied-undeclared",
    "jsonrpc.stateless-connection-not-session",
)
@pytest.mark.spec("jsonrpc.stateless-no-prior-context")
def test_capabilities_are_those_of_the_request_and_of_no_other() -> None:
    server = make_server(R2026_07_28)
    question = t.InputRequiredResult(input_requests={"a": t.ElicitRequest(params=FORM)})
    for capabilities, allowed in ((EVERYTHING_DECLARED, True), (NOTHING_DECLARED, False), (EVERYTHING_DECLARED, True)):
        client = make_client(R2026_07_28, capabilities=capabilities)
        both = pair(client, server).open()
        request = both.call(m.TOOLS_CALL)
        if allowed:
            assert server.respond(request.id, question) is not None
        else:
            with pytest.raises(MissingRequiredClientCapability):
                server.respond(request.id, question)
            server.withdraw(request.id)


# --- the functions by themselves ----------------------------------------------------------------------------------------


def test_capabilities_are_looked_up_by_their_wire_names() -> None:
    server = EVERYTHING_OFFERED
    assert declared(server, ("tools",))
    assert declared(server, ("tools", "listChanged"))
    assert declared(server, ("tasks", "requests", "tools", "call"))
    assert declared(server, ("extensions", TASKS_EXTENSION))
    assert not declared(server, ("extensions", "com.example/other"))
    assert not declared(server, ("sampling",))
    assert not declared(t.ServerCapabilities(tools=t.ToolsCapability()), ("tools", "listChanged"))
    assert not declared(NOTHING_OFFERED, ("tools", "listChanged"))
    assert declared(t.ClientCapabilities(elicitation=t.ElicitationCapability()), ("elicitation", "form"))
    assert not declared(t.ClientCapabilities(elicitation=t.ElicitationCapability()), ("elicitation", "url"))


def test_the_first_missing_capability_is_named() -> None:
    assert missing_client_capability(NOTHING_DECLARED, ("roots",), None) == ("roots",)
    assert missing_client_capability(NOTHING_DECLARED, None, FORM) == ("elicitation", "form")
    assert missing_client_capability(EVERYTHING_DECLARED, ("sampling",), SAMPLE) is None
    assert undeclared(m.NOTIFICATIONS_TASKS, EVERYTHING_OFFERED, EVERYTHING_DECLARED) is None
    assert undeclared(m.NOTIFICATIONS_TASKS, EVERYTHING_OFFERED, NOTHING_DECLARED) is not None
    assert undeclared(m.NOTIFICATIONS_TASKS, NOTHING_OFFERED, EVERYTHING_DECLARED) is not None
    assert undeclared(m.NOTIFICATIONS_TASKS, EVERYTHING_OFFERED, None) is None


@pytest.mark.spec("capability.missing-required-data")
def test_a_path_has_the_form_of_declared_capabilities() -> None:
    assert as_object(("elicitation", "url")) == {"elicitation": {"url": {}}}
    assert as_object(("roots",)) == {"roots": {}}


@pytest.mark.spec("capability.open-set", "capability.unknown-tolerated", "capability.experimental-object")
@EVERY_REVISION
def test_unknown_capabilities_do_no_harm(revision: Revision) -> None:
    client = make_client(
        revision,
        capabilities=t.ClientCapabilities(extra={"telepathy": {"range": 5}}, experimental={"x": {"y": 1}}),
    )
    both = pair(client, make_server(revision)).open()
    peer = both.call(m.TOOLS_LIST).peer
    # A session keeps what has a meaning; a modern request is gone when it is answered.
    assert peer.capabilities.extra == ({} if revision.era is Era.LEGACY else {"telepathy": {"range": 5}})
    assert peer.capabilities.experimental == {"x": {"y": 1}}
