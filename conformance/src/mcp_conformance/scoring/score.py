"""The score of a run: which verdicts count, which failures are expected, and the result of the run.

Verdicts state what was observed. Whether a run fails depends on the level, the profile and the baseline that its
operator chooses. All reports are made from a scored run, so that they cannot disagree.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.scoring.attribution import attributed
from mcp_conformance.scoring.baseline import Baseline, judge
from mcp_conformance.scoring.known_sdks import recognized
from mcp_conformance.suite.checks import find
from mcp_conformance.suite.profile import Purpose

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping

    from mcp_conformance.model.check import Role
    from mcp_conformance.model.verdict import Leg, Run, Verdict
    from mcp_conformance.scoring.baseline import BaselineComparison, ExpectedFailure
    from mcp_conformance.scoring.known_sdks import KnownSdk
    from mcp_conformance.suite.profile import Profile

__all__ = ["FAILING", "Rules", "Score", "ScoredRun", "meets", "score"]


class Score(enum.Enum):
    """The score of a verdict."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    """A failure against a recommendation, which is not required."""
    NOT_TESTABLE = "not testable"
    """The rule could not be tested, which is not a pass."""
    BROKEN = "broken"
    """An error of the suite."""
    KNOWN = "known"
    """A failure that the baseline expects."""
    UNSCORED = "not scored"
    """Outside of the chosen level or profile, with any outcome."""
    NOT_APPLICABLE = "not applicable"


FAILING: Final = (Score.FAILED, Score.NOT_TESTABLE, Score.BROKEN)
"""The scores that can make a run fail, see `Rules.makes_run_fail`."""

_SCORES: Final[Mapping[Outcome, Score]] = {
    Outcome.PASSED: Score.PASSED,
    Outcome.FAILED: Score.FAILED,
    Outcome.NOT_TESTABLE: Score.NOT_TESTABLE,
    Outcome.BROKEN: Score.BROKEN,
    Outcome.NOT_APPLICABLE: Score.NOT_APPLICABLE,
}


def meets(level: Level, least: Level) -> bool:
    """Return whether a level obliges at least as much as another."""
    order = list(Level)
    return order.index(level) <= order.index(least)


@attrs.frozen(kw_only=True)
class Rules:
    """The rules by which a run is scored."""

    today: datetime.date
    """The date, for the expiry of baseline entries."""
    level: Level = Level.MAY
    """The minimum level of a check that counts, in the revision of the leg."""
    profile: Profile | None = None
    """The set of checks that count; `None`: all."""
    baseline: Baseline = attrs.field(factory=Baseline)
    """The expected failures."""
    sdk: KnownSdk | None = None
    """The SDK of the target; `None`: unknown."""
    strict: bool = False
    """Whether checks of a level below MUST make a run fail too."""
    allow_untested: bool = False
    """Whether a run passes although checks could not test: right for a server without fixtures."""
    demanded: frozenset[str] = frozenset()
    """The revisions that were requested by name: a run fails if the implementation does not support one."""
    requested: frozenset[str] = frozenset()
    """The checks that were requested by name: a run fails if one of them applies nowhere, which is not a pass."""

    def counts(self, verdict: Verdict, role: Role) -> bool:
        """Return whether a verdict counts."""
        if not meets(find(verdict.check, role).level(verdict.revision), self.level):
            return False
        if self.profile is None:
            return True
        if self.profile.purpose is Purpose.AUTHOR and verdict.outcome is Outcome.NOT_TESTABLE and not verdict.cause:
            return False
        return self.profile.has(verdict.check, verdict.revision, role)

    def is_required(self, verdict: Verdict, role: Role) -> bool:
        """Return whether a run fails for a check: its level is MUST in the revision, or the rules are strict."""
        return self.strict or find(verdict.check, role).level(verdict.revision) is Level.MUST

    def explains(self, cause: Verdict, verdict: Verdict, role: Role) -> bool:
        """Return whether one failure may be the cause of another: no warning hides a failure."""
        return self.counts(cause, role) and (self.is_required(cause, role) or not self.is_required(verdict, role))

    def score_of(self, verdict: Verdict, role: Role) -> Score:
        """Return the score of a verdict."""
        if not self.counts(verdict, role):
            return Score.UNSCORED
        if self.baseline.find(verdict, self.today) is not None:
            return Score.KNOWN
        if verdict.outcome is Outcome.FAILED and not self.is_required(verdict, role):
            return Score.WARNING
        return _SCORES[verdict.outcome]

    def makes_run_fail(self, verdict: Verdict, role: Role) -> bool:
        """Return whether a verdict makes a run fail."""
        verdict_score = self.score_of(verdict, role)
        if verdict_score is Score.NOT_TESTABLE:
            return not self.allow_untested and self.is_required(verdict, role)
        return verdict_score in FAILING


@attrs.frozen(kw_only=True)
class ScoredRun:
    """A run with its score."""

    run: Run
    """The run."""
    rules: Rules
    """The rules of the score."""
    counted: tuple[Verdict, ...]
    """The verdicts that count."""
    comparison: BaselineComparison
    """The comparison of the counted verdicts with the baseline."""
    sdk: KnownSdk | None = None
    """The SDK of the target, stated or recognized; `None`: unknown."""

    def score_of(self, verdict: Verdict) -> Score:
        """Return the score of a verdict of the run."""
        return self.rules.score_of(verdict, self.run.role)

    def known(self, verdict: Verdict) -> ExpectedFailure | None:
        """Return the entry of the baseline that excuses a verdict."""
        return self.rules.baseline.find(verdict, self.rules.today)

    def from_sdk(self, verdict: Verdict) -> ExpectedFailure | None:
        """Return the known failure of the SDK that a verdict shows; `None` without one."""
        return None if self.sdk is None else self.sdk.find(verdict)

    @property
    def sdk_summary(self) -> str:
        """The number of failed checks that the SDK causes, and what to do; empty when no SDK is known."""
        failed = self.with_scores((Score.FAILED, Score.WARNING))
        checks = {verdict.check for verdict in failed}
        own = {verdict.check for verdict in failed if self.from_sdk(verdict) is None}
        if self.sdk is None or checks == own:
            return ""
        known = "" if self.rules.sdk is not None else ", which the failures resemble"
        return (
            f"{len(checks - own)} of {len(checks)} failed checks come from the SDK {self.sdk.name}{known}: "
            f"--baseline sdk:{self.sdk.name} expects them"
        )

    def counts(self, leg: Leg | None = None) -> Mapping[Score, int]:
        """Return the number of verdicts by score, of a leg or of the whole run, including zeros."""
        counter = Counter(map(self.score_of, self.run.verdicts if leg is None else self.run.of(leg)))
        return {verdict_score: counter[verdict_score] for verdict_score in Score}

    def with_scores(self, scores: Iterable[Score]) -> tuple[Verdict, ...]:
        """Return the verdicts with some scores, in order."""
        wanted = set(scores)
        return tuple(verdict for verdict in self.run.verdicts if self.score_of(verdict) in wanted)

    @property
    def unsupported(self) -> tuple[Leg, ...]:
        """The legs of revisions that were requested by name and are not supported.

        Streamable HTTP came after HTTP+SSE: a server that supports HTTP+SSE in a revision does not need the other.
        """
        older = {
            leg.revision for leg in self.run.legs if leg.refusal is None and leg.transport == Transport.HTTP_SSE.value
        }
        return tuple(
            leg
            for leg in self.run.legs
            if leg.refusal is not None
            and leg.revision in self.rules.demanded
            and not (leg.transport == Transport.HTTP.value and leg.revision in older)
        )

    @property
    def not_applied(self) -> tuple[str, ...]:
        """The checks that were requested by name and apply to no leg."""
        applied = {each.check for each in self.run.verdicts if each.outcome is not Outcome.NOT_APPLICABLE}
        return tuple(sorted(self.rules.requested - applied))

    @property
    def status(self) -> int:
        """The exit status of the command: 0, 1 or 3, as documented in `--help`."""
        counts = self.counts()
        if counts[Score.BROKEN] or self.unsupported or self.not_applied or not self.run.verdicts:
            return 3
        return 0 if self.comparison.good else 1

    @property
    def summary(self) -> str:
        """The result of the run in a few words."""
        counts = self.counts()
        if not self.run.verdicts or self.unsupported:
            return "nothing to test" if not self.run.verdicts else "not supported"
        if self.not_applied:
            return f"not applicable: {', '.join(self.not_applied)}"
        parts = [f"{counts[each]} {each.value}" for each in FAILING if counts[each]]
        if counts[Score.WARNING]:
            parts.append(f"{counts[Score.WARNING]} warning{'' if counts[Score.WARNING] == 1 else 's'}")
        if self.comparison.stale:
            parts.append(f"{len(self.comparison.stale)} stale in the baseline")
        return ", ".join(["passed", *parts] if self.status == 0 else parts)


def score(run: Run, rules: Rules) -> ScoredRun:
    """Score a run. Failures that follow from others are not testable."""
    run = attributed(run, lambda cause, verdict: rules.explains(cause, verdict, run.role))
    counted = tuple(
        verdict
        for verdict in run.verdicts
        if rules.counts(verdict, run.role) and not (rules.allow_untested and verdict.outcome is Outcome.NOT_TESTABLE)
    )
    comparison = judge(counted, rules.baseline, rules.today)
    new = tuple(verdict for verdict in comparison.new if rules.is_required(verdict, run.role))
    return ScoredRun(
        run=run,
        rules=rules,
        counted=counted,
        comparison=attrs.evolve(comparison, new=new),
        sdk=rules.sdk or recognized(run),
    )
