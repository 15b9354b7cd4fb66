"""Resumption of streams after a disconnect, by GET with Last-Event-ID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.checks.probes.http_requests import RecordedStream, http_peer, progress_call, read_stream, session
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.transcript import strict_json

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS = ("capability:tools",)


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


@check("resume.unique", proves=("resume.event-id-unique",), needs=_NEEDS)
async def unique(server: ServerUnderTest) -> None:
    """No two events of a session have the same id, over all streams."""
    peer = http_peer(server)
    ids = [each for _, stream in await _streams(server, peer, "one", "two") for each in stream.ids]
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
    """A resumed stream contains only its own events, not those of another stream, and each event has its own id."""
    peer = http_peer(server)
    (request, first), (_, other) = await _streams(server, peer, "mine", "other")
    again = await read_stream(peer, None, last_event_id=first.ids[0])
    for message in again.messages:
        if not _belongs(message, request, "mine"):
            raise Deviation("only messages of the resumed stream", brief(message))
    if not again.messages:
        raise NotTestable("no event was replayed")
    _require_unique(first, again, other)


@check("resume.foreign-session", proves=("resume.no-cross-stream",), needs=_NEEDS)
async def foreign_session(server: ServerUnderTest) -> None:
    """An event id of another session's stream does not return events of that session."""
    peer = http_peer(server)
    ((request, stream),) = await _streams(server, peer, "foreign")
    if peer.session_id is None:
        raise NotApplicable("the server has no sessions")
    async with session(server) as other:
        headers = [*other.settings.headers, ("Accept", "text/event-stream"), *other.session_headers()]
        headers.append(("Last-Event-ID", stream.ids[0]))
        async with other.open_exchange("GET", headers, deviant="an event id of another session") as exchange:
            if exchange.status != 200:
                return
            # An open stream without events ends together with its session.
            await other.end()
            while (event := await exchange.next_event()) is not None:
                # A server may open a new stream in place of the unknown one, and notify on it.
                message = other.transcript.message(event.data, sent=False) if event.data else None
                if isinstance(message, dict) and _belongs(message, request, "foreign"):
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
