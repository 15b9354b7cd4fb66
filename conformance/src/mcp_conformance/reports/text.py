"""A run, told in a terminal: what happens while it happens, and a summary in the end."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.findings import findings, places
from mcp_conformance.scoring.score import RED, Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.reports.findings import Finding
    from mcp_conformance.scoring.score import Scored

__all__ = ["Progress", "finding_lines", "progress_line", "summary_lines"]

_OFTEN: Final = 100
"""After how many verdicts a line is written where lines cannot change."""
_LOG: Final = 10
"""Lines of standard error that are shown of a failure."""
_NAMED: Final = 4
"""Checks that are named behind the reason why they could not be tested."""


class Progress:
    """Tells what happens: in one line that changes, or, where lines cannot change, each failure and now and then a count.

    Args:
        stream: Where to write.
        standing: What a verdict is worth.
    """

    def __init__(self, stream: TextIO, standing: Callable[[Verdict], Standing]) -> None:
        self._stream: Final = stream
        self._standing: Final = standing
        self._changing: Final = stream.isatty()
        self._all = 0
        self._red = 0
        self._played = 0

    def __call__(self, verdict: Verdict) -> None:
        """Tells a verdict."""
        standing = self._standing(verdict)
        self._all += 1
        loud = standing in (Standing.FAILED, Standing.BROKEN)
        self._red += loud
        if loud:
            self._clear()
            print(progress_line(verdict), file=self._stream)
        self._tell(self._all, f"{verdict.revision} {verdict.transport} {verdict.check}")

    def played(self, scenario: str) -> None:
        """Tells that something was done that is judged later.

        Args:
            scenario: What.
        """
        self._played += 1
        self._tell(self._played, scenario)

    def _tell(self, number: int, what: str) -> None:
        if self._changing:
            line = f"{self._count()}   {what}"
            self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        elif number % _OFTEN == 0:
            print(self._count(), file=self._stream)
        self._stream.flush()

    def close(self) -> None:
        """Takes the line away."""
        self._clear()
        self._stream.flush()

    def _count(self) -> str:
        played = f"{self._played} scenarios played, " if self._played else ""
        return f"{played}{self._all} checks done, {self._red} failed"

    def _clear(self) -> None:
        if self._changing:
            self._stream.write("\r\x1b[K")


def progress_line(verdict: Verdict) -> str:
    """One verdict in one line."""
    return f"{verdict.outcome.value:14} {verdict.revision} {verdict.transport:8} {verdict.check}"


def summary_lines(scored: Scored) -> Iterator[str]:
    """The whole run: each failure with all that its reader needs, what else is not well, then the counts."""
    for finding in findings(scored, scored.those((Standing.FAILED, Standing.BROKEN))):
        yield from finding_lines(finding)
        yield ""
    yield from _untested(scored)
    yield from _known(scored)
    for entry in scored.judgement.stale:
        yield f"stale          the baseline has {entry}, which is not red any more: take it out"
    for entry in scored.judgement.expired:
        yield f"expired        the baseline had {entry} until {entry.expires}: {entry.reason}"
    yield from _later(scored)
    yield from _table(scored)
    if not scored.run.verdicts:
        # Most often the command is wrong, and it has said so itself.
        for log in dict.fromkeys(lane.log for lane in scored.run.lanes if lane.log):
            yield from _ended(log)
    yield ""
    yield f"{scored.run.role.value} {scored.run.target}: {scored.told}"


def finding_lines(finding: Finding) -> Iterator[str]:
    """A failure, in full."""
    verdict = finding.first
    yield f"{verdict.outcome.value.upper()}  {verdict.check}  ({finding.places})"
    yield f"  {finding.check.title}"
    for row in finding.requirements:
        yield f"  {row.level.value} {row.id}: {row.text}"
        yield f"       {row.place}"
    if verdict.outcome is Outcome.FAILED:
        yield f"  expected  {verdict.expected}"
        yield f"  observed  {verdict.observed}"
    else:
        yield from (f"  {line}" for line in verdict.reason.splitlines())
    if len(finding.verdicts) > 1 and verdict.transcript:
        yield f"  in {verdict.revision} over {verdict.transport}:"
    yield from (f"    {line}" for line in verdict.transcript)
    if verdict.log:
        yield from _ended(verdict.log)
    yield f"  again: {finding.again}"


def _ended(log: str) -> Iterator[str]:
    yield "  standard error, its end:"
    yield from (f"    {line}" for line in log.splitlines()[-_LOG:])


def _untested(scored: Scored) -> Iterator[str]:
    """What could not be put to the test, by the reason; where that is allowed, how much it is."""
    reasons: dict[str, dict[str, None]] = {}
    for verdict in scored.those((Standing.NOT_TESTABLE,)):
        reasons.setdefault(verdict.reason, {})[verdict.check] = None
    if reasons and scored.rules.allow_untested:
        number = len({check for checks in reasons.values() for check in checks})
        yield f"not testable   {number} checks, for want of {len(reasons)} things: --html has them all"
        yield ""
        return
    for reason, checks in reasons.items():
        named = list(checks)
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        yield f"not testable   {reason}: {', '.join(named[:_NAMED])}{more}"
    if reasons:
        yield ""


def _known(scored: Scored) -> Iterator[str]:
    told: dict[str, list[Verdict]] = {}
    for verdict in scored.judgement.known:
        told.setdefault(verdict.check, []).append(verdict)
    for check, verdicts in told.items():
        entry = scored.known(verdicts[0])
        yield f"known          {check} ({places(verdicts)}): {'' if entry is None else entry.reason}"
    if told:
        yield ""


def _later(scored: Scored) -> Iterator[str]:
    failed = [each for each in scored.those((Standing.UNSCORED,)) if each.outcome is Outcome.FAILED]
    for finding in findings(scored, failed):
        yield f"not scored     {finding.first.check} failed ({finding.places}): {finding.first.observed}"
    if failed:
        yield ""


def _table(scored: Scored) -> Iterator[str]:
    """The counts, with a column for each kind that there is."""
    counts = scored.counts()
    shown = [each for each in Standing if counts[each] or each in (Standing.PASSED, *RED[:2])]
    yield f"{'revision':12}{'transport':10}" + "".join(f"{each.value:>{len(each.value) + 3}}" for each in shown)
    for lane in scored.run.lanes:
        own = scored.counts(lane)
        cells = "".join(f"{own[each]:>{len(each.value) + 3}}" for each in shown)
        told = cells if lane.refusal is None else f"   not spoken: {lane.refusal}"
        yield f"{lane.revision:12}{lane.transport:10}{told}"
