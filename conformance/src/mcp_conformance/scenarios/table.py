"""The table of scenarios. Names shared with the official framework have the same meaning there.

A client that knows none of the names does the same in each scenario: it connects, lists all features, and uses each
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.http_exchange import STREAM
from mcp_conformance.drivers.client.http_host import Stream
from mcp_conformance.drivers.client.scripted_request import ErrorReply, encoded
from mcp_conformance.drivers.client.sse_host import SseHost
from mcp_conformance.model.check import Transport
from mcp_conformance.protocol.json_forms import rearranged
from mcp_conformance.protocol.odd_ids import ODD_IDS
from mcp_conformance.scenarios.cache_scope import SCOPE_SCENARIOS
from mcp_conformance.scenarios.caching import FRESH_SCENARIOS
from mcp_conformance.scenarios.cancellation import CANCEL_SCENARIOS
from mcp_conformance.scenarios.client_requests import CLIENT_REQUEST_SCENARIOS
from mcp_conformance.scenarios.completion import COMPLETION_SCENARIOS
from mcp_conformance.scenarios.concurrent_calls import CONCURRENT_SCENARIOS
from mcp_conformance.scenarios.endpoints import use_endpoint_form
from mcp_conformance.scenarios.fetches import ACCESS_SCENARIOS, FRESH
from mcp_conformance.scenarios.headers import HEADER_SCENARIOS
from mcp_conformance.scenarios.http import HTTP_SCENARIOS
from mcp_conformance.scenarios.mrtr import MRTR_SCENARIOS
from mcp_conformance.scenarios.negotiation import ERA_SCENARIOS
from mcp_conformance.scenarios.oauth import OAUTH_SCENARIOS
from mcp_conformance.scenarios.pagination import PAGE_SCENARIOS, STANDALONE
from mcp_conformance.scenarios.results import RESULT_SCENARIOS
from mcp_conformance.scenarios.robustness import ROBUSTNESS_SCENARIOS
from mcp_conformance.scenarios.scenario import Scenario
from mcp_conformance.scenarios.schemas import SCHEMA_SCENARIOS
from mcp_conformance.scenarios.skills import SKILL_SCENARIOS
from mcp_conformance.scenarios.stale_schemas import CHANGED_SCENARIOS
from mcp_conformance.scenarios.stdio import STDIO_SCENARIOS
from mcp_conformance.scenarios.tasks import TASK_SCENARIOS
from mcp_core.revisions import LATEST_LEGACY, LEGACY, MODERN, R2025_03_26, between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["FEW_CAPABILITIES", "REFUSED_UNREAD", "RESOURCE_LISTS", "SCENARIOS"]

FEW_CAPABILITIES: Final = ("odd-but-legal", "conformance_rich")
"""Scenarios whose server declares only some of the capabilities: the second one denies those to subscribe."""

REFUSED_UNREAD: Final = "meets-modern-without-id"
"""The scenario of a rejection without an id, and the note with the number of the rejected request."""

_UNKNOWN_REVISIONS: Final = ("1900-01-01", "2025-05-01", "2999-12-31")
"""Revisions that do not exist: before, between and after those that do."""


def _nothing(_: ScenarioSetup) -> None:
    """Leave the server unchanged."""


def _no_capabilities(setup: ScenarioSetup) -> None:
    """Declare nothing.

    Over HTTP+SSE, the stream begins with a comment, and a POST has its response, with the status 200, only behind those to
    its messages.
    """
    use_endpoint_form(setup, "no-capabilities")
    if isinstance(setup.host, SseHost):
        setup.host.accepts_late = True
        setup.host.welcome = b": welcome\n\n"
    setup.server.capabilities = {}


RESOURCE_LISTS: Final = ("resources/list", "resources/templates/list")
"""The lists that are valid for an hour where results have unknown members."""
_ODD_METHODS: Final = (
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
)
"""The methods whose results have unknown members."""


def _odd_but_legal(setup: ScenarioSetup) -> None:
    """Add unknown members wherever the protocol permits them, and send members in reverse order. Clients must tolerate both.

    Only some of the capabilities are declared.
    """
    use_endpoint_form(setup, "odd-but-legal")
    server = setup.server
    server.form = rearranged
    server.completes = False
    server.capabilities = {
        "tools": {},
        "resources": {},
        "prompts": {},
        "experimental": {"com.example/odd": {"level": 9000}},
        "com.example/unheard-of": {"deeply": {"nested": [1, None, "\u2028"]}},
    }
    for entry in [*server.offers.tools, *server.offers.resources, *server.offers.prompts]:
        entry["com.example.unheardOf"] = {"a": [1.5, None, True]}
        entry["description"] = "Ünïcode, \u2028 and \u2029 are no line ends, \U0001f9ea neither"
    for name in _ODD_METHODS:
        handler = server.handlers[name]

        async def odd(request: ScriptedRequest, handler: Handler = handler) -> JsonObject:
            if request.method not in ("initialize", "server/discover"):
                deviant = "an unknown notification"
                await request.notify("notifications/com.example/unheard-of", {"x": 1}, deviant=deviant)
            result = await handler(request)
            meta = result.get("_meta")
            more: JsonObject = {"com.example/odd": {"y": None}, **(meta if isinstance(meta, dict) else {})}
            # Another check requires that neither of these lists is used in place of the other.
            held: JsonObject = (
                {"ttlMs": FRESH} if setup.revision.result_type and request.method in RESOURCE_LISTS else {}
            )
            return {**result, **held, "_meta": more, "com.example.more": [None]}

        server.handlers[name] = odd


def _version_older(setup: ScenarioSetup) -> None:
    """Respond to `initialize` with the revision before the one that the client is instructed to use."""
    older = [each for each in LEGACY if each in between(None, setup.revision) and each is not setup.revision]
    setup.server.speaks = (older[-1],)
    setup.notes["offered"] = older[-1].name


def _version_unknown(setup: ScenarioSetup) -> None:
    """Respond to `initialize` with an unknown revision: an older or a newer one, by revision and transport."""
    number = LEGACY.index(setup.revision) + 2 * (setup.transport is Transport.HTTP)
    setup.server.offered_version = _UNKNOWN_REVISIONS[number % len(_UNKNOWN_REVISIONS)]


def _pings_in_calls(setup: ScenarioSetup) -> None:
    """Send a ping before the response to the first call."""
    right = setup.server.handlers["tools/call"]

    async def call(request: ScriptedRequest) -> JsonObject:
        if not setup.server.client_requests:
            await request.send_client_request("ping")
        return await right(request)

    setup.server.handlers["tools/call"] = call


def _refused_once(setup: ScenarioSetup) -> None:
    """Reject the first request because of its revision, but name the same revision as supported, after a newer one."""
    name = setup.revision.name
    supported: list[JsonValue] = [_UNKNOWN_REVISIONS[-1], name]
    refused: list[JsonObject] = []

    def admit(message: JsonObject) -> None:
        if not refused:
            refused.append(message)
            raise ErrorReply(-32022, "not this time", {"supported": supported, "requested": name}, status=400)

    setup.server.admit = admit


def _refused_always(setup: ScenarioSetup) -> None:
    """Reject every request because of its revision, and name an unknown revision as supported."""

    def admit(_: JsonObject) -> None:
        requested = setup.revision.name
        raise ErrorReply(
            -32022, "this is not spoken", {"supported": [_UNKNOWN_REVISIONS[0]], "requested": requested}, status=400
        )

    setup.server.admit = admit


def _refused_unread(setup: ScenarioSetup) -> None:
    """Reject the first modern request by its version header, as a server does that has not read the body: without an id."""

    async def refuse(exchange: HttpExchange) -> bool:
        requested = exchange.header("mcp-protocol-version")
        is_first = REFUSED_UNREAD not in setup.notes and requested is not None
        if not is_first or exchange.method != "POST" or exchange.message.get("method") == "initialize":
            return False
        setup.notes[REFUSED_UNREAD] = exchange.number
        supported: list[JsonValue] = [_UNKNOWN_REVISIONS[-1], setup.revision.name]
        reply = ErrorReply(-32022, "not this time", {"supported": supported, "requested": requested}).error(None)
        del reply["id"]
        await exchange.respond(400, [("Content-Type", "application/json")], encoded(reply))
        return True

    setup.http.before = refuse


def _lists_unknown(setup: ScenarioSetup) -> None:
    """List revisions that the client cannot know, before and after the supported ones."""
    setup.server.listed_before, setup.server.listed_after = _UNKNOWN_REVISIONS[-1:], _UNKNOWN_REVISIONS[:1]


_SAMPLING: Final[JsonObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say something"}}],
    "maxTokens": 100,
}
_FORM: Final[JsonObject] = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "default": "Somebody"}}},
}


def _all_client_requests(setup: ScenarioSetup) -> None:
    """Add a tool that sends every kind of client request before its response.

    The first one has the id of the call, as each side numbers its own requests. Another one is sent on the standalone
    stream, if the client has opened one. The media type of that stream has a parameter.
    """
    if setup.transport is Transport.HTTP:
        setup.http.standalone_headers = (("Content-Type", "text/event-stream; charset=utf-8"), *STREAM[1:])

    async def ask(request: ScriptedRequest) -> JsonObject:
        await request.send_client_request("ping", id=request.message["id"])
        standalone = request.session.standalone_sink
        if isinstance(standalone, Stream):
            setup.notes[STANDALONE] = standalone.is_connected
        if isinstance(standalone, Stream) and standalone.is_connected:
            await request.send_client_request("ping", standalone=True)
        await request.send_client_request("conformance/does-not-exist", {}, deviant="a method that does not exist")
        await request.send_client_request(
            "roots/list", deviant="" if request.session.has("roots") else "roots were not declared"
        )
        if request.session.has("sampling"):
            await request.send_client_request("sampling/createMessage", _SAMPLING)
        if request.session.has("elicitation"):
            await request.send_client_request("elicitation/create", _FORM)
        for id in ODD_IDS:
            if await request.send_client_request("ping", id=id) is None:
                break
        # Last, because a client may end the connection.
        bare: JsonObject = {"progressToken": "conformance/none"}
        await request.notify("notifications/progress", bare, deviant="progress without its value")
        return text_result("asked")

    setup.server.offers.add_tool("test_server_asks", "Asks the client all that a server may ask", ask)


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

_NO_SSE: Final = frozenset({Transport.STDIO, Transport.HTTP})

_GENERAL: Final = (
    Scenario(name="initialize", title="A correct server.", prepare=_nothing),
    Scenario(
        name="tools_call", title="A correct server with a tool `add_numbers` that adds `a` and `b`.", prepare=_nothing
    ),
    Scenario(name="no-capabilities", title="A server that declares no capability.", prepare=_no_capabilities),
    Scenario(
        name="odd-but-legal",
        title="A server with unknown members and notifications, where the protocol permits them, and members in reverse order.",
        prepare=_odd_but_legal,
    ),
    Scenario(
        name="server-asks",
        title="A tool that requests a ping, roots, sampling, a form and an unknown method of the client.",
        prepare=_all_client_requests,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name="version-older",
        title="A server that supports the revision before the one that the client offers.",
        prepare=_version_older,
        revisions=frozenset(LEGACY) & between(R2025_03_26),
        transports=_NO_SSE,
    ),
    Scenario(
        name="version-unknown",
        title="A server that responds to `initialize` with an unknown revision.",
        prepare=_version_unknown,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name="request-metadata",
        title="A server that rejects the revision of the first request, and names the same revision as supported.",
        prepare=_refused_once,
        revisions=frozenset(MODERN),
    ),
    Scenario(
        name="version-none",
        title="A modern server without a revision that the client supports; the client may use any revision.",
        prepare=_refused_always,
        revisions=frozenset(MODERN),
        free=True,
    ),
    Scenario(
        name="meets-legacy",
        title="A legacy server; the client may use any revision.",
        prepare=_pings_in_calls,
        revisions=frozenset(MODERN),
        speaks=(LATEST_LEGACY,),
        free=True,
    ),
    Scenario(
        name="meets-modern",
        title="A modern server; the client may use any revision.",
        prepare=_lists_unknown,
        revisions=frozenset(MODERN),
        free=True,
    ),
    Scenario(
        name=REFUSED_UNREAD,
        title="A modern server that rejects the first request in an error without an id; the client may use any revision.",
        prepare=_refused_unread,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
        free=True,
    ),
)

SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        *_GENERAL,
        *HTTP_SCENARIOS,
        *HEADER_SCENARIOS,
        *STDIO_SCENARIOS,
        *CLIENT_REQUEST_SCENARIOS,
        *MRTR_SCENARIOS,
        *PAGE_SCENARIOS,
        *RESULT_SCENARIOS,
        *CANCEL_SCENARIOS,
        *TASK_SCENARIOS,
        *ACCESS_SCENARIOS,
        *ROBUSTNESS_SCENARIOS,
        *CONCURRENT_SCENARIOS,
        *CHANGED_SCENARIOS,
        *COMPLETION_SCENARIOS,
        *ERA_SCENARIOS,
        *FRESH_SCENARIOS,
        *SCOPE_SCENARIOS,
        *SCHEMA_SCENARIOS,
        *SKILL_SCENARIOS,
        *OAUTH_SCENARIOS,
    )
}
"""All scenarios, by name."""
