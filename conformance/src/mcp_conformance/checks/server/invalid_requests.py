"""JSON-RPC: responses to invalid requests, and to concurrent ones."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.http_requests import error_code, on_one_connection, session, shown, succeeded
from mcp_conformance.checks.probes.interactive_calls import retried
from mcp_conformance.checks.probes.malformed_messages import refuses
from mcp_conformance.checks.probes.message_pairs import is_id
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.checks.server.lists import LISTS, List
from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.methods import methods
from mcp_core.revisions import R2025_06_18, Era, between
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_DEPTH: Final = 100_000
_LEGACY: Final = "2025-11-25"
_MANY: Final = 8
_STRUCTURED: Final = "conformance_structured"

_ODD: Final = 77_001
"""Id of a request that only a lenient parser finds."""
_SPELLED: Final = "in another case"
_NO_JSON: Final[tuple[tuple[str, str, bytes, int | None], ...]] = (
    ("bad-utf8", "bytes that are not UTF-8", b'{"jsonrpc":"2.0","id":%d,"method":"\xff\xfe"}' % _ODD, _ODD),
    (
        "nan",
        "a number that JSON does not have",
        b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"x":NaN}}' % _ODD,
        _ODD,
    ),
    (
        "two-values",
        "two values in place of one",
        b'{"jsonrpc":"2.0","method":"a"} {"jsonrpc":"2.0","method":"b"}',
        None,
    ),
    ("deep", "a hundred thousand open brackets", b"[" * _DEPTH, None),
    ("cut", "a truncated message", b'{"jsonrpc":"2.0","id":1,"method":', None),
)
_NO_REQUEST: Final[tuple[tuple[str, str, bytes], ...]] = (
    ("string", "a string", b'"a string"'),
    ("number", "a number", b"42"),
    ("object", "an object that is not a message", b'{"conformance":true}'),
)
_ALMOST: Final[tuple[tuple[str, str, bytes, bool], ...]] = (
    ("without-version", "a request without jsonrpc", b'{"id":"odd","method":"ping"}', True),
    ("old-version", "a request of JSON-RPC 1.0", b'{"jsonrpc":"1.0","id":"odd","method":"ping"}', False),
    ("method", "a request whose method is a number", b'{"jsonrpc":"2.0","id":"odd","method":7}', False),
    ("id", "a request whose id is an object", b'{"jsonrpc":"2.0","id":{},"method":"ping"}', False),
    ("id-boolean", "a request whose id is a boolean", b'{"jsonrpc":"2.0","id":true,"method":"ping"}', False),
)
"""Requests with one invalid member, and whether a server may tolerate it. In the modern era their HTTP headers can be the reason for the rejection."""


def _refused(
    data: bytes, what: str, code: int, lenient_id: int | None = None, *, tolerable: bool = False
) -> Callable[[ServerUnderTest], Awaitable[None]]:
    async def run(server: ServerUnderTest) -> None:
        await refuses(server, data, code, what, lenient_id=lenient_id, tolerable=tolerable)

    return run


for _name, _what, _data, _found in _NO_JSON:
    SERVER_CHECKS.add(
        f"jsonrpc.no-json-{_name}",
        _refused(_data, _what, -32700, _found),
        title=f"{_what[0].upper()}{_what[1:]}: answered with -32700, and the connection keeps working.",
        proves=("jsonrpc.parse-error-code", "jsonrpc.parse-error"),
        subject=CheckScope.RECOVERING,
    )
for _name, _what, _data in _NO_REQUEST:
    SERVER_CHECKS.add(
        f"jsonrpc.no-request-{_name}",
        _refused(_data, _what, -32600),
        title=f"{_what[0].upper()}{_what[1:]}: answered with -32600, and the connection keeps working.",
        proves=("jsonrpc.invalid-request-code", "jsonrpc.invalid-request-error"),
        subject=CheckScope.RECOVERING,
    )

for _name, _what, _data, _tolerable in _ALMOST:
    SERVER_CHECKS.add(
        f"jsonrpc.no-request-{_name}",
        _refused(_data, _what, -32600, tolerable=_tolerable),
        title=f"{_what[0].upper()}{_what[1:]}: answered with -32600, and the connection keeps working.",
        proves=("jsonrpc.invalid-request-error",),
        subject=CheckScope.RECOVERING,
    )


@check(
    "jsonrpc.member-names",
    proves=("jsonrpc.invalid-request-code", "jsonrpc.invalid-request-error"),
    subject=CheckScope.RECOVERING,
)
async def member_names(server: ServerUnderTest) -> None:
    """A request whose members are named in another case is not served: the names of JSON differ by case."""
    peer = server.peer
    await peer.fence()
    request = peer.message("ping" if server.revision.era is Era.LEGACY else "server/discover", id=_SPELLED)
    spelled: JsonObject = {name if name == "jsonrpc" else name.capitalize(): each for name, each in request.items()}
    what = "a request whose members are named in another case"
    if isinstance(peer, HttpConnection):
        answers = messages_of(await peer.send(encoded(spelled), headers=peer.headers(request), deviant=what))
    else:
        await peer.post(spelled, deviant=what)
        await peer.fence()
        answers = peer.strays
    for each in answers:
        if "result" in each and each.get("id") == _SPELLED:
            raise Deviation(f"no result for {what}", brief(each))


@check("jsonrpc.invalid-id", proves=("jsonrpc.error-id-echo",), subject=CheckScope.RECOVERING)
async def invalid_id(server: ServerUnderTest) -> None:
    """The error for a request whose id is an object or a boolean has no id, or null."""
    peer = server.peer
    await peer.fence()
    ids: tuple[tuple[JsonValue, str], ...] = (({}, "an object"), (True, "a boolean"))
    for id, kind in ids:
        request, what = peer.message("server/discover", id=id), f"a request whose id is {kind}"
        if isinstance(peer, HttpConnection):
            answers = messages_of(await peer.send(encoded(request), headers=peer.headers(request), deviant=what))
        else:
            known = len(peer.strays)
            await peer.post(request, deviant=what)
            await peer.fence()
            answers = peer.strays[known:]
        for each in answers:
            if "error" in each and each.get("id") is not None and not is_id(each["id"]):
                raise Deviation(f"no id, or null, in the error for {what}", brief(each))


@check("jsonrpc.other-version", proves=("jsonrpc.invalid-request-code",), transports=(Transport.HTTP,))
async def other_version(server: ServerUnderTest) -> None:
    """A request of JSON-RPC 1.0 that is complete otherwise, with its headers, is answered with -32600."""
    what = "a request of JSON-RPC 1.0"
    answer = await server.peer.exchange({**server.peer.message("server/discover"), "jsonrpc": "1.0"}, deviant=what)
    answer.error(-32600, what=what)


def _listings(server: ServerUnderTest) -> list[List]:
    """Return the lists that the server has."""
    found = [row for row in LISTS if server.inventory.has(row.capability)]
    if not found:
        raise NotApplicable("the server declares no tools, resources or prompts")
    return found


_UNFIT: Final[tuple[tuple[str, str, JsonObject, str], ...]] = (
    ("tools", "tools/call", {}, "no name"),
    ("tools", "tools/call", {"name": 7}, "a name that is a number"),
    ("tools", "tools/call", {"name": "test_simple_text", "arguments": []}, "arguments that are an array"),
    ("tools", "tools/call", {"name": "test_simple_text", "arguments": "text"}, "arguments that are a string"),
    ("prompts", "prompts/get", {}, "no name"),
    ("prompts", "prompts/get", {"name": ["test_simple_prompt"]}, "a name that is an array"),
    ("prompts", "prompts/get", {"name": "test_simple_prompt", "arguments": ["text"]}, "arguments that are an array"),
    ("resources", "resources/read", {}, "no uri"),
    ("resources", "resources/read", {"uri": {}}, "a uri that is an object"),
    ("resources.subscribe", "resources/subscribe", {}, "no uri"),
    ("resources.subscribe", "resources/unsubscribe", {}, "no uri"),
    ("completions", "completion/complete", {"argument": {"name": "a", "value": ""}}, "no ref"),
    ("logging", "logging/setLevel", {}, "no level"),
)
"""The capability, the method, the params, and what is wrong with them."""
_NO_OBJECTS: Final[tuple[tuple[JsonValue, str], ...]] = (
    (["text"], "params that are an array"),
    ("text", "params that are a string"),
)


@check("jsonrpc.invalid-params", proves=("jsonrpc.invalid-params-code", "jsonrpc.invalid-params-error"))
async def invalid_params(server: ServerUnderTest) -> None:
    """Params of the wrong type, and without a required member, are answered with -32602."""
    for method in (each.method for each in _listings(server)):
        (await server.peer.request(method)).result()
        for cursor, what in ((5, "a cursor that is a number"), ({}, "a cursor that is an object")):
            answer = await server.peer.request(method, {"cursor": cursor}, deviant=what)
            answer.error(-32602, what=f"{method} with {what}")
        # Over HTTP+SSE, a server may reject them by the status of the POST request, before there is a response.
        for params, what in _NO_OBJECTS if server.transport is not Transport.HTTP_SSE else ():
            answer = await server.peer.exchange({**server.peer.message(method), "params": params}, deviant=what)
            # JSON-RPC has only arrays and objects as params, and MCP only objects.
            answer.error(-32602, -32600, what=f"{method} with {what}")
    for capability, method, unfit, what in _UNFIT:
        if server.inventory.has(capability) and _reaches(server, method, unfit):
            answer = await server.peer.request(method, unfit, deviant=what)
            answer.error(-32602, what=f"{method} with {what}")


def _reaches(server: ServerUnderTest, method: str, params: JsonObject) -> bool:
    """Return whether a server has a method, and reads its params first.

    Over HTTP, modern requests repeat their params in headers, which are compared before.
    """
    if method not in methods(server.revision):
        return False
    named = any(isinstance(params.get(name), str) for name in ("name", "uri"))
    return named or server.revision.era is Era.LEGACY or server.transport is not Transport.HTTP or "argument" in params


@check(
    "jsonrpc.concurrent-requests",
    proves=("jsonrpc.concurrent-requests", "jsonrpc.stateless-interleaving", "jsonrpc.result-response-id"),
    subject=CheckScope.RECOVERING,
)
async def concurrent_requests(server: ServerUnderTest) -> None:
    """Each of several concurrent requests gets its own response."""
    listing = _listings(server)[0]
    other = "ping" if server.peer.handshake else "server/discover"
    answers: list[JsonRpcResponse] = []
    values: list[tuple[int, JsonRpcResponse]] = []
    known = len(server.peer.strays)

    async def ask(number: int) -> None:
        answers.append(await server.peer.request(listing.method if number % 2 else other, id=f"at once {number}"))

    async def call(number: int) -> None:
        name, arguments = server.tool(_STRUCTURED, {"value": number})
        values.append((number, await server.peer.request("tools/call", {"name": name, "arguments": arguments})))

    calls = server.manifest.find("tools", _STRUCTURED)
    is_structured = server.revision in between(R2025_06_18)
    async with open_nursery() as nursery:
        for number in range(_MANY):
            nursery.start_soon(ask, number)
            # The manifest may state the same arguments for each call.
            if is_structured and calls.arguments is None and server.inventory.find("tools", calls.name) is not None:
                nursery.start_soon(call, number)
    for number, answer in values:
        if member(answer.result(), "structuredContent", "value") != number:
            raise Deviation(f"the result of the call with the value {number}, beside others", str(answer))
    for answer in answers:
        if (listing.member in answer.result()) != (answer.method == listing.method):
            raise Deviation(f"the result of {answer.method}", str(answer))
    if len(server.peer.strays) > known:
        raise Deviation("one response for each request", brief(server.peer.strays[known]))


@check(
    "jsonrpc.stateless",
    proves=("jsonrpc.stateless-no-prior-context",),
    subject=CheckScope.RECOVERING,
)
async def stateless(server: ServerUnderTest) -> None:
    """A request without _meta, or without a member of it, is rejected right after one that had it."""
    peer = server.peer
    await peer.fence()
    for missing in ("", PROTOCOL_VERSION, CLIENT_CAPABILITIES):
        what = f"a request without {missing or '_meta'}"
        meta: JsonObject = {key: value for key, value in peer.meta().items() if key != missing}
        params: JsonObject = {"_meta": meta} if missing else {}
        message: JsonObject = {"jsonrpc": "2.0", "id": peer.next_id(), "method": "server/discover", "params": params}
        if isinstance(peer, HttpConnection):
            # A server could remember the metadata of a connection, so that both requests have the same one.
            first, then = await on_one_connection(peer, peer.message("server/discover"), message, deviant=what)
            if not succeeded(first):
                raise NotTestable(f"the control request failed: {shown(first)}")
            if error_code(then) is None:
                raise Deviation(f"an error for {what}", shown(then))
        else:
            # A server of both eras may answer as in the legacy one, which has no server/discover.
            (await peer.exchange(message, deviant=what)).error(what=what)
            await peer.fence()
    if isinstance(peer, HttpConnection):
        await _stateless_beside_session(server, peer)


async def _stateless_beside_session(server: ServerUnderTest, peer: HttpConnection) -> None:
    """Require that a request without capabilities is not served with those of a legacy session that it names."""
    what = "a request without clientCapabilities, with the id of a legacy session"
    incomplete: JsonObject = {key: each for key, each in peer.meta().items() if key != CLIENT_CAPABILITIES}
    discover: JsonObject = {**peer.message("server/discover"), "params": {"_meta": incomplete}}
    answer: HttpResponse | None = None
    # Most servers serve one era only.
    with suppress(Deviation):
        async with session(server, revision=_LEGACY) as legacy:
            if legacy.session_id is not None:
                headers = [*peer.headers(discover), ("Mcp-Session-Id", legacy.session_id)]
                answer = await peer.look(headers=headers, body=encoded(discover), deviant=what)
    if answer is not None and succeeded(answer):
        raise Deviation(f"an error for {what}", shown(answer))


@check(
    "jsonrpc.stateless-capabilities",
    proves=("jsonrpc.stateless-capability-not-remembered",),
    subject=CheckScope.RECOVERING,
)
async def stateless_capabilities(server: ServerUnderTest) -> None:
    """A capability that one request declares is not valid for the next one."""
    name, arguments = server.tool("test_missing_capability")
    params: JsonObject = {"name": name, "arguments": arguments}
    first = await server.peer.request("tools/call", params)
    if first.is_error:
        raise Deviation("no error for a client with all capabilities", str(first))
    bare: JsonObject = {**params, "_meta": {CLIENT_CAPABILITIES: {}}}
    answer = await server.peer.request("tools/call", bare)
    if not answer.is_error:
        raise Deviation("an error for a request without capabilities, whatever the one before declared", str(answer))


@check(
    "jsonrpc.stateless-connections",
    proves=("jsonrpc.stateless-no-connection-affinity",),
    subject=CheckScope.PROCESS,
    transports=(Transport.HTTP,),
)
async def stateless_connections(server: ServerUnderTest) -> None:
    """A request of one connection can be retried over another one."""
    name, arguments = server.tool("test_input_required_result_elicitation")
    params: JsonObject = {"name": name, "arguments": arguments}
    async with server.open() as first:
        required = await first.request("tools/call", params)
    if not isinstance(required.result().get("inputRequests"), dict):
        raise Deviation("inputRequests in the result", str(required))
    async with server.open() as second:
        answer = await second.request("tools/call", retried(params, required))
    if answer.member("resultType", str) != "complete":
        raise Deviation("the result over another connection", str(answer))


@check(
    "jsonrpc.unknown-members",
    proves=("jsonrpc.result-any-object", "schema.result-open"),
    revisions=("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"),
    subject=CheckScope.RECOVERING,
)
async def unknown_members(server: ServerUnderTest) -> None:
    """A result of the client may have members that the server does not know."""
    sampled: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "Yes."}, "model": "suite"}
    name, arguments = server.tool("test_sampling", {"prompt": "Say yes."})
    server.peer.replies["sampling/createMessage"] = lambda _: sampled
    call: JsonObject = {"name": name, "arguments": arguments}
    control = await server.peer.request("tools/call", call)
    if control.is_error or control.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {control}")
    server.peer.replies["sampling/createMessage"] = lambda _: {**sampled, "conformanceUnknown": {"deep": [1]}}
    answer = await server.peer.request("tools/call", call)
    if answer.is_error or answer.result().get("isError") is True:
        raise Deviation("the unknown member to be ignored", str(answer))
