"""Resumption of streams after a disconnect, by GET with Last-Event-ID."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    RecordedStream,
    http_peer,
    progress_call,
    read_stream,
    session,
)
from mcp_conformance.checks.probes.interactive_calls import REPLIES
from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.probes.repetition import each_time
from mcp_conformance.checks.probes.standalone_stream import causing_call, notified_events
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.http_client import IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import strict_json

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.framing.sse import Event
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_UPDATED: Final = "notifications/resources/updated"
_UNKNOWN: Final = "conformance-unknown"
_FENCES: Final = 20
"""The requests during which a resumed stream shows its events: one by GET may stay open."""
_TO_RESUME: Final = 3
"""The requests until the server has read an earlier request to resume a stream."""


async def _streams(
    server: ServerUnderTest, peer: HttpConnection, *tokens: str
) -> list[tuple[JsonObject, RecordedStream]]:
    """Return calls with their streams, one after another. Require event ids."""
    found: list[tuple[JsonObject, RecordedStream]] = []
    for token in tokens:
        request = progress_call(server, peer, token)
        stream = await read_stream(peer, request)
        if not stream.ids:
            raise NotApplicable("the events have no ids")
        found.append((request, stream))
    return found


def _belongs(message: JsonObject, request: JsonObject, token: str) -> bool:
    params = message.get("params")
    if "method" in message:
        return isinstance(params, dict) and params.get("progressToken") == token
    return encoded(message.get("id")) == encoded(request["id"])


def _require_unique(*streams: RecordedStream) -> None:
    """Require that an event id stands for one event: a replayed event has the id and the message of the first time.

    Raises:
        Deviation: A message has the id of another event.
    """
    known: dict[str | None, JsonValue] = {}
    for event in (event for stream in streams for event in stream.events if event.id):
        try:
            message: JsonValue = strict_json(event.data) if event.data else None
        except ValueError:
            # Another check requires JSON.
            continue
        before = known.setdefault(event.id, message)
        # A server may repeat the event without data with which a stream begins.
        if message is not None and message != before:
            raise Deviation(
                "ids that are unique in the session", f"{brief(event.id)} for {brief(before)} and for {brief(message)}"
            )


async def _resumed(peer: HttpConnection, last_event_id: str, *, deviant: str = "") -> list[JsonObject]:
    """Resume a stream, and return its messages until it ends or stays silent; empty if it cannot be resumed."""
    headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers(), ("Last-Event-ID", last_event_id)]
    found: list[JsonObject] = []
    async with peer.open_exchange("GET", headers, deviant=deviant) as exchange, open_nursery() as nursery:
        if exchange.status != 200:
            return []

        async def read() -> None:
            with suppress(IncompleteResponse):
                while (event := await exchange.next_event()) is not None:
                    message = peer.transcript.message(event.data, sent=False) if event.data else None
                    found.extend([message] if isinstance(message, dict) else [])
            nursery.cancel_scope.cancel()

        nursery.start_soon(read)
        with suppress(Deviation):
            for _ in range(_FENCES):
                await peer.fence()
        nursery.cancel_scope.cancel()
    return found


@check("resume.unique", proves=("resume.event-id-unique",), needs=_NEEDS)
async def unique(server: ServerUnderTest) -> None:
    """No two events of a session have the same id, over all streams, of POST and of GET."""
    async with session(server) as peer:
        ids = [each for _, stream in await _streams(server, peer, "one", "two") for each in stream.ids]
        with suppress(NotTestable):
            for _ in range(2):
                ids += [event.id for event in await notified_events(server, peer) if event.id]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise Deviation("ids that are unique in the session", f"{brief(twice[0])} twice")


@check(
    "resume.own-stream",
    proves=(
        "resume.no-cross-stream",
        "resume.event-id-encodes-stream",
        "resume.event-id-per-stream",
        "resume.event-id-unique",
    ),
    needs=_NEEDS,
)
async def own_stream(server: ServerUnderTest) -> None:
    """A resumed stream contains only its own events, not those of another stream, and each event has its own id.

    An unknown event id returns the events of no stream.
    """
    async with session(server) as peer:
        notified: list[Event] = []
        with suppress(NotTestable):
            notified = await notified_events(server, peer)
        calls = await _streams(server, peer, "mine", "other")
        (request, first), (_, other) = calls
        again = await read_stream(peer, None, last_event_id=first.ids[0])
        for message in again.messages:
            if not _belongs(message, request, "mine"):
                raise Deviation("only messages of the resumed stream", brief(message))
        if not again.messages:
            raise NotTestable("no event was replayed")
        _require_unique(first, again, other)
        for id in [event.id for event in notified if event.id][:1]:
            for message in await _resumed(peer, id):
                for (each, _), token in zip(calls, ("mine", "other"), strict=True):
                    if _belongs(message, each, token):
                        raise Deviation("only messages of the resumed stream by GET", brief(message))
        # An id that no event has names no stream. A server may open a new one for it.
        for message in await _resumed(peer, _UNKNOWN, deviant="an event id that no event has"):
            for (each, _), token in zip(calls, ("mine", "other"), strict=True):
                if _belongs(message, each, token):
                    raise Deviation("no event of other streams for an unknown event id", brief(message))


@check("resume.after-the-event", proves=("resume.event-id-per-stream",), needs=_NEEDS)
async def after_the_event(server: ServerUnderTest) -> None:
    """A resumed stream goes on after the event that Last-Event-ID names: it repeats neither this one nor earlier ones."""
    async with session(server) as peer:
        ((_, stream),) = await _streams(server, peer, "position")
        known: list[JsonObject] = []
        for event in stream.events:
            known += _messages_in(event)
            if event.id and len(known) > 1:
                break
        else:
            raise NotTestable("the stream has no second message with an id")
        again = await _resumed(peer, event.id)
        for message in again:
            if message in known:
                raise Deviation("only messages that followed the named event", brief(message))
        if not again:
            raise NotTestable("no event was replayed")


def _messages_in(event: Event) -> list[JsonObject]:
    """Return the message of an event, if it has one."""
    return RecordedStream(headers=(), events=(event,), ended=True).messages


@check("resume.again", proves=("sse.response-eventually",), needs=_NEEDS)
async def again(server: ServerUnderTest) -> None:
    """A stream that is resumed, lost and resumed again during its call contains the response, as after one resumption.

    So does the resumed stream of a request to read a resource.
    """
    async with session(server) as peer:
        # Its events must have ids.
        await _streams(server, peer, "again")

        async def lost(times: int) -> str | None:
            return None if await _has_response(server, peer, times) else "no response"

        # A server may need a moment to notice that a client has left.
        if await each_time(partial(lost, 1)) is not None:
            raise NotApplicable("a resumed stream does not go on")
        if (observed := await each_time(partial(lost, 2))) is not None:
            raise Deviation("the response in a stream that is resumed for the second time", observed)
        with suppress(NotApplicable, NotTestable):
            if (observed := await each_time(partial(_without_contents, server, peer))) is not None:
                raise Deviation("the response in a resumed stream of resources/read", observed)


async def _without_contents(server: ServerUnderTest, peer: HttpConnection) -> str | None:
    """Return what is wrong with the stream of a request to read a resource, which is lost while the server waits.

    Raises:
        NotApplicable: The response to the request is not a stream with ids.
        NotTestable: The server lacks the resource, or sends no client request to read it.
    """
    uri = server.require("resources", "test://conformance/asking")
    request = peer.message("resources/read", {"uri": uri})
    last, message = await _lost(peer, request)
    method = str(message.get("method"))
    if "id" not in message or method not in REPLIES:
        raise NotTestable("the server sends no client request while it reads the resource")
    await peer.post({"jsonrpc": "2.0", "id": message["id"], "result": REPLIES[method](params_of(message))})
    found = await _resumed(peer, last)
    return None if any(_belongs(each, request, "") for each in found) else f"{len(found)} messages without the response"


async def _has_response(server: ServerUnderTest, peer: HttpConnection, times: int) -> bool:
    """Return whether the stream of a call contains the response after it is lost and resumed a number of times.

    Raises:
        NotApplicable: The response to the call is not a stream with ids.
        NotTestable: The server lacks the tools.
    """
    key = f"again-{server.revision}-{peer.next_id()}"
    name, arguments = server.tool("conformance_wait", {"key": key})
    release, of_key = server.tool("conformance_release", {"key": key})
    request = peer.message("tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": key}})
    headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
    found: list[JsonObject] = []

    async def read() -> None:
        with suppress(Deviation, IncompleteResponse):
            async with peer.open_exchange("GET", headers) as exchange:
                while exchange.status == 200 and (event := await exchange.next_event()) is not None:
                    found.extend(_messages_in(event))

    try:
        headers.append(("Last-Event-ID", (await _lost(peer, request))[0]))
        for left in reversed(range(times)):
            async with open_nursery() as nursery:
                nursery.start_soon(read)
                for _ in range(_TO_RESUME):
                    await peer.fence()
                if not left:
                    await peer.request("tools/call", {"name": release, "arguments": of_key})
                    for _ in range(_FENCES):
                        if any(_belongs(each, request, "") for each in found):
                            break
                        await peer.fence()
                nursery.cancel_scope.cancel()
    finally:
        # It has no effect on a call that has ended.
        await peer.request("tools/call", {"name": release, "arguments": of_key})
    return any(_belongs(each, request, "") for each in found)


async def _lost(peer: HttpConnection, request: JsonObject) -> tuple[str, JsonObject]:
    """Close the stream of a request after its first message, and return the last event id and this message.

    Raises:
        NotApplicable: There is no stream with ids.
    """
    last: str | None = None
    message: JsonValue = None
    async with (
        peer.within("a message in the stream of a request"),
        peer.open_exchange("POST", peer.headers(request), encoded(request)) as exchange,
    ):
        while exchange.media_type == "text/event-stream" and (event := await exchange.next_event()) is not None:
            last = event.id or last
            if event.data:
                message = peer.transcript.message(event.data, sent=False)
                break
    if last is None:
        raise NotApplicable("the events have no ids")
    return last, message if isinstance(message, dict) else {}


@check("resume.foreign-session", proves=("resume.no-cross-stream",), needs=_NEEDS)
async def foreign_session(server: ServerUnderTest) -> None:
    """An event id of another session's stream, of POST or of GET, does not return events of that session."""
    async with session(server) as peer:
        notified: list[Event] = []
        with suppress(NotTestable):
            # An update of a resource is not for a session that did not subscribe to it, unlike the change of a list.
            if causing_call(server)[2]:
                notified = await notified_events(server, peer)
        ((request, stream),) = await _streams(server, peer, "foreign")
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        for id in (stream.ids[0], *[event.id for event in notified if event.id][:1]):
            async with session(server) as other:
                # A server may open a new stream in place of the unknown one, and notify on it.
                for message in await _resumed(other, id, deviant="an event id of another session"):
                    if _belongs(message, request, "foreign") or message.get("method") == _UPDATED:
                        raise Deviation("no event of another session", brief(message))


@check("resume.by-get", proves=("resume.always-get", "sse.retry-before-close"), needs=_NEEDS)
async def by_get(server: ServerUnderTest) -> None:
    """A stream that the server closed early has a retry time, and can be resumed by GET with Last-Event-ID."""
    peer = http_peer(server)
    name, arguments = server.tool("test_reconnection")
    request = peer.message("tools/call", {"name": name, "arguments": arguments})
    stream = await read_stream(peer, request)
    if any("method" not in each for each in stream.messages):
        raise NotTestable("the fixture did not close its stream before the response")
    if not stream.ids:
        raise Deviation("an event id before the connection is closed", "no event id")
    if not any(event.retry is not None for event in stream.events):
        raise Deviation("an event with retry before the connection is closed", "no retry")
    try:
        again = await read_stream(peer, None, last_event_id=stream.ids[-1])
    except NotApplicable as why:
        # The server has announced by the id and the retry time that the stream goes on.
        raise Deviation("the response in the stream of a GET with Last-Event-ID", str(why)) from why
    if not any(_belongs(each, request, "") for each in again.messages):
        raise Deviation(
            "the response in the stream of a GET with Last-Event-ID",
            f"{len(again.messages)} messages without the response",
        )
