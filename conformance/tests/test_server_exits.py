"""What becomes of a run when the server ends in the middle of it."""

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
from mcp_conformance.runners.server_exit import Vigil
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
    spoken = [REVISIONS[name] for name in revisions]
    return await run_server(target, attrs.evolve(_SETTINGS, jobs=jobs), Manifest(), revisions=spoken, chosen=ids)


def _by_outcome(run: Run, outcome: Outcome) -> list[Verdict]:
    return [verdict for verdict in run.verdicts if verdict.outcome is outcome]


async def test_the_check_in_which_a_server_ends_is_red_and_another_process_takes_the_rest(program: str) -> None:
    async with started(f"{sys.executable} {program} {{port}}", _AT, _SETTINGS) as target:
        run = await _run(target, ["2025-11-25"], [_DEADLY, *_OTHERS])

    (red,) = _by_outcome(run, Outcome.FAILED)
    assert red.check == _DEADLY
    assert red.observed == f"the server exited with status 7 during {_DEADLY} in 2025-11-25 over http"
    assert any(_UNKNOWN in line for line in red.transcript)
    assert len(run.verdicts) == 1 + len(_OTHERS)
    assert len(_by_outcome(run, Outcome.PASSED)) == len(_OTHERS)


async def test_lanes_side_by_side_do_not_pay_for_each_other(program: str) -> None:
    revisions = ["2025-03-26", "2025-06-18", "2025-11-25"]
    async with started(f"{sys.executable} {program} {{port}}", _AT, _SETTINGS) as target:
        run = await _run(target, revisions, [_DEADLY, *_OTHERS])

    assert [lane.refusal for lane in run.lanes] == [None] * len(revisions)
    red = _by_outcome(run, Outcome.FAILED)
    assert [(each.check, each.revision) for each in red] == [(_DEADLY, revision) for revision in revisions]
    assert len(_by_outcome(run, Outcome.PASSED)) == len(revisions) * len(_OTHERS)


async def test_what_is_left_cannot_be_tested_where_a_server_does_not_start_again(program: str, tmp_path: Path) -> None:
    once = f"{sys.executable} {program} {{port}} {tmp_path / 'stamp'}"
    async with started(once, _AT, _SETTINGS) as target:
        run = await _run(target, ["2025-06-18", "2025-11-25"], [_DEADLY, *_OTHERS], jobs=1)

    (red,) = _by_outcome(run, Outcome.FAILED)
    why = f"the server exited with status 7 during {_DEADLY} in {red.revision} over http"
    assert red.observed == why
    assert {each.reason for each in _by_outcome(run, Outcome.NOT_TESTABLE)} == {why}
    # The lanes begin in any order: the second one is not even looked at.
    assert [lane.refusal for lane in run.lanes] in ([None, why], [why, None])
    scored = score(run, Rules(today=TODAY, allow_untested=True))
    assert scored.status == 1
    assert any(why in line for line in summary_lines(scored))


async def test_what_is_left_cannot_be_tested_where_a_server_ends_that_somebody_else_started(program: str) -> None:
    async with started(f"{sys.executable} {program} {{port}}", _AT, _SETTINGS) as own:
        target = UrlTarget(own.endpoint.url, _SETTINGS)
        run = await _run(target, ["2025-06-18", "2025-11-25"], [_DEADLY, *_OTHERS], jobs=1)

    (red,) = _by_outcome(run, Outcome.FAILED)
    assert red.check == _DEADLY
    assert red.expected == "the server to keep running"
    assert red.observed.startswith(f"no connection to 127.0.0.1:{target.endpoint.port}: ")
    why = f"{red.observed}, since {_DEADLY} in {red.revision} over http"
    assert {each.reason for each in _by_outcome(run, Outcome.NOT_TESTABLE)} == {why}
    assert [lane.refusal for lane in run.lanes] in ([None, why], [why, None])


async def test_a_server_that_somebody_else_starts_again_is_used_again() -> None:
    port = free_port()
    vigil = Vigil(UrlTarget(f"http://127.0.0.1:{port}/mcp", _SETTINGS))
    watch = vigil.watch("a lane", trio.lowlevel.checkpoint)
    check = cast("Check[ServerUnderTest]", _Named(id="a.check"))  # nothing but its name is looked at
    subject = cast("ServerUnderTest", None)  # it is handed on

    async def fails(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise Deviation("an answer", "the connection broke")

    with pytest.raises(Deviation, match="the server to keep running"):
        await watch.run(check, subject, fails)
    with pytest.raises(NotTestable, match=f"no connection to 127.0.0.1:{port}: .*, since a.check in a lane"):
        await watch.run(check, subject, fails)
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    with pytest.raises(Deviation, match="expected an answer; observed the connection broke"):
        await watch.run(check, subject, fails)
    for listener in listeners:
        await listener.aclose()


async def test_the_check_in_which_a_shared_process_ends_is_red_and_no_other(program: str) -> None:
    target = CommandTarget([sys.executable, program, "stdio"], _SETTINGS)

    run = await _run(target, ["2025-11-25"], ["jsonrpc.request-id-unique", _DEADLY, "jsonrpc.parse-error", *_OTHERS])

    red = {each.check: each.observed for each in _by_outcome(run, Outcome.FAILED)}
    assert red == {
        _DEADLY: "the end of the process, with status 7",
        "jsonrpc.parse-error": "the end of the process, with status 1",
    }


# --- several checks at once ------------------------------------------------------------------------------------------


class _Process:
    def __init__(self) -> None:
        self.status: int | None = None

    async def wait(self) -> None:
        await trio.lowlevel.checkpoint()


class _World:
    """Two lanes with one process."""

    def __init__(self) -> None:
        self.target = UrlTarget("http://127.0.0.1:1/mcp", _SETTINGS)
        self.target.start = self._start
        self.target.process = cast("LineProcess", _Process())  # only these two members are looked at
        self.vigil = Vigil(self.target)
        self.starts = 0
        self.forgotten: list[str] = []
        self.reds: dict[str, str] = {}
        self.tries: dict[str, int] = {"left": 0, "right": 0}

    async def _start(self) -> None:
        await trio.lowlevel.checkpoint()
        self.starts += 1
        self.target.process = cast("LineProcess", _Process())  # as above

    def end(self) -> None:
        cast("_Process", self.target.process).status = 3  # it is one of ours

    async def run(self, killer: str | None) -> None:
        """Runs a check in each lane at the same time; the process ends in both, and again in the killer's."""
        both = trio.Event()
        under_way: list[str] = []

        async def lane(name: str) -> None:
            async def forget() -> None:
                await trio.lowlevel.checkpoint()
                self.forgotten.append(name)

            async def attempt(*_: object) -> None:
                self.tries[name] += 1
                if self.tries[name] == 1:
                    under_way.append(name)
                    if len(under_way) == len(self.tries):
                        self.end()
                        both.set()
                    await both.wait()
                    raise Deviation("an answer", "the connection broke")
                await trio.lowlevel.checkpoint()
                if name == killer:
                    self.end()
                    raise Deviation("an answer", "the connection broke")

            check = cast("Check[ServerUnderTest]", _Named(id=f"a.{name}"))  # nothing but its name is looked at
            subject = cast("ServerUnderTest", None)  # it is handed on
            try:
                await self.vigil.watch(name, forget).run(check, subject, attempt)
            except Deviation as red:
                self.reds[name] = red.observed

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane, "left")
            nursery.start_soon(lane, "right")


@attrs.frozen
class _Named:
    id: str


@pytest.mark.parametrize("killer", ["left", "right"])
async def test_of_several_checks_that_were_under_way_the_one_that_ends_it_again_is_red(killer: str) -> None:
    world = _World()
    await world.run(killer)

    assert world.reds == {killer: f"the server exited with status 3 during a.{killer} in {killer}"}
    assert world.tries == {"left": 2, "right": 2}
    assert sorted(world.forgotten) == ["left", "right"]


async def test_somebody_is_red_though_none_of_them_ends_it_by_itself() -> None:
    world = _World()
    await world.run(None)

    (told,) = world.reds.values()
    assert sorted(told.removeprefix("the server exited with status 3 during ").split(" and ")) == [
        "a.left in left",
        "a.right in right",
    ]
    assert world.starts == 1
