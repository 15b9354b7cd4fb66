from __future__ import annotations

import attrs
import pytest
from scored_runs import IDS, REVISION, RULES, TODAY, scored, verdict

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.check import Role
from mcp_conformance.model.verdict import Leg, Outcome, Run, Verdict
from mcp_conformance.scoring.baseline import Baseline, ExpectedFailure
from mcp_conformance.scoring.score import Rules, Score, meets, score
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.profile import Profile, ProfileCheck

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


def failure_below_must() -> Verdict:
    """Return a failure of a check below MUST."""
    found = next(
        (check.id, revision)
        for check in CHECKS[Role.SERVER]
        for revision in sorted(check.revisions)
        if check.level(revision) is not Level.MUST
    )
    return verdict(Outcome.FAILED, check=found[0], revision=found[1])


def test_check_below_level_is_not_scored() -> None:
    assert scored(verdict(Outcome.PASSED), failure_below_must()).status == 1
    assert (
        scored(verdict(Outcome.PASSED), failure_below_must(), rules=attrs.evolve(RULES, level=Level.MUST)).status == 0
    )


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
