"""Findings: equal verdicts of a check in several revisions and transports, combined for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_conformance.model.check import CheckScope, Role
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_conformance.catalogue.requirements import Requirement
    from mcp_conformance.model.check import CheckInfo
    from mcp_conformance.model.verdict import Run, Verdict
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["Finding", "again", "findings", "places"]


@attrs.frozen(kw_only=True)
class Finding:
    """The verdicts of one check with the same content."""

    check: CheckInfo
    """The check."""
    verdicts: tuple[Verdict, ...]
    """The verdicts, at least one, in order."""
    requirements: tuple[Requirement, ...]
    """What the check proves in these revisions."""
    again: str
    """The command line that repeats the first verdict."""
    sdk: str = ""
    """The known failure of the SDK that the verdicts show, in a sentence with its name; empty without one."""

    @property
    def first(self) -> Verdict:
        """The verdict that is shown in full."""
        return self.verdicts[0]

    @property
    def places(self) -> str:
        """The revisions, by transport."""
        return places(self.verdicts)


def findings(scored: ScoredRun, verdicts: Iterable[Verdict]) -> list[Finding]:
    """Combine verdicts of a run, in the order of their first occurrence."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    rows: dict[tuple[object, ...], tuple[Requirement, ...]] = {}
    for verdict in verdicts:
        proven = find(verdict.check, scored.run.role).requirements(verdict.revision)
        contents = (verdict.outcome, verdict.reason, verdict.expected, verdict.observed)
        key = (verdict.check, *contents, *(row.id for row in proven), _sdk(scored, verdict))
        groups.setdefault(key, []).append(verdict)
        rows.setdefault(key, proven)
    return [
        Finding(
            check=find(group[0].check, scored.run.role),
            verdicts=tuple(group),
            requirements=rows[key],
            again=again(scored.run, group[0]),
            sdk=_sdk(scored, group[0]),
        )
        for key, group in groups.items()
    ]


def _sdk(scored: ScoredRun, verdict: Verdict) -> str:
    entry = scored.from_sdk(verdict)
    return "" if scored.sdk is None or entry is None else f"{scored.sdk.name}: {entry.reason}"


def places(verdicts: Iterable[Verdict]) -> str:
    """Return the legs of verdicts, for instance `2025-06-18, 2025-11-25 over stdio; 2025-11-25 over http`."""
    over: dict[str, list[str]] = {}
    for verdict in verdicts:
        over.setdefault(verdict.transport, []).append(verdict.revision)
    return "; ".join(f"{', '.join(revisions)} over {transport}" for transport, revisions in over.items())


def again(run: Run, verdict: Verdict) -> str:
    """Return the command line that repeats a verdict."""
    base = run.invocation or f"mcp-conformance {run.role.value} ..."
    check = find(verdict.check, run.role)
    if run.role is Role.SERVER and check.scope is CheckScope.EVIDENCE:
        # The check judges the messages of the others: alone, it would see almost nothing.
        return f"{base} --revision {verdict.revision}"
    return f"{base} --revision {verdict.revision} --check {verdict.check}"
