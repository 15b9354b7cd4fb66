"""Causes: failures that probably come from one fault, combined for readers.

Failures of an area in which the same thing was observed have one cause. Checks that could not test because of one of
these failures belong to the cause too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.findings import findings
from mcp_conformance.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.reports.findings import Finding
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["SHOWN", "Cause", "causes", "unexplained"]

SHOWN: Final = (Score.FAILED, Score.WARNING, Score.BROKEN)
"""The scores of the verdicts that causes explain."""
_VARYING: Final = re.compile(r"\b(id|port)\b(\W{1,4})(\"[^\"]*\"|\d+)")
"""Values that differ between two observations of the same behavior."""
_ERROR: Final = re.compile(r'\{"jsonrpc": "2\.0".*?"error": \{.*?"code": (-?\d+).*?\}( \(HTTP \d+\))?$', re.DOTALL)
"""An error response, as checks describe what they observed."""
_LONGEST: Final = 120
"""Maximum length of an observation in a title, in characters."""


@attrs.frozen(kw_only=True)
class Cause:
    """Failures with the same cause."""

    findings: tuple[Finding, ...]
    """The failures, at least one, those of the highest level first."""
    level: Level
    """The highest level of the failures."""
    followers: tuple[str, ...]
    """Ids of the checks that are not testable because of these failures."""
    is_warning: bool
    """Whether no failure makes the run fail."""

    @property
    def checks(self) -> tuple[str, ...]:
        """The ids of the failed checks."""
        return tuple(dict.fromkeys(finding.first.check for finding in self.findings))

    @property
    def label(self) -> str:
        """The kind of failure: `failed`, `warning` or `broken`."""
        if self.findings[0].first.outcome is Outcome.BROKEN:
            return Score.BROKEN.value
        return Score.WARNING.value if self.is_warning else Score.FAILED.value

    @property
    def title(self) -> str:
        """The observation and the number of checks, or the check when there is only one."""
        number = len({*self.checks, *self.followers})
        if number == 1 or not self.findings[0].first.observed:
            return self.checks[0]
        observed = _brief(self.findings[0].first.observed)
        if len(observed) > _LONGEST:
            observed = f"{observed[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
        return f"{observed}: {number} checks"


def unexplained(scored: ScoredRun) -> list[Verdict]:
    """Return the verdicts that could not test and that no cause lists."""
    listed = {
        (each.check, each.revision, each.transport)
        for cause in causes(scored)
        for finding in cause.findings
        for each in finding.verdicts
    }
    return [
        each
        for each in scored.with_scores((Score.NOT_TESTABLE,))
        if (each.cause, each.revision, each.transport) not in listed
    ]


def causes(scored: ScoredRun) -> list[Cause]:
    """Return the causes of the failures of a run: errors of the suite, then by level, then by number of checks."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings(scored, scored.with_scores(SHOWN)):
        groups.setdefault(_key(finding), []).append(finding)
    found = [_cause(scored, group) for group in groups.values()]
    order = list(Level)
    return sorted(
        found,
        key=lambda cause: (
            cause.label != Score.BROKEN.value,
            cause.is_warning,
            order.index(cause.level),
            -len(cause.checks),
        ),
    )


def _key(finding: Finding) -> tuple[str, ...]:
    verdict = finding.first
    if verdict.outcome is not Outcome.FAILED or not verdict.observed:
        return (verdict.check, verdict.outcome.value)
    return (finding.check.area, _VARYING.sub(r"\1\2", _brief(verdict.observed)))


def _brief(observed: str) -> str:
    """Return an observation in one line; of an error response only its code and status."""
    error = _ERROR.match(observed)
    return f"error {error.group(1)}{error.group(2) or ''}" if error else " ".join(observed.split())


def _cause(scored: ScoredRun, group: Iterable[Finding]) -> Cause:
    order = list(Level)
    ordered = sorted(group, key=lambda finding: order.index(_level(finding)))
    legs = {(verdict.check, verdict.revision, verdict.transport) for finding in ordered for verdict in finding.verdicts}
    verdicts = [verdict for finding in ordered for verdict in finding.verdicts]
    return Cause(
        findings=tuple(ordered),
        level=_level(ordered[0]),
        followers=tuple(
            dict.fromkeys(
                each.check for each in scored.run.verdicts if (each.cause, each.revision, each.transport) in legs
            )
        ),
        is_warning=all(scored.score_of(verdict) is Score.WARNING for verdict in verdicts),
    )


def _level(finding: Finding) -> Level:
    return finding.check.level(finding.first.revision)
