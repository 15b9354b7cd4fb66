"""Scenarios of pagination, with pages of different lengths and opaque cursors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.http_host import Stream
from mcp_conformance.drivers.client.scripted_request import ErrorReply, encoded, notification
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, R2025_03_26, Era, between

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = [
    "ANNOUNCED",
    "CACHED_CURSOR",
    "CACHED_LIST",
    "FIRST_HEADER",
    "FIRST_TOOL",
    "LAST_ARGUMENT",
    "LAST_HEADER",
    "LAST_TOOL",
    "LISTS",
    "LOST_SESSION",
    "PAGE_SCENARIOS",
    "STANDALONE",
    "cursors",
]

LOST_SESSION: Final = "conformance_pages_lost_session"
"""The scenario in which a session is lost between two pages."""

LAST_TOOL: Final = "tool_6"
"""The tool on the last page, which has a header parameter on 2026-07-28."""
LAST_ARGUMENT: Final = "n"
"""The argument of this tool."""
LAST_HEADER: Final = "Last-Page"
"""The header of this argument."""
FIRST_TOOL: Final = "test_simple_text"
"""A tool on the first page, which has a parameter of the same name with another header on 2026-07-28."""
FIRST_HEADER: Final = "First-Page"
"""The header of its argument."""
CACHED_LIST: Final = "prompts/list"
"""The list with a page that a client may cache (2026-07-28)."""
CACHED_CURSOR: Final = 2
"""The index of the cursor of this page, which is neither short nor the last."""
_HOUR: Final = 3_600_000
"""The `ttlMs` of this page."""
ANNOUNCED: Final = "announced"
"""The note of the notification that the list of tools has changed: the id of the call before it."""
STANDALONE: Final = "standalone"
"""The note whether the client has kept its standalone stream open until the call of a tool; absent without one."""
_CHANGED: Final = "notifications/tools/list_changed"
LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The paginated methods, and the member of the result that contains the entries."""
_ODD: Final = (
    '{{"page": 2, "of": "{}"}}',
    " a b&c=d#/+%20{} ",
    "{}\u00fcu\u0308\u2028\U0001f9ea==",
    f"{{}}{'0123456789abcdef' * 200}",
)
"""Cursors with a place for the method, so that those of two lists differ. The last one is long."""
_LENGTHS: Final = (2, 0, 0, 3, 1, 1)
"""The lengths of the pages except the last one: two are empty, and some are shorter than the first or the one before."""


def cursors(method: str, era: Era) -> list[str]:
    """Return the cursors of a list, in order. In the modern era the first one is empty, which is valid."""
    # The last one consists of digits, as many as the number of the list.
    digits = "0" * (list(LISTS).index(method) + 1)
    mine = [*(each.format(method) for each in _ODD), digits]
    return ["", *mine] if era is Era.MODERN else mine


def _in_pages(method: str, entries: list[JsonObject], era: Era) -> Handler:
    given = cursors(method, era)
    starts: dict[str | None, int] = dict(zip([None, *given], range(len(given) + 1), strict=True))

    async def page(request: ScriptedRequest) -> JsonObject:
        cursor = request.params.get("cursor")
        if not (cursor is None or isinstance(cursor, str)) or cursor not in starts:
            raise ErrorReply(-32602, "unknown cursor")
        number = starts[cursor]
        at = sum(_LENGTHS[:number])
        last = number == len(given)
        result: JsonObject = {LISTS[method]: [*entries[at : None if last else at + _LENGTHS[number]]]}
        return result if last else {**result, "nextCursor": given[number]}

    return page


def _pages(setup: ScenarioSetup) -> None:
    """Serve all lists in pages. In legacy revisions, the first call of the tool on the last page announces a changed list.

    Over Streamable HTTP it does so on the standalone stream, if the client has opened one.
    """
    server, era = setup.server, setup.revision.era
    offers = server.offers
    say = offers.calls["test_simple_text"]

    async def announce(request: ScriptedRequest) -> JsonObject:
        sink = request.session.standalone_sink
        if isinstance(sink, Stream):
            setup.notes[STANDALONE] = sink.is_connected
        if ANNOUNCED not in setup.notes and sink is not None:
            setup.notes[ANNOUNCED] = request.message["id"]
            await sink.send(encoded(notification(_CHANGED, None, request.revision, "")))
        return await say(request)

    for number in range(7):
        offers.add_tool(f"tool_{number}", "Returns a text", say)
        offers.resources.append({"uri": f"test://static/{number}", "name": f"static {number}"})
        offers.texts[f"test://static/{number}"] = f"text {number}"
        offers.prompts.append({"name": f"prompt_{number}"})
        offers.messages[f"prompt_{number}"] = offers.messages["test_simple_prompt"]
        offers.templates.append({"uriTemplate": f"test://template/{number}-{{id}}/data", "name": f"template {number}"})
    if era is Era.LEGACY:
        offers.calls[LAST_TOOL] = announce
    listed = {
        "tools/list": offers.tools,
        "resources/list": offers.resources,
        "resources/templates/list": offers.templates,
        "prompts/list": offers.prompts,
    }
    for method, entries in listed.items():
        server.handlers[method] = _in_pages(method, entries, era)
    if era is Era.MODERN:
        for entry in offers.tools:
            header = {FIRST_TOOL: FIRST_HEADER, LAST_TOOL: LAST_HEADER}.get(str(entry["name"]))
            if header is not None:
                annotation: JsonObject = {"type": "integer", "default": 7, "x-mcp-header": header}
                properties: JsonObject = {LAST_ARGUMENT: annotation}
                entry["inputSchema"] = {"type": "object", "properties": properties, "required": [LAST_ARGUMENT]}
        server.handlers[CACHED_LIST] = _cached(server.handlers[CACHED_LIST], cursors(CACHED_LIST, era)[CACHED_CURSOR])


def _cached(right: Handler, cursor: str) -> Handler:
    """Return a handler of a list of which one page is valid for an hour."""

    async def page(request: ScriptedRequest) -> JsonObject:
        result = await right(request)
        return {**result, "ttlMs": _HOUR} if request.params.get("cursor") == cursor else result

    return page


def _lost_session(setup: ScenarioSetup) -> None:
    """Serve all lists in pages, and forget the session at the first request with a cursor."""
    _pages(setup)

    async def forget(exchange: HttpExchange) -> bool:
        params = exchange.message.get("params")
        if isinstance(params, dict) and "cursor" in params and not setup.notes:
            setup.notes["lost"] = setup.server.sessions[-1].id
            setup.http.lose(setup.server.sessions[-1])
        return False

    setup.http.before = forget


PAGE_SCENARIOS: Final = (
    Scenario(
        name="conformance_pages",
        title="Lists in pages of different lengths, some of them empty, with arbitrary characters in cursors. A legacy server announces a changed list of tools.",
        prepare=_pages,
    ),
    Scenario(
        name=LOST_SESSION,
        title="Lists in pages, and a server that forgets the session at the first request with a cursor.",
        prepare=_lost_session,
        revisions=frozenset(LEGACY) & between(R2025_03_26),
        transports=frozenset({Transport.HTTP}),
    ),
)
"""The scenarios, in order."""
