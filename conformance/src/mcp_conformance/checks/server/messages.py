"""JSON-RPC: rules for every message."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from mcp_conformance.checks.probes.interactive_calls import converse
from mcp_conformance.checks.probes.malformed_messages import refuses
from mcp_conformance.checks.probes.message_pairs import is_id, key_of, objects, rejected_without_message
from mcp_conformance.checks.probes.modern_requests import answered_requests
from mcp_conformance.checks.probes.unknown_methods import (
    UNKNOWN_METHOD,
    UNKNOWN_NOTIFICATION,
    methods_of_other_revisions,
    unknown_methods,
)
from mcp_conformance.checks.probes.waiting_call import calls_in_progress
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.json_forms import JSON_FORMS, in_all_forms
from mcp_conformance.protocol.odd_ids import ODD_IDS
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import Era
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_EASILY_LOST: Final = (0, "", "0", "4712")
"""Ids that a lax test takes for none, or for numbers."""
_CODES_AFTER_READING: Final = (-32601, -32602, -32020, -32021, -32022)
"""The codes of errors that depend on members of the request: its method, its params, or its metadata."""


@check(
    "jsonrpc.version-member", proves=("jsonrpc.version-member", "jsonrpc.messages-conform"), subject=CheckScope.EVIDENCE
)
async def version_member(server: ServerUnderTest) -> None:
    """Every message of the server is an object with "jsonrpc": "2.0"."""
    for transcript in server.evidence:
        for message in transcript.messages(sent=False):
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise Deviation('"jsonrpc": "2.0"', brief(message))
        # Another check covers the response to an array.
        if not server.revision.batching and not any(each.sent and isinstance(each.value, list) for each in transcript):
            for entry in transcript:
                if isinstance(entry.value, list):
                    raise Deviation("a message that is an object", brief(entry.value))


@check(
    "jsonrpc.response-shape",
    proves=(
        "jsonrpc.result-xor-error",
        "jsonrpc.response-not-both",
        "jsonrpc.response-result-or-error",
        "jsonrpc.result-member",
        "schema.result-object",
    ),
    subject=CheckScope.EVIDENCE,
)
async def response_shape(server: ServerUnderTest) -> None:
    """Every response has a result or an error, and not both; a result is an object."""
    for transcript in server.evidence:
        for message in transcript.messages(sent=False):
            if isinstance(message, dict) and "method" not in message:
                if ("result" in message) == ("error" in message):
                    raise Deviation("either a result or an error", brief(message))
                if "result" in message and not isinstance(message["result"], dict):
                    raise Deviation("a result that is an object", brief(message))


@check(
    "jsonrpc.error-shape",
    proves=(
        "jsonrpc.error-object-shape",
        "jsonrpc.error-code-integer",
        "jsonrpc.error-code-message",
        "schema.error-object",
    ),
    subject=CheckScope.EVIDENCE,
)
async def error_shape(server: ServerUnderTest) -> None:
    """Every error has an integer code and a message."""
    for transcript in server.evidence:
        for message in transcript.messages(sent=False):
            if not isinstance(message, dict) or "error" not in message:
                continue
            error = message["error"]
            code = error.get("code") if isinstance(error, dict) else None
            if not isinstance(error, dict) or not isinstance(error.get("message"), str):
                raise Deviation("an error object with a message", brief(message))
            if not isinstance(code, int) or isinstance(code, bool):
                raise Deviation("an error whose code is an integer", brief(message))


@check(
    "jsonrpc.response-ids",
    proves=(
        "jsonrpc.error-id-echo",
        "jsonrpc.error-response-id",
        "jsonrpc.result-id-echo",
        "jsonrpc.result-response-id",
    ),
    subject=CheckScope.EVIDENCE,
)
async def response_ids(server: ServerUnderTest) -> None:
    """Every response has the id of a request of the same connection, and a valid request has one response."""
    for transcript in server.evidence:
        _require_ids_of_readable_requests(transcript)
        used: set[str] = set()
        # Over HTTP a response may be sent again when its stream is resumed, but not in the exchange of its request.
        open_requests: Counter[tuple[int | None, str]] = Counter()
        # The response to an invalid message may have no id. Over HTTP it comes in the exchange of the message, over
        # other transports at any time.
        is_http = server.transport is Transport.HTTP
        invalid = rejected_without_message(transcript) if is_http else set[int | None]()
        valid: set[int] = set()
        # Invalid bytes, and pieces of lines, may contain the id of a message whose response is right.
        bytes_sent = b""
        for entry in transcript:
            exchange = entry.exchange if is_http else None
            if entry.sent and (entry.deviant or entry.kind is Kind.BYTES):
                invalid.add(exchange)
                bytes_sent += entry.raw
            for each in objects(entry):
                id = key_of(each.get("id"))
                place = (exchange, id)
                if entry.sent and "method" in each:
                    used.add(id)
                    open_requests[place] += 1
                    if exchange is not None and exchange not in invalid:
                        valid.add(exchange)
                elif not entry.sent and "method" not in each:
                    of_invalid = (
                        exchange in invalid
                        and exchange not in valid
                        and (each.get("id") is None or (is_id(each["id"]) and id.encode() in bytes_sent))
                    )
                    if id not in used and not of_invalid:
                        raise Deviation("the id of a request", brief(each))
                    if place in open_requests and not of_invalid:
                        open_requests[place] -= 1
                        if open_requests[place] < 0:
                            raise Deviation("one response to each request", brief(each))


def _require_ids_of_readable_requests(transcript: Transcript) -> None:
    """Require that an error has the id of a rejected request, when its code shows that the server has read the request."""
    requested: dict[int | None, JsonObject] = {}
    for entry in transcript:
        if entry.exchange is None:
            continue  # without HTTP exchanges it is unknown to which request an error without an id belongs
        if entry.sent and entry.kind is Kind.MESSAGE and isinstance(entry.value, dict):
            if isinstance(entry.value.get("method"), str) and is_id(entry.value.get("id")):
                requested[entry.exchange] = entry.value
        elif not entry.sent and entry.exchange in requested:
            for each in objects(entry):
                error = each.get("error")
                has_been_read = isinstance(error, dict) and error.get("code") in _CODES_AFTER_READING
                if "method" not in each and has_been_read and each.get("id") is None:
                    raise Deviation(f"the id {brief(requested[entry.exchange]['id'])} in the error", brief(each))


@check("jsonrpc.utf8", proves=("jsonrpc.utf8",), subject=CheckScope.EVIDENCE)
async def utf8(server: ServerUnderTest) -> None:
    """Everything that the server sends is in UTF-8."""
    for transcript in server.evidence:
        for entry in transcript:
            if entry.kind is Kind.BYTES and not entry.sent and not _is_utf8(entry.raw):
                raise Deviation("UTF-8", str(entry))


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


@check(
    "jsonrpc.id-echo",
    proves=(
        "jsonrpc.result-id-echo",
        "jsonrpc.result-response-id",
        "jsonrpc.error-id-echo",
        "jsonrpc.error-response-id",
    ),
)
async def id_echo(server: ServerUnderTest) -> None:
    """A response has the id of its request, with the same type: a number or a string. So has an error response."""
    peer = server.peer
    for id in ODD_IDS:
        # The valid request is the first one: other checks do not judge the response to an invalid one.
        requests = [(peer.message("tools/list", id=id), "")] if server.inventory.has("tools") else []
        requests.append((peer.message(UNKNOWN_METHOD, id=id), "an unknown method"))
        if server.inventory.has("prompts"):
            requests.append((peer.message("prompts/get", {"name": "conformance-none"}, id=id), "an unknown prompt"))
        # Over HTTP, modern requests lack a header, too, which another check covers.
        is_read = server.revision.era is Era.LEGACY or server.transport is not Transport.HTTP
        if server.inventory.has("tools") and is_read and id in _EASILY_LOST:
            requests.append((peer.message("tools/call", {}, id=id), "a call without a name"))
        if server.revision.era is Era.MODERN:
            bare: JsonObject = {"jsonrpc": "2.0", "id": id, "method": "server/discover", "params": {"_meta": {}}}
            requests.append((bare, "a request without its metadata"))
            unsupported: JsonObject = {"_meta": {**peer.meta(), PROTOCOL_VERSION: "1900-01-01"}}
            discover: JsonObject = {"jsonrpc": "2.0", "id": id, "method": "server/discover", "params": unsupported}
            requests.append((discover, "an unsupported version"))
        for request, deviant in requests:
            answer = await peer.exchange(request, deviant=deviant)
            if answer.message.get("id") != id or type(answer.message.get("id")) is not type(id):
                raise Deviation(f"the id {brief(id)}", str(answer))
    with suppress(NotTestable):  # a server without a tool that waits has passed what can be tested
        await _answer_similar_ids(server)


async def _answer_similar_ids(server: ServerUnderTest) -> None:
    """Require that the calls in progress with ids that resemble each other get their responses when each is released.

    Raises:
        NotTestable: The server lacks a fixture, or reports no progress, so that it is unknown when the calls run.
    """
    peer = server.peer
    number = peer.next_id()
    ids: tuple[JsonValue, ...] = (number, str(number), f"Twin-{number}", f"twin-{number}", f"twin-{number} ")
    # The legs of a server over HTTP use the same process.
    keys = [f"twins-{server.revision}-{server.transport.value}-{number}-{place}" for place in range(len(ids))]
    answers: list[tuple[str, str]] = []

    async def call(id: JsonValue, key: str) -> None:
        name, arguments = server.tool("conformance_wait", {"key": key})
        params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": key}}
        answer = await peer.exchange(peer.message("tools/call", params, id=id))
        answers.append((key_of(id), key_of(answer.message.get("id"))))
        peer.wake()

    calls = {key: partial(call, id, key) for id, key in zip(ids, keys, strict=True)}
    async with calls_in_progress(peer, calls, "conformance_wait"):
        unknown = peer.message(UNKNOWN_METHOD, id=f"beside-{number}")
        refused = await peer.exchange(unknown, deviant="an unknown method")
        if refused.message.get("id") != unknown["id"]:
            raise Deviation(f"the id {brief(unknown['id'])}, while other requests are in progress", str(refused))
        for id, key in zip(ids, keys, strict=True):
            answers.clear()
            name, arguments = server.tool("conformance_release", {"key": key})
            await peer.request("tools/call", {"name": name, "arguments": arguments})
            expected = f"the response to the request {brief(id)}, while others are in progress"
            await peer.until(lambda: bool(answers), expected)
            if answers != [(key_of(id), key_of(id))]:
                raise Deviation(expected, f"one with the id {answers[0][1]}")


_INTERACTIVE: Final[Mapping[str, JsonObject]] = {
    "test_sampling": {"prompt": "Say yes."},
    "test_elicitation": {"message": "Who are you?"},
}
"""Tools with client requests, and their arguments."""


@check(
    "jsonrpc.json-forms",
    proves=(
        "jsonrpc.messages-conform",
        "jsonrpc.base-and-lifecycle-support",
        "jsonrpc.base-protocol-supported",
    ),
    subject=CheckScope.RECOVERING,
)
async def json_forms(server: ServerUnderTest) -> None:
    """A message means the same in any order of its members, with spaces around its tokens, and with escapes in its strings."""
    requests: list[_Ask] = [
        partial(server.peer.request, method, params) for method, params in answered_requests(server)
    ]
    for fixture, arguments in _INTERACTIVE.items():
        if server.inventory.find("tools", server.manifest.find("tools", fixture).name) is not None:
            requests.append(partial(_final_response, server, fixture, arguments))
    served = [ask for ask in requests if not _fails(await ask(deviant=""))]
    if not served:
        raise NotTestable("the control requests failed: the server serves no request")
    for ask in served:
        await _require_any_form(server.peer, ask)


class _Ask(Protocol):
    def __call__(self, *, deviant: str) -> Awaitable[JsonRpcResponse]: ...


async def _final_response(
    server: ServerUnderTest, fixture: str, arguments: JsonObject, *, deviant: str
) -> JsonRpcResponse:
    return (await converse(server, fixture, arguments, deviant=deviant)).answer


async def _require_any_form(peer: SuiteConnection, ask: _Ask) -> None:
    """Require that a request which succeeds does so in each form, and so do the responses of the client to its requests."""
    try:
        peer.form = in_all_forms
        # Other checks do not judge what a server makes of these forms.
        if _fails(failed := await ask(deviant="unusual JSON")):
            for what, peer.form in JSON_FORMS.items():
                if _fails(answer := await ask(deviant="unusual JSON")):
                    raise Deviation(f"a result of {answer.method}, which is written with {what}", str(answer))
            raise Deviation(f"a result of {failed.method}, which is written with {', '.join(JSON_FORMS)}", str(failed))
    finally:
        peer.form = encoded


def _fails(answer: JsonRpcResponse) -> bool:
    result = answer.message.get("result")
    return not isinstance(result, dict) or result.get("isError") is True


@check(
    "jsonrpc.unknown-method",
    proves=(
        "jsonrpc.method-not-found-code",
        "jsonrpc.unknown-method-error",
        "version.respect-negotiated",
        "version.respect-negotiated-should",
    ),
)
async def unknown_method(server: ServerUnderTest) -> None:
    """A request with an unknown method is answered with -32601, also if another revision has the method."""
    await server.peer.fence()
    for method in unknown_methods(server):
        answer = await server.peer.request(method, deviant="an unknown method")
        answer.error(-32601, what=f"the unknown method {method}")
    for method, params in methods_of_other_revisions(server):
        answer = await server.peer.request(method, params, deviant="a method of another revision")
        answer.error(-32601, what=f"{method}, which {server.revision} does not have")
    if server.revision.era is Era.LEGACY:
        answer = await server.peer.request("server/discover", deviant="a method of another revision")
        answer.error(what=f"server/discover in a session of {server.revision}")
        answer = await server.peer.request("notifications/initialized", deviant="a notification with an id")
        # The server may take it for an invalid request.
        answer.error(-32601, -32600, what="a request with the method of a notification")
    # A modern request over HTTP repeats the method in a header, which other checks cover.
    if server.revision.era is Era.LEGACY or server.transport is not Transport.HTTP:
        answer = await server.peer.request("", deviant="an empty method")
        answer.error(-32601, -32600, what="a request with an empty method")


@check("jsonrpc.parse-error", proves=("jsonrpc.parse-error-code", "jsonrpc.parse-error"), subject=CheckScope.RECOVERING)
async def parse_error(server: ServerUnderTest) -> None:
    """Input that is not JSON is answered with -32700, and the connection keeps working."""
    await refuses(server, b'{"jsonrpc": "2.0", "id": 1, "method":', -32700, "input that is not JSON")


@check(
    "jsonrpc.notification-not-answered",
    proves=("jsonrpc.notification-no-response", "jsonrpc.tolerate-unknown-notifications"),
    subject=CheckScope.RECOVERING,
)
async def notification_not_answered(server: ServerUnderTest) -> None:
    """A notification gets no response, even when its method is unknown, or is that of a request."""
    peer = server.peer
    await peer.notify(UNKNOWN_NOTIFICATION, deviant="an unknown notification")
    await _require_no_response(peer)
    messages: list[tuple[str, JsonObject | None, str]] = []
    for method in ("server/discover", "ping", "tools/list", "tools/call", "resources/read", "prompts/get"):
        full: JsonObject = {"_meta": peer.meta()} if server.revision.era is Era.MODERN else {}
        messages += ((method, params, f"{method} without an id") for params in (None, full))
    messages += ((method, params, f"{method} with invalid params") for method, params in _UNFIT)
    for method, params, what in messages:
        if isinstance(peer, HttpConnection):
            await _post_without_response(peer, method, params, what)
        else:
            await peer.notify(method, params, deviant=what)
    await _require_no_response(peer)


_UNFIT: Final[tuple[tuple[str, JsonObject | None], ...]] = (
    ("notifications/cancelled", None),
    ("notifications/cancelled", {"requestId": {}}),
    ("notifications/progress", {"progress": "much"}),
    ("notifications/roots/list_changed", {"_meta": 7}),
)
"""Notifications with invalid params, which a validation may take for requests."""


async def _post_without_response(peer: HttpConnection, method: str, params: JsonObject | None, what: str) -> None:
    """Post a notification, whose rejection may have an error in its body."""
    message: JsonObject = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
    answer = await peer.send(encoded(message), headers=peer.headers(message), deviant=what)
    for each in messages_of(answer):
        if "method" not in each and ("result" in each or 200 <= answer.status < 300):
            raise Deviation(f"no response to {what}", f"HTTP {answer.status}: {brief(each)}")


async def _require_no_response(peer: SuiteConnection) -> None:
    await peer.fence()
    if peer.strays:
        raise Deviation("no response to a notification", brief(peer.strays[0]))
