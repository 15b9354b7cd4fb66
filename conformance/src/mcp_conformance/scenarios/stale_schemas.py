"""Scenarios of header parameters with an outdated or unknown schema (2026-07-28).

Spec: basic/transports/streamable-http
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result, tool
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "CHANGED_SCENARIOS",
    "EAGER",
    "EAGER_HEADER",
    "MOVED",
    "OLD_AND_NEW",
    "OTHER",
    "PAGE_OF_MOVED",
    "REPAIRED",
    "UNLISTED",
]

MOVED: Final = "test_moved_header"
"""The tool whose annotation changes after it was listed."""
PAGE_OF_MOVED: Final = "the page of the moved header"
"""The cursor of the page with this tool in all lists but the first, which has one page."""
OLD_AND_NEW: Final = ("Old-Region", "New-Region")
"""The header before and after the change."""
EAGER: Final = "eager"
"""Its boolean argument."""
EAGER_HEADER: Final = "Eager"
"""The header of that argument, which does not change."""
OTHER: Final = "test_simple_text"
"""The tool without a header, listed after all others."""
REPAIRED: Final = "test_repaired_header"
"""The tool whose annotation is invalid in the first list, and valid in all later ones."""
UNLISTED: Final = "test_not_listed"
"""The tool that is called before it is listed."""


def _schema(header: str, **more: JsonObject) -> JsonObject:
    region: JsonObject = {"type": "string", "default": "eu", "x-mcp-header": header}
    return {"type": "object", "properties": {"region": region, **more}, "required": ["region", *more]}


def _with_boolean(header: str) -> JsonObject:
    """Return the schema with another parameter, whose header does not change."""
    eager: JsonObject = {"type": "boolean", "default": True, "x-mcp-header": EAGER_HEADER}
    return _schema(header, **{EAGER: eager})


async def _done(_: ScriptedRequest) -> JsonObject:
    return text_result("done")


def _moves(setup: ScenarioSetup) -> None:
    """Change the annotation after the first `tools/list`, and reject calls by the old one. Repair that of another tool.

    Each later list has two pages, the first without the tool.
    """
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    offers.add_tool(MOVED, "Has a header", _done, _with_boolean(OLD_AND_NEW[0]))
    offers.add_tool(REPAIRED, "Has a header", _done, _schema(""))
    # Called after the rejected call, in case the client does not repeat that call.
    offers.add_tool(OTHER, "Returns a text", _done)
    right = setup.server.handlers["tools/list"]
    served: list[JsonObject] = []

    async def listed(request: ScriptedRequest) -> JsonObject:
        if request.params.get("cursor") == PAGE_OF_MOVED:
            return {"tools": [offers.tools[0]]}
        if served:
            return {"tools": [*offers.tools[1:]], "nextCursor": PAGE_OF_MOVED}
        served.append(await right(request))
        offers.tools[0] = tool(MOVED, "Has a header", _with_boolean(OLD_AND_NEW[1]))
        offers.tools[1] = tool(REPAIRED, "Has a header", _schema("Repaired-Region"))
        return served[0]

    setup.server.handlers["tools/list"] = listed


def _unlisted(setup: ScenarioSetup) -> None:
    """Add a tool with an annotation that the client does not know yet."""
    setup.server.offers.add_tool(UNLISTED, "Has a header", _done, _schema(OLD_AND_NEW[0]))


CHANGED_SCENARIOS: Final = (
    Scenario(
        name="conformance_header_moves",
        title="Two tools whose header annotations change after they were listed: one is invalid at first. Later lists have two pages.",
        prepare=_moves,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
    ),
    Scenario(
        name="conformance_call_unlisted",
        title="A tool with a header annotation; the context states a call to send before anything is listed.",
        prepare=_unlisted,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
        context={"toolCalls": [{"name": UNLISTED, "arguments": {"region": "eu"}}]},
    ),
)
"""The scenarios, in order."""
