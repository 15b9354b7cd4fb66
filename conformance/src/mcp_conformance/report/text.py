"""A run, told in a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mcp_conformance.roles import find
from mcp_conformance.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.verdicts import Run, Verdict

__all__ = ["progress_line", "summary_lines"]

_TOLD = (Outcome.FAILED, Outcome.BROKEN)


def progress_line(verdict: Verdict) -> str:
    """One verdict in one line."""
    return f"{verdict.outcome.value:14} {verdict.revision} {verdict.transport:8} {verdict.check}"


def summary_lines(run: Run) -> Iterator[str]:
    """The whole run: each failure with all that its reader needs, then the counts."""
    for verdict in run.verdicts:
        if verdict.outcome in _TOLD:
            yield from _failure(verdict)
    missing = sorted({verdict.reason for verdict in run.verdicts if verdict.outcome is Outcome.NOT_TESTABLE})
    for reason in missing:
        yield f"not testable: {reason}"
    for lane in run.lanes:
        counts = Counter(
            verdict.outcome
            for verdict in run.verdicts
            if (verdict.revision, verdict.transport) == (lane.revision, lane.transport)
        )
        told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
        yield f"{lane.revision} {lane.transport:8} {told if lane.refusal is None else f'not spoken: {lane.refusal}'}"


def _failure(verdict: Verdict) -> Iterator[str]:
    check = find(verdict.check)
    yield f"{verdict.outcome.value.upper()}  {verdict.check}  ({verdict.revision} over {verdict.transport})"
    yield f"  {check.title}"
    for row in check.requirements(verdict.revision):
        yield f"  {row.level.value} {row.id}: {row.text}"
        yield f"       {row.place}"
    if verdict.outcome is Outcome.FAILED:
        yield f"  expected  {verdict.expected}"
        yield f"  observed  {verdict.observed}"
    else:
        yield from (f"  {line}" for line in verdict.reason.splitlines())
    yield from (f"    {line}" for line in verdict.transcript)
    if verdict.log:
        yield "  standard error, its end:"
        yield from (f"    {line}" for line in verdict.log.splitlines()[-10:])
    yield f"  again: mcp-conformance {check.role.value} ... --revision {verdict.revision} --check {verdict.check}"
    yield ""
