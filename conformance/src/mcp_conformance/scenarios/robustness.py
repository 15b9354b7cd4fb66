"""Scenarios of robustness: rare valid members, broken streams, ungranted subscriptions, server crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.http_exchange import STREAM
from mcp_conformance.drivers.client.http_host import PostSink
from mcp_conformance.drivers.client.scripted_request import ErrorReply, NoReply, encoded
from mcp_conformance.drivers.client.stdio_host import Launch
from mcp_conformance.model.check import Transport
from mcp_conformance.protocol.odd_ids import ODD_IDS
from mcp_conformance.scenarios.http import QUERY
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, MODERN, R2025_03_26, R2025_06_18, R2025_11_25, Era, between
from mcp_core.types.meta import SERVER_INFO, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = [
    "BREAKS",
    "CASES",
    "CRASHES",
    "EARLY",
    "NOTIFIES_FIRST",
    "NOTIFIES_SECOND",
    "PATH",
    "ROBUSTNESS_SCENARIOS",
    "STANDALONE_ENDS",
    "STANDALONE_RETRY",
    "TOKEN",
    "TWO",
    "UNFINISHED",
    "UNKNOWN",
]

BREAKS: Final = "test_breaks"
"""The tool whose stream breaks."""
CASES: Final = ("same_name", "Same_Name")
"""Two tools whose names differ only in case."""
CRASHES: Final = "test_crashes"
"""The tool that crashes the server."""
EARLY: Final = "early"
"""The name of the ping before the response to `initialize`."""
PATH: Final = "/a/b%20c/the.endpoint"
"""An unusual but valid path of an endpoint."""
UNAVAILABLE: Final = "test_unavailable"
"""The tool whose first call has the status 503."""
UNFINISHED: Final = "in an event without its end"
"""The id of a ping in an event that a broken connection cuts off before its end."""
UNKNOWN: Final = "unknown"
"""The name of the requests whose methods do not exist."""
STANDALONE_ENDS: Final = "conformance_standing_ends"
"""The scenario in which a standalone stream ends."""
STANDALONE_RETRY: Final = 300
"""Milliseconds that a client must wait before it opens the standalone stream again."""
_CRASHES: Final = 2
"""How often that tool crashes the server."""
_UNKNOWN_METHODS: Final[Mapping[str, str | int]] = {
    "roots/does-not-exist": 0,
    "roots/list/all": "",
    "Roots/List": "0",
    "sampling/does-not-exist": "null",
    "elicitation/does-not-exist": -1,
    "tasks/does-not-exist": 2**53 - 1,
    "pings": "Gr\u00fc\u00dfe",
}
"""Methods that do not exist and resemble those of client requests, with ids that a lax implementation changes."""
NOTIFIES_FIRST: Final = "test_tells_first"
"""The tool that notifies of a change in the first of two subscriptions."""
NOTIFIES_SECOND: Final = "test_tells_second"
"""The tool that notifies of a change in the second one."""
TOKEN: Final = "conformance/how far"
"""The progress token that the client receives."""
TWO: Final = ("test_first", "test_second")
"""Two tools, of which the second responds first."""

_OVERTAKEN: Final = 0.05
"""Seconds in which a second subscription overtakes the first one."""

_STDIO: Final = frozenset({Transport.STDIO})
_HTTP: Final = frozenset({Transport.HTTP})
_MODERN: Final = frozenset(MODERN)
_STATEFUL: Final = frozenset(LEGACY) & between(R2025_03_26)


# --- rare valid members
# ------------------------------------------------------------------------------------------------

_ICON: Final[JsonObject] = {"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png", "sizes": ["48x48"]}
_META: Final[JsonObject] = {"com.example/odd": {"deeply": [1.5, None]}}
_ANNOTATIONS: Final[JsonObject] = {"audience": ["user", "assistant"], "priority": 0.5}
_TOOL_ANNOTATIONS: Final[JsonObject] = {
    "title": "A title of the annotations",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_RICH: Final = "test://rich"
"""A resource with a text and with data, both empty, and with further data."""
_DATA: Final = "AAECAw=="
_CONTENTS: Final[list[JsonValue]] = [
    {"uri": _RICH, "mimeType": "text/plain", "text": ""},
    {"uri": f"{_RICH}/data", "blob": ""},
    {"uri": f"{_RICH}/more", "mimeType": "application/octet-stream", "blob": _DATA},
]


def _blocks(revision: Revision) -> list[JsonObject]:
    """Return content of every kind that a revision from 2025-03-26 on has, with annotations."""
    found: list[JsonObject] = [
        {"type": "text", "text": "rich"},
        {"type": "text", "text": ""},
        {"type": "image", "data": _DATA, "mimeType": "image/png"},
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "audio", "data": _DATA, "mimeType": "audio/wav"},
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
        *({"type": "resource", "resource": each} for each in _CONTENTS),
    ]
    june = revision in between(R2025_06_18)
    if june:
        found.append({"type": "resource_link", "uri": f"{_RICH}/not-listed", "name": "linked", "size": 0})
    more: JsonObject = {"annotations": _ANNOTATIONS, "_meta": _META} if june else {"annotations": _ANNOTATIONS}
    return [{**each, **more} for each in found]


def _rich(setup: ScenarioSetup) -> None:
    """Use all optional members of a server, its tools, resources and prompts, of contents and progress.

    The capabilities of notifications have flags that are false, and so is the version of the server in some languages.
    """
    server, offers, revision = setup.server, setup.server.offers, setup.revision
    june, late = revision in between(R2025_06_18), revision in between(R2025_11_25)
    server.capabilities = {
        **server.capabilities,
        "tools": {"listChanged": False},
        "resources": {"subscribe": False, "listChanged": False},
    }
    info: JsonObject = {"name": "conformance", "version": "0"}
    if june:
        info["title"] = "A server with a title"
        for entry in [*offers.tools, *offers.resources, *offers.templates, *offers.prompts]:
            entry |= {"_meta": _META, "title": "A title"}
    if late:
        info |= {"description": "It says all that it may", "websiteUrl": "https://example.com/", "icons": [_ICON]}
        for entry in [*offers.tools, *offers.resources, *offers.templates, *offers.prompts]:
            entry["icons"] = [_ICON]
    for entry in offers.tools:
        entry["annotations"] = _TOOL_ANNOTATIONS
    for entry in [*offers.resources, *offers.templates]:
        entry["annotations"] = {**_ANNOTATIONS, "lastModified": "2025-01-12T15:00:58Z"} if june else _ANNOTATIONS
    for name in ("initialize", "server/discover"):
        right = server.handlers[name]

        async def introduced(request: ScriptedRequest, right: Handler = right) -> JsonObject:
            result = {**await right(request), "instructions": "Use everything."}
            return (
                {**result, "serverInfo": info} if "serverInfo" in result else {**result, "_meta": {SERVER_INFO: info}}
            )

        server.handlers[name] = introduced
    _rich_contents(setup)

    async def say(request: ScriptedRequest) -> JsonObject:
        token = "conformance/rich" if request.token is None else request.token
        params: JsonObject = {"progressToken": token, "progress": 0.25, "total": 0.75, "message": "A third is done"}
        await request.notify("notifications/progress", params, deviant="no token" if request.token is None else "")
        return {"content": [*_blocks(revision)]}

    for name in ("test_rich", *CASES):
        offers.add_tool(name, "Says something", say)


def _rich_contents(setup: ScenarioSetup) -> None:
    """Add a resource and a prompt with contents of every kind, and results that are empty."""
    offers, revision = setup.server.offers, setup.revision
    read = setup.server.handlers["resources/read"]

    async def read_rich(request: ScriptedRequest) -> JsonObject:
        contents: dict[str, list[JsonValue]] = {_RICH: _CONTENTS, f"{_RICH}/empty": []}
        uri = request.text("uri")
        return {"contents": contents[uri]} if uri in contents else await read(request)

    async def prompt(_: ScriptedRequest) -> list[JsonValue]:
        # Only from 2025-06-18 on may a prompt have links.
        return [{"role": role, "content": block} for block in _blocks(revision) for role in ("user", "assistant")]

    async def no_messages(_: ScriptedRequest) -> list[JsonValue]:
        return []

    async def say_nothing(_: ScriptedRequest) -> JsonObject:
        return {"content": [], "isError": False}

    async def list_nothing(_: ScriptedRequest) -> JsonObject:
        return {**text_result("[]"), "structuredContent": []}

    setup.server.handlers["resources/read"] = read_rich
    offers.resources += [
        {"uri": _RICH, "name": "rich", "size": 0},
        {"uri": f"{_RICH}/empty", "name": "empty", "description": ""},
    ]
    offers.prompts += [{"name": "test_rich_prompt", "arguments": []}, {"name": "test_empty_prompt", "description": ""}]
    offers.messages |= {"test_rich_prompt": prompt, "test_empty_prompt": no_messages}
    offers.add_tool("test_says_nothing", "", say_nothing)
    if setup.revision.era is Era.MODERN:
        offers.add_tool("test_lists_nothing", "Lists nothing", list_nothing)
        offers.tools[-1]["outputSchema"] = {"type": "array", "items": {"type": "string"}}


# --- broken connections and streams ---------------------------------------------------------------------------------


def _breaks(setup: ScenarioSetup) -> None:
    """Break the connection of the first call in the middle of the response, and in legacy revisions in an event.

    Then respond to the call of another tool with 503, and to the first prompt with an error.
    """
    broken: list[bool] = []

    async def break_off(request: ScriptedRequest) -> JsonObject:
        sink = request.sink
        if isinstance(sink, PostSink) and not broken:
            broken.append(True)
            setup.notes["broken"] = request.message["id"]
            await sink.open()
            if request.revision.resumable and not request.revision.priming_event:
                # Only a client with the id of an event can resume the stream.
                await request.notify("notifications/message", {"level": "info", "data": "begun"})
            events = sink.stream.events
            setup.notes["last_id"] = sink.stream.id(len(events) - 1) if events else None
            setup.notes["after"] = sink.exchange.number
            if request.revision.era is Era.LEGACY:
                ping: JsonObject = {"jsonrpc": "2.0", "id": UNFINISHED, "method": "ping"}
                await sink.exchange.chunk(b"data: " + encoded(ping) + b"\n", deviant="an event without its end")
            await sink.exchange.cut()
        return text_result("not broken")

    async def refuse(exchange: HttpExchange) -> bool:
        params = exchange.message.get("params")
        named = params.get("name") if isinstance(params, dict) else None
        if named != UNAVAILABLE or "refused" in setup.notes:
            return False
        setup.notes["refused"] = exchange.number
        await exchange.respond(503)
        return True

    async def fail(_: ScriptedRequest) -> list[JsonValue]:
        raise ErrorReply(-32603, "the prompt is not available")

    offers = setup.server.offers
    offers.add_tool(BREAKS, "Breaks its stream once", break_off)
    offers.add_tool("test_behind", "Is called after that", _behind)
    offers.add_tool(UNAVAILABLE, "Is not available at first", _behind)
    offers.add_tool("test_last", "Is called last", _behind)
    # Before the prompt with arguments.
    offers.prompts.insert(0, {"name": "test_failing_prompt", "description": "Fails"})
    offers.messages["test_failing_prompt"] = fail
    setup.http.before = refuse


async def _behind(_: ScriptedRequest) -> JsonObject:
    return text_result("behind")


def _standalone_stream_ends(setup: ScenarioSetup) -> None:
    """End the first standalone stream at once, and state when to open another where the revision has a rule for it.

    The name of the header of the session id is in lower case.
    """
    setup.http.session_header = "mcp-session-id"

    async def end(exchange: HttpExchange) -> bool:
        if exchange.method != "GET" or exchange.header("last-event-id") is not None or "ended" in setup.notes:
            return False
        await exchange.start(200, STREAM)
        if setup.revision.priming_event:
            await exchange.event(None, retry=STANDALONE_RETRY)
        # Before it: on a slow machine the client may have read the end before this task continues.
        setup.notes["ended"] = {"after": exchange.number, "at": trio.current_time()}
        await exchange.finish()
        return True

    setup.http.before = end


def _elsewhere(setup: ScenarioSetup) -> None:
    """Use an endpoint with a long path and a query, and return a session id, as a server of both eras may."""
    setup.http.path, setup.http.query = PATH, QUERY
    setup.http.modern_session = "of-an-earlier-revision"


def _crashes(setup: ScenarioSetup) -> None:
    """Add a tool that crashes the server, once more after the first restart. From the next one on it is harmless."""
    crashed: list[int] = []

    async def crash(request: ScriptedRequest) -> JsonObject:
        launch = request.sink
        if isinstance(launch, Launch) and len(crashed) < _CRASHES:
            crashed.append(launch.number)
            await launch.exit(3)
            raise NoReply("the server has exited")
        return text_result("this process does not crash")

    setup.server.offers.add_tool(CRASHES, "Ends the server", crash)


# --- responses out of order -------------------------------------------------------------------------------------------


def _crossed(setup: ScenarioSetup) -> None:
    """Offer two tools that must be called concurrently. The second responds first."""
    over = trio.Event()

    async def first(_: ScriptedRequest) -> JsonObject:
        with trio.move_on_after(setup.timeout / 2) as scope:
            await over.wait()
        setup.notes["crossed"] = not scope.cancelled_caught
        return text_result("of the first")

    async def second(request: ScriptedRequest) -> JsonObject:
        result = setup.server.complete(request.method, text_result("of the second"), request.revision)
        await request.sink.send(encoded({"jsonrpc": "2.0", "id": request.message["id"], "result": result}), final=True)
        over.set()
        raise NoReply("the response was sent before that of the first tool")

    offers = setup.server.offers
    offers.tools.clear()
    for name, run in zip(TWO, (first, second), strict=True):
        offers.add_tool(name, "Returns its position", run)
    _add_report(setup, "text")


def _add_report(setup: ScenarioSetup, member: str) -> None:
    async def noted(_: ScriptedRequest) -> JsonObject:
        return text_result("noted")

    schema: JsonObject = {"type": "object", "properties": {"of": {"type": "string"}, member: {}}, "required": ["of"]}
    setup.server.offers.add_tool("report", "Receives a report of the client", noted, schema)


# --- subscriptions ----------------------------------------------------------------------------------------------------


def _two_subscriptions(setup: ScenarioSetup) -> None:
    """Add two tools, each of which notifies of a change in one of two subscriptions, but not in the other.

    If the second subscription begins before the acknowledgment of the first, the acknowledgments are in reverse order.
    """
    opened: list[JsonValue] = []
    overtaken = trio.Event()

    async def listen(request: ScriptedRequest) -> JsonObject:
        id = request.message["id"]
        opened.append(id)
        if len(opened) == 1:
            with trio.move_on_after(_OVERTAKEN):
                await overtaken.wait()
        params: JsonObject = {"notifications": request.subscription_filter(), "_meta": {SUBSCRIPTION_ID: id}}
        await request.notify("notifications/subscriptions/acknowledged", params)
        overtaken.set()
        await trio.sleep_forever()
        raise AssertionError("the subscription ends only by cancellation")

    async def notify(request: ScriptedRequest) -> JsonObject:
        listening = [each for each in setup.server.received if each.get("method") == "subscriptions/listen"]
        if len(listening) == 2:
            name = request.text("name")
            meta: JsonObject = {SUBSCRIPTION_ID: listening[0 if name == NOTIFIES_FIRST else 1]["id"]}
            await request.notify("notifications/tools/list_changed", {"_meta": meta})
            setup.notes[name] = True
        return text_result("told")

    setup.server.handlers["subscriptions/listen"] = listen
    setup.server.offers.tools.clear()
    setup.server.offers.add_tool(NOTIFIES_SECOND, "Notifies of a change in the second subscription", notify)
    setup.server.offers.add_tool(NOTIFIES_FIRST, "Notifies of a change in the first subscription", notify)
    _add_report(setup, "heard")


def _grants_nothing(setup: ScenarioSetup) -> None:
    """Acknowledge a subscription without granting anything."""
    server = setup.server

    async def listen(request: ScriptedRequest) -> JsonObject:
        meta: JsonObject = {SUBSCRIPTION_ID: request.message["id"]}
        params: JsonObject = {"notifications": {}, "_meta": meta}
        await request.notify("notifications/subscriptions/acknowledged", params)
        await trio.sleep_forever()
        raise AssertionError("the subscription ends only by cancellation")

    server.handlers["subscriptions/listen"] = listen


def _ends_subscriptions(setup: ScenarioSetup) -> None:
    """Acknowledge a subscription, and then end it with a result, which has an unknown member and an unknown key of `_meta`."""
    server = setup.server

    async def listen(request: ScriptedRequest) -> JsonObject:
        meta: JsonObject = {SUBSCRIPTION_ID: request.message["id"]}
        params: JsonObject = {"notifications": request.subscription_filter(), "_meta": meta}
        await request.notify("notifications/subscriptions/acknowledged", params)
        return {"_meta": {**meta, **_META}, "com.example.more": [None]}

    server.handlers["subscriptions/listen"] = listen


# --- client requests with progress, and invalid ones
# --------------------------------------------------------------------

_SAMPLING: Final[JsonObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say something"}}],
    "maxTokens": 100,
}


def _wants_progress(setup: ScenarioSetup) -> None:
    """Add a tool that requests sampling with progress, and then a ping, to detect progress after the response.

    A client that reports progress gets further requests, whose tokens a lax implementation changes.
    """

    async def sample(request: ScriptedRequest, token: JsonValue, name: str) -> JsonObject | None:
        params: JsonObject = {**_SAMPLING, "_meta": {"progressToken": token}}
        return await request.send_client_request("sampling/createMessage", params, name=name)

    async def ask(request: ScriptedRequest) -> JsonObject:
        if not request.session.has("sampling"):
            return text_result("sampling is not declared")
        setup.notes["asked"] = True
        await sample(request, TOKEN, "with progress")
        await request.send_client_request("ping", name="fence")
        if any(each.get("method") == "notifications/progress" for each in setup.server.received):
            for token in ODD_IDS:
                if await sample(request, token, "with an odd token") is None:
                    break
        return text_result("asked")

    setup.server.offers.add_tool("ask_with_progress", "Requests sampling with progress", ask)


def _no_request(setup: ScenarioSetup) -> None:
    """Add a tool that sends unknown methods, a request whose method is a number, and an error without an id where valid.

    Over stdio the server supports only the revision before from the second connection on.
    """
    right = setup.server.handlers["initialize"]
    older = [each for each in LEGACY if each in between(None, setup.revision) and each is not setup.revision]

    async def initialize(request: ScriptedRequest) -> JsonObject:
        is_first = not any(each.opened for each in setup.server.sessions)
        result = await right(request)
        if is_first or not older or setup.transport is not Transport.STDIO:
            return result
        request.session.revision = older[-1]
        return {**result, "protocolVersion": older[-1].name, "capabilities": setup.server.declared(older[-1])}

    setup.server.handlers["initialize"] = initialize

    async def send(request: ScriptedRequest) -> JsonObject:
        odd: JsonObject = {"jsonrpc": "2.0", "id": "odd", "method": 7}
        await request.send_client_request("ping", name="before")
        for method, id in _UNKNOWN_METHODS.items():
            deviant = "a method that does not exist"
            if await request.send_client_request(method, {}, name=UNKNOWN, deviant=deviant, id=id) is None:
                break
        await request.sink.send(encoded(odd), deviant="a method that is a number")
        setup.notes["sent"] = True
        await request.send_client_request("ping", name="behind")
        # Last, because a client may take it for the response to its call and stop.
        if request.revision in between(R2025_11_25):
            error: JsonObject = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "nothing was understood"}}
            await request.sink.send(encoded(error))
        await request.send_client_request("ping", name="last")
        return text_result("sent")

    setup.server.offers.add_tool("test_no_request", "Sends an invalid request", send)


def _sends_requests(setup: ScenarioSetup) -> None:
    """Add a tool that sends requests, which servers of the modern revision must not do, before its response.

    No result names the server.
    """
    setup.server.anonymous = True

    async def send(request: ScriptedRequest) -> JsonObject:
        for id, method in (("of the server", "ping"), (0, "roots/list"), ("", "ping")):
            message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method}
            await request.sink.send(encoded(message), deviant="a request of a server")
        return text_result("sent")

    setup.server.offers.add_tool("test_sends_requests", "Sends requests", send)


def _early_ping(setup: ScenarioSetup) -> None:
    """Send a ping before the response to `initialize`."""

    async def initialize(request: ScriptedRequest) -> JsonObject:
        await request.send_client_request("ping", name=EARLY)
        return await setup.server.initialize(request)

    setup.server.handlers["initialize"] = initialize


ROBUSTNESS_SCENARIOS: Final = (
    Scenario(
        name="conformance_rich",
        title="A server with all optional members: titles, icons, annotations, `_meta` everywhere, progress with a message.",
        prepare=_rich,
        revisions=between(R2025_03_26),
    ),
    Scenario(
        name="conformance_broken_stream",
        title="A tool `test_breaks` whose first call breaks its stream, a tool that is unavailable once, a prompt that fails.",
        prepare=_breaks,
        revisions=_STATEFUL | _MODERN,
        transports=_HTTP,
    ),
    Scenario(
        name=STANDALONE_ENDS,
        title="A server that ends the first standalone stream at once.",
        prepare=_standalone_stream_ends,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name="conformance_elsewhere",
        title="A server whose URL has a long path and a query, and whose responses have a session id.",
        prepare=_elsewhere,
        revisions=_MODERN,
        transports=_HTTP,
    ),
    Scenario(
        name="conformance_crash",
        title="A tool `test_crashes` that crashes the server twice while the client has a subscription.",
        prepare=_crashes,
        revisions=_MODERN,
        transports=_STDIO,
    ),
    Scenario(
        name="conformance_crossed",
        title="Two tools that must be called concurrently, of which the second responds first.",
        prepare=_crossed,
        revisions=_MODERN,
        transports=_STDIO,
    ),
    Scenario(
        name="conformance_two_subscriptions",
        title="Tools that notify of a change in one of two subscriptions.",
        prepare=_two_subscriptions,
        revisions=_MODERN,
        transports=_STDIO,
    ),
    Scenario(
        name="conformance_grants_nothing",
        title="A server that acknowledges subscriptions without granting anything.",
        prepare=_grants_nothing,
        revisions=_MODERN,
    ),
    Scenario(
        name="conformance_ends_subscriptions",
        title="A server that acknowledges subscriptions, and ends them at once with a result.",
        prepare=_ends_subscriptions,
        revisions=_MODERN,
    ),
    Scenario(
        name="conformance_progress",
        title="A tool that requests sampling with progress.",
        prepare=_wants_progress,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name="conformance_no_request",
        title="A tool that sends unknown methods, an invalid request, and an error without an id; the client connects twice.",
        prepare=_no_request,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name="conformance_sends_requests",
        title="A server without a name, and a tool that sends requests of a legacy server, which are no messages of a modern one.",
        prepare=_sends_requests,
        revisions=_MODERN,
    ),
    Scenario(
        name="conformance_early_ping",
        title="A server that sends a ping before its response to `initialize`.",
        prepare=_early_ping,
        revisions=frozenset(LEGACY),
        # Over Streamable HTTP the client knows its session only after that response.
        transports=frozenset({Transport.STDIO, Transport.HTTP_SSE}),
    ),
)
"""The scenarios, in order."""
