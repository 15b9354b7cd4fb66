"""Raw servers with one fault each: that the command which tries them says rightly what was seen."""

from __future__ import annotations

import pytest
from program_path import PROGRAM_PATH

from mutants.runs.servers import try_fault
from mutants.server.fault import Row
from mutants.server_faults.table import FAULTS


@pytest.fixture(autouse=True)
def _fixtures_are_found(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


@pytest.mark.parametrize(
    ("name", "transport"),
    [("unknown-method-code", "stdio"), ("completion-unserved", "http"), ("unnamed-events", "http-sse")],
)
async def test_a_fault_is_seen_by_the_checks_that_are_meant_for_it(name: str, transport: str) -> None:
    trial = await try_fault(name, transport, own=True)

    assert (trial.missed, trial.collateral) == ((), ())
    assert trial.killed


async def test_a_fault_that_is_seen_by_others_than_it_is_meant_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    row = FAULTS["ping-with-more"]
    other = Row(
        row.make,
        area="jsonrpc",
        caught_by=("jsonrpc.unknown-method",),
        revisions=row.revisions,
        transports=row.transports,
    )
    monkeypatch.setitem(FAULTS, "ping-with-more", other)

    trial = await try_fault("ping-with-more", "stdio", own=True)

    assert trial.missed == ("jsonrpc.unknown-method",)
    assert not trial.killed

    trial = await try_fault("ping-with-more", "http")

    assert trial.collateral == ("ping.empty-result", "schema.empty-result")
