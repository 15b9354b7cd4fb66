"""Scenarios of negotiation for clients that may use any revision: silence, error codes, and HTTP+SSE of 2024-11-05."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.scripted_request import ErrorReply, NoReply, encoded
from mcp_conformance.drivers.client.sse_host import SessionEvents, SseHost
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.endpoints import use_endpoint_form
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LATEST_LEGACY, LEGACY, MODERN, R2024_11_05, R2025_03_26, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ABRUPT", "CODES", "ERA_SCENARIOS", "REFUSED_WITH_400", "REJECTED", "UNANSWERED", "WITHOUT_ID"]

CODES: Final = (-32601, -32602, -32000)
"""The codes by which legacy servers reject the probe, beside the one in the scenario `meets-legacy`."""

ABRUPT: Final = "meets-legacy-abrupt"
"""The scenario of a legacy server that exits when it receives the probe, or over HTTP cannot state its id."""
REFUSED_WITH_400: Final = "meets-two-endpoints-400"
"""The scenario of a server with the endpoints of 2024-11-05 that responds to POST with 400 in place of 405."""
REJECTED: Final = "initialize-rejected"
"""The scenario of a server that rejects `initialize`."""
UNANSWERED: Final = "initialize-unanswered"
"""The scenario of a server that does not respond to `initialize`."""
WITHOUT_ID: Final = "meets-legacy-without-id"
"""The scenario of a legacy server that rejects the probe in an error without an id."""

_STDIO: Final = frozenset({Transport.STDIO})
_HTTP: Final = frozenset({Transport.HTTP})
_NO_SSE: Final = _STDIO | _HTTP
_STATEFUL: Final = frozenset(LEGACY) & between(R2025_03_26)


def _nothing(_: ScenarioSetup) -> None:
    """Leave the server unchanged."""


def _is_probe(launch: Launch) -> bool:
    value = launch.values[-1]
    return isinstance(value, dict) and value.get("method") == "server/discover"


def _silent(setup: ScenarioSetup) -> None:
    """Ignore `server/discover`."""

    async def ignore(launch: Launch, _: bytes) -> bool:
        return _is_probe(launch)

    setup.stdio.on_line = ignore


def _rejects_initialize(setup: ScenarioSetup) -> None:
    """Reject `initialize`. The server assigns a session id only together with a result."""
    use_endpoint_form(setup, REJECTED)

    async def reject(_: ScriptedRequest) -> JsonObject:
        raise ErrorReply(-32603, "the server cannot start")

    setup.server.handlers["initialize"] = reject
    if setup.transport is Transport.HTTP:
        setup.http.sessions = False


def _ends_initialize(setup: ScenarioSetup) -> None:
    """End the stream in place of the response to `initialize`."""

    async def end(request: ScriptedRequest) -> JsonObject:
        if isinstance(request.sink, SessionEvents):
            await request.sink.finish()
        raise NoReply("the stream has ended")

    setup.server.handlers["initialize"] = end


def _refusing(code: int) -> Scenario:
    def prepare(setup: ScenarioSetup) -> None:
        async def refuse(launch: Launch, _: bytes) -> bool:
            if not _is_probe(launch):
                return False
            value = launch.values[-1]
            id = value.get("id") if isinstance(value, dict) else None
            await launch.send(encoded(ErrorReply(code, "the request is not understood").error(id)))
            return True

        setup.stdio.on_line = refuse

    return Scenario(
        name=f"meets-legacy{code}",
        title=f"A legacy server that rejects unknown methods by {code}; the client may use any revision.",
        prepare=prepare,
        revisions=frozenset(MODERN),
        transports=_STDIO,
        speaks=(LATEST_LEGACY,),
        free=True,
    )


def _refuse_without_id(setup: ScenarioSetup) -> None:
    """Reject `server/discover` in an error without an id, which 2025-11-25 permits."""

    async def refuse(launch: Launch, _: bytes) -> bool:
        if not _is_probe(launch):
            return False
        error = ErrorReply(-32600, "the request is not understood").error(None)
        del error["id"]
        await launch.send(encoded(error))
        return True

    setup.stdio.on_line = refuse


def _abrupt(setup: ScenarioSetup) -> None:
    """Exit at the first `server/discover`; over HTTP, reject it like a message that the server has not read."""
    if setup.transport is Transport.HTTP:
        error = encoded(ErrorReply(-32000, "the request is not understood").error(None))

        async def refuse(exchange: HttpExchange) -> bool:
            if exchange.message.get("method") != "server/discover":
                return False
            await exchange.respond(HTTPStatus.BAD_REQUEST, [("Content-Type", "application/json")], error)
            return True

        setup.http.before = refuse
        return

    async def leave(launch: Launch, _: bytes) -> bool:
        # A client may probe again in the next process.
        if launch.number or not _is_probe(launch):
            return False
        await launch.exit(1)
        return True

    setup.stdio.on_line = leave


def _two_endpoints(setup: ScenarioSetup, refusal: int | None = None) -> None:
    """Serve HTTP+SSE at the endpoint instead of Streamable HTTP; `refusal`: the status of a POST to it in place of 405."""
    host = setup.http
    pair = SseHost(setup.server, host.transcript, host.nursery)
    pair.path = host.path

    async def answer(exchange: HttpExchange) -> bool:
        if refusal is not None and exchange.method == "POST" and exchange.path == pair.path:
            await exchange.respond(refusal)
        else:
            await pair.answer(exchange)
        return True

    host.before = answer


ERA_SCENARIOS: Final = (
    Scenario(
        name=REJECTED,
        title="A server that rejects `initialize` with an error.",
        prepare=_rejects_initialize,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name=UNANSWERED,
        title="A server that ends the stream in place of its response to `initialize`; the client connects twice.",
        prepare=_ends_initialize,
        revisions=frozenset({R2024_11_05}),
        # Only there can a client still send messages after the end of the stream.
        transports=frozenset({Transport.HTTP_SSE}),
    ),
    Scenario(
        name="meets-any-legacy",
        title="A server of all legacy revisions; the client may use any revision.",
        prepare=_nothing,
        revisions=frozenset(LEGACY),
        transports=_NO_SSE,
        speaks=tuple(LEGACY),
        free=True,
    ),
    Scenario(
        name="meets-silent",
        title="A legacy server that does not respond to unknown methods; the client may use any revision.",
        prepare=_silent,
        revisions=frozenset(MODERN),
        transports=_STDIO,
        speaks=(LATEST_LEGACY,),
        free=True,
    ),
    *map(_refusing, CODES),
    Scenario(
        name=WITHOUT_ID,
        title="A legacy server that rejects unknown methods in an error without an id; the client may use any revision.",
        prepare=_refuse_without_id,
        revisions=frozenset(MODERN),
        transports=_STDIO,
        speaks=(LATEST_LEGACY,),
        free=True,
    ),
    Scenario(
        name=ABRUPT,
        title="A legacy server that exits at its first `server/discover`, or over HTTP rejects it in an error with the id `null`; the client may use any revision.",
        prepare=_abrupt,
        revisions=frozenset(MODERN),
        transports=_NO_SSE,
        speaks=(LATEST_LEGACY,),
        free=True,
    ),
    Scenario(
        name="meets-two-endpoints",
        title="A server with the two endpoints of 2024-11-05; the client receives the URL of one.",
        prepare=_two_endpoints,
        revisions=_STATEFUL,
        transports=_HTTP,
        speaks=(R2024_11_05,),
    ),
    Scenario(
        name=REFUSED_WITH_400,
        title="A server with the two endpoints of 2024-11-05 that responds to POST with 400; the client receives the URL of one.",
        prepare=partial(_two_endpoints, refusal=400),
        # Which statuses lead to a client's fallback does not depend on the revision.
        revisions=frozenset({LATEST_LEGACY}),
        transports=_HTTP,
        speaks=(R2024_11_05,),
    ),
    Scenario(
        name="meets-two-endpoints-free",
        title="A server with the two endpoints of 2024-11-05; the client may use any revision.",
        prepare=_two_endpoints,
        revisions=frozenset(MODERN),
        transports=_HTTP,
        speaks=(R2024_11_05,),
        free=True,
    ),
)
"""The scenarios, in order."""
