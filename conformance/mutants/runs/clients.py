"""Puts raw clients with a fault to the test, each in one revision over one transport."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.settings import Settings
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_core.revisions import REVISIONS
from mutants.runs.verdict import PATIENCE, RED, Trial

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_conformance.model.verdict import Run
    from mutants.client_faults.table import ClientFault

__all__ = ["try_client", "try_client_fault"]

_CLIENT: Final = f"{sys.executable} -m mutants.raw_client"
_SETTINGS: Final = Settings(timeout=PATIENCE)
_TOLD: Final = ("initialize", "tools_call", "server-asks")


async def try_client(
    words: str,
    transport: str,
    revisions: Sequence[str],
    chosen: Collection[str] | None = None,
    looked_at: Collection[str] | None = None,
) -> Run:
    """Puts the raw client to the test.

    Args:
        words: What comes first on its command line.
        transport: `http` or `stdio`.
        revisions: In which revisions.
        chosen: The checks that judge; `None`: all.
        looked_at: As in `run_client`.
    """
    client = f"{_CLIENT} {words}"
    command = ClientCommand(
        http=f"{client} --url {{url}}" if transport == "http" else None,
        stdio=f"{client} --start {{command}}" if transport == "stdio" else None,
    )
    spoken = [REVISIONS[name] for name in revisions]
    return await run_client(command, _SETTINGS, revisions=spoken, chosen=chosen, looked_at=looked_at)


async def try_client_fault(fault: ClientFault, *, own: bool = False) -> Trial:
    """Puts the raw client with a fault to the test, and compares with what is meant to see it.

    Args:
        fault: The fault.
        own: Whether only the checks that are meant to see it judge: that is quicker.
    """
    chosen = fault.caught_by if own else None
    red: set[str] = set()
    # Most of what is looked at is said in a few scenarios.
    for looked_at in (_TOLD, None) if own else (None,):
        run = await try_client(f"--fault {fault.name}", fault.transport, [fault.revision], chosen, looked_at)
        red = {verdict.check for verdict in run.verdicts if verdict.outcome in RED}
        red |= {f"not spoken: {lane.refusal}" for lane in run.lanes if lane.refusal is not None}
        if set(fault.caught_by) <= red:
            break
    return Trial.of(fault.name, fault.revision, fault.transport, meant=fault.caught_by, red=red)
