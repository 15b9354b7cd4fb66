"""Completions that say as little as they may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import Turn
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["CHOSEN", "COMPLETES", "COMPLETION_SCENARIOS"]

COMPLETES: Final = "conformance_completes"
"""The name of the scenario."""
CHOSEN: Final = "the only value"
"""What the first argument can be."""


def _completes(stage: Stage) -> None:
    """The first argument can have one value, the second none; how many there are is not said."""

    async def complete(turn: Turn) -> JsonObject:
        argument = turn.params.get("argument")
        first = isinstance(argument, dict) and argument.get("name") == "arg1"
        return {"completion": {"values": [CHOSEN] if first else []}}

    stage.server.handlers["completion/complete"] = complete


COMPLETION_SCENARIOS: Final = (
    Scenario(
        name=COMPLETES,
        title="Completions with one value or none, that do not say how many there are.",
        prepare=_completes,
    ),
)
"""They, in order."""
