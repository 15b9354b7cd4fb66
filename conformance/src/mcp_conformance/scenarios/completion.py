"""Scenario of completions without optional members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["CHOSEN", "COMPLETES", "COMPLETION_SCENARIOS"]

COMPLETES: Final = "conformance_completes"
"""The name of the scenario."""
CHOSEN: Final = "the only value"
"""The only value of the first argument."""


def _completes(setup: ScenarioSetup) -> None:
    """Complete the first argument with one value, the second with none, without a total."""

    async def complete(request: ScriptedRequest) -> JsonObject:
        argument = request.params.get("argument")
        first = isinstance(argument, dict) and argument.get("name") == "arg1"
        return {"completion": {"values": [CHOSEN] if first else []}}

    setup.server.handlers["completion/complete"] = complete


COMPLETION_SCENARIOS: Final = (
    Scenario(
        name=COMPLETES,
        title="Completions with one value or none, without a total.",
        prepare=_completes,
    ),
)
"""The scenarios, in order."""
