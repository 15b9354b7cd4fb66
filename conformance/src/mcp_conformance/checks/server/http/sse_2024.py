"""The HTTP+SSE transport of 2024-11-05: a stream of the server's messages, and an endpoint for POST requests.

Spec: basic/transports#http-with-sse (2024-11-05)
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.http_requests import (
    EVIL,
    SEPARATORS,
    lookalike_origins,
    require_credentials,
    require_local,
    session_messages,
)
from mcp_conformance.checks.probes.interactive_calls import REPLIES
from mcp_conformance.checks.probes.message_pairs import event_data
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.drivers.server.sse_connection import EVENT, SseConnection
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_CLIENT_ERRORS: Final = range(400, 500)
_FOREIGN: Final = (("Origin", f"https://{EVIL}"),)
_NO_URI: Final = re.compile(rb'[\x00- "<>{}\x7f]')
"""Characters that no URI has (RFC 3986, appendix A)."""
_PAGE: Final = "a request of a foreign page"


def _peer(server: ServerUnderTest) -> SseConnection:
    if not isinstance(server.peer, SseConnection):
        raise AssertionError("this check runs over HTTP+SSE")  # noqa: TRY004  an error of the suite
    return server.peer


def _ping(peer: SseConnection) -> JsonObject:
    return peer.message("ping")


@check("http-sse.stream", proves=("http-sse.two-endpoints",))
async def stream(server: ServerUnderTest) -> None:
    """A GET of one endpoint returns an event stream, and a POST to the other one is accepted."""
    peer = _peer(server)
    if (peer.status, peer.media_type) != (200, "text/event-stream"):
        raise Deviation("HTTP 200 with text/event-stream", f"HTTP {peer.status} with {peer.media_type}")
    posted = await peer.send(encoded(_ping(peer)))
    if not 200 <= posted.status < 300:
        raise Deviation("an accepted POST", f"HTTP {posted.status}")


@check("http-sse.endpoint-event", proves=("http-sse.endpoint-event",))
async def endpoint_event(server: ServerUnderTest) -> None:
    """The stream begins with an `endpoint` event whose data is the URI for POST requests."""
    peer = _peer(server)
    await peer.opened()
    first = peer.events[0]
    if first.event != "endpoint" or not first.data:
        raise Deviation("a first event `endpoint` with a URI", repr(first))
    if _NO_URI.search(first.data) is not None:
        raise Deviation("a URI as the data of the event `endpoint`", repr(first))
    others = [event for event in peer.events[1:] if event.event == "endpoint"]
    if others:
        raise Deviation("one `endpoint` event", f"{len(others) + 1} of them")


@check("http-sse.message-events", proves=("http-sse.message-events",), subject=CheckScope.EVIDENCE)
async def message_events(server: ServerUnderTest) -> None:
    """Every message of the server is a `message` event, whose data is the JSON of one message."""
    for transcript in server.evidence:
        for entry in transcript:
            named = entry.text.removeprefix(EVENT)
            if entry.kind is Kind.NOTE and named != entry.text and not named.startswith("endpoint:"):
                raise Deviation("events of type `message`", f"an event of type {brief(named)}")
        for entry in event_data(transcript):
            if not isinstance(entry.value, dict):
                raise Deviation("the JSON of one message in the data of an event", repr(entry.raw[:200]))


_GONE: Final = 40
"""The most messages that are sent for a client that has left: some servers notice after a moment, others never."""


@check("http-sse.disconnect", proves=("http-sse.multiple-clients",), subject=CheckScope.CONNECTION)
async def disconnect(server: ServerUnderTest) -> None:
    """When a client disconnects, those that connected before and after it still get their messages, of all kinds."""
    peer = _peer(server)
    async with server.share(client="gone") as gone:
        await gone.fence()
    async with server.open() as later:
        before = {each: await _methods(server, each) for each in (peer, later)}
        # The shared connections are free now, and end.
        await server.connections.close()
        known = {each: len(each.strays) for each in (peer, later)}
        with suppress(Deviation):
            for _ in range(_GONE):
                await gone.post(_ping(peer))
        for each, when in ((peer, "before"), (later, "after")):
            whose = f"for a client that connected {when} one that has disconnected"
            try:
                after = await _methods(server, each)
            except Deviation as deviation:
                raise Deviation(f"{deviation.expected}, {whose}", deviation.observed) from deviation
            if lacking := before[each] - after:
                raise Deviation(f"{', '.join(sorted(lacking))} {whose}", "no such message")
            if strays := each.strays[known[each] :]:
                raise Deviation("no response for a client that has disconnected", brief(strays[0]))


async def _methods(server: ServerUnderTest, peer: SuiteConnection) -> set[str]:
    """Call tools that send messages, and return the methods of those messages that arrive.

    Raises:
        Deviation: A call has no response.
    """
    peer.replies.update(REPLIES)
    known = len(peer.inbox)
    (await peer.request("ping")).result()
    async with open_nursery() as nursery:
        for _, _, fixture, arguments, _ in _CALLS:
            with suppress(NotTestable):
                name, given = server.tool(fixture, arguments)
                token = f"disconnect {fixture} {known} {SEPARATORS}"
                params: JsonObject = {"name": name, "arguments": given, "_meta": {"progressToken": token}}
                nursery.start_soon(peer.request, "tools/call", params)
    await peer.fence()
    # A list may change at any time, by another client: its notification says nothing about the calls.
    return {method for *_, method in _CALLS} & {str(each.get("method")) for each in peer.inbox[known:]}


@check("http-sse.answers-apart", proves=("http-sse.multiple-clients",), subject=CheckScope.CONNECTION)
async def answers_apart(server: ServerUnderTest) -> None:
    """Of two clients that use the same request ids, also at once, each gets only its responses, on its own stream."""
    peer = _peer(server)
    async with server.open() as other:
        for id in ("conformance-1", "conformance-2"):
            (await peer.exchange({**_ping(peer), "id": id})).result()
            (await other.exchange({**_ping(peer), "id": f"other-{id}"})).result()
            (await other.exchange({**_ping(peer), "id": id})).result()
        with suppress(NotTestable):
            await _wait_at_once(server, peer, other)
        await peer.fence()
        await other.fence()
        for each in (peer, other):
            if each.strays:
                raise Deviation("no response for another client", brief(each.strays[0]))


def _names(peer: SuiteConnection, text: str) -> bool:
    """Return whether a connection received a message with a text."""
    return any(text in brief(each) for each in peer.inbox)


async def _wait_at_once(server: ServerUnderTest, *peers: SuiteConnection) -> None:
    """Call a tool that waits on each connection, with the same id, and release the calls.

    Raises:
        NotTestable: The server does not have the tools.
        Deviation: A call has no response on its own connection.
    """
    wait, release = server.tool("conformance_wait")[0], server.tool("conformance_release")[0]
    keys = [f"apart-{number}-{peers[0].next_id()}" for number in range(len(peers))]

    failures: list[Deviation] = []

    async def call(peer: SuiteConnection, key: str) -> None:
        params: JsonObject = {"name": wait, "arguments": {"key": key}, "_meta": {"progressToken": key}}
        try:
            await peer.exchange(peer.message("tools/call", params, id="conformance-at-once"))
        except Deviation as deviation:
            failures.append(deviation)

    async with open_nursery() as nursery:
        for peer, key in zip(peers, keys, strict=True):
            nursery.start_soon(call, peer, key)
            try:
                # Progress shows that the call has begun.
                await peer.until(partial(_names, peer, key), "progress")
            except Deviation as deviation:
                raise NotTestable(f"the control condition failed: {wait} reports no progress") from deviation
        for key in keys:
            await peers[0].request("tools/call", {"name": release, "arguments": {"key": key}})
    if failures:
        raise failures[0]


_CALLS: Final[tuple[tuple[str, str, str, JsonObject, str], ...]] = (
    ("progress", "the progress", "test_tool_with_progress", {}, "notifications/progress"),
    ("logs", "the log messages", "test_logging_tool", {}, "notifications/message"),
    ("requests", "the client requests", "test_sampling", {"prompt": "Say yes."}, "sampling/createMessage"),
)
"""The name of the check, what it tests, a tool and its arguments, and the method of the messages that the tool sends."""


def _apart(fixture: str, arguments: JsonObject, method: str) -> Callable[[ServerUnderTest], Awaitable[None]]:
    async def run(server: ServerUnderTest) -> None:
        peer = _peer(server)
        name, given = server.tool(fixture, arguments)
        silent: list[SuiteConnection] = []
        # A server may take the oldest or the latest client for the caller. These two are then the only ones of the suite.
        await server.connections.close()
        async with server.open() as other:
            for each in (peer, other):
                each.replies.update(REPLIES)
                if server.inventory.has("logging"):
                    await each.request("logging/setLevel", {"level": "debug"})
            for caller, bystander in ((peer, other), (other, peer)):
                known, foreign = len(caller.inbox), len(bystander.inbox)
                # The call of a server that asks another client has no response.
                with suppress(Deviation):
                    await caller.request(
                        "tools/call", {"name": name, "arguments": given, "_meta": {"progressToken": "apart"}}
                    )
                await caller.fence()
                await bystander.fence()
                for message in bystander.inbox[foreign:]:
                    if message.get("method") == method:
                        raise Deviation(f"no {method} for a call of another client", brief(message))
                if not any(each.get("method") == method for each in caller.inbox[known:]):
                    silent.append(caller)
        if len(silent) == 2:
            raise NotTestable(f"the control request failed: {fixture} sends no {method}")
        if silent:
            raise Deviation(f"{method} for the call of each client on its own stream", "none for one of two clients")

    return run


for _name, _what, _fixture, _arguments, _method in _CALLS:
    SERVER_CHECKS.add(
        f"http-sse.{_name}-apart",
        _apart(_fixture, _arguments, _method),
        title=f"Of two clients, only the one that calls a tool gets {_what} of the call, on its own stream.",
        proves=("http-sse.multiple-clients",),
        needs=("capability:tools",),
        subject=CheckScope.CONNECTION,
    )


@check("http-sse.origin-stream", proves=("http-sse.origin-validate",))
async def origin_stream(server: ServerUnderTest) -> None:
    """A GET of the stream with the Origin of a foreign site is rejected, also with the Host of that site."""
    peer = _peer(server)
    own = [*peer.settings.headers, ("Accept", "text/event-stream")]
    for headers, host in _of_pages(peer):
        async with peer.endpoint.exchange(
            peer.transcript, "GET", [*own, *headers], host=host, deviant=_PAGE
        ) as exchange:
            if exchange.status not in _CLIENT_ERRORS:
                at = "" if host is None else f" at the Host {host}"
                raise Deviation(f"HTTP 4xx for a foreign Origin{at}", f"HTTP {exchange.status}")


def _of_pages(peer: SseConnection) -> tuple[tuple[tuple[tuple[str, str], ...], str | None], ...]:
    """Return the headers and the Host of a foreign page, and of one whose host name has the address of the server."""
    at = f"{EVIL}:{peer.endpoint.port}"
    return (_FOREIGN, None), ((("Origin", f"http://{at}"),), at)


@check("http-sse.origin-post", proves=("http-sse.origin-validate",))
async def origin_post(server: ServerUnderTest) -> None:
    """A POST of any message with the Origin of a foreign site is rejected, also with the Host of that site."""
    peer = _peer(server)
    if not 200 <= (await peer.send(encoded(_ping(peer)))).status < 300:
        raise NotTestable("the control request failed: a POST is rejected")
    for headers, host in _of_pages(peer):
        for name, message in session_messages(_ping(peer)):
            answer = await peer.send(encoded(message), headers=headers, host=host, deviant=_PAGE)
            if answer.status not in _CLIENT_ERRORS:
                raise Deviation(f"HTTP 4xx for {name} with a foreign Origin", f"HTTP {answer.status}")
    for origin in lookalike_origins(peer.endpoint):
        answer = await peer.send(encoded(_ping(peer)), headers=(("Origin", origin),), deviant=_PAGE)
        if answer.status not in _CLIENT_ERRORS:
            raise Deviation(f"HTTP 4xx for the Origin {origin}", f"HTTP {answer.status}")


@check("http-sse.bind-localhost", proves=("http-sse.bind-localhost",))
async def bind_localhost(server: ServerUnderTest) -> None:
    """A server with a loopback name cannot be reached at an address of the network."""
    await require_local(_peer(server).endpoint)


@check("http-sse.authentication", proves=("http-sse.authentication",))
async def authentication(server: ServerUnderTest) -> None:
    """A GET of the stream without credentials is rejected with 401 or 403."""
    peer = _peer(server)
    require_credentials(peer.settings)
    headers = [("Accept", "text/event-stream")]
    async with peer.endpoint.exchange(peer.transcript, "GET", headers, deviant="no credentials") as exchange:
        if exchange.status not in (401, 403):
            raise Deviation("HTTP 401 or 403 without credentials", f"HTTP {exchange.status}")


@check(
    "http-sse.beside",
    proves=("http-sse.compat-server-both",),
    transports=(Transport.HTTP,),
    subject=CheckScope.PROCESS,
)
async def beside(server: ServerUnderTest) -> None:
    """A server that also supports clients of 2024-11-05 offers the two endpoints for them."""
    if not isinstance(server.target, UrlTarget) or server.target.sse is None:
        raise NotApplicable("no HTTP+SSE endpoint of the server is configured")
    async with server.target.open(REVISIONS["2024-11-05"], Transport.HTTP_SSE) as peer:
        await peer.fence()
