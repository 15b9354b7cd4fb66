from __future__ import annotations

import subprocess
from pathlib import Path

import attrs
import pytest

from bench import calls, measurements
from bench.calls import file_of, text_of
from bench.compare import checkout, compared, text_of_change
from bench.measurements import Effort, Measurement, in_turns, measured, report
from bench.results import Goal, Machine, ReportLine, Revision, Run, load
from bench.sides import ASGI, OFFICIAL, OURS, Side

BOTH = (Side("base", "ours", "/base/python"), Side("tree", "ours", "/tree/python"))


def git(root: Path, *arguments: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    command = ["git", "-C", str(root), *author, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    for text in ("old", "new"):
        (tmp_path / "file").write_text(text)
        git(tmp_path, "add", "file")
        git(tmp_path, "commit", "--quiet", "--message", text)
    return tmp_path


def test_checkout_has_files_of_revision_and_is_removed(repository: Path) -> None:
    (repository / "file").write_text("changed")
    with checkout(repository, "HEAD~1") as path:
        assert (path / "file").read_text() == "old"
    assert not path.exists()
    assert git(repository, "worktree", "list").count("\n") == 1
    assert (repository / "file").read_text() == "changed"


def test_checkout_removed_after_failure(repository: Path) -> None:
    with pytest.raises(KeyError), checkout(repository, "HEAD") as path:
        raise KeyError
    assert not path.exists()
    assert git(repository, "worktree", "list").count("\n") == 1


def test_checkout_of_unknown_revision_raises(repository: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError), checkout(repository, "nothing"):
        pass
    assert git(repository, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize(("more", "count"), [(2, 5), (-1, 2), (-9, 1)])
def test_line_has_own_number_of_repetitions(more: int, count: int) -> None:
    measurement = Measurement(title="title", unit="us", measure=lambda _: 1.0, sides=(OURS,), more_repetitions=more)
    assert measured("server", measurement, 3).values == {"ours": (1.0,) * count}


def test_state_shown_in_log_twice_a_minute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    monkeypatch.setattr(measurements, "_shown", now)
    monkeypatch.setattr("time.monotonic", lambda: now)
    for seconds in (10.0, 29.0, 30.0, 31.0, 61.0):
        now = 100.0 + seconds
        report(f"at {seconds:g}")
        report("")
    assert capsys.readouterr().err.split() == ["...", "at", "30", "...", "at", "61"]


def test_sides_measured_in_turns_with_alternating_order() -> None:
    order: list[str] = []

    def measure(side: Side) -> float:
        order.append(side.name)
        return float(len(order))

    values = in_turns("title", (OURS, OFFICIAL), 3, measure)
    assert order == ["ours", "official", "official", "ours", "ours", "official"]
    assert values == {"ours": (1.0, 4.0, 5.0), "official": (2.0, 3.0, 6.0)}


def test_comparison_measures_program_of_project_with_both_interpreters() -> None:
    seen: set[Side] = set()

    def measure(side: Side) -> float:
        seen.add(side)
        return 1.0

    measurement = Measurement(
        title="title",
        unit="us",
        measure=measure,
        sides=(ASGI, OFFICIAL),
        goals=(Goal(over="official", under="uvicorn", least=1.0),),
    )
    [line] = compared("asgi", [measurement], BOTH, 2)
    assert seen == {Side("base", "asgi", "/base/python"), Side("tree", "asgi", "/tree/python")}
    assert line == ReportLine(part="asgi", title="title", unit="us", values={"base": (1.0, 1.0), "tree": (1.0, 1.0)})


def test_comparison_line_that_revision_cannot_do_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(side: Side) -> float:
        if side.name == "base":
            raise RuntimeError("no such option")
        return 1.0

    lines = compared(
        "server",
        [
            Measurement(title="new", unit="us", measure=fail),
            Measurement(title="old", unit="us", measure=lambda side: 1.0 if side.name == "base" else 2.0),
        ],
        BOTH,
        1,
    )
    assert [line.title for line in lines] == ["old"]
    assert "new: not measured: no such option" in capsys.readouterr().out


@pytest.mark.parametrize(("factor", "said"), [(0.5, "LESS"), (2.0, "MORE"), (1.0, "no significant change")])
def test_text_of_change_has_interval_and_verdict(factor: float, said: str) -> None:
    values: dict[str, tuple[float, ...]] = {"base": (10.0, 11.0) * 4, "tree": (10.0 * factor, 11.0 * factor) * 4}
    text = text_of_change(ReportLine(part="server", title="title", unit="us", values=values))
    assert text.endswith(f"{factor:.3f} (99%: {factor:.3f} to {factor:.3f})  {said}")


def test_text_of_line_has_all_sides_ratio_and_goal() -> None:
    line = ReportLine(
        part="server",
        title="title",
        unit="us",
        values={"ours": (2.0,), "official": (9.0,), "typescript": (3.0,), "floor": (1.0,)},
        goals=(Goal(over="official", under="ours", least=5.0),),
    )
    text = " ".join(text_of(line).split())
    assert text == (
        "title ours 2.0 official 9.0 typescript 3.0 floor 1.0 us official 4.50 x typescript 1.50 x"
        " official/ours at least 5: MISSED"
    )


def test_file_of_run_sorts_by_time() -> None:
    run = Run(
        revision=Revision(commit="c" * 40, title="", changed=False),
        time="2026-11-27T01:02:03+00:00",
        python="",
        official="",
        machine=Machine(system="", processor="", cores=2, load_at_start=0.0),
        load_at_end=0.0,
        quick=False,
    )
    later = attrs.evolve(run, time="2026-11-27T01:02:04+00:00")
    assert file_of(run).name == "2026-11-27T010203Z-cccccccccc.json"
    assert file_of(run).name < file_of(later).name


def test_run_saved_after_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def imports(_: Effort) -> list[Measurement]:
        return [Measurement(title="import", unit="ms", measure=lambda _: 1.0)]

    def broken(_: Effort) -> list[Measurement]:
        raise KeyboardInterrupt

    monkeypatch.setattr(calls, "PARTS", {"import": imports, "start": broken})
    # The official SDKs are not installed where the tests run.
    monkeypatch.setattr(calls, "install", lambda: "")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.3.0")
    with pytest.raises(KeyboardInterrupt):
        calls.main(["--only", "import,start", "--json", str(tmp_path / "run.json")])
    run = load(tmp_path / "run.json")
    assert [line.title for line in run.lines] == ["import"]
    assert (run.official, run.typescript, list(run.seconds)) == ("2.3.0", "", ["import"])
    assert list(run.lines[0].values) == ["ours", "official"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--only", "server,nothing"], "no such part: nothing"),
        (["--compare", "HEAD", "--only", "latency"], "no such part: latency"),
        (["--compare", "no-such-revision"], "no-such-revision"),
    ],
)
def test_command_rejects_unknown_part_and_revision(
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    with pytest.raises(SystemExit):
        calls.main([*arguments, "--json", str(tmp_path / "run.json")])
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "run.json").exists()
