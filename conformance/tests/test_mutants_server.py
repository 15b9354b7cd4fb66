"""Tests of the command that runs the suite against raw servers with one fault each."""

from __future__ import annotations

import pytest
from program_path import PROGRAM_PATH

from mutants.runs.servers import try_fault
from mutants.server.fault import Row
from mutants.server_faults.table import FAULTS


@pytest.fixture(autouse=True)
def _find_fixtures(monkeypatch: pytest.MonkeyPatch, forked_peers: None) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


@pytest.mark.parametrize(
    ("name", "transport"),
    [
        ("unknown-method-code", "stdio"),
        ("completion-unserved", "http"),
        ("same-id-refused", "http"),
        ("unnamed-events", "http-sse"),
    ],
)
async def test_server_fault_fails_only_its_checks(name: str, transport: str) -> None:
    result = await try_fault(name, transport, own=True)

    assert (result.missed, result.collateral) == ((), ())
    assert result.killed


async def test_unexpected_failures_are_reported_as_collateral(monkeypatch: pytest.MonkeyPatch) -> None:
    row = FAULTS["ping-with-more"]
    other = Row(
        row.make,
        area="jsonrpc",
        caught_by=("jsonrpc.unknown-method",),
        revisions=row.revisions,
        transports=row.transports,
    )
    monkeypatch.setitem(FAULTS, "ping-with-more", other)

    result = await try_fault("ping-with-more", "stdio", own=True)

    assert result.missed == ("jsonrpc.unknown-method",)
    assert not result.killed

    result = await try_fault("ping-with-more", "http")

    assert result.collateral == ("ping.during-a-call", "ping.empty-result")
