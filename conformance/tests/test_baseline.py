from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_conformance.model.verdict import Outcome, Verdict
from mcp_conformance.scoring.baseline import Baseline, ExpectedFailure, judge, read_baseline, written
from mcp_core.errors import InvalidValue

TODAY = datetime.date(2026, 11, 22)


def verdict(outcome: Outcome, check: str = "tools.text", revision: str = "2025-06-18", reason: str = "why") -> Verdict:
    return Verdict(check=check, revision=revision, transport="stdio", outcome=outcome, reason=reason)


def run(*verdicts: Verdict) -> tuple[Verdict, ...]:
    return verdicts


def baseline_with(check: str = "tools.text", **more: object) -> Baseline:
    entry = ExpectedFailure(check=check, reason="known")
    for name, value in more.items():
        object.__setattr__(entry, name, value)
    return Baseline((entry,))


def test_failure_without_entry_is_new() -> None:
    failed = verdict(Outcome.FAILED)
    assert judge(run(failed), Baseline(), TODAY).new == (failed,)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_TESTABLE])
def test_failure_with_entry_is_known(outcome: Outcome) -> None:
    judgment = judge(run(verdict(outcome)), baseline_with(), TODAY)
    assert judgment.good
    assert len(judgment.known) == 1


def test_broken_check_is_never_known() -> None:
    broken = verdict(Outcome.BROKEN)
    assert judge(run(broken), baseline_with(), TODAY).known == ()


def test_entry_for_other_revision_or_transport_does_not_apply() -> None:
    assert not judge(run(verdict(Outcome.FAILED)), baseline_with(revision="2025-11-25"), TODAY).good
    assert not judge(run(verdict(Outcome.FAILED)), baseline_with(transport="http"), TODAY).good


def test_passing_entry_is_stale_unless_flaky() -> None:
    assert judge(run(verdict(Outcome.PASSED)), baseline_with(), TODAY).stale == baseline_with().known
    assert judge(run(verdict(Outcome.PASSED)), baseline_with(flaky=True), TODAY).good


def test_entry_without_run_is_not_stale() -> None:
    assert judge(run(verdict(Outcome.PASSED, "tools.list")), baseline_with(), TODAY).good


def test_entry_expires_on_its_date() -> None:
    entry = baseline_with(expires=TODAY)
    judgment = judge(run(verdict(Outcome.FAILED)), entry, TODAY)
    assert not judgment.good
    assert judgment.expired == entry.known
    assert judge(run(verdict(Outcome.FAILED)), entry, TODAY - datetime.timedelta(days=1)).good


@pytest.mark.property
@given(st.lists(st.tuples(st.sampled_from(list(Outcome)), st.text(max_size=40)), max_size=4))
def test_written_baseline_covers_exactly_failures(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[tuple[Outcome, str]]
) -> None:
    verdicts = run(*(verdict(outcome, f"tools.c{n}", reason=reason) for n, (outcome, reason) in enumerate(outcomes)))
    path = tmp_path_factory.mktemp("baseline") / "known.toml"
    path.write_text(written(verdicts, Baseline()), encoding="utf-8")
    judgment = judge(verdicts, read_baseline(path), TODAY)
    assert judgment.good
    assert {each.check for each in judgment.known} == {
        each.check for each in verdicts if each.outcome in (Outcome.FAILED, Outcome.NOT_TESTABLE)
    }


def read(tmp_path: Path, text: str) -> tuple[ExpectedFailure, ...]:
    path = tmp_path / "known.toml"
    path.write_text(text)
    return read_baseline(path).known


def test_check_failing_in_all_legs_gets_one_entry(tmp_path: Path) -> None:
    both = run(verdict(Outcome.FAILED), verdict(Outcome.FAILED, revision="2025-11-25"))
    (entry,) = read(tmp_path, written(both, Baseline()))
    assert (entry.check, entry.revision, entry.transport) == ("tools.text", None, None)


def test_check_failing_in_some_legs_gets_entry_per_leg(tmp_path: Path) -> None:
    some = run(verdict(Outcome.FAILED), verdict(Outcome.PASSED, revision="2025-11-25"))
    (entry,) = read(tmp_path, written(some, Baseline()))
    assert (entry.revision, entry.transport) == ("2025-06-18", "stdio")


def test_rewriting_keeps_unrun_and_drops_passing_entries(tmp_path: Path) -> None:
    old = Baseline(tuple(ExpectedFailure(check=f"tools.{name}", reason="x") for name in ("text", "list")))
    assert read(tmp_path, written(run(verdict(Outcome.PASSED)), old)) == old.known[1:]


def test_rewriting_adds_uncovered_failures(tmp_path: Path) -> None:
    old = baseline_with(revision="2025-11-25")
    both = run(verdict(Outcome.FAILED), verdict(Outcome.FAILED, revision="2025-11-25"))
    kept, new = read(tmp_path, written(both, old))
    assert kept == old.known[0]
    assert new.revision == "2025-06-18"


def test_rewriting_keeps_reason_expiry_and_flaky(tmp_path: Path) -> None:
    old = Baseline((ExpectedFailure(check="tools.text", reason="see 123", expires=TODAY, flaky=True),))
    path = tmp_path / "known.toml"
    path.write_text(written(run(verdict(Outcome.FAILED)), old))
    (entry,) = read_baseline(path).known
    assert (entry.reason, entry.expires, entry.flaky) == ("see 123", TODAY, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("known = 1", "something other than"),
        ("[other]", "something other than"),
        ("[[known]]\nreason = 'x'", "known[0].check"),
        ("[[known]]\ncheck = 'x'", "known[0].reason"),
        ("[[known]]\ncheck = 'x'\nreason = 'y'\nflaky = 'no'", "known[0].flaky"),
        ("[[known]]\ncheck = 'x'\nreason = 'y'\nexpires = 'soon'", "known[0].expires"),
        ("[[known]]\ncheck = 'x'\nreason = 'y'\nuntil = 1", "known[0].until"),
        ("[[known]", "is not TOML"),
    ],
)
def test_invalid_baseline_raises_with_location(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(InvalidValue) as caught:
        read_baseline(path)
    assert expected in str(caught.value)
