"""Tests of correct clients with a behavior that is unusual."""

from __future__ import annotations

import pytest
from program_path import PROGRAM_PATH

from mcp_conformance.model.verdict import Outcome
from mutants.runs.clients import try_client

CHECKS = (
    "lifecycle.client-initialize-first",
    "lifecycle.client-no-early-requests",
    "schema.client-methods",
    "version.client-disconnects",
    "version.client-goes-on",
    "version.client-keeps-to-it",
)
SCENARIOS = ("initialize", "tools_call", "meets-two-endpoints")


@pytest.fixture(autouse=True)
def _find_fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


@pytest.mark.parametrize(
    ("variant", "revision", "transport"),
    [
        ("ignores-instructions", "2025-06-18", "http"),
        ("ignores-instructions", "2025-11-25", "stdio"),
        ("falls-back-with-next-id", "2025-11-25", "http"),
    ],
)
async def test_correct_client_fails_no_check(variant: str, revision: str, transport: str) -> None:
    run = await try_client(f"--fault {variant}", transport, [revision], CHECKS, SCENARIOS)

    assert [leg.refusal for leg in run.legs] == [None]
    assert {verdict.check for verdict in run.verdicts if verdict.outcome is Outcome.PASSED} > {CHECKS[0], CHECKS[1]}
    assert [verdict for verdict in run.verdicts if verdict.outcome in (Outcome.FAILED, Outcome.BROKEN)] == []


async def test_client_without_http_sse_does_not_support_its_revision() -> None:
    run = await try_client("--fault no-http-sse", "http", ["2024-11-05"], CHECKS, SCENARIOS)

    assert run.verdicts == ()
    assert "does not open the stream of HTTP+SSE" in str(run.legs[0].refusal)


async def test_client_that_rejects_lists_without_cache_members_fails_no_check() -> None:
    check = "jsonrpc.client-absent-result-type-list"
    run = await try_client("--fault requires-cache-members", "stdio", ["2026-07-28"], {check})

    assert [(verdict.check, verdict.outcome) for verdict in run.verdicts] == [(check, Outcome.PASSED)]
