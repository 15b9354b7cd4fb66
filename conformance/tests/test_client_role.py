"""The suite as the server of a client: our own client passes, raw ones too, and what is wrong with others is seen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from program_path import PROGRAM_PATH

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.cli.main import main
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Role, Transport
from mcp_conformance.model.verdict import Outcome, Run
from mcp_conformance.runners.client import ClientCommand, lanes_of, play, run_client
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.suite.checks import CHECKS, find
from mcp_core.revisions import LATEST, LATEST_LEGACY, R2024_11_05, R2025_06_18, REVISIONS, Revision
from mutants.client_faults.table import CLIENT_FAULTS, ClientFault
from mutants.runs.clients import try_client, try_client_fault

EVERYTHING = f"{sys.executable} -m everything_client"
SETTINGS = Settings(timeout=10.0)
GOOD = {Outcome.PASSED, Outcome.NOT_APPLICABLE}


@pytest.fixture(autouse=True)
def _fixtures_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)
    for name in [each for each in os.environ if each.startswith("MCP_CONFORMANCE_")]:
        monkeypatch.delenv(name)


def told(run: Run) -> list[str]:
    """What is not as it should be."""
    return [
        *(f"{lane.revision} {lane.transport}: {lane.refusal}" for lane in run.lanes if lane.refusal is not None),
        *(
            f"{each.check}: {each.expected}{each.reason}; {each.observed}"
            for each in run.verdicts
            if each.outcome not in GOOD
        ),
    ]


# `python scripts/checks/verdict_stability.py` tries all revisions over all transports.
@pytest.mark.parametrize(
    ("revision", "transport"), [("2024-11-05", "http"), ("2025-11-25", "http"), ("2026-07-28", "stdio")]
)
async def test_our_client_passes(revision: str, transport: str) -> None:
    command = ClientCommand(
        http=EVERYTHING if transport == "http" else None,
        stdio=f"{EVERYTHING} --start" if transport == "stdio" else None,
    )
    run = await run_client(command, SETTINGS, revisions=[REVISIONS[revision]])
    assert told(run) == []
    assert len(run.verdicts) > 20


@pytest.mark.parametrize(("revision", "transport"), [("2026-07-28", "http"), ("2025-11-25", "stdio")])
async def test_a_raw_client_without_a_fault_passes(revision: str, transport: str) -> None:
    assert told(await try_client("", transport, [revision])) == []


# `nox -s mutants` tries all of them.
SAMPLE = [fault for fault in CLIENT_FAULTS if fault.name in {"any-version", "sentinel-plain"}]


@pytest.mark.parametrize("fault", SAMPLE, ids=lambda fault: f"{fault.name}-{fault.revision}-{fault.transport}")
async def test_a_fault_is_seen_by_the_check_that_is_meant_for_it_and_by_no_other(fault: ClientFault) -> None:
    trial = await try_client_fault(fault)
    assert (trial.missed, trial.collateral) == ((), ())


def test_every_fault_names_checks_that_run_where_it_is_tried() -> None:
    for fault in CLIENT_FAULTS:
        over = Transport.STDIO if fault.transport == "stdio" else Transport.HTTP
        if over is Transport.HTTP and REVISIONS[fault.revision] is R2024_11_05:
            over = Transport.HTTP_SSE
        for id in fault.caught_by:
            check = CLIENT_CHECKS[id]
            assert fault.revision in check.revisions, fault
            assert over in check.transports, fault


def test_the_checks_of_both_roles_have_different_names() -> None:
    ids = [check.id for checks in CHECKS.values() for check in checks]
    assert len(ids) == len(set(ids))
    assert all(find(check.id).role is Role.CLIENT for check in CLIENT_CHECKS)


def test_every_scenario_that_a_check_names_is_played_somewhere_where_the_check_runs() -> None:
    for check in CLIENT_CHECKS:
        for need in check.needs:
            scenario = SCENARIOS[need.removeprefix("scenario:")]
            lanes = [(REVISIONS[name], transport) for name in check.revisions for transport in check.transports]
            assert any(scenario.belongs(*lane) for lane in lanes), check.id


def test_the_url_takes_its_place_or_comes_last() -> None:
    assert ClientCommand(http="client --at {url} -v").words("http://x/mcp") == ["client", "--at", "http://x/mcp", "-v"]
    assert ClientCommand(http="client 'a b'").words("http://x/mcp") == ["client", "a b", "http://x/mcp"]


def test_the_words_of_the_server_take_their_place_as_words_or_as_one() -> None:
    words = ["python", "relay.py", "a b"]
    assert ClientCommand(stdio="client").launching(words) == ["client", *words]
    assert ClientCommand(stdio="client {command} -v").launching(words) == ["client", *words, "-v"]
    assert ClientCommand(stdio="client --server='{command}'").launching(words) == [
        "client",
        "--server=python relay.py 'a b'",
    ]


def test_a_client_is_tried_over_what_it_can() -> None:
    revisions: list[Revision] = [R2024_11_05, LATEST]
    assert lanes_of(ClientCommand(http="x"), revisions) == [(R2024_11_05, Transport.HTTP_SSE), (LATEST, Transport.HTTP)]
    assert lanes_of(ClientCommand(stdio="x"), revisions) == [(R2024_11_05, Transport.STDIO), (LATEST, Transport.STDIO)]


async def test_a_client_that_does_nothing_has_no_verdicts_and_says_why() -> None:
    command = ClientCommand(http=f"""{sys.executable} -c "import sys; sys.exit('not today')" """)
    run = await run_client(command, SETTINGS, revisions=[LATEST])
    assert run.verdicts == ()
    assert [lane.refusal for lane in run.lanes] == ["the client sent no message: it ended with status 1: not today"]


async def test_a_client_that_speaks_another_revision_is_not_blamed_for_it() -> None:
    run = await run_client(
        ClientCommand(http=f"env MCP_CONFORMANCE_PROTOCOL_VERSION=2025-06-18 {EVERYTHING}"),
        SETTINGS,
        revisions=[LATEST_LEGACY],
        chosen=["version.client-goes-on"],
    )
    assert run.verdicts == ()
    (lane,) = run.lanes
    assert str(lane.refusal).startswith(
        "the client offered 2025-06-18, and does not continue with 2025-11-25: it ended with"
    )


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_a_client_that_offers_a_newer_revision_and_goes_on_in_the_older_one_speaks_that(transport: str) -> None:
    newest = f"env MCP_CONFORMANCE_PROTOCOL_VERSION=2025-11-25 {sys.executable} -m mutants.raw_client"
    http = f"{newest} --url" if transport == "http" else None
    command = ClientCommand(http=http, stdio=None if http else f"{newest} --start {{command}}")
    ids = ["version.client-goes-on", "lifecycle.client-initialized"]

    run = await run_client(command, SETTINGS, revisions=[R2025_06_18], chosen=ids)

    assert [lane.refusal for lane in run.lanes] == [None]
    outcomes = {each.check: each.outcome for each in run.verdicts}
    assert outcomes["version.client-goes-on"] is Outcome.NOT_APPLICABLE
    assert outcomes["lifecycle.client-initialized"] is Outcome.PASSED


async def test_a_client_that_does_not_end_is_ended() -> None:
    command = ClientCommand(stdio=f"""{sys.executable} -c "import time; time.sleep(600)" """)
    evidence = await play(command, Settings(timeout=0.2), SCENARIOS["initialize"], LATEST, Transport.STDIO)
    assert evidence.status is None
    assert evidence.ending == "it did not end, and was ended"


async def test_only_the_scenarios_are_played_that_the_chosen_checks_look_at(tmp_path: Path) -> None:
    played = tmp_path / "played"
    client = f"sh -c 'echo $MCP_CONFORMANCE_SCENARIO >> {played}; exec {EVERYTHING} $0'"
    run = await run_client(ClientCommand(http=client), SETTINGS, revisions=[LATEST], chosen=["version.client-retry"])
    assert [(each.check, each.outcome) for each in run.verdicts] == [("version.client-retry", Outcome.PASSED)]
    assert played.read_text().split() == ["initialize", "request-metadata"]


def test_the_command_tells_a_failure_with_all_that_its_reader_needs(capsys: pytest.CaptureFixture[str]) -> None:
    client = f"{sys.executable} -m mutants.raw_client --fault upper-method --url"
    options = ["--revision", LATEST.name, "--check", "header.client-method", "--patience", "5"]
    assert main(["client", "--command", client, *options]) == 1
    told = capsys.readouterr().out
    assert "FAILED  header.client-method  (2026-07-28 over http)" in told
    assert "MUST header.mcp-method-required: Each POSTed request has" in told
    assert "in the scenario initialize:" in told
    assert "--revision 2026-07-28 --check header.client-method" in told


def test_the_command_wants_to_know_how_the_client_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["client"]) == 2
    assert "--stdio-command" in capsys.readouterr().err
    assert main(["client", "--command", "/there/is/no/such/client", "--revision", LATEST.name]) == 3
    assert "the client cannot be started" in capsys.readouterr().err
