"""Runs of the suite against raw clients with a fault, each in one revision over one transport."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.settings import Settings
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.scoring.attribution import attributed
from mcp_core.revisions import REVISIONS
from mutants.runs.fork_server import peer_command
from mutants.runs.verdict import TIMEOUT, FaultResult, failed_checks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_conformance.model.verdict import Run
    from mutants.client_faults.table import ClientFault

__all__ = ["CLIENT", "try_client", "try_client_fault"]

CLIENT: Final = "mutants.raw_client"
"""The module of the raw client."""
_SETTINGS: Final = Settings(timeout=TIMEOUT)
_REFUSED: Final = "unsupported leg"
_PASSIVE_SCENARIOS: Final = ("initialize", "tools_call", "server-asks")


async def try_client(
    arguments: str,
    transport: str,
    revisions: Sequence[str],
    chosen: Collection[str] | None = None,
    looked_at: Collection[str] | None = None,
) -> Run:
    """Test the raw client.

    Args:
        arguments: The first words of its command line.
        transport: `http` or `stdio`.
        revisions: The revisions.
        chosen: The checks, or `None` for all.
        looked_at: The same as in `run_client`.
    """
    client = f"{shlex.join(peer_command(CLIENT))} {arguments}"
    command = ClientCommand(
        http=f"{client} --url {{url}}" if transport == "http" else None,
        stdio=f"{client} --start {{command}}" if transport == "stdio" else None,
    )
    spoken = [REVISIONS[name] for name in revisions]
    return await run_client(command, _SETTINGS, revisions=spoken, chosen=chosen, looked_at=looked_at)


async def try_client_fault(fault: ClientFault, *, own: bool = False) -> FaultResult:
    """Test the raw client with a fault and compare the failed checks with the expected ones.

    Args:
        fault: The fault.
        own: Run only the checks that must detect the fault, which is faster.
    """
    own = own and bool(fault.caught_by)
    chosen = fault.caught_by if own else None
    expected = {_REFUSED} if fault.refused else set(fault.caught_by)
    failed = findings = frozenset[str]()
    # Passive checks read messages; a few scenarios contain most of them.
    for looked_at in (_PASSIVE_SCENARIOS, None) if own else (None,):
        run = await try_client(f"--fault {fault.name}", fault.transport, [fault.revision], chosen, looked_at)
        refusals = {
            _REFUSED if fault.refused else f"{_REFUSED}: {leg.refusal}" for leg in run.legs if leg.refusal is not None
        }
        failed = failed_checks(run) | refusals
        findings = failed_checks(attributed(run)) | refusals
        if expected <= failed:
            break
    return FaultResult.of(
        fault.name, fault.revision, fault.transport, expected=expected, failed=failed, findings=findings
    )
