"""Tests of the suite as a client's server: this project's client and raw clients pass, and faulty clients fail."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from program_path import PROGRAM_PATH

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.cli.main import main
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Role, Transport
from mcp_conformance.model.verdict import Outcome, Run
from mcp_conformance.runners.client import ClientCommand, legs_of, play, run_client
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.suite.checks import CHECKS, find
from mcp_core.revisions import LATEST, LATEST_LEGACY, R2024_11_05, R2025_06_18, REVISIONS, Revision
from mutants.client_faults.table import CLIENT_FAULTS, ClientFault
from mutants.runs.clients import try_client, try_client_fault
from mutants.runs.fork_server import peer_command

EVERYTHING = f"{sys.executable} -m everything_client"
SETTINGS = Settings(timeout=10.0)
GOOD = {Outcome.PASSED, Outcome.NOT_APPLICABLE}


@pytest.fixture(autouse=True)
def _find_fixtures(monkeypatch: pytest.MonkeyPatch, forked_peers: None) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)
    for name in [each for each in os.environ if each.startswith("MCP_CONFORMANCE_")]:
        monkeypatch.delenv(name)


def failures(run: Run) -> list[str]:
    """Return failed verdicts and unsupported legs."""
    return [
        *(f"{leg.revision} {leg.transport}: {leg.refusal}" for leg in run.legs if leg.refusal is not None),
        *(
            f"{each.check}: {each.expected}{each.reason}; {each.observed}"
            for each in run.verdicts
            if each.outcome not in GOOD
        ),
    ]


# `python scripts/checks/verdict_stability.py` runs all revisions over all transports, on each loop.
@pytest.mark.parametrize(
    ("revision", "transport", "loop"),
    [
        ("2024-11-05", "http", "trio"),
        ("2025-11-25", "http", "asyncio"),
        ("2025-11-25", "http", "trio"),
        ("2026-07-28", "stdio", "trio"),
    ],
)
async def test_own_client_passes(revision: str, transport: str, loop: str) -> None:
    client = shlex.join([*peer_command("everything_client.__main__"), "--loop", loop])
    command = ClientCommand(
        http=client if transport == "http" else None,
        stdio=f"{client} --start" if transport == "stdio" else None,
    )
    run = await run_client(command, SETTINGS, revisions=[REVISIONS[revision]])
    assert failures(run) == []
    assert len(run.verdicts) > 20


@pytest.mark.parametrize(("revision", "transport"), [("2026-07-28", "http"), ("2025-11-25", "stdio")])
async def test_raw_client_without_fault_passes(revision: str, transport: str) -> None:
    assert failures(await try_client("", transport, [revision])) == []


# `nox -s mutants` runs all of them.
SAMPLE = [fault for fault in CLIENT_FAULTS if fault.name in {"any-version", "sentinel-plain"}]


@pytest.mark.parametrize("fault", SAMPLE, ids=lambda fault: f"{fault.name}-{fault.revision}-{fault.transport}")
async def test_client_fault_fails_only_its_checks(fault: ClientFault) -> None:
    result = await try_client_fault(fault)
    assert (result.missed, result.collateral) == ((), ())


@pytest.mark.parametrize(
    ("fault", "revision", "transport", "check"),
    [
        ("batched", "2025-06-18", "http", "jsonrpc.client-response-shape"),
        ("batches-initialize", "2025-03-26", "stdio", "lifecycle.client-initialized"),
        ("chatty", "2025-11-25", "stdio", "cancellation.client-invalid-ignored"),
        ("no-meta", "2026-07-28", "stdio", "skills.client-pages"),
        ("null-id", "2025-11-25", "stdio", "cancellation.client-bears-same-id"),
        ("posts-elsewhere", "2024-11-05", "http", "version.client-goes-on"),
        ("takes-404-for-nobody", "2026-07-28", "http", "jsonrpc.client-absent-result-type-list"),
    ],
)
async def test_check_does_not_report_fault_of_other_check(
    fault: str, revision: str, transport: str, check: str
) -> None:
    run = await try_client(f"--fault {fault}", transport, [revision], [check])
    assert run.verdicts
    assert {verdict.outcome for verdict in run.verdicts} <= {Outcome.PASSED, Outcome.NOT_TESTABLE}


def test_client_fault_checks_run_in_leg_of_fault() -> None:
    for fault in CLIENT_FAULTS:
        transport = Transport.STDIO if fault.transport == "stdio" else Transport.HTTP
        if transport is Transport.HTTP and REVISIONS[fault.revision] is R2024_11_05:
            transport = Transport.HTTP_SSE
        for id in fault.caught_by:
            check = CLIENT_CHECKS[id]
            assert fault.revision in check.revisions, fault
            assert transport in check.transports, fault


def test_check_ids_are_unique_over_roles() -> None:
    ids = [check.id for checks in CHECKS.values() for check in checks]
    assert len(ids) == len(set(ids))
    assert all(find(check.id).role is Role.CLIENT for check in CLIENT_CHECKS)


def test_scenarios_of_checks_run_in_legs_of_checks() -> None:
    for check in CLIENT_CHECKS:
        for need in check.needs:
            scenario = SCENARIOS[need.removeprefix("scenario:")]
            legs = [(REVISIONS[name], transport) for name in check.revisions for transport in check.transports]
            assert any(scenario.belongs(*leg) for leg in legs), check.id


def test_url_replaces_placeholder_or_is_appended() -> None:
    assert ClientCommand(http="client --at {url} -v").words("http://x/mcp") == ["client", "--at", "http://x/mcp", "-v"]
    assert ClientCommand(http="client 'a b'").words("http://x/mcp") == ["client", "a b", "http://x/mcp"]


def test_server_command_replaces_placeholder_split_or_quoted() -> None:
    words = ["python", "relay.py", "a b"]
    assert ClientCommand(stdio="client").launching(words) == ["client", *words]
    assert ClientCommand(stdio="client {command} -v").launching(words) == ["client", *words, "-v"]
    assert ClientCommand(stdio="client --server='{command}'").launching(words) == [
        "client",
        "--server=python relay.py 'a b'",
    ]


def test_legs_follow_commands_of_client() -> None:
    revisions: list[Revision] = [R2024_11_05, LATEST]
    assert legs_of(ClientCommand(http="x"), revisions) == [(R2024_11_05, Transport.HTTP_SSE), (LATEST, Transport.HTTP)]
    assert legs_of(ClientCommand(stdio="x"), revisions) == [(R2024_11_05, Transport.STDIO), (LATEST, Transport.STDIO)]


async def test_client_without_message_has_refusal_and_no_verdicts() -> None:
    command = ClientCommand(http=f"""{sys.executable} -c "import sys; sys.exit('not today')" """)
    run = await run_client(command, SETTINGS, revisions=[LATEST])
    assert run.verdicts == ()
    assert [leg.refusal for leg in run.legs] == ["the client sent no message: it ended with status 1: not today"]


async def test_client_of_other_revision_has_no_verdicts() -> None:
    run = await run_client(
        ClientCommand(http=f"env MCP_CONFORMANCE_PROTOCOL_VERSION=2025-06-18 {EVERYTHING}"),
        SETTINGS,
        revisions=[LATEST_LEGACY],
        chosen=["version.client-goes-on"],
    )
    assert run.verdicts == ()
    (leg,) = run.legs
    assert str(leg.refusal).startswith(
        "the client offered 2025-06-18, and does not continue with 2025-11-25: it ended with"
    )


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_client_accepting_older_revision_is_tested_in_it(transport: str) -> None:
    newest = f"env MCP_CONFORMANCE_PROTOCOL_VERSION=2025-11-25 {sys.executable} -m mutants.raw_client"
    http = f"{newest} --url" if transport == "http" else None
    command = ClientCommand(http=http, stdio=None if http else f"{newest} --start {{command}}")
    ids = ["version.client-goes-on", "lifecycle.client-initialized"]

    run = await run_client(command, SETTINGS, revisions=[R2025_06_18], chosen=ids)

    assert [leg.refusal for leg in run.legs] == [None]
    outcomes = {each.check: each.outcome for each in run.verdicts}
    assert outcomes["version.client-goes-on"] is Outcome.NOT_APPLICABLE
    assert outcomes["lifecycle.client-initialized"] is Outcome.PASSED


async def test_client_that_does_not_exit_is_stopped() -> None:
    command = ClientCommand(stdio=f"""{sys.executable} -c "import time; time.sleep(600)" """)
    evidence = await play(command, Settings(timeout=0.2), SCENARIOS["initialize"], LATEST, Transport.STDIO)
    assert evidence.status is None
    assert evidence.ending == "it did not end, and was ended"


async def test_client_that_does_not_exit_after_its_messages_is_stopped_sooner() -> None:
    client = f"sh -c '{EVERYTHING} \"$0\"; exec sleep 600'"
    evidence = await play(
        ClientCommand(http=client), Settings(timeout=4.0), SCENARIOS["initialize"], LATEST_LEGACY, Transport.HTTP
    )
    assert evidence.status is None
    assert evidence.sent("notifications/initialized")
    (note,) = (each for each in evidence.transcript.lines() if "did not exit" in each)
    assert "within 4 seconds after its last message (--timeout)" in note


async def test_scenarios_are_limited_to_chosen_checks(tmp_path: Path) -> None:
    played = tmp_path / "played"
    client = f"sh -c 'echo $MCP_CONFORMANCE_SCENARIO >> {played}; exec {EVERYTHING} $0'"
    run = await run_client(ClientCommand(http=client), SETTINGS, revisions=[LATEST], chosen=["version.client-retry"])
    assert [(each.check, each.outcome) for each in run.verdicts] == [("version.client-retry", Outcome.PASSED)]
    assert played.read_text().split() == ["initialize", "request-metadata"]


def test_failure_output_names_requirement_scenario_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    client = f"{sys.executable} -m mutants.raw_client --fault upper-method --url"
    options = ["--revision", LATEST.name, "--check", "header.client-method", "--timeout", "5"]
    assert main(["client", "--command", client, *options]) == 1
    output = capsys.readouterr().out
    assert "FAILED  header.client-method  (2026-07-28 over http)" in output
    assert "MUST header.mcp-method-required: Each POSTed request has" in output
    assert "in the scenario initialize:" in output
    assert "--revision 2026-07-28 --check header.client-method" in output


def test_client_command_missing_or_not_found_returns_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["client"]) == 2
    assert "--stdio-command" in capsys.readouterr().err
    assert main(["client", "--command", "/there/is/no/such/client", "--revision", LATEST.name]) == 3
    assert "the client cannot be started" in capsys.readouterr().err
