"""What is told of a run to people, put together: the same failure in ten revisions and transports is one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_conformance.model.check import Role, Subject
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_conformance.catalogue.requirements import Requirement
    from mcp_conformance.model.check import Facts
    from mcp_conformance.model.verdict import Run, Verdict
    from mcp_conformance.scoring.score import Scored

__all__ = ["Finding", "again", "findings", "places"]


@attrs.frozen(kw_only=True)
class Finding:
    """Verdicts of one check that say the same."""

    check: Facts
    """The check."""
    verdicts: tuple[Verdict, ...]
    """The verdicts, at least one, in order."""
    requirements: tuple[Requirement, ...]
    """What the check proves where they were given."""
    again: str
    """The command line that shows the first of them again."""

    @property
    def first(self) -> Verdict:
        """The verdict that is shown in full."""
        return self.verdicts[0]

    @property
    def places(self) -> str:
        """Where: the revisions, by transport."""
        return places(self.verdicts)


def findings(scored: Scored, verdicts: Iterable[Verdict]) -> list[Finding]:
    """Puts verdicts of a run together, in the order in which they come first."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    rows: dict[tuple[object, ...], tuple[Requirement, ...]] = {}
    for verdict in verdicts:
        proven = find(verdict.check, scored.run.role).requirements(verdict.revision)
        said = (verdict.outcome, verdict.reason, verdict.expected, verdict.observed)
        key = (verdict.check, *said, *(row.id for row in proven))
        groups.setdefault(key, []).append(verdict)
        rows.setdefault(key, proven)
    return [
        Finding(
            check=find(group[0].check, scored.run.role),
            verdicts=tuple(group),
            requirements=rows[key],
            again=again(scored.run, group[0]),
        )
        for key, group in groups.items()
    ]


def places(verdicts: Iterable[Verdict]) -> str:
    """Where verdicts were given, as `2025-06-18, 2025-11-25 over stdio; 2025-11-25 over http`."""
    over: dict[str, list[str]] = {}
    for verdict in verdicts:
        over.setdefault(verdict.transport, []).append(verdict.revision)
    return "; ".join(f"{', '.join(revisions)} over {transport}" for transport, revisions in over.items())


def again(run: Run, verdict: Verdict) -> str:
    """The command line that shows a verdict again."""
    base = run.invocation or f"mcp-conformance {run.role.value} ..."
    check = find(verdict.check, run.role)
    if run.role is Role.SERVER and check.subject is Subject.EVIDENCE:
        # It looks at what the others exchange: alone, it would see next to nothing.
        return f"{base} --revision {verdict.revision}"
    return f"{base} --revision {verdict.revision} --check {verdict.check}"
