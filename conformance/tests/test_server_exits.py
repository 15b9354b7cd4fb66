"""Tests of runs in which the server exits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, cast

import attrs
import pytest
import trio
from scored_runs import TODAY

from mcp_conformance.drivers.server.targets import CommandTarget, UrlTarget, free_port, started
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Deviation, NotTestable, Outcome, Verdict
from mcp_conformance.reports.text import summary_lines
from mcp_conformance.runners.server import run_server
from mcp_conformance.runners.server_exit import ServerMonitor
from mcp_conformance.scoring.score import Rules, score
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.model.check import Check
    from mcp_conformance.model.verdict import Run
    from mcp_conformance.wire.process import LineProcess

_SETTINGS: Final = Settings(timeout=5.0)
_DEADLY: Final = "jsonrpc.unknown-method"
_UNKNOWN: Final = "conformance/does-not-exist"
_OTHERS: Final = (
    "version.echo",
    "lifecycle.initialize-result",
    "lifecycle.initialize-first",
    "lifecycle.no-early-requests",
)
_AT: Final = "http://127.0.0.1:{port}/mcp"


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    return str(request.path.parent / "exiting_server.py")


async def _run(target: ServerTarget, revisions: Sequence[str], ids: Sequence[str], jobs: int = 2) -> Run:
    traits = [REVISIONS[name] for name in revisions]
    return await run_server(target, attrs.evolve(_SETTINGS, jobs=jobs), Manifest(), revisions=traits, chosen=ids)


def _by_outcome(run: Run, outcome: Outcome) -> list[Verdict]:
    return [verdict for verdict in run.verdicts if verdict.outcome is outcome]


async def test_server_exit_fails_check_and_restarts_for_rest(program: str) -> None:
    async with started(f"{sys.executable} {program} {{port}}", _AT, _SETTINGS) as target:
        run = await _run(target, ["2025-11-25"], [_DEADLY, *_OTHERS])

    (failed,) = _by_outcome(run, Outcome.FAILED)
    assert failed.check == _DEADLY
    assert failed.observed == f"the server exited with status 7 during {_DEADLY} in 2025-11-25 over http"
    assert any(_UNKNOWN in line for line in failed.transcript)
    assert len(run.verdicts) == 1 + len(_OTHERS)
    assert len(_by_outcome(run, Outcome.PASSED)) == len(_OTHERS)


async def test_concurrent_legs_fail_only_own_check(program: str) -> None:
    revisions = ["2025-03-26", "2025-06-18", "2025-11-25"]
    async with started(f"{sys.executable} {program} {{port}}", _AT, _SETTINGS) as target:
        run = await _run(target, revisions, [_DEADLY, *_OTHERS])

    assert [leg.refusal for leg in run.legs] == [None] * len(revisions)
    failed = _by_outcome(run, Outcome.FAILED)
    assert [(each.check, each.revision) for each in failed] == [(_DEADLY, revision) for revision in revisions]
    assert len(_by_outcome(run, Outcome.PASSED)) == len(revisions) * len(_OTHERS)


async def test_failed_restart_makes_rest_not_testable(program: str, tmp_path: Path) -> None:
    command = f"{sys.executable} {program} {{port}} {tmp_path / 'stamp'}"
    async with started(command, _AT, _SETTINGS) as target:
        run = await _run(target, ["2025-06-18", "2025-11-25"], [_DEADLY, *_OTHERS], jobs=1)

    (failed,) = _by_outcome(run, Outcome.FAILED)
    reason = f"the server exited with status 7 during {_DEADLY} in {failed.revision} over http"
    assert failed.observed == reason
    assert {each.reason for each in _by_outcome(run, Outcome.NOT_TESTABLE)} == {reason}
    # The legs begin in any order; the second leg does not start.
    assert [leg.refusal for leg in run.legs] in ([None, reason], [reason, None])
    scored = score(run, Rules(today=TODAY, allow_untested=True))
    assert scored.status == 1
    assert any(reason in line for line in summary_lines(scored))


async def test_exit_of_unmanaged_server_makes_rest_not_testable(program: str) -> None:
    async with started(f"{sys.executable} {program} {{port}}", _AT, _SETTINGS) as started_target:
        target = UrlTarget(started_target.endpoint.url, _SETTINGS)
        run = await _run(target, ["2025-06-18", "2025-11-25"], [_DEADLY, *_OTHERS], jobs=1)

    (failed,) = _by_outcome(run, Outcome.FAILED)
    assert failed.check == _DEADLY
    assert failed.expected == "the server to keep running"
    assert failed.observed.startswith(f"no connection to 127.0.0.1:{target.endpoint.port}: ")
    reason = f"{failed.observed}, since {_DEADLY} in {failed.revision} over http"
    assert {each.reason for each in _by_outcome(run, Outcome.NOT_TESTABLE)} == {reason}
    assert [leg.refusal for leg in run.legs] in ([None, reason], [reason, None])


async def test_restarted_unmanaged_server_is_used_again() -> None:
    port = free_port()
    monitor = ServerMonitor(UrlTarget(f"http://127.0.0.1:{port}/mcp", _SETTINGS))
    checks = monitor.watch("a leg", trio.lowlevel.checkpoint)
    check = cast("Check[ServerUnderTest]", _CheckStub(id="a.check"))  # only the id is read
    subject = cast("ServerUnderTest", None)  # it is passed on unread

    async def fails(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise Deviation("an answer", "the connection broke")

    with pytest.raises(Deviation, match="the server to keep running"):
        await checks.run(check, subject, fails)
    with pytest.raises(NotTestable, match=f"no connection to 127.0.0.1:{port}: .*, since a.check in a leg"):
        await checks.run(check, subject, fails)
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    with pytest.raises(Deviation, match="expected an answer; observed the connection broke"):
        await checks.run(check, subject, fails)
    for listener in listeners:
        await listener.aclose()


async def test_exit_of_shared_process_fails_only_its_check(program: str) -> None:
    target = CommandTarget([sys.executable, program, "stdio"], _SETTINGS)

    run = await _run(target, ["2025-11-25"], ["jsonrpc.request-id-unique", _DEADLY, "jsonrpc.parse-error", *_OTHERS])

    failed = {each.check: each.observed for each in _by_outcome(run, Outcome.FAILED)}
    assert failed == {
        _DEADLY: "the end of the process, with status 7",
        "jsonrpc.parse-error": "the end of the process, with status 1",
    }


# --- concurrent checks -----------------------------------------------------------------------------------------------


class _Process:
    def __init__(self) -> None:
        self.status: int | None = None

    async def wait(self) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_for_log(self) -> None:
        await trio.lowlevel.checkpoint()


class _TwoLegs:
    """Two legs with one process."""

    def __init__(self) -> None:
        self.target = UrlTarget("http://127.0.0.1:1/mcp", _SETTINGS)
        self.target.start = self._start
        self.target.process = cast("LineProcess", _Process())  # only these members are read
        self.monitor = ServerMonitor(self.target)
        self.starts = 0
        self.reset_legs: list[str] = []
        self.failures: dict[str, str] = {}
        self.attempts: dict[str, int] = {"left": 0, "right": 0}

    async def _start(self) -> None:
        await trio.lowlevel.checkpoint()
        self.starts += 1
        self.target.process = cast("LineProcess", _Process())  # as above

    def end(self) -> None:
        cast("_Process", self.target.process).status = 3  # a `_Process` of this module

    async def run(self, killer: str | None) -> None:
        """Run a check in each leg at the same time; the process exits in both, and again in the killer's check."""
        both_failed = trio.Event()
        started_legs: list[str] = []

        async def leg(name: str) -> None:
            async def reset() -> None:
                await trio.lowlevel.checkpoint()
                self.reset_legs.append(name)

            async def attempt(*_: object) -> None:
                self.attempts[name] += 1
                if self.attempts[name] == 1:
                    started_legs.append(name)
                    if len(started_legs) == len(self.attempts):
                        self.end()
                        both_failed.set()
                    await both_failed.wait()
                    raise Deviation("an answer", "the connection broke")
                await trio.lowlevel.checkpoint()
                if name == killer:
                    self.end()
                    raise Deviation("an answer", "the connection broke")

            check = cast("Check[ServerUnderTest]", _CheckStub(id=f"a.{name}"))  # only the id is read
            subject = cast("ServerUnderTest", None)  # it is passed on unread
            try:
                await self.monitor.watch(name, reset).run(check, subject, attempt)
            except Deviation as failed:
                self.failures[name] = failed.observed

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leg, "left")
            nursery.start_soon(leg, "right")


@attrs.frozen
class _CheckStub:
    id: str


@pytest.mark.parametrize("killer", ["left", "right"])
async def test_repeated_exit_fails_check_that_causes_it(killer: str) -> None:
    legs = _TwoLegs()
    await legs.run(killer)

    assert legs.failures == {killer: f"the server exited with status 3 during a.{killer} in {killer}"}
    assert legs.attempts == {"left": 2, "right": 2}
    assert sorted(legs.reset_legs) == ["left", "right"]


async def test_unattributed_exit_fails_one_check() -> None:
    legs = _TwoLegs()
    await legs.run(None)

    (observed,) = legs.failures.values()
    assert sorted(observed.removeprefix("the server exited with status 3 during ").split(" and ")) == [
        "a.left in left",
        "a.right in right",
    ]
    assert legs.starts == 1
