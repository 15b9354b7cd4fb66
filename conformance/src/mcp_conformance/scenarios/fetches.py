"""Scenarios of URLs that clients must not fetch, and of results that clients may cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result, tool
from mcp_conformance.drivers.client.scripted_request import RawReply, encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.client_request_table import ODD_ID
from mcp_conformance.scenarios.icons import add_icons
from mcp_conformance.scenarios.reached_host import origin_of
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN, R2025_11_25, Era, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ACCESS_SCENARIOS", "ENDLESS", "FRESH", "OTHERS", "PAGE", "SCHEMA"]

PAGE: Final = "/not-to-be-fetched/page"
"""The path of a page that the user is asked to visit."""
SCHEMA: Final = "/not-to-be-fetched/schema.json"
"""The path of a schema that another schema refers to."""
FRESH: Final = 3_600_000
"""The `ttlMs` of a result that is valid for longer than a run."""
OTHERS: Final = ("test://other/text", "test://other/Text")
"""Two resources that may be cached. The case of a path is significant."""
ENDLESS: Final = 2**53 - 1
"""The greatest `ttlMs` that every client can read exactly: 285,000 years."""


def _urls(setup: ScenarioSetup) -> None:
    """Offer icons, schemas and a page whose fetch is noticed."""
    offers = setup.server.offers

    async def listed(request: ScriptedRequest) -> JsonObject:
        odd: JsonObject = {"type": "object", "properties": {"n": {"$ref": f"{origin_of(request)}{SCHEMA}"}}}
        referring = {**tool("gives_referred", "Its schema refers to a URL"), "outputSchema": odd}
        return {"tools": [*offers.tools, referring]}

    async def referred(_: ScriptedRequest) -> JsonObject:
        return {**text_result('{"n": 1}'), "structuredContent": {"n": 1}}

    async def visit(request: ScriptedRequest) -> JsonObject:
        if not request.session.has("elicitation.url") or "inputResponses" in request.params:
            return text_result("visited, or not")
        params: JsonObject = {"mode": "url", "message": "Please look.", "url": f"{origin_of(request)}{PAGE}"}
        setup.notes["visit"] = True
        if request.revision.era is Era.MODERN:
            input_request: JsonObject = {"method": "elicitation/create", "params": params}
            return {"resultType": "input_required", "inputRequests": {"visit": input_request}}
        await request.send_client_request("elicitation/create", {**params, "elicitationId": ODD_ID})
        return text_result("visited, or not")

    setup.server.handlers["tools/list"] = listed
    offers.calls["gives_referred"] = referred
    offers.add_tool("sends_to_page", "Requests a visit to a page", visit)
    add_icons(setup)


def _caching(setup: ScenarioSetup) -> None:
    """Serve lists that are valid for long or not at all, or whose `ttlMs` is missing or negative."""
    server = setup.server
    for uri in OTHERS:
        server.offers.resources.append({"uri": uri, "name": uri.rpartition("/")[2]})
        server.offers.texts[uri] = f"the text of {uri}"
    held: dict[str, JsonObject] = {
        "tools/list": {"ttlMs": ENDLESS},
        "prompts/list": {"ttlMs": 0},
        "resources/read": {"ttlMs": FRESH},
    }
    for method, more in held.items():
        right = server.handlers[method]

        async def holding(request: ScriptedRequest, right: Handler = right, more: JsonObject = more) -> JsonObject:
            return {**await right(request), **more}

        server.handlers[method] = holding
    odd: dict[str, JsonObject] = {"resources/list": {}, "resources/templates/list": {"ttlMs": -1}}
    for method, more in odd.items():
        right = server.handlers[method]

        async def oddly(request: ScriptedRequest, right: Handler = right, more: JsonObject = more) -> JsonObject:
            result = server.complete(request.method, await right(request), request.revision)
            del result["ttlMs"]
            whole: JsonObject = {"jsonrpc": "2.0", "id": request.message["id"], "result": {**result, **more}}
            raise RawReply(encoded(whole), "a result without ttlMs, or with a negative one")

        server.handlers[method] = oddly


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

ACCESS_SCENARIOS: Final = (
    Scenario(
        name="conformance_urls",
        title="Icons, schemas and a page, none of which may be fetched; the user does not consent.",
        prepare=_urls,
        revisions=between(R2025_11_25),
        transports=frozenset({Transport.HTTP}),
        context={"access_tokens": ["access-token-for-the-server-only"]},
    ),
    Scenario(
        name="conformance_caching",
        title="Lists that are valid for an hour or not at all; the client must read each twice, and three resources.",
        prepare=_caching,
        revisions=frozenset(MODERN),
    ),
)
"""The scenarios, in order."""
