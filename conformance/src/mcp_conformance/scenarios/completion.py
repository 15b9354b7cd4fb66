"""Scenarios of completions without optional members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.scripted_request import NoReply, encoded
from mcp_conformance.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["AT_ONCE", "CHOSEN", "COMPLETES", "COMPLETES_AT_ONCE", "COMPLETION_SCENARIOS"]

COMPLETES: Final = "conformance_completes"
"""The name of the scenario."""
COMPLETES_AT_ONCE: Final = "conformance_completes_at_once"
"""The name of the scenario with concurrent completions."""
AT_ONCE: Final = "at once"
"""The note that the completion of the first argument was in progress at the response to that of the second."""
CHOSEN: Final = "the only value"
"""The only value of the first argument."""


def _completes(setup: ScenarioSetup) -> None:
    """Complete the first argument with one value, the second with none, without a total."""

    async def complete(request: ScriptedRequest) -> JsonObject:
        argument = request.params.get("argument")
        first = isinstance(argument, dict) and argument.get("name") == "arg1"
        return {"completion": {"values": [CHOSEN] if first else []}}

    setup.server.handlers["completion/complete"] = complete


_TOGETHER: Final = 0.2
"""Seconds in which the second of two concurrent completions arrives."""


def _completes_at_once(setup: ScenarioSetup) -> None:
    """Complete both arguments without values or a total, the first one after the second."""
    over = trio.Event()
    begun: list[JsonObject] = []

    async def complete(request: ScriptedRequest) -> JsonObject:
        argument = request.params.get("argument")
        empty: JsonObject = {"completion": {"values": []}}
        if isinstance(argument, dict) and argument.get("name") == "arg1" and not begun:
            begun.append(request.message)
            with trio.move_on_after(_TOGETHER):
                await over.wait()
            begun.clear()
        elif begun and not over.is_set():
            result = setup.server.complete(request.method, empty, request.revision)
            message: JsonObject = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
            await request.sink.send(encoded(message), final=True)
            setup.notes[AT_ONCE] = True
            over.set()
            raise NoReply("the response was sent before that of the first completion")
        return empty

    setup.server.handlers["completion/complete"] = complete


COMPLETION_SCENARIOS: Final = (
    Scenario(
        name=COMPLETES,
        title="Completions with one value or none, without a total.",
        prepare=_completes,
    ),
    Scenario(
        name=COMPLETES_AT_ONCE,
        title="Two completions that must be requested concurrently, without values or a total; the second responds first.",
        prepare=_completes_at_once,
    ),
)
"""The scenarios, in order."""
