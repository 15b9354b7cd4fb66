"""All checks against a right raw server, and the transports as the suite speaks them."""

from __future__ import annotations

import sys
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
from mcp_core.revisions import REVISIONS

_SETTINGS: Final = Settings(
    timeout=5.0,
    headers=(("Authorization", "Bearer raw"),),
    other_headers=(("Authorization", "Bearer other-raw"),),
)
_AT: Final = "http://127.0.0.1:{port}"
_AREAS: Final = ("http", "header", "session", "sse", "resume", "http-sse")


def _command(*words: str) -> str:
    return " ".join((sys.executable, "-m", "mutants.raw_server", "--port", "{port}", "--key", "raw", *words))


def _with(run: Run, *outcomes: Outcome) -> list[str]:
    return [verdict.check for verdict in run.verdicts if verdict.outcome in outcomes]


async def _run(target: ServerTarget, revision: str, ids: list[str]) -> Run:
    return await run_server(target, _SETTINGS, Manifest(), revisions=[REVISIONS[revision]], chosen=ids)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


# `nox -s mutants` tries all revisions over all transports.
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_a_right_server_fails_no_check_over_http(revision: str) -> None:
    async with started(_command(), f"{_AT}/mcp", _SETTINGS, sse_url=f"{_AT}/sse") as target:
        run = await _run(target, revision, [check.id for check in SERVER_CHECKS])

    assert all(lane.refusal is None for lane in run.lanes)
    assert {lane.transport for lane in run.lanes} == ({"http", "http-sse"} if revision == "2024-11-05" else {"http"})
    assert _with(run, Outcome.FAILED, Outcome.BROKEN) == []
    assert [id for id in _with(run, Outcome.NOT_TESTABLE) if id.partition(".")[0] in _AREAS] == []
    assert run.verdicts


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
async def test_a_right_server_fails_no_check_over_its_pipes(revision: str) -> None:
    target = CommandTarget([sys.executable, "-m", "mutants.raw_server"], _SETTINGS)

    run = await _run(target, revision, [check.id for check in SERVER_CHECKS])

    assert [lane.refusal for lane in run.lanes] == [None]
    assert _with(run, Outcome.FAILED, Outcome.BROKEN) == []
    assert run.verdicts


async def test_a_failing_check_that_opens_its_own_connection_shows_what_went_over_it() -> None:
    async with started(_command("--fault", "get-unchecked"), f"{_AT}/mcp", _SETTINGS) as target:
        run = await _run(target, "2025-11-25", ["http.origin-stream"])

    (verdict,) = run.verdicts
    assert verdict.outcome is Outcome.FAILED
    assert any("https://evil.example" in line and "on purpose" in line for line in verdict.transcript)
    assert not any("Bearer raw" in line for line in verdict.transcript)


async def test_over_http_sse_answers_come_in_the_stream_and_what_is_no_message_is_refused() -> None:
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


async def test_a_stream_that_names_no_place_to_post_to_is_a_deviation() -> None:
    async with started(_command(), f"{_AT}/mcp", _SETTINGS, sse_url=f"{_AT}/mcp") as target:
        with pytest.raises(Deviation, match="event `endpoint`"):
            async with target.open(REVISIONS["2024-11-05"], Transport.HTTP_SSE):
                pass
