"""What a run is worth: which verdicts count, which are known, and what the whole comes to.

The verdicts of a run say what was seen. Whether that is bad is for whoever runs the suite to say, by a level, a profile and
a baseline. All reports are made from a run that is scored, so that they cannot disagree.
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
    from mcp_conformance.scoring.baseline import Judgement, Known
    from mcp_conformance.suite.profile import Profile

__all__ = ["RED", "Rules", "Scored", "Standing", "meets", "score"]


class Standing(enum.Enum):
    """What a verdict is worth."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_TESTABLE = "not testable"
    """It could not be put to the test, which is no pass."""
    BROKEN = "broken"
    """The suite itself went wrong."""
    KNOWN = "known"
    """Red, and the baseline bears with it."""
    UNSCORED = "not scored"
    """Outside of the level or the profile that was asked for, whatever it came to."""
    NOT_APPLICABLE = "not applicable"


RED: Final = (Standing.FAILED, Standing.NOT_TESTABLE, Standing.BROKEN)
"""What a run is not good with, unless the rules allow what was not tested."""

_STANDINGS: Final[Mapping[Outcome, Standing]] = {
    Outcome.PASSED: Standing.PASSED,
    Outcome.FAILED: Standing.FAILED,
    Outcome.NOT_TESTABLE: Standing.NOT_TESTABLE,
    Outcome.BROKEN: Standing.BROKEN,
    Outcome.NOT_APPLICABLE: Standing.NOT_APPLICABLE,
}


def meets(level: Level, least: Level) -> bool:
    """Whether a level obliges at least as much as another one."""
    order = list(Level)
    return order.index(level) <= order.index(least)


@attrs.frozen(kw_only=True)
class Rules:
    """By what a run is scored."""

    today: datetime.date
    """The date: entries of a baseline may have an end."""
    level: Level = Level.MAY
    """How much a check must oblige at least, in the revision that is spoken, to count."""
    profile: Profile | None = None
    """The set of checks that count; `None`: all."""
    baseline: Baseline = attrs.field(factory=Baseline)
    """What is known to be red."""
    allow_untested: bool = False
    """Whether a run is good though something could not be put to the test: right for a server that is no fixture."""
    demanded: frozenset[str] = frozenset()
    """The revisions that were asked for by name: there, an implementation that does not speak them is not good."""

    def counts(self, verdict: Verdict, role: Role) -> bool:
        """Whether a verdict counts."""
        if not meets(find(verdict.check, role).level(verdict.revision), self.level):
            return False
        return self.profile is None or self.profile.has(verdict.check, verdict.revision, role)

    def standing(self, verdict: Verdict, role: Role) -> Standing:
        """What a verdict is worth."""
        if not self.counts(verdict, role):
            return Standing.UNSCORED
        if self.baseline.find(verdict, self.today) is not None:
            return Standing.KNOWN
        return _STANDINGS[verdict.outcome]

    def is_red(self, standing: Standing) -> bool:
        """Whether a run is not good with that."""
        return standing in RED and not (self.allow_untested and standing is Standing.NOT_TESTABLE)


@attrs.frozen(kw_only=True)
class Scored:
    """A run, and what it is worth."""

    run: Run
    """The run."""
    rules: Rules
    """By what it is scored."""
    counted: tuple[Verdict, ...]
    """The verdicts that count."""
    judgement: Judgement
    """These, held against the baseline."""

    def standing(self, verdict: Verdict) -> Standing:
        """What a verdict of the run is worth."""
        return self.rules.standing(verdict, self.run.role)

    def known(self, verdict: Verdict) -> Known | None:
        """The entry of the baseline that bears with a verdict."""
        return self.rules.baseline.find(verdict, self.rules.today)

    def counts(self, lane: Lane | None = None) -> Mapping[Standing, int]:
        """How many verdicts there are of each kind: of a lane, or of the whole run. Every kind is there."""
        counter = Counter(map(self.standing, self.run.verdicts if lane is None else self.run.of(lane)))
        return {standing: counter[standing] for standing in Standing}

    def those(self, standings: Iterable[Standing]) -> tuple[Verdict, ...]:
        """The verdicts of some kinds, in order."""
        wanted = set(standings)
        return tuple(verdict for verdict in self.run.verdicts if self.standing(verdict) in wanted)

    @property
    def unspoken(self) -> tuple[Lane, ...]:
        """What was asked for by name and is not spoken.

        Streamable HTTP came with the revision behind the one of HTTP+SSE: who speaks that one there owes no other.
        """
        older = {
            lane.revision
            for lane in self.run.lanes
            if lane.refusal is None and lane.transport == Transport.HTTP_SSE.value
        }
        return tuple(
            lane
            for lane in self.run.lanes
            if lane.refusal is not None
            and lane.revision in self.rules.demanded
            and not (lane.transport == Transport.HTTP.value and lane.revision in older)
        )

    @property
    def status(self) -> int:
        """The exit status of the command: 0, 1 or 3, as `--help` says."""
        counts = self.counts()
        if counts[Standing.BROKEN] or self.unspoken or not self.run.verdicts:
            return 3
        return 0 if self.judgement.good else 1

    @property
    def told(self) -> str:
        """What the whole comes to, in a few words."""
        counts = self.counts()
        if not self.run.verdicts or self.unspoken:
            return "nothing to test" if not self.run.verdicts else "not spoken"
        parts = [f"{counts[each]} {each.value}" for each in RED if counts[each]]
        if self.judgement.stale:
            parts.append(f"{len(self.judgement.stale)} stale in the baseline")
        return ", ".join(["passed", *parts] if self.status == 0 else parts)


def score(run: Run, rules: Rules) -> Scored:
    """Scores a run."""
    counted = tuple(
        verdict
        for verdict in run.verdicts
        if rules.counts(verdict, run.role) and not (rules.allow_untested and verdict.outcome is Outcome.NOT_TESTABLE)
    )
    return Scored(run=run, rules=rules, counted=counted, judgement=judge(counted, rules.baseline, rules.today))
