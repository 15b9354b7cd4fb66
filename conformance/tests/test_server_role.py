"""Tests of all checks with a conforming raw server, over each transport."""

from __future__ import annotations

import shlex
from typing import Final

import pytest
from program_path import PROGRAM_PATH

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.server.sse_connection import SseConnection
from mcp_conformance.drivers.server.targets import CommandTarget, ServerTarget, started
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Deviation, Outcome, Run
from mcp_conformance.runners.server import run_server
from mcp_conformance.scoring.attribution import attributed
from mcp_core.revisions import REVISIONS
from mutants.runs.fork_server import peer_command
from mutants.runs.servers import SERVER

_SETTINGS: Final = Settings(
    timeout=5.0,
    headers=(("Authorization", "Bearer raw"),),
    other_headers=(("Authorization", "Bearer other-raw"),),
)
_AT: Final = "http://127.0.0.1:{port}"
_AREAS: Final = ("http", "header", "session", "sse", "resume", "http-sse")


def _command(*words: str) -> str:
    return shlex.join([*peer_command(SERVER), "--port", "{port}", "--key", "raw", *words])


def _with(run: Run, *outcomes: Outcome) -> list[str]:
    return [verdict.check for verdict in run.verdicts if verdict.outcome in outcomes]


async def _run(target: ServerTarget, revision: str, ids: list[str]) -> Run:
    return await run_server(target, _SETTINGS, Manifest(), revisions=[REVISIONS[revision]], chosen=ids)


@pytest.fixture(autouse=True)
def _find_program(monkeypatch: pytest.MonkeyPatch, forked_peers: None) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


# `nox -s mutants` runs all revisions over all transports.
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_conforming_server_passes_over_http(revision: str) -> None:
    async with started(_command(), f"{_AT}/mcp", _SETTINGS, sse_url=f"{_AT}/sse") as target:
        run = await _run(target, revision, [check.id for check in SERVER_CHECKS])

    assert all(leg.refusal is None for leg in run.legs)
    assert {leg.transport for leg in run.legs} == ({"http", "http-sse"} if revision == "2024-11-05" else {"http"})
    assert _with(run, Outcome.FAILED, Outcome.BROKEN) == []
    assert [id for id in _with(run, Outcome.NOT_TESTABLE) if id.partition(".")[0] in _AREAS] == []
    assert run.verdicts


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
async def test_conforming_server_passes_over_stdio(revision: str) -> None:
    target = CommandTarget(peer_command(SERVER), _SETTINGS)

    run = await _run(target, revision, [check.id for check in SERVER_CHECKS])

    assert [leg.refusal for leg in run.legs] == [None]
    assert _with(run, Outcome.FAILED, Outcome.BROKEN) == []
    assert run.verdicts


async def test_body_of_accepted_notification_is_finding_of_own_check() -> None:
    async with started(_command("--fault", "cancellation-with-body"), f"{_AT}/mcp", _SETTINGS) as target:
        checks = ["http.accepted-status", "http.notification-accepted", "jsonrpc.version-member"]
        run = await _run(target, "2026-07-28", checks)

    # A check of messages would make the others not testable.
    assert _with(attributed(run), Outcome.FAILED) == ["http.notification-accepted"]


async def test_failed_check_includes_transcript_of_own_connection() -> None:
    async with started(_command("--fault", "get-unchecked"), f"{_AT}/mcp", _SETTINGS) as target:
        run = await _run(target, "2025-11-25", ["http.origin-stream"])

    (verdict,) = run.verdicts
    assert verdict.outcome is Outcome.FAILED
    assert any("https://evil.example" in line and "on purpose" in line for line in verdict.transcript)
    assert not any("Bearer raw" in line for line in verdict.transcript)


async def test_http_sse_responses_stream_and_invalid_message_is_rejected() -> None:
    async with (
        started(_command(), f"{_AT}/mcp", _SETTINGS, sse_url=f"{_AT}/sse") as target,
        target.open(REVISIONS["2024-11-05"], Transport.HTTP_SSE) as peer,
    ):
        assert isinstance(peer, SseConnection)
        answer = await peer.request("tools/call", {"name": "test_tool_with_logging", "arguments": {}})
        assert [each["method"] for each in answer.before] == ["notifications/message"] * 3
        refused = await peer.malformed(b'{"jsonrpc":', deviant="no JSON")
        assert refused is not None
        assert refused.error(-32700)
        assert peer.events[0].event == "endpoint"


async def test_sse_stream_without_endpoint_event_is_deviation() -> None:
    async with started(_command(), f"{_AT}/mcp", _SETTINGS, sse_url=f"{_AT}/mcp") as target:
        with pytest.raises(Deviation, match="event `endpoint`"):
            async with target.open(REVISIONS["2024-11-05"], Transport.HTTP_SSE):
                pass
