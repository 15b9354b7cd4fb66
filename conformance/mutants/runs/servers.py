"""Puts raw servers with a fault to the test, in one revision over each transport in which the fault shows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.server.targets import CommandTarget, started
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Subject, Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.runners.server import run_server
from mcp_core.revisions import REVISIONS
from mutants.runs.verdict import PATIENCE, RED, Trial
from mutants.server_faults.table import FAULTS

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.model.check import Check
    from mutants.server.fault import Row

__all__ = ["TRANSPORTS", "try_fault"]

TRANSPORTS: Final = ("stdio", "http", "http-sse")
"""Over which a raw server without a fault is tried."""

_COMMAND: Final = (sys.executable, "-m", "mutants.raw_server")
_AT: Final = "http://127.0.0.1:{port}"
_KEY: Final = "raw"
_SETTINGS: Final = Settings(
    timeout=PATIENCE,
    headers=(("Authorization", f"Bearer {_KEY}"),),
    other_headers=(("Authorization", f"Bearer other-{_KEY}"),),
)
_TOUR: Final = "schema.tour"


async def try_fault(name: str, transport: str, *, own: bool = False) -> Trial:
    """Puts a raw server with a fault to the test.

    Args:
        name: The fault; empty: none.
        transport: `stdio`, `http` or `http-sse`.
        own: Whether only the checks that are meant to see it judge: that is quicker.
    """
    row: Row | None = FAULTS[name] if name else None
    revision = (row.revisions if row is not None and row.revisions else tuple(REVISIONS))[-1]
    words = [*_COMMAND, *(("--fault", name) if name else ()), *(row.words if row is not None else ())]
    meant = frozenset(check.id for check in _meant(row, transport, revision))
    judges = meant if own and name else frozenset(each.id for each in SERVER_CHECKS)
    looks = any(SERVER_CHECKS[id].subject is Subject.EVIDENCE for id in judges)
    red = await _red(row, words, transport, revision, judges | _speaking(judges, all_=not own))
    if own and looks and meant - red:
        # What they look at was not said on the tour.
        red = await _red(row, words, transport, revision, judges | _speaking(judges, all_=True))
    return Trial.of(name, revision, transport, meant=meant, red=red & judges | {each for each in red if " " in each})


async def _red(row: Row | None, words: list[str], transport: str, revision: str, ids: frozenset[str]) -> frozenset[str]:
    """The checks that fail, of some, and why it cannot be spoken with, in a sentence."""
    chosen = list(REVISIONS.values()) if row is None else [REVISIONS[revision]]
    if transport == "stdio":
        run = await run_server(CommandTarget(words, _SETTINGS), _SETTINGS, Manifest(), revisions=chosen, chosen=ids)
    else:
        command = " ".join([*words, "--port", "{port}", "--key", _KEY])
        sse = f"{_AT}/sse" if transport == "http-sse" else None
        async with started(command, f"{_AT}/mcp", _SETTINGS, sse_url=sse) as target:
            run = await run_server(target, _SETTINGS, Manifest(), revisions=chosen, chosen=ids)
    lanes = [lane for lane in run.lanes if lane.transport == transport]
    verdicts = [verdict for lane in lanes for verdict in run.of(lane) if verdict.outcome in RED]
    refusals = {f"not spoken: {lane.refusal}" for lane in lanes if lane.refusal is not None}
    return frozenset({verdict.check for verdict in verdicts} | refusals)


def _speaking(judges: frozenset[str], *, all_: bool) -> frozenset[str]:
    """What has to be said for those who only look: the tour, what is said of their own areas, and what any client says."""
    areas = {SERVER_CHECKS[id].area for id in judges if SERVER_CHECKS[id].subject is Subject.EVIDENCE}
    if not areas:
        return frozenset()
    return frozenset(each.id for each in SERVER_CHECKS if all_ or each.id == _TOUR or each.area in areas)


def _meant(row: Row | None, transport: str, revision: str) -> list[Check[ServerUnderTest]]:
    """The checks that are meant to see a fault, and run where it is tried."""
    return [
        check
        for check in (SERVER_CHECKS[id] for id in (row.caught_by if row is not None else ()))
        if revision in check.revisions and Transport(transport) in check.transports
    ]
