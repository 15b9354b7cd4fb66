"""A scenario of one tool that is called twice at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.http_host import PostSink
from mcp_conformance.scenarios.client_request_tools import declares
from mcp_conformance.scenarios.mrtr import KINDS
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["CALLED_TWICE", "CONCURRENT_SCENARIOS", "ENDED", "STATE_OF_CALL", "TWICE"]

CALLED_TWICE: Final = "conformance_called_twice"
"""The name of the scenario."""
ENDED: Final = "ended"
"""The beginning of the notes of the ends of the streams of the calls."""
TWICE: Final = "test_called_twice"
"""The tool."""
STATE_OF_CALL: Final[Mapping[str, str]] = {"first": "the state of the first call", "second": "that of the second"}
"""The `requestState` of each call, by its argument `name` (2026-07-28)."""
_RETRY: Final = 20
"""Milliseconds before the client resumes a stream."""
_NAMED: Final[JsonObject] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "first or second"}},
    "required": ["name"],
}


def _called_twice(setup: ScenarioSetup) -> None:
    """Offer a tool that responds to two calls when both have arrived: on 2026-07-28 with an input request and a state each.

    Before that, streams that the client can resume end.
    """
    arrived: set[str] = set()
    both = trio.Event()

    async def respond(request: ScriptedRequest) -> JsonObject:
        arguments = request.params.get("arguments")
        name = arguments.get("name") if isinstance(arguments, dict) else None
        if not isinstance(name, str) or name not in STATE_OF_CALL or "inputResponses" in request.params:
            return text_result("called")
        arrived.add(name)
        if len(arrived) == len(STATE_OF_CALL):
            both.set()
        with trio.move_on_after(setup.timeout / 2):
            await both.wait()
        await _break_off(setup, request)
        needs = {"elicitation": "elicitation.form"}
        kind = next((each for each in KINDS if declares(request.session, needs.get(each, each))), None)
        if request.revision.era is Era.LEGACY or kind is None:
            return text_result(f"the {name} call")
        requests: JsonObject = {f"of the {name} call": KINDS[kind]}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": STATE_OF_CALL[name]}

    setup.server.offers.tools.clear()
    setup.server.offers.add_tool(TWICE, "Responds to two calls at once", respond, _NAMED)


async def _break_off(setup: ScenarioSetup, request: ScriptedRequest) -> None:
    """End the stream of a call, and wait until the client resumes it."""
    sink = request.sink
    if not request.revision.priming_event or not isinstance(sink, PostSink):
        return
    await sink.open()
    stream = sink.stream
    entry: JsonObject = {"after": sink.exchange.number, "last_id": stream.id(len(stream.events) - 1)}
    # Before it: on a slow machine the client may have read the end before this task continues.
    setup.notes[f"{ENDED} {stream.key}"] = entry
    await stream.pause(_RETRY)
    with trio.move_on_after(setup.timeout):
        await stream.resumed.wait()


CONCURRENT_SCENARIOS: Final = (
    Scenario(
        name=CALLED_TWICE,
        title="A tool that must be called twice concurrently, and responds when both calls have arrived.",
        prepare=_called_twice,
    ),
)
"""The scenarios, in order."""
