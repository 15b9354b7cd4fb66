"""Scenarios of servers that the client starts: their end, and their standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.stdio_host import Launch
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN

if TYPE_CHECKING:
    import signal

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["STDIO_SCENARIOS"]

_STDIO: Final = frozenset({Transport.STDIO})
_FLOOD: Final = 256 * 1024
"""Bytes written to standard error: more than a pipe holds."""


def _deaf(setup: ScenarioSetup) -> None:
    """Ignore the end of input, but not signals."""

    async def stay(launch: Launch) -> None:
        """Do not exit."""

    setup.stdio.on_input_end = stay


def _stubborn(setup: ScenarioSetup) -> None:
    """Ignore the end of input and signals."""

    async def stay(launch: Launch, number: signal.Signals) -> None:
        """Do not exit."""

    _deaf(setup)
    setup.stdio.on_signal = stay


def _complains(setup: ScenarioSetup) -> None:
    """Write to standard error before anything else, and close it."""

    async def complain(launch: Launch) -> None:
        line = b"ERROR no error occurred, \xff\xfe and this is not UTF-8\n"
        await launch.complain(line * (_FLOOD // len(line) + 1))
        await launch.end_complaints()

    setup.stdio.on_launch = complain


def _prints(setup: ScenarioSetup) -> None:
    """Write a line that is no message to standard output before the result of each call."""
    right = setup.server.handlers["tools/call"]

    async def call(request: ScriptedRequest) -> JsonObject:
        if isinstance(request.sink, Launch):
            await request.sink.write(b"Calling a tool now {\n", deviant="a line that is no message")
        return await right(request)

    setup.server.handlers["tools/call"] = call


STDIO_SCENARIOS: Final = (
    Scenario(
        name="stdio-deaf",
        title="A server that does not exit at the end of its input.",
        prepare=_deaf,
        transports=_STDIO,
    ),
    Scenario(
        name="stdio-stubborn",
        title="A server that exits neither at the end of its input nor at a signal.",
        prepare=_stubborn,
        transports=_STDIO,
    ),
    Scenario(
        name="stdio-complains",
        title="A server that writes more to standard error than a pipe holds, and then closes it.",
        prepare=_complains,
        transports=_STDIO,
    ),
    Scenario(
        name="stdio-prints",
        title="A server that writes a line that is no message to standard output before each result of a call.",
        prepare=_prints,
        # In the other revisions, a client may respond to it.
        revisions=frozenset(MODERN),
        transports=_STDIO,
    ),
)
"""The scenarios, in order."""
