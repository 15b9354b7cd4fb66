"""Runs of the suite against raw servers with a fault, in one revision over each transport that shows it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.server.targets import CommandTarget, started
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.runners.server import run_server
from mcp_conformance.scoring.attribution import attributed
from mcp_core.revisions import REVISIONS
from mutants.runs.fork_server import peer_command
from mutants.runs.verdict import TIMEOUT, FaultResult, failed_checks
from mutants.server_faults.table import FAULTS

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.model.check import Check
    from mutants.server.fault import Row

__all__ = ["SERVER", "TRANSPORTS", "try_fault"]

SERVER: Final = "mutants.raw_server"
"""The module of the raw server."""

TRANSPORTS: Final = ("stdio", "http", "http-sse")
"""The transports over which a raw server without a fault is tested."""

_AT: Final = "http://127.0.0.1:{port}"
_KEY: Final = "raw"
_SETTINGS: Final = Settings(
    timeout=TIMEOUT,
    headers=(("Authorization", f"Bearer {_KEY}"),),
    other_headers=(("Authorization", f"Bearer other-{_KEY}"),),
)
_TOUR: Final = "schema.tour"


async def try_fault(name: str, transport: str, *, own: bool = False) -> FaultResult:
    """Test a raw server with a fault.

    Args:
        name: The fault, or the empty string.
        transport: `stdio`, `http` or `http-sse`.
        own: Run only the checks that must detect the fault, which is faster.
    """
    row: Row | None = FAULTS[name] if name else None
    revision = (row.revisions if row is not None and row.revisions else tuple(REVISIONS))[-1]
    arguments = [*peer_command(SERVER), *(("--fault", name) if name else ()), *(row.words if row is not None else ())]
    expected = frozenset(check.id for check in _expected(row, transport, revision))
    own = own and bool(expected)
    judges = expected if own else frozenset(each.id for each in SERVER_CHECKS)
    looks = any(SERVER_CHECKS[id].scope is CheckScope.EVIDENCE for id in judges)
    failed, findings = await _failed(row, arguments, transport, revision, judges | _sending(judges, all_=not own))
    if own and looks and expected - failed:
        # The tour of the suite does not contain the messages that these checks read.
        failed, findings = await _failed(row, arguments, transport, revision, judges | _sending(judges, all_=True))
    judged = judges | {each for each in failed if " " in each}
    return FaultResult.of(
        name, revision, transport, expected=expected, failed=failed & judged, findings=findings & judged
    )


async def _failed(
    row: Row | None, arguments: list[str], transport: str, revision: str, ids: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the failed checks, with a sentence for each unsupported leg, and those that reports show as failed."""
    chosen = list(REVISIONS.values()) if row is None else [REVISIONS[revision]]
    if transport == "stdio":
        run = await run_server(CommandTarget(arguments, _SETTINGS), _SETTINGS, Manifest(), revisions=chosen, chosen=ids)
    else:
        command = f"{shlex.join(arguments)} --port {{port}} --key {_KEY}"
        sse = f"{_AT}/sse" if transport == "http-sse" else None
        async with started(command, f"{_AT}/mcp", _SETTINGS, sse_url=sse) as target:
            run = await run_server(target, _SETTINGS, Manifest(), revisions=chosen, chosen=ids)
    legs = [leg for leg in run.legs if leg.transport == transport]
    refusals = {f"unsupported leg: {leg.refusal}" for leg in legs if leg.refusal is not None}
    return failed_checks(run, transport) | refusals, failed_checks(attributed(run), transport) | refusals


def _sending(judges: frozenset[str], *, all_: bool) -> frozenset[str]:
    """Return the checks whose messages passive checks read: the tour, their own areas, and messages of any client."""
    areas = {SERVER_CHECKS[id].area for id in judges if SERVER_CHECKS[id].scope is CheckScope.EVIDENCE}
    if not areas:
        return frozenset()
    return frozenset(each.id for each in SERVER_CHECKS if all_ or each.id == _TOUR or each.area in areas)


def _expected(row: Row | None, transport: str, revision: str) -> list[Check[ServerUnderTest]]:
    """Return the checks that must detect a fault and run in its leg."""
    return [
        check
        for check in (SERVER_CHECKS[id] for id in (row.caught_by if row is not None else ()))
        if revision in check.revisions and Transport(transport) in check.transports
    ]
