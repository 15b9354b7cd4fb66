"""Event streams of the revisions with sessions: their content and their end."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    SEPARATORS,
    RecordedStream,
    http_peer,
    probe,
    progress_call,
    read_stream,
    require,
    session,
)
from mcp_conformance.checks.probes.interactive_calls import REPLIES
from mcp_conformance.checks.probes.message_pairs import event_data, key_of, objects
from mcp_conformance.checks.probes.repetition import each_time
from mcp_conformance.checks.probes.standalone_stream import notified_events
from mcp_conformance.checks.probes.waiting_call import waiting_call
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_CLIENT_REQUESTS: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "sampling/createMessage": ("test_sampling", {"prompt": "Say yes."}),
    "roots/list": ("test_input_required_result_list_roots", {}),
}
"""By client request, a tool that sends it, and its arguments."""
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_SIDE: Final = "of the client"
_CALLS: Final = 4
"""The most calls until the id of the server's next request is one that the client has not used."""
_LARGE: Final = 80_000
"""The size of a large message in bytes: more than 64 KiB, and less than the 100 kB to which some servers limit requests."""
_CHANGES_AFTERWARDS: Final = 100
"""The most changes until one is notified on a new stream."""
_PAUSE: Final = 0.03
"""The time between two of them in seconds. A server that notifies does so after one or two."""
_CHANGES: Final = {
    "notifications/tools/list_changed": 2,
    "notifications/prompts/list_changed": 2,
    "notifications/resources/list_changed": 2,
    "notifications/resources/updated": 1,
}
"""How many notifications a call causes at most: those of lists change them and change them back."""


def _is_response(message: JsonObject, request: JsonObject) -> bool:
    return "method" not in message and encoded(message.get("id")) == encoded(request["id"])


@check("sse.priming", proves=("sse.priming-event",), needs=_NEEDS)
async def priming(server: ServerUnderTest) -> None:
    """The stream for a request begins with an event that has an id and no data."""
    peer = http_peer(server)
    stream = await read_stream(peer, progress_call(server, peer, "priming"))
    first = stream.events[0] if stream.events else None
    if first is None or not first.id or first.data:
        raise Deviation("a first event with an id and without data", "no event" if first is None else repr(first))


@check("sse.response", proves=("sse.response-eventually",), needs=_NEEDS)
async def response(server: ServerUnderTest) -> None:
    """The stream for a request contains the response, if necessary after a resumption."""
    peer = http_peer(server)
    request = progress_call(server, peer, "response")
    stream = await read_stream(peer, request)
    messages = list(stream.messages)
    if stream.ids and not any(_is_response(each, request) for each in messages):
        # The server may have closed the connection before the response.
        messages += (await read_stream(peer, None, last_event_id=stream.ids[-1])).messages
    if not any(_is_response(each, request) for each in messages):
        raise Deviation("the response in the stream", f"{len(messages)} messages without the response")


@check("sse.ids-of-each-side", proves=("sse.response-eventually",), needs=_NEEDS)
async def ids_of_each_side(server: ServerUnderTest) -> None:
    """A call gets its response if its id is that of the request which the server sends during the call."""
    name, arguments = server.tool("test_sampling", {"prompt": "Say yes."})
    params: JsonObject = {"name": name, "arguments": arguments}
    # Some servers send their requests on the standalone stream.
    async with server.open() as peer:
        peer.replies.update(REPLIES)
        used = {key_of(each.get("id")) for each in peer.transcript.messages(sent=True) if isinstance(each, dict)}
        id: int | None = None
        for number in range(_CALLS):
            try:
                (await peer.request("tools/call", params, id=f"{_SIDE} {number}")).result()
            except Deviation as deviation:
                raise NotTestable(f"the control request failed: {deviation}") from deviation
            last = _sampling_ids(peer)[-1:]
            if not last or type(last[0]) is not int:
                break
            if key_of(last[0] + 1) not in used:
                id = last[0] + 1
                break
        if id is None:
            raise NotApplicable("the server sends no client request, or one whose id is not an integer")
        failure: Deviation | None = None
        try:
            (await peer.request("tools/call", params, id=id)).result()
        except Deviation as deviation:
            failure = deviation
        if id not in _sampling_ids(peer):
            raise NotApplicable(f"the server's request has another id than {id}, the next integer")
        if failure is not None:
            raise Deviation(f"{failure.expected}, whose id {id} the server's own request has, too", failure.observed)


def _sampling_ids(peer: SuiteConnection) -> list[JsonValue]:
    """Return the ids of the sampling requests that a connection has received."""
    return [each.get("id") for each in peer.inbox if each.get("method") == "sampling/createMessage"]


@check("sse.unbroken", proves=("sse.not-close-before-response",), needs=_NEEDS)
async def unbroken(server: ServerUnderTest) -> None:
    """The stream for a request does not end before the response."""
    peer = http_peer(server)
    request = progress_call(server, peer, "unbroken")
    stream = await read_stream(peer, request)
    if stream.ended and not any(_is_response(each, request) for each in stream.messages):
        raise Deviation(
            "the response before the end of the stream", f"{len(stream.messages)} messages, and the end of the stream"
        )


@check("sse.end", proves=("sse.end-after-response", "http.sse-final-response-ends-stream"), needs=_NEEDS)
async def end(server: ServerUnderTest) -> None:
    """The stream for a request ends after the response, be it a result or an error."""
    peer = http_peer(server)
    # A server may respond with JSON to one of them.
    with suppress(NotApplicable):
        await _require_end(peer, peer.message("conformance/does-not-exist"), deviant="an unknown method")
    # Its token lets `sse.data` see streams that are also split at the line separators of Unicode.
    await _require_end(peer, progress_call(server, peer, f"end {SEPARATORS}"))


async def _require_end(peer: HttpConnection, request: JsonObject, *, deviant: str = "") -> None:
    """Require that the stream for a request ends after the response.

    Raises:
        Deviation: It goes on.
        NotApplicable: The response is not a stream.
    """
    stream = await read_stream(peer, request, deviant=deviant)
    messages = stream.messages
    at = next((number for number, each in enumerate(messages) if _is_response(each, request)), None)
    if at is None:
        # Other checks require a response.
        return
    if at + 1 < len(messages):
        raise Deviation("the end of the stream after the response", brief(messages[at + 1]))
    if not stream.ended:
        what = f"the end of the stream after the response to {request['method']}"
        raise Deviation(what, "it stays open, or was cut off")


@check(
    "sse.data",
    proves=("sse.data-is-json-rpc",),
    transports=(Transport.HTTP,),
    subject=CheckScope.EVIDENCE,
)
async def data(server: ServerUnderTest) -> None:
    """The data of every event of every stream is the JSON of one JSON-RPC message."""
    known = False
    for entry in (entry for transcript in server.evidence for entry in event_data(transcript)):
        known = True
        batch = isinstance(entry.value, list) and bool(entry.value) and server.revision.batching
        if not isinstance(entry.value, dict) and not batch:
            raise Deviation("the JSON of one message in the data of an event", repr(entry.raw[:200]))
    if not known:
        raise NotApplicable("the server sends no event with data")


@check("sse.no-empty-data", proves=("sse.data-is-json-rpc",), needs=_NEEDS, revisions=("2025-03-26", "2025-06-18"))
async def no_empty_data(server: ServerUnderTest) -> None:
    """The stream for a request has no event with empty data, as streams of 2025-11-25 have at their beginning."""
    peer = http_peer(server)
    request = progress_call(server, peer, "empty")
    answer = await peer.send(encoded(request), headers=peer.headers(request))
    if answer.media_type != "text/event-stream":
        raise NotApplicable(f"POST returns HTTP {answer.status} without a stream")
    for event in _EVENT_END.split(answer.body):
        fields = [line.partition(b":") for line in event.splitlines()]
        # Clients ignore events of other types, and those without a field for data.
        is_message = all(value.strip() == b"message" for name, _, value in fields if name == b"event")
        data = [value.removeprefix(b" ") for name, _, value in fields if name == b"data"]
        if is_message and data and not b"".join(data):
            raise Deviation("the JSON of one message in the data of an event", f"an event with empty data: {event!r}")


@check("sse.large-event", proves=("sse.data-is-json-rpc",), needs=_NEEDS)
async def large_event(server: ServerUnderTest) -> None:
    """A message of more than 64 KiB on the stream for a request is the data of one event."""
    peer = http_peer(server)
    token = "x" * _LARGE
    stream = await read_stream(peer, progress_call(server, peer, token))
    for event in stream.events:
        if event.data and not RecordedStream(headers=(), events=(event,), ended=True).messages:
            raise Deviation("the JSON of one message in the data of an event", repr(event.data[:200]))
    if not any(_token(each) == token for each in stream.messages):
        raise NotTestable("the stream has no message with the large progress token")


@check(
    "sse.related",
    proves=("sse.related-messages", "http.sse-notifications-related", "progress.on-request-stream"),
    needs=_NEEDS,
)
async def related(server: ServerUnderTest) -> None:
    """With concurrent requests the stream of each contains only its own notifications, also if an id is 0, or a string."""
    if server.revision.era is Era.MODERN:
        # There an id can be used again, and what this connection received is evidence for other checks.
        await _require_related(server, http_peer(server))
        return
    async with session(server) as peer:
        await _require_related(server, peer)


async def _require_related(server: ServerUnderTest, peer: HttpConnection) -> None:
    """Require that the streams of concurrent requests contain only their own notifications.

    Raises:
        Deviation: One lacks its notifications, or contains others.
    """
    tokens = ("related-one", "related-two", "related-three")
    streams: dict[str, RecordedStream] = {}

    async def call(token: str) -> None:
        with suppress(NotApplicable):
            streams[token] = await read_stream(peer, calls[token])

    calls = {token: progress_call(server, peer, token) for token in tokens}
    # The suite begins with the id 1: no request of a new session has this one.
    calls[tokens[0]]["id"] = 0
    # A server may keep the stream of a request by a number.
    calls[tokens[2]]["id"] = "related"
    async with open_nursery() as nursery:
        for token in tokens:
            nursery.start_soon(call, token)
    if not streams:
        raise NotApplicable("the server responds without a stream")
    for token in tokens:
        messages = streams[token].messages if token in streams else []
        found = [_token(each) for each in messages if each.get("method") == "notifications/progress"]
        if not found:
            raise Deviation(f"the progress of {token} in the stream of its request", "no progress")
        if any(each != token for each in found):
            raise Deviation(f"only the progress of {token} in its stream", brief([*map(str, found)]))


@check("sse.related-requests", proves=("sse.related-messages",), needs=_NEEDS)
async def related_requests(server: ServerUnderTest) -> None:
    """With two concurrent calls the stream of each contains only its own client requests."""
    peer = http_peer(server)
    peer.replies.update(REPLIES)
    calls = {method: server.tool(fixture, arguments) for method, (fixture, arguments) in _CLIENT_REQUESTS.items()}
    before: dict[str, list[JsonValue]] = {}

    async def call(method: str) -> None:
        name, arguments = calls[method]
        try:
            answer = await peer.request("tools/call", {"name": name, "arguments": arguments})
        except Deviation as deviation:
            raise NotTestable(f"the control request failed: {deviation}") from deviation
        before[method] = [each.get("method") for each in answer.before]

    async with open_nursery() as nursery:
        for method in calls:
            nursery.start_soon(call, method)
    for method, found in before.items():
        for other in _CLIENT_REQUESTS.keys() - {method}:
            if other in found:
                raise Deviation(f"{other} on the stream of its own call", f"{other} on the stream of another one")
    for method, found in before.items():
        if method not in found:
            raise NotTestable(f"the control request failed: the stream of the call has no {method}")


@check(
    "sse.own-responses",
    proves=("sse.response-eventually", "jsonrpc.result-id-echo", "jsonrpc.error-id-echo", "sse.get-no-response"),
    transports=(Transport.HTTP,),
    subject=CheckScope.EVIDENCE,
)
async def own_responses(server: ServerUnderTest) -> None:
    """The response to a request is in the HTTP response to its POST, and not in that to another POST or to a GET."""
    for transcript in server.evidence:
        posted: dict[int, set[str]] = defaultdict(set)
        ids: set[str] = set()
        # The response to an invalid message may have any id, or none.
        invalid: set[int] = set()
        standalone: set[int] = set()
        for entry in transcript:
            if entry.exchange is None:
                continue
            if entry.sent and entry.kind is Kind.HEAD and _is_standalone(entry.text):
                standalone.add(entry.exchange)
            if entry.sent and (entry.deviant or entry.kind is Kind.BYTES):
                invalid.add(entry.exchange)
            for each in objects(entry):
                id = key_of(each.get("id"))
                if entry.sent and "method" in each and "id" in each:
                    posted[entry.exchange].add(id)
                    ids.add(id)
                elif entry.sent or "method" in each or id not in ids:
                    continue
                elif entry.exchange in standalone:
                    raise Deviation("no response on a stream by GET", brief(each))
                elif entry.exchange in posted and entry.exchange not in invalid and id not in posted[entry.exchange]:
                    raise Deviation("the response in the HTTP response to its own request", brief(each))


def _is_standalone(head: str) -> bool:
    """Return whether the head of a request is that of a GET that does not resume a stream."""
    lines = head.lower().splitlines()
    return lines[0].startswith("get ") and not any(line.startswith("last-event-id:") for line in lines)


def _token(message: JsonObject) -> object:
    params = message.get("params")
    return params.get("progressToken") if isinstance(params, dict) else None


# --- standalone streams
# -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _standalone_streams(peer: HttpConnection, count: int) -> AsyncIterator[list[list[JsonObject]]]:
    """Open streams by GET for a block, as many as the server offers. At its end the session is ended, and with it they.

    Raises:
        NotApplicable: The server offers no such stream.
    """
    received: list[list[JsonObject]] = [[] for _ in range(count)]

    async def read(number: int, task_status: trio.TaskStatus[None]) -> None:
        headers = [*peer.settings.headers, ("Accept", "text/event-stream"), *peer.session_headers()]
        async with peer.open_exchange("GET", headers) as exchange:
            is_stream = exchange.status == 200 and exchange.media_type == "text/event-stream"
            if not is_stream and not number:
                raise NotApplicable(f"GET returns HTTP {exchange.status}")
            task_status.started()
            if not is_stream:
                return
            while (event := await exchange.next_event()) is not None:
                value = peer.transcript.message(event.data, sent=False) if event.data else None
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, dict):
                        received[number].append(each)
                        # A server that sends its requests here waits for the responses.
                        await peer.take(each)

    with trio.CancelScope() as scope:
        async with open_nursery() as nursery:
            for number in range(count):
                await nursery.start(read, number)
            yield received
            # The end of the session ends the streams, so that all earlier messages are read.
            await peer.end()
            scope.deadline = trio.current_time() + peer.settings.timeout


@check("sse.get-no-response", proves=("sse.get-no-response", "sse.get-unrelated"), needs=_NEEDS)
async def get_no_response(server: ServerUnderTest) -> None:
    """A stream by GET contains no response, and no notification of an active request."""
    async with session(server) as peer:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        async with _standalone_streams(peer, 1) as received:
            await read_stream(peer, progress_call(server, peer, "not on GET"))
            await peer.fence()
    for message in received[0]:
        if "method" not in message:
            raise Deviation("no response on a stream by GET", brief(message))
        if _token(message) == "not on GET":
            raise Deviation("no progress of an active request on a stream by GET", brief(message))


@check("sse.get-no-requests", proves=("sse.get-unrelated",), needs=_NEEDS)
async def get_no_requests(server: ServerUnderTest) -> None:
    """A stream by GET contains no client request of an active call: that is sent on the stream of the call."""
    name, arguments = server.tool(*_CLIENT_REQUESTS["sampling/createMessage"])
    async with session(server) as peer:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        peer.replies.update(REPLIES)
        async with _standalone_streams(peer, 1) as received:
            try:
                answer = await peer.request("tools/call", {"name": name, "arguments": arguments})
            except Deviation as deviation:
                raise NotTestable(f"the control request failed: {deviation}") from deviation
    requests = [each for each in received[0] if each.get("method") in REPLIES and "id" in each]
    if requests:
        raise Deviation("a client request on the stream of its call", f"on a stream by GET: {brief(requests[0])}")
    if not any(each.get("method") in REPLIES for each in answer.before):
        raise NotTestable(f"the control request failed: the stream of {name} has no client request")


@check("sse.second-stream", proves=("http.get-response", "sse.multiple-streams"))
async def second_stream(server: ServerUnderTest) -> None:
    """While a stream by GET is open, another GET is answered with an event stream too, or with 405."""
    async with session(server) as peer:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
        async with peer.open_exchange("GET", headers) as first:
            if first.status != 200:
                raise NotApplicable(f"GET returns HTTP {first.status}")
            # The number of streams of a client may have a limit, which these statuses show.
            require(await peer.look("GET", headers=headers), {200, 405, 429, 503}, "a GET beside another stream")


@check("sse.no-broadcast", proves=("sse.no-broadcast",), needs=_NEEDS)
async def no_broadcast(server: ServerUnderTest) -> None:
    """A notification or client request is sent on one of the streams of a session, of GET and of its call, not on several."""
    changes = [server.tool("test_trigger_tool_change")]
    for fixture in ("test_trigger_prompt_change", "conformance_change_resources"):
        with suppress(NotTestable):
            changes.append(server.tool(fixture))
    watched = ""
    with suppress(NotTestable):
        if server.inventory.has("resources.subscribe"):
            watched = server.require("resources", "test://watched-resource")
            changes.append(server.tool("conformance_touch_resource", {"uri": watched}))

    async def twice() -> str | None:
        async with session(server) as peer:
            if peer.session_id is None:
                raise NotApplicable("the server has no sessions")
            peer.replies.update(REPLIES)
            async with _standalone_streams(peer, 2) as received:
                if watched:
                    await peer.request("resources/subscribe", {"uri": watched})
                called: list[JsonObject] = []
                for name, arguments in changes:
                    answer = await peer.request("tools/call", {"name": name, "arguments": arguments})
                    answer.result()
                    called += answer.before
                marks = [len(one) for one in received]
                logs = await _sent_by_call(server, peer, "test_tool_with_logging", {})
                sampled = await _sent_by_call(server, peer, *_CLIENT_REQUESTS["sampling/createMessage"])
                await peer.fence()
        for method, most in _CHANGES.items():
            on_get = [sum(1 for each in one if each.get("method") == method) for one in received]
            on_call = sum(1 for each in called if each.get("method") == method)
            if all(on_get):
                return f"{method} was sent on both"
            if on_call and sum(on_get) and on_call + sum(on_get) > most:
                return f"{method} was sent on the stream of the call and on one by GET"
        others = [encoded(each) for one, mark in zip(received, marks, strict=True) for each in one[mark:]]
        for each in logs:
            if "id" not in each and encoded(each) in others:
                return f"{brief(each)} was sent on the stream of its call and on one by GET"
        received += [logs, sampled]
        requests = [key_of(each["id"]) for one in received for each in one if "method" in each and "id" in each]
        twice = [each for one in received for each in one if "id" in each and requests.count(key_of(each["id"])) > 1]
        return f"{brief(twice[0])} was sent on several" if twice else None

    # Another client may have changed the tools at the same time, which causes a second notification.
    if (observed := await each_time(twice)) is not None:
        raise Deviation("a notification or request on one of the streams", observed)


async def _sent_by_call(
    server: ServerUnderTest, peer: HttpConnection, fixture: str, arguments: JsonObject
) -> list[JsonObject]:
    """Return the messages on the stream of a call that sends some; empty without its tool."""
    with suppress(NotTestable):
        name, given = server.tool(fixture, arguments)
        return [*(await peer.request("tools/call", {"name": name, "arguments": given})).before]
    return []


@check("sse.disconnect", proves=("sse.disconnect-any-time",), needs=_NEEDS)
async def disconnect(server: ServerUnderTest) -> None:
    """A client that disconnects from a stream does not disturb others."""
    peer = http_peer(server)
    request = progress_call(server, peer, "gone")
    async with peer.open_exchange("POST", peer.headers(request), encoded(request)):
        peer.transcript.note("the connection is closed before the response is read")
    again = probe(peer)
    answer = await peer.look(headers=peer.headers(again), body=encoded(again))
    require(answer, {200}, "a request after the disconnect of another one")


@check("sse.get-dropped", proves=("sse.disconnect-not-cancel",), needs=_NEEDS)
async def get_dropped(server: ServerUnderTest) -> None:
    """A call during which the client closes its stream by GET gets its response."""
    async with session(server) as peer, AsyncExitStack() as stack:
        headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
        exchange = await stack.enter_async_context(peer.open_exchange("GET", headers))
        if exchange.status != 200 or exchange.media_type != "text/event-stream":
            raise NotApplicable(f"GET returns HTTP {exchange.status}")
        async with waiting_call(attrs.evolve(server, connected=peer)):
            await stack.aclose()
            await peer.fence()


@check("sse.get-closed", proves=("sse.get-close-any-time",))
async def get_closed(server: ServerUnderTest) -> None:
    """A client may close its stream by GET, is served after that, and can open another one, which gets the notifications."""
    async with session(server) as peer:
        headers = [*peer.settings.headers, ("Accept", "text/event-stream"), *peer.session_headers()]
        notified = False
        with suppress(NotTestable):
            notified = any(event.data for event in await notified_events(server, peer))
        first = await peer.look("GET", headers=headers)
        if first.status != 200:
            raise NotApplicable(f"GET returns HTTP {first.status}")
        await peer.fence()
        require(await peer.look("GET", headers=headers), {200}, "another GET after the first stream was closed")
        if notified:
            # A server may notice the end of a stream only when it has sent something on it.
            later = await notified_events(server, peer, most=_CHANGES_AFTERWARDS, pause=_PAUSE)
            if not any(event.data for event in later):
                raise Deviation("notifications on the stream that was opened after others were closed", "none")
