from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_conformance.model.verdict import Outcome, Verdict
from mcp_conformance.scoring.baseline import Baseline, Known, judge, read_baseline, written
from mcp_core.errors import InvalidValue

TODAY = datetime.date(2026, 11, 22)


def verdict(outcome: Outcome, check: str = "tools.text", revision: str = "2025-06-18", reason: str = "why") -> Verdict:
    return Verdict(check=check, revision=revision, transport="stdio", outcome=outcome, reason=reason)


def run(*verdicts: Verdict) -> tuple[Verdict, ...]:
    return verdicts


def known(check: str = "tools.text", **more: object) -> Baseline:
    entry = Known(check=check, reason="known")
    for name, value in more.items():
        object.__setattr__(entry, name, value)
    return Baseline((entry,))


def test_what_nobody_knew_is_new() -> None:
    red = verdict(Outcome.FAILED)
    assert judge(run(red), Baseline(), TODAY).new == (red,)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_TESTABLE])
def test_what_is_known_is_good_enough(outcome: Outcome) -> None:
    judged = judge(run(verdict(outcome)), known(), TODAY)
    assert judged.good
    assert len(judged.known) == 1


def test_that_the_suite_went_wrong_cannot_be_known() -> None:
    broken = verdict(Outcome.BROKEN)
    assert judge(run(broken), known(), TODAY).known == ()


def test_an_entry_for_another_revision_or_transport_excuses_nothing() -> None:
    assert not judge(run(verdict(Outcome.FAILED)), known(revision="2025-11-25"), TODAY).good
    assert not judge(run(verdict(Outcome.FAILED)), known(transport="http"), TODAY).good


def test_an_entry_that_passes_is_stale_unless_it_is_flaky() -> None:
    assert judge(run(verdict(Outcome.PASSED)), known(), TODAY).stale == known().known
    assert judge(run(verdict(Outcome.PASSED)), known(flaky=True), TODAY).good


def test_an_entry_is_not_stale_where_its_check_did_not_run() -> None:
    assert judge(run(verdict(Outcome.PASSED, "tools.list")), known(), TODAY).good


def test_an_entry_ends_on_its_day() -> None:
    entry = known(expires=TODAY)
    judged = judge(run(verdict(Outcome.FAILED)), entry, TODAY)
    assert not judged.good
    assert judged.expired == entry.known
    assert judge(run(verdict(Outcome.FAILED)), entry, TODAY - datetime.timedelta(days=1)).good


@pytest.mark.property
@given(st.lists(st.tuples(st.sampled_from(list(Outcome)), st.text(max_size=40)), max_size=4))
def test_what_is_written_excuses_what_is_red_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[tuple[Outcome, str]]
) -> None:
    it = run(*(verdict(outcome, f"tools.c{n}", reason=reason) for n, (outcome, reason) in enumerate(outcomes)))
    path = tmp_path_factory.mktemp("baseline") / "known.toml"
    path.write_text(written(it, Baseline()), encoding="utf-8")
    judged = judge(it, read_baseline(path), TODAY)
    assert judged.good
    assert {each.check for each in judged.known} == {
        each.check for each in it if each.outcome in (Outcome.FAILED, Outcome.NOT_TESTABLE)
    }


def read(tmp_path: Path, text: str) -> tuple[Known, ...]:
    path = tmp_path / "known.toml"
    path.write_text(text)
    return read_baseline(path).known


def test_a_check_that_is_red_wherever_it_ran_gets_one_entry(tmp_path: Path) -> None:
    both = run(verdict(Outcome.FAILED), verdict(Outcome.FAILED, revision="2025-11-25"))
    (entry,) = read(tmp_path, written(both, Baseline()))
    assert (entry.check, entry.revision, entry.transport) == ("tools.text", None, None)


def test_a_check_that_is_red_in_places_gets_an_entry_for_each(tmp_path: Path) -> None:
    some = run(verdict(Outcome.FAILED), verdict(Outcome.PASSED, revision="2025-11-25"))
    (entry,) = read(tmp_path, written(some, Baseline()))
    assert (entry.revision, entry.transport) == ("2025-06-18", "stdio")


def test_writing_again_keeps_what_did_not_run_and_drops_what_passes(tmp_path: Path) -> None:
    old = Baseline(tuple(Known(check=f"tools.{name}", reason="x") for name in ("text", "list")))
    assert read(tmp_path, written(run(verdict(Outcome.PASSED)), old)) == old.known[1:]


def test_writing_again_adds_what_an_entry_does_not_cover(tmp_path: Path) -> None:
    old = known(revision="2025-11-25")
    both = run(verdict(Outcome.FAILED), verdict(Outcome.FAILED, revision="2025-11-25"))
    kept, new = read(tmp_path, written(both, old))
    assert kept == old.known[0]
    assert new.revision == "2025-06-18"


def test_writing_again_keeps_reasons_and_ends(tmp_path: Path) -> None:
    old = Baseline((Known(check="tools.text", reason="see 123", expires=TODAY, flaky=True),))
    path = tmp_path / "known.toml"
    path.write_text(written(run(verdict(Outcome.FAILED)), old))
    (entry,) = read_baseline(path).known
    assert (entry.reason, entry.expires, entry.flaky) == ("see 123", TODAY, True)


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_what_is_wrong_with_a_baseline_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(InvalidValue) as caught:
        read_baseline(path)
    assert told in str(caught.value)
