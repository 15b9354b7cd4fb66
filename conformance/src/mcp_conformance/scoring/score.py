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
from mcp_conformance.scoring.baseline import Baseline, judge
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping

    from mcp_conformance.model.check import Role
    from mcp_conformance.model.verdict import Lane, Run, Verdict
    from mcp_conformance.scoring.baseline import BaselineComparison, Known
    from mcp_conformance.suite.profile import Profile

__all__ = ["RED", "Rules", "Scored", "Standing", "meets", "score"]


class Standing(enum.Enum):
    """The score of a verdict."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_TESTABLE = "not testable"
    """The rule could not be tested, which is not a pass."""
    BROKEN = "broken"
    """An error of the suite."""
    KNOWN = "known"
    """A failure that the baseline expects."""
    UNSCORED = "not scored"
    """Outside of the chosen level or profile, with any outcome."""
    NOT_APPLICABLE = "not applicable"


RED: Final = (Standing.FAILED, Standing.NOT_TESTABLE, Standing.BROKEN)
"""The scores that make a run fail, except not testable if the rules allow it."""

_STANDINGS: Final[Mapping[Outcome, Standing]] = {
    Outcome.PASSED: Standing.PASSED,
    Outcome.FAILED: Standing.FAILED,
    Outcome.NOT_TESTABLE: Standing.NOT_TESTABLE,
    Outcome.BROKEN: Standing.BROKEN,
    Outcome.NOT_APPLICABLE: Standing.NOT_APPLICABLE,
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
    allow_untested: bool = False
    """Whether a run passes although checks could not test: right for a server without fixtures."""
    demanded: frozenset[str] = frozenset()
    """The revisions that were requested by name: a run fails if the implementation does not support one."""

    def counts(self, verdict: Verdict, role: Role) -> bool:
        """Return whether a verdict counts."""
        if not meets(find(verdict.check, role).level(verdict.revision), self.level):
            return False
        return self.profile is None or self.profile.has(verdict.check, verdict.revision, role)

    def standing(self, verdict: Verdict, role: Role) -> Standing:
        """Return the score of a verdict."""
        if not self.counts(verdict, role):
            return Standing.UNSCORED
        if self.baseline.find(verdict, self.today) is not None:
            return Standing.KNOWN
        return _STANDINGS[verdict.outcome]

    def is_red(self, standing: Standing) -> bool:
        """Return whether a score makes a run fail."""
        return standing in RED and not (self.allow_untested and standing is Standing.NOT_TESTABLE)


@attrs.frozen(kw_only=True)
class Scored:
    """A run with its score."""

    run: Run
    """The run."""
    rules: Rules
    """The rules of the score."""
    counted: tuple[Verdict, ...]
    """The verdicts that count."""
    comparison: BaselineComparison
    """The comparison of the counted verdicts with the baseline."""

    def standing(self, verdict: Verdict) -> Standing:
        """Return the score of a verdict of the run."""
        return self.rules.standing(verdict, self.run.role)

    def known(self, verdict: Verdict) -> Known | None:
        """Return the entry of the baseline that excuses a verdict."""
        return self.rules.baseline.find(verdict, self.rules.today)

    def counts(self, leg: Lane | None = None) -> Mapping[Standing, int]:
        """Return the number of verdicts by score, of a leg or of the whole run, including zeros."""
        counter = Counter(map(self.standing, self.run.verdicts if leg is None else self.run.of(leg)))
        return {standing: counter[standing] for standing in Standing}

    def those(self, standings: Iterable[Standing]) -> tuple[Verdict, ...]:
        """Return the verdicts with some scores, in order."""
        wanted = set(standings)
        return tuple(verdict for verdict in self.run.verdicts if self.standing(verdict) in wanted)

    @property
    def unsupported(self) -> tuple[Lane, ...]:
        """The legs of revisions that were requested by name and are not supported.

        Streamable HTTP came after HTTP+SSE: a server that supports HTTP+SSE in a revision does not need the other.
        """
        older = {
            leg.revision for leg in self.run.lanes if leg.refusal is None and leg.transport == Transport.HTTP_SSE.value
        }
        return tuple(
            leg
            for leg in self.run.lanes
            if leg.refusal is not None
            and leg.revision in self.rules.demanded
            and not (leg.transport == Transport.HTTP.value and leg.revision in older)
        )

    @property
    def status(self) -> int:
        """The exit status of the command: 0, 1 or 3, as documented in `--help`."""
        counts = self.counts()
        if counts[Standing.BROKEN] or self.unsupported or not self.run.verdicts:
            return 3
        return 0 if self.comparison.good else 1

    @property
    def told(self) -> str:
        """The result of the run in a few words."""
        counts = self.counts()
        if not self.run.verdicts or self.unsupported:
            return "nothing to test" if not self.run.verdicts else "not supported"
        parts = [f"{counts[each]} {each.value}" for each in RED if counts[each]]
        if self.comparison.stale:
            parts.append(f"{len(self.comparison.stale)} stale in the baseline")
        return ", ".join(["passed", *parts] if self.status == 0 else parts)


def score(run: Run, rules: Rules) -> Scored:
    """Score a run."""
    counted = tuple(
        verdict
        for verdict in run.verdicts
        if rules.counts(verdict, run.role) and not (rules.allow_untested and verdict.outcome is Outcome.NOT_TESTABLE)
    )
    return Scored(run=run, rules=rules, counted=counted, comparison=judge(counted, rules.baseline, rules.today))
