"""The report of a run as Markdown, for the summary of a CI job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_conformance.reports.causes import causes, unexplained
from mcp_conformance.reports.findings import findings
from mcp_conformance.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_conformance.reports.causes import Cause
    from mcp_conformance.reports.findings import Finding
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["markdown"]

_MOST: Final = 100
"""Maximum number of causes that are shown in full: services limit summaries to one megabyte."""
_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]<>#|!~&@])")
"""Characters with a meaning in Markdown."""


def markdown(scored: ScoredRun) -> str:
    """Return a run as Markdown."""
    return "\n".join(_lines(scored)) + "\n"


def _lines(scored: ScoredRun) -> Iterator[str]:
    run, profile = scored.run, scored.rules.profile
    yield f"## MCP conformance of the {run.role.value}: {'passed' if scored.status == 0 else 'not passed'}"
    yield ""
    name = f"{_plain(run.implementation)}, " if run.implementation else ""
    yield f"{name}{_code(run.target)}: {scored.summary}."
    if profile is not None:
        yield f"Scored by the profile {profile.name} ({profile.digest})."
    if scored.sdk_summary:
        yield ""
        yield f"{_plain(scored.sdk_summary)}."
    yield ""
    yield from _table(scored)
    found = causes(scored)
    for cause in found[:_MOST]:
        yield from _cause(cause)
    if len(found) > _MOST:
        yield ""
        yield f"And {len(found) - _MOST} more."
    yield from _listed("Not testable", findings(scored, unexplained(scored)))
    yield from _listed("Known", findings(scored, scored.with_scores((Score.KNOWN,))))
    if scored.comparison.stale:
        yield ""
        yield "### Stale in the baseline"
        yield ""
        yield from (f"- {_code(str(entry))} does not fail" for entry in scored.comparison.stale)


def _table(scored: ScoredRun) -> Iterator[str]:
    yield f"| revision | transport | {' | '.join(verdict_score.value for verdict_score in Score)} |"
    yield f"| --- | --- |{' ---: |' * len(Score)}"
    for leg in scored.run.legs:
        counts = scored.counts(leg)
        cells = [str(count or "") for count in counts.values()]
        if leg.refusal is not None:
            cells = ["not supported", *[""] * (len(Score) - 1)]
        yield f"| {leg.revision} | {leg.transport} | {' | '.join(cells)} |"


def _cause(cause: Cause) -> Iterator[str]:
    yield ""
    yield f"### {cause.label.capitalize()} ({cause.level.value}): {_plain(cause.title)}"
    yield ""
    if len(cause.checks) > 1:
        for finding in cause.findings:
            yield f"- **{finding.check.level(finding.first.revision).value}** `{finding.first.check}` ({finding.places})"
        yield ""
        yield f"The first of them, `{cause.checks[0]}`:"
        yield ""
        yield from _finding(cause.findings[0])
    else:
        for finding in cause.findings:
            yield f"In {finding.places}:"
            yield ""
            yield from _finding(finding)
    if cause.followers:
        yield ""
        yield f"Not testable because of it: {', '.join(f'`{id}`' for id in cause.followers)}."


def _finding(finding: Finding) -> Iterator[str]:
    verdict = finding.first
    yield _plain(finding.check.title)
    yield ""
    for row in finding.requirements:
        yield f"- **{row.level.value}** `{row.id}`: {_plain(row.text)} ({_plain(row.place)})"
    yield ""
    lines = [f"expected  {verdict.expected}", f"observed  {verdict.observed}"] if verdict.expected else []
    if finding.sdk:
        lines.append(f"SDK       {finding.sdk}")
    yield from _fenced([*lines, *verdict.reason.splitlines(), *verdict.transcript, f"rerun     {finding.again}"])


def _listed(title: str, found: list[Finding]) -> Iterator[str]:
    """Yield findings as one line each, in a folded section."""
    if not found:
        return
    yield ""
    yield f"<details><summary>{title} ({sum(len(each.verdicts) for each in found)})</summary>"
    yield ""
    for each in found:
        yield f"- `{each.first.check}` ({each.places}): {_plain(each.first.reason or each.first.observed)}"
    yield ""
    yield "</details>"


def _plain(text: str) -> str:
    """Return text without Markdown markup, in one line."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Return a code span with any content."""
    fence = "`" * (_longest([text]) + 1)
    return f"{fence} {' '.join(text.split())} {fence}"


def _longest(lines: Iterable[str]) -> int:
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


def _fenced(lines: list[str]) -> Iterator[str]:
    """Yield a code block with any content."""
    fence = "`" * max(3, _longest(lines) + 1)
    yield fence
    yield from (" ".join(line.splitlines()) for line in lines)
    yield fence
