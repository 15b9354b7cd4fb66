"""A run as Markdown, for the summary of a CI job."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mcp_conformance.roles import find
from mcp_conformance.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.verdicts import Run

__all__ = ["markdown"]


def markdown(run: Run) -> str:
    """A run as Markdown."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: Run) -> Iterator[str]:
    counts = Counter(verdict.outcome for verdict in run.verdicts)
    good = not counts[Outcome.FAILED] and not counts[Outcome.BROKEN] and not counts[Outcome.NOT_TESTABLE]
    yield f"## MCP conformance of the {run.role.value}: {'passed' if good and run.verdicts else 'not passed'}"
    yield ""
    yield f"| revision | transport | {' | '.join(outcome.value for outcome in Outcome)} |"
    yield f"| --- | --- |{' --- |' * len(Outcome)}"
    for lane in run.lanes:
        own = Counter(
            verdict.outcome
            for verdict in run.verdicts
            if (verdict.revision, verdict.transport) == (lane.revision, lane.transport)
        )
        cells = (
            [str(own[outcome]) for outcome in Outcome]
            if lane.refusal is None
            else ["not spoken", *[""] * (len(Outcome) - 1)]
        )
        yield f"| {lane.revision} | {lane.transport} | {' | '.join(cells)} |"
    for verdict in run.verdicts:
        if verdict.outcome in (Outcome.FAILED, Outcome.BROKEN):
            check = find(verdict.check)
            yield ""
            yield f"### `{verdict.check}` ({verdict.revision} over {verdict.transport})"
            yield ""
            yield check.title
            yield ""
            for row in check.requirements(verdict.revision):
                yield f"- **{row.level.value}** `{row.id}`: {row.text} ({row.place})"
            yield ""
            yield from _fenced(
                [*_told(verdict.expected, verdict.observed), *verdict.reason.splitlines(), *verdict.transcript]
            )


def _told(expected: str, observed: str) -> list[str]:
    return [f"expected  {expected}", f"observed  {observed}"] if expected else []


def _fenced(lines: list[str]) -> Iterator[str]:
    """A block of code, whatever stands in it."""
    longest = max((len(run) for line in lines for run in line.split() if set(run) == {"`"}), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    yield from lines
    yield fence
