"""The sides of the benchmark: their programs, and the side that npm installs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import stdio_calls, typescript
from bench.measurements import PARTS, Effort, Measurement, at_most, slower, without
from bench.sides import FLOOR, OFFICIAL, OURS, PROGRAMS, TYPESCRIPT, Side
from interop.peers.run import PROGRAMS as PINNED
from interop.peers.run import SDKS

TASKS = ("server", "client", "http_server", "http_client", "group")


@pytest.mark.parametrize("task", TASKS)
def test_peers_have_programs_for_all_tasks(task: str) -> None:
    for side in (OURS, OFFICIAL, TYPESCRIPT):
        assert (PROGRAMS / Path(side.command(task)[1]).name).exists()


def test_command_has_interpreter_program_and_arguments() -> None:
    assert Side("a", "official", "/python").command("server", "7") == [
        "/python", str(PROGRAMS / "server_official.py"), "7",
    ]  # fmt: skip
    assert TYPESCRIPT.command("client")[1] == str(TYPESCRIPT.folder / "client_typescript.mjs")


def test_import_command_prints_seconds() -> None:
    command = Side("a", "ours", sys.executable).import_command("json")
    assert float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) >= 0


def test_sides_of_imports_have_modules() -> None:
    for role, modules in stdio_calls.IMPORTED.items():
        assert set(modules) == {side.program for side in (OURS, OFFICIAL, TYPESCRIPT, FLOOR)}, role


def test_measured_version_is_the_installed_one() -> None:
    versions = json.loads((PINNED / "package.json").read_text())["dependencies"]
    version = SDKS[typescript.PEER].partition("@")[2]
    assert (versions["@modelcontextprotocol/client"], versions["@modelcontextprotocol/server"]) == (version, version)


def test_installation_copies_programs_and_returns_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[set[str]] = []
    target = tmp_path / "bench"
    monkeypatch.setattr(typescript, "prepare", prepared.append)
    monkeypatch.setattr(typescript, "TYPESCRIPT", Side("typescript", "typescript", folder=target, suffix=".mjs"))
    target.mkdir()
    (target / "removed_program.mjs").touch()
    assert typescript.install() == SDKS[typescript.PEER].partition("@")[2]
    assert prepared == [{typescript.PEER}]
    assert {path.name for path in target.iterdir()} == {path.name for path in PROGRAMS.glob("*.mjs")}


def test_missing_npm_leaves_side_out_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typescript.install() == ""
    said = capsys.readouterr().out
    assert said.startswith("The side typescript is left out: The TypeScript SDK is installed by npm, which is missing.")
    assert said.count("\n") == 1


def test_measurement_without_side_keeps_other_sides_and_goals() -> None:
    whole = Measurement(
        title="title",
        unit="us",
        measure=lambda _: 1.0,
        sides=(OURS, OFFICIAL, TYPESCRIPT),
        goals=slower(2.0) + at_most(1.0),
    )
    assert without(whole, ()) == whole
    rest = without(whole, ("typescript",))
    assert (rest.sides, rest.goals) == ((OURS, OFFICIAL), slower(2.0))


def test_goals_concern_sides_of_their_measurement() -> None:
    effort = Effort(calls=1, repetitions=1, quick=True)
    for measurement in (each for part in PARTS.values() for each in part(effort)):
        names = {side.name for side in measurement.sides}
        assert {name for goal in measurement.goals for name in (goal.over, goal.under)} <= names, measurement.title


def test_silent_server_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server_silent.py").write_text("import sys\nsys.stdin.read()\n")
    monkeypatch.setattr(stdio_calls, "SILENCE", 0.0)
    process = stdio_calls.Process(Side("a", "silent", folder=tmp_path))
    with pytest.raises(RuntimeError, match="2 requests have no response"):
        process.exchange([b"1\n", b"2\n"], 1)
    process.close()
