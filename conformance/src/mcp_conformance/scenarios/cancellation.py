"""Requests that are given up, by either side, and batches of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.scenarios.client_request_table import by_name
from mcp_conformance.scenarios.client_request_tools import declares
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, R2025_03_26, Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import Turn
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["BATCHED", "CANCELLED", "CANCEL_SCENARIOS", "WAITING"]

WAITING: Final = "test_waits"
"""The tool that never comes to an end."""
CANCELLED: Final = "test_gives_up"
"""The tool that asks, and gives up what it asked."""
BATCHED: Final = "test_batches"
"""The tool that asks in batches."""


def _client_cancels(stage: Stage) -> None:
    """A tool that never ends, and answers all the same when it is given up."""

    async def wait(turn: Turn) -> JsonObject:
        stage.notes["id"] = turn.request["id"]
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            # By this is seen later that it was given up before the client went away altogether.
            stage.notes["received"] = len(stage.server.received)
            if turn.revision.era is Era.LEGACY or not turn.revision.disconnect_cancels:
                result = stage.server.complete("tools/call", text_result("too late"), turn.revision)
                late: JsonObject = {"jsonrpc": "2.0", "id": turn.request["id"], "result": result}
                with trio.CancelScope(shield=True):
                    await turn.outlet.send(encoded(late), final=True, deviant="a response to what was cancelled")
            raise
        raise AssertionError("it ends by cancellation")

    stage.server.offers.add_tool(WAITING, "Never ends; to be given up", wait)


def _server_cancels(stage: Stage) -> None:
    """A tool that asks for a form, gives it up, and asks for a ping to see what came before."""
    question = (
        by_name("ask_form")[0] if stage.revision in by_name("ask_form")[0].revisions else by_name("ask_sample")[0]
    )

    async def give_up(turn: Turn) -> JsonObject:
        if not declares(turn.session, question.needs):
            return text_result(f"{question.needs} is not declared")
        id: JsonValue = "to be given up"
        asked: JsonObject = {"jsonrpc": "2.0", "id": id, "method": question.method}
        if question.params is not None:
            asked["params"] = question.params
        await turn.outlet.send(encoded(asked))
        await turn.ask("ping", name="before")
        await turn.notify("notifications/cancelled", {"requestId": id, "reason": "nobody wants it any more"})
        await turn.ask("ping", name="behind")
        await turn.notify("notifications/cancelled", {"requestId": "never was"}, deviant="an id that never was")
        await turn.notify("notifications/cancelled", {"requestId": id}, deviant="an id that was cancelled before")
        await turn.notify("notifications/cancelled", {"reason": 7}, deviant="a cancellation of nothing")
        await turn.ask("ping", name="fence")
        return text_result("given up")

    stage.server.offers.add_tool(CANCELLED, "Asks, and gives up what it asked", give_up)


def _batches(stage: Stage) -> None:
    """A tool that asks for two pings and an unknown method in one array."""

    async def batch(turn: Turn) -> JsonObject:
        array: list[JsonValue] = [
            {"jsonrpc": "2.0", "id": "ping 1", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "noted"}},
            {"jsonrpc": "2.0", "id": "unknown", "method": "conformance/does-not-exist"},
            {"jsonrpc": "2.0", "id": "ping 2", "method": "ping"},
        ]
        await turn.outlet.send(encoded(array))
        await turn.ask("ping", name="behind")
        return text_result("batched")

    stage.server.offers.add_tool(BATCHED, "Asks in batches", batch)


CANCEL_SCENARIOS: Final = (
    Scenario(
        name="conformance_cancel",
        title="A tool `test_waits` that never ends: the client is to give it up, and to call the others after that.",
        prepare=_client_cancels,
    ),
    Scenario(
        name="conformance_server_cancels",
        title="A tool that asks for a form or a sample and gives it up; the user is to take for ever to answer.",
        prepare=_server_cancels,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name="conformance_batches",
        title="A tool that asks the client in batches.",
        prepare=_batches,
        revisions=frozenset({R2025_03_26}),
    ),
)
"""They, in order."""
