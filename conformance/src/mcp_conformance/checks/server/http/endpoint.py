"""The HTTP endpoint: methods, statuses, content types and headers."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    control,
    http_peer,
    last_event,
    probe,
    require,
    serves_legacy,
    session,
    session_messages,
    shown,
    with_header,
    without,
)
from mcp_conformance.checks.probes.interactive_calls import REPLIES
from mcp_conformance.checks.probes.message_pairs import key_of, objects, requests_by_exchange
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.unknown_methods import unknown_methods
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.http_client import HttpResponse, IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.timeouts import WaitKind
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_UNKNOWN: Final = "1900-01-01"
_NO_REVISIONS: Final = (_UNKNOWN, "2025-09-09", "2999-12-31")
"""Dates before, between and after the revisions."""
_SUCCESSES: Final = frozenset(range(200, 300))
_CLIENT_ERRORS: Final = frozenset(range(400, 500))
_ERRORS: Final = frozenset(range(400, 600))
_REMOVED: Final[Mapping[str, JsonObject]] = {
    "ping": {},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "test://static-text"},
    "resources/unsubscribe": {"uri": "test://static-text"},
}
_TYPES: Final = ("application/json", "text/event-stream")
_FORMS: Final = (
    ("Accept", "text/event-stream, application/json"),
    ("Accept", "application/json;q=0.9,text/event-stream;q=0.8"),
    ("Content-Type", "application/json; charset=utf-8"),
)
"""Headers that name the same types as those of other requests: in another order, or with parameters."""
_OK: Final = "HTTP 200"
_STREAMS: Final = re.compile(r"(?im)^content-type:\s*text/event-stream")


@check(
    "http.post",
    proves=("http.single-endpoint", "http.single-endpoint-post", "http.success-status-200", "http.origin-absent-ok"),
)
async def post(server: ServerUnderTest) -> None:
    """A POST request from a client other than a browser is answered with status 200, in whatever case its headers are named."""
    peer = http_peer(server)
    spelled: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("a request", str),
        ("a request with the names of its headers in lower case", str.lower),
        ("a request with the names of its headers in upper case", str.upper),
    )
    for what, spell in spelled if server.revision.era is Era.LEGACY else spelled[:1]:
        request = probe(peer)
        headers = [(spell(name), value) for name, value in peer.headers(request)]
        require(await peer.look(headers=headers, body=encoded(request)), {200}, what)


@check("http.get", proves=("http.single-endpoint", "http.get-response"))
async def get(server: ServerUnderTest) -> None:
    """A GET to the endpoint is answered with an event stream, or with 405, also while another session has a stream."""
    async with session(server) as first, session(server) as second:
        try:
            async with (
                first.within("a response to GET", kind=WaitKind.RESPONSE, times=2),
                first.endpoint.exchange(first.transcript, "GET", _headers_of_get(first)) as exchange,
            ):
                head = HttpResponse(status=exchange.status, headers=exchange.headers, body=b"")
                _require_stream_or_405(head, "GET")
                if second.session_id is not None:
                    answer = await second.look("GET", headers=_headers_of_get(second))
                    _require_stream_or_405(answer, "GET in another session")
        except IncompleteResponse as ended:
            raise Deviation("an HTTP response to GET", str(ended)) from ended


def _headers_of_get(peer: HttpConnection) -> list[tuple[str, str]]:
    return [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]


def _require_stream_or_405(answer: HttpResponse, what: str) -> None:
    require(answer, {200, 405}, what)
    if answer.status == 200 and answer.media_type != "text/event-stream":
        raise Deviation(f"text/event-stream for {what}", shown(answer))


@check("http.response-type", proves=("http.request-response-type", "http.request-response-content-type"))
async def response_type(server: ServerUnderTest) -> None:
    """A POST request is answered with application/json or text/event-stream, in whatever form its headers state the types."""
    peer = http_peer(server)
    await control(peer)
    for name, value in _FORMS:
        request = probe(peer)
        answer = await peer.look(headers=with_header(peer.headers(request), name, value), body=encoded(request))
        require(answer, _SUCCESSES, f"a request with {name}: {value}")
    requests = [probe(peer)]
    if server.inventory.has("tools"):
        requests.append(peer.message("tools/list"))
    for request in requests:
        answer = await peer.look(headers=peer.headers(request), body=encoded(request))
        if answer.media_type not in _TYPES:
            raise Deviation(f"{' or '.join(_TYPES)} for {request['method']}", shown(answer))


@check(
    "http.content-type",
    proves=("http.request-response-type", "http.request-response-content-type"),
    subject=CheckScope.EVIDENCE,
)
async def content_type(server: ServerUnderTest) -> None:
    """Every response to a request, also an error, has the type application/json or text/event-stream."""
    for transcript in server.evidence:
        requested = requests_by_exchange(transcript)
        types: dict[int | None, str] = {}
        deviant = {entry.exchange for entry in transcript if entry.deviant}
        for entry in transcript:
            if not entry.sent and entry.exchange is not None and entry.exchange in requested:
                request = requested[entry.exchange]
                is_response = entry.kind is Kind.MESSAGE and any(
                    "method" not in each and key_of(each.get("id")) == key_of(request["id"]) for each in objects(entry)
                )
                if entry.kind is Kind.HEAD:
                    status, *lines = entry.text.splitlines()
                    found = [line.partition(":")[2] for line in lines if line.lower().startswith("content-type:")]
                    types[entry.exchange] = found[0].partition(";")[0].strip().lower() if found else "no content type"
                    is_response = status == _OK and entry.exchange not in deviant
                if is_response and types[entry.exchange] not in _TYPES:
                    raise Deviation(f"{' or '.join(_TYPES)} for {request['method']}", types[entry.exchange])


@check(
    "http.result-status",
    proves=(
        "http.success-status-200",
        "http.single-endpoint-post",
        "http.request-response-type",
        "http.request-response-content-type",
    ),
    subject=CheckScope.EVIDENCE,
)
async def result_status(server: ServerUnderTest) -> None:
    """Every event stream and every result for a request has the status 200."""
    for transcript in server.evidence:
        requested: dict[int | None, str] = {}
        statuses: dict[int | None, str] = {}
        for entry in transcript:
            for each in objects(entry) if entry.sent and not entry.deviant else ():
                if "method" in each and "id" in each:
                    requested[entry.exchange] = str(each["method"])
            if entry.sent or entry.exchange is None or entry.exchange not in requested:
                continue
            if entry.kind is Kind.HEAD:
                status, *lines = entry.text.splitlines()
                statuses[entry.exchange] = status
                # Clients of Server-Sent Events fail a connection whose status is another one.
                if status != _OK and any(_STREAMS.match(line) for line in lines):
                    raise Deviation(f"HTTP 200 for the stream of {requested[entry.exchange]}", status)
            status = statuses.get(entry.exchange, _OK)
            if status != _OK and any("result" in each for each in objects(entry)):
                raise Deviation(f"HTTP 200 for the result of {requested[entry.exchange]}", status)


@check(
    "http.error-status",
    proves=(
        "http.method-not-found-404",
        "http.unsupported-version-400",
        "http.missing-capability-400",
        "http.header-mismatch-400",
        "meta.missing-field-http-400",
    ),
    subject=CheckScope.EVIDENCE,
)
async def error_status(server: ServerUnderTest) -> None:
    """Every error for which the revision defines a status has it, whatever the method of the request."""
    for transcript in server.evidence:
        requested = requests_by_exchange(transcript)
        heads: dict[int | None, str] = {}
        for entry in transcript:
            if entry.sent or entry.exchange is None or entry.exchange not in requested:
                continue
            if entry.kind is Kind.HEAD:
                heads[entry.exchange] = entry.text
            # The connection may end before the head. An error on a stream comes after the status.
            elif (head := heads.get(entry.exchange)) is not None and not _STREAMS.search(head):
                request, status = requested[entry.exchange], head.splitlines()[0]
                for each in objects(entry):
                    code = member(each, "error", "code")
                    defined = _defined_status(request, code)
                    if defined is not None and status != defined:
                        raise Deviation(f"{defined} for the error {brief(code)} of {request['method']}", status)


_REJECTED: Final = dict.fromkeys((-32020, -32021, -32022), "HTTP 400")
_STATUSES: Final[Mapping[bool, Mapping[int, str]]] = {
    True: {**_REJECTED, -32601: "HTTP 404"},
    False: {**_REJECTED, -32602: "HTTP 400"},
}
"""The status of each error, by whether the request has its metadata."""


def _defined_status(request: JsonObject, code: JsonValue) -> str | None:
    """Return the status that the revision defines for an error; `None` if it defines none."""
    meta = member(request, "params", "_meta")
    is_complete = isinstance(meta, dict) and PROTOCOL_VERSION in meta and CLIENT_CAPABILITIES in meta
    # An `initialize` of an older revision has another status, and a notification with an id is no valid request.
    is_unspecified = code == -32601 and str(request["method"]).startswith("notifications/")
    return None if is_unspecified or not isinstance(code, int) else _STATUSES[is_complete].get(code)


@check(
    "http.accepted-status",
    proves=("http.notification-202", "http.notification-accepted-202"),
    subject=CheckScope.EVIDENCE,
)
async def accepted_status(server: ServerUnderTest) -> None:
    """Every accepted notification, result and error of the client, also an unknown one, is answered with 202 and an empty body."""
    for transcript in server.evidence:
        posted: dict[int | None, str] = {}
        statuses: dict[int | None, str] = {}
        for entry in transcript:
            if entry.sent and entry.kind is Kind.MESSAGE:
                one = entry.value if isinstance(entry.value, dict) else {}
                # A notification or a response, also an invalid one, which the server may reject. Modern clients post no
                # responses, so that no status is defined for them.
                if ("method" in one) != ("id" in one) and ("method" in one or server.revision.era is Era.LEGACY):
                    posted[entry.exchange] = _named(one)
            elif not entry.sent and entry.exchange is not None and entry.exchange in posted:
                what = posted[entry.exchange]
                if entry.kind is Kind.HEAD:
                    status = statuses[entry.exchange] = entry.text.splitlines()[0]
                    if status.startswith("HTTP 2") and status != "HTTP 202":
                        raise Deviation(f"HTTP 202 for {what}", status)
                elif entry.kind is not Kind.NOTE and statuses.get(entry.exchange) == "HTTP 202":
                    raise Deviation(f"HTTP 202 with an empty body for {what}", f"a body: {entry.raw[:200]!r}")


# --- notifications ---------------------------------------------------------------------------------------------------


@check("http.notification", proves=("http.notification-202",))
async def notification(server: ServerUnderTest) -> None:
    """`notifications/initialized`, a result and an error are answered with 202 and an empty body."""
    async with server.open(handshake=False) as opened:
        peer = http_peer(attrs.evolve(server, connected=opened))
        await _initialized(peer)
        with suppress(NotTestable):
            await peer.open_standalone_stream()
            sampled = REPLIES["sampling/createMessage"]({})
            outcomes: tuple[JsonObject, ...] = (
                {"result": sampled},
                {"error": {"code": -1, "message": "the user rejected it"}},
            )
            for outcome in outcomes:
                await _respond(server, peer, outcome)


async def _respond(server: ServerUnderTest, peer: HttpConnection, outcome: JsonObject) -> None:
    """Respond to a client request of the server with a result or an error.

    Raises:
        NotTestable: The server sends no client request.
    """
    method = "sampling/createMessage"
    name, arguments = server.tool("test_sampling", {"prompt": "Say yes."})
    peer.unanswered.add(method)
    known = len(peer.inbox)
    requests: list[JsonObject] = []
    ended = False

    async def call() -> None:
        nonlocal ended
        try:
            await peer.request("tools/call", {"name": name, "arguments": arguments})
        except Deviation as deviation:
            raise NotTestable(f"the control request failed: {deviation}") from deviation
        ended = True
        peer.wake()

    def requested() -> bool:
        requests[:] = [each for each in peer.inbox[known:] if each.get("method") == method and "id" in each]
        return bool(requests) or ended

    async with open_nursery() as nursery:
        nursery.start_soon(call)
        try:
            await peer.until(requested, method)
        except Deviation as deviation:
            raise NotTestable(f"the control request failed: {deviation}") from deviation
        if not requests:
            raise NotTestable(f"the control request failed: no {method}")
        await _accepted(peer, {"jsonrpc": "2.0", "id": requests[0]["id"], **outcome})


def _initialize_params(peer: HttpConnection) -> JsonObject:
    return {
        "protocolVersion": peer.revision.name,
        "capabilities": peer.capabilities,
        "clientInfo": {"name": "mcp-conformance", "version": "0.1.0"},
    }


async def _initialized(peer: HttpConnection) -> None:
    peer.handshake = await peer.request("initialize", _initialize_params(peer))
    await _accepted(peer, {"jsonrpc": "2.0", "method": "notifications/initialized"})


def _named(message: JsonObject) -> str:
    """Return what a notification or response is called."""
    return str(message.get("method", "a result" if "result" in message else "an error"))


async def _accepted(peer: HttpConnection, message: JsonObject, *, refusals: frozenset[int] = frozenset()) -> None:
    answer = await peer.look(headers=peer.headers(message), body=encoded(message))
    require(answer, {202} | refusals, _named(message))
    if answer.status == 202 and answer.body:
        raise Deviation("HTTP 202 with an empty body", shown(answer))


@check("http.notification-accepted", proves=("http.notification-accepted-202",))
async def notification_accepted(server: ServerUnderTest) -> None:
    """A notification is answered with 202 and an empty body, unless it is rejected."""
    peer = http_peer(server)
    params: JsonObject = {"requestId": "conformance-none", "reason": "unknown request"}
    message: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    await _accepted(peer, message, refusals=_CLIENT_ERRORS)


@check("http.notification-invalid", proves=("http.notification-reject", "http.notification-rejected-4xx"))
async def notification_invalid(server: ServerUnderTest) -> None:
    """An invalid notification is answered with an HTTP error; a server that accepts it answers with 202 and no body."""
    peer = http_peer(server)
    await control(peer)
    cancelled: JsonObject = {"requestId": "conformance-none"}
    valid: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
    unversioned: JsonObject = {name: value for name, value in valid.items() if name != "jsonrpc"}
    invalid: tuple[tuple[JsonObject, str], ...] = (
        ({**valid, "jsonrpc": "1.0"}, "of JSON-RPC 1.0"),
        ({**valid, "jsonrpc": 2.0}, "with a number as jsonrpc"),
        (unversioned, "without jsonrpc"),
        ({**valid, "params": 7}, "with a number as params"),
    )
    for message, what in invalid:
        answer = await peer.look(headers=peer.headers(valid), body=encoded(message), deviant=f"a notification {what}")
        _require_accepted_or_error(answer, f"a notification {what}")
    if server.revision.era is Era.LEGACY:
        # Without an id it is no request, and opens no session.
        opening: JsonObject = {"jsonrpc": "2.0", "method": "initialize", "params": _initialize_params(peer)}
        headers = without(peer.headers(valid), "Mcp-Session-Id", "MCP-Protocol-Version")
        answer = await peer.look(headers=headers, body=encoded(opening), deviant="initialize without an id")
        _require_accepted_or_error(answer, "initialize without an id")
    if peer.session_id is not None:
        await _reject_empty_session(peer, valid)


def _require_accepted_or_error(answer: HttpResponse, what: str) -> None:
    require(answer, {202} | _ERRORS, what)
    if answer.status == 202 and answer.body:
        raise Deviation("HTTP 202 with an empty body", shown(answer))


async def _reject_empty_session(peer: HttpConnection, notification: JsonObject) -> None:
    """Require that a notification with an empty session id is rejected, if a request with it is."""
    request = probe(peer)
    headers = with_header(peer.headers(request), "Mcp-Session-Id", "")
    answer = await peer.look(headers=headers, body=encoded(request), deviant="an empty session id")
    if answer.status in _ERRORS:
        answer = await peer.look(headers=headers, body=encoded(notification), deviant="an empty session id")
        require(answer, _ERRORS, "a notification with an empty session id, with which a request is rejected")


# --- the version header
# -------------------------------------------------------------------------------------------------


@check("http.version-absent", proves=("http.protocol-version-assume",))
async def version_absent(server: ServerUnderTest) -> None:
    """A request, a notification and a GET without MCP-Protocol-Version are served as with it."""
    peer = http_peer(server)
    request = await control(peer)
    answer = await peer.look(
        headers=without(peer.headers(request), "MCP-Protocol-Version"),
        body=encoded(request),
        deviant="no MCP-Protocol-Version",
    )
    require(answer, {200}, "a request without MCP-Protocol-Version")
    _, (name, notification), _ = session_messages(request)
    headers, body = peer.headers(notification), encoded(notification)
    served = await peer.look(headers=headers, body=body)
    bare = without(headers, "MCP-Protocol-Version")
    answer = await peer.look(headers=bare, body=body, deviant="no MCP-Protocol-Version")
    require(answer, {served.status}, f"{name} without MCP-Protocol-Version")
    stream = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
    opened = await peer.look("GET", headers=stream)
    bare = without(stream, "MCP-Protocol-Version")
    answer = await peer.look("GET", headers=bare, deviant="no MCP-Protocol-Version")
    # The number of streams of a client may have a limit.
    require(answer, {opened.status, 429, 503}, "a GET without MCP-Protocol-Version")


@check("http.version-unknown", proves=("http.protocol-version-400",))
async def version_unknown(server: ServerUnderTest) -> None:
    """A POST of any message, a GET and a DELETE with an unknown MCP-Protocol-Version are answered with 400."""
    peer = http_peer(server)
    known = server.revision.name
    for version in (*_NO_REVISIONS, "no version", f"{known}x", f"{known}-1", known[:-3]):
        request = await control(peer)
        answer = await peer.look(
            headers=with_header(peer.headers(request), "MCP-Protocol-Version", version),
            body=encoded(request),
            deviant="an unsupported version",
        )
        require(answer, {400}, f"MCP-Protocol-Version: {version}")
    request = await control(peer)
    headers = without(peer.headers(request), "MCP-Protocol-Version")
    answer = await peer.look(
        headers=[*headers, ("mcp-protocol-version", _UNKNOWN)],
        body=encoded(request),
        deviant="an unsupported version",
    )
    require(answer, {400}, f"mcp-protocol-version: {_UNKNOWN}")
    for name, message in session_messages(probe(peer)):
        answer = await peer.look(
            headers=with_header(peer.headers(message), "MCP-Protocol-Version", _UNKNOWN),
            body=encoded(message),
            deviant="an unsupported version",
        )
        require(answer, {400}, f"{name} with an unknown MCP-Protocol-Version")
    stream = with_header(
        [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()], "MCP-Protocol-Version", _UNKNOWN
    )
    last = await last_event(server, peer)
    for lines in ([], last):
        answer = await peer.look("GET", headers=[*stream, *lines], deviant="an unsupported version")
        # A server without streams rejects every GET with 405.
        what = f"a GET{' with Last-Event-ID' if lines else ''} with an unknown MCP-Protocol-Version"
        require(answer, {400, 405}, what)
    async with session(server) as own:
        if own.session_id is None:
            return
        ending = with_header([*own.settings.headers, *own.session_headers()], "MCP-Protocol-Version", _UNKNOWN)
        answer = await own.look("DELETE", headers=ending, deviant="an unsupported version")
        # A server may let no client end its session.
        require(answer, {400, 405}, "a DELETE with an unknown MCP-Protocol-Version")
        request = probe(own)
        answer = await own.look(headers=own.headers(request), body=encoded(request))
        require(answer, {200}, "a request after a DELETE with an unknown MCP-Protocol-Version")


@check("http.unsupported-version", proves=("http.unsupported-version-400",))
async def unsupported_version(server: ServerUnderTest) -> None:
    """The error -32022 has the status 400."""
    peer = http_peer(server)
    request: JsonObject = {**await control(peer), "params": {"_meta": {**peer.meta(), PROTOCOL_VERSION: _UNKNOWN}}}
    answer = await peer.look(headers=peer.headers(request), body=encoded(request), deviant="an unsupported version")
    require(answer, {400}, "an unsupported version")


@check("http.meta-missing", proves=("meta.missing-field-http-400",))
async def meta_missing(server: ServerUnderTest) -> None:
    """A request without a required member of `_meta` is answered with the status 400."""
    peer = http_peer(server)
    for field in ("protocolVersion", "clientCapabilities"):
        meta = {key: value for key, value in peer.meta().items() if not key.endswith(f"/{field}")}
        request: JsonObject = {**await control(peer), "params": {"_meta": meta}}
        answer = await peer.look(headers=peer.headers(request), body=encoded(request), deviant=f"no {field}")
        require(answer, {400}, f"a request without {field}")


# --- methods -----------------------------------------------------------------------------------------------------------


@check("http.method-not-found", proves=("http.method-not-found-404",))
async def method_not_found(server: ServerUnderTest) -> None:
    """An unknown method is answered with 404 and the error -32601."""
    peer = http_peer(server)
    await control(peer)
    for method in unknown_methods(server):
        await _not_found(peer, method)
    request = peer.message("notifications/cancelled", {"requestId": "conformance-none"})
    answer = await peer.look(headers=peer.headers(request), body=encoded(request), deviant="a notification with an id")
    # The server may also reject it as an invalid request.
    require(answer, {400, 404}, "a request with the method of a notification")


@check("http.removed-methods", proves=("http.removed-methods-404",))
async def removed_methods(server: ServerUnderTest) -> None:
    """The methods of older revisions are answered with 404 and the error -32601."""
    peer = http_peer(server)
    await control(peer)
    for method, params in _REMOVED.items():
        await _not_found(peer, method, params)


@check("http.removed-initialize", proves=("http.removed-methods-404",))
async def removed_initialize(server: ServerUnderTest) -> None:
    """A server that supports no older revision answers `initialize` with 404 and the error -32601."""
    await _modern_only(server)
    peer = http_peer(server)
    await control(peer)
    await _not_found(peer, "initialize")


async def _not_found(peer: HttpConnection, method: str, params: JsonObject | None = None) -> None:
    request = peer.message(method, params)
    answer = await peer.look(headers=peer.headers(request), body=encoded(request), deviant="an unknown method")
    require(answer, {404}, method, code=-32601)


async def _modern_only(server: ServerUnderTest) -> None:
    for revision in ("2025-11-25", "2025-06-18", "2025-03-26"):
        if await serves_legacy(server, revision):
            raise NotApplicable(f"the server supports {revision} too")


@check("http.legacy-initialize", proves=("compat.server-modern-initialize-error-http",))
async def legacy_initialize(server: ServerUnderTest) -> None:
    """A server that supports no older revision answers the `initialize` of an older client with 400."""
    await _modern_only(server)
    peer = http_peer(server)
    await control(peer)
    request: JsonObject = {
        "jsonrpc": "2.0",
        "id": peer.next_id(),
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}},
    }
    headers = without(peer.headers(request), "MCP-Protocol-Version", "Mcp-Method")
    answer = await peer.look(headers=headers, body=encoded(request), deviant="initialize of an older revision")
    require(answer, {400}, "initialize of an older revision")


@check("http.get-refused", proves=("http.get-405",))
async def get_refused(server: ServerUnderTest) -> None:
    """A server that supports no older revision answers GET with 405."""
    await _modern_only(server)
    peer = http_peer(server)
    answer = await peer.look("GET", headers=[*peer.settings.headers, ACCEPT_STREAM], deviant="a GET")
    require(answer, {405}, "GET")


@check("http.delete-refused", proves=("http.delete-405",))
async def delete_refused(server: ServerUnderTest) -> None:
    """A server that supports no older revision answers DELETE with 405."""
    await _modern_only(server)
    peer = http_peer(server)
    answer = await peer.look("DELETE", headers=peer.settings.headers, deviant="a DELETE")
    require(answer, {405}, "DELETE")


@check("http.missing-capability", proves=("http.missing-capability-400",))
async def missing_capability(server: ServerUnderTest) -> None:
    """The error -32021 has the status 400."""
    name, arguments = server.tool("test_missing_capability")
    async with server.open(capabilities={}) as opened:
        peer = http_peer(attrs.evolve(server, connected=opened))
        await control(peer)
        request = peer.message("tools/call", {"name": name, "arguments": arguments})
        answer = await peer.look(headers=peer.headers(request), body=encoded(request))
        require(answer, {400}, "a capability that the client does not declare", code=-32021)


@check("http.array", proves=("http.batch-rejected",))
async def array(server: ServerUnderTest) -> None:
    """A POST with an array is rejected with a 4xx status."""
    peer = http_peer(server)
    request = await control(peer)
    answer = await peer.look(headers=peer.headers(request), body=encoded([request]), deviant="an array of messages")
    require(answer, _CLIENT_ERRORS, "an array")


@check("http.response-posted", proves=("http.batch-rejected",))
async def response_posted(server: ServerUnderTest) -> None:
    """A POST with a response is rejected with a 4xx status."""
    peer = http_peer(server)
    headers = peer.headers(await control(peer))
    response: JsonObject = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete"}}
    answer = await peer.look(headers=headers, body=encoded(response), deviant="a response without a request")
    require(answer, _CLIENT_ERRORS, "a response")


# --- headers of older revisions
# -----------------------------------------------------------------------------------------


@check("http.session-ignored", proves=("http.session-id-ignored",))
async def session_ignored(server: ServerUnderTest) -> None:
    """The Mcp-Session-Id header is ignored."""
    await _ignored(http_peer(server), "Mcp-Session-Id", "conformance-none")


@check("http.last-event-id-ignored", proves=("http.last-event-id-ignored",))
async def last_event_id_ignored(server: ServerUnderTest) -> None:
    """The Last-Event-ID header is ignored."""
    await _ignored(http_peer(server), "Last-Event-ID", "1")


async def _ignored(peer: HttpConnection, name: str, value: str) -> None:
    request = await control(peer)
    headers = with_header(peer.headers(request), name, value)
    answer = await peer.look(headers=headers, body=encoded(request), deviant=f"a header {name}")
    require(answer, _SUCCESSES, f"a request with {name}")


@check("http.no-session", proves=("http.session-id-not-minted",), subject=CheckScope.EVIDENCE)
async def no_session(server: ServerUnderTest) -> None:
    """No response has an Mcp-Session-Id header, be it JSON, a stream or an error."""
    for transcript in server.evidence:
        requested = requests_by_exchange(transcript)
        for entry in transcript:
            method = requested.get(entry.exchange or 0, {}).get("method")
            # A server of both eras begins a session by `initialize`.
            if not entry.sent and entry.kind is Kind.HEAD and method not in (None, "initialize"):
                found = [line for line in entry.text.splitlines() if line.lower().startswith("mcp-session-id:")]
                if found:
                    raise Deviation(f"no Mcp-Session-Id in the response to {method}", found[0])
