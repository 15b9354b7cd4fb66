"""JSON-RPC: rules for every message of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded, has_capability
from mcp_conformance.drivers.client.stdio_host import STARTED
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.cache_scope import TWO_USERS
from mcp_conformance.scenarios.cancellation import MEANWHILE
from mcp_conformance.scenarios.client_requests import SAME_DIGITS
from mcp_conformance.scenarios.http import PINGED_BEHIND
from mcp_conformance.scenarios.robustness import EARLY, UNKNOWN
from mcp_conformance.scenarios.table import FEW_CAPABILITIES
from mcp_conformance.wire.transcript import Kind
from mcp_core.methods import Side, methods, notifications
from mcp_core.revisions import LEGACY, MODERN, R2025_06_18, between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.client.scripted_request import ClientRequestRecord
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_CLIENT_REQUESTS: Final = "conformance_asks"
"""The scenario with two pings at once whose ids have the same digits."""
_RESUMED: Final = "sse-retry"
"""The scenario in which the client resumes a stream."""
_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]

_REFUSED: Final = 400
"""The lowest HTTP status of a rejection."""


def _objects(client: ClientUnderTest) -> Iterator[JsonObject]:
    """Yield every message that is an object, of scenarios with a given revision."""
    for evidence in client.all(instructed=True):
        for message in evidence.messages:
            if isinstance(message, dict):
                yield message


@check("jsonrpc.client-version", proves=("jsonrpc.messages-conform", "jsonrpc.version-member"))
async def version(client: ClientUnderTest) -> None:
    """Every message of the client is an object with "jsonrpc": "2.0", and in no array if the version has no batches."""
    for evidence in client.all():
        for message in evidence.messages:
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise Deviation('"jsonrpc": "2.0"', brief(message))
    if client.revision in between(R2025_06_18):
        # Each transport has a check of its own.
        return
    for evidence in client.all(instructed=True):
        # The negotiated version counts, not the one that the client offered.
        for array in [] if evidence.agreed.batching else _arrays(evidence):
            # Another check covers responses in an array.
            if any(isinstance(each, dict) and "method" in each for each in array):
                raise Deviation(f"no array with {evidence.agreed}", brief(array))


def _arrays(evidence: Evidence) -> list[list[JsonValue]]:
    """Return the arrays that the client sent."""
    return [each.value for each in evidence.transcript if not each.sent and isinstance(each.value, list)]


@check("jsonrpc.client-utf8", proves=("jsonrpc.utf8",))
async def utf8(client: ClientUnderTest) -> None:
    """Everything that the client sends is in UTF-8."""
    for evidence in client.all():
        for entry in evidence.transcript:
            if entry.kind is Kind.BYTES and not entry.sent and not _is_utf8(entry.raw):
                raise Deviation("UTF-8", str(entry))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@check(
    "jsonrpc.client-request-id",
    proves=(
        "jsonrpc.request-id-type",
        "jsonrpc.request-id-not-null",
        "jsonrpc.request-id-present",
        "jsonrpc.request-id-fractional",
    ),
)
async def request_id(client: ClientUnderTest) -> None:
    """The id of every request is a string or an integer."""
    for message in _objects(client):
        if "method" not in message:
            continue
        if "id" not in message and message["method"] in methods(client.revision):
            raise Deviation(f"an id in the request {message['method']}", brief(message))
        id = message.get("id", 0)
        if not isinstance(id, str | int) or isinstance(id, bool):
            raise Deviation("an id that is a string or an integer", brief(message))


@check("jsonrpc.client-request-id-unique", proves=("jsonrpc.request-id-unique",))
async def request_id_unique(client: ClientUnderTest) -> None:
    """No two requests of a session have the same id."""
    for evidence in client.all():
        for messages in evidence.conversations:
            used: set[bytes] = set()
            for message in messages:
                # Another check covers requests whose method is that of a notification.
                is_notification = str(message.get("method")).startswith("notifications/")
                if "method" in message and not is_notification and isinstance(message.get("id"), int | str):
                    key = encoded(message["id"])
                    if key in used:
                        raise Deviation("an id that no other request of the session had", brief(message))
                    used.add(key)


@check("jsonrpc.client-request-id-in-flight", proves=("jsonrpc.request-id-unique-in-flight",))
async def request_id_in_flight(client: ClientUnderTest) -> None:
    """No request has the id of another pending request."""
    for evidence in client.all():
        pending: set[bytes] = set()
        # A request that is rejected by its HTTP status alone is not pending either.
        refused = [each.value for each in evidence.exchanges if each.status >= _REFUSED]
        for entry in evidence.transcript:
            message = entry.value
            if entry.kind is Kind.NOTE and entry.text.startswith(STARTED):
                pending.clear()
            if not isinstance(message, dict) or not isinstance(message.get("id"), int | str):
                continue
            key = encoded(message["id"])
            if entry.sent:
                pending.discard(key)
            elif "method" in message and key in pending:
                raise Deviation("an id that no pending request has", brief(message))
            elif "method" in message and not any(each is message for each in refused):
                pending.add(key)


@check("jsonrpc.client-notification-id", proves=("jsonrpc.notification-no-id",))
async def notification_id(client: ClientUnderTest) -> None:
    """No notification has an id."""
    for message in _objects(client):
        if "id" in message and str(message.get("method", "")).startswith("notifications/"):
            raise Deviation("a notification without an id", brief(message))


@check("jsonrpc.client-params-object", proves=("schema.params-object", "meta.params-object-required"))
async def params_object(client: ClientUnderTest) -> None:
    """The params of every message are an object; those of a modern request have `_meta`."""
    for message in _objects(client):
        if "params" in message and not isinstance(message["params"], dict):
            raise Deviation("params that are an object", brief(message))
        if client.revision.result_type and "id" in message and message.get("method") in methods(client.revision):
            params = message.get("params")
            if not isinstance(params, dict) or not isinstance(params.get("_meta"), dict):
                raise Deviation("params with a _meta object", brief(message))


@check(
    "schema.client-methods",
    proves=(
        "schema.request-methods-client",
        "schema.request-methods-client-tasks",
        "schema.notification-methods-client",
        "schema.notification-methods-client-tasks",
        "version.respect-negotiated",
        "version.respect-negotiated-should",
    ),
)
async def known_methods(client: ClientUnderTest) -> None:
    """The client sends only requests and notifications that the revision defines for clients."""
    revision = client.revision
    known = {each.name for each in methods(revision).values() if Side.CLIENT in each.sender}
    known |= {each.name for each in notifications(revision).values() if Side.CLIENT in each.sender_in(revision)}
    for message in _objects(client):
        if "method" in message and message["method"] not in known:
            raise Deviation(f"a method of clients of {revision}", brief(message))


_REMOVED_METHODS: Final = frozenset(
    {
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "initialize",
        "notifications/initialized",
    }
)
"""Methods that the modern revision does not have."""


@check(
    "compat.client-no-legacy-methods",
    proves=("compat.no-ping",),
    needs=("scenario:tools_call", "scenario:meets-modern", f"scenario:{TWO_USERS}", "scenario:conformance_crash"),
)
async def no_legacy_methods(client: ClientUnderTest) -> None:
    """A modern server gets no message that only legacy revisions define, also from a further connection of the client."""
    for message in client.run("tools_call").messages:
        if isinstance(message, dict) and message.get("method") in _REMOVED_METHODS:
            raise Deviation("no message of a legacy revision", brief(message))
    for evidence in (client.run("meets-modern"), *client.all(instructed=True)):
        # Another check covers a client that sends initialize. A legacy client sends nothing else, and a client of both eras
        # may take the rejection of a request for a sign of a legacy server.
        for message in [] if evidence.sent("initialize") else evidence.messages:
            if isinstance(message, dict) and message.get("method") in _REMOVED_METHODS:
                raise Deviation("no message of a legacy revision", brief(message))


@check(
    "jsonrpc.client-no-responses",
    proves=("jsonrpc.client-no-responses", "stdio.client-no-responses", "http.client-no-responses"),
    revisions=_MODERN,
)
async def no_responses(client: ClientUnderTest) -> None:
    """The client never sends a response, even to a request, which a server must not send."""
    for message in _objects(client):
        if "method" not in message:
            raise Deviation("no response of the client", brief(message))


@check(
    "jsonrpc.client-response-shape",
    proves=(
        "jsonrpc.messages-conform",
        "jsonrpc.response-result-or-error",
        "jsonrpc.response-not-both",
        "schema.result-object",
    ),
    revisions=_LEGACY,
    needs=("scenario:server-asks",),
)
async def response_shape(client: ClientUnderTest) -> None:
    """Every response of the client has a result that is an object, or an error, and not both, and is in no array."""
    for evidence in client.all(instructed=True):
        for array in [] if evidence.agreed.batching else _arrays(evidence):
            # Another check covers requests in an array.
            if any(isinstance(each, dict) and "method" not in each for each in array):
                raise Deviation("a response that is an object", brief(array))
    for message in _responses(client):
        if ("result" in message) == ("error" in message):
            raise Deviation("either a result or an error", brief(message))
        if "result" in message and not isinstance(message["result"], dict):
            raise Deviation("a result that is an object", brief(message))
    _server_requests(client)


def _responses(client: ClientUnderTest) -> Iterator[JsonObject]:
    """Yield every response of the client."""
    for evidence in client.all():
        yield from evidence.responses


@check(
    "jsonrpc.client-error-shape",
    proves=("jsonrpc.error-code-message", "jsonrpc.error-code-integer", "schema.error-object"),
    revisions=_LEGACY,
    needs=("scenario:server-asks", "scenario:conformance_declines"),
)
async def error_shape(client: ClientUnderTest) -> None:
    """Every error of the client has an integer code and a message."""
    for message in _responses(client):
        error = message.get("error", {"code": 0, "message": ""})
        code = error.get("code") if isinstance(error, dict) else None
        if not isinstance(error, dict) or not isinstance(error.get("message"), str):
            raise Deviation("an error object with a message", brief(message))
        if not isinstance(code, int) or isinstance(code, bool):
            raise Deviation("an error whose code is an integer", brief(message))
    _server_requests(client)


def _server_requests(client: ClientUnderTest) -> list[ClientRequestRecord]:
    """Return the requests of the server during the call of the client.

    Raises:
        NotTestable: The client did not send that call.
    """
    requests = client.run("server-asks").server.client_requests
    if not requests:
        raise NotTestable("the client did not call the tool test_server_asks")
    return requests


def _response(client: ClientUnderTest, request: ClientRequestRecord) -> JsonObject | None:
    """Return the response to a request of the server; `None` without a response.

    Raises:
        NotTestable: There are responses with unknown ids: one of them may be meant for the request.
    """
    known = {encoded(each.request["id"]) for each in _server_requests(client)}
    if request.response is None:
        strays = [each for each in client.run("server-asks").responses if encoded(each.get("id")) not in known]
        if strays:
            raise NotTestable(f"the response to the request has another id: {brief(strays[0])}")
    return request.response


@check(
    "jsonrpc.client-response-id",
    proves=(
        "jsonrpc.result-response-id",
        "jsonrpc.error-response-id",
        "schema.error-id-required",
        "jsonrpc.base-and-lifecycle-support",
        "sse.get-server-messages",
    ),
    revisions=_LEGACY,
    needs=("scenario:server-asks", "scenario:conformance_no_request", f"scenario:{_CLIENT_REQUESTS}"),
)
async def response_id(client: ClientUnderTest) -> None:
    """Every request of the server gets a response with its id, whatever the id, those beside it and the stream, also an error."""
    _answers_pings(client.run("server-asks"))
    unknown = [each for each in client.run("conformance_no_request").server.client_requests if each.name == UNKNOWN]
    for scenario, requests in (("server-asks", _server_requests(client)), ("conformance_no_request", unknown)):
        for request in requests:
            if request.response is None:
                used = [each.get("id") for each in client.run(scenario).responses]
                id = brief(request.request["id"])
                raise Deviation(f"a response to {request.method} with the id {id}", brief(used))
    at_once = client.run(_CLIENT_REQUESTS)
    answered = {encoded(each.get("id")) for each in at_once.responses} & {*map(encoded, SAME_DIGITS)}
    # A client that fails may have ended before the other response.
    if len(answered) == 1 and at_once.status in (None, 0):
        ids = " and ".join(map(brief, SAME_DIGITS))
        raise Deviation(f"a response to each of two pings with the ids {ids}", f"one with {answered.pop().decode()}")


_LATER_REQUESTS: Final = 2
"""The number of later requests of a client that show that it has received a ping. One may cross it."""


def _answers_pings(evidence: Evidence) -> None:
    """Check that the client does not go on without a response to a ping.

    A client that takes a ping for the response to its request does so, and ends before the server stops waiting.
    """
    waiting: dict[bytes, tuple[JsonObject, list[JsonObject]]] = {}
    """The pings without a response, each with the later requests of the client."""
    for entry in evidence.transcript:
        message = entry.value
        if not isinstance(message, dict):
            continue
        if entry.sent and message.get("method") == "ping":
            waiting[encoded(message["id"])] = message, []
        elif not entry.sent and "method" not in message:
            waiting.pop(encoded(message.get("id")), None)
        elif not entry.sent and "id" in message:
            for _, later in waiting.values():
                later.append(message)
    for message, later in waiting.values():
        if len(later) >= _LATER_REQUESTS:
            raise Deviation(f"a response to {brief(message)}", brief(later[0]))


@check(
    "jsonrpc.client-response-once",
    proves=("jsonrpc.result-response-id", "jsonrpc.error-response-id"),
    revisions=_LEGACY,
)
async def response_once(client: ClientUnderTest) -> None:
    """Every response has the id of a request of the server, and no request gets a second response."""
    for evidence in client.all():
        requests: set[bytes] = set()
        answered: set[bytes] = set()
        # A client may send again what an HTTP status refuses.
        refused = [each.value for each in evidence.exchanges if each.status >= _REFUSED]
        for entry in evidence.transcript:
            for message in entry.value if isinstance(entry.value, list) else [entry.value]:
                if not isinstance(message, dict):
                    continue
                key = encoded(message.get("id"))
                if entry.sent and "method" in message:
                    # The server may give an id again, to another process or session.
                    requests.add(key)
                    answered.discard(key)
                elif not entry.sent and "method" not in message and not any(each is entry.value for each in refused):
                    if key in answered:
                        raise Deviation("one response to each request", brief(message))
                    # An error may lack the id of a message that the client cannot read.
                    if key not in requests and message.get("id") is not None:
                        raise Deviation("the id of a request", brief(message))
                    answered |= {key} & requests


@check(
    "jsonrpc.client-unknown-method",
    proves=("jsonrpc.unknown-method-error",),
    revisions=_LEGACY,
    needs=("scenario:server-asks", "scenario:conformance_no_request"),
)
async def unknown_method(client: ClientUnderTest) -> None:
    """A request with an unknown method is answered with -32601, also if the method resembles a known one."""
    for request in _server_requests(client):
        if request.method == "conformance/does-not-exist":
            _is_unknown(request.method, _response(client, request))
    for request in client.run("conformance_no_request").server.client_requests:
        # Another check requires a response.
        if request.name == UNKNOWN and request.response is not None:
            _is_unknown(request.method, request.response)


def _is_unknown(method: str, response: JsonObject | None) -> None:
    error = (response or {}).get("error")
    if not isinstance(error, dict) or error.get("code") != -32601:
        raise Deviation(f"error -32601 for the unknown method {method}", brief(response))


@check(
    "ping.client-respond",
    proves=(
        "ping.respond",
        "schema.empty-result",
    ),
    revisions=_LEGACY,
    needs=(
        "scenario:server-asks",
        "scenario:conformance_progress",
        "scenario:conformance_server_cancels",
        f"scenario:{_RESUMED}",
    ),
)
async def ping(client: ClientUnderTest) -> None:
    """A ping of the server gets an empty result, also in a resumed stream, and while other requests wait for the user."""
    for request in _server_requests(client):
        if request.method == "ping":
            _is_empty(_response(client, request))
    for evidence in client.all():
        for request in evidence.server.client_requests:
            # The client may not respond because it ended, and another check covers a ping as a task.
            if request.method == "ping" and request.response is not None and "params" not in request.request:
                _is_empty(request.response)
    waiting = client.run("conformance_server_cancels")
    for request in waiting.server.client_requests:
        # A client that fails may have ended before the ping.
        if request.name == MEANWHILE and request.response is None and waiting.status in (None, 0):
            raise Deviation("an empty result while other requests of the server wait for the user", waiting.ending)
    resumed = client.runs.get(_RESUMED)
    # A client that fails may have left the stream.
    if resumed is not None and resumed.status == 0:
        for request in resumed.server.client_requests:
            if request.name == PINGED_BEHIND and request.response is None:
                raise Deviation("an empty result of a ping in a resumed stream", resumed.ending)


def _is_empty(response: JsonObject | None) -> None:
    result = (response or {}).get("result")
    if not isinstance(result, dict) or set(result) - {"_meta"}:
        raise Deviation("an empty result", brief(response))


@check(
    "ping.client-before-initialized",
    proves=("ping.respond",),
    revisions=_LEGACY,
    transports=(Transport.STDIO, Transport.HTTP_SSE),
    needs=("scenario:conformance_early_ping", "scenario:server-asks"),
)
async def early_ping(client: ClientUnderTest) -> None:
    """A ping of the server before its response to `initialize` gets an empty result."""
    later = [each for each in _server_requests(client) if each.method == "ping" and each.response is not None]
    if not later:
        raise NotTestable("the control request failed: a later ping gets no response")
    evidence = client.run("conformance_early_ping")
    pings = [each for each in evidence.server.client_requests if each.name == EARLY]
    if not pings:
        raise NotTestable(f"the client did not send initialize: {evidence.ending}")
    result = (pings[0].response or {}).get("result")
    if not isinstance(result, dict) or set(result) - {"_meta"}:
        raise Deviation("an empty result for a ping before the response to initialize", brief(pings[0].response))


@check(
    "roots.client-undeclared", proves=("roots.unsupported-error",), revisions=_LEGACY, needs=("scenario:server-asks",)
)
async def roots_undeclared(client: ClientUnderTest) -> None:
    """A client that did not declare roots answers `roots/list` with -32601."""
    request = next((each for each in _server_requests(client) if each.method == "roots/list"), None)
    if any(session.has("roots") for session in client.run("server-asks").server.sessions):
        raise NotApplicable("the client declares roots")
    if request is None:
        raise NotTestable("the server sent no roots/list: the client did not respond to the requests before")
    response = _response(client, request)
    error = (response or {}).get("error")
    if not isinstance(error, dict) or error.get("code") != -32601:
        raise Deviation("error -32601 for roots/list", brief(response))


_USES: Final = ("tools/call", "resources/read", "prompts/get")
"""The methods that use entries of lists."""


@check(
    "jsonrpc.client-bears-unknown",
    proves=(
        "jsonrpc.messages-conform",
        "jsonrpc.base-protocol-supported",
        "jsonrpc.result-any-object",
        "schema.result-open",
        "capability.open-set",
        "jsonrpc.tolerate-unknown-notifications",
        "capability.unknown-tolerated",
        "meta.unknown-keys-ignored",
    ),
    needs=("scenario:odd-but-legal", "scenario:tools_call", "scenario:all-in-streams"),
)
async def ignores_unknown(client: ClientUnderTest) -> None:
    """The client ignores unknown capabilities, members, keys of `_meta` and notifications, and the order of members."""
    # Over HTTP a message before the response requires a stream, so that the control uses streams too.
    control = client.control("all-in-streams" if "all-in-streams" in client.runs else "tools_call")
    evidence = client.run("odd-but-legal")
    missing = [each for each in _USES if control.sent(each) and not evidence.sent(each)]
    if evidence.status != 0 or missing:
        what = f" and to send {missing[0]}" if missing else ""
        raise Deviation(f"the client to behave as in {control.scenario.name}{what}", evidence.ending)


_UNREADABLE: Final = ("conformance_batches", "conformance_no_request")
"""Scenarios with messages whose id a client may be unable to read."""


@check(
    "jsonrpc.client-notification-not-answered",
    proves=("jsonrpc.notification-no-response",),
    needs=("scenario:odd-but-legal", "scenario:conformance_server_cancels", "scenario:server-asks"),
)
async def notification_not_answered(client: ClientUnderTest) -> None:
    """A notification gets no response, even when its method is unknown or its params are invalid."""
    for each in client.all():
        # In the other scenarios the server sends only requests with ids and messages that need no response.
        for message in [] if each.scenario.name in _UNREADABLE else each.responses:
            if message.get("id") is None:
                raise Deviation("no response without the id of a request", brief(message))
    evidence = client.run("odd-but-legal")
    if not evidence.sent("tools/list"):
        raise NotTestable("the client did not list the tools, and got no notification")
    for message in evidence.responses:
        raise Deviation("no response to a notification", brief(message))


@check(
    "jsonrpc.client-bears-no-capabilities",
    proves=(
        "jsonrpc.optional-components",
        "jsonrpc.components-optional",
        "lifecycle.handle-missing-capabilities",
    ),
    needs=("scenario:no-capabilities",),
)
async def accepts_no_capabilities(client: ClientUnderTest) -> None:
    """A client that connects to a server without capabilities exits normally."""
    evidence = client.run("no-capabilities")
    if evidence.status is None:
        raise Deviation("the client to exit", evidence.ending)


@check(
    "capability.client-only-declared",
    proves=(
        "capability.only-negotiated",
        "capability.only-negotiated-should",
        "prompts.respect-capability",
    ),
    needs=("scenario:no-capabilities", *(f"scenario:{name}" for name in FEW_CAPABILITIES)),
)
async def only_declared(client: ClientUnderTest) -> None:
    """A server gets no request that needs a capability which it does not declare."""
    client.run("no-capabilities")
    for evidence in client.all(instructed=True):
        declared = evidence.server.declared(evidence.agreed)
        for message in evidence.requests:
            row = methods(evidence.agreed).get(str(message["method"]))
            path = None if row is None else row.server_capability
            if row is None or path is None or evidence.agreed not in row.capability_revisions:
                continue
            if not has_capability(declared, ".".join(path)):
                raise Deviation(f"no {message['method']}: {'.'.join(path)} is not declared", brief(message))
