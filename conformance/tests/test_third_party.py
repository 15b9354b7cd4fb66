"""Tests of the checks with a third party, of single-use states and of validators, with the servers of this project."""

from __future__ import annotations

import sys
from typing import Final

import pytest
from program_path import PROGRAM_PATH

from mcp_conformance.drivers.server.protected_target import started_protected
from mcp_conformance.drivers.server.targets import CommandTarget
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Outcome, Run
from mcp_conformance.runners.server import run_server
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import REVISIONS
from mutants.auth.protected_server_faults import try_protected

_SETTINGS: Final = Settings(timeout=10.0)
_PROTECTED: Final = f"{sys.executable} -m protected --port {{port}} --issuer {{issuer}} --resource {{resource}}"
_AT: Final = "http://localhost:{port}/mcp"
_PAGES: Final = (
    "auth.server-no-passthrough",
    "elicitation.third-party-credentials",
    "elicitation.third-party-hidden",
    "elicitation.url-anonymous",
    "elicitation.url-other-user",
    "elicitation.url-tampered",
)


@pytest.fixture(autouse=True)
def _find_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


def _outcomes(run: Run) -> dict[str, Outcome]:
    return {verdict.check: verdict.outcome for verdict in run.verdicts}


@pytest.mark.spec(
    "elicitation.no-client-credentials-upstream",
    "elicitation.no-token-passthrough",
    "elicitation.phishing-verify-user",
    "elicitation.same-user-completes",
    "elicitation.tamper-resilient",
    "elicitation.third-party-credentials-hidden",
    "elicitation.third-party-credentials-not-through-client",
    "elicitation.url-not-preauthenticated",
    "elicitation.verify-opener",
)
async def test_pages_of_protected_server_pass_checks_in_concurrent_legs() -> None:
    # The legs use the same users, whose accounts the checks connect.
    runs: list[Run] = []

    async def run_both() -> None:
        revisions = [REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]]
        runs.append(await run_server(target, settings, Manifest(), revisions=revisions, chosen=_PAGES))

    async with started_protected(_PROTECTED, _AT, _SETTINGS) as (target, settings), open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(run_both)

    verdicts = [verdict for run in runs for verdict in run.verdicts]
    assert [verdict for verdict in verdicts if verdict.outcome is not Outcome.PASSED] == []
    assert len(verdicts) == 4 * 2 * len(_PAGES)


async def test_checks_of_pages_without_fixtures_are_not_testable() -> None:
    run = await try_protected(None, "2026-07-28", _PAGES)

    expected = dict.fromkeys(_PAGES, Outcome.NOT_TESTABLE)
    assert _outcomes(run) == {**expected, "auth.server-no-passthrough": Outcome.PASSED}


@pytest.mark.spec("mrtr.state-single-use")
async def test_server_with_fixtures_passes_their_checks() -> None:
    chosen = {
        "2025-11-25": (
            *(f"tasks.server-{each}" for each in ("metadata", "request-params", "polls", "cancels", "cursor")),
            "schema.unknown-dialect",
            "cancellation.in-progress",
        ),
        "2026-07-28": (
            "mrtr.state-single-use",
            "schema.unknown-dialect",
            "schema.no-network-reference",
            "schema.unresolved-reference",
        ),
    }
    target = CommandTarget((sys.executable, "-m", "everything", "--stdio"), _SETTINGS)
    for name, ids in chosen.items():
        run = await run_server(target, _SETTINGS, Manifest(), revisions=[REVISIONS[name]], chosen=ids)

        assert _outcomes(run) == dict.fromkeys(ids, Outcome.PASSED)
