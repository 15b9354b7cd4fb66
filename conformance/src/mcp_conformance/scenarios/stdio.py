"""What clients meet when they start their server: how it ends, and what else it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.scenario import Scenario

if TYPE_CHECKING:
    import signal

    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_conformance.scenarios.scenario import Stage

__all__ = ["STDIO_SCENARIOS"]

_STDIO: Final = frozenset({Transport.STDIO})
_FLOOD: Final = 256 * 1024
"""Bytes to standard error: more than any pipe holds."""


def _deaf(stage: Stage) -> None:
    """The server takes no notice of the end of its input, but of signals."""

    async def stay(launch: Launch) -> None:
        """Stay."""

    stage.stdio.on_input_end = stay


def _stubborn(stage: Stage) -> None:
    """The server takes no notice of anything."""

    async def stay(launch: Launch, number: signal.Signals) -> None:
        """Stay."""

    _deaf(stage)
    stage.stdio.on_signal = stay


def _complains(stage: Stage) -> None:
    """The server writes much to standard error before it does anything."""

    async def complain(launch: Launch) -> None:
        line = b"ERROR everything is as it should be, \xff\xfe and this is no UTF-8\n"
        await launch.complain(line * (_FLOOD // len(line) + 1))

    stage.stdio.on_launch = complain


STDIO_SCENARIOS: Final = (
    Scenario(
        name="stdio-deaf",
        title="A server that does not end when its input ends.",
        prepare=_deaf,
        transports=_STDIO,
    ),
    Scenario(
        name="stdio-stubborn",
        title="A server that ends neither when its input ends nor when it is asked to.",
        prepare=_stubborn,
        transports=_STDIO,
    ),
    Scenario(
        name="stdio-complains",
        title="A server that writes more to standard error than a pipe holds.",
        prepare=_complains,
        transports=_STDIO,
    ),
)
"""They, in order."""
