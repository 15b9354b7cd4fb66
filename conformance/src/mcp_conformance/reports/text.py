"""The report of a run in a terminal: progress during the run, and a summary at its end."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.causes import SHOWN, causes, unexplained
from mcp_conformance.reports.findings import findings, places
from mcp_conformance.scoring.score import FAILING, Score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.reports.causes import Cause
    from mcp_conformance.reports.findings import Finding
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["Progress", "finding_lines", "progress_line", "summary_lines"]

_OFTEN: Final = 100
"""Number of verdicts after which a line is written when lines cannot be overwritten."""
_NAMED: Final = 4
"""Maximum number of checks that are named for a reason."""


class Progress:
    """The progress of a run: one line that is overwritten, or each failure and an occasional count.

    Args:
        stream: The stream to write to.
        verdict_score: Returns the score of a verdict.
    """

    def __init__(self, stream: TextIO, verdict_score: Callable[[Verdict], Score]) -> None:
        self._stream: Final = stream
        self._verdict_score: Final = verdict_score
        self._changing: Final = stream.isatty()
        self._all = 0
        self._failing = 0
        self._played = 0

    def __call__(self, verdict: Verdict) -> None:
        """Show a verdict."""
        verdict_score = self._verdict_score(verdict)
        self._all += 1
        self._failing += verdict_score in (Score.FAILED, Score.BROKEN)
        if verdict_score in SHOWN:
            self._clear()
            print(progress_line(verdict, verdict_score), file=self._stream)
        self._show(self._all, f"{verdict.revision} {verdict.transport} {verdict.check}")

    def played(self, scenario: str) -> None:
        """Show that a scenario is finished, which is judged later.

        Args:
            scenario: The scenario.
        """
        self._played += 1
        self._show(self._played, scenario)

    def _show(self, number: int, what: str) -> None:
        if self._changing:
            line = f"{self._count()}   {what}"
            self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        elif number % _OFTEN == 0:
            print(self._count(), file=self._stream)
        self._stream.flush()

    def close(self) -> None:
        """Remove the line."""
        self._clear()
        self._stream.flush()

    def _count(self) -> str:
        played = f"{self._played} scenarios played, " if self._played else ""
        return f"{played}{self._all} checks done, {self._failing} failed"

    def _clear(self) -> None:
        if self._changing:
            self._stream.write("\r\x1b[K")


def progress_line(verdict: Verdict, verdict_score: Score) -> str:
    """Return a verdict as one line."""
    return f"{verdict_score.value:14} {verdict.revision} {verdict.transport:8} {verdict.check}"


def summary_lines(scored: ScoredRun) -> Iterator[str]:
    """Yield the summary of a run: each cause with its first failure in full, other remarks, then the counts."""
    for cause in causes(scored):
        yield from _cause(cause)
        yield ""
    yield from _untested(scored)
    yield from _known(scored)
    for entry in scored.comparison.stale:
        yield f"stale          the baseline has {entry}, which does not fail: remove the entry"
    for entry in scored.comparison.expired:
        yield f"expired        the baseline had {entry} until {entry.expires}: {entry.reason}"
    yield from _later(scored)
    yield from _table(scored)
    # Without a verdict, the command is usually wrong, and its output says so.
    for log in dict.fromkeys(leg.log for leg in scored.run.legs if leg.log and not scored.run.of(leg)):
        yield from _ended(log)
    yield ""
    if scored.sdk_summary:
        yield scored.sdk_summary
    yield f"{scored.run.role.value} {scored.run.target}: {scored.summary}"


def _cause(cause: Cause) -> Iterator[str]:
    if len(cause.checks) > 1:
        yield f"{cause.label.upper()}  {cause.level.value}  {cause.title}"
        for finding in cause.findings:
            yield f"    {finding.check.level(finding.first.revision).value:6}  {finding.first.check}  ({finding.places})"
        yield f"  The first of them, {cause.checks[0]}:"
        yield from list(finding_lines(cause.findings[0], cause.label))[1:]
    else:
        for number, finding in enumerate(cause.findings):
            if number:
                yield ""
            yield from finding_lines(finding, cause.label)
    if cause.followers:
        yield f"  not testable because of it: {', '.join(cause.followers)}"


def finding_lines(finding: Finding, label: str = "failed") -> Iterator[str]:
    """Yield the lines of a failure, in full.

    Args:
        finding: The failure.
        label: The kind of failure.
    """
    verdict = finding.first
    yield f"{label.upper()}  {verdict.check}  ({finding.places})"
    yield f"  {finding.check.title}"
    for row in finding.requirements:
        yield f"  {row.level.value} {row.id}: {row.text}"
        yield f"       {row.place}"
    if verdict.outcome is Outcome.FAILED:
        yield f"  expected  {verdict.expected}"
        yield f"  observed  {verdict.observed}"
    else:
        yield from (f"  {line}" for line in verdict.reason.splitlines())
    if finding.sdk:
        yield f"  SDK       {finding.sdk}"
    if len(finding.verdicts) > 1 and verdict.transcript:
        yield f"  in {verdict.revision} over {verdict.transport}:"
    yield from (f"    {line}" for line in verdict.transcript)
    if verdict.log:
        yield from _ended(verdict.log)
    yield f"  rerun: {finding.again}"


def _ended(log: str) -> Iterator[str]:
    yield "  end of standard error:"
    yield from (f"    {line}" for line in log.splitlines())


def _untested(scored: ScoredRun) -> Iterator[str]:
    """Yield the reasons of checks that are not testable; only their number when the rules allow it."""
    reasons: dict[str, dict[str, None]] = {}
    for verdict in unexplained(scored):
        reasons.setdefault(verdict.reason, {})[verdict.check] = None
    if reasons and scored.rules.allow_untested:
        number = len({check for checks in reasons.values() for check in checks})
        yield f"not testable   {number} checks, for {len(reasons)} reasons: --html lists all"
        yield ""
        return
    for reason, checks in reasons.items():
        named = list(checks)
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        yield f"not testable   {reason}: {', '.join(named[:_NAMED])}{more}"
    if reasons:
        yield ""


def _known(scored: ScoredRun) -> Iterator[str]:
    known: dict[str, list[Verdict]] = {}
    for verdict in scored.with_scores((Score.KNOWN,)):
        known.setdefault(verdict.check, []).append(verdict)
    for check, verdicts in known.items():
        entry = scored.known(verdicts[0])
        yield f"known          {check} ({places(verdicts)}): {'' if entry is None else entry.reason}"
    if known:
        yield ""


def _later(scored: ScoredRun) -> Iterator[str]:
    failed = [each for each in scored.with_scores((Score.UNSCORED,)) if each.outcome is Outcome.FAILED]
    for finding in findings(scored, failed):
        yield f"not scored     {finding.first.check} failed ({finding.places}): {finding.first.observed}"
    if failed:
        yield ""


def _table(scored: ScoredRun) -> Iterator[str]:
    """Yield the counts, with a column for each score that occurs."""
    counts = scored.counts()
    shown = [each for each in Score if counts[each] or each in (Score.PASSED, *FAILING[:2])]
    yield f"{'revision':12}{'transport':10}" + "".join(f"{each.value:>{len(each.value) + 3}}" for each in shown)
    for leg in scored.run.legs:
        own = scored.counts(leg)
        cells = "".join(f"{own[each]:>{len(each.value) + 3}}" for each in shown)
        known = cells if leg.refusal is None else f"   not supported: {leg.refusal}"
        yield f"{leg.revision:12}{leg.transport:10}{known}"
