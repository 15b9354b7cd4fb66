"""What clients have to bear: what is allowed and rarely seen, streams that break, subscriptions that bring less, servers that die."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.http_exchange import STREAM
from mcp_conformance.drivers.client.http_host import PostOutlet
from mcp_conformance.drivers.client.scripted_request import NoAnswer, encoded
from mcp_conformance.drivers.client.stdio_host import Launch
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, MODERN, R2025_03_26, R2025_06_18, R2025_11_25, between
from mcp_core.types.meta import SERVER_INFO, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.http_exchange import Exchange
    from mcp_conformance.drivers.client.scripted_request import Turn
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject

    Handler = Callable[[Turn], Awaitable[JsonObject]]

__all__ = ["BEARING_SCENARIOS", "BREAKS", "CASES", "CRASHES", "PATH", "QUERY", "TOKEN", "TWO"]

BREAKS: Final = "test_breaks"
"""The tool whose answer breaks off."""
CASES: Final = ("same_name", "Same_Name")
"""Two tools whose names differ in case alone."""
CRASHES: Final = "test_crashes"
"""The tool by which the server dies."""
PATH: Final = "/a/b%20c/the.endpoint"
"""Where an endpoint may be."""
QUERY: Final = "?tenant=x&tenant=y%2Fz"
"""What may belong to its URL."""
TOKEN: Final = "conformance/how far"
"""The token of progress that the client is given."""
TWO: Final = ("test_first", "test_second")
"""Two tools, of which the second is answered first."""

_STDIO: Final = frozenset({Transport.STDIO})
_HTTP: Final = frozenset({Transport.HTTP})
_MODERN: Final = frozenset(MODERN)
_STATEFUL: Final = frozenset(LEGACY) & between(R2025_03_26)


# --- what is allowed and rarely seen ------------------------------------------------------------------------------------

_ICON: Final[JsonObject] = {"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png", "sizes": ["48x48"]}
_META: Final[JsonObject] = {"com.example/odd": {"deeply": [1.5, None]}}
_ANNOTATIONS: Final[JsonObject] = {"audience": ["user", "assistant"], "priority": 0.5}


def _rich(stage: Stage) -> None:
    """All that may be said of a server, its tools, resources and prompts, and of contents and progress."""
    server, offers, revision = stage.server, stage.server.offers, stage.revision
    june, late = revision in between(R2025_06_18), revision in between(R2025_11_25)
    info: JsonObject = {"name": "conformance", "version": "1"}
    if june:
        info["title"] = "A server with a title"
        for entry in [*offers.tools, *offers.resources, *offers.templates, *offers.prompts]:
            entry |= {"_meta": _META, "title": "A title"}
    if late:
        info |= {"description": "It says all that it may", "websiteUrl": "https://example.com/", "icons": [_ICON]}
        for entry in [*offers.tools, *offers.resources, *offers.templates, *offers.prompts]:
            entry["icons"] = [_ICON]
    for entry in [*offers.resources, *offers.templates]:
        entry["annotations"] = {**_ANNOTATIONS, "lastModified": "2025-01-12T15:00:58Z"} if june else _ANNOTATIONS
    for name in ("initialize", "server/discover"):
        right = server.handlers[name]

        async def introduced(turn: Turn, right: Handler = right) -> JsonObject:
            result = await right(turn)
            return (
                {**result, "serverInfo": info} if "serverInfo" in result else {**result, "_meta": {SERVER_INFO: info}}
            )

        server.handlers[name] = introduced

    async def say(turn: Turn) -> JsonObject:
        token = "conformance/rich" if turn.token is None else turn.token
        params: JsonObject = {"progressToken": token, "progress": 0.25, "total": 0.75, "message": "A third is done"}
        await turn.notify("notifications/progress", params, deviant="no token" if turn.token is None else "")
        block: JsonObject = {"type": "text", "text": "rich", "annotations": _ANNOTATIONS}
        return {"content": [{**block, "_meta": _META} if june else block]}

    for name in ("test_rich", *CASES):
        offers.add_tool(name, "Says something", say)


# --- connections and streams that break -------------------------------------------------------------------------------


def _breaks(stage: Stage) -> None:
    """The connection of the first call breaks in the midst of its answer."""
    broken: list[bool] = []

    async def break_off(turn: Turn) -> JsonObject:
        outlet = turn.outlet
        if isinstance(outlet, PostOutlet) and not broken:
            broken.append(True)
            stage.notes["broken"] = turn.request["id"]
            await outlet.open()
            await outlet.exchange.cut()
        return text_result("not broken")

    stage.server.offers.add_tool(BREAKS, "Breaks off once", break_off)
    stage.server.offers.add_tool("test_behind", "Is called behind that", _behind)


async def _behind(_: Turn) -> JsonObject:
    return text_result("behind")


def _standing_ends(stage: Stage) -> None:
    """The first stream for what belongs to no request ends at once."""

    async def end(exchange: Exchange) -> bool:
        if exchange.method != "GET" or exchange.header("last-event-id") is not None or "ended" in stage.notes:
            return False
        stage.notes["ended"] = True
        await exchange.start(200, STREAM)
        await exchange.finish()
        return True

    stage.http.before = end


def _elsewhere(stage: Stage) -> None:
    """The endpoint is at a long path, and its URL has a query."""
    stage.http.path, stage.http.query = PATH, QUERY


def _crashes(stage: Stage) -> None:
    """A tool by which the server dies; started again, it has none such."""

    async def crash(turn: Turn) -> JsonObject:
        launch = turn.outlet
        if isinstance(launch, Launch) and launch.number == 0:
            await launch.exit(3)
            raise NoAnswer("the server is gone")
        return text_result("nothing happens any more")

    stage.server.offers.add_tool(CRASHES, "Ends the server", crash)


# --- answers in another order -----------------------------------------------------------------------------------------


def _crossed(stage: Stage) -> None:
    """Two tools that are to be called at once; the second is answered first."""
    over = trio.Event()

    async def first(_: Turn) -> JsonObject:
        with trio.move_on_after(stage.patience / 2) as scope:
            await over.wait()
        stage.notes["crossed"] = not scope.cancelled_caught
        return text_result("of the first")

    async def second(turn: Turn) -> JsonObject:
        result = stage.server.complete(turn.method, text_result("of the second"), turn.revision)
        await turn.outlet.send(encoded({"jsonrpc": "2.0", "id": turn.request["id"], "result": result}), final=True)
        over.set()
        raise NoAnswer("it was answered by hand, before the first")

    offers = stage.server.offers
    offers.tools.clear()
    for name, run in zip(TWO, (first, second), strict=True):
        offers.add_tool(name, "Says which one it is", run)
    _add_report(stage, "text")


def _add_report(stage: Stage, member: str) -> None:
    async def noted(_: Turn) -> JsonObject:
        return text_result("noted")

    schema: JsonObject = {"type": "object", "properties": {"of": {"type": "string"}, member: {}}, "required": ["of"]}
    stage.server.offers.add_tool("report", "Takes what the client made of something", noted, schema)


# --- subscriptions ----------------------------------------------------------------------------------------------------


def _two_subscriptions(stage: Stage) -> None:
    """A tool that tells of a change in the second of two subscriptions, and not in the first."""

    async def tell(turn: Turn) -> JsonObject:
        listening = [each for each in stage.server.received if each.get("method") == "subscriptions/listen"]
        if len(listening) == 2:
            meta: JsonObject = {SUBSCRIPTION_ID: listening[1]["id"]}
            await turn.notify("notifications/tools/list_changed", {"_meta": meta})
            stage.notes["told"] = True
        return text_result("told")

    stage.server.offers.tools.clear()
    stage.server.offers.add_tool("test_tells_second", "Tells of a change in the second subscription", tell)
    _add_report(stage, "heard")


def _grants_nothing(stage: Stage) -> None:
    """A subscription is acknowledged, and nothing of it granted."""
    server = stage.server

    async def listen(turn: Turn) -> JsonObject:
        meta: JsonObject = {SUBSCRIPTION_ID: turn.request["id"]}
        params: JsonObject = {"notifications": {}, "_meta": meta}
        await turn.notify("notifications/subscriptions/acknowledged", params)
        await trio.sleep_forever()
        raise AssertionError("it ends by cancellation")

    server.handlers["subscriptions/listen"] = listen


def _ends_subscriptions(stage: Stage) -> None:
    """A subscription is acknowledged, and then ended in good order."""
    server = stage.server

    async def listen(turn: Turn) -> JsonObject:
        meta: JsonObject = {SUBSCRIPTION_ID: turn.request["id"]}
        params: JsonObject = {"notifications": turn.params["notifications"], "_meta": meta}
        await turn.notify("notifications/subscriptions/acknowledged", params)
        return {"_meta": meta}

    server.handlers["subscriptions/listen"] = listen


# --- requests of the server that want progress, or are none ------------------------------------------------------------

_SAMPLING: Final[JsonObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say something"}}],
    "maxTokens": 100,
    "_meta": {"progressToken": TOKEN},
}


def _wants_progress(stage: Stage) -> None:
    """A tool asks for a sample, and wants to know how far it is; then for a ping, to see what comes behind the answer."""

    async def ask(turn: Turn) -> JsonObject:
        if not turn.session.has("sampling"):
            return text_result("sampling is not declared")
        stage.notes["asked"] = True
        await turn.ask("sampling/createMessage", _SAMPLING, name="with progress")
        await turn.ask("ping", name="fence")
        return text_result("asked")

    stage.server.offers.add_tool("ask_with_progress", "Asks for a sample, and for progress", ask)


def _no_request(stage: Stage) -> None:
    """A tool sends a request whose method is a number, and an error without an id where that is allowed."""

    async def send(turn: Turn) -> JsonObject:
        odd: JsonObject = {"jsonrpc": "2.0", "id": "odd", "method": 7}
        await turn.ask("ping", name="before")
        await turn.outlet.send(encoded(odd), deviant="a method that is a number")
        stage.notes["sent"] = True
        await turn.ask("ping", name="behind")
        # Last: a client may take it for the answer to its call, and be done.
        if turn.revision in between(R2025_11_25):
            error: JsonObject = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "nothing was understood"}}
            await turn.outlet.send(encoded(error))
        await turn.ask("ping", name="last")
        return text_result("sent")

    stage.server.offers.add_tool("test_no_request", "Sends what is no request", send)


BEARING_SCENARIOS: Final = (
    Scenario(
        name="conformance_rich",
        title="A server that says all that it may: titles, icons, annotations, `_meta` everywhere, progress with a message.",
        prepare=_rich,
        revisions=between(R2025_03_26),
    ),
    Scenario(
        name="conformance_broken_stream",
        title="A tool `test_breaks` whose first call breaks off, and one behind it.",
        prepare=_breaks,
        revisions=_STATEFUL | _MODERN,
        transports=_HTTP,
    ),
    Scenario(
        name="conformance_standing_ends",
        title="A server that ends the first stream that is opened by GET at once.",
        prepare=_standing_ends,
        revisions=_STATEFUL,
        transports=_HTTP,
    ),
    Scenario(
        name="conformance_elsewhere",
        title="A server whose URL has a long path and a query.",
        prepare=_elsewhere,
        revisions=_MODERN,
        transports=_HTTP,
    ),
    Scenario(
        name="conformance_crash",
        title="A tool `test_crashes` by which the server dies while the client listens for changes.",
        prepare=_crashes,
        revisions=_MODERN,
        transports=_STDIO,
    ),
    Scenario(
        name="conformance_crossed",
        title="Two tools that are to be called at once, of which the second is answered first.",
        prepare=_crossed,
        revisions=_MODERN,
        transports=_STDIO,
    ),
    Scenario(
        name="conformance_two_subscriptions",
        title="A tool that tells of a change in the second of two subscriptions.",
        prepare=_two_subscriptions,
        revisions=_MODERN,
        transports=_STDIO,
    ),
    Scenario(
        name="conformance_grants_nothing",
        title="A server that acknowledges subscriptions, and grants nothing of what is wanted.",
        prepare=_grants_nothing,
        revisions=_MODERN,
    ),
    Scenario(
        name="conformance_ends_subscriptions",
        title="A server that acknowledges subscriptions, and ends them at once in good order.",
        prepare=_ends_subscriptions,
        revisions=_MODERN,
    ),
    Scenario(
        name="conformance_progress",
        title="A tool that asks for a sample, and wants to know how far it is.",
        prepare=_wants_progress,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name="conformance_no_request",
        title="A tool that sends a request without a method, and an error without an id where that is allowed.",
        prepare=_no_request,
        revisions=frozenset(LEGACY),
    ),
)
"""They, in order."""
