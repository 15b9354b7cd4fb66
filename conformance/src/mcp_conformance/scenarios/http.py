"""Scenarios of Streamable HTTP: streams and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.http_host import PostSink
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, MODERN, R2025_03_26, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["HTTP_SCENARIOS", "RETRY"]

RETRY: Final = 500
"""Milliseconds that a client must wait before it resumes a stream."""

_STATEFUL: Final = frozenset(LEGACY) & between(R2025_03_26)
_HTTP: Final = frozenset({Transport.HTTP})


def _all_in_streams(setup: ScenarioSetup) -> None:
    """Respond to every request with a stream."""
    setup.http.streams = True


def _without_session(setup: ScenarioSetup) -> None:
    setup.http.sessions = False


def _without_standalone_stream(setup: ScenarioSetup) -> None:
    setup.http.standalone_streams = False


def _session_lost(setup: ScenarioSetup) -> None:
    """Forget the session before the first `tools/list`."""
    lost: list[bool] = []

    async def forget(exchange: HttpExchange) -> bool:
        sessions = setup.server.sessions
        if exchange.message.get("method") == "tools/list" and not lost and sessions:
            lost.append(True)
            setup.http.lose(sessions[-1])
            setup.notes["lost"] = sessions[-1].id
            setup.notes["at"] = exchange.number
        return False

    setup.http.before = forget


def _sse_retry(setup: ScenarioSetup) -> None:
    """End the stream of a call before the result, which the client can get by resumption."""

    async def reconnect(request: ScriptedRequest) -> JsonObject:
        sink = request.sink
        if isinstance(sink, PostSink):
            await sink.open()
            # A second event, so that the last one is not the only one.
            await request.notify("notifications/message", {"level": "info", "data": "fetching"})
            setup.notes["last_id"] = sink.stream.id(len(sink.stream.events) - 1)
            # Before it: on a slow machine the client may have read the pause before this task continues.
            setup.notes["paused_at"] = trio.current_time()
            await sink.stream.pause(RETRY)
        return text_result("fetched")

    setup.server.offers.add_tool("test_reconnection", "Responds in a second stream", reconnect)


HTTP_SCENARIOS: Final = (
    Scenario(
        name="all-in-streams",
        title="A server that responds to every request with an event stream.",
        prepare=_all_in_streams,
        revisions=_STATEFUL | frozenset(MODERN),
        transports=_HTTP,
    ),
    Scenario(
        name="without-session",
        title="A server without session ids.",
        prepare=_without_session,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name="without-standing-stream",
        title="A server that responds to GET with 405.",
        prepare=_without_standalone_stream,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name="session-lost",
        title="A server that forgets the session before the first `tools/list`.",
        prepare=_session_lost,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name="sse-retry",
        title="A tool whose stream ends before its result; the client must resume the stream after half a second.",
        prepare=_sse_retry,
        revisions=frozenset(each for each in LEGACY if each.priming_event),
        transports=_HTTP,
    ),
)
"""The scenarios, in order."""
