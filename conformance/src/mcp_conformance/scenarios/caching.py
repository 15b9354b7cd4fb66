"""Scenarios of the expiry of cached results: changes, time, invalid cursors (2026-07-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import ErrorReply
from mcp_conformance.scenarios.fetches import FRESH
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN
from mcp_core.types.meta import SUBSCRIPTION_ID

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "CHANGES",
    "CURSORS",
    "FRESHNESS",
    "FRESH_SCENARIOS",
    "IDLE",
    "MORE_TOOLS",
    "MRTR_RESOURCE",
    "PLAIN",
    "UPDATED",
]

FRESHNESS: Final = "conformance_freshness"
"""The name of the scenario."""
CHANGES: Final = "test_changes"
"""The tool that notifies of a change of the list of tools, or of prompts, or of a resource, as the client has subscribed."""
IDLE: Final = "test_takes_long"
"""The tool during which the client is idle for longer than some results are valid."""
MRTR_RESOURCE: Final = "test://asks-first"
"""The resource that needs a round trip before it is read."""
UPDATED: Final = "test://updated"
"""The resource that changes; the note of its first notification has the id of the call."""
PLAIN: Final = "test://static-text"
"""A resource that must not be cached."""
MORE_TOOLS: Final = "the second page of tools"
"""The cursor of the list of tools. Both pages are valid for an hour."""
CURSORS: Final = ("the second page", "the second page, replaced")
"""The cursors of the list of prompts: the first becomes invalid at its third use, the second replaces it."""

_SHORT: Final = 100
"""The `ttlMs` of a result that expires soon."""
_LONG: Final = 0.3
"""Seconds in which that result expires several times."""
_PAUSE: Final = 0.2
"""Seconds between a notification and a response, which take different connections over HTTP and may pass each other."""


def _freshness(setup: ScenarioSetup) -> None:
    """Set up all parts of the scenario."""
    _changing_tools(setup)
    _paged_prompts(setup)
    _mrtr_resource(setup)
    handlers = setup.server.handlers
    listed = handlers["resources/list"]

    async def resources(request: ScriptedRequest) -> JsonObject:
        return {**await listed(request), "ttlMs": _SHORT}

    handlers["resources/list"] = resources


def _changing_tools(setup: ScenarioSetup) -> None:
    """Serve two pages of tools that are valid for an hour, a tool that notifies of a change, and a slow tool."""
    server = setup.server
    open_now: list[ScriptedRequest] = []

    async def listed(request: ScriptedRequest) -> JsonObject:
        # The scenario needs none of the tools on the second page.
        *further, change, idle = server.offers.tools
        if request.params.get("cursor") is None:
            return {"tools": [change, idle], "nextCursor": MORE_TOOLS, "ttlMs": FRESH}
        if request.params["cursor"] != MORE_TOOLS:
            raise ErrorReply(-32602, "unknown cursor")
        return {"tools": [*further], "ttlMs": FRESH}

    async def change(request: ScriptedRequest) -> JsonObject:
        id = request.message["id"]
        for listener in open_now:
            params: JsonObject = {"_meta": {SUBSCRIPTION_ID: listener.message["id"]}}
            wanted = listener.subscription_filter()
            for kind in ("tools", "prompts"):
                if wanted.get(f"{kind}ListChanged") is True:
                    setup.notes.setdefault(f"changed {kind}", id)
                    await listener.notify(f"notifications/{kind}/list_changed", params)
            uris = wanted.get("resourceSubscriptions")
            if isinstance(uris, list) and UPDATED in uris:
                setup.notes.setdefault(UPDATED, id)
                await listener.notify("notifications/resources/updated", {**params, "uri": UPDATED})
        await trio.sleep(_PAUSE)
        return text_result("changed")

    async def take_long(_: ScriptedRequest) -> JsonObject:
        await trio.sleep(_LONG)
        return text_result("the slow tool has finished")

    listen = server.handlers["subscriptions/listen"]

    async def listening(request: ScriptedRequest) -> JsonObject:
        open_now.append(request)
        try:
            return await listen(request)
        finally:
            open_now.remove(request)

    server.handlers["tools/list"] = listed
    server.handlers["subscriptions/listen"] = listening
    server.offers.add_tool(CHANGES, "Notifies of a change of the lists of which the client wants to know", change)
    server.offers.add_tool(IDLE, "Takes longer than some results are valid", take_long)


def _paged_prompts(setup: ScenarioSetup) -> None:
    """Serve two pages, of which only the first may be cached. At last its cursor becomes invalid."""
    server = setup.server
    prompts = server.offers.prompts

    async def page(request: ScriptedRequest) -> JsonObject:
        cursor = request.params.get("cursor")
        uses = sum(_cursor(each) == CURSORS[0] for each in server.received if each.get("method") == "prompts/list")
        over = uses >= 3
        if cursor is None:
            return {"prompts": [*prompts[:1]], "nextCursor": CURSORS[over], "ttlMs": FRESH}
        if cursor not in CURSORS or (cursor == CURSORS[0] and over):
            raise ErrorReply(-32602, "the cursor is not valid now")
        return {"prompts": [*prompts[1:]], "ttlMs": 0}

    server.handlers["prompts/list"] = page


def _cursor(message: JsonObject) -> object:
    params = message.get("params")
    return params.get("cursor") if isinstance(params, dict) else None


def _mrtr_resource(setup: ScenarioSetup) -> None:
    """Serve a resource that needs a round trip, and another one; both are then valid for an hour."""
    server = setup.server
    for uri in (MRTR_RESOURCE, UPDATED):
        server.offers.resources.append({"uri": uri, "name": uri.rpartition("/")[2]})
        server.offers.texts[uri] = f"the text of {uri}"
    right = server.handlers["resources/read"]

    async def read(request: ScriptedRequest) -> JsonObject:
        if request.params.get("uri") == UPDATED:
            return {**await right(request), "ttlMs": FRESH}
        if request.params.get("uri") != MRTR_RESOURCE:
            return await right(request)
        if "requestState" not in request.params:
            return {"resultType": "input_required", "requestState": "half read"}
        return {**await right(request), "ttlMs": FRESH}

    server.handlers["resources/read"] = read


FRESH_SCENARIOS: Final = (
    Scenario(
        name=FRESHNESS,
        title="Lists and resources that are valid for a limited time, and the events that end it.",
        prepare=_freshness,
        revisions=frozenset(MODERN),
    ),
)
"""The scenarios, in order."""
