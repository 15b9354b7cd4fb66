"""Scenarios of Streamable HTTP: streams and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.http_host import PostSink, Stream
from mcp_conformance.drivers.client.scripted_request import NoReply, encoded, notification
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, MODERN, R2025_03_26, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "EMPTIED_ID",
    "HTTP_SCENARIOS",
    "LOSES",
    "LOST_TO_STATELESS",
    "LOST_WITH_STREAM",
    "PINGED_BEHIND",
    "QUERY",
    "RECONNECTS",
    "STANDALONE_ID",
    "WITHOUT_SESSION",
    "WITHOUT_STREAM",
]

QUERY: Final = "?tenant=x&tenant=y%2Fz"
"""An unusual but valid query of the URL of an endpoint."""
EMPTIED_ID: Final = "emptied"
"""The id of an event of the standalone stream, which the empty id of the next one replaces; and the note of its end."""
STANDALONE_ID: Final = "standalone"
"""The note of its second end, behind an event with an id."""
LOSES: Final = "test_loses_session"
"""The tool whose stream ends before its result, together with the session."""
LOST_TO_STATELESS: Final = "session-lost-to-stateless"
"""The scenario of a session that is lost at a server which no longer has session ids."""
LOST_WITH_STREAM: Final = "session-lost-with-stream"
"""The scenario of a session that is lost when a stream ends."""
PINGED_BEHIND: Final = "in a resumed stream"
"""The name of the ping before that result, when the client has resumed the stream each time."""
RECONNECTS: Final = "test_reconnection"
"""The tool whose stream ends before its result."""
WITHOUT_SESSION: Final = "without-session"
"""The scenario of a server without session ids."""
WITHOUT_STREAM: Final = "without-standing-stream"
"""The scenario of a server that refuses GET and DELETE."""

_PAUSES: Final = (500, 300, 50)
"""Milliseconds that a client must wait before it resumes a stream for the first, second and third time."""
_NO_NUMBER: Final = b"retry: 10ms\n\n"
"""A `retry` field that is not a number, which a client ignores."""
_REPLACED: Final = 10
"""Milliseconds of an earlier `retry` field, which a later one replaces."""

_STATEFUL: Final = frozenset(LEGACY) & between(R2025_03_26)
_HTTP: Final = frozenset({Transport.HTTP})


def _all_in_streams(setup: ScenarioSetup) -> None:
    """Respond to every request with a stream."""
    setup.http.streams = True


def _without_session(setup: ScenarioSetup) -> None:
    setup.http.sessions = False


def _without_standalone_stream(setup: ScenarioSetup) -> None:
    """Offer neither standalone streams nor the end of a session by its client. The URL of the server has a query."""
    setup.http.query = QUERY
    setup.http.standalone_streams = False
    setup.http.deletable = False


def _session_lost(setup: ScenarioSetup) -> None:
    """Forget the session before the first `tools/list`, and the next session before the first `tools/call`.

    The second response has no JSON in its body.
    """
    losses: list[JsonValue] = []
    setup.notes["losses"] = losses
    waiting = ["tools/list", "tools/call"]

    async def forget(exchange: HttpExchange) -> bool:
        sessions = setup.server.sessions
        is_newest = bool(sessions) and exchange.header("mcp-session-id") == sessions[-1].id
        if waiting and is_newest and exchange.message.get("method") == waiting[0]:
            del waiting[0]
            setup.http.lose(sessions[-1])
            losses.append({"session": sessions[-1].id, "at": exchange.number})
            if not waiting:
                exchange.known = sessions[-1]
                await exchange.respond(404, [("Content-Type", "text/plain")], b"no such session")
                return True
        return False

    setup.http.before = forget


def _lost_to_stateless(setup: ScenarioSetup) -> None:
    """Forget the session at the first `tools/list`, and assign no further session id."""

    async def forget(exchange: HttpExchange) -> bool:
        sessions = setup.server.sessions
        is_newest = bool(sessions) and exchange.header("mcp-session-id") == sessions[-1].id
        if "lost" in setup.notes or not is_newest or exchange.message.get("method") != "tools/list":
            return False
        setup.http.lose(sessions[-1])
        setup.http.sessions = False
        setup.notes["lost"] = {"session": sessions[-1].id, "at": exchange.number}
        exchange.known = sessions[-1]
        await exchange.respond(404)
        return True

    setup.http.before = forget


def _lost_with_stream(setup: ScenarioSetup) -> None:
    """End the stream of a call before its result, and forget the session, so that the stream cannot be resumed."""

    async def lose(request: ScriptedRequest) -> JsonObject:
        sink = request.sink
        if not isinstance(sink, PostSink) or "lost" in setup.notes:
            return text_result("not lost")
        await sink.open()
        # Before the end of the stream: on a slow machine the client may have read it before this task continues.
        setup.notes["lost"] = {"session": request.session.id, "at": sink.exchange.number}
        setup.http.lose(request.session)
        await sink.stream.pause(_PAUSES[-1])
        raise NoReply("the session is lost")

    setup.server.offers.add_tool(LOSES, "Loses the session before its result", lose)


def _upgraded(setup: ScenarioSetup) -> None:
    """Support only the revision before the one that the client offers until the first `tools/list`, and then forget the session."""
    server = setup.server
    offered = setup.revision
    older = [each for each in LEGACY if each in between(None, offered) and each is not offered]
    server.speaks = (older[-1],)

    async def upgrade(exchange: HttpExchange) -> bool:
        if server.speaks == (older[-1],) and exchange.message.get("method") == "tools/list":
            # The older one stays the first: checks of the whole run go by it.
            server.speaks = (older[-1], offered)
            for session in server.sessions:
                setup.http.lose(session)
        return False

    setup.http.before = upgrade


async def _end_standalone(setup: ScenarioSetup, stream: Stream, data: bytes, name: str, after: int) -> None:
    """End the response of the standalone stream behind an event, once for each name: with an id, or an empty one."""
    exchange = stream.exchange
    if name in setup.notes or exchange is None or not stream.is_connected:
        return
    if name == EMPTIED_ID:
        for id in (EMPTIED_ID, ""):
            await exchange.event(data, id=id)
    else:
        await stream.send(data)
    setup.notes[name] = {"after": after, "last_id": stream.id(len(stream.events) - 1)}
    await stream.pause(_PAUSES[-1])


def _sse_retry(setup: ScenarioSetup) -> None:
    """End the stream of a call three times before the result, which the client can get by resumption.

    At the first and the second time, the standalone stream ends before it, with a shorter `retry`. Between the second and
    the third time no event of the stream of the call has an id: the last one is that of the stream before. A ping comes
    before the result.
    """
    pauses: list[JsonValue] = []
    setup.notes["pauses"] = pauses

    async def reconnect(request: ScriptedRequest) -> JsonObject:
        sink = request.sink
        if not isinstance(sink, PostSink):
            return text_result("fetched")
        await sink.open()
        stream = sink.stream
        # The id of this event belongs to another stream.
        params: JsonObject = {"level": "info", "data": "aside"}
        aside = encoded(notification("notifications/message", params, request.revision, ""))
        for retry in _PAUSES:
            exchange = stream.exchange
            if exchange is None:
                break
            standalone = request.session.standalone_sink
            if isinstance(standalone, Stream) and retry != _PAUSES[-1]:
                name = EMPTIED_ID if retry == _PAUSES[0] else STANDALONE_ID
                await _end_standalone(setup, standalone, aside, name, exchange.number)
            if retry != _PAUSES[-1]:
                # A second event, so that the last one is not the only one.
                await request.notify("notifications/message", {"level": "info", "data": "fetching"})
            if standalone is not None and retry == _PAUSES[-1]:
                await standalone.send(aside)
            await exchange.event(None, retry=_REPLACED)
            last_id = stream.id(len(stream.events) - 1)
            # Before it: on a slow machine the client may have read the pause before this task continues.
            pauses.append({"after": exchange.number, "at": trio.current_time(), "retry": retry, "last_id": last_id})
            await exchange.event(None, retry=retry)
            await exchange.chunk(_NO_NUMBER, deviant="a retry field that is not a number")
            await stream.pause()
            with trio.move_on_after(setup.timeout) as scope:
                await stream.resumed.wait()
            if scope.cancelled_caught:
                break
        else:
            await request.send_client_request("ping", name=PINGED_BEHIND)
        return text_result("fetched")

    setup.server.offers.add_tool(RECONNECTS, "Responds in a second stream", reconnect)


HTTP_SCENARIOS: Final = (
    Scenario(
        name="all-in-streams",
        title="A server that responds to every request with an event stream.",
        prepare=_all_in_streams,
        revisions=_STATEFUL | frozenset(MODERN),
        transports=_HTTP,
    ),
    Scenario(
        name=WITHOUT_SESSION,
        title="A server without session ids.",
        prepare=_without_session,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name=WITHOUT_STREAM,
        title="A server that responds to GET and to DELETE with 405, and whose URL has a query.",
        prepare=_without_standalone_stream,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name="session-lost",
        title="A server that forgets the session before the first `tools/list`, and the next one before the first call.",
        prepare=_session_lost,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name=LOST_TO_STATELESS,
        title="A server that forgets the session at the first `tools/list`, and assigns no further session id.",
        prepare=_lost_to_stateless,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name=LOST_WITH_STREAM,
        title="A tool whose stream ends before its result, and a server that forgets the session at that moment.",
        prepare=_lost_with_stream,
        revisions=frozenset(each for each in LEGACY if each.priming_event),
        transports=_HTTP,
    ),
    Scenario(
        name="session-lost-to-upgrade",
        title="A server of the revision before the offered one, which forgets the session and then supports the offered one.",
        prepare=_upgraded,
        revisions=_STATEFUL & frozenset(each for each in LEGACY if each.version_header),
        transports=_HTTP,
    ),
    Scenario(
        name="sse-retry",
        title="A tool whose stream ends three times before its result; the client must wait before it resumes the stream, and gets a ping in it. The standalone stream ends twice.",
        prepare=_sse_retry,
        revisions=frozenset(each for each in LEGACY if each.priming_event),
        transports=_HTTP,
    ),
)
"""The scenarios, in order."""
