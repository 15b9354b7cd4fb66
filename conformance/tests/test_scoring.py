from __future__ import annotations

import attrs
import pytest
from scored_runs import IDS, RECOMMENDED, REVISION, RULES, TODAY, scored, verdict

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.check import Role
from mcp_conformance.model.verdict import Leg, Outcome, Run
from mcp_conformance.scoring.baseline import Baseline, ExpectedFailure
from mcp_conformance.scoring.score import Rules, Score, meets, score
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.profile import Profile, ProfileCheck, load

PROFILE = Profile(
    name="x",
    digest="sha256:0",
    checks={Role.SERVER: {IDS[0]: ProfileCheck(revisions=frozenset({REVISION}), proves=())}, Role.CLIENT: {}},
)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.PASSED, 0),
        (Outcome.NOT_APPLICABLE, 0),
        (Outcome.FAILED, 1),
        (Outcome.NOT_TESTABLE, 1),
        (Outcome.BROKEN, 3),
    ],
)
def test_outcome_determines_exit_status(outcome: Outcome, status: int) -> None:
    assert scored(verdict(Outcome.PASSED), verdict(outcome, check=IDS[1])).status == status


def test_empty_run_returns_3() -> None:
    assert scored().status == 3
    assert scored().summary == "nothing to test"


def test_demanded_revision_not_spoken_returns_3() -> None:
    run = scored(verdict(Outcome.PASSED), rules=Rules(today=TODAY, demanded=frozenset({"2024-11-05"})))
    assert run.status == 3
    assert run.summary == "not supported"
    assert scored(verdict(Outcome.PASSED)).status == 0


def test_requested_check_that_applies_nowhere_returns_3() -> None:
    rules = Rules(today=TODAY, requested=frozenset({IDS[0], IDS[1]}))
    other = verdict(Outcome.NOT_APPLICABLE, check=IDS[1])
    run = scored(verdict(Outcome.PASSED, check=IDS[0]), other, rules=rules)
    assert run.status == 3
    assert run.summary == f"not applicable: {IDS[1]}"
    # It applies in another revision.
    passed = verdict(Outcome.PASSED, check=IDS[1], revision="2025-03-26")
    assert scored(verdict(Outcome.PASSED, check=IDS[0]), other, passed, rules=rules).status == 0


@pytest.mark.parametrize(
    ("used", "refused", "status"), [("http-sse", "http", 0), ("http", "http-sse", 3), ("stdio", "http", 3)]
)
def test_http_sse_suffices_for_first_revision(used: str, refused: str, status: int) -> None:
    older = "2024-11-05"
    legs = (
        Leg(revision=older, transport=used, refusal=None),
        Leg(revision=older, transport=refused, refusal="HTTP 405"),
    )
    passed = verdict(Outcome.PASSED, revision=older, transport=used)
    run = Run(role=Role.SERVER, target="server", legs=legs, verdicts=(passed,))
    assert score(run, attrs.evolve(RULES, demanded=frozenset({older}))).status == status


def test_check_outside_profile_is_not_scored() -> None:
    rules = attrs.evolve(RULES, profile=PROFILE)
    run = scored(verdict(Outcome.PASSED), verdict(Outcome.FAILED, check=IDS[1]), rules=rules)
    assert run.status == 0
    assert run.counts()[Score.UNSCORED] == 1
    assert scored(verdict(Outcome.FAILED), rules=rules).status == 1
    assert not PROFILE.has(IDS[0], "2025-11-25", Role.SERVER)


def test_check_below_level_is_not_scored() -> None:
    failure = verdict(Outcome.FAILED, check=RECOMMENDED[0])
    rules = attrs.evolve(RULES, level=Level.MUST, strict=True)
    assert scored(failure, rules=rules).score_of(failure) is Score.UNSCORED
    assert scored(failure, rules=rules).status == 0


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_TESTABLE])
def test_recommendation_fails_only_strict_run(outcome: Outcome) -> None:
    verdicts = (verdict(Outcome.PASSED), verdict(outcome, check=RECOMMENDED[0]))
    assert scored(*verdicts).status == 0
    strict = scored(*verdicts, rules=attrs.evolve(RULES, strict=True))
    assert (strict.status, strict.summary) == (1, f"1 {outcome.value}")


def test_failed_recommendation_is_a_warning() -> None:
    run = scored(verdict(Outcome.PASSED), verdict(Outcome.FAILED, check=RECOMMENDED[0]))
    assert run.summary == "passed, 1 warning"
    assert [run.score_of(each) for each in run.run.verdicts] == [Score.PASSED, Score.WARNING]


def test_level_in_the_revision_of_the_leg_decides() -> None:
    check = next(
        check
        for check in CHECKS[Role.SERVER]
        if {check.level(revision) for revision in check.revisions} >= {Level.MUST, Level.SHOULD}
    )
    for revision in check.revisions:
        failure = verdict(Outcome.FAILED, check=check.id, revision=revision)
        assert scored(failure).status == (check.level(revision) is Level.MUST)


def test_error_of_the_suite_in_a_recommendation_is_no_warning() -> None:
    assert scored(verdict(Outcome.BROKEN, check=RECOMMENDED[0])).status == 3


def test_author_profile_does_not_score_untestable_check() -> None:
    untested = verdict(Outcome.NOT_TESTABLE, check=IDS[1])
    author, library = (
        scored(verdict(Outcome.PASSED), untested, rules=attrs.evolve(RULES, profile=load(name)))
        for name in ("author", "library")
    )
    assert (author.status, author.score_of(untested)) == (0, Score.UNSCORED)
    assert (library.status, library.score_of(untested)) == (1, Score.NOT_TESTABLE)


def test_author_profile_scores_check_behind_failure() -> None:
    follower = attrs.evolve(verdict(Outcome.NOT_TESTABLE, check=IDS[1]), cause=IDS[0])
    run = scored(verdict(Outcome.PASSED), follower, rules=attrs.evolve(RULES, profile=load("author")))
    assert (run.status, run.score_of(follower)) == (1, Score.NOT_TESTABLE)


def test_unscored_entry_is_not_stale() -> None:
    known = Baseline((ExpectedFailure(check=IDS[1], reason="x"),))
    rules = attrs.evolve(RULES, profile=PROFILE, baseline=known)
    assert scored(verdict(Outcome.PASSED), verdict(Outcome.PASSED, check=IDS[1]), rules=rules).status == 0


def test_allowed_untested_check_is_counted_in_summary() -> None:
    run = scored(
        verdict(Outcome.PASSED),
        verdict(Outcome.NOT_TESTABLE, check=IDS[1]),
        rules=attrs.evolve(RULES, allow_untested=True),
    )
    assert run.status == 0
    assert run.summary == "passed, 1 not testable"


def test_stale_entry_fails_run() -> None:
    run = scored(
        verdict(Outcome.PASSED),
        rules=attrs.evolve(RULES, baseline=Baseline((ExpectedFailure(check=IDS[0], reason="x"),))),
    )
    assert run.status == 1
    assert run.summary == "1 stale in the baseline"


def test_levels_are_ordered() -> None:
    assert meets(Level.MUST, Level.SHOULD)
    assert meets(Level.SHOULD, Level.SHOULD)
    assert not meets(Level.MAY, Level.SHOULD)
