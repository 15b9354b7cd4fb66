"""HTTP clients: concurrent clients, disconnects, the address of the server, and authentication."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    control,
    http_peer,
    last_event,
    probe,
    require,
    require_local,
    session_messages,
    shown,
    succeeded,
    with_credentials,
    without,
)
from mcp_conformance.checks.probes.interactive_calls import REPLIES
from mcp_conformance.checks.probes.message_pairs import key_of
from mcp_conformance.checks.probes.waiting_call import calls_in_progress
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.http_client import IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_SUCCESSES: Final = frozenset(range(200, 300))
_SAME: Final = "conformance-same"
"""The id that requests of several clients have."""
_WAIT: Final = "conformance_wait"
_SAMPLING: Final = "sampling/createMessage"
_SPLIT: Final = "\u65e5"
"""A character of three bytes in UTF-8."""


@check("http.same-ids", proves=("http.multiple-clients",))
async def same_ids(server: ServerUnderTest) -> None:
    """Concurrent requests with the same id on several connections each get their own response."""
    peer = http_peer(server)
    methods = [
        "server/discover",
        *(f"{each}/list" for each in ("tools", "resources", "prompts") if server.inventory.has(each)),
    ]
    members = {"server/discover": "supportedVersions"}
    wrong: list[str] = []

    for method in methods:
        try:
            (await peer.request(method)).result()
        except Deviation as deviation:
            raise NotTestable(f"the control request failed: {deviation}") from deviation

    async def ask(method: str) -> None:
        request = peer.message(method, id=_SAME)
        answer = await peer.exchange(request)
        if members.get(method, method.partition("/")[0]) not in answer.result():
            wrong.append(f"{method} answered with {answer}")

    async with open_nursery() as nursery:
        for method in methods * 3:
            nursery.start_soon(ask, method)
    if wrong:
        raise Deviation("a separate response for each request", wrong[0])
    if server.inventory.find("tools", server.manifest.find("tools", _WAIT).name) is not None:
        await _call_apart(server, peer)


@check(
    "session.same-ids",
    proves=("jsonrpc.result-response-id", "http.request-response-type"),
    transports=(Transport.HTTP, Transport.HTTP_SSE),
)
async def same_ids_of_sessions(server: ServerUnderTest) -> None:
    """While calls run in two sessions, ids have no effect in the other one: of requests, cancellations and responses."""
    with suppress(NotTestable):  # a server without this tool may have the other one
        await _respond_apart(server, server.peer)
    await _call_apart(server, server.peer)


async def _respond_apart(server: ServerUnderTest, peer: SuiteConnection) -> None:
    """Run a call of each of two clients that waits for a response of its own client, and require that both get their results.

    Raises:
        NotTestable: The server lacks the tool, or a call with the response of the suite fails.
    """
    name, arguments = server.tool("test_sampling", {"prompt": "Say yes."})
    call: JsonObject = {"name": name, "arguments": arguments}
    sampled = REPLIES[_SAMPLING]({})
    peer.replies[_SAMPLING] = REPLIES[_SAMPLING]
    control = await peer.request("tools/call", call)
    if control.is_error or control.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {control}")
    async with server.open() as other, open_nursery() as nursery:
        clients = (peer, other)
        marks = [len(each.inbox) for each in clients]
        answers: dict[SuiteConnection, JsonRpcResponse] = {}

        async def run(each: SuiteConnection) -> None:
            answers[each] = await each.request("tools/call", call)

        def requested(number: int) -> list[JsonValue]:
            inbox = clients[number].inbox[marks[number] :]
            return [each.get("id") for each in inbox if each.get("method") == _SAMPLING]

        def waits(number: int) -> bool:
            return bool(requested(number))

        for number, each in enumerate(clients):
            each.unanswered.add(_SAMPLING)
            nursery.start_soon(run, each)
            await each.until(partial(waits, number), _SAMPLING)
        first, second = requested(0)[0], requested(1)[0]
        if key_of(first) != key_of(second):
            foreign: JsonObject = {
                "jsonrpc": "2.0",
                "id": first,
                "error": {"code": -1, "message": "not of this client"},
            }
            await other.post(foreign, deviant="a response to a request that another client got")
            await other.fence()
        for each, id in ((peer, first), (other, second)):
            await each.post({"jsonrpc": "2.0", "id": id, "result": sampled})
    for each in clients:
        if answers[each].is_error or answers[each].result().get("isError") is True:
            raise Deviation("the result of a call whose own client has responded", str(answers[each]))


async def _call_apart(server: ServerUnderTest, peer: SuiteConnection) -> None:
    """Run a call while another client uses its id, and require that both get their results.

    Raises:
        NotTestable: The server lacks a fixture, or reports no progress, so that it is unknown when the call runs.
    """
    name, _ = server.tool(_WAIT)
    release, _ = server.tool("conformance_release")
    key = f"apart-{server.revision}-{server.transport.value}"
    params: JsonObject = {"name": name, "arguments": {"key": key}, "_meta": {"progressToken": key}}
    call = peer.message("tools/call", params, id=_SAME)

    async def run() -> None:
        (await peer.exchange(call)).result()

    async with server.open() as other, calls_in_progress(peer, {key: run}, name):
        try:
            (await other.exchange({**probe(other), "id": _SAME})).result()
            if other.transport is Transport.HTTP_SSE or (isinstance(other, HttpConnection) and other.session_id):
                # Its own request has a response: the client may not know it yet.
                await other.notify("notifications/cancelled", {"requestId": _SAME, "reason": "a late cancellation"})
                await other.fence()
        finally:
            await other.request("tools/call", {"name": release, "arguments": {"key": key}})


@check(
    "http.slow-client",
    proves=("http.multiple-clients", "sse.disconnect-any-time"),
)
async def slow_client(server: ServerUnderTest) -> None:
    """While one client has sent half of a request, and after it disconnects, others are served."""
    peer = http_peer(server)
    request = await control(peer)
    body = encoded(request)
    lines = [("Host", peer.endpoint.authority), *peer.headers(request), ("Content-Length", str(len(body)))]
    head = f"POST {peer.endpoint.target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines)
    for portion in (
        head.encode("latin-1"),
        f"{head}\r\n".encode("latin-1"),
        f"{head}\r\n".encode("latin-1") + body[:20],
    ):
        try:
            stream = await peer.endpoint.connect()
        except IncompleteResponse as ended:
            raise Deviation("a connection", str(ended)) from ended
        try:
            await stream.send_all(portion)
            peer.transcript.note(f"another connection sent {len(portion)} bytes of a request, and waits")
            await _served(peer, "while another client waits")
        finally:
            await trio.aclose_forcefully(stream)
        await _served(peer, "after another client has disconnected")


@check("http.split-character", proves=("jsonrpc.utf8",), transports=(Transport.HTTP,))
async def split_character(server: ServerUnderTest) -> None:
    """A request whose body arrives in two portions, the first of which ends within a character, is answered with its id."""
    peer = http_peer(server)
    request = {**await control(peer), "id": f"in portions: {_SPLIT}"}
    body = encoded(request)

    async def meanwhile() -> None:
        # A server that reads each portion when it arrives has read the first one after this.
        await _served(peer, "while another client waits")

    pause = body.index(_SPLIT.encode()) + 1, meanwhile
    try:
        async with (
            peer.within("a response to a request in two portions", times=2),
            peer.endpoint.exchange(peer.transcript, "POST", peer.headers(request), body, pause=pause) as exchange,
        ):
            answer = await exchange.answer()
    except IncompleteResponse as ended:
        raise Deviation("an HTTP response", str(ended)) from ended
    if [each.get("id") for each in messages_of(answer)] != [request["id"]] or not succeeded(answer):
        raise Deviation(f"a result with the id {brief(request['id'])}", shown(answer))


@check(
    "http.chunked-body",
    proves=("http.single-endpoint", "http.single-endpoint-post"),
    transports=(Transport.HTTP,),
)
async def chunked_body(server: ServerUnderTest) -> None:
    """A request whose body comes in chunks is answered. A server may demand its length instead, with status 411."""
    peer = http_peer(server)
    request = await control(peer)
    try:
        async with (
            peer.within("a response to a request in chunks"),
            peer.endpoint.exchange(
                peer.transcript, "POST", peer.headers(request), encoded(request), chunked=True
            ) as exchange,
        ):
            answer = await exchange.answer()
    except IncompleteResponse as ended:
        raise Deviation("an HTTP response", str(ended)) from ended
    if answer.status != HTTPStatus.LENGTH_REQUIRED:
        require(answer, _SUCCESSES, "a request whose body comes in chunks")


async def _served(peer: HttpConnection, when: str) -> None:
    request = probe(peer)
    answer = await peer.look(headers=peer.headers(request), body=encoded(request))
    require(answer, _SUCCESSES, f"a request {when}")


# --- address and authentication
# -----------------------------------------------------------------------------------------


@check("http.bind-localhost", proves=("http.bind-localhost",))
async def bind_localhost(server: ServerUnderTest) -> None:
    """A server with a loopback name cannot be reached at an address of the network."""
    await require_local(http_peer(server).endpoint)


@check("http.authentication", proves=("http.authentication", "security.verify-all-requests"))
async def authentication(server: ServerUnderTest) -> None:
    """A request without credentials is rejected with 401 or 403."""
    peer = http_peer(server)
    request = await with_credentials(peer)
    if peer.revision.era is Era.LEGACY:
        request = peer.message(
            "initialize",
            {"protocolVersion": peer.revision.name, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
        )
    own = {name for name, _ in peer.settings.headers}
    headers = without(peer.headers(request), *own, "Mcp-Session-Id")
    answer = await peer.look(headers=headers, body=encoded(request), deviant="no credentials")
    require(answer, {401, 403}, "a request without credentials")


@check(
    "http.session-no-credentials",
    proves=("security.no-session-authentication", "security.verify-all-requests", "http.authentication"),
)
async def session_no_credentials(server: ServerUnderTest) -> None:
    """A session id does not replace credentials: a POST, a GET and a DELETE without them are rejected."""
    peer = http_peer(server)
    request = await with_credentials(peer)
    if peer.session_id is None:
        raise NotApplicable("the server has no sessions")
    own = {name for name, _ in peer.settings.headers}
    for name, message in session_messages(request):
        answer = await peer.look(
            headers=without(peer.headers(message), *own), body=encoded(message), deviant="no credentials"
        )
        require(answer, {401, 403}, f"{name} with a session id and without credentials")
    last = await last_event(server, peer)
    for method, lines in (("GET", []), ("GET", last), ("DELETE", [])):
        headers = [ACCEPT_STREAM, *without(peer.session_headers(), *own), *lines]
        answer = await peer.look(method, headers=headers, deviant="no credentials")
        # A server without this method, or that hides the session, may say so before it asks for credentials.
        what = f"{method} with a session id{' and Last-Event-ID' if lines else ''} and without credentials"
        require(answer, {401, 403, 404, 405}, what)
